//! The method `capacity`: how many queries a second a server answers, from rounds of closed loops and the server's own CPU time.
//!
//! ```text
//! first visit:  window doubled until answers stop growing ──> the largest without losses; for a server that drops
//!               queries a highest rate, twice what it answers
//! each visit:   warm-up until the demand settles ──> a closed loop ──> Round
//!               where it opens connections: the same with more queries on each, before it in every other visit ──> Round
//!               where others used the cores and the server had CPU left: twice the window
//! two visits:   open loops at shares of the capacity ──> LoadPoint
//! all rounds:   estimate (capacity with its basis, ratio to the baseline) ──> enough?
//! ```
//!
//! The terms are those of operational analysis (Denning and Buzen 1978): the *service demand* is the CPU time of the server for each
//! valid answer, and a server whose CPU is the limit answers cores / demand a second (utilisation law).

mod demand;
mod estimate;
mod round;
mod window;

use measure::{Nanos, OpenPacing, Pacing, Qps};
use record::{CellRecord, LoadPoint, Round, Seen, Trial, TrialRecord, WindowStep};

use self::estimate::usual_qps;
pub use self::estimate::{are_enough, capacity_of, pairs_of, sum_up};
use self::round::HALF;
pub use self::round::NextRound;
pub(crate) use self::round::round_of;
pub use self::round::speed_in;
use self::window::{ClosedLoop, SLICE, choose};
pub use self::window::{MIN_ROUNDS, align_windows, least_rounds};
use crate::bench::{Bench, BenchError, TrialSpec};
pub use crate::known::Known;
use crate::names::{NameBudget, most_names};
use crate::settings::CapacitySettings;

/// Largest difference of two slices of a warm-up that have settled, and the largest number of slices.
const SETTLED_DIFFERENCE: f64 = 0.05;
const MOST_SLICES: u32 = 8;
/// Time for which a server without queries is watched, and share of a core from which on it polls.
const IDLE_TIME: Nanos = Nanos::from_millis(300);
const POLLING_SHARE: f64 = 0.05;
/// Shares of the capacity at which latency and loss are measured, the duration of each open loop,
/// and the number of rounds with such loops.
const LOAD_SHARES: [f64; 5] = [0.25, HALF, 0.8, 0.9, 1.0];
/// Share that is also offered if only the closed loop shows that the server is the limit.
const OVERLOAD_SHARE: f64 = 1.2;
const LOAD: Nanos = Nanos::from_millis(300);
const LOAD_ROUNDS: u32 = 2;
/// Factor by which connections of a second loop have more queries, which separates the demand of a
/// connection from the demand of a query.
const MORE_QUERIES: u64 = 8;
/// Names that closed loops before a search may use.
const WINDOW_NAMES: u64 = 1 << 24;

impl Known {
    /// Returns the findings of a cell's rounds.
    pub fn of(cell: &CellRecord) -> Self {
        // A round offers all loads or none.
        let of_first = |trial: &&TrialRecord| {
            cell.loads.first().is_some_and(|load| load.asked_qps == trial.rate_qps)
        };
        Known {
            step: choose(&cell.windows).copied(),
            hides_cpu: cell.hidden.iter().any(Seen::hides_cpu),
            queries_per_connection: cell.longer_connections.last().and_then(|_| {
                cell.trials.last()?.trial.connections.as_ref()?.queries_per_connection
            }),
            qps: usual_qps(cell).or_else(|| cell.figures.get("qps")?.values.last().copied()),
            loads: cell.loads.clone(),
            load_rounds: cell.trials.iter().filter(of_first).count() as u32,
        }
    }
}

/// Runs closed loops until answers stop growing, for a search that begins near them: the windows
/// with the answers of each; empty if the loops are void or if too few names are left.
///
/// # Errors
/// The errors of the bench.
pub fn try_windows(
    settings: &CapacitySettings,
    bench: &mut dyn Bench,
    names: &mut NameBudget,
) -> Result<Vec<WindowStep>, BenchError> {
    if names.is_short_of(WINDOW_NAMES) {
        return Ok(Vec::new());
    }
    let mut round = NextRound {
        settings,
        pacing: OpenPacing::Constant,
        round: 0,
        rounds: 1,
        bench,
        names,
        seen: &mut |_| (),
        tried: &mut |_| (),
    };
    match round.windows() {
        Err(BenchError::Void(_)) => Ok(Vec::new()),
        windows => windows,
    }
}

/// Returns the answers a second of the closed loops; `None` if there are no loops.
pub fn answered(windows: &[WindowStep]) -> Option<f64> {
    choose(windows).map(|step| step.qps)
}

