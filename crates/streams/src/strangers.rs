//! Strangers: clients that want a server's places and nothing else, to test a server with in a lab.
//!
//! ```text
//! Crowd ── connections at a time, each from the next address ──> server
//!          first octets at once, then octets one by one, or silence
//!          a connection that the server closes is opened again, at most `rate` a second
//! ```
//!
//! This module sends octets and knows no protocol but the beginnings of TLS and of QUIC, which cost a server a handshake.

mod initial;

use std::io::{ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use socket2::{Domain, Socket, Type};

pub use self::initial::send_initials;
use crate::tls::ClientTls;

/// The first octets of a TLS record with a ClientHello.
pub const HALF_HELLO: [u8; 6] = [0x16, 3, 1, 1, 0, 1];
/// Pause between checks of all connections.
const CHECK_PAUSE: Duration = Duration::from_millis(50);
/// Time within which a server must accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Part of a second whose new connections may be opened at once.
const BURST_SHARE: f64 = 0.1;

/// Behaviour of a stranger on its TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habit {
    /// Octets that the stranger sends at once.
    pub first: Vec<u8>,
    /// Octets that the stranger then sends one by one, again and again; none if empty.
    pub drip: Vec<u8>,
    /// Time from one of these octets to the next.
    pub every: Duration,
    /// Whether the stranger closes the connection after data from the server. Otherwise it does not
    /// read.
    pub leaves: bool,
}

/// Strangers with connections over TCP to a server.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// Address and port of the server.
    pub server: SocketAddr,
    /// Addresses of the strangers, used in turn; any address of this host if empty.
    pub from: Vec<IpAddr>,
    /// Largest number of connections at a time.
    pub connections: usize,
    /// Largest number of connections that are opened a second.
    pub rate: u32,
    /// Behaviour of each stranger.
    pub habit: Habit,
}

/// Counts of the connections of strangers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrowdCounts {
    /// Number of connections that were started.
    pub opened: u64,
    /// Number of connections that the server closed, refused, or did not accept in time.
    pub closed: u64,
}

/// A connection of a stranger.
struct Connection {
    stream: TcpStream,
    opened: Instant,
    refused: bool,
    connected: bool,
    /// Number of octets sent, of the first ones and of the others.
    first: usize,
    dripped: usize,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionFate {
    /// The connection stays open until the next check.
    Open,
    /// The server closed or reset the connection.
    Closed,
    /// The stranger has sent all its octets, and closes the connection.
    Left,
}

impl Crowd {
    /// Keeps connections open until `over`, which is called with the counts at every check; returns
    /// the counts.
    pub fn run(&self, mut over: impl FnMut(&CrowdCounts) -> bool) -> CrowdCounts {
        let mut connections: Vec<Connection> = Vec::new();
        let (mut counts, mut tokens, mut last) = (CrowdCounts::default(), 1.0, Instant::now());
        let rate = f64::from(self.rate);
        while !over(&counts) {
            let now = Instant::now();
            tokens += (now - last).as_secs_f64() * rate;
            tokens = tokens.min((rate * BURST_SHARE).max(1.0));
            last = now;
            while connections.len() < self.connections && tokens >= 1.0 {
                // Without a free port or file no connection is opened until the next check.
                let Some(connection) = self.connect(counts.opened) else { break };
                connections.push(connection);
                counts.opened += 1;
                tokens -= 1.0;
            }
            connections.retain_mut(|connection| {
                let fate = connection.look(&self.habit);
                counts.closed += u64::from(fate == ConnectionFate::Closed);
                fate == ConnectionFate::Open
            });
            std::thread::sleep(CHECK_PAUSE);
        }
        counts
    }

    /// Begins connection `number`; `None` if this host has no room.
    fn connect(&self, number: u64) -> Option<Connection> {
        let socket = Socket::new(Domain::for_address(self.server), Type::STREAM, None).ok()?;
        socket.set_nonblocking(true).ok()?;
        if !self.from.is_empty() {
            let from = self.from[number as usize % self.from.len()];
            socket.bind(&SocketAddr::new(from, 0).into()).ok()?;
        }
        let refused = match socket.connect(&self.server.into()) {
            Ok(()) => false,
            Err(error) => match error.raw_os_error() {
                Some(libc::EINPROGRESS) => false,
                Some(libc::ECONNREFUSED) => true,
                _ => return None,
            },
        };
        let (stream, opened) = (TcpStream::from(socket), Instant::now());
        Some(Connection { stream, opened, refused, connected: false, first: 0, dripped: 0 })
    }
}

impl Connection {
    /// Sends what is due and checks whether the connection is still open; replies stay unread in
    /// the socket.
    fn look(&mut self, habit: &Habit) -> ConnectionFate {
        if !self.connected {
            let refused = self.refused || !matches!(self.stream.take_error(), Ok(None));
            self.connected = !refused && self.stream.peer_addr().is_ok();
            if refused || (!self.connected && self.opened.elapsed() > CONNECT_LIMIT) {
                return ConnectionFate::Closed;
            }
            if !self.connected {
                return ConnectionFate::Open;
            }
        }
        if self.send(habit).is_err() {
            return ConnectionFate::Closed;
        }
        match self.stream.peek(&mut [0; 1]) {
            Ok(0) => ConnectionFate::Closed,
            Ok(_) if habit.leaves => ConnectionFate::Left,
            Ok(_) => ConnectionFate::Open,
            Err(error) if error.kind() == ErrorKind::WouldBlock => ConnectionFate::Open,
            Err(_) => ConnectionFate::Closed,
        }
    }

