//! The dns64perf namespace: names that are addresses.
//!
//! `010-001-002-003.dns64perf.test` has the A record 10.1.2.3, and so on for a whole prefix. Three digits to an octet
//! make every name equally long, so a query differs from the last one in fifteen octets at a fixed place, and neither
//! the Measurer nor the AuthDNS keeps a table: the name says the address and the address says the name.
//!
//! ```text
//!   0f  0 1 0 - 0 0 1 - 0 0 2 - 0 0 3  09  d n s 6 4 p e r f  04  t e s t  00
//!      └────────── label ────────────┘ └───────────── zone ──────────────────┘
//! ```

use std::net::Ipv4Addr;

use crate::name::{Name, NameError, strip_suffix};
use crate::prefix::Ipv4Prefix;

/// How many octets a host label has, length octet not counted.
pub const LABEL: usize = 15;

/// The zone that dns64perf and its successors use.
pub const DEFAULT_ZONE: &str = "dns64perf.test";

/// The names `ddd-ddd-ddd-ddd.<zone>` of the addresses of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    prefix: Ipv4Prefix,
    zone: Name,
}

impl Namespace {
    /// The names of `prefix` under `zone`; an error if the zone leaves no room for the label.
    pub fn new(prefix: Ipv4Prefix, zone: Name) -> Result<Self, NameError> {
        zone.prepend(&[b'0'; LABEL])?;
        Ok(Self { prefix, zone })
    }

    /// The names of `prefix` under [`DEFAULT_ZONE`].
    pub fn with_default_zone(prefix: Ipv4Prefix) -> Self {
        let zone = DEFAULT_ZONE.parse().expect("the default zone is a valid name");
        Self { prefix, zone }
    }

    /// The addresses.
    pub fn prefix(&self) -> Ipv4Prefix {
        self.prefix
    }

    /// The name that all names end with.
    pub fn zone(&self) -> &Name {
        &self.zone
    }

    /// How many names there are, 1 ..= 2^32.
    pub fn size(&self) -> u64 {
        self.prefix.size()
    }

    /// The address behind name number `index`, which must be below [`size`](Self::size).
    #[inline]
    pub fn nth(&self, index: u64) -> Ipv4Addr {
        self.prefix.nth(index)
    }

    /// Whether the namespace has a name for this address.
    #[inline]
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        self.prefix.contains(address)
    }

    /// The name of an address, whether or not it lies in the prefix.
    pub fn name(&self, address: Ipv4Addr) -> Name {
        let mut label = [0; LABEL];
        Self::write_label(address, &mut label);
        self.zone.prepend(&label).expect("`new` has seen that the label fits")
    }

    /// The address that `qname` stands for; `None` unless it is exactly a host label of the prefix under the zone.
    ///
    /// `qname` is uncompressed and in wire form; case is ignored.
    #[inline]
    pub fn address(&self, qname: &[u8]) -> Option<Ipv4Addr> {
        let (len, label) = strip_suffix(qname, self.zone.as_wire())?.split_first()?;
        if usize::from(*len) != LABEL {
            return None;
        }
        Self::parse_label(label).filter(|&address| self.contains(address))
    }

    /// Writes the host label of an address, without its length octet; a few nanoseconds.
    #[inline]
    pub fn write_label(address: Ipv4Addr, label: &mut [u8; LABEL]) {
        let [a, b, c, d] = address.octets();
        label[0..4].copy_from_slice(&DIGITS[usize::from(a)]);
        label[4..8].copy_from_slice(&DIGITS[usize::from(b)]);
        label[8..12].copy_from_slice(&DIGITS[usize::from(c)]);
        label[12..15].copy_from_slice(&DIGITS[usize::from(d)][..3]);
    }

    /// The address of a host label, without its length octet; `None` unless it is four three-digit octets and dashes.
    #[inline]
    pub fn parse_label(label: &[u8]) -> Option<Ipv4Addr> {
        let label: &[u8; LABEL] = label.try_into().ok()?;
        // Spelled out: as a `map` and a `fold` over the digits this takes four times as long.
        let digit = |at: usize| u32::from(label[at].wrapping_sub(b'0'));
        let octet = |at: usize| {
            let (a, b, c) = (digit(at), digit(at + 1), digit(at + 2));
            let value = a * 100 + b * 10 + c;
            (a < 10 && b < 10 && c < 10 && value < 256).then_some(value as u8)
        };
        let dashes = label[3] == b'-' && label[7] == b'-' && label[11] == b'-';
        if !dashes {
            return None;
        }
        Some(Ipv4Addr::new(octet(0)?, octet(4)?, octet(8)?, octet(12)?))
    }
}

