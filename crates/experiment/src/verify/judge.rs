//! Compares measured values with known ones, and decides whether a disturbance of the machine
//! explains a difference.

use measure::pacing::EXPERIMENT;
use measure::{Disturbances, Nanos, Pacing, Qps, Stall, Transport};
use record::{Bound, Check, CheckVerdict, Known, Trial, TrialRecord, TruthSource};

use super::behaviour::Behaviour;
use super::table::Case;
use super::way::ServerCounts;
use super::{Capture, Captured, INTERVAL};
use crate::search::SearchTrace;

/// Largest error of a capacity, in percent.
const CAPACITY_BOUND: Bound = Bound::Percent(2.0);
/// Largest error of the connections a second, in percent: a trial has some hundreds.
const CONNECTION_RATE_BOUND: Bound = Bound::Percent(5.0);
/// Largest error of a rate over a trial, in percent.
const RATE_BOUND: Bound = Bound::Percent(0.2);
/// Largest number of percentage points of uneven intervals.
const MAX_UNEVEN: Bound = Bound::Absolute(5.0);
/// An interval is even within this share of its queries, and within two queries.
const EVEN_WITHIN: f64 = 0.02;
/// Largest error of a percentile, in microseconds: the way there and back, and waking the server up.
const LATENCY_SET: Bound = Bound::Absolute(500.0);
/// Largest difference between the percentiles of the Tester and of the capture, in microseconds.
const LATENCY_CAPTURED: Bound = Bound::Absolute(250.0);
/// Largest error and difference over connections, where the Tester timestamps in user space.
const LATENCY_STREAMS: Bound = Bound::Absolute(1_000.0);
/// Counts are exact; a share of all queries may be rounded, and start at any query.
const COUNT: Bound = Bound::Absolute(2.0);
pub(super) const EXACT: Bound = Bound::Absolute(0.0);
const NO_CAPTURE: CheckVerdict = CheckVerdict::NotMade;

/// Outcome of a trial: the Tester's record, the server's own counts, and the capture if there was
/// one.
pub(super) struct Outcome {
    pub(super) trial: Trial,
    pub(super) counted: ServerCounts,
    pub(super) capture: Option<Capture>,
}

/// Makes all checks of a row. `wrong` is the share by which the known values are wrong on purpose.
pub(super) fn row(case: &Case, outcome: &Outcome, wrong: f64) -> Vec<Check> {
    let Outcome { trial, counted, capture } = outcome;
    let server = |what: &str, known: u64, found: u64| {
        let known = counted_as(TruthSource::Server, known as f64, EXACT);
        let check = Check::compare(what, known, found as f64);
        tester_limited(check, || void(trial).or_else(|| dropped_by_server(trial)))
    };
    let mut checks = vec![server("queries counted by the server", counted.queries, trial.sent)];
    if case.way.per_connection.is_some() {
        let found = trial.connections.as_ref().map_or(0, |c| c.established);
        checks.push(server("connections counted by the server", counted.connections, found));
    }
    checks.extend(planned(case, trial, 1.0 + wrong));
    checks.extend(experiments(case, trial, 1.0 + wrong));
    let shape = capture.as_ref().map(|capture| match case.pacing {
        Pacing::Constant { rate } if case.behaviour == Behaviour::default() => {
            sending(rate, trial, capture, wrong)
        }
        Pacing::Poisson { .. } | Pacing::Ramp { .. } => gaps(case.pacing, trial, capture),
        _ => Vec::new(),
    });
    checks.extend(shape.into_iter().flatten());
    checks.extend(behaviour_checks(&case.behaviour, trial, capture.as_ref(), wrong));
    for check in &mut checks {
        check.name = case.name(&check.name);
    }
    checks
}

