//! Pacing: when queries leave.
//!
//! ```text
//! open loop     a schedule says when query k is due, whatever the server does
//!               constant   query k is due at k / rate
//!               poisson    exponential gaps
//!               ramp       the rate grows or shrinks linearly over the duration, or stays at its last for the rest of it
//! closed loop   window     a new query replaces each one that has ended (dnsperf), at most at a rate if it has one
//!               lock-step  n lanes; each sends its next query when its last one is answered (dns64perf)
//! ```
//!
//! Each is written as one text, which [`Pacing`] reads and prints:
//!
//! ```text
//! constant 20k      20,000 queries a second, evenly
//! poisson 20k       the same on average, with exponential gaps
//! ramp 1k..20k      from 1,000 to 20,000 queries a second over the duration
//! ramp 0..20k then 30s    the same from 0, and 20,000 queries a second for the last 30 seconds
//! window 256        256 queries outstanding
//! window 256 at most 20k    the same, but no more than 20,000 queries a second
//! lockstep 4x256    4 lanes, 256 experiments of 256 queries; `lockstep 4x256 anew`: with threads that start anew for each
//! ```

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

pub use self::schedule::Schedule;
use crate::units::{Nanos, Qps};

mod schedule;

/// Queries of one of dns64perf's experiments.
pub const EXPERIMENT: u32 = 256;

/// Pacing of a trial: when its queries leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// Open loop with a constant rate.
    Constant {
        /// Offered rate, in queries per second.
        rate: Qps,
    },
    /// Open loop with exponential gaps of mean `1 / rate`.
    Poisson {
        /// Mean offered rate, in queries per second.
        rate: Qps,
    },
    /// Open loop whose rate changes linearly over the duration of the trial.
    Ramp {
        /// Rate at the start, in queries per second.
        from: Qps,
        /// Rate at the end, in queries per second.
        to: Qps,
    },
    /// Open loop whose rate changes linearly and then stays.
    RampHold {
        /// Rate at the start, in queries per second.
        from: Qps,
        /// Rate at the end of the ramp and after it, in queries per second.
        to: Qps,
        /// Last part of the duration, in which the rate stays.
        hold: Nanos,
    },
    /// Closed loop that keeps a fixed number of queries outstanding.
    Window {
        /// Number of outstanding queries, summed over all workers.
        outstanding: u32,
    },
    /// Closed loop that keeps a number of queries outstanding, but sends no more than a rate.
    CappedWindow {
        /// Number of outstanding queries, summed over all workers.
        outstanding: u32,
        /// Highest rate, in queries per second.
        rate: Qps,
    },
    /// Lock-step lanes, like the threads of dns64perf: in each experiment each of `threads` lanes sends its share of 256
    /// queries one after the other.
    LockStep {
        /// Number of lanes, at most 256.
        threads: u32,
        /// Number of experiments, each of 256 queries.
        experiments: u32,
        /// Whether a lane is a thread started again for each experiment, with a socket of its own,
        /// as in dns64perf2; otherwise it is a socket of a worker.
        anew: bool,
    },
}

/// Last word of a lock-step load whose threads are started again for each experiment.
const ANEW_WORD: &str = " anew";

impl Pacing {
    /// Returns the open-loop schedule over `duration`; `None` for closed loops.
    pub fn schedule(self, duration: Nanos, seed: u64) -> Option<Schedule> {
        match self {
            Pacing::Constant { rate } => Some(Schedule::constant(rate, duration)),
            Pacing::Poisson { rate } => Some(Schedule::poisson(rate, duration, seed)),
            Pacing::Ramp { from, to } => Some(Schedule::ramp(from, to, duration)),
            Pacing::RampHold { from, to, hold } => {
                Some(Schedule::ramp_and_hold(from, to, hold, duration))
            }
            Pacing::Window { .. } | Pacing::CappedWindow { .. } | Pacing::LockStep { .. } => None,
        }
    }

    /// Returns the highest mean rate, in queries per second; `None` for closed loops, which have no rate.
    pub fn peak_rate(self) -> Option<Qps> {
        match self {
            Pacing::Constant { rate } | Pacing::Poisson { rate } => Some(rate),
            Pacing::Ramp { from, to } | Pacing::RampHold { from, to, .. } => {
                Some(if from > to { from } else { to })
            }
            Pacing::Window { .. } | Pacing::CappedWindow { .. } | Pacing::LockStep { .. } => None,
        }
    }

