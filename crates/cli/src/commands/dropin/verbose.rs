//! The queries one by one, as dnsperf prints them with `-v`: `> NOERROR example.com A 0.000213`, and `> T example.com A` without a
//! reply in time.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use load::workload::message_key;
use load::{Entry, Journal};
use measure::Nanos;
use trace::Dns;

use super::RCODES;
use super::data::Form;

/// Names and types of the messages of a file, by their key.
pub(super) struct Texts {
    by_key: HashMap<u32, String>,
    /// That of other messages.
    other: &'static str,
}

impl Texts {
    /// Reads a file of messages, each after its length, that was made of a file of this form.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(path: &Path, form: Form) -> io::Result<Self> {
        if form == Form::Binary {
            return Ok(Texts { by_key: HashMap::new(), other: "binary input" });
        }
        let mut file = BufReader::new(File::open(path)?);
        let (mut length, mut message, mut texts) = ([0; 2], Vec::new(), HashMap::new());
        while file.read_exact(&mut length).is_ok() {
            message.resize(usize::from(u16::from_be_bytes(length)), 0);
            file.read_exact(&mut message)?;
            let question = Dns::read(&message).and_then(|dns| dns.question);
            if let Some(question) = question {
                texts
                    .entry(message_key(&message))
                    .or_insert_with(|| format!("{} {}", question.name, question.qtype));
            }
        }
        Ok(Texts { by_key: texts, other: "?" })
    }

    /// Prints the outcomes that wait in a journal. A reader that has gone away must not end the test.
    pub(super) fn print(&self, journal: &Journal) {
        let mut out = io::stdout().lock();
        for entry in journal.take() {
            let _ = writeln!(out, "{}", self.line(&entry));
        }
    }

    fn line(&self, entry: &Entry) -> String {
        let text = self.by_key.get(&entry.key).map_or(self.other, String::as_str);
        let Entry { rcode, latency: Nanos(ns), .. } = *entry;
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
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let message = b"\0\x1d\0\0\x01\0\0\x01\0\0\0\0\0\0\x0bX-dns64perf\0\0\x01\0\x01";
        file.write_all(message).expect("room");
        let texts = Texts::read(file.path(), Form::Queries).expect("messages");
        let key = message_key(&message[2..]);
        for (key, rcode, latency, line) in [
            (key, Some(0), Nanos(1_234_567_890), "> NOERROR X-dns64perf A 1.234567"),
            (key, Some(12), Nanos(999), "> rcode12 X-dns64perf A 0.000000"),
            (key, None, Nanos(5), "> T X-dns64perf A"),
            (key + 1, Some(3), Nanos(1_000), "> NXDOMAIN ? 0.000001"),
        ] {
            assert_eq!(texts.line(&Entry { key, rcode, latency }), line);
        }
        file.write_all(b"\0\x09cut").expect("room");
        assert!(Texts::read(file.path(), Form::Queries).is_err());
        let binary = Texts::read(file.path(), Form::Binary).expect("it is not read");
        assert_eq!(binary.line(&Entry { key, rcode: None, latency: Nanos(1) }), "> T binary input");
    }
}
