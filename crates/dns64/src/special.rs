//! Queries answered locally: names that never leave a network, `ipv4only.arpa`, its reverse names, and reverse names under a prefix.
//!
//! RFC 8880 section 7 requires a DNS64 server to answer `ipv4only.arpa` itself: hosts learn their
//! prefixes from its AAAA records (RFC 7050), which are synthesised under the client's own prefixes
//! independent of upstream's answer. A designation of another server (`resolver.arpa`, RFC 9462)
//! would take clients away from the prefixes of this one.
//!
//! [`LOCAL_DOMAINS`] has the other names of IANA's registry of special-use names that a resolver
//! must not forward; docs/dns64d.md says what is
//! done with each name of the registry. A rule for a name, and a zone of `[[forward]]` at or below such a domain, come first.

use std::net::{Ipv4Addr, Ipv6Addr};

use measure::Nanos;
use wire::pref64::IPV4ONLY as IPV4ONLY_ADDRESSES;
use wire::{Name, Pref64, Qtype, Rcode};

use crate::answer::Answer;
use crate::config::{Group, PtrMode};
use crate::designation::TTL;
use crate::extended_error::ExtendedError;
use crate::policy::{Policy, ReverseName, View};
use crate::question::Key;
use crate::record::push;
use crate::rules::reverse_name;

/// The name `ipv4only.arpa` in wire format.
const IPV4ONLY: &[u8] = b"\x08ipv4only\x04arpa\0";
/// TTL of `ipv4only.arpa` in seconds, as in IANA's own zone.
const IPV4ONLY_TTL: u32 = 86_400;
/// TTL of the answer that there is no prefix, in seconds.
const NO_PREFIX_TTL: u32 = 60;
/// Domain of the reverse names of IPv6 addresses.
const IP6_ARPA: &[u8] = b"\x03ip6\x04arpa\0";
/// TTL of a name made from an address, and of the absence of records at reverse names, in seconds.
const REVERSE_TTL: u32 = 3_600;

/// The local answer for the names of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Local {
    /// The addresses of the host itself, and nothing else (RFC 6761 section 6.3).
    Loopback,
    /// NXDOMAIN, without a query to upstream.
    Nxdomain,
    /// No records except the designation of this server (RFC 9462 section 6.4).
    Resolver,
}

/// The domains whose names are answered locally, at and below each.
const LOCAL_DOMAINS: [(&[u8], Local); 4] = [
    (b"\x09localhost\0", Local::Loopback),
    (b"\x07invalid\0", Local::Nxdomain),
    (b"\x05onion\0", Local::Nxdomain),
    (RESOLVER, Local::Resolver),
];
/// `resolver.arpa`, and the label before it in the name that announces encrypted resolvers.
const RESOLVER: &[u8] = b"\x08resolver\x04arpa\0";
const DNS: &[u8] = b"\x04_dns";

/// Returns the domain of [`LOCAL_DOMAINS`] to which a name in lower case belongs.
fn local(name: &[u8]) -> Option<(&'static [u8], Local)> {
    LOCAL_DOMAINS.into_iter().find(|(domain, _)| is_within(name, domain))
}

/// Returns whether a domain contains a name; most names already differ from it in their last octets.
fn is_within(name: &[u8], domain: &[u8]) -> bool {
    name.ends_with(domain) && wire::name::strip_suffix(name, domain).is_some()
}

/// Returns whether queries for a name in lower case are answered locally: such names do not leave
/// the network, also not as the target of an alias.
pub(crate) fn is_local(policy: &Policy, group: Group, name: &Name) -> bool {
    let name = name.as_wire();
    match local(name) {
        Some((domain, _)) => !policy.forwards_below(group, name, domain),
        None => policy.synthesis.ipv4only_arpa && is_within(name, IPV4ONLY),
    }
}

