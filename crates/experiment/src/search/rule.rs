//! The rules by which a search decides on a rate.

use measure::{Goal, Nanos};

/// Rule by which a search decides on a rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// RFC 8219 section 9.2: a rate passes if its trial does.
    Rfc8219,
    /// MLRsearch (RFC 9971): trials at a rate are added up until they decide.
    Mlrsearch {
        /// Further goals that are sought in the same search.
        also: Vec<Goal>,
        /// Sum of the durations of the trials that decide a rate, in nanoseconds.
        duration_sum: Nanos,
    },
}

impl Rule {
    /// Returns the name of the rule.
    pub fn name(&self) -> RuleName {
        match self {
            Rule::Rfc8219 => RuleName::Rfc8219,
            Rule::Mlrsearch { .. } => RuleName::Mlrsearch,
        }
    }
}

/// Name of a [`Rule`], in files, arguments and records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleName {
    /// Binary search as RFC 8219 has it: [`Rule::Rfc8219`].
    #[default]
    Rfc8219,
    /// Trials at a rate are added up until they decide (RFC 9971): [`Rule::Mlrsearch`].
    Mlrsearch,
}

measure::words! { RuleName { Rfc8219 = "rfc8219", Mlrsearch = "mlrsearch" } }

impl RuleName {
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
        let wrong = |setting| Err(RuleError { setting, rule: self });
        match self {
            RuleName::Mlrsearch => {
                let duration_sum = duration_sum.unwrap_or(Nanos(duration.0.saturating_mul(5)));
                Ok(Rule::Mlrsearch { also: also.to_vec(), duration_sum })
            }
            RuleName::Rfc8219 if !also.is_empty() => wrong("also"),
            RuleName::Rfc8219 if duration_sum.is_some() => wrong("duration-sum"),
            RuleName::Rfc8219 => Ok(Rule::Rfc8219),
        }
    }
}

/// Error: a setting is given that the rule does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{setting}` is a setting of the rule `mlrsearch`; the rule is `{rule}`")]
pub struct RuleError {
    /// Key of the setting that only `mlrsearch` has.
    pub setting: &'static str,
    /// Rule of the search, which lacks it.
    pub rule: RuleName,
}
