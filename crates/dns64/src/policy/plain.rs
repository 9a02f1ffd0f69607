//! The part of the policy for a program in front of the server: the usual names, under one prefix.

use std::net::Ipv6Addr;

use ipnet::Ipv4Net;
use wire::Name;

use super::{Block, Embedding, Policy, UNREACHABLE, View};

/// Networks whose addresses are not global, as in [`super::is_global`].
const NOT_GLOBAL: [&str; 14] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "127.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",
];

/// How a block makes IPv6 addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainBlock {
    /// Number of the block in the configuration, from 0.
    pub block: u32,
    /// The address without the octets of the IPv4 address.
    pub base: Ipv6Addr,
    /// Index in the address of each octet of the IPv4 address.
    pub places: [u8; 4],
    /// Longest TTL of records under its prefix, in seconds.
    pub max_ttl: u32,
    /// Networks of IPv4 addresses, and whether the block maps those that are in no smaller network of the list.
    pub networks: Vec<(Ipv4Net, bool)>,
}

impl Policy {
    /// Returns the blocks with a prefix for all time.
    pub(crate) fn plain_blocks(&self) -> impl Iterator<Item = PlainBlock> {
        let plain = |(number, block): (usize, &Block)| block.plain(number as u32);
        self.blocks.iter().enumerate().filter_map(plain)
    }

    /// Returns the only block of a view, if it has a prefix for all time.
    pub(crate) fn plain_block(&self, view: View) -> Option<u32> {
        let number = view.0.trailing_zeros();
        let block = (view.0.count_ones() == 1).then(|| self.blocks.get(number as usize))??;
        block.plain(number).map(|plain| plain.block)
    }

    /// Returns the domains whose names are not resolved as usual.
    pub(crate) fn domains(&self) -> impl Iterator<Item = Name> {
        let zones = self.forwards.iter().skip(1).flat_map(|forward| &forward.zones);
        let domains = self.domains.iter().map(|(_, domain, _)| domain);
        domains.chain(zones).chain(&self.synthesis.ignore_nxdomain).map(|name| name.to_lowercase())
    }
}

impl Block {
    fn plain(&self, block: u32) -> Option<PlainBlock> {
        let embedding = self.embedding.filter(|_| self.lifetime.is_unlimited())?;
        let base = embedding.embed([0; 4].into());
        let all = NOT_GLOBAL.iter().map(|network| network.parse().expect("a constant network"));
        let not_global: Vec<Ipv4Net> = all.filter(|_| self.only_global).collect();
        let maps = |network: &Ipv4Net| {
            let within = |networks: &[Ipv4Net]| networks.iter().any(|n| n.contains(network));
            self.names(|n| n.contains(network)) && !within(&self.not_mapped) && !within(&not_global)
        };
        let rest = [Ipv4Net::default()];
        let lists = [&self.mapped[..], &self.not_mapped, &not_global, &UNREACHABLE, &rest];
        let lists = lists.into_iter().flatten();
        let mut networks: Vec<_> = lists.map(|n| (n.trunc(), maps(&n.trunc()))).collect();
        networks.sort_unstable();
        networks.dedup();
        let places = embedding.places();
        Some(PlainBlock { block, base, places, max_ttl: self.max_ttl, networks })
    }
}

impl Embedding {
    /// Returns the places of the octets of an IPv4 address.
    fn places(&self) -> [u8; 4] {
        let none = u128::from(self.embed([0; 4].into()));
        [0, 1, 2, 3].map(|octet: usize| {
            let mut address = [0; 4];
            address[octet] = 255;
            let changed = u128::from(self.embed(address.into())) ^ none;
            (changed.leading_zeros() / 8) as u8
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::Config;
    use crate::nat64::Nat64s;

    const FILE: &str = "[[dns64]]\nprefix = \"64:ff9b::/96\"\n\
        [[dns64]]\nprefix = \"2001:db8:100::/40\"\nsuffix = \"::1\"\nmapped = [\"10.0.0.0/8\", \"192.0.2.0/24\", \"10.1.2.0/24\"]\n\
        not-mapped = [\"10.1.0.0/16\"]\nmax-ttl = \"1h\"\n\
        [[dns64]]\nprefix = \"2001:db8:122:344::/64\"\nmapped = [\"any\", \"127.1.0.0/16\", \"224.0.0.0/4\"]";

    proptest! {
        #[test]
        fn plain_blocks_map_as_all_rules_do(block in 0u32..3, near in prop::sample::select(vec![
            0x0a00_0000u32, 0x0a01_0200, 0x0a80_0000, 0xc000_0200, 0xc058_6300, 0xe000_0000, 0x6440_0000, 0xac20_0000,
            0x7f00_0000, 0x7f01_0000, 0xa9fe_0000, 0xf000_0000,
        ]), by: u16, any: u32, is_near: bool) {
            let config = Config::parse(FILE).expect("it is right");
            let policy = Policy::new(&config, &Nat64s::of(&config));
            let address = Ipv4Addr::from(if is_near { near.wrapping_add(by.into()).wrapping_sub(300) } else { any });
            let plain = policy.plain_blocks().nth(block as usize).expect("a block");
            prop_assert_eq!(policy.plain_block(View(1 << block)), Some(block));
            prop_assert_eq!(policy.plain_block(View(3)), None);
            let within = plain.networks.iter().filter(|(network, _)| network.contains(&address));
            let (_, is_mapped) = within.max_by_key(|(n, _)| n.prefix_len()).expect("all have one");
            let mut octets = plain.base.octets();
            for (place, octet) in plain.places.into_iter().zip(address.octets()) {
                octets[usize::from(place)] = octet;
            }
            let mapped: Vec<Ipv6Addr> = policy.map(View(1 << block), address).collect();
            prop_assert_eq!(mapped, is_mapped.then(|| Ipv6Addr::from(octets)).into_iter().collect::<Vec<_>>());
        }
    }
}
