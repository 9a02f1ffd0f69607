//! The Tester's findings, compared with known values: servers whose behaviour is set, and a capture
//! beside the server.
//!
//! ```text
//! plan ──> behaviour of a server ──> trials and searches of the Tester ──> found ─┐
//!                                └─> capture in the server's namespace ───────────┼──> checks ──> certificate
//!                                                                         known ──┘
//! ```
//!
//! A value that is wrong because the machine stalled is Tester-limited, and the check names the
//! stall. Any other value beyond its bound is a failure. This module is pure: a [`TruthBench`]
//! starts the servers, runs the trials and captures.

mod agreement;
mod behaviour;
mod captured;
mod judge;
mod law;
mod plan;
mod table;
mod way;

use measure::{Nanos, Pacing, Qps, Transport};
use record::{Check, CheckVerdict, Coverage, EngineKind, Trial};

pub use self::behaviour::{Behaviour, Bimodal, Late, TokenBucket};
pub use self::captured::{Capture, Captured, INTERVAL};
use self::judge::Outcome;
pub use self::judge::{against_capture, behaviour_checks, median_checks};
pub use self::plan::VerifyPlan;
pub use self::table::Case;
use self::way::Loops;
pub use self::way::{ServerCounts, Way};
use crate::bench::{Bench, BenchError, TrialSpec, pause_after};
use crate::names::NameBudget;
use crate::search::{Rule, Search, SearchTrace};

/// Number of retries of a trial that a disturbance spoiled.
const RETRIES: u32 = 2;
/// Burst of a server of a known capacity.
const SERVER_BURST: Nanos = Nanos::from_millis(5);

/// Names of searches: the server remembers none.
fn names() -> NameBudget {
    NameBudget::new(1 << 30, true)
}

/// A bench whose server has a known behaviour.
pub trait TruthBench: Bench {
    /// Starts a server of this behaviour, and ends the previous one.
    ///
    /// # Errors
    /// If it does not start.
    fn serve(&mut self, behaviour: &Behaviour) -> Result<(), BenchError>;

    /// Sends the queries of later trials by an engine; the server is restarted before them.
    ///
    /// # Errors
    /// If there is no such engine here.
    fn use_engine(&mut self, engine: EngineKind) -> Result<(), BenchError>;

    /// Sends the queries of later trials by the transport and clients of `way`; the server keeps
    /// running.
    ///
    /// # Errors
    /// If the transport or the clients are not possible.
    fn use_way(&mut self, way: Way) -> Result<(), BenchError>;

    /// Lets the numbers of later trials be connections a second, each with one query, or queries a second.
    ///
    /// # Errors
    /// As [`use_way`](Self::use_way).
    fn search_connections(&mut self, connections: bool) -> Result<(), BenchError>;

    /// Ends the server; returns its counters.
    ///
    /// # Errors
    /// If it has failed.
    fn server_counts(&mut self) -> Result<ServerCounts, BenchError>;

    /// Runs a trial and captures it beside the server.
    ///
    /// # Errors
    /// If the trial cannot run; a capture that is not allowed is no error.
    fn captured_trial(&mut self, spec: &TrialSpec) -> Result<(Trial, Capture), BenchError>;
}

/// Result of a verification: its checks, and the certified rates.
#[derive(Debug, Default)]
pub struct Verified {
    /// Checks in the order in which they were made.
    pub checks: Vec<Check>,
    /// Highest capacity that was found right, in queries a second; zero if none was, or if any check failed.
    pub certified_qps: f64,
    /// Pacings and transports whose checks passed; none if any check failed.
    pub coverage: Vec<Coverage>,
    /// Error that ended the verification early.
    pub error: Option<BenchError>,
}

/// Makes the checks of `plan` on `bench`; calls `seen` with each. An error keeps the checks before it.
pub fn verify(
    plan: &VerifyPlan,
    bench: &mut dyn TruthBench,
    on_check: &mut dyn FnMut(&Check),
) -> Verified {
    let (done, loops) = (Verified::default(), Loops::default());
    let mut verifying = RunningVerification { plan, bench, on_check, done, spoiled: 0, loops };
    let error = verifying.run().err();
    let done = verifying.done;
    let failed = done.checks.iter().any(Check::is_failed) || error.is_some();
    let (certified_qps, coverage) =
        if failed { (0.0, Vec::new()) } else { (done.certified_qps, done.coverage) };
    Verified { certified_qps, coverage, error, ..done }
}

/// A verification in progress: its plan, its bench and the results so far.
struct RunningVerification<'a> {
    plan: &'a VerifyPlan,
    bench: &'a mut dyn TruthBench,
    on_check: &'a mut dyn FnMut(&Check),
    done: Verified,
    /// Number of trials that were run again since a disturbance had spoiled them.
    spoiled: u32,
    /// Closed loops since the server was started.
    loops: Loops,
}

