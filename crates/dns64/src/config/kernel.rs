//! Answers in the kernel (`[kernel]`).

use serde::Deserialize;

use super::text::Bytes;

/// Settings of the XDP programs that answer before the sockets (`[kernel]`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct KernelConfig {
    /// Network interfaces on which queries are answered.
    pub device: Vec<String>,
    /// Where the program gets their frames.
    pub xdp: XdpKind,
    /// Which queries the programs answer.
    pub mode: KernelMode,
    /// Memory of the answers, besides the memory of the server.
    pub size: Bytes,
    /// What happens in the kernel after the end of the server.
    pub after_death: AfterDeath,
}

/// Where the program gets frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XdpKind {
    /// From the driver of the interface.
    #[default]
    Native,
    /// From the kernel after the driver, on any interface, and slower.
    Generic,
}

/// What happens in the kernel after the end of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterDeath {
    /// The programs are detached: queries find no server.
    #[default]
    Detach,
    /// The program serves stored answers until their TTLs expire, or until the next server starts.
    Answer,
}

/// Queries that are answered in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelMode {
    /// No query; no program is attached.
    #[default]
    Off,
    /// Queries for answers that the server has given.
    Cache,
    /// Queries for stored answers, and queries with a plain resolution; experimental.
    All,
}

impl KernelConfig {
    /// Returns whether queries are answered in the kernel.
    pub fn is_on(&self) -> bool {
        self.mode != KernelMode::Off
    }

    /// Returns whether the kernel also resolves.
    pub fn resolves(&self) -> bool {
        self.mode == KernelMode::All
    }
}
