//! Prefixes that are learned, and NAT64s that fail.
//!
//! ```text
//!   ipv4only.arpa ──> discovery ─────┐
//!   router ─────────> advertisement ─┼──> Follower ──> Nat64s ──> policy of all workers
//!   probes of the NAT64s ────────────┘   (one thread)
//! ```
//!
//! The [`Follower`] is a state machine without sockets or clock. Its state changes rarely; then all
//! workers get a new [`Nat64s`]. A lifetime that is only extended is one store to its
//! [`Lifetime`](crate::nat64::Lifetime), which the workers read.

pub mod advertisement;
pub mod discovery;

use std::net::{Ipv6Addr, SocketAddrV6};

use measure::Nanos;
use wire::Pref64;

use crate::config::{BlockConfig, Config, Follow, Probe, fits};
use crate::nat64::{Nat64, Nat64s};
use advertisement::AdvertisedPrefix;
use discovery::Discovery;

/// Highest number of prefixes of one block.
const MAX_PREFIXES: usize = 4;
/// Highest number of learned prefixes of a block that are remembered, each with its router.
const MAX_LEARNED: usize = 32;
/// Number of probes in a row without an answer after which a NAT64 has failed, and with one after which it works again.
const FAILED_AFTER: u8 = 3;
const WORKS_AFTER: u8 = 2;
/// Shortest and longest interval of queries for prefixes.
const MIN_QUERY_INTERVAL: Nanos = Nanos::from_secs(1);
const MAX_QUERY_INTERVAL: Nanos = Nanos::from_secs(600);
/// Longest interval after failures, and the time for which a prefix stays valid after each failure.
const RETRY: Nanos = Nanos::from_secs(30);
const KEPT_FOR: Nanos = Nanos::from_secs(60);

/// A probe that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueProbe {
    /// Number of the block, and its prefix.
    pub block: usize,
    /// The prefix of the block that is probed.
    pub prefix: Pref64,
    /// The probe that is sent through the NAT64 and must be answered.
    pub probe: Probe,
    /// The address through the NAT64.
    pub to: Ipv6Addr,
    /// Time after which a probe without an answer has failed.
    pub timeout: Nanos,
}

/// State of all prefixes, and the next queries and probes.
#[derive(Debug)]
pub struct Follower {
    blocks: Vec<FollowedBlock>,
    /// Time of the next query for prefixes, and the number of failures in a row.
    discovery_at: Nanos,
    failures: u32,
}

/// A block with its learned prefixes and probes.
#[derive(Debug)]
struct FollowedBlock {
    config: BlockConfig,
    learned: Vec<LearnedPrefix>,
    known: Vec<Nat64>,
    probes: Vec<ProbedPrefix>,
    probe_at: Nanos,
}

/// A prefix learned from upstream or a router, with the time until which it is valid.
#[derive(Clone, Copy, Debug)]
struct LearnedPrefix {
    prefix: Pref64,
    /// The router that advertised the prefix.
    router: Option<SocketAddrV6>,
    until: Nanos,
}

/// Results of the probes of a prefix.
#[derive(Clone, Copy, Debug)]
struct ProbedPrefix {
    prefix: Pref64,
    works: bool,
    /// Number of consecutive results that contradict the current state.
    against: u8,
}

impl Follower {
    /// Makes the follower of a configuration at time `now`.
    pub fn new(config: &Config, now: Nanos) -> Self {
        let block = |config: BlockConfig| {
            let mut block = FollowedBlock {
                known: Vec::new(),
                learned: Vec::new(),
                probes: Vec::new(),
                probe_at: now,
                config,
            };
            block.renew(now);
            block
        };
        let blocks = config.blocks().into_iter().map(block).collect();
        Follower { blocks, discovery_at: now, failures: 0 }
    }

    /// Returns the blocks with the prefixes that are known for each now.
    pub fn nat64s(&self) -> Nat64s {
        let block = |block: &FollowedBlock| (block.config.clone(), block.known.clone());
        Nat64s { blocks: self.blocks.iter().map(block).collect() }
    }

