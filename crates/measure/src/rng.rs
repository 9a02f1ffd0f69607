//! A small seeded generator (xoshiro256++ by Blackman and Vigna, seeded through splitmix64).
//!
//! Workloads, Poisson arrivals and faults draw from it, so that a seed reproduces a run to the bit
//! on every machine. Not for secrets: ids and ports that must not be guessed come from the kernel.

/// A seeded stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A stream for `seed`; equal seeds give equal streams.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        Rng { state: std::array::from_fn(|_| splitmix64(&mut x)) }
    }

    /// A stream for part `part` of `seed`, independent of the other parts (a worker's own stream).
    pub fn part(seed: u64, part: u64) -> Self {
        let mut x = seed ^ part.wrapping_mul(0xd134_2543_de82_ef95);
        Rng::new(splitmix64(&mut x))
    }

    /// The next 64 bits.
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

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `[0, bound)`; zero when `bound` is zero. (Lemire's multiply-shift; the bias is below 2^-32 for bounds below 2^32.)
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// One step of splitmix64: a bijective mix of the counter `x`.
pub fn splitmix64(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *x;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
