//! The capacities of running servers: rounds of closed loops until the intervals are narrow.

use std::time::{Duration, Instant};

use experiment::capacity::{Known, NextRound, align_windows, are_enough, least_rounds, sum_up};
use experiment::settings::{CapacitySettings, Order};
use experiment::{BenchError, visits};
use measure::Nanos;
use record::{CellRecord, TrialRecord, VoidRepeat};
use report::view::{span, thousands};

use super::SearchArgs;
use super::servers::Servers;
use crate::progress::Line;

/// Duration of the closed loop of a round, and largest number of rounds.
const LOOP_DURATION: Nanos = Nanos::from_millis(500);
const MAX_ROUNDS: u32 = 24;
/// Time for each server after which no further round starts, unless their number or a precision is
/// given.
const TIME_BUDGET: Duration = Duration::from_secs(10);

/// Makes rounds, in interleaved order, until they are enough; returns the error that ended them early.
pub(super) fn measure(
    args: &SearchArgs,
    servers: &mut Servers<'_>,
    keep: &mut dyn FnMut(&CellRecord, &TrialRecord),
) -> Result<(), BenchError> {
    let rounds = args.rounds.unwrap_or(MAX_ROUNDS);
    let settings = settings(args);
    let fail_if = &args.gate.fail_if;
    let (count, seed) = (servers.all.len(), args.workload.seed);
    let budget =
        (fail_if.is_empty() && args.rounds.is_none()).then_some(TIME_BUDGET * count as u32);
    let mut progress = Rounds::begin(budget, rounds, servers);
    let baseline = args.gate.baseline.clone().unwrap_or_else(|| servers.all[0].cell.server.clone());
    let mut forgotten = 0;
    let order = visits(count, &[rounds.saturating_add(1)], Order::Interleaved, seed);
    for (i, visit) in order.iter().enumerate() {
        if i == count {
            forgotten = u32::from(align_windows(&mut servers.cells()));
        }
        let made = servers.all[visit.server].cell.rounds.len() as u32;
        if visit.repeat >= rounds + forgotten || made >= rounds {
            continue;
        }
        let cells = || servers.all.iter().map(|server| &server.cell);
        let begins = i % count == 0;
        if begins && are_enough(cells(), settings.precision, fail_if, visit.repeat) {
            break;
        }
        if begins && progress.is_over() && visit.repeat >= least_rounds(cells()) {
            drop(progress);
            eprintln!("{}", out_of_time(cells().filter_map(half_width).reduce(f64::max), rounds));
            break;
        }
        let settings = CapacitySettings {
            known: Known::of(&servers.all[visit.server].cell),
            ..settings.clone()
        };
        let mut trials = Vec::new();
        let found = servers.on(visit.server, |bench, names, cell| {
            let (pacing, round) = (args.pacing, visit.repeat);
            let seen = &mut |trial: &TrialRecord| {
                keep(cell, trial);
                trials.push(trial.clone());
            };
            let tried = &mut |qps: f64| progress.estimate(cell, qps);
            NextRound { settings: &settings, pacing, round, rounds, bench, names, seen, tried }
                .make()
        });
        let cell = &mut servers.all[visit.server].cell;
        cell.trials.extend(trials);
        let found = match found {
            Err(BenchError::Void(why)) => {
                progress.line.show(&format!("{}: a round is void: {why}", cell.server));
                cell.void_repeats.push(VoidRepeat { repeat: visit.repeat, why });
                continue;
            }
            Err(BenchError::Failed(why)) if count > 1 => {
                return Err(BenchError::Failed(format!("{}: {why}", cell.server)));
            }
            found => found?,
        };
        cell.repeats += 1;
        found.add_to(cell);
        let mut cells = servers.cells();
        sum_up(&mut cells, Some(&baseline));
        progress.round(cells[visit.server]);
    }
    Ok(())
}

/// Returns the settings of the rounds.
fn settings(args: &SearchArgs) -> CapacitySettings {
    CapacitySettings {
        duration: args.duration.unwrap_or(LOOP_DURATION),
        timeout: args.timeout,
        ..CapacitySettings::default()
    }
}

