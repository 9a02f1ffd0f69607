//! What is asked: endless or counted, seeded and reproducible streams of (query, expected answer).
//!
//! ```text
//! namespace   each name of an IPv4 prefix once, in a seeded order; the answer is arithmetic
//! file        dnsperf's and queryperf's text format, compiled once, read by chunks
//! generated   one query; random subdomains of a zone; a Zipf mix with repeats and missing names
//! ```
//!
//! A query carries a 32-bit key in its flight slot, from which the workload can tell whether a reply
//! is the right one: an address, a hash of the question.

pub mod file;
pub mod generated;
pub mod namespace;

use wire::Invalid;

/// The longest query a workload composes, bytes: a header, a name of 255, type and class, an OPT record with room for options.
pub const MAX_QUERY: usize = 512;

/// A query just composed, with id 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Composed {
    /// Its length in bytes.
    pub len: usize,
    /// What the workload wants to be told with the reply.
    pub key: u32,
}

/// A stream of queries and the judge of their replies.
pub trait Workload: Send {
    /// Composes the next query at the start of `out`, which has [`MAX_QUERY`] bytes; `None` when there are no more.
    fn next(&mut self, out: &mut [u8]) -> Option<Composed>;

    /// Judges a reply to the query with `key`: its return code, or why it is not valid.
    ///
    /// # Errors
    /// The reason.
    fn check(&mut self, key: u32, reply: &[u8]) -> Result<u8, Invalid>;
}
