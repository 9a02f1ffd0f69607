//! State of a running experiment: written by its events and by counters of its trials, read by the live view and by the
//! metrics for Prometheus.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use experiment::Found;
use lab::{Event, LiveUpdate, Watcher};
use measure::{Nanos, Pacing};
use record::{CellRecord, Plan, Snapshot, Trial};
use report::view::{cell_name, labels};

/// Number of rates of a trial that are kept: one minute of them.
const POINTS: usize = 240;
/// Number of the last lines that are kept, to be printed when the view is closed.
const LINES: usize = 10_000;

/// Labels of a cell: its server and its settings.
pub(crate) type Labels = Vec<(String, String)>;

/// Counts and results of a cell so far.
#[derive(Default)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) trials: u64,
    pub(crate) void: u64,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) valid: u64,
    pub(crate) lost: u64,
    pub(crate) last: Option<Box<Trial>>,
    pub(crate) capacity_qps: Option<f64>,
    pub(crate) figures: BTreeMap<(String, String), f64>,
}

/// Phase of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Phase {
    /// The testbed is being made.
    #[default]
    Starting,
    /// The Tester measures itself.
    SelfTest,
    /// A cell is visited: its name, which repeat (from 0).
    Visit(String, u32),
}

/// The running trial, or the last one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    pub(crate) pacing: Option<Pacing>,
    pub(crate) duration: Nanos,
    pub(crate) now: Snapshot,
    /// Sent and valid a second, between snapshots.
    pub(crate) rates: VecDeque<(f64, f64)>,
    pub(crate) ended: bool,
}

impl Running {
    /// Returns the last rates of sent queries and of valid answers, per second; 0 if the trial has ended.
    pub(crate) fn rate(&self) -> (f64, f64) {
        self.rates.back().copied().filter(|_| !self.ended).unwrap_or_default()
    }

    fn see(&mut self, snapshot: Snapshot) {
        let span = snapshot.at_s - self.now.at_s;
        if span > 0.0 {
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / span;
            let rates = (rate(snapshot.sent, self.now.sent), rate(snapshot.valid, self.now.valid));
            self.rates.push_back(rates);
            if self.rates.len() > POINTS {
                self.rates.pop_front();
            }
        }
        self.now = snapshot;
    }
}

/// State of a run, shared by threads.
#[derive(Clone)]
pub(crate) struct Board(Arc<Mutex<State>>);

/// State of a run.
pub(crate) struct State {
    pub(crate) began: Instant,
    pub(crate) plan: Plan,
    pub(crate) phase: Phase,
    /// Number of visits done, and of all visits.
    pub(crate) visits: (usize, usize),
    /// Expected time for the remaining visits, and when it was estimated.
    remaining: (Nanos, Instant),
    pub(crate) certified_qps: f64,
    pub(crate) skipped: u64,
    pub(crate) cells: BTreeMap<Labels, Cell>,
    pub(crate) current: Option<Labels>,
    pub(crate) trial: Option<Running>,
    /// Busy share (0 to 1) of the cores of each role.
    pub(crate) cpu: Vec<(&'static str, f64)>,
    /// Lines of the last steps.
    pub(crate) lines: VecDeque<String>,
    /// Number of lines before those, which are not kept.
    pub(crate) lines_gone: u64,
}

impl Board {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Board(Arc::new(Mutex::new(State {
            began: now,
            plan: Plan::default(),
            phase: Phase::default(),
            visits: (0, 0),
            remaining: (Nanos::ZERO, now),
            certified_qps: 0.0,
            skipped: 0,
            cells: BTreeMap::new(),
            current: None,
            trial: None,
            cpu: Vec::new(),
            lines: VecDeque::new(),
            lines_gone: 0,
        })))
    }

    /// Locks the state.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a watcher of trials that writes to this board.
    pub(crate) fn watcher(&self) -> Watcher {
        let board = self.clone();
        Watcher::new(move |update| board.look(update))
    }

    /// Records what is seen of a running trial.
    pub(crate) fn look(&self, update: LiveUpdate) {
        self.state().look(update);
    }

    /// Keeps a line.
    pub(crate) fn say(&self, line: String) {
        let mut state = self.state();
        if state.lines.len() == LINES {
            state.lines.pop_front();
            state.lines_gone += 1;
        }
        state.lines.push_back(line);
    }

