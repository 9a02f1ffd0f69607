//! The engine that is verified, compared with sockets: both measure one server, and their findings
//! must agree.

use measure::{Nanos, Qps};
use record::{Bound, Check, CheckVerdict, EngineKind, Known, Trial, TruthSource};

use super::judge::{below, tester_limited, void};
use super::{Behaviour, Bimodal, RunningVerification, TokenBucket, VerifyPlan};
use crate::bench::{BenchError, pause_after};
use crate::search::SearchTrace;

/// Largest difference of capacities, in percent.
const CAPACITY: Bound = Bound::Percent(3.0);
/// Largest difference of percentiles: the larger of microseconds, and of a share of the percentile.
const LATENCY_US: f64 = 5.0;
const LATENCY_SHARE: f64 = 0.05;
/// The two latencies of the server, and the share of the low one: no percentile is between them.
const LOW_LATENCY: Nanos = Nanos::from_millis(2);
const HIGH_LATENCY: Nanos = Nanos::from_millis(20);
const LOW_SHARE: f64 = 0.8;
/// Number of retries of a comparison that a disturbance spoiled.
const RETRIES: u32 = 2;

impl RunningVerification<'_> {
    /// Compares the engine with sockets: the capacity of a server of each rate, for which `found`
    /// has the searches of the engine, and the percentiles of a server with two latencies.
    pub(super) fn agree(&mut self, found: &[(Qps, SearchTrace)]) -> Result<(), BenchError> {
        self.bench.use_engine(EngineKind::Sockets)?;
        for (rate, trace) in found {
            let bucket = TokenBucket { rate: *rate, burst: super::SERVER_BURST };
            self.bench.serve(&Behaviour { capacity: Some(bucket), ..Behaviour::default() })?;
            let sockets = self.search(0)?;
            self.add(capacity(*rate, &sockets, trace));
        }
        let latency = Some(Bimodal { share: LOW_SHARE, low: LOW_LATENCY, high: HIGH_LATENCY });
        let checks = self.both(&Behaviour { latency, ..Behaviour::default() })?;
        checks.into_iter().for_each(|check| self.add(check));
        Ok(())
    }

    /// Compares the percentiles that both engines find; repeats this while disturbances spoil it.
    fn both(&mut self, behaviour: &Behaviour) -> Result<Vec<Check>, BenchError> {
        let spec = VerifyPlan::trial(self.plan.behaviour_rate, self.plan.duration);
        let mut tries = 0;
        loop {
            let mut trials = Vec::new();
            for engine in [EngineKind::Sockets, EngineKind::Kernel] {
                self.bench.use_engine(engine)?;
                self.bench.serve(behaviour)?;
                trials.push(self.bench.trial(&spec)?);
            }
            let checks = percentiles(&trials[0], &trials[1], self.plan.wrong);
            tries += 1;
            let limited = checks.iter().any(|c| c.verdict == CheckVerdict::TesterLimited);
            if !limited || tries > RETRIES {
                return Ok(checks);
            }
            self.bench.pause(pause_after(tries));
        }
    }
}

/// Makes the check that compares the capacity that an engine found with the sockets' capacity.
fn capacity(rate: Qps, sockets: &SearchTrace, trace: &SearchTrace) -> Check {
    let name = format!("capacity {} by both engines", rate.exact());
    let known = |value| Known { truth: TruthSource::Sockets, value, unit: "qps", bound: CAPACITY };
    let (Some(value), Some(found)) = (sockets.capacity.qps, trace.capacity.qps) else {
        let none = if sockets.capacity.qps.is_none() { sockets } else { trace };
        let check = Check::without(name, known(rate.get()), CheckVerdict::NotMade);
        return check.because(none.capacity.verdict.clone());
    };
    tester_limited(Check::compare(name, known(value), found), || {
        let lower = if found < value { trace } else { sockets };
        below(value.max(found), lower)
    })
}

/// Makes the checks that compare the kernel's percentiles with the sockets'; `wrong` is the share
/// by which the sockets' are wrong on purpose.
fn percentiles(sockets: &Trial, kernel: &Trial, wrong: f64) -> Vec<Check> {
    let (known, found) = (&sockets.latency_us, &kernel.latency_us);
    let all = [
        ("p50", known.p50, found.p50),
        ("p90", known.p90, found.p90),
        ("p99", known.p99, found.p99),
    ];
    let compare = |(name, known, found): (&str, f64, f64)| {
        let value = known * (1.0 + 2.0 * wrong);
        let bound = Bound::Absolute((LATENCY_SHARE * value).max(LATENCY_US));
        let known = Known { truth: TruthSource::Sockets, value, unit: "us", bound };
        let check = Check::compare(format!("latency {name} by both engines"), known, found);
        tester_limited(check, || void(sockets).or_else(|| void(kernel)))
    };
    all.map(compare).into()
}
