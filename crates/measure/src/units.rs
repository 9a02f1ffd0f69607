//! Units that must not be mixed: nanoseconds and queries per second.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::time::Duration;

/// An instant on an engine's clock, or a length of time; nanoseconds in both cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The zero of the clock, or no time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than everything.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Nanos(n * 1_000)
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Nanos(n * 1_000_000)
    }

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Nanos(n * 1_000_000_000)
    }

    /// Seconds as a fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Microseconds as a fraction.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The difference, or zero when `earlier` is the later one.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl From<Duration> for Nanos {
    fn from(d: Duration) -> Self {
        Nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(n: Nanos) -> Self {
        Duration::from_nanos(n.0)
    }
}

impl FromStr for Nanos {
    type Err = UnitError;

    /// Reads `5s`, `250ms`, `50us`, `1m 30s`: a number always carries its unit.
    fn from_str(s: &str) -> Result<Self, UnitError> {
        humantime::parse_duration(s.trim()).map(Nanos::from).map_err(|e| UnitError {
            found: s.to_owned(),
            wanted: "a duration such as 5s, 250ms or 50us",
            why: e.to_string(),
        })
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", humantime::format_duration(Duration::from(*self)))
    }
}

/// A rate, queries per second; finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Qps(f64);

impl Qps {
    /// A rate of `qps` queries per second; `None` unless finite and not negative.
    pub fn new(qps: f64) -> Option<Self> {
        (qps.is_finite() && qps >= 0.0).then_some(Qps(qps))
    }

    /// Queries per second.
    pub fn get(self) -> f64 {
        self.0
    }

    /// How many queries are due in `span`, rounded up.
    pub fn queries_in(self, span: Nanos) -> u64 {
        (self.0 * span.as_secs_f64()).ceil() as u64
    }
}

impl FromStr for Qps {
    type Err = UnitError;

    /// Reads `100k`, `1M`, `2.5M`, `750`, `1e6`.
    fn from_str(s: &str) -> Result<Self, UnitError> {
        let error = |why: &str| UnitError {
            found: s.to_owned(),
            wanted: "a rate such as 500, 100k or 1.5M (queries per second)",
            why: why.to_owned(),
        };
        let text = s.trim();
        let (digits, factor) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
            Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
            _ => (text, 1.0),
        };
        let value: f64 = digits.trim().parse().map_err(|_| error("not a number"))?;
        match Qps::new(value * factor) {
            Some(q) if q.0 > 0.0 => Ok(q),
            _ => Err(error("a rate is greater than zero")),
        }
    }
}

impl fmt::Display for Qps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} qps", self.0)
    }
}

/// A unit that could not be read: what was found and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {wanted}: {why}")]
pub struct UnitError {
    /// The text as given.
    pub found: String,
    /// What would be accepted.
    pub wanted: &'static str,
    /// What is wrong with it.
    pub why: String,
}
