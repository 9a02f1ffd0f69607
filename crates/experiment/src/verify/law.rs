//! Closed loops, checked by Little's law: a server of a fixed delay d and without a queue answers a
//! window of W at W / (d + r) a second, where r is the rest of the round trip.
//!
//! ```text
//! places   ████████████████  full: W = rate x round trip       an empty place, for any reason, lowers the rate
//!          ██████▒▒██████▒▒  empty for a part of the time      and not the round trip
//! ```
//!
//! The round trip is compared with the round trip of one query at a time without delay: in a queue that grows it is longer.
//! The server counts the queries of all loops that it answers.

use measure::{Nanos, Pacing, Qps};
use record::{Bound, Check, CheckVerdict, Known, Trial, TruthSource};

use super::behaviour::Behaviour;
use super::captured::slope;
use super::judge::{EXACT, stood_still, tester_limited, void};
use super::way::{Loops, Way};
use super::{RunningVerification, VerifyPlan};
use crate::bench::BenchError;

/// Largest error of a rate by Little's law, in percent, and the longest time for which a place is empty between the kernel's time of a
/// reply and its next query, in microseconds: one drive of the engine, with its wake-up.
const LAW_BOUND: Bound = Bound::Percent(3.0);
const DRIVE_US: f64 = 30.0;
/// Share of the steps, from the first on, in which a window may still open.
const OPENING_SHARE: f64 = 0.3;
/// Largest share of a pair's rate at which a law is checked.
const MAX_RATE_SHARE: f64 = 0.5;
/// Time by which a round trip may exceed the round trip of a single query, besides the work for a
/// window: microseconds, and a part of the delay, during which cores may sleep.
const SLACK_US: f64 = 150.0;
const SLACK_PART: f64 = 0.1;

/// Longest round trip of one query at a time on one host, in microseconds.
const ONE: Known =
    Known { truth: TruthSource::Law, value: 0.0, unit: "us", bound: Bound::Absolute(1_000.0) };

/// Rate and latency that Tester and server reach together over a way, without delay.
struct Reach {
    way: Way,
    /// Round trip of one query at a time, in microseconds.
    round_trip_us: f64,
    /// Queries a second of a large window.
    rate: f64,
}

/// The middle of a closed loop: its rate, and the mean round trip.
struct SteadyLoop {
    rate: f64,
    round_trip_us: f64,
}

impl RunningVerification<'_> {
    /// Checks windows over each way by Little's law.
    pub(super) fn windows(&mut self) -> Result<(), BenchError> {
        let windows = self.plan.windows.clone();
        let Some(most) = windows.iter().flat_map(|(_, windows)| windows).max() else {
            return Ok(());
        };
        self.bench.serve(&Behaviour::default())?;
        let mut abilities = Vec::new();
        for way in self.plan.ways.clone() {
            self.bench.use_way(way)?;
            let one = self.measure_round_trip(way)?;
            let many = self.closed(*most.min(&100), self.plan.way_duration)?;
            let many = SteadyLoop::of(&many);
            abilities.extend(one.zip(many).map(|(one, many)| Reach {
                way,
                round_trip_us: one.round_trip_us,
                rate: many.rate,
            }));
        }
        self.count("no delay")?;
        for (delay, windows) in &windows {
            let delay = *delay;
            self.bench.serve(&Behaviour { delay, ..Behaviour::default() })?;
            for ability in &abilities {
                self.bench.use_way(ability.way)?;
                for &window in windows {
                    let asked =
                        f64::from(window) / (delay.as_secs_f64() + ability.round_trip_us / 1e6);
                    if asked <= MAX_RATE_SHARE * ability.rate {
                        self.window(window, delay, ability)?;
                    }
                }
            }
            self.count(&format!("delay {delay}"))?;
        }
        Ok(())
    }

    /// Adds the checks of one window.
    fn window(&mut self, window: u32, delay: Nanos, ability: &Reach) -> Result<(), BenchError> {
        // About fifty round trips.
        let duration = self.plan.way_duration.max(Nanos(50 * delay.0));
        let pacing = Pacing::Window { outstanding: window };
        let mut tries = 0;
        let checks = loop {
            let trial = self.closed(window, duration)?;
            let checks = window_checks(window, delay, ability, &trial, self.plan.wrong);
            if !self.again(&checks, &mut tries) {
                break checks;
            }
        };
        let rate = Qps::new(checks[0].found.unwrap_or(0.0)).unwrap_or_default();
        self.add_all(ability.way, pacing, rate, checks);
        Ok(())
    }

    /// Adds the check of one query at a time without delay, and returns the result.
    fn measure_round_trip(&mut self, way: Way) -> Result<Option<SteadyLoop>, BenchError> {
        let mut tries = 0;
        loop {
            let trial = self.closed(1, self.plan.way_duration)?;
            let one = SteadyLoop::of(&trial);
            let found = one.as_ref().map_or(f64::INFINITY, |one| one.round_trip_us);
            let check = Check::compare(format!("round trip, one query, {way}"), ONE, found);
            let check = tester_limited(check, || void(&trial).or_else(|| stood_still(&trial)));
            if !self.again(std::slice::from_ref(&check), &mut tries) {
                self.add(check);
                return Ok(one);
            }
        }
    }

    /// Adds the check that the server counted the queries of the closed loops, and ends it.
    fn count(&mut self, server: &str) -> Result<(), BenchError> {
        let Loops { sent, lost } = std::mem::take(&mut self.loops);
        let counted = self.bench.server_counts()?.queries;
        let name = format!("queries counted by the server, windows, {server}");
        let (truth, value) = (TruthSource::Server, counted as f64);
        let check =
            Check::compare(name, Known { truth, value, unit: "", bound: EXACT }, sent as f64);
        let explained = (counted..=counted + lost).contains(&sent);
        self.add(tester_limited(check, || {
            explained.then(|| format!("{lost} queries got no answer in time"))
        }));
        Ok(())
    }

    /// Runs a window against the server that runs.
    fn closed(&mut self, window: u32, duration: Nanos) -> Result<Trial, BenchError> {
        let pacing = Pacing::Window { outstanding: window };
        let trial = self.bench.trial(&VerifyPlan::spec(pacing, duration))?;
        self.loops.sent += trial.sent;
        self.loops.lost += trial.lost;
        Ok(trial)
    }
}

