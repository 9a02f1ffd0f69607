//! A thread that reads counters at intervals until it is stopped or dropped.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use udp::sys;

use crate::testbed::cpus::CpuList;

/// Counters that a thread reads at intervals.
pub(super) trait Counters: Send + 'static {
    /// Returns the time until the next reading.
    fn pause(&self) -> Duration;

    /// Reads the counters now; called once in each pause.
    fn sample(&mut self);
}

/// A thread that reads counters.
#[derive(Debug)]
pub(super) struct Periodic<T> {
    stop: Sender<()>,
    thread: JoinHandle<T>,
}

impl<T: Counters> Periodic<T> {
    /// Starts the thread on the cores `on`, and waits until `begin` has made the counters there:
    /// later events are counted, even if the thread waits for its core.
    pub(super) fn start(on: &CpuList, begin: impl FnOnce() -> T + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        let (begun, has_begun) = channel();
        let on = on.clone();
        let thread = std::thread::spawn(move || {
            // If binding is refused, the thread stays unbound.
            let _ = sys::pin_to_cpus(on.cpus());
            let mut counters = begin();
            // The caller waits for this.
            let _ = begun.send(());
            // Until the sender is dropped.
            while stopped.recv_timeout(counters.pause()) == Err(RecvTimeoutError::Timeout) {
                counters.sample();
            }
            counters.sample();
            counters
        });
        // An error means that the thread has ended; `stop` then returns `None`.
        let _ = has_begun.recv();
        Periodic { stop, thread }
    }

    /// Reads the counters for the last time and returns them; `None` after a panic of the thread.
    pub(super) fn stop(self) -> Option<T> {
        drop(self.stop);
        self.thread.join().ok()
    }
}
