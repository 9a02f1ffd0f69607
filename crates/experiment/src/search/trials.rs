//! The trials of a search in progress.

use measure::{Nanos, Qps};
use record::{Trial, TrialRecord};

use super::spec::Search;
use crate::bench::{Bench, BenchError, TrialSpec, pause_after};
use crate::names::{NameBudget, most_names};

/// Largest number of trials of one search: 2^30 is bracketed and bisected to 0.1 % in 50, and
/// MLRsearch sums up to some tens at each of a dozen rates.
const MAX_TRIALS: usize = 400;

/// Number of times that a void trial is run again.
const VOID_RETRIES: u32 = 2;

/// Factor of the number of retries at a rate that the Tester has reached before.
const DISTURBED_FACTOR: u32 = 3;

/// Number of rates that stay void for a reason that is independent of the rate, after which a
/// search ends.
const MOST_HOPELESS: u32 = 2;

/// Bounds of the share of the extrapolated clients (those who would use up the server's CPU) that a
/// server carries: six servers over three transports carried 0.75 to 1.1 of them, 0.9 on average.
const CARRIED_SHARES: [f64; 2] = [0.84, 1.0];

/// Least CPU share of a server in the last load from which its demand is computed.
const LOADED_SHARE: f64 = 0.5;

/// Number of trials without a valid answer after which a search ends.
const MOST_SILENT: u32 = 2;

/// The trials of a search in progress.
pub(super) struct Trials<'a> {
    pub(super) search: &'a Search,
    pub(super) bench: &'a mut dyn Bench,
    pub(super) names: &'a mut NameBudget,
    pub(super) repeat: u32,
    pub(super) on_trial: &'a mut dyn FnMut(&TrialRecord),
    pub(super) run: Vec<TrialRecord>,
    /// Rates between which the capacity is expected.
    pub(super) expected: Option<[f64; 2]>,
    /// Whether the demand for a client is still to be measured at a larger load.
    seeks_demand: bool,
    /// Number of rates, one after the other, that stayed void for a reason that is independent of
    /// the rate.
    hopeless: u32,
    /// Number of trials, one after the other, without a valid answer.
    silent: u32,
}

impl<'a> Trials<'a> {
    pub(super) fn new(
        search: &'a Search,
        bench: &'a mut dyn Bench,
        names: &'a mut NameBudget,
        repeat: u32,
        on_trial: &'a mut dyn FnMut(&TrialRecord),
    ) -> Self {
        Trials {
            search,
            bench,
            names,
            repeat,
            on_trial,
            run: Vec::new(),
            expected: search.expected,
            seeks_demand: search.client_names.is_some(),
            hopeless: 0,
            silent: 0,
        }
    }

    /// After a trial that passed, extrapolates how many clients the server's CPU is enough for, if
    /// each costs the same. Extrapolation ends with the first trial that uses half of the CPU.
    pub(super) fn expect_by_demand(&mut self, clients: f64, trial: &Trial) {
        let is_load = self.seeks_demand && !trial.void.is_void() && trial.passed == Some(true);
        let server = trial.cpu.get("dut").filter(|_| is_load && self.bench.hidden_cpu().is_none());
        let used = server.and_then(|cpu| cpu.used(trial.duration_s)).filter(|used| *used > 0.0);
        if let Some(used) = used {
            self.expected = Some(self.search.scaled(CARRIED_SHARES, clients / used));
            self.seeks_demand = used < LOADED_SHARE;
        }
    }

    /// Runs a trial, and repeats it after a pause while it is void. With `early_stop`, it ends as
    /// soon as it misses the goal for certain.
    pub(super) fn settled(
        &mut self,
        rate: f64,
        duration: Nanos,
        early_stop: bool,
    ) -> Result<Trial, BenchError> {
        let mut tries = 0;
        loop {
            let spec = self.spec(rate, duration, early_stop)?;
            let trial = self.trial(rate, &spec)?;
            tries += 1;
            if !trial.void.is_void() || tries > self.retries(rate) {
                let lasts = trial.void.0.as_ref().is_some_and(|why| !why.depends_on_rate())
                    || trial.tester_core_user().is_some();
                self.hopeless = if lasts { self.hopeless + 1 } else { 0 };
                return Ok(trial);
            }
            self.bench.pause(pause_after(tries));
        }
    }

    /// Runs a trial, and stores it.
    fn trial(&mut self, rate: f64, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let trial = self.bench.trial(spec)?;
        let record = TrialRecord { repeat: self.repeat, rate_qps: rate, trial };
        (self.on_trial)(&record);
        self.run.push(record.clone());
        let silent = record.trial.valid == 0 && !record.trial.void.is_void();
        self.silent = if silent { self.silent + 1 } else { 0 };
        if self.silent >= MOST_SILENT {
            let why = "no valid answer in two trials in a row: lower rates change nothing";
            return Err(BenchError::Failed(why.to_owned()));
        }
        Ok(record.trial)
    }

    /// Whether the Tester kept its schedule at `rate` or a higher one: so it can send that rate. A
    /// valid trial with late queries does not show that.
    pub(super) fn reached(&self, rate: f64) -> bool {
        self.run.iter().any(|record| record.rate_qps >= rate && record.trial.kept_its_schedule())
    }

    /// Returns the number of retries of a void trial at `rate`: more often if only a disturbance
    /// can be the cause.
    fn retries(&self, rate: f64) -> u32 {
        let factor = if self.reached(rate) { DISTURBED_FACTOR } else { 1 };
        VOID_RETRIES * factor
    }

    /// Returns whether further trials are of no use, or their limit is reached.
    pub(super) fn are_too_many(&self) -> bool {
        self.run.len() >= MAX_TRIALS || self.hopeless >= MOST_HOPELESS
    }

    /// Makes the specification of a trial at `rate` with unused names; clears the server's cache when they run out.
    fn spec(
        &mut self,
        rate: f64,
        duration: Nanos,
        early_stop: bool,
    ) -> Result<TrialSpec, BenchError> {
        let search = self.search;
        let pacing = search.pacing.at(Qps::new(rate).expect("a rate between two rates is valid"));
        let count = match search.client_names {
            Some(names) => names.count(rate, duration),
            None => most_names(pacing, duration),
        };
        let first_name = self.names.fresh(count, self.bench)?;
        let (timeout, goal) = (search.timeout, Some(search.goal.clone()));
        Ok(TrialSpec {
            goal,
            early_stop,
            first_name,
            names: count,
            ..TrialSpec::new(pacing, duration, timeout)
        })
    }
}
