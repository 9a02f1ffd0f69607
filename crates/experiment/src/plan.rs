//! The plan of an experiment: the order of the visits, and their expected duration.
//!
//! A cell is a server at a point of the matrix; a visit measures it once (a repeat). In interleaved order each repeat
//! visits every cell in a shuffled order, and every second repeat uses the previous order backwards (A B B A), so
//! that a steady drift affects all cells equally.

use measure::{Nanos, Rng};

use crate::capacity::MIN_ROUNDS;
use crate::file::{Experiment, Point};
use crate::search::Search;
use crate::settings::{AUTO, Generator, GeneratorSettings, Method, Order, Role, Settings};

/// One measurement of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Index of the server in the list of the run.
    pub server: usize,
    /// Index of the point of the matrix.
    pub point: usize,
    /// Number of the repeat, from 0.
    pub repeat: u32,
}

/// Returns all visits of `servers` servers, in their order; `repeats` has the number of repeats of each point.
pub fn visits(servers: usize, repeats: &[u32], order: Order, seed: u64) -> Vec<Visit> {
    let points = repeats.len();
    let cells: Vec<(usize, usize)> =
        (0..points).flat_map(|point| (0..servers).map(move |server| (server, point))).collect();
    let visit = |repeat| move |&(server, point): &(usize, usize)| Visit { server, point, repeat };
    let most = repeats.iter().copied().max().unwrap_or(0);
    let planned = |v: &Visit| v.repeat < repeats[v.point];
    if order == Order::Grouped {
        let mut cells = cells;
        // All visits of a server together.
        cells.sort_unstable();
        let all = cells.iter().flat_map(|cell| (0..most).map(move |r| visit(r)(cell)));
        return all.filter(planned).collect();
    }
    let mut block = cells;
    let mut out = Vec::with_capacity(block.len() * most as usize);
    for repeat in 0..most {
        if repeat % 2 == 0 {
            shuffle(&mut block, &mut Rng::part(seed, u64::from(repeat)));
        } else {
            block.reverse();
        }
        out.extend(block.iter().map(visit(repeat)).filter(planned));
    }
    out
}

