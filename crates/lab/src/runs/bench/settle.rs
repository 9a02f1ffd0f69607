//! Waits before a trial until the server has finished the work of the last one.

use std::thread::sleep;
use std::time::Instant;

use experiment::BenchError;
use measure::{Link, Nanos};
use record::Seen;

use super::remote::of_agent;
use super::{LabBench, SETTLE_STEP, SETTLE_TIME};
use crate::server::Server;
use crate::testbed::Host;
use crate::testbed::procfs;

impl LabBench<'_> {
    /// Returns why the CPU time of the server does not show its limit.
    pub(super) fn hides_cpu(&self) -> Option<Seen> {
        let dut = self.testbed.cpus(Host::Dut);
        let mut others = [Host::Tester, Host::Auth].into_iter();
        // Programs work on the server's core over moderated links alone.
        let counts = || self.testbed.link() == Link::Moderated && kernel::run_cost().is_some();
        if self.programs && !counts() {
            return Some(Seen::InKernel);
        }
        let shared = others.any(|host| self.testbed.cpus(host).shares_with(dut));
        (self.server().is_some() && shared).then_some(Seen::SharedCore)
    }

    /// Returns the share of a core that the server uses without queries for `time`; `None` if it
    /// was not started by this bench.
    pub(super) fn watch_idle(&self, time: Nanos) -> Result<Option<f64>, BenchError> {
        let Some(before) = self.run_time()? else { return Ok(None) };
        sleep(time.into());
        if self.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
        let ran = self.run_time()?.unwrap_or(before).saturating_sub(before);
        Ok(Some(ran as f64 / time.0 as f64))
    }

    /// Waits until the server has finished the work that an overload left: queries in its receive queue, and its own
    /// queries upstream. RFC 2544 section 23 waits 2 s and 5 s for that; this waits until the server is idle, at most
    /// [`SETTLE_TIME`]. Returns whether it is idle.
    pub(super) fn settle(&mut self) -> Result<bool, BenchError> {
        let deadline = Instant::now() + SETTLE_TIME;
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

    /// Returns the run time of the server's own process, in nanoseconds; `None` if it was not
    /// started by this bench.
    fn run_time(&self) -> Result<Option<u64>, BenchError> {
        if let Some(pid) = self.server().map(Server::pid) {
            return Ok(Some(procfs::run_time(pid)));
        }
        let started = self.remote.started.as_ref();
        started.map(|agent| agent.0.lock().run_time().map_err(of_agent)).transpose()
    }
}
