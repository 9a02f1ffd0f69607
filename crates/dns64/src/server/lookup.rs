//! Queries to upstream: sent, sent again, answered.

use engine::{Destination, Received, SocketId, TxBatch};
use measure::Nanos;
use rand_chacha::rand_core::RngCore;
use wire::edns::opt_fixed;
use wire::message::{HEADER, Header, OPT_FIXED, flag};
use wire::{Name, Qclass, Qtype};

use super::Dns64;
use crate::config::Transport;
use crate::policy::View;
use crate::question::{Case, Key, KeyFlags};
use crate::reply::Reply;
use crate::streams::ToStreams;
use crate::transaction::{Path, Phase, Transaction};
use crate::upstream::{OtherCase, ServerId};

/// Ids that are tried until one is free on a socket; with 64 queries on one at most eight times the work of one.
const ID_TRIES: usize = 16;
/// The most of a query to upstream.
const MAX_QUERY: usize = HEADER + 255 + 4 + OPT_FIXED;
/// The longest wait for a reply.
const MAX_TIMEOUT: Nanos = Nanos::from_secs(20);

/// What became of a lookup.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome<'a> {
    Reply(Reply<'a>),
    /// A return code without the question: an error.
    Refused,
    /// No reply, or none that could be read.
    Nothing,
}

impl Outcome<'_> {
    /// Whether the server could not, or would not, answer.
    fn is_error(&self) -> bool {
        match self {
            Outcome::Reply(reply) => !matches!(reply.rcode, 0 | 3),
            Outcome::Refused => true,
            Outcome::Nothing => false,
        }
    }

    /// Whether it may be an error of a server that knows no EDNS (RFC 6891 section 7); one that does answers with it.
    fn dislikes_edns(&self) -> bool {
        match self {
            Outcome::Reply(reply) => matches!(reply.rcode, 1 | 4) && !reply.has_edns(),
            Outcome::Refused => true,
            Outcome::Nothing => false,
        }
    }
}

impl Dns64 {
    /// Asks for the name that a question has come to.
    pub(super) fn begin(
        &mut self,
        t: u32,
        slot: usize,
        qtype: Qtype,
        now: Nanos,
        tx: &mut TxBatch,
    ) {
        let lookup = &mut self.transactions[t].lookups[slot];
        (lookup.qtype, lookup.attempts, lookup.plain) = (qtype, 0, false);
        self.send(t, slot, None, now, tx);
    }

    /// Sends a lookup, to another server than `not` if there is one.
    fn send(&mut self, t: u32, slot: usize, not: Option<ServerId>, now: Nanos, tx: &mut TxBatch) {
        let only = self.transactions[t].only;
        let server = only.unwrap_or_else(|| self.upstreams.choose(not, &mut self.rng));
        if self.by_stream() {
            let lookup = &mut self.transactions[t].lookups[slot];
            lookup.attempts += 1;
            (lookup.server, lookup.sent) = (server, now);
            self.counters.upstream_queries += 1;
            self.counters.upstream_retries += u64::from(lookup.attempts > 1);
            return self.ask_by_stream(t, slot, now);
        }
        let seed = if self.upstreams.mixes_case(server) { self.rng.next_u64() } else { 0 };
        let path = match self.upstreams.take_socket(server, &mut self.rng) {
            Some(socket) => self.send_on(socket, t, slot, seed, tx),
            None => Path::Unsent,
        };
        let config = &self.settings.config.upstream;
        let lookup = &mut self.transactions[t].lookups[slot];
        lookup.attempts += 1;
        (lookup.path, lookup.server) = (path, server);
        (lookup.case_seed, lookup.sent) = (seed, now);
        self.counters.upstream_queries += 1;
        self.counters.upstream_retries += u64::from(lookup.attempts > 1);
        // Twice as long each time, never shorter than the server is used to, and up to a tenth more or less.
        let usual = self.upstreams.server(server).rtt;
        let base = config.first_timeout.max(Nanos(usual.0.saturating_mul(3)));
        let backed_off = Nanos(base.0 << (lookup.attempts - 1).min(8)).min(MAX_TIMEOUT);
        let jitter = self.rng.next_u64() % (backed_off.0 / 5 + 1);
        let timeout = Nanos(backed_off.0 - backed_off.0 / 10 + jitter);
        self.wheel.set(number(t, slot), now + timeout);
    }

