//! The service level that a search looks for: a bound on loss and bounds on latency percentiles.
//!
//! RFC 8219 section 9.2 requires a reply in time to every query (`zero-loss`). Operators use goals such as
//! `p99 < 5ms, loss < 0.1%`. `<` and `<=` mean the same. A loss equal to its bound passes, so that `loss <
//! 0%` can be met. A percentile must be below its bound, so that a query lost at a timeout of 1 s does not
//! meet a bound of 1 s.

use std::fmt;
use std::str::FromStr;

use crate::histogram::Histogram;
use crate::units::Nanos;

/// Condition under which a trial passes.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Largest share (0 to 1) of queries without a valid reply in time with which a trial passes.
    pub max_loss: f64,
    /// Quantiles (0 to 1) of the latency from the due time, each with its exclusive upper bound.
    pub latency: Vec<(f64, Nanos)>,
}

impl Goal {
    /// Makes the goal of RFC 8219: every query gets a valid reply within the timeout.
    pub fn zero_loss() -> Self {
        Goal { max_loss: 0.0, latency: Vec::new() }
    }

    /// Returns whether no query may be lost.
    pub(crate) fn is_zero_loss(&self) -> bool {
        self.max_loss == 0.0
    }

    /// Returns whether a finished trial passes that sent `sent` queries, `bad` of them without a valid reply
    /// in time.
    pub fn met(&self, sent: u64, bad: u64, latency: &Histogram) -> bool {
        sent > 0 && !self.cannot_pass(sent, bad, latency)
    }

    /// Returns whether a running trial of `planned` queries can no longer pass, whatever the other replies
    /// are.
    pub(crate) fn cannot_pass(&self, planned: u64, bad: u64, latency: &Histogram) -> bool {
        self.lost_too_many(planned, bad) || self.too_slow(planned, latency)
    }

    /// Returns whether the loss of `bad` of `planned` queries (those without a valid reply in time) exceeds
    /// the bound.
    pub fn lost_too_many(&self, planned: u64, bad: u64) -> bool {
        exceeds(bad, self.max_loss * planned as f64)
    }

    /// Returns whether the latencies so far exceed a bound for a trial of `planned` queries: at least a share
    /// `quantile` of them must be below the bound.
    pub fn too_slow(&self, planned: u64, latency: &Histogram) -> bool {
        self.exceeded(planned, latency).next().is_some()
    }

