//! The capacities of running servers: rounds of closed loops until the intervals are narrow.

use experiment::capacity::{Known, NextRound, is_precise, least_rounds, sum_up};
use experiment::settings::{CapacitySettings, Order};
use experiment::{BenchError, visits};
use measure::Nanos;
use record::{CellRecord, TrialRecord};

use super::SearchArgs;
use super::servers::Servers;

/// Duration of the closed loop of a round, and largest number of rounds.
const DURATION: Nanos = Nanos::from_millis(500);
const ROUNDS: u32 = 24;

/// Makes rounds, in interleaved order, until they are enough; returns the error that ended them early.
pub(super) fn measure(
    args: &SearchArgs,
    servers: &mut Servers<'_>,
    keep: &mut dyn FnMut(&CellRecord, &TrialRecord),
) -> Result<(), BenchError> {
    let rounds = args.repeats.unwrap_or(ROUNDS);
    let settings = CapacitySettings {
        duration: args.duration.unwrap_or(DURATION),
        timeout: args.timeout,
        ..CapacitySettings::default()
    };
    let precision = args.gate.precision().map_or(settings.precision, |p| p.min(settings.precision));
    let baseline = args.gate.baseline.clone().unwrap_or_else(|| servers.all[0].cell.server.clone());
    let order = visits(servers.all.len(), &[rounds], Order::Interleaved, args.workload.seed);
    for (i, visit) in order.iter().enumerate() {
        let cells = || servers.all.iter().map(|server| &server.cell);
        let begins = i % servers.all.len() == 0;
        if begins && visit.repeat >= least_rounds(cells()) && is_precise(cells(), precision) {
            break;
        }
        let settings = CapacitySettings {
            known: Known::of(&servers.all[visit.server].cell),
            ..settings.clone()
        };
        let mut trials = Vec::new();
        let found = servers.on(visit.server, |bench, names, cell| {
            let mut seen = |trial: &TrialRecord| {
                keep(cell, trial);
                trials.push(trial.clone());
            };
            let (pacing, round) = (args.pacing, visit.repeat);
            let seen = &mut seen;
            NextRound { settings: &settings, pacing, round, rounds, bench, names, seen }.make()
        })?;
        let cell = &mut servers.all[visit.server].cell;
        cell.trials.extend(trials);
        cell.repeats += 1;
        found.add_to(cell);
        let mut cells: Vec<_> = servers.all.iter_mut().map(|server| &mut server.cell).collect();
        sum_up(&mut cells, Some(&baseline));
        eprintln!("{}", line(cells[visit.server], visit.repeat + 1, rounds));
    }
    Ok(())
}

/// Returns the line of a round: the capacity so far, and the ratio to the baseline.
fn line(cell: &CellRecord, made: u32, most: u32) -> String {
    let so_far = match (&cell.capacity, cell.rounds.last()) {
        (Some(c), _) => format!("{:.0} qps, {:.0} to {:.0}", c.qps, c.low_qps, c.high_qps),
        (None, Some(round)) => format!("about {:.0} qps", round.qps),
        (None, None) => String::new(),
    };
    let ratio = cell.ratio.as_ref().map_or(String::new(), |r| {
        format!("; x {} {:.3}, {:.3} to {:.3}", r.baseline, r.value, r.low, r.high)
    });
    let name = &cell.server;
    let least = least_rounds([cell]);
    format!("{name}: round {made} of {least} to {most}: {so_far}{ratio}")
}
