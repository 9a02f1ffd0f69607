//! What an IPv6-only client would query next for HTTPS and SVCB records, in the additional section (RFC 9460 sections 4.1 and
//! 4.2): the addresses of their targets, as a query for AAAA of the target gets them, and for an alias the services of its target.
//!
//! These records are optional: a target about which upstream fails, or whose addresses are for the client's network only, is left
//! out.

use std::net::Ipv4Addr;

use measure::Nanos;
use wire::edns::push_option;
use wire::message::{HEADER, Header, Record, name_at, records};
use wire::reply::chain::MAX_HOPS;
use wire::{Name, Qtype};

use super::absent::dropping_at;
use super::outcome::Outcome;
use super::{Ctx, Dns64};
use crate::answer::{Answer, MAX_MESSAGE};
use crate::config::HintMode;
use crate::policy::NameRule;
use crate::question::Key;
use crate::record::push;
use crate::reply::{FoundRecord, MAX_CHAIN, Reading, Reply, covered};
use crate::settings::Settings;
use crate::transaction::{LookupId, Phase, Service, Target, Transaction};

/// Highest number of targets of an answer that are looked up, targets of its aliases included.
const MAX_TARGETS: usize = 6;
/// Key of the `ipv4hint` parameter, and of the list of keys that a client must support (RFC 9460 section 14.3.2).
const IPV4HINT: u16 = 4;
const MANDATORY: u16 = 0;

/// Place of a service record: in the answer, at the end of the aliases of the question, or in the
/// additional section, at another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordPlace {
    Answer,
    Beside,
}

impl Dns64 {
    /// Finishes the composed answer after looking up the targets of its services.
    pub(super) fn finish_service(
        &mut self,
        t: u32,
        reply: &Reply<'_>,
        reading: &Reading,
        ctx: &mut Ctx<'_>,
    ) {
        let key = self.questions[t].key;
        let is_wanted = self.settings.policy.synthesis.service_targets && !key.view.is_empty();
        if !is_service(key.qtype) || reading.wanted == 0 || !is_wanted {
            return self.finish(t, ctx);
        }
        let until = ctx.now + self.settings.config.upstream.give_up_after;
        let mut service = Service::new(&self.scratch.answer, until);
        // An alias back to an earlier name adds no records to the answer.
        let own = |name| Target { name, qtype: key.qtype };
        service.known.extend([key.name, reading.name].map(own));
        service.add_targets(reply, &self.scratch.found, &reading.name, key.qtype);
        let stands = self.supplied(t, reply);
        let supplied = reply.own_additional(&reading.name, key.flags.dnssec, stands);
        service.targets.retain(|target| {
            !supplied.iter().any(|record| {
                record.rtype == target.qtype
                    && name_at(reply.bytes(), record.owner).as_ref() == Some(&target.name)
            })
        });
        let octets = service.answer.len + (2 + MAX_TARGETS) * size_of::<Target>();
        if service.targets.is_empty() || !self.questions.keep(t, octets) {
            return self.finish(t, ctx);
        }
        self.questions[t].service = Some(Box::new(service));
        self.query_target(t, ctx);
    }