/// Findings of one round (a visit) of the method `capacity`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundFound {
    /// Windows that were tried before the loop; empty after the first round.
    pub windows: Vec<WindowStep>,
    /// Reasons why the server's CPU time is unknown.
    pub hidden: Vec<Seen>,
    /// Result of the closed loop with the cell's window.
    pub round: Round,
    /// The same loop with more queries on each connection.
    pub longer: Option<Round>,
    /// A larger window that gave more while others used the cores, or a highest rate that the
    /// server kept up with: earlier rounds had too low a load.
    pub wider: Option<WindowStep>,
    /// Loads that were offered for the first time.
    pub loads: Vec<LoadPoint>,
}

impl RoundFound {
    /// Adds the findings of a round to the cell.
    pub fn add_to(self, cell: &mut CellRecord) {
        if !self.windows.is_empty() {
            cell.windows = self.windows;
            cell.hidden = self.hidden;
        }
        if let Some(step) = self.wider.filter(|step| step.most_qps.is_some()) {
            cell.windows.push(step);
            cell.rounds.clear();
            cell.loads.clear();
            return;
        }
        if let Some(step) = self.wider {
            // Windows up to this one were too small.
            let smaller = cell.windows.partition_point(|tried| tried.window <= step.window);
            cell.windows.splice(..smaller, [step]);
        }
        cell.rounds.push(self.round);
        cell.longer_connections.extend(self.longer);
        cell.loads.extend(self.loads);
    }
}