    /// Returns the largest number of outstanding queries over all workers; `None` for open loops, which have no limit.
    pub fn outstanding(self) -> Option<u32> {
        match self {
            Pacing::Window { outstanding } | Pacing::CappedWindow { outstanding, .. } => {
                Some(outstanding)
            }
            Pacing::LockStep { threads, .. } => Some(threads),
            Pacing::Constant { .. }
            | Pacing::Poisson { .. }
            | Pacing::Ramp { .. }
            | Pacing::RampHold { .. } => None,
        }
    }

    /// Returns the rate of an open loop at `offset` from the start of a trial of `duration`; `None` for closed loops.
    pub fn rate_at(self, offset: Nanos, duration: Nanos) -> Option<Qps> {
        let (from, to, hold) = match self {
            Pacing::Ramp { from, to } => (from, to, Nanos::ZERO),
            Pacing::RampHold { from, to, hold } => (from, to, hold),
            other => return other.peak_rate(),
        };
        let span = duration.since(hold).as_secs_f64();
        let part = if span > 0.0 { (offset.as_secs_f64() / span).min(1.0) } else { 1.0 };
        Qps::new(from.get() + (to.get() - from.get()) * part)
    }

    /// Returns whether the rate grows or shrinks during the trial.
    pub fn is_ramp(self) -> bool {
        matches!(self, Pacing::Ramp { .. } | Pacing::RampHold { .. })
    }

    /// Returns whether queries leave at times that do not depend on the server.
    pub fn is_open_loop(self) -> bool {
        self.outstanding().is_none()
    }

    /// Returns whether the load lasts for the duration of a trial; a lock-step load ends with its
    /// experiments.
    pub fn is_timed(self) -> bool {
        !matches!(self, Pacing::LockStep { .. })
    }

    /// Returns the largest number of queries that `workers` together send within `duration`; `None` for a window, which
    /// sends as many as the server answers.
    ///
    /// Poisson arrivals have no upper bound; the result is six standard deviations above each
    /// worker's mean, which a seed in 10^9 exceeds.
    pub fn most_queries(self, duration: Nanos, workers: u32) -> Option<u64> {
        match self {
            Pacing::Window { .. } => None,
            // The last query of each worker may be due at the end.
            Pacing::CappedWindow { rate, .. } => {
                Some(rate.queries_in(duration).saturating_add(u64::from(workers)))
            }
            Pacing::LockStep { experiments, .. } => {
                Some(u64::from(experiments) * u64::from(EXPERIMENT))
            }
            Pacing::Poisson { rate } => {
                let workers = f64::from(workers.max(1));
                let mean = rate.get() * duration.as_secs_f64() / workers;
                Some((workers * (mean + 6.0 * mean.sqrt() + 16.0)).ceil() as u64)
            }
            Pacing::Constant { .. } | Pacing::Ramp { .. } | Pacing::RampHold { .. } => {
                self.schedule(duration, 0).map(|schedule| schedule.planned())
            }
        }
    }

    /// Returns the word with which the pacing's text begins.
    pub fn kind(self) -> &'static str {
        match self {
            Pacing::Constant { .. } => "constant",
            Pacing::Poisson { .. } => "poisson",
            Pacing::Ramp { .. } | Pacing::RampHold { .. } => "ramp",
            Pacing::Window { .. } | Pacing::CappedWindow { .. } => "window",
            Pacing::LockStep { .. } => "lockstep",
        }
    }

    /// Returns the pacing in words, for records and the live view.
    pub fn describe(self) -> String {
        match self {
            Pacing::Constant { rate } => format!("constant {rate}"),
            Pacing::Poisson { rate } => format!("poisson {rate}"),
            Pacing::Ramp { from, to } => format!("ramp {from} to {to}"),
            Pacing::RampHold { from, to, hold } => format!("ramp {from} to {to} then {hold}"),
            Pacing::Window { outstanding } => format!("window {outstanding}"),
            Pacing::CappedWindow { outstanding, rate } => {
                format!("window {outstanding} at most {rate}")
            }
            Pacing::LockStep { threads, experiments, anew } => {
                let anew = if anew { ANEW_WORD } else { "" };
                format!("lockstep {threads} threads, {experiments} experiments{anew}")
            }
        }
    }

    /// Returns the pacing that [`Pacing::describe`] describes, with rates as rounded as there; `None` for other texts.
    pub fn described(text: &str) -> Option<Pacing> {
        let words = [(" qps", ""), (" to ", ".."), (" threads, ", "x"), (" experiments", "")];
        let text =
            words.iter().fold(text.to_owned(), |text, (word, sign)| text.replace(word, sign));
        text.parse().ok()
    }
}

