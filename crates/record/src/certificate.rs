//! Certificate files: the highest rate of a Tester, its conditions, and the evidence. `dnsdyno
//! verify` and `selftest` write them; `search`, `run` and `report` read them.
//!
//! ```text
//! verify    known truths ──> checks ─────┐
//!                                        ├──> certificate file ──> search, run: label and highest rate
//! selftest  RFC 8219 section 9.2 ────────┘                    └──> report: shown
//! ```
//!
//! A certificate holds for one machine and path, for the engine and transport of its trials, and for the pacings and transports that it
//! covers besides; for others it is refused, with the reason.

use std::fmt;
use std::path::{Path as FilePath, PathBuf};

use measure::{Link, Pacing, Path, Qps, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_with_macros::skip_serializing_none;

use crate::check::Check;
use crate::engine_kind::EngineKind;
use crate::host::HostFacts;
use crate::request::TrialRequest;
use crate::testbed::Network;
use crate::trial::Trial;
use crate::trial_record::TrialRecord;

/// Version of a certificate file.
pub const CERTIFICATE_VERSION: u32 = 1;

/// A certificate file: up to which rate a Tester may measure, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CertificateFile {
    /// Version of the file, [`CERTIFICATE_VERSION`]; other versions are refused.
    #[serde(rename = "dnsdyno_certificate", deserialize_with = "version")]
    pub version: u32,
    /// Highest rate at which servers may be measured, in queries a second; zero if no trial passed.
    #[serde(deserialize_with = "rate")]
    pub certified_qps: f64,
    /// Conditions of the trials; a run must have the same.
    pub tested: Tested,
    /// Pacings and transports that were checked besides.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub coverage: Vec<Coverage>,
    /// Time at which the certificate was made, in seconds since 1970.
    pub made_unix_s: f64,
    /// Version of dnsdyno that made the certificate.
    pub made_by: String,
    /// Command line that made the certificate.
    pub command: String,
    /// Facts of the host on which the Tester was checked.
    pub host: HostFacts,
    /// Self-test of RFC 8219 section 9.2; absent if none was made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub self_test: Option<Certificate>,
    /// Known values, and the Tester's measurements of them; empty without checks.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub checks: Vec<Check>,
}

/// Conditions of trials that a certificate covers or must cover.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tested {
    /// Network of the trials; absent for the machine's own network.
    pub network: Option<Network>,
    /// Kind of the virtual link; absent without one.
    pub link: Option<Link>,
    /// Path of a datagram through the network.
    pub path: Path,
    /// Engine that carried the queries.
    pub engine: EngineKind,
    /// Transports of the queries, separated by commas.
    pub transport: String,
}

/// Pacings of an engine and a transport whose checks passed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Engine that carried the queries: sockets, or clients with connections or ports of their own.
    pub engine: EngineKind,
    /// Transport of the queries of these trials.
    pub transport: Transport,
    /// Kinds of pacing: constant, poisson, ramp, window, lockstep.
    pub pacings: Vec<String>,
    /// Highest rate of these trials, in queries a second.
    pub qps: f64,
}

impl Coverage {
    /// Adds a trial that passed to `all`.
    pub fn add(
        all: &mut Vec<Coverage>,
        engine: EngineKind,
        transport: Transport,
        pacing: Pacing,
        rate: Qps,
    ) {
        let at = all.iter().position(|c| c.engine == engine && c.transport == transport);
        let at = at.unwrap_or_else(|| {
            all.push(Coverage { engine, transport, pacings: Vec::new(), qps: 0.0 });
            all.len() - 1
        });
        let (covered, kind) = (&mut all[at], pacing.kind());
        covered.qps = covered.qps.max(rate.get());
        if !covered.pacings.iter().any(|word| word == kind) {
            covered.pacings.push(kind.to_owned());
        }
    }
}

/// Why a certificate file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The file cannot be read.
    #[error("cannot read the certificate {}: {source}", path.display())]
    Io {
        /// Path of the certificate file.
        path: PathBuf,
        /// Error of the file system.
        source: std::io::Error,
    },
    /// The file is no certificate.
    #[error(
        "{}:{line}:{column}: not a certificate: {why}; `dnsdyno verify --write-certificate FILE` and `dnsdyno selftest --write-certificate FILE` make one",
        path.display()
    )]
    Bad {
        /// Path of the certificate file.
        path: PathBuf,
        /// Line of the mistake, from 1.
        line: usize,
        /// Column of the mistake, from 1.
        column: usize,
        /// The error in the file.
        why: String,
    },
    /// The certificate is not for these trials.
    #[error("the certificate {path} is refused: {1}", path = .0.display())]
    Refused(PathBuf, String),
}

