//! Lookups: queries to upstream, their retransmission and their replies.

use chacha20::rand_core::Rng;
use engine::{Destination, Received, SocketId, TxBatch};
use measure::Nanos;
use wire::edns::opt_fixed;
use wire::extend::extend;
use wire::message::{HEADER, Header, OPT_FIXED, Record, flag};
use wire::{Opcode, Qclass, Qtype, Rcode};

use super::credible::ReplyTrust;
use super::outcome::Outcome;
use super::{Ctx, Dns64};
use crate::config::OnTimeout;
use crate::question::{Case, Key, KeyFlags};
use crate::reply::{self, Reply, claims_authentic};
use crate::streams::ToStreams;
use crate::subnet::{MAX_SUBNET, Subnet};
use crate::transaction::{Attempt, Lookup, LookupId, Path, Phase, QueryEdns, Transaction};
use crate::upstream::{MAX_COOKIE, ServerId, UpstreamCookie};

/// Highest number of attempts over streams, where only connections fail, and of errors after which another server is tried.
const MAX_TRIES: u8 = 3;
/// Longest query to upstream, in bytes.
const MAX_QUERY: usize = HEADER + 255 + 4 + OPT_FIXED + MAX_SUBNET + MAX_COOKIE;
/// Block size to which encrypted queries are padded, in bytes (RFC 8467 section 4.1).
const QUERY_BLOCK: usize = 128;
/// Longest encrypted query, with the head of its padding, in bytes.
const MAX_PADDED: usize = (MAX_QUERY + 4).next_multiple_of(QUERY_BLOCK);

impl Dns64 {
    /// Starts a lookup for the current name of a question.
    pub(super) fn start_lookup(&mut self, at: LookupId, qtype: Qtype, ctx: &mut Ctx<'_>) {
        self.note_name(at.transaction, None);
        let until = self.give_up_at(at.transaction, ctx.now);
        let lookup = &mut self.questions[at];
        (lookup.qtype, lookup.attempts, lookup.errors) = (qtype, 0, 0);
        lookup.edns = QueryEdns::WithOptions;
        (lookup.refused_cookie, lookup.truncated) = (false, false);
        (lookup.began, lookup.until) = (ctx.now, until);
        if !self.ends_locally(at, ctx) {
            self.send(at, None, ctx);
        }
    }

    /// Sends a lookup, to another server than `not` if there is one.
    fn send(&mut self, at: LookupId, not: Option<ServerId>, ctx: &mut Ctx<'_>) {
        let only = self.questions[at.transaction].only_server;
        let server = only.unwrap_or_else(|| {
            let transaction = &self.questions[at.transaction];
            let name = transaction.name();
            // The zone above has the DS records of a zone (RFC 4035 section 3.1.4.1), or the proof
            // that there are none, such as that of `home.arpa` (RFC 8375 section 4).
            let is_ds = transaction.lookups[at.slot].qtype == Qtype::DS;
            let above = is_ds.then(|| name.parent()).flatten();
            let name = above.as_ref().unwrap_or(name);
            let pool = self.upstreams.pool_for(transaction.key.group, name);
            self.questions[at.transaction].cached &= self.upstreams.caches(pool);
            self.upstreams.choose(pool, not, &mut self.rng)
        });
        let lookup = &mut self.questions[at];
        lookup.attempts = lookup.attempts.saturating_add(1);
        self.counters.upstream_queries += 1;
        self.counters.upstream_retries += u64::from(lookup.attempts > 1);
        if self.upstreams.uses_streams_only(server) {
            let lookup = &mut self.questions[at];
            (lookup.last.server, lookup.last.sent) = (server, ctx.now);
            return self.send_on_stream(at, ctx.now);
        }
        let case_seed =
            if self.upstreams.mixes_case(server, ctx.now) { self.rng.next_u64() } else { 0 };
        let has_cookie = self.sends_cookie(at, server, ctx.now);
        let lookup = &mut self.questions[at];
        lookup.last = Attempt { path: Path::Unsent, server, case_seed, has_cookie, sent: ctx.now };
        if let Some(socket) = self.upstreams.take_socket(server, &mut self.rng) {
            let path = self.send_on(socket, at, ctx.tx);
            self.questions[at].last.path = path;
        }
        let due = self.timeout(at, ctx.now);
        self.waits.timeouts.set(at.number(), due);
    }

