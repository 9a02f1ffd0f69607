//! The service level a search seeks: a bound on loss and bounds on latency percentiles.
//!
//! RFC 8219 section 9.2 wants every query answered in time (`zero-loss`); operators want something
//! like `p99 < 5ms, loss < 0.1%`.

use std::fmt;
use std::str::FromStr;

use crate::histogram::Histogram;
use crate::units::Nanos;

/// What a trial must reach to pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The largest passing share (0 to 1) of queries that got no valid answer in time.
    pub max_loss: f64,
    /// Quantiles (0 to 1) of the latency from the due time, each with its exclusive upper bound.
    pub latency: Vec<(f64, Nanos)>,
}

impl Goal {
    /// RFC 8219: every query gets a valid answer within the timeout.
    pub fn zero_loss() -> Self {
        Goal { max_loss: 0.0, latency: Vec::new() }
    }

    /// Whether nothing may be lost.
    pub fn is_zero_loss(&self) -> bool {
        self.max_loss == 0.0
    }

    /// Whether a finished trial of `sent` queries, `bad` of them without a valid answer in time, passes.
    pub fn met(&self, sent: u64, bad: u64, latency: &Histogram) -> bool {
        sent > 0 && !self.surely_failed(sent, bad, latency)
    }

    /// Whether a running trial of `planned` queries can no longer pass, whatever the rest brings.
    pub fn surely_failed(&self, planned: u64, bad: u64, latency: &Histogram) -> bool {
        let planned = planned as f64;
        bad as f64 > self.max_loss * planned
            || self.latency.iter().any(|(quantile, bound)| {
                // At least a share `quantile` must lie below the bound.
                latency.count_above(*bound) as f64 > (1.0 - quantile) * planned
            })
    }
}

impl FromStr for Goal {
    type Err = GoalError;

    /// Reads `zero-loss`, `loss = 0`, `p99 < 5ms, loss < 0.1%`. Without a word on loss none is allowed.
    fn from_str(text: &str) -> Result<Self, GoalError> {
        let mut goal = Goal::zero_loss();
        if text.trim() == "zero-loss" {
            return Ok(goal);
        }
        for term in text.split(',') {
            let error = |why: &str| GoalError { term: term.trim().to_owned(), why: why.to_owned() };
            let (what, bound) = term
                .split_once("<=")
                .or_else(|| term.split_once('<'))
                .or_else(|| term.split_once('='))
                .ok_or_else(|| error("there is no `<` in it"))?;
            let (what, bound) = (what.trim(), bound.trim());
            if what == "loss" {
                goal.max_loss = parse_share(bound).ok_or_else(|| {
                    error("the loss is a number such as 0.1% or 0.001, from 0 to 100 %")
                })?;
            } else {
                let quantile = parse_quantile(what).ok_or_else(|| {
                    error("left of `<` stands `loss` or a percentile such as p50, p99 or p99.9")
                })?;
                let bound: Nanos = bound
                    .parse()
                    .map_err(|_| error("right of `<` stands a duration such as 5ms"))?;
                goal.latency.push((quantile, bound));
            }
        }
        Ok(goal)
    }
}

/// `0.1%` or `0.001` as a share from 0 to 1.
fn parse_share(text: &str) -> Option<f64> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (0.0..=1.0).contains(&share).then_some(share)
}

/// `p99.9` as 0.999; also `p999`, as it is written in JSON keys.
fn parse_quantile(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('p')?;
    let percent: f64 =
        if digits.len() > 2 && digits.bytes().all(|b| b.is_ascii_digit()) && digits != "100" {
            format!("{}.{}", &digits[..2], &digits[2..]).parse().ok()?
        } else {
            digits.parse().ok()?
        };
    (percent > 0.0 && percent <= 100.0).then_some(percent / 100.0)
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.latency.is_empty() && self.is_zero_loss() {
            return write!(f, "zero-loss");
        }
        for (quantile, bound) in &self.latency {
            write!(f, "p{} < {bound}, ", trim_float(quantile * 100.0))?;
        }
        if self.is_zero_loss() {
            write!(f, "loss = 0")
        } else {
            write!(f, "loss < {}%", trim_float(self.max_loss * 100.0))
        }
    }
}

/// A number without the noise of binary fractions.
fn trim_float(x: f64) -> String {
    let text = format!("{x:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A goal that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{term}` is not a goal: {why}; write for example `zero-loss` or `p99 < 5ms, loss < 0.1%`")]
pub struct GoalError {
    /// The term that was not understood.
    pub term: String,
    /// What is wrong with it.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints() {
        for (text, printed) in [
            ("zero-loss", "zero-loss"),
            ("loss = 0", "zero-loss"),
            ("p99 < 5ms, loss < 0.1%", "p99 < 5ms, loss < 0.1%"),
            ("p99.9<250us", "p99.9 < 250us, loss = 0"),
            ("p999 < 1s,loss<=0.001", "p99.9 < 1s, loss < 0.1%"),
        ] {
            let goal: Goal = text.parse().expect(text);
            assert_eq!(goal.to_string(), printed);
            assert_eq!(goal.to_string().parse::<Goal>().as_ref(), Ok(&goal));
        }
    }

    #[test]
    fn refuses_with_the_term() {
        for bad in [
            "",
            "p99",
            "loss < 200%",
            "p0 < 5ms",
            "p99 < 5",
            "q99 < 5ms",
            "loss < x",
            "p99 < 5ms,, loss < 1%",
        ] {
            let error = bad.parse::<Goal>().expect_err(bad).to_string();
            assert!(error.contains("is not a goal"), "{error}");
        }
    }

    #[test]
    fn verdicts() {
        let mut latency = Histogram::new();
        for _ in 0..98 {
            latency.record(Nanos::from_millis(1));
        }
        for _ in 0..2 {
            latency.record(Nanos::from_millis(10));
        }
        let goal: Goal = "p99 < 5ms, loss < 1%".parse().expect("a goal");
        assert!(!goal.met(100, 0, &latency));
        assert!(!goal.surely_failed(1_000, 0, &latency));
        assert!(goal.surely_failed(100, 2, &Histogram::new()));
        assert!("p98 < 5ms".parse::<Goal>().expect("a goal").met(100, 0, &latency));
        assert!(Goal::zero_loss().met(100, 0, &latency));
        assert!(!Goal::zero_loss().met(100, 1, &latency));
        assert!(!Goal::zero_loss().met(0, 0, &latency));
    }
}
