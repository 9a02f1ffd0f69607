//! Selection of the next trial for one goal: six strategies in a fixed order; the first one that proposes a load
//! wins.

use super::Bounds;
use super::grid::{Grid, Load, Width, middle};
use super::target::Target;

/// A trial that a selector proposes for its target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Nomination {
    pub(super) load: Load,
    /// The duration of the trial, in seconds.
    pub(super) trial_s: f64,
    /// Width of the step, in steps of the grid; it becomes the width of all goals if this nomination wins.
    pub(super) width: Width,
}

impl Nomination {
    /// Returns whether this nomination wins against the nomination of a later goal: the lower load
    /// wins, then the longer trial, then the larger width.
    pub(super) fn wins_against(&self, later: &Nomination) -> bool {
        if self.load != later.load {
            return self.load < later.load;
        }
        if self.trial_s != later.trial_s {
            return self.trial_s > later.trial_s;
        }
        self.width >= later.width
    }
}

/// Condition under which the step outwards grows after a nomination was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expand {
    Never,
    /// When the load became the lower bound.
    OnLower,
    /// When the load became the upper bound.
    OnUpper,
}

/// Selector of the trials for one goal.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    /// Index of the target in the goal's chain that is sought now.
    pub(super) step: usize,
    /// Bounds of the previous target, where this one begins.
    initial: Bounds,
    /// Width of the next step outwards.
    next_width: Width,
    /// Factor by which the step outwards grows.
    expansion: i64,
    /// Condition under which the step grows after the last nomination.
    expand: Expand,
}

impl Selector {
    /// Starts with the first target of a goal and two loads that were tried.
    pub(super) fn new(grid: &Grid, target: Target, low: Load, high: Load) -> Self {
        let mut selector = Selector {
            step: 0,
            initial: Bounds { lower: Some(low), upper: Some(high) },
            next_width: 0,
            expansion: target.expansion,
            expand: Expand::Never,
        };
        selector.begin(grid, &target);
        selector
    }

    /// Resets the widths for a target that is searched from now on.
    fn begin(&mut self, grid: &Grid, target: &Target) {
        let between = match (self.initial.lower, self.initial.upper) {
            (Some(low), Some(high)) => high - low,
            _ => 0,
        };
        self.next_width = grid.times(target.width.max(between), target.expansion);
        self.expand = Expand::Never;
    }

    /// Sets the next step outwards to follow a step of `width`.
    fn limit(&mut self, grid: &Grid, target: &Target, width: Width) {
        self.next_width = grid.times(width.max(target.width), target.expansion);
    }

    /// Returns the nomination of this goal; `None` if its last target is reached. `shared` is the width of the last
    /// step outwards of all goals.
    pub(super) fn nominate(
        &mut self,
        grid: &Grid,
        chain: &[Target],
        shared: Width,
        bounds: &dyn Fn(usize) -> Bounds,
    ) -> Option<Nomination> {
        loop {
            let target = chain[self.step];
            let known = bounds(self.step);
            if let Some((load, width)) = self.first_proposal(grid, &target, shared, known) {
                return Some(Nomination { load, trial_s: target.trial_s, width });
            }
            if self.step + 1 == chain.len() {
                return None;
            }
            self.step += 1;
            self.initial = known;
            self.begin(grid, &chain[self.step]);
        }
    }

    /// Returns the proposal of the first strategy that has one: load and width.
    fn first_proposal(
        &mut self,
        grid: &Grid,
        target: &Target,
        shared: Width,
        known: Bounds,
    ) -> Option<(Load, Width)> {
        let initial = self.initial;
        self.expand = Expand::Never;
        if let Some(load) = halve(target, initial, known) {
            self.limit(grid, target, target.width);
            return Some((load, target.width));
        }
        for load in [initial.lower, initial.upper].into_iter().flatten() {
            if !not_worth(target, known, load) {
                self.limit(grid, target, target.width);
                return Some((load, target.width));
            }
        }
        let width = self.next_width.max(shared);
        match known {
            Bounds { lower: None, upper: Some(high) } if high > 0 => {
                self.expand = Expand::OnUpper;
                let load = within(grid, grid.down(high, width), target.width, known)?;
                (!not_worth(target, known, load)).then_some((load, width))
            }
            Bounds { lower: Some(low), upper: None } if low < grid.top() => {
                self.expand = Expand::OnLower;
                let load = within(grid, grid.up(low, width), target.width, known)?;
                (!not_worth(target, known, load)).then_some((load, width))
            }
            Bounds { lower: Some(low), upper: Some(high) } => {
                self.bisect(grid, target, width, low, high)
            }
            _ => None,
        }
    }

