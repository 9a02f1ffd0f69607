//! The loads that a search may try: a logarithmic grid between the lowest and the highest rate.
//!
//! Each relative width of a goal is a whole number of steps (rounded down, by 1 % at most), so that all loads and widths
//! are integers inside the search and intervals are split without rounding errors.

/// A load, in steps of the grid from its lowest rate.
pub(super) type Load = i64;
/// A distance of loads, in steps of the grid.
pub(super) type Width = i64;

/// Least and largest ratio of a goal's width in whole steps to its exact width.
const WIDTH_QUALITY: (f64, f64) = (0.99, 0.999_999);

/// A grid of loads, evenly spaced by their logarithm.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    min: f64,
    max: f64,
    steps: Load,
}

impl Grid {
    /// Makes the coarsest grid from `min` to `max` (queries a second) on which every relative width of `widths` is
    /// nearly a whole number of steps.
    pub(super) fn new(min: f64, max: f64, widths: &[f64]) -> Self {
        let span = max.ln() - min.ln();
        let mut steps: Load = 1;
        loop {
            let unit = span / steps as f64;
            let mut wanted = steps + 1;
            let mut fits = true;
            for width in widths {
                let exact = -(-width).ln_1p() / unit;
                let whole = exact.floor();
                if !(WIDTH_QUALITY.0..=WIDTH_QUALITY.1).contains(&(whole / exact)) {
                    fits = false;
                    let next = (whole + 1.0) / WIDTH_QUALITY.1 / exact * steps as f64;
                    wanted = wanted.max(next.ceil() as Load);
                }
            }
            if fits {
                return Grid { min, max, steps };
            }
            steps = wanted;
        }
    }

    /// Returns the load of the highest rate.
    pub(super) fn top(&self) -> Load {
        self.steps
    }

    /// Returns the rate of a load, in queries a second; a load beyond the grid has the rate of its end.
    pub(super) fn rate(&self, load: Load) -> f64 {
        if load <= 0 {
            return self.min;
        }
        if load >= self.steps {
            return self.max;
        }
        let share = load as f64 / self.steps as f64;
        self.min * ((self.max.ln() - self.min.ln()) * share).exp()
    }

    /// Returns the highest load whose rate is at most `rate`.
    pub(super) fn at_most(&self, rate: f64) -> Load {
        if rate <= self.min {
            return 0;
        }
        if rate >= self.max {
            return self.steps;
        }
        let share = (rate.ln() - self.min.ln()) / (self.max.ln() - self.min.ln());
        let mut load = (share * self.steps as f64).floor() as Load;
        // The logarithm rounds, but a rate of the grid must map to its own load.
        while self.rate(load + 1) <= rate {
            load += 1;
        }
        while self.rate(load) > rate {
            load -= 1;
        }
        load
    }

    /// Returns a relative width (0 to 1) in steps, rounded down.
    pub(super) fn width(&self, relative: f64) -> Width {
        self.at_most(self.min / (1.0 - relative))
    }

    /// Returns the load `width` above, within the grid.
    pub(super) fn up(&self, load: Load, width: Width) -> Load {
        (load + width).min(self.steps)
    }

    /// Returns the load `width` below, within the grid.
    pub(super) fn down(&self, load: Load, width: Width) -> Load {
        (load - width).max(0)
    }

    /// Returns `factor` times a width, within the grid.
    pub(super) fn times(&self, width: Width, factor: i64) -> Width {
        width.saturating_mul(factor).min(self.steps)
    }
}

/// Returns a load between `low` and `high` that splits the interval so that halving both parts down to `goal` takes
/// the fewest steps: parts are `goal` times powers of two if possible.
///
/// # Panics
/// If the interval is not wider than `goal`.
pub(super) fn middle(low: Load, high: Load, goal: Width) -> Load {
    let width = high - low;
    assert!(width > goal && goal > 0, "an interval of {width} is narrow enough for {goal}");
    if width < 2 * goal {
        // An interval narrower than two goals is split with half of the goal as the goal if that is
        // a whole number, otherwise in the middle.
        return if goal % 2 == 0 { middle(low, high, goal / 2) } else { low + width / 2 };
    }
    if width == 2 * goal {
        return low + goal;
    }
    let (mut upper, mut lower) = (goal, width - goal);
    let (mut next_upper, mut next_lower);
    loop {
        (next_upper, next_lower) = (upper * 2, width - upper * 2);
        if next_lower <= next_upper {
            break;
        }
        (upper, lower) = (next_upper, next_lower);
    }
    // Choose the more even of the two splits.
    if upper * lower > next_upper * next_lower { low + upper } else { low + next_lower }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_back_as_their_loads() {
        let grid = Grid::new(1_000.0, 1e6, &[0.005, 0.05]);
        for load in 0..=grid.top() {
            assert_eq!(grid.at_most(grid.rate(load)), load);
        }
        assert_eq!((grid.at_most(1.0), grid.at_most(1e9)), (0, grid.top()));
        let goal = grid.width(0.05);
        let width = 1.0 - grid.rate(0) / grid.rate(goal);
        assert!((0.049..=0.05).contains(&width), "{width}");
    }

    #[test]
    fn intervals_split_into_powers_of_the_goal() {
        let table =
            [(0, 20, 10, 10), (0, 30, 10, 10), (0, 40, 10, 20), (0, 15, 10, 5), (0, 11, 7, 5)];
        for (low, high, goal, expected) in table {
            assert_eq!(middle(low, high, goal), expected, "{low}..{high} by {goal}");
        }
    }
}
