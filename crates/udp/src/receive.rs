//! `recvmmsg(2)` into the slots of a batch.
//!
//! Header `i` always belongs to slot `i`, so that between calls only the address of the slot and the fields
//! that the kernel changed are set again.

#![allow(unsafe_code)]

use std::io;

use engine::batch::{Frame, RxBatch, SocketId};
use engine::{EngineCounters, clock};

use crate::address::Name;
use crate::cmsg::{Ancillary, ControlBuffer};
use crate::send::is_unreachable;
use crate::socket::{UdpSocket, check};
use crate::stamp::StampClock;

/// Headers for received messages, one for each slot of the current batch.
pub(crate) struct Receiver {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    names: Vec<Name>,
    controls: Vec<ControlBuffer>,
    /// State of each header.
    armed: Vec<HeaderState>,
    stamps: StampClock,
}

/// State of a header of `recvmmsg`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeaderState {
    /// The kernel changed the header: it must be set again.
    No,
    /// Ready for a message of a connected socket, whose peer is known.
    Connected,
    /// Ready for a message of any sender, with room for its address.
    Named,
}

// SAFETY: the raw pointers inside point into the vectors in the same struct, which move along and
// are not aliased, or into the arena of a batch; the latter are set anew before each use.
unsafe impl Send for Receiver {}

impl Receiver {
    /// Makes a receiver without headers; the first batch sets their number.
    pub(crate) fn new() -> Self {
        Receiver {
            headers: Vec::new(),
            vectors: Vec::new(),
            names: Vec::new(),
            controls: Vec::new(),
            armed: Vec::new(),
            stamps: StampClock::new(),
        }
    }

    /// Receives the datagrams of socket `index`, as far as there are slots.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        index: usize,
        socket: &UdpSocket,
        rx: &mut RxBatch,
        counters: &mut EngineCounters,
    ) -> io::Result<()> {
        let first = rx.filled();
        self.arm(first, socket.peer.is_some(), rx);
        counters.receive_calls += 1;
        // SAFETY: all headers from `first` on were armed: they point to names, vectors and control buffers of this
        // receiver and to distinct slots of the batch's arena, all alive and not otherwise used during the call.
        let n = check(unsafe {
            libc::recvmmsg(
                socket.fd(),
                self.headers[first..].as_mut_ptr(),
                (rx.slots() - first) as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        });
        match n {
            Ok(n) => self.take(index, socket, first, n as usize, rx, counters),
            Err(e) => match e.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => {}
                // A pending error of an earlier datagram; reading it clears it.
                Some(code) if is_unreachable(code) => counters.refused += 1,
                // A temporary shortage in the kernel.
                Some(libc::ENOMEM | libc::ENOBUFS) => {}
                _ => return Err(e),
            },
        }
        Ok(())
    }

    /// Prepares the headers from `first` on for a socket of this kind, and points them to their slots.
    #[inline]
    fn arm(&mut self, first: usize, connected: bool, rx: &mut RxBatch) {
        if self.headers.len() < rx.slots() {
            self.grow(rx.slots());
        }
        let wanted = if connected { HeaderState::Connected } else { HeaderState::Named };
        for i in first..rx.slots() {
            let room = rx.slot_mut(i);
            self.vectors[i] =
                libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            if self.armed[i] == wanted {
                continue;
            }
            self.armed[i] = wanted;
            let header = &mut self.headers[i].msg_hdr;
            (header.msg_control, header.msg_controllen) = self.controls[i].room();
            (header.msg_name, header.msg_namelen) =
                if connected { (std::ptr::null_mut(), 0) } else { self.names[i].room() };
            header.msg_flags = 0;
        }
    }

    /// Makes one header for each of `slots` slots.
    #[cold]
    fn grow(&mut self, slots: usize) {
        // SAFETY: all-zero is a valid value of these plain C structures.
        let (header, vector) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        self.headers = vec![header; slots];
        self.vectors = vec![vector; slots];
        self.names = vec![Name::new(); slots];
        self.controls = vec![ControlBuffer::new(); slots];
        self.armed = vec![HeaderState::No; slots];
        for (header, vector) in self.headers.iter_mut().zip(&mut self.vectors) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
    }

    /// Makes frames from `n` received headers.
    #[inline]
    fn take(
        &mut self,
        index: usize,
        socket: &UdpSocket,
        first: usize,
        n: usize,
        rx: &mut RxBatch,
        counters: &mut EngineCounters,
    ) {
        // Read after the call, so that no timestamp is later.
        let now = clock::monotonic();
        self.stamps.refresh(now);
        for i in first..first + n {
            self.armed[i] = HeaderState::No;
            let header = &self.headers[i];
            let len = header.msg_len as usize;
            let Ancillary { segment, stamp, to } =
                self.controls[i].read(header.msg_hdr.msg_controllen);
            counters.oversize += u64::from(header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0);
            let Some(peer) = socket.peer.or_else(|| self.names[i].get()) else { continue };
            let frame = Frame {
                socket: SocketId(index as u16),
                peer,
                to,
                at: stamp.map_or(now, |wall| self.stamps.to_monotonic(wall, now)),
                offset: rx.slot(i),
                len,
                segment: segment.unwrap_or(len.max(1)),
            };
            counters.received += frame.count() as u64;
            rx.add(frame);
        }
    }
}
