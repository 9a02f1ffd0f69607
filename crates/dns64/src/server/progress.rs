//! The next step after a lookup: an answer or another lookup.
//!
//! | phase | reply | next step | RFC 6147 |
//! |---|---|---|---|
//! | any | truncated, and no whole reply over a stream | TC, or SERVFAIL over a stream: never an absence | RFC 2181 9 |
//! | AAAA | NXDOMAIN; YXDOMAIN | pass it on | 5.1.2; RFC 6672 2.2 |
//! | AAAA | NXDOMAIN without proof or AD, for a name in `ignore-nxdomain` | as for no AAAA records | against 5.1.2 |
//! | AAAA | SERVFAIL because of DNSSEC | pass it on | 5.5 |
//! | AAAA | SERVFAIL | query AAAA with CD: an answer means bogus data and SERVFAIL | 5.5 |
//! | AAAA | another error | query A, or pass the error on | 5.1.2 |
//! | AAAA | none in time | query A (after the first timeout, beside AAAA), or SERVFAIL | 5.1.3 |
//! | AAAA | AAAA records, not all excluded | pass them on, without the excluded ones | 5.1.1, 5.1.4 |
//! | AAAA | no AAAA records, or only excluded ones | query A | 5.1.1, 5.1.4 |
//! | A | A records, some of them mapped | synthesise | 5.1.7 |
//! | A | A records, none of them mapped | query SOA for an empty answer | 5.1.6 |
//! | A | no A records, or an error | pass it on as the answer to AAAA | 5.1.6 |
//! | any | an alias without records of its target | query its target | 5.1.5 |
//! | any | an alias that leads to a zone with servers of its own, or out of it | query its target there | RFC 2181 5.4.1 |

use std::net::Ipv6Addr;

use measure::Nanos;
use wire::message::{Record, flag, records};
use wire::reply::chain::MAX_HOPS;
use wire::{Name, Qtype, Rcode};

use super::outcome::Outcome;
use super::target::RecordPlace;
use super::{Ctx, Dns64};
use crate::compose::Composer;
use crate::config::{OnError, OnTimeout};
use crate::extended_error::ExtendedError;
use crate::policy::{NameRule, View};
use crate::question::Key;
use crate::reply::{MAX_CHAIN, Reading, Reply};
use crate::special;
use crate::table::slab::NONE;
use crate::transaction::{LookupId, Phase, Transaction};

/// Longest TTL of records synthesised after a timeout of the AAAA query, in seconds: whether there are AAAA records is
/// not known.
const TTL_AFTER_TIMEOUT: u32 = 60;

impl Dns64 {
    /// Continues a question after one of its lookups has ended.
    pub(super) fn proceed(&mut self, at: LookupId, outcome: Outcome<'_>, ctx: &mut Ctx<'_>) {
        let t = at.transaction;
        let phase = self.questions[t].phase;
        if at.slot == 1 && matches!(phase, Phase::Aaaa | Phase::Check) {
            // The A reply has to wait for the AAAA reply; without memory for it A is queried again.
            if let Outcome::Reply(reply) = outcome
                && self.questions.keep(t, reply.bytes().len())
            {
                self.questions[t].early = Some(reply.bytes().into());
                self.limit_wait_beside(&reply, t, ctx.now);
            }
            return;
        }
        match outcome {
            Outcome::Truncated
                if !matches!(phase, Phase::Probe | Phase::Soa | Phase::Drop | Phase::Target) =>
            {
                return self.fail_truncated(t, ctx);
            }
            Outcome::Reply(reply) if phase != Phase::Target => self.note_scope(t, &reply),
            _ => {}
        }
        match phase {
            Phase::Probe => self.close(t),
            Phase::Pass | Phase::InPlace => self.proceed_pass(t, outcome, ctx),
            Phase::Aaaa => self.proceed_aaaa(t, outcome, ctx),
            Phase::Check => self.proceed_check(t, outcome, ctx),
            Phase::A | Phase::AlwaysA => self.proceed_a(t, outcome, ctx),
            Phase::Soa => self.proceed_soa(t, outcome, ctx),
            Phase::Drop => self.proceed_drop(t, outcome, ctx),
            Phase::Target => self.proceed_target(t, outcome, ctx),
        }
    }

    /// Notes the client networks for which a reply is valid; an answer is for the smallest ones.
    fn note_scope(&mut self, t: u32, reply: &Reply<'_>) {
        let transaction = &mut self.questions[t];
        if let Some(subnet) = &transaction.subnet {
            transaction.scope = transaction.scope.max(reply.scope(subnet).unwrap_or(0));
        }
    }

