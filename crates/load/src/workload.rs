//! Workloads: endless or limited, seeded and reproducible streams of (query, expected answer).
//!
//! ```text
//! namespace   each name of an IPv4 prefix once, in a seeded order; the answer is computed from the name
//! feed        queries of a pipe, read while they are sent
//! file        the text format of dnsperf and queryperf, compiled once, the rest while it is sent
//! messages    whole messages, each with its length in front
//! generated   one query; random subdomains of a zone; a mix of names under a zone
//! mix         shares of repeated (Zipf's law), new and missing names, for namespaces and zones
//! ```
//!
//! The flight slot of a query stores a 32-bit key with which the workload validates the reply: an address or
//! a hash of the question.

pub mod expected;
pub mod feed;
pub mod file;
pub mod generated;
mod messages;
pub mod mix;
pub mod namespace;
mod read;

use std::net::Ipv4Addr;

use wire::message::HEADER;
use wire::{Edns, Invalid};

pub(crate) use self::messages::check as check_message;
pub use self::messages::key as message_key;

/// Longest query that a workload makes, in bytes: a header, a name of 255 bytes, type and class, and an OPT record
/// with options.
pub const MAX_QUERY: usize = 512;

/// Longest name with type and class, in bytes.
const MAX_QUESTION: usize = 255 + 4;
/// Longest OPT record that fits every query, in bytes.
const MAX_OPT: usize = MAX_QUERY - HEADER - MAX_QUESTION;

/// Error for EDNS options that are too long for a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the OPT record takes {0} bytes with its options: a query has room for {MAX_OPT}")]
pub struct EdnsTooLong(pub usize);

/// Encodes the OPT record at the end of a workload's queries.
fn opt_record(edns: Option<&Edns>) -> Result<Option<Vec<u8>>, EdnsTooLong> {
    let opt = edns.map(Edns::to_opt);
    match opt.as_ref().map_or(0, Vec::len) {
        len if len > MAX_OPT => Err(EdnsTooLong(len)),
        _ => Ok(opt),
    }
}

/// A composed query, with id 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComposedQuery {
    /// Length of the query in bytes.
    pub len: usize,
    /// Value that the workload gets back with the reply.
    pub key: u32,
}

/// A stream of queries that also validates their replies.
pub trait Workload: Send {
    /// Returns whether the next query, or the end of the stream, is known: queries of a pipe may not be there yet.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Returns the number of bytes that every query fits in.
    fn room(&self) -> usize {
        MAX_QUERY
    }

    /// Composes the next query at the start of `out`, which has [`room`](Self::room) bytes; `None` at the end of the
    /// stream.
    fn next(&mut self, out: &mut [u8]) -> Option<ComposedQuery>;

    /// Validates a reply to the query with `key` and returns its return code.
    ///
    /// # Errors
    /// The reason why the reply is not valid.
    fn check(&mut self, key: u32, reply: &[u8]) -> Result<u8, Invalid>;

    /// Returns the address in the name of the query with `key`, if there is one in it.
    fn address(&self, _key: u32) -> Option<Ipv4Addr> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edns_options_have_a_size_limit() {
        let edns = |len: usize| Edns { options: vec![(65_001, vec![0; len])], ..Edns::default() };
        let room = MAX_OPT - Edns::default().to_opt().len() - 4;
        assert_eq!(opt_record(None), Ok(None));
        let longest = opt_record(Some(&edns(room))).expect("fits").expect("an OPT record");
        assert_eq!(longest.len(), MAX_OPT);
        assert_eq!(opt_record(Some(&edns(room + 1))), Err(EdnsTooLong(MAX_OPT + 1)));
    }
}
