//! The window of a closed loop.
//!
//! ```text
//! a server that keeps up   the largest of the windows that give most answers, up and down again, and lose nothing
//! a server that drops      a large window and a highest rate, twice what it answers; counted in whole seconds after a lead
//! ```
//!
//! While others use the cores, the answers of a loop depend on them as much as on its window. So
//! loops that used the server's CPU up are compared by cores / demand, others that gave fewer
//! answers meanwhile end no search, and a later round in which the server had CPU left tries twice
//! the window.
//!
//! Queries that a server drops hold their places for a while, so that a small window offers less than the server would answer, and a
//! large one without a highest rate floods it. Token buckets are full at first, which the lead spends; other limits answer so many
//! queries in each second of the clock (Unbound's `ip-ratelimit`), so that only whole seconds have the rate.

use measure::stats::median;
use measure::{Nanos, Pacing, Qps};
use record::{CellRecord, Round, Trial, TrialRecord, WindowStep};

use super::round::{LEAD_TIME, LOSS, NextRound, OTHERS, SATURATED, STEP, limit_of, round_of, used};
use crate::bench::BenchError;
use crate::settings::closed_names_per_s;

/// Duration of a closed loop that warms the server up.
pub(super) const SLICE: Nanos = Nanos::from_millis(100);
/// First window that is tried, and the largest, which loops with a highest rate have too.
const FIRST_WINDOW: u32 = 16;
const LAST_WINDOW: u32 = 4_096;
/// Duration of a closed loop that tries a window.
const TRY: Nanos = Nanos::from_millis(250);
/// Factor by which a reply may take longer than others while a server warms up or windows are tried.
const WARM_UP_PATIENCE: f64 = 20.0;
/// Growth of the answers above which a larger window counts as better: trials of a quarter of a
/// second differ by less.
const GROWTH: f64 = 1.03;
/// Largest ratio of the answers of two windows, each tried twice, that counts as equal.
const EQUAL_FACTOR: f64 = 1.015;
/// Windows whose answers are within this factor of the best one are tried again: the demand varies
/// by as much between windows.
const CLOSE_FACTOR: f64 = 1.08;
/// Factor of the demands of two servers, with the same window, up to which they count as equal.
const ALIKE_FACTOR: f64 = 1.25;
/// Number of windows running without growth after which no larger one is tried.
const FLAT_WINDOWS: u32 = 2;
/// Share of lost queries from which on a server may drop them on purpose.
const DROPS: f64 = 0.01;
/// Factor by which a window that loses little may answer less than a loop with a highest rate.
const ACCEPTED_FACTOR: f64 = 1.02;
/// First highest rate where windows gave no answer, the factor from one to the next, and the largest number of them.
const FIRST_RATE: f64 = 10_000.0;
const FASTER_FACTOR: f64 = 4.0;
const MOST_RATES: u32 = 6;
/// Share of a rate below which the answers show that the rate exceeds the capacity.
const KEEPS_UP: f64 = 0.9;
/// Highest rate of the rounds, as a factor of the answers: tokens saved during a stall of the loop
/// are spent at this rate.
const MAX_OFFERED_FACTOR: f64 = 2.0;
/// Least number of rounds, and of rounds that last whole seconds.
pub const MIN_ROUNDS: u32 = 8;
const MIN_WHOLE_SECOND_ROUNDS: u32 = 4;

/// Settings of one closed loop of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosedLoop {
    pub(super) window: u32,
    /// Highest rate of the loop's queries.
    pub(super) most: Option<Qps>,
    pub(super) duration: Nanos,
    /// Length of the loop's steps if it counts whole seconds after a lead; `None` for other loops.
    pub(super) step: Option<Nanos>,
    /// Time for which a reply is awaited, if not the usual one.
    pub(super) timeout: Option<Nanos>,
    /// Number of queries of a connection, if not the usual one.
    pub(super) queries_per_connection: Option<u64>,
    /// Names that the loop may use per second.
    pub(super) names_per_s: f64,
}

impl ClosedLoop {
    /// Makes a loop without a lead.
    fn plain(window: u32, duration: Nanos) -> Self {
        ClosedLoop {
            window,
            most: None,
            duration,
            step: None,
            timeout: None,
            queries_per_connection: None,
            names_per_s: closed_names_per_s(0.0),
        }
    }

