//! The role of the AuthDNS: queries in, replies out, at once or delayed.
//!
//! ```text
//! query ──> stall ──────> bucket ──> reply ──> fault ──> lane ──> reply
//!           waits in      else none                      its delay
//!           the socket
//! ```
//!
//! Over a stream all of it happens when the query comes: the stream server is told when to send the
//! reply, how often, or never.

use std::net::IpAddr;
use std::sync::Arc;

use engine::stream::Leaves;
use engine::{Destination, Next, Role, RxBatch, TxBatch};
use measure::Nanos;
use wire::extend::{MAX_REPLY_OPTIONS, ReplyOptions};
use wire::message::OPT_FIXED;

use crate::behaviour::{Late, Latency};
use crate::config::AuthConfig;
use crate::delay::DelayQueue;
use crate::faults::{EvenShare, Fault, FaultSpec, Faults};
use crate::internet::{Carrier, InternetConfig, MAX_DATAGRAM, MAX_STREAMED};
use crate::queried_names::QueriedNames;
use crate::reply::{Reply, ReplyKind};
use crate::responder::{MAX_REPLY, Responder};
use crate::shared::SharedStart;
use crate::traps::MAX_LARGE_REPLY;

/// Counters of an AuthDNS. Replies with a fault count as the correct reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthCounters {
    /// Number of connections that were accepted.
    pub connections: u64,
    /// Number of messages received, readable or not.
    pub queries: u64,
    /// Number of replies with an answer.
    pub answers: u64,
    /// Number of replies that say that the name has no record of the type.
    pub nodata: u64,
    /// Number of replies that say that the name does not exist.
    pub nxdomain: u64,
    /// Number of referrals to zones below, of the Internet in a box.
    pub referrals: u64,
    /// Number of replies with another return code.
    pub errors: u64,
    /// Number of messages without a reply: responses, and messages shorter than a header.
    pub ignored: u64,
    /// Number of replies with a fault, loss included.
    pub faults: u64,
    /// Number of messages dropped because the rate exceeded the capacity.
    pub over_capacity: u64,
    /// Number of replies that were late by intention.
    pub late: u64,
    /// Number of messages and replies dropped because a batch was full, or because too many delayed replies waited.
    pub overflow: u64,
}

impl AuthCounters {
    /// Adds the counters of another worker.
    pub fn merge(&mut self, other: &AuthCounters) {
        self.connections += other.connections;
        self.queries += other.queries;
        self.answers += other.answers;
        self.nodata += other.nodata;
        self.nxdomain += other.nxdomain;
        self.referrals += other.referrals;
        self.errors += other.errors;
        self.ignored += other.ignored;
        self.faults += other.faults;
        self.over_capacity += other.over_capacity;
        self.late += other.late;
        self.overflow += other.overflow;
    }

    #[inline]
    fn count(&mut self, kind: ReplyKind) {
        let counter = match kind {
            ReplyKind::None => &mut self.ignored,
            ReplyKind::Answer => &mut self.answers,
            ReplyKind::NoData => &mut self.nodata,
            ReplyKind::NxDomain => &mut self.nxdomain,
            ReplyKind::Referral => &mut self.referrals,
            ReplyKind::Error => &mut self.errors,
        };
        *counter += 1;
    }
}

/// The choice of a lane for each reply; a reply that is neither slow nor late takes lane 0.
#[derive(Debug)]
struct Lanes {
    /// Replies with the low one of two latencies.
    low: EvenShare,
    /// Lane of the replies with the high latency; the only lane if there is one latency.
    slow: usize,
    late: EvenShare,
}

impl Lanes {
    const LATE_LANE: usize = 2;

