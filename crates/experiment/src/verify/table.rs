//! The table of checked cases: a pacing over a way, against a server of a behaviour.
//!
//! ```text
//! case: way x pacing x behaviour ──> trial ──┬─> found ──────────────────────────────┐
//!                                            ├─> known: set, by a law, by a capture ─┼──> checks
//!                                            └─> known: the server's own counts ─────┘
//! ```

use std::iter;

use measure::{Nanos, Pacing, Transport};

use super::behaviour::{Behaviour, Bimodal, Late};
use super::plan::{LATE_BY, TIMEOUT, VerifyPlan, rate as valid};
use super::way::Way;

/// One row: transport, pacing, and behaviour of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Transport, clients and connections of the queries.
    pub way: Way,
    /// Schedule or window by which the queries leave.
    pub pacing: Pacing,
    /// Behaviour of the server: losses, duplicates, delays.
    pub behaviour: Behaviour,
    /// Duration of sending, in nanoseconds.
    pub duration: Nanos,
    /// Whether a capture is taken beside the server.
    pub captured: bool,
}

/// Lock-step load of a verification: four lanes, four experiments.
const LOCKSTEP: Pacing = Pacing::LockStep { threads: 4, experiments: 4, anew: false };
/// Delay of the server of lock-step loads.
const LOCKSTEP_DELAY: Nanos = Nanos::from_millis(1);

impl VerifyPlan {
    /// Returns the rows, except the rows of windows.
    pub fn cases(&self) -> Vec<Case> {
        let constant = |rate| Pacing::Constant { rate };
        let sockets = Case {
            way: Way::SOCKETS,
            pacing: constant(self.behaviour_rate),
            behaviour: Behaviour::default(),
            duration: self.duration,
            captured: true,
        };
        let rates =
            self.rates.iter().map(|rate| Case { pacing: constant(*rate), ..sockets.clone() });
        let behaviours = [VerifyPlan::behaviour(), VerifyPlan::late()];
        let behaviours = behaviours.map(|behaviour| Case { behaviour, ..sockets.clone() });
        let others = self.ways.iter().flat_map(|way| self.over(*way));
        let lockstep = Case {
            pacing: LOCKSTEP,
            behaviour: Behaviour { delay: LOCKSTEP_DELAY, ..Behaviour::default() },
            captured: false,
            ..sockets.clone()
        };
        let lockstep = iter::once(lockstep).filter(|_| !self.ways.is_empty() && !self.in_kernel());
        rates.chain(behaviours).chain(lockstep).chain(others).collect()
    }

    /// Returns the rows of one way: open loops, new connections, and a behaviour for each transport.
    fn over(&self, way: Way) -> Vec<Case> {
        let rate = self.way_rate;
        let (from, to) = (valid(0.2 * rate.get()), valid(1.8 * rate.get()));
        let first = way.clients.is_none_or(|clients| clients == self.behaviour_clients);
        // A capture in one case is enough; more would slow the trials down.
        let captured = way.is_open() && first;
        let case = Case {
            way,
            pacing: Pacing::Constant { rate },
            behaviour: Behaviour::default(),
            duration: if captured { Nanos(2 * self.way_duration.0) } else { self.way_duration },
            captured,
        };
        // The constant rate is left out where it adds nothing: sockets have other cases at several
        // rates, and a case with a behaviour has a constant rate too.
        let skipped = usize::from(way == Way::SOCKETS || first && !way.is_open());
        let open = [Pacing::Constant { rate }, Pacing::Poisson { rate }, Pacing::Ramp { from, to }];
        let carried = |pacing: &Pacing| !matches!(pacing, Pacing::Ramp { .. }) || !self.in_kernel();
        let open = open.into_iter().skip(skipped).filter(carried);
        let mut cases: Vec<Case> = open.map(|pacing| Case { pacing, ..case.clone() }).collect();
        if first && way.clients.is_some() {
            let behaviour = VerifyPlan::behaviour_over(way.transport);
            cases.push(Case { behaviour, duration: self.way_duration, ..case.clone() });
            if way.transport != Transport::Udp {
                let (way, rate) = (Way { per_connection: Some(5), ..way }, valid(0.2 * rate.get()));
                let (pacing, captured) = (Pacing::Constant { rate }, false);
                cases.push(Case { way, pacing, captured, duration: self.way_duration, ..case });
            }
        }
        cases
    }

    /// Returns the server for losses, duplicates, return codes, late replies and latencies over a transport. The 99th percentile is a
    /// slow reply, not a lost one.
    fn behaviour_over(transport: Transport) -> Behaviour {
        let (low, high) = (Nanos::from_millis(2), Nanos::from_millis(20));
        // A stream of HTTP or QUIC takes one reply, and its query is cancelled when it is overdue.
        let streams = transport.uses_http() || transport.uses_quic();
        Behaviour {
            latency: Some(Bimodal { share: 0.9, low, high }),
            loss: 0.002,
            duplicates: if streams { 0.0 } else { 0.02 },
            servfail: 0.01,
            late: (!streams).then_some(Late { share: 0.002, after: TIMEOUT + LATE_BY }),
            ..Behaviour::default()
        }
    }

    /// Returns the ways of all transports with each number of clients, and the sockets.
    pub(super) fn all_ways(clients: &[u32]) -> Vec<Way> {
        let each = |transport| clients.iter().map(move |count| Way::of(transport, *count));
        iter::once(Way::SOCKETS).chain(Transport::ALL.into_iter().flat_map(each)).collect()
    }
}

impl Case {
    /// Returns the name of a value of the case: "queries sent over tls, 8 clients: poisson 2k".
    pub(super) fn name(&self, what: &str) -> String {
        let usual = self.way == Way::SOCKETS;
        match (usual, self.pacing, self.behaviour == Behaviour::default()) {
            // Rows that every certificate has.
            (true, _, false) if !matches!(self.pacing, LOCKSTEP) => what.to_owned(),
            (true, Pacing::Constant { rate }, _) => format!("{what} at {}", rate.exact()),
            _ => format!("{what}, {}, {}", self.pacing, self.way),
        }
    }
}
