//! Queries answered locally: `ipv4only.arpa`, its reverse names, and reverse names under a prefix.
//!
//! RFC 8880 section 7 requires a DNS64 server to answer `ipv4only.arpa` itself: hosts learn their prefixes
//! from its AAAA records (RFC 7050), which are synthesised under the client's own prefixes whatever upstream
//! answers.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use wire::message::flag;
use wire::{Name, Qtype, Rcode};

use crate::answer::Answer;
use crate::config::PtrMode;
use crate::policy::{Policy, View};
use crate::question::Key;

/// `ipv4only.arpa`.
const IPV4ONLY: &[u8] = b"\x08ipv4only\x04arpa\0";
/// The addresses of `ipv4only.arpa` (RFC 7050 section 2.2).
const WELL_KNOWN: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];
/// TTL of `ipv4only.arpa` in seconds, as in IANA's own zone.
const IPV4ONLY_TTL: u32 = 86_400;
/// TTL of a name made from an address, in seconds.
const REVERSE_TTL: u32 = 3_600;

/// Way in which a query is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// It is sent upstream.
    No,
    /// Answered locally: `ipv4only.arpa` or one of its reverse names.
    Ipv4Only,
    /// Answered locally: a reverse name.
    Reverse,
    /// The PTR of this name is queried, for which a reverse name under a prefix stands.
    QueryPtr(Box<Name>),
}

/// Answers a query locally if it can. `question` is that of the key, `all` are the client's blocks,
/// `permitted` those that serve this query.
pub(crate) fn answer(
    policy: &Policy,
    all: View,
    permitted: View,
    key: &Key,
    question: &[u8],
    answer: &mut Answer,
) -> Special {
    let name = key.name.as_wire();
    // The zones of these names are delegated without a DS record (RFC 8880). The proof of this comes from
    // the signed parent zone; without it, validators take our answers for forged ones.
    let asks_parent = key.qtype == Qtype::DS;
    if policy.synthesis.ipv4only_arpa {
        if let Some(front) = wire::name::strip_suffix(name, IPV4ONLY) {
            if asks_parent && front.is_empty() {
                return Special::No;
            }
            ipv4only(policy, all, key.qtype, front.is_empty(), question, answer);
            return Special::Ipv4Only;
        }
        if let Some(Reverse::V4(address)) = Reverse::parse(&key.name)
            && WELL_KNOWN.contains(&address)
            && !asks_parent
        {
            pointer(key.qtype, IPV4ONLY, IPV4ONLY_TTL, question, answer);
            return Special::Ipv4Only;
        }
    }
    if key.qtype == Qtype::PTR {
        reverse(policy, permitted, key, question, answer)
    } else {
        Special::No
    }
}

/// Answers a query for a reverse name under a prefix, or returns the name to query.
fn reverse(
    policy: &Policy,
    view: View,
    key: &Key,
    question: &[u8],
    answer: &mut Answer,
) -> Special {
    let Some(Reverse::V6(address)) = Reverse::parse(&key.name) else { return Special::No };
    let Some((inner, is_mapped)) = policy.unmap(view, address) else { return Special::No };
    let settings = &policy.synthesis;
    if settings.ipv4only_arpa && WELL_KNOWN.contains(&inner) {
        pointer(key.qtype, IPV4ONLY, IPV4ONLY_TTL, question, answer);
        return Special::Ipv4Only;
    }
    match settings.ptr {
        _ if !is_mapped => Special::No,
        PtrMode::Pass => Special::No,
        PtrMode::Cname | PtrMode::InPlace => Special::QueryPtr(Box::new(reverse_name(inner))),
        PtrMode::Local => {
            let label = inner.to_string().replace('.', "-");
            // If the zone is too long for a label in front, the zone itself is used.
            let name = settings.ptr_zone.prepend(label.as_bytes()).unwrap_or(settings.ptr_zone);
            pointer(key.qtype, name.as_wire(), REVERSE_TTL, question, answer);
            Special::Reverse
        }
    }
}

/// Answers with a PTR record, or with no data for another type.
fn pointer(qtype: Qtype, target: &[u8], ttl: u32, question: &[u8], answer: &mut Answer) {
    answer.compose(question, |c| {
        if qtype == Qtype::PTR || qtype == Qtype::ANY {
            c.at_question(Qtype::PTR, ttl, target);
        } else {
            c.limit_ttl(ttl);
        }
    });
}

