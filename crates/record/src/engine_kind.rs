//! Kinds of engines, for records and certificates, and the choice of one.

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

/// Choice of the engine of queries over UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EngineChoice {
    /// Batched sockets.
    #[default]
    Sockets,
    /// Programs in the kernel.
    Kernel,
    /// Programs in the kernel where they can carry the load, else sockets.
    Auto,
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            EngineChoice::Sockets => "sockets",
            EngineChoice::Kernel => "kernel",
            EngineChoice::Auto => "auto",
        })
    }
}
