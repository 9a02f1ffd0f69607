//! Queries of clients: rejected, answered at once, or sent upstream.

use std::hash::BuildHasher;
use std::net::IpAddr;

use engine::{Destination, Received};
use measure::{Nanos, Transport};
use wire::proxy::{self, ProxyHeader};
use wire::{Qclass, Qtype, Query, Rcode};

use super::ruled::{ALIAS_TTL, RuleOutcome};
use super::{Ctx, Dns64};
use crate::admission::ClientFacts;
use crate::answer::{Age, Needs};
use crate::config::{Denied, Overload, PtrMode};
use crate::cookie::QueryCookie;
use crate::extended_error::ExtendedError;
use crate::policy::NameRule;
use crate::question::{Key, KeyFlags};
use crate::rules::Rule;
use crate::special::{Asked, Special};
use crate::subnet::Subnet;
use crate::transaction::{Client, LookupId, Phase, ReplyTo, Transaction};
use crate::tsig;

/// Longest error reply: header, question and OPT record, in bytes.
const MAX_ERROR: usize = 12 + 255 + 4 + 11;

/// HINFO data of a minimal answer to ANY (RFC 8482 section 4.2).
const MINIMAL_ANY: &[u8] = b"\x07RFC8482\0";
/// TTL of that record, in seconds.
const MINIMAL_ANY_TTL: u32 = 3_600;

/// Unit of the keepalive option (RFC 7828), in nanoseconds.
const KEEPALIVE_UNIT: u64 = 100_000_000;

impl Dns64 {
    /// Handles a datagram from a client.
    pub(super) fn on_query(&mut self, received: &Received<'_>, ctx: &mut Ctx<'_>) {
        self.counters.queries_udp += 1;
        let to = ReplyTo::Datagram(Destination::reply_to(received));
        let (peer, bytes) = (received.peer.ip().to_canonical(), received.bytes);
        if self.settings.config.server.is_proxy(peer) {
            return match proxy::version2(bytes) {
                Ok(ProxyHeader { client, len }) => {
                    let client = client.map_or(peer, |client| client.ip().to_canonical());
                    self.query(to, client, Transport::Udp, &bytes[len..], ctx);
                }
                Err(_) => self.counters.proxy_errors += 1,
            };
        }
        self.query(to, peer, Transport::Udp, bytes, ctx);
    }

    /// Handles a message on a client's stream.
    pub(super) fn on_stream_query(
        &mut self,
        stream: u64,
        client: IpAddr,
        transport: Transport,
        message: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        self.counters.queries_stream += 1;
        self.query(ReplyTo::Stream { stream, client }, client, transport, message, ctx);
    }

    /// Handles a message of a client, over UDP or a stream.
    fn query(
        &mut self,
        to: ReplyTo,
        address: IpAddr,
        transport: Transport,
        message: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let facts = self.delivery.admission.client(address);
        let query = match Query::parse(message) {
            Ok(query) => query,
            Err(error) => {
                // A reply with only a header does not amplify an attack; a client that may not send
                // queries gets none.
                let mut room = [0; MAX_ERROR];
                let cookie = self.cookies.reply_alone(message, address, ctx.now, &mut room);
                let len = cookie.or_else(|| error.reply(&mut room));
                let len = len.filter(|_| facts.allowed).unwrap_or(0);
                self.counters.bad_queries += u64::from(len > 0 && cookie.is_none());
                self.counters.ignored += u64::from(len == 0);
                return self.send_error(to, facts.network, &room[..len], ctx);
            }
        };
        let stream = matches!(to, ReplyTo::Stream { .. });
        let udp_limit = self.settings.config.server.max_udp_size.into();
        let wants = Needs::new(&query, udp_limit, transport, self.keepalive(transport));
        let (network, asked) = (facts.network, ctx.now);
        let mut client = Client { to, wants, proven: stream, network, address, transport, asked };
        self.delivery.tap.iter_mut().for_each(|tap| tap.query(&client, message));
        if !facts.allowed {
            self.counters.denied += 1;
            match self.settings.config.server.denied {
                Denied::Refuse => return self.prohibit(client, &query, message.len(), ctx),
                Denied::Drop => return self.send_error(to, facts.network, &[], ctx),
            }
        }
        match QueryCookie::of(query.edns.as_ref()) {
            Ok(None) => {}
            Ok(Some(shown)) => {
                client.proven |= self.cookies.is_valid(&shown, address, ctx.now);
                client.wants.options.cookie = Some(self.cookies.reply(&shown, address, ctx.now));
            }
            Err(rcode) => {
                self.counters.bad_queries += 1;
                return self.refuse(&client, &query, rcode, ctx);
            }
        }
        if query.signed {
            self.counters.bad_queries += 1;
            return match tsig::unknown_key(message, &query) {
                Some(reply) => self.send_error(to, facts.network, &reply, ctx),
                None => self.refuse(&client, &query, Rcode::FORMERR, ctx),
            };
        }
        if let Some(rcode) = rejection(&query) {
            self.counters.bad_queries += 1;
            return self.refuse(&client, &query, rcode, ctx);
        }
        self.resolve(client, &facts, &query, ctx);
    }

