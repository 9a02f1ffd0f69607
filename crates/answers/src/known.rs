//! Differences that are known, in a text of one rule a line, so that only new ones count:
//!
//! ```text
//! # KINDS NAME TYPE
//! additional,authority * *        minimal responses
//! ttl *.example.com AAAA
//! * broken.example *
//! ```
//!
//! NAME is a name, `*.NAME` for all names below it, or `*`; what stands behind TYPE is a remark.

use wire::{Name, Qtype};

use crate::kind::{DifferenceKind, Kinds};

const MAX_RULES: usize = 100_000;

/// Error of a list of known differences.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{line}:{column}: {why}; a line is KINDS NAME TYPE, such as `ttl,additional *.example.com *`"
)]
pub struct KnownError {
    /// Line of the list, from 1.
    pub line: usize,
    /// Column, from 1, in bytes.
    pub column: usize,
    /// Reason why the line is not accepted.
    pub why: String,
}

/// Names that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NamePattern {
    All,
    Below(Name),
    One(Name),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    kinds: Kinds,
    names: NamePattern,
    /// `None` for rules of all types.
    qtype: Option<Qtype>,
}

/// A list of known differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownDifferences(Vec<Rule>);

impl KnownDifferences {
    /// Reads the rules, at most 100,000.
    ///
    /// # Errors
    /// [`KnownError`] for the first line that is no rule.
    pub fn parse(text: &str) -> Result<Self, KnownError> {
        let mut rules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let mistake = |part: &str, why: String| KnownError {
                line: number + 1,
                column: part.as_ptr() as usize - line.as_ptr() as usize + 1,
                why,
            };
            let mut words = line.split_ascii_whitespace();
            let Some(first) = words.next().filter(|word| !word.starts_with(['#', ';'])) else {
                continue;
            };
            let end = &line[line.len()..];
            let mut next = |what: &str| {
                words.next().ok_or_else(|| mistake(end, format!("the {what} is missing")))
            };
            let (name, qtype) = (next("name")?, next("type")?);
            rules.push(Rule {
                kinds: kinds(first).map_err(|why| mistake(first, why))?,
                names: names(name).map_err(|why| mistake(name, why))?,
                qtype: if qtype == "*" {
                    None
                } else {
                    Some(qtype.parse().map_err(|e| mistake(qtype, format!("{e}")))?)
                },
            });
            if rules.len() > MAX_RULES {
                return Err(mistake(first, format!("more than {MAX_RULES} rules")));
            }
        }
        Ok(KnownDifferences(rules))
    }

    /// Returns the kinds of differences that are known of a question.
    pub fn kinds(&self, name: &Name, qtype: Qtype) -> Kinds {
        let fits = |rule: &&Rule| {
            let named = match &rule.names {
                NamePattern::All => true,
                NamePattern::Below(zone) => name != zone && name.ends_with(zone),
                NamePattern::One(one) => name == one,
            };
            named && rule.qtype.is_none_or(|wanted| wanted == qtype)
        };
        self.0.iter().filter(fits).fold(Kinds::NONE, |kinds, rule| kinds | rule.kinds)
    }
}

fn kinds(text: &str) -> Result<Kinds, String> {
    if text == "*" {
        return Ok(Kinds::ALL);
    }
    text.split(',')
        .map(|word| word.parse::<DifferenceKind>().map_err(|why| why.to_string()))
        .collect()
}

fn names(text: &str) -> Result<NamePattern, String> {
    let name = |text: &str| text.parse::<Name>().map_err(|e| e.to_string());
    match text.strip_prefix("*.") {
        _ if text == "*" => Ok(NamePattern::All),
        Some(zone) => name(zone).map(NamePattern::Below),
        None => name(text).map(NamePattern::One),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rules_are_for_names_and_types() {
        let text = "# a list\n\nadditional,ttl * *  minimal\nanswer *.example.com AAAA\n  * Broken.example *\n";
        let known = KnownDifferences::parse(text).expect("rules");
        for (name, qtype, words) in [
            ("a.test", "A", "additional ttl"),
            ("www.EXAMPLE.com", "AAAA", "answer additional ttl"),
            ("www.example.com", "A", "additional ttl"),
            ("example.com", "AAAA", "additional ttl"),
        ] {
            let found = known.kinds(&name.parse().expect("a name"), qtype.parse().expect("a type"));
            assert_eq!(found.words().join(" "), words, "{name} {qtype}");
        }
        assert_eq!(known.kinds(&"broken.example".parse().expect("a name"), Qtype::A), Kinds::ALL);
        assert_eq!(KnownDifferences::parse("; none\n"), Ok(KnownDifferences::default()));
    }

    #[test]
    fn errors_have_their_place() {
        for (text, line, column, why) in [
            ("ttl", 1, 4, "the name is missing"),
            ("\nttl *", 2, 6, "the type is missing"),
            ("ttl,x * *", 1, 1, "`x` is none of timeout, error"),
            ("ttl a..b *", 1, 5, ""),
            ("ttl * NONE", 1, 7, "`NONE` is not a record type"),
        ] {
            let error = KnownDifferences::parse(text).expect_err(text);
            assert_eq!((error.line, error.column), (line, column), "{error}");
            assert!(error.why.contains(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_at_a_place_within_it(text in "[a-z*., #\\n]{0,60}|\\PC{0,60}") {
            if let Err(error) = KnownDifferences::parse(&text) {
                let line = text.lines().nth(error.line - 1).expect("the line");
                prop_assert!((1..=line.len() + 1).contains(&error.column), "{error}");
            }
        }
    }
}
