//! Settings of a drill: the legitimate load, and the attack in its middle.

use measure::{Nanos, Qps};
use record::AttackKind;
use serde::Deserialize;

use super::values::{one_second, text};

/// Settings of the method `drill`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DrillSettings {
    /// What the attacker sends, and so what it exhausts.
    pub attack: AttackKind,
    /// Rate of the legitimate queries.
    #[serde(deserialize_with = "text")]
    pub queries: Qps,
    /// Largest rate of the attack: queries, first packets or new connections a second.
    #[serde(deserialize_with = "text")]
    pub rate: Qps,
    /// Largest number of connections of the attack at a time, if it has any.
    #[serde(default = "two_thousand")]
    pub connections: u32,
    /// Duration of the legitimate load before the attack, in nanoseconds.
    #[serde(deserialize_with = "text")]
    pub before: Nanos,
    /// Duration of the attack, in nanoseconds.
    #[serde(deserialize_with = "text")]
    pub during: Nanos,
    /// Duration of the legitimate load after the attack, in nanoseconds.
    #[serde(deserialize_with = "text")]
    pub after: Nanos,
    /// Timeout of one legitimate query, in nanoseconds.
    #[serde(deserialize_with = "text", default = "one_second")]
    pub timeout: Nanos,
}

impl DrillSettings {
    /// Returns the duration of the legitimate load, in nanoseconds.
    pub fn duration(&self) -> Nanos {
        self.before + self.during + self.after
    }
}

/// Returns the default number of connections: twice the places that a server of the lab has.
fn two_thousand() -> u32 {
    2_000
}
