//! The Tester, held against known truths: servers whose behaviour is set, and a capture beside the server.
//!
//! ```text
//! plan ──> behaviour of a server ──> trials and searches of the Tester ──> found ─┐
//!                                └─> capture in the server's namespace ───────────┼──> checks ──> certificate
//!                                                                         known ──┘
//! ```
//!
//! A value that is off because the machine stood still is Tester-limited, and the check says which stall it was. Any
//! other value beyond its bound is a failure. This module is pure: a [`TruthBench`] starts the servers, runs the trials
//! and captures.

mod agreement;
mod behaviour;
mod captured;
mod judge;

use measure::{Goal, Nanos, OpenPacing, Pacing, Qps};
use record::{Check, CheckVerdict, EngineKind, Trial};

pub use self::behaviour::{Behaviour, Bimodal, Late, TokenBucket};
pub use self::captured::{Capture, Captured, INTERVAL};
pub use self::judge::{against_capture, behaviour_checks};
use crate::bench::{Bench, BenchError, SlowCores, TrialSpec, pause_after};
use crate::names::NameBudget;
use crate::search::{Rule, Search, SearchTrace};

/// Number of times that a trial which the machine spoiled is run again.
const RETRIES: u32 = 2;
/// Timeout of single trials.
const TIMEOUT: Nanos = Nanos::from_millis(250);
/// Late replies come so long after the timeout.
const LATE_BY: Nanos = Nanos::from_millis(10);
/// Burst of a server of a known capacity.
const BURST: Nanos = Nanos::from_millis(5);

/// What is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyPlan {
    /// Capacities of servers that are searched.
    pub capacities: Vec<Qps>,
    /// Number of searches for each capacity.
    pub repeats: u32,
    /// Search for a capacity.
    pub search: Search,
    /// Rates of the trials that are captured.
    pub rates: Vec<Qps>,
    /// Rate of the trials against losses, duplicates, late replies and latencies.
    pub behaviour_rate: Qps,
    /// Duration of single trials.
    pub duration: Nanos,
    /// Share by which the known values are wrong on purpose; 0 for right ones.
    pub wrong: f64,
    /// Whether the engine, the kernel, is held against sockets too.
    pub beside_sockets: bool,
}

impl VerifyPlan {
    /// Returns the whole plan: about two minutes.
    pub fn full() -> Self {
        let all = [5e3, 20e3, 50e3, 100e3].map(rate).to_vec();
        VerifyPlan {
            capacities: all.clone(),
            repeats: 1,
            search: search(Nanos::from_secs(1), Nanos::from_millis(200), 0.005, 200e3),
            rates: all,
            behaviour_rate: rate(10e3),
            duration: Nanos::from_secs(3),
            wrong: 0.0,
            beside_sockets: false,
        }
    }

    /// Returns the short plan: about a quarter of a minute.
    pub fn quick() -> Self {
        let some = [5e3, 20e3].map(rate).to_vec();
        VerifyPlan {
            capacities: some,
            search: search(Nanos::from_millis(250), Nanos::from_millis(100), 0.005, 50e3),
            rates: vec![rate(20e3)],
            behaviour_rate: rate(5e3),
            duration: Nanos::from_secs(1),
            ..VerifyPlan::full()
        }
    }

    /// Returns the server for losses, duplicates and latencies. The 99th percentile is a slow reply, not a lost one.
    pub fn behaviour() -> Behaviour {
        let (low, high) = (Nanos::from_millis(2), Nanos::from_millis(20));
        Behaviour {
            latency: Some(Bimodal { share: 0.9, low, high }),
            loss: 0.005,
            duplicates: 0.02,
            ..Behaviour::default()
        }
    }

    /// Returns the server of late replies.
    fn late() -> Behaviour {
        let late = Late { share: 0.01, after: TIMEOUT + LATE_BY };
        Behaviour { late: Some(late), ..Behaviour::default() }
    }

    /// Returns the trial against a server of a behaviour, for `duration`.
    pub fn trial(rate: Qps, duration: Nanos) -> TrialSpec {
        let names = rate.queries_in(duration);
        let pacing = Pacing::Constant { rate };
        let (goal, early_stop) = (None, false);
        TrialSpec {
            pacing,
            duration,
            timeout: TIMEOUT,
            goal,
            early_stop,
            first_name: 0,
            names,
            slow_cores: SlowCores::Void,
        }
    }
}

/// A rate that is valid.
fn rate(qps: f64) -> Qps {
    Qps::new(qps).expect("a rate")
}

/// The search that `dnsdyno search` makes, within a range that does not tell the capacity.
fn search(trial: Nanos, timeout: Nanos, resolution: f64, max: f64) -> Search {
    Search {
        rule: Rule::Mlrsearch { also: Vec::new(), duration_sum: Nanos(trial.0 * 5) },
        goal: Goal::zero_loss(),
        start: rate(10e3),
        min: rate(1e3),
        max: rate(max),
        resolution,
        duration: trial,
        timeout,
        void_retries: RETRIES,
        near: false,
        client_names: None,
        pacing: OpenPacing::Constant,
    }
}

