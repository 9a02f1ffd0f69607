//! A client that asks by datagrams: its connection is a connected UDP socket, so that clients of every transport make
//! one population. For the most queries a second there is the crate `udp`.

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
use super::runtime::Shared;

/// One client's part of the way.
pub(super) struct Datagrams {
    conn: ConnId,
    socket: UdpSocket,
    /// What stands in front of each message: a header of the PROXY protocol, or nothing.
    header: Vec<u8>,
    meter: Meter,
    /// How much of the output has left.
    sent: usize,
    /// Whether the role knows that it is up.
    announced: bool,
    /// The datagram in the making.
    datagram: Vec<u8>,
}

impl Datagrams {
    pub(super) fn new(conn: ConnId, socket: UdpSocket, header: Vec<u8>, meter: Meter) -> Self {
        let datagram = Vec::new();
        Datagrams { conn, socket, header, meter, sent: 0, announced: false, datagram }
    }

    /// Receives and sends until there is nothing to be done; ready when the client is done.
    pub(super) fn poll<R: StreamRole + 'static>(
        &mut self,
        shared: &Rc<Shared<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<End> {
        if !std::mem::replace(&mut self.announced, true) {
            let how = Opened { connect: Nanos::ZERO, ..Opened::default() };
            shared.role.borrow_mut().opened(clock::monotonic(), self.conn, how);
            shared.pump(Some(self.conn));
        }
        loop {
            let received = match self.receive(shared, cx) {
                Ok(received) => received,
                Err(failure) => return Poll::Ready(End::Failed(failure)),
            };
            if received {
                shared.pump(Some(self.conn));
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

    /// Hands a datagram that is there to the role; whether there was one.
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
        if message.len() > shared.dialer(self.conn).max_message {
            return Err(Failure::Oversized);
        }
        shared.role.borrow_mut().message(clock::monotonic(), self.conn, message);
        Ok(true)
    }

    /// Sends what was ordered, as far as the kernel takes it; whether all has left and the role wants the end.
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
                // A full queue of the interface: the datagram is lost, as others are.
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
        // A client's task is one task for life: its waker never changes.
        slot.waker.get_or_insert_with(|| cx.waker().clone());
        Ok(all && slot.closing)
    }
}
