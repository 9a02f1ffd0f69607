//! Common parts of all workers: the start, the CPU time, the report.

use std::sync::{Barrier, OnceLock};

use engine::{EngineCounters, clock};
use load::Tally;
use load::lockstep::Span;
use measure::Nanos;
use udp::sys;

use crate::connections::ConnectionReport;

/// Time between the first worker's readiness and the start of all workers.
const START_DELAY: Nanos = Nanos::from_millis(1);

/// Start of a trial, which its workers have in common.
pub(crate) struct Start {
    barrier: Barrier,
    time: OnceLock<Nanos>,
}

impl Start {
    pub(crate) fn of(workers: usize) -> Self {
        Start { barrier: Barrier::new(workers), time: OnceLock::new() }
    }

    /// Waits for all workers.
    pub(crate) fn wait(&self) {
        self.barrier.wait();
    }

    /// Returns the common start of all workers, set by the first one, so that their schedules interleave.
    pub(crate) fn time(&self) -> Nanos {
        *self.time.get_or_init(|| clock::monotonic() + START_DELAY)
    }
}

/// Report of one worker.
pub(crate) struct Report {
    pub(crate) tally: Tally,
    /// Begin and end of each experiment of a lock-step load.
    pub(crate) spans: Vec<Span>,
    pub(crate) counters: EngineCounters,
    pub(crate) spent: Spent,
    /// Report of the connections; absent for UDP.
    pub(crate) connections: Option<ConnectionReport>,
}

/// CPU time that a worker used since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) elapsed: Nanos,
    pub(crate) cpu: Nanos,
    /// Time in which it was ready to run and did not; absent if not visible.
    pub(crate) run_delay: Option<Nanos>,
}

impl Spent {
    /// Reads the clocks of this thread.
    pub(crate) fn now() -> Self {
        Spent {
            elapsed: clock::monotonic(),
            cpu: clock::thread_cpu_time(),
            run_delay: sys::thread_run_delay(),
        }
    }

    /// Returns the CPU time of this thread since `before`.
    pub(crate) fn since(before: Self) -> Self {
        let now = Self::now();
        let delay = now.run_delay.zip(before.run_delay);
        Spent {
            elapsed: now.elapsed.since(before.elapsed),
            cpu: now.cpu.since(before.cpu),
            run_delay: delay.map(|(after, before)| after.since(before)),
        }
    }
}
