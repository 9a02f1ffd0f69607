//! Anonymises addresses with Crypto-PAn (Xu, Fan, Ammar, Moon, 2002): keyed, one-to-one, and prefix-preserving.
//!
//! Two addresses that share exactly their first k bits share exactly their first k bits afterwards. Each bit of the
//! address is flipped or not; AES with the key decides, from the bits before it:
//!
//! ```text
//!   AES( a1 a2 ... ak | pad from bit k+1 on )  ──first bit──> flips bit k+1
//! ```
//!
//! The same key gives the same addresses in every capture. Addresses of both families, and those in EDNS
//! Client Subnet options (RFC 7871), are anonymised; names are not, and a name can identify a client. Octets of a message that
//! belong to no record, or to one that cannot be read, become 0: an option may be among them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

use wire::message::{HEADER, Record, skip_name};
use wire::{Header, Qtype};

use crate::messages::Message;

/// Size of a key in octets: 16 for AES, 16 for the pad.
const KEY: usize = 32;
/// Largest number of cached addresses; a full cache is emptied.
const MAX_CACHED: usize = 1 << 18;
/// Octets of a question after its name.
const QUESTION_FIXED: usize = 4;
/// The code of the EDNS option Client Subnet.
const CLIENT_SUBNET: u16 = 8;

/// A key: 16 octets for AES, 16 for the pad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u8; KEY]);

/// Error of a text that is no key: why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; {digits} hexadecimal digits are accepted", digits = 2 * KEY)]
pub struct KeyError(String);

impl FromStr for Key {
    type Err = KeyError;

    /// Reads 64 hexadecimal digits, with white space around them.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let digits: Vec<u8> = text
            .trim()
            .chars()
            .map(|digit| digit.to_digit(16).map(|value| value as u8))
            .collect::<Option<_>>()
            .ok_or_else(|| KeyError("something else than hexadecimal digits".to_owned()))?;
        let octets: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        match octets.try_into() {
            Ok(key) if digits.len() == 2 * KEY => Ok(Key(key)),
            _ => Err(KeyError(format!("{} digits", digits.len()))),
        }
    }
}

/// An anonymiser of addresses with one key.
pub struct Anonymiser {
    cipher: Aes128,
    pad: u128,
    cache: HashMap<IpAddr, IpAddr>,
    message: Vec<u8>,
}

impl Anonymiser {
    /// Returns an anonymiser with this key.
    pub fn new(key: &Key) -> Self {
        let (cipher, pad) = key.0.split_at(KEY / 2);
        let cipher = Aes128::new_from_slice(cipher).expect("16 octets");
        let pad = u128::from_be_bytes(pad.try_into().expect("16 octets"));
        let mut this = Anonymiser { cipher, pad, cache: HashMap::new(), message: Vec::new() };
        this.pad = this.encrypt(pad);
        this
    }

    /// Encrypts one block with AES.
    fn encrypt(&self, block: u128) -> u128 {
        let mut bytes = block.to_be_bytes().into();
        self.cipher.encrypt_block(&mut bytes);
        u128::from_be_bytes(bytes.into())
    }

    /// Returns the anonymised address, which has the same family and is always the same for an address.
    pub fn address(&mut self, address: IpAddr) -> IpAddr {
        if let Some(known) = self.cache.get(&address) {
            return *known;
        }
        let masked = match address {
            IpAddr::V4(v4) => {
                let bits = u128::from(u32::from(v4)) << 96;
                Ipv4Addr::from((self.mask(bits, 32) >> 96) as u32).into()
            }
            IpAddr::V6(v6) => Ipv6Addr::from(self.mask(v6.into(), 128)).into(),
        };
        if self.cache.len() == MAX_CACHED {
            self.cache.clear();
        }
        self.cache.insert(address, masked);
        masked
    }

    /// Flips each of the first `count` bits or not, as AES decides from the bits before it.
    fn mask(&self, bits: u128, count: u32) -> u128 {
        (0..count).fold(bits, |masked, position| {
            // The first `position` bits of the address, then the pad.
            let rest = u128::MAX.checked_shr(position).unwrap_or(0);
            let flip = self.encrypt(bits & !rest | self.pad & rest) >> 127;
            masked ^ flip << (127 - position)
        })
    }

