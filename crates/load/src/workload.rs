//! What is asked: endless or counted, seeded and reproducible streams of (query, expected answer).
//!
//! ```text
//! namespace   each name of an IPv4 prefix once, in a seeded order; the answer is arithmetic
//! file        dnsperf's and queryperf's text format, compiled once, read by chunks
//! generated   one query; random subdomains of a zone; a mix of names under a zone
//! mix         which names are repeated (Zipf's law), new, or missing: for namespaces and zones
//! ```
//!
//! A query carries a 32-bit key in its flight slot, from which the workload can tell whether a reply
//! is the right one: an address, a hash of the question.

pub mod file;
pub mod generated;
pub mod mix;
pub mod namespace;

use wire::message::HEADER;
use wire::{Edns, Invalid};

/// The longest query a workload composes, bytes: a header, a name of 255, type and class, an OPT record with room for options.
pub const MAX_QUERY: usize = 512;

/// The longest name, type and class, bytes.
const MAX_QUESTION: usize = 255 + 4;
/// The longest OPT record that fits every query, bytes.
const MAX_OPT: usize = MAX_QUERY - HEADER - MAX_QUESTION;

/// EDNS options that no query has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the OPT record takes {0} bytes with its options: a query has room for {MAX_OPT}")]
pub struct EdnsTooLong(pub usize);

/// The OPT record that a workload's queries end with.
fn opt_record(edns: Option<&Edns>) -> Result<Option<Vec<u8>>, EdnsTooLong> {
    let opt = edns.map(Edns::to_opt);
    match opt.as_ref().map_or(0, Vec::len) {
        len if len > MAX_OPT => Err(EdnsTooLong(len)),
        _ => Ok(opt),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_a_limit() {
        let edns = |len: usize| Edns { options: vec![(65_001, vec![0; len])], ..Edns::default() };
        let room = MAX_OPT - Edns::default().to_opt().len() - 4;
        assert_eq!(opt_record(None), Ok(None));
        let longest = opt_record(Some(&edns(room))).expect("fits").expect("an OPT record");
        assert_eq!(longest.len(), MAX_OPT);
        assert_eq!(opt_record(Some(&edns(room + 1))), Err(EdnsTooLong(MAX_OPT + 1)));
    }
}
