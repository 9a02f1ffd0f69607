//! What a trial waits for: that the server has done the work of the last one, and that its core is fast.

use std::thread::sleep;
use std::time::{Duration, Instant};

use experiment::BenchError;
use measure::limiter::MAX_SLOWNESS;
use measure::{Nanos, Void};
use record::Trial;

use super::agents::of_agent;
use super::{LabBench, SETTLE, SETTLE_STEP};
use crate::core_speed;
use crate::probe::procfs;
use crate::server::Server;
use crate::testbed::Host;

/// Longest wait for a core that was too slow in the last trial.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Time between two looks at it.
const PAUSE: Duration = Duration::from_millis(150);

impl LabBench<'_> {
    /// Waits until the server has finished the work that an overload left: queries in its receive queue, and its own
    /// queries upstream. RFC 2544 section 23 waits 2 s and 5 s for that; this waits until the server is idle, at most
    /// [`SETTLE`]. Returns whether it is idle.
    pub(super) fn settle(&mut self) -> Result<bool, BenchError> {
        let deadline = Instant::now() + SETTLE;
        while std::mem::take(&mut self.overloaded) {
            let Some(before) = self.run_time()? else { return Ok(true) };
            sleep(SETTLE_STEP);
            let ran = self.run_time()?.unwrap_or(before).saturating_sub(before);
            self.overloaded = ran > SETTLE_STEP.as_nanos() as u64 / 20;
            if self.is_interrupted() {
                return Err(BenchError::Interrupted);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns how long the server's own process ran, in nanoseconds; `None` if it was not started by this bench.
    fn run_time(&self) -> Result<Option<u64>, BenchError> {
        if let Some(pid) = self.server().map(Server::pid) {
            return Ok(Some(procfs::run_time(pid)));
        }
        let started = self.away.dut.as_ref().filter(|_| self.away.part.is_some());
        started.map(|agent| agent.lock().run_time().map_err(of_agent)).transpose()
    }

    /// Waits until the server's cores are fast, if they were too slow in the last trial: at most [`MAX_WAIT`] and the time of a trial.
    pub(super) fn wait_for_speed(&mut self, trial: Nanos) -> Result<(), BenchError> {
        if !std::mem::take(&mut self.slow) {
            return Ok(());
        }
        let cpus = self.testbed.cpus(Host::Dut).cpus();
        let deadline = Instant::now() + MAX_WAIT.min(trial.into());
        while Instant::now() < deadline {
            let lacked = |times| core_speed::lacked(times, self.fastest_work_ns);
            if core_speed::now(cpus).is_none_or(|times| lacked(times) <= MAX_SLOWNESS) {
                break;
            }
            sleep(PAUSE);
            if self.is_interrupted() {
                return Err(BenchError::Interrupted);
            }
        }
        Ok(())
    }

    /// Notes how fast the server's cores were in a trial.
    pub(super) fn note_speed(&mut self, trial: &Trial) {
        self.slow = matches!(trial.void.0, Some(Void::SlowCore { .. }));
        let best = trial.cpu.get("dut").and_then(|cpu| cpu.best_work_ns);
        self.fastest_work_ns = self.fastest_work_ns.into_iter().chain(best).min();
    }
}
