//! The state of a running experiment, shared by the threads that report to it and show it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use experiment::VisitResult;
use lab::{Event, LiveUpdate, Watcher};
use measure::Nanos;
use report::live::{State, VisitProgress};

/// State of a run, shared by threads.
#[derive(Clone)]
pub(crate) struct Board {
    began: Instant,
    state: Arc<Mutex<State>>,
}

impl Board {
    pub(crate) fn new() -> Self {
        Board { began: Instant::now(), state: Arc::default() }
    }

    /// Locks the current state.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = Nanos::from(self.began.elapsed());
        state
    }

    /// Returns a watcher of trials that writes to this board.
    pub(crate) fn watcher(&self) -> Watcher {
        let board = self.clone();
        Watcher::new(move |update| {
            let mut state = board.state();
            match update {
                LiveUpdate::Begins { pacing, duration } => state.begin_trial(pacing, duration),
                LiveUpdate::Compares => state.begin_comparison(),
                LiveUpdate::Load(snapshot) => state.load(snapshot),
                LiveUpdate::Cpu(cpu) => state.cpu(cpu),
                LiveUpdate::Ends => state.end_trial(),
            }
        })
    }

    /// Records an event of the run.
    pub(crate) fn see(&self, event: &Event<'_>) {
        let mut state = self.state();
        match event {
            Event::Begun(plan) => state.begun(plan),
            Event::SelfTest(_) => state.self_test(),
            Event::Engine { certified_qps: Some(qps), .. } => state.certified(*qps),
            Event::Certified(_, certificate) => state.certified(certificate.certified_qps),
            Event::Planned(cells, expected) => state.planned(cells, *expected),
            Event::Visit { cell, repeat, number: (number, of), remaining } => {
                let course = VisitProgress { number: *number, of: *of, remaining: *remaining };
                state.visit(cell, *repeat, course);
            }
            Event::Trial(cell, record) => state.trial(cell, record),
            Event::Visited { cell, found, .. } => {
                state.visited();
                match found {
                    VisitResult::Void(_) | VisitResult::Answers(_) => {}
                    VisitResult::Capacity(capacity) => state.capacity(cell, capacity.qps),
                    VisitResult::Round(found) => state.capacity(cell, Some(found.round.qps)),
                    VisitResult::Figures(figures) | VisitResult::Replicated { figures, .. } => {
                        state.figures(cell, figures);
                    }
                }
            }
            Event::Skipped(_) => state.skip(),
            Event::SelfTestTrial(record) => state.self_test_trial(record),
            Event::SummedUp(cell) => {
                state.capacity(cell, cell.capacity.as_ref().map(|capacity| capacity.qps));
            }
            Event::Engine { .. } | Event::Serving(..) | Event::Forgotten(..) | Event::Kept(_) => {}
        }
    }
}