    /// Returns the choice, and the delay of each lane; no lanes if every reply is sent at once.
    fn new(config: &AuthConfig) -> (Self, Vec<Nanos>) {
        let of_servers = config.internet.as_ref().filter(|box_| !box_.delays.is_empty());
        if let Some(internet) = of_servers {
            let never = EvenShare::new(0.0);
            return (Lanes { low: never, slow: 0, late: never }, internet.delays.clone());
        }
        let (share, low, high) = match config.latency {
            Some(Latency::Bimodal { share, low, high }) => (share, low, high),
            None => (1.0, config.delay, config.delay),
        };
        let Late { share: late, after } = config.late.unwrap_or(Late { share: 0.0, after: high });
        let lanes = Lanes {
            low: EvenShare::new(share),
            slow: usize::from(config.latency.is_some()),
            late: EvenShare::new(late),
        };
        let at_once = [low, high, after] == [Nanos::ZERO; 3] && config.stall.is_none();
        (lanes, if at_once { Vec::new() } else { vec![low, high, after] })
    }

    /// Returns the lane of the next reply.
    #[inline]
    fn next(&mut self) -> usize {
        let (is_low, is_late) = (self.low.select(), self.late.select());
        match (is_late, is_low) {
            (true, _) => Self::LATE_LANE,
            (false, true) => 0,
            (false, false) => self.slow,
        }
    }
}

/// Arrival of a message over a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streamed {
    /// Time at which the message was read.
    pub at: Nanos,
    /// Time at which the connection was accepted, if it carries one message after the other.
    pub accepted: Option<Nanos>,
    /// Address of this end; `None` if it is not known.
    pub server: Option<IpAddr>,
    /// Idle timeout of the connection in units of 100 ms; `None` if it is not announced.
    pub idle: Option<u16>,
}

/// The AuthDNS of one worker.
#[derive(Debug)]
pub struct Auth {
    responder: Responder,
    /// The Internet in a box, which answers in place of the responder.
    internet: Option<InternetConfig>,
    faults: Faults,
    lanes: Lanes,
    delayed: DelayQueue,
    shared: Arc<SharedStart>,
    /// Queried names, and the number of messages, if they are remembered.
    queried_names: Option<Arc<QueriedNames>>,
    /// Largest size of a reply in a datagram, and over a stream, in octets.
    datagram_room: usize,
    stream_room: usize,
    /// End of the stall of the last call; in the past outside of a stall.
    paused_until: Nanos,
    counters: AuthCounters,
}

impl Auth {
    /// Returns an AuthDNS with one worker; its shares are exact if the configuration
    /// [is valid](AuthConfig::validate).
    pub fn new(config: AuthConfig) -> Self {
        let shared = SharedStart::new(config.capacity, config.stall);
        let queried_names = config.remember.then(|| Arc::new(QueriedNames::new()));
        Self::worker(config, shared, queried_names)
    }

    /// Returns the `count` workers of an AuthDNS, which share the capacity and the queried names,
    /// and stall at the same times.
    pub fn workers(config: &AuthConfig, count: usize) -> Vec<Self> {
        let shared = SharedStart::new(config.capacity, config.stall);
        let queried_names = config.remember.then(|| Arc::new(QueriedNames::new()));
        (0..count)
            .map(|_| Self::worker(config.clone(), shared.clone(), queried_names.clone()))
            .collect()
    }

    /// Makes one of several workers that share a bucket and a memory.
    fn worker(
        config: AuthConfig,
        shared: Arc<SharedStart>,
        queried_names: Option<Arc<QueriedNames>>,
    ) -> Self {
        let loss = FaultSpec { fault: Fault::Silent, share: config.loss };
        let (lanes, delays) = Lanes::new(&config);
        let (datagram_room, stream_room) = match (&config.internet, config.traps) {
            (Some(_), _) => (MAX_DATAGRAM, MAX_STREAMED),
            (None, true) => (MAX_REPLY, MAX_LARGE_REPLY),
            (None, false) => (MAX_REPLY, MAX_REPLY),
        };
        Auth {
            responder: Responder::new(&config),
            internet: config.internet,
            // Loss is the first fault, so that lost replies are exactly evenly spaced.
            faults: Faults::new([loss].into_iter().chain(config.faults)),
            lanes,
            delayed: DelayQueue::new(&delays, datagram_room),
            shared,
            queried_names,
            datagram_room,
            stream_room,
            paused_until: Nanos::ZERO,
            counters: AuthCounters::default(),
        }
    }

