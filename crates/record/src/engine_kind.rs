//! Kinds of engines, for records and certificates.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// Batched UDP sockets.
    Sockets,
    /// Clients with connections, or with one UDP port each.
    Streams,
    /// Programs in the kernel.
    Kernel,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            EngineKind::Sockets => "sockets",
            EngineKind::Streams => "streams",
            EngineKind::Kernel => "kernel",
        })
    }
}
