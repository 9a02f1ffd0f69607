//! A connection for messages with a 16-bit length in front (RFC 7766, RFC 7858). All available messages are
//! read together and passed to the role, and its new orders are written together.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use engine::clock;
use engine::stream::{ConnId, End, Failure, StreamRole, first_message};
use measure::WriteMode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::failure;
use super::shared::{Caller, Shared};
use super::stream::Stream;

/// One connection with its buffers.
pub(super) struct Framed {
    conn: ConnId,
    stream: Stream,
    /// Longest message in bytes; a longer one ends the connection.
    max_message: usize,
    /// Method by which messages that were ordered together are written.
    write_mode: WriteMode,
    /// First bytes of a message that is not complete.
    partial: Vec<u8>,
    /// Number of bytes of the output that are written.
    written: usize,
    /// Offset in the output where the message that is being written ends.
    message_end: usize,
    /// Whether the role knows that the connection is established.
    announced: bool,
    flushing: bool,
}

impl Framed {
    pub(super) fn new(
        conn: ConnId,
        stream: Stream,
        max_message: usize,
        write_mode: WriteMode,
    ) -> Self {
        Framed {
            conn,
            stream,
            max_message,
            write_mode,
            partial: Vec::new(),
            written: 0,
            message_end: 0,
            announced: false,
            flushing: false,
        }
    }

    /// Reports to the role the messages that were not written when the connection ended with `end`.
    pub(super) fn end_unwritten<R: StreamRole>(&self, shared: &Shared<R>, end: End) {
        shared.end_unwritten(self.conn, self.written, end);
    }

    /// Returns the stream, to close it.
    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Reads and writes until no work is left; ready when the connection has ended.
    pub(super) fn poll<R: StreamRole + 'static>(
        &mut self,
        shared: &std::rc::Rc<Shared<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<End> {
        if self.announce(shared) {
            shared.pump(Caller::Connection(self.conn));
        }
        loop {
            let read = match self.read(shared, cx) {
                Ok(read) => read,
                Err(end) => return Poll::Ready(end),
            };
            if read {
                shared.pump(Caller::Connection(self.conn));
            }
            match self.write(shared, cx) {
                Ok(true) => return Poll::Ready(End::Ordered),
                Ok(false) => {}
                Err(failure) => return Poll::Ready(End::Failed(failure)),
            }
            if !read {
                return Poll::Pending;
            }
        }
    }

    /// Notifies the role once that the connection is established; returns whether it did so now.
    fn announce<R: StreamRole>(&mut self, shared: &Shared<R>) -> bool {
        if self.announced {
            return false;
        }
        let Some(how) = self.stream.opened() else { return false };
        self.announced = true;
        shared.role.borrow_mut().opened(clock::monotonic(), self.conn, how);
        true
    }

    /// Reads the available bytes and passes the complete messages to the role; returns whether any bytes
    /// arrived.
    fn read<R: StreamRole>(
        &mut self,
        shared: &Shared<R>,
        cx: &mut Context<'_>,
    ) -> Result<bool, End> {
        let mut scratch = shared.scratch.borrow_mut();
        let mut buf = ReadBuf::new(&mut scratch);
        buf.put_slice(&self.partial);
        match Pin::new(&mut self.stream).poll_read(cx, &mut buf) {
            Poll::Pending => return Ok(false),
            // TLS without a close_notify, as many servers end it.
            Poll::Ready(Err(error))
                if error.kind() == io::ErrorKind::UnexpectedEof
                    && self.announced
                    && self.partial.is_empty() =>
            {
                return Err(End::ByPeer);
            }
            Poll::Ready(Err(error)) => {
                let failure = failure::of_rest(&self.partial);
                return Err(End::Failed(failure.unwrap_or_else(|| failure::of(&error))));
            }
            Poll::Ready(Ok(())) if buf.filled().len() == self.partial.len() => {
                return Err(match &self.partial[..] {
                    [] => End::ByPeer,
                    rest => End::Failed(failure::of_rest(rest).unwrap_or(Failure::ClosedEarly)),
                });
            }
            Poll::Ready(Ok(())) => {}
        }
        let (now, mut input) = (clock::monotonic(), buf.filled());
        // Replies to early data arrive after the handshake.
        self.announce(shared);
        let mut role = shared.role.borrow_mut();
        while let Some(message) = first_message(input) {
            input = &input[2 + message.len()..];
            if message.len() > self.max_message {
                return Err(End::Failed(Failure::Oversized));
            }
            role.message(now, self.conn, message);
        }
        if let Some(length) = input.first_chunk()
            && usize::from(u16::from_be_bytes(*length)) > self.max_message
        {
            return Err(End::Failed(Failure::Oversized));
        }
        self.partial.clear();
        self.partial.extend_from_slice(input);
        Ok(true)
    }

    /// Writes the ordered messages, as far as the kernel accepts them; returns whether all are written and
    /// the role closes the connection.
    fn write<R: StreamRole>(
        &mut self,
        shared: &Shared<R>,
        cx: &mut Context<'_>,
    ) -> Result<bool, Failure> {
        let mut orders = shared.orders.borrow_mut();
        let slot = orders.slot(self.conn);
        if slot.aborted {
            return Ok(true);
        }
        while self.written < slot.output.len() {
            if slot.fresh {
                slot.fresh = false;
                shared.role.borrow_mut().sent(clock::monotonic(), self.conn);
            }
            let end = match self.write_mode {
                WriteMode::Together => slot.output.len(),
                WriteMode::Each => {
                    if self.written >= self.message_end {
                        let message = first_message(&slot.output[self.written..]);
                        self.message_end = self.written + 2 + message.map_or(0, <[u8]>::len);
                    }
                    self.message_end
                }
            };
            match Pin::new(&mut self.stream).poll_write(cx, &slot.output[self.written..end]) {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => return Err(failure::of(&error)),
                Poll::Ready(Ok(0)) => return Err(Failure::ClosedEarly),
                Poll::Ready(Ok(n)) => {
                    self.written += n;
                    self.flushing = true;
                }
            }
        }
        if self.flushing {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => self.flushing = false,
                Poll::Ready(Err(error)) => return Err(failure::of(&error)),
            }
        }
        let all = self.written == slot.output.len() && !self.flushing;
        if self.written == slot.output.len() {
            slot.output.clear();
            (self.written, self.message_end) = (0, 0);
        }
        // The task of a connection stays the same, so that its waker never changes.
        slot.waker.get_or_insert_with(|| cx.waker().clone());
        Ok(all && slot.closing)
    }
}
