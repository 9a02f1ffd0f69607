//! Sockets that have datagrams.
//!
//! Few sockets are read in turn, and `ppoll(2)` waits for them, so that the kernel keeps no state per
//! datagram. Many sockets are watched by `epoll(7)`, so that idle ones cost nothing. Both are fair: sockets
//! for which a batch had no room come first in the next batch, so that a busy socket never starves another.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use measure::Nanos;

use crate::options::BATCH;
use crate::socket::{UdpSocket, check};

/// Highest number of sockets that are read in turn; reading an empty socket costs about as much as a call of
/// epoll.
const SWEEP_SOCKETS: usize = 4;

/// The sockets of an engine, and those that may have datagrams now.
pub(crate) struct Ready {
    /// Argument of `ppoll`: all sockets, in the order of their ids.
    polled: Vec<libc::pollfd>,
    /// The epoll instance once there are many sockets.
    epoll: Option<OwnedFd>,
    events: Vec<libc::epoll_event>,
    /// Sockets to read, as a stack.
    pending: Vec<usize>,
    /// First socket of the next sweep; it changes so that no socket is always last.
    first: usize,
    /// Whether the kernel knows `epoll_pwait2` (Linux 5.11).
    pwait2: bool,
    /// Descriptor of the doorbell, which also ends a wait.
    doorbell: Option<RawFd>,
}

/// Marks a socket that is not watched; `ppoll` skips it.
const UNWATCHED: RawFd = -1;

/// Number of the doorbell among the events of epoll.
const DOORBELL: u64 = u64::MAX;