    /// Returns until when the last attempt of a lookup waits for a reply before it is sent again: the server's timeout, varied
    /// by up to 10 %. The one that cannot be followed by another waits until the lookup ends.
    fn timeout(&mut self, at: LookupId, now: Nanos) -> Nanos {
        let Transaction { lookups, only_server, .. } = &self.questions[at.transaction];
        let lookup = &lookups[at.slot];
        let server = lookup.last.server;
        let usual = self.upstreams.timeout(server, lookup.attempts);
        if only_server.is_some() || self.upstreams.server(server).dead {
            let due = now + usual.max(self.settings.config.upstream.first_timeout);
            return due.min(lookup.until.max(now));
        }
        let jitter = self.rng.next_u64() % (usual.0 / 5 + 1);
        let due = now + Nanos(usual.0 - usual.0 / 10 + jitter);
        // There is always time for one repetition, even if two timeouts take longer.
        let next =
            if lookup.attempts > 1 { self.upstreams.timeout(server, 1) } else { Nanos::ZERO };
        let is_last =
            lookup.attempts >= self.settings.config.upstream.attempts || due + next > lookup.until;
        if is_last { lookup.until.max(now) } else { due }
    }

    /// Sends a lookup on a socket.
    fn send_on(&mut self, socket: SocketId, at: LookupId, tx: &mut TxBatch) -> Path {
        let Some(id) = self.waits.draw_id(socket, at, &mut self.rng) else {
            self.upstreams.give_back(socket);
            return Path::Unsent;
        };
        let transaction = &self.questions[at.transaction];
        let udp_size = self.settings.config.upstream.udp_size;
        let cookie = self.upstreams.cookie(transaction.lookups[at.slot].last.server);
        let sent = tx.push(Destination::Connected(socket), MAX_QUERY, |out| {
            compose(transaction, at.slot, id, udp_size, cookie, out)
        });
        if !sent {
            // The query counts as lost and is sent again after its timeout.
            self.counters.unsent += 1;
        }
        Path::Datagram(socket, id)
    }

    /// Handles a datagram from an upstream server.
    pub(super) fn on_reply(
        &mut self,
        server: ServerId,
        received: &Received<'_>,
        ctx: &mut Ctx<'_>,
    ) {
        let waiting = Header::read(received.bytes).and_then(|header| {
            Some((header, self.waits.ids.get(received.socket, header.id)?.into()))
        });
        let Some((header, at)): Option<(Header, LookupId)> = waiting else {
            self.counters.upstream_unexpected += 1;
            return;
        };
        let mut message = std::mem::take(&mut self.scratch.reply);
        message.clear();
        message.extend_from_slice(received.bytes);
        reply::normalise(&mut message, self.upstreams.trusts(server));
        self.questions[at].claims_authentic = claims_authentic(received.bytes);
        let attempt = *self.questions[at].attempt_on(received.socket, header.id);
        match Reply::parse(&message) {
            Some(reply) => self.on_parsed(&attempt, at, &reply, received.bytes, ctx),
            None if is_short_error(&message) => self.on_short_error(at, ctx),
            None => self.counters.upstream_malformed += 1,
        }
        self.scratch.reply = message;
    }

    /// Handles an error without a question, from a server that could not parse the query or would not answer it, or from
    /// anyone who knows port and id: the query is sent again without EDNS, then over a stream, where no third party can
    /// forge the reply.
    fn on_short_error(&mut self, at: LookupId, ctx: &mut Ctx<'_>) {
        let edns = self.settings.config.upstream.udp_size > 0;
        if edns && self.questions[at].edns != QueryEdns::Absent {
            return self.end_lookup(at, Outcome::Refused, ctx);
        }
        self.counters.upstream_errors += 1;
        self.release(at);
        self.send_on_stream(at, ctx.now);
    }

