//! The ranks of an Open MPI job as links, and the end of their processes.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cluster::Link;
use lab::message::MAX_MESSAGE;
use mpi::environment::{Threading, Universe};
use mpi::point_to_point::Status;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use crate::under_way::UnderWay;

/// Time within which all ranks must have started.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Time within which all ranks must have left.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);
/// Interval at which a time limit is looked at.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between checks whether the last messages were sent.
const SEND_CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Longest piece of a message, in octets: below it Open MPI sends without asking the receiver, over shared memory (4 KiB) and TCP
/// (64 KiB), so that receiving one never waits for a sender that has stopped.
const PIECE_OCTETS: usize = 2_048;
/// Tags of the last piece of a message, and of the pieces before it.
const END_TAG: i32 = 0;
const MORE_FOLLOWS: i32 = 1;

/// Link of this rank to the others of its job.
pub(crate) struct MpiLink {
    universe: Universe,
    world: SimpleCommunicator,
    /// Incomplete messages, by the rank of their sender.
    begun: Vec<Vec<u8>>,
    /// Pieces that are being sent.
    under_way: UnderWay,
}

impl MpiLink {
    /// Waits until all ranks have started; ends the process if they do not. `None` if MPI was initialised before.
    pub(crate) fn open() -> Option<Self> {
        let limit = TimeLimit::start(START_LIMIT, "not all ranks have started", 1);
        let (universe, _) = mpi::initialize_with_threading(Threading::Funneled)?;
        drop(limit);
        let world = universe.world();
        let begun = vec![Vec::new(); world.size() as usize];
        Some(MpiLink { universe, world, begun, under_way: UnderWay::default() })
    }

    /// Leaves the job and returns the exit code; ends all ranks at once if the job is not
    /// `complete` any more, so that no rank waits for one that cannot leave.
    pub(crate) fn close(mut self, code: ExitCode, complete: bool) -> ExitCode {
        let number = [0, 2].into_iter().find(|number| code == ExitCode::from(*number)).unwrap_or(1);
        if !complete {
            self.world.abort(i32::from(number));
        }
        let limit = TimeLimit::start(LEAVE_LIMIT, "not all ranks have left", i32::from(number));
        while !self.under_way.free_sent() {
            std::thread::sleep(SEND_CHECK_INTERVAL);
        }
        drop(self.universe);
        drop(limit);
        code
    }
}

impl Link for MpiLink {
    fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.world.size() as usize
    }

    fn send(&mut self, to: usize, message: &[u8]) {
        let to = self.world.process_at_rank(to as i32);
        let pieces = message.len().div_ceil(PIECE_OCTETS).max(1);
        for number in 1..=pieces {
            let piece =
                &message[(number - 1) * PIECE_OCTETS..message.len().min(number * PIECE_OCTETS)];
            self.under_way.send(&to, piece, if number < pieces { MORE_FOLLOWS } else { END_TAG });
        }
    }

    fn poll(&mut self) -> Option<(usize, Vec<u8>)> {
        loop {
            let Some(message) = self.world.any_process().immediate_matched_probe() else {
                self.under_way.free_sent();
                return None;
            };
            let (octets, status): (Vec<u8>, Status) = message.matched_receive_vec();
            let from = status.source_rank() as usize;
            let begun = &mut self.begun[from];
            // A message that is too long is refused when it is read.
            if begun.len() <= MAX_MESSAGE {
                begun.extend(octets);
            }
            if status.tag() == END_TAG {
                return Some((from, std::mem::take(begun)));
            }
        }
    }
}

/// Ends the process when its time is over, unless it is dropped before.
struct TimeLimit(Arc<AtomicBool>);

impl TimeLimit {
    fn start(limit: Duration, why: &'static str, code: i32) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (flag, deadline) = (over.clone(), Instant::now() + limit);
        std::thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                if Instant::now() > deadline {
                    eprintln!("dnsdyno-cluster: {why} within {limit:?}");
                    std::process::exit(code);
                }
                std::thread::sleep(CHECK_INTERVAL);
            }
        });
        TimeLimit(over)
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ends this process by SIGTERM when its parent ends: `mpirun`, or its daemon on this host.
pub(crate) fn end_with_starter() {
    // If this fails, time limits end the process.
    let _ = set_pdeathsig(Signal::SIGTERM);
}

/// Returns a flag that the signals set which end a process.
pub(crate) fn signalled() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in lab::ending_signals() {
        // If this fails, the signal ends the process at once.
        let _ = signal_hook::flag::register(signal, flag.clone());
    }
    flag
}

/// Returns the name of this host.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