    /// Makes a loop that counts whole seconds after a lead, for `duration` at least.
    fn of_seconds(window: u32, most: Option<Qps>, duration: Nanos) -> Self {
        let whole = Nanos::from_secs(duration.0.div_ceil(1_000_000_000).max(1));
        let plain = Self::plain(window, LEAD_TIME + whole);
        let names_per_s = plain.names_per_s.max(most.map_or(0.0, Qps::get));
        ClosedLoop { most, step: Some(STEP), names_per_s, ..plain }
    }

    /// Returns the closed loop of the rounds, for the step that was chosen; it lasts for `duration`
    /// at least.
    pub(super) fn after(step: Option<&WindowStep>, duration: Nanos) -> Self {
        match step {
            Some(WindowStep { window, most_qps: Some(_), qps, .. }) => {
                Self::of_seconds(*window, Qps::new(MAX_OFFERED_FACTOR * qps), duration)
            }
            Some(step) => Self::plain(step.window, duration).with_names(Some(step)),
            None => Self::plain(FIRST_WINDOW, duration),
        }
    }

    /// Returns the smallest number of rounds: whole seconds at a limited rate vary little.
    pub(super) fn least_rounds(&self) -> u32 {
        if self.step.is_some() { MIN_WHOLE_SECOND_ROUNDS } else { MIN_ROUNDS }
    }

    /// Returns the loop with enough names for a server that answers as fast as in the step `seen`,
    /// or faster.
    fn with_names(self, seen: Option<&WindowStep>) -> Self {
        let names_per_s = closed_names_per_s(seen.map_or(0.0, |step| step.qps));
        ClosedLoop { names_per_s: self.names_per_s.max(names_per_s), ..self }
    }

    /// Returns the loop with a timeout not much longer than the step `seen` took for a query
    /// (Little's law): late and lost replies need not be distinguished.
    pub(super) fn with_short_timeout(self, seen: Option<&WindowStep>) -> Self {
        let patience = |step: &WindowStep| WARM_UP_PATIENCE * f64::from(step.window) / step.qps;
        let seen = seen.filter(|step| step.qps > 0.0 && step.most_qps.is_none());
        let timeout = seen.map(|step| Nanos::from_secs_f64(patience(step)).max(SLICE));
        ClosedLoop { timeout, ..self.with_names(seen) }
    }

    /// Returns a window of queries, with a highest rate if there is one.
    pub(super) fn pacing(&self) -> Pacing {
        let outstanding = self.window;
        match self.most {
            Some(rate) => Pacing::CappedWindow { outstanding, rate },
            None => Pacing::Window { outstanding },
        }
    }
}

/// Estimates the answers a second that a server can give from a loop with a window.
fn answers(step: &WindowStep) -> f64 {
    step.limit_qps.unwrap_or(step.qps)
}

/// Returns the step of a loop.
fn step_of(own: &ClosedLoop, trial: &Trial) -> WindowStep {
    let round = round_of(trial, 0);
    let is_saturated = used(&round).is_some_and(|used| used >= SATURATED);
    WindowStep {
        window: own.window,
        most_qps: own.most.map(Qps::get),
        qps: round.qps,
        cpu_us_per_answer: round.cpu_us_per_answer,
        limit_qps: limit_of(&round, 1.0).filter(|_| is_saturated),
        work_ns: round.work_ns,
        unanswered: round.unanswered,
        lost: trial.lost_elsewhere() as f64 / trial.sent.max(1) as f64,
    }
}

/// Returns the step whose loop the rounds use; `None` without steps. Among the windows that give
/// most answers, within noise, it is the largest one without losses, else the one that loses the
/// smallest share. Where the server drops queries, only loops of whole seconds count: the last of
/// those with a highest rate, unless a window gives as much with few losses.
pub(super) fn choose(steps: &[WindowStep]) -> Option<&WindowStep> {
    let capped = || steps.iter().rev().filter(|step| step.most_qps.is_some());
    if let Some(large) = capped().find(|step| step.window == LAST_WINDOW) {
        let keeps =
            |step: &&WindowStep| step.lost <= DROPS && step.qps * ACCEPTED_FACTOR >= large.qps;
        return capped().find(keeps).or(Some(large));
    }
    let most = steps.iter().map(answers).fold(0.0, f64::max);
    let full = || steps.iter().rev().filter(|step| answers(step) * EQUAL_FACTOR >= most);
    let least = || full().min_by(|a, b| a.lost.total_cmp(&b.lost));
    full().find(|step| step.lost <= LOSS).or_else(least)
}