    /// Handles a well-formed reply with the id of a pending attempt of a lookup; `octets` is the message as received.
    fn on_parsed(
        &mut self,
        attempt: &Attempt,
        at: LookupId,
        reply: &Reply<'_>,
        octets: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let &Attempt { server, sent, .. } = attempt;
        let belief = self.belief(attempt, at, reply, octets, ctx.now);
        self.counters.upstream_mismatched += u64::from(belief != ReplyTrust::Yes);
        if belief == ReplyTrust::No {
            return;
        }
        // The next query, if there is one, is for the server that has replied.
        self.questions[at].last.server = server;
        if belief == ReplyTrust::Doubtful {
            self.release(at);
            return self.send_on_stream(at, ctx.now);
        }
        self.counters.upstream_replies += 1;
        self.upstreams.answered(server, sent, ctx.now);
        if Rcode(reply.rcode) == Rcode::BADCOOKIE {
            return self.on_bad_cookie(attempt, at, ctx);
        }
        if reply.is_truncated() {
            return self.on_truncated(at, ctx.now);
        }
        self.end_lookup(at, Outcome::Reply(*reply), ctx);
    }

    /// Handles a truncated reply: the query is sent again over a stream.
    pub(super) fn on_truncated(&mut self, at: LookupId, now: Nanos) {
        self.questions[at].truncated = true;
        self.release(at);
        self.send_on_stream(at, now);
    }

    /// Handles the error of a server that requires another cookie: the query is sent once more,
    /// with the cookie of that reply, then over a stream, where no cookie is needed (RFC 7873
    /// section 5.3).
    fn on_bad_cookie(&mut self, attempt: &Attempt, at: LookupId, ctx: &mut Ctx<'_>) {
        self.counters.upstream_bad_cookies += 1;
        self.upstreams.cookie_mut(attempt.server).note_wanted();
        self.release(at);
        let lookup = &mut self.questions[at];
        let again = std::mem::replace(&mut lookup.refused_cookie, true);
        if again || !attempt.has_cookie {
            self.send_on_stream(at, ctx.now);
        } else {
            self.send(at, None, ctx);
        }
    }

    /// Sends a lookup over a stream.
    pub(super) fn send_on_stream(&mut self, at: LookupId, now: Nanos) {
        self.waits.tickets = self.waits.tickets.wrapping_add(1);
        let ticket = self.waits.tickets;
        self.counters.upstream_tcp += 1;
        let id = self.rng.next_u32() as u16;
        let udp_size = self.settings.config.upstream.udp_size;
        let server = self.questions[at].last.server;
        let has_cookie = self.sends_cookie(at, server, now);
        let transaction = &mut self.questions[at.transaction];
        let last = &mut transaction.lookups[at.slot].last;
        (last.path, last.case_seed) = (Path::Stream(ticket), 0);
        last.has_cookie = has_cookie;
        let mut message = vec![0; MAX_PADDED];
        let cookie = self.upstreams.cookie(server);
        let mut len = compose(transaction, at.slot, id, udp_size, cookie, &mut message);
        let has_options = transaction.lookups[at.slot].edns == QueryEdns::WithOptions;
        if self.upstreams.encrypts(server) && udp_size > 0 && has_options {
            len = extend(&mut message, len, &[], QUERY_BLOCK).unwrap_or(len);
        }
        message.truncate(len);
        self.delivery.outbox.query(ToStreams::Query {
            server: self.upstreams.server(server).address,
            lookup: at.number(),
            ticket,
            message,
        });
        let mut due = now + self.settings.config.upstream.tcp_timeout;
        if let Some(service) = &self.questions[at.transaction].service {
            due = due.min(service.until.max(now));
        }
        self.waits.timeouts.set(at.number(), due);
    }

    /// Handles the end of a lookup over a stream: its reply, or a failure.
    pub(super) fn on_stream_reply(
        &mut self,
        at: LookupId,
        ticket: u32,
        mut message: Option<Vec<u8>>,
        ctx: &mut Ctx<'_>,
    ) {
        let asked = self.questions[at];
        let Attempt { path, server, sent, .. } = asked.last;
        if path != Path::Stream(ticket) {
            self.counters.upstream_unexpected += 1;
            return;
        }
        let claims = message.as_deref().is_some_and(claims_authentic);
        self.questions[at].claims_authentic = claims;
        let trust_ad = self.upstreams.trusts(server);
        message.iter_mut().for_each(|message| reply::normalise(message, trust_ad));
        let reply = message.as_deref().and_then(Reply::parse);
        let reply =
            reply.filter(|reply| self.believes_on_stream(at.transaction, &asked, reply, ctx.now));
        match reply {
            Some(reply) => {
                self.counters.upstream_replies += 1;
                if self.upstreams.uses_streams_only(server) {
                    self.upstreams.answered(server, sent, ctx.now);
                }
                self.questions[at].truncated |= reply.is_truncated();
                let outcome = match reply.is_truncated() {
                    true => Outcome::Truncated,
                    false => Outcome::Reply(reply),
                };
                self.end_lookup(at, outcome, ctx);
            }
            None => {
                let is_error = message.as_deref().is_some_and(is_short_error);
                self.counters.upstream_malformed += u64::from(message.is_some() && !is_error);
                match is_error {
                    true => self.end_lookup(at, Outcome::Refused, ctx),
                    false => self.lookup_failed(at, ctx),
                }
            }
        }
    }