    /// Returns which additional records of a reply the answer has: no records of names for which other servers are queried or this one
    /// answers, and for services only the records that a query for them would get, with their signatures if they are whole.
    pub(super) fn supplied<'b>(
        &self,
        t: u32,
        reply: &Reply<'b>,
    ) -> impl Fn(&Record<'_>) -> bool + use<'b> {
        let Key { group, qtype, view, flags, .. } = self.questions[t].key;
        let bytes = reply.bytes();
        // Without additional records, which is usual, the settings are not needed.
        let settings = reply.additional().next().map(|_| self.settings.clone());
        let policy = &self.settings.policy;
        let zones = settings.as_ref().filter(|_| policy.has_zones());
        let pool = zones.map(|_| policy.pool_for(group, self.questions[t].name()));
        let dropping = policy.dropping(view, flags);
        let view = policy.changing(view, flags, true);
        let serves = is_service(qtype) && !view.is_empty();
        let excludes = move |settings: &Settings, rule: Option<NameRule>, record: &Record<'_>| {
            let address = <[u8; 16]>::try_from(record.rdata).ok();
            let is_excluded = |a: [u8; 16]| settings.policy.is_excluded(view, a.into());
            let counts = rule == Some(NameRule::Never);
            record.rtype == Qtype::AAAA && address.is_none_or(|a| !counts && is_excluded(a))
        };
        let rule = move |settings: &Settings, record: &Record<'_>| {
            let owner = name_at(bytes, record.owner)?.to_lowercase();
            if pool.is_some_and(|pool| settings.policy.pool_for(group, &owner) != pool) {
                return None;
            }
            // For other records it only matters whether the answer keeps them, not which rule
            // applies.
            if serves || record.rtype == Qtype::A && !dropping.is_empty() {
                return settings.rule_of_target(group, &owner);
            }
            (!settings.answers(group, &owner)).then_some(NameRule::Usual)
        };
        let is_partial = serves
            && settings.as_deref().is_some_and(|settings| {
                reply.additional().any(|r| excludes(settings, rule(settings, &r), &r))
            });
        let strips = self.hint_stripper(t, RecordPlace::Beside);
        move |record| {
            let Some(settings) = &settings else { return true };
            let Some(rule) = rule(settings, record) else { return false };
            let is_dropped = |a: [u8; 4]| !settings.policy.mapping(dropping, a.into()).is_empty();
            let is_signature = covered(record) == Some(Qtype::AAAA);
            match record.rtype {
                Qtype::A => {
                    let address = <[u8; 4]>::try_from(record.rdata);
                    address.is_ok_and(|a| rule == NameRule::Never || !is_dropped(a))
                }
                Qtype::AAAA if record.rdata.len() != 16 => false,
                // Records that will be changed are looked up.
                Qtype::HTTPS | Qtype::SVCB if serves => name_at(bytes, record.owner)
                    .is_some_and(|o| strips(&o, record.rtype, record.rdata).is_none()),
                Qtype::AAAA | Qtype::RRSIG
                    if serves && (record.rtype == Qtype::AAAA || is_signature) =>
                {
                    rule != NameRule::Always
                        && !excludes(settings, Some(rule), record)
                        && !(is_partial && (is_signature || flags.dnssec))
                }
                _ => true,
            }
        }
    }

    /// Returns a function that removes the IPv4 hint from the data of a service, by its owner and
    /// type, if the client gets no addresses of IPv4 of the target, whose hint it is (RFC 9460
    /// section 7.3): for the owner itself by the rules of a query for it, which in an answer comes
    /// over the name of the question. A client that asks for signatures gets the signed data.
    pub(super) fn hint_stripper(
        &self,
        t: u32,
        standing: RecordPlace,
    ) -> impl Fn(&Name, Qtype, &[u8]) -> Option<Vec<u8>> + use<> {
        let key = &self.questions[t].key;
        let has_services = is_service(key.qtype) || key.qtype == Qtype::ANY;
        let applies = has_services && !key.view.is_empty() && !key.flags.dnssec;
        let rules = applies.then(|| Box::new((self.settings.clone(), *key)));
        move |owner, rtype, data| {
            let (settings, key) = &**rules.as_ref().filter(|_| is_service(rtype))?;
            let stripped = without_hint(data)?;
            let target = Name::from_wire(&data[2..][..wire::name::wire_len(&data[2..]).ok()?]);
            let target = target.ok()?;
            let target = if target.is_root() { *owner } else { target };
            let drops = |name: &Name| !dropping_at(settings, key, name).is_empty();
            let strips = settings.policy.synthesis.ipv4hint == HintMode::Strip
                || drops(&target)
                    && (standing == RecordPlace::Beside || target != *owner || drops(&key.name));
            strips.then_some(stripped)
        }
    }

    /// Looks up the next target.
    fn query_target(&mut self, t: u32, ctx: &mut Ctx<'_>) {
        let until = self.questions[t].service.as_ref().map_or(ctx.now, |service| service.until);
        while let Some(target) = self.target(t).filter(|_| ctx.now < until) {
            let group = self.questions[t].key.group;
            let first = match self.settings.rule_of_target(group, &target.name) {
                _ if target.qtype != Qtype::AAAA => target.qtype,
                Some(NameRule::Always) => Qtype::A,
                Some(_) => Qtype::AAAA,
                None => {
                    self.end_target(t);
                    continue;
                }
            };
            let transaction = &mut self.questions[t];
            (transaction.negative_ttl, transaction.filtered) = (None, false);
            return self.look_up_target(t, &target, first, ctx);
        }
        self.finish_targets(t, ctx);
    }

    /// Returns the service target whose addresses are looked up now; `None` after the last one.
    pub(super) fn target(&self, t: u32) -> Option<Target> {
        self.questions[t].service.as_ref()?.targets.front().copied()
    }

    /// Returns until when a lookup that begins now may wait. Lookups for the targets of a service
    /// share the time of one lookup, and each leaves a part to the next: the answer can be sent
    /// without them.
    pub(super) fn give_up_at(&self, t: u32, now: Nanos) -> Nanos {
        let longest = self.settings.config.upstream.give_up_after;
        match &self.questions[t].service {
            Some(service) => service.until.min(now + Nanos(longest.0 / 2)).max(now),
            None => now + longest,
        }
    }

    /// Ends the lookups of the current target.
    fn end_target(&mut self, t: u32) {
        if let Some(service) = &mut self.questions[t].service {
            service.targets.pop_front();
        }
    }

    /// Looks up records of a target.
    fn look_up_target(&mut self, t: u32, target: &Target, qtype: Qtype, ctx: &mut Ctx<'_>) {
        let transaction = &mut self.questions[t];
        transaction.phase = Phase::Target;
        transaction.name = Some(Box::new(target.name));
        transaction.chain.clear();
        transaction.hops = 0;
        self.start_lookup(LookupId::first(t), qtype, ctx);
    }

    /// Handles the outcome of a target's lookup.
    pub(super) fn proceed_target(&mut self, t: u32, outcome: Outcome<'_>, ctx: &mut Ctx<'_>) {
        let qtype = self.questions[t].lookups[0].qtype;
        let Some(target) = self.target(t) else { return self.finish_targets(t, ctx) };
        let Transaction { subnet, filtered, .. } = self.questions[t];
        let mut is_missing = false;
        match outcome {
            // An address for the client's network would make the answer one for it.
            Outcome::Reply(reply)
                if (reply.rcode == 0 || self.doubts_nxdomain(t, &reply, &target.name))
                    && subnet.is_none_or(|subnet| reply.scope(&subnet) == Some(0)) =>
            {
                if let Some(reading) = self.read(t, &reply, qtype) {
                    if reply.ends_in_alias(&reading) {
                        if self.follow_target(t, &reading) {
                            return self.start_lookup(LookupId::first(t), qtype, ctx);
                        }
                    } else {
                        is_missing = !self.use_target(t, &reply, &reading, ctx.now);
                    }
                }
            }
            // After an error, which may hide bogus data, there are no addresses.
            Outcome::Reply(_) | Outcome::Truncated => {}
            Outcome::Refused | Outcome::Nothing => is_missing = true,
        }
        let group = self.questions[t].key.group;
        let other = match (qtype, self.settings.rule_of_target(group, &target.name)) {
            (Qtype::AAAA, Some(NameRule::Usual)) if !filtered => Some(Qtype::A),
            (Qtype::A, Some(NameRule::Always)) => Some(Qtype::AAAA),
            // Without an A record that is mapped the AAAA records are kept.
            (Qtype::A, Some(NameRule::Usual)) if filtered => Some(Qtype::AAAA),
            _ => None,
        };
        if let Some(other) = other.filter(|_| is_missing && target.qtype == Qtype::AAAA) {
            return self.look_up_target(t, &target, other, ctx);
        }
        self.end_target(t);
        self.query_target(t, ctx);
    }

    /// Adds the aliases at the end of a reply about a target; returns whether they can be followed.
    fn follow_target(&mut self, t: u32, reading: &Reading) -> bool {
        let more = self.scratch.chain.len();
        let transaction = &self.questions[t];
        let fits = transaction.hops + reading.hops <= MAX_HOPS
            && transaction.chain.len() + more <= MAX_CHAIN
            && self.questions.keep(t, more);
        if fits {
            let transaction = &mut self.questions[t];
            transaction.hops += reading.hops;
            transaction.chain.extend_from_slice(&self.scratch.chain);
            transaction.name = Some(Box::new(reading.name));
        }
        fits
    }

    /// Adds the records found for the current target, after its aliases; returns whether there are
    /// any.
    fn use_target(&mut self, t: u32, reply: &Reply<'_>, reading: &Reading, now: Nanos) -> bool {
        let policy = self.settings.policy.clone();
        let Key { flags, group, .. } = self.questions[t].key;
        let view = self.current_view(t, reply);
        let is_never = self.is_never(t, reading);
        let is_mapped = !is_never && self.maps_any(view, reply);
        let strips = self.hint_stripper(t, RecordPlace::Beside);
        let longest = policy.longest_ttl(view, now);
        reply.make_set(&mut self.scratch.found);
        let own = self.questions[t].negative_ttl.unwrap_or(policy.synthesis.ttl_without_soa);
        self.questions[t].negative_ttl = reply.negative_ttl(&reading.name);
        let rule = self.target(t).and_then(|t| self.settings.rule_of_target(group, &t.name));
        let Transaction { service: Some(service), chain, lookups, key, filtered, .. } =
            &mut self.questions[t]
        else {
            return true;
        };
        let all_stay = *filtered || is_never || rule != Some(NameRule::Usual);
        let mut records = [&chain[..], &self.scratch.chain].concat();
        let before = records.len();
        let (found, owner) = (&self.scratch.found, &reading.name);
        let excluded = |data: &[u8]| {
            !all_stay && data.try_into().is_ok_and(|a: [u8; 16]| policy.is_excluded(view, a.into()))
        };
        match lookups[0].qtype {
            Qtype::AAAA => {
                let own = || found.iter().filter(|found| !excluded(reply.data(found)));
                let is_whole = reading.whole && own().count() == found.len();
                // A validator would refuse a part of the records.
                for found in own().filter(|_| is_whole || !flags.dnssec) {
                    push(&mut records, owner.as_wire(), Qtype::AAAA, found.ttl, reply.data(found));
                }
                if flags.dnssec && is_whole {
                    reply.push_signatures(&mut records, owner, Qtype::AAAA);
                }
                if own().next().is_none() {
                    *filtered = !found.is_empty() && policy.prefers_nat64(view);
                    return false;
                }
            }
            // A validator would look for the signatures of addresses that are made from signed ones.
            Qtype::A if is_never || flags.dnssec && reply.is_signed => {}
            Qtype::A => {
                for found in found {
                    let Ok(inner) = <[u8; 4]>::try_from(reply.data(found)) else { continue };
                    for outer in policy.map(view, Ipv4Addr::from(inner)) {
                        let ttl = found.ttl.min(own).min(longest);
                        push(&mut records, owner.as_wire(), Qtype::AAAA, ttl, &outer.octets());
                    }
                }
            }
            qtype => {
                push_services(&mut records, reply, found, owner, strips);
                if flags.dnssec {
                    reply.push_signatures(&mut records, owner, qtype);
                }
                if found.is_empty() {
                    // A client uses the target itself.
                    service.add_target(Target { name: *owner, qtype: Qtype::AAAA });
                }
                service.add_targets(reply, found, owner, key.qtype);
            }
        }
        if records.len() > before {
            service.add(&records);
        }
        is_mapped || lookups[0].qtype != Qtype::A
    }

    /// Finishes the answer after all targets were looked up.
    fn finish_targets(&mut self, t: u32, ctx: &mut Ctx<'_>) {
        let Some(service) = self.questions[t].service.take() else { return };
        self.scratch.answer.set(&service.answer.as_ref());
        self.scratch.answer.longest_ttl = service.answer.longest_ttl;
        self.finish(t, ctx);
    }
}