    /// Proposes a load between two bounds: extends from one of them if the result stays on its side of the bisection,
    /// and bisects otherwise.
    fn bisect(
        &mut self,
        grid: &Grid,
        target: &Target,
        width: Width,
        low: Load,
        high: Load,
    ) -> Option<(Load, Width)> {
        if low >= grid.top() || high <= 0 || high - low <= target.width {
            return None;
        }
        let known = Bounds { lower: Some(low), upper: Some(high) };
        let halfway = middle(low, high, target.width);
        if let Some(initial) = self.initial.upper.filter(|initial| halfway < *initial)
            && let Some(load) = within(grid, grid.down(high, width), target.width, known)
            && load > halfway
            && load < initial
        {
            self.expand = Expand::OnUpper;
            return Some((load, width));
        }
        if let Some(initial) = self.initial.lower.filter(|initial| halfway > *initial)
            && let Some(load) = within(grid, grid.up(low, width), target.width, known)
            && load < halfway
            && load > initial
        {
            self.expand = Expand::OnLower;
            return Some((load, width));
        }
        let narrower = (halfway - low).min(high - halfway);
        self.limit(grid, target, narrower);
        Some((halfway, narrower))
    }

    /// Records that the nominated load was tried; returns the width of the next step outwards, if it grew.
    pub(super) fn won(&mut self, grid: &Grid, known: Bounds, load: Load) -> Option<Width> {
        let grows = match self.expand {
            Expand::Never => false,
            Expand::OnLower => known.lower == Some(load),
            Expand::OnUpper => known.upper == Some(load),
        };
        grows.then(|| {
            self.next_width = grid.times(self.next_width, self.expansion);
            self.next_width
        })
    }
}

/// Returns the middle of the initial bounds, if they are one to two goals apart.
fn halve(target: &Target, initial: Bounds, known: Bounds) -> Option<Load> {
    let (low, high) = (initial.lower?, initial.upper?);
    let width = high - low;
    if width > 2 * target.width || width <= target.width {
        return None;
    }
    let load = middle(low, high, target.width);
    (!not_worth(target, known, load)).then_some(load)
}

/// Returns whether a trial at `load` gives no new information about a target.
fn not_worth(target: &Target, known: Bounds, load: Load) -> bool {
    match (known.lower, known.upper) {
        (Some(low), _) if low >= load => true,
        (_, Some(high)) if high <= load => true,
        (Some(low), Some(high)) => high - low <= target.width,
        _ => false,
    }
}

/// Returns a load near `load` that is at least `width` from the known bounds, and from the ends of the grid unless it
/// is one of them; `None` if there is no room.
pub(super) fn within(grid: &Grid, load: Load, width: Width, known: Bounds) -> Option<Load> {
    if known.upper.is_some_and(|high| high <= 0 || load >= high)
        || known.lower.is_some_and(|low| load <= low)
    {
        return None;
    }
    let (low, high) = (known.lower.unwrap_or(0), known.upper.unwrap_or(grid.top()));
    if width >= high - low {
        return match (known.lower, known.upper) {
            (None, _) => Some(low),
            (_, None) => Some(high),
            _ => None,
        };
    }
    let (mut floor, mut ceiling) = (low + width, high - width);
    if floor > ceiling {
        floor = middle(low, high, width);
        ceiling = floor;
    }
    if load < floor {
        return Some(if known.lower.is_some() { floor } else { low });
    }
    if load > ceiling {
        return Some(if known.upper.is_some() { ceiling } else { high });
    }
    Some(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_load_then_the_longer_trial_then_the_larger_width_wins() {
        let nomination = |(load, trial_s, width)| Nomination { load, trial_s, width };
        for (own, later, wins) in [
            ((1, 1.0, 1), (2, 9.0, 9), true),
            ((2, 9.0, 9), (1, 1.0, 1), false),
            ((1, 2.0, 1), (1, 1.0, 9), true),
            ((1, 1.0, 9), (1, 2.0, 1), false),
            ((1, 1.0, 2), (1, 1.0, 1), true),
            ((1, 1.0, 1), (1, 1.0, 2), false),
            ((1, 1.0, 1), (1, 1.0, 1), true),
        ] {
            assert_eq!(nomination(own).wins_against(&nomination(later)), wins, "{own:?} {later:?}");
        }
    }
}
