//! The client subnet (RFC 7871), the only EDNS option that clients and upstream may exchange through this server.
//!
//! All other options concern two neighbours (RFC 6891 section 6.2.6: they are hop by hop) and end here.

use std::net::IpAddr;

use wire::extend::CLIENT_SUBNET;
use wire::{Query, Rcode};

use crate::config::{ClientSubnet, UpstreamConfig};

/// Longest option with its code and length: family, two prefix lengths, an IPv6 address; in octets.
pub(crate) const MAX_SUBNET: usize = 4 + 4 + 16;

/// The option of a query, in wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subnet {
    option: [u8; MAX_SUBNET],
    len: u8,
    /// Whether the client sent it; only then its reply has the option too.
    from_client: bool,
}

impl Subnet {
    /// Returns the option to send upstream for a query of `client`, if any.
    ///
    /// # Errors
    /// The return code for a client whose own option is malformed (RFC 7871 section 7.1.2).
    #[inline]
    pub(crate) fn of(
        query: &Query<'_>,
        client: IpAddr,
        config: &UpstreamConfig,
    ) -> Result<Option<Self>, Rcode> {
        if config.client_subnet == ClientSubnet::Drop {
            return Ok(None);
        }
        match query.edns.and_then(|edns| edns.option(CLIENT_SUBNET)) {
            Some(data) => Self::parse(data).map(Some).ok_or(Rcode::FORMERR),
            None if config.client_subnet == ClientSubnet::Add => {
                let (v4, v6) = (config.client_subnet_ipv4_bits, config.client_subnet_ipv6_bits);
                Ok(Some(Self::made(client.to_canonical(), v4, v6)))
            }
            None => Ok(None),
        }
    }

    /// Reads the data of a client's option; `None` if a field has an invalid value.
    fn parse(data: &[u8]) -> Option<Self> {
        let (&[0, family, source, 0], address) = data.split_first_chunk::<4>()? else {
            return None;
        };
        let most = match family {
            1 => 32,
            2 => 128,
            // A client that opts out of the subnet may leave the family out (section 7.1.2).
            0 if source == 0 => 0,
            _ => return None,
        };
        let needed = usize::from(source).div_ceil(8);
        // Bits beyond the prefix are zero.
        let beyond = address.last().is_some_and(|last| {
            let used = usize::from(source) - 8 * (needed - 1);
            last.checked_shl(used as u32).unwrap_or(0) != 0
        });
        let valid = source <= most && address.len() == needed && !beyond;
        valid.then(|| Self::new(data, true))
    }

    /// Makes the option of a client's network with these prefix lengths.
    fn made(client: IpAddr, v4_bits: u8, v6_bits: u8) -> Self {
        let mut data = [0; MAX_SUBNET - 4];
        let (family, bits, octets) = match client {
            IpAddr::V4(address) => (1, v4_bits, &address.octets()[..]),
            IpAddr::V6(address) => (2, v6_bits, &address.octets()[..]),
        };
        let len = usize::from(bits).div_ceil(8).min(octets.len());
        (data[1], data[2]) = (family, bits);
        data[4..4 + len].copy_from_slice(&octets[..len]);
        if !bits.is_multiple_of(8) {
            data[3 + len] &= 0xff << (8 - bits % 8);
        }
        Self::new(&data[..4 + len], false)
    }

    /// Makes an option of its data.
    fn new(data: &[u8], from_client: bool) -> Self {
        let mut option = [0; MAX_SUBNET];
        option[..2].copy_from_slice(&CLIENT_SUBNET.to_be_bytes());
        option[3] = data.len() as u8;
        option[4..4 + data.len()].copy_from_slice(data);
        Subnet { option, len: 4 + data.len() as u8, from_client }
    }

    /// Returns the option with its code and length.
    pub(crate) fn option(&self) -> &[u8] {
        &self.option[..usize::from(self.len)]
    }

    /// Returns whether the option has an address.
    pub(crate) fn has_address(&self) -> bool {
        self.option()[6] > 0
    }

    /// Returns whether the option of upstream's reply is for the same network. A reply may fill in
    /// what the query left out (RFC 7871 section 7.3).
    pub(crate) fn is_like(&self, data: &[u8]) -> bool {
        let (asked, address) = self.option()[4..].split_at(4);
        let Some((replied, rest)) = data.split_at_checked(4) else { return false };
        let is_family = asked[..2] == [0, 0] || replied[..2] == asked[..2];
        let is_source = asked[2] == 0 || replied[2] == asked[2];
        is_family && is_source && rest.starts_with(address)
    }

    /// Appends the option of an answer that is for networks with a prefix of `scope` bits (RFC 7871 section 7.2.1), for a client that
    /// sent one.
    pub(crate) fn push_answer(&self, scope: u8, out: &mut Vec<u8>) {
        if self.from_client {
            let at = out.len();
            out.extend_from_slice(self.option());
            out[at + 7] = scope;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_clients_are_checked() {
        for (data, valid) in [
            (&[0, 1, 24, 0, 192, 0, 2][..], true),
            (&[0, 1, 20, 0, 192, 0, 0x20], true),
            (&[0, 1, 20, 0, 192, 0, 0x21], false),
            (&[0, 1, 0, 0], true),
            (&[0, 0, 0, 0], true),
            (&[0, 0, 8, 0, 10], false),
            (&[0, 2, 56, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 1], true),
            (&[0, 1, 33, 0, 1, 2, 3, 4, 0x80], false),
            (&[0, 3, 8, 0, 10], false),
            (&[0, 1, 24, 24, 192, 0, 2], false),
            (&[0, 1, 24, 0, 192, 0], false),
            (&[0, 1, 24, 0, 192, 0, 2, 0], false),
            (&[0, 1, 24], false),
            (&[], false),
        ] {
            let subnet = Subnet::parse(data);
            assert_eq!(subnet.is_some(), valid, "{data:?}");
            if let Some(subnet) = subnet {
                assert_eq!(subnet.option()[..4], [0, 8, 0, data.len() as u8]);
                assert_eq!(&subnet.option()[4..], data);
            }
        }
    }

    #[test]
    fn options_are_made_of_addresses() {
        for (client, bits, data) in [
            ("192.0.2.77", [24, 56], &[0, 1, 24, 0, 192, 0, 2][..]),
            ("192.0.2.77", [30, 56], &[0, 1, 30, 0, 192, 0, 2, 76]),
            ("192.0.2.77", [0, 56], &[0, 1, 0, 0]),
            ("2001:db8:1:2ff::1", [24, 60], &[0, 2, 60, 0, 0x20, 1, 0xd, 0xb8, 0, 1, 2, 0xf0]),
        ] {
            let made = Subnet::made(client.parse().expect("an address"), bits[0], bits[1]);
            assert_eq!(&made.option()[4..], data, "{client}");
            let own = Subnet::parse(data).expect("it is valid");
            let mut scoped = data.to_vec();
            scoped[3] = 16;
            assert!(own.is_like(&scoped));
            assert_eq!(own.is_like(&[0, 1, 8, 0, 10]), bits[0] == 0, "{client}");
            let mut answers = Vec::new();
            [&own, &made].iter().for_each(|subnet| subnet.push_answer(16, &mut answers));
            assert_eq!(answers[4..], scoped, "only for a client that sent it");
        }
    }
}