/// A bench whose server has a known behaviour.
pub trait TruthBench: Bench {
    /// Starts a server of this behaviour, and ends the one before.
    ///
    /// # Errors
    /// If it does not start.
    fn serve(&mut self, behaviour: &Behaviour) -> Result<(), BenchError>;

    /// Sends the queries of later trials by an engine; the server is started anew before them.
    ///
    /// # Errors
    /// If there is no such engine here.
    fn carry_by(&mut self, engine: EngineKind) -> Result<(), BenchError>;

    /// Runs a trial and captures it beside the server.
    ///
    /// # Errors
    /// If the trial cannot run. A capture that is not allowed is none.
    fn captured(&mut self, spec: &TrialSpec) -> Result<(Trial, Capture), BenchError>;
}

/// Result of a verification.
#[derive(Debug, Default)]
pub struct Verified {
    /// Checks in order.
    pub checks: Vec<Check>,
    /// Highest capacity that was found right, in queries a second; zero if none was, or if any check failed.
    pub certified_qps: f64,
    /// Error that ended the verification early.
    pub error: Option<BenchError>,
}

/// Makes the checks of `plan` on `bench`; calls `seen` with each. An error keeps the checks before it.
pub fn verify(
    plan: &VerifyPlan,
    bench: &mut dyn TruthBench,
    seen: &mut dyn FnMut(&Check),
) -> Verified {
    let mut verifying = Verifying { plan, bench, seen, done: Verified::default() };
    let error = verifying.run().err();
    let done = verifying.done;
    let failed = done.checks.iter().any(Check::is_failed) || error.is_some();
    let certified_qps = if failed { 0.0 } else { done.certified_qps };
    Verified { certified_qps, error, ..done }
}

/// A verification in progress.
struct Verifying<'a> {
    plan: &'a VerifyPlan,
    bench: &'a mut dyn TruthBench,
    seen: &'a mut dyn FnMut(&Check),
    done: Verified,
}

impl Verifying<'_> {
    fn run(&mut self) -> Result<(), BenchError> {
        self.bench.serve(&Behaviour::default())?;
        for &rate in &self.plan.rates {
            let wrong = self.plan.wrong;
            self.settled(rate, |trial, capture| judge::sending(rate, trial, capture, wrong))?;
        }
        for behaviour in [VerifyPlan::behaviour(), VerifyPlan::late()] {
            self.bench.serve(&behaviour)?;
            let (rate, wrong) = (self.plan.behaviour_rate, self.plan.wrong);
            self.settled(rate, |trial, capture| {
                behaviour_checks(&behaviour, trial, Some(capture), wrong)
            })?;
        }
        let mut found = Vec::new();
        for &rate in &self.plan.capacities {
            found.extend(self.capacity(rate)?.map(|trace| (rate, trace)));
        }
        if self.plan.beside_sockets { self.agree(&found) } else { Ok(()) }
    }

    /// Adds the checks of a trial at `rate`; runs it again while the machine spoils it.
    fn settled(
        &mut self,
        rate: Qps,
        judge: impl Fn(&Trial, &Capture) -> Vec<Check>,
    ) -> Result<(), BenchError> {
        let mut tries = 0;
        let checks = loop {
            let spec = VerifyPlan::trial(rate, self.plan.duration);
            let (trial, capture) = self.bench.captured(&spec)?;
            let checks = judge(&trial, &capture);
            tries += 1;
            let limited = checks.iter().any(|c| c.verdict == CheckVerdict::TesterLimited);
            if !limited || tries > RETRIES {
                break checks;
            }
            self.bench.pause(pause_after(tries));
        };
        checks.into_iter().for_each(|check| self.add(check));
        Ok(())
    }

    /// Searches the capacity of a server that has `rate`; returns the last search.
    fn capacity(&mut self, rate: Qps) -> Result<Option<SearchTrace>, BenchError> {
        let plan = self.plan;
        let bucket = TokenBucket { rate, burst: BURST };
        self.bench.serve(&Behaviour { capacity: Some(bucket), ..Behaviour::default() })?;
        let (mut passed, mut last) = (false, None);
        for repeat in 0..plan.repeats {
            let trace = self.search(repeat)?;
            let known = bucket.lossless(plan.search.duration) * (1.0 + plan.wrong);
            let check = judge::capacity(rate, known, &trace);
            passed |= check.verdict == CheckVerdict::Passed;
            self.add(check);
            last = Some(trace);
        }
        if passed {
            self.done.certified_qps = self.done.certified_qps.max(rate.get());
        }
        Ok(last)
    }

    /// Searches the capacity of the server that runs.
    fn search(&mut self, repeat: u32) -> Result<SearchTrace, BenchError> {
        // The server remembers no names.
        let mut names = NameBudget::new(1 << 30, true);
        self.plan.search.run(self.bench, &mut names, repeat, &mut |_| ())
    }

    fn add(&mut self, check: Check) {
        (self.seen)(&check);
        self.done.checks.push(check);
    }
}
