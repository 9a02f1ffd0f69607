//! One trial on many hosts: a conductor and its Testers, each a rank of an Open MPI job.
//!
//! ```text
//! rank 0, conductor      request ─> slices ─> clocks ─> start at T ─> counters ... parts ─> clocks ─> merge ─> Trial
//!                                     │         ↕           │            ↑           ↑        ↕
//! rank 1.., Testers                Setup      pings   waits, sends, ─────┴───────────┘      pings
//! ```
//!
//! The conductor gives each Tester one slice of the same request (`tester` runs it), compares the clocks before and after the
//! trial by the shortest of some round trips, and tells each one the start by its own clock: no trial starts at the exit of a
//! barrier, whose exits scatter by milliseconds. The parts are merged by `record::merge`, with its rules for void trials.
//!
//! Nothing waits without a limit: a Tester that dies, hangs, is cut off, too slow, of another version or has a wrong clock is
//! named, and what it was part of is void. A Tester without a message from the conductor for a minute ends by itself.
//!
//! An experiment is run by the program `dnsdyno`, a child of rank 0 (`dnsdyno-cluster run`) or the one that has started the job
//! (`dnsdyno run --hosts`): it asks the conductor for its trials over pipes ([`serve()`]).
//!
//! [`Link`] carries the messages: the ranks of Open MPI in the program `dnsdyno-cluster` (feature `mpi`), threads of one process
//! in tests and simulations ([`memory`]).

pub mod clock;
mod conductor;
mod link;
pub mod memory;
mod rank;
mod serve;

pub use conductor::{Conductor, Limits};
pub use link::Link;
pub use rank::{PATIENCE, TesterRank};
pub use serve::serve;