/// Puts the items into a random order (Fisher-Yates), each order with the same probability.
fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for i in (1..items.len()).rev() {
        items.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

/// Time to start and stop a server, with AuthDNS and probes, in seconds.
const START_S: f64 = 0.8;
/// Rate at which a typical server loads names from its zone file, and at which the lab writes them, in names a
/// second.
const ZONE_RATE: f64 = 250_000.0;
/// Rate at which a typical primary signs, in names a second.
const SIGNING_RATE: f64 = 10_000.0;
/// Rate at which a typical primary commits updates, in updates a second.
const UPDATE_RATE: f64 = 300.0;
/// Overhead of one trial beside its sending, in seconds: start, last timeout, settling.
const TRIAL_S: f64 = 0.4;

/// Time from the request for a drill to its start, in seconds: the load and the attack start by one clock.
const DRILL_S: f64 = 2.8;

/// Time that a round of a capacity takes beside its closed loop, with its part of the windows and loads, in seconds.
const ROUND_S: f64 = 0.8;

/// Rate at which connections are opened before a trial, in connections a second.
const CONNECTIONS_PER_S: f64 = 2_000.0;

/// Estimates the duration of one visit at a point; `loads` tells whether the server loads the zone
/// of a namespace.
pub fn visit_estimate(settings: &Settings, loads: bool) -> Nanos {
    let seconds = |time: Nanos| time.as_secs_f64();
    let connecting = f64::from(settings.tester.clients.unwrap_or(0)) / CONNECTIONS_PER_S;
    let trial = |duration: Nanos| seconds(duration) + TRIAL_S + connecting;
    let measuring = match settings.method {
        Method::Search | Method::Clients => settings.search().map_or(0.0, |s| {
            let is_of_clients = settings.method == Method::Clients;
            let trials = if is_of_clients { CLIENT_TRIALS } else { expected_trials(&s) };
            trials * (seconds(s.duration) * MEAN_DURATION_SHARE + TRIAL_S)
        }),
        // 256 queries at some thousand a second and lane.
        Method::Lockstep => {
            let s = &settings.lockstep;
            TRIAL_S + f64::from(s.experiments) * 0.12 / f64::from(s.lanes).sqrt()
        }
        Method::Load => {
            settings.load.as_ref().map_or(0.0, |l| l.rates.len() as f64 * trial(l.duration))
        }
        Method::Drill => settings.drill.as_ref().map_or(0.0, |d| DRILL_S + trial(d.duration())),
        Method::Closed => trial(settings.closed.duration),
        Method::Capacity => {
            // Where connections are opened, a second loop has more queries on each.
            let loops = if settings.tester.queries_per_connection.is_some() { 2.0 } else { 1.0 };
            loops * seconds(settings.capacity.duration) + ROUND_S
        }
        Method::Answers => comparison_s(settings) / settings.servers.len().max(1) as f64,
        Method::ZoneLoad => {
            let rate = if settings.zone_load.rate { trial(settings.closed.duration) } else { 0.0 };
            let starts = f64::from(settings.zone_load.later) + 1.0;
            rate + starts * (zone_s(settings, loads) + START_S)
        }
        Method::Generators => {
            let GeneratorSettings { generator, experiments, processes } = settings.generators;
            TRIAL_S
                + match generator {
                    Generator::Script => 2.0 * f64::from(experiments * processes),
                    timed if timed.is_timed() => 2.0,
                    _ => 0.12 * f64::from(experiments),
                }
        }
        Method::UpdateRate => {
            let r = &settings.replication;
            // The primary is started again after it was killed.
            (r.updates + 2 * r.killed_after) as f64 / UPDATE_RATE
                + START_S
                + zone_s(settings, loads)
        }
        Method::QueryUnderUpdate | Method::SignedUnsigned => {
            let others = settings.replication.secondaries.len() + settings.replication.instances;
            trial(settings.closed.duration) + others as f64 * (START_S + zone_s(settings, loads))
        }
    };
    let warm_up = if settings.warm_up == Nanos::ZERO { 0.0 } else { trial(settings.warm_up) };
    span(START_S + zone_s(settings, loads) + warm_up + measuring)
}

/// Converts seconds to a duration.
fn span(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

/// Mean share of its duration that a trial lasts: failing trials end early.
const MEAN_DURATION_SHARE: f64 = 0.75;
/// Number of trials of a search over clients: two find how many clients the server can serve, and
/// three are near that number.
const CLIENT_TRIALS: f64 = 5.0;

/// Number of queries of a comparison whose file was not read, and share of the repeated queries.
const UNREAD_FILE_QUERIES: u64 = 100_000;
const REPEATED_SHARE: f64 = 0.5;

/// Estimates the time of a comparison of all servers, in seconds.
fn comparison_s(settings: &Settings) -> f64 {
    let queries = settings.workload.mixed.unwrap_or(UNREAD_FILE_QUERIES) as f64;
    queries * (1.0 + REPEATED_SHARE) / settings.answers.rate.get() + TRIAL_S
}

/// Estimates the time to load the zone of an authoritative server, in seconds.
fn zone_s(settings: &Settings, loads: bool) -> f64 {
    if settings.method.replicates() {
        let (r, delegations) = (&settings.replication, settings.replication.delegations as f64);
        let signed = r.signed && settings.method != Method::SignedUnsigned;
        return delegations / ZONE_RATE + if signed { delegations / SIGNING_RATE } else { 0.0 };
    }
    let w = &settings.workload;
    if let Some(names) = w.hosts.or(w.delegations).or(w.mixed) {
        // The server that has the zone loads it before the server under test is ready.
        return names as f64 / ZONE_RATE;
    }
    let len = settings.workload.namespace.rsplit_once('/').and_then(|(_, len)| len.parse().ok());
    match (settings.role, len) {
        _ if !loads => 0.0,
        (Role::Authoritative, None) if settings.workload.namespace == AUTO => {
            settings.names_of_a_trial().next_power_of_two() as f64 / ZONE_RATE
        }
        (Role::Authoritative, Some(len @ 0..=32)) => 2f64.powi(32 - len) / ZONE_RATE,
        _ => 0.0,
    }
}

/// Estimates the trials of a search: doubling or halving to the bracket, then bisection to the resolution.
fn expected_trials(search: &Search) -> f64 {
    let up = (search.max.get() / search.start.get()).log2().max(1.0);
    // The capacity lies between the ends of the range.
    (up / 2.0).ceil() + 1.0 + (1.0 / search.resolution).log2().ceil()
}

/// Estimates the duration of the self-test; zero if none is needed.
pub fn self_test_estimate(experiment: &Experiment) -> Nanos {
    let common = experiment.common();
    match &common.search {
        Some(s) if common.method == Method::Search && s.self_test => {
            // Three short trials with known results follow.
            span(3.0 * (s.duration.as_secs_f64() + 0.4 + 2.0 * TRIAL_S))
        }
        _ => Nanos::ZERO,
    }
}

/// Returns the number of the experiment's servers that are measured at the point with this number.
pub fn servers_at(experiment: &Experiment, point: usize) -> usize {
    let settings = &experiment.points[point].settings;
    experiment.common().servers.iter().filter(|server| settings.measures(server)).count()
}

/// Estimates the duration of all visits within the experiment's budget, but for the rounds that are
/// made in any case; `servers` returns how many servers are visited at a point, by its number, and
/// `loads` tells whether one of them loads the zone of a namespace.
pub fn estimate(experiment: &Experiment, servers: impl Fn(usize) -> usize, loads: bool) -> Nanos {
    let common = experiment.common();
    let time_of = |most: u32| {
        let of_point = |(number, point): (usize, &Point)| {
            let visits = f64::from(point.settings.repeats.min(most)) * servers(number) as f64;
            visit_estimate(&point.settings, loads).as_secs_f64() * visits
        };
        span(experiment.points.iter().enumerate().map(of_point).sum())
    };
    let least = if common.method == Method::Capacity { MIN_ROUNDS } else { 0 };
    let whole = time_of(u32::MAX) + self_test_estimate(experiment);
    common.budget.map_or(whole, |budget| budget.max(time_of(least)).min(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_blocks_go_forth_and_back() {
        let all = visits(2, &[4; 3], Order::Interleaved, 7);
        assert_eq!(all.len(), 24);
        let block = |r: usize| &all[r * 6..(r + 1) * 6];
        let cells = |b: &[Visit]| b.iter().map(|v| (v.server, v.point)).collect::<Vec<_>>();
        for r in 0..4 {
            assert!(block(r).iter().all(|v| v.repeat == r as u32));
            let mut sorted = cells(block(r));
            sorted.sort_unstable();
            assert_eq!(sorted, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
        }
        let mut back = cells(block(1));
        back.reverse();
        assert_eq!(cells(block(0)), back);
        assert_ne!(cells(block(0)), cells(block(2)), "shuffled anew");
        assert_eq!(all, visits(2, &[4; 3], Order::Interleaved, 7), "by the seed alone");
        assert_ne!(all, visits(2, &[4; 3], Order::Interleaved, 8));
    }

    #[test]
    fn a_point_has_its_own_number_of_repeats() {
        for order in [Order::Interleaved, Order::Grouped] {
            let all = visits(2, &[3, 1], order, 7);
            let of = |point| all.iter().filter(|v| v.point == point).map(|v| v.repeat).max();
            assert_eq!((all.len(), of(0), of(1)), (8, Some(2), Some(0)), "{order:?}");
        }
    }

    #[test]
    fn a_point_takes_the_time_of_its_servers() {
        let text = "name = \"x\"\ntitle = \"X\"\nrole = \"dns64\"\nservers = [\"x\", \"y\", \"z\"]\nmethod = \"closed\"\n\
                    repeats = 2\n[[matrix.way]]\nname = \"usual\"\n[[matrix.way]]\nname = \"programs\"\nonly = [\"x\"]\n";
        let experiment = Experiment::parse(text, std::path::Path::new("x.toml")).expect("valid");
        assert_eq!([0, 1].map(|point| servers_at(&experiment, point)), [3, 1]);
        let visit = visit_estimate(experiment.common(), true).as_secs_f64();
        let visits = |servers: &dyn Fn(usize) -> usize| {
            (estimate(&experiment, servers, true).as_secs_f64() / visit).round() as u32
        };
        assert_eq!(visits(&|point| servers_at(&experiment, point)), 8);
        // Of one server that the second point is not for.
        assert_eq!(visits(&|point| 1 - point), 2);
    }

    #[test]
    fn grouped_goes_cell_by_cell() {
        let all = visits(2, &[2], Order::Grouped, 7);
        let visit = |server, repeat| Visit { server, point: 0, repeat };
        assert_eq!(all, [visit(0, 0), visit(0, 1), visit(1, 0), visit(1, 1)]);
    }
}
