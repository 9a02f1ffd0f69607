//! Settings of a comparison of answers: the sending of queries, and the definition of a difference.

use std::path::PathBuf;

use measure::{Nanos, Qps};
use serde::{Deserialize, Serialize};

use super::values::{one_second, rate_text, text, time_text};

/// Settings of the method `answers`. The tolerance of TTLs and the kinds that are not
/// compared stand here as text; `dnsdyno diff` reads them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct AnswersSettings {
    /// Largest rate of queries to each server.
    #[serde(deserialize_with = "text", serialize_with = "rate_text")]
    pub rate: Qps,
    /// Number of queries under way at once.
    pub window: u16,
    /// Timeout of a reply, over UDP and again over TCP, in nanoseconds.
    #[serde(deserialize_with = "text", serialize_with = "time_text")]
    pub timeout: Nanos,
    /// Time before queries with different answers are sent again, in nanoseconds.
    #[serde(deserialize_with = "text", serialize_with = "time_text")]
    pub pause: Nanos,
    /// Whether queries have EDNS(0); captured queries are unchanged.
    pub edns: bool,
    /// Whether queries have EDNS(0) with the DO bit.
    pub dnssec: bool,
    /// Difference that TTLs may have: `exact`, a time, a share, `any`.
    pub ttl: String,
    /// Kinds of differences that are not compared.
    pub ignore: Vec<String>,
    /// File of known differences. A relative path begins at the experiment's folder.
    pub known: Option<PathBuf>,
}

impl Default for AnswersSettings {
    fn default() -> Self {
        AnswersSettings {
            rate: Qps::new(1_000.0).expect("a rate"),
            window: 64,
            timeout: Nanos::from_secs(2),
            pause: one_second(),
            edns: true,
            dnssec: false,
            ttl: "5s".to_owned(),
            ignore: Vec::new(),
            known: None,
        }
    }
}
