//! `sendmmsg(2)` from the arena of a batch, and the handling of its errors.
//!
//! ```text
//!   batch      message            message  ...      one destination each, 1 to 64 datagrams
//!   pieces     complete, segmented by the kernel    while segmentation works
//!              one datagram each                   when it is off, or on trial
//! ```
//!
//! An error concerns the first piece of a call. It is tried again a limited number of times if the error may
//! be temporary; otherwise its datagrams are counted as not sent. When the kernel refuses a segmented
//! message, its datagrams are sent one by one: if this works, segmentation is switched off permanently; if
//! not, segmentation was not the cause.

#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

use engine::EngineCounters;
use engine::batch::{Destination, Message, TxBatch};

use crate::address::Name;
use crate::cmsg::ControlBuffer;
use crate::options::BATCH;
use crate::socket::{UdpSocket, check};

/// Highest number of waits for room during one batch, each of at most [`ROOM_PAUSE`]: 100 ms in
/// total.
const MAX_PAUSES: u32 = 100;
/// Longest single wait for room.
const ROOM_PAUSE: Duration = Duration::from_millis(1);
/// Highest number of pending errors of earlier datagrams that are ignored before this datagram is dropped.
const MAX_REFUSALS: u32 = 4;

/// Part of a batch that one header sends.
#[derive(Clone, Copy)]
struct BatchPiece {
    /// Number of its message, and its end within the message in bytes.
    message: usize,
    end: usize,
    /// Number of datagrams in the piece.
    datagrams: u64,
}

/// Progress of sending: all messages before `message` are sent, and `bytes` of that one.
#[derive(Clone, Copy)]
struct Cursor {
    message: usize,
    bytes: usize,
}

/// Action after an error of sending.
enum Verdict {
    Again,
    /// Send the message as single datagrams.
    Split,
    /// Drop the piece, or the message that is on trial.
    Drop,
}

/// Headers for messages to send.
pub(crate) struct Sender {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    names: Vec<Name>,
    controls: Vec<ControlBuffer>,
    pieces: Vec<BatchPiece>,
    /// Message whose segmentation was refused and that is sent as single datagrams.
    trial: Option<usize>,
    /// Number of waits in this batch, and of refusals of this piece.
    pauses: u32,
    refusals: u32,
}

// SAFETY: the raw pointers inside are set anew before each call and point into the vectors in the
// same struct, which move along, or into the batch that is borrowed for the call.
unsafe impl Send for Sender {}

impl Sender {
    /// Makes the headers of one call.
    pub(crate) fn new() -> Self {
        // SAFETY: all-zero is a valid value of these plain C structures.
        let (header, vector) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Sender {
            headers: vec![header; BATCH],
            vectors: vec![vector; BATCH],
            names: vec![Name::new(); BATCH],
            controls: vec![ControlBuffer::new(); BATCH],
            pieces: Vec::with_capacity(BATCH),
            trial: None,
            pauses: 0,
            refusals: 0,
        }
    }

    /// Sends all of `tx`; clears `gso` if segmentation does not work.
    pub(crate) fn send(
        &mut self,
        sockets: &[UdpSocket],
        tx: &TxBatch,
        gso: &mut bool,
        counters: &mut EngineCounters,
    ) -> io::Result<()> {
        (self.pauses, self.refusals, self.trial) = (0, 0, None);
        let mut cursor = Cursor { message: 0, bytes: 0 };
        while cursor.message < tx.messages().len() {
            let socket = &sockets[usize::from(tx.messages()[cursor.message].to.socket().0)];
            self.fill(tx, cursor, *gso);
            counters.send_calls += 1;
            // SAFETY: as many headers as there are pieces were filled: they point to names, vectors and control
            // buffers of this sender and into the batch's arena, all alive during the call; of the arena the kernel
            // only reads.
            let sent = check(unsafe {
                libc::sendmmsg(
                    socket.fd(),
                    self.headers.as_mut_ptr(),
                    self.pieces.len() as u32,
                    libc::MSG_DONTWAIT as _,
                )
            });
            match sent {
                Ok(sent) => {
                    let sent = &self.pieces[..sent as usize];
                    counters.sent += sent.iter().map(|p| p.datagrams).sum::<u64>();
                    if let Some(last) = sent.last() {
                        cursor = after(tx, last.message, last.end);
                        self.refusals = 0;
                        *gso &= self.trial.take().is_none();
                    }
                }
                Err(error) => match self.verdict(error, tx, socket, counters)? {
                    Verdict::Again => {}
                    Verdict::Split => self.trial = Some(cursor.message),
                    Verdict::Drop => cursor = self.drop_first(tx, cursor, counters),
                },
            }
        }
        Ok(())
    }