    fn proceed_pass(&mut self, t: u32, outcome: Outcome<'_>, ctx: &mut Ctx<'_>) {
        let reason = outcome.reason();
        let Outcome::Reply(reply) = outcome else { return self.fail(t, reason, ctx) };
        let transaction = &self.questions[t];
        let (phase, qtype) = (transaction.phase, transaction.lookups[0].qtype);
        let Some(reading) = self.read(t, &reply, qtype) else { return self.fail(t, reason, ctx) };
        if reply.ends_in_alias(&reading) && qtype != Qtype::CNAME && qtype != Qtype::ANY {
            return self.follow(t, &reading, qtype, ctx);
        }
        if phase == Phase::InPlace && matches!(reply.rcode, 0 | 3) {
            return self.answer_in_place(t, &reply, &reading, ctx);
        }
        if qtype == Qtype::A && self.drops_some(t, &reply, &reading) {
            return self.query_aaaa_to_drop(t, &reply, &reading, ctx);
        }
        self.pass_on(t, &reply, &reading, ctx);
    }

    /// Answers a question about a reverse name under a prefix with upstream's answer for the IPv4
    /// reverse name.
    fn answer_in_place(&mut self, t: u32, reply: &Reply<'_>, reading: &Reading, ctx: &mut Ctx<'_>) {
        if !self.can_read(reply) {
            self.counters.upstream_malformed += 1;
            return self.fail(t, Some(ExtendedError::NetworkError), ctx);
        }
        self.question_of(t);
        let (policy, found) = (&self.settings.policy, &self.scratch.found);
        let Transaction { key, chain, .. } = &self.questions[t];
        // The omitted aliases limit the lifetime of the answer too.
        let aliases = records(chain, 0).chain(records(&self.scratch.chain, 0));
        let longest = aliases.map(|alias| alias.ttl).min().unwrap_or(u32::MAX);
        let mut record = Vec::new();
        self.scratch.answer.compose(&self.scratch.question, |c| {
            c.rcode(Rcode(reply.rcode));
            for found in found {
                // The name in the record may be compressed.
                record.clear();
                if let Some(name) = wire::message::name_at(reply.bytes(), found.at) {
                    record.extend_from_slice(name.as_wire());
                    c.at_question(Qtype::PTR, found.ttl.min(longest), &record);
                }
            }
            if found.is_empty() {
                let ttl = reply.negative_ttl(&reading.name).unwrap_or(0).min(longest);
                c.authority(&special::reverse_soa(policy, &key.name, ttl));
                c.limit_ttl(ttl);
            }
        });
        reply.copy_options(&mut self.scratch.answer);
        self.finish(t, ctx);
    }

    fn proceed_aaaa(&mut self, t: u32, outcome: Outcome<'_>, ctx: &mut Ctx<'_>) {
        let policy = self.settings.policy.clone();
        let settings = &policy.synthesis;
        let reply = match outcome {
            Outcome::Nothing if settings.on_timeout == OnTimeout::Fail || self.a_has_failed(t) => {
                return self.fail(t, outcome.reason(), ctx);
            }
            Outcome::Refused if settings.on_error == OnError::Pass => {
                return self.fail(t, outcome.reason(), ctx);
            }
            // A real IPv6 address, although stale, is better than one through the NAT64 (RFC 8767).
            Outcome::Nothing if self.serve_stale_if(t, |answer| answer.is_native(), ctx) => {
                return;
            }
            Outcome::Nothing => {
                let longest = settings.ttl_without_soa.min(TTL_AFTER_TIMEOUT);
                self.questions[t].negative_ttl = Some(longest);
                return self.query_a(t, ctx);
            }
            Outcome::Refused | Outcome::Truncated => return self.query_a(t, ctx),
            Outcome::Reply(reply) => reply,
        };
        let reading = self.read(t, &reply, Qtype::AAAA);
        let Some(reading) = reading else {
            return match settings.on_error {
                OnError::Pass => self.fail(t, outcome.reason(), ctx),
                OnError::AskA => self.query_a(t, ctx),
            };
        };
        if reply.ends_in_alias(&reading) {
            return self.follow(t, &reading, Qtype::AAAA, ctx);
        }
        match reply.rcode {
            0 => {}
            3 if self.doubts_nxdomain(t, &reply, &reading.name) => {}
            3 | 6 => return self.pass_on(t, &reply, &reading, ctx),
            _ if settings.on_error == OnError::Pass || reply.is_bogus() => {
                return self.pass_on(t, &reply, &reading, ctx);
            }
            2 if !self.questions[t].key.flags.cd => {
                self.questions[t].phase = Phase::Check;
                return self.start_lookup(LookupId::first(t), Qtype::AAAA, ctx);
            }
            _ => return self.query_a(t, ctx),
        }
        let Key { view, flags, .. } = self.questions[t].key;
        if policy.changing(view, flags, reply.is_signed).is_empty() || self.is_never(t, &reading) {
            return self.pass_on(t, &reply, &reading, ctx);
        }
        if reading.wanted == 0 {
            self.questions[t].negative_ttl = reply.negative_ttl(&reading.name);
            return self.query_a(t, ctx);
        }
        self.use_aaaa(t, &reply, &reading, ctx);
    }

