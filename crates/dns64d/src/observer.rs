//! Passes the observed messages of a worker to the query log and to dnstap, and copies of its
//! answers to the kernel.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dns64::{Observed, ObservedMessage, StepCopies, TapKind};
use measure::Nanos;
use wire::message::{HEADER, Header, question_end};
use wire::{Name, Qtype};

use crate::dnstap::{self, TapQueue};
use crate::in_kernel::copies::AnswerWriter;

/// The observer of one worker.
pub(crate) struct Observer {
    /// The queue to the reader of dnstap; `None` without one.
    dnstap: Option<TapQueue>,
    /// Writes answers for the kernel; `None` if the kernel does not answer.
    kernel: Option<AnswerWriter>,
}

impl Observer {
    /// Makes the observers of `workers` workers, with a queue to the reader of dnstap, if there is
    /// one. There is a writer of answers for the kernel for each of them, or none at all.
    pub(crate) fn for_workers(
        dnstap: Option<TapQueue>,
        writers: Vec<AnswerWriter>,
        workers: usize,
    ) -> Vec<Self> {
        assert!(writers.is_empty() || writers.len() == workers, "each worker needs a writer");
        let mut writers = writers.into_iter();
        let observer = |_| Observer { dnstap: dnstap.clone(), kernel: writers.next() };
        (0..workers).map(observer).collect()
    }

    /// Copies answers into the kernel, and removes them. It never waits.
    pub(crate) fn copy(&mut self, mirrored: &mut StepCopies) {
        self.kernel.iter_mut().for_each(|writer| writer.write(mirrored));
        mirrored.clear();
    }

    /// Passes on all messages of a step, at time `now`, and removes them. It never waits.
    pub(crate) fn pass(&self, observed: &mut Observed, now: Nanos) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = |time: Nanos| unix.saturating_sub(Duration::from(now.since(time)));
        let mut frames = Vec::new();
        let mut count = 0;
        for (entry, message) in observed.iter() {
            if entry.is_logged {
                log(entry, message);
            }
            if let Some(queue) = self.dnstap.as_ref().filter(|_| entry.is_tapped) {
                queue.write(entry, message, at(entry.asked), at(entry.at), &mut frames);
                count += 1;
            }
        }
        if let Some(queue) = &self.dnstap {
            dnstap::count_lost(observed.lost);
            if count > 0 {
                queue.send(frames, count);
            }
        }
        observed.clear();
    }
}

fn log(entry: &ObservedMessage, message: &[u8]) {
    let ObservedMessage { kind: TapKind::Answer, client, transport, asked, at, .. } = entry else {
        return;
    };
    let Some((name, qtype)) = question(message) else { return };
    let Some(header) = Header::read(message) else { return };
    tracing::info!(
        %client,
        %transport,
        %name,
        "type" = %qtype,
        rcode = %wire::Rcode(header.rcode().into()),
        answers = header.counts[1],
        microseconds = at.since(*asked).0 / 1_000,
        "answered"
    );
}

/// Returns name and type of the question.
fn question(message: &[u8]) -> Option<(Name, Qtype)> {
    let end = question_end(message)?;
    let question = message.get(HEADER..end)?;
    let (name, rest) = question.split_at_checked(question.len().checked_sub(4)?)?;
    Some((Name::from_wire(name).ok()?, Qtype(u16::from_be_bytes([rest[0], rest[1]]))))
}