/// Makes the check of the number of queries that a schedule has.
fn planned(case: &Case, trial: &Trial, right: f64) -> Option<Check> {
    let seconds = case.duration.as_secs_f64();
    let (count, bound) = match case.pacing {
        Pacing::Constant { rate } => (rate.get() * seconds, 1.0),
        Pacing::Ramp { from, to } => ((from.get() + to.get()) / 2.0 * seconds, 1.0),
        // Five standard deviations.
        Pacing::Poisson { rate } => (rate.get() * seconds, 5.0 * (rate.get() * seconds).sqrt()),
        Pacing::LockStep { experiments, .. } => (f64::from(experiments * EXPERIMENT), 0.0),
        _ => return None,
    };
    let known = counted_as(TruthSource::Set, count * right, Bound::Absolute(bound));
    let check = Check::compare("queries of the schedule", known, trial.sent as f64);
    // Chance is within the bound already, so only a stall of the Tester excuses a difference.
    Some(tester_limited(check, || stood_still(trial)))
}

/// Makes the check of the times of lock-step experiments: each lane waits for its share of the 256 replies, one after the other.
fn experiments(case: &Case, trial: &Trial, right: f64) -> Option<Check> {
    let Pacing::LockStep { threads, .. } = case.pacing else { return None };
    let times = &trial.experiment_times_ms;
    let each = f64::from(EXPERIMENT / threads) * trial.latency_from_send_us.mean * right;
    let known =
        Known { truth: TruthSource::Law, value: each, unit: "us", bound: Bound::Percent(3.0) };
    let found = 1e3 * times.iter().sum::<f64>() / times.len().max(1) as f64;
    let check = Check::compare("time of an experiment", known, found);
    Some(tester_limited(check, || void(trial).or_else(|| stood_still(trial))))
}

/// Makes the check of the gaps of a schedule by a capture: Poisson counts vary as much as their mean, and a ramp has the right part of
/// its queries in the first half.
fn gaps(pacing: Pacing, trial: &Trial, capture: &Capture) -> Vec<Check> {
    let check = |what: &str, value: f64, bound: f64, found: Result<f64, String>| {
        let known = Known { value, ..set(Bound::Absolute(bound)) };
        match found {
            Ok(found) => tester_limited(Check::compare(what, known, found), || {
                void(trial).or_else(|| stood_still(trial))
            }),
            Err(why) => Check::without(what, known, NO_CAPTURE).because(why),
        }
    };
    let captured = usable(capture);
    let intervals =
        captured.as_ref().map(|captured| captured.intervals.iter().map(|n| f64::from(*n)));
    let intervals = intervals.map_err(Clone::clone);
    vec![match pacing {
        Pacing::Ramp { from, to } => {
            let part = (3.0 * from.get() + to.get()) / (4.0 * (from.get() + to.get()));
            let half = intervals.map(|all| {
                let (first, sum) = (all.clone().take(all.len() / 2).sum::<f64>(), all.sum::<f64>());
                first / sum.max(1.0)
            });
            check("share of the queries in the ramp's first half", part, 0.02, half)
        }
        _ => {
            let found = intervals.map(|all| {
                let (count, mean) = (all.len() as f64, all.clone().sum::<f64>() / all.len() as f64);
                all.map(|n| (n - mean) * (n - mean)).sum::<f64>() / (count - 1.0) / mean
            });
            // The standard deviation of this ratio is sqrt(2 / n).
            let count = captured.map_or(1, |captured| captured.intervals.len().max(1)) as f64;
            check("variance over mean of the gaps", 1.0, 4.0 * (2.0 / count).sqrt(), found)
        }
    }]
}

/// Returns the drops of the server's own queues.
fn dropped_by_server(trial: &Trial) -> Option<String> {
    let drops = trial.drops.dut_receive + trial.drops.link;
    (drops > 0).then(|| {
        format!("{drops} queries were dropped on the way and in the server's receive queue")
    })
}

