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
    /// dnsperf with its defaults, 100 queries outstanding, for two seconds.
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
    /// Returns the number of names that one process needs. dns64perf++ queries a whole prefix; a
    /// range of twice as many names contains one. Closed loops send for two seconds: 131,000
    /// queries a second of a dnsperf, and 524,000 of ours.
    pub fn names(self, experiments: u32) -> u64 {
        let queries = u64::from(experiments) * u64::from(EXPERIMENT);
        match self {
            Generator::Dns64perfpp => 2 * queries.next_power_of_two(),
            Generator::Dnsperf => 1 << 18,
            Generator::Window => 1 << 20,
            Generator::Script | Generator::Lockstep1 | Generator::Lockstep4 => queries,
        }
    }

    /// Returns whether the generator is a closed loop that sends for two seconds, in place of
    /// experiments.
    pub fn is_timed(self) -> bool {
        matches!(self, Generator::Dnsperf | Generator::Window)
    }

    /// Returns whether several processes of the generator can run at once.
    pub(crate) fn has_processes(self) -> bool {
        matches!(self, Generator::Script | Generator::Dnsperf)
    }
}

/// Settings of the comparison of generators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct GeneratorSettings {
    /// Generator that sends the queries.
    pub generator: Generator,
    /// Number of experiments of 256 queries in each repeat.
    pub experiments: u32,
    /// Number of concurrent processes, each with its own names.
    pub processes: u32,
}

impl GeneratorSettings {
    /// Returns the number of names that all processes need.
    pub fn names(&self) -> u64 {
        self.generator.names(self.experiments) * u64::from(self.processes)
    }
}

impl Default for GeneratorSettings {
    fn default() -> Self {
        GeneratorSettings { generator: Generator::Lockstep1, experiments: 256, processes: 1 }
    }
}