impl fmt::Display for Pacing {
    /// Prints what [`Pacing::from_str`] reads; rates are exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pacing::Constant { rate } => write!(f, "constant {}", rate.exact()),
            Pacing::Poisson { rate } => write!(f, "poisson {}", rate.exact()),
            Pacing::Ramp { from, to } => write!(f, "ramp {}..{}", from.exact(), to.exact()),
            Pacing::RampHold { from, to, hold } => {
                write!(f, "ramp {}..{} then {hold}", from.exact(), to.exact())
            }
            Pacing::Window { outstanding } => write!(f, "window {outstanding}"),
            Pacing::CappedWindow { outstanding, rate } => {
                write!(f, "window {outstanding} at most {}", rate.exact())
            }
            Pacing::LockStep { threads, experiments, anew } => {
                write!(f, "lockstep {threads}x{experiments}{}", if *anew { ANEW_WORD } else { "" })
            }
        }
    }
}

/// A text that is no pacing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{found}` is not a pacing: {why}; write for example `constant 20k`, `poisson 20k`, `ramp 1k..20k`, `window 256` or \
     `lockstep 4x256`"
)]
pub struct PacingError {
    /// The text as the user gave it.
    pub found: String,
    /// The problem.
    pub why: String,
}

impl FromStr for Pacing {
    type Err = PacingError;

    /// Reads `constant 20k`, `poisson 20k`, `ramp 1k..20k`, `ramp 0..20k then 30s`, `window 256`, `window 256 at most 20k`,
    /// `lockstep 4x256`, `lockstep 4x256 anew`.
    fn from_str(text: &str) -> Result<Self, PacingError> {
        let error = |why: String| PacingError { found: text.to_owned(), why };
        let rate = |word: &str| word.parse::<Qps>().map_err(|e| error(e.to_string()));
        let number = |word: &str| {
            let number = word.trim().parse().ok().filter(|n| *n > 0);
            number.ok_or_else(|| error(format!("`{}` is not a number from 1 on", word.trim())))
        };
        let pair = |words: &'static str, between: &'static str, given: &str| {
            let found = given.split_once(between).map(|(a, b)| (a.to_owned(), b.to_owned()));
            found.ok_or_else(|| error(format!("it needs {words} with `{between}` between them")))
        };
        let (kind, given) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        match kind {
            "constant" => Ok(Pacing::Constant { rate: rate(given)? }),
            "poisson" => Ok(Pacing::Poisson { rate: rate(given)? }),
            "ramp" => {
                let (rates, hold) =
                    given.split_once(" then ").map_or((given, None), |(a, b)| (a, Some(b)));
                let (from, to) = pair("two rates", "..", rates)?;
                // A ramp may begin at a rate of zero.
                let from = if from.trim() == "0" { Qps::default() } else { rate(&from)? };
                let to = rate(&to)?;
                let Some(hold) = hold else { return Ok(Pacing::Ramp { from, to }) };
                let hold = hold.parse::<Nanos>().map_err(|e| error(e.to_string()))?;
                Ok(Pacing::RampHold { from, to, hold })
            }
            "window" => match given.split_once(" at most ") {
                None => Ok(Pacing::Window { outstanding: number(given)? }),
                Some((outstanding, most)) => Ok(Pacing::CappedWindow {
                    outstanding: number(outstanding)?,
                    rate: rate(most)?,
                }),
            },
            "lockstep" => {
                let (given, anew) =
                    given.strip_suffix(ANEW_WORD).map_or((given, false), |given| (given, true));
                let (threads, experiments) = pair("threads and experiments", "x", given)?;
                let (threads, experiments) = (number(&threads)?, number(&experiments)?);
                Ok(Pacing::LockStep { threads, experiments, anew })
            }
            other => Err(error(format!("there is no pacing `{other}`"))),
        }
    }
}

