//! Signs of life of the threads: each worker and the thread of the streams gives one at least every
//! second. Without one for [`LATEST`] the thread hangs, which `/health` reports, and systemd's
//! watchdog gets no more messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

/// Longest time between two signs of life; no step of a thread takes a tenth of it.
pub(crate) const LATEST: Duration = Duration::from_secs(5);
/// Longest time between two calls of the watchdog.
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// The signs of life of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Beat {
    pub(crate) name: String,
    started: Instant,
    /// Time of the last sign of life, in milliseconds after `started`.
    last_ms: Arc<AtomicU64>,
}

impl Beat {
    /// Makes the first sign of life of a thread.
    pub(crate) fn new(name: String) -> Self {
        Beat { name, started: Instant::now(), last_ms: Arc::default() }
    }

    /// Gives a sign of life.
    pub(crate) fn give(&self) {
        self.last_ms.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns whether the thread hangs.
    pub(crate) fn is_late(&self) -> bool {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(last) > LATEST
    }
}

/// Reports to systemd's watchdog, if the unit has one, until `end` as long as no thread hangs.
///
/// # Errors
/// Never; all threads have this type.
pub(crate) fn watch(beats: &[Beat], end: &CancellationToken) -> std::io::Result<()> {
    let Some(timeout) = watchdog_timeout() else { return Ok(()) };
    let pause = (timeout / 4).min(MAX_PAUSE);
    while !end.is_cancelled() {
        match beats.iter().find(|beat| beat.is_late()) {
            Some(late) => tracing::error!("{} hangs", late.name),
            None => {
                // Without systemd there is no watchdog.
                let _ = sd_notify::notify(false, &[NotifyState::Watchdog]);
            }
        }
        std::thread::sleep(pause);
    }
    Ok(())
}

/// Returns the time after which systemd ends a service that is silent; `None` without a watchdog for this process
/// (sd_watchdog_enabled(3)).
fn watchdog_timeout() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|usec| is_ours && *usec > 0).map(Duration::from_micros)
}
