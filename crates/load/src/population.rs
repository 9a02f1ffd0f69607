//! Properties of the clients: the behaviour of real clients besides opening connections, so that
//! the server sees many clients instead of one Tester.
//!
//! ```text
//! when      in turn, or each client by itself (a Poisson process each if the load is one)
//! how       disconnects after an idle time, connects again for its next query
//! identity  its own cookie (RFC 7873), its own client subnet (RFC 7871); the engine assigns addresses
//! ```

use std::net::IpAddr;

use measure::{Nanos, Rng};
use wire::edns::push_option;
use wire::extend::{CLIENT_SUBNET, COOKIE, KEEPALIVE};

/// Consecutive networks; client `k` is in number k mod `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks {
    /// Address of the first network.
    pub first: IpAddr,
    /// Number of networks, at least 1.
    pub count: u32,
    /// Length of the networks' prefixes, in bits.
    pub bits: u8,
}

impl Networks {
    /// Returns the address of the network of client `k`.
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

/// Properties of a worker's clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// A random client sends each query, instead of the next one in turn.
    pub random_order: bool,
    /// Time without a query after which a connection is closed; `None` for never.
    pub close_idle: Option<Nanos>,
    /// Each client sends its own cookie, with the server's part once it has one.
    pub cookies: bool,
    /// Each client repeats a query over TCP after a truncated reply over UDP.
    pub tcp_fallback: bool,
    /// Number of times that a query is sent again on a new connection after the server has closed its connection.
    pub resends: u32,
    /// Time without a reply after which a query over UDP is sent again, until its timeout; `None` for never.
    pub retry: Option<Nanos>,
    /// Each client sends one of these networks as its client subnet.
    pub subnets: Option<Networks>,
    /// Clients send the keepalive option (RFC 7828), which asks how long an idle connection may stay open.
    pub keepalive: bool,
    /// Queries are padded to a multiple of this number of octets; 0 for no padding.
    pub padding: u16,
}

impl Population {
    /// Returns whether queries are changed for each client.
    pub(crate) fn changes_queries(&self) -> bool {
        self.cookies || self.subnets.is_some() || self.keepalive || self.padding > 0
    }

    /// Returns whether clients keep their queries, to send them again.
    pub(crate) fn keeps_queries(&self) -> bool {
        self.tcp_fallback || self.resends > 0 || self.retry.is_some()
    }

    /// Encodes the EDNS options of client `k` (counted over all workers), with the keepalive option if
    /// `keepalive`; at most 12 + 24 + 4 octets.
    pub(crate) fn options(&self, k: u32, seed: u64, keepalive: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let mut option = |code: u16, data: &[u8]| push_option(&mut out, code, data);
        if self.cookies {
            option(COOKIE, &Rng::part(seed, u64::from(k)).next_u64().to_be_bytes());
        }
        if let Some(subnets) = &self.subnets {
            let (family, mut address) = match subnets.nth(k) {
                IpAddr::V4(v4) => (1, v4.octets().to_vec()),
                IpAddr::V6(v6) => (2, v6.octets().to_vec()),
            };
            // The option has only the prefix; the bits after it are zero (RFC 7871 section 6).
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
    fn each_client_has_its_own_options() {
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
        assert_eq!(first[4..12], population.options(0, 1, true)[4..12], "and are stable");
        assert_eq!(first[12..], [0, 8, 0, 7, 0, 1, 21, 0, 198, 51, 104]);
        assert_eq!(other[12..], [0, 8, 0, 7, 0, 1, 21, 0, 198, 60, 200, 0, 11, 0, 0]);
        assert!(Population::default().options(0, 1, false).is_empty());
        assert_eq!(subnets.nth(513).to_string(), "198.51.112.0");
        let v6 = Networks { first: "2001:db8::".parse().expect("an address"), count: 9, bits: 56 };
        assert_eq!(v6.nth(2).to_string(), "2001:db8:0:200::");
    }
}
