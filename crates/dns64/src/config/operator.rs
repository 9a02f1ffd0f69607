//! What an operator sees of the server, and files of an operator: log, control, dnstap, rules for single names.

use std::path::PathBuf;

use serde::Deserialize;
use wire::Name;

use super::text::text;

/// Control by an operator.
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

/// Rules for single names; of several for a name that of the first file holds, lists before zones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RulesConfig {
    /// Lists of rules.
    pub lists: Vec<PathBuf>,
    /// Files of response policy zones.
    pub zones: Vec<PathBuf>,
}

/// Names of hosts, from files that other programs write; they are followed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct HostsConfig {
    /// Hosts files.
    pub files: Vec<PathBuf>,
    /// Leases of DHCP servers.
    pub leases: Vec<LeasesConfig>,
}

/// A file of leases.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LeasesConfig {
    /// The file.
    pub file: PathBuf,
    /// Format of the file.
    pub format: LeaseFormat,
    /// Domain below which the names of the hosts stand.
    #[serde(deserialize_with = "text")]
    pub domain: Name,
}

/// Format of a file of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseFormat {
    /// That of dnsmasq.
    Dnsmasq,
    /// The memfile of Kea, with the files of its clean-up.
    Kea,
}

impl LeasesConfig {
    /// Returns the files to read in this order, those of Kea's clean-up before its current one: there need not be all of them.
    pub fn files(&self) -> Vec<PathBuf> {
        let with = |end: &str| PathBuf::from(format!("{}{end}", self.file.display()));
        match self.format {
            LeaseFormat::Dnsmasq => vec![self.file.clone()],
            LeaseFormat::Kea => [".2", ".1", ".completed", ""].map(with).into(),
        }
    }
}

/// Level of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// Errors that need action.
    Error,
    /// Problems that may need action.
    Warn,
    /// Changes of state.
    Info,
    /// Single events.
    Debug,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Plain text.
    Text,
    /// JSON.
    Json,
}
