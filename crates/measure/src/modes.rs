//! Choices of a request that engines apply, such as how a worker waits.

use serde::{Deserialize, Serialize};

/// Method by which a worker waits for its next task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitMode {
    /// Never sleeps: most exact times, but a whole core.
    Spin,
    /// Never sleeps, but yields the core to other threads: for a sender that must be on time on the
    /// same core as a process for which it must wait anyway, such as the AuthDNS of a DNS64 server.
    Yield,
    /// Always sleeps: for a worker that shares its core.
    Sleep,
    /// Spins for 60 us after work and before a due time, else sleeps; in a closed loop on the
    /// server's host it sleeps.
    #[default]
    Auto,
}

crate::words! { WaitMode { Spin = "spin", Yield = "yield", Sleep = "sleep", Auto = "auto" } }

/// Method by which queries that are due together on a TCP connection are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMode {
    /// Each query with its own write: a TLS record, and a segment, of its own.
    #[default]
    Each,
    /// All queries with one write, as far as they fit into a TLS record.
    Together,
}

crate::words! { WriteMode { Each = "each", Together = "together" } }

/// HTTP method that carries queries, and so the place of the message (RFC 8484 section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HttpMethod {
    /// GET, with the query in the URI as base64url.
    Get,
    /// POST, with the query in the body.
    #[default]
    Post,
}

crate::words! { HttpMethod { Get = "get", Post = "post" } }

/// A version of TLS, where only one is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersion {
    /// Only TLS 1.2 (RFC 5246).
    #[serde(rename = "1.2")]
    V12,
    /// Only TLS 1.3 (RFC 8446).
    #[serde(rename = "1.3")]
    V13,
}

crate::words! { TlsVersion { V12 = "1.2", V13 = "1.3" } }
