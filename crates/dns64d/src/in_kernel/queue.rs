//! The queue from the workers to the map of answers in the kernel.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use dns64::{Mirrored, MirroredAnswer};
use kernel::{AnswerMap, Encoded, Stored};
use tokio_util::sync::CancellationToken;

/// Highest number of answers that wait for the kernel: 4 MiB.
const QUEUE: usize = 4_096;
/// Longest time in which the end of the server is not seen.
pub(super) const LOOK: Duration = Duration::from_millis(200);

/// Numbers of answers that were stored, and that were not.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) stored: AtomicU64,
    pub(super) lost: AtomicU64,
}

/// The workers' end of the queue.
#[derive(Clone)]
pub(crate) struct Queue {
    sender: Sender<Vec<Encoded>>,
    /// Answers in the queue.
    waiting: Arc<AtomicUsize>,
    pub(super) counts: Arc<Counts>,
    seed: u64,
    /// Whether the program resolves, and so has to know which answers the sockets give.
    resolves: bool,
}

/// The end of the queue that writes to the kernel.
pub(crate) struct Writer {
    receiver: Receiver<Vec<Encoded>>,
    waiting: Arc<AtomicUsize>,
    counts: Arc<Counts>,
    answers: AnswerMap,
}

/// Makes a queue to a map of answers, which are encoded with a seed, for a program that resolves or not.
pub(super) fn queue(answers: AnswerMap, seed: u64, resolves: bool) -> (Queue, Writer) {
    let (sender, receiver) = channel();
    let (waiting, counts) = (Arc::<AtomicUsize>::default(), Arc::<Counts>::default());
    let writer = Writer { receiver, waiting: waiting.clone(), counts: counts.clone(), answers };
    (Queue { sender, waiting, counts, seed, resolves }, writer)
}

impl Queue {
    /// Passes answers to the kernel; those without room in the queue are lost. Of those that the program cannot give, and of
    /// failures, a program that resolves gets to know that the sockets have them, so that it does not ask upstream for each query.
    pub(crate) fn pass(&self, mirrored: &Mirrored) {
        let mut lost = mirrored.lost;
        let encoded: Vec<Encoded> =
            mirrored.iter().filter_map(|answer| self.encode(&answer)).collect();
        let count = encoded.len();
        if count > 0 {
            let fits = self.waiting.fetch_add(count, Ordering::Relaxed) + count <= QUEUE;
            // The thread ends last.
            if !fits || self.sender.send(encoded).is_err() {
                self.waiting.fetch_sub(count, Ordering::Relaxed);
                lost += count as u64;
            }
        }
        self.counts.lost.fetch_add(lost, Ordering::Relaxed);
    }

    /// Returns an answer as the map has it; `None` if the program needs nothing of it.
    fn encode(&self, answer: &MirroredAnswer<'_>) -> Option<Encoded> {
        let own = stored(answer);
        let given = if answer.is_failure { None } else { own.encode(self.seed) };
        given.or_else(|| self.resolves.then(|| own.encode_left(self.seed)).flatten())
    }
}

impl Writer {
    /// Writes answers to the kernel until the end.
    ///
    /// # Errors
    /// Never; the type is that of all threads.
    pub(crate) fn run(mut self, end: &CancellationToken) -> io::Result<()> {
        loop {
            let answers = match self.receiver.recv_timeout(LOOK) {
                Ok(answers) => answers,
                Err(RecvTimeoutError::Timeout) if !end.is_cancelled() => continue,
                Err(_) => return Ok(()),
            };
            self.waiting.fetch_sub(answers.len(), Ordering::Relaxed);
            for answer in &answers {
                let Counts { stored, lost } = &*self.counts;
                let count = if self.answers.store(answer).is_ok() { stored } else { lost };
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Returns an answer for the kernel. Its clock is that of the workers.
fn stored<'a>(answer: &MirroredAnswer<'a>) -> Stored<'a> {
    let MirroredAnswer { generation, qtype, view, rd, cd, dnssec, message, options, .. } = *answer;
    let MirroredAnswer { stored, until, .. } = *answer;
    Stored { generation, qtype, view, rd, cd, dnssec, message, options, stored, until }
}
