//! What a name has: the forward zone, and the reverse zones of its addresses.
//!
//! ```text
//! dns64perf.test              SOA NS
//! ns1.dns64perf.test          A AAAA
//! ddd-ddd-ddd-ddd             A, AAAA by policy          every address of the prefix
//! 10.in-addr.arpa             SOA NS                     the prefix's octets, cut at a dot
//! d.c.b.10.in-addr.arpa       PTR
//! ....ip6.arpa                SOA NS, PTR                where there are AAAA records
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use measure::rng::splitmix64;
use wire::Name;
use wire::name::{Labels, strip_suffix};

use crate::config::{AaaaPolicy, AuthConfig};

/// The owner's place in the tree: which zone it lies in (offset of the zone's name in the owner's) and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    /// Bytes of the name in front of the zone's.
    pub(crate) zone_at: usize,
    /// What it is.
    pub(crate) node: Node,
}

/// A name of one of the zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// The zone's own name.
    Apex,
    /// The name server.
    NameServer,
    /// A name of the namespace.
    Host(Ipv4Addr),
    /// The reverse name of an address.
    Reverse(Ipv4Addr),
    /// There are only names below it.
    Empty,
    /// There is no such name.
    Missing,
}

/// The zones of an AuthDNS.
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    config: AuthConfig,
    reverse4: Name,
    reverse6: Option<Name>,
}

impl Zones {
    pub(crate) fn new(config: AuthConfig) -> Self {
        let reverse4 = reverse4_zone(
            config.namespace.prefix().first(),
            config.namespace.prefix().prefix_len(),
        );
        let reverse6 = (config.aaaa != AaaaPolicy::Never)
            .then(|| reverse6_zone(config.pref64.first(), config.pref64.prefix_len()));
        Zones { config, reverse4, reverse6 }
    }

    pub(crate) fn config(&self) -> &AuthConfig {
        &self.config
    }

    /// Where `qname` (wire format) lies; `None` outside of all zones.
    #[inline]
    pub(crate) fn locate(&self, qname: &[u8]) -> Option<Located> {
        if let Some(front) = strip_suffix(qname, self.config.namespace.zone().as_wire()) {
            return Some(Located { zone_at: front.len(), node: self.forward(front, qname) });
        }
        if let Some(front) = strip_suffix(qname, self.reverse4.as_wire()) {
            return Some(Located { zone_at: front.len(), node: self.reverse4(front, qname) });
        }
        let front = strip_suffix(qname, self.reverse6.as_ref()?.as_wire())?;
        Some(Located { zone_at: front.len(), node: self.reverse6(front, qname) })
    }

    /// A name under the forward zone, by the labels in `front` of it.
    #[inline]
    fn forward(&self, front: &[u8], qname: &[u8]) -> Node {
        if front.is_empty() {
            return Node::Apex;
        }
        match self.config.namespace.address(qname) {
            Some(address) => Node::Host(address),
            None if front.eq_ignore_ascii_case(b"\x03ns1") => Node::NameServer,
            None => Node::Missing,
        }
    }

    /// A name under the reverse zone of IPv4.
    fn reverse4(&self, front: &[u8], qname: &[u8]) -> Node {
        if front.is_empty() {
            return Node::Apex;
        }
        // Octets from the last to the first, then in-addr and arpa.
        let mut octets = [0u8; 4];
        let labels = labels_of(qname).count();
        let Some(given) = labels.checked_sub(2).filter(|given| *given <= 4) else {
            return Node::Missing;
        };
        for (place, label) in (0..given).rev().zip(labels_of(qname)) {
            match decimal(label) {
                Some(octet) => octets[place] = octet,
                None => return Node::Missing,
            }
        }
        let prefix = self.config.namespace.prefix();
        let address = Ipv4Addr::from(octets);
        if given == 4 {
            return if prefix.contains(address) { Node::Reverse(address) } else { Node::Missing };
        }
        // A name above addresses of the prefix: its own block and the prefix overlap.
        let block = u32::from(address);
        let block_end = u64::from(block) + (1u64 << (32 - 8 * given));
        let start = u64::from(u32::from(prefix.first()));
        let overlaps = u64::from(block) < start + prefix.size() && start < block_end;
        if overlaps { Node::Empty } else { Node::Missing }
    }

