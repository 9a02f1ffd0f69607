//! The dns64perf namespace: names that contain their IPv4 address.
//!
//! `010-001-002-003.dns64perf.test` has the A record 10.1.2.3, and so on for a whole prefix. Three digits per octet
//! give all names the same length, so queries differ only in fifteen octets at a fixed offset. Neither the Measurer nor
//! the AuthDNS keeps a table: the address is computed from the name and the name from the address.
//!
//! dns64perf++ pads the numbers with zeros. dns64perf and dns64perf2 do not: `10-1-2-3.dns64perf.test`. A namespace has
//! one of both forms.
//!
//! ```text
//!   0f  0 1 0 - 0 0 1 - 0 0 2 - 0 0 3  09  d n s 6 4 p e r f  04  t e s t  00
//!      └────────── label ────────────┘ └───────────── zone ──────────────────┘
//! ```

use std::net::Ipv4Addr;

use crate::name::{Name, NameError, strip_suffix};
use crate::prefix::Ipv4Prefix;

/// Size of a padded host label in octets, without its length octet; the largest size of one without padding.
pub const LABEL: usize = 15;

/// The zone that dns64perf and dns64perf++ use.
pub const DEFAULT_ZONE: &str = "dns64perf.test";
/// Label of the zone below a namespace's zone whose names an AuthDNS for drills delegates to many servers without addresses.
pub const BOMB: &str = "bomb";
/// Label of the zone below a namespace's zone whose answers at an AuthDNS for drills have invalid
/// signatures, made by no key.
pub const KEYTRAP: &str = "keytrap";
/// Label of the name below a namespace's zone that has a large set of TXT records at an AuthDNS for drills.
pub const LARGE: &str = "large";

/// The names `ddd-ddd-ddd-ddd.<zone>` for the addresses of a prefix, padded with zeros or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    prefix: Ipv4Prefix,
    zone: Name,
    padded: bool,
}

impl Namespace {
    /// Returns the padded names of `prefix` under `zone`; an error if the zone name leaves no room for the label.
    pub fn new(prefix: Ipv4Prefix, zone: Name) -> Result<Self, NameError> {
        zone.prepend(&[b'0'; LABEL])?;
        Ok(Self { prefix, zone, padded: true })
    }

    /// Returns the same names with padded numbers (`010-001-002-003`), or with numbers as they are (`10-1-2-3`).
    pub fn with_padding(self, padded: bool) -> Self {
        Self { padded, ..self }
    }

    /// Returns whether the numbers have three digits each.
    #[inline]
    pub fn is_padded(&self) -> bool {
        self.padded
    }

    /// Returns the padded names of `prefix` under [`DEFAULT_ZONE`].
    pub fn with_default_zone(prefix: Ipv4Prefix) -> Self {
        let zone = DEFAULT_ZONE.parse().expect("the default zone is a valid name");
        Self { prefix, zone, padded: true }
    }

    /// Returns the prefix that holds the addresses.
    pub fn prefix(&self) -> Ipv4Prefix {
        self.prefix
    }

    /// Returns the zone, with which all names end.
    pub fn zone(&self) -> &Name {
        &self.zone
    }

    /// Returns the number of names, 1 ..= 2^32.
    pub fn size(&self) -> u64 {
        self.prefix.size()
    }

    /// Returns the address of name number `index`, which must be below [`size`](Self::size).
    #[inline]
    pub fn nth(&self, index: u64) -> Ipv4Addr {
        self.prefix.nth(index)
    }

