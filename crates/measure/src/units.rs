//! Units of measurements, as types that cannot be mixed up: nanoseconds and queries per second.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant on an engine's clock or a length of time, in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct Nanos(pub u64);

impl Nanos {
    /// The zero of the clock, or an empty length of time.
    pub const ZERO: Nanos = Nanos(0);
    /// The latest instant or the longest time; also means "never".
    pub const MAX: Nanos = Nanos(u64::MAX);
    /// Least time between two packets of a capture one of which has a wrong time.
    pub const YEAR: Nanos = Nanos::from_secs(365 * 86_400);

    /// Makes a time of `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Nanos(n * 1_000)
    }

    /// Makes a time of `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Nanos(n * 1_000_000)
    }

    /// Makes a time of `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Nanos(n * 1_000_000_000)
    }

    /// Makes a time of `s` seconds; zero for any other than a positive number.
    pub fn from_secs_f64(s: f64) -> Self {
        Nanos((s * 1e9) as u64)
    }

    /// Returns the time in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time in microseconds.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Returns the time since `earlier`; zero when `earlier` is later than `self`.
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

    /// Reads `5s`, `250ms`, `50us`, `1m 30s`; a number always needs its unit.
    fn from_str(s: &str) -> Result<Self, UnitError> {
        humantime::parse_duration(s.trim()).map(Nanos::from).map_err(|_| UnitError {
            found: s.to_owned(),
            wanted: "a duration such as 5s, 250ms or 50us",
            why: Some("units: us, ms, s, m, h".to_owned()),
        })
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", humantime::format_duration(Duration::from(*self)))
    }
}

/// A rate in queries per second; finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Qps(f64);

impl Qps {
    /// Makes a rate of `qps` queries per second; `None` unless it is finite and not negative.
    pub fn new(qps: f64) -> Option<Self> {
        (qps.is_finite() && qps >= 0.0).then_some(Qps(qps))
    }

    /// Returns the rate in queries per second.
    pub fn get(self) -> f64 {
        self.0
    }

    /// Returns the rate as a text that parses as exactly this rate: `20k`, `1.5M` as `1500k`, `33333.3`.
    pub fn exact(self) -> String {
        let of = |unit: f64| (self.0 / unit).fract() == 0.0 && self.0 / unit * unit == self.0;
        match self.0 {
            qps if qps >= 1e6 && of(1e6) => format!("{}M", qps / 1e6),
            qps if qps >= 1e3 && of(1e3) => format!("{}k", qps / 1e3),
            qps => qps.to_string(),
        }
    }

    /// Returns the number of queries due in `span`: query k is due at k / rate, and all k due
    /// before the end count.
    ///
    /// The binary value of 400k * 2.2 is 880000.0000000001; this rounding error must not add a query.
    pub fn queries_in(self, span: Nanos) -> u64 {
        let due = self.0 * span.as_secs_f64();
        let whole = due.round();
        if (due - whole).abs() <= whole * 1e-12 { whole as u64 } else { due.ceil() as u64 }
    }
}

impl FromStr for Qps {
    type Err = UnitError;

    /// Reads `100k`, `1M`, `2.5M`, `750`, `1e6`.
    fn from_str(s: &str) -> Result<Self, UnitError> {
        let error = |why: Option<&str>| UnitError {
            found: s.to_owned(),
            wanted: "a rate such as 500, 100k or 1.5M (queries per second)",
            why: why.map(str::to_owned),
        };
        let text = s.trim();
        let (digits, factor) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
            Some(b'M') => (&text[..text.len() - 1], 1e6),
            // `m` could mean thousandths or millions.
            Some(b'm') => {
                let mega =
                    format!("`m` is no unit of rates; did you mean {}M?", &text[..text.len() - 1]);
                return Err(error(Some(&mega)));
            }
            _ => (text, 1.0),
        };
        let value: f64 = digits.trim().parse().map_err(|_| error(None))?;
        match Qps::new(value * factor) {
            Some(q) if q.0 > 0.0 => Ok(q),
            _ => Err(error(Some("a rate is finite and greater than zero"))),
        }
    }
}

