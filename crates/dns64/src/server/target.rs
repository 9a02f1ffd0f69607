//! Addresses of the targets of HTTPS and SVCB records (RFC 9460 section 4.2.1). An IPv6-only client would
//! query them next, so they are added to the additional section, synthesised if necessary.

use std::net::{Ipv4Addr, Ipv6Addr};

use engine::TxBatch;
use measure::Nanos;
use wire::message::{HEADER, Header};
use wire::{Name, Qtype};

use super::Dns64;
use super::lookup::Outcome;
use crate::answer::MAX_MESSAGE;
use crate::policy::NameRule;
use crate::reply::{Found, Reading, Reply};
use crate::transaction::{Phase, Service};

/// Highest number of targets that are looked up.
const MAX_TARGETS: usize = 4;
/// Key of the `ipv4hint` parameter, and of the list of keys that a client must support (RFC 9460 section 14.3.2).
const IPV4HINT: u16 = 4;
const MANDATORY: u16 = 0;

impl Dns64 {
    /// Finishes the composed answer after looking up the targets of its services.
    pub(super) fn finish_service(
        &mut self,
        t: u32,
        reply: &Reply<'_>,
        reading: &Reading,
        now: Nanos,
        tx: &mut TxBatch,
    ) {
        let transaction = &self.transactions[t];
        let key = &transaction.key;
        if !matches!(key.qtype, Qtype::HTTPS | Qtype::SVCB) || reading.wanted == 0 {
            return self.finish(t, now, tx);
        }
        let policy = self.settings.policy.clone();
        let synthesises = !key.view.is_empty();
        let usable = |name: &Name| policy.rule(name.as_wire()) != NameRule::Never;
        let targets = if policy.synthesis.service_targets && synthesises {
            targets(reply, &self.scratch.found, &reading.name).into_iter().filter(usable).collect()
        } else {
            Vec::new()
        };
        let octets = self.scratch.answer.bytes().len() + targets.len() * size_of::<Name>();
        if targets.is_empty() || !self.keep(t, octets) {
            return self.finish(t, now, tx);
        }
        let answer = &self.scratch.answer;
        self.transactions[t].service = Some(Box::new(Service {
            message: answer.bytes().to_vec(),
            question_end: answer.question_end,
            optional_at: answer.optional_at,
            options: answer.options.clone(),
            ttl: answer.ttl,
            targets,
        }));
        self.query_target(t, now, tx);
    }

    /// Looks up the next target.
    fn query_target(&mut self, t: u32, now: Nanos, tx: &mut TxBatch) {
        let transaction = &mut self.transactions[t];
        let target =
            transaction.service.as_ref().and_then(|service| service.targets.last().copied());
        match target {
            Some(target) => {
                transaction.phase = Phase::TargetAaaa;
                transaction.negative_ttl = None;
                transaction.name = Some(Box::new(target));
                self.start_lookup(t, 0, Qtype::AAAA, now, tx);
            }
            None => self.finish_targets(t, now, tx),
        }
    }

    /// Handles the outcome of a target's lookup.
    pub(super) fn proceed_target(
        &mut self,
        t: u32,
        outcome: Outcome<'_>,
        now: Nanos,
        tx: &mut TxBatch,
    ) {
        let qtype = self.transactions[t].lookups[0].qtype;
        let policy = self.settings.policy.clone();
        let mut missing = true;
        if let Outcome::Reply(reply) = outcome {
            // The addresses are optional: after an error, which may hide bogus data, there are none.
            missing = false;
            if reply.rcode == 0 && self.read(t, &reply, qtype).is_some() {
                missing = self.add_addresses(t, &reply, qtype, now);
                self.transactions[t].negative_ttl = reply.negative_ttl;
            }
        }
        let transaction = &mut self.transactions[t];
        let is_mapped = transaction.service.as_ref().is_some_and(|service| {
            service.targets.last().is_some_and(|n| policy.rule(n.as_wire()) != NameRule::Never)
        });
        if missing && qtype == Qtype::AAAA && is_mapped {
            transaction.phase = Phase::TargetA;
            return self.start_lookup(t, 0, Qtype::A, now, tx);
        }
        if let Some(service) = &mut transaction.service {
            service.targets.pop();
        }
        self.query_target(t, now, tx);
    }

