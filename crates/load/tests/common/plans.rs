//! The plan of one worker, for tests and benchmarks.

use load::Plan;
use measure::{Nanos, Pacing};

/// Makes a plan with a timeout of 100 ms for one worker.
pub(crate) fn plan(pacing: Pacing, duration: Nanos, sockets: u16) -> Plan {
    Plan {
        pacing,
        duration,
        timeout: Nanos::from_millis(100),
        max_burst: Nanos::from_micros(50),
        segmented: false,
        adaptive_window: false,
        keep_places: false,
        stop_at: None,
        most_outstanding: None,
        step: None,
        sockets,
        seed: 1,
        worker: 0,
        workers: 1,
    }
}