    /// Returns the bounds that the latencies so far exceed, each a quantile (0 to 1) and a time, as [`too_slow`](Self::too_slow).
    pub fn exceeded<'a>(
        &'a self,
        planned: u64,
        latency: &'a Histogram,
    ) -> impl Iterator<Item = (f64, Nanos)> + 'a {
        let planned = planned as f64;
        let exceeded = move |&(quantile, bound): &(f64, Nanos)| {
            exceeds(latency.count_from(bound), planned - quantile * planned)
        };
        self.latency.iter().copied().filter(exceeded)
    }

    /// Returns the bound on losses that a goal about latencies implies, in words; `None` for other
    /// goals.
    pub fn note(&self) -> Option<&'static str> {
        (!self.latency.is_empty() && self.is_zero_loss()).then_some(
            "every query also needs a valid reply; `, loss < 0.1%` in the goal allows some losses",
        )
    }

    /// Returns whether a trial of `planned` queries exceeds a bound on latency also without its
    /// late departures: although every latency is taken to be shorter by `late`, the most that a
    /// query left late, and the `lost` ones are left out.
    ///
    /// A server that works off what arrives, in turn, ends with each query at most so much later as queries before it came late
    /// (Lindley's recursion): sent in time, the replies would have come no more than `late` earlier. Queries that were
    /// lost may have found a queue full that a burst had filled, so that they show nothing.
    pub fn too_slow_although_late(
        &self,
        planned: u64,
        lost: u64,
        latency: &Histogram,
        late: Nanos,
    ) -> bool {
        let planned = planned as f64;
        self.latency.iter().any(|(quantile, bound)| {
            let slow = latency.count_from(*bound + late).saturating_sub(lost);
            exceeds(slow, planned - quantile * planned)
        })
    }

    /// Returns how many of `sent` queries may have no valid reply in time.
    pub fn allowed_losses(&self, sent: u64) -> u64 {
        (self.max_loss * sent as f64 + 1e-6) as u64
    }

    /// Adds one comma-separated term of a goal.
    fn add(&mut self, term: &str, loss_seen: &mut bool) -> Result<(), String> {
        if term.is_empty() {
            return Err("it is empty".into());
        }
        if let Some((quantity, bound)) = term.split_once('>') {
            let (quantity, bound) = (quantity.trim(), bound.trim_start_matches('=').trim());
            return Err(format!("a goal is an upper bound: {quantity} < {bound}"));
        }
        let (quantity, sign, bound) = ["<=", "<", "="]
            .into_iter()
            .find_map(|sign| {
                term.split_once(sign).map(|(quantity, bound)| (quantity.trim(), sign, bound.trim()))
            })
            .ok_or("it has no `<`")?;
        if quantity == "loss" {
            self.max_loss = parse_share(bound)?;
            if sign == "=" && self.max_loss > 0.0 {
                return Err("`=` is allowed in `loss = 0` only; write `<`".into());
            }
            return if std::mem::replace(loss_seen, true) {
                Err("the loss has two bounds".into())
            } else {
                Ok(())
            };
        }
        let quantile = parse_quantile(quantity).ok_or(
            "the left side of `<` must be `loss` or a percentile such as p50, p99 or p99.9",
        )?;
        if sign == "=" {
            return Err("`=` is allowed in `loss = 0` only; write `<`".into());
        }
        let bound: Nanos =
            bound.parse().map_err(|_| "the right side of `<` must be a duration such as 5ms")?;
        if bound == Nanos::ZERO {
            return Err("a latency bound must be above zero".into());
        }
        if self.latency.iter().any(|(other, _)| *other == quantile) {
            return Err("the percentile has two bounds".into());
        }
        self.latency.push((quantile, bound));
        Ok(())
    }
}

/// Returns whether `count` is above `allowed`. A rounding error may put `allowed` slightly below a whole
/// number: 0.29 * 100 is 28.999999999999996.
fn exceeds(count: u64, allowed: f64) -> bool {
    count as f64 > allowed + 1e-6
}

impl FromStr for Goal {
    type Err = GoalError;

    /// Reads `zero-loss`, `loss = 0`, `p99 < 5ms, loss < 0.1%`. A goal without a bound on loss allows none.
    fn from_str(text: &str) -> Result<Self, GoalError> {
        let mut goal = Goal::zero_loss();
        if text.trim() == "zero-loss" {
            return Ok(goal);
        }
        let mut loss_seen = false;
        for term in text.split(',').map(str::trim) {
            goal.add(term, &mut loss_seen)
                .map_err(|why| GoalError { term: term.to_owned(), why })?;
        }
        Ok(goal)
    }
}

/// Reads `0.1%` as a share from 0 to 1. A number without its per cent sign may be either; only 0 is both.
fn parse_share(text: &str) -> Result<f64, String> {
    let range = || "the loss must be a number such as 0.1%, from 0 to 100 %".to_owned();
    let (digits, percent) = match text.strip_suffix('%') {
        Some(digits) => (digits.trim(), true),
        None => (text, false),
    };
    let number = digits.parse::<f64>().ok().filter(|number| (0.0..=100.0).contains(number));
    match number.ok_or_else(range)? {
        number if percent => Ok(number / 100.0),
        0.0 => Ok(0.0),
        number if number <= 1.0 => Err(format!(
            "a loss needs its per cent sign: did you mean {}% or {}%?",
            trim_float(number * 100.0),
            trim_float(number)
        )),
        number => {
            Err(format!("a loss needs its per cent sign: did you mean {}%?", trim_float(number)))
        }
    }
}

