//! Generators of DNS queries that an experiment compares.

use serde::Deserialize;

/// Generator that sends the 256 queries of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Generator {
    /// A shell script that starts 256 `host` processes, four at a time (seed 002's baseline).
    #[serde(rename = "script")]
    Script,
    /// dns64perf with one thread, as this program implements it.
    #[serde(rename = "lockstep-1")]
    Lockstep1,
    /// dns64perf with four threads, as this program implements it.
    #[serde(rename = "lockstep-4")]
    Lockstep4,
    /// dnsperf with its defaults: 100 queries outstanding.
    #[serde(rename = "dnsperf")]
    Dnsperf,
    /// The closed loop of this program with 100 queries outstanding.
    #[serde(rename = "window")]
    Window,
}

impl Generator {
    /// Returns the word of the generator in files and records.
    pub fn word(self) -> &'static str {
        match self {
            Generator::Script => "script",
            Generator::Lockstep1 => "lockstep-1",
            Generator::Lockstep4 => "lockstep-4",
            Generator::Dnsperf => "dnsperf",
            Generator::Window => "window",
        }
    }
}
