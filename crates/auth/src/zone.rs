//! The names in the zones: the forward zone, and the reverse zones of its addresses.
//!
//! ```text
//! dns64perf.test              SOA NS
//! ns1.dns64perf.test          A AAAA
//! ddd-ddd-ddd-ddd             A, AAAA by policy          every address of the prefix, with and without leading zeros:
//!                                                        010-001-002-003 (dns64perf++), 10-1-2-3 (dns64perf)
//! 10.in-addr.arpa             SOA NS                     the whole octets of the prefix
//! d.c.b.10.in-addr.arpa       PTR
//! ....ip6.arpa                SOA NS, PTR                if there are AAAA records
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use measure::rng::splitmix64;
use wire::name::{Labels, strip_suffix};
use wire::namespace::LABEL;
use wire::{Name, Namespace, Pref64};

use crate::config::{AaaaPolicy, AuthConfig};
use crate::traps;

/// The label of the name server below the forward zone.
pub(crate) const NAME_SERVER: &[u8] = b"\x03ns1";

/// The kind of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// The zone that maps names to addresses.
    Forward,
    /// A zone that maps addresses to names, below `in-addr.arpa` or `ip6.arpa`.
    Reverse,
}

/// The place of a name: its zone, and the kind of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    /// The zone of the name.
    pub(crate) zone: Zone,
    /// Number of octets of the name in front of the zone name.
    pub(crate) zone_at: usize,
    /// The kind of the name.
    pub(crate) node: Node,
}

/// The kind of a name in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// The apex of the zone.
    Apex,
    /// The name server, which the NS record of the apex names.
    NameServer,
    /// A name of the namespace.
    Host(Ipv4Addr),
    /// The reverse name of an address.
    Reverse(Ipv4Addr),
    /// A name without records, with names below it. With a share of AAAA records there may be none below; this is not
    /// checked.
    Empty,
    /// A name that does not exist.
    Missing,
    /// The name with a large answer.
    Large,
    /// A name that is delegated to many servers without addresses.
    Delegated,
    /// The apex of the zone whose keys share a tag.
    Keys,
    /// A name whose answer has forged signatures.
    Forged,
}

/// The zones of an AuthDNS.
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    namespace: Namespace,
    pref64: Pref64,
    aaaa: AaaaPolicy,
    /// Whether there are the names of drills.
    traps: bool,
    /// The apex of the reverse zone of IPv4.
    reverse4: Name,
    /// The IPv6 reverse zone, if there are AAAA records.
    reverse6: Option<Name>,
}

impl Zones {
    /// Returns the zones for a configuration.
    pub(crate) fn new(config: &AuthConfig) -> Self {
        let (namespace, pref64, aaaa) = (config.namespace, config.pref64, config.aaaa);
        let reverse6 = (aaaa != AaaaPolicy::Never).then(|| reverse6_zone(pref64));
        let (traps, reverse4) = (config.traps, reverse4_zone(&namespace));
        Zones { namespace, pref64, aaaa, traps, reverse4, reverse6 }
    }

    /// Returns the names of the reverse zones.
    pub(crate) fn into_reverse(self) -> [Option<Name>; 2] {
        [Some(self.reverse4), self.reverse6]
    }

    /// Returns the place of `qname`, given in wire form; `None` if it is outside all zones.
    #[inline]
    pub(crate) fn locate(&self, qname: &[u8]) -> Option<Located> {
        let at = |zone, front: &[u8], node| Located { zone, zone_at: front.len(), node };
        if let Some(front) = strip_suffix(qname, self.namespace.zone().as_wire()) {
            return Some(at(Zone::Forward, front, self.forward(front)));
        }
        if let Some(front) = strip_suffix(qname, self.reverse4.as_wire()) {
            return Some(at(Zone::Reverse, front, self.reverse4(front, qname)));
        }
        let front = strip_suffix(qname, self.reverse6.as_ref()?.as_wire())?;
        Some(at(Zone::Reverse, front, self.reverse6(front, qname)))
    }

    /// Returns the kind of the name with the labels `front` in front of the forward zone.
    #[inline]
    fn forward(&self, front: &[u8]) -> Node {
        if let Some((&len, label)) = front.split_first() {
            // Several labels never parse as a padded host label, because a length octet is not a digit.
            let address = match usize::from(len) {
                LABEL => Namespace::parse_label(label).or_else(|| Namespace::parse_unpadded(label)),
                len if len == label.len() => Namespace::parse_unpadded(label),
                _ => None,
            };
            match address {
                Some(address) if self.namespace.contains(address) => Node::Host(address),
                _ if front.eq_ignore_ascii_case(NAME_SERVER) => Node::NameServer,
                _ if self.traps => traps::node(front),
                _ => Node::Missing,
            }
        } else {
            Node::Apex
        }
    }

