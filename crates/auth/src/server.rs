//! The role: queries in, replies out, now or later.

use engine::{Destination, Next, Role, RxBatch, TxBatch};
use measure::Nanos;
use wire::extend::{MAX_REPLY_OPTIONS, ReplyOptions};
use wire::message::OPT_FIXED;

use crate::config::AuthConfig;
use crate::delay::DelayLine;
use crate::faults::{Fault, FaultSpec, Faults};
use crate::responder::{Kind, MAX_REPLY, Responder};

/// What an AuthDNS counts. Replies are counted by what they said, or would have said before they were spoiled.
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
    /// Replies dropped, doubled or spoiled on request.
    pub faults: u64,
    /// Messages and replies dropped for want of room.
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

    /// Counts a reply.
    #[inline]
    fn count(&mut self, kind: Kind) {
        let counter = match kind {
            Kind::None => &mut self.ignored,
            Kind::Answer => &mut self.answers,
            Kind::NoData => &mut self.nodata,
            Kind::NxDomain => &mut self.nxdomain,
            Kind::Error => &mut self.errors,
        };
        *counter += 1;
    }
}

/// One worker's AuthDNS.
#[derive(Debug)]
pub struct Auth {
    responder: Responder,
    faults: Faults,
    line: DelayLine,
    counters: AuthCounters,
}

impl Auth {
    /// An AuthDNS as configured; a configuration that [is valid](AuthConfig::validate) keeps its shares.
    pub fn new(config: AuthConfig) -> Self {
        let loss = FaultSpec { fault: Fault::Silent, share: config.loss };
        Auth {
            responder: Responder::new(&config),
            // Loss first: its replies are missing at exactly even distances.
            faults: Faults::new([loss].into_iter().chain(config.faults)),
            line: DelayLine::new(config.delay),
            counters: AuthCounters::default(),
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> AuthCounters {
        self.counters
    }

    /// The honest reply to a message, written to `out` of [`MAX_REPLY`] octets; its length, `None` when there is none.
    #[inline]
    pub fn answer(&mut self, message: &[u8], out: &mut [u8]) -> Option<usize> {
        let reply = self.responder.reply(message, out);
        self.counters.queries += 1;
        self.counters.count(reply.kind);
        (reply.len > 0).then_some(reply.len)
    }

    /// Appends the honest reply to a message that came by a stream, with the options that it asks for. `idle`: for how
    /// long the connection may be without a query, 100 ms; `None` where that is not said. Nothing where there is no
    /// reply.
    #[inline]
    pub fn answer_stream(&mut self, message: &[u8], idle: Option<u16>, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + MAX_REPLY, 0);
        let reply = self.responder.reply(message, &mut out[at..]);
        self.counters.queries += 1;
        self.counters.count(reply.kind);
        let mut len = reply.len;
        if let Some(opt) = len.checked_sub(OPT_FIXED).filter(|_| reply.has_opt) {
            let keepalive = reply.options.keepalive.and(idle);
            let options = ReplyOptions { keepalive, ..reply.options };
            if !options.is_empty() {
                out.resize(at + MAX_REPLY + MAX_REPLY_OPTIONS, 0);
                len = options.add(&mut out[at..], opt, len, usize::MAX);
            }
        }
        out.truncate(at + len);
    }

    /// The reply to a datagram, honest or not; its length (zero for none) and whether it is sent twice.
    #[inline]
    fn respond(&mut self, message: &[u8], out: &mut [u8]) -> (usize, bool) {
        let reply = self.responder.reply(message, out);
        self.counters.count(reply.kind);
        match self.faults.next(&reply) {
            None => (reply.len, false),
            Some(fault) => {
                self.counters.faults += 1;
                (fault.spoil(&reply, out), fault == Fault::Duplicate)
            }
        }
    }

    /// Replies to one datagram at once.
    #[inline]
    fn serve(&mut self, to: Destination, message: &[u8], tx: &mut TxBatch) {
        let mut twice = false;
        let mut pushed = tx.push(to, MAX_REPLY, |out| {
            let len;
            (len, twice) = self.respond(message, out);
            len
        });
        if twice {
            pushed &= tx.push(to, MAX_REPLY, |out| self.responder.reply(message, out).len);
        }
        self.counters.overflow += u64::from(!pushed);
    }

    /// Replies to one datagram later.
    fn serve_later(&mut self, now: Nanos, to: Destination, message: &[u8]) {
        let mut out = [0; MAX_REPLY];
        let (len, twice) = self.respond(message, &mut out);
        for _ in 0..if len == 0 { 0 } else { 1 + u8::from(twice) } {
            self.counters.overflow += u64::from(!self.line.hold(now, to, &out[..len]));
        }
    }
}

impl Role for Auth {
    #[inline]
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        self.counters.queries += rx.len() as u64;
        for received in rx.iter() {
            let to = Destination::reply_to(&received);
            if self.line.is_used() {
                self.serve_later(now, to, received.bytes);
            } else {
                self.serve(to, received.bytes, tx);
            }
        }
        self.line.release(now, tx)
    }
}
