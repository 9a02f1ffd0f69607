//! The Tester of a rank: does what the conductor orders, and reports.
//!
//! ```text
//! idle ──Prepare──> preparing ──> prepared ──Start──> running ──> idle
//!                       └─ Failed ──> idle               └─ Done or Failed
//! ```
//!
//! Requests are checked and trials run in a thread of their own, so that pings and counters are answered meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::clock;
use lab::Refusal;
use lab::message::{Greeting, Order, Reply, decode, encode};
use load::Live;
use measure::{Nanos, StartAt};
use record::{TrialRequest, TrialResult};
use tester::{Setup, TesterError, snapshot};

use crate::link::Link;

/// Time without a message from the conductor after which a Tester ends: the conductor ended or the
/// link broke.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Time from a signal to the end of the Tester.
const LEAVE_TIME: Duration = Duration::from_secs(2);
/// Interval between reports that the Tester is alive.
const BEAT_INTERVAL: Duration = Duration::from_millis(500);
/// Interval between checks for a message: idle, and during a trial, whose workers need the cores.
const CHECK_INTERVALS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(5)];
/// Time after a ping in which it waits for the next one without sleeping.
const AWAKE_AFTER_PING: Duration = Duration::from_millis(20);

/// The Tester of one rank.
#[derive(Debug)]
pub struct TesterRank<L> {
    link: L,
    work: Work,
    /// Set by a signal that ends the process.
    ended: Arc<AtomicBool>,
    /// Time of the last message from the conductor.
    heard: Instant,
    /// Time of the last report that it is alive.
    beat: Instant,
    /// Time until which it waits for messages without sleeping.
    awake: Instant,
    patience: Duration,
}

/// Present work of a Tester, for the trial with a number.
#[derive(Debug)]
enum Work {
    Idle,
    Preparing { trial: u64, thread: JoinHandle<Result<Setup, TesterError>> },
    Prepared { trial: u64, setup: Box<Setup> },
    Running(Running),
}

impl Work {
    /// Waits until the thread of the work has ended; its result is ignored.
    fn wait(self) {
        match self {
            Work::Preparing { thread, .. } => drop(thread.join()),
            Work::Running(running) => drop(running.thread.join()),
            Work::Idle | Work::Prepared { .. } => {}
        }
    }
}

#[derive(Debug)]
struct Running {
    trial: u64,
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<TrialResult, TesterError>>,
}

impl<L: Link> TesterRank<L> {
    /// Makes the Tester of a rank, which ends when `ended` is set, and announces it to the
    /// conductor.
    pub fn new(mut link: L, version: &str, host: &str, ended: Arc<AtomicBool>) -> Self {
        let (version, host) = (version.to_owned(), host.to_owned());
        let pid = std::process::id();
        let greeting = Greeting { version, host, pid, ..Greeting::default() };
        link.send(0, &encode(&Reply::Ready(Box::new(greeting))));
        let now = Instant::now();
        let (heard, beat, awake, patience) = (now, now, now, PATIENCE);
        TesterRank { link, work: Work::Idle, ended, heard, beat, awake, patience }
    }

    /// Returns the Tester with another limit of silence of the conductor.
    pub fn with_patience(self, patience: Duration) -> Self {
        TesterRank { patience, ..self }
    }

    /// Carries out the conductor's orders until the order to leave, a signal, or a long silence
    /// ([`PATIENCE`]). Returns the link.
    pub fn serve(mut self) -> L {
        let mut leaving: Option<Instant> = None;
        loop {
            if let Some((from, message)) = self.link.poll() {
                if from == 0 && self.carry_out(&message) {
                    break;
                }
                continue;
            }
            self.look_at_work();
            let signalled = self.ended.load(Ordering::Relaxed);
            if signalled || self.heard.elapsed() > self.patience {
                self.stop();
            }
            if signalled && matches!(self.work, Work::Idle) && leaving.is_none() {
                self.report(Reply::Leaving);
            }
            leaving = leaving.or(signalled.then(Instant::now));
            if leaving.is_some_and(|since| since.elapsed() > LEAVE_TIME)
                || self.heard.elapsed() > self.patience + LEAVE_TIME
            {
                break;
            }
            self.say_alive();
            let busy = usize::from(matches!(self.work, Work::Running(_)));
            match Instant::now() < self.awake {
                true => std::thread::yield_now(),
                false => std::thread::sleep(CHECK_INTERVALS[busy]),
            }
        }
        self.stop();
        self.link
    }

