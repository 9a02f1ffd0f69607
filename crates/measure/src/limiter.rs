//! What limited a result. Every number names its limiter, and a slow Tester is never taken for a slow server.
//!
//! ```text
//! evidence of a trial ──> void?    the schedule was not kept, or the Tester lacked CPU: no result
//!                    └──> limiter  the first that applies, the Tester's own parts before the DUT
//! ```

use serde::{Deserialize, Serialize};

pub use self::void::{ScheduleTolerance, Void};
pub use self::waits::Waits;
use crate::proof::LimiterProof;
use crate::stall::Side;
use crate::warning::Warning;

mod void;
mod waits;

/// What limited a result: the server, the Tester, a link, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Limiter {
    /// The server under test: its CPU or its receive queue.
    Dut,
    /// The target or the path to it; the target has no probes.
    Target,
    /// The Measurer's CPU, or another process on it.
    TesterCpu,
    /// The Measurer did not keep its schedule.
    TesterSchedule,
    /// The Measurer's own receive queue overflowed.
    TesterDrops,
    /// The load's own clients: too few connections for its queries, or too few queries outstanding.
    TesterClients,
    /// The pipe from which the queries come.
    TesterInput,
    /// The AuthDNS: its CPU or its receive queue.
    #[serde(rename = "authdns")]
    AuthDns,
    /// A link of the testbed, which dropped packets.
    Link,
    /// Nothing: everything offered was answered.
    Offered,
    /// The search's own upper bound.
    SearchBound,
    /// Unknown: no probe shows what limited the result.
    #[default]
    Unknown,
}

crate::words! {
    Limiter {
        Dut = "dut",
        Target = "target",
        TesterCpu = "tester-cpu",
        TesterSchedule = "tester-schedule",
        TesterDrops = "tester-drops",
        TesterClients = "tester-clients",
        TesterInput = "tester-input",
        AuthDns = "authdns",
        Link = "link",
        Offered = "offered",
        SearchBound = "search-bound",
        Unknown = "unknown",
    }
}

impl Limiter {
    /// Returns whether a capacity with this limiter is only a lower bound of the DUT's.
    pub fn makes_lower_bound(self) -> bool {
        !matches!(self, Limiter::Dut | Limiter::Target)
    }

    /// Returns whether the Tester itself, its clients or its input was the limit.
    pub fn is_testers(self) -> bool {
        matches!(
            self,
            Limiter::TesterCpu
                | Limiter::TesterSchedule
                | Limiter::TesterDrops
                | Limiter::TesterClients
                | Limiter::TesterInput
        )
    }
}

impl Void {
    /// Returns the limiter of a trial that is void for this reason.
    pub fn limiter(&self) -> Limiter {
        match self {
            Void::ScheduleNotKept { .. } => Limiter::TesterSchedule,
            Void::Starved { .. } => Limiter::TesterCpu,
            Void::NotSent { .. } => Limiter::TesterDrops,
            Void::Stalled { longest, .. } if longest.side == Side::Tester => {
                Limiter::TesterSchedule
            }
            Void::StartSpread { .. } => Limiter::TesterSchedule,
            Void::Part { why, .. } => why.limiter(),
            _ => Limiter::Unknown,
        }
    }
}

