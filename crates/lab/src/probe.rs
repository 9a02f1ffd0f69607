//! Probes.
pub mod procfs;
