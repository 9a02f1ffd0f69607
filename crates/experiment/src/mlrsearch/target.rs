//! Goals, the chain of targets that leads to each goal, and the evidence of trials for a target.

use super::grid::{Grid, Width};

/// Goal of a search: the highest load whose loss ratio is acceptable in most of its trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MlrGoal {
    /// The share (0 to 1) of queries that may be lost in a trial.
    pub loss_ratio: f64,
    /// The share (0 to 1) of the duration sum whose trials may lose more.
    pub exceed_ratio: f64,
    /// The width of the final interval, as a share (0 to 1) of its upper end.
    pub width: f64,
    /// The duration of the first trials, in seconds.
    pub initial_trial_s: f64,
    /// The duration of the trials that decide, in seconds.
    pub final_trial_s: f64,
    /// The sum of the durations of trials that classify a load, in seconds.
    pub duration_sum_s: f64,
    /// The number of easier targets that come before the final one.
    pub preceding_targets: u32,
    /// The factor by which steps of an external search grow.
    pub expansion: i64,
}

impl Default for MlrGoal {
    /// Returns FD.io CSIT's goal for zero loss: 1 s trials, 21 s of them, half of which may exceed.
    fn default() -> Self {
        MlrGoal {
            loss_ratio: 0.0,
            exceed_ratio: 0.5,
            width: 0.005,
            initial_trial_s: 1.0,
            final_trial_s: 1.0,
            duration_sum_s: 21.0,
            preceding_targets: 2,
            expansion: 2,
        }
    }
}

impl MlrGoal {
    /// Returns the error in the goal; `None` if it is valid.
    pub fn invalid(&self) -> Option<&'static str> {
        let share = |x: f64| (0.0..1.0).contains(&x);
        if !share(self.loss_ratio) {
            Some("the loss ratio is from 0 to less than 1")
        } else if !share(self.exceed_ratio) {
            Some("the exceed ratio is from 0 to less than 1")
        } else if !share(self.width) || self.width == 0.0 {
            Some("the width is more than 0 and less than 1")
        } else if !(self.initial_trial_s > 0.0 && self.initial_trial_s <= self.final_trial_s) {
            Some("the first trials last more than 0 s, and no longer than the final ones")
        } else if self.duration_sum_s < self.final_trial_s {
            Some("the duration sum is at least the duration of a trial")
        } else if self.expansion < 2 {
            Some("the expansion factor is at least 2")
        } else if self.preceding_targets == 0 && self.initial_trial_s < self.duration_sum_s {
            Some("without preceding targets the first trials last as long as the duration sum")
        } else {
            None
        }
    }
}

/// A step on the way to a goal: wider and with less evidence than the goal itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) loss_ratio: f64,
    pub(super) exceed_ratio: f64,
    pub(super) width: Width,
    pub(super) trial_s: f64,
    pub(super) duration_sum_s: f64,
    pub(super) expansion: i64,
}

/// Returns the targets of a goal, the easiest first, the goal itself last.
pub(super) fn chain(goal: &MlrGoal, grid: &Grid) -> Vec<Target> {
    let mut width = grid.width(goal.width);
    let target = |width, trial_s, duration_sum_s| Target {
        loss_ratio: goal.loss_ratio,
        exceed_ratio: goal.exceed_ratio,
        width,
        trial_s,
        duration_sum_s,
        expansion: goal.expansion,
    };
    let mut targets = vec![target(width, goal.final_trial_s, goal.duration_sum_s)];
    let count = goal.preceding_targets;
    let step = (goal.initial_trial_s / goal.duration_sum_s).powf(1.0 / f64::from(count.max(1)));
    for number in 1..=count {
        let sum = if number == count {
            goal.initial_trial_s
        } else {
            goal.duration_sum_s * step.powf(f64::from(number))
        };
        width = grid.times(width, 2);
        targets.push(target(width, goal.final_trial_s.min(sum), sum));
    }
    targets.reverse();
    targets
}

/// Class of a load for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The loss is acceptable, and further trials cannot change that.
    Lower,
    /// The loss is too high, and further trials cannot change that.
    Upper,
    /// Further trials can still decide either way.
    Open,
}

/// Evidence of the trials at one load for one target, in seconds of trials.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    good_long: f64,
    bad_long: f64,
    good_short: f64,
    bad_short: f64,
    /// Loss ratio and duration of each full-length trial, by loss ratio.
    long: Vec<(f64, f64)>,
}

impl Evidence {
    /// Adds the result of a trial at this load.
    pub(super) fn add(&mut self, target: &Target, intended_s: f64, spent_s: f64, loss: f64) {
        let good = loss <= target.loss_ratio;
        if intended_s >= target.trial_s {
            let at = self.long.partition_point(|(ratio, _)| *ratio <= loss);
            self.long.insert(at, (loss, spent_s));
            *(if good { &mut self.good_long } else { &mut self.bad_long }) += spent_s;
        } else {
            *(if good { &mut self.good_short } else { &mut self.bad_short }) += spent_s;
        }
    }

    /// Classifies the load. The optimistic estimate counts all future trials as good, the
    /// pessimistic one as bad; the class is open while they differ. Short bad trials count unless
    /// short good ones outweigh them.
    pub(super) fn class(&self, target: &Target) -> Class {
        let exceed = target.exceed_ratio;
        let short = self.bad_short - self.good_short * exceed / (1.0 - exceed);
        let bad = self.bad_long + short.max(0.0);
        let sum = (self.good_long + bad).max(target.duration_sum_s);
        let limit = sum * exceed;
        match (bad <= limit, sum - self.good_long <= limit) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Open,
        }
    }

    /// Returns the loss ratio of the conditional throughput: the quantile of the full-length trials at the exceed
    /// ratio, where the missing part of the duration sum counts as lost.
    pub(super) fn quantile_loss(&self, target: &Target) -> f64 {
        let all = target.duration_sum_s.max(self.good_long + self.bad_long);
        // Sums of durations are rounded.
        let none = 1e-9 * all;
        let mut remaining = all * (1.0 - target.exceed_ratio);
        let mut quantile = None;
        for &(loss, spent_s) in &self.long {
            if quantile.is_some() && quantile != Some(loss) && remaining <= none {
                return quantile.unwrap_or(1.0);
            }
            quantile = Some(loss);
            remaining -= spent_s;
        }
        if remaining > none { 1.0 } else { quantile.unwrap_or(1.0) }
    }
}