/// Returns the domains whose names are answered locally, besides reverse names and names of `arpa`.
pub(crate) fn local_domains() -> impl Iterator<Item = Name> {
    LOCAL_DOMAINS.iter().filter_map(|(domain, _)| Name::from_wire(domain).ok())
}

/// Way in which a query is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// The name is no special one: its query is sent upstream.
    No,
    /// Answered locally: `ipv4only.arpa` or one of its reverse names.
    Ipv4Only,
    /// Answered locally: a name that is not forwarded.
    Local,
    /// Answered locally: a reverse name.
    Reverse,
    /// Query this name instead: the queried one is a reverse name under a prefix.
    QueryReverse(Box<Name>),
    /// Query this name instead: a rule makes the queried one an alias of it.
    Alias(Box<Name>),
}

/// A query that may be answered locally, and the answer to compose.
pub(crate) struct Asked<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) key: &'a Key,
    /// The question of `key`.
    pub(crate) question: &'a [u8],
    pub(crate) answer: &'a mut Answer,
}

impl Asked<'_> {
    /// Answers the query locally if it can, for a client with the blocks of `view`.
    pub(crate) fn answer(mut self, view: View, now: Nanos) -> Special {
        let (policy, key, name) = (self.policy, self.key, self.key.name.as_wire());
        // The zones of these names are delegated without a DS record (RFC 8880). The proof of this
        // comes from the signed parent zone; without it, validators would treat our answers as
        // forged.
        let asks_parent = key.qtype == Qtype::DS;
        if let Some((domain, what)) = local(name)
            && !(asks_parent && name == RESOLVER)
        {
            if policy.forwards_below(key.group, name, domain) {
                return Special::No;
            }
            self.answer_local(what, domain);
            return Special::Local;
        }
        if !name.ends_with(b"\x04arpa\0") {
            return Special::No;
        }
        let ipv4only_arpa = policy.synthesis.ipv4only_arpa;
        if ipv4only_arpa && let Some(front) = wire::name::strip_suffix(name, IPV4ONLY) {
            if asks_parent && front.is_empty() {
                return Special::No;
            }
            match front {
                [] => self.ipv4only(view, now),
                _ => self.absent(&Zone { apex: IPV4ONLY, ttl: IPV4ONLY_TTL }),
            }
            return Special::Ipv4Only;
        }
        match Reverse::parse(&key.name) {
            Some(Reverse::V4(address))
                if ipv4only_arpa && IPV4ONLY_ADDRESSES.contains(&address) && !asks_parent =>
            {
                self.pointer(&Zone { apex: name, ttl: IPV4ONLY_TTL }, IPV4ONLY);
                Special::Ipv4Only
            }
            Some(Reverse::V6 { bits, len }) => match policy.reverse(bits, len) {
                Some(found) => self.reverse(&found),
                None => Special::No,
            },
            _ => Special::No,
        }
    }

    /// Answers a query for a name of a local domain.
    fn answer_local(&mut self, what: Local, domain: &[u8]) {
        // A domain that does not exist has no SOA record; the root has.
        let apex = if what == Local::Nxdomain { b"\0" } else { domain };
        let zone = Zone { apex, ttl: REVERSE_TTL };
        let designation = self.policy.designation.as_ref();
        match (what, designation) {
            (Local::Nxdomain, _) => self.absent(&zone),
            (Local::Loopback, _) => {
                let (v4, v6) = (Ipv4Addr::LOCALHOST.octets(), Ipv6Addr::LOCALHOST.octets());
                let records: [(_, _, &[u8]); 2] =
                    [(Qtype::A, REVERSE_TTL, &v4), (Qtype::AAAA, REVERSE_TTL, &v6)];
                self.records(&zone, &records);
            }
            (Local::Resolver, Some(designation))
                if self.asks(Qtype::SVCB)
                    && *self.key.name.as_wire() == [DNS, RESOLVER].concat() =>
            {
                self.answer.compose(self.question, |c| {
                    for data in &designation.services {
                        c.at_question(Qtype::SVCB, TTL, data);
                    }
                    designation.addresses.iter().for_each(|record| c.additional(record));
                });
            }
            (Local::Resolver, _) => self.records(&zone, &[]),
        }
    }

    /// Answers a query for a reverse name under a prefix, or returns the name to query (RFC 6147
    /// section 5.3.1). The rules are the same for all clients, and for addresses that are not
    /// mapped.
    fn reverse(&mut self, found: &ReverseName) -> Special {
        let (settings, key) = (&self.policy.synthesis, self.key);
        let apex = apex(found.prefix);
        let zone = Zone { apex: &apex, ttl: REVERSE_TTL };
        if self.policy.forwards_below(key.group, key.name.as_wire(), &apex) {
            return Special::No;
        }
        match (found.inner, settings.ptr, key.qtype) {
            (Some(inner), ..) if settings.ipv4only_arpa && IPV4ONLY_ADDRESSES.contains(&inner) => {
                self.pointer(&Zone { ttl: IPV4ONLY_TTL, ..zone }, IPV4ONLY);
                return Special::Ipv4Only;
            }
            (_, PtrMode::Pass, _) => return Special::No,
            // The delegation of the prefix belongs to the zone above.
            (None, _, Qtype::DS) if apex == key.name.as_wire() => return Special::No,
            // There are names below this one.
            (None, ..) => self.records(&zone, &[]),
            (Some(inner), PtrMode::Cname, Qtype::CNAME | Qtype::ANY) => {
                let target = reverse_name(inner.into());
                let alias = (Qtype::CNAME, settings.ttl_without_soa, target.as_wire());
                self.records(&zone, &[alias]);
            }
            (Some(inner), PtrMode::Cname, _)
            | (Some(inner), PtrMode::InPlace, Qtype::PTR | Qtype::ANY) => {
                return Special::QueryReverse(Box::new(reverse_name(inner.into())));
            }
            (Some(_), PtrMode::InPlace, _) => self.records(&zone, &[]),
            (Some(inner), PtrMode::Local, _) => {
                let label = inner.to_string().replace('.', "-");
                // If the zone name leaves no room for the label, the zone itself is used.
                let name = settings.ptr_zone.prepend(label.as_bytes()).unwrap_or(settings.ptr_zone);
                self.pointer(&zone, name.as_wire());
            }
        }
        Special::Reverse
    }

    /// Answers a query for `ipv4only.arpa`.
    fn ipv4only(&mut self, view: View, now: Nanos) {
        let policy = self.policy;
        let mapped = IPV4ONLY_ADDRESSES.iter().flat_map(|&a| policy.map_always(view, a));
        let mapped: Vec<[u8; 16]> = mapped.map(|a| a.octets()).collect();
        let (inner, soa) = (
            IPV4ONLY_ADDRESSES.map(|a| a.octets()),
            Zone { apex: IPV4ONLY, ttl: IPV4ONLY_TTL }.soa_data(),
        );
        let longest = IPV4ONLY_TTL.min(policy.longest_ttl(view, now));
        let mut records: Vec<(Qtype, u32, &[u8])> =
            mapped.iter().map(|a| (Qtype::AAAA, longest, &a[..])).collect();
        records.extend(inner.iter().map(|a| (Qtype::A, IPV4ONLY_TTL, &a[..])));
        records.extend([(Qtype::NS, IPV4ONLY_TTL, IPV4ONLY), (Qtype::SOA, IPV4ONLY_TTL, &soa[..])]);
        // A prefix that is not known yet may be learned soon.
        let ttl = if self.key.qtype == Qtype::AAAA { NO_PREFIX_TTL } else { IPV4ONLY_TTL };
        self.records(&Zone { apex: IPV4ONLY, ttl }, &records);
        if self.asks(Qtype::AAAA) && !mapped.is_empty() {
            ExtendedError::Synthesized.push(&mut self.answer.options);
        }
    }

    /// Returns whether the query is for records of a type.
    fn asks(&self, rtype: Qtype) -> bool {
        self.key.qtype == rtype || self.key.qtype == Qtype::ANY
    }

    /// Answers with a PTR record.
    fn pointer(&mut self, zone: &Zone<'_>, target: &[u8]) {
        self.records(zone, &[(Qtype::PTR, zone.ttl, target)]);
    }

    /// Answers with those records of the name, by type, TTL and data, that the query is for;
    /// without any, states that there are none.
    fn records(&mut self, zone: &Zone<'_>, records: &[(Qtype, u32, &[u8])]) {
        let wanted: Vec<_> = records.iter().filter(|(rtype, ..)| self.asks(*rtype)).collect();
        let is_soa = self.key.qtype == Qtype::SOA && self.key.name.as_wire() == zone.apex;
        self.answer.compose(self.question, |c| {
            wanted.iter().for_each(|(rtype, ttl, data)| c.at_question(*rtype, *ttl, data));
            match wanted.is_empty() {
                true if is_soa => c.at_question(Qtype::SOA, zone.ttl, &zone.soa_data()),
                true => c.authority(&zone.soa()),
                false => {}
            }
        });
    }

    /// Answers that the name does not exist.
    fn absent(&mut self, zone: &Zone<'_>) {
        self.answer.compose(self.question, |c| {
            c.rcode(Rcode::NXDOMAIN);
            c.authority(&zone.soa());
        });
    }
}

