//! State of a running experiment. The caller has the clock: it sets [`State::now`] before it
//! reports an event.

use std::collections::{BTreeMap, VecDeque};

use measure::{Nanos, Pacing};
use record::{CellRecord, Plan, Snapshot, TesterCount, Trial, TrialRecord};

use crate::view::search::{Bracket, met};
use crate::view::{cell_name, labels};

/// Number of rates of a trial that are kept: those of one minute.
const MAX_POINTS: usize = 240;
/// Number of the last lines that are kept, to be printed when the view is closed.
const MAX_LINES: usize = 10_000;

/// Labels of a cell: its server and its settings.
pub(super) type Labels = Vec<(String, String)>;

/// Counts and results of a cell so far.
#[derive(Default)]
pub(super) struct LiveCell {
    pub(super) name: String,
    pub(super) trials: u64,
    pub(super) void: u64,
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) valid: u64,
    pub(super) lost: u64,
    pub(super) last: Option<Box<Trial>>,
    pub(super) capacity_qps: Option<f64>,
    pub(super) figures: BTreeMap<(String, String), f64>,
}

/// Phase of a run, which the first line of the view names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Phase {
    /// The testbed is being made.
    #[default]
    Starting,
    /// The Tester measures itself before the servers (RFC 8219 section 9.2).
    SelfTest,
    /// A cell is visited: its name, which repeat (from 0).
    Visit(String, u32),
}

/// The running trial, or the last one.
#[derive(Clone, Debug, Default)]
pub(super) struct CurrentTrial {
    pub(super) pacing: Option<Pacing>,
    pub(super) duration: Nanos,
    pub(super) now: Snapshot,
    /// Sent and valid a second, between snapshots.
    pub(super) rates: VecDeque<(f64, f64)>,
    /// Each of several Testers: its name, the queries that it sends per second, and the number of its queries without a valid
    /// reply in time.
    pub(super) testers: Vec<(String, f64, u64)>,
    pub(super) ended: bool,
    /// Whether the trial compares the answers of several servers: equal answers count as valid,
    /// different ones as bad.
    pub(super) compares: bool,
}

impl CurrentTrial {
    /// Returns the last rates of sent queries and of valid answers, per second; 0 if the trial has ended.
    pub(super) fn rate(&self) -> (f64, f64) {
        self.rates.back().copied().filter(|_| !self.ended).unwrap_or_default()
    }

    fn add(&mut self, snapshot: Snapshot) {
        let span = snapshot.at_s - self.now.at_s;
        if span > 0.0 {
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / span;
            let rates = (rate(snapshot.sent, self.now.sent), rate(snapshot.valid, self.now.valid));
            self.rates.push_back(rates);
            if self.rates.len() > MAX_POINTS {
                self.rates.pop_front();
            }
            let before = |name: &str| {
                let one = self.now.testers.iter().find(|one| one.name == name);
                one.map_or(0, |one| one.sent)
            };
            let of =
                |one: &TesterCount| (one.name.clone(), rate(one.sent, before(&one.name)), one.bad);
            self.testers = snapshot.testers.iter().map(of).collect();
        }
        self.now = snapshot;
    }
}

/// Verdict on a trial, as the view shows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    /// The trial had no goal to pass or to miss.
    Ended,
    /// The trial is void, for this reason.
    Void(String),
}

/// Results of a visit's trials so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Searching {
    /// Goal of the trials; empty without one.
    pub(super) goal: String,
    /// Unit of the quantity that the trials vary.
    pub(super) unit: String,
    /// Numbers of the trials that are not void, and whether they met the goal.
    trials: Vec<(f64, bool)>,
    /// The last trial: its number and its verdict.
    pub(super) last: Option<(f64, Verdict)>,
}

impl Searching {
    /// Returns the tested rates that passed and failed so far; `None` without a trial that has a
    /// goal.
    pub(super) fn bracket(&self) -> Option<Bracket> {
        (!self.trials.is_empty()).then(|| Bracket::of(self.trials.iter().copied()))
    }