impl Tested {
    /// Returns the conditions of a request's trials over `path`, in the network of the machine.
    pub fn of(request: &TrialRequest, path: Path) -> Self {
        let engine = request.engine.kind();
        let mut words: Vec<String> =
            request.transports().iter().map(|share| share.transport.to_string()).collect();
        words.sort_unstable();
        words.dedup();
        Tested { network: None, link: None, path, engine, transport: words.join(",") }
    }
}

impl fmt::Display for Tested {
    /// Writes the conditions as words: "path wire, plain links, engine sockets, transport udp".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = match (self.network, self.link) {
            (_, Some(link)) => format!(", {link} links between namespaces"),
            (Some(Network::Namespaces), None) => ", namespaces".to_owned(),
            (Some(Network::Loopback), None) => ", loopback".to_owned(),
            (None, None) => String::new(),
        };
        write!(
            f,
            "path {}{network}, engine {}, transport {}",
            self.path, self.engine, self.transport
        )
    }
}

impl CertificateFile {
    /// Reads a certificate.
    ///
    /// # Errors
    /// The error names the first place that is wrong.
    pub fn read(path: &FilePath) -> Result<Self, CertificateError> {
        let io = |source| CertificateError::Io { path: path.to_owned(), source };
        Self::parse(&std::fs::read_to_string(path).map_err(io)?, path)
    }

    /// Parses a certificate; `path` is for messages.
    ///
    /// # Errors
    /// The error names the first place that is wrong.
    pub fn parse(json: &str, path: &FilePath) -> Result<Self, CertificateError> {
        serde_json::from_str(json).map_err(|e| CertificateError::Bad {
            path: path.to_owned(),
            line: e.line(),
            column: e.column(),
            why: e.to_string(),
        })
    }

    /// Checks that the certificate [matches](Self::matches) the trials, and certifies a rate.
    ///
    /// # Errors
    /// The first difference, and the remedy.
    pub fn covers(&self, trials: &Tested, host: &HostFacts) -> Result<(), String> {
        self.matches(trials, host)?;
        if self.certified_qps > 0.0 {
            return Ok(());
        }
        let why = "no rate passed when the certificate was made";
        Err(format!("it certifies no rate: {why}; make another when the machine is quiet"))
    }

    /// Checks that the certificate is for trials under the conditions `trials` on `host`. The network and the kind of
    /// link may differ: a certificate is about the Tester, and its trials may go to another machine.
    ///
    /// # Errors
    /// The first difference, and the remedy.
    pub fn matches(&self, trials: &Tested, host: &HostFacts) -> Result<(), String> {
        let tested = &self.tested;
        let path = ("path", tested.path.to_string(), trials.path.to_string());
        let others = [
            ("engine", tested.engine.to_string(), trials.engine.to_string()),
            ("transport", tested.transport.clone(), trials.transport.clone()),
        ];
        let others = others.into_iter().filter(|_| self.covering(trials).is_none());
        let again = "make a certificate for these trials, or leave it out";
        for (what, certified, used) in std::iter::once(path).chain(others) {
            if certified != used {
                return Err(format!(
                    "it is for the {what} {certified}, but the trials have the {what} {used}; {again}"
                ));
            }
        }
        let facts = |host: &HostFacts| {
            [("processor", host.cpu.model.clone()), ("kernel", host.kernel.release.clone())]
        };
        for ((what, then), (_, now)) in facts(&self.host).into_iter().zip(facts(host)) {
            if let (Some(then), Some(now)) = (then, now)
                && then != now
            {
                let why = "certificates are valid only for the machine on which they were made";
                return Err(format!("it was made with the {what} {then}, not {now}; {why}"));
            }
        }
        Ok(())
    }

    /// Returns the certified parts for each transport of trials under the conditions `trials`;
    /// `None` if one is missing.
    fn covering(&self, trials: &Tested) -> Option<Vec<&Coverage>> {
        let of = |word: &str| {
            let fits = |c: &&Coverage| c.engine == trials.engine && c.transport.word() == word;
            self.coverage.iter().find(fits)
        };
        trials.transport.split(',').map(of).collect()
    }

