//! IPv4 prefixes, which define the size of a namespace.
//!
//! A prefix is an address with its host bits zero, and a length: `10.0.0.0/8` holds the 2^24 addresses from 10.0.0.0 to
//! 10.255.255.255. The addresses are consecutive, so the nth address is one addition and the index of an address is one
//! subtraction; a workload needs no list of names.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use thiserror::Error;

/// A set of consecutive IPv4 addresses, written `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4Prefix {
    /// The first address as a number; its host bits are zero.
    first: u32,
    /// The length of the prefix in bits, 0..=32.
    len: u8,
}

impl Ipv4Prefix {
    /// Returns the prefix of `len` bits that starts at `first`; an error if `first` has host bits set.
    pub fn new(first: Ipv4Addr, len: u8) -> Result<Self, Ipv4PrefixError> {
        if len > 32 {
            return Err(Ipv4PrefixError::Length(len.to_string()));
        }
        let bits = u32::from(first);
        let masked = bits & mask(len);
        if masked != bits {
            return Err(Ipv4PrefixError::HostBits {
                found: first,
                len,
                right: Ipv4Addr::from(masked),
            });
        }
        Ok(Self { first: bits, len })
    }

    /// Returns the first address of the network: all bits after the prefix are 0.
    pub fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.first)
    }

    /// Returns the length of the prefix in bits, 0..=32.
    pub fn prefix_len(&self) -> u8 {
        self.len
    }

    /// Returns the number of addresses, 1 ..= 2^32.
    pub fn size(&self) -> u64 {
        1 << (32 - self.len)
    }

    /// Returns address number `index`, which must be below [`size`](Self::size); a larger index wraps around.
    #[inline]
    pub fn nth(&self, index: u64) -> Ipv4Addr {
        debug_assert!(index < self.size(), "address {index} is not in {self}");
        Ipv4Addr::from(self.first | (index as u32 & !mask(self.len)))
    }

    /// Returns the index of an address in the prefix, from 0; `None` if it is outside.
    #[inline]
    pub fn index(&self, address: Ipv4Addr) -> Option<u64> {
        let bits = u32::from(address);
        (bits & mask(self.len) == self.first).then(|| u64::from(bits & !mask(self.len)))
    }

    /// Returns whether the address is in the prefix.
    #[inline]
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        u32::from(address) & mask(self.len) == self.first
    }
}

impl FromStr for Ipv4Prefix {
    type Err = Ipv4PrefixError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, len) =
            text.split_once('/').ok_or_else(|| Ipv4PrefixError::NoLength(text.into()))?;
        let first = address.parse().map_err(|_| Ipv4PrefixError::Address(address.into()))?;
        let len = decimal(len).ok_or_else(|| Ipv4PrefixError::Length(len.into()))?;
        Self::new(first, len)
    }
}

impl fmt::Display for Ipv4Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first(), self.len)
    }
}

/// The reason why an IPv4 prefix is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Ipv4PrefixError {
    /// The text has no slash.
    #[error("`{0}` has no prefix length: write it as `10.0.0.0/8`")]
    NoLength(String),
    /// The text before the slash is not an address.
    #[error("`{0}` is not an IPv4 address: write the prefix as `10.0.0.0/8`")]
    Address(String),
    /// The text after the slash is not a length.
    #[error("`/{0}` is not a valid length of an IPv4 prefix: write a number from 0 to 32")]
    Length(String),
    /// The address has bits set after the prefix length.
    #[error("{found}/{len} has host bits set: write {right}/{len}")]
    HostBits {
        /// The address in the text.
        found: Ipv4Addr,
        /// The length in the text.
        len: u8,
        /// The correct address, with its host bits cleared.
        right: Ipv4Addr,
    },
}

/// Returns the network mask of a prefix length 0..=32.
#[inline]
fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// Reads a number of one to three decimal digits; `+8` and ` 8` are refused.
pub(crate) fn decimal(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_printed() {
        for (text, size) in [
            ("10.0.0.0/8", 1 << 24),
            ("0.0.0.0/0", 1 << 32),
            ("192.0.2.1/32", 1),
            ("10.240.0.0/12", 1 << 20),
        ] {
            let prefix: Ipv4Prefix = text.parse().unwrap();
            assert_eq!(prefix.size(), size, "{text}");
            assert_eq!(prefix.to_string(), text);
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, part) in [
            ("10.1.2.3/8", "write 10.0.0.0/8"),
            ("10.0.0.0", "no prefix length"),
            ("10.0.0/8", "not an IPv4 address"),
            ("10.0.0.0/33", "from 0 to 32"),
            ("10.0.0.0/+8", "from 0 to 32"),
            ("10.0.0.0/", "from 0 to 32"),
            ("fd00::/8", "not an IPv4 address"),
        ] {
            let error = text.parse::<Ipv4Prefix>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn addresses_have_an_index() {
        let prefix: Ipv4Prefix = "10.16.0.0/12".parse().unwrap();
        assert_eq!(prefix.nth(0), Ipv4Addr::new(10, 16, 0, 0));
        assert_eq!(prefix.nth(257), Ipv4Addr::new(10, 16, 1, 1));
        assert_eq!(prefix.index(Ipv4Addr::new(10, 31, 255, 255)), Some((1 << 20) - 1));
        assert_eq!(prefix.index(Ipv4Addr::new(10, 32, 0, 0)), None);
        assert!(!prefix.contains(Ipv4Addr::new(10, 15, 255, 255)));
        let all: Ipv4Prefix = "0.0.0.0/0".parse().unwrap();
        assert_eq!(all.index(Ipv4Addr::BROADCAST), Some(u64::from(u32::MAX)));
    }

    proptest::proptest! {
        #[test]
        fn index_reverses_nth(bits: u32, len in 0u8..=32, pick: u64) {
            let prefix = Ipv4Prefix::new(Ipv4Addr::from(bits & mask(len)), len).unwrap();
            let index = pick % prefix.size();
            proptest::prop_assert_eq!(prefix.index(prefix.nth(index)), Some(index));
            proptest::prop_assert_eq!(prefix.to_string().parse::<Ipv4Prefix>().unwrap(), prefix);
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<Ipv4Prefix>();
        }
    }
}
