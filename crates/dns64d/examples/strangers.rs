//! Clients that want a server's places and nothing else, to test a DNS64 server with: `benches/dns64-hardship` runs it. What they do
//! is in `streams::strangers`, which the drills of dnsdyno use too.
//!
//! ```text
//!   hold      connections over TCP that stay silent
//!   hello     the same to a port of TLS, each with the first octets of a ClientHello
//!   initials  first packets of QUIC connections, whose client never answers
//!   unread    connections over TCP that ask for large answers and read none
//! ```
//!
//! `hold`, `hello` and `unread` open a connection again as soon as the server closes it.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use streams::strangers::{Crowd, CrowdCounts, HALF_HELLO, Habit, send_initials};
use streams::tls::ALPN_DOQ;
use wire::{Name, Qtype, QueryTemplate};

/// Number of queries of a connection that reads no answers.
const UNREAD: u16 = 32;
/// Pause between two groups of first packets.
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

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    Hold,
    Hello,
    Initials,
    Unread,
}

fn main() {
    let args = Args::parse();
    // If this fails, there are at most 1,024 connections.
    udp::sys::raise_open_files();
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let CrowdCounts { opened, closed } = match args.kind {
        Kind::Initials => CrowdCounts { opened: initials(&args, end), closed: 0 },
        Kind::Hold | Kind::Hello | Kind::Unread => crowd(&args).run(|_| Instant::now() >= end),
    };
    println!("sent or opened {opened}, closed by the server {closed}");
}

/// Sends first packets at a constant rate; returns how many.
fn initials(args: &Args, end: Instant) -> u64 {
    let start = Instant::now();
    let mut sent = 0;
    while Instant::now() < end {
        let due = (start.elapsed().as_secs_f64() * f64::from(args.count)) as u64;
        send_initials(args.from, args.server, ALPN_DOQ, sent..due);
        sent = due;
        std::thread::sleep(PAUSE);
    }
    sent
}

/// Returns the clients with connections over TCP, which open them as fast as they can.
fn crowd(args: &Args) -> Crowd {
    let first = match args.kind {
        Kind::Hello => HALF_HELLO.to_vec(),
        Kind::Unread => {
            QueryTemplate::new(&args.name, Qtype::TXT, true, false, None).framed(0..UNREAD)
        }
        Kind::Hold | Kind::Initials => Vec::new(),
    };
    Crowd {
        server: args.server,
        from: vec![args.from],
        connections: args.count as usize,
        rate: u32::MAX,
        habit: Habit { first, ..Habit::default() },
    }
}
