//! The capacity of a cell from its rounds: figure, basis, interval, and whether more rounds are needed.

use std::collections::BTreeMap;

use measure::stats::{OfRounds, of_rounds};
use measure::{Histogram, Limiter};
use record::{
    Basis, CapacityRatio, CellRecord, Decision, FailIf, Figure, Gate, LoadPoint, Round, Seen,
    ServerCapacity,
};

use super::demand;
use super::round::{CONFIDENCE, OTHERS, SATURATED, limit_of, middle, speed_in, used};
use super::window::{choose, least_rounds};

/// Smallest busy share of the server from which its capacity is extrapolated by its demand, if that
/// does not fall with the load: at the speed of its cores then, a capacity is at most 1 / 0.8 of
/// the rate that was reached.
const MIN_BUSY_SHARE: f64 = 0.8;
/// Share of queries without a valid answer from which on it is reported.
const MIN_UNANSWERED: f64 = 0.01;
/// Share of the time that a Tester may wait for its core beside a server that drops queries; and where the server has the same core,
/// beyond the time that the server ran.
const MAX_WAITED: f64 = 0.5;
const WAITED_FOR_OTHERS: f64 = 0.25;
/// Share of their full speed below which slow cores are reported.
const SLOW_CORE: f64 = 0.9;
/// Factor by which an open loop gets more answers than a closed one that was the limit itself; a full token bucket gives some more, too.
const OPEN_LOOP_GAIN: f64 = 1.1;

/// The rounds of a cell, each with its figure.
struct Figures {
    basis: Basis,
    exceeded: bool,
    seen: Vec<Seen>,
    /// The figure of every round by its number, and its answers a second, for ratios: two cells have few calm rounds in common.
    by_round: BTreeMap<u32, (f64, f64)>,
    /// The figures of the rounds that the capacity is computed from.
    values: Vec<f64>,
}

/// Returns the rounds that show the limit and a plateau: rounds in which other processes hardly
/// used the cores, and at least the calmer half. If others used the cores there too, also the
/// largest share that they used.
fn calm_rounds(cell: &CellRecord) -> (Vec<&Round>, Option<f64>) {
    let mut shares: Vec<f64> = cell.rounds.iter().map(Round::others).collect();
    shares.sort_by(f64::total_cmp);
    // With two rounds both stay, since one has no interval.
    let others = shares.get(shares.len() / 2).copied().unwrap_or(0.0).max(OTHERS);
    let calm = cell.rounds.iter().filter(|round| round.others() <= others);
    (calm.collect(), Some(others).filter(|others| *others > OTHERS))
}

/// Returns whether a share that others used of the Tester's core was no limit, where the server's
/// own core was not seen: a small share is no limit if the server drops queries; if the server
/// shares the core, its own run time is subtracted.
fn is_excused(cell: &CellRecord, others: f64, shares: bool, drops: bool) -> bool {
    let ran = |round: &Round| Some(round.busy? * round.cores?);
    let own = || middle(&cell.rounds, ran).unwrap_or(1.0);
    let is_little =
        if shares { others - own() <= WAITED_FOR_OTHERS } else { drops && others <= MAX_WAITED };
    is_unseen(cell) && is_little
}

/// Returns whether only the answers of the server were observed.
fn is_unseen(cell: &CellRecord) -> bool {
    cell.rounds.iter().all(|round| round.foreign.is_none())
}

