//! One visit to a cell: runs the method's trials on a bench, and returns the result for the cell.
//!
//! [`Replay`] resumes a visit that was interrupted: it returns the stored trials to the method in their order, and
//! only then runs new ones. A method decides by its trials alone, so that it reaches the same state.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use measure::pacing::EXPERIMENT;
use measure::{Limiter, Nanos, Pacing, Void};
use record::{
    AnswerDiff, Capacity, CellRecord, Figure, LockStepRow, Seen, Trial, TrialRecord, VoidRepeat,
};

use crate::answers::{self, ComparedAnswers};
use crate::bench::{
    Bench, BenchError, GeneratorSpec, GeneratorTimes, LockStepSpec, TrialSpec, pause_after,
};
use crate::capacity::{NextRound, RoundFound};
use crate::conformance::{Circumstances, of_method};
use crate::drill::{DrillSpec, Drilled};
use crate::file::Role;
use crate::names::{NameBudget, most_names};
use crate::repeats::sum_up;
use crate::replication::Replication;
use crate::settings::{
    AnswersSettings, GeneratorSettings, LockStepSettings, Method, Settings, closed_names_per_s,
};

/// Number of times that a void trial is run again; a search has its own number.
const VOID_RETRIES: u32 = 2;
/// Share of the planned duration below which a closed loop counts as ended early.
const WHOLE_SHARE: f64 = 0.9;

/// Result of one visit, by the kind of its method.
#[derive(Clone, Debug, PartialEq)]
pub enum VisitResult {
    /// Capacity that one search found.
    Capacity(Capacity),
    /// A round of a capacity.
    Round(Box<RoundFound>),
    /// Figures of a method that finds no capacity.
    Figures(Figures),
    /// Figures with notes or a limiter, such as those of a primary under update and its secondaries.
    Replicated {
        /// Figures of the server under test, and of the whole group.
        figures: Figures,
        /// Figures of each secondary, in the cell's order.
        secondaries: Vec<Figures>,
        /// Limiter of the figures, if no trial has one.
        limiter: Option<Limiter>,
        /// Shortcomings of the server, in sentences for the cell's notes.
        notes: Vec<String>,
    },
    /// Answers of all servers, compared.
    Answers(Box<AnswerDiff>),
    /// No result: the trials stayed void.
    Void(VoidRepeat),
}