    /// Sends a lookup on a socket.
    fn send_on(
        &mut self,
        socket: SocketId,
        t: u32,
        slot: usize,
        seed: u64,
        tx: &mut TxBatch,
    ) -> Path {
        let free = |id: &u16| self.ids.insert(socket, *id, number(t, slot));
        let mut rng = || self.rng.next_u32() as u16;
        let id = std::iter::repeat_with(&mut rng).take(ID_TRIES).find({
            let mut free = free;
            move |id| free(id)
        });
        let Some(id) = id else {
            self.upstreams.give_back(socket);
            return Path::Unsent;
        };
        let transaction = &self.transactions[t];
        let udp_size = self.settings.config.upstream.udp_size;
        let room = MAX_QUERY + transaction.options.as_ref().map_or(0, |options| options.len());
        let sent = tx.push(Destination::Connected(socket), room, |out| {
            compose(transaction, slot, id, seed, udp_size, out)
        });
        if !sent {
            // It counts as lost on the way, and is sent again in time.
            self.counters.unsent += 1;
        }
        Path::Datagram(socket, id)
    }

    /// A datagram from an upstream server.
    pub(super) fn on_reply(
        &mut self,
        server: ServerId,
        received: &Received<'_>,
        now: Nanos,
        tx: &mut TxBatch,
    ) {
        let waiting = Header::read(received.bytes)
            .and_then(|header| Some((header, self.ids.get(received.socket, header.id)?)));
        let Some((header, lookup)) = waiting else {
            self.counters.upstream_unexpected += 1;
            return;
        };
        let (t, slot) = (lookup / 2, lookup as usize % 2);
        let Some(reply) = Reply::parse(received.bytes) else {
            // Servers that could not read or did not want the query may leave the question out.
            let refused = header.is_response()
                && received.bytes.len() == HEADER
                && !matches!(header.rcode(), 0 | 3);
            if refused {
                self.settle_lookup(t, slot, Outcome::Refused, now, tx);
            } else {
                self.counters.upstream_malformed += 1;
            }
            return;
        };
        let transaction = &self.transactions[t];
        let asked = transaction.lookups[slot];
        match compare(&reply, transaction.name(), asked.qtype, asked.case_seed) {
            Match::Exact if asked.case_seed != 0 => self.upstreams.kept_case(server),
            Match::Exact => {}
            Match::OtherCase => {
                self.counters.upstream_mismatched += 1;
                if self.upstreams.changed_case(server) == OtherCase::Doubtful {
                    // By a stream, where nobody else can answer.
                    self.release(t, slot);
                    self.ask_by_stream(t, slot, now);
                }
                return;
            }
            Match::No => {
                self.counters.upstream_mismatched += 1;
                return;
            }
        }
        self.counters.upstream_replies += 1;
        self.upstreams.answered(server, now.since(asked.sent));
        if reply.is_truncated() {
            self.release(t, slot);
            return self.ask_by_stream(t, slot, now);
        }
        self.settle_lookup(t, slot, Outcome::Reply(reply), now, tx);
    }

    /// Has a lookup asked by a stream.
    fn ask_by_stream(&mut self, t: u32, slot: usize, now: Nanos) {
        self.tickets = self.tickets.wrapping_add(1);
        self.counters.upstream_tcp += 1;
        let id = self.rng.next_u32() as u16;
        let udp_size = self.settings.config.upstream.udp_size;
        let transaction = &mut self.transactions[t];
        let room = MAX_QUERY + transaction.options.as_ref().map_or(0, |options| options.len());
        let mut message = vec![0; room];
        let len = compose(transaction, slot, id, 0, udp_size, &mut message);
        message.truncate(len);
        let lookup = &mut transaction.lookups[slot];
        lookup.path = Path::Stream(self.tickets);
        self.outbox.ask(ToStreams::Ask {
            server: self.upstreams.server(lookup.server).address,
            lookup: number(t, slot),
            ticket: self.tickets,
            message,
        });
        self.wheel.set(number(t, slot), now + self.settings.config.upstream.tcp_timeout);
    }

