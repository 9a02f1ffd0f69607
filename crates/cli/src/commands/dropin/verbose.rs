//! The queries one by one, as dnsperf prints them with `-v`: `> NOERROR example.com A 0.000213`, and `> T example.com A` without a
//! reply in time.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use load::workload::message_key;
use load::{Journal, QueryOutcome};
use measure::Nanos;
use trace::Dns;

use super::data::Form;

/// Return codes in the order of their numbers, as the tools print them.
pub(super) const RCODES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
    "NXRRSET", "NOTAUTH", "NOTZONE",
];

/// Largest number of messages whose texts are kept: more than can be outstanding, and more than a
/// pipe repeats.
const MAX_KEPT_MESSAGES: usize = 1 << 19;

/// Names and types of the messages that were made last, by their key; clones share them.
#[derive(Clone)]
pub(super) struct Texts {
    made: Arc<Mutex<MadeTexts>>,
    form: Form,
}

/// The texts, each with the number of its messages among the last ones, and the keys of these.
#[derive(Default)]
struct MadeTexts {
    by_key: HashMap<u32, (String, u32)>,
    order: VecDeque<u32>,
}

impl Texts {
    /// Returns an empty list for a data file of this form.
    pub(super) fn of(form: Form) -> Self {
        Texts { made: Arc::default(), form }
    }

    fn lock(&self) -> MutexGuard<'_, MadeTexts> {
        // The data are valid even after a panic of the thread that held the lock.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a message that was made; messages of a binary file have no text.
    pub(super) fn note(&self, message: &[u8]) {
        let question = Dns::read(message).and_then(|dns| dns.question);
        let Some(question) = question.filter(|_| self.form != Form::Binary) else { return };
        let (key, mut made) = (message_key(message), self.lock());
        let text = || (format!("{} {}", question.name, question.qtype), 0);
        made.by_key.entry(key).or_insert_with(text).1 += 1;
        made.order.push_back(key);
        let oldest =
            if made.order.len() > MAX_KEPT_MESSAGES { made.order.pop_front() } else { None };
        if let Some(key) = oldest
            && let Some((_, messages)) = made.by_key.get_mut(&key)
        {
            *messages -= 1;
            if *messages == 0 {
                made.by_key.remove(&key);
            }
        }
    }

    /// Prints the outcomes that wait in a journal. A closed reader of the output must not end the
    /// test.
    pub(super) fn print(&self, journal: &Journal) {
        let (mut out, made) = (io::stdout().lock(), self.lock());
        for entry in journal.take() {
            let _ = writeln!(out, "{}", self.line(&made, &entry));
        }
    }

    fn line(&self, made: &MadeTexts, entry: &QueryOutcome) -> String {
        let other = if self.form == Form::Binary { "binary input" } else { "?" };
        let text = made.by_key.get(&entry.key).map_or(other, |(text, _)| text);
        let QueryOutcome { rcode, latency: Nanos(ns), .. } = *entry;
        match rcode {
            None => format!("> T {text}"),
            Some(code) => {
                let code = RCODES
                    .get(usize::from(code))
                    .map_or_else(|| format!("rcode{code}"), |code| (*code).to_owned());
                format!("> {code} {text} {}.{:06}", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_dnsperf() {
        let message = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x0bX-dns64perf\0\0\x01\0\x01";
        let (texts, key) = (Texts::of(Form::Queries), message_key(message));
        texts.note(message);
        texts.note(b"cut");
        for (key, rcode, latency, line) in [
            (key, Some(0), Nanos(1_234_567_890), "> NOERROR X-dns64perf A 1.234567"),
            (key, Some(12), Nanos(999), "> rcode12 X-dns64perf A 0.000000"),
            (key, None, Nanos(5), "> T X-dns64perf A"),
            (key + 1, Some(3), Nanos(1_000), "> NXDOMAIN ? 0.000001"),
        ] {
            assert_eq!(texts.line(&texts.lock(), &QueryOutcome { key, rcode, latency }), line);
        }
        let binary = Texts::of(Form::Binary);
        binary.note(message);
        let entry = QueryOutcome { key, rcode: None, latency: Nanos(1) };
        assert_eq!(binary.line(&binary.lock(), &entry), "> T binary input");
    }

    /// An endless pipe has other names all the time.
    #[test]
    fn the_texts_of_the_last_messages_are_kept() {
        let (texts, mut message) =
            (Texts::of(Form::Queries), *b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x04aaaa\0\0\x01\0\x01");
        let first = message_key(&message);
        for number in 0..=MAX_KEPT_MESSAGES as u32 {
            message[13..17].copy_from_slice(&number.to_be_bytes());
            texts.note(&message);
            texts.note(&message);
        }
        let made = texts.lock();
        assert!(
            made.by_key.len() <= MAX_KEPT_MESSAGES / 2 + 1 && !made.by_key.contains_key(&first)
        );
        assert!(
            made.by_key.contains_key(&message_key(&message))
                && made.order.len() == MAX_KEPT_MESSAGES
        );
    }
}
