//! Generators of DNS queries that an experiment compares.

use measure::pacing::EXPERIMENT;
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
    /// dns64perf++ of the authors: bursts of 256 queries.
    #[serde(rename = "dns64perf++")]
    Dns64perfpp,
    /// The closed loop of this program with 100 queries outstanding.
    #[serde(rename = "window")]
    Window,
}

measure::words! {
    Generator {
        Script = "script",
        Lockstep1 = "lockstep-1",
        Lockstep4 = "lockstep-4",
        Dnsperf = "dnsperf",
        Dns64perfpp = "dns64perf++",
        Window = "window",
    }
}

impl Generator {
    /// Returns the number of names that its experiments of 256 queries need. dns64perf++ asks for a whole prefix, which twice as
    /// many names contain.
    pub fn names(self, experiments: u32) -> u64 {
        let queries = u64::from(experiments) * u64::from(EXPERIMENT);
        match self {
            Generator::Dns64perfpp => 2 * queries.next_power_of_two(),
            _ => queries,
        }
    }
}

/// Settings of the comparison of generators.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct GeneratorSettings {
    /// Generator that sends the queries.
    pub generator: Generator,
    /// Number of experiments of 256 queries in each repeat.
    pub experiments: u32,
}

impl Default for GeneratorSettings {
    fn default() -> Self {
        GeneratorSettings { generator: Generator::Lockstep1, experiments: 256 }
    }
}