impl Service {
    /// Makes a service without targets from a composed answer, which waits for them until `until`.
    fn new(answer: &Answer, until: Nanos) -> Self {
        let (room, options) = (answer.bytes().to_vec(), answer.options.clone());
        let answer = Answer { room, options, ..*answer };
        Service { answer, until, targets: Default::default(), known: Vec::new() }
    }

    /// Adds the targets of the found services of a name: services for an alias (priority 0), addresses for the others.
    fn add_targets(
        &mut self,
        reply: &Reply<'_>,
        found: &[FoundRecord],
        owner: &Name,
        qtype: Qtype,
    ) {
        for found in found {
            let data = reply.data(found);
            let Some((priority, target)) = data.split_first_chunk::<2>() else { continue };
            let Ok(len) = wire::name::wire_len(target) else { continue };
            let Ok(name) = Name::from_wire(&target[..len]) else { continue };
            let is_alias = *priority == [0, 0];
            match name.is_root() {
                // There is no service.
                true if is_alias => {}
                true => self.add_target(Target { name: *owner, qtype: Qtype::AAAA }),
                false => {
                    let qtype = if is_alias { qtype } else { Qtype::AAAA };
                    self.add_target(Target { name: name.to_lowercase(), qtype });
                }
            }
        }
    }

    /// Adds a target, unless it was already added or there are too many.
    fn add_target(&mut self, target: Target) {
        if self.known.len() < 2 + MAX_TARGETS && !self.known.contains(&target) {
            self.known.push(target);
            self.targets.push_back(target);
        }
    }

