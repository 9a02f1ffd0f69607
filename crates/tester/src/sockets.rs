//! Socket options of a request, and the addresses of its prefixes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use load::Networks;
use record::request::{Gso, Sockets};
use udp::UdpOptions;

/// Largest part of a prefix whose addresses are used, in bits.
const MOST_BITS: u32 = 16;

/// Returns the options of the sockets of a load.
pub fn udp_options(sockets: &Sockets) -> UdpOptions {
    let Sockets { gro, timestamps, buffer, .. } = *sockets;
    UdpOptions { gso: sockets.gso == Gso::On, gro, timestamps, buffer }
}

/// Returns the workers' cores; one `None` for one worker on any core.
pub(crate) fn workers(sockets: &Sockets) -> Vec<Option<usize>> {
    match &sockets.cpus[..] {
        [] => vec![None],
        cpus => cpus.iter().copied().map(Some).collect(),
    }
}

/// Returns up to `want` addresses starting with the prefix's own address.
pub(crate) fn addresses(prefix: IpNet, want: usize) -> Vec<IpAddr> {
    let host_bits = u32::from(prefix.max_prefix_len() - prefix.prefix_len()).min(MOST_BITS);
    let nth = |i: u32| match prefix.addr() {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from(u32::from(v4).wrapping_add(i))),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6).wrapping_add(i.into()))),
    };
    (0..1 << host_bits).take(want.max(1)).map(nth).collect()
}

/// Returns the networks of a prefix, /24 or /56.
pub(crate) fn networks(prefix: IpNet) -> Networks {
    let bits: u8 = if prefix.addr().is_ipv4() { 24 } else { 56 };
    let count = 1 << u32::from(bits.saturating_sub(prefix.prefix_len())).min(MOST_BITS);
    Networks { first: prefix.addr(), count, bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let all = |text: &str, want| addresses(text.parse().expect(text), want);
        assert_eq!(all("10.9.0.1/32", 5), ["10.9.0.1".parse::<IpAddr>().expect("an address")]);
        assert_eq!(all("10.9.0.0/24", 300).len(), 256);
        assert_eq!(all("10.0.0.0/8", usize::MAX).len(), 65_536);
        assert_eq!(all("fd00::/64", 3)[2], "fd00::2".parse::<IpAddr>().expect("an address"));
        let subnets = networks("198.51.100.0/22".parse().expect("a prefix"));
        assert_eq!((subnets.count, subnets.bits), (4, 24));
    }
}