/// Returns the disturbance in a trial, if it explains that a rate or a round trip is wrong by the
/// part `error`: the part of the time that was lost, and as much again in which the places of a
/// window fill.
fn machine(trial: &Trial, error: f64) -> Option<String> {
    let explained = LAW_BOUND.value() / 100.0 + 2.0 * lost_time(trial);
    void(trial).or_else(|| stood_still(trial)).filter(|_| error > 0.0 && error <= explained)
}

/// Returns the part of the time of a trial in which its programs stood still or waited for a core, at most 1.
fn lost_time(trial: &Trial) -> f64 {
    let noted = &trial.disturbances;
    let still: f64 = noted.stalls.iter().map(|stall| stall.length.as_secs_f64()).sum();
    let waited = trial.cpu.values().filter_map(|cpu| cpu.run_delay.or(cpu.foreign));
    (still / trial.duration_s.max(1e-9) + waited.sum::<f64>()).min(1.0)
}

/// Makes the checks of a closed loop with `window` queries outstanding, against a server with
/// `delay`.
fn window_checks(window: u32, delay: Nanos, pair: &Reach, trial: &Trial, wrong: f64) -> Vec<Check> {
    let name = |what: &str| format!("{what}, window {window}, delay {delay}, {}", pair.way);
    let law = |value| Known { truth: TruthSource::Law, value, unit: "qps", bound: LAW_BOUND };
    let Some(found) = SteadyLoop::of(trial) else {
        let none = Check::without(name("rate"), law(0.0), CheckVerdict::Failed);
        return vec![none.because("no query was answered")];
    };
    let (places, right) = (f64::from(window), 1.0 + wrong);
    let rate = places / (found.round_trip_us / 1e6);
    let behind = 1.0 - found.rate / (rate * right);
    // Places may be empty for one pass of the worker, so that the true value is a range.
    let least = places / ((found.round_trip_us + DRIVE_US) / 1e6);
    let truth = found.rate.clamp(least * right, rate * right);
    let rate = Check::compare(name("rate"), law(truth), found.rate);
    let rate = tester_limited(rate, || machine(trial, behind));
    let slack = SLACK_US + SLACK_PART * delay.as_micros_f64() + places / pair.rate * 1e6;
    let known = Known {
        truth: TruthSource::Law,
        value: delay.as_micros_f64() * right + pair.round_trip_us,
        unit: "us",
        bound: Bound::Absolute(slack),
    };
    let trip = Check::compare(name("round trip"), known, found.round_trip_us);
    // A disturbance can only make the round trip longer.
    let longer = (found.round_trip_us - slack) / known.value - 1.0;
    vec![rate, tester_limited(trip, || machine(trial, longer))]
}

impl SteadyLoop {
    /// Returns the middle of a trial whose queries were counted in steps; `None` if none was answered there.
    fn of(trial: &Trial) -> Option<Self> {
        let steps = trial.steps.as_ref()?;
        // The last step may be shorter.
        let whole = ((trial.duration_s / steps.length_s) as usize).min(steps.steps.len());
        let first = (whole as f64 * OPENING_SHARE) as usize;
        let middle = steps.steps.get(first..whole)?;
        let answered: u64 = middle.iter().map(|step| step.answered).sum();
        let waited: f64 = middle.iter().map(|step| step.answered as f64 * step.latency_us).sum();
        let mut sent = 0;
        let sums = middle.iter().map(|step| {
            sent += step.sent;
            sent as f64
        });
        let rate = slope(sums.collect::<Vec<f64>>().iter().copied()) / steps.length_s;
        (answered > 0).then(|| SteadyLoop { rate, round_trip_us: waited / answered as f64 })
    }
}