/// Measurements of the probes during one trial. Shares are 0 to 1; `None` without a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Busy share of the Measurer's cores, without spinning.
    pub tester_busy: Option<f64>,
    /// Share of the trial during which the Measurer was ready to run but did not.
    pub tester_run_delay: Option<f64>,
    /// Share of the Tester's cores used by processes outside of the testbed.
    pub foreign_busy: Option<f64>,
    /// Datagrams dropped in the Measurer's receive queues.
    pub tester_drops: u64,
    /// Busy share of the AuthDNS's cores; of a core that it shares its own part only.
    pub authdns_busy: Option<f64>,
    /// Share of the trial in which the AuthDNS was ready to run and the Measurer ran, on a core that they share.
    pub authdns_waited: Option<f64>,
    /// Datagrams dropped in the AuthDNS's receive queues.
    pub authdns_drops: u64,
    /// Host of the AuthDNS, if there are several; the others had less to do and dropped nothing, or less.
    pub authdns_host: Option<String>,
    /// Busy share of the DUT's cores by its own work, or of its busiest thread.
    pub dut_busy: Option<f64>,
    /// Share of the DUT's cores that others used.
    pub dut_foreign: Option<f64>,
    /// Share of the trial in which the DUT was ready to run and others ran.
    pub dut_waited: Option<f64>,
    /// Share by which the DUT's cores were slower than their best speed (the fastest tenth of the
    /// samples).
    pub dut_slow: Option<f64>,
    /// Share of the queries that got no valid answer in time.
    pub unanswered: f64,
    /// Queries that no connection took in time although none failed, and the number of clients that they were for.
    pub unserved: (u64, u32),
    /// Share of the trial in which due queries had not arrived from their pipe yet.
    pub input_waited: f64,
    /// Datagrams dropped in the DUT's receive queues.
    pub dut_drops: u64,
    /// Connections that the DUT's listening sockets did not take.
    pub dut_not_taken: u64,
    /// Connections of a load that had many at the same time.
    pub places: Places,
    /// Waits of the queries of a closed loop.
    pub waits: Waits,
    /// Packets dropped on the links of the testbed.
    pub link_drops: u64,
    /// Cores of the Tester, of the AuthDNS and of the DUT; empty where they are not known.
    pub cpus: [Vec<usize>; 3],
    /// Whether every query of an open loop got a valid answer in time, and no goal was missed.
    pub complete: bool,
}

/// Connections on which a server answered, and on which it did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Number of connections that were tried.
    pub connections: u64,
    /// Connections that were refused, reset, closed or left silent until the timeout.
    pub unanswered: u64,
    /// Highest number of connections with a reply at the same time.
    pub at_once: u64,
    /// Highest number of connections open at the same time.
    pub open: u64,
}

/// Share of connections without any reply from which on a server that answers on others has too few places for them.
const MIN_UNANSWERED: f64 = 0.1;

impl Places {
    /// Returns the warning that the server answered on some connections and left no place for others, if it did.
    pub fn too_few(&self) -> Option<Warning> {
        let Places { connections, unanswered, at_once, open } = *self;
        let share = unanswered as f64 / connections.max(1) as f64;
        let few = at_once > 0 && at_once < open.max(unanswered) && share >= MIN_UNANSWERED;
        few.then_some(Warning::FewPlaces { unanswered, connections, at_once })
    }
}

/// Share of time from which on a Measurer that waits for its CPU lacks CPU.
pub const MAX_RUN_DELAY: f64 = 0.10;
/// Share of time from which on a pipe that has no query limits the load.
const MAX_INPUT_WAITED: f64 = 0.05;
/// Share of foreign load on the Tester's cores from which on it lacks CPU.
pub const MAX_FOREIGN: f64 = 0.25;
/// Share of the server's cores that others may use, and of the time that it may wait for them, in a trial that missed its goal. A
/// capacity is lower by as much.
const MAX_ON_SERVER: f64 = 0.05;
/// Share of their best speed that the server's cores may lack in such a trial. They lack 3 % on a virtual machine whose neighbours are quiet.
pub const MAX_SLOWNESS: f64 = 0.10;
/// Share of the server's cores used by others from which on a warning is shown.
const WARNED_ON_SERVER: f64 = 0.01;
/// Busy share from which on a core counts as saturated.
pub const SATURATED: f64 = 0.90;
/// Busy share from which on the busiest part of a closed loop is its limit.
const BOTTLENECK: f64 = 0.80;