    fn add(&mut self, cell: &CellRecord, record: &TrialRecord) {
        let goal = record.trial.goal.clone().filter(|goal| !goal.is_empty());
        self.goal = goal.unwrap_or_else(|| cell.goal.clone());
        self.unit = cell.capacity_unit().to_owned();
        let met = met(cell, record);
        let verdict = match (&record.trial.void.0, met) {
            (Some(why), _) => Verdict::Void(why.to_string()),
            (None, Some(true)) => Verdict::Passed,
            (None, Some(false)) => Verdict::Failed,
            (None, None) => Verdict::Ended,
        };
        self.trials.extend(met.map(|met| (record.rate_qps, met)));
        self.last = Some((record.rate_qps, verdict));
    }
}

/// Visits of a run: the number of the current one, their total, and the remaining time.
#[derive(Clone, Copy, Debug)]
pub struct VisitProgress {
    /// Number of the visit, from 1.
    pub number: usize,
    /// Number of all visits of the run.
    pub of: usize,
    /// Expected time of this visit and the later ones.
    pub remaining: Nanos,
}

/// State of a run, which the terminal and the metrics show.
#[derive(Default)]
pub struct State {
    /// Time since the run began.
    pub now: Nanos,
    pub(super) plan: Plan,
    pub(super) phase: Phase,
    /// Number of visits done, and of all visits.
    pub(super) visits: (usize, usize),
    /// Expected time for the remaining visits, and when it was estimated.
    remaining: (Nanos, Nanos),
    pub(super) certified_qps: f64,
    pub(super) skipped: u64,
    /// Results of this visit's trials.
    pub(super) search: Searching,
    pub(super) cells: BTreeMap<Labels, LiveCell>,
    pub(super) current: Option<Labels>,
    pub(super) trial: Option<CurrentTrial>,
    /// Busy share (0 to 1) of the cores of each role.
    pub(super) cpu: Vec<(&'static str, f64)>,
    /// Lines of the last steps.
    lines: VecDeque<String>,
    /// Number of earlier lines, which are not kept.
    lines_gone: u64,
}

impl State {
    /// Notes that the testbed is up, and the plan of the run.
    pub fn begun(&mut self, plan: &Plan) {
        self.plan = plan.clone();
    }

    /// Notes that the self-test begins.
    pub fn self_test(&mut self) {
        self.phase = Phase::SelfTest;
    }

    /// Adds a trial of the self-test that has ended.
    pub fn self_test_trial(&mut self, record: &TrialRecord) {
        self.search.add(&CellRecord::new("", BTreeMap::new(), "search"), record);
    }

    /// Notes the end of the self-test: the highest certified rate, in queries per second.
    pub fn certified(&mut self, qps: f64) {
        self.certified_qps = qps;
    }

    /// Notes the cells of the run, and the expected time of their visits.
    pub fn planned(&mut self, cells: &[CellRecord], expected: Nanos) {
        self.remaining = (expected, self.now);
        for cell in cells {
            self.cell(cell);
        }
    }

    /// Notes that a visit of a cell begins, for this repeat (from 0).
    pub fn visit(&mut self, cell: &CellRecord, repeat: u32, course: VisitProgress) {
        self.visits = (course.number.saturating_sub(1), course.of);
        self.remaining = (course.remaining, self.now);
        self.current = Some(labels(cell));
        self.phase = Phase::Visit(cell_name(cell), repeat);
        (self.trial, self.cpu, self.search) = (None, Vec::new(), Searching::default());
    }

    /// Adds a trial of a cell that has ended.
    pub fn trial(&mut self, cell: &CellRecord, record: &TrialRecord) {
        self.search.add(cell, record);
        let (cell, trial) = (self.cell(cell), &record.trial);
        cell.trials += 1;
        cell.void += u64::from(trial.void.is_void());
        cell.sent += trial.sent;
        cell.answered += trial.answered;
        cell.valid += trial.valid;
        cell.lost += trial.lost;
        cell.last = Some(Box::new(trial.clone()));
    }

