//! Counters of a running task in a file, for the lab's live view.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use load::{LATENCY_BOUNDS, Live};
use record::{SCHEMA, Snapshot};
use wire::Invalid;

use crate::background::Background;

/// Time between two writes of the file: a quarter of a second.
const INTERVAL: Duration = Duration::from_millis(250);

/// Writes counters to `path` until the returned value is dropped; `snapshot` returns them for the
/// time since now.
pub fn write_live(
    path: PathBuf,
    snapshot: impl Fn(Instant) -> Snapshot + Send + 'static,
) -> Background<()> {
    Background::start(move |done| {
        let began = Instant::now();
        while !done.load(Ordering::Relaxed) {
            std::thread::park_timeout(INTERVAL);
            // A failed write affects only the live view.
            let _ = record::write(&path, &snapshot(began));
        }
    })
}

/// Returns the present counters of a trial that began at `began`.
pub fn snapshot(live: &Live, began: Instant) -> Snapshot {
    let [sent, answered, valid, bad, lost] =
        [&live.sent, &live.answered, &live.valid, &live.bad, &live.lost]
            .map(|counter| counter.load(Ordering::Relaxed));
    let counts = live.latency.iter().map(|counter| counter.load(Ordering::Relaxed));
    let bounds = LATENCY_BOUNDS.iter().map(|bound| bound.as_secs_f64() * 1e6);
    let latency_us = bounds.zip(counts).filter(|(_, count)| *count > 0).collect();
    let invalid = live.invalid.iter().enumerate().filter_map(|(index, count)| {
        let count = count.load(Ordering::Relaxed);
        Some((Invalid::from_index(index)?.reason().to_owned(), count)).filter(|_| count > 0)
    });
    let at_s = began.elapsed().as_secs_f64();
    Snapshot {
        schema: SCHEMA,
        at_s,
        sent,
        answered,
        valid,
        bad,
        lost,
        latency_us,
        invalid: invalid.collect(),
        testers: Vec::new(),
    }
}
