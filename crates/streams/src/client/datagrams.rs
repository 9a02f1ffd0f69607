//! A client that sends queries by UDP: its connection is a connected UDP socket, so that clients of all
//! transports form one population. For the highest query rates there is the crate `udp`.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use engine::clock;
use engine::stream::{ConnId, End, Failure, Opened, StreamRole, first_message};
use measure::Nanos;
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

use super::failure;
use super::meter::Meter;
use super::shared::{Caller, Shared};

/// One client with its socket.
pub(super) struct Datagrams {
    conn: ConnId,
    socket: UdpSocket,
    /// Bytes in front of each message: a header of the PROXY protocol, or nothing.
    header: Vec<u8>,
    /// Longest message in bytes; a longer one ends the client.
    max_message: usize,
    meter: Meter,
    /// Number of bytes of the output that are sent.
    sent: usize,
    /// Whether the role knows that the connection is established.
    announced: bool,
    /// The datagram that is being composed.
    datagram: Vec<u8>,
}

impl Datagrams {
    pub(super) fn new(
        conn: ConnId,
        socket: UdpSocket,
        header: Vec<u8>,
        max_message: usize,
        meter: Meter,
    ) -> Self {
        let datagram = Vec::new();
        Datagrams { conn, socket, header, max_message, meter, sent: 0, announced: false, datagram }
    }

    /// Receives and sends until nothing is left to do; ready when the client is done.
    pub(super) fn poll<R: StreamRole + 'static>(
        &mut self,
        shared: &Rc<Shared<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<End> {
        if !std::mem::replace(&mut self.announced, true) {
            let how = Opened { connect: Nanos::ZERO, ..Opened::default() };
            shared.role.borrow_mut().opened(clock::monotonic(), self.conn, how);
            shared.pump(Caller::Connection(self.conn));
        }
        loop {
            let received = match self.receive(shared, cx) {
                Ok(received) => received,
                Err(failure) => return Poll::Ready(End::Failed(failure)),
            };
            if received {
                shared.pump(Caller::Connection(self.conn));
            }
            match self.send(shared, cx) {
                Ok(true) => return Poll::Ready(End::Ordered),
                Ok(false) => {}
                Err(failure) => return Poll::Ready(End::Failed(failure)),
            }
            if !received {
                return Poll::Pending;
            }
        }
    }

    /// Passes an available datagram to the role; returns whether there was one.
    fn receive<R: StreamRole>(
        &mut self,
        shared: &Shared<R>,
        cx: &mut Context<'_>,
    ) -> Result<bool, Failure> {
        let mut scratch = shared.scratch.borrow_mut();
        let mut buf = ReadBuf::new(&mut scratch);
        match self.socket.poll_recv(cx, &mut buf) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Err(error)) => return Err(failure::of(&error)),
            Poll::Ready(Ok(())) => {}
        }
        let message = buf.filled();
        let mut bytes = self.meter.get();
        (bytes.received, bytes.reads) = (bytes.received + message.len() as u64, bytes.reads + 1);
        self.meter.set(bytes);
        if message.len() > self.max_message {
            return Err(Failure::Oversized);
        }
        shared.role.borrow_mut().message(clock::monotonic(), self.conn, message);
        Ok(true)
    }

    /// Sends the ordered messages, as far as the kernel accepts them; returns whether all are sent and the
    /// role closes the connection.
    fn send<R: StreamRole>(
        &mut self,
        shared: &Shared<R>,
        cx: &mut Context<'_>,
    ) -> Result<bool, Failure> {
        let mut orders = shared.orders.borrow_mut();
        let slot = orders.slot(self.conn);
        if slot.aborted {
            return Ok(true);
        }
        while let Some(message) = first_message(&slot.output[self.sent..]) {
            if std::mem::take(&mut slot.fresh) {
                shared.role.borrow_mut().sent(clock::monotonic(), self.conn);
            }
            self.datagram.clear();
            self.datagram.extend_from_slice(&self.header);
            self.datagram.extend_from_slice(message);
            match self.socket.poll_send(cx, &self.datagram) {
                Poll::Pending => break,
                // The queue of the interface is full: the datagram is lost, like any other.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::OutOfMemory => {}
                Poll::Ready(Err(error)) => return Err(failure::of(&error)),
                Poll::Ready(Ok(n)) => {
                    let mut bytes = self.meter.get();
                    (bytes.sent, bytes.writes) = (bytes.sent + n as u64, bytes.writes + 1);
                    self.meter.set(bytes);
                }
            }
            self.sent += 2 + message.len();
        }
        let all = self.sent == slot.output.len();
        if all {
            slot.output.clear();
            self.sent = 0;
        }
        // The task of a client stays the same, so that its waker never changes.
        slot.waker.get_or_insert_with(|| cx.waker().clone());
        Ok(all && slot.closing)
    }
}