    /// Returns whether a reply is an NXDOMAIN to AAAA of a name whose servers are wrong in this (RFC 4074 section 4.2), and not a proven one.
    pub(super) fn doubts_nxdomain(&self, t: u32, reply: &Reply<'_>, name: &Name) -> bool {
        let is_proven = self.questions[t].lookups[0].claims_authentic || reply.is_signed;
        reply.rcode == 3
            && reply.qtype() == Qtype::AAAA
            && !is_proven
            && self.settings.policy.ignores_nxdomain(self.questions[t].key.group, name.as_wire())
    }

    /// Answers with the found AAAA records that are not excluded; without any A is queried.
    fn use_aaaa(&mut self, t: u32, reply: &Reply<'_>, reading: &Reading, ctx: &mut Ctx<'_>) {
        let policy = &self.settings.policy;
        let view = self.questions[t].key.view;
        let excluded = |data: &[u8]| {
            data.try_into().is_ok_and(|a: [u8; 16]| policy.is_excluded(view, Ipv6Addr::from(a)))
        };
        let total = self.scratch.found.len();
        self.scratch.found.retain(|found| !excluded(reply.data(found)));
        match self.scratch.found.len() {
            0 => {
                self.questions[t].filtered = true;
                self.query_a(t, ctx);
            }
            n => {
                self.counters.native += 1;
                if n == total {
                    self.pass_on(t, reply, reading, ctx)
                } else {
                    self.rebuild(t, reply, reading);
                    self.finish(t, ctx);
                }
            }
        }
    }

    /// Ends a question whose AAAA records exist but did not validate; for another reason of the SERVFAIL A is queried
    /// (RFC 6147 section 5.5: the answer to a client without CD must not come from bogus data).
    fn proceed_check(&mut self, t: u32, outcome: Outcome<'_>, ctx: &mut Ctx<'_>) {
        match outcome {
            Outcome::Reply(reply) if matches!(reply.rcode, 0 | 3) => {
                self.fail_now(t, Some(ExtendedError::DnssecBogus), ctx);
            }
            _ => self.query_a(t, ctx),
        }
    }

    /// Queries A, or uses the A reply that has already arrived.
    pub(super) fn query_a(&mut self, t: u32, ctx: &mut Ctx<'_>) {
        let transaction = &mut self.questions[t];
        transaction.phase = Phase::A;
        if let Some(early) = transaction.early.take() {
            return match Reply::parse(&early) {
                Some(reply) => {
                    self.note_scope(t, &reply);
                    self.proceed_a(t, Outcome::Reply(reply), ctx);
                }
                None => self.fail(t, None, ctx),
            };
        }
        // The A query may already be pending.
        if !transaction.lookups[1].is_pending() {
            self.start_lookup(LookupId::first(t), Qtype::A, ctx);
        }
    }

    /// Queries A beside AAAA after the first timeout of the AAAA query, so that a name without a
    /// reply from upstream takes little longer than this timeout.
    pub(super) fn query_a_too(&mut self, t: u32, ctx: &mut Ctx<'_>) {
        let transaction = &self.questions[t];
        let queried = transaction.lookups[1].attempts > 0;
        let on_timeout = self.settings.policy.synthesis.on_timeout;
        if transaction.phase != Phase::Aaaa || on_timeout == OnTimeout::Fail {
            return;
        }
        if !queried {
            self.start_lookup(LookupId::second(t), Qtype::A, ctx);
        } else if let Some(early) = self.questions[t].early.take() {
            // A was queried at the same time as AAAA.
            if let Some(reply) = Reply::parse(&early) {
                self.limit_wait_beside(&reply, t, ctx.now);
            }
            self.questions[t].early = Some(early);
        }
    }

