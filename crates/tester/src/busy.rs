//! CPU use of cores during a lock-step load.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::background::Background;
use crate::host;

/// Shortest span for which ticks of 10 ms give a useful share.
const SHORTEST: Duration = Duration::from_millis(200);

/// Starts to sample the use of `cpus`, or of all cores, in percent: one sample each second, as dstat does, 100 - idle.
pub(crate) fn sample_use(cpus: Option<Vec<usize>>) -> Background<Vec<f64>> {
    Background::start(move |done| {
        let mut samples = Vec::new();
        let read = || host::sum(&host::cores(), cpus.as_deref());
        let (mut before, mut since) = (read(), Instant::now());
        loop {
            let ended = done.load(Ordering::Relaxed);
            let due = since.elapsed() >= Duration::from_secs(1)
                || (ended && samples.is_empty() && since.elapsed() >= SHORTEST);
            if due {
                let now = read();
                let used = now.since(&before);
                if used.total() > 0 {
                    samples.push(100.0 * used.busy() as f64 / used.total() as f64);
                }
                (before, since) = (now, Instant::now());
            }
            if ended {
                return samples;
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    })
}
