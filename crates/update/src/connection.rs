//! A socket to a server on which one message at a time waits for its reply.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use measure::any_address;

/// A socket to a server.
pub(crate) enum Connection {
    /// Over UDP, from a connected socket.
    Udp(UdpSocket),
    /// Over TCP, each message after its length.
    Tcp(TcpStream),
}

impl Connection {
    /// Opens a socket that is connected to `server`; reads and writes end after `timeout`.
    pub(crate) fn to(server: SocketAddr, tcp: bool, timeout: Duration) -> io::Result<Self> {
        if tcp {
            let stream = TcpStream::connect_timeout(&server, timeout)?;
            stream.set_nodelay(true)?;
            return Ok(Connection::Tcp(stream));
        }
        let socket = UdpSocket::bind((any_address(server.ip()), 0))?;
        socket.connect(server)?;
        Ok(Connection::Udp(socket))
    }

    /// Returns whether the server has closed the connection, as many do after some time or some messages.
    pub(crate) fn is_closed(&self) -> bool {
        let Connection::Tcp(stream) = self else { return false };
        let looked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        let is_open = match looked {
            Ok(octets) => octets > 0,
            Err(e) => e.kind() == io::ErrorKind::WouldBlock,
        };
        stream.set_nonblocking(false).is_err() || !is_open
    }

    /// Sends a message and waits for the reply with its id.
    pub(crate) fn ask(&mut self, request: &[u8], timeout: Duration) -> io::Result<Vec<u8>> {
        let until = Instant::now() + timeout;
        let left = || until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let is_reply =
            |reply: &[u8]| reply.len() >= 12 && reply[..2] == request[..2] && reply[2] & 0x80 != 0;
        match self {
            Connection::Udp(socket) => {
                socket.send(request)?;
                let mut buffer = vec![0; 65_535];
                while Instant::now() < until {
                    socket.set_read_timeout(Some(left()))?;
                    let length = match socket.recv(&mut buffer) {
                        Ok(length) => length,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                        Err(e) => return Err(e),
                    };
                    if is_reply(&buffer[..length]) {
                        buffer.truncate(length);
                        return Ok(buffer);
                    }
                }
            }
            Connection::Tcp(stream) => {
                let length = u16::try_from(request.len()).map_err(io::Error::other)?;
                stream.set_write_timeout(Some(left()))?;
                stream.write_all(&[&length.to_be_bytes(), request].concat())?;
                while Instant::now() < until {
                    stream.set_read_timeout(Some(left()))?;
                    let mut length = [0; 2];
                    stream.read_exact(&mut length)?;
                    let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
                    stream.read_exact(&mut reply)?;
                    if is_reply(&reply) {
                        return Ok(reply);
                    }
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no reply within {timeout:?}")))
    }
}
