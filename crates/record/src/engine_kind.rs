//! Kinds of engines, for records and certificates, and the choice of one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of an engine, which sends the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// UDP sockets, which take many datagrams with one system call.
    Sockets,
    /// Clients with connections, or with one UDP port each.
    Streams,
    /// Programs in the kernel (XDP), over UDP only.
    Kernel,
}

measure::words! { EngineKind { Sockets = "sockets", Streams = "streams", Kernel = "kernel" } }

/// Choice of the engine of queries over UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EngineChoice {
    /// UDP sockets, which take many datagrams with one system call.
    #[default]
    Sockets,
    /// Programs in the kernel (XDP); an error where they cannot run.
    Kernel,
    /// Programs in the kernel where they support the load, else sockets.
    Auto,
}

measure::words! { EngineChoice { Sockets = "sockets", Kernel = "kernel", Auto = "auto" } }