/// Makes the checks of a trial of `rate` against a server that answers at once: number and times of
/// sent queries, by the capture.
pub(super) fn sending(rate: Qps, trial: &Trial, capture: &Capture, wrong: f64) -> Vec<Check> {
    let sent = counted_as(TruthSource::Capture, trial.sent as f64, EXACT);
    let received = trial.answered + trial.late + trial.duplicates + trial.unexpected;
    let asked = Known { value: rate.get() * (1.0 + wrong), unit: "qps", ..set(RATE_BOUND) };
    let even = Known { value: 100.0, unit: "%", ..set(MAX_UNEVEN) };
    let captured = match usable(capture) {
        Ok(captured) => captured,
        Err(why) => {
            let names = [("queries sent", sent), ("sending rate", asked), ("even intervals", even)];
            let missing =
                |(what, known)| Check::without(what, known, NO_CAPTURE).because(why.clone());
            return names.map(missing).into();
        }
    };
    let count = |what: &str, known: u64, found: u64| {
        let known = counted_as(TruthSource::Capture, known as f64, EXACT);
        let check = Check::compare(what, known, found as f64);
        tester_limited(check, || void(trial).or_else(|| dropped(trial)))
    };
    let (share, uneven) = evenness(captured, rate);
    let disturbed = disturbed_intervals(&trial.disturbances);
    // Number of intervals that may be uneven, and number of disturbed ones that explains a rate.
    let few = MAX_UNEVEN.value() / 100.0 * captured.intervals.len() as f64;
    let still = |explains: bool| stood_still(trial).filter(|_| explains);
    vec![
        count("queries sent", captured.queries, trial.sent),
        count("replies received", captured.replies, received),
        tester_limited(Check::compare("sending rate", asked, captured.rate_qps), || {
            void(trial).or_else(|| still(disturbed as f64 >= few))
        }),
        tester_limited(Check::compare("even intervals", even, share), || {
            void(trial).or_else(|| still(uneven.saturating_sub(disturbed) as f64 <= few))
        }),
    ]
}

/// Makes the checks of a trial against a server of a known behaviour: counts, percentiles, and the
/// percentiles of a capture if there is one. `wrong` is the share by which the known values are
/// falsified on purpose.
pub fn behaviour_checks(
    behaviour: &Behaviour,
    trial: &Trial,
    capture: Option<&Capture>,
    wrong: f64,
) -> Vec<Check> {
    let right = 1.0 + wrong;
    let sent = trial.sent as f64;
    let late = behaviour.late.map_or(0.0, |late| late.share);
    let count = |what: &str, share: f64, found: u64| {
        // A wrong value differs by more than the bound, however few queries there are.
        let value = sent * share * right + if wrong == 0.0 { 0.0 } else { 2.0 * COUNT.value() };
        Check::compare(what, counted_as(TruthSource::Set, value, COUNT), found as f64)
    };
    let mut checks = Vec::new();
    if behaviour.loss > 0.0 {
        // The machine can only add losses.
        let check = count("lost", behaviour.loss + late, trial.lost);
        let (above, allowed) = (check.is_above(), (sent * (behaviour.loss + late)).round() as u64);
        let excuse = || void(trial).or_else(|| lost_by_stalls(trial, allowed));
        checks.push(tester_limited(check, || if above { excuse() } else { None }));
    }
    if behaviour.servfail > 0.0 {
        // The machine can only lose some.
        let found = trial.rcodes.get("SERVFAIL").copied().unwrap_or(0);
        checks.push(fewer(trial, count("SERVFAIL", behaviour.servfail, found)));
    }
    if behaviour.duplicates > 0.0 {
        // The machine can only lose some.
        checks.push(fewer(trial, count("duplicates", behaviour.duplicates, trial.duplicates)));
    }
    if let Some(late) = behaviour.late {
        // Replies after the timeout of the last query are not waited for.
        let beyond = late.after.as_secs_f64() - trial.conditions.timeout_s;
        let seen = (1.0 - beyond.max(0.0) / trial.duration_s.max(1e-9)).clamp(0.0, 1.0);
        let check = count("late", late.share * seen, trial.late);
        let above = check.is_above();
        let excuse =
            || if above { void(trial).or_else(|| stood_still(trial)) } else { dropped(trial) };
        checks.push(tester_limited(check, excuse));
    }
    checks.extend(percentiles(behaviour, trial, capture, right));
    checks
}