impl Ready {
    /// Makes an empty set of sockets.
    pub(crate) fn new() -> Self {
        Ready {
            polled: Vec::new(),
            epoll: None,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; BATCH],
            pending: Vec::new(),
            first: 0,
            pwait2: true,
            doorbell: None,
        }
    }

    /// Makes `fd`, which must outlive `self`, end waits when it becomes readable.
    pub(crate) fn set_doorbell(&mut self, fd: RawFd) -> io::Result<()> {
        self.doorbell = Some(fd);
        // With epoll one call waits for both.
        self.start_epoll()
    }

    /// Watches another socket in place of `index`.
    pub(crate) fn replace(&mut self, index: usize, socket: &UdpSocket) -> io::Result<()> {
        // Closing the old socket has removed it from epoll.
        self.polled[index].fd = socket.fd();
        match &self.epoll {
            Some(epoll) => watch(epoll, index as u64, socket.fd()),
            None => Ok(()),
        }
    }

    /// Ends the watch on a socket.
    pub(crate) fn remove(&mut self, index: usize) -> io::Result<()> {
        self.polled[index].fd = UNWATCHED;
        self.pending.retain(|&pending| pending != index);
        // A new instance of epoll lacks the socket; without one all sockets would be read in turn.
        self.start_epoll()
    }

    /// Starts epoll for all sockets.
    fn start_epoll(&mut self) -> io::Result<()> {
        let epoll = epoll_create()?;
        let watched = |polled: &(usize, &libc::pollfd)| polled.1.fd != UNWATCHED;
        for (index, polled) in self.polled.iter().enumerate().filter(watched) {
            watch(&epoll, index as u64, polled.fd)?;
        }
        if let Some(fd) = self.doorbell {
            watch(&epoll, DOORBELL, fd)?;
        }
        self.epoll = Some(epoll);
        Ok(())
    }

    /// Adds the next socket; its index is the number of earlier ones.
    pub(crate) fn add(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.polled.push(libc::pollfd { fd: socket.fd(), events: libc::POLLIN, revents: 0 });
        match &self.epoll {
            Some(epoll) => watch(epoll, self.polled.len() as u64 - 1, socket.fd())?,
            None if self.polled.len() > SWEEP_SOCKETS => self.start_epoll()?,
            None => {}
        }
        self.pending = Vec::with_capacity(self.polled.len().max(BATCH));
        Ok(())
    }

    /// Returns whether epoll watches the sockets.
    pub(crate) fn is_epoll(&self) -> bool {
        self.epoll.is_some()
    }

    /// Returns the next socket to read.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<usize> {
        self.pending.pop()
    }

    /// Finds sockets to read, without waiting; returns whether there are any.
    #[inline]
    pub(crate) fn look(&mut self) -> io::Result<bool> {
        if !self.pending.is_empty() {
            // Sockets for which the last batch had no room.
            return Ok(true);
        }
        if self.epoll.is_some() {
            return self.wait(Nanos::ZERO);
        }
        let n = self.polled.len();
        self.first = if self.first + 1 < n { self.first + 1 } else { 0 };
        self.pending.extend((self.first..n).rev());
        self.pending.extend((0..self.first).rev());
        Ok(true)
    }

    /// Waits until a socket has datagrams, at most for `timeout`; returns whether there are any to read.
    pub(crate) fn wait(&mut self, timeout: Nanos) -> io::Result<bool> {
        self.pending.clear();
        let spec = libc::timespec {
            tv_sec: (timeout.0 / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout.0 % 1_000_000_000) as libc::c_long,
        };
        let found = match &self.epoll {
            None => self.poll(&spec),
            Some(epoll) => {
                let fd = epoll.as_raw_fd();
                self.epoll_wait(fd, &spec)
            }
        };
        match found {
            Ok(()) => Ok(!self.pending.is_empty()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Waits with `ppoll` until a socket is ready or the time is over.
    fn poll(&mut self, timeout: &libc::timespec) -> io::Result<()> {
        // SAFETY: `polled` and `timeout` live through the call; no signal mask is passed.
        check(unsafe {
            libc::ppoll(
                self.polled.as_mut_ptr(),
                self.polled.len() as libc::nfds_t,
                timeout,
                std::ptr::null(),
            )
        })?;
        let ready = self.polled.iter().enumerate().filter(|(_, p)| p.revents != 0);
        self.pending.extend(ready.map(|(index, _)| index));
        Ok(())
    }

    /// Waits with `epoll_pwait2`, on an older kernel with `ppoll` on the epoll instance.
    fn epoll_wait(&mut self, epoll: i32, timeout: &libc::timespec) -> io::Result<()> {
        let (events, len) = (self.events.as_mut_ptr(), self.events.len() as libc::c_int);
        if self.pwait2 {
            // SAFETY: `events` has room for `len` events; `timeout` lives through the call; no signal mask is passed.
            let n = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    epoll,
                    events,
                    len,
                    std::ptr::from_ref(timeout),
                    std::ptr::null::<libc::sigset_t>(),
                    0usize,
                )
            };
            match check(n as i32) {
                Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => self.pwait2 = false,
                result => return result.map(|n| self.note(n)),
            }
        }
        let mut instance = libc::pollfd { fd: epoll, events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, and `timeout`, live through the call; no signal mask is passed.
        check(unsafe { libc::ppoll(&raw mut instance, 1, timeout, std::ptr::null()) })?;
        // SAFETY: `events` has room for `len` events.
        let n = check(unsafe { libc::epoll_wait(epoll, events, len, 0) })?;
        self.note(n);
        Ok(())
    }

    /// Processes the first `n` events; the socket that was ready first is read first.
    fn note(&mut self, n: i32) {
        let sockets = self.events[..n as usize].iter().rev().filter(|e| e.u64 != DOORBELL);
        self.pending.extend(sockets.map(|e| e.u64 as usize));
    }

    /// Makes this behave like a kernel before Linux 5.11.
    #[cfg(test)]
    pub(crate) fn without_pwait2(&mut self) {
        self.pwait2 = false;
    }
}

/// Makes an epoll instance that programs started from here do not inherit.
fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the kernel just made this descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes epoll watch a socket or the doorbell under a number.
fn watch(epoll: &OwnedFd, index: u64, fd: i32) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: index };
    // SAFETY: both descriptors are open and `event` is valid for the call.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) })
        .map(|_| ())
}
