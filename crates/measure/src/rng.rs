//! A small seeded random number generator: xoshiro256++ by Blackman and Vigna, seeded through splitmix64.
//!
//! Workloads, Poisson arrivals and faults use its random numbers, so that a seed reproduces a run
//! exactly on every machine. It is not for secrets: ids and ports that must not be guessed come
//! from the kernel.

/// A seeded stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Makes the stream of `seed`; equal seeds give equal streams.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        Rng { state: std::array::from_fn(|_| splitmix64(&mut x)) }
    }

    /// Makes the stream of part `part` of `seed`, independent of the other parts, such as one stream for each
    /// worker.
    pub fn part(seed: u64, part: u64) -> Self {
        let mut x = seed ^ part.wrapping_mul(0xd134_2543_de82_ef95);
        Rng::new(splitmix64(&mut x))
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let out = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        out
    }

    /// Returns a number that is uniformly distributed in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an integer that is uniformly distributed in `[0, bound)`; zero when `bound` is zero. Uses
    /// Lemire's multiply-shift; its bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// Returns one step of splitmix64: a bijective mix of the counter `x`.
pub fn splitmix64(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *x;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_reference_implementations() {
        // Expected values come from the reference implementations in C, for seed 1234567 and state 1, 2, 3,
        // 4.
        let mut x = 1_234_567;
        let mixed: [u64; 3] = std::array::from_fn(|_| splitmix64(&mut x));
        assert_eq!(
            mixed,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let drawn: [u64; 4] = std::array::from_fn(|_| rng.next_u64());
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn equal_seeds_give_equal_streams_and_others_differ() {
        let first = |mut rng: Rng| -> [u64; 4] { std::array::from_fn(|_| rng.next_u64()) };
        assert_eq!(first(Rng::new(7)), first(Rng::new(7)));
        assert_ne!(first(Rng::new(7)), first(Rng::new(8)));
        assert_ne!(first(Rng::part(7, 0)), first(Rng::part(7, 1)));
        assert_ne!(first(Rng::new(7)), first(Rng::part(7, 0)));
    }

    #[test]
    fn numbers_are_uniform_within_their_bounds() {
        let mut rng = Rng::new(1);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[rng.below(7) as usize] += 1;
            assert!((0.0..1.0).contains(&rng.unit()));
        }
        // Five standard deviations of a count of 10,000.
        assert!(counts.iter().all(|n| n.abs_diff(10_000) < 465), "{counts:?}");
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
    }
}
