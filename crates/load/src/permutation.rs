//! A seeded permutation of `0..count`, computed instead of stored. Names are queried in an order that no
//! cache or prefetcher can predict, each of them once.

use measure::rng::splitmix64;

/// Parameters of a permutation, for a program in the kernel that computes the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderParameters {
    /// Mask that keeps values below a power of two.
    pub mask: u64,
    /// Bits by which each step shifts the value.
    pub shift: u32,
    /// Odd factors, one for each step.
    pub keys: [u64; 3],
}

/// A bijection of `0..count` onto itself.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Permutation {
    /// Makes the permutation of `0..count` for `seed`; `count` is at most 2^62.
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        let bits = (64 - count.max(2).saturating_sub(1).leading_zeros()).max(1);
        let mut x = seed;
        // Multiplication by an odd factor is invertible modulo a power of two, and so are xor and xor-shift:
        // each step is a bijection of the bits.
        let keys = std::array::from_fn(|_| splitmix64(&mut x) | 1);
        Permutation { count, mask: (1 << bits) - 1, shift: bits.div_ceil(2), keys }
    }

    /// Returns mask, shift and factors, for a program that computes the same values.
    pub(crate) fn parameters(&self) -> OrderParameters {
        OrderParameters { mask: self.mask, shift: self.shift, keys: self.keys }
    }

    /// Returns the value at `index`. A value outside of `0..count` is mapped again until one is inside
    /// ("cycle walking"). The mask is below twice the count, so that this takes at most two steps on average.
    #[inline]
    pub(crate) fn map(&self, index: u64) -> u64 {
        debug_assert!(index < self.count);
        let mut x = index;
        loop {
            for key in self.keys {
                x = x.wrapping_add(key >> 7).wrapping_mul(key) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.count {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_value_once() {
        for count in [1u64, 2, 3, 5, 256, 1_000, 65_536, 70_001] {
            for seed in [0, 1, 0xdead_beef] {
                let p = Permutation::new(count, seed);
                let mut seen = vec![false; count as usize];
                for i in 0..count {
                    assert!(
                        !std::mem::replace(&mut seen[p.map(i) as usize], true),
                        "{count} {seed} {i}"
                    );
                }
            }
        }
    }

    #[test]
    fn seeds_differ_and_order_looks_random() {
        let (a, b) = (Permutation::new(1 << 24, 1), Permutation::new(1 << 24, 2));
        assert!((0..100).filter(|i| a.map(*i) == b.map(*i)).count() < 3);
        let ascents = (0..10_000).filter(|i| a.map(*i) < a.map(i + 1)).count();
        assert!((4_500..5_500).contains(&ascents), "{ascents}");
    }
}