/// Sets one window for cells that are compared at the same settings and are alike: the largest that
/// was chosen for one of them, except where it lost queries. Two windows differ by more than two
/// builds of a server do, so that rounds with another window are discarded. Servers that drop
/// queries keep their window. Returns whether rounds were discarded.
pub fn align_windows(cells: &mut [&mut CellRecord]) -> bool {
    let own =
        |cell: &CellRecord| choose(&cell.windows).copied().filter(|step| step.most_qps.is_none());
    let widest = |cell: &CellRecord| {
        let alike = cells.iter().filter(|other| is_alike(cell, other));
        alike.filter_map(|other| own(other)).map(|step| step.window).max()
    };
    let found: Vec<Option<u32>> = cells.iter().map(|cell| widest(cell)).collect();
    let mut forgets = false;
    for (cell, found) in cells.iter_mut().zip(found) {
        let (Some(step), Some(window)) = (own(cell), found) else { continue };
        let lost = |tried: &WindowStep| tried.window == window && tried.lost > LOSS;
        if step.window >= window || cell.windows.iter().any(lost) {
            continue;
        }
        cell.windows.push(WindowStep { window, ..step });
        let made = cell.rounds.len();
        let CellRecord { rounds, trials, .. } = &mut **cell;
        let had = |t: &TrialRecord| {
            t.trial.conditions.pacing.get().and_then(Pacing::outstanding) == Some(window)
        };
        rounds.retain(|round| trials.iter().any(|t| t.repeat == round.round && had(t)));
        if cell.rounds.len() < made {
            (cell.capacity, cell.ratio) = (None, None);
            cell.figures.clear();
            forgets = true;
        }
    }
    forgets
}

/// Returns whether two cells have the same settings and the same kind of server: either only
/// answers of both were observed, or their demands at a common window were close.
fn is_alike(a: &CellRecord, b: &CellRecord) -> bool {
    let is_unseen = |cell: &CellRecord| cell.rounds.iter().any(|round| round.busy.is_none());
    let demand = |step: &WindowStep| step.cpu_us_per_answer.filter(|_| step.most_qps.is_none());
    let at = |window: u32| b.windows.iter().find(|step| step.window == window).and_then(demand);
    let ratio = |step: &WindowStep| Some((demand(step)? / at(step.window)?).ln().abs());
    let ratios: Vec<f64> = a.windows.iter().filter_map(ratio).collect();
    let is_close = median(&ratios).is_some_and(|ratio| ratio <= ALIKE_FACTOR.ln());
    a.settings == b.settings && (is_close || is_unseen(a) && is_unseen(b))
}

/// Returns the smallest number of rounds of the cells, including discarded ones.
pub fn least_rounds<'c>(cells: impl IntoIterator<Item = &'c CellRecord>) -> u32 {
    let of = |cell: &CellRecord| {
        let first = cell.rounds.first().map_or(0, |round| round.round);
        first + ClosedLoop::after(choose(&cell.windows), TRY).least_rounds()
    };
    cells.into_iter().map(of).max().unwrap_or(MIN_ROUNDS)
}