/// Returns each check with its median error over several trials, so that a disturbance of one trial
/// does not decide. A count that is wrong in any trial is returned as wrong: no disturbance
/// explains it.
pub fn median_checks(trials: &[Vec<Check>]) -> Vec<Check> {
    let error = |check: &&Check| check.error.unwrap_or(f64::INFINITY);
    let median = |which: usize| {
        let mut checks: Vec<&Check> =
            trials.iter().filter_map(|checks| checks.get(which)).collect();
        checks.sort_by(|a, b| error(a).total_cmp(&error(b)));
        let wrong = checks.iter().find(|check| check.is_failed() && check.unit.is_empty());
        (*wrong.unwrap_or(&checks[checks.len() / 2])).clone()
    };
    (0..trials.iter().map(Vec::len).max().unwrap_or(0)).map(median).collect()
}

/// Attributes missing replies of a kind to the machine, if it dropped some.
fn fewer(trial: &Trial, check: Check) -> Check {
    if check.is_above() { check } else { tester_limited(check, || dropped(trial)) }
}

/// Makes the checks of the percentiles of a server with two latencies.
fn percentiles(
    behaviour: &Behaviour,
    trial: &Trial,
    capture: Option<&Capture>,
    right: f64,
) -> Vec<Check> {
    let Some(latency) = behaviour.latency else { return Vec::new() };
    let (due, sent) = (&trial.latency_us, &trial.latency_from_send_us);
    let all = [
        ("latency p50", 0.5, latency.low, due.p50, sent.p50),
        ("latency p99", 0.99, latency.high, due.p99, sent.p99),
    ];
    let mut checks = Vec::new();
    for (name, quantile, known, from_due, from_sent) in all {
        let bound = if trial.connections.is_some() { LATENCY_STREAMS } else { LATENCY_SET };
        let known = Known { value: known.as_micros_f64() * right, unit: "us", ..set(bound) };
        let captured = capture.map(usable);
        let beside = captured.as_ref().and_then(|c| c.as_ref().ok());
        let beside = beside.map(|c| c.latency.quantile(quantile).as_micros_f64());
        let check = Check::compare(name, known, from_due);
        let above = check.is_above();
        let server = || {
            // A latency that the Tester and the capture both measure is the server's.
            let beside =
                beside.filter(|us| above && (us - from_sent).abs() <= LATENCY_CAPTURED.value())?;
            Some(format!("the server was late: the capture on its host shows {beside:.0} us too"))
        };
        let departures = || stood_still(trial).filter(|_| many_late(trial, quantile));
        // The machine can only make a reply later.
        let excuse = || void(trial).or_else(server).or_else(departures);
        checks.push(tester_limited(check, || if above { excuse() } else { None }));
        match captured {
            Some(Ok(captured)) => checks.push(beside_server(name, quantile, trial, captured)),
            Some(Err(why)) => {
                let known = latency_captured(from_sent, LATENCY_CAPTURED);
                checks.push(Check::without(name, known, NO_CAPTURE).because(why));
            }
            None => {}
        }
    }
    checks
}

/// Makes the check that compares a percentile (0.5 or 0.99) of the latency from the time of sending
/// with a capture beside the server.
fn beside_server(name: &str, quantile: f64, trial: &Trial, captured: &Captured) -> Check {
    let streams = trial.connections.is_some();
    let bound = if streams { LATENCY_STREAMS } else { LATENCY_CAPTURED };
    let known = latency_captured(captured.latency.quantile(quantile).as_micros_f64(), bound);
    let sent = &trial.latency_from_send_us;
    let found = if quantile == 0.5 { sent.p50 } else { sent.p99 };
    tester_limited(Check::compare(name, known, found), || void(trial))
}

/// A latency of a capture, in microseconds.
fn latency_captured(value: f64, bound: Bound) -> Known {
    Known { truth: TruthSource::Capture, value, unit: "us", bound }
}

