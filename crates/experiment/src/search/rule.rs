//! The rules by which a search decides on a rate.

use std::fmt;
use std::str::FromStr;

use measure::{Goal, Nanos};

/// Rule by which a search decides on a rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// RFC 8219 section 9.2: a rate passes if its trial does.
    Rfc8219,
    /// MLRsearch (draft-ietf-bmwg-mlrsearch): trials at a rate are added up until they decide.
    Mlrsearch {
        /// Further goals that are sought in the same search.
        also: Vec<Goal>,
        /// Sum of the durations of the trials that decide a rate, in nanoseconds.
        duration_sum: Nanos,
    },
    /// Probabilistic bisection (Horstein 1963): all trials together tell what the capacity may be, each by the speed that the server's
    /// cores had.
    Probabilistic,
}

impl Rule {
    /// Returns the name of the rule.
    pub fn name(&self) -> RuleName {
        match self {
            Rule::Rfc8219 => RuleName::Rfc8219,
            Rule::Mlrsearch { .. } => RuleName::Mlrsearch,
            Rule::Probabilistic => RuleName::Probabilistic,
        }
    }
}

/// Name of a [`Rule`], in files, arguments and records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleName {
    /// [`Rule::Rfc8219`].
    #[default]
    Rfc8219,
    /// [`Rule::Mlrsearch`].
    Mlrsearch,
    /// [`Rule::Probabilistic`].
    Probabilistic,
}

impl RuleName {
    /// All names.
    const ALL: [RuleName; 3] = [RuleName::Rfc8219, RuleName::Mlrsearch, RuleName::Probabilistic];

    /// Returns the rule with its settings; without a `duration_sum` five trials of `duration` decide a rate.
    ///
    /// # Errors
    /// If a setting is given that the rule does not have.
    pub fn rule(
        self,
        also: &[Goal],
        duration_sum: Option<Nanos>,
        duration: Nanos,
    ) -> Result<Rule, RuleError> {
        let rule = match self {
            RuleName::Rfc8219 => Rule::Rfc8219,
            RuleName::Probabilistic => Rule::Probabilistic,
            RuleName::Mlrsearch => {
                let duration_sum = duration_sum.unwrap_or(Nanos(duration.0.saturating_mul(5)));
                return Ok(Rule::Mlrsearch { also: also.to_vec(), duration_sum });
            }
        };
        match (also.is_empty(), duration_sum) {
            (false, _) => Err(RuleError { setting: "also", rule: self }),
            (true, Some(_)) => Err(RuleError { setting: "duration-sum", rule: self }),
            (true, None) => Ok(rule),
        }
    }

    fn word(self) -> &'static str {
        match self {
            RuleName::Rfc8219 => "rfc8219",
            RuleName::Mlrsearch => "mlrsearch",
            RuleName::Probabilistic => "probabilistic-bisection",
        }
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for RuleName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || RuleName::ALL.map(RuleName::word).join(", ");
        let rule = RuleName::ALL.into_iter().find(|rule| rule.word() == text);
        rule.ok_or_else(|| format!("`{text}` is none of {}", known()))
    }
}

/// Error: a setting is given that the rule does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{setting}` is a setting of the rule `mlrsearch`; the rule is `{rule}`")]
pub struct RuleError {
    /// Name of the setting.
    pub setting: &'static str,
    /// Rule that was given.
    pub rule: RuleName,
}