impl NextRound<'_> {
    /// Finds the window of the loops of a cell: doubles the window until answers stop growing, and
    /// raises a highest rate where queries are lost.
    pub(super) fn windows(&mut self) -> Result<Vec<WindowStep>, BenchError> {
        let (mut steps, mut flat, mut window) = (Vec::new(), 0, FIRST_WINDOW);
        let (mut most, mut most_qps, mut bursts) = (0.0_f64, 0.0_f64, false);
        // A server that was just started is slow at first.
        self.closed_loop(ClosedLoop::plain(window, SLICE))?;
        while flat < FLAT_WINDOWS && window <= LAST_WINDOW {
            let (step, trial) = self.step(window, steps.last())?;
            let unsent = trial.drops.tester_send as f64 / trial.sent.max(1) as f64;
            if unsent > LOSS && !steps.is_empty() {
                // The queue to the server is full with one burst: larger windows are tried without
                // bursts.
                bursts = flat == 0;
                break;
            }
            let is_disturbed = step.limit_qps.is_none() && round_of(&trial, 0).others() > OTHERS;
            flat = match answers(&step) {
                more if more > most * GROWTH => 0,
                // Other processes may explain the missing answers.
                less if is_disturbed && less * GROWTH < most => flat,
                _ => flat + 1,
            };
            (most, most_qps) = (most.max(answers(&step)), most_qps.max(step.qps));
            (self.tried)(most_qps);
            steps.push(step);
            if step.lost > DROPS {
                break;
            }
            window *= 2;
        }
        self.down(&mut steps, most)?;
        if bursts || steps.iter().any(|step| step.lost > DROPS) {
            self.rates(&mut steps, most_qps)?;
        }
        Ok(steps)
    }

    /// Tries the windows again that gave about as much as `most`, the largest first, so that a
    /// single disturbance does not choose the window.
    fn down(&mut self, steps: &mut [WindowStep], most: f64) -> Result<(), BenchError> {
        let mut close: Vec<&mut WindowStep> =
            steps.iter_mut().filter(|step| answers(step) * CLOSE_FACTOR >= most).collect();
        if close.len() < 2 || close.iter().any(|step| step.lost > DROPS) {
            return Ok(());
        }
        for step in close.iter_mut().rev() {
            let (again, _) = self.step(step.window, Some(step))?;
            // A loop in which others took the CPU does not show the limit.
            let both = |a: Option<f64>, b: Option<f64>| match (a, b) {
                (Some(a), Some(b)) => Some((a + b) / 2.0),
                (a, b) => a.or(b),
            };
            step.limit_qps = both(step.limit_qps, again.limit_qps);
            step.cpu_us_per_answer = both(step.cpu_us_per_answer, again.cpu_us_per_answer);
            step.qps = (step.qps + again.qps) / 2.0;
            step.work_ns = again.work_ns.or(step.work_ns);
            step.unanswered = step.unanswered.max(again.unanswered);
            step.lost = step.lost.max(again.lost);
        }
        Ok(())
    }

    /// Tries a window after the step `seen`; returns its step and its trial.
    fn step(
        &mut self,
        window: u32,
        seen: Option<&WindowStep>,
    ) -> Result<(WindowStep, Trial), BenchError> {
        let plain = ClosedLoop::plain(window, TRY);
        let mut trial = self.closed_loop(plain.with_short_timeout(seen))?;
        if step_of(&plain, &trial).lost > DROPS {
            // Late replies are not dropped queries.
            trial = self.closed_loop(plain.with_names(seen))?;
        }
        Ok((step_of(&plain, &trial), trial))
    }

    /// Raises the highest rate of a loop until the server does not keep up, and tries the window
    /// without losses for the same time.
    fn rates(&mut self, steps: &mut Vec<WindowStep>, most: f64) -> Result<(), BenchError> {
        let window = choose(steps).filter(|step| step.lost <= DROPS).map(|step| step.window);
        let mut rate = if most > 0.0 { MAX_OFFERED_FACTOR * most } else { FIRST_RATE };
        for _ in 0..MOST_RATES {
            let step = self.tried(ClosedLoop::of_seconds(LAST_WINDOW, Qps::new(rate), TRY))?;
            steps.push(step);
            if step.qps < KEEPS_UP * rate {
                rate = MAX_OFFERED_FACTOR * step.qps;
                break;
            }
            rate = FASTER_FACTOR * step.qps;
        }
        if let Some(window) = window {
            steps.push(self.tried(ClosedLoop::of_seconds(window, Qps::new(rate), TRY))?);
        }
        Ok(())
    }

    /// Runs a closed loop of the search for the window.
    fn tried(&mut self, own: ClosedLoop) -> Result<WindowStep, BenchError> {
        Ok(step_of(&own, &self.closed_loop(own)?))
    }

    /// Returns the step of a loop with a highest rate that the server kept up with: the rate was
    /// too low, and a higher one is tried next.
    pub(super) fn faster(own: &ClosedLoop, trial: &Trial) -> Option<WindowStep> {
        let keeps_up = |step: &WindowStep| step.most_qps.is_some_and(|m| step.qps >= KEEPS_UP * m);
        Some(step_of(own, trial)).filter(keeps_up)
    }

    /// Tries twice the window of a round in which others used the cores and the server had CPU
    /// left; returns it if it gives more answers.
    pub(super) fn wider(
        &mut self,
        own: ClosedLoop,
        round: &Round,
    ) -> Result<Option<WindowStep>, BenchError> {
        let wide = ClosedLoop { window: 2 * own.window, duration: TRY, ..own };
        let has_left = used(round).is_some_and(|used| used < SATURATED);
        let is_due = round.others() > OTHERS && has_left && own.step.is_none();
        if !is_due || wide.window > LAST_WINDOW {
            return Ok(None);
        }
        let is_better = |step: &WindowStep| step.qps > GROWTH * round.qps && step.lost <= LOSS;
        match self.tried(wide) {
            Err(BenchError::Void(_)) => Ok(None),
            step => step.map(|step| Some(step).filter(is_better)),
        }
    }
}
