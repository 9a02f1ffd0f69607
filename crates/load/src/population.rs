//! Who the clients are: what a real population has beside connections, so that a server sees many people and not
//! one Tester.
//!
//! ```text
//! when    in turn, or each by itself (a Poisson process each where the load is one)
//! how     goes away when it has been idle for a while, comes back for its next query
//! who     a cookie of its own (RFC 7873), a client subnet of its own (RFC 7871); addresses are the engine's
//! ```

use std::net::IpAddr;

use measure::{Nanos, Rng};
use wire::extend::{CLIENT_SUBNET, COOKIE, KEEPALIVE};

/// Networks in a row, of which client `k` has number k mod `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks {
    /// The first.
    pub first: IpAddr,
    /// How many, at least 1.
    pub count: u32,
    /// The length of their prefixes, bits.
    pub bits: u8,
}

impl Networks {
    /// The network of client `k`.
    pub fn nth(&self, k: u32) -> IpAddr {
        let k = k % self.count.max(1);
        match self.first {
            IpAddr::V4(first) => {
                let step = k.checked_shl(32 - u32::from(self.bits.min(32))).unwrap_or(0);
                IpAddr::V4(u32::from(first).wrapping_add(step).into())
            }
            IpAddr::V6(first) => {
                let step = 128 - u32::from(self.bits.min(128));
                let step = u128::from(k).checked_shl(step).unwrap_or(0);
                IpAddr::V6(u128::from(first).wrapping_add(step).into())
            }
        }
    }
}

/// Who a worker's clients are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// Each query is a client's whoever he is, not that of the one whose turn it is.
    pub by_chance: bool,
    /// A connection without a query for so long is closed.
    pub close_idle: Option<Nanos>,
    /// Each client has a cookie of its own.
    pub cookies: bool,
    /// Each client says that it asks for one of these networks.
    pub subnets: Option<Networks>,
    /// Clients ask how long they may keep a connection without a query (RFC 7828).
    pub keepalive: bool,
    /// Queries are padded to a multiple of so many octets; 0: not at all.
    pub padding: u16,
}

impl Population {
    /// Whether queries are to be changed for their client.
    pub(crate) fn changes_queries(&self) -> bool {
        self.cookies || self.subnets.is_some() || self.keepalive || self.padding > 0
    }

    /// The options of client `k` of all, in wire form, with that of RFC 7828 or without; at most 12 + 24 + 4 octets.
    pub(crate) fn options(&self, k: u32, seed: u64, keepalive: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let mut option = |code: u16, data: &[u8]| {
            out.extend_from_slice(&code.to_be_bytes());
            out.extend_from_slice(&(data.len() as u16).to_be_bytes());
            out.extend_from_slice(data);
        };
        if self.cookies {
            option(COOKIE, &Rng::part(seed, u64::from(k)).next_u64().to_be_bytes());
        }
        if let Some(subnets) = &self.subnets {
            let (family, mut address) = match subnets.nth(k) {
                IpAddr::V4(v4) => (1, v4.octets().to_vec()),
                IpAddr::V6(v6) => (2, v6.octets().to_vec()),
            };
            // Only the prefix is told, and no bit behind it (RFC 7871 section 6).
            let bits = subnets.bits.min(address.len() as u8 * 8);
            address.truncate(usize::from(bits.div_ceil(8)));
            if let Some(last) = address.last_mut()
                && !bits.is_multiple_of(8)
            {
                *last &= 0xff << (8 - bits % 8);
            }
            option(CLIENT_SUBNET, &[&[0, family, bits, 0][..], &address].concat());
        }
        if keepalive {
            option(KEEPALIVE, &[]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_says_who_he_is() {
        let first = "198.51.104.0".parse().expect("an address");
        let subnets = Networks { first, count: 512, bits: 21 };
        let population = Population {
            cookies: true,
            subnets: Some(subnets),
            keepalive: true,
            ..Population::default()
        };
        let (first, other) = (population.options(0, 1, false), population.options(300, 1, true));
        assert_eq!(first[..4], [0, 10, 0, 8]);
        assert_ne!(first[4..12], other[4..12], "cookies differ");
        assert_eq!(first[4..12], population.options(0, 1, true)[4..12], "and stay");
        assert_eq!(first[12..], [0, 8, 0, 7, 0, 1, 21, 0, 198, 51, 104]);
        assert_eq!(other[12..], [0, 8, 0, 7, 0, 1, 21, 0, 198, 60, 200, 0, 11, 0, 0]);
        assert!(Population::default().options(0, 1, false).is_empty());
        assert_eq!(subnets.nth(513).to_string(), "198.51.112.0");
        let v6 = Networks { first: "2001:db8::".parse().expect("an address"), count: 9, bits: 56 };
        assert_eq!(v6.nth(2).to_string(), "2001:db8:0:200::");
    }
}
