//! Empty answers of our own: a name has A records, but none of them is mapped, or its client gets none (`ipv4 = "drop"`).
//!
//! Upstream's replies to AAAA and A have no SOA record for such an answer, which clients and caches need (RFC 2308
//! section 3), so it is queried.

use wire::{Name, Qtype};

use super::outcome::Outcome;
use super::{Ctx, Dns64};
use crate::extended_error::ExtendedError;
use crate::policy::{NameRule, View};
use crate::question::Key;
use crate::reply::{FoundRecord, MAX_CHAIN, Reading, Reply};
use crate::settings::Settings;
use crate::special;
use crate::transaction::{LookupId, Phase, Transaction};

impl Dns64 {
    /// Queries the SOA record for the name at which the A reply ends.
    pub(super) fn query_soa(&mut self, t: u32, reading: &Reading, ctx: &mut Ctx<'_>) {
        if self.take_absence(t, reading) {
            self.questions[t].phase = Phase::Soa;
            self.release(LookupId::second(t));
            self.start_lookup(LookupId::first(t), Qtype::SOA, ctx);
        } else {
            self.fail(t, None, ctx);
        }
    }

    /// Uses the aliases and the lifetime of the A reply for an empty answer; returns whether there
    /// is room.
    fn take_absence(&mut self, t: u32, reading: &Reading) -> bool {
        let transaction = &mut self.questions[t];
        if transaction.chain.len() + self.scratch.chain.len() > MAX_CHAIN {
            return false;
        }
        transaction.chain.extend_from_slice(&self.scratch.chain);
        if reading.hops > 0 {
            transaction.name = Some(Box::new(reading.name));
        }
        // The answer is true as long as the A records are.
        let ttls = self.scratch.found.iter().map(|found| found.ttl);
        transaction.negative_ttl = ttls.chain(transaction.negative_ttl).min();
        true
    }

    /// Returns the blocks whose clients get no A records for a question whose aliases end at `end`: none if synthesis is forbidden for
    /// one of both names.
    pub(super) fn dropping(&self, t: u32, end: &Name) -> View {
        let key = &self.questions[t].key;
        let end = dropping_at(&self.settings, key, end);
        if end.is_empty() { end } else { dropping_at(&self.settings, key, &key.name) }
    }

    /// Returns whether the client of a question gets none of its A records if the name has addresses of IPv6: one of them is mapped.
    pub(super) fn drops_some(&self, t: u32, reply: &Reply<'_>, reading: &Reading) -> bool {
        reading.wanted > 0 && self.maps_any(self.dropping(t, &reading.name), reply)
    }

    /// Removes the mapped A records, and then the signatures of A, from the records found for a
    /// question of another type (ANY); returns whether there were some.
    pub(super) fn drops_found(&mut self, t: u32, reply: &Reply<'_>, reading: &Reading) -> bool {
        let view = self.dropping(t, &reading.name);
        if view.is_empty() || self.questions[t].key.qtype != Qtype::ANY {
            return false;
        }
        let policy = &self.settings.policy;
        let is_dropped = |found: &FoundRecord| {
            let address = <[u8; 4]>::try_from(reply.data(found)).ok();
            let is_mapped = address.is_some_and(|a| !policy.mapping(view, a.into()).is_empty());
            found.rtype == Qtype::A && is_mapped
        };
        let drops = self.scratch.found.iter().any(is_dropped);
        if drops {
            let signs_a = |found: &FoundRecord| {
                found.rtype == Qtype::RRSIG
                    && reply.data(found).starts_with(&Qtype::A.0.to_be_bytes())
            };
            self.scratch.found.retain(|found| !is_dropped(found) && !signs_a(found));
        }
        drops
    }

    /// Queries AAAA for the name at which the A reply ends: the client loses the A records only if
    /// the name has AAAA records or gets synthesised ones.
    pub(super) fn query_aaaa_to_drop(
        &mut self,
        t: u32,
        reply: &Reply<'_>,
        reading: &Reading,
        ctx: &mut Ctx<'_>,
    ) {
        // The A reply is kept: it is the answer if there are no AAAA records.
        if !self.questions.keep(t, reply.bytes().len()) {
            return self.abandon(t, ctx);
        }
        let transaction = &mut self.questions[t];
        transaction.early = Some(reply.bytes().into());
        transaction.phase = Phase::Drop;
        if reading.hops > 0 {
            transaction.name = Some(Box::new(reading.name));
        }
        self.start_lookup(LookupId::first(t), Qtype::AAAA, ctx);
    }

