//! Conditions on which a comparison fails: `valid < -10%`, `p99 > 20%`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

impl<'de> Deserialize<'de> for FailIf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for FailIf {
    fn schema_name() -> Cow<'static, str> {
        "FailIf".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "Condition of `--fail-if`, such as `new < -3%`." })
    }
}

/// Decision of a whole comparison.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// No condition holds or may hold. A comparison without conditions shows nothing that is slower,
    /// and excludes a slowdown beyond the resolution.
    #[default]
    Fine,
    /// A slowdown beyond the resolution is possible, a condition may hold, or a result is missing.
    Inconclusive,
    /// A figure is slower, or a condition holds.
    Slower,
}

impl Decision {
    /// Returns the exit code of a command that decides so.
    pub fn exit_code(self) -> u8 {
        match self {
            Decision::Fine => 0,
            Decision::Slower => 3,
            Decision::Inconclusive => 4,
        }
    }

    /// Returns the verdict with its exit code, in words.
    pub fn verdict(self) -> &'static str {
        match self {
            Decision::Fine => "PASSED (exit 0)",
            Decision::Slower => "FAILED (exit 3)",
            Decision::Inconclusive => "NOT SURE (exit 4)",
        }
    }
}

impl FailIf {
    /// Returns what the interval of a ratio says, and the limit: `answers 4.1 to 8.3 % less than old; limit 3 %`.
    pub(crate) fn reason(&self, figure: &str, other: &str, interval: Option<(f64, f64)>) -> String {
        let change = interval.map_or("an unknown change from".to_owned(), |interval| {
            format!("{} than", change(interval.0, interval.1))
        });
        let limit = (self.change * 1e14).round().abs() / 1e12;
        format!("{figure} {change} {other}; limit {limit} %")
    }

    /// Returns the decision by the interval of a ratio: slower if all of it is beyond the change, fine if none of it is.
    pub fn decision(&self, interval: Option<(f64, f64)>) -> Decision {
        let Some((low, high)) = interval else { return Decision::Inconclusive };
        let limit = 1.0 + self.change;
        let beyond = |ratio: f64| if self.change < 0.0 { ratio < limit } else { ratio > limit };
        match (beyond(low), beyond(high)) {
            (true, true) => Decision::Slower,
            (false, false) => Decision::Fine,
            _ => Decision::Inconclusive,
        }
    }
}

/// Returns the change from one to the interval of a ratio, in words; an end may be open.
fn change(low: f64, high: f64) -> String {
    let percent = |ratio: f64| {
        let percent = (ratio - 1.0).abs() * 100.0;
        format!("{percent:.*}", usize::from(percent < 100.0))
    };
    let (has_low, has_high) = (low > 0.0, high < f64::MAX);
    let word = |ratio: f64| if ratio < 1.0 { "less" } else { "more" };
    match (has_low, has_high) {
        (false, false) => "any amount less or more".to_owned(),
        (true, false) if low < 1.0 => format!("at most {} % less", percent(low)),
        (true, false) => format!("at least {} % more", percent(low)),
        (false, true) if high < 1.0 => format!("at least {} % less", percent(high)),
        (false, true) => format!("at most {} % more", percent(high)),
        (true, true) if high <= 1.0 => format!("{} to {} % less", percent(high), percent(low)),
        (true, true) if low >= 1.0 => format!("{} to {} % more", percent(low), percent(high)),
        (true, true) => {
            let [low, high] = [low, high].map(|end| format!("{} % {}", percent(end), word(end)));
            format!("{low} to {high}")
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
    fn changes_are_said_by_both_ends() {
        for (interval, said) in [
            ((0.917, 0.959), "4.1 to 8.3 % less"),
            ((1.02, 1.1), "2.0 to 10.0 % more"),
            ((1.5, 18.17), "50.0 to 1717 % more"),
            ((0.9, 1.381), "10.0 % less to 38.1 % more"),
            ((0.8, f64::INFINITY), "at most 20.0 % less"),
            ((1.2, f64::MAX), "at least 20.0 % more"),
            ((0.0, 0.9), "at least 10.0 % less"),
            ((0.0, 1.1), "at most 10.0 % more"),
            ((0.0, f64::MAX), "any amount less or more"),
        ] {
            assert_eq!(change(interval.0, interval.1), said);
        }
    }

    #[test]
    fn an_interval_is_beyond_in_part_or_not() {
        use Decision::{Fine, Inconclusive, Slower};
        let less: FailIf = "valid < -10%".parse().expect("a condition");
        let more: FailIf = "p99 > 20%".parse().expect("a condition");
        for (condition, interval, decision) in [
            (&less, Some((0.1, 0.2)), Slower),
            (&less, Some((0.85, 0.95)), Inconclusive),
            (&less, Some((0.95, 1.3)), Fine),
            (&less, None, Inconclusive),
            (&more, Some((1.3, 4.0)), Slower),
            (&more, Some((1.0, 1.3)), Inconclusive),
            (&more, Some((0.1, 1.1)), Fine),
        ] {
            assert_eq!(condition.decision(interval), decision, "{condition} {interval:?}");
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