    /// Limits the wait for AAAA if the A reply beside it has records.
    fn limit_wait_beside(&mut self, a: &Reply<'_>, t: u32, now: Nanos) {
        if a.rcode == 0 && a.header.counts[1] > 0 {
            self.limit_wait(t, now);
        }
    }

    /// Returns whether A was queried beside AAAA and had no reply.
    fn a_has_failed(&self, t: u32) -> bool {
        let Transaction { lookups: [_, a], early, .. } = &self.questions[t];
        a.attempts > 0 && !a.is_pending() && early.is_none()
    }

    fn proceed_a(&mut self, t: u32, outcome: Outcome<'_>, ctx: &mut Ctx<'_>) {
        let Transaction { phase, filtered, key, .. } = &self.questions[t];
        let always =
            *phase == Phase::AlwaysA || *filtered && self.settings.policy.prefers_nat64(key.view);
        let reading = match &outcome {
            Outcome::Reply(reply) => self.read(t, reply, Qtype::A),
            _ => None,
        };
        if let (Outcome::Reply(reply), Some(reading)) = (outcome, &reading) {
            if reply.rcode == 0 && reading.wanted > 0 {
                let view = self.current_view(t, &reply);
                if view.is_empty() || self.is_never(t, reading) {
                    return self.leave_alone(t, ctx);
                }
                if self.maps_any(view, &reply) {
                    return self.synthesise(t, &reply, reading, view, ctx);
                }
                if !always {
                    return self.query_soa(t, reading, ctx);
                }
            } else if reply.ends_in_alias(reading) {
                return self.follow(t, reading, Qtype::A, ctx);
            } else if !always {
                return self.pass_on(t, &reply, reading, ctx);
            }
        } else if !always {
            return self.fail(t, outcome.reason(), ctx);
        }
        self.leave_alone(t, ctx);
    }

    /// Queries AAAA for the name with which the question began, and passes the reply on.
    fn leave_alone(&mut self, t: u32, ctx: &mut Ctx<'_>) {
        self.release(LookupId::first(t));
        self.release(LookupId::second(t));
        let transaction = &mut self.questions[t];
        transaction.phase = Phase::Pass;
        transaction.begin_again();
        self.start_lookup(LookupId::first(t), Qtype::AAAA, ctx);
    }

    /// Returns the blocks under which an A reply is synthesised now: after a reload the same bits may mean other blocks.
    pub(super) fn current_view(&self, t: u32, reply: &Reply<'_>) -> View {
        let policy = &self.settings.policy;
        let transaction = &self.questions[t];
        let flags = transaction.key.flags;
        let view = match &transaction.client {
            Some(client) => policy.permitted(policy.view(client.address), flags),
            None => transaction.key.view,
        };
        policy.changing(view, flags, reply.is_signed)
    }

    /// Returns the blocks of the client of a question, also if its query forbids changed data. With
    /// several clients, returns the blocks that all of them have.
    pub(super) fn whole_view(&self, t: u32) -> View {
        let Transaction { client, waiters, key, .. } = &self.questions[t];
        let alone = client.filter(|_| *waiters == NONE);
        alone.map_or(key.view, |client| self.settings.policy.view(client.address))
    }

    /// Returns whether a chain has led to a name that is never synthesised.
    pub(super) fn is_never(&self, t: u32, reading: &Reading) -> bool {
        let moved = reading.hops > 0 || self.questions[t].name.is_some();
        let group = self.questions[t].key.group;
        moved
            && (self.settings.policy.rule(group, reading.name.as_wire()) == NameRule::Never
                || self.is_local(t, &self.scratch.chain, &reading.name))
    }

    /// Returns whether an address of the found A records is mapped in a view.
    pub(super) fn maps_any(&self, view: View, reply: &Reply<'_>) -> bool {
        self.scratch.found.iter().any(|found| {
            let address = <[u8; 4]>::try_from(reply.data(found));
            address.is_ok_and(|a| self.settings.policy.map(view, a.into()).next().is_some())
        })
    }

