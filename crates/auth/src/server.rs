//! The role: queries in, replies out, now or later.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use measure::Nanos;
use net::{Destination, Next, Role, RxBatch, TxBatch};
use wire::message::flag;
use wire::namespace::LABEL;
use wire::writer::pointer;
use wire::{Namespace, Owner, Qclass, Qtype, Query, QueryError, Rcode, ReplyWriter};

use crate::config::AuthConfig;
use crate::faults::{Every, Fault};
use crate::zone::{Located, Node, Zones};

/// The longest reply, bytes: every answer of these zones fits the least size of UDP messages.
pub const MAX_REPLY: usize = 512;
/// What our EDNS says we take (the DNS flag day's size).
const OUR_UDP_SIZE: u16 = 1_232;
/// Replies held back at once; over it the newest is dropped and counted.
const MAX_DELAYED: usize = 1 << 16;
/// Host information (RFC 1035), the type of the smallest answer to ANY.
const HINFO: Qtype = Qtype(13);
/// The SOA's serial, refresh, retry and expire.
const SOA_TIMES: [u32; 4] = [2_026_010_100, 604_800, 86_400, 2_419_200];

/// What an AuthDNS counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthCounters {
    /// Messages received.
    pub queries: u64,
    /// Replies with an answer.
    pub answers: u64,
    /// Replies that say that there is no record of that type.
    pub nodata: u64,
    /// Replies that say that there is no such name.
    pub nxdomain: u64,
    /// Replies with another return code.
    pub errors: u64,
    /// Messages that got no reply: responses, scraps.
    pub ignored: u64,
    /// Replies dropped on request, or spoiled.
    pub faults: u64,
    /// Replies dropped for want of room.
    pub overflow: u64,
}

impl AuthCounters {
    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &AuthCounters) {
        self.queries += other.queries;
        self.answers += other.answers;
        self.nodata += other.nodata;
        self.nxdomain += other.nxdomain;
        self.errors += other.errors;
        self.ignored += other.ignored;
        self.faults += other.faults;
        self.overflow += other.overflow;
    }
}

/// A reply held back.
#[derive(Debug)]
struct Delayed {
    due: Nanos,
    to: Destination,
    len: usize,
    bytes: [u8; MAX_REPLY],
}

/// One worker's AuthDNS.
#[derive(Debug)]
pub struct Auth {
    zones: Zones,
    loss: Every,
    faults: Vec<(Fault, Every)>,
    delayed: VecDeque<Delayed>,
    counters: AuthCounters,
}

