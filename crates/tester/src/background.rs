//! A thread in the background of a trial, such as one that samples or shows its counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A thread that works until it is stopped or dropped.
pub struct Background<T> {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts a thread that does `work`, which ends soon after its flag is set; it may pause with
    /// `std::thread::park_timeout`.
    pub fn start(work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let flag = done.clone();
        Background { done, thread: Some(std::thread::spawn(move || work(&flag))) }
    }
}

impl<T> Background<T> {
    /// Stops the thread; returns its result, or `None` after a panic, whose message it has printed.
    pub fn stop(mut self) -> Option<T> {
        self.end()
    }

    fn end(&mut self) -> Option<T> {
        self.done.store(true, Ordering::Relaxed);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        thread.join().ok()
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.end();
    }
}