    /// Answers that there are no A records if there are, or will be, addresses of IPv6; otherwise, for example with bogus AAAA records,
    /// with the A records.
    pub(super) fn proceed_drop(&mut self, t: u32, outcome: Outcome<'_>, ctx: &mut Ctx<'_>) {
        let end = *self.questions[t].name();
        let early = self.questions[t].early.take();
        let a = early.as_deref().and_then(Reply::parse);
        let read = a.and_then(|a| Some((a, self.read_again(t, &a)?)));
        let Some((a, reading)) = read else { return self.fail(t, None, ctx) };
        match outcome {
            Outcome::Reply(reply) if reply.rcode == 0 || self.doubts_nxdomain(t, &reply, &end) => {
                let mut soa = Vec::new();
                if reply.push_soa(&end, &mut soa).is_none() {
                    return self.query_soa(t, &reading, ctx);
                }
                if !self.take_absence(t, &reading) {
                    return self.fail(t, None, ctx);
                }
                self.proceed_soa(t, outcome, ctx);
            }
            _ => {
                self.questions[t].phase = Phase::Pass;
                self.pass_on(t, &a, &reading, ctx);
            }
        }
    }

    /// Reads the A reply again that was kept while AAAA was queried for the end of its aliases, at
    /// that name.
    fn read_again(&mut self, t: u32, a: &Reply<'_>) -> Option<Reading> {
        let name = a.name()?;
        let transaction = &mut self.questions[t];
        let is_first = transaction.chain.is_empty() && name == transaction.key.name;
        transaction.name = (!is_first).then(|| Box::new(name));
        self.read(t, a, Qtype::A)
    }

    /// Returns the TTL of a negative answer from a reply, in seconds. If the reply to A answers a
    /// question for AAAA, it is at most the TTL of the absence of AAAA.
    pub(super) fn absence_ttl(&self, t: u32, reply: &Reply<'_>, reading: &Reading) -> u32 {
        let Transaction { key, negative_ttl, .. } = &self.questions[t];
        let own = reply.negative_ttl(&reading.name).unwrap_or(0);
        let of_aaaa = negative_ttl.filter(|_| reply.qtype() != key.qtype);
        of_aaaa.map_or(own, |ttl| ttl.min(own))
    }

    /// Answers that there are no records, as the configuration filters them; without an SOA record the answer is not cached.
    pub(super) fn proceed_soa(&mut self, t: u32, outcome: Outcome<'_>, ctx: &mut Ctx<'_>) {
        self.question_of(t);
        let transaction = &self.questions[t];
        let name = transaction.name();
        let record = &mut self.scratch.record;
        record.clear();
        let ttl = match outcome {
            Outcome::Reply(reply) => reply.push_soa(name, record),
            _ => None,
        };
        let ttl = ttl.map(|ttl| transaction.negative_ttl.map_or(ttl, |longest| ttl.min(longest)));
        self.scratch.answer.compose(&self.scratch.question, |c| {
            c.chain(&transaction.chain);
            if let Some(ttl) = ttl {
                c.authority_with_ttl(record, ttl);
            }
            c.limit_ttl(ttl.unwrap_or(0));
        });
        ExtendedError::Filtered.push(&mut self.scratch.answer.options);
        self.finish(t, ctx);
    }
}

/// Returns the blocks whose clients get no A records of a name: none if synthesis is forbidden for it, or it is a local name.
pub(super) fn dropping_at(settings: &Settings, key: &Key, name: &Name) -> View {
    let view = settings.policy.dropping(key.view, key.flags);
    let stays = || {
        settings.rule_of_target(key.group, name) == Some(NameRule::Never)
            || special::is_local(&settings.policy, key.group, &name.to_lowercase())
    };
    if view.is_empty() || stays() { View::default() } else { view }
}