/// Returns what is planned: the numbers of rounds, and the time after which no further one begins.
fn planned(least: u32, rounds: u32, budget: Option<Duration>) -> String {
    let least = least.min(rounds);
    match budget {
        Some(_) => {
            let limit_s = TIME_BUDGET.as_secs();
            format!(
                "{least} rounds of each server, then up to {rounds} within {limit_s} s for each server"
            )
        }
        None if least == rounds => format!("{rounds} rounds of each server, without a time limit"),
        None => format!(
            "{least} to {rounds} rounds of each server, without a time limit, until the intervals are narrow enough"
        ),
    }
}

/// Returns the larger half of the interval of a capacity and of its ratio, as a share of these.
fn half_width(cell: &CellRecord) -> Option<f64> {
    let found = cell.capacity.as_ref()?;
    let half = |value: f64, low: f64, high: f64| (high / value - 1.0).max(1.0 - low / value);
    let of_ratio = cell.ratio.as_ref().map_or(0.0, |r| half(r.value, r.low, r.high));
    Some(half(found.qps, found.low_qps, found.high_qps).max(of_ratio))
}

/// Returns advice for rounds that the time limit ended, with intervals of this half-width if there
/// are any.
fn out_of_time(half_width: Option<f64>, rounds: u32) -> String {
    let at = half_width.map_or(String::new(), |width| format!(" at +-{:.0} %", width * 100.0));
    let limit_s = TIME_BUDGET.as_secs();
    format!(
        "the time limit of {limit_s} s for each server ended the rounds{at}: `--rounds {rounds}` has no time limit"
    )
}

/// Returns the capacity so far and the ratio to the baseline, with the intervals that say something: without a factor of ten between
/// their ends.
fn so_far(cell: &CellRecord) -> String {
    let is_narrow = |low: f64, high: f64| high < 10.0 * low;
    let so_far = match (&cell.capacity, cell.rounds.last()) {
        (Some(c), _) if is_narrow(c.low_qps, c.high_qps) => {
            let [qps, low, high] = [c.qps, c.low_qps, c.high_qps].map(thousands);
            format!("{qps} qps, {low} to {high}")
        }
        (Some(c), _) => format!("about {} qps", thousands(c.qps)),
        (None, Some(round)) => format!("about {} qps", thousands(round.qps)),
        (None, None) => String::new(),
    };
    let ratio = cell.ratio.as_ref().filter(|r| is_narrow(r.low, r.high));
    let ratio = ratio.map_or(String::new(), |r| {
        format!("; x {} {:.3}, {:.3} to {:.3}", r.baseline, r.value, r.low, r.high)
    });
    so_far + &ratio
}

/// The progress of the rounds: the capacity so far, and when they end.
struct Rounds {
    began: Instant,
    /// Time after which no further round begins; without one the intervals decide.
    budget: Option<Duration>,
    rounds: u32,
    line: Line,
}

impl Rounds {
    /// Says what is planned.
    fn begin(budget: Option<Duration>, rounds: u32, servers: &Servers<'_>) -> Self {
        eprintln!("{}", planned(least_rounds(servers.all.iter().map(|s| &s.cell)), rounds, budget));
        Rounds { began: Instant::now(), budget, rounds, line: Line::default() }
    }

    /// Returns whether the budget is used up.
    fn is_over(&self) -> bool {
        self.budget.is_some_and(|budget| self.began.elapsed() >= budget)
    }

    /// Shows the answers a second of a loop that tries a window.
    fn estimate(&mut self, cell: &CellRecord, qps: f64) {
        self.line.show(&format!("{}: about {} qps so far", cell.server, thousands(qps)));
    }

