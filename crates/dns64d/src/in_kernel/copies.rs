//! Copies of the workers' answers in the maps of the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dns64::{MirroredAnswer, StepCopies};
use kernel::{AnswerMap, EncodedAnswer, Stored};

/// Numbers of answers that were stored, and that were not.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) stored: AtomicU64,
    pub(super) lost: AtomicU64,
}

/// Writes the answers of one worker into the maps.
pub(crate) struct AnswerWriter {
    answers: AnswerMap,
    seed: u64,
    /// Whether the program resolves, so that it must know which answers the sockets send.
    resolves: bool,
    counts: Arc<Counts>,
}

impl AnswerWriter {
    /// Makes a writer of answers that are encoded with `seed`; `resolves` tells whether the program
    /// resolves.
    pub(super) fn new(answers: AnswerMap, seed: u64, resolves: bool, counts: Arc<Counts>) -> Self {
        AnswerWriter { answers, seed, resolves, counts }
    }

    /// Writes answers. For failures and for answers that the program cannot give, a program that
    /// resolves gets a note that the sockets answer, so that it does not query upstream each time.
    pub(crate) fn write(&mut self, mirrored: &StepCopies) {
        let mut stored = 0;
        for answer in mirrored.iter() {
            if let Some(encoded) = self.encode(&answer) {
                self.answers.store(&encoded);
                stored += 1;
            }
        }
        // All workers count there.
        if stored + mirrored.lost > 0 {
            self.counts.stored.fetch_add(stored, Ordering::Relaxed);
            self.counts.lost.fetch_add(mirrored.lost, Ordering::Relaxed);
        }
    }

    /// Returns an answer as the map stores it; `None` if the program does not need it.
    fn encode(&self, answer: &MirroredAnswer<'_>) -> Option<EncodedAnswer> {
        let own = stored(answer);
        let given = if answer.is_failure { None } else { own.encode(self.seed) };
        given.or_else(|| self.resolves.then(|| own.encode_for_sockets(self.seed)).flatten())
    }
}

/// Returns an answer for the kernel, which has the same clock as the workers.
fn stored<'a>(answer: &MirroredAnswer<'a>) -> Stored<'a> {
    let MirroredAnswer { generation, qtype, view, rd, cd, dnssec, message, options, .. } = *answer;
    let MirroredAnswer { stored, until, .. } = *answer;
    Stored { generation, qtype, view, rd, cd, dnssec, message, options, stored, until }
}
