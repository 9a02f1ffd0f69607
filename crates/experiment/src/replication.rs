//! The methods about dynamic updates: a primary under update, the secondaries that follow it, and
//! queries at the same time.
//!
//! ```text
//! update-rate          send ──> look up ──> send, traced ──> send, kill the primary ──> start it again ──> look up
//! query-under-update   begin to send ──> trial at the queried server ──> stop sending: updates done, lag
//! signed-unsigned      trial ──> octets of queries and replies
//! ```
//!
//! Pure as all methods: a [`Replication`] starts the servers and sends updates; this module decides and counts. A
//! void trial gives no figure.

mod methods;

use measure::{Limiter, Warning};
use record::{Durability, Transfers, Trial, UpdateRun};

use crate::bench::{BenchError, TrialSpec};

/// Request to send updates of the stream one after the other: each one when the previous one is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateSpec {
    /// Number of updates to send from the stream.
    pub count: u64,
    /// Number of acknowledgements after which the primary is killed (SIGKILL); `None` if it is not killed.
    pub kill_after: Option<u64>,
}

/// Mean sizes of messages over some queries, in octets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sizes {
    /// Mean size of a query, in octets.
    pub query: f64,
    /// Mean size of a reply, in octets.
    pub reply: f64,
}

/// A primary, optionally with secondaries, all of them in step at the start.
///
/// The stream of updates is sent once: each call continues where the previous one ended.
pub trait Replication {
    /// Sends updates as fast as they are acknowledged, and waits until the sender ends.
    ///
    /// # Errors
    /// If the updates cannot be sent.
    fn send(&mut self, spec: &UpdateSpec) -> Result<UpdateResult, BenchError>;

    /// Sends `count` updates as fast as they are acknowledged while the system calls of the primary are traced, which
    /// slows it down.
    ///
    /// # Errors
    /// If the updates cannot be sent. A host that does not let processes be traced is not an error.
    fn trace(&mut self, count: u64) -> Result<Syncs, BenchError>;

    /// Measures how many times a second the disk under the primary writes a block and syncs it.
    ///
    /// # Errors
    /// If the disk cannot be written to.
    fn disk_syncs(&mut self) -> Result<f64, BenchError>;

    /// Looks up every update acknowledged so far in the primary.
    ///
    /// # Errors
    /// If the primary does not answer.
    fn look_up(&mut self) -> Result<Durability, BenchError>;

    /// Starts the killed primary again, with the state it left behind.
    ///
    /// # Errors
    /// If the primary does not serve the zone again.
    fn restart(&mut self) -> Result<(), BenchError>;

    /// Runs a trial while `per_second` updates a second are sent (`None`: as fast as they are
    /// acknowledged), and measures the lag of each secondary. The trial is void if the updates run
    /// out before it ends.
    ///
    /// # Errors
    /// If the sender does not start or has no result, or the trial cannot run.
    fn trial_with_updates(
        &mut self,
        per_second: Option<f64>,
        spec: &TrialSpec,
    ) -> Result<(Trial, UpdateRun), BenchError>;

    /// Returns the mean sizes of some queries to the server under test and of their replies.
    ///
    /// # Errors
    /// If the server does not answer.
    fn sizes(&mut self) -> Result<Sizes, BenchError>;

    /// Returns the transfers since the start of the servers, of each secondary in its order; `None` without
    /// secondaries.
    ///
    /// # Errors
    /// If the transfers cannot be counted.
    fn transfers(&mut self) -> Result<Option<Transfers>, BenchError>;
}

/// How a primary put updates on stable storage.
#[derive(Clone, Debug, PartialEq)]
pub enum Syncs {
    /// System calls of the primary, counted.
    Counted {
        /// Number of updates that were acknowledged during the trace.
        acknowledged: u64,
        /// Duration of these updates, in seconds.
        seconds: f64,
        /// Number of writes to files.
        writes: u64,
        /// Number of calls that put written data on stable storage.
        syncs: u64,
    },
    /// The primary could not be traced, for this reason.
    No(String),
}

/// Result of updates that were sent as fast as they were acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateResult {
    /// Counts and latencies of the sender of updates.
    pub run: UpdateRun,
    /// Busy share (0 to 1) of the primary's cores.
    pub busy: f64,
    /// Limiter of the update rate.
    pub limiter: Limiter,
    /// Warnings about other processes on the primary's cores.
    pub warnings: Vec<Warning>,
}