impl fmt::Display for Qps {
    /// Prints whole numbers from 1,000 qps on and up to three decimals below, so that 0.5 qps is not printed
    /// as 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1e3 || self.0.fract() == 0.0 {
            write!(f, "{:.0} qps", self.0)
        } else {
            let text = format!("{:.3}", self.0);
            write!(f, "{} qps", text.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

/// Error for a unit that cannot be read: the text, and the accepted form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {wanted}{}", .why.as_ref().map_or(String::new(), |why| format!(": {why}")))]
pub struct UnitError {
    /// The text that was found.
    pub found: String,
    /// The accepted form, with an example.
    pub wanted: &'static str,
    /// Reason why it is not accepted; `None` if the accepted form is the reason.
    pub why: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_or_refused_with_a_reason() {
        for (text, qps) in [
            ("750", 750.0),
            ("100k", 1e5),
            ("1.5M", 1.5e6),
            (" 2 K ", 2e3),
            ("1e6", 1e6),
            ("0.5", 0.5),
        ] {
            assert_eq!(text.parse::<Qps>().expect(text).get(), qps);
        }
        for (text, why) in [
            ("", "not a rate such as"),
            ("k", "not a rate such as"),
            ("100 qps", "not a rate such as"),
            ("1G", "not a rate such as"),
            ("100m", "did you mean 100M?"),
            ("0", "greater than zero"),
            ("-5", "greater than zero"),
            ("inf", "finite"),
            ("nan", "finite"),
            ("1e308M", "finite"),
        ] {
            let error = text.parse::<Qps>().expect_err(text).to_string();
            assert!(error.contains(why) && error.contains(&format!("`{text}`")), "{error}");
        }
        assert_eq!(
            (Qps::new(f64::NAN), Qps::new(-1.0), Qps::new(f64::INFINITY)),
            (None, None, None)
        );
    }

    #[test]
    fn durations_are_read_or_refused() {
        for (text, ns) in [
            ("5s", 5_000_000_000),
            ("250ms", 250_000_000),
            ("50us", 50_000),
            ("1m 30s", 90_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(ns)));
            assert_eq!(Nanos(ns).to_string().parse(), Ok(Nanos(ns)));
        }
        for text in ["", "5", "5 parsecs", "-1s", "99999999999999999999s"] {
            let error = text.parse::<Nanos>().expect_err(text).to_string();
            assert!(error.contains("a duration such as"), "{error}");
        }
    }

    #[test]
    fn rates_are_printed_without_binary_noise() {
        for (qps, printed) in [
            (0.5, "0.5 qps"),
            (2.0, "2 qps"),
            (33.333_333, "33.333 qps"),
            (880_000.000_000_000_1, "880000 qps"),
        ] {
            assert_eq!(Qps::new(qps).expect("a rate").to_string(), printed);
        }
    }

    #[test]
    fn queries_in_counts_queries_due_before_the_end() {
        for (qps, span, due) in [
            (1.1, Nanos::from_secs(10), 11),
            (400_000.0 * 2.2, Nanos::from_secs(1), 880_000),
            (0.7, Nanos::from_secs(7_200), 5_040),
            (1_000.0, Nanos::from_micros(1_001), 2),
            (1_000.0, Nanos::from_millis(1), 1),
            (0.001, Nanos::from_secs(1), 1),
            (0.0, Nanos::from_secs(1), 0),
            (1_000.0, Nanos::ZERO, 0),
        ] {
            assert_eq!(Qps::new(qps).expect("a rate").queries_in(span), due, "{qps} in {span}");
        }
    }

    #[test]
    fn arithmetic_of_times_saturates() {
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos(3).since(Nanos(5)), Nanos::ZERO);
        assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
    }
}