impl Evidence {
    /// Returns why the trial is void if the Tester lacked CPU, so that it shows nothing about the server.
    fn starved(&self) -> Option<Void> {
        let (run_delay, foreign) =
            (self.tester_run_delay.unwrap_or(0.0), self.foreign_busy.unwrap_or(0.0));
        (run_delay > MAX_RUN_DELAY || foreign > MAX_FOREIGN)
            .then_some(Void::Starved { run_delay, foreign })
    }

    /// Returns observations of the probes that may void the trial.
    pub(crate) fn doubts(&self) -> impl Iterator<Item = Void> {
        let own = self.starved().into_iter();
        own.chain(self.server_disturbed()).chain(self.slow_core())
    }

    /// Returns why a trial that missed its goal is void if others used the server's cores or kept it waiting.
    fn server_disturbed(&self) -> Option<Void> {
        let beyond = |share: Option<f64>| share.filter(|share| *share > MAX_ON_SERVER);
        let foreign = beyond(self.dut_foreign).map(|share| Void::ForeignOnServer { share });
        foreign.or_else(|| beyond(self.dut_waited).map(|share| Void::ServerWaited { share }))
    }

    /// Returns why a trial that missed its goal is void if the server's cores were slow, and it could have met it on fast ones.
    ///
    /// The time for an answer can grow more than the time of the work that measures the speed, and
    /// a server with more queries than it can answer answers fewer than it could: so fast cores are
    /// given twice the answers, and the square of the speed.
    fn slow_core(&self) -> Option<Void> {
        let could = |lacked: f64| 2.0 * (1.0 - self.unanswered) / (1.0 - lacked).powi(2);
        let lacked = self.lacked_speed().filter(|lacked| could(*lacked) >= 1.0);
        lacked.map(|share| Void::SlowCore { share })
    }

    /// Returns the share of their speed that the server's cores lacked, if it exceeds the limit.
    fn lacked_speed(&self) -> Option<f64> {
        self.dut_slow.filter(|share| *share > MAX_SLOWNESS)
    }

    /// Returns the warnings about other processes on the server's cores.
    pub fn server_warnings(&self) -> Vec<Warning> {
        let noted = |share: Option<f64>| share.filter(|share| *share > WARNED_ON_SERVER);
        let foreign = noted(self.dut_foreign).map(|share| Warning::ForeignOnServer { share });
        let waited = noted(self.dut_waited).map(|share| Warning::ServerWaited { share });
        let slow = self.lacked_speed().map(|share| Warning::SlowCore { share });
        foreign.into_iter().chain(waited).chain(slow).collect()
    }

