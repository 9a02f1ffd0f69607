//! A doorbell, with which another thread ends the worker's wait (`eventfd(2)`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Doorbell of a worker; all clones ring at the same worker.
#[derive(Clone, Debug)]
pub struct Doorbell(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    event: EventFd,
    /// Whether the bell was rung and the worker has not noticed it yet; further rings then need no
    /// system call.
    rung: AtomicBool,
}

impl Doorbell {
    /// Makes a doorbell that no worker waits for yet.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let event = EventFd::from_value_and_flags(0, flags)?;
        Ok(Doorbell(Arc::new(Bell { event, rung: AtomicBool::new(false) })))
    }

    /// Ends the current wait of the worker, or otherwise its next wait. Writes of this thread
    /// before the ring are visible to the worker.
    pub fn ring(&self) {
        if !self.0.rung.swap(true, Ordering::AcqRel) {
            // If the counter is full, the descriptor is readable already.
            let _ = self.0.event.write(1);
        }
    }

    /// Returns whether the bell was rung since the last call.
    pub(crate) fn was_rung(&self) -> bool {
        if !self.0.rung.load(Ordering::Relaxed) {
            return false;
        }
        // The counter is reset first, so that a ring from here on counts again.
        let _ = self.0.event.read();
        self.0.rung.swap(false, Ordering::AcqRel)
    }

    /// Returns the descriptor to wait for.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.event.as_fd().as_raw_fd()
    }
}