/// A zone that is answered locally.
pub(crate) struct Zone<'a> {
    /// Name of the zone, in wire form.
    pub(crate) apex: &'a [u8],
    /// TTL of its records, in seconds.
    pub(crate) ttl: u32,
}

impl Zone<'_> {
    /// Returns the SOA record of the zone.
    pub(crate) fn soa(&self) -> Vec<u8> {
        let mut soa = Vec::new();
        push(&mut soa, self.apex, Qtype::SOA, self.ttl, &self.soa_data());
        soa
    }

    /// Returns the data of the SOA record.
    fn soa_data(&self) -> Vec<u8> {
        let mut data = [self.apex, b"\x06nobody\x07invalid\0"].concat();
        // Serial, refresh, retry, expire, minimum.
        for number in [1, 3_600, 1_200, 604_800, self.ttl] {
            data.extend_from_slice(&number.to_be_bytes());
        }
        data
    }
}

/// Returns the SOA record of the zone of a reverse name under a prefix, in whole, with a TTL in seconds.
pub(crate) fn reverse_soa(policy: &Policy, name: &Name, ttl: u32) -> Vec<u8> {
    let found = match Reverse::parse(name) {
        Some(Reverse::V6 { bits, len }) => policy.reverse(bits, len),
        _ => None,
    };
    // A reload may have removed the prefix.
    let apex = found.map_or_else(|| name.as_wire().to_vec(), |found| apex(found.prefix));
    Zone { apex: &apex, ttl }.soa()
}