    /// Returns the limiter of this trial and its proof, the first that applies:
    ///
    /// 1. the Tester starved: `tester-cpu`;
    /// 2. queries were due that had not come from their pipe yet: `tester-input`; everything was answered: `offered`;
    /// 3. the Measurer's receive queue dropped: `tester-drops`; a link dropped: `link`;
    /// 4. the AuthDNS dropped, or had no time left while the DUT had: `authdns`;
    /// 5. the DUT's cores, or its busiest thread, were saturated: `dut`;
    /// 6. the DUT, of which no CPU was seen, dropped: `dut`;
    /// 7. the DUT's listening sockets did not take connections, which a client tries again only after a second: `dut`;
    /// 8. the DUT answered on some connections, and not at all on many others: `dut`;
    /// 9. the Measurer's cores were saturated: `tester-cpu`;
    /// 10. queries found no room on the clients' connections, none of which failed: `tester-clients`;
    /// 11. the DUT has probes and had time left: what the queries of a closed loop waited for ([`Waits`]), else the side
    ///     that was busier, from 80 % on, else `unknown`;
    /// 12. it has no probes: `target`.
    ///
    /// Drops alone do not accuse a DUT with probes: a server that had time left and dropped stood
    /// still for a while. Nothing needs to show that all was answered, or that nothing was found.
    pub(crate) fn server_as_limit(&self) -> (Limiter, Option<LimiterProof>) {
        let saturated = |busy: Option<f64>| busy.filter(|busy| *busy >= SATURATED);
        let wanted = self.authdns_busy.map(|busy| busy + self.authdns_waited.unwrap_or(0.0));
        let dut_busy = saturated(self.dut_busy);
        if let Some(Void::Starved { run_delay, foreign }) = self.starved() {
            (Limiter::TesterCpu, Some(LimiterProof::Waited { run_delay, foreign }))
        } else if self.input_waited > MAX_INPUT_WAITED {
            (Limiter::TesterInput, Some(LimiterProof::InputWaited { share: self.input_waited }))
        } else if self.complete {
            (Limiter::Offered, None)
        } else if self.tester_drops > 0 {
            (Limiter::TesterDrops, Some(self.dropped(Side::Tester)))
        } else if self.link_drops > 0 {
            (Limiter::Link, Some(LimiterProof::LinkDrops { packets: self.link_drops }))
        } else if self.authdns_drops > 0 {
            (Limiter::AuthDns, Some(self.dropped(Side::AuthDns)))
        } else if let (Some(_), None) = (saturated(wanted), dut_busy) {
            (Limiter::AuthDns, Some(self.busy(Side::AuthDns)))
        } else if dut_busy.is_some() || (self.dut_busy.is_none() && self.dut_drops > 0) {
            let dropped = self.dut_drops > 0;
            let proof = if dropped { self.dropped(Side::Dut) } else { self.busy(Side::Dut) };
            (Limiter::Dut, Some(proof))
        } else if self.dut_not_taken > 0 {
            let (connections, busy) = (self.dut_not_taken, self.dut_busy);
            (Limiter::Dut, Some(LimiterProof::NotTaken { connections, busy }))
        } else if let Some(Warning::FewPlaces { unanswered, connections, at_once }) =
            self.places.too_few()
        {
            (Limiter::Dut, Some(LimiterProof::Places { unanswered, connections, at_once }))
        } else if saturated(self.tester_busy).is_some() {
            (Limiter::TesterCpu, Some(self.busy(Side::Tester)))
        } else if let (queries @ 1.., clients) = self.unserved {
            (Limiter::TesterClients, Some(LimiterProof::Unserved { queries, clients }))
        } else if self.dut_busy.is_none() {
            (Limiter::Target, None)
        } else {
            let found = self.waits.limiter(self.dut_drops > 0).or_else(|| self.bottleneck());
            found.map_or((Limiter::Unknown, None), |(limiter, proof)| (limiter, Some(proof)))
        }
    }

    /// Returns the bottleneck of a closed loop in which neither side was saturated, and its proof. No query waits for its
    /// turn to be sent there, so the busiest part bounds the rate (utilisation law): by less than a quarter more.
    fn bottleneck(&self) -> Option<(Limiter, LimiterProof)> {
        let share = |busy: Option<f64>| busy.unwrap_or(0.0);
        let (tester, dut) = (share(self.tester_busy), share(self.dut_busy));
        let (limiter, side) = if tester > dut {
            (Limiter::TesterCpu, Side::Tester)
        } else {
            (Limiter::Dut, Side::Dut)
        };
        let is_limit = self.waits.places > 0 && tester.max(dut) >= BOTTLENECK;
        is_limit.then(|| (limiter, self.busy(side)))
    }

    /// The proof by the receive queues of `side`.
    fn dropped(&self, side: Side) -> LimiterProof {
        let (datagrams, busy) = match side {
            Side::Tester => (self.tester_drops, self.tester_busy),
            Side::AuthDns => (self.authdns_drops, self.authdns_busy),
            Side::Dut => (self.dut_drops, self.dut_busy),
        };
        let (cpus, host) = (self.cpus_of(side), self.host_of(side));
        LimiterProof::ReceiveDrops { side, datagrams, busy, cpus, host }
    }

