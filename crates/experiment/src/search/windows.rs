//! The clean-window rate: the highest rate at which at least 90 % of the one-second windows are free of loss.
//!
//! A stall of the host spoils one window, an overload all of them. Simulated with this project's host (stalls of 5 ms
//! twice a minute) the rate found is 0.99 to 1.01 of the true capacity, where the RFC's search finds 0.43
//! (docs/method.md).

use measure::Limiter;
use record::{Capacity, Trial};

use super::binary::{self, Verdict};
use super::trials::Trials;
use crate::bench::BenchError;

/// Share of windows that must be free of loss.
const CLEAN: f64 = 0.9;
/// Least number of windows that decide a rate: nine of ten may pass, and one may have a loss.
const WINDOWS: usize = 10;
/// Largest number of trials at one rate.
const MOST_TRIALS: usize = 12;

/// Searches with the rule of clean windows.
pub(super) fn run(trials: &mut Trials<'_>) -> Result<Capacity, BenchError> {
    binary::run(trials, &mut by_windows)
}

/// Decides by the windows of as many trials as needed.
fn by_windows(trials: &mut Trials<'_>, rate: f64) -> Result<Verdict, BenchError> {
    let search = trials.search;
    let (mut clean, mut spoilt) = (0, 0);
    let mut limiter = Limiter::Unknown;
    for _ in 0..MOST_TRIALS {
        let trial = trials.settled(rate, search.duration, false)?;
        if trial.void.is_void() {
            return Ok(Verdict::Void(trial.limiter));
        }
        let (good, bad) = windows(&trial, search.goal.max_loss);
        (clean, spoilt) = (clean + good, spoilt + bad);
        if bad > 0 {
            limiter = trial.limiter;
        }
        // Later windows can no longer make this rate pass.
        let lost = spoilt as f64 > (1.0 - CLEAN) * WINDOWS.max(clean + spoilt) as f64;
        if lost && (good == 0 || clean + spoilt >= WINDOWS) {
            return Ok(Verdict::Failed(limiter));
        }
        if clean + spoilt >= WINDOWS {
            break;
        }
    }
    let enough = clean as f64 >= CLEAN * (clean + spoilt) as f64;
    Ok(if enough && clean > 0 { Verdict::Passed } else { Verdict::Failed(limiter) })
}

/// Counts the one-second windows of a trial that lost at most `max_loss` of their queries, and those that lost more.
fn windows(trial: &Trial, max_loss: f64) -> (usize, usize) {
    let windows = trial.series.iter().filter(|second| second.sent + second.unserved > 0);
    windows.fold((0, 0), |(clean, spoilt), second| {
        let sent = second.sent + second.unserved;
        let lost = sent.saturating_sub(second.valid);
        if lost as f64 <= max_loss * sent as f64 {
            (clean + 1, spoilt)
        } else {
            (clean, spoilt + 1)
        }
    })
}
