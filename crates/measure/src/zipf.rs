//! Zipf's law: few are asked for often, many seldom.

use crate::Rng;

/// Zipf's distribution over `0..n`, without a table.
///
/// Draws from a curve that lies above the probabilities (the first bar, then x^-s, whose integral is
/// inverted) and rejects what lies between: less than two tries on average for any n and s.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: f64,
    s: f64,
    /// The area under the curve.
    area: f64,
}

/// Tries of one draw at most; that all fail has a probability below 2^-64.
const MAX_TRIES: u32 = 128;

impl Zipf {
    /// Ranks `0..n` (at least one), the k-th drawn in proportion to 1 / (k + 1)^s.
    pub fn new(n: u64, s: f64) -> Self {
        let n = n as f64;
        let area = if is_one(s) { 1.0 + n.ln() } else { (n.powf(1.0 - s) - s) / (1.0 - s) };
        Zipf { n, s, area }
    }

    /// The x that a share `p` of the area lies below.
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

    /// A rank, 0 the most frequent.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        for _ in 0..MAX_TRIES {
            let x = self.inverse(rng.unit());
            let rank = (x + 1.0).floor().min(self.n);
            // rank^-s beside x^-s, or 1 beside 1 for the first bar.
            let share = if is_one(self.s) { x / rank } else { (x / rank).powf(self.s) };
            if rank <= 1.0 || rng.unit() < share {
                return rank as u64 - 1;
            }
        }
        0
    }
}

/// Whether an exponent is 1, whose integral is a logarithm.
fn is_one(s: f64) -> bool {
    (s - 1.0).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularities_follow_zipf() {
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
