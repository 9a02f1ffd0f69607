//! A scripted upstream: real UDP and TCP sockets on loopback, replies by (name, type), and a list of the
//! received queries.
//!
//! A reply is written as text, with items separated by `;`:
//!
//! ```text
//!   www.example 60 A 192.0.2.1          a record, first in the answer section
//!   authority, additional               the section of the records that follow
//!   NXDOMAIN, SERVFAIL, ...             the return code
//!   ad, aa                              flags
//!   silent                              no reply
//!   delay 200                           milliseconds before the reply
//!   hold                                over UDP: no reply before `release`
//!   bye                                 over TCP only: closes the connection after the reply
//!   hang-up, silent-tcp, garbage-tcp    over TCP only: closes the connection, sends nothing, sends garbage
//!   mangled                             some octets behind the question are changed
//!   many NAME N                         N records NAME 60 A 192.0.2.1, .2, ...
//!   tc                                  empty and truncated over UDP, complete over TCP
//!   tc-tcp                              with its records and truncated, over TCP too
//!   scope 24, no-scope                  the scope of the client's subnet in the reply (RFC 7871), 0 by default; no subnet
//!   other-subnet                        another subnet than the client's
//!   no-opt, edns-1                      without an OPT record, with one of version 1
//!   octets-behind                       three octets behind the message
//!   formerr-opt                         FORMERR to a query with EDNS
//!   servfail-without-cd                 SERVFAIL to a query without CD
//!   ede 6, option 3                     an extended error (RFC 8914), an EDNS option
//!   cookie, wrong-cookie                the client's cookie, or another one, with a server's part (RFC 7873)
//!   wrong-id, wrong-name, wrong-type, wrong-case, wrong-port, garbage, scrap    invalid replies
//!   soa                                 the SOA of the name's top-level domain; (empty) is the same: no data
//! ```
//!
//! `&&` separates several replies to one query. `||` separates the replies to the first query, the second and
//! so on; the last one is repeated. A name that is not in the script does not exist; a missing type has no
//! data.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use domain::base::iana::{OptRcode, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, StaticCompressor, ToName};

use super::message::{self, COOKIE, ECS, EXTENDED_ERROR, Edns, Sent};
use super::ports::next_port;

/// Data of the SOA of a zone; its negative TTL is 300 s.
const SOA: &str = "3600 SOA ns.example host.example 1 7200 3600 86400 300";
/// Interval at which a socket checks whether the script has ended.
const TICK: Duration = Duration::from_millis(20);

/// A query that the upstream received.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) name: String,
    /// Name in the case of the query.
    pub(crate) spelling: String,
    pub(crate) rtype: Rtype,
    pub(crate) tcp: bool,
    pub(crate) from: SocketAddr,
    pub(crate) id: u16,
    pub(crate) cd: bool,
    pub(crate) edns: Option<Edns>,
}

/// One reply, valid or not.
#[derive(Clone, Debug, Default)]
struct Scripted {
    sections: [Vec<Sent>; 3],
    rcode: Option<OptRcode>,
    words: Vec<String>,
    /// EDNS options: code and data.
    options: Vec<(u16, Vec<u8>)>,
    /// Scope of the client's subnet.
    scope: u8,
    delay: Duration,
}

