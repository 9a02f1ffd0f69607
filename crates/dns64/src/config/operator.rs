//! What an operator sees of the server, and files of an operator: log, control, dnstap, rules for single names.

use std::path::PathBuf;

use serde::Deserialize;

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
