//! Known behaviour: a capacity, stalls and latencies that are set, so that what a Tester finds can be compared with them.
//!
//! ```text
//! --capacity 20k:200              at most 20,000 answers per second, 200 at once
//! --stall 50ms/5s                 no answers for the last 50 ms of every 5 s
//! --latency bimodal:0.9:0.2ms:20ms   nine answers in ten after 0.2 ms, the tenth after 20 ms
//! --late 0.01:2s                  one answer in a hundred after 2 s
//! ```

use std::fmt;
use std::str::FromStr;

use measure::{Nanos, Qps};

/// Burst of a capacity without one: the queries of this time.
const DEFAULT_BURST: Nanos = Nanos::from_millis(10);

/// The largest rate of answers of a token bucket; queries beyond it get no reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Answers per second in the long run.
    pub rate: Qps,
    /// Largest number of answers at once after a pause; at least 1.
    pub burst: u32,
}

/// Pauses without answers: the last `length` of every `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Time without answers, shorter than the period.
    pub length: Nanos,
    /// Time from the start of a stall to the start of the next one; longer than a stall.
    pub period: Nanos,
}

/// The distribution of the time from a query to its reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// A low or a high time, such as with and without a cache.
    Bimodal {
        /// Share (0 to 1) of the replies with the time `low`, evenly spread.
        share: f64,
        /// Time from a query to these replies.
        low: Nanos,
        /// Time of the other replies; not less than `low`.
        high: Nanos,
    },
}

/// A share of replies that come late, in addition to the latency of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// Share (0 to 1) of the replies, evenly spread.
    pub share: f64,
    /// Time from the query to such a reply.
    pub after: Nanos,
}

/// The error for a text that is not a known behaviour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {what}: at character {at}, {why}; write {accepted}")]
pub struct BehaviourError {
    /// The text that the user wrote, as a whole.
    pub found: String,
    /// The expected thing, with its article.
    pub what: &'static str,
    /// Where the wrong part starts, counted from 1.
    pub at: usize,
    /// Why this part of the text is not accepted.
    pub why: String,
    /// The accepted form, with an example.
    pub accepted: &'static str,
}

/// A text that is read part by part.
struct Parts<'a> {
    whole: &'a str,
    what: &'static str,
    accepted: &'static str,
}

impl<'a> Parts<'a> {
    /// Reads a text as `what`; errors show the form in `accepted`.
    fn of(whole: &'a str, what: &'static str, accepted: &'static str) -> Self {
        Parts { whole, what, accepted }
    }

    /// Returns the error for a part of the text.
    fn error(&self, part: &str, why: impl Into<String>) -> BehaviourError {
        // A part is a slice of the whole, so its place is the distance between them.
        let offset = (part.as_ptr() as usize).saturating_sub(self.whole.as_ptr() as usize);
        let before = self.whole.get(..offset).unwrap_or(self.whole);
        BehaviourError {
            found: self.whole.to_owned(),
            what: self.what,
            at: before.chars().count() + 1,
            why: why.into(),
            accepted: self.accepted,
        }
    }

    /// Splits the text at the first `separator`.
    fn split(&self, text: &'a str, separator: char) -> Result<(&'a str, &'a str), BehaviourError> {
        let end = &text[text.len()..];
        text.split_once(separator)
            .ok_or_else(|| self.error(end, format!("`{separator}` is missing")))
    }

    /// Reads a share from 0 to 1.
    fn share(&self, part: &str) -> Result<f64, BehaviourError> {
        let share = part.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        share.ok_or_else(|| self.error(part, format!("`{part}` is not a share from 0 to 1")))
    }

    /// Reads a time, which may be zero.
    fn time(&self, part: &str) -> Result<Nanos, BehaviourError> {
        part.parse::<Nanos>().map_err(|error| self.error(part, error.to_string()))
    }

    /// Reads a time above zero.
    fn positive_time(&self, part: &str) -> Result<Nanos, BehaviourError> {
        match self.time(part)? {
            Nanos::ZERO => Err(self.error(part, "the time is zero")),
            time => Ok(time),
        }
    }
}

impl FromStr for Capacity {
    type Err = BehaviourError;