impl Figures {
    fn of(cell: &CellRecord) -> Self {
        let mut seen = cell.hidden.clone();
        let (calm, others) = calm_rounds(cell);
        let calm = || calm.iter().copied();
        let is_known = cell.rounds.iter().all(|round| round.busy.is_some());
        let tester = middle(calm(), |round| round.tester_busy).unwrap_or(0.0);
        if !is_known && !seen.iter().any(Seen::hides_cpu) {
            let programs = cell.rounds.iter().any(|round| round.programs_us_per_answer.is_some());
            seen.push(if programs { Seen::InKernel } else { Seen::NoCpu });
        }
        let is_known = !seen.iter().any(Seen::hides_cpu);
        let of_known = |of: fn(&Round) -> Option<f64>| middle(calm(), of).filter(|_| is_known);
        let [used, busy] = [used, |round: &Round| round.busy].map(of_known);
        let unanswered = middle(calm(), |round| Some(round.unanswered)).unwrap_or(0.0);
        // A server that drops queries was offered more than it answers, however busy the Tester was.
        let drops = unanswered > MIN_UNANSWERED
            && choose(&cell.windows).is_some_and(|step| step.most_qps.is_some());
        let tester_ends = tester >= SATURATED && !drops;
        let shares = seen.contains(&Seen::SharedCore);
        let others = others.filter(|others| !is_excused(cell, *others, shares, drops));
        let basis = match used {
            Some(used) if used >= SATURATED => Basis::Saturated,
            Some(used) if used >= MIN_BUSY_SHARE && tester_ends && demand::is_level(cell) => {
                Basis::Demand
            }
            _ => Basis::Plateau,
        };
        let closed = middle(calm(), |round| Some(round.qps)).unwrap_or(0.0);
        let open = cell.loads.iter().filter_map(|load| load.answered_qps).fold(0.0, f64::max);
        let open = (basis == Basis::Plateau && open > OPEN_LOOP_GAIN * closed).then_some(open);
        // Other processes on the cores of the Tester or the server may have been the limit, also if
        // the server had CPU left.
        let exceeded =
            basis == Basis::Plateau && (tester_ends || open.is_some() || others.is_some());
        seen.extend(others.filter(|_| basis == Basis::Plateau).map(Seen::Others));
        seen.extend(open.map(Seen::OpenLoop));
        match (basis, busy) {
            // On shared cores the Tester used a part of the CPU time.
            (Basis::Plateau, Some(busy)) if !seen.contains(&Seen::SharedCore) => {
                seen.push(Seen::CpuLeft((1.0 - busy).max(0.0)));
            }
            (Basis::Saturated, Some(busy)) if busy < SATURATED => {
                seen.extend(used.map(Seen::FullThread));
            }
            _ => {}
        }
        if tester_ends && basis != Basis::Saturated {
            seen.push(Seen::TesterBusy(tester.min(1.0)));
        }
        let speed = speed_in(cell);
        let slow =
            middle(&cell.rounds, |round| Some(speed(round))).filter(|speed| *speed < SLOW_CORE);
        seen.extend(slow.filter(|_| basis != Basis::Plateau).map(Seen::SlowCore));
        seen.extend((unanswered > MIN_UNANSWERED).then_some(Seen::Unanswered(unanswered)));
        let figure = |round: &Round| match basis {
            Basis::Plateau => round.qps,
            Basis::Saturated | Basis::Demand => limit_of(round, speed(round)).unwrap_or(round.qps),
        };
        let values = match basis {
            Basis::Plateau => calm().map(figure).collect(),
            Basis::Saturated | Basis::Demand => cell.rounds.iter().map(figure).collect(),
        };
        let by_round =
            cell.rounds.iter().map(|round| (round.round, (figure(round), round.qps))).collect();
        Figures { basis, exceeded, seen, by_round, values }
    }

    /// Returns the figures of the rounds that another cell has as well, and that cell's: the answers a second of both if one of them is
    /// a plateau, since two builds on either side of saturation differ by their basis otherwise.
    fn pairs(&self, other: &Figures) -> BTreeMap<u32, (f64, f64)> {
        let alike = (self.basis == Basis::Plateau) == (other.basis == Basis::Plateau);
        let of = |(figure, answers): (f64, f64)| if alike { figure } else { answers };
        let pair = |(round, own): (&u32, &(f64, f64))| {
            Some((*round, (of(*own), of(*other.by_round.get(round)?))))
        };
        self.by_round.iter().filter_map(pair).collect()
    }

    /// Returns the ratio to the figures of the server `baseline`, paired by round.
    fn ratio(&self, other: &Figures, baseline: &str) -> Option<CapacityRatio> {
        let ratios: Vec<f64> = self.pairs(other).values().map(|(own, other)| own / other).collect();
        let OfRounds { value, interval } = of_rounds(&ratios, CONFIDENCE, 1)?;
        let baseline = baseline.to_owned();
        Some(CapacityRatio { baseline, value, low: interval.low, high: interval.high })
    }

    /// Returns the capacity of the cell whose figures these are; `None` if the rounds are too few, or gave no answers.
    fn capacity(&self, cell: &CellRecord) -> Option<ServerCapacity> {
        let OfRounds { value, interval } = of_rounds(&self.values, CONFIDENCE, 1)?;
        let speed = speed_in(cell);
        let cpu_us_per_answer =
            middle(&cell.rounds, |round| Some(round.cpu_us_per_answer? * speed(round)))
                .filter(|_| !self.seen.iter().any(Seen::hides_cpu));
        let mut seen = self.seen.clone();
        let lost = seen.iter().any(|seen| matches!(seen, Seen::Unanswered(_)));
        let share = cpu_us_per_answer.filter(|_| lost);
        let share = share.and_then(|cpu_us| demand::of_unanswered(cell, cpu_us));
        seen.extend(share.map(Seen::CpuOfUnanswered));
        Some(ServerCapacity {
            qps: value,
            low_qps: interval.low,
            high_qps: interval.high,
            confidence: interval.confidence,
            basis: self.basis,
            exceeded: self.exceeded,
            streams: cpu_us_per_answer.and_then(|_| demand::of_streams(cell)),
            cpu_us_per_answer,
            rounds: cell.rounds.len() as u32,
            window: choose(&cell.windows).map_or(0, |step| step.window),
            seen,
        })
    }
}