    /// Returns the counts since the start.
    pub fn counters(&self) -> AuthCounters {
        self.counters
    }

    /// Writes the correct reply to a message into `out` of [`MAX_REPLY`] octets; returns its length, `None` if there is
    /// no reply.
    #[inline]
    pub fn answer(&mut self, message: &[u8], out: &mut [u8]) -> Option<usize> {
        self.count_received(1);
        let reply = self.reply(None, Carrier::Datagram, message, out);
        self.counters.count(reply.kind);
        (reply.len > 0).then_some(reply.len)
    }

    /// Appends the reply to a message from a stream, correct or with a fault, with the requested options; returns when it leaves.
    /// Nothing is appended if there is no reply.
    #[inline]
    pub fn answer_stream(&mut self, how: Streamed, message: &[u8], out: &mut Vec<u8>) -> Leaves {
        let start = self.shared.start(how.at);
        self.count_received(1);
        let since = self.shared.resume(how.at.since(start));
        if !self.shared.take(since) {
            self.counters.over_capacity += 1;
            return Leaves::Never;
        }
        let (at, room) = (out.len(), self.stream_room);
        out.resize(at + room, 0);
        let reply = self.reply(how.server, Carrier::Stream, message, &mut out[at..]);
        self.counters.count(reply.kind);
        let fault = self.fault(&reply, Carrier::Stream);
        let mut len = fault.map_or(reply.len, |fault| fault.apply(&reply, &mut out[at..]));
        let opt = len.checked_sub(OPT_FIXED).filter(|_| reply.has_opt && fault != Some(Fault::Cut));
        if let Some(opt) = opt {
            let keepalive = reply.options.keepalive.and(how.idle);
            let options = ReplyOptions { keepalive, ..reply.options };
            if !options.is_empty() {
                out.resize(at + room + MAX_REPLY_OPTIONS, 0);
                len = options.add(&mut out[at..], opt, len, usize::MAX);
            }
        }
        out.truncate(at + len);
        let copies = 1 + u8::from(fault == Some(Fault::Duplicate));
        match (reply.len, len) {
            (0, _) => Leaves::AtOnce,
            (_, 0) => Leaves::Never,
            _ if self.delayed.is_used() => {
                let lane = self.lane(how.server);
                let delay = self.delayed.delay(lane);
                // A client of a far server could not send before the end of its handshake; here the
                // kernel completes the handshake at once.
                let far = self.internet.as_ref().and(how.accepted);
                let from = far.map_or(since, |at| since.max(at.since(start) + delay));
                Leaves::At(start + self.shared.resume(from + delay), copies)
            }
            _ if copies > 1 => Leaves::At(how.at, copies),
            _ => Leaves::AtOnce,
        }
    }

    #[inline]
    fn count_received(&mut self, messages: usize) {
        self.counters.queries += messages as u64;
        if let Some(asked) = self.queried_names.as_ref().filter(|_| messages > 0) {
            asked.count(messages);
        }
    }

    /// Writes the correct reply to a message to `server`, and remembers its name.
    #[inline]
    fn reply(
        &self,
        server: Option<IpAddr>,
        carrier: Carrier,
        message: &[u8],
        out: &mut [u8],
    ) -> Reply {
        if let Some(internet) = &self.internet {
            return internet.reply(server, message, carrier, out);
        }
        let limit = if carrier == Carrier::Stream { self.stream_room } else { MAX_REPLY };
        let reply = self.responder.reply(message, out, limit);
        match (&self.queried_names, reply.host) {
            (Some(asked), Some(address)) => asked.note(address),
            (Some(asked), None) if reply.kind == ReplyKind::Error => {
                return self.responder.remembered(message, asked, out).unwrap_or(reply);
            }
            _ => {}
        }
        reply
    }

