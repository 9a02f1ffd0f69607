//! Queries of files and pipes, read one by one: lines with a name and a type, or whole messages.
//!
//! ```text
//! name type, a line each   ──┐
//! messages behind lengths  ──┴──> records: length | key | question or message ──> what takes them (Take)
//! ```

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use wire::query_line::{self, BadLine, MAX_LINE};
use wire::{Name, Qclass, Qtype, reply};

use super::{expected, messages};

/// Bytes read at a time.
const READ_OCTETS: usize = 256 << 10;
/// Bytes in front of each question or message: length (2), key (4).
pub(super) const HEAD: usize = 6;

/// Content of an input: text or messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Lines of text, each with a name and a type.
    Lines {
        /// Whether a line also contains the expected reply.
        expecting: bool,
        /// Whether lines that are no queries are skipped.
        skip_bad: bool,
    },
    /// DNS messages, each after its length of two octets.
    Messages {
        /// Length of the longest one in octets.
        most: usize,
    },
}

impl Content {
    /// Names and types, all of which must be queries.
    pub const LINES: Self = Content::Lines { expecting: false, skip_bad: false };

    /// Reads `input` into `records`; `path` is named in errors.
    ///
    /// # Errors
    /// If the input cannot be read, or `records` ends the reading.
    pub fn read(
        self,
        input: impl Read,
        path: &Path,
        records: &mut impl RecordReceiver,
    ) -> Result<(), QueryFileError> {
        let input = BufReader::with_capacity(READ_OCTETS, input);
        match self {
            Content::Lines { expecting, .. } => read_lines(input, path, expecting, records),
            Content::Messages { most } => messages::read(input, path, most, records),
        }
    }

    /// Returns whether lines that are no queries are skipped.
    pub(super) fn skips_bad_lines(self) -> bool {
        matches!(self, Content::Lines { skip_bad: true, .. })
    }
}

/// Receiver of the records of an input.
pub trait RecordReceiver {
    /// Adds a question or a message of at most 64 KiB, with its key.
    ///
    /// # Errors
    /// If there is no room for it, or the reading ends.
    fn push(&mut self, key: u32, bytes: &[u8]) -> Result<(), QueryFileError>;

    /// Takes a line that is not a query.
    ///
    /// # Errors
    /// If that ends the reading.
    fn bad_line(&mut self, bad: BadLines) -> Result<(), QueryFileError>;

    /// Passes on the added queries: the next read may wait.
    ///
    /// # Errors
    /// If the reading ends.
    fn pause(&mut self) -> Result<(), QueryFileError> {
        Ok(())
    }
}

/// Returns the bytes in front of a question or message.
pub(super) fn head(key: u32, bytes: &[u8]) -> [u8; HEAD] {
    let ([a, b], [c, d, e, f]) = ((bytes.len() as u16).to_le_bytes(), key.to_le_bytes());
    [a, b, c, d, e, f]
}

/// Error of a query file.
#[derive(Debug, thiserror::Error)]
pub enum QueryFileError {
    /// The file cannot be read.
    #[error("cannot read the query file {path}: {1}", path = .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file has lines that are not queries.
    #[error(
        "{0}; a line is a name and a type, such as `www.example.com AAAA`; --skip-bad skips such lines"
    )]
    BadLines(BadLines),
    /// The file has no query.
    #[error("{path}: the file has no query; a line is a name and a type, such as `www.example.com AAAA`", path = .0.display())]
    Empty(PathBuf),
    /// A pipe that is to be used several times does not fit.
    #[error("{}: a pipe with more than {most} octets of queries can be sent only once, not {runs} times: save it to a file", path.display())]
    TooLong {
        /// Name of the pipe.
        path: PathBuf,
        /// Largest size of queries that are used again, in octets.
        most: usize,
        /// Number of times that the pipe's queries are used.
        runs: u64,
    },
    /// A pipe of which all queries are needed first has too many.
    #[error("{path}: a pipe with more than {1} octets of queries, all of which this load needs first: save what it shall send to a file (`head -n 1000000`)", path = .0.display())]
    Endless(PathBuf, u64),
    /// A message of a file of messages cannot be sent.
    #[error("{}: message {number}, at octet {offset}: {why}", path.display())]
    BadMessage {
        /// Path of the query file.
        path: PathBuf,
        /// Number of the message, from 1.
        number: u64,
        /// Position of the message in the file, from 0.
        offset: u64,
        /// Reason why it is not accepted.
        why: String,
    },
    /// No worker takes queries, since the trial is over.
    #[error("the trial has ended")]
    Over,
    /// The compiled queries cannot be stored.
    #[error("cannot store the compiled queries in {place}: {1}; set TMPDIR to a folder with enough space", place = .0.display())]
    NoRoom(PathBuf, #[source] io::Error),
}

