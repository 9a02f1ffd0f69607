//! Prefixes in router advertisements: the PREF64 option (RFC 8781) of ICMPv6 messages (RFC 4861 section 4.2).
//!
//! ```text
//!   octet   0     1     2       4                     16
//!          [134] [0]  [checksum] [hop limit ... timers] [option] [option] ...
//!   PREF64 [38]  [2]  [lifetime / 8: 13 bits, length code: 3 bits] [highest 96 bits of the prefix]
//! ```

use std::net::Ipv6Addr;

use measure::Nanos;
use wire::Pref64;

use crate::config::is_usable;

/// ICMPv6 type of router advertisements, and octets before their options.
const ADVERTISEMENT: u8 = 134;
const HEADER_OCTETS: usize = 16;
/// Type of the PREF64 option, and its length in octets.
const PREF64: u8 = 38;
const PREF64_LEN: usize = 16;
/// Prefix lengths by their codes (RFC 8781 section 4).
const LENGTHS: [u8; 6] = [96, 64, 56, 48, 40, 32];

/// A prefix that a router advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedPrefix {
    /// The prefix, of one of the six lengths of RFC 6052.
    pub prefix: Pref64,
    /// Lifetime of the prefix; zero if it must no longer be used.
    pub lifetime: Nanos,
}

/// Returns the prefixes of a router advertisement; `None` for another or malformed message. Options that are not valid
/// are left out, as RFC 8781 section 4 says.
pub fn parse(message: &[u8]) -> Option<Vec<AdvertisedPrefix>> {
    let header = message.get(..HEADER_OCTETS)?;
    if header[..2] != [ADVERTISEMENT, 0] {
        return None;
    }
    let mut found = Vec::new();
    let mut rest = &message[HEADER_OCTETS..];
    while !rest.is_empty() {
        let &[kind, units, ..] = rest else { return None };
        let len = 8 * usize::from(units);
        // An option of length zero makes the whole message invalid (RFC 4861 section 4.6).
        let option = rest.get(..len).filter(|_| len > 0)?;
        if kind == PREF64 && len == PREF64_LEN {
            found.extend(pref64(option));
        }
        rest = &rest[len..];
    }
    Some(found)
}

/// Reads a PREF64 option (RFC 8781 section 4); `None` if its length code is unknown.
fn pref64(option: &[u8]) -> Option<AdvertisedPrefix> {
    let scaled = u16::from_be_bytes([option[2], option[3]]);
    let len = *LENGTHS.get(usize::from(scaled & 7))?;
    let mut octets = [0; 16];
    octets[..12].copy_from_slice(&option[4..]);
    let bits = u128::from_be_bytes(octets) & (u128::MAX << (128 - len));
    let prefix = Pref64::new(Ipv6Addr::from(bits), len).ok().filter(|prefix| is_usable(*prefix))?;
    // The field counts units of eight seconds, and is above the three bits of the length code.
    Some(AdvertisedPrefix { prefix, lifetime: Nanos::from_secs((scaled & !7).into()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OTHER: [u8; 8] = [1, 1, 2, 0, 0, 0, 0, 1];

    /// Makes an advertisement with these options.
    fn message(options: &[&[u8]]) -> Vec<u8> {
        let mut message = vec![ADVERTISEMENT, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        options.iter().for_each(|option| message.extend_from_slice(option));
        message
    }

    /// Makes a PREF64 option whose lifetime is this number of eight seconds.
    fn option(prefix: Pref64, eights: u16) -> Vec<u8> {
        let code = LENGTHS.iter().position(|len| *len == prefix.prefix_len()).expect("a length");
        let mut option = vec![PREF64, 2];
        option.extend_from_slice(&(eights << 3 | code as u16).to_be_bytes());
        option.extend_from_slice(&prefix.first().octets()[..12]);
        option
    }

    #[test]
    fn prefixes_of_all_lengths_are_read_with_their_lifetimes() {
        for prefix in [
            "64:ff9b::/96",
            "2001:db8:64::/64",
            "2001:db8:64::/56",
            "2001:db8:64::/48",
            "2001:db8::/40",
            "2001:db8::/32",
        ] {
            let prefix: Pref64 = prefix.parse().expect("a prefix");
            for (eights, seconds) in [(0, 0), (1, 8), (225, 1_800), (8_191, 65_528)] {
                let read = parse(&message(&[&OTHER, &option(prefix, eights), &OTHER]));
                let lifetime = Nanos::from_secs(seconds);
                assert_eq!(read, Some(vec![AdvertisedPrefix { prefix, lifetime }]));
            }
        }
    }

    #[test]
    fn options_that_are_not_valid_are_left_out_and_messages_refused() {
        let good = option(Pref64::WELL_KNOWN, 1);
        let change = |at: usize, to: u8| {
            let mut option = good.clone();
            option[at] = to;
            option
        };
        let count = |options: &[&[u8]]| parse(&message(options)).map(|found| found.len());
        assert_eq!(count(&[&good, &good]), Some(2));
        assert_eq!(count(&[&change(3, 8 | 6), &good]), Some(1), "no such length code");
        assert_eq!(count(&[&change(12, 1), &good]), Some(1), "bits in the u octet");
        assert_eq!(count(&[&OTHER]), Some(0));
        assert_eq!(count(&[&change(1, 0)]), None, "an option without a length");
        assert_eq!(count(&[&change(1, 3)]), None, "longer than the message");
        assert_eq!(count(&[&good, &[38]]), None);
        assert_eq!(parse(&message(&[&good])[1..]), None);
        assert_eq!(parse(&[]), None);
    }

    proptest! {
        #[test]
        fn any_message_is_read_or_refused(mut message: Vec<u8>) {
            let _ = parse(&message);
            if message.len() >= 2 {
                message[..2].copy_from_slice(&[ADVERTISEMENT, 0]);
                let most = message.len() / PREF64_LEN;
                prop_assert!(parse(&message).is_none_or(|found| found.len() <= most));
            }
        }
    }
}