    /// Queries the target of an alias at which the reply ends.
    pub(super) fn follow(&mut self, t: u32, reading: &Reading, qtype: Qtype, ctx: &mut Ctx<'_>) {
        let transaction = &mut self.questions[t];
        transaction.hops += reading.hops;
        if transaction.hops > MAX_HOPS
            || transaction.chain.len() + self.scratch.chain.len() > MAX_CHAIN
        {
            return self.fail(t, None, ctx);
        }
        if !self.questions.keep(t, self.scratch.chain.len()) {
            return self.abandon(t, ctx);
        }
        let transaction = &mut self.questions[t];
        transaction.chain.extend_from_slice(&self.scratch.chain);
        transaction.name = Some(Box::new(reading.name));
        // An A query that was sent with the AAAA query asked for the previous name.
        transaction.early = None;
        self.release(LookupId::second(t));
        self.questions[t].lookups[1].attempts = 0;
        self.start_lookup(LookupId::first(t), qtype, ctx);
    }

    /// Synthesises the answer from A records under the prefixes of `view` (RFC 6147 section 5.1.7).
    fn synthesise(
        &mut self,
        t: u32,
        reply: &Reply<'_>,
        reading: &Reading,
        view: View,
        ctx: &mut Ctx<'_>,
    ) {
        self.question_of(t);
        reply.make_set(&mut self.scratch.found);
        let stands = self.supplied(t, reply);
        let policy = &self.settings.policy;
        let transaction = &self.questions[t];
        let lifetime = policy.longest_ttl(view, ctx.now);
        let longest = transaction.negative_ttl.unwrap_or(policy.synthesis.ttl_without_soa);
        let longest = longest.min(lifetime);
        let dnssec = transaction.key.flags.dnssec;
        let scratch = &mut self.scratch;
        let (chain, found, record) = (&scratch.chain, &scratch.found, &mut scratch.record);
        let mut used = 0;
        scratch.answer.compose(&scratch.question, |c| {
            c.chain(&transaction.chain);
            c.chain(chain);
            for found in found {
                let Ok(address) = <[u8; 4]>::try_from(reply.data(found)) else { continue };
                let blocks = policy.mapping(view, address.into());
                used |= blocks.0;
                for address in policy.map_always(blocks, address.into()) {
                    let ttl = found.ttl.min(longest);
                    c.at_end(reading.name.as_wire(), Qtype::AAAA, ttl, &address.octets());
                }
            }
            c.limit_ttl(lifetime);
            // The authority and additional sections come from the A reply (section 5.4).
            c.optional();
            for authority in reply.own_authority(&reading.name, dnssec, |_| true) {
                record.clear();
                if reply.push(record, &authority).is_some() {
                    c.authority(record);
                }
            }
            let additional = reply.own_additional(&reading.name, dnssec, stands);
            pass_additional(c, reply, additional, record);
        });
        reply.copy_options(&mut scratch.answer);
        // More addresses than a message holds are a failure.
        if Rcode(scratch.answer.rcode) == Rcode::NOERROR {
            ExtendedError::Synthesized.push(&mut scratch.answer.options);
        }
        self.counters.synthesised += 1;
        let used = (0..u32::BITS as usize).filter(|block| used >> block & 1 == 1);
        used.for_each(|block| self.delivery.statistics.synthesised(block));
        self.finish(t, ctx);
    }

    /// Passes the reply on as the answer, under the client's question.
    pub(super) fn pass_on(
        &mut self,
        t: u32,
        reply: &Reply<'_>,
        reading: &Reading,
        ctx: &mut Ctx<'_>,
    ) {
        // An upstream error allows a recently expired answer too (RFC 8767 section 5).
        if reply.is_failure() && self.serve_stale(t, ctx) {
            return;
        }
        let dnssec = self.questions[t].key.flags.dnssec;
        let own = !reading.foreign && reply.has_own_records(&reading.name, dnssec);
        self.counters.upstream_scrubbed += u64::from(!own);
        let stands = self.supplied(t, reply);
        // `drops_found` also removes the records that it finds.
        let drops = self.drops_found(t, reply, reading);
        let changes = reading.mended
            || drops
            || self.strips_hints(t, reply, reading)
            || !reply.additional().all(|record| stands(&record));
        let is_copied = own && reply.is_plain() && !changes && self.is_unmoved(t);
        if !(if is_copied { reply.is_readable() } else { self.can_read(reply) }) {
            self.counters.upstream_malformed += 1;
            return self.fail(t, Some(ExtendedError::NetworkError), ctx);
        }
        if is_copied {
            self.question_of(t);
            reply.copy_to(&mut self.scratch.answer, &self.scratch.question);
            reply.copy_options(&mut self.scratch.answer);
            if reply.qtype() != self.questions[t].key.qtype {
                // The absence of A records is authentic; the answer states the absence of AAAA
                // records, which is not.
                self.scratch.answer.clear_authentic();
            }
            if reply.is_negative(reading.wanted) {
                self.scratch.answer.longest_ttl = self.absence_ttl(t, reply, reading);
            }
        } else {
            self.rebuild(t, reply, reading);
        }
        if self.questions[t].filtered && reply.is_negative(reading.wanted) {
            ExtendedError::Filtered.push(&mut self.scratch.answer.options);
        }
        self.finish_service(t, reply, reading, ctx);
    }