/// Makes the check of a capacity of `rate`, whose highest rate without loss is `known`, in queries a second.
pub(super) fn capacity(rate: Qps, known: f64, trace: &SearchTrace) -> Check {
    found(format!("capacity {}", rate.exact()), known, CAPACITY_BOUND, trace)
}

/// Makes the check of the connections a second of a server that accepts `rate`.
pub(super) fn connections(transport: Transport, rate: f64, trace: &SearchTrace) -> Check {
    found(format!("connections a second over {transport}"), rate, CONNECTION_RATE_BOUND, trace)
}

/// Makes the check of a search's result.
fn found(name: String, known: f64, bound: Bound, trace: &SearchTrace) -> Check {
    let known = Known { value: known, unit: "qps", ..set(bound) };
    let capacity = &trace.capacity;
    let check = match capacity.qps {
        Some(found) => Check::compare(name, known, found),
        None => Check::without(name, known, CheckVerdict::Failed),
    };
    let above = check.is_above();
    let check = tester_limited(check, || if above { None } else { below(known.value, trace) });
    match check.verdict {
        CheckVerdict::Failed => check.because(&capacity.verdict),
        _ => check,
    }
}

/// Returns the reason of the machine for which a search ended below the known capacity, if there is
/// one: the search reports that the Tester could not send more, or every trial that failed below
/// the capacity is void, or its losses happened during stalls.
pub(super) fn below(known: f64, trace: &SearchTrace) -> Option<String> {
    let found = trace.capacity.qps.unwrap_or(0.0);
    let beyond = trace.trials.iter().rev().filter(|record| record.rate_qps > found);
    let stopped = beyond.filter_map(|record| void(&record.trial)).next();
    // A search without a result that ended void shows nothing about the server either.
    if let (true, Some(why)) = (trace.capacity.at_least || trace.void().is_some(), stopped) {
        return Some(format!("{}: {why}", trace.capacity.verdict));
    }
    let between = |record: &&TrialRecord| record.rate_qps > found && record.rate_qps <= known;
    let failed = |record: &&TrialRecord| record.trial.void.is_void() || record.trial.bad() > 0;
    let trials: Vec<_> = trace.trials.iter().filter(between).filter(failed).collect();
    let whys = trials
        .iter()
        .map(|record| void(&record.trial).or_else(|| lost_by_stalls(&record.trial, 0)));
    match whys.collect::<Option<Vec<String>>>() {
        Some(whys) => whys.into_iter().next_back(),
        None => None,
    }
}

/// Turns a failure into a Tester-limited value if `why` has a reason.
pub(super) fn tester_limited(check: Check, why: impl FnOnce() -> Option<String>) -> Check {
    if !check.is_failed() {
        return check;
    }
    match why() {
        Some(why) => Check { verdict: CheckVerdict::TesterLimited, ..check }.because(why),
        None => check,
    }
}

/// A known value that was set; the caller adds value and unit.
fn set(bound: Bound) -> Known {
    Known { truth: TruthSource::Set, value: 0.0, unit: "", bound }
}

/// Makes a known count, which has no unit.
fn counted_as(truth: TruthSource, value: f64, bound: Bound) -> Known {
    Known { truth, value, unit: "", bound }
}

/// Returns the capture, or the reason why it is not usable.
fn usable(capture: &Capture) -> Result<&Captured, String> {
    match capture {
        Capture::Missing(why) => Err(why.clone()),
        Capture::Taken(captured) if captured.dropped > 0 => {
            Err(format!("the capture lost {} packets", captured.dropped))
        }
        Capture::Taken(captured) if captured.queries < 2 => Err("the capture is empty".to_owned()),
        Capture::Taken(captured) => Ok(captured),
    }
}

/// Returns why a trial is void.
pub(super) fn void(trial: &Trial) -> Option<String> {
    trial.void.0.as_ref().map(ToString::to_string)
}

/// Returns the stall that explains the lost queries of a trial beyond `allowed`, if one does.
fn lost_by_stalls(trial: &Trial, allowed: u64) -> Option<String> {
    let round_trip = Nanos((trial.latency_from_send_us.min * 1e3) as u64);
    trial.disturbances.void(trial.bad(), allowed, round_trip).map(|void| void.to_string())
}