    /// Writes the reply to a datagram, correct or with a fault; returns its length (0 for no reply) and whether it is
    /// sent twice.
    #[inline]
    fn respond(&mut self, to: Destination, message: &[u8], out: &mut [u8]) -> (usize, bool) {
        let reply = self.reply(server(to), Carrier::Datagram, message, out);
        self.counters.count(reply.kind);
        match self.fault(&reply, Carrier::Datagram) {
            None => (reply.len, false),
            Some(fault) => (fault.apply(&reply, out), fault == Fault::Duplicate),
        }
    }

    /// Returns the fault of a reply, if it has one, and counts it.
    #[inline]
    fn fault(&mut self, reply: &Reply, carrier: Carrier) -> Option<Fault> {
        let fault = self.faults.next(reply, carrier);
        self.counters.faults += u64::from(fault.is_some());
        fault
    }

    /// Returns the lane of the next delayed reply, from the address `server`.
    fn lane(&mut self, server: Option<IpAddr>) -> usize {
        match &self.internet {
            Some(internet) if !internet.delays.is_empty() => internet.lane(server),
            _ => {
                let lane = self.lanes.next();
                self.counters.late += u64::from(lane == Lanes::LATE_LANE);
                lane
            }
        }
    }

    /// Replies to one datagram without delay.
    #[inline]
    fn serve(&mut self, to: Destination, message: &[u8], tx: &mut TxBatch) {
        let (mut twice, room) = (false, self.datagram_room);
        let mut pushed = tx.push(to, room, |out| {
            let len;
            (len, twice) = self.respond(to, message, out);
            len
        });
        if twice {
            let again =
                |out: &mut [u8]| self.reply(server(to), Carrier::Datagram, message, out).len;
            pushed &= tx.push(to, room, again);
        }
        self.counters.overflow += u64::from(!pushed);
    }

    /// Replies to one datagram after the delay of its lane, for a query received at `from`.
    fn serve_delayed(&mut self, from: Nanos, to: Destination, message: &[u8]) {
        let mut out = [0; MAX_DATAGRAM];
        let (len, twice) = self.respond(to, message, &mut out[..self.datagram_room]);
        if len == 0 {
            return;
        }
        let lane = self.lane(server(to));
        for _ in 0..1 + u8::from(twice) {
            self.counters.overflow += u64::from(!self.delayed.push(lane, from, to, &out[..len]));
        }
    }

    /// Sends the delayed replies that are due, and none in a stall; returns when to call again.
    fn release(&mut self, now: Nanos, start: Nanos, tx: &mut TxBatch) -> Next {
        let Some(stall) = self.shared.stall() else { return self.delayed.release(now, tx) };
        let since = now.since(start);
        let resume = start + stall.resume(since);
        if resume > now {
            self.paused_until = resume;
            return Next::At(resume);
        }
        let stalls_at = start + stall.next(since);
        match self.delayed.release(now, tx) {
            Next::Idle => Next::At(stalls_at),
            Next::At(due) => Next::At(due.min(stalls_at)),
            other => other,
        }
    }
}

/// Returns the address that a reply comes from: on a wildcard socket the address that was queried.
fn server(to: Destination) -> Option<IpAddr> {
    match to {
        Destination::Peer { from, .. } => from,
        Destination::Connected(_) => None,
    }
}

impl Role for Auth {
    #[inline]
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        let start = self.shared.start(now);
        self.count_received(rx.len());
        for received in rx.iter() {
            // A query that waited during a stall counts as received at the end of the stall.
            let since = self.shared.resume(received.at.since(start));
            if !self.shared.take(since) {
                self.counters.over_capacity += 1;
                continue;
            }
            let to = Destination::reply_to(&received);
            if self.delayed.is_used() {
                self.serve_delayed(start + since, to, received.bytes);
            } else {
                self.serve(to, received.bytes, tx);
            }
        }
        self.release(now, start, tx)
    }

    fn paused_until(&self) -> Nanos {
        self.paused_until
    }
}