impl Scripted {
    /// Reads a reply to questions for `name`.
    fn parse(text: &str, name: &str) -> Self {
        let mut scripted = Scripted::default();
        let mut section = 0;
        let zone = name.rsplit('.').next().unwrap_or(name);
        let text = match text.trim() {
            "" => "soa",
            "NXDOMAIN" => "NXDOMAIN; soa",
            text => text,
        };
        for item in text.split(['\n', ';']).map(str::trim).filter(|item| !item.is_empty()) {
            match item {
                "answer" => section = 0,
                "authority" => section = 1,
                "additional" => section = 2,
                // What follows is of the same section.
                "soa" => {
                    section = 1;
                    scripted.sections[1].push(message::record(&format!("{zone} {SOA}")));
                }
                _ if item.starts_with("delay ") => {
                    let ms = item["delay ".len()..].parse().expect("milliseconds");
                    scripted.delay = Duration::from_millis(ms);
                }
                _ if item.starts_with("ede ") => {
                    let code: u16 = item["ede ".len()..].parse().expect("a code");
                    scripted.options.push((EXTENDED_ERROR, code.to_be_bytes().into()));
                }
                _ if item.starts_with("scope ") => {
                    scripted.scope = item["scope ".len()..].parse().expect("a length");
                }
                _ if item.starts_with("option ") => {
                    let code = item["option ".len()..].parse().expect("a code");
                    scripted.options.push((code, vec![1, 2, 3, 4]));
                }
                _ if item.starts_with("many ") => {
                    let (name, count) = item["many ".len()..].split_once(' ').expect("many NAME N");
                    for n in 1..=count.parse::<u8>().expect("a number") {
                        let record = format!("{name} 60 A 192.0.2.{n}");
                        scripted.sections[section].push(message::record(&record));
                    }
                }
                _ if item.contains(' ') => scripted.sections[section].push(message::record(item)),
                _ => match item.parse() {
                    Ok(rcode) if item.chars().all(|c| c.is_ascii_uppercase()) => {
                        scripted.rcode = Some(rcode);
                    }
                    _ => scripted.words.push(item.to_owned()),
                },
            }
        }
        scripted
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|w| w == word)
    }

    /// Returns the option with the cookie of the reply to a query with the cookie `sent`.
    fn cookie(&self, sent: &[u8]) -> Option<(u16, Vec<u8>)> {
        let wrong = self.has("wrong-cookie");
        if !wrong && !self.has("cookie") {
            return None;
        }
        let mut data = [&sent[..8], &[5; 8]].concat();
        data[7] ^= u8::from(wrong);
        Some((COOKIE, data))
    }

    /// Returns the octets of the reply to `query`; `None` for no reply.
    fn compose(&self, query: &Message<Vec<u8>>, tcp: bool) -> Option<Vec<u8>> {
        // Nobody can forge a reply on a connection of others.
        let forged_on_stream = tcp && self.has("wrong-case");
        if self.has("silent") || (tcp && self.has("silent-tcp")) || forged_on_stream {
            return None;
        }
        if self.has("garbage") || (tcp && self.has("garbage-tcp")) {
            let mut octets = query.as_slice().to_vec();
            octets[2] |= 0x80;
            octets[7] = 200;
            octets.extend([0xc0, 0xff, 0xff, 0xff, 0xff]);
            return Some(octets);
        }
        if self.has("scrap") {
            return Some(query.as_slice()[..7].to_vec());
        }
        let asked = query.sole_question().ok()?;
        let edns = Edns::of(query);
        // Names are compressed as real servers do: also with the question, as the sender spelled it.
        let target = StaticCompressor::new(Vec::new());
        let mut builder = MessageBuilder::from_target(target).expect("room");
        let header = builder.header_mut();
        header.set_id(query.header().id() ^ u16::from(self.has("wrong-id")));
        header.set_qr(true);
        header.set_rd(query.header().rd());
        header.set_ra(true);
        header.set_cd(query.header().cd());
        header.set_ad(self.has("ad"));
        header.set_aa(self.has("aa"));
        let cut = self.has("tc") && !tcp;
        header.set_tc(cut || self.has("tc-tcp"));
        let refused = self.has("formerr-opt") && edns.is_some();
        let unchecked = self.has("servfail-without-cd") && !query.header().cd();
        let rcode = match self.rcode {
            _ if cut => OptRcode::NOERROR,
            _ if refused => OptRcode::FORMERR,
            _ if unchecked => OptRcode::SERVFAIL,
            rcode => rcode.unwrap_or(OptRcode::NOERROR),
        };
        header.set_rcode(Rcode::masked_from_int((rcode.to_int() & 15) as u8));
        let mut question = builder.question();
        let name: Name<Vec<u8>> = match () {
            () if self.has("wrong-name") => "other.example".parse().expect("a name"),
            () if self.has("wrong-case") => flip(&asked.qname().to_string()),
            () => asked.qname().to_name(),
        };
        let rtype = if self.has("wrong-type") { Rtype::TXT } else { asked.qtype() };
        question.push((name, rtype, asked.qclass())).expect("a short message");
        let empty = [Vec::new(), Vec::new(), Vec::new()];
        let sections = if cut || refused || unchecked { &empty } else { &self.sections };
        let mut answer = question.answer();
        sections[0].iter().for_each(|r| answer.push(r).expect("a short message"));
        let mut authority = answer.authority();
        sections[1].iter().for_each(|r| authority.push(r).expect("a short message"));
        let mut additional = authority.additional();
        sections[2].iter().for_each(|r| additional.push(r).expect("a short message"));
        if let Some(edns) = edns.filter(|_| !self.has("no-opt") && !refused) {
            let echo = |ecs: &[u8]| {
                let mut data = [&ecs[..3], &[self.scope], &ecs[4..]].concat();
                let last = data.len() - 1;
                data[last] ^= u8::from(self.has("other-subnet"));
                (ECS, data)
            };
            let subnet = edns.option(ECS).filter(|_| !self.has("no-scope")).map(echo);
            let cookie = edns.option(COOKIE).and_then(|sent| self.cookie(sent));
            let own = self.options.iter().cloned();
            let options = subnet.into_iter().chain(cookie).chain(own).collect();
            let version = u8::from(self.has("edns-1"));
            let edns = Edns { size: 1232, version, dnssec: edns.dnssec, options };
            message::push_opt(&mut additional, &edns, rcode);
        }
        let mut octets = additional.finish().into_target();
        if self.has("octets-behind") {
            octets.extend([0, 1, 2]);
        }
        if self.has("mangled") {
            mangle(&mut octets, query.header().id());
        }
        Some(octets)
    }
}

