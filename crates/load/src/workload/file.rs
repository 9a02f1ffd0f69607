//! Query files in the text format of dnsperf and queryperf: `name type`, a line each.
//!
//! ```text
//! queries.txt ──compile, one skip_record──> unlinked temporary file ──chunks──> workers
//!                                    records: length | hash | question
//! ```
//!
//! A file of any size takes constant memory: the compiled records are in the page cache and are read by
//! position, so that workers share them. Each worker takes every n-th record and starts again at the end, as often as the
//! file is to be used. Whole messages are compiled to records of the same form.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use measure::Rng;
use wire::query_line::{self, BadLine, MAX_LINE};
use wire::{Edns, Expect, Invalid, Name, Qclass, Qtype, compose, reply};

use super::{Composed, MAX_QUERY, Workload, expected, opt_record};

/// Bytes read at a time.
const CHUNK: usize = 256 << 10;
/// Bytes in front of each question or message: length (2), hash (4).
pub(super) const HEAD: usize = 6;

/// What takes the records of an input.
pub(super) trait Take {
    /// Adds a question or a message of at most 64 KiB, with the hash of its question.
    fn push(&mut self, hash: u32, bytes: &[u8]) -> Result<(), QueryFileError>;

    /// Takes the error of a line that is not a query; returns it if that ends the reading.
    fn bad_line(&mut self, error: QueryFileError) -> Result<(), QueryFileError> {
        Err(error)
    }

    /// Passes on what was added: the next read may wait.
    fn pause(&mut self) -> Result<(), QueryFileError> {
        Ok(())
    }
}

/// Returns the bytes in front of a question or message.
pub(super) fn head(hash: u32, bytes: &[u8]) -> [u8; HEAD] {
    let ([a, b], [c, d, e, f]) = ((bytes.len() as u16).to_le_bytes(), hash.to_le_bytes());
    [a, b, c, d, e, f]
}

/// Error of a query file.
#[derive(Debug, thiserror::Error)]
pub enum QueryFileError {
    /// The file cannot be read.
    #[error("cannot read the query file {}: {source}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// A line is not a query.
    #[error("{}:{line}:{column}: {why}; a line is a name and a type, such as `www.example.com AAAA`{others}", path.display())]
    BadLine {
        /// Path of the file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Column, from 1.
        column: usize,
        /// Reason why it is not accepted.
        why: String,
        /// Further lines that are not queries.
        others: OtherLines,
    },
    /// The file has no query.
    #[error("{}: the file has no query; a line is a name and a type, such as `www.example.com AAAA`", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// A message of a file of messages cannot be sent.
    #[error("{}: message {number}, at octet {offset}: {why}", path.display())]
    BadMessage {
        /// Path of the file.
        path: PathBuf,
        /// Number of the message, from 1.
        number: u64,
        /// Position of the message in the file, from 0.
        offset: u64,
        /// Reason why it is not accepted.
        why: String,
    },
    /// Nobody takes the queries of a pipe any more, since the trial is over.
    #[error("the trial is over")]
    Over,
    /// The compiled queries cannot be stored.
    #[error("cannot store the compiled queries in {}: {source}; set TMPDIR to a folder with enough space", place.display())]
    NoRoom {
        /// Folder for temporary files.
        place: PathBuf,
        /// Reason.
        source: io::Error,
    },
}

/// Further lines of a file that are not queries.
#[derive(Debug, Default)]
pub struct OtherLines {
    count: u64,
    /// Numbers of the first ones.
    first: Vec<u64>,
}

impl OtherLines {
    /// Number of lines that an error names.
    const NAMED: usize = 20;

    fn add(&mut self, line: u64) {
        self.count += 1;
        if self.first.len() < Self::NAMED {
            self.first.push(line);
        }
    }
}

impl fmt::Display for OtherLines {
    /// Writes nothing without further lines, else `; 3 more lines are no queries: 7, 9, 12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.first.split_first() else { return Ok(()) };
        let what =
            if self.count == 1 { "more line is no query" } else { "more lines are no queries" };
        write!(f, "; {} {what}: {first}", self.count)?;
        rest.iter().try_for_each(|line| write!(f, ", {line}"))?;
        if self.count > self.first.len() as u64 { f.write_str(", ...") } else { Ok(()) }
    }
}