    /// Records an event of the run.
    pub(crate) fn see(&self, event: &Event<'_>) {
        self.state().see(event);
    }
}

impl State {
    /// Returns the expected time for the remaining visits, in seconds.
    pub(crate) fn remaining_s(&self) -> f64 {
        let (expected, then) = self.remaining;
        (expected.as_secs_f64() - then.elapsed().as_secs_f64()).max(0.0)
    }

    /// Returns the entry of a cell; makes it if there is none.
    fn cell(&mut self, cell: &CellRecord) -> &mut Cell {
        let new = || Cell { name: cell_name(cell), ..Cell::default() };
        self.cells.entry(labels(cell)).or_insert_with(new)
    }

    fn look(&mut self, update: LiveUpdate) {
        match update {
            LiveUpdate::Begins { pacing, duration } => {
                self.trial = Some(Running { pacing, duration, ..Running::default() });
            }
            LiveUpdate::Load(snapshot) => self.trial.get_or_insert_default().see(snapshot),
            LiveUpdate::Cpu(cpu) => self.cpu = cpu,
            LiveUpdate::Ends => {
                if let Some(trial) = &mut self.trial {
                    trial.ended = true;
                }
            }
        }
    }

    fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::Begun(plan) => self.plan = (*plan).clone(),
            Event::SelfTest => self.phase = Phase::SelfTest,
            Event::Certified(certificate) => self.certified_qps = certificate.certified_qps,
            Event::Planned(cells, expected) => {
                self.remaining = (*expected, Instant::now());
                for cell in *cells {
                    self.cell(cell);
                }
            }
            Event::Visit { cell, number: (number, of), remaining, repeat } => {
                self.visits = (number.saturating_sub(1), *of);
                self.remaining = (*remaining, Instant::now());
                self.current = Some(labels(cell));
                self.phase = Phase::Visit(cell_name(cell), *repeat);
                (self.trial, self.cpu) = (None, Vec::new());
            }
            Event::Trial(cell, record) => {
                let cell = self.cell(cell);
                let trial = &record.trial;
                cell.trials += 1;
                cell.void += u64::from(trial.void.is_void());
                cell.sent += trial.sent;
                cell.answered += trial.answered;
                cell.valid += trial.valid;
                cell.lost += trial.lost;
                cell.last = Some(Box::new(trial.clone()));
            }
            Event::Visited { cell, found, .. } => {
                self.visits.0 = (self.visits.0 + 1).min(self.visits.1);
                self.current = None;
                let cell = self.cell(cell);
                match found {
                    Found::Void(_) => {}
                    Found::Capacity(capacity) => cell.capacity_qps = capacity.qps,
                    Found::Figures(figures) | Found::Replicated { figures, .. } => {
                        cell.figures.extend(
                            figures
                                .iter()
                                .map(|(name, unit, v)| ((name.to_string(), unit.to_string()), *v)),
                        )
                    }
                }
            }
            Event::Skipped(_) => self.skipped += 1,
            Event::SelfTestTrial(_)
            | Event::Serving(..)
            | Event::Forgotten(..)
            | Event::Kept(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_between_glimpses() {
        let board = Board::new();
        let pacing = Some(Pacing::Window { outstanding: 1 });
        board.look(LiveUpdate::Begins { pacing, duration: Nanos::from_secs(5) });
        for (at_s, sent, valid) in [(0.5, 100, 90), (1.0, 300, 290), (1.0, 300, 290)] {
            let snapshot = Snapshot { at_s, sent, valid, ..Snapshot::default() };
            board.look(LiveUpdate::Load(snapshot));
        }
        let trial = board.state().trial.clone().expect("begun");
        assert_eq!(trial.rates, [(200.0, 180.0), (400.0, 400.0)]);
        assert!(!trial.ended);
        board.look(LiveUpdate::Ends);
        assert!(board.state().trial.as_ref().is_some_and(|t| t.ended && t.pacing == pacing));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let board = Board::new();
        (0..LINES + 3).for_each(|i| board.say(i.to_string()));
        let state = board.state();
        assert_eq!((state.lines.len(), state.lines_gone, &*state.lines[0]), (LINES, 3, "3"));
        let mut running = Running::default();
        for i in 1..1_000 {
            running.see(Snapshot { at_s: f64::from(i), ..Snapshot::default() });
        }
        assert_eq!(running.rates.len(), POINTS);
    }
}
