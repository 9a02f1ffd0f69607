//! Conditions on which a comparison fails: `valid < -10%`, `p99 > 20%`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A condition on the change of a figure from the first run to the second.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf {
    /// Name of the figure, as in tables.
    pub figure: String,
    /// Change beyond which the comparison fails, as a share: -0.1 is a tenth less. A negative change fails below it, a
    /// positive one above it.
    pub change: f64,
}

/// The error for a text that is not a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{found}` is not a condition: at character {at}, {why}; write `new < -10%` with the name of a server, for `compare` with a \
     figure (`valid < -10%`, `p99 > 20%`; capacity, answered, valid, p50, p90, p99 or cpu)"
)]
pub struct FailIfError {
    /// The whole text as the user gave it.
    pub found: String,
    /// Character at which the error is, from 1.
    pub at: usize,
    /// The error at that character.
    pub why: &'static str,
}

impl FromStr for FailIf {
    type Err = FailIfError;

    fn from_str(s: &str) -> Result<Self, FailIfError> {
        let error = |offset: usize, why| FailIfError {
            found: s.to_owned(),
            at: s[..offset].chars().count() + 1,
            why,
        };
        let Some(place) = s.find(['<', '>']) else {
            return Err(error(s.len(), "`<` or `>` is missing"));
        };
        let figure = s[..place].trim();
        let word = |c: char| c.is_ascii_alphanumeric() || "_-+.:[]%".contains(c);
        if figure.is_empty() || !figure.chars().all(word) {
            return Err(error(0, "the name of a figure is missing"));
        }
        let (is_less, rest) = (s[place..].starts_with('<'), &s[place + 1..]);
        let start = place + 1 + (rest.len() - rest.trim_start().len());
        let Some(number) = rest.trim().strip_suffix('%') else {
            return Err(error(s.trim_end().len(), "`%` is missing"));
        };
        let percent: f64 = match number.trim().parse() {
            Ok(percent) if f64::is_finite(percent) => percent,
            _ => return Err(error(start, "there is no number")),
        };
        match (is_less, percent) {
            (true, p) if p >= 0.0 || p <= -100.0 => {
                Err(error(start, "a change after `<` is below 0 and above -100 percent"))
            }
            (false, p) if p <= 0.0 => Err(error(start, "a change after `>` is above 0 percent")),
            _ => Ok(FailIf { figure: figure.to_owned(), change: percent / 100.0 }),
        }
    }
}

impl fmt::Display for FailIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.change < 0.0 { '<' } else { '>' };
        // Twelve digits hide the rounding of the division by 100.
        let percent = (self.change * 1e14).round() / 1e12;
        write!(f, "{} {sign} {percent}%", self.figure)
    }
}

impl Serialize for FailIf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Decision of a whole comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// No condition holds or may hold. A comparison without conditions shows nothing that is slower,
    /// and excludes a slowdown beyond the resolution.
    Fine,
    /// A slowdown beyond the resolution is possible, a condition may hold, or a result is missing.
    Inconclusive,
    /// A figure is slower, or a condition holds.
    Slower,
}

/// Whether a condition holds, by the interval of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// The whole interval is beyond the change.
    Yes,
    /// The interval overlaps the condition, or there is no interval.
    Perhaps,
    /// No part of the interval is beyond the change.
    No,
}

impl FailIf {
    /// Returns the decision by the interval of a ratio: slower if all of it is beyond the change, fine if none of it is.
    pub fn decision(&self, interval: Option<(f64, f64)>) -> Decision {
        match self.holds(interval) {
            Holds::Yes => Decision::Slower,
            Holds::Perhaps => Decision::Inconclusive,
            Holds::No => Decision::Fine,
        }
    }

    /// Returns whether the interval of a ratio is beyond the change.
    pub(super) fn holds(&self, interval: Option<(f64, f64)>) -> Holds {
        let Some((low, high)) = interval else { return Holds::Perhaps };
        let limit = 1.0 + self.change;
        let beyond = |ratio: f64| if self.change < 0.0 { ratio < limit } else { ratio > limit };
        match (beyond(low), beyond(high)) {
            (true, true) => Holds::Yes,
            (false, false) => Holds::No,
            _ => Holds::Perhaps,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn conditions_are_read() {
        for (text, figure, change, printed) in [
            ("valid < -10%", "valid", -0.1, "valid < -10%"),
            ("knot-resolver < -3%", "knot-resolver", -0.03, "knot-resolver < -3%"),
            ("p99>20%", "p99", 0.2, "p99 > 20%"),
            ("[fe80::1%lo]:53 < -3%", "[fe80::1%lo]:53", -0.03, "[fe80::1%lo]:53 < -3%"),
            ("  zone_load > 0.5 % ", "zone_load", 0.005, "zone_load > 0.5%"),
        ] {
            let condition: FailIf = text.parse().expect(text);
            assert_eq!((condition.figure.as_str(), condition.change), (figure, change));
            assert_eq!(condition.to_string(), printed);
        }
    }

    #[test]
    fn errors_name_the_place() {
        for (text, at, why) in [
            ("", 1, "`<` or `>` is missing"),
            ("valid = 3%", 11, "`<` or `>` is missing"),
            ("< -3%", 1, "the name of a figure"),
            ("a b < -3%", 1, "the name of a figure"),
            ("valid < -3", 11, "`%` is missing"),
            ("valid < ten%", 9, "no number"),
            ("valid < 10%", 9, "below 0 and above -100"),
            ("valid < -100%", 9, "below 0 and above -100"),
            ("p99 > -1%", 7, "above 0 percent"),
            ("p99 > NaN%", 7, "no number"),
        ] {
            let error = text.parse::<FailIf>().expect_err(text);
            assert_eq!(error.at, at, "{error}");
            assert!(error.why.contains(why), "{error}");
        }
    }

    #[test]
    fn an_interval_is_beyond_in_part_or_not() {
        let less: FailIf = "valid < -10%".parse().expect("a condition");
        let more: FailIf = "p99 > 20%".parse().expect("a condition");
        for (condition, interval, holds) in [
            (&less, Some((0.1, 0.2)), Holds::Yes),
            (&less, Some((0.85, 0.95)), Holds::Perhaps),
            (&less, Some((0.95, 1.3)), Holds::No),
            (&less, None, Holds::Perhaps),
            (&more, Some((1.3, 4.0)), Holds::Yes),
            (&more, Some((1.0, 1.3)), Holds::Perhaps),
            (&more, Some((0.1, 1.1)), Holds::No),
        ] {
            assert_eq!(condition.holds(interval), holds, "{condition} {interval:?}");
        }
    }

    proptest! {
        #[test]
        fn printed_conditions_read_as_the_same(figure in "[a-z][a-z0-9_]{0,12}", tenths in 1i32..999, less: bool) {
            let change = f64::from(if less { -tenths } else { tenths }) / 10.0 / 100.0;
            let condition = FailIf { figure, change };
            prop_assert_eq!(condition.to_string().parse(), Ok(condition));
        }

        #[test]
        fn any_text_is_read_or_refused_at_a_place_in_it(text in "[a-z0-9<>%. \u{80}-\u{2ff}-]{0,20}") {
            if let Err(error) = text.parse::<FailIf>() {
                prop_assert!((1..=text.chars().count() + 1).contains(&error.at), "{}", error);
            }
        }
    }
}
