//! CPU use of cores during a lock-step load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::host;

/// Sampler of the use of cores, one sample each second, as dstat does: 100 - idle.
pub(crate) struct BusySampler {
    done: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<f64>>,
}

/// Shortest span for which ticks of 10 ms give a useful share.
const SHORTEST: Duration = Duration::from_millis(200);

impl BusySampler {
    /// Starts to sample the use of `cpus`, or of all cores.
    pub(crate) fn start(cpus: Option<Vec<usize>>) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let flag = done.clone();
        let thread = std::thread::spawn(move || {
            let mut samples = Vec::new();
            let read = || host::sum(&host::cores(), cpus.as_deref());
            let (mut before, mut since) = (read(), std::time::Instant::now());
            loop {
                let ended = flag.load(Ordering::Relaxed);
                let due = since.elapsed() >= Duration::from_secs(1)
                    || (ended && samples.is_empty() && since.elapsed() >= SHORTEST);
                if due {
                    let now = read();
                    let used = now.since(&before);
                    if used.total() > 0 {
                        samples.push(100.0 * used.busy() as f64 / used.total() as f64);
                    }
                    (before, since) = (now, std::time::Instant::now());
                }
                if ended {
                    return samples;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        BusySampler { done, thread }
    }

    /// Returns the samples, in percent.
    pub(crate) fn end(self) -> Vec<f64> {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