/// Changes up to eight octets behind the question and may cut the end off; equal seeds give equal changes.
fn mangle(octets: &mut Vec<u8>, seed: u16) {
    let mut state = u32::from(seed) | 1;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    // The counts and the return code may change too, but the id and the question do not, so that the message
    // counts as a reply.
    let question = octets[12..].iter().position(|&octet| octet == 0).map_or(12, |end| 12 + end + 5);
    for _ in 0..=draw(8) {
        let places = octets.len() - question + 9;
        let place = draw(places);
        let at = if place < 9 { 3 + place } else { question + place - 9 };
        octets[at] = draw(256) as u8;
    }
    if draw(4) == 0 {
        octets.truncate(question + draw(octets.len() - question));
    }
}

/// Returns a name with the case of each letter changed.
fn flip(name: &str) -> Name<Vec<u8>> {
    let other = |c: char| {
        if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
    };
    name.chars().map(other).collect::<String>().parse().expect("a name")
}

/// Replies to the first query, the second, and so on; several replies to each.
type Turns = Vec<Vec<Scripted>>;

#[derive(Default)]
struct State {
    table: HashMap<(String, Rtype), (Turns, usize)>,
    /// Replies for each type to names that are not in the table.
    others: HashMap<Rtype, String>,
    asked: Vec<Asked>,
    /// Whether no query gets a reply.
    silent: bool,
    /// Whether held replies may be sent.
    released: bool,
}

impl State {
    /// Records a query; returns the replies to it.
    fn next_replies(&mut self, asked: Asked) -> Vec<Scripted> {
        let key = (asked.name.clone(), asked.rtype);
        self.asked.push(asked);
        if self.silent {
            return Vec::new();
        }
        if let Some((turns, next)) = self.table.get_mut(&key) {
            let next_replies = turns[(*next).min(turns.len() - 1)].clone();
            *next += 1;
            return next_replies;
        }
        // A name from a mangled reply may not be valid in a zone file; such a name does not exist.
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !key.0.chars().all(plain) {
            return vec![Scripted::parse("NXDOMAIN", "example")];
        }
        if let Some(text) = self.others.get(&key.1) {
            return parse(&text.replace('$', &key.0), &key.0).remove(0);
        }
        let known = self.others.values().next().is_some()
            || self.table.keys().any(|(name, _)| *name == key.0);
        vec![Scripted::parse(if known { "" } else { "NXDOMAIN" }, &key.0)]
    }
}