/// Returns the capacity of a cell from its rounds so far; `None` if they are too few, or gave no answers.
pub fn capacity_of(cell: &CellRecord) -> Option<ServerCapacity> {
    Figures::of(cell).capacity(cell)
}

/// Returns the figures of two cells by the number of the rounds that both have, as their ratio is computed.
pub fn pairs_of(cell: &CellRecord, other: &CellRecord) -> BTreeMap<u32, (f64, f64)> {
    Figures::of(cell).pairs(&Figures::of(other))
}

/// Returns the answers a second that the server gives at the usual speed of its cores, which is the
/// basis of open loops.
pub(super) fn usual_qps(cell: &CellRecord) -> Option<f64> {
    let ServerCapacity { qps, basis, .. } = capacity_of(cell)?;
    let speed = speed_in(cell);
    let speed =
        middle(&cell.rounds, |round| Some(speed(round))).filter(|_| basis != Basis::Plateau);
    Some(qps * speed.unwrap_or(1.0))
}

/// Computes the capacity of each cell, and its ratio to that of the server `baseline` at the same settings.
pub fn sum_up(cells: &mut [&mut CellRecord], baseline: Option<&str>) {
    for cell in cells.iter_mut() {
        cell.loads = cell.loads.iter().map(|point| load_point(cell, point)).collect();
    }
    let figures: Vec<Figures> = cells.iter().map(|cell| Figures::of(cell)).collect();
    let ratio = |number: usize| {
        let cell = &cells[number];
        let baseline = baseline.filter(|baseline| *baseline != cell.server)?;
        let other = cells.iter().position(|other| other.is(baseline, &cell.settings))?;
        figures[number].ratio(&figures[other], baseline)
    };
    let ratios: Vec<Option<CapacityRatio>> = (0..cells.len()).map(ratio).collect();
    let found = figures.into_iter().zip(ratios);
    for (cell, (figures, ratio)) in cells.iter_mut().zip(found) {
        if cell.rounds.is_empty() {
            continue;
        }
        (cell.capacity, cell.ratio) = (figures.capacity(cell), ratio);
        let tester_ended = figures.seen.iter().any(|seen| matches!(seen, Seen::TesterBusy(_)));
        cell.limiter = match (tester_ended, figures.exceeded) {
            (true, _) => Limiter::TesterCpu,
            (false, true) => Limiter::Unknown,
            (false, false) if is_unseen(cell) && figures.basis == Basis::Plateau => Limiter::Target,
            (false, false) => Limiter::Dut,
        };
        cell.figures = [("capacity".to_owned(), Figure::new("qps", figures.values))].into();
    }
}

/// Returns whether the first `made` rounds of the cells are enough: as many as the method requires, and every capacity and ratio is known
/// within `precision`, or within half of the change of a condition, so that no change and the largest allowed one can be distinguished; or
/// the conditions are decided. Each look at these is a chance to err, so that there is one after the least rounds, twice as many, ...
pub fn are_enough<'c>(
    cells: impl Iterator<Item = &'c CellRecord> + Clone,
    precision: f64,
    fail_if: &[FailIf],
    made: u32,
) -> bool {
    let halves = fail_if.iter().map(|condition| condition.change.abs() / 2.0);
    let precision = halves.fold(precision, f64::min);
    let least = least_rounds(cells.clone());
    let is_decided = || {
        let gate = Gate::of(fail_if, &cells.clone().collect::<Vec<_>>());
        made.is_multiple_of(least)
            && gate.is_some_and(|gate| gate.decision != Decision::Inconclusive)
    };
    made >= least && (is_precise(cells.clone(), precision) || is_decided())
}

