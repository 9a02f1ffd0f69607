//! IPv4 addresses embedded in IPv6 addresses (RFC 6052).
//!
//! A DNS64 server answers AAAA for a name that has only A records: it puts the IPv4 address into an IPv6 prefix, and a
//! NAT64 translates it back. RFC 6052 section 2.2 allows six prefix lengths and keeps bits 64 to 71, the "u" octet,
//! zero, so the IPv4 address is split around it:
//!
//! ```text
//!   octet   0   4   5   6   7   8   9  10  11  12  13  14  15
//!   /32    [prefix][   v4(32)    ][u][        suffix          ]
//!   /40    [prefix    ][ v4(24)  ][u](8)[      suffix         ]
//!   /48    [prefix        ][v4(16)][u][(16)][    suffix       ]
//!   /56    [prefix            ](8)[u][  (24)   ][  suffix     ]
//!   /64    [prefix               ][u][   v4(32)    ][ suffix  ]
//!   /96    [prefix               ][u][  prefix ][   v4(32)    ]
//! ```
//!
//! The suffix is zero. `64:ff9b::/96` is the well-known prefix; it must not carry non-global addresses (section 3.1),
//! so a benchmark over 10.0.0.0/8 uses another prefix.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

use crate::prefix::decimal;

/// The prefix lengths that RFC 6052 section 2.2 allows, in bits.
pub const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

/// A NAT64 prefix, with which IPv6 addresses with an embedded IPv4 address start, written `2001:db8:64::/96`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pref64 {
    /// The prefix as a number, zero beyond its length and in the u octet.
    bits: u128,
    /// The length of the prefix in bits, one of [`LENGTHS`].
    len: u8,
}

impl Pref64 {
    /// The well-known prefix `64:ff9b::/96` (RFC 6052 section 2.1).
    pub const WELL_KNOWN: Self = Self { bits: 0x0064_ff9b << 96, len: 96 };

    /// Returns the prefix of `len` bits that starts at `prefix`; the error names the broken rule of RFC 6052.
    pub fn new(prefix: Ipv6Addr, len: u8) -> Result<Self, Pref64Error> {
        if !LENGTHS.contains(&len) {
            return Err(Pref64Error::Length(len.to_string()));
        }
        let bits = u128::from(prefix);
        let masked = bits & (u128::MAX << (128 - len));
        if masked != bits {
            return Err(Pref64Error::HostBits {
                found: prefix,
                len,
                right: Ipv6Addr::from(masked),
            });
        }
        if bits & U_OCTET != 0 {
            return Err(Pref64Error::UOctet {
                found: prefix,
                len,
                right: Ipv6Addr::from(bits & !U_OCTET),
            });
        }
        Ok(Self { bits, len })
    }

    /// Returns the first address of the prefix.
    pub fn first(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.bits)
    }

    /// Returns the length of the prefix in bits, one of [`LENGTHS`].
    pub fn prefix_len(&self) -> u8 {
        self.len
    }

    /// Returns whether the prefix is `64:ff9b::/96`, under which only global IPv4 addresses may be embedded.
    pub fn is_well_known(&self) -> bool {
        *self == Self::WELL_KNOWN
    }

    /// Returns the IPv6 address that embeds `address` under this prefix.
    #[inline]
    pub fn embed(&self, address: Ipv4Addr) -> Ipv6Addr {
        // Put the address directly after the prefix, then shift the bits after bit 64 past the u octet.
        let dense = u128::from(u32::from(address)) << (96 - self.len);
        let spread =
            if self.len == 96 { dense } else { (dense & HIGH_HALF) | ((dense & !HIGH_HALF) >> 8) };
        Ipv6Addr::from(self.bits | spread)
    }

    /// Returns the IPv4 address embedded in `address`; `None` if the prefix differs, or the u octet or the suffix is
    /// not zero.
    #[inline]
    pub fn extract(&self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let spread = u128::from(address) ^ self.bits;
        let dense = if self.len == 96 {
            spread
        } else {
            (spread & HIGH_HALF) | ((spread & !HIGH_HALF) << 8)
        };
        let candidate = Ipv4Addr::from((dense >> (96 - self.len)) as u32);
        (self.embed(candidate) == address).then_some(candidate)
    }
}

/// Returns whether `address` embeds `embedded` under any prefix of one of the [`LENGTHS`], with a suffix of zeros.
#[inline]
pub fn embeds(address: Ipv6Addr, embedded: Ipv4Addr) -> bool {
    let bits = u128::from(address);
    let under = |len: &u8| {
        let prefix = Pref64 { bits: bits & (u128::MAX << (128 - len)), len: *len };
        prefix.embed(embedded) == address
    };
    bits & U_OCTET == 0 && LENGTHS.iter().any(under)
}

/// The addresses of `ipv4only.arpa` (RFC 7050 section 2.2).
pub const IPV4ONLY: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];

