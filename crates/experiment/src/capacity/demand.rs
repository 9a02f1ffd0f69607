//! How a server's CPU time is split between queries, connections and unanswered queries.
//!
//! ```text
//! over streams:  CPU / answer = CPU / query + CPU / connection x connections / answer, at two numbers of queries on a connection
//! with loss:     CPU / answer = CPU / answer of loops without loss + CPU of the queries without a valid answer
//! ```

use measure::stats::{line, median};
use record::{CellRecord, Round, StreamDemand};

use super::round::{CONFIDENCE, HALF, LOSS, middle, round_of, speed_in};

/// Smallest ratio of the connections for each answer in the two loops from which both demands can
/// be computed.
const MIN_CONNECTION_RATIO: f64 = 2.0;
/// Share of the highest lossless rate from which on a loop shows the CPU time of a valid answer,
/// which falls with the load.
const NEAR_MOST: f64 = 0.8;
/// Factor by which the demand at half of the capacity may be larger if it does not fall with the load.
const FLAT: f64 = 1.05;

/// Returns the demand of each query and of each new connection, from both kinds of loops; `None`
/// where connections were not opened at two rates, or their cost is within chance.
pub(super) fn of_streams(cell: &CellRecord) -> Option<StreamDemand> {
    let speed = speed_in(cell);
    let point = |round: &Round| {
        Some((round.connections_per_answer?, round.cpu_us_per_answer? * speed(round)))
    };
    let points = |rounds: &[Round]| rounds.iter().filter_map(point).collect::<Vec<_>>();
    let loops = [points(&cell.rounds), points(&cell.longer_connections)];
    let [query, connection] = line([&loops[0], &loops[1]], MIN_CONNECTION_RATIO, CONFIDENCE)?;
    let is_known = query.value > 0.0 && connection.interval.low > 0.0;
    is_known.then(|| StreamDemand {
        cpu_us_per_query: query.value,
        query_low_us: query.interval.low.max(0.0),
        query_high_us: query.interval.high,
        cpu_us_per_connection: connection.value,
        connection_low_us: connection.interval.low,
        connection_high_us: connection.interval.high,
    })
}

/// Returns the share of the server's CPU time for queries without a valid answer, in a cell whose
/// rounds took `cpu_us` for each valid answer; `None` without a loop without losses, or if that
/// loop took as much.
pub(super) fn of_unanswered(cell: &CellRecord, cpu_us: f64) -> Option<f64> {
    let speed = speed_in(cell);
    let tried = cell.windows.iter().map(|step| Round {
        qps: step.qps,
        cpu_us_per_answer: step.cpu_us_per_answer,
        work_ns: step.work_ns,
        unanswered: step.unanswered,
        ..Round::default()
    });
    let trials = cell.trials.iter().map(|record| round_of(&record.trial, record.repeat));
    let whole: Vec<(f64, f64)> = tried
        .chain(trials)
        .filter(|round| round.unanswered <= LOSS)
        .filter_map(|round| Some((round.qps, round.cpu_us_per_answer? * speed(&round))))
        .collect();
    let most = whole.iter().map(|(qps, _)| *qps).fold(0.0, f64::max);
    let near = whole.iter().filter(|(qps, _)| *qps >= NEAR_MOST * most);
    let valid_us = median(&near.map(|(_, cpu_us)| *cpu_us).collect::<Vec<_>>())?;
    Some(1.0 - valid_us / cpu_us).filter(|share| *share > 0.0)
}

/// Returns whether the demand of a cell does not fall with the load: open loops at half of the capacity needed about as much for each
/// answer as closed ones.
pub(super) fn is_level(cell: &CellRecord) -> bool {
    let speed = speed_in(cell);
    let cpu_us =
        |rounds: &[Round]| middle(rounds, |round| Some(round.cpu_us_per_answer? * speed(round)));
    let half = cell.loads.iter().find(|load| load.share == HALF);
    let of_half =
        cell.trials.iter().filter(|trial| Some(trial.rate_qps) == half.map(|half| half.asked_qps));
    let of_half: Vec<Round> =
        of_half.map(|record| round_of(&record.trial, record.repeat)).collect();
    cpu_us(&of_half).zip(cpu_us(&cell.rounds)).is_some_and(|(half, whole)| half <= FLAT * whole)
}