    /// What came of a lookup by a stream.
    pub(super) fn on_stream_reply(
        &mut self,
        lookup: u32,
        ticket: u32,
        message: Option<&[u8]>,
        now: Nanos,
        tx: &mut TxBatch,
    ) {
        let (t, slot) = (lookup / 2, lookup as usize % 2);
        let asked = self.transactions[t].lookups[slot];
        if asked.path != Path::Stream(ticket) {
            self.counters.upstream_unexpected += 1;
            return;
        }
        let reply = message.and_then(Reply::parse).filter(|reply| {
            compare(reply, self.transactions[t].name(), asked.qtype, 0) != Match::No
        });
        match reply {
            Some(reply) => {
                self.counters.upstream_replies += 1;
                if self.by_stream() {
                    self.upstreams.answered(asked.server, now.since(asked.sent));
                }
                self.settle_lookup(t, slot, Outcome::Reply(reply), now, tx);
            }
            None => {
                self.counters.upstream_malformed += u64::from(message.is_some());
                self.unanswered(t, slot, now, tx);
            }
        }
    }

    /// Ends a lookup; an error is tried at another server first, one about EDNS without it.
    fn settle_lookup(
        &mut self,
        t: u32,
        slot: usize,
        outcome: Outcome<'_>,
        now: Nanos,
        tx: &mut TxBatch,
    ) {
        self.release(t, slot);
        if outcome.is_error() {
            self.counters.upstream_errors += 1;
            let edns = self.settings.config.upstream.udp_size > 0;
            let lookup = &mut self.transactions[t].lookups[slot];
            if edns && !lookup.plain && outcome.dislikes_edns() {
                lookup.plain = true;
                return self.send(t, slot, None, now, tx);
            }
            let lookup = *lookup;
            let others = self.upstreams.servers().filter(|server| !server.dead).count() > 1;
            let again = lookup.attempts < self.settings.config.upstream.attempts;
            if others && again && self.transactions[t].only.is_none() {
                return self.send(t, slot, Some(lookup.server), now, tx);
            }
        }
        self.settle(t, slot, outcome, now, tx);
    }

    /// A lookup gets no reply: it is sent again, or is over.
    fn unanswered(&mut self, t: u32, slot: usize, now: Nanos, tx: &mut TxBatch) {
        let lookup = self.transactions[t].lookups[slot];
        // Not after a truncated reply: that server lives, and was asked for the last time.
        let usual = matches!(lookup.path, Path::Stream(_)) == self.by_stream();
        self.release(t, slot);
        if usual && self.upstreams.timed_out(lookup.server, now) {
            self.counters.upstream_deaths += 1;
        }
        // A dead server is not worth waiting for thrice.
        let dead = self.upstreams.server(lookup.server).dead
            && self.upstreams.servers().all(|server| server.dead);
        let again = lookup.attempts < self.settings.config.upstream.attempts && !dead;
        if again && usual && self.transactions[t].only.is_none() {
            self.send(t, slot, Some(lookup.server), now, tx);
        } else {
            self.settle(t, slot, Outcome::Nothing, now, tx);
        }
    }

    /// Whether upstream is asked by streams alone.
    fn by_stream(&self) -> bool {
        self.settings.config.upstream.transport != Transport::Udp
    }

    /// Gives back what a lookup holds; it waits no more.
    pub(super) fn release(&mut self, t: u32, slot: usize) {
        let lookup = &mut self.transactions[t].lookups[slot];
        match std::mem::replace(&mut lookup.path, Path::None) {
            Path::None => return,
            Path::Datagram(socket, id) => {
                self.ids.remove(socket, id);
                self.upstreams.give_back(socket);
            }
            Path::Stream(_) | Path::Unsent => {}
        }
        self.wheel.clear(number(t, slot));
    }