    /// Adds the addresses that were found for a target; returns whether there are none.
    fn add_addresses(&mut self, t: u32, reply: &Reply<'_>, qtype: Qtype, now: Nanos) -> bool {
        let policy = &self.settings.policy;
        let transaction = &mut self.transactions[t];
        let longest = transaction.negative_ttl.unwrap_or(policy.synthesis.ttl_without_soa);
        let view = transaction.key.view;
        let longest = longest.min(policy.longest_ttl(view, now));
        let Some(service) = &mut transaction.service else { return false };
        let Some(target) = service.targets.last().copied() else { return false };
        let before = service.message.len();
        for found in &self.scratch.found {
            let data = reply.data(found);
            if let (Qtype::AAAA, Ok(address)) = (qtype, <[u8; 16]>::try_from(data)) {
                let address = Ipv6Addr::from(address);
                if !policy.is_excluded(view, address) {
                    service.add(&target, found.ttl, address);
                }
            } else if let (Qtype::A, Ok(address)) = (qtype, <[u8; 4]>::try_from(data)) {
                for address in policy.map(view, Ipv4Addr::from(address)) {
                    service.add(&target, found.ttl.min(longest), address);
                }
            }
        }
        service.message.len() == before
    }

    /// Finishes the answer after all targets were looked up.
    fn finish_targets(&mut self, t: u32, now: Nanos, tx: &mut TxBatch) {
        let Some(service) = self.transactions[t].service.take() else { return };
        let answer = &mut self.scratch.answer;
        answer.clear();
        answer.len = service.message.len();
        answer.room[..answer.len].copy_from_slice(&service.message);
        (answer.question_end, answer.optional_at) = (service.question_end, service.optional_at);
        answer.options.extend_from_slice(&service.options);
        answer.ttl = service.ttl;
        self.finish(t, now, tx);
    }
}

impl Service {
    /// Adds an address to the additional section if there is room.
    fn add(&mut self, target: &Name, ttl: u32, address: Ipv6Addr) {
        let len = target.wire_len() + 10 + 16;
        let header =
            Header::read(&self.message).filter(|_| self.message.len() + len <= MAX_MESSAGE);
        let Some(mut header) = header else { return };
        header.counts[3] += 1;
        self.message[..HEADER].copy_from_slice(&header.to_bytes());
        self.message.extend_from_slice(target.as_wire());
        self.message.extend_from_slice(&[0, 28, 0, 1]);
        self.message.extend_from_slice(&ttl.to_be_bytes());
        self.message.extend_from_slice(&[0, 16]);
        self.message.extend_from_slice(&address.octets());
    }
}

/// Returns the targets of the found records that have no address in the additional section, the first one
/// last.
fn targets(reply: &Reply<'_>, found: &[Found], owner: &Name) -> Vec<Name> {
    let mut targets: Vec<Name> = Vec::new();
    for found in found {
        let data = reply.data(found);
        // Priority 0 is an alias: a client queries its target for services, not for addresses.
        let Some((&[p1, p0], target)) = data.split_first_chunk::<2>() else { continue };
        let Ok(len) = wire::name::wire_len(target) else { continue };
        let Ok(name) = Name::from_wire(&target[..len]) else { continue };
        let name = if name.is_root() { *owner } else { name.to_lowercase() };
        if [p1, p0] != [0, 0] && !targets.contains(&name) && targets.len() < MAX_TARGETS {
            targets.push(name);
        }
    }
    let known = |name: &Name| {
        reply.own_additional(owner).any(|record| {
            record.rtype == Qtype::AAAA
                && wire::message::name_at(reply.bytes(), record.owner).as_ref() == Some(name)
        })
    };
    targets.retain(|name| !known(name));
    targets.reverse();
    targets
}

/// Returns the data of a service record without its IPv4 hint, which also leaves the list of mandatory keys (RFC 9460
/// section 8); `None` if it has none or cannot be parsed.
pub(super) fn without_hint(data: &[u8]) -> Option<Vec<u8>> {
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
                    out.extend_from_slice(&[k1, k0]);
                    out.extend_from_slice(&(keys.len() as u16).to_be_bytes());
                    out.extend_from_slice(&keys);
                }
            }
            _ => {
                out.extend_from_slice(&[k1, k0, l1, l0]);
                out.extend_from_slice(value);
            }
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
