//! What one goal wants to be tried next: six strategies, the first of which that has a wish is heard.

use super::Bounds;
use super::grid::{Grid, Load, Width, middle};
use super::target::Target;

/// A wish for a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Nomination {
    pub(super) load: Load,
    /// The duration of the trial, in seconds.
    pub(super) trial_s: f64,
    /// The width of the step, which becomes that of all goals if this wish is granted.
    pub(super) width: Width,
}

impl Nomination {
    /// Whether this wish is granted, and not that of a later goal: the lower load, then the longer trial, then the
    /// larger width.
    pub(super) fn stands_against(&self, later: &Nomination) -> bool {
        if self.load != later.load {
            return self.load < later.load;
        }
        if self.trial_s != later.trial_s {
            return self.trial_s > later.trial_s;
        }
        self.width >= later.width
    }
}

/// In which case the step outwards grows after a nomination was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expand {
    Never,
    /// When the load became the lower bound.
    OnLower,
    /// When the load became the upper bound.
    OnUpper,
}

/// The choices for one goal.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    /// Which target of the goal's chain is sought now.
    pub(super) step: usize,
    /// The bounds of the target before, where this one begins.
    initial: Bounds,
    /// The width of the next step outwards.
    next_width: Width,
    /// The factor by which it grows.
    expansion: i64,
    /// When it grows after the last nomination.
    expand: Expand,
}

impl Selector {
    /// Begins with the first target of a goal and two loads that were tried.
    pub(super) fn new(grid: &Grid, target: Target, (low, high): (Load, Load)) -> Self {
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

    /// Begins with a target.
    fn begin(&mut self, grid: &Grid, target: &Target) {
        let between = match (self.initial.lower, self.initial.upper) {
            (Some(low), Some(high)) => high - low,
            _ => 0,
        };
        self.next_width = grid.times(target.width.max(between), target.expansion);
        self.expand = Expand::Never;
    }

    /// Makes the next step outwards follow one of `width`.
    fn limit(&mut self, grid: &Grid, target: &Target, width: Width) {
        self.next_width = grid.times(width.max(target.width), target.expansion);
    }

    /// The wish of this goal; `None` when its last target is reached. `shared` is the width of the last step outwards of
    /// all goals.
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
            if let Some((load, width)) = self.wish(grid, &target, shared, known) {
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

    /// The wish of the first strategy that has one: load and width.
    fn wish(
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
                self.bisect(grid, target, width, (low, high))
            }
            _ => None,
        }
    }

    /// Between two bounds: extends from one of them where that stays on its side of the bisection, else bisects.
    fn bisect(
        &mut self,
        grid: &Grid,
        target: &Target,
        width: Width,
        (low, high): (Load, Load),
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

    /// Takes note that the nominated load was tried; the width of the next step outwards, if it grew.
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

/// The middle of the initial bounds, where they are one to two goals apart.
fn halve(target: &Target, initial: Bounds, known: Bounds) -> Option<Load> {
    let (low, high) = (initial.lower?, initial.upper?);
    let width = high - low;
    if width > 2 * target.width || width <= target.width {
        return None;
    }
    let load = middle(low, high, target.width);
    (!not_worth(target, known, load)).then_some(load)
}

/// Whether a trial at `load` can tell nothing new about a target.
fn not_worth(target: &Target, known: Bounds, load: Load) -> bool {
    match (known.lower, known.upper) {
        (Some(low), _) if low >= load => true,
        (_, Some(high)) if high <= load => true,
        (Some(low), Some(high)) => high - low <= target.width,
        _ => false,
    }
}

/// A load near `load` that is at least `width` from what is known already, and from the ends of the grid unless it is one
/// of them; `None` where there is no room.
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