    /// Fills headers with the pieces from `cursor` on that leave by the same socket.
    fn fill(&mut self, tx: &TxBatch, cursor: Cursor, gso: bool) {
        self.pieces.clear();
        let socket = tx.messages()[cursor.message].to.socket();
        let mut begin = cursor.bytes;
        for (i, message) in tx.messages().iter().enumerate().skip(cursor.message) {
            let on_trial = self.trial == Some(i);
            if message.to.socket() != socket || self.trial.is_some() && !on_trial {
                return;
            }
            let split = on_trial || !gso;
            while begin < message.len {
                if self.pieces.len() == BATCH {
                    return;
                }
                let rest = message.len - begin;
                let len = if split { rest.min(message.segment) } else { rest };
                self.fill_piece(tx, i, message, begin, len);
                begin += len;
            }
            begin = 0;
        }
    }

    /// Fills the next header with `len` bytes of a message.
    #[inline]
    fn fill_piece(
        &mut self,
        tx: &TxBatch,
        index: usize,
        message: &Message,
        begin: usize,
        len: usize,
    ) {
        let i = self.pieces.len();
        let bytes = &tx.bytes(message)[begin..begin + len];
        self.vectors[i] = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: len };
        let (name, from) = match message.to {
            Destination::Connected(_) => ((std::ptr::null_mut(), 0), None),
            Destination::Peer { peer, from, .. } => {
                let len = self.names[i].set(peer);
                ((self.names[i].room().0, len), from)
            }
        };
        let segmented = len > message.segment;
        let control = self.controls[i].write(segmented.then_some(message.segment as u16), from);
        let header = &mut self.headers[i].msg_hdr;
        (header.msg_name, header.msg_namelen) = name;
        (header.msg_control, header.msg_controllen) = control;
        header.msg_iov = &raw mut self.vectors[i];
        header.msg_iovlen = 1;
        header.msg_flags = 0;
        let datagrams = if segmented { len.div_ceil(message.segment) as u64 } else { 1 };
        self.pieces.push(BatchPiece { message: index, end: begin + len, datagrams });
    }

    /// Returns the action for the error of the first piece.
    fn verdict(
        &mut self,
        error: io::Error,
        tx: &TxBatch,
        socket: &UdpSocket,
        counters: &mut EngineCounters,
    ) -> io::Result<Verdict> {
        let piece = self.pieces[0];
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(Verdict::Again),
            Some(code @ (libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM)) => {
                if self.pauses == MAX_PAUSES {
                    return Ok(Verdict::Drop);
                }
                self.pauses += 1;
                counters.send_retries += 1;
                pause(socket, code);
                Ok(Verdict::Again)
            }
            Some(code) if is_unreachable(code) && self.refusals < MAX_REFUSALS => {
                // Usually a pending error of an earlier datagram; reading it clears it.
                self.refusals += 1;
                counters.refused += 1;
                Ok(Verdict::Again)
            }
            Some(
                libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP | libc::ENOPROTOOPT,
            ) if piece.datagrams > 1 => Ok(Verdict::Split),
            // An error of this program, which the next datagram would cause again.
            None | Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EDESTADDRREQ) => {
                let peer = tx.messages()[piece.message].to;
                Err(io::Error::new(error.kind(), format!("cannot send to {peer:?}: {error}")))
            }
            // The host or its firewall refuses the destination.
            Some(_) => Ok(Verdict::Drop),
        }
    }

    /// Skips the first piece, or the rest of a message whose single datagrams are refused too.
    fn drop_first(
        &mut self,
        tx: &TxBatch,
        cursor: Cursor,
        counters: &mut EngineCounters,
    ) -> Cursor {
        self.refusals = 0;
        if self.trial.take().is_some() {
            counters.send_errors += tx.messages()[cursor.message].segments as u64;
            return Cursor { message: cursor.message + 1, bytes: 0 };
        }
        let piece = self.pieces[0];
        counters.send_errors += piece.datagrams;
        after(tx, piece.message, piece.end)
    }
}

/// Returns the cursor after a message is sent up to `end`.
fn after(tx: &TxBatch, message: usize, end: usize) -> Cursor {
    if end == tx.messages()[message].len {
        Cursor { message: message + 1, bytes: 0 }
    } else {
        Cursor { message, bytes: end }
    }
}

/// Waits for room in the socket's queue, or (ENOBUFS, ENOMEM) in the device's, which cannot be
/// polled.
fn pause(socket: &UdpSocket, code: i32) {
    if code == libc::EAGAIN {
        let mut poll = libc::pollfd { fd: socket.fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one valid pollfd; a failure only means that we try again at once.
        unsafe { libc::poll(&raw mut poll, 1, ROOM_PAUSE.as_millis() as i32) };
    } else {
        std::thread::sleep(ROOM_PAUSE / 20);
    }
}

/// Returns whether an error comes from an ICMP message or is equivalent.
pub(crate) fn is_unreachable(code: i32) -> bool {
    matches!(
        code,
        libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENETDOWN
            | libc::EPROTO
            | libc::ENOPROTOOPT
    )
}