/// Returns the reverse name of a prefix, in wire form.
pub(crate) fn apex(prefix: Pref64) -> Vec<u8> {
    let bits = u128::from(prefix.first());
    let nibbles = (128 - u32::from(prefix.prefix_len())) / 4..32;
    let digit = |i: u32| char::from_digit((bits >> (4 * i)) as u32 & 15, 16).map_or(0, |c| c as u8);
    let mut name: Vec<u8> = nibbles.flat_map(|i| [1, digit(i)]).collect();
    name.extend_from_slice(IP6_ARPA);
    name
}

/// Address in a reverse name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reverse {
    V4(Ipv4Addr),
    /// The first `len` bits of an address.
    V6 {
        bits: u128,
        len: u32,
    },
}

impl Reverse {
    /// Parses a reverse name in lower case: a complete one of an IPv4 address, or one of the leading nibbles of an IPv6
    /// address.
    fn parse(name: &Name) -> Option<Self> {
        if let Some(front) = wire::name::strip_suffix(name.as_wire(), IP6_ARPA) {
            // At most thirty-two labels of one nibble each, the last nibble first.
            if front.len() > 64 || !front.len().is_multiple_of(2) {
                return None;
            }
            let bits = front.chunks(2).rev().try_fold(0u128, |bits, label| {
                let nibble = char::from(label[1]).to_digit(16).filter(|_| label[0] == 1)?;
                Some(bits << 4 | u128::from(nibble))
            })?;
            let len = 2 * front.len() as u32;
            return Some(Reverse::V6 { bits: bits.checked_shl(128 - len).unwrap_or(0), len });
        }
        let front = wire::name::strip_suffix(name.as_wire(), b"\x07in-addr\x04arpa\0")?;
        let mut octets = [0; 4];
        let mut labels = wire::name::Labels::of(front);
        for octet in octets.iter_mut().rev() {
            let text = std::str::from_utf8(labels.next()?).ok()?;
            *octet = text.parse().ok().filter(|n: &u8| n.to_string() == text)?;
        }
        labels.next().is_none().then_some(Reverse::V4(octets.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::config::Config;
    use crate::nat64::Nat64s;
    use domain::base::Message;

    fn ask(file: &str, name: &str, qtype: Qtype) -> (Special, String) {
        let config = Config::parse(file).expect(file);
        let policy = Policy::new(&config, &Nat64s::of(&config));
        let name: Name = name.parse().expect("a name");
        let view = View(u32::MAX);
        let key = Key { name, qtype, view, ..Key::default() };
        let mut question = Vec::new();
        Key::question(&name, qtype, &mut question);
        let mut out = Answer::new();
        let asked = Asked { policy: &policy, key: &key, question: &question, answer: &mut out };
        let special = asked.answer(view, Nanos::ZERO);
        if out.len == 0 {
            return (special, String::new());
        }
        let message = Message::from_octets(out.bytes()).expect("a message");
        let mut text = message.header().rcode().to_string();
        for section in [message.answer().expect("fine"), message.authority().expect("fine")] {
            for record in section {
                let record = record.expect("fine");
                let record = record
                    .to_record::<domain::rdata::AllRecordData<_, _>>()
                    .expect("fine")
                    .expect("known");
                write!(text, " {} {}", record.ttl().as_secs(), record.data()).expect("a string");
            }
        }
        (special, text)
    }

    #[test]
    fn ipv4only_arpa_is_answered_locally() {
        for (name, qtype, text) in [
            ("ipv4only.arpa", Qtype::A, "NOERROR 86400 192.0.0.170 86400 192.0.0.171"),
            ("ipv4only.arpa", Qtype::AAAA, "NOERROR 86400 64:ff9b::c000:aa 86400 64:ff9b::c000:ab"),
            (
                "ipv4only.arpa",
                Qtype::MX,
                "NOERROR 86400 ipv4only.arpa. nobody.invalid. 1 3600 1200 604800 86400",
            ),
            (
                "x.ipv4only.arpa",
                Qtype::A,
                "NXDOMAIN 86400 ipv4only.arpa. nobody.invalid. 1 3600 1200 604800 86400",
            ),
            ("170.0.0.192.in-addr.arpa", Qtype::PTR, "NOERROR 86400 ipv4only.arpa."),
            (
                "a.a.0.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa",
                Qtype::PTR,
                "NOERROR 86400 ipv4only.arpa.",
            ),
        ] {
            assert_eq!(
                ask("", name, qtype),
                (Special::Ipv4Only, text.to_owned()),
                "{name} {qtype}"
            );
            if name.contains("only") {
                let off = "synthesis.ipv4only-arpa = false";
                assert_eq!(ask(off, name, qtype), (Special::No, String::new()));
            }
        }
        for (name, qtype) in [
            ("notipv4only.arpa", Qtype::A),
            ("ipv4only.arpa", Qtype::DS),
            ("170.0.0.192.in-addr.arpa", Qtype::DS),
        ] {
            assert_eq!(ask("", name, qtype).0, Special::No, "{name} {qtype}");
        }
        assert_eq!(ask("", "x.ipv4only.arpa", Qtype::DS).0, Special::Ipv4Only);
    }

    /// Reverse names under 64:ff9b::/96: 8.8.4.4, which is mapped, and 10.0.0.1, which is not.
    const PUBLIC: &str = "4.0.4.0.8.0.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa";
    const PRIVATE: &str =
        "1.0.0.0.0.0.a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa";

    #[test]
    fn reverse_names_follow_the_ptr_mode() {
        let ptr =
            |mode| format!("synthesis.ptr = \"{mode}\"\nsynthesis.ptr-zone = \"nat64.example\"");
        let asked = |name: &str| Special::QueryReverse(Box::new(name.parse().expect("a name")));
        let public = asked("4.4.8.8.in-addr.arpa");
        assert_eq!(ask("", PUBLIC, Qtype::PTR).0, public);
        assert_eq!(ask("", PRIVATE, Qtype::PTR).0, asked("1.0.0.10.in-addr.arpa"));
        // A CNAME stands for all types.
        assert_eq!(ask("", PUBLIC, Qtype::TXT).0, public);
        for qtype in [Qtype::CNAME, Qtype::ANY] {
            let cname = (Special::Reverse, "NOERROR 600 4.4.8.8.in-addr.arpa.".to_owned());
            assert_eq!(ask("", PUBLIC, qtype), cname);
        }
        assert_eq!(ask(&ptr("in-place"), PUBLIC, Qtype::PTR).0, public);
        assert_eq!(ask(&ptr("pass"), PUBLIC, Qtype::PTR).0, Special::No);
        let (special, text) = ask(&ptr("local"), PUBLIC, Qtype::PTR);
        assert_eq!(
            (special, text.as_str()),
            (Special::Reverse, "NOERROR 3600 8-8-4-4.nat64.example.")
        );
        for mode in ["in-place", "local"] {
            let (special, text) = ask(&ptr(mode), PUBLIC, Qtype::TXT);
            let soa = "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa. nobody.invalid.";
            let expected = format!("NOERROR 3600 {soa} 1 3600 1200 604800 3600");
            assert_eq!((special, text), (Special::Reverse, expected), "{mode}");
        }
        assert_eq!(ask("", &PUBLIC.replacen("4.0", "g.0", 1), Qtype::PTR).0, Special::No);
    }

    #[test]
    fn names_above_those_of_addresses_exist() {
        let apex = PUBLIC.splitn(9, '.').last().expect("the prefix").to_owned();
        let other = "[[dns64]]\nprefix = \"2001:db8:64::/56\"\nsuffix = \"::5\"";
        for (file, name, exists) in [
            ("", PUBLIC[2..].to_owned(), true),
            ("", format!("8.{apex}"), true),
            ("", apex.clone(), true),
            ("", apex[2..].to_owned(), false),
            ("", "ip6.arpa".to_owned(), false),
            ("", PUBLIC[2..].replacen('8', "10", 1), false),
            // The well-known prefix belongs to every configuration; in another one the u octet has to be zero.
            (other, apex.clone(), true),
            (other, "0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa".to_owned(), true),
            (other, "1.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa".to_owned(), false),
            (other, "7.1.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa".to_owned(), false),
        ] {
            for qtype in [Qtype::PTR, Qtype::TXT] {
                let (special, text) = ask(file, &name, qtype);
                let expected = if exists { Special::Reverse } else { Special::No };
                assert_eq!(special, expected, "{file} {name} {qtype}");
                assert_eq!(text.contains("nobody.invalid"), exists);
            }
        }
        assert_eq!(ask("", &apex, Qtype::DS).0, Special::No);
        assert!(ask("", &apex, Qtype::SOA).1.starts_with("NOERROR 3600 0.0.0."));
    }
}
