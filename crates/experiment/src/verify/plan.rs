//! Plan of a verification.

use measure::{Goal, Nanos, OpenPacing, Pacing, Qps};
use record::EngineKind;

use super::behaviour::{Behaviour, Bimodal, Late};
use super::way::Way;
use crate::bench::TrialSpec;
use crate::search::{Rule, Search};

/// Timeout of the queries of trials that are no search.
pub(super) const TIMEOUT: Nanos = Nanos::from_millis(250);
/// Time after the timeout at which late replies come.
pub(super) const LATE_BY: Nanos = Nanos::from_millis(10);
/// Names of a closed loop.
const WINDOW_NAMES: u64 = 1 << 20;

/// The plan of a verification: capacities, captured rates, behaviours, ways and windows.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyPlan {
    /// Capacities of servers that are searched.
    pub capacities: Vec<Qps>,
    /// Number of searches for each capacity.
    pub repeats: u32,
    /// Settings with which each capacity is searched.
    pub search: Search,
    /// Rates of the trials that are captured.
    pub rates: Vec<Qps>,
    /// Rate of the trials with known losses, duplicates, late replies and latencies.
    pub behaviour_rate: Qps,
    /// Duration of each trial that is no search.
    pub duration: Nanos,
    /// Ways whose pacings, behaviours and windows are checked.
    pub ways: Vec<Way>,
    /// Number of clients with which behaviours are checked, and captures are taken.
    pub behaviour_clients: u32,
    /// Mean rate of the trials with such clients.
    pub way_rate: Qps,
    /// Duration of the trials with such clients, without a capture.
    pub way_duration: Nanos,
    /// Delays of servers, each with the windows that are checked by Little's law.
    pub windows: Vec<(Nanos, Vec<u32>)>,
    /// Connections a second that servers accept, each searched over TCP and over TLS.
    pub accept_rates: Vec<Qps>,
    /// Share by which the known values are wrong on purpose; 0 for right ones.
    pub wrong: f64,
    /// Engine for queries without clients; the kernel is also compared with sockets.
    pub engine: EngineKind,
    /// Largest number of trials that are run again because the machine disturbed them. With more,
    /// the machine is disturbed all the time.
    pub spoiled: u32,
}

impl VerifyPlan {
    /// Returns the whole plan: less than four minutes.
    pub fn full() -> Self {
        let all = [5e3, 20e3, 50e3, 100e3].map(rate).to_vec();
        VerifyPlan {
            capacities: all.clone(),
            repeats: 1,
            search: search(Nanos::from_secs(1), Nanos::from_millis(200), 0.005, 200e3),
            rates: all,
            behaviour_rate: rate(10e3),
            duration: Nanos::from_secs(1),
            ways: VerifyPlan::all_ways(&[1, 8, 100]),
            behaviour_clients: 8,
            way_rate: rate(2e3),
            way_duration: Nanos::from_millis(300),
            windows: [100, 1_000, 10_000]
                .map(|us| (Nanos::from_micros(us), vec![1, 8, 100, 1_000]))
                .to_vec(),
            accept_rates: vec![rate(300.0)],
            wrong: 0.0,
            engine: EngineKind::Sockets,
            spoiled: 40,
        }
    }

    /// Returns the short plan: about half a minute.
    pub fn quick() -> Self {
        VerifyPlan {
            capacities: vec![rate(20e3)],
            search: search(Nanos::from_millis(250), Nanos::from_millis(100), 0.005, 50e3),
            rates: vec![rate(20e3)],
            behaviour_rate: rate(5e3),
            duration: Nanos::from_millis(500),
            ways: VerifyPlan::all_ways(&[8]),
            way_duration: Nanos::from_millis(200),
            windows: [(1, 8), (10, 100)]
                .map(|(ms, window)| (Nanos::from_millis(ms), vec![window]))
                .to_vec(),
            accept_rates: Vec::new(),
            spoiled: 6,
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
    pub(super) fn late() -> Behaviour {
        let late = Late { share: 0.01, after: TIMEOUT + LATE_BY };
        Behaviour { late: Some(late), ..Behaviour::default() }
    }

    /// Returns the plan for programs in the kernel, which have no clients of their own.
    pub fn for_kernel(mut self) -> Self {
        self.ways.retain(|way| *way == Way::SOCKETS);
        self.accept_rates.clear();
        VerifyPlan { engine: EngineKind::Kernel, ..self }
    }

    /// Returns whether programs in the kernel send the queries.
    pub(super) fn in_kernel(&self) -> bool {
        self.engine == EngineKind::Kernel
    }

    /// Returns the trial against a server of a behaviour, for `duration`.
    pub fn trial(rate: Qps, duration: Nanos) -> TrialSpec {
        VerifyPlan::spec(Pacing::Constant { rate }, duration)
    }

    /// Returns the trial of any pacing, for `duration`.
    pub(super) fn spec(pacing: Pacing, duration: Nanos) -> TrialSpec {
        let names = pacing.most_queries(duration, 1).unwrap_or(WINDOW_NAMES);
        TrialSpec { names, ..TrialSpec::new(pacing, duration, TIMEOUT) }
    }
}

/// A rate that is valid.
pub(super) fn rate(qps: f64) -> Qps {
    Qps::new(qps).expect("a rate")
}

/// A search within a range that does not reveal the capacity.
fn search(trial: Nanos, timeout: Nanos, resolution: f64, max: f64) -> Search {
    Search {
        rule: Rule::Mlrsearch { also: Vec::new(), duration_sum: Nanos(trial.0 * 5) },
        goal: Goal::zero_loss(),
        start: rate(10e3),
        expected: None,
        min: rate(1e3),
        max: rate(max),
        resolution,
        duration: trial,
        timeout,
        client_names: None,
        pacing: OpenPacing::Constant,
    }
}