/// Spacing of the queries of an open loop at one rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpenPacing {
    /// One query after each equal interval.
    #[default]
    Constant,
    /// Gaps between queries are exponentially distributed, as if many independent clients sent them.
    Poisson,
}

impl OpenPacing {
    /// Returns the pacing at a rate.
    pub fn at(self, rate: Qps) -> Pacing {
        match self {
            OpenPacing::Constant => Pacing::Constant { rate },
            OpenPacing::Poisson => Pacing::Poisson { rate },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qps(x: f64) -> Qps {
        Qps::new(x).expect("a rate")
    }

    #[test]
    fn texts_are_read_as_they_are_printed() {
        let (k, third) = (qps(1_000.0), qps(1e5 / 3.0));
        for (pacing, text) in [
            (Pacing::Constant { rate: qps(20_000.0) }, "constant 20k"),
            (Pacing::Constant { rate: third }, "constant 33333.333333333336"),
            (Pacing::Poisson { rate: qps(1.5e6) }, "poisson 1500k"),
            (Pacing::Poisson { rate: qps(0.5) }, "poisson 0.5"),
            (Pacing::Ramp { from: k, to: qps(2e6) }, "ramp 1k..2M"),
            (
                Pacing::RampHold { from: Qps::default(), to: qps(2e4), hold: Nanos::from_secs(90) },
                "ramp 0..20k then 1m 30s",
            ),
            (Pacing::Window { outstanding: 256 }, "window 256"),
            (Pacing::CappedWindow { outstanding: 9, rate: qps(2e4) }, "window 9 at most 20k"),
            (Pacing::LockStep { threads: 4, experiments: 256, anew: false }, "lockstep 4x256"),
            (Pacing::LockStep { threads: 4, experiments: 9, anew: true }, "lockstep 4x9 anew"),
        ] {
            assert_eq!(pacing.to_string(), text);
            assert_eq!(text.parse(), Ok(pacing));
            let words = pacing.describe();
            assert_eq!(Pacing::described(&words).map(Pacing::describe), Some(words));
        }
        for (text, why) in [
            ("", "no pacing ``"),
            ("burst 5k", "no pacing `burst`"),
            ("constant", "not a rate"),
            ("constant 0", "greater than zero"),
            ("ramp 1k", "`..` between"),
            ("ramp 0..0", "greater than zero"),
            ("ramp 0..9 then 3", "duration"),
            ("window 0", "not a number from 1 on"),
            ("window 5 at most", "not a number from 1 on"),
            ("window 5 at most x", "not a rate"),
            ("lockstep 4", "`x` between"),
        ] {
            let error = text.parse::<Pacing>().expect_err(text).to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn closed_loops_have_no_rate_and_open_ones_no_window() {
        let ramp = Pacing::Ramp { from: qps(2e3), to: qps(1e3) };
        assert_eq!((ramp.peak_rate(), ramp.outstanding()), (Some(qps(2e3)), None));
        let window = Pacing::Window { outstanding: 7 };
        assert_eq!((window.peak_rate(), window.outstanding()), (None, Some(7)));
        assert!(ramp.is_open_loop() && !window.is_open_loop() && window.is_timed());
    }

    #[test]
    fn the_rate_of_a_moment() {
        let (seconds, all) = (Nanos::from_secs, Nanos::from_secs(10));
        let at = |pacing: &str, s| {
            let pacing: Pacing = pacing.parse().expect(pacing);
            pacing.rate_at(seconds(s), all).map(Qps::get)
        };
        assert_eq!([0, 5, 10].map(|s| at("ramp 0..100", s)), [0.0, 50.0, 100.0].map(Some));
        assert_eq!(
            [0, 4, 9].map(|s| at("ramp 200..100 then 2s", s)),
            [200.0, 150.0, 100.0].map(Some)
        );
        assert_eq!(at("ramp 0..100 then 10s", 0), Some(100.0));
        assert_eq!((at("constant 7", 3), at("window 7 at most 9", 3)), (Some(7.0), None));
    }
}