    /// Returns the keepalive time for the client, in units of 100 ms; only connections with many
    /// queries get one.
    fn keepalive(&self, transport: Transport) -> Option<u16> {
        let idle = self.settings.config.limits.tcp_idle.0 / KEEPALIVE_UNIT;
        let has_many = matches!(transport, Transport::Tcp | Transport::Tls);
        has_many.then_some(u16::try_from(idle).unwrap_or(u16::MAX))
    }

    /// Replies with a return code only.
    fn refuse(&mut self, client: &Client, query: &Query<'_>, rcode: Rcode, ctx: &mut Ctx<'_>) {
        self.answer_bare(query, rcode);
        self.deliver(client, Age::Fresh, ctx);
    }

    /// Refuses a client that is not permitted. Over UDP, where its address may be forged, the reply is no longer than its
    /// query of `len` octets: without the reason if there is no room.
    fn prohibit(&mut self, mut client: Client, query: &Query<'_>, len: usize, ctx: &mut Ctx<'_>) {
        if matches!(client.to, ReplyTo::Datagram(_)) {
            client.wants.limit = client.wants.limit.min(len as u16);
        }
        self.answer_bare(query, Rcode::REFUSED);
        ExtendedError::Prohibited.push(&mut self.scratch.answer.options);
        self.deliver(&client, Age::Fresh, ctx);
    }

    /// Makes an answer with the question of a query and a return code only.
    fn answer_bare(&mut self, query: &Query<'_>, rcode: Rcode) {
        let mut question = [0; 259];
        let question = &mut question[..query.question.len()];
        question.copy_from_slice(query.question);
        let name_end = question.len() - 4;
        question[..name_end].make_ascii_lowercase();
        self.scratch.answer.question_only(question, rcode);
    }

    /// Answers a valid query of a permitted client, or starts its lookup.
    fn resolve(
        &mut self,
        client: Client,
        facts: &ClientFacts,
        query: &Query<'_>,
        ctx: &mut Ctx<'_>,
    ) {
        let (policy, flags) = (&self.settings.policy, KeyFlags::of(query));
        let view = policy.permitted(facts.view, flags);
        let drops = !policy.dropping(view, flags).is_empty();
        let Some(mut key) = Key::new(query, facts.group, view, drops) else { return };
        let subnet = match Subnet::of(query, client.address, &self.settings.config.upstream) {
            Ok(subnet) => subnet,
            Err(rcode) => {
                self.counters.bad_queries += 1;
                return self.refuse(&client, query, rcode, ctx);
            }
        };
        Key::question(&key.name, key.qtype, &mut self.scratch.question);
        let ruled = match self.apply_rule(&client, facts.view, &key, subnet, ctx) {
            RuleOutcome::Done => return,
            RuleOutcome::Alias(target) => Some(Special::Alias(target)),
            RuleOutcome::No => None,
        };
        let special = ruled.unwrap_or_else(|| {
            let (policy, scratch) = (&self.settings.policy, &mut self.scratch);
            let (question, answer) = (&scratch.question, &mut scratch.answer);
            Asked { policy, key: &key, question, answer }.answer(facts.view, ctx.now)
        });
        let is_any = key.qtype == Qtype::ANY && matches!(client.to, ReplyTo::Datagram(_));
        let is_minimal = is_any && self.settings.config.server.minimal_any;
        let answered = match special {
            Special::Ipv4Only if is_minimal => None,
            Special::Local => Some(&mut self.counters.local),
            Special::Ipv4Only => Some(&mut self.counters.ipv4only),
            Special::Reverse => Some(&mut self.counters.reverse),
            Special::No | Special::QueryReverse(_) | Special::Alias(_) => None,
        };
        if let Some(count) = answered {
            *count += 1;
            return self.deliver_own(&client, subnet, ctx);
        }
        if is_minimal {
            self.scratch.answer.compose(&self.scratch.question, |c| {
                c.at_question(Qtype::HINFO, MINIMAL_ANY_TTL, MINIMAL_ANY);
            });
            return self.deliver_own(&client, subnet, ctx);
        }
        if let Some(subnet) = subnet {
            key.subnet = self.store.hasher.hash_one(subnet) | 1;
        }
        let key = self.store.hashed(key);
        // The cached answer may be older than the rule.
        let is_ruled = matches!(special, Special::Alias(_));
        let cached = if is_ruled { None } else { self.answer_cached(&client, &key, ctx) };
        let asked = match cached {
            Some(false) => return,
            Some(true) => None,
            None if self.join(&client, &key, ctx) => return,
            None => Some(client),
        };
        let Some(t) = self.open(asked, key, ctx) else { return };
        self.offer_to_others(t, subnet, ctx.now);
        self.start(t, special, ctx);
    }

