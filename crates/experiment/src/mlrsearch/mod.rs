//! MLRsearch (RFC 9971): several goals in one search, many short trials per load.
//!
//! A load's verdict does not depend on one trial: trials at the load are added up until no further
//! trial can change whether it is a lower or an upper bound of a goal. So a stall of the host
//! spoils a trial, not the search. Each goal is approached by a chain of easier targets, whose
//! bounds are where the next target begins.
//!
//! ```text
//!   first trials (at most three, from the highest rate) ──> per goal a selector:
//!     halve, refine lower, refine upper, extend down, extend up, bisect ──> nomination
//!   lowest load first, then longest trial ──> trial ──> evidence at this load, for all targets ──> again
//! ```
//!
//! [`MlrSearch`] is a state machine: [`next`](MlrSearch::next) says which trial is wanted, [`add`](MlrSearch::add)
//! takes its result. Its decisions are those of the authors' library (`MLRsearch` 1.2.1 on PyPI), held by
//! `tests/mlrsearch.rs` against recorded searches of it.

mod grid;
mod selector;
mod target;

use std::collections::BTreeMap;

use grid::{Grid, Load, Width};
use selector::{Nomination, Selector};
use target::{Class, Evidence, Target};

pub use target::MlrGoal;

/// A trial that the search requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WantedTrial {
    /// The rate, in queries a second.
    pub rate: f64,
    /// Time for which queries are sent, in seconds.
    pub duration_s: f64,
}

/// Result of the search for one goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MlrResult {
    /// The highest load below the upper bound that meets the goal, in queries a second; `None` if the lowest does not.
    pub lower: Option<f64>,
    /// The lowest load that does not meet the goal, in queries a second; `None` if the highest does.
    pub upper: Option<f64>,
    /// The rate of valid answers of the lower bound: its load minus the loss at the exceed ratio's
    /// quantile.
    pub conditional_throughput: Option<f64>,
}

/// Error: a search cannot begin.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MlrError {
    /// The range of rates is empty.
    #[error("the lowest rate ({min}) must be above 0 and below the highest ({max})")]
    Rates {
        /// The lowest rate, in queries a second.
        min: f64,
        /// The highest rate, in queries a second.
        max: f64,
    },
    /// The list of goals is empty.
    #[error("a search needs a goal")]
    NoGoal,
    /// A goal has a value that the algorithm does not allow.
    #[error("goal {0}: {1}")]
    Goal(usize, &'static str),
}

/// The loads tried so far, with the evidence for each target of each goal.
#[derive(Clone, Debug, Default)]
struct TriedLoads {
    /// Evidence by load: goals, then their targets.
    loads: BTreeMap<Load, Vec<Vec<Evidence>>>,
}

/// The bounds that count for one target: the lowest upper bound, and the highest lower bound below it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bounds {
    lower: Option<Load>,
    upper: Option<Load>,
}

impl TriedLoads {
    fn add(&mut self, goals: &[Vec<Target>], load: Load, intended_s: f64, spent_s: f64, loss: f64) {
        let empty = || goals.iter().map(|chain| vec![Evidence::default(); chain.len()]).collect();
        let evidence = self.loads.entry(load).or_insert_with(empty);
        for (chain, of_goal) in goals.iter().zip(evidence) {
            for (target, evidence) in chain.iter().zip(of_goal) {
                evidence.add(target, intended_s, spent_s, loss);
            }
        }
    }

    fn bounds(&self, target: &Target, goal: usize, step: usize) -> Bounds {
        let mut bounds = Bounds::default();
        for (&load, evidence) in &self.loads {
            match evidence[goal][step].class(target) {
                Class::Open => {}
                Class::Lower => bounds.lower = Some(load),
                Class::Upper => {
                    bounds.upper = Some(load);
                    break;
                }
            }
        }
        bounds
    }
}