/// Reads `p99.9` as 0.999, and also `p999`, the form in JSON keys. `p250` is not accepted.
fn parse_quantile(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('p')?;
    if !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let percent: f64 = if digits.len() > 2 && digits.starts_with('9') && !digits.contains('.') {
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
            write!(f, "{} < {bound}, ", percentile_name(*quantile))?;
        }
        if self.is_zero_loss() {
            write!(f, "loss = 0")
        } else {
            write!(f, "loss < {}%", trim_float(self.max_loss * 100.0))
        }
    }
}

/// Returns the name of the percentile of a quantile (0 to 1): `p99.9`.
pub fn percentile_name(quantile: f64) -> String {
    format!("p{}", trim_float(quantile * 100.0))
}

/// Prints a number without rounding noise of binary fractions.
fn trim_float(x: f64) -> String {
    let text = format!("{x:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Error for a goal that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{term}` is not a goal: {why}; write for example `zero-loss` or `p99 < 5ms, loss < 0.1%`")]
pub struct GoalError {
    /// The term that is not understood.
    pub term: String,
    /// Reason why it is not accepted.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read_and_printed() {
        for (text, printed) in [
            ("zero-loss", "zero-loss"),
            ("loss = 0", "zero-loss"),
            ("p99 < 5ms, loss < 0.1%", "p99 < 5ms, loss < 0.1%"),
            ("p99.9<250us", "p99.9 < 250us, loss = 0"),
            ("p999 < 1s,loss<=0.1%", "p99.9 < 1s, loss < 0.1%"),
        ] {
            let goal: Goal = text.parse().expect(text);
            assert_eq!(goal.to_string(), printed);
            assert_eq!(goal.to_string().parse::<Goal>().as_ref(), Ok(&goal));
        }
    }

    #[test]
    fn a_refused_goal_names_the_term_and_the_reason() {
        for (text, term, why) in [
            ("", "", "it is empty"),
            ("p99", "p99", "no `<`"),
            ("p99 > 5ms", "p99 > 5ms", "a goal is an upper bound: p99 < 5ms"),
            ("p99 >= 5ms", "p99 >= 5ms", "a goal is an upper bound: p99 < 5ms"),
            ("loss < 200%", "loss < 200%", "from 0 to 100 %"),
            ("loss < -1%", "loss < -1%", "from 0 to 100 %"),
            ("loss < nan", "loss < nan", "from 0 to 100 %"),
            ("loss < x", "loss < x", "from 0 to 100 %"),
            ("loss < 0.1", "loss < 0.1", "did you mean 10% or 0.1%?"),
            ("loss < 5", "loss < 5", "did you mean 5%?"),
            ("loss = 0.1%", "loss = 0.1%", "write `<`"),
            ("loss < 1%, loss < 2%", "loss < 2%", "two bounds"),
            ("p0 < 5ms", "p0 < 5ms", "a percentile such as"),
            ("p250 < 5ms", "p250 < 5ms", "a percentile such as"),
            ("p1000 < 5ms", "p1000 < 5ms", "a percentile such as"),
            ("p1e1 < 5ms", "p1e1 < 5ms", "a percentile such as"),
            ("q99 < 5ms", "q99 < 5ms", "a percentile such as"),
            ("p99 < 5", "p99 < 5", "a duration such as 5ms"),
            ("p99 = 5ms", "p99 = 5ms", "write `<`"),
            ("p99 < 0s", "p99 < 0s", "above zero"),
            ("p99 < 5ms, p99 < 6ms", "p99 < 6ms", "two bounds"),
            ("p99 < 5ms,, loss < 1%", "", "it is empty"),
        ] {
            let error = text.parse::<Goal>().expect_err(text);
            assert_eq!(error.term, term);
            assert!(error.why.contains(why), "{text}: {error}");
            assert!(error.to_string().contains("write for example `zero-loss`"), "{error}");
        }
    }

    #[test]
    fn bounds_are_exact_to_one_query() {
        // Goal, number of queries, how many may be lost, how many may be slow (take 5 ms).
        for (text, queries, bad, slow) in [
            ("zero-loss", 1_000_000_000, 0, 0),
            ("loss < 0.1%", 1_000, 1, 1_000),
            ("loss < 29%", 100, 29, 100),
            ("loss < 0.01%", 9_999, 0, 9_999),
            ("p90 < 5ms", 10, 0, 1),
            ("p99 < 5ms", 100, 0, 1),
            ("p99.9 < 5ms", 999, 0, 0),
            ("p99.9 < 5ms", 3_000, 0, 3),
            ("p100 < 5ms", 100, 0, 0),
        ] {
            let goal: Goal = text.parse().expect(text);
            let taking = |slow| {
                let mut latency = Histogram::new();
                (0..slow).for_each(|_| latency.record(Nanos::from_millis(5)));
                latency
            };
            assert!(goal.met(queries, bad, &Histogram::new()), "{text}");
            assert!(!goal.met(queries, bad + 1, &Histogram::new()), "{text}");
            if !goal.latency.is_empty() {
                assert!(goal.met(queries, 0, &taking(slow)), "{text}");
                assert!(!goal.met(queries, 0, &taking(slow + 1)), "{text}");
            }
        }
    }

    #[test]
    fn a_goal_that_names_no_loss_says_that_it_allows_none() {
        for (text, says) in [
            ("p99<10us", true),
            ("p99 < 10us, loss < 0.1%", false),
            ("zero-loss", false),
            ("loss < 1%", false),
        ] {
            let goal: Goal = text.parse().expect(text);
            assert_eq!(
                goal.note().is_some_and(|note| note.contains("every query")),
                says,
                "{text}"
            );
        }
        let mut latency = Histogram::new();
        latency.record_many(Nanos::from_millis(7), 100);
        let goal: Goal = "p50 < 8ms, p99 < 5ms".parse().expect("a goal");
        assert_eq!(
            goal.exceeded(100, &latency).collect::<Vec<_>>(),
            [(0.99, Nanos::from_millis(5))]
        );
    }

    #[test]
    fn a_query_lost_at_the_timeout_is_not_below_it() {
        let mut latency = Histogram::new();
        (0..100).for_each(|_| latency.record(Nanos::from_secs(1)));
        let goal: Goal = "p99 < 1s, loss < 100%".parse().expect("a goal");
        assert!(!goal.met(100, 100, &latency));
    }

    #[test]
    fn goals_are_met_or_missed() {
        let mut latency = Histogram::new();
        for _ in 0..98 {
            latency.record(Nanos::from_millis(1));
        }
        for _ in 0..2 {
            latency.record(Nanos::from_millis(10));
        }
        let goal: Goal = "p99 < 5ms, loss < 1%".parse().expect("a goal");
        assert!(!goal.met(100, 0, &latency));
        assert!(!goal.cannot_pass(1_000, 0, &latency));
        assert!(goal.cannot_pass(100, 2, &Histogram::new()));
        assert!("p98 < 5ms".parse::<Goal>().expect("a goal").met(100, 0, &latency));
        assert!(Goal::zero_loss().met(100, 0, &latency));
        assert!(!Goal::zero_loss().met(100, 1, &latency));
        assert!(!Goal::zero_loss().met(0, 0, &latency));
    }

    #[test]
    fn a_bound_is_exceeded_in_spite_of_late_queries() {
        let goal: Goal = "p99 < 100ms, loss < 1%".parse().expect("a goal");
        let mut latency = Histogram::new();
        latency.record_many(Nanos::from_millis(1), 970);
        latency.record_many(Nanos::from_millis(130), 11);
        // Nineteen were lost, and stand there with the timeout.
        latency.record_many(Nanos::from_secs(2), 19);
        let table = [
            ("20 ms late: eleven take over 100 ms all the same", 20, 19, true),
            ("40 ms late: they may have taken 90 ms", 40, 19, false),
            ("40 ms late, but none was lost: nineteen took 2 s", 40, 0, true),
        ];
        for (what, late, lost, exceeded) in table {
            let late = Nanos::from_millis(late);
            let found = goal.too_slow_although_late(1_000, lost, &latency, late);
            assert_eq!(found, exceeded, "{what}");
        }
        // A goal without a bound on latency.
        let late = Nanos::from_millis(20);
        assert!(!Goal::zero_loss().too_slow_although_late(1_000, 19, &latency, late));
    }
}
