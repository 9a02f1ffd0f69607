//! Interfaces for an operator: files: log, control, dnstap, rules for single names.

use std::path::PathBuf;

use serde::Deserialize;
use wire::Name;

use super::text::text;

/// The socket for queries and commands of an operator (`[control]`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ControlConfig {
    /// Path of the UNIX socket; empty for none.
    pub socket: PathBuf,
}

/// Highest number of octets that wait for the reader of dnstap.
pub const DNSTAP_QUEUE: usize = 8 << 20;

/// Messages for a reader of dnstap.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct DnstapConfig {
    /// Path of the reader's UNIX socket; empty for none.
    pub socket: PathBuf,
    /// Name of this server in the messages; empty for none.
    pub identity: String,
    /// Whether clients' queries are sent.
    pub queries: bool,
    /// Whether answers to clients are sent.
    pub answers: bool,
}

impl DnstapConfig {
    /// Returns whether there is a reader.
    pub fn is_on(&self) -> bool {
        !self.socket.as_os_str().is_empty()
    }
}

/// Rules for single names. If several files have a rule for a name, the first file wins, lists
/// before zones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RulesConfig {
    /// Files with a name and its rule in each line.
    pub lists: Vec<PathBuf>,
    /// Files of response policy zones.
    pub zones: Vec<PathBuf>,
}

/// Names of hosts, from files that other programs write; they are followed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct HostsConfig {
    /// Files in the form of `/etc/hosts`.
    pub files: Vec<PathBuf>,
    /// Files in which DHCP servers keep their leases.
    pub leases: Vec<LeasesConfig>,
}

/// A file of leases with the domain of its hosts (`[[hosts.leases]]`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LeasesConfig {
    /// The file, which the DHCP server keeps writing.
    pub file: PathBuf,
    /// The DHCP server that writes the file.
    pub format: LeaseFormat,
    /// Domain of the names of the hosts.
    #[serde(deserialize_with = "text")]
    pub domain: Name,
}

/// Format of a file of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseFormat {
    /// The lease file of dnsmasq.
    Dnsmasq,
    /// The memfile of Kea, with the files of its clean-up.
    Kea,
}

impl LeasesConfig {
    /// Returns the files to read, in this order: the files of Kea's clean-up, then its current one.
    /// Some may be missing.
    pub fn files(&self) -> Vec<PathBuf> {
        let with = |end: &str| PathBuf::from(format!("{}{end}", self.file.display()));
        match self.format {
            LeaseFormat::Dnsmasq => vec![self.file.clone()],
            LeaseFormat::Kea => [".2", ".1", ".completed", ""].map(with).into(),
        }
    }
}

/// How important an event must be to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// Errors alone, which need action.
    Error,
    /// Problems that may need action.
    Warn,
    /// Also changes of state, such as a prefix that is learned.
    Info,
    /// Single events too, mostly of libraries.
    Debug,
}

/// Form of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Plain text for people, without the time in systemd's journal.
    Text,
    /// One JSON object a line, for programs.
    Json,
}
