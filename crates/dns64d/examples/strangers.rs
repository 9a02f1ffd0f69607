//! Clients that want a server's places and nothing else, to test a DNS64 server with: `benches/dns64-hardship` runs it.
//!
//! ```text
//!   hold      connections over TCP that stay silent
//!   hello     the same to a port of TLS, each with the first octets of a ClientHello
//!   initials  first packets of QUIC connections, whose client never answers
//!   unread    connections over TCP that ask for large answers and read none
//! ```
//!
//! `hold`, `hello` and `unread` open a connection again as soon as the server closes it.

#[path = "../tests/suite/kit/initial.rs"]
mod initial;

use std::io::{ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use socket2::{Domain, Socket, Type};
use streams::tls::ALPN_DOQ;
use wire::{Name, Qtype, QueryTemplate};

/// The first octets of a TLS record with a ClientHello.
const HELLO: [u8; 6] = [0x16, 3, 1, 1, 0, 1];
/// Number of queries of a connection that reads no answers.
const UNREAD: u16 = 32;
/// Pause between two looks at all connections.
const PAUSE: Duration = Duration::from_millis(20);

/// Takes places of a DNS64 server in a namespace of this host.
#[derive(Parser)]
struct Args {
    /// What is sent.
    #[arg(value_enum)]
    kind: Kind,
    /// The server under attack.
    #[arg(long)]
    server: SocketAddr,
    /// Address from which it is sent.
    #[arg(long)]
    from: IpAddr,
    /// Connections at the same time, or first packets a second.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    count: u32,
    /// Duration in seconds, at most a day.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Name whose TXT records are asked for and not read.
    #[arg(long, default_value = "large.dns64perf.test")]
    name: Name,
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    Hold,
    Hello,
    Initials,
    Unread,
}

fn main() {
    let args = Args::parse();
    // Without it there are 1,024 connections at most.
    udp::sys::raise_open_files();
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let (opened, closed) = match args.kind {
        Kind::Initials => (initials(&args, end), 0),
        Kind::Hold | Kind::Hello | Kind::Unread => hold(&args, end),
    };
    println!("sent or opened {opened}, closed by the server {closed}");
}

/// Sends first packets at a constant rate; returns how many.
fn initials(args: &Args, end: Instant) -> u64 {
    let start = Instant::now();
    let mut sent = 0;
    while Instant::now() < end {
        let due = (start.elapsed().as_secs_f64() * f64::from(args.count)) as u64;
        initial::send(args.from, args.server, ALPN_DOQ, sent..due);
        sent = due;
        std::thread::sleep(PAUSE);
    }
    sent
}

/// Keeps connections open; returns how many were opened, and how many the server closed.
fn hold(args: &Args, end: Instant) -> (u64, u64) {
    let (mut streams, mut opened, mut closed) = (Vec::new(), 0, 0);
    let first = match args.kind {
        Kind::Hello => HELLO.to_vec(),
        Kind::Unread => queries(&args.name),
        Kind::Hold | Kind::Initials => Vec::new(),
    };
    while Instant::now() < end {
        while streams.len() < args.count as usize && Instant::now() < end {
            let Some(mut stream) = connect(args) else { break };
            opened += 1;
            // A connection that is closed already is seen below.
            let _ = stream.write_all(&first);
            streams.push(stream);
        }
        let before = streams.len();
        // A look that leaves in the socket what is not to be read.
        streams.retain_mut(|stream| match stream.peek(&mut [0; 1]) {
            Err(error) => error.kind() == ErrorKind::WouldBlock,
            Ok(len) => len > 0,
        });
        closed += (before - streams.len()) as u64;
        std::thread::sleep(PAUSE);
    }
    (opened, closed)
}

/// Returns the queries of a connection that reads no answers, as a stream has them.
fn queries(name: &Name) -> Vec<u8> {
    let query = QueryTemplate::new(name, Qtype::TXT, true, false, None);
    let mut message = vec![0; query.len()];
    let mut stream = Vec::new();
    for id in 0..UNREAD {
        query.write(id, &mut message);
        stream.extend_from_slice(&(message.len() as u16).to_be_bytes());
        stream.extend_from_slice(&message);
    }
    stream
}

/// Connects; `None` if the server or this host has no room.
fn connect(args: &Args) -> Option<TcpStream> {
    let socket = Socket::new(Domain::for_address(args.server), Type::STREAM, None).ok()?;
    socket.bind(&SocketAddr::new(args.from, 0).into()).ok()?;
    socket.connect_timeout(&args.server.into(), Duration::from_secs(1)).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket.into())
}