    /// Ends a lookup. After an error another server is tried first, and after an error about EDNS a query
    /// with less of it.
    pub(super) fn end_lookup(&mut self, at: LookupId, outcome: Outcome<'_>, ctx: &mut Ctx<'_>) {
        self.release(at);
        // Another server may have the answer.
        let refers = outcome.is_referral(self.questions[at.transaction].key.flags);
        if refers || outcome.is_error() {
            self.counters.upstream_errors += 1;
            if let Some(edns) = self.less_edns(at, &outcome) {
                self.questions[at].edns = edns;
                return self.send(at, None, ctx);
            }
            let lookup = &mut self.questions[at];
            lookup.errors += 1;
            let lookup = *lookup;
            self.upstreams.failed(lookup.last.server);
            let pool = self.upstreams.pool_of(lookup.last.server);
            let others = pool.filter(|server| !server.dead).count() > 1;
            let most = self.settings.config.upstream.attempts;
            let again = lookup.attempts < most && lookup.errors < MAX_TRIES;
            if others && again && self.questions[at.transaction].only_server.is_none() {
                return self.send(at, Some(lookup.last.server), ctx);
            }
        }
        // The server answers the query, but not over a stream.
        let refuses_streams = self.questions[at].truncated && outcome.may_refuse_streams();
        self.proceed(at, if refuses_streams { Outcome::Truncated } else { outcome }, ctx);
    }

    /// Returns the EDNS with which a lookup is sent again after an error; `None` if it would not
    /// have less than before.
    fn less_edns(&self, at: LookupId, outcome: &Outcome<'_>) -> Option<QueryEdns> {
        let Transaction { lookups, subnet, .. } = &self.questions[at.transaction];
        let lookup = &lookups[at.slot];
        let has_options = lookup.edns == QueryEdns::WithOptions;
        let address = has_options && subnet.is_some_and(|subnet| subnet.has_address());
        let options = has_options && (subnet.is_some() || lookup.last.has_cookie);
        let less = outcome.accepted_edns(options, address);
        less.filter(|_| {
            self.settings.config.upstream.udp_size > 0 && lookup.edns != QueryEdns::Absent
        })
    }

    /// Handles a lookup without a reply: sends it again or ends it.
    fn lookup_failed(&mut self, at: LookupId, ctx: &mut Ctx<'_>) {
        let Transaction { lookups, phase, only_server, .. } = &self.questions[at.transaction];
        let (lookup, is_probe) = (lookups[at.slot], *phase == Phase::Probe);
        let (server, any_server) = (lookup.last.server, only_server.is_none());
        // Not after a truncated reply: that server is alive, and its query was the last attempt.
        let usual =
            matches!(lookup.last.path, Path::Stream(_)) == self.upstreams.uses_streams_only(server);
        if usual && self.upstreams.timed_out(server, is_probe, ctx.now) {
            self.counters.upstream_deaths += 1;
        }
        let again = lookup.attempts < self.most_attempts(server) && ctx.now < lookup.until;
        if again && usual && any_server {
            self.set_aside(at);
            self.send(at, Some(server), ctx);
            if at.slot == 0 {
                self.query_a_too(at.transaction, ctx);
            }
        } else if lookup.truncated {
            self.end_lookup(at, Outcome::Truncated, ctx);
        } else {
            self.release(at);
            self.proceed(at, Outcome::Nothing, ctx);
        }
    }

