//! Which network of clients has most connections, level by level, so that all networks get equal shares: within an IPv6 /32 its /48,
//! within such a /48 its /56, and so on; IPv4 networks by /16 and /24. A client with a /48 thus has one share, and not 65,536.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;

/// Levels above the networks of clients.
const NETWORK_LEVELS: usize = 3;
/// Prefix lengths of the levels, for IPv4 and IPv6.
const V4_BITS: [u8; NETWORK_LEVELS] = [16, 24, 32];
const V6_BITS: [u8; NETWORK_LEVELS] = [32, 48, 56];

/// Networks by the number of their connections.
type ByCount = BTreeSet<(usize, IpAddr)>;

/// The connections of all networks.
#[derive(Default)]
pub(super) struct Shares {
    /// The largest networks, and the smaller ones by their level.
    top: ByCount,
    networks: HashMap<(usize, IpAddr), NetworkShare>,
}

#[derive(Default)]
struct NetworkShare {
    count: usize,
    /// Networks of the next level.
    parts: ByCount,
}

impl Shares {
    /// Notes another connection of a client's network.
    pub(super) fn add(&mut self, network: IpAddr) {
        self.change(network, |count| count + 1);
    }

    /// Notes the end of a connection.
    pub(super) fn remove(&mut self, network: IpAddr) {
        self.change(network, |count| count - 1);
    }

    fn change(&mut self, network: IpAddr, change: impl Fn(usize) -> usize) {
        let path = path(network);
        for (level, &at) in path.iter().enumerate() {
            let own = self.networks.entry((level, at)).or_default();
            let (before, after) = (own.count, change(own.count));
            own.count = after;
            if after == 0 {
                self.networks.remove(&(level, at));
            }
            let above = level.checked_sub(1).map(|level| (level, path[level]));
            let parts = match above.map(|above| self.networks.get_mut(&above)) {
                Some(Some(above)) => &mut above.parts,
                // The entry was removed when its count reached zero.
                Some(None) => continue,
                None => &mut self.top,
            };
            parts.remove(&(before, at));
            if after > 0 {
                parts.insert((after, at));
            }
        }
    }

    /// Returns the network of clients that gives way to a connection of `network`: on the first level on which another network has
    /// at least two more than its own, the one with most, and in it the one with most on each level below.
    pub(super) fn heaviest(&self, network: IpAddr) -> Option<IpAddr> {
        let path = path(network);
        let (mut parts, mut heavy) = (&self.top, None);
        for (level, own) in path.iter().enumerate() {
            let &(most, other) = parts.last()?;
            let count = self.networks.get(&(level, *own)).map_or(0, |own| own.count);
            let next = match heavy {
                None if most < count + 2 => *own,
                _ => {
                    // The search stays within the client's own network unless another one has more.
                    heavy = (heavy.is_some() || other != *own).then_some(other);
                    other
                }
            };
            parts = &self.networks.get(&(level, next))?.parts;
        }
        heavy
    }
}

/// Returns the networks of all levels to which a client's network belongs, and itself.
fn path(network: IpAddr) -> [IpAddr; NETWORK_LEVELS + 1] {
    let bits = if network.is_ipv4() { V4_BITS } else { V6_BITS };
    let within = |bits| IpNet::new(network, bits).map_or(network, |network| network.network());
    let [a, b, c] = bits.map(within);
    [a, b, c, network]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn heaviest(shares: &Shares, to: &str) -> Option<IpAddr> {
        shares.heaviest(ip(to))
    }

    #[test]
    fn the_network_with_most_gives_way_on_the_first_level_that_differs() {
        let mut shares = Shares::default();
        assert_eq!(heaviest(&shares, "192.0.2.1"), None);
        // A /48 with a connection from each of 300 of its /64.
        for n in 0..300 {
            shares.add(ip(&format!("2001:db8:1:{n:x}::")));
        }
        let of_flood = |to: &str| heaviest(&shares, to).map(|at| at.to_string());
        for to in ["2001:db9::", "192.0.2.1", "2001:db8:2::"] {
            assert!(of_flood(to).is_some_and(|at| at.starts_with("2001:db8:1:")), "{to}");
        }
        // To one more of its own kind only one of the /56 with most.
        assert!(of_flood("2001:db8:1:ffff::").is_some());
        assert_eq!(of_flood("2001:db8:1:1::"), None, "its /56 has as many as others");
        for _ in 0..3 {
            shares.add(ip("192.0.2.7"));
        }
        assert!(heaviest(&shares, "198.51.100.1").is_some_and(|at| at.is_ipv6()));
        for n in 0..300 {
            shares.remove(ip(&format!("2001:db8:1:{n:x}::")));
        }
        for to in ["2001:db9::", "192.0.2.8"] {
            assert_eq!(heaviest(&shares, to), Some(ip("192.0.2.7")), "{to}");
        }
        (0..3).for_each(|_| shares.remove(ip("192.0.2.7")));
        assert!(shares.top.is_empty() && shares.networks.is_empty());
    }
}