    /// Returns whether the data of all found records of a reply can be read.
    fn can_read(&mut self, reply: &Reply<'_>) -> bool {
        let (found, data) = (&self.scratch.found, &mut self.scratch.record);
        found.iter().all(|found| {
            data.clear();
            reply.push_data(data, found).is_some()
        })
    }

    /// Returns whether a question is still about its own name.
    fn is_unmoved(&self, t: u32) -> bool {
        let transaction = &self.questions[t];
        transaction.chain.is_empty() && transaction.name.is_none()
    }

    /// Composes the answer from a reply: all aliases, the found records, one SOA. It is authentic
    /// (AD) only if all records of the answer section come from upstream.
    fn rebuild(&mut self, t: u32, reply: &Reply<'_>, reading: &Reading) {
        self.question_of(t);
        // Signatures fit the records as long as none of them is missing or changed.
        let strips = self.hint_stripper(t, RecordPlace::Answer);
        let whole = reading.whole
            && self.scratch.found.len() == reading.wanted as usize
            && !self.strips_hints(t, reply, reading);
        let transaction = &self.questions[t];
        let dnssec = transaction.key.flags.dnssec;
        let same_question = self.is_unmoved(t) && reply.qtype() == transaction.key.qtype;
        let same_answer = whole && !reading.mended && !reading.foreign && same_question;
        let stands = self.supplied(t, reply);
        let absence_ttl = self.absence_ttl(t, reply, reading);
        let scratch = &mut self.scratch;
        let (chain, found, record) = (&scratch.chain, &scratch.found, &mut scratch.record);
        let negative = reply.is_negative(found.len() as u32);
        scratch.answer.compose(&scratch.question, |c| {
            c.rcode(Rcode(reply.rcode & 0xf));
            c.flag(flag::AD, reply.is_authentic() && same_answer);
            c.chain(&transaction.chain);
            c.chain(chain);
            for found in found {
                record.clear();
                if reply.push_data(record, found).is_some() {
                    let stripped = strips(&reading.name, found.rtype, record);
                    let data = stripped.as_deref().unwrap_or(record);
                    c.at_end(reading.name.as_wire(), found.rtype, found.ttl, data);
                }
            }
            if dnssec && whole {
                record.clear();
                reply.push_signatures(record, &reading.name, reply.qtype());
                c.answers(record);
            }
            let wanted = |rtype| match rtype {
                Qtype::SOA => negative,
                Qtype::NS => false,
                _ => true,
            };
            for authority in reply.own_authority(&reading.name, dnssec, wanted) {
                record.clear();
                if reply.push(record, &authority).is_some() {
                    c.authority(record);
                }
            }
            if negative {
                c.limit_ttl(absence_ttl);
            } else {
                let additional = reply.own_additional(&reading.name, dnssec, stands);
                pass_additional(c, reply, additional, record);
            }
        });
        if scratch.answer.rcode == reply.rcode & 0xf {
            scratch.answer.rcode = reply.rcode;
        }
        reply.copy_options(&mut scratch.answer);
    }

    /// Returns whether IPv4 hints of services are removed from the answer to a question.
    fn strips_hints(&self, t: u32, reply: &Reply<'_>, reading: &Reading) -> bool {
        let strips = self.hint_stripper(t, RecordPlace::Answer);
        let name = &reading.name;
        self.scratch.found.iter().any(|f| strips(name, f.rtype, reply.data(f)).is_some())
    }

    /// Writes the clients' question into the scratch buffer.
    pub(super) fn question_of(&mut self, t: u32) {
        let key = &self.questions[t].key;
        Key::question(&key.name, key.qtype, &mut self.scratch.question);
    }
}

/// Adds records of the additional section that belong to an answer (RFC 6147 section 5.3.2).
fn pass_additional(
    c: &mut Composer<'_>,
    reply: &Reply<'_>,
    additional: Vec<Record<'_>>,
    room: &mut Vec<u8>,
) {
    for record in additional {
        room.clear();
        if reply.push(room, &record).is_some() {
            c.additional(room);
        }
    }
}