    /// Returns the time of the next query for prefixes; `None` if no block needs one.
    pub fn discovery_at(&self) -> Option<Nanos> {
        let follows = |block: &FollowedBlock| block.config.follow == Follow::Upstream;
        self.blocks.iter().any(follows).then_some(self.discovery_at)
    }

    /// Notes that a query for prefixes was sent, so that none is due before its reply.
    pub fn discovering(&mut self) {
        self.discovery_at = Nanos(u64::MAX);
    }

    /// Notes the reply to a query for prefixes; returns whether the prefixes changed. Prefixes are kept until there is
    /// a valid reply without them.
    pub fn discovered(&mut self, discovery: &Discovery, now: Nanos) -> bool {
        let failed = *discovery == Discovery::Failed;
        self.failures = if failed { self.failures.saturating_add(1) } else { 0 };
        let wait = match discovery {
            Discovery::Prefixes(_, ttl) => Nanos(ttl.0 / 2),
            Discovery::Nothing => KEPT_FOR,
            Discovery::Failed => Nanos(RETRY.0.min(MIN_QUERY_INTERVAL.0 << self.failures.min(6))),
        };
        self.discovery_at = now + wait.max(MIN_QUERY_INTERVAL).min(MAX_QUERY_INTERVAL);
        let mut changed = false;
        let follow = |block: &&mut FollowedBlock| block.config.follow == Follow::Upstream;
        for block in self.blocks.iter_mut().filter(follow) {
            match discovery {
                Discovery::Prefixes(prefixes, ttl) => {
                    let until = now + (*ttl).max(MIN_QUERY_INTERVAL + MIN_QUERY_INTERVAL);
                    let learned = |&prefix: &Pref64| LearnedPrefix { prefix, router: None, until };
                    block.learned = prefixes.iter().take(MAX_LEARNED).map(learned).collect();
                }
                Discovery::Nothing => block.learned.clear(),
                Discovery::Failed => {
                    block.learned.iter_mut().for_each(|l| l.until = l.until.max(now + KEPT_FOR));
                }
            }
            changed |= block.renew(now);
        }
        changed
    }

    /// Notes an advertisement of a router at an interface; returns whether the prefixes changed.
    pub fn advertised(
        &mut self,
        router: SocketAddrV6,
        interface: &str,
        prefixes: &[AdvertisedPrefix],
        now: Nanos,
    ) -> bool {
        let mut changed = false;
        let wanted = |block: &&mut FollowedBlock| {
            let BlockConfig { follow, interface: only, .. } = &block.config;
            *follow == Follow::Router && (only.is_empty() || only == interface)
        };
        for block in self.blocks.iter_mut().filter(wanted) {
            for &AdvertisedPrefix { prefix, lifetime } in prefixes {
                let same = |l: &LearnedPrefix| l.prefix == prefix && l.router == Some(router);
                let place = block.learned.iter().position(same);
                let learned = LearnedPrefix { prefix, router: Some(router), until: now + lifetime };
                match place {
                    Some(place) if lifetime == Nanos::ZERO => drop(block.learned.remove(place)),
                    Some(place) => block.learned[place] = learned,
                    None if lifetime > Nanos::ZERO && block.learned.len() < MAX_LEARNED => {
                        block.learned.push(learned);
                    }
                    None => {}
                }
            }
            changed |= block.renew(now);
        }
        changed
    }

    /// Returns whether a block follows routers and knows no prefix of one.
    pub fn lacks_routers(&self) -> bool {
        let lacks = |b: &FollowedBlock| b.config.follow == Follow::Router && b.learned.is_empty();
        self.blocks.iter().any(lacks)
    }

    /// Removes prefixes whose lifetime is over; returns whether the prefixes changed.
    pub fn expire(&mut self, now: Nanos) -> bool {
        self.blocks.iter_mut().fold(false, |changed, block| block.renew(now) | changed)
    }

