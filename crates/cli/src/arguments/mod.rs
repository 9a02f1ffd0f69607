//! Arguments that several commands share, each group with the part of a request that it becomes.

/// Heading of the options about what is printed and kept.
pub(crate) const OUTPUT: &str = "Output";

pub(crate) mod address;
pub(crate) mod build;
pub(crate) mod certificate;
pub(crate) mod choice;
pub(crate) mod dut;
pub(crate) mod engine;
pub(crate) mod fields;
pub(crate) mod gate;
pub(crate) mod hosts;
pub(crate) mod json;
pub(crate) mod keep;
mod lookup;
pub(crate) mod number;
pub(crate) mod parsed;
pub(crate) mod quiet;
pub(crate) mod remote;
pub(crate) mod remote_hosts;
pub(crate) mod sockets;
pub(crate) mod store;
pub(crate) mod transport;
pub(crate) mod wait;
pub(crate) mod workload;
pub(crate) mod zone_file;
