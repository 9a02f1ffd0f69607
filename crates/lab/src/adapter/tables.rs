//! The tables of an adapter's file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use toml::Spanned;

use crate::adapter::part::Signing;
use crate::testbed::PORT;
use crate::testbed::daemon::ROOT;
use crate::testbed::process::harmless;

/// Variable of an adapter's templates that an experiment may set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Accepted values; the first one is the default.
    pub values: Vec<String>,
    /// Shortcomings of values, by value: sentences for the results.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
    /// First version of the server that does not have a value any more, by value.
    #[serde(default)]
    pub until: BTreeMap<String, String>,
    /// Values with which the server has programs in the kernel, attached to its devices: they need root.
    #[serde(default)]
    pub programs: Vec<String>,
}

/// Configuration of a server as a primary or a secondary of a zone. It starts with the arguments of `start`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReplicationTable {
    /// Whether the server accepts dynamic updates as a primary (RFC 2136).
    pub updates: bool,
    /// Supported ways to sign the zone of a primary.
    #[serde(default)]
    pub signing: Vec<Signing>,
    /// Primaries that the server cannot follow, by the names of their adapters, and why.
    #[serde(default)]
    pub cannot_follow: BTreeMap<String, String>,
    /// Files that mark a running server; they are removed before a restart after SIGKILL.
    #[serde(default)]
    pub stale_files: Vec<String>,
    /// Commands that run in the server's directory before its first start, one on each line; a
    /// template.
    #[serde(default = "no_text")]
    pub prepare: Spanned<String>,
    /// Configuration files of the server in this role.
    pub files: Vec<FileTemplate>,
}

fn no_text() -> Spanned<String> {
    Spanned::new(0..0, String::new())
}

/// Query of a server's version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionQuery {
    /// Arguments with which the program prints its version.
    pub arguments: Vec<String>,
    /// Text before the version, which is the next word with a digit on either output stream.
    pub after: String,
}

impl VersionQuery {
    /// Returns the version in the server's output, if there is one.
    pub(crate) fn read(&self, printed: &str) -> Option<String> {
        let (_, rest) = printed.split_once(self.after.as_str())?;
        let has_digit = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
        let word = rest.split_whitespace().find(has_digit)?.trim_end_matches([',', ';', ')']);
        (!word.is_empty()).then(|| harmless(word))
    }
}

/// Start of a server, as the current user.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Program that is started instead of the server's own, which is then `{{ program }}`: for example a shell that
    /// starts one process for each core.
    #[serde(default)]
    pub through: Option<PathBuf>,
    /// Whether the server may run in the background, and its files may have absolute paths
    /// ([`crate::testbed::daemon`]); other servers stay in the foreground.
    #[serde(default)]
    pub daemon: bool,
    /// Arguments, each a template; one that renders to nothing is left out.
    pub arguments: Vec<Spanned<String>>,
    /// Variables added to the server's environment, each value a template.
    #[serde(default)]
    pub environment: BTreeMap<String, Spanned<String>>,
}

/// Addresses and port on which a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// Port of the server, if it cannot be configured.
    pub port: u16,
    /// Whether the server listens on IPv6; the Tester then sends over IPv6.
    pub ipv6: bool,
    /// Whether the server listens on IPv4.
    pub ipv4: bool,
    /// Whether the server answers over UDP; otherwise it answers over TCP.
    pub udp: bool,
}

impl Default for Listen {
    fn default() -> Self {
        Self { port: PORT, ipv6: true, ipv4: true, udp: true }
    }
}

/// How long a server may take until it is ready (`[ready]`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// Time after the start within which it must answer the first and the last name correctly.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
}

impl Default for Ready {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(20) }
    }
}

/// How a server is ended (`[stop]`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stop {
    /// Signal that makes the server end.
    #[serde(deserialize_with = "signal")]
    pub signal: Signal,
    /// Time after which the server is killed.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
}

impl Default for Stop {
    fn default() -> Self {
        Self { signal: Signal::SIGTERM, timeout: Duration::from_secs(5) }
    }
}

/// A configuration file of a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTemplate {
    /// Path in the directory of the run; absolute only with [`Start::daemon`].
    pub path: String,
    /// Text of the file, a template.
    pub text: Spanned<String>,
}

impl FileTemplate {
    /// Returns where the file is written in the directory of the run.
    pub(crate) fn place(&self) -> PathBuf {
        match self.path.strip_prefix('/') {
            Some(path) => Path::new(ROOT).join(path),
            None => PathBuf::from(&self.path),
        }
    }
}

/// Reads a time with its unit.
pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    measure::Nanos::from_str(&text).map(Duration::from).map_err(D::Error::custom)
}

fn signal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Signal, D::Error> {
    let text = String::deserialize(deserializer)?;
    Signal::from_str(&text).map_err(|_| {
        D::Error::custom(format!("`{text}` is not a signal such as SIGTERM or SIGINT"))
    })
}