    /// Adds whole uncompressed records to the additional section if there is room for all; a record
    /// is never there twice.
    fn add(&mut self, added: &[u8]) {
        let Answer { room: message, len, optional_at, .. } = &mut self.answer;
        let header = Header::read(message).filter(|_| *len + added.len() <= MAX_MESSAGE);
        let Some(mut header) = header else { return };
        for record in records(added, 0) {
            let record = record.octets(added);
            if !message[*optional_at..].windows(record.len()).any(|own| own == record) {
                header.counts[3] += 1;
                message.extend_from_slice(record);
            }
        }
        message[..HEADER].copy_from_slice(&header.to_bytes());
        *len = message.len();
    }
}

/// Appends the found service records of a name, without the hints that `strips` removes.
fn push_services(
    records: &mut Vec<u8>,
    reply: &Reply<'_>,
    found: &[FoundRecord],
    owner: &Name,
    strips: impl Fn(&Name, Qtype, &[u8]) -> Option<Vec<u8>>,
) {
    for found in found {
        let mut data = Vec::new();
        if reply.push_data(&mut data, found).is_some() {
            let data = strips(owner, found.rtype, &data).unwrap_or(data);
            push(records, owner.as_wire(), found.rtype, found.ttl, &data);
        }
    }
}

/// Returns whether records of a type lead to services (RFC 9460).
fn is_service(qtype: Qtype) -> bool {
    matches!(qtype, Qtype::HTTPS | Qtype::SVCB)
}