    /// The proof by the cores of `side`, with its counterpart that had time left.
    fn busy(&self, side: Side) -> LimiterProof {
        let (share, waited, counterpart) = match side {
            Side::Tester => (self.tester_busy, None, self.dut_busy),
            Side::AuthDns => (self.authdns_busy, self.authdns_waited, self.dut_busy),
            Side::Dut => (self.dut_busy, None, self.authdns_busy),
        };
        let (share, cpus, host) = (share.unwrap_or(0.0), self.cpus_of(side), self.host_of(side));
        LimiterProof::Busy { side, share, waited, counterpart, cpus, host }
    }

    fn host_of(&self, side: Side) -> Option<String> {
        self.authdns_host.clone().filter(|_| side == Side::AuthDns)
    }

    fn cpus_of(&self, side: Side) -> Vec<usize> {
        let [tester, auth, dut] = &self.cpus;
        match side {
            Side::Tester => tester.clone(),
            Side::AuthDns => auth.clone(),
            Side::Dut => dut.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(connections: u64, unanswered: u64, at_once: u64, open: u64) -> Places {
        Places { connections, unanswered, at_once, open }
    }

    #[test]
    fn the_first_limiter_that_applies_is_returned() {
        let clean = Evidence {
            dut_busy: Some(0.5),
            tester_busy: Some(0.5),
            authdns_busy: Some(0.3),
            ..Evidence::default()
        };
        let waits = Waits { places: 16, ..Waits::default() };
        let table = [
            (Evidence { complete: true, ..clean.clone() }, Limiter::Offered),
            (
                Evidence { complete: true, tester_run_delay: Some(0.4), ..clean.clone() },
                Limiter::TesterCpu,
            ),
            (
                Evidence { dut_busy: Some(0.99), foreign_busy: Some(0.5), ..clean.clone() },
                Limiter::TesterCpu,
            ),
            (Evidence { dut_busy: Some(0.99), ..clean.clone() }, Limiter::Dut),
            (Evidence { dut_busy: Some(0.95), dut_drops: 1, ..clean.clone() }, Limiter::Dut),
            (Evidence { dut_drops: 1, ..Evidence::default() }, Limiter::Dut),
            // It was stopped for a while: drops alone are no proof.
            (Evidence { dut_drops: 1, ..clean.clone() }, Limiter::Unknown),
            (Evidence { dut_not_taken: 1, ..clean.clone() }, Limiter::Dut),
            (Evidence { places: places(130, 115, 10, 50), ..clean.clone() }, Limiter::Dut),
            (Evidence { places: places(130, 115, 10, 50), ..Evidence::default() }, Limiter::Dut),
            (Evidence { places: places(130, 5, 50, 50), ..clean.clone() }, Limiter::Unknown),
            // Nothing was answered at all: no limit of places.
            (Evidence { places: places(50, 50, 0, 50), ..clean.clone() }, Limiter::Unknown),
            (Evidence { dut_not_taken: 1, link_drops: 1, ..clean.clone() }, Limiter::Link),
            (Evidence { dut_drops: 1, tester_drops: 1, ..clean.clone() }, Limiter::TesterDrops),
            (Evidence { dut_drops: 1, link_drops: 1, ..clean.clone() }, Limiter::Link),
            // On the Measurer's core the AuthDNS wanted all the time that there was.
            (
                Evidence { authdns_busy: Some(0.6), authdns_waited: Some(0.35), ..clean.clone() },
                Limiter::AuthDns,
            ),
            (
                Evidence { authdns_busy: Some(0.6), authdns_waited: Some(0.1), ..clean.clone() },
                Limiter::Unknown,
            ),
            (
                Evidence { dut_busy: Some(0.99), authdns_drops: 1, ..clean.clone() },
                Limiter::AuthDns,
            ),
            (Evidence { authdns_busy: Some(0.99), ..clean.clone() }, Limiter::AuthDns),
            (
                Evidence { authdns_busy: Some(0.99), dut_busy: Some(0.99), ..clean.clone() },
                Limiter::Dut,
            ),
            (Evidence { tester_busy: Some(0.99), ..clean.clone() }, Limiter::TesterCpu),
            (Evidence { unserved: (7, 2), ..clean.clone() }, Limiter::TesterClients),
            (Evidence { input_waited: 0.9, complete: true, ..clean.clone() }, Limiter::TesterInput),
            (Evidence { input_waited: 0.04, complete: true, ..clean.clone() }, Limiter::Offered),
            (Evidence { unserved: (7, 2), ..Evidence::default() }, Limiter::TesterClients),
            (Evidence { unserved: (7, 2), dut_busy: Some(0.99), ..clean.clone() }, Limiter::Dut),
            (Evidence { dut_busy: Some(0.85), waits, ..clean.clone() }, Limiter::Dut),
            (Evidence { tester_busy: Some(0.85), waits, ..clean.clone() }, Limiter::TesterCpu),
            (Evidence { dut_busy: Some(0.75), waits, ..clean.clone() }, Limiter::Unknown),
            // The queries of an open loop wait for their turn.
            (Evidence { dut_busy: Some(0.85), ..clean.clone() }, Limiter::Unknown),
            (clean, Limiter::Unknown),
            (Evidence::default(), Limiter::Target),
        ];
        for (evidence, limiter) in table {
            let (found, proof) = evidence.server_as_limit();
            assert_eq!(found, limiter, "{evidence:?}");
            // An accusation has its proof.
            let accused = !matches!(limiter, Limiter::Offered | Limiter::Unknown | Limiter::Target);
            assert_eq!(proof.is_some(), accused, "{evidence:?}");
        }
    }

    #[test]
    fn what_others_use_of_the_server_voids_or_warns() {
        // Foreign share, waiting share and lack of speed: void, warnings.
        let table = [
            (0.0, None, None, None, 0),
            (0.009, Some(0.01), Some(0.1), None, 0),
            (0.011, Some(0.02), None, None, 2),
            (0.05, Some(0.05), None, None, 2),
            (0.1, None, None, Some(Void::ForeignOnServer { share: 0.1 }), 1),
            (0.3, Some(0.3), Some(0.2), Some(Void::ForeignOnServer { share: 0.3 }), 3),
            (0.0, Some(0.06), Some(0.2), Some(Void::ServerWaited { share: 0.06 }), 2),
            (0.0, None, Some(0.11), Some(Void::SlowCore { share: 0.11 }), 1),
        ];
        for (foreign, dut_waited, dut_slow, void, warnings) in table {
            let evidence = Evidence {
                dut_foreign: Some(foreign),
                dut_waited,
                dut_slow,
                ..Evidence::default()
            };
            let found = evidence.server_disturbed().or_else(|| evidence.slow_core());
            assert_eq!(found, void, "{evidence:?}");
            assert_eq!(evidence.server_warnings().len(), warnings, "{evidence:?}");
        }
        let unknown = Evidence::default();
        assert_eq!((unknown.server_disturbed(), unknown.slow_core()), (None, None));
    }

    #[test]
    fn a_slow_core_excuses_what_its_speed_can_explain() {
        // Lack of speed, share without an answer: void.
        let table = [
            (0.2, 0.0, true),
            (0.2, 0.6, true),
            (0.2, 0.7, false),
            (0.4, 0.8, true),
            (0.4, 0.85, false),
            (0.4, 1.0, false),
            (0.1, 0.0, false),
        ];
        for (lacked, unanswered, void) in table {
            let evidence = Evidence { dut_slow: Some(lacked), unanswered, ..Evidence::default() };
            assert_eq!(evidence.slow_core().is_some(), void, "{evidence:?}");
            assert_eq!(evidence.server_warnings().len(), usize::from(lacked > 0.1));
        }
    }
}
