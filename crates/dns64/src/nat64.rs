//! The NAT64s that clients reach: their prefixes, how long these may be used, and whether they work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use measure::Nanos;
use wire::Pref64;

use crate::config::{BlockConfig, Config};

/// Time until which a prefix may be used; all copies are one, and change together.
#[derive(Clone, Debug)]
pub struct Lifetime(Arc<AtomicU64>);

impl Lifetime {
    /// Makes a prefix that ends at `end`.
    pub(crate) fn until(end: Nanos) -> Self {
        Lifetime(Arc::new(AtomicU64::new(end.0)))
    }

    /// Makes a prefix without an end.
    pub(crate) fn unlimited() -> Self {
        Lifetime::until(Nanos(u64::MAX))
    }

    /// Returns whether the lifetime has no end.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.0.load(Ordering::Relaxed) == u64::MAX
    }

    /// Returns the seconds that remain at `now`.
    pub(crate) fn seconds_left(&self, now: Nanos) -> u32 {
        let left = self.0.load(Ordering::Relaxed).saturating_sub(now.0) / 1_000_000_000;
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// Changes the end of the lifetime, for all copies.
    pub(crate) fn set(&self, end: Nanos) {
        self.0.store(end.0, Ordering::Relaxed);
    }
}

/// A NAT64 behind a prefix.
#[derive(Clone, Debug)]
pub struct Nat64 {
    /// The prefix that the NAT64 translates.
    pub prefix: Pref64,
    /// Time until which the prefix may be used.
    pub lifetime: Lifetime,
    /// Whether the NAT64 works, as far as is known.
    pub works: bool,
}

/// The NAT64s of each block.
#[derive(Clone, Debug)]
pub struct Nat64s {
    pub(crate) blocks: Vec<(BlockConfig, Vec<Nat64>)>,
}

impl Nat64s {
    /// Returns the NAT64s of a configuration before any prefix is learned.
    pub fn of(config: &Config) -> Self {
        let known = |block: &BlockConfig| block.prefix.map(Nat64::of).into_iter().collect();
        Nat64s { blocks: config.blocks().into_iter().map(|b| (b.clone(), known(&b))).collect() }
    }

    /// Returns whether the NAT64s belong to the blocks of this configuration.
    pub fn match_config(&self, config: &Config) -> bool {
        self.blocks.iter().map(|(block, _)| block).eq(&config.blocks())
    }

    /// Returns the NAT64s of all blocks, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Nat64> {
        self.blocks.iter().flat_map(|(_, known)| known)
    }
}

impl Nat64 {
    /// Makes the NAT64 of a configured prefix.
    pub(crate) fn of(prefix: Pref64) -> Self {
        Nat64 { prefix, lifetime: Lifetime::unlimited(), works: true }
    }
}