    /// Returns the kind of the name `qname` in the IPv4 reverse zone.
    fn reverse4(&self, front: &[u8], qname: &[u8]) -> Node {
        if front.is_empty() {
            return Node::Apex;
        }
        // The labels are the octets from last to first, then in-addr and arpa.
        let given = Labels::of(qname).count() - 2;
        if given > 4 {
            return Node::Missing;
        }
        // Any missing octets complete to an existing address, so a name above existing names exists
        // too.
        let mut octets = self.namespace.prefix().first().octets();
        for (place, label) in (0..given).rev().zip(Labels::of(qname)) {
            let Some(octet) = decimal(label) else { return Node::Missing };
            octets[place] = octet;
        }
        let address = Ipv4Addr::from(octets);
        match self.namespace.contains(address) {
            true if given == 4 => Node::Reverse(address),
            true => Node::Empty,
            false => Node::Missing,
        }
    }

    /// Returns the kind of the name `qname` in the IPv6 reverse zone.
    fn reverse6(&self, front: &[u8], qname: &[u8]) -> Node {
        if front.is_empty() {
            return Node::Apex;
        }
        let given = Labels::of(qname).count() - 2;
        if given > 32 {
            return Node::Missing;
        }
        // Missing digits exist for some address, as above.
        let mut bits = u128::from(self.pref64.embed(self.namespace.prefix().first()));
        for (place, label) in (0..given).rev().zip(Labels::of(qname)) {
            let Some(nibble) = hexadecimal(label) else { return Node::Missing };
            let shift = 124 - 4 * place;
            bits = bits & !(0xf << shift) | u128::from(nibble) << shift;
        }
        match self.pref64.extract(Ipv6Addr::from(bits)) {
            Some(address) if !self.namespace.contains(address) => Node::Missing,
            Some(_) if given < 32 => Node::Empty,
            Some(address) if self.has_aaaa(address) => Node::Reverse(address),
            _ => Node::Missing,
        }
    }

    /// Returns whether the name of `address` has an AAAA record; the result for an address never changes.
    #[inline]
    pub(crate) fn has_aaaa(&self, address: Ipv4Addr) -> bool {
        match self.aaaa {
            AaaaPolicy::Never => false,
            AaaaPolicy::Always => true,
            AaaaPolicy::Share(share) => {
                let mut x = u64::from(u32::from(address));
                let unit = (splitmix64(&mut x) >> 11) as f64 / (1u64 << 53) as f64;
                unit < share
            }
        }
    }

    /// Returns the address in the AAAA record of the name of `address`.
    #[inline]
    pub(crate) fn embed(&self, address: Ipv4Addr) -> Ipv6Addr {
        self.pref64.embed(address)
    }
}

/// Reads a decimal number from 0 to 255 without leading zeros, as in reverse names.
fn decimal(label: &[u8]) -> Option<u8> {
    let canonical = !label.is_empty()
        && (label.len() == 1 || label[0] != b'0')
        && label.iter().all(u8::is_ascii_digit);
    canonical.then(|| std::str::from_utf8(label).ok()?.parse().ok())?
}

/// Reads a label of one hexadecimal digit.
fn hexadecimal(label: &[u8]) -> Option<u32> {
    if let [digit] = label { char::from(*digit).to_digit(16) } else { None }
}

/// Returns the zone under in-addr.arpa for the whole octets of a prefix, at most three.
fn reverse4_zone(namespace: &Namespace) -> Name {
    let prefix = namespace.prefix();
    let octets = &prefix.first().octets()[..usize::from(prefix.prefix_len() / 8).min(3)];
    octets
        .iter()
        .fold(text_name("in-addr.arpa"), |zone, octet| child(&zone, octet.to_string().as_bytes()))
}

/// Returns the zone under ip6.arpa for a prefix; the lengths of RFC 6052 are multiples of four bits.
fn reverse6_zone(pref64: Pref64) -> Name {
    let bits = u128::from(pref64.first());
    (0..usize::from(pref64.prefix_len() / 4)).fold(text_name("ip6.arpa"), |zone, place| {
        child(&zone, format!("{:x}", bits >> (124 - 4 * place) & 15).as_bytes())
    })
}

