//! Addresses hidden by Crypto-PAn (Xu, Fan, Ammar, Moon, 2002): keyed, one to one, and prefix-preserving.
//!
//! Two addresses that share their first k bits share the first k bits afterwards, and no more. Bit k of the result is
//! bit k of the address, turned or not as AES under the key says of the k bits before it:
//!
//! ```text
//!   AES( a1 a2 ... ak | pad from bit k+1 on )  ──first bit──> turns bit k+1
//! ```
//!
//! The same key gives the same addresses in every capture. Addresses of both families, and those in EDNS Client Subnet
//! options (RFC 7871), are hidden; names are not: a name can tell who asks.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

use crate::dns::Dns;
use crate::messages::Message;

/// Octets of a key: 16 for AES, 16 for the pad.
pub const KEY: usize = 32;
/// Addresses remembered; when there are more, all are forgotten and found again.
const MAX_REMEMBERED: usize = 1 << 18;
/// The EDNS option Client Subnet.
const CLIENT_SUBNET: u16 = 8;

/// Hides addresses.
pub struct Anonymiser {
    cipher: Aes128,
    pad: u128,
    remembered: HashMap<IpAddr, IpAddr>,
    message: Vec<u8>,
}

impl Anonymiser {
    /// By this key.
    pub fn new(key: &[u8; KEY]) -> Self {
        let (cipher, pad) = key.split_at(KEY / 2);
        let cipher = Aes128::new_from_slice(cipher).expect("16 octets");
        let pad = u128::from_be_bytes(pad.try_into().expect("16 octets"));
        let mut this = Anonymiser { cipher, pad, remembered: HashMap::new(), message: Vec::new() };
        this.pad = this.encrypt(pad);
        this
    }

    fn encrypt(&self, block: u128) -> u128 {
        let mut bytes = block.to_be_bytes().into();
        self.cipher.encrypt_block(&mut bytes);
        u128::from_be_bytes(bytes.into())
    }

    /// Another address for each address of a family, always the same.
    pub fn address(&mut self, address: IpAddr) -> IpAddr {
        if let Some(known) = self.remembered.get(&address) {
            return *known;
        }
        let hidden = match address {
            IpAddr::V4(v4) => {
                let bits = u128::from(u32::from(v4)) << 96;
                Ipv4Addr::from((self.hide(bits, 32) >> 96) as u32).into()
            }
            IpAddr::V6(v6) => Ipv6Addr::from(self.hide(v6.into(), 128)).into(),
        };
        if self.remembered.len() == MAX_REMEMBERED {
            self.remembered.clear();
        }
        self.remembered.insert(address, hidden);
        hidden
    }

    /// The first `count` bits of `bits`, each turned or not by those before it.
    fn hide(&self, bits: u128, count: u32) -> u128 {
        (0..count).fold(bits, |hidden, position| {
            // The first `position` bits of the address, then the pad.
            let rest = u128::MAX.checked_shr(position).unwrap_or(0);
            let turn = self.encrypt(bits & !rest | self.pad & rest) >> 127;
            hidden ^ turn << (127 - position)
        })
    }

    /// Gives `each` the message with its addresses hidden.
    pub fn message<T>(&mut self, message: &Message<'_>, each: impl FnOnce(&Message<'_>) -> T) -> T {
        let mut bytes = std::mem::take(&mut self.message);
        bytes.clear();
        bytes.extend_from_slice(message.bytes);
        if let Some(opt) = Dns::read(message.bytes).and_then(|dns| dns.opt) {
            self.options(&mut bytes[opt.options.0..][..opt.options.1]);
        }
        let source = SocketAddr::new(self.address(message.source.ip()), message.source.port());
        let destination =
            SocketAddr::new(self.address(message.destination.ip()), message.destination.port());
        let done = each(&Message { source, destination, bytes: &bytes, ..*message });
        self.message = bytes;
        done
    }

    /// Hides the addresses in EDNS options.
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

    /// Hides the address of a Client Subnet option: as many bits of it as there are.
    fn subnet(&mut self, option: &mut [u8]) {
        let (family, prefix) = (option[1], u32::from(option[2]));
        let address = &mut option[4..];
        let mut octets = [0; 16];
        let len = address.len().min(16);
        octets[..len].copy_from_slice(&address[..len]);
        let bits = if family == 1 { 32 } else { 128 };
        let hidden = self.hide(u128::from_be_bytes(octets), bits.min(prefix));
        address.fill(0);
        address[..len].copy_from_slice(&hidden.to_be_bytes()[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of the authors' sample program.
    const SAMPLE: [u8; KEY] = [
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131,
        121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2,
    ];

    #[test]
    fn as_the_authors_sample() {
        let mut anonymiser = Anonymiser::new(&SAMPLE);
        for (address, hidden) in [
            ("128.11.68.132", "135.242.180.132"),
            ("129.118.74.4", "134.136.186.123"),
            ("130.132.252.244", "133.68.164.234"),
            ("141.223.7.43", "141.167.8.160"),
            ("141.233.145.108", "141.129.237.235"),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            for _ in 0..2 {
                assert_eq!(anonymiser.address(address).to_string(), hidden);
            }
        }
    }

    #[test]
    fn client_subnets_are_hidden_as_addresses_are() {
        let mut anonymiser = Anonymiser::new(&SAMPLE);
        let hidden: Ipv4Addr = "135.242.180.132".parse().expect("an address");
        let mut options = vec![0, 10, 0, 2, 1, 2, 0, 8, 0, 7, 0, 1, 24, 0, 128, 11, 68];
        anonymiser.options(&mut options);
        assert_eq!(options[..14], [0, 10, 0, 2, 1, 2, 0, 8, 0, 7, 0, 1, 24, 0]);
        assert_eq!(options[14..], hidden.octets()[..3]);
        // A length that lies is no reason to stop.
        let mut lie = vec![0, 8, 0, 99, 0, 2, 255, 0, 0x20];
        anonymiser.options(&mut lie);
        assert_eq!(lie.len(), 9);
    }

    proptest::proptest! {
        #[test]
        fn prefixes_stay_and_no_more(a: u128, shared in 0u32..=128, b: u128) {
            let anonymiser = Anonymiser::new(&SAMPLE);
            let keep = u128::MAX.checked_shr(shared).map_or(u128::MAX, |rest| !rest);
            let b = a & keep | b & !keep;
            let common = (a ^ b).leading_zeros();
            let (x, y) = (anonymiser.hide(a, 128), anonymiser.hide(b, 128));
            proptest::prop_assert_eq!((x ^ y).leading_zeros(), common);
        }
    }
}