/// A compiled query file.
#[derive(Clone, Debug)]
pub struct QueryFile {
    records: Arc<File>,
    len: u64,
    queries: u64,
    /// Length of the longest record in bytes.
    longest: usize,
    /// Whether the records are whole messages instead of questions.
    whole: bool,
    /// Whether the keys of the records say what is expected ([`expected`]).
    expecting: bool,
}

/// Writer of the records of a query file.
pub(super) struct Records {
    out: BufWriter<File>,
    len: u64,
    queries: u64,
    longest: usize,
    /// The first line that is not a query.
    bad: Option<QueryFileError>,
}

impl Records {
    /// Makes a temporary file for records.
    pub(super) fn new() -> Result<Self, QueryFileError> {
        let out = BufWriter::with_capacity(CHUNK, tempfile::tempfile().map_err(no_room)?);
        Ok(Records { out, len: 0, queries: 0, longest: 0, bad: None })
    }

    /// Returns the file of these records, `whole` messages or questions, which were read from `path`.
    pub(super) fn finish(self, path: &Path, whole: bool) -> Result<QueryFile, QueryFileError> {
        if let Some(bad) = self.bad {
            return Err(bad);
        }
        if self.queries == 0 {
            return Err(QueryFileError::Empty { path: path.to_owned() });
        }
        let Records { out, len, queries, longest, .. } = self;
        let records = Arc::new(out.into_inner().map_err(|e| no_room(e.into_error()))?);
        Ok(QueryFile { records, len, queries, longest, whole, expecting: false })
    }
}

impl Take for Records {
    fn push(&mut self, hash: u32, bytes: &[u8]) -> Result<(), QueryFileError> {
        self.out.write_all(&head(hash, bytes)).map_err(no_room)?;
        self.out.write_all(bytes).map_err(no_room)?;
        self.len += (HEAD + bytes.len()) as u64;
        self.queries += 1;
        self.longest = self.longest.max(bytes.len());
        Ok(())
    }

    /// The first one is returned at the end, with the numbers of the others.
    fn bad_line(&mut self, error: QueryFileError) -> Result<(), QueryFileError> {
        match (&mut self.bad, &error) {
            (
                Some(QueryFileError::BadLine { others, .. }),
                QueryFileError::BadLine { line, .. },
            ) => {
                others.add(*line);
            }
            _ => self.bad = Some(error),
        }
        Ok(())
    }
}

