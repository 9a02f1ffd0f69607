//! The plan of a run, and its interruptions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::FailIf;
use crate::certificate::CertificateFile;
use crate::host::HostFacts;
use crate::testbed::{Choices, TestbedFacts};

/// Plan of a run: the work, the program and the host. It is written before the first trial.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Name of the experiment, or `search`.
    pub experiment: String,
    /// Title of the experiment, in one line.
    #[serde(default)]
    pub title: String,
    /// Text of the experiment file as it was read; empty without a file.
    #[serde(default)]
    pub text: String,
    /// Whether this is the quick form.
    #[serde(default)]
    pub quick: bool,
    /// Whether this is the medium form.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub medium: bool,
    /// Version of dnsdyno that makes the run.
    pub version: String,
    /// Commit of dnsdyno's source, with `-dirty` if files were changed; absent where it was built without git.
    pub commit: Option<String>,
    /// Command line of the run.
    pub command: String,
    /// Start of the run, in seconds since 1970.
    pub started_unix_s: f64,
    /// Options of the command line in addition to the experiment file.
    #[serde(default)]
    pub choices: Choices,
    /// Facts of the testbed; absent for a load without one.
    pub testbed: Option<TestbedFacts>,
    /// Facts of the host, as `dnsdyno host` prints them; absent if they were not taken.
    pub host: Option<HostFacts>,
    /// Certificate of the Tester that the user gave, without trials; absent without one.
    pub certificate: Option<CertificateFile>,
    /// Configuration files of the Tester and the AuthDNS, which belong to no cell, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub files: BTreeMap<String, String>,
    /// Files with queries or zones that the experiment names.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub inputs: Vec<InputFile>,
    /// Conditions of `--fail-if`; empty without one.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub fail_if: Vec<FailIf>,
    /// Folder at which relative paths of the experiment's file begin; empty if it names no file.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub folder: String,
}

impl Plan {
    /// Makes the plan of an experiment in a form, with no other members.
    pub fn in_form(form: Form) -> Self {
        let [quick, medium] = [Form::Quick, Form::Medium].map(|one| form == one);
        Plan { quick, medium, ..Plan::default() }
    }

    /// Returns the form of the experiment.
    pub fn form(&self) -> Form {
        Form::of(self.quick, self.medium)
    }
}

/// Form of an experiment: its own settings, with or without one of the file's tables of changes
/// merged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// The whole experiment, as the file has it: often hours.
    Full,
    /// The values of `[medium]` are merged in: the size at which a paper's finding shows, in some ten minutes.
    Medium,
    /// The values of `[quick]` are merged in: it takes minutes, often by another method.
    Quick,
}

impl Form {
    /// Returns the name of its table in a file and of its option.
    pub fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Medium => "medium",
            Self::Quick => "quick",
        }
    }

    /// Returns ` (WORD)` for the end of the name of an experiment; empty for the full form.
    pub fn suffix(self) -> String {
        if self == Self::Full { String::new() } else { format!(" ({})", self.word()) }
    }

    /// Returns the form with the changes of `[quick]`, of `[medium]`, or of neither.
    pub fn of(quick: bool, medium: bool) -> Self {
        match (quick, medium) {
            (true, _) => Form::Quick,
            (_, true) => Form::Medium,
            _ => Form::Full,
        }
    }

    /// Returns the option of `dnsdyno run` for it, with a space before it; empty for the full form.
    pub fn option(self) -> String {
        if self == Self::Full { String::new() } else { format!(" --{}", self.word()) }
    }
}

/// File with queries or a zone that an experiment names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputFile {
    /// Key of the experiment that names it: `queries`, `replay` or `zone-file`.
    pub key: String,
    /// Absolute path at the time of the run.
    pub path: String,
    /// Size of the file, in octets.
    pub octets: u64,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

impl InputFile {
    /// Returns size and content in words.
    pub fn words(&self) -> String {
        format!("{} octets, SHA-256 {}", self.octets, self.sha256)
    }
}

impl Plan {
    /// Returns the facts of the testbed, the choices of the command line and the files of the queries, by name, in words.
    pub fn words(&self) -> BTreeMap<String, String> {
        let mut words = self.testbed.as_ref().map(TestbedFacts::words).unwrap_or_default();
        words.extend(self.choices.words());
        let inputs = self.inputs.iter();
        words.extend(inputs.map(|i| (format!("{} {}", i.key, i.path), i.words())));
        words
    }
}

/// An interruption: the run ended early and was resumed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Seam {
    /// Time of the last stored result before it, in seconds since 1970.
    pub stopped_unix_s: f64,
    /// Time when the run was resumed, in seconds since 1970.
    pub resumed_unix_s: f64,
    /// Number of trials stored before the interruption.
    pub trials_before: u64,
    /// Version of dnsdyno that resumed the run.
    pub version: String,
}
