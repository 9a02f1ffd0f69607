//! The rules by which a search decides on a rate.

use std::fmt;
use std::str::FromStr;

/// Rule by which a search decides on a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// RFC 8219 section 9.2: a rate passes if its trial does.
    #[default]
    Rfc8219,
    /// MLRsearch (draft-ietf-bmwg-mlrsearch): trials at a rate are added up until they decide.
    Mlrsearch,
    /// A rate passes if at least 90 % of the one-second windows of its trials are free of loss.
    CleanWindows,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 3] = [Rule::Rfc8219, Rule::Mlrsearch, Rule::CleanWindows];

    /// Returns the word of the rule in files and records.
    pub fn word(self) -> &'static str {
        match self {
            Rule::Rfc8219 => "rfc8219",
            Rule::Mlrsearch => "mlrsearch",
            Rule::CleanWindows => "clean-windows",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Rule::ALL.map(Rule::word).join(", ");
        let rule = Rule::ALL.into_iter().find(|rule| rule.word() == text);
        rule.ok_or_else(|| format!("`{text}` is none of {}", known()))
    }
}