/// Stage of the search: two or three first trials, then those that the selectors choose.
#[derive(Clone, Debug)]
enum Stage {
    /// The first trial runs at the highest rate.
    AtMax,
    /// The second trial runs at the rate of the first one's answers.
    AtAnswered { load: Load },
    /// The third trial runs on the other side of the capacity.
    Beyond { load: Load, second: Load },
    /// The nominated trial runs, for the goal of this index; with `None` the search is done.
    Selecting(Option<(usize, Nomination)>),
    /// Every goal is reached; no trial is requested any more.
    Done,
}

/// An MLRsearch in progress: it requests one trial after the other, and receives each result.
#[derive(Clone, Debug)]
pub struct MlrSearch {
    grid: Grid,
    goals: Vec<Vec<Target>>,
    tried: TriedLoads,
    selectors: Vec<Selector>,
    /// Width of the last step outwards, of all goals.
    width: Width,
    stage: Stage,
}

impl MlrSearch {
    /// Starts a search between two rates (queries a second) for one or more goals.
    ///
    /// # Errors
    /// [`MlrError`] when the rates or a goal are invalid.
    pub fn new(min: f64, max: f64, goals: &[MlrGoal]) -> Result<Self, MlrError> {
        if !(min > 0.0 && min < max && max.is_finite()) {
            return Err(MlrError::Rates { min, max });
        }
        if goals.is_empty() {
            return Err(MlrError::NoGoal);
        }
        for (number, goal) in (1..).zip(goals) {
            if let Some(why) = goal.invalid() {
                return Err(MlrError::Goal(number, why));
            }
        }
        let mut widths: Vec<f64> = goals.iter().map(|goal| goal.width).collect();
        widths.sort_by(f64::total_cmp);
        widths.dedup();
        let grid = Grid::new(min, max, &widths);
        let goals: Vec<Vec<Target>> = goals.iter().map(|goal| target::chain(goal, &grid)).collect();
        let (tried, selectors) = (TriedLoads::default(), Vec::new());
        Ok(MlrSearch { grid, goals, tried, selectors, width: 0, stage: Stage::AtMax })
    }

    /// Returns the next trial; `None` if every goal is reached.
    pub fn next(&self) -> Option<WantedTrial> {
        let first = |load: Load| (load, self.first_targets().1);
        let (load, duration_s) = match &self.stage {
            Stage::AtMax => first(self.grid.top()),
            Stage::AtAnswered { load } | Stage::Beyond { load, .. } => first(*load),
            Stage::Selecting(nominated) => {
                let (_, nomination) = nominated.as_ref()?;
                (nomination.load, nomination.trial_s)
            }
            Stage::Done => return None,
        };
        Some(WantedTrial { rate: self.grid.rate(load), duration_s })
    }