    /// Notes that the visit has ended.
    pub fn visited(&mut self) {
        self.visits.0 = (self.visits.0 + 1).min(self.visits.1);
        self.current = None;
    }

    /// Notes the capacity that a search of a cell found, in queries per second; `None` if no rate passed.
    pub fn capacity(&mut self, cell: &CellRecord, qps: Option<f64>) {
        self.cell(cell).capacity_qps = qps;
    }

    /// Adds figures that a visit of a cell found: name, unit, value.
    pub fn figures(&mut self, cell: &CellRecord, figures: &[(String, &'static str, f64)]) {
        let figures = figures.iter().map(|(name, unit, v)| ((name.clone(), (*unit).into()), *v));
        self.cell(cell).figures.extend(figures);
    }

    /// Notes that a cell is not measured.
    pub fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Notes that a trial begins; the trial of another generator has no pacing.
    pub fn begin_trial(&mut self, pacing: Option<Pacing>, duration: Nanos) {
        self.trial = Some(CurrentTrial { pacing, duration, ..CurrentTrial::default() });
    }

    /// Notes that a comparison of answers begins.
    pub fn begin_comparison(&mut self) {
        self.trial = Some(CurrentTrial { compares: true, ..CurrentTrial::default() });
    }

    /// Adds counters of the running trial.
    pub fn load(&mut self, snapshot: Snapshot) {
        self.trial.get_or_insert_default().add(snapshot);
    }

    /// Notes the busy share (0 to 1) of each role's cores.
    pub fn cpu(&mut self, cpu: Vec<(&'static str, f64)>) {
        self.cpu = cpu;
    }

    /// Notes that the running trial has ended.
    pub fn end_trial(&mut self) {
        if let Some(trial) = &mut self.trial {
            trial.ended = true;
        }
    }

    /// Adds a line of the run's messages.
    pub fn say(&mut self, line: String) {
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
            self.lines_gone += 1;
        }
        self.lines.push_back(line);
    }

    /// Returns the last lines, and the number of earlier ones, which are not kept.
    pub fn lines(&self) -> (impl ExactSizeIterator<Item = &String>, u64) {
        (self.lines.iter(), self.lines_gone)
    }

    /// Returns the expected time for the remaining visits, in seconds.
    pub(super) fn remaining_s(&self) -> f64 {
        let (expected, then) = self.remaining;
        expected.since(self.now.since(then)).as_secs_f64()
    }

    /// Returns the entry of a cell; creates the entry if it does not exist.
    fn cell(&mut self, cell: &CellRecord) -> &mut LiveCell {
        let new = || LiveCell { name: cell_name(cell), ..LiveCell::default() };
        self.cells.entry(labels(cell)).or_insert_with(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_between_glimpses() {
        let mut state = State::default();
        let pacing = Some(Pacing::Window { outstanding: 1 });
        state.begin_trial(pacing, Nanos::from_secs(5));
        for (at_s, sent, valid) in [(0.5, 100, 90), (1.0, 300, 290), (1.0, 300, 290)] {
            state.load(Snapshot { at_s, sent, valid, ..Snapshot::default() });
        }
        let trial = state.trial.clone().expect("begun");
        assert_eq!(trial.rates, [(200.0, 180.0), (400.0, 400.0)]);
        assert!(!trial.ended);
        state.end_trial();
        assert!(state.trial.as_ref().is_some_and(|t| t.ended && t.pacing == pacing));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut state = State::default();
        (0..MAX_LINES + 3).for_each(|i| state.say(i.to_string()));
        let (mut lines, gone) = state.lines();
        assert_eq!((lines.len(), gone, lines.next().map(|l| &**l)), (MAX_LINES, 3, Some("3")));
        let mut running = CurrentTrial::default();
        for i in 1..1_000 {
            running.add(Snapshot { at_s: f64::from(i), ..Snapshot::default() });
        }
        assert_eq!(running.rates.len(), MAX_POINTS);
    }
}
