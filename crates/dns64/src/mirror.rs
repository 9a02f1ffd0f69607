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

use measure::Nanos;
use wire::Qtype;

use crate::answer::AnswerRef;
use crate::question::KeyFlags;

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
    entries: Vec<CopiedAnswer>,
    /// Number of answers that the buffer could not hold.
    pub lost: u64,
}

/// Facts of a copied answer, besides its octets.
#[derive(Debug)]
struct CopiedAnswer {
    answer: MirroredAnswer<'static>,
    start: usize,
    message_end: usize,
    end: usize,
}

impl StepCopies {
    /// Returns the copied answers, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = MirroredAnswer<'_>> {
        self.entries.iter().map(|entry| MirroredAnswer {
            message: &self.octets[entry.start..entry.message_end],
            options: &self.octets[entry.message_end..entry.end],
            ..entry.answer
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
    generation: u64,
    pub(crate) mirrored: StepCopies,
}

/// The last copy of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastCopy {
    generation: u64,
    at: Nanos,
}

/// Question, bits and times of an answer in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) qtype: Qtype,
    pub(crate) view: u32,
    pub(crate) flags: KeyFlags,
    pub(crate) is_failure: bool,
    pub(crate) stored: Nanos,
    pub(crate) until: Nanos,
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

    /// Copies an answer at a time; `None` if there is no room.
    pub(crate) fn copy(
        &mut self,
        facts: &Facts,
        answer: &AnswerRef<'_>,
        now: Nanos,
    ) -> Option<LastCopy> {
        let StepCopies { octets, entries, lost } = &mut self.mirrored;
        let len = answer.bytes.len() + answer.options.len();
        if octets.len() + len > MAX_STEP_OCTETS {
            *lost += 1;
            return None;
        }
        let start = octets.len();
        octets.extend_from_slice(answer.bytes);
        octets.extend_from_slice(answer.options);
        let Facts { qtype, view, flags, is_failure, stored, until } = *facts;
        let KeyFlags { rd, cd, dnssec } = flags;
        let generation = self.generation;
        let (message, options): (&[u8], &[u8]) = (&[], &[]);
        entries.push(CopiedAnswer {
            answer: MirroredAnswer {
                generation,
                qtype,
                view,
                rd,
                cd,
                dnssec,
                is_failure,
                message,
                options,
                stored,
                until,
            },
            start,
            message_end: start + answer.bytes.len(),
            end: octets.len(),
        });
        Some(LastCopy { generation, at: now })
    }
}