impl Auth {
    /// An AuthDNS as configured.
    pub fn new(config: AuthConfig) -> Self {
        Auth {
            loss: Every::new(config.loss),
            faults: config.faults.iter().map(|f| (f.fault, Every::new(f.share))).collect(),
            delayed: VecDeque::new(),
            counters: AuthCounters::default(),
            zones: Zones::new(config),
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> AuthCounters {
        self.counters
    }

    /// The honest reply to a message, written to `out`; its length, `None` when there is none.
    #[inline]
    pub fn answer(&mut self, message: &[u8], out: &mut [u8]) -> Option<usize> {
        self.reply(message, out, None)
    }

    /// The reply to a message, spoiled by `fault`.
    #[inline]
    fn reply(&mut self, message: &[u8], out: &mut [u8], fault: Option<Fault>) -> Option<usize> {
        self.counters.queries += 1;
        let query = match Query::parse(message) {
            Ok(query) => query,
            Err(error) => {
                let counter = if error == QueryError::Drop {
                    &mut self.counters.ignored
                } else {
                    &mut self.counters.errors
                };
                *counter += 1;
                return error.reply(out);
            }
        };
        let mut writer = ReplyWriter::new(out, MAX_REPLY, &query)?;
        if let Some(edns) = &query.edns {
            writer.opt(OUR_UDP_SIZE, edns.do_bit);
        }
        if query.bad_version() {
            self.counters.errors += 1;
            writer.rcode(Rcode::BADVERS);
            return Some(writer.finish());
        }
        let located =
            if query.qclass == Qclass::IN { self.zones.locate(query.qname) } else { None };
        match (located, fault) {
            (_, Some(Fault::Servfail)) => {
                self.counters.errors += 1;
                writer.rcode(Rcode::SERVFAIL);
            }
            (None, _) => {
                self.counters.errors += 1;
                writer.rcode(Rcode::REFUSED);
            }
            (Some(located), _) => {
                writer.flag(flag::AA, true);
                self.fill(&mut writer, &query, located, fault == Some(Fault::WrongAddress));
            }
        }
        if fault == Some(Fault::Truncate) {
            writer.truncate();
        }
        Some(writer.finish())
    }

    /// The records of a name of ours.
    #[inline]
    fn fill(
        &mut self,
        writer: &mut ReplyWriter<'_>,
        query: &Query<'_>,
        located: Located,
        lie: bool,
    ) {
        let config = self.zones.config();
        let answered = match (located.node, query.qtype) {
            (Node::Missing, _) => {
                self.counters.nxdomain += 1;
                writer.rcode(Rcode::NXDOMAIN);
                return self.soa(writer, query, located, true);
            }
            (Node::Empty, _) => false,
            // RFC 8482 section 4.2: the smallest answer that is one.
            (_, Qtype::ANY) => {
                writer.answer(Owner::Question, HINFO, config.ttl, b"\x07RFC8482\x00")
            }
            (Node::Host(address), Qtype::A) => {
                let octets = flip(address, lie).octets();
                writer.answer(Owner::Question, Qtype::A, config.ttl, &octets)
            }
            (Node::Host(address), Qtype::AAAA) if self.zones.has_aaaa(address) => {
                let embedded = config.pref64.embed(flip(address, lie)).octets();
                writer.answer(Owner::Question, Qtype::AAAA, config.ttl, &embedded)
            }
            (Node::Reverse(address), Qtype::PTR) => {
                let mut rdata = [0; 1 + LABEL + wire::name::MAX_NAME];
                let zone = config.namespace.zone().as_wire();
                rdata[0] = LABEL as u8;
                Namespace::write_label(
                    flip(address, lie),
                    rdata[1..].first_chunk_mut().expect("long enough"),
                );
                rdata[1 + LABEL..][..zone.len()].copy_from_slice(zone);
                writer.answer(
                    Owner::Question,
                    Qtype::PTR,
                    config.ttl,
                    &rdata[..1 + LABEL + zone.len()],
                )
            }
            (Node::NameServer, Qtype::A) => {
                writer.answer(Owner::Question, Qtype::A, config.ttl, &config.ns_address.0.octets())
            }
            (Node::NameServer, Qtype::AAAA) => writer.answer(
                Owner::Question,
                Qtype::AAAA,
                config.ttl,
                &config.ns_address.1.octets(),
            ),
            (Node::Apex, Qtype::NS) => self.name_server(writer),
            (Node::Apex, Qtype::SOA) => {
                self.soa(writer, query, located, false);
                true
            }
            _ => false,
        };
        if answered {
            self.counters.answers += 1;
        } else {
            self.counters.nodata += 1;
            self.soa(writer, query, located, true);
        }
    }

    /// The NS record of a zone, and the server's addresses.
    fn name_server(&self, writer: &mut ReplyWriter<'_>) -> bool {
        let config = self.zones.config();
        let Ok(name) = config.namespace.zone().prepend(b"ns1") else { return false };
        if !writer.answer(Owner::Question, Qtype::NS, config.ttl, name.as_wire()) {
            return false;
        }
        writer.additional(
            Owner::Name(name.as_wire()),
            Qtype::A,
            config.ttl,
            &config.ns_address.0.octets(),
        );
        writer.additional(
            Owner::Name(name.as_wire()),
            Qtype::AAAA,
            config.ttl,
            &config.ns_address.1.octets(),
        );
        true
    }

    /// The SOA of the zone that the name lies in: as the answer, or in the authority section, where its TTL is the
    /// negative TTL (RFC 2308 section 3: the lesser of MINIMUM and the SOA's own).
    #[inline]
    fn soa(
        &self,
        writer: &mut ReplyWriter<'_>,
        query: &Query<'_>,
        located: Located,
        negative: bool,
    ) {
        let config = self.zones.config();
        let zone_at = (wire::message::HEADER + located.zone_at) as u16;
        debug_assert!(located.zone_at < query.qname.len());
        let mut numbers = [0; 20];
        for (bytes, number) in
            numbers.chunks_exact_mut(4).zip(SOA_TIMES.into_iter().chain([config.negative_ttl]))
        {
            bytes.copy_from_slice(&number.to_be_bytes());
        }
        let zone = pointer(zone_at);
        let rdata: [&[u8]; 5] = [b"\x03ns1", &zone, b"\x0ahostmaster", &zone, &numbers];
        if negative {
            writer.authority(
                Owner::At(zone_at),
                Qtype::SOA,
                config.soa_ttl.min(config.negative_ttl),
                &rdata,
            );
        } else {
            writer.answer(Owner::At(zone_at), Qtype::SOA, config.soa_ttl, &rdata.concat());
        }
    }

    /// The fault that the next reply suffers; `None` for an honest reply.
    #[inline]
    fn next_fault(&mut self) -> Option<Fault> {
        if self.loss.hit() {
            return Some(Fault::Silent);
        }
        self.faults.iter_mut().find_map(|(fault, every)| every.hit().then_some(*fault))
    }

    /// Replies to one datagram.
    #[inline]
    fn serve(&mut self, now: Nanos, to: Destination, message: &[u8], tx: &mut TxBatch) {
        let fault = self.next_fault();
        self.counters.faults += u64::from(fault.is_some());
        if fault == Some(Fault::Silent) {
            self.counters.queries += 1;
            return;
        }
        if self.zones.config().delay > Nanos::ZERO {
            return self.delay(now, to, message, fault);
        }
        let copies = if fault == Some(Fault::Duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let pushed = tx.push(to, MAX_REPLY, |out| {
                let len = self.reply(message, out, fault).unwrap_or(0);
                spoil(&mut out[..len], fault)
            });
            self.counters.overflow += u64::from(!pushed);
        }
    }

    /// Holds the reply to one datagram back.
    fn delay(&mut self, now: Nanos, to: Destination, message: &[u8], fault: Option<Fault>) {
        if self.delayed.len() == MAX_DELAYED {
            self.counters.overflow += 1;
            return;
        }
        let mut bytes = [0; MAX_REPLY];
        let len = self.reply(message, &mut bytes, fault).unwrap_or(0);
        let len = spoil(&mut bytes[..len], fault);
        let due = now + self.zones.config().delay;
        for _ in 0..if fault == Some(Fault::Duplicate) { 2 } else { 1 } {
            self.delayed.push_back(Delayed { due, to, len, bytes });
        }
    }

    /// Sends what was held back long enough; when the next is due.
    fn release(&mut self, now: Nanos, tx: &mut TxBatch) -> Next {
        while let Some(reply) = self.delayed.front() {
            if reply.due > now {
                return Next::At(reply.due);
            }
            let pushed = tx.push(reply.to, MAX_REPLY, |out| {
                out[..reply.len].copy_from_slice(&reply.bytes[..reply.len]);
                reply.len
            });
            if !pushed {
                return Next::Now;
            }
            self.delayed.pop_front();
        }
        Next::Idle
    }
}

impl Role for Auth {
    #[inline]
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        for received in rx.iter() {
            self.serve(now, Destination::reply_to(&received), received.bytes, tx);
        }
        self.release(now, tx)
    }
}

/// Another address, when lying.
fn flip(address: Ipv4Addr, lie: bool) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(address) ^ u32::from(lie))
}

/// Does to the bytes of a reply what the fault wants; the new length.
fn spoil(reply: &mut [u8], fault: Option<Fault>) -> usize {
    let len = reply.len();
    match fault {
        Some(Fault::WrongId) if len >= 2 => reply[0] ^= 0x55,
        Some(Fault::WrongQuestion) if len > 13 && reply[12] > 0 => {
            reply[13] = if reply[13] == b'9' { b'8' } else { b'9' }
        }
        Some(Fault::Cut) => return len - (len / 4).min(9),
        _ => {}
    }
    len
}
