//! A timer on the monotonic clock with nanosecond precision; tokio's own timers have a precision of
//! milliseconds.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use measure::Nanos;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;

/// A kernel timer that tokio waits for.
pub(crate) struct Alarm {
    timer: AsyncFd<Timer>,
}

struct Timer(TimerFd);

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Alarm {
    /// Makes a timer that is not set. Must be called on a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        // SAFETY: `Timer` owns its descriptor, which therefore stays open as long as it is registered.
        let timer = unsafe { AsyncFd::register(Timer(timer)) }?;
        Ok(Alarm { timer })
    }

    /// Sets the timer to expire after the time `after`; replaces an earlier setting.
    pub(crate) fn set(&self, after: Nanos) -> io::Result<()> {
        // Zero would disarm the timer.
        let after = Duration::from_nanos(after.0.max(1));
        self.timer
            .get_ref()
            .0
            .set(Expiration::OneShot(after.into()), TimerSetTimeFlags::empty())?;
        Ok(())
    }

    /// Returns `Ready` if the timer has expired.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.timer.poll_read_ready(cx))?;
            let read = guard.try_io(|timer| {
                let mut count = [0; 8];
                nix::unistd::read(timer.get_ref().as_fd(), &mut count).map_err(io::Error::from)
            });
            if let Ok(read) = read {
                return Poll::Ready(read.map(drop));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_expires_when_it_is_due_and_can_be_set_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let alarm = Alarm::new().unwrap();
            for after in [0, 100_000, 2_000_000] {
                let before = engine::clock::monotonic();
                alarm.set(Nanos(after)).unwrap();
                std::future::poll_fn(|cx| alarm.poll(cx)).await.unwrap();
                assert!(engine::clock::monotonic().since(before) >= Nanos(after));
            }
        });
    }
}
