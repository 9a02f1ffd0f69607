//! Rate of dynamic updates to a primary.

use std::fmt;
use std::str::FromStr;

/// Length of a day, in seconds.
const DAY: f64 = 86_400.0;
/// The highest rate of updates, updates per second.
const MAX_PER_SECOND: f64 = 1e6;
/// Highest share of a zone that is updated in a day, in per cent: each delegation a hundred times.
const MAX_PERCENT: f64 = 10_000.0;

/// A rate of updates; written `0`, `8`, `0.5/s`, `3%/day` or `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum UpdateRate {
    /// No updates at all; written `0`.
    #[default]
    None,
    /// This number of updates a second.
    PerSecond(f64),
    /// Share of the zone's delegations that is updated in a day, per cent.
    PercentPerDay(f64),
    /// As fast as the primary acknowledges them.
    Max,
}

impl UpdateRate {
    /// Returns updates a second in a zone of `delegations` delegations; `None` if there is no fixed rate
    /// ([`UpdateRate::Max`]).
    pub fn per_second(self, delegations: u64) -> Option<f64> {
        match self {
            UpdateRate::None => Some(0.0),
            UpdateRate::PerSecond(rate) => Some(rate),
            UpdateRate::PercentPerDay(percent) => Some(delegations as f64 * percent / 100.0 / DAY),
            UpdateRate::Max => None,
        }
    }
}

impl FromStr for UpdateRate {
    type Err = NotAnUpdateRate;

    fn from_str(text: &str) -> Result<Self, NotAnUpdateRate> {
        let number = |digits: &str, most: f64| {
            // A rate has digits only, without sign, exponent or `inf`.
            let plain =
                !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
            let value = plain.then(|| digits.parse::<f64>().ok()).flatten()?;
            (value > 0.0 && value <= most).then_some(value)
        };
        let rate = match (text, text.strip_suffix("%/day")) {
            ("max", _) => Some(UpdateRate::Max),
            ("0", _) => Some(UpdateRate::None),
            (_, Some(percent)) => number(percent, MAX_PERCENT).map(UpdateRate::PercentPerDay),
            (_, None) => number(text.strip_suffix("/s").unwrap_or(text), MAX_PER_SECOND)
                .map(UpdateRate::PerSecond),
        };
        rate.ok_or_else(|| NotAnUpdateRate(text.to_owned()))
    }
}

impl fmt::Display for UpdateRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpdateRate::None => f.write_str("0"),
            UpdateRate::PerSecond(rate) => write!(f, "{rate}"),
            UpdateRate::PercentPerDay(percent) => write!(f, "{percent}%/day"),
            UpdateRate::Max => f.write_str("max"),
        }
    }
}

/// Error for a text that is not a rate of updates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a rate of updates: write 0 for none, 8 or 0.5/s for updates per second (1000000 at most), \
     3%/day for a share of the zone's delegations (10000%/day at most), or max"
)]
pub struct NotAnUpdateRate(String);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read() {
        let table = [
            ("0", UpdateRate::None),
            ("8", UpdateRate::PerSecond(8.0)),
            ("0.5/s", UpdateRate::PerSecond(0.5)),
            ("3%/day", UpdateRate::PercentPerDay(3.0)),
            ("max", UpdateRate::Max),
        ];
        for (text, rate) in table {
            assert_eq!(text.parse(), Ok(rate), "{text}");
        }
        for text in [
            "",
            "fast",
            "-1",
            "+1",
            "3%",
            "3%/s",
            "inf",
            "nan",
            "x/s",
            "/s",
            "%/day",
            "0/s",
            "0%/day",
            "1e3",
            "Max",
            " 8",
            "8 ",
            "1000001",
            "10001%/day",
            "1.2.3",
        ] {
            let error = text.parse::<UpdateRate>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}` is not a rate of updates: ")), "{error}");
        }
    }

    #[test]
    fn a_share_of_the_zone_is_counted_by_its_delegations() {
        assert_eq!(UpdateRate::PercentPerDay(3.0).per_second(8_640_000), Some(3.0));
        assert_eq!(UpdateRate::PerSecond(8.0).per_second(1), Some(8.0));
        assert_eq!(UpdateRate::None.per_second(1), Some(0.0));
        assert_eq!(UpdateRate::Max.per_second(1), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(rate in 0.001f64..1e6, percent in 0.001f64..1e4) {
            for rate in [UpdateRate::PerSecond(rate), UpdateRate::PercentPerDay(percent)] {
                prop_assert_eq!(rate.to_string().parse(), Ok(rate));
            }
        }

        #[test]
        fn any_text_is_accepted_or_refused_and_rates_are_bounded(text in ".{0,12}|[0-9.%/a-z]{0,12}") {
            if let Ok(rate) = text.parse::<UpdateRate>() {
                let each = rate.per_second(1_000_000);
                prop_assert!(each.is_none_or(|each| (0.0..=MAX_PER_SECOND).contains(&each)), "{}", text);
                prop_assert_eq!(rate.to_string().parse::<UpdateRate>(), Ok(rate));
            }
        }
    }
}