    /// Reads `20k`, `20k:200` (queries) or `20k:5ms` (the queries of a time).
    fn from_str(s: &str) -> Result<Self, BehaviourError> {
        let parts = Parts::of(
            s,
            "a capacity",
            "RATE or RATE:BURST, such as 20k, 20k:200 (queries) or 20k:5ms",
        );
        let (rate, burst) = s.split_once(':').map_or((s, None), |(rate, b)| (rate, Some(b)));
        let qps = rate
            .parse::<Qps>()
            .map_err(|error| parts.error(rate, error.why.as_deref().unwrap_or("not a number")))?;
        let worth = |time: Nanos| qps.get() * time.as_secs_f64();
        let queries = match burst {
            None => worth(DEFAULT_BURST).round().max(1.0),
            Some(burst) => match (burst.parse::<u32>(), burst.parse::<Nanos>()) {
                (Ok(queries), _) => f64::from(queries),
                (_, Ok(time)) => worth(time).round(),
                _ => return Err(parts.error(burst, format!("`{burst}` is not a burst"))),
            },
        };
        if !(1.0..=f64::from(u32::MAX)).contains(&queries) {
            let place = burst.unwrap_or(rate);
            return Err(parts.error(place, "a burst is 1 to 4,294,967,295 queries"));
        }
        Ok(Capacity { rate: qps, burst: queries as u32 })
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.rate.exact(), self.burst)
    }
}

impl FromStr for Stall {
    type Err = BehaviourError;

    /// Reads `TIME/PERIOD`, such as `50ms/5s`.
    fn from_str(s: &str) -> Result<Self, BehaviourError> {
        let parts = Parts::of(s, "a stall", "TIME/PERIOD, such as 50ms/5s: 50 ms in every 5 s");
        let (length_text, period_text) = parts.split(s, '/')?;
        let length = parts.positive_time(length_text)?;
        let period = parts.positive_time(period_text)?;
        if period <= length {
            return Err(parts.error(period_text, "the period is not longer than the stall"));
        }
        Ok(Stall { length, period })
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.length, self.period)
    }
}

impl Stall {
    /// Returns the end of the stall that contains a time since the start; the time itself outside
    /// of a stall.
    #[inline]
    pub(crate) fn resume(self, since_start: Nanos) -> Nanos {
        let left = self.period.0 - since_start.0 % self.period.0;
        if left <= self.length.0 { since_start + Nanos(left) } else { since_start }
    }

    /// Returns when the next stall starts, for a time since the start outside of a stall.
    #[inline]
    pub(crate) fn next(self, since_start: Nanos) -> Nanos {
        let left = self.period.0 - since_start.0 % self.period.0;
        since_start + Nanos(left.saturating_sub(self.length.0))
    }
}

impl FromStr for Latency {
    type Err = BehaviourError;

    /// Reads `bimodal:SHARE:LOW:HIGH`, such as `bimodal:0.9:0.2ms:20ms`.
    fn from_str(s: &str) -> Result<Self, BehaviourError> {
        let parts = Parts::of(
            s,
            "a latency",
            "bimodal:SHARE:LOW:HIGH, such as bimodal:0.9:0.2ms:20ms: nine in ten after 0.2 ms, the others after 20 ms",
        );
        let (kind, rest) = parts.split(s, ':')?;
        if kind != "bimodal" {
            return Err(parts.error(kind, format!("`{kind}` is not a distribution")));
        }
        let (share, rest) = parts.split(rest, ':')?;
        let share = parts.share(share)?;
        let (low, high_text) = parts.split(rest, ':')?;
        let (low, high) = (parts.time(low)?, parts.positive_time(high_text)?);
        if high < low {
            return Err(parts.error(high_text, "the high time is less than the low time"));
        }
        Ok(Latency::Bimodal { share, low, high })
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Latency::Bimodal { share, low, high } = self;
        write!(f, "bimodal:{share}:{low}:{high}")
    }
}

impl FromStr for Late {
    type Err = BehaviourError;

    /// Reads `SHARE:TIME`, such as `0.01:2s`.
    fn from_str(s: &str) -> Result<Self, BehaviourError> {
        let parts = Parts::of(
            s,
            "a share of late replies",
            "SHARE:TIME, such as 0.01:2s: one in a hundred after 2 s",
        );
        let (share, after) = parts.split(s, ':')?;
        Ok(Late { share: parts.share(share)?, after: parts.positive_time(after)? })
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.share, self.after)
    }
}

#[cfg(test)]
mod tests;
