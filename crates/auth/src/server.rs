//! The role of the AuthDNS: queries in, replies out, at once or delayed.

use engine::{Destination, Next, Role, RxBatch, TxBatch};
use measure::Nanos;
use wire::extend::{MAX_REPLY_OPTIONS, ReplyOptions};
use wire::message::OPT_FIXED;

use crate::config::AuthConfig;
use crate::delay::DelayQueue;
use crate::faults::{Fault, FaultSpec, Faults};
use crate::responder::{Kind, MAX_REPLY, Responder};

/// Counters of an AuthDNS. Replies with a fault count as the correct reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthCounters {
    /// Number of messages received.
    pub queries: u64,
    /// Number of replies with an answer.
    pub answers: u64,
    /// Number of NODATA replies.
    pub nodata: u64,
    /// Number of NXDOMAIN replies.
    pub nxdomain: u64,
    /// Number of replies with another return code.
    pub errors: u64,
    /// Number of messages without a reply: responses, and messages shorter than a header.
    pub ignored: u64,
    /// Number of replies with a fault, loss included.
    pub faults: u64,
    /// Number of messages and replies dropped because a batch or queue was full.
    pub overflow: u64,
}

impl AuthCounters {
    /// Adds the counters of another worker.
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

/// The AuthDNS of one worker.
#[derive(Debug)]
pub struct Auth {
    responder: Responder,
    faults: Faults,
    delayed: DelayQueue,
    counters: AuthCounters,
}

impl Auth {
    /// Returns an AuthDNS; its shares are exact if the configuration [is valid](AuthConfig::validate).
    pub fn new(config: AuthConfig) -> Self {
        let loss = FaultSpec { fault: Fault::Silent, share: config.loss };
        Auth {
            responder: Responder::new(&config),
            // Loss comes first, so that its distances are exactly even.
            faults: Faults::new([loss].into_iter().chain(config.faults)),
            delayed: DelayQueue::new(config.delay),
            counters: AuthCounters::default(),
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> AuthCounters {
        self.counters
    }

    /// Writes the correct reply to a message into `out` of [`MAX_REPLY`] octets; returns its length, `None` if there is
    /// no reply.
    #[inline]
    pub fn answer(&mut self, message: &[u8], out: &mut [u8]) -> Option<usize> {
        let reply = self.responder.reply(message, out);
        self.counters.queries += 1;
        self.counters.count(reply.kind);
        (reply.len > 0).then_some(reply.len)
    }

    /// Appends the correct reply to a message from a stream, with the requested options; appends nothing if there is no
    /// reply. `idle` is the idle timeout of the connection in units of 100 ms; `None` if it is not announced.
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

    /// Writes the reply to a datagram, correct or with a fault; returns its length (0 for no reply) and whether it is
    /// sent twice.
    #[inline]
    fn respond(&mut self, message: &[u8], out: &mut [u8]) -> (usize, bool) {
        let reply = self.responder.reply(message, out);
        self.counters.count(reply.kind);
        match self.faults.next(&reply) {
            None => (reply.len, false),
            Some(fault) => {
                self.counters.faults += 1;
                (fault.apply(&reply, out), fault == Fault::Duplicate)
            }
        }
    }

    /// Replies to one datagram without delay.
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

    /// Replies to one datagram after the delay.
    fn serve_delayed(&mut self, now: Nanos, to: Destination, message: &[u8]) {
        let mut out = [0; MAX_REPLY];
        let (len, twice) = self.respond(message, &mut out);
        for _ in 0..if len == 0 { 0 } else { 1 + u8::from(twice) } {
            self.counters.overflow += u64::from(!self.delayed.push(now, to, &out[..len]));
        }
    }
}

impl Role for Auth {
    #[inline]
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        self.counters.queries += rx.len() as u64;
        for received in rx.iter() {
            let to = Destination::reply_to(&received);
            if self.delayed.is_used() {
                self.serve_delayed(now, to, received.bytes);
            } else {
                self.serve(to, received.bytes, tx);
            }
        }
        self.delayed.release(now, tx)
    }
}