    /// Sends the octets that are due and fit into the socket.
    fn send(&mut self, habit: &Habit) -> std::io::Result<()> {
        let sent = |result: std::io::Result<usize>| match result {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            result => result,
        };
        if self.first < habit.first.len() {
            self.first += sent(self.stream.write(&habit.first[self.first..]))?;
            return Ok(());
        }
        if habit.drip.is_empty() {
            return Ok(());
        }
        let due = self.opened.elapsed().as_secs_f64() / habit.every.as_secs_f64().max(1e-3);
        while self.dripped < due as usize {
            let octet = habit.drip[self.dripped % habit.drip.len()];
            if sent(self.stream.write(&[octet]))? == 0 {
                break;
            }
            self.dripped += 1;
        }
        Ok(())
    }
}

/// Returns the TLS record with a whole ClientHello, of a client that offers the application protocol `alpn`.
///
/// # Panics
/// If the TLS library makes no client.
pub fn client_hello(alpn: &[u8]) -> Vec<u8> {
    let tls = ClientTls { alpn: vec![alpn.to_vec()], ..ClientTls::default() };
    let tls = Arc::new(tls.build().expect("a configuration without files is valid"));
    let name = "dns.example".try_into().expect("a name");
    let mut client = ClientConnection::new(tls, name).expect("a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("a vector takes all octets");
    hello
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use rustls::server::Acceptor;

    use super::*;

    const FROM: [IpAddr; 2] = [
        IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2)),
        IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 3)),
    ];

    fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let server = listener.local_addr().expect("an address");
        (listener, server)
    }

    fn crowd(server: SocketAddr, connections: usize, habit: Habit) -> Crowd {
        Crowd { server, from: FROM.to_vec(), connections, rate: 1_000, habit }
    }

    #[test]
    fn a_place_that_is_lost_is_taken_again() {
        let (listener, server) = listen();
        let serving = std::thread::spawn(move || {
            let mut kept = Vec::new();
            for number in 0..6 {
                let (mut stream, peer) = listener.accept().expect("a stranger");
                assert!(FROM.contains(&peer.ip()), "{peer}");
                let mut first = [0; 2];
                stream.read_exact(&mut first).expect("its first octets");
                assert_eq!(&first, b"hi");
                // Three are closed, three are kept.
                if number >= 3 {
                    kept.push(stream);
                }
            }
            kept
        });
        let habit = Habit { first: b"hi".to_vec(), ..Habit::default() };
        let counts =
            crowd(server, 3, habit).run(|counts| serving.is_finished() && counts.closed >= 3);
        assert_eq!(serving.join().expect("no panic").len(), 3);
        assert_eq!(counts, CrowdCounts { opened: 6, closed: 3 });
    }

    #[test]
    fn octets_drip_after_the_first_ones() {
        let (listener, server) = listen();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a stranger");
            let mut octets = [0; 6];
            stream.read_exact(&mut octets).expect("octets");
            octets
        });
        let every = Duration::from_millis(10);
        let (first, drip) = (b"x".to_vec(), b"ab".to_vec());
        let habit = Habit { first, drip, every, leaves: false };
        let counts = crowd(server, 1, habit).run(|_| serving.is_finished());
        assert_eq!(&serving.join().expect("no panic"), b"xababa");
        assert!(counts.opened >= 1);
    }

    #[test]
    fn who_got_an_answer_leaves_and_who_reads_none_stays() {
        for leaves in [true, false] {
            let (listener, server) = listen();
            let serving = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a stranger");
                stream.write_all(b"hello").expect("writes");
                let left = !matches!(stream.read(&mut [0; 1]), Ok(len) if len > 0);
                (left, listener)
            });
            // A connection that stays sends octets.
            let drip = if leaves { Vec::new() } else { b"a".to_vec() };
            let every = Duration::from_millis(100);
            let habit = Habit { drip, every, leaves, ..Habit::default() };
            let counts = crowd(server, 1, habit).run(|_| serving.is_finished());
            let (left, _listener) = serving.join().expect("no panic");
            assert_eq!(left, leaves, "{counts:?}");
        }
    }

    #[test]
    fn a_server_that_refuses_is_counted() {
        // Bound, but not listening: nobody else gets the port.
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
        let server =
            socket.local_addr().ok().and_then(|address| address.as_socket()).expect("an address");
        let counts = crowd(server, 2, Habit::default()).run(|counts| counts.closed >= 4);
        assert!(counts.opened >= 4, "{counts:?}");
    }

    #[test]
    fn a_hello_is_one_that_servers_read() {
        let hello = client_hello(b"dot");
        let mut acceptor = Acceptor::default();
        acceptor.read_tls(&mut &hello[..]).expect("octets");
        let accepted = acceptor.accept().ok().flatten().expect("a whole hello");
        let offered = accepted.client_hello().alpn().map(|all| all.collect::<Vec<_>>());
        assert_eq!(offered, Some(vec![&b"dot"[..]]));
        assert_eq!(hello[..3], HALF_HELLO[..3]);
    }
}
