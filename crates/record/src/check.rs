//! Checks of the Tester: values that it found, compared with known ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value that the Tester found, compared with a known value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Name of the value, such as `capacity 20k` or `lost`.
    pub name: String,
    /// Source of the known value.
    pub truth: TruthSource,
    /// Unit of both values: `qps`, `us`, `%`; empty for counts.
    pub unit: String,
    /// The known value, in `unit`.
    pub known: f64,
    /// The value that was found; absent if none was.
    pub found: Option<f64>,
    /// The found value less the known one, in the unit of the bound.
    pub error: Option<f64>,
    /// Largest error that passes, either way.
    pub bound: Bound,
    /// Verdict: whether the error is within the bound.
    pub verdict: CheckVerdict,
    /// Reason for any other verdict than `passed`, or a remark.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// Source of a known value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TruthSource {
    /// The value was set at the server or at the Measurer.
    Set,
    /// The value was counted in a capture on the server's link.
    Capture,
    /// The engine of sockets measured the value, of the same server.
    Sockets,
    /// The value follows from others by Little's law.
    Law,
    /// The server counted the value, independently of the Tester.
    Server,
}

measure::words! {
    TruthSource {
        Set = "set",
        Capture = "capture",
        Sockets = "sockets",
        Law = "law",
        Server = "server",
    }
}

/// Largest error of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Percent of the known value.
    Percent(f64),
    /// The unit of the value.
    Absolute(f64),
}

/// Verdict on a value that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckVerdict {
    /// The error is within its bound.
    Passed,
    /// The error is beyond its bound, and there is no sign that the machine caused it.
    Failed,
    /// The error is beyond its bound because the machine of the Tester stalled or was too slow.
    TesterLimited,
    /// The value could not be checked here.
    NotMade,
}

impl CheckVerdict {
    /// Returns the words of the verdict in tables.
    pub fn words(self) -> &'static str {
        match self {
            CheckVerdict::Passed => "passed",
            CheckVerdict::Failed => "FAILED",
            CheckVerdict::TesterLimited => "Tester-limited",
            CheckVerdict::NotMade => "not made",
        }
    }
}

impl Bound {
    /// Returns the error of `found` in the unit of this bound; infinite for a share of a known value of zero.
    pub fn error(self, known: f64, found: f64) -> f64 {
        match self {
            Bound::Absolute(_) => found - known,
            Bound::Percent(_) if found == known => 0.0,
            Bound::Percent(_) => (found / known - 1.0) * 100.0,
        }
    }

    /// Returns the largest error, in percent or in the unit of the value.
    pub fn value(self) -> f64 {
        match self {
            Bound::Percent(value) | Bound::Absolute(value) => value,
        }
    }
}

impl Check {
    /// Compares `found` with the known value: passed or failed.
    pub fn compare(name: impl Into<String>, known: Known, found: f64) -> Self {
        let error = known.bound.error(known.value, found);
        let passed = error.abs() <= known.bound.value();
        Check {
            found: Some(found),
            // JSON has no infinite numbers.
            error: error.is_finite().then_some(error),
            verdict: if passed { CheckVerdict::Passed } else { CheckVerdict::Failed },
            ..Check::without(name, known, CheckVerdict::Failed)
        }
    }

    /// Makes a check without a found value.
    pub fn without(name: impl Into<String>, known: Known, verdict: CheckVerdict) -> Self {
        let Known { truth, value, unit, bound } = known;
        let (name, unit) = (name.into(), unit.to_owned());
        Check {
            name,
            truth,
            unit,
            known: value,
            found: None,
            error: None,
            bound,
            verdict,
            why: None,
        }
    }

    /// Adds the reason for the verdict, or a remark.
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// Returns whether the error is beyond its bound.
    pub fn is_failed(&self) -> bool {
        self.verdict == CheckVerdict::Failed
    }

    /// Returns the name of the check without the trial: `rate` of `rate, window 8, delay 1ms, tcp,
    /// 8 clients`.
    pub fn what(&self) -> &str {
        self.name.split(", ").next().unwrap_or(&self.name)
    }

    /// Returns whether the check is of a single engine and transport, which has the trial in its
    /// name.
    pub fn is_of_way(&self) -> bool {
        self.what() != self.name
    }

    /// Returns the error as a share of the largest one that passes; infinite without a bound or an error.
    pub fn share_of_bound(&self) -> f64 {
        match (self.error, self.bound.value()) {
            (Some(0.0), _) => 0.0,
            (Some(error), bound) => (error / bound).abs(),
            (None, _) => f64::INFINITY,
        }
    }

    /// Returns whether the found value is above the known one.
    pub fn is_above(&self) -> bool {
        self.found.is_some_and(|found| found > self.known)
    }
}

/// A known value, with which a result is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Source that the value is known from.
    pub truth: TruthSource,
    /// The value that a faultless Tester finds.
    pub value: f64,
    /// Unit of the value; empty for counts.
    pub unit: &'static str,
    /// Largest error of the Tester that passes.
    pub bound: Bound,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_held_against_their_bounds() {
        let table = [
            (Bound::Percent(2.0), 100.0, 101.9, CheckVerdict::Passed),
            (Bound::Percent(2.0), 100.0, 97.9, CheckVerdict::Failed),
            (Bound::Percent(2.0), 0.0, 0.0, CheckVerdict::Passed),
            (Bound::Percent(2.0), 0.0, 1.0, CheckVerdict::Failed),
            (Bound::Absolute(2.0), 100.0, 98.0, CheckVerdict::Passed),
            (Bound::Absolute(2.0), 0.0, 3.0, CheckVerdict::Failed),
            (Bound::Absolute(0.0), 7.0, f64::NAN, CheckVerdict::Failed),
        ];
        for (bound, value, found, verdict) in table {
            let known = Known { truth: TruthSource::Set, value, unit: "", bound };
            let check = Check::compare("x", known, found);
            assert_eq!(check.verdict, verdict, "{known:?} {found}");
            assert!(check.error.is_none_or(f64::is_finite));
        }
    }
}