impl NextRound<'_> {
    /// Makes the round.
    ///
    /// # Errors
    /// The errors of the bench, and [`BenchError::Void`] if a trial is void. The windows are
    /// discarded then: the server may not have worked before.
    pub fn make(mut self) -> Result<RoundFound, BenchError> {
        let mut found = RoundFound::default();
        let known = self.settings.known.clone();
        let step = match known.step {
            Some(step) => Some(step),
            None => {
                found.windows = self.windows()?;
                found.hidden.extend(self.bench.hidden_cpu());
                found.hidden.extend(self.polls()?);
                choose(&found.windows).copied()
            }
        };
        let own = ClosedLoop::after(step.as_ref(), self.settings.duration);
        // The loops that tried windows have warmed the server up.
        if own.step.is_none() && found.windows.is_empty() {
            self.settle_demand(own.with_short_timeout(step.as_ref()))?;
        }
        let longer = |queries: u64| {
            let queries_per_connection = Some(queries * MORE_QUERIES);
            ClosedLoop { queries_per_connection, ..own }
        };
        // Drift affects both loops equally.
        if let Some(queries) = known.queries_per_connection.filter(|_| self.round % 2 == 1) {
            found.longer = self.longer(longer(queries))?;
        }
        let trial = self.closed_loop(own)?;
        found.round = round_of(&trial, self.round);
        let queries = trial.connections.as_ref().and_then(|c| c.queries_per_connection);
        let faster = Self::faster(&own, &trial).filter(|_| self.round + 1 < self.rounds);
        self.keep(trial.offered_qps, trial);
        if found.round.qps == 0.0 {
            return Err(BenchError::Void("no query was answered".to_owned()));
        }
        if faster.is_some() {
            return Ok(RoundFound { wider: faster, ..found });
        }
        let hidden = known.hides_cpu || found.hidden.iter().any(Seen::hides_cpu);
        let opens = found.round.connections_per_answer.zip(found.round.cpu_us_per_answer);
        if let Some(queries) = queries.filter(|_| opens.is_some() && !hidden)
            && found.longer.is_none()
        {
            found.longer = self.longer(longer(queries))?;
        }
        if !hidden {
            found.wider = self.wider(own, &found.round)?;
        }
        let first = self.rounds.min(own.least_rounds()).saturating_sub(2 * LOAD_ROUNDS);
        // Void loads are offered again, in a round each.
        let due = (first..first + 2 * LOAD_ROUNDS).contains(&self.round);
        if self.settings.loads && due && known.load_rounds < LOAD_ROUNDS {
            // A loop with a highest rate offers twice as much already.
            let unseen = hidden || found.round.cpu_us_per_answer.is_none();
            let unseen = unseen && own.most.is_none();
            let shares = LOAD_SHARES.into_iter().chain(unseen.then_some(OVERLOAD_SHARE));
            let qps = known.qps.unwrap_or(found.round.qps);
            let fresh = shares.map(|share| LoadPoint {
                share,
                asked_qps: (share * qps).round(),
                ..LoadPoint::default()
            });
            // Dropped queries are never answered, so they are not awaited.
            let timeout =
                own.most.map_or(self.settings.timeout, |_| LOAD.min(self.settings.timeout));
            found.loads = self.loads(fresh.collect(), known.loads, timeout)?;
        }
        Ok(found)
    }

    /// Passes a trial that belongs to the cell to `seen`.
    fn keep(&mut self, rate_qps: f64, trial: Trial) {
        (self.seen)(&TrialRecord { repeat: self.round, rate_qps, trial });
    }

    /// Runs the closed loop of a round with more queries on each connection; `None` if it is void. It is no trial of the cell.
    fn longer(&mut self, of: ClosedLoop) -> Result<Option<Round>, BenchError> {
        match self.closed_loop(of) {
            Err(BenchError::Void(_)) => Ok(None),
            trial => Ok(Some(round_of(&trial?, self.round))),
        }
    }

    /// Returns that the server polls, if it uses its core without queries. It is measured twice, so
    /// that work for the last queries does not count.
    fn polls(&mut self) -> Result<Option<Seen>, BenchError> {
        let mut least = f64::MAX;
        for _ in 0..2 {
            let Some(share) = self.bench.idle_share(IDLE_TIME)? else { return Ok(None) };
            least = least.min(share);
            if least < POLLING_SHARE {
                return Ok(None);
            }
        }
        Ok(Some(Seen::Polls(least)))
    }

    /// Warms the server up until the demand, or the rate where that is not known, of two slices agrees.
    fn settle_demand(&mut self, own: ClosedLoop) -> Result<(), BenchError> {
        let mut last: Option<f64> = None;
        for _ in 0..MOST_SLICES {
            let round = round_of(&self.closed_loop(ClosedLoop { duration: SLICE, ..own })?, 0);
            let now = round.cpu_us_per_answer.unwrap_or(round.qps);
            if last.is_some_and(|last| (now / last).ln().abs() <= SETTLED_DIFFERENCE) {
                break;
            }
            last = Some(now);
        }
        Ok(())
    }

    /// Runs a closed loop. Disturbances are recorded, and do not make the loop void.
    fn closed_loop(&mut self, of: ClosedLoop) -> Result<Trial, BenchError> {
        let names = (of.names_per_s * of.duration.as_secs_f64()) as u64;
        let spec = self.spec(of.pacing(), of.duration, names.min(self.names.size()));
        let timeout = of.timeout.map_or(spec.timeout, |less| less.min(spec.timeout));
        let queries_per_connection = of.queries_per_connection;
        self.server_counts(TrialSpec { step: of.step, timeout, queries_per_connection, ..spec })
    }

    /// Returns the request for a trial that counts although it is disturbed.
    fn spec(&self, pacing: Pacing, duration: Nanos, names: u64) -> TrialSpec {
        TrialSpec { names, waits: false, ..TrialSpec::new(pacing, duration, self.settings.timeout) }
    }

    /// Runs a trial that counts although it is disturbed, with fresh names.
    fn server_counts(&mut self, spec: TrialSpec) -> Result<Trial, BenchError> {
        let first_name = self.names.fresh(spec.names, self.bench)?;
        let spec = TrialSpec { first_name, ..spec };
        let mut trial = self.bench.trial(&spec)?;
        self.names.note_use(spec.names, trial.sent);
        match trial.void.0.take_if(|why| why.is_disturbance()) {
            _ if !trial.void.is_void() => Ok(trial),
            _ => Err(BenchError::Void(trial.void.0.map_or(String::new(), |why| why.to_string()))),
        }
    }

    /// Offers the loads in `fresh`, or the loads of earlier rounds; returns the new loads, empty if
    /// one is void.
    fn loads(
        &mut self,
        fresh: Vec<LoadPoint>,
        known: Vec<LoadPoint>,
        timeout: Nanos,
    ) -> Result<Vec<LoadPoint>, BenchError> {
        let new = known.is_empty();
        let points = if new { fresh } else { known };
        let mut trials = Vec::new();
        for point in &points {
            let Some(rate) = Qps::new(point.asked_qps) else { continue };
            let pacing = self.pacing.at(rate);
            let spec = self.spec(pacing, LOAD, most_names(pacing, LOAD));
            let trial = match self.server_counts(TrialSpec { timeout, ..spec }) {
                Err(BenchError::Void(_)) => return Ok(Vec::new()),
                trial => trial?,
            };
            trials.push((rate.get(), trial));
        }
        trials.into_iter().for_each(|(rate, trial)| self.keep(rate, trial));
        Ok(if new { points } else { Vec::new() })
    }
}