/// Figures of a method: the name, the unit and the value of each.
pub type Figures = Vec<(String, &'static str, f64)>;

/// Measures a cell once, as repeat number `repeat`; calls `seen` with each trial. Trials that stay void are
/// [`VisitResult::Void`]: no method makes a figure of them.
///
/// # Errors
/// The errors of the bench; `seen` has received the trials before.
pub fn visit(
    settings: &Settings,
    bench: &mut dyn Bench,
    names: &mut NameBudget,
    repeat: u32,
    seen: &mut dyn FnMut(&TrialRecord),
) -> Result<VisitResult, BenchError> {
    let visit = RunningVisit { settings, bench, names, repeat, seen };
    match visit.make() {
        Err(BenchError::Void(why)) => Ok(VisitResult::Void(VoidRepeat { repeat, why })),
        made => made,
    }
}

/// Returns the error that the experiment has no table of its method.
pub(crate) fn missing_table(table: &str) -> BenchError {
    BenchError::Failed(format!("the experiment has no table `[{table}]`"))
}

/// Makes figures of the values that are present.
fn present<const N: usize>(all: [(&str, &'static str, Option<f64>); N]) -> Figures {
    all.into_iter()
        .filter_map(|(name, unit, value)| Some((name.to_owned(), unit, value?)))
        .collect()
}

/// Makes the result of the values that are present.
pub(crate) fn figures<const N: usize>(all: [(&str, &'static str, Option<f64>); N]) -> VisitResult {
    VisitResult::Figures(present(all))
}

/// A visit in progress: one server at one point of the matrix, in one repeat.
pub(crate) struct RunningVisit<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) bench: &'a mut dyn Bench,
    names: &'a mut NameBudget,
    repeat: u32,
    seen: &'a mut dyn FnMut(&TrialRecord),
}

impl RunningVisit<'_> {
    /// Runs the method of the visit; returns [`BenchError::Void`] if its trials stay void.
    fn make(mut self) -> Result<VisitResult, BenchError> {
        match self.settings.method {
            Method::Search | Method::Clients => self.search(),
            Method::Capacity => self.round(),
            Method::Lockstep => self.lockstep(),
            Method::Load => self.load(),
            // The owner of the bench knows the loading time; the rate is measured afterwards.
            Method::ZoneLoad if !self.settings.zone_load.rate => {
                Ok(VisitResult::Figures(Vec::new()))
            }
            Method::Closed | Method::ZoneLoad => {
                self.closed().map(|qps| figures([("qps", "qps", Some(qps))]))
            }
            Method::Generators => self.generators(),
            Method::UpdateRate => self.update_rate(),
            Method::QueryUnderUpdate => self.under_update(),
            Method::SignedUnsigned => self.signed_unsigned(),
            Method::Drill => self.drill(),
            Method::Answers => self.answers(),
        }
    }

    /// Makes a round of a capacity.
    fn round(self) -> Result<VisitResult, BenchError> {
        let round = NextRound {
            settings: &self.settings.capacity,
            pacing: self.settings.tester.pacing,
            round: self.repeat,
            rounds: self.settings.repeats,
            bench: self.bench,
            names: self.names,
            seen: self.seen,
            tried: &mut |_| (),
        };
        Ok(VisitResult::Round(Box::new(round.make()?)))
    }

    /// Runs a search. It is void if no rate passed and the last trial was void.
    fn search(&mut self) -> Result<VisitResult, BenchError> {
        let search = self.settings.search().ok_or_else(|| missing_table("search"))?;
        let trace = search.run(self.bench, self.names, self.repeat, self.seen)?;
        match trace.void() {
            Some(why) => Err(BenchError::Void(why)),
            None => Ok(VisitResult::Capacity(trace.capacity)),
        }
    }

    /// Takes `count` unused names, or with `at_most` as many as there are; returns the first one and their number.
    pub(crate) fn names(&mut self, count: u64, at_most: bool) -> Result<(u64, u64), BenchError> {
        let count = if at_most { count.min(self.names.size()) } else { count };
        Ok((self.names.fresh(count, self.bench)?, count))
    }

    /// Runs a trial by `run`, and runs it again while it is void; reports each one and returns the last. Returns
    /// [`BenchError::Void`] if all are void.
    pub(crate) fn settled(
        &mut self,
        rate_qps: f64,
        mut run: impl FnMut(&mut Self) -> Result<Trial, BenchError>,
    ) -> Result<Trial, BenchError> {
        self.valid(
            |visit| {
                let trial = run(visit)?;
                Ok(visit.notify(rate_qps, trial))
            },
            |trial| trial.void.0.as_ref(),
        )
    }

    /// Returns the first result of `run` that is not void; pauses after each that is. Returns [`BenchError::Void`] if
    /// all are void.
    pub(crate) fn valid<T>(
        &mut self,
        run: impl FnMut(&mut Self) -> Result<T, BenchError>,
        void_of: impl Fn(&T) -> Option<&Void>,
    ) -> Result<T, BenchError> {
        self.retried(run, |result, tries| void_of(result).map(|why| void(tries, why)))
    }

    /// Returns the first result of `run` that is not void; pauses after each void one. `void_of`
    /// makes the error of a void result from the number of results so far; if all are void, the
    /// last error is returned.
    pub(crate) fn retried<T>(
        &mut self,
        mut run: impl FnMut(&mut Self) -> Result<T, BenchError>,
        void_of: impl Fn(&T, u32) -> Option<BenchError>,
    ) -> Result<T, BenchError> {
        let mut tries = 0;
        loop {
            let result = run(self)?;
            tries += 1;
            match void_of(&result, tries) {
                None => return Ok(result),
                Some(error) if tries > VOID_RETRIES => return Err(error),
                Some(_) => self.bench.pause(pause_after(tries)),
            }
        }
    }

    /// Runs a trial of plain queries in the same way, each time with unused names.
    fn trial(
        &mut self,
        rate_qps: f64,
        spec: &TrialSpec,
        at_most: bool,
    ) -> Result<Trial, BenchError> {
        self.settled(rate_qps, |visit| {
            let (first_name, names) = visit.names(spec.names, at_most)?;
            let trial = visit.bench.trial(&TrialSpec { first_name, names, ..spec.clone() })?;
            // A closed loop sends as many queries as the server answers.
            visit.names.note_use(names, trial.sent);
            Ok(trial)
        })
    }

    /// Reports a trial at `rate_qps` (0 if there is no set rate), and returns it.
    pub(crate) fn notify(&mut self, rate_qps: f64, trial: Trial) -> Trial {
        let rate_qps = if rate_qps > 0.0 { rate_qps } else { trial.offered_qps };
        let record = TrialRecord { repeat: self.repeat, rate_qps, trial };
        (self.seen)(&record);
        record.trial
    }

    /// Runs a trial at each rate. The figure comes from the rates that are not void;
    /// [`CellRecord::void_rates`] names the void ones.
    fn load(&mut self) -> Result<VisitResult, BenchError> {
        let load = self.settings.load.as_ref().ok_or_else(|| missing_table("load"))?;
        let mut best: Option<f64> = None;
        let mut void = None;
        for &rate in &load.rates {
            let pacing = self.settings.tester.pacing.at(rate);
            let spec = TrialSpec {
                names: most_names(pacing, load.duration),
                ..TrialSpec::new(pacing, load.duration, load.timeout)
            };
            match self.trial(rate.get(), &spec, false) {
                Ok(trial) => best = Some(trial.valid_qps().max(best.unwrap_or(0.0))),
                Err(BenchError::Void(why)) => void = Some(why),
                Err(other) => return Err(other),
            }
        }
        match (best, void) {
            (None, Some(why)) => Err(BenchError::Void(format!("at every rate, {why}"))),
            _ => Ok(figures([("highest_answered", "qps", best)])),
        }
    }

    /// Runs a closed loop; returns valid answers a second. A server that has used up the names before its end gets more of them.
    fn closed(&mut self) -> Result<f64, BenchError> {
        let closed = &self.settings.closed;
        let (pacing, seconds) =
            (Pacing::Window { outstanding: closed.window }, closed.duration.as_secs_f64());
        let (mut seen, mut valid) = (self.settings.capacity.known.qps.unwrap_or(0.0), 0.0);
        loop {
            let names = (closed_names_per_s(seen) * seconds) as u64;
            let spec = TrialSpec::new(pacing, closed.duration, closed.timeout);
            let trial = match self.trial(0.0, &TrialSpec { names, ..spec }, true) {
                // There are no names for another trial.
                Err(BenchError::Names(_)) if valid > 0.0 => return Ok(valid),
                trial => trial?,
            };
            let ended = trial.sent >= names && trial.duration_s < WHOLE_SHARE * seconds;
            if !ended || names >= self.names.size() {
                return Ok(trial.valid_qps());
            }
            (seen, valid) = (trial.achieved_qps(), trial.valid_qps());
        }
    }

    fn lockstep(&mut self) -> Result<VisitResult, BenchError> {
        let s = &self.settings.lockstep;
        let queries = u64::from(s.experiments) * u64::from(EXPERIMENT) * self.bench.testers();
        let LockStepSettings { lanes, experiments, new_threads, timeout } = *s;
        let row = self.valid(
            |visit| {
                let (first_name, _) = visit.names(queries, false)?;
                let spec = LockStepSpec { lanes, experiments, new_threads, timeout, first_name };
                let row = visit.bench.lockstep(&spec)?;
                (visit.seen)(&TrialRecord {
                    repeat: visit.repeat,
                    rate_qps: row.qps,
                    trial: row.trial.clone(),
                });
                Ok(row)
            },
            |row| row.trial.void.0.as_ref(),
        )?;
        let LockStepRow { mean_ms, std_dev_ms, max_ms, qps, cpu_percent, cpu_std_dev, .. } = row;
        Ok(figures([
            ("experiment_time", "ms", Some(mean_ms)),
            ("experiment_time_std_dev", "ms", Some(std_dev_ms)),
            ("experiment_time_max", "ms", Some(max_ms)),
            ("qps", "qps", Some(qps)),
            ("cpu", "%", cpu_percent),
            ("cpu_std_dev", "%", cpu_std_dev),
        ]))
    }

    fn generators(&mut self) -> Result<VisitResult, BenchError> {
        let s = &self.settings.generators;
        let GeneratorSettings { generator, experiments, processes } = *s;
        let wanted = s.names();
        let times = self.valid(
            |visit| {
                let (first_name, all) = visit.names(wanted, generator.is_timed())?;
                let names = all / u64::from(processes);
                let spec = GeneratorSpec { generator, experiments, processes, first_name, names };
                visit.bench.generate(&spec)
            },
            |times| times.void.as_ref(),
        )?;
        let GeneratorTimes { mean_s, std_dev_s, max_s, unanswered, cpu, warnings, .. } = times;
        let rate = (mean_s > 0.0).then(|| f64::from(processes * EXPERIMENT) / mean_s);
        let figures = present([
            ("experiment_time", "s", Some(mean_s)),
            ("experiment_time_std_dev", "s", std_dev_s),
            ("experiment_time_max", "s", max_s),
            ("requests_per_second", "1/s", rate),
            ("unanswered", "", Some(unanswered as f64)),
            ("cpu_tester", "%", cpu.tester),
            ("cpu_dut", "%", cpu.dut),
            ("cpu_authdns", "%", cpu.authdns),
        ]);
        let notes = warnings.iter().map(ToString::to_string).collect();
        Ok(VisitResult::Replicated { figures, secondaries: Vec::new(), limiter: None, notes })
    }
}

/// Returns the error that all of `tries` trials were void, the last one because of `why`.
fn void(tries: u32, why: &Void) -> BenchError {
    BenchError::Void(format!("{tries} of {tries} trials: {why}"))
}

/// Adds the result of a visit to its cell, as a repeat or as a void one.
pub fn add_visit(
    cell: &mut CellRecord,
    settings: &Settings,
    found: VisitResult,
    circumstances: &Circumstances,
) {
    let mut told = None;
    cell.repeats += u32::from(!matches!(found, VisitResult::Void(_)));
    match found {
        VisitResult::Void(void) => cell.void_repeats.push(void),
        VisitResult::Capacity(capacity) => cell.capacities.push(capacity),
        VisitResult::Round(found) => found.add_to(cell),
        VisitResult::Figures(figures) => add_figures(&mut cell.figures, figures),
        VisitResult::Answers(diff) => {
            add_figures(&mut cell.figures, answers::figures(&diff, &cell.server));
            // The first server has the comparison for all of them.
            cell.answers = Some(diff).filter(|diff| diff.servers[0].name == cell.server);
        }
        VisitResult::Replicated { figures, secondaries, limiter, notes } => {
            notes.into_iter().for_each(|note| cell.note(note));
            add_figures(&mut cell.figures, figures);
            for (secondary, figures) in cell.secondaries.iter_mut().zip(secondaries) {
                add_figures(&mut secondary.figures, figures);
            }
            told = limiter;
        }
    }
    match settings.search() {
        Some(search) if settings.method.searches() => {
            sum_up(cell, &search, settings.repeats, circumstances);
            if let Some(unit) = settings.method.over() {
                cell.set_over(unit);
            }
        }
        // Only a search finds a capacity; the limiter of the trials is reported too.
        _ => {
            cell.limiter = match told {
                Some(limiter) if cell.repeats <= 1 || cell.limiter == limiter => limiter,
                Some(_) => Limiter::Unknown,
                None => cell.limiters().common().unwrap_or_default(),
            };
            cell.differs = of_method(settings);
            if settings.role == Role::Dns64 {
                cell.differs.extend(circumstances.differences());
            }
        }
    }
}

/// Adds the figures of one more repeat.
fn add_figures(to: &mut BTreeMap<String, Figure>, figures: Figures) {
    for (name, unit, value) in figures {
        let empty = || Figure::new(unit, Vec::new());
        to.entry(name).or_insert_with(empty).values.push(value);
    }
}

/// A bench that returns stored trials before it runs new ones.
pub struct Replay<'a> {
    bench: &'a mut dyn Bench,
    kept: VecDeque<TrialRecord>,
    /// Set when stored trials do not fit, and are dropped.
    dropped: &'a Cell<bool>,
}

impl<'a> Replay<'a> {
    /// Replays `kept`, the trials of one repeat in their order, and continues with `bench`. If the
    /// method requests another trial than the next stored one, the rest of them is dropped and
    /// `dropped` is set.
    pub fn new(bench: &'a mut dyn Bench, kept: Vec<TrialRecord>, dropped: &'a Cell<bool>) -> Self {
        Replay { bench, kept: kept.into(), dropped }
    }
}

impl Bench for Replay<'_> {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let rate = spec.pacing.peak_rate();
        match self.kept.pop_front() {
            Some(kept) if rate.is_none_or(|rate| rate.get() == kept.rate_qps) => Ok(kept.trial),
            None => self.bench.trial(spec),
            // The method has changed, or starts near the result of another repeat.
            Some(_) => {
                self.kept.clear();
                self.dropped.set(true);
                self.bench.trial(spec)
            }
        }
    }

    fn pause(&mut self, time: Nanos) {
        if self.kept.is_empty() {
            self.bench.pause(time);
        }
    }

    fn forget_names(&mut self) -> Result<bool, BenchError> {
        self.bench.forget_names()
    }

    fn start_anew(&mut self) -> Result<(), BenchError> {
        self.bench.start_anew()
    }

    fn hidden_cpu(&self) -> Option<Seen> {
        self.bench.hidden_cpu()
    }

    fn idle_share(&mut self, time: Nanos) -> Result<Option<f64>, BenchError> {
        self.bench.idle_share(time)
    }

    fn testers(&self) -> u64 {
        self.bench.testers()
    }

    fn lockstep(&mut self, spec: &LockStepSpec) -> Result<LockStepRow, BenchError> {
        self.bench.lockstep(spec)
    }

    fn generate(&mut self, spec: &GeneratorSpec) -> Result<GeneratorTimes, BenchError> {
        self.bench.generate(spec)
    }

    fn drill(&mut self, spec: &DrillSpec) -> Result<Drilled, BenchError> {
        self.bench.drill(spec)
    }

    fn compare_answers(&mut self, spec: &AnswersSettings) -> Result<ComparedAnswers, BenchError> {
        self.bench.compare_answers(spec)
    }

    fn replication(&mut self) -> Result<&mut dyn Replication, BenchError> {
        self.bench.replication()
    }
}