    /// Answers from the cache if possible; returns whether the answer must be refreshed.
    fn answer_cached(&mut self, client: &Client, key: &Key, ctx: &mut Ctx<'_>) -> Option<bool> {
        if self.store.cache.is_off() {
            return None;
        }
        let Some(hit) = self.store.find(key, ctx.now, None) else {
            let (_, age) = self.take_stale(key, ctx.now, |hit| hit.is_put_off)?;
            self.deliver(client, age, ctx);
            return Some(false);
        };
        self.counters.cache_hits += 1;
        let refresh = hit.refresh && self.settings.config.cache.prefetch;
        let number = hit.number;
        self.delivery.deliver(&hit.answer, client, hit.age, ctx, &mut self.counters);
        self.store.mirror(number, &self.settings, ctx.now);
        Some(refresh)
    }

    /// Adds a client to a pending question; returns whether there is one.
    fn join(&mut self, client: &Client, key: &Key, ctx: &mut Ctx<'_>) -> bool {
        let Some(t) = self.questions.find(key) else { return false };
        self.counters.joined += 1;
        let first = &self.questions[t].client;
        let repeated =
            first.is_some_and(|first| first.to == client.to && first.wants.id == client.wants.id);
        if repeated && !matches!(client.to, ReplyTo::Stream { .. }) {
            // The client sent the same query again; its answer is pending.
            return true;
        }
        if !self.delivery.admission.enter(client.network) {
            self.counters.over_share += 1;
            self.fail_client(client, ctx);
            return true;
        }
        if !self.questions.join(t, client) {
            self.delivery.admission.leave(client.network);
            self.counters.overloaded += 1;
            self.fail_client(client, ctx);
        }
        true
    }

    /// Takes a place for a question; `None` if there is none, after an error to the client.
    pub(super) fn open(
        &mut self,
        client: Option<Client>,
        key: Key,
        ctx: &mut Ctx<'_>,
    ) -> Option<u32> {
        if self.questions.transactions.is_full() {
            let client = client.as_ref()?;
            match self.settings.config.limits.overload {
                Overload::RefuseOldest => {
                    self.counters.displaced += 1;
                    let question = std::mem::take(&mut self.scratch.question);
                    self.abandon(self.questions.oldest, ctx);
                    self.scratch.question = question;
                }
                Overload::DropOldest => {
                    self.counters.displaced += 1;
                    self.drop_all(self.questions.oldest, ctx);
                }
                Overload::RefuseNewest | Overload::DropNewest => {
                    self.counters.overloaded += 1;
                    self.overload(client, ctx);
                    return None;
                }
            }
        }
        if let Some(client) = &client
            && !self.delivery.admission.enter(client.network)
        {
            self.counters.over_share += 1;
            self.overload(client, ctx);
            return None;
        }
        self.questions.open(Transaction::new(key, client))
    }

