//! Asking servers: one query at a time over a socket or a connection to each, all servers at once.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use engine::clock;
use measure::Nanos;
use measure::any_address;
use streams::client::Dialer;
use wire::Header;

use crate::connections::Connections;
use crate::spool::Raw;

/// Largest size of a datagram, in octets.
const MAX_DATAGRAM: usize = 65_535;
/// Largest number of messages that are no reply and are read after the timeout.
const MAX_LATE: u32 = 64;
/// Distance of the ids of two queries in a row.
const ID_STEP: u16 = 0x6d2b;

/// A server to be queried.
#[derive(Clone, Debug)]
pub(crate) struct QueriedServer {
    pub(crate) address: SocketAddr,
    /// Dialer of connections to the server; `None` for UDP, and TCP after a truncated reply.
    pub(crate) dialer: Option<Dialer>,
}

/// The sockets and connections of one worker: one to each server.
pub(crate) struct Askers {
    /// Servers queried over UDP, and over TCP after a truncated reply.
    servers: Vec<Asker>,
    /// Connections to the other servers.
    connections: Connections,
    /// Whether each server is queried over a connection, in the order of the servers.
    connected: Vec<bool>,
    timeout: Duration,
    id: u16,
    buffer: Vec<u8>,
}

/// The socket to one server; made when it is needed.
struct Asker {
    server: SocketAddr,
    socket: Option<UdpSocket>,
}

impl Askers {
    /// Makes the sockets of a worker, whose number chooses the ids.
    pub(crate) fn new(asked: &[QueriedServer], timeout: Duration, worker: u16) -> Self {
        let over_udp = asked.iter().filter(|server| server.dialer.is_none());
        let asker = |server: &QueriedServer| Asker { server: server.address, socket: None };
        Askers {
            servers: over_udp.map(asker).collect(),
            connections: Connections::new(
                asked.iter().filter_map(|server| server.dialer.clone()).collect(),
            ),
            connected: asked.iter().map(|server| server.dialer.is_some()).collect(),
            timeout,
            id: worker.wrapping_mul(0x3d4d),
            buffer: vec![0; MAX_DATAGRAM],
        }
    }

    /// Sends a query to each server, and returns the outcome of each within the timeout. With `tcp`
    /// it goes over TCP instead of UDP.
    pub(crate) fn ask(&mut self, query: &[u8], tcp: bool) -> Vec<Raw> {
        self.id = self.id.wrapping_add(ID_STEP);
        let mut query = query.to_vec();
        query[..2].copy_from_slice(&self.id.to_be_bytes());
        let until = Instant::now() + self.timeout;
        let connections_until = clock::monotonic() + Nanos::from(self.timeout);
        let over_udp = self.servers.iter_mut().filter(|_| !tcp);
        let sent: Vec<io::Result<()>> = over_udp.map(|server| server.send(&query)).collect();
        // Replies over UDP wait in their sockets meanwhile.
        let mut over_connections = self.connections.ask(&query, connections_until).into_iter();
        let mut over_udp = Vec::with_capacity(sent.len());
        for (server, sent) in self.servers.iter_mut().zip(sent) {
            let received = sent.and_then(|()| server.receive(self.id, until, &mut self.buffer));
            if received.is_err() {
                // A late reply must not meet a later query.
                server.socket = None;
            }
            over_udp.push(received.map(|len| self.buffer[..len].to_vec()));
        }
        // A server that is queried again does not delay the later servers beyond their timeout.
        let mut received = over_udp.into_iter();
        let mut over_udp = self.servers.iter().map(|server| match received.next() {
            Some(Err(error)) => failure(error),
            Some(Ok(bytes)) if !is_truncated(&bytes) => Raw::Message { bytes, tcp: false },
            _ => over_tcp(server.server, &query, self.timeout),
        });
        let reply = |connected: &bool| match connected {
            true => over_connections.next(),
            false => over_udp.next(),
        };
        self.connected.iter().filter_map(reply).collect()
    }
}

/// Sends one query with this id to one server over UDP, and over TCP if the reply is truncated;
/// returns the reply that comes within the timeout.
pub fn ask_one(server: SocketAddr, query: &[u8], id: u16, timeout: Duration) -> Raw {
    let mut askers = Askers::new(&[QueriedServer { address: server, dialer: None }], timeout, 0);
    askers.id = id;
    askers.ask(query, false).pop().expect("each server has an outcome")
}

fn is_truncated(message: &[u8]) -> bool {
    Header::read(message).is_some_and(|header| header.is_truncated())
}

fn failure(error: io::Error) -> Raw {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Raw::Timeout,
        _ => Raw::Failed(error.to_string()),
    }
}

/// Returns whether a message is the reply to the query with this id.
pub(crate) fn is_reply(message: &[u8], id: u16) -> bool {
    Header::read(message).is_some_and(|header| header.id == id && header.is_response())
}

impl Asker {
    fn send(&mut self, query: &[u8]) -> io::Result<()> {
        let socket = match &mut self.socket {
            Some(socket) => socket,
            none => none.insert(connected(self.server)?),
        };
        socket.set_nonblocking(false)?;
        // The socket may report an error of an earlier query here.
        socket.send(query).or_else(|_| socket.send(query)).map(drop)
    }

