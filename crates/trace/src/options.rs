//! The EDNS options of a message that tables show: their codes, the client subnet, extended errors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use wire::edns;

use crate::dns::Opt;

/// Largest number of option codes, and of extended errors, that are kept of a message.
const MAX_CODES: usize = 8;
/// The code of the client subnet (RFC 7871).
const CLIENT_SUBNET: u16 = 8;
/// The code of an extended error (RFC 8914).
const EXTENDED_ERROR: u16 = 15;

/// Up to eight numbers of options; further ones are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Codes {
    codes: [u16; MAX_CODES],
    len: u8,
}

impl Codes {
    /// Adds a number if there is room.
    fn push(&mut self, code: u16) {
        if let Some(place) = self.codes.get_mut(usize::from(self.len)) {
            *place = code;
            self.len += 1;
        }
    }

    fn as_slice(&self) -> &[u16] {
        &self.codes[..usize::from(self.len)]
    }
}

/// The EDNS options of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    codes: Codes,
    errors: Codes,
    /// The network of the client.
    pub subnet: Option<IpNet>,
}

impl Options {
    /// Reads the options of an OPT record in a message, up to the first that is malformed.
    pub fn read(message: &[u8], opt: &Opt) -> Self {
        let mut options = Options::default();
        let (start, len) = opt.options;
        let octets = message.get(start..start + len).unwrap_or_default();
        for (code, value) in edns::options(octets) {
            options.codes.push(code);
            match code {
                CLIENT_SUBNET => options.subnet = subnet(value).or(options.subnet),
                EXTENDED_ERROR => {
                    if let Some(&[high, low]) = value.first_chunk() {
                        options.errors.push(u16::from_be_bytes([high, low]));
                    }
                }
                _ => {}
            }
        }
        options
    }

    /// Returns the codes of the options in order, at most eight.
    pub fn codes(&self) -> &[u16] {
        self.codes.as_slice()
    }

    /// Returns the codes of the extended errors, at most eight.
    pub fn errors(&self) -> &[u16] {
        self.errors.as_slice()
    }
}

/// Returns the network of a client subnet option; `None` if it is malformed.
fn subnet(value: &[u8]) -> Option<IpNet> {
    let (&[high, low, prefix, _], address) = value.split_first_chunk()?;
    let mut octets = [0; 16];
    octets.get_mut(..address.len())?.copy_from_slice(address);
    let address = match [high, low] {
        [0, 1] if address.len() <= 4 => {
            let [a, b, c, d, ..] = octets;
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        [0, 2] => IpAddr::V6(Ipv6Addr::from(octets)),
        _ => return None,
    };
    IpNet::new(address, prefix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an OPT record whose options are this whole message.
    fn opt(len: usize) -> Opt {
        Opt { udp_size: 0, extended_rcode: 0, version: 0, dnssec_ok: false, options: (0, len) }
    }

    #[test]
    fn codes_subnets_and_errors_are_read() {
        let message = [
            &[0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2][..],
            &[0, 15, 0, 3, 0, 22, b'x'],
            &[0, 10, 0, 0],
            &[0, 12, 0, 9],
        ]
        .concat();
        let options = Options::read(&message, &opt(message.len()));
        assert_eq!(options.codes(), [8, 15, 10]);
        assert_eq!(options.errors(), [22]);
        assert_eq!(options.subnet.map(|net| net.to_string()), Some("192.0.2.0/24".into()));
    }

    proptest::proptest! {
        #[test]
        fn any_octets_are_read(message: Vec<u8>, len in 0usize..300) {
            let options = Options::read(&message, &opt(len));
            proptest::prop_assert!(options.codes().len() <= MAX_CODES);
        }
    }
}
