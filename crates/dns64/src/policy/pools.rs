//! Pools: blocks of which one serves each client.
//!
//! The block is chosen by rendezvous hashing: of those that work, the one with the highest hash of the client's network and
//! the prefix. A NAT64 that fails thus moves only its own clients, and all servers with the same configuration choose alike.

use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher13;
use wire::Pref64;

use super::View;
use crate::config::{BlockConfig, LimitsConfig};
use crate::nat64::Nat64;

/// The pools of a configuration.
#[derive(Debug)]
pub(super) struct Pools {
    /// The blocks of each pool, as bits.
    pools: Vec<u32>,
    /// Blocks whose NAT64 works, as bits.
    working: u32,
    standby: u32,
    limits: LimitsConfig,
}

impl Pools {
    /// Makes the pools of these blocks.
    pub(super) fn new(blocks: &[(&BlockConfig, Option<&Nat64>)], limits: &LimitsConfig) -> Self {
        let bits = |condition: &dyn Fn(&BlockConfig, Option<&Nat64>) -> bool| {
            let chosen =
                blocks.iter().enumerate().filter(|(_, (block, nat))| condition(block, *nat));
            chosen.fold(0, |bits, (i, _)| bits | 1u32 << i)
        };
        let mut pools: Vec<u32> = blocks
            .iter()
            .filter(|(block, _)| !block.pool.is_empty())
            .map(|(block, _)| bits(&|other, _| other.pool == block.pool))
            .collect();
        pools.sort_unstable();
        pools.dedup();
        Pools {
            pools,
            working: bits(&|_, nat64| nat64.is_some_and(|nat64| nat64.works)),
            standby: bits(&|block, _| block.standby),
            limits: limits.clone(),
        }
    }

    /// Returns whether the NAT64 of a block works.
    pub(super) fn works(&self, block: usize) -> bool {
        self.working >> block & 1 == 1
    }

    /// Keeps one block of each pool in a client's view; `prefix` returns the prefix of a block. If
    /// no NAT64 of a pool works, the block is chosen as if all did.
    pub(super) fn choose(
        &self,
        view: View,
        client: IpAddr,
        prefix: impl Fn(usize) -> Option<Pref64>,
    ) -> View {
        let mut chosen = view.0;
        for pool in &self.pools {
            let all = view.0 & pool;
            let (regular, working) = (all & !self.standby, all & self.working);
            let best =
                [regular & working, working, regular, all].into_iter().find(|bits| *bits != 0);
            let Some(best) = best else { continue };
            let candidates = (0..u32::BITS as usize).filter(|block| best >> block & 1 == 1);
            let network = self.limits.network_of(client.to_canonical());
            let highest = candidates.max_by_key(|&block| hash(network, prefix(block)));
            chosen = chosen & !pool | highest.map_or(0, |block| 1 << block);
        }
        View(chosen)
    }
}

/// Returns a number that depends on nothing but its arguments, so that all servers have the same.
fn hash(network: IpAddr, prefix: Option<Pref64>) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    match network {
        IpAddr::V4(v4) => hasher.write(&v4.octets()),
        IpAddr::V6(v6) => hasher.write(&v6.octets()),
    }
    if let Some(prefix) = prefix {
        hasher.write(&prefix.first().octets());
        hasher.write_u8(prefix.prefix_len());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::nat64::Nat64s;
    use crate::policy::Policy;

    const FILE: &str = "[[dns64]]\nprefix = \"2001:db8:a::/96\"\npool = \"p\"\n\
                        [[dns64]]\nprefix = \"2001:db8:b::/96\"\npool = \"p\"\n\
                        [[dns64]]\nprefix = \"2001:db8:c::/96\"\npool = \"p\"\nstandby = true\n\
                        [[dns64]]\nprefix = \"2001:db8:d::/96\"";

    /// Returns the views of 1,000 client networks while these blocks do not work.
    fn views(failed: &[usize]) -> Vec<u32> {
        let config = Config::parse(FILE).expect("it is right");
        let mut nat64s = Nat64s::of(&config);
        failed.iter().for_each(|&block| nat64s.blocks[block].1[0].works = false);
        let policy = Policy::new(&config, &nat64s);
        let client = |n: u16| format!("2001:db8:1:{n:x}::1").parse().expect("an address");
        (0..1_000).map(|n| policy.view(client(n)).0).collect()
    }

    #[test]
    fn networks_are_shared_and_only_those_of_a_failed_nat64_move() {
        let all = views(&[]);
        let first = all.iter().filter(|view| **view == 0b1001).count();
        assert!(all.iter().all(|view| matches!(view, 0b1001 | 0b1010)));
        // 500 are expected, with a standard deviation of 16.
        assert!((400..600).contains(&first), "{first}");
        let config = Config::parse(FILE).expect("it is right");
        let policy = Policy::new(&config, &Nat64s::of(&config));
        let view = |client: &str| policy.view(client.parse().expect("an address"));
        assert_eq!(view("2001:db8::1"), view("2001:db8::2"), "one network");
        assert_eq!(view("192.0.2.1"), view("::ffff:192.0.2.1"));
        assert!(views(&[0]).iter().all(|view| *view == 0b1010));
        assert!(views(&[0, 1]).iter().all(|view| *view == 0b1100), "the standby serves");
        assert_eq!(views(&[2]), all);
        assert_eq!(views(&[0, 1, 2]), all, "as if all worked");
    }
}