    /// Calls `visit` with the message after anonymising its addresses.
    pub fn message<T>(
        &mut self,
        message: &Message<'_>,
        visit: impl FnOnce(&Message<'_>) -> T,
    ) -> T {
        let mut bytes = std::mem::take(&mut self.message);
        bytes.clear();
        bytes.extend_from_slice(message.bytes);
        let read = self.records(&mut bytes);
        // A question that is cut stays cut.
        bytes.truncate(if message.cut { read } else { message.bytes.len() });
        bytes[read..].fill(0);
        let source = SocketAddr::new(self.address(message.source.ip()), message.source.port());
        let destination =
            SocketAddr::new(self.address(message.destination.ip()), message.destination.port());
        let done = visit(&Message { source, destination, bytes: &bytes, ..*message });
        self.message = bytes;
        done
    }

    /// Anonymises the addresses in the OPT records of a message; returns the offset after the last record that can be read.
    fn records(&mut self, message: &mut [u8]) -> usize {
        let Some(header) = Header::read(message) else { return 0 };
        let [questions, others @ ..] = header.counts.map(u32::from);
        let mut at = HEADER;
        for _ in 0..questions {
            match skip_name(message, at).map(|fixed| fixed + QUESTION_FIXED) {
                Some(end) if end <= message.len() => at = end,
                _ => return at,
            }
        }
        for _ in 0..others.iter().sum() {
            let Some((record, end)) = Record::read(message, at) else { return at };
            let options = (record.rtype == Qtype::OPT).then_some(record.rdata_at..end);
            options.into_iter().for_each(|options| self.options(&mut message[options]));
            at = end;
        }
        at
    }

    /// Anonymises the addresses in EDNS options.
    fn options(&mut self, mut options: &mut [u8]) {
        while let Some((head, rest)) = options.split_first_chunk_mut::<4>() {
            let code = u16::from_be_bytes([head[0], head[1]]);
            let len = usize::from(u16::from_be_bytes([head[2], head[3]])).min(rest.len());
            let (value, rest) = rest.split_at_mut(len);
            if code == CLIENT_SUBNET && value.len() > 4 {
                self.subnet(value);
            }
            options = rest;
        }
    }

    /// Anonymises the address of a Client Subnet option, in the given number of bits; the others
    /// become 0 (RFC 7871 section 6).
    fn subnet(&mut self, option: &mut [u8]) {
        let (family, prefix) = (option[1], u32::from(option[2]));
        let address = &mut option[4..];
        let mut octets = [0; 16];
        let len = address.len().min(16);
        octets[..len].copy_from_slice(&address[..len]);
        let bits = if family == 1 { 32 } else { 128 }.min(prefix);
        let masked = self.mask(u128::from_be_bytes(octets), bits);
        let masked = masked & !u128::MAX.checked_shr(bits).unwrap_or(0);
        address.fill(0);
        address[..len].copy_from_slice(&masked.to_be_bytes()[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key in the sample program of the authors.
    const SAMPLE: Key = Key([
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131,
        121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2,
    ]);

    #[test]
    fn results_match_the_sample_of_the_authors() {
        let mut anonymiser = Anonymiser::new(&SAMPLE);
        for (address, masked) in [
            ("128.11.68.132", "135.242.180.132"),
            ("129.118.74.4", "134.136.186.123"),
            ("130.132.252.244", "133.68.164.234"),
            ("141.223.7.43", "141.167.8.160"),
            ("141.233.145.108", "141.129.237.235"),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            for _ in 0..2 {
                assert_eq!(anonymiser.address(address).to_string(), masked);
            }
        }
    }

    #[test]
    fn client_subnets_are_anonymised_like_addresses() {
        let mut anonymiser = Anonymiser::new(&SAMPLE);
        let masked: Ipv4Addr = "135.242.180.132".parse().expect("an address");
        let mut options = vec![0, 10, 0, 2, 1, 2, 0, 8, 0, 7, 0, 1, 24, 0, 128, 11, 68];
        anonymiser.options(&mut options);
        assert_eq!(options[..14], [0, 10, 0, 2, 1, 2, 0, 8, 0, 7, 0, 1, 24, 0]);
        assert_eq!(options[14..], masked.octets()[..3]);
        // An option longer than the message does not panic.
        let mut overlong = vec![0, 8, 0, 99, 0, 2, 255, 0, 0x20];
        anonymiser.options(&mut overlong);
        assert_eq!(overlong.len(), 9);
    }

    /// A query for `a.example A` with an OPT record with these options.
    fn query(options: &[u8]) -> Vec<u8> {
        let mut query = b"\0\x07\x01\0\0\x01\0\0\0\0\0\x01\x01a\x07example\0\0\x01\0\x01".to_vec();
        query.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, options.len() as u8]);
        query.extend_from_slice(options);
        query
    }

    /// Anonymises a whole message from 128.11.68.132.
    fn hidden(bytes: &[u8]) -> Vec<u8> {
        hidden_part(bytes, false)
    }

    /// Anonymises a message from 128.11.68.132.
    fn hidden_part(bytes: &[u8], cut: bool) -> Vec<u8> {
        let ends = [1, 53].map(|port| SocketAddr::from(([128, 11, 68, 132], port)));
        let whole = Message::whole(crate::Transport::Udp, ends, measure::Nanos::ZERO, bytes);
        let message = Message { cut, ..whole };
        Anonymiser::new(&SAMPLE).message(&message, |hidden| hidden.bytes.to_vec())
    }

    #[test]
    fn a_cut_question_stays_cut() {
        let whole = query(&[]);
        for len in HEADER..27 {
            assert_eq!(hidden_part(&whole[..len], true), &whole[..HEADER], "{len}");
        }
        assert_eq!(hidden_part(&whole[..30], true), &whole[..27]);
    }

    #[test]
    fn no_subnet_is_left_wherever_it_is() {
        let address = [128, 11, 68, 132];
        let subnet = [&[0, 8, 0, 8, 0, 1, 32, 0][..], &address].concat();
        let whole = query(&subnet);
        let has = |bytes: &[u8]| bytes.windows(3).any(|three| three == &address[..3]);
        assert!(has(&whole) && !has(&hidden(&whole)));
        let mut two = [&whole[..], &whole[27..]].concat();
        two[11] = 2;
        let mut uncounted = whole.clone();
        uncounted[11] = 0;
        let mut answer = whole.clone();
        (answer[7], answer[11]) = (1, 0);
        let mut damaged = two.clone();
        // The first record says that it is longer than the message.
        damaged[36] = 255;
        let mut no_question = whole.clone();
        no_question[12] = 0xff;
        let longer = [&whole[..], &subnet].concat();
        let cut = &whole[..whole.len() - 1];
        for message in [&two, &uncounted, &answer, &damaged, &no_question, &longer, cut] {
            let hidden = hidden(message);
            assert!(has(message) && !has(&hidden), "{message:?} {hidden:?}");
            assert_eq!(hidden.len(), message.len());
        }
        // A message without an address stays as it is.
        let plain = query(&[0, 10, 0, 2, 1, 2]);
        assert_eq!(hidden(&plain), plain);
        // Octets of an address beyond its prefix, or beyond its family.
        for (family, prefix, octets, kept) in [
            (1, 8, &address[..], 1),
            (1, 32, &[128, 11, 68, 132, 9, 9][..], 4),
            (2, 16, &address, 2),
        ] {
            let mut option = [&[0, family, prefix, 0][..], octets].concat();
            Anonymiser::new(&SAMPLE).subnet(&mut option);
            assert_eq!(option[4 + kept..], vec![0; octets.len() - kept], "{family} {prefix}");
        }
    }

    #[test]
    fn keys_are_64_hexadecimal_digits() {
        let text: String = SAMPLE.0.iter().map(|octet| format!("{octet:02x}")).collect();
        assert_eq!(format!("{text}\n").parse(), Ok(SAMPLE));
        for (bad, why) in [(&text[1..], "63 digits"), ("", "0 digits"), ("x", "something else")] {
            let error = bad.parse::<Key>().expect_err(bad).to_string();
            assert!(error.starts_with(why) && error.contains("; 64 hex"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_key_or_an_error(text: String) {
            let _ = text.parse::<Key>();
        }

        #[test]
        fn common_prefixes_keep_their_length(a: u128, shared in 0u32..=128, b: u128) {
            let anonymiser = Anonymiser::new(&SAMPLE);
            let keep = u128::MAX.checked_shr(shared).map_or(u128::MAX, |rest| !rest);
            let b = a & keep | b & !keep;
            let common = (a ^ b).leading_zeros();
            let (x, y) = (anonymiser.mask(a, 128), anonymiser.mask(b, 128));
            proptest::prop_assert_eq!((x ^ y).leading_zeros(), common);
        }
    }
}