/// Returns whether every capacity and every ratio of the cells is known within `precision`.
fn is_precise<'c>(cells: impl Iterator<Item = &'c CellRecord>, precision: f64) -> bool {
    let near = |low: f64, high: f64| (high / low).ln() / 2.0 <= precision;
    let mut measured = cells.filter(|cell| !cell.rounds.is_empty());
    measured.all(|cell| {
        let capacity = cell.capacity.as_ref().is_some_and(|c| near(c.low_qps, c.high_qps));
        capacity && cell.ratio.as_ref().is_none_or(|ratio| near(ratio.low, ratio.high))
    })
}

/// Merges the trials of a load.
fn load_point(cell: &CellRecord, point: &LoadPoint) -> LoadPoint {
    let trials = || {
        let of_load = |t: &&record::TrialRecord| t.rate_qps == point.asked_qps;
        cell.trials.iter().filter(of_load).map(|t| &t.trial)
    };
    let (mut latency, mut late) = (Histogram::new(), 0.0);
    let (mut sent, mut bad, mut valid, mut seconds) = (0, 0, 0, 0.0);
    for trial in trials() {
        if let Ok(times) = trial.latency_us.histogram() {
            latency.merge(&times);
        }
        late += trial.late_departures() * trial.sent as f64;
        (sent, bad) = (sent + trial.sent, bad + trial.bad());
        valid += trial.valid_while_sending.unwrap_or(trial.valid);
        seconds += trial.sent as f64 / trial.achieved_qps().max(1e-9);
    }
    let us = |quantile| latency.quantile(quantile).as_micros_f64();
    let (sent_f, seconds) = (sent.max(1) as f64, f64::max(seconds, 1e-9));
    let offered_qps = sent as f64 / seconds;
    let point = LoadPoint { offered_qps, ..point.clone() };
    LoadPoint {
        answered_qps: Some(valid as f64 / seconds),
        reached: point.is_offered() && late / sent_f <= LoadPoint::MAX_LATE_SHARE,
        p50_us: us(0.5),
        p90_us: us(0.9),
        p99_us: us(0.99),
        unanswered: bad as f64 / sent_f,
        late_departures: late / sent_f,
        ..point
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_end_when_a_condition_is_decided() {
        let round = |round| Round { round, ..Round::default() };
        let cell = |server: &str| CellRecord {
            rounds: (0..8).map(round).collect(),
            capacity: Some(ServerCapacity {
                qps: 1.0,
                low_qps: 0.8,
                high_qps: 1.2,
                ..Default::default()
            }),
            ..CellRecord::new(server, [].into(), "capacity")
        };
        let least = least_rounds([&cell("new")]);
        for (low, high, made, enough) in [
            (0.8, 0.9, least, true),
            (0.8, 0.9, least - 1, false),
            // Only every so often, as each look may err.
            (0.8, 0.9, least + 1, false),
            (0.8, 0.9, 2 * least, true),
            (0.98, 1.2, least, true),
            (0.9, 1.1, least, false),
        ] {
            let baseline = "old".to_owned();
            let ratio = Some(CapacityRatio { baseline, value: 1.0, low, high });
            let cells = [cell("old"), CellRecord { ratio, ..cell("new") }];
            let fail_if = ["new < -3%".parse().expect("a condition")];
            assert_eq!(
                are_enough(cells.iter(), 0.03, &fail_if, made),
                enough,
                "{low} {high} {made}"
            );
            assert!(!are_enough(cells.iter(), 0.03, &[], made));
        }
    }

    #[test]
    fn two_builds_on_either_side_of_saturation_have_the_ratio_of_their_answers() {
        let cell = |server: &str, busy: f64| {
            let round = |round| Round {
                round,
                qps: 1e5 * busy,
                cpu_us_per_answer: Some(10.0),
                cores: Some(1.0),
                busy: Some(busy),
                ..Round::default()
            };
            let rounds = (0..8).map(round).collect();
            CellRecord { rounds, ..CellRecord::new(server, [].into(), "capacity") }
        };
        let mut cells = [cell("old", 0.905), cell("new", 0.895), cell("newer", 0.92)];
        sum_up(&mut cells.iter_mut().collect::<Vec<_>>(), Some("old"));
        let bases = cells.each_ref().map(|cell| cell.capacity.as_ref().map(|found| found.basis));
        assert_eq!(bases, [Basis::Saturated, Basis::Plateau, Basis::Saturated].map(Some));
        let ratio = |cell: &CellRecord| cell.ratio.as_ref().map(|ratio| ratio.value);
        assert!((ratio(&cells[1]).expect("a ratio") - 0.895 / 0.905).abs() < 1e-3);
        assert!((ratio(&cells[2]).expect("a ratio") - 1.0).abs() < 1e-3);
    }
}
