//! Listed questions, in the form in which the programs read them.
//!
//! ```text
//! questions   first chunk | length | sum      one for each question
//! chunks      64 octets                       one to five for each question
//! ```

use crate::error::KernelError;
use crate::records::ListedQuestion;

/// Octets of a chunk: `CHUNK` in `bpf/tester/tables.h`.
pub(crate) const CHUNK: usize = 64;
/// Most chunks of a question: `CHUNKS` in `bpf/tester/tables.h`.
pub(crate) const CHUNKS: usize = 5;
/// Longest question in octets: a name of 255, type and class.
const MAX_QUESTION: usize = 255 + 4;
/// Shortest question in octets: the root, type and class.
const MIN_QUESTION: usize = 5;
/// Most chunks of a list: 256 MiB of the kernel's memory.
const MAX_CHUNKS: usize = 1 << 22;

/// Questions that are sent in turn, in the form of the programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionList {
    index: Vec<ListedQuestion>,
    chunks: Vec<[u8; CHUNK]>,
    longest: usize,
}

impl QuestionList {
    /// Adds a question: name, type and class in wire format.
    ///
    /// # Errors
    /// If the list would need more than 256 MiB, or the octets are no question.
    pub fn push(&mut self, question: &[u8]) -> Result<(), KernelError> {
        let len = question.len();
        if !(MIN_QUESTION..=MAX_QUESTION).contains(&len) {
            let why = format!(
                "a question has {len} octets; the program takes {MIN_QUESTION} to {MAX_QUESTION}"
            );
            return Err(KernelError::Plan(why));
        }
        if self.chunks.len() + len.div_ceil(CHUNK) > MAX_CHUNKS {
            let why = format!(
                "the kernel holds {MAX_CHUNKS} queries whose names have up to 60 octets, and fewer longer ones: this list is longer"
            );
            return Err(KernelError::Plan(why));
        }
        let (chunk, sum) = (self.chunks.len() as u32, fold(sum(question)));
        self.index.push(ListedQuestion { chunk, len: len as u16, sum });
        for part in question.chunks(CHUNK) {
            let mut chunk = [0; CHUNK];
            chunk[..part.len()].copy_from_slice(part);
            self.chunks.push(chunk);
        }
        self.longest = self.longest.max(len);
        Ok(())
    }

    /// Returns the number of questions.
    pub fn count(&self) -> usize {
        self.index.len()
    }

    /// Returns the length of the longest question in octets.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the entries of the map `questions`.
    pub(crate) fn index(&self) -> &[ListedQuestion] {
        &self.index
    }

    /// Returns the entries of the map `chunks`.
    pub(crate) fn chunks(&self) -> &[[u8; CHUNK]] {
        &self.chunks
    }
}

/// Returns the sum of words of 16 bits in the order of octets of this machine, as the checksums of the Internet have
/// it; a last odd octet is followed by a zero.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u16::from_ne_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
    bytes.chunks(2).map(|pair| u32::from(word(pair))).sum()
}

/// Returns a sum in 16 bits.
pub(crate) fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_question_is_refused() {
        let mut list = QuestionList::default();
        for len in [0, MIN_QUESTION - 1, MAX_QUESTION + 1] {
            let error = list.push(&vec![1; len]).expect_err("no question").to_string();
            assert!(error.starts_with(&format!("a question has {len} octets")), "{error}");
        }
        assert_eq!(list.count(), 0);
    }

    #[test]
    fn a_list_has_a_bound() {
        let full = vec![[0; CHUNK]; MAX_CHUNKS - 1];
        let mut list = QuestionList { chunks: full, ..QuestionList::default() };
        assert!(list.push(&[1; CHUNK + 1]).is_err());
        assert!(list.push(&[1; CHUNK]).is_ok());
        let error = list.push(&[1; 5]).expect_err("full").to_string();
        assert!(error.contains("4194304 queries"), "{error}");
    }

    proptest! {
        #[test]
        fn questions_are_found_again(
            questions in prop::collection::vec(prop::collection::vec(any::<u8>(), 5..=259), 1..20),
        ) {
            let mut list = QuestionList::default();
            for question in &questions {
                list.push(question).expect("a question");
            }
            prop_assert_eq!(list.count(), questions.len());
            prop_assert_eq!(list.longest(), questions.iter().map(Vec::len).max().unwrap_or(0));
            for (entry, question) in list.index().iter().zip(&questions) {
                let (first, len) = (entry.chunk as usize, usize::from(entry.len));
                let parts = list.chunks()[first..first + len.div_ceil(CHUNK)].concat();
                prop_assert_eq!(&parts[..len], &question[..]);
                prop_assert!(parts[len..].iter().all(|octet| *octet == 0));
                prop_assert!(len.div_ceil(CHUNK) <= CHUNKS);
                prop_assert_eq!(entry.sum, fold(sum(question)));
            }
        }
    }
}