    /// Adds the result of the trial that [`next`](Self::next) returned: the share (0 to 1) of its planned queries
    /// without a valid answer, and the time it took, in seconds.
    ///
    /// # Panics
    /// If the search is done.
    pub fn add(&mut self, loss: f64, spent_s: f64) {
        let trial = self.next().expect("a trial is added only while the search wants one");
        let load = match &self.stage {
            Stage::Selecting(Some((_, nomination))) => nomination.load,
            Stage::AtAnswered { load } | Stage::Beyond { load, .. } => *load,
            _ => self.grid.top(),
        };
        self.tried.add(&self.goals, load, trial.duration_s, spent_s, loss);
        let answered = self.grid.rate(load) * (1.0 - loss);
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::AtMax => self.after_max(answered),
            Stage::AtAnswered { load } => self.after_answered(load, answered, loss),
            Stage::Beyond { load, second } => self.begin_selecting(second, load),
            Stage::Selecting(Some((goal, nomination))) => self.after_nominated(goal, nomination),
            Stage::Selecting(None) | Stage::Done => Stage::Done,
        };
    }

    /// Returns the results, one for each goal, in the order of the goals.
    pub fn results(&self) -> Vec<MlrResult> {
        let result = |(goal, chain): (usize, &Vec<Target>)| {
            let step = chain.len() - 1;
            let bounds = self.tried.bounds(&chain[step], goal, step);
            let throughput = |load: Load| {
                let loss = self.tried.loads[&load][goal][step].quantile_loss(&chain[step]);
                self.grid.rate(load) * (1.0 - loss)
            };
            MlrResult {
                lower: bounds.lower.map(|load| self.grid.rate(load)),
                upper: bounds.upper.map(|load| self.grid.rate(load)),
                conditional_throughput: bounds.lower.map(throughput),
            }
        };
        self.goals.iter().enumerate().map(result).collect()
    }

    /// Returns the extremes over the goals' first targets: the smallest loss ratio, the longest trial in seconds, the
    /// largest width.
    fn first_targets(&self) -> (f64, f64, Width) {
        let first = || self.goals.iter().map(|chain| &chain[0]);
        let ratio = first().map(|t| t.loss_ratio).fold(f64::INFINITY, f64::min);
        let trial_s = first().map(|t| t.trial_s).fold(0.0, f64::max);
        (ratio, trial_s, first().map(|t| t.width).max().unwrap_or(1))
    }

    /// Returns the highest load at which `answered` queries a second would stay within the loss ratio.
    fn load_of(&self, answered: f64) -> Load {
        self.grid.at_most(answered / (1.0 - self.first_targets().0))
    }

    fn after_max(&mut self, answered: f64) -> Stage {
        let (top, width) = (self.grid.top(), self.first_targets().2);
        let load = self.load_of(answered);
        if load >= top {
            return self.begin_selecting(top, top);
        }
        let bounds = Bounds { lower: None, upper: Some(top) };
        match selector::within(&self.grid, load, width, bounds) {
            Some(load) => Stage::AtAnswered { load },
            None => self.begin_selecting(top, top),
        }
    }

    fn after_answered(&mut self, second: Load, answered: f64, loss: f64) -> Stage {
        let (ratio, _, width) = self.first_targets();
        let third = if loss > ratio {
            let bounds = Bounds { lower: None, upper: Some(second) };
            selector::within(&self.grid, self.load_of(answered), width, bounds)
        } else {
            let bounds = Bounds { lower: Some(second), upper: Some(self.grid.top()) };
            selector::within(&self.grid, self.grid.up(second, width), width, bounds)
        };
        match third {
            Some(load) => Stage::Beyond { load, second },
            None => self.begin_selecting(second, second),
        }
    }

    fn begin_selecting(&mut self, one: Load, other: Load) -> Stage {
        let (low, high) = (one.min(other), one.max(other));
        self.width = high - low;
        let selector = |chain: &Vec<Target>| Selector::new(&self.grid, chain[0], low, high);
        self.selectors = self.goals.iter().map(selector).collect();
        self.nominate()
    }

    fn after_nominated(&mut self, goal: usize, nomination: Nomination) -> Stage {
        self.width = nomination.width;
        let step = self.selectors[goal].step;
        let bounds = self.tried.bounds(&self.goals[goal][step], goal, step);
        let expanded = self.selectors[goal].won(&self.grid, bounds, nomination.load);
        self.width = expanded.unwrap_or(self.width);
        self.nominate()
    }

    /// Selects the best nomination of all goals: the lowest load, then the longest trial, then the largest width; the
    /// earlier goal wins a tie.
    fn nominate(&mut self) -> Stage {
        let mut best: Option<(usize, Nomination)> = None;
        for (goal, selector) in self.selectors.iter_mut().enumerate() {
            let chain = &self.goals[goal];
            let bounds = |step: usize| self.tried.bounds(&chain[step], goal, step);
            let nominated = selector.nominate(&self.grid, chain, self.width, &bounds);
            let Some(nomination) = nominated else { continue };
            if best.as_ref().is_none_or(|(_, first)| !first.wins_against(&nomination)) {
                best = Some((goal, nomination));
            }
        }
        if best.is_none() { Stage::Done } else { Stage::Selecting(best) }
    }
}
