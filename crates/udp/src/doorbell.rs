//! A doorbell: another thread ends the worker's wait (`eventfd(2)`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Rings at a worker; clones ring at the same one.
#[derive(Clone, Debug)]
pub struct Doorbell(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    event: EventFd,
    /// Whether it was rung and not yet heard: most rings need no system call.
    rung: AtomicBool,
}

impl Doorbell {
    /// A doorbell that nobody listens to yet.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let event = EventFd::from_value_and_flags(0, flags)?;
        Ok(Doorbell(Arc::new(Bell { event, rung: AtomicBool::new(false) })))
    }

    /// Ends the worker's present wait, or else its next one. What was done before is seen by the worker.
    pub fn ring(&self) {
        if !self.0.rung.swap(true, Ordering::AcqRel) {
            // A full counter would mean that it is readable already.
            let _ = self.0.event.write(1);
        }
    }

    /// Whether it was rung since this was asked last.
    pub(crate) fn was_rung(&self) -> bool {
        if !self.0.rung.load(Ordering::Relaxed) {
            return false;
        }
        // The counter first: what is rung from here on rings again.
        let _ = self.0.event.read();
        self.0.rung.swap(false, Ordering::AcqRel)
    }

    /// The descriptor to wait for.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.event.as_fd().as_raw_fd()
    }
}
