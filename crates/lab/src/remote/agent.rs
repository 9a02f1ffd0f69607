//! The agent on another host: it measures CPU, drops and stalls there, and starts the servers of a
//! run.
//!
//! ```text
//!  Tester's host                                  the server's host
//!  dnsdyno run --dut user@host ──ssh──> sh: this program in a temporary folder ──> dnsdyno agent
//!      start ───────────────────────────────────────────────> the server, in a pid namespace that ends with the agent
//!      begin ───────────────────────────────────────────────> counters, watchers of the cores
//!      trial ═════════════ queries ═════════════════════════> the server
//!      end   ───────────────────────────────────────────────> counters ──> CPU, drops, stalls
//!      end of the standard input, also when the link breaks ─> ends; the folder is removed
//! ```
//!
//! A server that the user runs is watched only. What is started is the adapter of this program's own version, with the values
//! of its host: one source of truth, on whichever host it is read.

mod client;
mod line;
mod processes;
mod reached;
mod reports;
mod shell;

pub use client::Agent;
pub(super) use line::{AgentLine, InheritedLine};
pub use processes::{allowed_cpus, named, servers};
pub use reached::{boot_id, own_addresses};
pub use reports::Reports;
pub use shell::{AgentTask, Remote};