    /// Sends again, or gives up, what has waited long enough.
    pub(super) fn expire(&mut self, now: Nanos, tx: &mut TxBatch) {
        let mut expired = std::mem::take(&mut self.scratch.expired);
        self.wheel.expire(now, &mut expired);
        for lookup in expired.drain(..) {
            let (t, slot) = (lookup / 2, lookup as usize % 2);
            let lookup = self.transactions[t].lookups[slot];
            // What ended since then (its question was settled) waits no more.
            if lookup.path == Path::None {
                continue;
            }
            self.counters.upstream_timeouts += 1;
            self.unanswered(t, slot, now, tx);
        }
        self.scratch.expired = expired;
    }

    /// Asks a dead server for a sign of life, when it is time.
    pub(super) fn probe(&mut self, now: Nanos, tx: &mut TxBatch) {
        let Some(server) = self.upstreams.probe(now) else { return };
        let flags = KeyFlags { rd: true, ..KeyFlags::default() };
        let key = Key { name: Name::ROOT, qtype: Qtype::NS, view: View::default(), flags };
        // Where there is no place, those who have one ask the server too.
        if self.transactions.is_full() {
            return;
        }
        if let Some(t) = self.open(None, key, 0, now, tx) {
            let transaction = &mut self.transactions[t];
            (transaction.phase, transaction.only) = (Phase::Probe, Some(server));
            self.begin(t, 0, Qtype::NS, now, tx);
        }
    }
}

/// A lookup's number.
fn number(t: u32, slot: usize) -> u32 {
    2 * t + slot as u32
}

/// Writes the query of a lookup and returns its length.
fn compose(
    transaction: &Transaction,
    slot: usize,
    id: u16,
    seed: u64,
    udp_size: u16,
    out: &mut [u8],
) -> usize {
    let bit = |set: bool, flag: u16| if set { flag } else { 0 };
    let KeyFlags { rd, cd, dnssec } = transaction.key.flags;
    let edns = udp_size > 0 && !transaction.lookups[slot].plain;
    // AD: tell whether the data is authentic (RFC 6840 section 5.7).
    let flags = bit(rd, flag::RD) | bit(cd, flag::CD) | flag::AD;
    let header = Header { id, flags, counts: [1, 0, 0, u16::from(edns)] };
    out[..HEADER].copy_from_slice(&header.to_bytes());
    let name = transaction.name().as_wire();
    let mut len = HEADER + name.len();
    out[HEADER..len].copy_from_slice(name);
    Case::random(seed).apply(&mut out[HEADER..len]);
    let [t1, t0] = transaction.lookups[slot].qtype.0.to_be_bytes();
    let [c1, c0] = Qclass::IN.0.to_be_bytes();
    out[len..len + 4].copy_from_slice(&[t1, t0, c1, c0]);
    len += 4;
    if edns {
        let options = transaction.options.as_deref().unwrap_or_default();
        let opt = opt_fixed(udp_size, 0, dnssec, options.len() as u16);
        out[len..len + OPT_FIXED].copy_from_slice(&opt);
        len += OPT_FIXED;
        out[len..len + options.len()].copy_from_slice(options);
        len += options.len();
    }
    len
}

/// Whether a reply's question is the one asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    Exact,
    OtherCase,
    No,
}

/// Holds the question of a reply against the one asked.
fn compare(reply: &Reply<'_>, name: &Name, qtype: Qtype, seed: u64) -> Match {
    let Some((replied, tail)) = reply.question.split_last_chunk::<4>() else { return Match::No };
    let [t1, t0] = qtype.0.to_be_bytes();
    let [c1, c0] = Qclass::IN.0.to_be_bytes();
    let name = name.as_wire();
    if *tail != [t1, t0, c1, c0] || replied.len() != name.len() {
        return Match::No;
    }
    let mut asked = [0; 255];
    let asked = &mut asked[..name.len()];
    asked.copy_from_slice(name);
    Case::random(seed).apply(asked);
    if replied == asked {
        Match::Exact
    } else if replied.eq_ignore_ascii_case(asked) {
        Match::OtherCase
    } else {
        Match::No
    }
}