impl RunningVerification<'_> {
    fn run(&mut self) -> Result<(), BenchError> {
        for case in self.plan.cases() {
            self.settled(&case)?;
        }
        self.windows()?;
        self.bench.use_way(Way::SOCKETS)?;
        let mut found = Vec::new();
        for &rate in &self.plan.capacities {
            found.extend(self.capacity(rate)?.map(|trace| (rate, trace)));
        }
        for transport in [Transport::Tcp, Transport::Tls] {
            for &rate in &self.plan.accept_rates {
                self.connections(transport, rate)?;
            }
        }
        if self.plan.in_kernel() { self.agree(&found) } else { Ok(()) }
    }

    /// Returns whether failed checks are repeated after a pause: times and rates up to three times
    /// in a row, since the machine may be the cause. A count that is wrong is never taken back, and
    /// a wrong known value stays wrong.
    fn again(&mut self, checks: &[Check], tries: &mut u32) -> bool {
        *tries += 1;
        let missed =
            |c: &&Check| matches!(c.verdict, CheckVerdict::Failed | CheckVerdict::TesterLimited);
        let missed: Vec<&Check> = checks.iter().filter(missed).collect();
        let is_spoiled = |check: &&Check| check.verdict == CheckVerdict::TesterLimited;
        let spoiled = missed.iter().all(is_spoiled);
        let again = !missed.is_empty()
            && missed.iter().all(|check| is_spoiled(check) || !check.unit.is_empty())
            && !(spoiled && self.spoiled == self.plan.spoiled)
            && *tries <= RETRIES
            && self.plan.wrong == 0.0;
        if again {
            self.spoiled += u32::from(spoiled);
            self.bench.pause(pause_after(*tries));
        }
        again
    }

    /// Adds the checks of a row of the table.
    fn settled(&mut self, case: &Case) -> Result<(), BenchError> {
        let spec = VerifyPlan::spec(case.pacing, case.duration);
        let mut tries = 0;
        let (checks, rate) = loop {
            self.bench.use_way(case.way)?;
            self.bench.serve(&case.behaviour)?;
            let (trial, capture) = if case.captured {
                let (trial, capture) = self.bench.captured_trial(&spec)?;
                (trial, Some(capture))
            } else {
                (self.bench.trial(&spec)?, None)
            };
            let counted = self.bench.server_counts()?;
            let rate = Qps::new(trial.offered_qps).unwrap_or_default();
            let checks = judge::row(case, &Outcome { trial, counted, capture }, self.plan.wrong);
            if !self.again(&checks, &mut tries) {
                break (checks, rate);
            }
        };
        self.add_all(case.way, case.pacing, rate, checks);
        Ok(())
    }

    /// Searches the connections a second of a server that accepts `rate`.
    fn connections(&mut self, transport: Transport, rate: Qps) -> Result<(), BenchError> {
        let way = Way { per_connection: Some(1), ..Way::of(transport, 100) };
        self.bench.use_way(way)?;
        self.bench.serve(&Behaviour { accept_rate: Some(rate), ..Behaviour::default() })?;
        self.bench.search_connections(true)?;
        let (start, min, max) = (plan::rate(100.0), plan::rate(20.0), plan::rate(2e3));
        let search = Search { rule: Rule::Rfc8219, start, min, max, ..self.plan.search.clone() };
        let trace = search.run(self.bench, &mut names(), 0, &mut |_| ());
        self.bench.search_connections(false)?;
        let known = rate.get() * (1.0 + self.plan.wrong);
        self.add(judge::connections(transport, known, &trace?));
        Ok(())
    }

    /// Searches the capacity of a server that has `rate`; returns the last search.
    fn capacity(&mut self, rate: Qps) -> Result<Option<SearchTrace>, BenchError> {
        let plan = self.plan;
        let bucket = TokenBucket { rate, burst: SERVER_BURST };
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
        self.plan.search.run(self.bench, &mut names(), repeat, &mut |_| ())
    }

    /// Adds the checks of a trial, and that its way and pacing are covered if none has failed and one has passed.
    fn add_all(&mut self, way: Way, pacing: Pacing, rate: Qps, checks: Vec<Check>) {
        let has = |verdict| checks.iter().any(|check| check.verdict == verdict);
        if has(CheckVerdict::Passed) && !has(CheckVerdict::TesterLimited) {
            let engine = match way.clients {
                None => self.plan.engine,
                Some(_) => EngineKind::Streams,
            };
            Coverage::add(&mut self.done.coverage, engine, way.transport, pacing, rate);
        }
        checks.into_iter().for_each(|check| self.add(check));
    }

    fn add(&mut self, check: Check) {
        (self.on_check)(&check);
        self.done.checks.push(check);
    }
}
