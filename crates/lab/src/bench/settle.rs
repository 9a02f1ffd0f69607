//! The end of an overload: the next trial waits until the server is idle.

use std::time::{Duration, Instant};

use experiment::BenchError;

use super::{LabBench, SETTLE};
use crate::probe::procfs;
use crate::server::Server;

/// Interval between checks. The server is idle if it ran for less than a twentieth of it.
const SETTLE_STEP: Duration = Duration::from_millis(100);

impl LabBench<'_> {
    /// Waits until the server has finished the work that an overload left: queries in its receive queue, and its own
    /// queries upstream. RFC 2544 section 23 waits 2 s and 5 s for that; this waits until the server is idle, at most
    /// [`SETTLE`]. Returns whether it is idle.
    pub(super) fn settle(&mut self) -> Result<bool, BenchError> {
        let Some(pid) =
            self.server.iter().find_map(|running| running.server.as_ref()).map(Server::pid)
        else {
            return Ok(true);
        };
        let deadline = Instant::now() + SETTLE;
        while std::mem::take(&mut self.overloaded) {
            let before = procfs::run_time(pid);
            std::thread::sleep(SETTLE_STEP);
            let ran = procfs::run_time(pid).saturating_sub(before);
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
}