    /// Returns the number of times that a query may be sent, after its last attempt at a server;
    /// with all servers dead there is one retry.
    fn most_attempts(&self, server: ServerId) -> u8 {
        let most = self.settings.config.upstream.attempts;
        let all_dead = || self.upstreams.pool_of(server).all(|server| server.dead);
        match () {
            () if self.upstreams.server(server).dead && all_dead() => most.min(2),
            () if self.upstreams.uses_streams_only(server) => most.min(MAX_TRIES),
            () => most,
        }
    }

    /// Lets the AAAA lookup end after two more timeouts from now on, with one more query between
    /// them, if it had no reply to its first query: the A reply came, and was fast.
    pub(super) fn limit_wait(&mut self, t: u32, now: Nanos) {
        let at = LookupId::first(t);
        let lookup = &mut self.questions[at];
        let on_timeout = self.settings.policy.synthesis.on_timeout;
        // A lookup over a stream has had a reply over UDP, which was truncated.
        if matches!(lookup.last.path, Path::None | Path::Stream(_))
            || lookup.attempts < 2
            || on_timeout == OnTimeout::Fail
        {
            return;
        }
        let timeout = self.upstreams.timeout(lookup.last.server, 1);
        lookup.until = lookup.until.min(now + timeout + timeout);
        self.waits.timeouts.clear(at.number());
        self.waits.timeouts.set(at.number(), now + timeout);
    }

    /// Releases the ids and the sockets of a lookup and clears its timeout.
    pub(super) fn release(&mut self, at: LookupId) {
        let lookup = &mut self.questions[at];
        let earlier = std::mem::replace(&mut lookup.earlier.path, Path::None);
        let last = std::mem::replace(&mut lookup.last.path, Path::None);
        if last != Path::None {
            self.free(earlier);
            self.free(last);
            self.waits.timeouts.clear(at.number());
        }
    }

    /// Prepares a lookup for its next attempt: the last one still accepts a reply, the one before it does not any more.
    fn set_aside(&mut self, at: LookupId) {
        let lookup = &mut self.questions[at];
        let mut closed = std::mem::replace(&mut lookup.earlier, lookup.last);
        if matches!(lookup.last.path, Path::Stream(_)) {
            // A connection that failed brings no reply.
            lookup.earlier.path = Path::None;
            closed.path = Path::None;
        }
        lookup.last.path = Path::None;
        self.free(closed.path);
        self.waits.timeouts.clear(at.number());
    }

    /// Releases the id and the socket of an attempt.
    fn free(&mut self, path: Path) {
        if let Path::Datagram(socket, id) = path {
            self.waits.ids.remove(socket, id);
            self.upstreams.give_back(socket);
        }
    }

    /// Sends again or ends the lookups whose timeout has passed.
    pub(super) fn expire(&mut self, ctx: &mut Ctx<'_>) {
        let mut expired = std::mem::take(&mut self.scratch.expired);
        self.waits.timeouts.expire(ctx.now, &mut expired);
        for at in expired.drain(..).map(LookupId::from) {
            // A lookup that has ended since then does not wait any more.
            if !self.questions[at].is_pending() || self.postpone(at, ctx.now) {
                continue;
            }
            self.counters.upstream_timeouts += 1;
            self.lookup_failed(at, ctx);
        }
        self.scratch.expired = expired;
    }

    /// Lets a lookup wait longer for its reply instead of sending it again, if it has been sent often
    /// enough, or the server has lately answered too few queries: then it is overloaded, or silent,
    /// and more queries do not help. Returns whether it waits.
    fn postpone(&mut self, at: LookupId, now: Nanos) -> bool {
        let lookup = self.questions[at];
        let Attempt { path, server, sent, .. } = lookup.last;
        let mut due = (sent + self.upstreams.patient_timeout(lookup.attempts)).min(lookup.until);
        if !matches!(path, Path::Datagram(..)) || now >= lookup.until {
            return false;
        }
        if self.is_exhausted(&lookup) {
            // The server may still answer other queries.
            due = (now + self.settings.config.upstream.first_timeout).min(lookup.until);
        } else if now >= due || self.upstreams.may_repeat(server) {
            return false;
        }
        self.counters.upstream_postponed += 1;
        self.waits.timeouts.set(at.number(), due);
        true
    }

