//! The capacity of a running server: rounds of closed loops until the interval is narrow.

use std::collections::BTreeMap;

use experiment::capacity::{Known, NextRound, is_precise, least_rounds, sum_up};
use experiment::settings::CapacitySettings;
use experiment::{Bench, BenchError, Method, NameBudget};
use measure::Nanos;
use record::{CellRecord, TrialRecord};

use super::SearchArgs;

/// Duration of the closed loop of a round, and largest number of rounds.
const DURATION: Nanos = Nanos::from_millis(500);
const ROUNDS: u32 = 24;

/// Makes rounds until they are enough; returns the cell, and the error that ended them early.
pub(super) fn measure(
    args: &SearchArgs,
    bench: &mut dyn Bench,
    server: &str,
    names: &mut NameBudget,
    keep: &mut dyn FnMut(&TrialRecord),
) -> (CellRecord, Option<BenchError>) {
    let mut cell = CellRecord::new(server, BTreeMap::new(), Method::Capacity.word());
    let (rounds, duration) = (args.repeats.unwrap_or(ROUNDS), args.duration.unwrap_or(DURATION));
    let mut settings =
        CapacitySettings { duration, timeout: args.timeout, ..CapacitySettings::default() };
    for round in 0..rounds {
        settings.known = Known::of(&cell);
        let mut trials = Vec::new();
        let next = NextRound {
            settings: &settings,
            pacing: args.pacing,
            round,
            rounds,
            bench,
            names,
            seen: &mut |trial| {
                keep(trial);
                trials.push(trial.clone());
            },
        };
        let found = match next.make() {
            Ok(found) => found,
            Err(error) => return (cell, Some(error)),
        };
        cell.trials.extend(trials);
        cell.repeats += 1;
        found.add_to(&mut cell);
        sum_up(&mut [&mut cell], None);
        eprintln!("{}", line(&cell, round + 1, rounds));
        let precise = is_precise(std::iter::once(&cell), settings.precision);
        if round + 1 >= least_rounds([&cell]) && precise {
            break;
        }
    }
    (cell, None)
}

/// Returns the line of a round: the capacity so far.
fn line(cell: &CellRecord, made: u32, most: u32) -> String {
    let so_far = match (&cell.capacity, cell.rounds.last()) {
        (Some(c), _) => format!("{:.0} qps, {:.0} to {:.0}", c.qps, c.low_qps, c.high_qps),
        (None, Some(round)) => format!("about {:.0} qps", round.qps),
        (None, None) => String::new(),
    };
    format!("round {made} of {} to {most}: {so_far}", least_rounds([cell]))
}