/// Returns the drops of the Tester's own receive queue.
fn dropped(trial: &Trial) -> Option<String> {
    let drops = trial.drops.tester_receive;
    (drops > 0).then(|| format!("the Tester's receive queue dropped {drops} replies"))
}

/// Returns the longest stall or late departure of the Tester.
pub(super) fn stood_still(trial: &Trial) -> Option<String> {
    let noted = &trial.disturbances;
    let stall = noted.stalls.iter().max_by_key(|stall| stall.length).map(Stall::to_string);
    let late = noted.late.iter().map(|span| span.worst).max();
    let late = late.map(|worst| format!("a query left {:.1} ms late", worst.as_secs_f64() * 1e3));
    stall.map(|stall| format!("the longest stall was {stall}")).or(late)
}

/// Returns whether late queries alone can make up the latency at `quantile` from the due time.
fn many_late(trial: &Trial, quantile: f64) -> bool {
    let late: u64 = trial.disturbances.late.iter().map(|span| span.queries).sum();
    late as f64 >= (1.0 - quantile) / 2.0 * trial.sent as f64
}

/// Counts the intervals that stalls and late departures may have changed.
fn disturbed_intervals(noted: &Disturbances) -> usize {
    let late = noted.late.iter().map(|span| span.until.since(span.from));
    let stalls = noted.stalls.iter().map(|stall| stall.length);
    // Delayed queries arrive in the next interval.
    late.chain(stalls).map(|length| (length.0 / INTERVAL.0) as usize + 2).sum()
}

/// Returns the percentage of even intervals, and the number of the others.
fn evenness(captured: &Captured, rate: Qps) -> (f64, usize) {
    let due = rate.get() * INTERVAL.as_secs_f64();
    let within = (due * EVEN_WITHIN).max(2.0);
    let uneven =
        captured.intervals.iter().filter(|count| (f64::from(**count) - due).abs() > within);
    let (all, uneven) = (captured.intervals.len(), uneven.count());
    (100.0 * (all - uneven) as f64 / all.max(1) as f64, uneven)
}

/// Makes the checks of a trial with a given capture: counts, rate, evenness and latencies. A closed
/// loop has no rate to check.
pub fn against_capture(trial: &Trial, rate: Option<Qps>, captured: Captured) -> Vec<Check> {
    let offered = Qps::new(trial.offered_qps).unwrap_or_default();
    let capture = Capture::Taken(captured);
    let mut checks = sending(rate.unwrap_or(offered), trial, &capture, 0.0);
    if rate.is_none() {
        checks.truncate(2);
    }
    let at = rate.unwrap_or(offered).exact();
    checks.iter_mut().for_each(|check| check.name = format!("{} at {at}", check.name));
    if let Ok(captured) = usable(&capture) {
        let percentiles = [("latency p50", 0.5), ("latency p99", 0.99)];
        checks.extend(percentiles.map(|(name, q)| beside_server(name, q, trial, captured)));
    }
    checks
}

#[cfg(test)]
mod tests {
    use measure::Void;
    use record::Capacity;

    use super::*;

    #[test]
    fn a_search_that_the_tester_ended_names_the_last_void_rate_above_what_it_found() {
        let trial = |(rate_qps, why)| {
            let mut trial = Trial::default();
            trial.void.0 = Some(why);
            TrialRecord { repeat: 0, rate_qps, trial }
        };
        let trials = [(500.0, Void::NothingSent), (2_000.0, Void::Interrupted)];
        let (at_least, verdict) = (true, "the Tester ended".to_owned());
        let capacity = Capacity { qps: Some(1_000.0), at_least, verdict, ..Capacity::default() };
        let trace = SearchTrace { capacity, trials: trials.map(trial).to_vec() };
        let why = format!("the Tester ended: {}", Void::Interrupted);
        assert_eq!(below(3_000.0, &trace), Some(why));
    }
}