/// Returns the prefixes under which a DNS64 server synthesised these AAAA records of `ipv4only.arpa`, each once, in their
/// order (RFC 7050 section 3). Any suffix is accepted. Where the well-known addresses fit at several places, the place
/// counts that both of them have; a single address that fits at several places is ignored.
pub fn discover(addresses: &[Ipv6Addr]) -> Vec<Pref64> {
    let of = |embedded| {
        addresses.iter().map(move |&address| prefixes_of(address, embedded).collect::<Vec<_>>())
    };
    let [first, second] = IPV4ONLY.map(|embedded| of(embedded).collect::<Vec<_>>());
    let mut both: Vec<Pref64> = first.iter().flatten().copied().collect();
    both.retain(|prefix| second.iter().flatten().any(|other| other == prefix));
    let only = |(one, other): (&Vec<Pref64>, &Vec<Pref64>)| only_one(one, other);
    let alone = || first.iter().zip(&second).filter_map(only).collect();
    let found = if both.is_empty() { alone() } else { both };
    let mut once = Vec::new();
    for prefix in found {
        if !once.contains(&prefix) {
            once.push(prefix);
        }
    }
    once
}

/// Returns the only prefix that an address can have; `None` if there are several, or none.
fn only_one(first: &[Pref64], second: &[Pref64]) -> Option<Pref64> {
    match (first, second) {
        ([prefix], []) | ([], [prefix]) => Some(*prefix),
        _ => None,
    }
}

/// Returns all prefixes under which `address` embeds `embedded`, with any suffix.
fn prefixes_of(address: Ipv6Addr, embedded: Ipv4Addr) -> impl Iterator<Item = Pref64> {
    let bits = u128::from(address);
    LENGTHS.into_iter().filter_map(move |len| {
        let prefix = Pref64::new(Ipv6Addr::from(bits & (u128::MAX << (128 - len))), len).ok()?;
        let used = u128::from(prefix.embed([255; 4].into())) | !(u128::MAX >> len) | U_OCTET;
        (u128::from(prefix.embed(embedded)) == bits & used).then_some(prefix)
    })
}

impl FromStr for Pref64 {
    type Err = Pref64Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, len) =
            text.split_once('/').ok_or_else(|| Pref64Error::NoLength(text.into()))?;
        let prefix = address.parse().map_err(|_| Pref64Error::Address(address.into()))?;
        let len = decimal(len).ok_or_else(|| Pref64Error::Length(len.into()))?;
        Self::new(prefix, len)
    }
}

impl fmt::Display for Pref64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first(), self.len)
    }
}

/// The reason why a NAT64 prefix is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Pref64Error {
    /// The text has no slash.
    #[error("`{0}` has no prefix length: write it as `2001:db8:64::/96`")]
    NoLength(String),
    /// The text before the slash is not an address.
    #[error("`{0}` is not an IPv6 address: write the prefix as `2001:db8:64::/96`")]
    Address(String),
    /// The length is not one of the six that RFC 6052 allows.
    #[error(
        "`/{0}` is not a valid length of a NAT64 prefix: RFC 6052 allows /32, /40, /48, /56, /64 and /96"
    )]
    Length(String),
    /// The address has bits set after the prefix length.
    #[error("{found}/{len} has bits set after its prefix length: write {right}/{len}")]
    HostBits {
        /// The address in the text.
        found: Ipv6Addr,
        /// The length in the text.
        len: u8,
        /// The address with the bits after the length cleared.
        right: Ipv6Addr,
    },
    /// Bits 64 to 71 are not zero.
    #[error(
        "{found}/{len} has bits 64 to 71 set, which must be zero (RFC 6052): write {right}/{len}"
    )]
    UOctet {
        /// The address in the text.
        found: Ipv6Addr,
        /// The length in the text.
        len: u8,
        /// The address with the u octet cleared.
        right: Ipv6Addr,
    },
}

/// Bits 64 to 71, which RFC 6052 reserves and sets to zero.
const U_OCTET: u128 = 0xff << 56;

