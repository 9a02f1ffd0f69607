//! Kinds of engines, for records and certificates, and the choice of one.

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

measure::words! { EngineKind { Sockets = "sockets", Streams = "streams", Kernel = "kernel" } }

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

measure::words! { EngineChoice { Sockets = "sockets", Kernel = "kernel", Auto = "auto" } }
