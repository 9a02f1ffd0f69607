//! Copies of cached answers, for a second cache in front of this server.
//!
//! The second cache may answer a query in place of the server, and passes other queries on. It gets
//! each stored answer, and a reused answer if it has no copy of the current generation, or an old
//! one that it may have evicted:
//!
//! ```text
//!   store, cache hit ──> buffer of one step ──> caller ──> second cache
//! ```
//!
//! Answers that depend on more than a name, a type, the bits of the query and the client's blocks are not copied: those for a client
//! subnet, those to ANY, of which datagrams get another one, and those for names with a rule. A failure is copied as one, for a
//! second cache that would ask upstream itself: until its end queries are the server's.

use std::ops::Range;

use measure::Nanos;
use wire::Qtype;

use crate::answer::AnswerRef;

/// Octets of answers that one step may copy.
const MAX_STEP_OCTETS: usize = 256 << 10;
/// Time after which an answer in use is copied again.
const RENEWAL_INTERVAL: Nanos = Nanos::from_secs(1);

/// An answer as the second cache gets it, with the queries that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirroredAnswer<'a> {
    /// Generation of the rules that the answer follows.
    pub generation: u64,
    /// Type of the answered question.
    pub qtype: Qtype,
    /// Blocks of clients that may get the answer, as bits; 0 if all may.
    pub view: u32,
    /// Bits of the queries that the answer is for: recursion desired, checking disabled, DNSSEC
    /// records wanted.
    pub rd: bool,
    /// Whether the query has CD.
    pub cd: bool,
    /// Whether the query has DO.
    pub dnssec: bool,
    /// Whether the answer is a failure, which the second cache does not serve.
    pub is_failure: bool,
    /// The message without an OPT record, its name in lower case.
    pub message: &'a [u8],
    /// EDNS options of the reply, in wire form.
    pub options: &'a [u8],
    /// Time from which the TTLs decrease.
    pub stored: Nanos,
    /// Time until which the answer may be served.
    pub until: Nanos,
}

/// The answers of one step.
#[derive(Debug, Default)]
pub struct StepCopies {
    octets: Vec<u8>,
    /// The answers without their octets, and the places of their messages and options.
    entries: Vec<(MirroredAnswer<'static>, [Range<usize>; 2])>,
    /// Number of answers that the buffer could not hold.
    pub lost: u64,
}

impl StepCopies {
    /// Returns the copied answers, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = MirroredAnswer<'_>> {
        self.entries.iter().map(|(answer, [message, options])| MirroredAnswer {
            message: &self.octets[message.clone()],
            options: &self.octets[options.clone()],
            ..*answer
        })
    }

    /// Removes all answers but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.octets.clear();
        self.entries.clear();
        self.lost = 0;
    }
}

/// The copies that a worker has made since the caller took them last, under the rules of one
/// generation.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub(crate) generation: u64,
    pub(crate) mirrored: StepCopies,
}

/// The last copy of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastCopy {
    generation: u64,
    at: Nanos,
}

impl Mirror {
    /// Makes the mirror of a generation.
    pub(crate) fn new(generation: u64) -> Self {
        Mirror { generation, mirrored: StepCopies::default() }
    }

    /// Returns whether an answer with this last copy is due for another copy.
    #[inline]
    pub(crate) fn is_due(&self, last: Option<LastCopy>, now: Nanos) -> bool {
        last.is_none_or(|last| {
            last.generation != self.generation || now > last.at + RENEWAL_INTERVAL
        })
    }

    /// Copies an answer at a time, and its facts, which have no octets; `None` if there is no room.
    pub(crate) fn copy(
        &mut self,
        facts: MirroredAnswer<'static>,
        answer: &AnswerRef<'_>,
        now: Nanos,
    ) -> Option<LastCopy> {
        let StepCopies { octets, entries, lost } = &mut self.mirrored;
        let (start, middle) = (octets.len(), octets.len() + answer.bytes.len());
        let end = middle + answer.options.len();
        if end > MAX_STEP_OCTETS {
            *lost += 1;
            return None;
        }
        octets.extend_from_slice(answer.bytes);
        octets.extend_from_slice(answer.options);
        entries.push((facts, [start..middle, middle..end]));
        Some(LastCopy { generation: facts.generation, at: now })
    }
}
