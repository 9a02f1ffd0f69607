//! Probabilities (Bayes) of the values of a threshold, from trials whose outcomes depend on chance.
//! A search that tries the median next is a probabilistic bisection (Horstein 1963; Waeber, Frazier
//! and Henderson 2013).

/// Step between two numbers of the grid, as a natural logarithm.
const GRID_STEP: f64 = 0.005;
/// Spread of the outcomes around the capacity, as a natural logarithm: a trial with e^0.05 times as many passes with odds of 1 to e. Like the
/// next two near what fits 952 trials of client-maximum best (0.04, 0.06 and 0.005).
const OUTCOME_SPREAD: f64 = 0.05;
/// Share of trials far below the capacity that fail because of a stall.
const FALSE_FAILURES: f64 = 0.05;
/// Share of trials far above the capacity that pass.
const FALSE_PASSES: f64 = 0.01;

/// Probabilities of the possible capacities.
#[derive(Clone, Debug)]
pub struct Posterior {
    /// Natural logarithm of the lowest number.
    lowest: f64,
    /// Logarithm of the probability of each number, up to a constant.
    logs: Vec<f64>,
}

impl Posterior {
    /// Assumes a capacity from `min` to `max` that is likely within a factor of e^`scale` of `start` (a Cauchy distribution of its
    /// logarithm: what is far away takes a few trials more, and is found as well).
    pub fn new(min: f64, max: f64, start: f64, scale: f64) -> Self {
        let (lowest, steps) = (min.ln(), ((max / min).ln() / GRID_STEP).ceil() as usize);
        let log = |step: usize| {
            let away = (lowest + step as f64 * GRID_STEP - start.ln()) / scale;
            -(1.0 + away * away).ln()
        };
        Posterior { lowest, logs: (0..=steps).map(log).collect() }
    }

    /// Adds the outcome of a trial with a number.
    pub fn add(&mut self, number: f64, passed: bool) {
        let at = number.ln();
        for (step, log) in self.logs.iter_mut().enumerate() {
            let capacity = self.lowest + step as f64 * GRID_STEP;
            let below = 1.0 / (1.0 + ((at - capacity) / OUTCOME_SPREAD).exp());
            let passes = FALSE_PASSES + (1.0 - FALSE_PASSES - FALSE_FAILURES) * below;
            *log += if passed { passes } else { 1.0 - passes }.ln();
        }
    }

    /// Returns the number below which the capacity lies with probability `share` (0 to 1).
    pub fn quantile(&self, share: f64) -> f64 {
        let most = self.logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights = || self.logs.iter().map(|log| (log - most).exp());
        let wanted = share * weights().sum::<f64>();
        let mut sum = 0.0;
        let below = weights().take_while(|weight| {
            sum += weight;
            sum < wanted
        });
        (self.lowest + below.count() as f64 * GRID_STEP).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_move_and_narrow_it() {
        let mut posterior = Posterior::new(100.0, 10_000.0, 1_000.0, 0.7);
        let width = |p: &Posterior| p.quantile(0.95) / p.quantile(0.05);
        assert!((posterior.quantile(0.5) / 1_000.0 - 1.0).abs() < 0.01);
        let before = width(&posterior);
        posterior.add(1_000.0, true);
        assert!(posterior.quantile(0.5) > 1_100.0 && width(&posterior) < before);
        for _ in 0..4 {
            posterior.add(2_000.0, true);
            posterior.add(2_400.0, false);
        }
        assert!((2_100.0..2_300.0).contains(&posterior.quantile(0.5)));
        assert!(width(&posterior) < 1.2, "{}", width(&posterior));
        // One failure far below says that something stood still.
        posterior.add(500.0, false);
        assert!((2_100.0..2_300.0).contains(&posterior.quantile(0.5)));
    }

    #[test]
    fn what_is_far_from_the_start_is_found_too() {
        let mut posterior = Posterior::new(100.0, 10_000.0, 1_000.0, 0.2);
        for _ in 0..12 {
            let next = posterior.quantile(0.5);
            posterior.add(next, next < 5_000.0);
        }
        assert!((4_700.0..5_300.0).contains(&posterior.quantile(0.5)));
    }
}