    /// Carries out an order, or returns a ping; returns whether it was the order to leave.
    fn carry_out(&mut self, message: &[u8]) -> bool {
        let now = clock::realtime();
        self.heard = Instant::now();
        match decode(message) {
            Ok(Order::Clock { number }) => {
                self.report(Reply::Clock { number, now_ns: now.0 });
                self.awake = Instant::now() + AWAKE_AFTER_PING;
            }
            Ok(Order::Prepare { trial, request, command }) => {
                self.prepare(trial, *request, command);
            }
            Ok(Order::StartTrial { trial, at_ns }) => self.start(trial, at_ns),
            Ok(Order::EndTrial { trial }) => {
                if matches!(&self.work, Work::Running(running) if running.trial == trial) {
                    self.stop();
                }
            }
            Ok(Order::Leave) => return true,
            // The order only keeps the Tester alive, or comes from a conductor of another version,
            // which has already noticed the difference.
            _ => {}
        }
        false
    }

    /// Prepares a trial, after the current work has ended: two trials at once would share cores and
    /// ports.
    fn prepare(&mut self, trial: u64, request: TrialRequest, command: String) {
        self.stop();
        let before = std::mem::replace(&mut self.work, Work::Idle);
        let thread = std::thread::spawn(move || {
            before.wait();
            Setup::new(request, command).and_then(Setup::with_whole_input)
        });
        self.work = Work::Preparing { trial, thread };
    }

    fn start(&mut self, trial: u64, at_ns: u64) {
        match std::mem::replace(&mut self.work, Work::Idle) {
            Work::Prepared { trial: prepared, setup } if prepared == trial => {
                let setup = setup.starting_at(StartAt::of_unix(Nanos(at_ns)));
                let (live, stop) = (Arc::new(Live::default()), Arc::new(AtomicBool::new(false)));
                let (counters, flag) = (live.clone(), stop.clone());
                let thread = std::thread::spawn(move || setup.run(&counters, &flag));
                self.work = Work::Running(Running { trial, live, stop, thread });
            }
            other => {
                self.work = other;
                let why = "it received the order to start a trial that it has not prepared";
                self.report(Reply::Failed { trial, why: Refusal::Failed(why.to_owned()) });
            }
        }
    }

    /// Ends a running trial early.
    fn stop(&self) {
        if let Work::Running(running) = &self.work {
            running.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Reports work that is done.
    fn look_at_work(&mut self) {
        let over = match &self.work {
            Work::Preparing { thread, .. } => thread.is_finished(),
            Work::Running(running) => running.thread.is_finished(),
            Work::Idle | Work::Prepared { .. } => false,
        };
        if !over {
            return;
        }
        match std::mem::replace(&mut self.work, Work::Idle) {
            Work::Preparing { trial, thread } => match joined(thread) {
                Ok(setup) => {
                    self.work = Work::Prepared { trial, setup: Box::new(setup) };
                    self.report(Reply::Prepared { trial });
                }
                Err(error) => self.report(failed(trial, &error)),
            },
            Work::Running(Running { trial, thread, .. }) => match joined(thread) {
                Ok(result) => self.report(Reply::Done { trial, result: Box::new(result) }),
                Err(error) => self.report(failed(trial, &error)),
            },
            other => self.work = other,
        }
    }

    /// Reports that the Tester is alive, with its counters, when that is due.
    fn say_alive(&mut self) {
        if self.beat.elapsed() < BEAT_INTERVAL {
            return;
        }
        self.beat = Instant::now();
        let counters = match &self.work {
            Work::Running(running) => {
                let seen = snapshot(&running.live, self.beat);
                [seen.sent, seen.answered, seen.valid, seen.lost, seen.bad]
            }
            _ => [0; 5],
        };
        self.report(Reply::Counters { counters, testers: Vec::new() });
    }

    fn report(&mut self, report: Reply) {
        self.link.send(0, &encode(&report));
    }
}

/// Returns the result of a thread that has ended.
fn joined<T>(thread: JoinHandle<Result<T, TesterError>>) -> Result<T, TesterError> {
    thread.join().map_err(|_| TesterError::Panicked)?
}

fn failed(trial: u64, error: &TesterError) -> Reply {
    let refusal = if error.is_bad_input() { Refusal::Cannot } else { Refusal::Failed };
    Reply::Failed { trial, why: refusal(error.to_string()) }
}