/// Lines of an input that are not queries: the first with its reason, and where the next ones are.
#[derive(Clone, Debug)]
pub struct BadLines {
    path: PathBuf,
    /// Number of the first line, from 1.
    line: u64,
    /// Column in the line, from 1.
    column: usize,
    why: String,
    /// Number of further lines that are not queries.
    others: u64,
    /// Numbers of the first of them, and why these are none.
    next: Vec<(u64, String)>,
}

impl BadLines {
    /// Number of further lines that are named.
    const MAX_NAMED_LINES: usize = 20;

    /// Returns the number of lines.
    pub fn count(&self) -> u64 {
        1 + self.others
    }

    /// Adds a line to the lines before it.
    pub fn add_to(self, before: &mut Option<Self>) {
        let Some(before) = before else {
            *before = Some(self);
            return;
        };
        before.others += 1;
        if before.next.len() < Self::MAX_NAMED_LINES {
            before.next.push((self.line, self.why));
        }
    }
}

impl fmt::Display for BadLines {
    /// Writes `q.txt:4:10: the type is missing; also lines 7, 9, 12`, of one more with its reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.path.display(), self.line, self.column, self.why)?;
        match &self.next[..] {
            [] => Ok(()),
            [(line, why)] => write!(f, "; also line {line}: {why}"),
            [(next, _), rest @ ..] => {
                write!(f, "; also {} lines: {next}", self.others)?;
                rest.iter().try_for_each(|(line, _)| write!(f, ", {line}"))?;
                let more = self.count() > self.next.len() as u64 + 1;
                if more { f.write_str(", ...") } else { Ok(()) }
            }
        }
    }
}

/// Reads the lines of `input` into `records`; `expecting` ones also say what reply is expected.
fn read_lines(
    mut input: BufReader<impl Read>,
    path: &Path,
    expecting: bool,
    records: &mut impl RecordReceiver,
) -> Result<(), QueryFileError> {
    let (mut text, mut line) = (Vec::new(), 0);
    let unreadable = |source| QueryFileError::Unreadable(path.to_owned(), source);
    loop {
        text.clear();
        if input.buffer().is_empty() {
            records.pause()?;
        }
        let read = Read::take(&mut input, MAX_LINE as u64 + 1).read_until(b'\n', &mut text);
        if read.map_err(unreadable)? == 0 {
            return Ok(());
        }
        line += 1;
        let words = if line == 1 { query_line::without_mark(&text) } else { Ok(&text[..]) };
        let words = words.map_err(|why| BadLine { column: 1, why: why.to_owned() });
        match words.and_then(|words| keyed_question(words, expecting)) {
            Ok(Some((key, question))) => records.push(key, &question)?,
            Ok(None) => {}
            Err(BadLine { column, why }) => {
                let path = path.to_owned();
                records.bad_line(BadLines { path, line, column, why, others: 0, next: vec![] })?;
                if text.len() > MAX_LINE && !text.ends_with(b"\n") {
                    input.skip_until(b'\n').map_err(unreadable)?;
                }
            }
        }
    }
}

/// Returns the key and the question of a line; `None` for an empty one or a comment.
fn keyed_question(line: &[u8], expecting: bool) -> Result<Option<(u32, Vec<u8>)>, BadLine> {
    let Some(found) = query_line::parse_with_rest(line)? else { return Ok(None) };
    let question = question(&found.name, found.qtype);
    let hash = reply::question_hash(&question);
    let key = if expecting {
        expected::key(hash, found.rest).map_err(|why| found.bad_rest(line, why))?
    } else {
        found.without_rest(line).map(|()| hash)?
    };
    Ok(Some((key, question)))
}

/// Returns the question of a query, as it is in a message.
fn question(name: &Name, qtype: Qtype) -> Vec<u8> {
    let mut question = name.as_wire().to_vec();
    question.extend(qtype.0.to_be_bytes());
    question.extend(Qclass::IN.0.to_be_bytes());
    question
}
