//! A client that sends queries by UDP: its connection is a connected UDP socket, so that clients of all
//! transports form one population. For the highest query rates there is the crate `udp`.

use std::io;
use std::task::{Context, Poll, ready};

use engine::stream::first_message;
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

use super::meter::Meter;

/// A connected UDP socket in the form of a stream: a read brings one message with its length in
/// front, and a write accepts one.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: UdpSocket,
    /// Bytes in front of each message: a header of the PROXY protocol, or none.
    header: Vec<u8>,
    meter: Meter,
    /// The datagram that is being composed.
    datagram: Vec<u8>,
}

impl Datagrams {
    pub(super) fn new(socket: UdpSocket, header: Vec<u8>, meter: Meter) -> Self {
        Datagrams { socket, header, meter, datagram: Vec::new() }
    }

    /// Reads a datagram into `buf`, which has room for the longest.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        buf.put_slice(&[0; 2]);
        let received = self.socket.poll_recv(cx, buf);
        if !matches!(received, Poll::Ready(Ok(()))) {
            buf.set_filled(before);
            return received;
        }
        let (length, message) = buf.filled_mut()[before..].split_at_mut(2);
        length.copy_from_slice(&(message.len() as u16).to_be_bytes());
        self.meter.count_read(message.len());
        received
    }

    /// Sends the first message of `frames`; returns its length and the two bytes in front of it.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        frames: &[u8],
    ) -> Poll<io::Result<usize>> {
        let message = first_message(frames).unwrap_or_default();
        self.datagram.clear();
        self.datagram.extend_from_slice(&self.header);
        self.datagram.extend_from_slice(message);
        match ready!(self.socket.poll_send(cx, &self.datagram)) {
            Ok(sent) => self.meter.count_write(sent),
            // The queue of the interface is full: the datagram is lost, like any other.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
        Poll::Ready(Ok(2 + message.len()))
    }
}