/// Reads the lines of `input` into `records`; `expecting` ones also say what reply is expected.
pub(super) fn read_lines(
    input: impl Read,
    path: &Path,
    expecting: bool,
    records: &mut impl Take,
) -> Result<(), QueryFileError> {
    let mut input = BufReader::with_capacity(CHUNK, input);
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        if input.buffer().is_empty() {
            records.pause()?;
        }
        let read = Read::take(&mut input, MAX_LINE as u64 + 1).read_until(b'\n', &mut line);
        let unreadable = |source| QueryFileError::Unreadable { path: path.to_owned(), source };
        if read.map_err(unreadable)? == 0 {
            return Ok(());
        }
        number += 1;
        let bad = |BadLine { column, why }| QueryFileError::BadLine {
            path: path.to_owned(),
            line: number,
            column,
            why,
            others: OtherLines::default(),
        };
        match keyed_question(&line, expecting) {
            Ok(Some((key, question))) => records.push(key, &question)?,
            Ok(None) => {}
            Err(error) => {
                records.bad_line(bad(error))?;
                // The rest of a longer line would be taken for another one.
                if line.len() > MAX_LINE {
                    return Ok(());
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

fn no_room(source: io::Error) -> QueryFileError {
    QueryFileError::NoRoom { place: std::env::temp_dir(), source }
}

impl QueryFile {
    /// Compiles the query file `path`.
    ///
    /// # Errors
    /// [`QueryFileError`], with line and column if a line is wrong.
    pub fn compile(path: &Path) -> Result<Self, QueryFileError> {
        let unreadable = |source| QueryFileError::Unreadable { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        Self::compile_from(file, path)
    }

    /// Compiles the lines of `input`; `path` is named in errors.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn compile_from(input: impl Read, path: &Path) -> Result<Self, QueryFileError> {
        Self::compile_lines(input, path, false)
    }

    /// Compiles lines that also say what reply is expected, as [`expected::key`] reads it.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn compile_expecting(input: impl Read, path: &Path) -> Result<Self, QueryFileError> {
        Self::compile_lines(input, path, true)
    }

    fn compile_lines(
        input: impl Read,
        path: &Path,
        expecting: bool,
    ) -> Result<Self, QueryFileError> {
        let mut records = Records::new()?;
        read_lines(input, path, expecting, &mut records)?;
        Ok(QueryFile { expecting, ..records.finish(path, false)? })
    }

    /// Returns the number of queries.
    pub fn queries(&self) -> u64 {
        self.queries
    }

    /// Returns whether its records are whole messages, with headers of their own.
    pub fn has_messages(&self) -> bool {
        self.whole
    }

    /// Calls `with` for each record in the order of the file: the hash of its question, and the question or message; until
    /// `with` has an error.
    ///
    /// # Errors
    /// That of `with`.
    pub fn try_each<E>(&self, mut with: impl FnMut(u32, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let options = QueryOptions {
            expect: Expect::Answered,
            recursion_desired: false,
            edns: None,
            runs: None,
            sample: None,
        };
        let mut stream = self.workload(0, 1, options);
        for _ in 0..self.queries {
            let (hash, record) = stream.record();
            with(hash, &stream.chunk[record])?;
            stream.skip_record();
        }
        Ok(())
    }

    /// Makes the stream of `worker` among `workers`.
    ///
    /// # Panics
    /// When the EDNS options are too long for a query.
    pub fn workload(&self, worker: u32, workers: u32, options: QueryOptions) -> FileWorkload {
        let mut stream = FileWorkload {
            file: self.clone(),
            chunk: Vec::with_capacity(CHUNK),
            chunk_at: 0,
            at: 0,
            skip: u64::from(workers) - 1,
            left: options.runs.map_or(u64::MAX, |runs| {
                let all = self.queries.saturating_mul(runs);
                all.saturating_sub(u64::from(worker)).div_ceil(u64::from(workers))
            }),
            sample: options.sample.map(|sample| Chance {
                share: sample.share,
                rng: Rng::part(sample.seed, u64::from(worker)),
            }),
            form: Form::new(self.whole, self.expecting, &options),
        };
        for _ in 0..worker {
            stream.skip_record();
        }
        stream
    }
}

/// How the queries of a file are sent and validated.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// What replies must say.
    pub expect: Expect,
    /// Whether the RD bit is set.
    pub recursion_desired: bool,
    /// The OPT record, if any.
    pub edns: Option<Edns>,
    /// How often the file is used; again and again if `None`.
    pub runs: Option<u64>,
    /// Part of the queries that is used; all if `None`.
    pub sample: Option<Sample>,
}

/// A part of the queries of a file, chosen by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Share (above 0, up to 1) of the queries.
    pub share: f64,
    /// Seed of the choice.
    pub seed: u64,
}

/// Returns the question of a query, as it is in a message.
fn question(name: &Name, qtype: Qtype) -> Vec<u8> {
    let mut question = name.as_wire().to_vec();
    question.extend(qtype.0.to_be_bytes());
    question.extend(Qclass::IN.0.to_be_bytes());
    question
}

/// The stream of queries of one worker.
#[derive(Debug)]
pub struct FileWorkload {
    file: QueryFile,
    chunk: Vec<u8>,
    /// Position of the chunk in the file.
    chunk_at: u64,
    /// Position of the next record in the file.
    at: u64,
    /// Number of records of other workers between two of this worker.
    skip: u64,
    /// Number of queries that this worker still sends.
    left: u64,
    sample: Option<Chance>,
    form: Form,
}

/// How records become queries, and how replies are validated.
#[derive(Debug)]
pub(super) struct Form {
    whole: bool,
    expecting: bool,
    expect: Expect,
    recursion_desired: bool,
    opt: Option<Vec<u8>>,
}

impl Form {
    /// Makes the form of `whole` messages or of questions, whose keys may say what is expected.
    pub(super) fn new(whole: bool, expecting: bool, options: &QueryOptions) -> Self {
        let opt =
            opt_record(options.edns.as_ref()).expect("options are validated when they are read");
        let (expect, recursion_desired) = (options.expect, options.recursion_desired);
        Form { whole, expecting, expect, recursion_desired, opt }
    }

    /// Writes the query of a record; returns its length.
    #[inline]
    pub(super) fn compose(&self, record: &[u8], out: &mut [u8]) -> usize {
        if self.whole {
            out[..record.len()].copy_from_slice(record);
            return record.len();
        }
        compose(out, 0, record, self.recursion_desired, self.opt.as_deref())
    }

    /// Validates a reply to the query with `key`.
    #[inline]
    pub(super) fn check(&self, key: u32, message: &[u8]) -> Result<u8, Invalid> {
        if self.whole {
            super::messages::check(key, message, &self.expect)
        } else if self.expecting {
            check_by_hash(key, expected::HASH, message, &expected::of(key))
        } else {
            check_by_hash(key, u32::MAX, message, &self.expect)
        }
    }
}

/// The choice of the queries that are used.
#[derive(Debug)]
struct Chance {
    share: f64,
    rng: Rng,
}

impl FileWorkload {
    /// Returns the hash of the record at `at` and the range of its question in the chunk; reads the next
    /// chunk if necessary.
    #[inline]
    fn record(&mut self) -> (u32, std::ops::Range<usize>) {
        if self.at == self.file.len {
            self.at = 0;
        }
        let mut start = self.at.wrapping_sub(self.chunk_at) as usize;
        let whole = |chunk: &[u8], start: usize| {
            let head = chunk.get(start..start.checked_add(HEAD)?)?;
            let end = start + HEAD + usize::from(u16::from_le_bytes([head[0], head[1]]));
            (end <= chunk.len()).then(|| {
                (u32::from_le_bytes([head[2], head[3], head[4], head[5]]), start + HEAD..end)
            })
        };
        if let Some(found) = whole(&self.chunk, start) {
            return found;
        }
        self.chunk.resize(CHUNK.min((self.file.len - self.at) as usize), 0);
        self.file
            .records
            .read_exact_at(&mut self.chunk, self.at)
            .expect("the unlinked temporary file is as long as it was written");
        (self.chunk_at, start) = (self.at, 0);
        whole(&self.chunk, start).expect("a chunk is longer than a record")
    }

    /// Skips one record.
    #[inline]
    fn skip_record(&mut self) {
        let (_, question) = self.record();
        self.at += (HEAD + question.len()) as u64;
    }
}

impl Workload for FileWorkload {
    #[inline]
    fn room(&self) -> usize {
        self.file.longest.max(MAX_QUERY)
    }

    #[inline]
    fn next(&mut self, out: &mut [u8]) -> Option<Composed> {
        self.left = self.left.checked_sub(1)?;
        while self.sample.as_mut().is_some_and(|chance| chance.rng.unit() >= chance.share) {
            self.left = self.left.checked_sub(1)?;
            (0..=self.skip).for_each(|_| self.skip_record());
        }
        let (key, record) = self.record();
        let len = self.form.compose(&self.chunk[record], out);
        for _ in 0..=self.skip {
            self.skip_record();
        }
        Some(Composed { len, key })
    }

    #[inline]
    fn check(&mut self, key: u32, message: &[u8]) -> Result<u8, Invalid> {
        self.form.check(key, message)
    }
}

/// Validates a reply whose question must have the hash `key`, of which the bits of `mask` are compared.
#[inline]
pub(crate) fn check_by_hash(
    key: u32,
    mask: u32,
    message: &[u8],
    expect: &Expect,
) -> Result<u8, Invalid> {
    match reply::question(message) {
        Some(question) if (reply::question_hash(question) ^ key) & mask == 0 => {
            reply::check(message, question, expect)
        }
        Some(_) => Err(Invalid::WrongQuestion),
        // A reply without a question: `check` finds the reason.
        None => reply::check(message, &[], expect),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compile(text: &str) -> Result<QueryFile, QueryFileError> {
        QueryFile::compile_from(text.as_bytes(), Path::new("q.txt"))
    }

    fn options() -> QueryOptions {
        QueryOptions {
            expect: Expect::Answered,
            recursion_desired: true,
            edns: None,
            runs: None,
            sample: None,
        }
    }

    #[test]
    fn a_file_is_used_as_often_as_wanted() {
        let file = compile("a.example A\nb.example A\nc.example A\n").expect("a good file");
        for workers in 1..5 {
            let sent = (0..workers).map(|worker| {
                let options = QueryOptions { runs: Some(2), ..options() };
                let mut stream = file.workload(worker, workers, options);
                let mut out = [0; super::super::MAX_QUERY];
                let count = std::iter::from_fn(|| stream.next(&mut out)).count();
                assert_eq!(stream.next(&mut out), None);
                count
            });
            assert_eq!(sent.sum::<usize>(), 6, "{workers} workers");
        }
    }

    #[test]
    fn workers_take_turns_and_start_again() {
        let text: String = (0..10).map(|i| format!("n{i}.example A\n")).collect();
        let file = compile(&text).expect("a good file");
        assert_eq!(file.queries(), 10);
        let mut out = [0; super::super::MAX_QUERY];
        let mut names = Vec::new();
        for worker in 0..3 {
            let mut stream = file.workload(worker, 3, options());
            for _ in 0..4 {
                stream.next(&mut out).expect("endless");
                names.push(out[14]);
            }
        }
        // Worker 0 takes n0 n3 n6 n9, and goes on at n2; worker 1 takes n1 n4 n7 n0.
        assert_eq!(&names, b"036914702581");
    }

    #[test]
    fn records_are_given_one_by_one() {
        let file = compile("a.example A\nb.example AAAA\n").expect("a good file");
        assert!(!file.has_messages());
        let mut seen = Vec::new();
        let all = file.try_each(|hash, question| {
            assert_eq!(hash, reply::question_hash(question));
            seen.push(question.to_vec());
            Ok::<(), ()>(())
        });
        assert_eq!((all, seen.len()), (Ok(()), 2));
        assert_eq!(seen[1], b"\x01b\x07example\0\0\x1c\0\x01");
        let mut calls = 0;
        let first = file.try_each(|_, _| {
            calls += 1;
            Err("enough")
        });
        assert_eq!((first, calls), (Err("enough"), 1));
    }

    #[test]
    fn a_sample_is_a_share_of_the_queries() {
        let text: String = (0..1_000).map(|i| format!("n{i}.example A\n")).collect();
        let file = compile(&text).expect("a good file");
        let count = |share| {
            let sample = Some(Sample { share, seed: 7 });
            let options = QueryOptions { runs: Some(10), sample, ..options() };
            let (mut stream, mut out) =
                (file.workload(0, 1, options), [0; super::super::MAX_QUERY]);
            std::iter::from_fn(|| stream.next(&mut out)).count()
        };
        assert_eq!(count(1.0), 10_000);
        // Six standard deviations of 10,000 draws.
        assert!(count(0.25).abs_diff(2_500) < 260, "{}", count(0.25));
    }

    #[test]
    fn comments_and_blank_lines_are_skipped() {
        let file = compile("; comment\n\n# other\n  a.example  aaaa \nb.example TYPE65\r\n")
            .expect("a good file");
        assert_eq!(file.queries(), 2);
    }

    #[test]
    fn errors_name_line_and_column() {
        for (text, place) in [
            ("a.example A\nb.example AX\n", "q.txt:2:11: "),
            ("a.example\n", "q.txt:1:10: the type is missing"),
            ("a..example A\n", "q.txt:1:1: "),
            ("a A\nb\nc A\nd\n#\ne A\nf\n", "; 2 more lines are no queries: 4, 7"),
            ("b\nc A\nd\n", "AAAA`; 1 more line is no query: 3"),
            ("a.example A +dnssec\n", "q.txt:1:13: unexpected `+dnssec`"),
            ("", "q.txt: the file has no query"),
            ("; only a comment\n", "q.txt: the file has no query"),
        ] {
            let error = compile(text).expect_err(text).to_string();
            assert!(error.contains(place), "{error}");
        }
        assert!(
            compile(&"a".repeat(10_000))
                .expect_err("too long")
                .to_string()
                .contains("longer than 4096")
        );
    }

    #[test]
    fn a_file_longer_than_a_chunk_is_read_in_order() {
        let text: String =
            (0..40_000).map(|i| format!("name-{i:06}.some.example.org AAAA\n")).collect();
        let mut stream = compile(&text).expect("a good file").workload(0, 1, options());
        let mut out = [0; super::super::MAX_QUERY];
        for i in 0..80_001 {
            let composed = stream.next(&mut out).expect("endless");
            assert_eq!(&out[13..24], format!("name-{:06}", i % 40_000).as_bytes());
            assert_eq!(composed.key, reply::question_hash(&out[12..composed.len]));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
            let _ = compile(&text);
        }
    }
}
