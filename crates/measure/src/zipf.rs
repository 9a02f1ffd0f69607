//! Zipf's law: a few names get many of the queries, many names get few.

use std::ops::RangeInclusive;

use crate::Rng;

/// Zipf's distribution over `0..n`, without a table.
///
/// Uses rejection sampling with a curve above the probabilities: the first bar, then x^-s, whose integral has
/// an inverse. Less than two tries are needed on average for any n and s.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: f64,
    s: f64,
    /// Area under the curve, of which [`Zipf::inverse`] takes a share.
    area: f64,
}

/// Highest number of tries of one draw; the probability that all fail is below 2^-64.
const MAX_TRIES: u32 = 128;

impl Zipf {
    /// Exponents that make sense: 0 makes all ranks equal, at 10 nearly every draw is the first.
    pub const EXPONENTS: RangeInclusive<f64> = 0.0..=10.0;

    /// Makes the distribution of ranks `0..n` (at least one), where rank k has a probability proportional to
    /// 1 / (k + 1)^s.
    pub fn new(n: u64, s: f64) -> Self {
        let n = n as f64;
        let area = if is_one(s) { 1.0 + n.ln() } else { (n.powf(1.0 - s) - s) / (1.0 - s) };
        Zipf { n, s, area }
    }

    /// Returns the x below which the share `p` of the area lies.
    fn inverse(&self, p: f64) -> f64 {
        let area = p * self.area;
        if area <= 1.0 {
            area
        } else if is_one(self.s) {
            (area - 1.0).exp()
        } else {
            (area * (1.0 - self.s) + self.s).powf(1.0 / (1.0 - self.s))
        }
    }

    /// Draws a rank; 0 is the most frequent.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        for _ in 0..MAX_TRIES {
            let x = self.inverse(rng.unit());
            let rank = (x + 1.0).floor().min(self.n);
            // Share of the curve that the bar fills: rank^-s of x^-s, or all of it for the first bar.
            let share = if is_one(self.s) { x / rank } else { (x / rank).powf(self.s) };
            if rank <= 1.0 || rng.unit() < share {
                return rank as u64 - 1;
            }
        }
        0
    }
}

/// Returns whether an exponent is 1, for which the integral is a logarithm.
fn is_one(s: f64) -> bool {
    (s - 1.0).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_zipfs_law() {
        for s in [0.0, 0.5, 0.8, 1.0, 1.3, 2.0] {
            for n in [1u64, 2, 10, 1_000] {
                let (zipf, mut rng) = (Zipf::new(n, s), Rng::new(11));
                let mut counts = vec![0u32; n as usize];
                const DRAWS: u32 = 100_000;
                for _ in 0..DRAWS {
                    counts[zipf.draw(&mut rng) as usize] += 1;
                }
                let sum: f64 = (1..=n).map(|k| (k as f64).powf(-s)).sum();
                for k in [1, 2, 5, 10].into_iter().filter(|k| *k <= n) {
                    let expected = f64::from(DRAWS) * (k as f64).powf(-s) / sum;
                    let got = f64::from(counts[k as usize - 1]);
                    let sigma = expected.sqrt().max(1.0);
                    assert!(
                        (got - expected).abs() < 5.0 * sigma,
                        "s {s} n {n} k {k}: {got} {expected}"
                    );
                }
            }
        }
    }
}