/// Returns the data of a service record without its IPv4 hint, which also leaves the list of mandatory keys (RFC 9460
/// section 8); `None` if it has none or cannot be parsed.
fn without_hint(data: &[u8]) -> Option<Vec<u8>> {
    let target = data.get(2..)?;
    let params = 2 + wire::name::wire_len(target).ok()?;
    let mut out = data[..params].to_vec();
    let mut rest = &data[params..];
    let mut found = false;
    while let Some((&[k1, k0, l1, l0], behind)) = rest.split_first_chunk::<4>() {
        let len = usize::from(u16::from_be_bytes([l1, l0]));
        let (value, next) = behind.split_at_checked(len)?;
        match u16::from_be_bytes([k1, k0]) {
            IPV4HINT => found = true,
            MANDATORY => {
                let keys = value.chunks(2).filter(|key| **key != IPV4HINT.to_be_bytes());
                let keys: Vec<u8> = keys.flatten().copied().collect();
                // An empty list is not allowed.
                if !keys.is_empty() {
                    push_option(&mut out, MANDATORY, &keys);
                }
            }
            key => push_option(&mut out, key, value),
        }
        rest = next;
    }
    (found && rest.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_removed_with_their_place_among_the_mandatory_keys() {
        // Priority 1, target `.`; mandatory (0), alpn (1), ipv4hint (4).
        let service = |params: &[u8]| [b"\0\x01\0", params].concat();
        let hint = b"\0\x04\0\x04\xc0\0\x02\x21";
        let alpn = b"\0\x01\0\x03\x02h2";
        type Records<'a> = &'a [&'a [u8]];
        let cases: [(Records<'_>, Option<Records<'_>>); 6] = [
            (&[hint], Some(&[])),
            (&[alpn, hint], Some(&[alpn])),
            (&[b"\0\0\0\x02\0\x04", hint], Some(&[])),
            (&[b"\0\0\0\x04\0\x01\0\x04", alpn, hint], Some(&[b"\0\0\0\x02\0\x01", alpn])),
            (&[alpn], None),
            (&[hint, b"\0"], None),
        ];
        for (with, without) in cases {
            let expected = without.map(|without| service(&without.concat()));
            assert_eq!(without_hint(&service(&with.concat())), expected, "{with:02x?}");
        }
    }
}