/// `000-` to `255-`: the text of an octet and the dash behind it, so that a label is three stores of four and one of three.
static DIGITS: [[u8; 4]; 256] = {
    let mut table = [[0; 4]; 256];
    let mut value = 0;
    while value < 256 {
        let digits = value as u8;
        table[value] = [b'0' + digits / 100, b'0' + digits / 10 % 10, b'0' + digits % 10, b'-'];
        value += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace() -> Namespace {
        Namespace::with_default_zone("10.0.0.0/8".parse().unwrap())
    }

    #[test]
    fn names_and_addresses() {
        let namespace = namespace();
        assert_eq!(namespace.size(), 1 << 24);
        for (address, text) in [
            ("10.0.0.0", "010-000-000-000.dns64perf.test"),
            ("10.1.2.3", "010-001-002-003.dns64perf.test"),
            ("10.255.199.100", "010-255-199-100.dns64perf.test"),
        ] {
            let address: Ipv4Addr = address.parse().unwrap();
            let name = namespace.name(address);
            assert_eq!(name.to_string(), text);
            assert_eq!(namespace.address(name.as_wire()), Some(address));
            let upper: Name = text.to_uppercase().parse().unwrap();
            assert_eq!(namespace.address(upper.as_wire()), Some(address));
        }
    }

    #[test]
    fn only_exact_names_are_addresses() {
        for text in [
            "dns64perf.test",
            "011-000-000-000.dns64perf.test",
            "010-000-000-256.dns64perf.test",
            "010-000-000-00.dns64perf.test",
            "010-000-000-0000.dns64perf.test",
            "010.000-000-000.dns64perf.test",
            "010-000-000-0a0.dns64perf.test",
            "010-000-000-0/0.dns64perf.test",
            "010-000.000-000.dns64perf.test",
            "x.010-000-000-000.dns64perf.test",
            "010-000-000-000.dns64perf.example",
            "010-000-000-000",
        ] {
            let name: Name = text.parse().unwrap();
            assert_eq!(namespace().address(name.as_wire()), None, "{text}");
        }
    }

    #[test]
    fn a_zone_must_leave_room() {
        let label = "a".repeat(63);
        let zone: Name =
            [&label[..], &label[..], &label[..], &"b".repeat(46)].join(".").parse().unwrap();
        let prefix = "10.0.0.0/8".parse().unwrap();
        assert_eq!(Namespace::new(prefix, zone), Err(NameError::TooLong));
    }

    proptest::proptest! {
        #[test]
        fn labels_round_trip(bits: u32) {
            let address = Ipv4Addr::from(bits);
            let mut label = [0; LABEL];
            Namespace::write_label(address, &mut label);
            let octets = address.octets();
            let text = format!("{:03}-{:03}-{:03}-{:03}", octets[0], octets[1], octets[2], octets[3]);
            proptest::prop_assert_eq!(&label[..], text.as_bytes());
            proptest::prop_assert_eq!(Namespace::parse_label(&label), Some(address));
        }

        #[test]
        fn any_label_is_survived(label: Vec<u8>, text in "[0-9-]{15}") {
            let _ = Namespace::parse_label(&label);
            if let Some(address) = Namespace::parse_label(text.as_bytes()) {
                let mut again = [0; LABEL];
                Namespace::write_label(address, &mut again);
                proptest::prop_assert_eq!(&again[..], text.as_bytes());
            }
        }
    }
}
