//! Common parts of all workers: the start, the CPU time, the report.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Barrier, OnceLock};

use engine::{EngineCounters, clock};
use load::Tally;
use load::lockstep::Span;
use measure::Nanos;
use udp::sys;

use crate::agreed::AgreedTime;
use crate::connections::ConnectionReport;
use crate::error::TesterError;

/// Time between the first worker's readiness and the start of all workers.
const START_DELAY: Nanos = Nanos::from_millis(1);

/// Time before an agreed start at which the workers wake up.
const WAKE_UP_LEAD: Nanos = Nanos::from_millis(50);

/// Start of a trial, shared by its workers.
pub(crate) struct Start {
    barrier: Barrier,
    agreed: Option<AgreedTime>,
    /// Start of the schedule; `None` if the agreed one is long past.
    time: OnceLock<Option<Nanos>>,
}

impl Start {
    pub(crate) fn of(workers: usize, agreed: Option<AgreedTime>) -> Self {
        Start { barrier: Barrier::new(workers), agreed, time: OnceLock::new() }
    }

    /// Waits until all workers are ready for the trial.
    pub(crate) fn wait(&self) {
        self.barrier.wait();
    }

    /// Returns the common start of all workers, set by the first one, so that their schedules interleave; waits until it is
    /// near, or until `stop`.
    ///
    /// # Errors
    /// If the agreed start is long past.
    pub(crate) fn time(&self, stop: &AtomicBool) -> Result<Nanos, TesterError> {
        if let Some(agreed) = &self.agreed {
            agreed.wait(WAKE_UP_LEAD, stop);
        }
        let time = || match &self.agreed {
            None => Some(clock::monotonic() + START_DELAY),
            Some(agreed) => agreed.monotonic(),
        };
        self.time.get_or_init(time).ok_or(TesterError::StartMissed)
    }
}

/// Report of one worker, which is merged with the others' reports.
pub(crate) struct Report {
    pub(crate) tally: Tally,
    /// Begin and end of each experiment of a lock-step load.
    pub(crate) spans: Vec<Span>,
    pub(crate) counters: EngineCounters,
    /// Datagrams that each UDP socket of connections has dropped, by the socket's number; workers may see each other's sockets.
    pub(crate) drops: BTreeMap<u64, u64>,
    pub(crate) spent: WorkerTimes,
    /// Report of the connections; absent for UDP.
    pub(crate) connections: Option<ConnectionReport>,
}

/// CPU time that a worker used since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkerTimes {
    pub(crate) elapsed: Nanos,
    /// Without the time that it spun.
    pub(crate) cpu: Nanos,
    /// Time in which the thread was ready to run but did not; absent if not visible.
    pub(crate) run_delay: Option<Nanos>,
}

impl WorkerTimes {
    /// Reads the clocks of this thread.
    pub(crate) fn now() -> Self {
        WorkerTimes {
            elapsed: clock::monotonic(),
            cpu: clock::thread_cpu_time(),
            run_delay: sys::thread_run_delay(),
        }
    }

    /// Returns the CPU time of this thread since `before`, without the time in which it `spun`.
    pub(crate) fn since(before: Self, spun: Nanos) -> Self {
        let now = Self::now();
        let delay = now.run_delay.zip(before.run_delay);
        WorkerTimes {
            elapsed: now.elapsed.since(before.elapsed),
            cpu: now.cpu.since(before.cpu).since(spun),
            run_delay: delay.map(|(after, before)| after.since(before)),
        }
    }

    /// Returns the use by a thread that never sleeps, and had no work in this share (0 to 1) of the
    /// time.
    pub(crate) fn idle_for(self, share: f64) -> Self {
        let not_idle = Nanos::from_secs_f64(self.elapsed.as_secs_f64() * (1.0 - share).max(0.0));
        WorkerTimes { cpu: not_idle.since(self.run_delay.unwrap_or(Nanos::ZERO)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_never_sleeps_worked_when_it_ran_and_something_was_due() {
        let ms = Nanos::from_millis;
        let spent = WorkerTimes { elapsed: ms(100), cpu: ms(90), run_delay: Some(ms(10)) };
        assert_eq!(spent.idle_for(0.7).cpu, ms(20));
        // The clocks are not read at the same time.
        assert_eq!(spent.idle_for(1.01).cpu, Nanos::ZERO);
        assert_eq!(WorkerTimes { run_delay: None, ..spent }.idle_for(0.7).cpu, ms(30));
    }
}
