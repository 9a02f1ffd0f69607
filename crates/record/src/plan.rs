//! What a run was to do, and the marks that an interruption leaves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::host::HostFacts;
use crate::testbed::{Choices, TestbedFacts};

/// What was to be done, by which program, on which host. Written before the first trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The experiment's name, or `search`.
    pub experiment: String,
    /// One line on what it is.
    #[serde(default)]
    pub title: String,
    /// The text of the experiment's file, as it was read; empty when there was none.
    #[serde(default)]
    pub text: String,
    /// Whether it is the short form.
    #[serde(default)]
    pub quick: bool,
    /// The version of dnsdyno.
    pub version: String,
    /// The command line.
    pub command: String,
    /// When it began, seconds since 1970.
    pub started_unix_s: f64,
    /// What the command line chose beside the experiment's file.
    #[serde(default)]
    pub choices: Choices,
    /// The testbed; absent for a load without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub testbed: Option<TestbedFacts>,
    /// The host, as `dnsdyno host` prints it; absent when its facts were not taken.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<HostFacts>,
    /// Configuration files that belong to no cell, by name: the Tester's and the AuthDNS's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub files: BTreeMap<String, String>,
}

impl Plan {
    /// The testbed's facts and what the command line chose, by name, in words.
    pub fn words(&self) -> BTreeMap<String, String> {
        let mut words = self.testbed.as_ref().map(TestbedFacts::words).unwrap_or_default();
        words.extend(self.choices.words());
        words
    }
}

/// An interruption: the run ended before its time and was taken up again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seam {
    /// When the last thing before it was stored, seconds since 1970.
    pub stopped_unix_s: f64,
    /// When the run was taken up again, seconds since 1970.
    pub resumed_unix_s: f64,
    /// How many trials were stored before it.
    pub trials_before: u64,
    /// The version of dnsdyno that took it up again.
    pub version: String,
}