/// Answers a query for `ipv4only.arpa` or, unless `at_apex`, a name below it.
fn ipv4only(
    policy: &Policy,
    view: View,
    qtype: Qtype,
    at_apex: bool,
    question: &[u8],
    answer: &mut Answer,
) {
    answer.compose(question, |c| {
        let mut found = false;
        let mut add = |rtype, data: &[u8]| {
            c.at_question(rtype, IPV4ONLY_TTL, data);
            found = true;
        };
        match qtype {
            _ if !at_apex => {}
            Qtype::A => WELL_KNOWN.iter().for_each(|a| add(Qtype::A, &a.octets())),
            Qtype::AAAA => {
                let mapped = WELL_KNOWN.iter().flat_map(|&a| policy.map_always(view, a));
                mapped.for_each(|a| add(Qtype::AAAA, &a.octets()));
            }
            Qtype::NS => add(Qtype::NS, IPV4ONLY),
            Qtype::SOA => add(Qtype::SOA, &soa_data()),
            _ => {}
        }
        c.flag(flag::AD, false);
        if !found {
            if !at_apex {
                c.rcode(Rcode::NXDOMAIN);
            }
            let mut soa = IPV4ONLY.to_vec();
            soa.extend_from_slice(&[0, 6, 0, 1]);
            soa.extend_from_slice(&IPV4ONLY_TTL.to_be_bytes());
            let data = soa_data();
            soa.extend_from_slice(&(data.len() as u16).to_be_bytes());
            soa.extend_from_slice(&data);
            c.authority(&soa);
            c.limit_ttl(IPV4ONLY_TTL);
        }
    });
}

/// Returns the data of the SOA record of `ipv4only.arpa`.
fn soa_data() -> Vec<u8> {
    let mut data = [IPV4ONLY, b"\x06nobody\x07invalid\0"].concat();
    // Serial, refresh, retry, expire, minimum.
    for number in [1, 3_600, 1_200, 604_800, IPV4ONLY_TTL] {
        data.extend_from_slice(&number.to_be_bytes());
    }
    data
}

/// Address in a reverse name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reverse {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl Reverse {
    /// Parses a complete reverse name in lower case.
    fn parse(name: &Name) -> Option<Self> {
        if let Some(front) = wire::name::strip_suffix(name.as_wire(), b"\x03ip6\x04arpa\0") {
            // Thirty-two labels of one nibble each, the last nibble first.
            if front.len() != 64 {
                return None;
            }
            let bits = front.chunks(2).rev().try_fold(0u128, |bits, label| {
                let nibble = char::from(label[1]).to_digit(16).filter(|_| label[0] == 1)?;
                Some(bits << 4 | u128::from(nibble))
            })?;
            return Some(Reverse::V6(bits.into()));
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

/// Returns the name in `in-addr.arpa`.
fn reverse_name(address: Ipv4Addr) -> Name {
    let [a, b, c, d] = address.octets();
    let mut text = String::with_capacity(32);
    write!(text, "{d}.{c}.{b}.{a}.in-addr.arpa").expect("writing to a string does not fail");
    text.parse().expect("it is a name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::question::KeyFlags;
    use domain::base::Message;

    fn ask(file: &str, name: &str, qtype: Qtype) -> (Special, String) {
        let policy = Policy::new(&Config::parse(file).expect(file));
        let name: Name = name.parse().expect("a name");
        let view = View(u32::MAX);
        let key = Key { name, qtype, view, flags: KeyFlags::default(), subnet: 0 };
        let mut question = Vec::new();
        Key::question(&name, qtype, &mut question);
        let mut out = Answer::new();
        let special = answer(&policy, view, view, &key, &question, &mut out);
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

    #[test]
    fn reverse_names_follow_the_ptr_mode() {
        // 64:ff9b::8.8.4.4 is mapped; 64:ff9b::10.0.0.1 is not.
        let public = "4.0.4.0.8.0.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa";
        let private = "1.0.0.0.0.0.a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa";
        let ptr =
            |mode| format!("synthesis.ptr = \"{mode}\"\nsynthesis.ptr-zone = \"nat64.example\"");
        let asked = Special::QueryPtr(Box::new("4.4.8.8.in-addr.arpa".parse().expect("a name")));
        assert_eq!(ask("", public, Qtype::PTR).0, asked);
        assert_eq!(ask(&ptr("in-place"), public, Qtype::PTR).0, asked);
        assert_eq!(ask(&ptr("pass"), public, Qtype::PTR).0, Special::No);
        let (special, text) = ask(&ptr("local"), public, Qtype::PTR);
        assert_eq!(
            (special, text.as_str()),
            (Special::Reverse, "NOERROR 3600 8-8-4-4.nat64.example.")
        );
        assert_eq!(ask("", private, Qtype::PTR).0, Special::No);
        assert_eq!(ask("", public, Qtype::TXT).0, Special::No);
        assert_eq!(ask("", &public[2..], Qtype::PTR).0, Special::No);
        assert_eq!(ask("", &public.replacen("4.0", "g.0", 1), Qtype::PTR).0, Special::No);
    }
}