    /// Returns whether a lookup is not sent again for now: a server that has answered nothing since
    /// the lookup began may be unresponsive, and gets its query three times (RFC 9520 section 3.1).
    /// If a pool has several servers, two of them get the query in turn.
    fn is_exhausted(&self, lookup: &Lookup) -> bool {
        let [last, earlier] = [&lookup.last, &lookup.earlier].map(|attempt| attempt.server);
        let most = if last == earlier { MAX_TRIES } else { 2 * MAX_TRIES };
        let is_silent = |server| self.upstreams.server(server).is_silent_since(lookup.began);
        lookup.attempts >= most && [last, earlier].into_iter().any(is_silent)
    }

    /// Sends a probe to a dead server when one is due.
    pub(super) fn probe(&mut self, ctx: &mut Ctx<'_>) {
        let Some(server) = self.upstreams.probe(ctx.now) else { return };
        let flags = KeyFlags { rd: true, ..KeyFlags::default() };
        let key = Key { qtype: Qtype::NS, flags, ..Key::default() };
        // When all places are taken, ordinary queries probe the server too.
        if self.questions.transactions.is_full() {
            return;
        }
        if let Some(t) = self.open(None, key, ctx) {
            let transaction = &mut self.questions[t];
            (transaction.phase, transaction.only_server) = (Phase::Probe, Some(server));
            self.start_lookup(LookupId::first(t), Qtype::NS, ctx);
        }
    }
}

/// Returns whether a message is an error without a question that a server may send (RFC 1035 section 4.1.1): FORMERR,
/// SERVFAIL, NOTIMP or REFUSED, a header alone or with an OPT record.
fn is_short_error(message: &[u8]) -> bool {
    let Some(header) = Header::read(message) else { return false };
    let is_alone = match header.counts {
        [0, 0, 0, 0] => message.len() == HEADER,
        [0, 0, 0, 1] => Record::read(message, HEADER)
            .is_some_and(|(record, end)| record.rtype == Qtype::OPT && end == message.len()),
        _ => false,
    };
    header.is_response()
        && header.opcode() == Opcode::QUERY
        && !header.is_truncated()
        && is_alone
        && matches!(header.rcode(), 1 | 2 | 4 | 5)
}

/// Writes the query of a lookup; returns its length.
fn compose(
    transaction: &Transaction,
    slot: usize,
    id: u16,
    udp_size: u16,
    cookie: &UpstreamCookie,
    out: &mut [u8],
) -> usize {
    let bit = |set: bool, flag: u16| if set { flag } else { 0 };
    let KeyFlags { rd, cd, dnssec } = transaction.key.flags;
    let cd = cd || slot == 0 && transaction.phase == Phase::Check;
    let lookup = &transaction.lookups[slot];
    let edns = udp_size > 0 && lookup.edns != QueryEdns::Absent;
    // AD requests the authentic state of the data (RFC 6840 section 5.7); a server without EDNS may
    // refuse the bit too.
    let ad = bit(lookup.edns != QueryEdns::Absent, flag::AD);
    let flags = bit(rd, flag::RD) | bit(cd, flag::CD) | ad;
    let header = Header { id, flags, counts: [1, 0, 0, u16::from(edns)] };
    out[..HEADER].copy_from_slice(&header.to_bytes());
    let name = transaction.name().as_wire();
    let mut len = HEADER + name.len();
    out[HEADER..len].copy_from_slice(name);
    Case::random(lookup.last.case_seed).apply(&mut out[HEADER..len]);
    let [t1, t0] = lookup.qtype.0.to_be_bytes();
    let [c1, c0] = Qclass::IN.0.to_be_bytes();
    out[len..len + 4].copy_from_slice(&[t1, t0, c1, c0]);
    len += 4;
    if edns {
        let subnet = transaction.subnet.as_ref();
        let subnet = subnet.filter(|_| lookup.edns == QueryEdns::WithOptions);
        let subnet = subnet.map_or(&[][..], Subnet::option);
        let cookie = if lookup.last.has_cookie { cookie.option() } else { &[] };
        let opt = opt_fixed(udp_size, 0, dnssec, (subnet.len() + cookie.len()) as u16);
        for part in [&opt[..], subnet, cookie] {
            out[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
    }
    len
}