    /// Shows a round: the capacity so far, the ratio to the baseline, and when the rounds end.
    fn round(&mut self, cell: &CellRecord) {
        let (so_far, (made, least)) = (so_far(cell), made_of(cell));
        let (name, least, most) = (&cell.server, least.min(self.rounds), self.rounds);
        let elapsed = self.began.elapsed();
        let left = self.budget.map(|budget| budget.saturating_sub(elapsed));
        // The least number is made, however long it takes.
        let needed = elapsed / made.max(1) * least.saturating_sub(made);
        let end = match left {
            Some(left) if left.max(needed).is_zero() => format!("; it ends with round {made}"),
            Some(left) if left < needed => {
                format!("; about {} left", span(needed.as_secs_f64().ceil()))
            }
            Some(left) => format!("; at most {} left", span(left.as_secs_f64().ceil())),
            None => String::new(),
        };
        let of = numbered(made, least, most);
        self.line.show(&format!("{name}: {of}: {so_far}{end}"));
    }
}

/// Returns the number of rounds made and the smallest number of them, both without discarded ones.
fn made_of(cell: &CellRecord) -> (u32, u32) {
    let discarded = cell.rounds.first().map_or(0, |round| round.round);
    (cell.rounds.len() as u32, least_rounds([cell]).saturating_sub(discarded))
}

/// Names a round and how many are planned.
fn numbered(made: u32, least: u32, most: u32) -> String {
    match made < least {
        true => format!("round {made} of {least} to {most}"),
        false => format!("round {made} of at most {most}"),
    }
}

#[cfg(test)]
mod tests {
    use record::{CapacityRatio, ServerCapacity};

    use super::*;

    #[test]
    fn no_interval_is_shown_before_it_is_narrower_than_a_factor_of_ten() {
        let mut cell = CellRecord::new("b", [].into(), "capacity");
        for (low_qps, high_qps, low, high, said) in [
            (876.0, 4_163_467.0, 0.0, 64e9, "about 60,391 qps"),
            (50_000.0, 70_000.0, 0.05, 8.0, "60,391 qps, 50,000 to 70,000"),
            (
                50_000.0,
                70_000.0,
                0.9,
                1.1,
                "60,391 qps, 50,000 to 70,000; x a 1.000, 0.900 to 1.100",
            ),
        ] {
            let qps = 60_391.0;
            cell.capacity = Some(ServerCapacity { qps, low_qps, high_qps, ..Default::default() });
            cell.ratio = Some(CapacityRatio { baseline: "a".to_owned(), value: 1.0, low, high });
            assert_eq!(so_far(&cell), said);
        }
    }

    #[test]
    fn discarded_rounds_are_not_counted() {
        let mut cell = CellRecord::new("b", [].into(), "capacity");
        for first in [0, 1] {
            let round = |round| record::Round { round, ..record::Round::default() };
            cell.rounds = (first..first + 7).map(round).collect();
            assert_eq!(made_of(&cell), (7, least_rounds([])), "{first}");
        }
    }

    #[test]
    fn what_is_planned_is_said() {
        assert_eq!(numbered(7, 8, 24), "round 7 of 8 to 24");
        assert_eq!(numbered(9, 8, 24), "round 9 of at most 24");
        let timed = planned(8, 24, Some(TIME_BUDGET));
        assert_eq!(timed, "8 rounds of each server, then up to 24 within 10 s for each server");
        assert_eq!(planned(8, 4, None), "4 rounds of each server, without a time limit");
        assert!(planned(8, 24, None).starts_with("8 to 24 rounds of each server, without a time"));
    }

    #[test]
    fn the_end_by_time_tells_the_widest_interval_and_how_to_go_on() {
        let mut cell = CellRecord::new("b", [].into(), "capacity");
        assert_eq!(half_width(&cell), None);
        let (low_qps, high_qps) = (90.0, 105.0);
        cell.capacity =
            Some(ServerCapacity { qps: 100.0, low_qps, high_qps, ..ServerCapacity::default() });
        assert!((half_width(&cell).expect("a capacity") - 0.1).abs() < 1e-9);
        cell.ratio =
            Some(CapacityRatio { baseline: "a".to_owned(), value: 1.0, low: 0.9, high: 1.2 });
        let said = out_of_time(half_width(&cell), 24);
        let wanted = "the time limit of 10 s for each server ended the rounds at +-20 %: `--rounds 24` has no time limit";
        assert_eq!(said, wanted);
    }
}