fn parse(text: &str, name: &str) -> Turns {
    let next_replies = |next_replies: &str| {
        next_replies.split("&&").map(|reply| Scripted::parse(reply, name)).collect()
    };
    text.split("||").map(next_replies).collect()
}

/// A scripted upstream; it ends when dropped.
pub(crate) struct Script {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Script {
    /// Starts an upstream on a free port of 127.0.0.1.
    pub(crate) fn start(table: &[(&str, &str)]) -> Self {
        Self::start_at(IpAddr::V4(Ipv4Addr::LOCALHOST), table).expect("loopback")
    }

    /// Starts an upstream on a free port of `address`.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(crate) fn start_at(address: IpAddr, table: &[(&str, &str)]) -> std::io::Result<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let (udp, tcp) = loop {
            // If it stops and starts again, its port must still be free.
            let port = next_port();
            match (UdpSocket::bind((address, port)), TcpListener::bind((address, port))) {
                (Ok(udp), Ok(tcp)) => break (udp, tcp),
                (Err(e), _) | (_, Err(e)) if e.kind() != std::io::ErrorKind::AddrInUse => {
                    return Err(e);
                }
                _ => {}
            }
        };
        let mut script =
            Script { state, address: udp.local_addr()?, end: Arc::default(), threads: Vec::new() };
        for (question, reply) in table {
            script.on(question, reply);
        }
        script.serve(udp, tcp);
        Ok(script)
    }

    fn serve(&mut self, udp: UdpSocket, tcp: TcpListener) {
        let (state, end) = (self.state.clone(), self.end.clone());
        self.threads.push(std::thread::spawn(move || serve_udp(&udp, &state, &end)));
        let (state, end) = (self.state.clone(), self.end.clone());
        self.threads.push(std::thread::spawn(move || serve_tcp(&tcp, &state, &end)));
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the replies to a question from now on.
    pub(crate) fn on(&self, question: &str, reply: &str) {
        let key = message::question(question);
        let reply = parse(reply, &key.0);
        lock(&self.state).table.insert(key, (reply, 0));
    }

    /// Sets the replies to questions of a type for all other names; `$` stands for the name.
    pub(crate) fn others(&self, rtype: Rtype, reply: &str) {
        lock(&self.state).others.insert(rtype, reply.to_owned());
    }

    /// Stops or starts all replies, whatever the script says.
    pub(crate) fn set_silent(&self, silent: bool) {
        lock(&self.state).silent = silent;
    }

    /// Sends the held replies and holds no more.
    pub(crate) fn release(&self) {
        lock(&self.state).released = true;
    }

    /// Returns the queries received so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        lock(&self.state).asked.clone()
    }

    /// Closes the sockets, so that queries reach a closed port.
    pub(crate) fn die(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().expect("no panic"));
    }

    /// Moves to another address with the same port.
    pub(crate) fn move_to(&mut self, ip: IpAddr) {
        self.die();
        self.address.set_ip(ip);
        self.come_back();
    }

    /// Opens the sockets again on the same port.
    pub(crate) fn come_back(&mut self) {
        self.end = Arc::default();
        // Its earlier connections may still be closing.
        for _ in 0..300 {
            if let (Ok(udp), Ok(tcp)) =
                (UdpSocket::bind(self.address), TcpListener::bind(self.address))
            {
                return self.serve(udp, tcp);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the port is taken");
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Its panic has already been reported.
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records a query; returns its replies.
fn take(
    octets: &[u8],
    from: SocketAddr,
    tcp: bool,
    state: &Mutex<State>,
) -> Option<(Message<Vec<u8>>, Vec<Scripted>)> {
    let query = Message::from_octets(octets.to_vec()).ok()?;
    let question = query.sole_question().ok()?;
    let spelling = question.qname().to_string();
    let asked = Asked {
        name: message::lower(&spelling),
        spelling,
        rtype: question.qtype(),
        tcp,
        from,
        id: query.header().id(),
        cd: query.header().cd(),
        edns: Edns::of(&query),
    };
    let next_replies = lock(state).next_replies(asked);
    Some((query, next_replies))
}

fn serve_udp(socket: &UdpSocket, state: &Mutex<State>, end: &AtomicBool) {
    socket.set_read_timeout(Some(TICK)).expect("a timeout");
    // Replies to send later.
    let mut later: Vec<(std::time::Instant, SocketAddr, Vec<u8>)> = Vec::new();
    let mut held: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
    let mut room = [0; 4096];
    while !end.load(Ordering::Relaxed) {
        let now = std::time::Instant::now();
        later.retain(|(due, to, octets)| {
            if *due > now {
                return true;
            }
            // A client that has gone is ignored.
            let _ = socket.send_to(octets, to);
            false
        });
        if lock(state).released {
            held.drain(..).for_each(|(to, octets)| drop(socket.send_to(&octets, to)));
        }
        let Ok((len, from)) = socket.recv_from(&mut room) else { continue };
        let Some((query, next_replies)) = take(&room[..len], from, false, state) else { continue };
        for scripted in next_replies {
            let Some(octets) = scripted.compose(&query, false) else { continue };
            if scripted.has("wrong-port") {
                let other = UdpSocket::bind((socket.local_addr().expect("bound").ip(), 0));
                let _ = other.expect("loopback").send_to(&octets, from);
            } else if scripted.has("hold") {
                held.push((from, octets));
            } else if scripted.delay.is_zero() {
                let _ = socket.send_to(&octets, from);
            } else {
                later.push((now + scripted.delay, from, octets));
            }
        }
    }
}

fn serve_tcp(listener: &TcpListener, state: &Arc<Mutex<State>>, end: &Arc<AtomicBool>) {
    listener.set_nonblocking(true).expect("loopback");
    let mut connections = Vec::new();
    while !end.load(Ordering::Relaxed) {
        let Ok((stream, from)) = listener.accept() else {
            std::thread::sleep(TICK / 4);
            continue;
        };
        let (state, end) = (state.clone(), end.clone());
        connections.push(std::thread::spawn(move || serve_stream(stream, from, &state, &end)));
    }
    connections.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// Answers the queries on one stream until the client closes it.
fn serve_stream(mut stream: TcpStream, from: SocketAddr, state: &Mutex<State>, end: &AtomicBool) {
    stream.set_nonblocking(false).expect("a stream");
    stream.set_read_timeout(Some(TICK)).expect("a timeout");
    let mut octets = Vec::new();
    let mut room = [0; 4096];
    while !end.load(Ordering::Relaxed) {
        match stream.read(&mut room) {
            Ok(0) => return,
            Ok(len) => octets.extend(&room[..len]),
            Err(_) => continue,
        }
        while let Some(len) = octets.first_chunk().map(|len| usize::from(u16::from_be_bytes(*len)))
            && octets.len() >= 2 + len
        {
            let message: Vec<u8> = octets.drain(..2 + len).skip(2).collect();
            let Some((query, next_replies)) = take(&message, from, true, state) else { return };
            for scripted in next_replies {
                if scripted.has("hang-up") {
                    return;
                }
                let Some(reply) = scripted.compose(&query, true) else { continue };
                std::thread::sleep(scripted.delay);
                let mut framed = (reply.len() as u16).to_be_bytes().to_vec();
                framed.extend(reply);
                if stream.write_all(&framed).is_err() || scripted.has("bye") {
                    return;
                }
            }
        }
    }
}