fn text_name(text: &str) -> Name {
    text.parse().expect("a constant name")
}

fn child(zone: &Name, label: &[u8]) -> Name {
    zone.prepend(label).expect("reverse names are at most 74 bytes long")
}

#[cfg(test)]
mod tests {
    use wire::Namespace;

    use super::*;

    fn zones(prefix: &str, aaaa: AaaaPolicy) -> Zones {
        let namespace = Namespace::with_default_zone(prefix.parse().expect(prefix));
        Zones::new(&AuthConfig { aaaa, ..AuthConfig::new(namespace) })
    }

    fn node(zones: &Zones, name: &str) -> Option<Node> {
        zones.locate(name.parse::<Name>().expect(name).as_wire()).map(|l| l.node)
    }

    #[test]
    fn names_have_their_kind() {
        let zones = zones("10.16.0.0/12", AaaaPolicy::Always);
        let host = Ipv4Addr::new(10, 17, 2, 3);
        let table = [
            ("dns64perf.test", Some(Node::Apex)),
            ("DNS64perf.TEST", Some(Node::Apex)),
            ("ns1.dns64perf.test", Some(Node::NameServer)),
            ("010-017-002-003.dns64perf.test", Some(Node::Host(host))),
            ("010-032-002-003.dns64perf.test", Some(Node::Missing)),
            ("10-17-2-3.dns64perf.test", Some(Node::Host(host))),
            ("10-17-2-3.DNS64perf.test", Some(Node::Host(host))),
            ("10-17-002-3.dns64perf.test", Some(Node::Missing)),
            ("10-32-2-3.dns64perf.test", Some(Node::Missing)),
            ("10-31-255-255.dns64perf.test", Some(Node::Host(Ipv4Addr::new(10, 31, 255, 255)))),
            ("10-17.2-3.dns64perf.test", Some(Node::Missing)),
            ("a.10-17-2-3.dns64perf.test", Some(Node::Missing)),
            ("a.010-017-002-003.dns64perf.test", Some(Node::Missing)),
            ("www.dns64perf.test", Some(Node::Missing)),
            ("xdns64perf.test", None),
            ("test", None),
            (".", None),
            ("10.in-addr.arpa", Some(Node::Apex)),
            ("17.10.in-addr.arpa", Some(Node::Empty)),
            ("15.10.in-addr.arpa", Some(Node::Missing)),
            ("2.17.10.in-addr.arpa", Some(Node::Empty)),
            ("3.2.17.10.in-addr.arpa", Some(Node::Reverse(host))),
            ("3.2.32.10.in-addr.arpa", Some(Node::Missing)),
            ("03.2.17.10.in-addr.arpa", Some(Node::Missing)),
            ("256.2.17.10.in-addr.arpa", Some(Node::Missing)),
            ("1.3.2.17.10.in-addr.arpa", Some(Node::Missing)),
            ("3.2.17.11.in-addr.arpa", None),
            (
                "3.0.2.0.1.1.a.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
                Some(Node::Reverse(host)),
            ),
            ("0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa", None),
            ("0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa", Some(Node::Apex)),
            ("0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa", Some(Node::Empty)),
            ("1.A.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa", Some(Node::Empty)),
            ("2.a.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa", Some(Node::Missing)),
            ("1a.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa", Some(Node::Missing)),
        ];
        for (name, wanted) in table {
            assert_eq!(node(&zones, name), wanted, "{name}");
        }
    }

    #[test]
    fn the_share_of_aaaa_records_is_exact() {
        let zones = zones("10.0.0.0/8", AaaaPolicy::Share(0.3));
        let with =
            (0..100_000u32).filter(|i| zones.has_aaaa(Ipv4Addr::from(0x0a00_0000 + i))).count();
        assert!((29_000..31_000).contains(&with), "{with}");
    }

    #[test]
    fn a_prefix_of_length_zero_has_one_reverse_zone() {
        let zones = zones("0.0.0.0/0", AaaaPolicy::Never);
        assert_eq!(node(&zones, "in-addr.arpa"), Some(Node::Apex));
        assert_eq!(node(&zones, "255.in-addr.arpa"), Some(Node::Empty));
        assert_eq!(
            node(&zones, "4.3.2.1.in-addr.arpa"),
            Some(Node::Reverse(Ipv4Addr::new(1, 2, 3, 4)))
        );
        assert_eq!(node(&zones, "1.ip6.arpa"), None);
    }
}