    /// A name under the reverse zone of IPv6.
    fn reverse6(&self, front: &[u8], qname: &[u8]) -> Node {
        if front.is_empty() {
            return Node::Apex;
        }
        let Some(given) = labels_of(qname).count().checked_sub(2).filter(|given| *given <= 32)
        else {
            return Node::Missing;
        };
        let mut bits = 0u128;
        for (place, label) in (0..given).rev().zip(labels_of(qname)) {
            let [digit] = label else { return Node::Missing };
            let Some(nibble) = (*digit as char).to_digit(16) else { return Node::Missing };
            bits |= u128::from(nibble) << (124 - 4 * place);
        }
        if given < 32 {
            return Node::Empty;
        }
        match self.config.pref64.extract(Ipv6Addr::from(bits)) {
            Some(address) if self.config.namespace.contains(address) && self.has_aaaa(address) => {
                Node::Reverse(address)
            }
            _ => Node::Missing,
        }
    }

    /// Whether the name of `address` has an AAAA record: always the same answer for the same name.
    #[inline]
    pub(crate) fn has_aaaa(&self, address: Ipv4Addr) -> bool {
        match self.config.aaaa {
            AaaaPolicy::Never => false,
            AaaaPolicy::Always => true,
            AaaaPolicy::Share(share) => {
                let mut x = u64::from(u32::from(address));
                (splitmix64(&mut x) >> 11) as f64 / (1u64 << 53) as f64 <= share && share > 0.0
            }
        }
    }
}

/// The labels of a name in wire format, without the root.
fn labels_of(name: &[u8]) -> Labels<'_> {
    Labels::of(name)
}

/// A decimal number from 0 to 255 as reverse names write it: no leading zeros.
fn decimal(label: &[u8]) -> Option<u8> {
    let canonical = !label.is_empty()
        && (label.len() == 1 || label[0] != b'0')
        && label.iter().all(u8::is_ascii_digit);
    canonical.then(|| std::str::from_utf8(label).ok()?.parse().ok())?
}

/// The zone under in-addr.arpa that holds a prefix, cut at a whole octet.
fn reverse4_zone(first: Ipv4Addr, len: u8) -> Name {
    let octets = &first.octets()[..usize::from(len / 8).min(3)];
    octets
        .iter()
        .fold(text_name("in-addr.arpa"), |zone, octet| child(&zone, octet.to_string().as_bytes()))
}

/// The zone under ip6.arpa that holds a prefix, cut at a whole nibble.
fn reverse6_zone(first: Ipv6Addr, len: u8) -> Name {
    let bits = u128::from(first);
    (0..usize::from(len / 4)).fold(text_name("ip6.arpa"), |zone, place| {
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
        Zones::new(AuthConfig { aaaa, ..AuthConfig::new(namespace) })
    }

    fn node(zones: &Zones, name: &str) -> Option<Node> {
        zones.locate(name.parse::<Name>().expect(name).as_wire()).map(|l| l.node)
    }

    #[test]
    fn the_tree() {
        let zones = zones("10.16.0.0/12", AaaaPolicy::Always);
        let host = Ipv4Addr::new(10, 17, 2, 3);
        let table = [
            ("dns64perf.test", Some(Node::Apex)),
            ("DNS64perf.TEST", Some(Node::Apex)),
            ("ns1.dns64perf.test", Some(Node::NameServer)),
            ("010-017-002-003.dns64perf.test", Some(Node::Host(host))),
            ("010-032-002-003.dns64perf.test", Some(Node::Missing)),
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
        ];
        for (name, wanted) in table {
            assert_eq!(node(&zones, name), wanted, "{name}");
        }
    }

    #[test]
    fn the_share_of_aaaa_is_kept() {
        let zones = zones("10.0.0.0/8", AaaaPolicy::Share(0.3));
        let with =
            (0..100_000u32).filter(|i| zones.has_aaaa(Ipv4Addr::from(0x0a00_0000 + i))).count();
        assert!((29_000..31_000).contains(&with), "{with}");
    }

    #[test]
    fn whole_address_space() {
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
