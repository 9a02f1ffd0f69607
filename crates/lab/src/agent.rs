//! The agent on the host of a server that the user runs: it probes there what the network does not show.
//!
//! ```text
//!  Tester's host                                  the server's host
//!  dnsdyno load --dut user@host ──ssh──> sh: this program in a temporary folder ──> dnsdyno agent
//!      begin ───────────────────────────────────────────────> counters, watchers of the cores
//!      trial ═════════════ queries ═════════════════════════> the server
//!      end   ───────────────────────────────────────────────> counters ──> CPU, drops, stalls
//!      end of the standard input, also when the link breaks ─> ends; the folder is removed
//! ```

mod client;
mod message;
mod processes;
mod verdict;

pub use client::{Agent, AgentError, Remote};
pub use message::{Order, Reply, Seen};
pub use processes::{allowed_cpus, named};
pub use verdict::{Conditions, judge};