    /// Returns the highest rate at which servers may be measured under the conditions `trials`.
    pub fn certified(&self, trials: &Tested) -> Qps {
        let tested = &self.tested;
        let own = (tested.engine, &tested.transport) == (trials.engine, &trials.transport);
        let covering = self.covering(trials).filter(|_| !own);
        let least = covering.map(|all| all.iter().map(|c| c.qps).fold(f64::INFINITY, f64::min));
        Qps::new(least.unwrap_or(self.certified_qps)).unwrap_or_default()
    }

    /// Returns the parts of trials with a pacing that the certificate does not cover, under
    /// conditions that it [matches](Self::matches), if there is something.
    pub fn outside(&self, trials: &Tested, pacing: Pacing) -> Option<String> {
        let (kind, covering) = (pacing.kind(), self.covering(trials).unwrap_or_default());
        let lacks = |c: &&&Coverage| !c.pacings.iter().any(|word| word == kind);
        let lacking = covering.iter().find(lacks);
        if let Some(lacking) = lacking {
            let (transport, pacings) = (lacking.transport, lacking.pacings.join(", "));
            return Some(format!("it covers the pacings {pacings} over {transport}, not {kind}"));
        }
        // An older file has no pacing: its searches have a constant rate.
        if covering.is_empty() && kind != "constant" {
            return Some(format!("it covers the pacing constant, not {kind}"));
        }
        let (most, certified) = (pacing.peak_rate()?, self.certified(trials));
        let above = most.get() > certified.get();
        above.then(|| format!("it covers rates up to {certified}, not {most}"))
    }

    /// Returns the certificate without the trials of its self-test, for a plan.
    pub fn without_trials(&self) -> Self {
        let mut lean = self.clone();
        if let Some(self_test) = &mut lean.self_test {
            self_test.trials.clear();
        }
        lean
    }
}

/// Reads the version; refuses all but this one.
fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        CERTIFICATE_VERSION => Ok(CERTIFICATE_VERSION),
        other => Err(de::Error::custom(format!(
            "the certificate has version {other}, this program reads version {CERTIFICATE_VERSION}"
        ))),
    }
}

/// Reads a rate in queries a second.
fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let found = f64::deserialize(deserializer)?;
    let wrong =
        || de::Error::custom(format!("`certified_qps`: {found} is not a rate: write 0 or more"));
    Qps::new(found).map(Qps::get).ok_or_else(wrong)
}

/// Certificate of the Tester's self-test: a certified Tester may measure servers up to that rate (RFC 8219 section
/// 9.2).
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Certificate {
    /// Engine of the Measurer; absent if its trials name it.
    pub engine: Option<EngineKind>,
    /// Highest rate at which servers may be measured, in queries a second; zero if no self-test passed.
    pub certified_qps: f64,
    /// Rate of the self-test, in queries a second: 2.2 times the certified rate.
    pub self_test_qps: f64,
    /// Timeout of the self-test, in seconds: a quarter of the servers'.
    pub timeout_s: f64,
    /// Duration of the self-test, in seconds.
    pub duration_s: f64,
    /// Whether the self-test passed, so that the rate is certified.
    pub passed: bool,
    /// Duration to which a test shortened every trial, in seconds; absent if none did. It is then no self-test.
    pub shortened_s: Option<f64>,
    /// Known values, and the Tester's measurements of them; empty without checks.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub checks: Vec<Check>,
    /// Trials of the self-test; the last one decides. In a run one of the cells contains them, the
    /// others have none.
    pub trials: Vec<TrialRecord>,
}

/// Result of `dnsdyno selftest`: the fields of a trial at the top level, and the certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelfTest {
    /// Result of the last trial of the self-test.
    #[serde(flatten)]
    pub trial: Trial,
    /// Whether the self-test passed, so that the rate is certified.
    pub self_test_passed: bool,
    /// Highest rate at which servers may be measured, in queries a second.
    pub certified_qps: f64,
}

impl From<&Certificate> for SelfTest {
    /// Takes the trial that passed at the highest rate, else the last.
    ///
    /// # Panics
    /// If the certificate has no trial.
    fn from(certificate: &Certificate) -> Self {
        let decided = |record: &&TrialRecord| record.rate_qps == certificate.self_test_qps;
        let record = certificate.trials.iter().find(decided).or(certificate.trials.last());
        SelfTest {
            trial: record.expect("a self-test has at least one trial").trial.clone(),
            self_test_passed: certificate.passed,
            certified_qps: certificate.certified_qps,
        }
    }
}

#[cfg(test)]
mod tests;