    /// Handles a client without a place: it gets SERVFAIL or nothing, as configured.
    fn overload(&mut self, client: &Client, ctx: &mut Ctx<'_>) {
        match self.settings.config.limits.overload {
            Overload::DropNewest | Overload::DropOldest => {
                self.send_error(client.to, client.network, &[], ctx);
            }
            Overload::RefuseNewest | Overload::RefuseOldest => self.fail_client(client, ctx),
        }
    }

    /// Sends SERVFAIL for the current question.
    fn fail_client(&mut self, client: &Client, ctx: &mut Ctx<'_>) {
        self.counters.failures += 1;
        self.scratch.answer.question_only(&self.scratch.question, Rcode::SERVFAIL);
        self.deliver(client, Age::Fresh, ctx);
    }

    /// Lets other clients of the same subnet join a question from now on.
    fn offer_to_others(&mut self, t: u32, subnet: Option<Subnet>, now: Nanos) {
        self.questions.offer_to_others(t);
        let transaction = &mut self.questions[t];
        let Key { qtype, view, .. } = transaction.key;
        transaction.subnet = subnet;
        // Additional records may be changed by the rules of the view.
        transaction.is_apart = !view.is_empty() && !matches!(qtype, Qtype::A | Qtype::AAAA);
        self.note_name(t, None);
        self.note_stale(t, now);
    }

    /// Starts the first lookup of a question.
    pub(super) fn start(&mut self, t: u32, special: Special, ctx: &mut Ctx<'_>) {
        let policy = &self.settings.policy;
        let settings = &policy.synthesis;
        let transaction = &mut self.questions[t];
        let key = &transaction.key;
        if let Special::QueryReverse(name) = special {
            self.counters.reverse += 1;
            let mut qtype = Qtype::PTR;
            if settings.ptr == PtrMode::InPlace {
                (transaction.phase, transaction.name) = (Phase::InPlace, Some(name));
            } else {
                qtype = key.qtype;
                transaction.begin_with(name, settings.ttl_without_soa);
            }
            return self.start_lookup(LookupId::first(t), qtype, ctx);
        }
        if let Special::Alias(target) = special {
            transaction.begin_with(target, ALIAS_TTL);
            // A reload may remove the rule before a cached answer expires.
            transaction.cached = false;
        }
        let key = &transaction.key;
        let qtype = key.qtype;
        if qtype != Qtype::AAAA || key.view.is_empty() {
            transaction.phase = Phase::Pass;
            return self.start_lookup(LookupId::first(t), qtype, ctx);
        }
        let rule = match self.settings.rules.find(key.group, &key.name) {
            Some(Rule::Never) => NameRule::Never,
            Some(Rule::Always) => NameRule::Always,
            Some(Rule::Alias(_))
                if policy.rule(key.group, key.name.as_wire()) == NameRule::Never =>
            {
                NameRule::Never
            }
            _ => policy.rule(key.group, transaction.name().as_wire()),
        };
        match rule {
            NameRule::Never => {
                transaction.phase = Phase::Pass;
                self.start_lookup(LookupId::first(t), Qtype::AAAA, ctx);
            }
            NameRule::Always => {
                transaction.phase = Phase::AlwaysA;
                self.start_lookup(LookupId::first(t), Qtype::A, ctx);
            }
            NameRule::Usual => {
                transaction.phase = Phase::Aaaa;
                // A rule or a local answer may end the question at once.
                let moved = transaction.name.as_deref().copied();
                let ends = moved.is_some_and(|name| self.is_local(t, &[], &name));
                let parallel = settings.parallel && !ends;
                if self.use_begun(t, ctx) {
                    return;
                }
                self.start_lookup(LookupId::first(t), Qtype::AAAA, ctx);
                if parallel {
                    self.start_lookup(LookupId::second(t), Qtype::A, ctx);
                }
            }
        }
    }
}

/// Returns the return code of a query that is rejected; `None` for a query that is answered.
fn rejection(query: &Query<'_>) -> Option<Rcode> {
    match query.qtype {
        _ if query.bad_version() => Some(Rcode::BADVERS),
        // A DNS64 server answers only class IN.
        _ if query.qclass != Qclass::IN => Some(Rcode::REFUSED),
        Qtype::AXFR | Qtype::IXFR => Some(Rcode::REFUSED),
        Qtype::OPT | Qtype(0 | 128 | 249 | 250 | 253 | 254) => Some(Rcode::FORMERR),
        _ => None,
    }
}