    /// Waits for the reply with this id; returns its length in `buffer`.
    fn receive(&mut self, id: u16, until: Instant, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(socket) = &self.socket else { return Err(ErrorKind::NotConnected.into()) };
        let mut late = 0;
        loop {
            let time_left = until.saturating_duration_since(Instant::now());
            if time_left.is_zero() {
                // Replies that came in time still count, even if earlier servers took long; further
                // ones are not awaited.
                socket.set_nonblocking(true)?;
            } else {
                socket.set_read_timeout(Some(time_left))?;
            }
            match socket.recv(buffer) {
                Ok(len) if is_reply(&buffer[..len], id) => return Ok(len),
                Ok(_) if time_left.is_zero() => late += 1,
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock && !time_left.is_zero() => {}
                Err(e) => return Err(e),
            }
            if late == MAX_LATE {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }
}

fn connected(server: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((any_address(server.ip()), 0))?;
    socket.connect(server)?;
    Ok(socket)
}

/// Sends a query on a TCP connection of its own (RFC 7766).
fn over_tcp(server: SocketAddr, query: &[u8], timeout: Duration) -> Raw {
    let dialer = Dialer { timeout, ..Dialer::tcp(server) };
    let until = clock::monotonic() + Nanos::from(timeout);
    match Connections::new(vec![dialer]).ask(query, until).pop() {
        Some(Raw::Message { bytes, .. }) => Raw::Message { bytes, tcp: true },
        Some(Raw::Failed(why)) => Raw::Failed(format!("over TCP: {why}")),
        Some(Raw::Timeout) | None => Raw::Timeout,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";

    /// A server for one query over UDP, whose reply `make` changes, after an invalid one.
    fn server(make: fn(&mut Vec<u8>)) -> SocketAddr {
        serve(UdpSocket::bind("127.0.0.1:0").expect("binds"), make)
    }

    /// Sockets of both kinds at one address.
    fn pair() -> (UdpSocket, TcpListener) {
        // Another process may have the port of one kind.
        let both = || {
            let listener = TcpListener::bind("127.0.0.1:0").ok()?;
            Some((UdpSocket::bind(listener.local_addr().ok()?).ok()?, listener))
        };
        (0..10).find_map(|_| both()).expect("binds")
    }

    fn serve(socket: UdpSocket, make: fn(&mut Vec<u8>)) -> SocketAddr {
        let address = socket.local_addr().expect("bound");
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            let Ok((len, client)) = socket.recv_from(&mut buffer) else { return };
            let mut reply = buffer[..len].to_vec();
            // Neither a query nor another id is the reply.
            let _ = socket.send_to(&reply, client);
            reply[2] |= 0x80;
            reply[1] ^= 1;
            let _ = socket.send_to(&reply, client);
            reply[1] ^= 1;
            make(&mut reply);
            let _ = socket.send_to(&reply, client);
        });
        address
    }

    /// Answers the query on a connection, in two parts.
    fn answer_over(stream: &mut TcpStream) {
        let mut query = [0; 2 + QUERY.len()];
        stream.read_exact(&mut query).expect("a query");
        query[4] |= 0x80;
        stream.write_all(&query[..5]).expect("written");
        std::thread::sleep(Duration::from_millis(20));
        stream.write_all(&query[5..]).expect("written");
    }

    fn over_udp(addresses: &[SocketAddr]) -> Vec<QueriedServer> {
        addresses.iter().map(|&address| QueriedServer { address, dialer: None }).collect()
    }

    #[test]
    fn all_servers_are_asked_and_each_has_its_outcome() {
        let silent = UdpSocket::bind("127.0.0.1:0").expect("binds");
        let nobody = {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
            socket.local_addr().expect("bound")
        };
        let servers = [
            server(|_| {}),
            silent.local_addr().expect("bound"),
            nobody,
            server(|reply| reply[3] = 3),
        ];
        let mut askers = Askers::new(&over_udp(&servers), Duration::from_secs(2), 1);
        let came = askers.ask(QUERY, false);
        assert!(
            matches!(&came[0], Raw::Message { bytes, tcp: false } if bytes[3] == 0),
            "{came:?}"
        );
        assert_eq!(came[1], Raw::Timeout);
        assert!(matches!(&came[2], Raw::Failed(why) if why.contains("refused")), "{came:?}");
        assert!(
            matches!(&came[3], Raw::Message { bytes, tcp: false } if bytes[3] == 3),
            "{came:?}"
        );
    }

    #[test]
    fn a_truncated_reply_is_asked_for_over_tcp() {
        let (socket, listener) = pair();
        let address = serve(socket, |reply| reply[2] |= 2);
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            answer_over(&mut stream);
        });
        let came = Askers::new(&over_udp(&[address]), Duration::from_secs(5), 1).ask(QUERY, false);
        assert!(
            matches!(&came[0], Raw::Message { bytes, tcp: true } if bytes.len() == QUERY.len()),
            "{came:?}"
        );
    }

    #[test]
    fn a_reply_after_the_timeout_is_none_however_long_another_server_takes() {
        let timeout = Duration::from_millis(2_500);
        // The first answers over UDP before the timeout, and over TCP after the second has answered too late.
        let (socket, listener) = pair();
        let first = serve(socket, |reply| {
            std::thread::sleep(Duration::from_millis(1_500));
            reply[2] |= 2;
        });
        let second = UdpSocket::bind("127.0.0.1:0").expect("binds");
        let address = second.local_addr().expect("bound");
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            let (len, client) = second.recv_from(&mut buffer).expect("a query");
            let (mut stream, _) = listener.accept().expect("a connection");
            std::thread::sleep(Duration::from_millis(1_500));
            buffer[2] |= 0x80;
            second.send_to(&buffer[..len], client).expect("sent");
            answer_over(&mut stream);
        });
        let came = Askers::new(&over_udp(&[first, address]), timeout, 1).ask(QUERY, false);
        assert!(matches!(&came[0], Raw::Message { tcp: true, .. }), "{came:?}");
        assert_eq!(came[1], Raw::Timeout);
    }
}