    /// Returns whether the namespace has a name for the address.
    #[inline]
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        self.prefix.contains(address)
    }

    /// Returns the name of an address, also if it is outside the prefix.
    pub fn name(&self, address: Ipv4Addr) -> Name {
        let mut label = [0; LABEL];
        let len = self.label(address, &mut label);
        self.zone.prepend(&label[..len]).expect("`new` checks that the label fits")
    }

    /// Returns the address of `qname`; `None` unless the name is a host label of the prefix directly under the zone.
    ///
    /// `qname` is uncompressed and in wire form; case is ignored.
    #[inline]
    pub fn address(&self, qname: &[u8]) -> Option<Ipv4Addr> {
        let (len, label) = strip_suffix(qname, self.zone.as_wire())?.split_first()?;
        if usize::from(*len) != label.len() {
            return None;
        }
        let address =
            if self.padded { Self::parse_label(label) } else { Self::parse_unpadded(label) };
        address.filter(|&address| self.contains(address))
    }

    /// Writes the host label of an address in the form of this namespace, without its length octet; returns its length.
    #[inline]
    pub fn label(&self, address: Ipv4Addr, label: &mut [u8; LABEL]) -> usize {
        if self.padded {
            Self::write_label(address, label);
            return LABEL;
        }
        let mut at = 0;
        for octet in address.octets() {
            let text = &DIGITS[usize::from(octet)];
            let zeros = usize::from(octet < 100) + usize::from(octet < 10);
            for &digit in &text[zeros..] {
                // The last octet has no room for the dash after it, and none follows it.
                if let Some(place) = label.get_mut(at) {
                    *place = digit;
                }
                at += 1;
            }
        }
        at - 1
    }

    /// Writes the padded host label of an address, without its length octet; takes a few nanoseconds.
    #[inline]
    pub fn write_label(address: Ipv4Addr, label: &mut [u8; LABEL]) {
        let [a, b, c, d] = address.octets();
        label[0..4].copy_from_slice(&DIGITS[usize::from(a)]);
        label[4..8].copy_from_slice(&DIGITS[usize::from(b)]);
        label[8..12].copy_from_slice(&DIGITS[usize::from(c)]);
        label[12..15].copy_from_slice(&DIGITS[usize::from(d)][..3]);
    }

    /// Returns the address in a host label without padding, given without its length octet; `None` unless the label is
    /// four numbers from 0 to 255 without leading zeros, with dashes between them.
    #[inline]
    pub fn parse_unpadded(label: &[u8]) -> Option<Ipv4Addr> {
        let mut octets = [0u8; 4];
        let mut place = 0;
        let mut digits = 0;
        for &octet in label {
            let value = octets.get_mut(place)?;
            match octet {
                b'0'..=b'9' if digits == 0 || *value > 0 => {
                    *value = value.checked_mul(10)?.checked_add(octet - b'0')?;
                    digits += 1;
                }
                b'-' if digits > 0 => (place, digits) = (place + 1, 0),
                _ => return None,
            }
        }
        (place == 3 && digits > 0).then(|| octets.into())
    }

    /// Returns the address in a padded host label, given without its length octet; `None` unless the label is four
    /// numbers of three digits with dashes between them.
    #[inline]
    pub fn parse_label(label: &[u8]) -> Option<Ipv4Addr> {
        let label: &[u8; LABEL] = label.try_into().ok()?;
        // Not a loop, because `map` and `fold` over the digits take four times as long.
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

/// The texts `000-` to `255-`: an octet and the dash after it. A label is three stores of four octets and one of three.
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
    fn other_names_have_no_address() {
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
    fn a_zone_must_leave_room_for_the_label() {
        let label = "a".repeat(63);
        let zone: Name =
            [&label[..], &label[..], &label[..], &"b".repeat(46)].join(".").parse().unwrap();
        let prefix = "10.0.0.0/8".parse().unwrap();
        assert_eq!(Namespace::new(prefix, zone), Err(NameError::TooLong));
    }

    #[test]
    fn names_without_padding() {
        let namespace = namespace().with_padding(false);
        for (address, text) in [
            ("10.0.0.0", "10-0-0-0.dns64perf.test"),
            ("10.1.20.3", "10-1-20-3.dns64perf.test"),
            ("10.255.199.100", "10-255-199-100.dns64perf.test"),
        ] {
            let address: Ipv4Addr = address.parse().unwrap();
            let name = namespace.name(address);
            assert_eq!(name.to_string(), text);
            assert_eq!(namespace.address(name.as_wire()), Some(address));
        }
        for text in [
            "010-000-000-000.dns64perf.test",
            "10-00-0-0.dns64perf.test",
            "10-01-0-0.dns64perf.test",
            "11-0-0-0.dns64perf.test",
            "10-0-0-256.dns64perf.test",
            "10-0-0-2560.dns64perf.test",
            "10-0-0.dns64perf.test",
            "10-0-0-0-0.dns64perf.test",
            "10-0-0-.dns64perf.test",
            "-10-0-0.dns64perf.test",
            "10--0-0.dns64perf.test",
            "10-0-0-a.dns64perf.test",
            "x.10-0-0-0.dns64perf.test",
            "10-0.0-0.dns64perf.test",
            "dns64perf.test",
        ] {
            let name: Name = text.parse().unwrap();
            assert_eq!(namespace.address(name.as_wire()), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn unpadded_labels_round_trip(bits: u32, any: Vec<u8>, text in "[0-9-]{1,16}") {
            let address = Ipv4Addr::from(bits);
            let namespace = Namespace::with_default_zone("0.0.0.0/0".parse().unwrap()).with_padding(false);
            let mut label = [0; LABEL];
            let len = namespace.label(address, &mut label);
            let dashed = address.to_string().replace('.', "-");
            proptest::prop_assert_eq!(&label[..len], dashed.as_bytes());
            proptest::prop_assert_eq!(Namespace::parse_unpadded(&label[..len]), Some(address));
            let _ = Namespace::parse_unpadded(&any);
            if let Some(address) = Namespace::parse_unpadded(text.as_bytes()) {
                proptest::prop_assert_eq!(address.to_string().replace('.', "-"), text);
            }
        }

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
        fn any_label_is_read_or_refused(label: Vec<u8>, text in "[0-9-]{15}") {
            let _ = Namespace::parse_label(&label);
            if let Some(address) = Namespace::parse_label(text.as_bytes()) {
                let mut again = [0; LABEL];
                Namespace::write_label(address, &mut again);
                proptest::prop_assert_eq!(&again[..], text.as_bytes());
            }
        }
    }
}
