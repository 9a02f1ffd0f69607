//! What an operator sees of the server, and files of an operator: control, metrics, dnstap, rules for single names.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::text::address_or_none;

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

/// Metrics of the server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct MetricsConfig {
    /// Address at which metrics and health are served over HTTP; `None` for nowhere.
    #[serde(deserialize_with = "address_or_none")]
    pub listen: Option<SocketAddr>,
}