    /// Returns the probes that are due, and when the next ones are.
    pub fn due_probes(&mut self, now: Nanos) -> Vec<DueProbe> {
        let mut due = Vec::new();
        for (number, block) in self.blocks.iter_mut().enumerate() {
            let BlockConfig { probe, probe_every, suffix, .. } = block.config;
            let Some(probe) = probe.filter(|_| block.probe_at <= now) else { continue };
            block.probe_at = now + probe_every;
            due.extend(block.known.iter().map(|nat64| {
                let inner = u128::from(nat64.prefix.embed(probe.address()));
                let to = Ipv6Addr::from(inner | u128::from(suffix));
                let timeout = probe_every.min(Nanos::from_secs(2));
                DueProbe { block: number, prefix: nat64.prefix, probe, to, timeout }
            }));
        }
        due
    }

    /// Notes the result of a probe; returns whether the NAT64 has failed or works again.
    pub fn probed(&mut self, probe: &DueProbe, answered: bool, now: Nanos) -> bool {
        let Some(block) = self.blocks.get_mut(probe.block) else { return false };
        let same = |probed: &&mut ProbedPrefix| probed.prefix == probe.prefix;
        // A prefix that was withdrawn since the probe has no state left.
        let Some(probed) = block.probes.iter_mut().find(same) else { return false };
        probed.against = if probed.works == answered { 0 } else { probed.against + 1 };
        if probed.against >= if answered { WORKS_AFTER } else { FAILED_AFTER } {
            (probed.works, probed.against) = (answered, 0);
        }
        block.renew(now)
    }

    /// Returns the time at which something is due.
    pub fn next(&self) -> Nanos {
        let probes = self.blocks.iter().filter(|block| block.config.probe.is_some());
        let probes = probes.map(|block| block.probe_at);
        let ends = self.blocks.iter().flat_map(|block| block.learned.iter().map(|l| l.until));
        probes.chain(ends).chain(self.discovery_at()).min().unwrap_or(Nanos(u64::MAX))
    }
}

impl FollowedBlock {
    /// Updates the known prefixes from the learned ones; returns whether more than lifetimes
    /// changed.
    fn renew(&mut self, now: Nanos) -> bool {
        self.learned
            .retain(|learned| learned.until > now && fits(self.config.suffix, learned.prefix));
        let before: Vec<(Pref64, bool)> = self.known.iter().map(|n| (n.prefix, n.works)).collect();
        let is_learned = |prefix| self.learned.iter().any(|learned| learned.prefix == prefix);
        let fallback = self.config.prefix.filter(|_| self.learned.is_empty());
        self.known.retain(|nat64| is_learned(nat64.prefix) || fallback == Some(nat64.prefix));
        let prefixes = self.learned.iter().map(|learned| learned.prefix).chain(fallback);
        for prefix in prefixes {
            let is_new = self.known.iter().all(|nat64| nat64.prefix != prefix);
            if is_new && self.known.len() < MAX_PREFIXES {
                self.known.push(Nat64::of(prefix));
            }
        }
        self.probes.retain(|probed| self.known.iter().any(|nat64| nat64.prefix == probed.prefix));
        for nat64 in &mut self.known {
            let learned = self.learned.iter().filter(|learned| learned.prefix == nat64.prefix);
            let until = learned.map(|learned| learned.until).max();
            nat64.lifetime.set(until.unwrap_or(Nanos(u64::MAX)));
            let probed = self.probes.iter().find(|probed| probed.prefix == nat64.prefix);
            nat64.works = probed.is_none_or(|probed| probed.works);
            if probed.is_none() {
                self.probes.push(ProbedPrefix { prefix: nat64.prefix, works: true, against: 0 });
            }
        }
        self.known.iter().map(|n| (n.prefix, n.works)).ne(before)
    }
}

#[cfg(test)]
mod tests;