/// The first 64 bits, before the reserved octet.
const HIGH_HALF: u128 = (u64::MAX as u128) << 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6052 section 2.4, table 1, and section 2.1.
    const VECTORS: [(&str, &str); 7] = [
        ("2001:db8::/32", "2001:db8:c000:221::"),
        ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
        ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
        ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
        ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
        ("64:ff9b::/96", "64:ff9b::192.0.2.33"),
    ];

    #[test]
    fn rfc_6052_vectors() {
        let v4 = Ipv4Addr::new(192, 0, 2, 33);
        for (prefix, address) in VECTORS {
            let pref64: Pref64 = prefix.parse().unwrap();
            let v6: Ipv6Addr = address.parse().unwrap();
            assert_eq!(pref64.embed(v4), v6, "{prefix}");
            assert_eq!(pref64.extract(v6), Some(v4), "{prefix}");
            assert_eq!(pref64.to_string(), prefix);
            assert_eq!(pref64.is_well_known(), prefix == "64:ff9b::/96");
        }
    }

    #[test]
    fn extraction_checks_prefix_u_octet_and_suffix() {
        let pref64: Pref64 = "2001:db8:100::/40".parse().unwrap();
        for address in [
            "2001:db8:2c0:2:21::",
            "2001:db8:1c0:2:121::",
            "2001:db8:1c0:2:21::1",
            "2001:db8:1c0:2:21:8000::",
        ] {
            assert_eq!(pref64.extract(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, part) in [
            ("2001:db8::", "no prefix length"),
            ("10.0.0.0/96", "not an IPv6 address"),
            ("2001:db8::/33", "/32, /40, /48, /56, /64 and /96"),
            ("2001:db8::/x", "/32, /40, /48, /56, /64 and /96"),
            ("2001:db8::1/32", "write 2001:db8::/32"),
            ("2001:db8:1:2:300::/96", "write 2001:db8:1:2::/96"),
        ] {
            let error = text.parse::<Pref64>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn extract_reverses_embed(bits: u128, pick in 0usize..6, v4: u32, other: u128) {
            let len = LENGTHS[pick];
            let first = bits & (u128::MAX << (128 - len)) & !U_OCTET;
            let pref64 = Pref64::new(Ipv6Addr::from(first), len).unwrap();
            let v4 = Ipv4Addr::from(v4);
            let v6 = pref64.embed(v4);
            proptest::prop_assert_eq!(pref64.extract(v6), Some(v4));
            proptest::prop_assert_eq!(u128::from(v6) & U_OCTET, 0);
            proptest::prop_assert_eq!(pref64.to_string().parse::<Pref64>().unwrap(), pref64);
            let other = Ipv6Addr::from(other);
            if let Some(found) = pref64.extract(other) {
                proptest::prop_assert_eq!(pref64.embed(found), other);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<Pref64>();
        }

        #[test]
        fn a_prefix_is_discovered_from_the_addresses_under_it(bits: u128, pick in 0usize..6, suffix: u128, others: Vec<u128>) {
            let len = LENGTHS[pick];
            let first = bits & (u128::MAX << (128 - len)) & !U_OCTET;
            let prefix = Pref64::new(Ipv6Addr::from(first), len).unwrap();
            let used = u128::from(prefix.embed([255; 4].into())) | !(u128::MAX >> len) | U_OCTET;
            let outer = |inner| Ipv6Addr::from(u128::from(prefix.embed(inner)) | suffix & !used);
            let mut addresses: Vec<Ipv6Addr> = others.into_iter().map(Ipv6Addr::from).collect();
            addresses.extend(IPV4ONLY.map(outer));
            proptest::prop_assert!(discover(&addresses).contains(&prefix));
        }
    }

    #[test]
    fn prefixes_are_discovered_from_ipv4only_arpa() {
        let found = |addresses: &[&str]| -> Vec<String> {
            let addresses: Vec<_> = addresses.iter().map(|a| a.parse().unwrap()).collect();
            discover(&addresses).iter().map(Pref64::to_string).collect()
        };
        let well_known = ["64:ff9b::c000:aa", "64:ff9b::c000:ab"];
        assert_eq!(found(&well_known), ["64:ff9b::/96"]);
        assert_eq!(found(&well_known[1..]), ["64:ff9b::/96"], "one is enough");
        let two =
            ["2001:db8:c000:aa::", "64:ff9b::c000:ab", "2001:db8:c000:ab::", "64:ff9b::c000:aa"];
        assert_eq!(found(&two), ["2001:db8::/32", "64:ff9b::/96"]);
        // The /96 contains a well-known address itself: only both together tell the place.
        let twice = ["2001:db8:c000:aa::c000:aa", "2001:db8:c000:aa::c000:ab"];
        assert_eq!(found(&twice), ["2001:db8:c000:aa::/96"]);
        assert!(found(&twice[..1]).is_empty(), "it is ambiguous");
        assert!(found(&["2001:db8::1", "::"]).is_empty());
    }

    #[test]
    fn an_address_is_found_under_any_prefix() {
        let embedded: Ipv4Addr = "192.0.2.33".parse().unwrap();
        for (prefix, address) in VECTORS {
            assert!(embeds(address.parse().unwrap(), embedded), "{prefix}");
            assert!(!embeds(address.parse().unwrap(), "192.0.2.34".parse().unwrap()), "{prefix}");
        }
        for (other, why) in [
            ("2001:db8:122:344::c000:222", "another address"),
            ("2001:db8:122:344:c0:2:2100:1", "a suffix"),
            ("2001:db8:122:344:1c0:2:2100:0", "the u octet"),
            ("::", "none"),
        ] {
            assert!(!embeds(other.parse().unwrap(), embedded), "{why}");
        }
    }
}
