//! Query files in the text format of dnsperf and queryperf, `name type`, a line each, or of whole messages.
//!
//! ```text
//! queries.txt ──compile──> unlinked temporary file ──chunks──> workers
//!                          records: length | key | question
//! ```
//!
//! A file of any size takes constant memory: the compiled records are in the page cache and are read by position, so that workers
//! share them. Each worker takes every n-th record and starts again at the end, as often as the file is to be used. The load
//! begins when `OCTETS_AHEAD` octets of records are compiled; the rest follows while it runs, and never more ahead of it than that.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use measure::Rng;
use wire::{Edns, Expect, Invalid, compose};

pub use super::read::{BadLines, Content, QueryFileError, RecordReceiver};
use super::read::{HEAD, head};
use super::{ComposedQuery, MAX_QUERY, Workload, expected, opt_record};

/// Octets of records that are compiled before the load begins, and ahead of it.
const OCTETS_AHEAD: u64 = 4 << 20;
/// Bytes of records read at a time.
const CHUNK: usize = 256 << 10;
/// Interval between checks whether the file is still in use.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A query file, compiled or while it is.
#[derive(Clone, Debug)]
pub struct QueryFile {
    records: Arc<File>,
    shared: Arc<SharedFile>,
    content: Content,
}

/// State shared by the workers and the compiler.
#[derive(Debug, Default)]
struct SharedFile {
    state: Mutex<FileState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct FileState {
    compiled: Compiled,
    /// Furthest position that a worker has read.
    read: u64,
    skipped: Option<BadLines>,
    error: Option<QueryFileError>,
    /// Whether a worker has reached the error.
    met_error: bool,
}

/// Records that are compiled so far.
#[derive(Clone, Copy, Debug, Default)]
struct Compiled {
    /// Octets of whole records in the file.
    octets: u64,
    queries: u64,
    /// Length of the longest record in octets.
    longest: usize,
    /// Whether there are no more.
    done: bool,
    /// Whether an error ended the compilation.
    failed: bool,
}

impl SharedFile {
    fn lock(&self) -> MutexGuard<'_, FileState> {
        // The data are valid even after a panic of the thread that held the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `enough` is compiled, or all.
    fn wait(&self, enough: impl Fn(&Compiled) -> bool) -> MutexGuard<'_, FileState> {
        let wanted = |state: &mut FileState| !state.compiled.done && !enough(&state.compiled);
        let state = self.changed.wait_while(self.lock(), wanted);
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a worker has read up to `at`; returns the compiled records.
    fn has_read(&self, at: u64) -> Compiled {
        let mut state = self.lock();
        state.read = state.read.max(at);
        self.changed.notify_all();
        state.compiled
    }
}

/// Writer of the records of a query file.
struct Records {
    out: BufWriter<File>,
    compiled: Compiled,
    /// Records that the workers may read.
    published: Compiled,
    shared: Arc<SharedFile>,
    skips_bad: bool,
    /// Largest number of octets, and the path that the error names beyond it.
    most: Option<(u64, PathBuf)>,
    bad: Option<BadLines>,
    /// Octets of records after a line that is no query and may not be skipped; these records are
    /// not used.
    refused: u64,
}

impl Records {
    /// Returns whether a line ends the file.
    fn is_refused(&self) -> bool {
        self.bad.is_some() && !self.skips_bad
    }

    /// Publishes the last records, and why there are no more.
    fn finish(mut self, path: &Path, read: Result<(), QueryFileError>) {
        let flushed = self.out.flush().map_err(no_room);
        if flushed.is_err() {
            // Records that could not be written do not count.
            self.compiled = self.published;
        }
        let mut state = self.shared.lock();
        let (bad, skips) = (self.bad.take(), self.skips_bad);
        let error = match bad {
            Some(bad) if !skips => Some(QueryFileError::BadLines(bad)),
            bad => {
                state.skipped = bad;
                read.and(flushed).err()
            }
        };
        let empty = || QueryFileError::Empty(path.to_owned());
        state.error = error.or_else(|| (self.compiled.queries == 0).then(empty));
        state.compiled = Compiled { done: true, failed: state.error.is_some(), ..self.compiled };
        self.shared.changed.notify_all();
    }
}

impl RecordReceiver for Records {
    fn push(&mut self, key: u32, bytes: &[u8]) -> Result<(), QueryFileError> {
        let octets = (HEAD + bytes.len()) as u64;
        if self.is_refused() {
            self.refused += octets;
            return if self.refused < OCTETS_AHEAD { Ok(()) } else { Err(QueryFileError::Over) };
        }
        if let Some((most, path)) =
            self.most.as_ref().filter(|m| self.compiled.octets + octets > m.0)
        {
            return Err(QueryFileError::Endless(path.clone(), *most));
        }
        self.out.write_all(&head(key, bytes)).map_err(no_room)?;
        self.out.write_all(bytes).map_err(no_room)?;
        self.compiled.octets += octets;
        self.compiled.queries += 1;
        self.compiled.longest = self.compiled.longest.max(bytes.len());
        let waits = self.compiled.octets - self.published.octets < CHUNK as u64;
        if waits { Ok(()) } else { self.pause() }
    }

    /// The first ones are listed together, as far as the compiler reads ahead.
    fn bad_line(&mut self, bad: BadLines) -> Result<(), QueryFileError> {
        bad.add_to(&mut self.bad);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), QueryFileError> {
        self.out.flush().map_err(no_room)?;
        self.published = self.compiled;
        let mut state = self.shared.lock();
        state.compiled = self.compiled;
        if self.skips_bad {
            state.skipped.clone_from(&self.bad);
        }
        self.shared.changed.notify_all();
        while self.compiled.octets > state.read.saturating_add(OCTETS_AHEAD) {
            if Arc::strong_count(&self.shared) == 1 {
                return Err(QueryFileError::Over);
            }
            let waited = self.shared.changed.wait_timeout(state, CHECK_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

fn no_room(source: io::Error) -> QueryFileError {
    QueryFileError::NoRoom(std::env::temp_dir(), source)
}

impl QueryFile {
    /// Compiles all of `input`; `path` is named in errors.
    ///
    /// # Errors
    /// [`QueryFileError`], with line and column if a line is wrong.
    pub fn compile(
        input: impl Read,
        path: &Path,
        content: Content,
    ) -> Result<Self, QueryFileError> {
        let (file, mut records) = Self::begin(content)?;
        file.shared.lock().read = u64::MAX;
        let read = content.read(input, path, &mut records);
        records.finish(path, read);
        file.complete()
    }

    /// Compiles the beginning of `input`, and the rest while it is used, `most` octets of records at most.
    ///
    /// # Errors
    /// As [`compile`](Self::compile), of the beginning.
    pub fn start(
        input: impl Read + Send + 'static,
        path: &Path,
        content: Content,
        most: Option<u64>,
    ) -> Result<Self, QueryFileError> {
        let (file, mut records) = Self::begin(content)?;
        let path = path.to_owned();
        records.most = most.map(|most| (most, path.clone()));
        std::thread::spawn(move || {
            let read = content.read(input, &path, &mut records);
            records.finish(&path, read);
        });
        file.ready(|compiled| compiled.octets > OCTETS_AHEAD)
    }

    fn begin(content: Content) -> Result<(Self, Records), QueryFileError> {
        let written = tempfile::tempfile().map_err(no_room)?;
        let records = Arc::new(written.try_clone().map_err(no_room)?);
        let shared = Arc::<SharedFile>::default();
        let out = Records {
            out: BufWriter::with_capacity(CHUNK, written),
            compiled: Compiled::default(),
            published: Compiled::default(),
            shared: shared.clone(),
            skips_bad: content.skips_bad_lines(),
            most: None,
            bad: None,
            refused: 0,
        };
        Ok((QueryFile { records, shared, content }, out))
    }

    /// Waits until all is compiled.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn complete(self) -> Result<Self, QueryFileError> {
        self.shared.has_read(u64::MAX);
        self.ready(|_| false)
    }

    fn ready(self, enough: impl Fn(&Compiled) -> bool) -> Result<Self, QueryFileError> {
        let error = self.shared.wait(enough).error.take();
        error.map_or(Ok(self), Err)
    }

    /// Returns the number of queries; `None` as long as not all are compiled.
    pub fn queries(&self) -> Option<u64> {
        let compiled = self.shared.lock().compiled;
        compiled.done.then_some(compiled.queries)
    }

    /// Returns whether an error ended the queries.
    pub fn is_cut(&self) -> bool {
        self.shared.lock().compiled.failed
    }

    /// Starts a run: forgets that a worker reached the error in an earlier run.
    pub fn begin_run(&self) {
        self.shared.lock().met_error = false;
    }

    /// Returns the error that ended the queries, once, if a worker has reached it.
    pub fn take_error(&self) -> Option<QueryFileError> {
        let mut state = self.shared.lock();
        if state.met_error { state.error.take() } else { None }
    }

    /// Returns the lines that were skipped.
    pub fn skipped(&self) -> Option<BadLines> {
        self.shared.lock().skipped.clone()
    }

    /// Returns whether the file's records are whole messages, with headers of their own.
    pub fn has_messages(&self) -> bool {
        matches!(self.content, Content::Messages { .. })
    }

    /// Calls `with` for each record in the order of a complete file: its key, and the question or message; until `with` has an
    /// error.
    ///
    /// # Errors
    /// That of `with`.
    pub fn try_each<E>(&self, mut with: impl FnMut(u32, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let options = QueryOptions { runs: Some(1), ..QueryOptions::default() };
        let mut stream = self.workload(0, 1, options);
        while let Some((key, record)) = stream.take() {
            with(key, &stream.chunk[record])?;
        }
        Ok(())
    }

    /// Makes the stream of `worker` among `workers`.
    ///
    /// # Panics
    /// When the EDNS options are too long for a query.
    pub fn workload(&self, worker: u32, workers: u32, options: QueryOptions) -> FileWorkload {
        FileWorkload {
            file: self.clone(),
            compiled: self.shared.lock().compiled,
            chunk: Vec::with_capacity(CHUNK),
            chunk_at: 0,
            at: 0,
            skip: worker.into(),
            turn: (worker.into(), workers.into()),
            taken: 0,
            runs: options.runs,
            sample: options.sample.map(|sample| QuerySampler::new(sample, worker)),
            form: Form::new(self.content, &options),
        }
    }
}

/// Options for sending and validating the queries of a file.
#[derive(Clone, Debug, Default)]
pub struct QueryOptions {
    /// Condition for a valid reply.
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
    /// Seed of the choice: the same seed chooses the same queries.
    pub seed: u64,
}

/// The stream of queries of one worker.
#[derive(Debug)]
pub struct FileWorkload {
    file: QueryFile,
    /// Records that were compiled at the last check.
    compiled: Compiled,
    chunk: Vec<u8>,
    /// Position of the chunk in the file.
    chunk_at: u64,
    /// Position of the next record in the file.
    at: u64,
    /// Number of records of other workers before the next of this worker.
    skip: u64,
    /// Number of this worker, and of all.
    turn: (u64, u64),
    /// Number of records that this worker took.
    taken: u64,
    /// How often the file is used; again and again if `None`.
    runs: Option<u64>,
    sample: Option<QuerySampler>,
    form: Form,
}

/// Rules that turn records into queries and validate replies.
#[derive(Debug)]
pub(super) struct Form {
    whole: bool,
    expecting: bool,
    expect: Expect,
    recursion_desired: bool,
    opt: Option<Vec<u8>>,
}

impl Form {
    /// Makes the form of whole messages or of questions, whose keys may contain the expected reply.
    pub(super) fn new(content: Content, options: &QueryOptions) -> Self {
        let whole = matches!(content, Content::Messages { .. });
        let expecting = matches!(content, Content::Lines { expecting: true, .. });
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
            expected::check_by_hash(key, expected::HASH, message, &expected::of(key))
        } else {
            expected::check_by_hash(key, u32::MAX, message, &self.expect)
        }
    }
}

/// The choice of the queries that are used.
#[derive(Debug)]
pub(super) struct QuerySampler {
    share: f64,
    rng: Rng,
}

impl QuerySampler {
    /// Makes the choice of one of the workers.
    pub(super) fn new(sample: Sample, worker: u32) -> Self {
        QuerySampler { share: sample.share, rng: Rng::part(sample.seed, worker.into()) }
    }

    /// Returns whether the next query is used.
    #[inline]
    pub(super) fn takes(&mut self) -> bool {
        self.rng.unit() < self.share
    }
}

impl FileWorkload {
    /// Returns the key of the record at `at` and the range of its question in the chunk; reads the next
    /// chunk if necessary.
    #[inline]
    fn record(&mut self) -> (u32, std::ops::Range<usize>) {
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
        self.compiled = self.file.shared.has_read(self.at);
        self.chunk.resize(CHUNK.min((self.compiled.octets - self.at) as usize), 0);
        self.file
            .records
            .read_exact_at(&mut self.chunk, self.at)
            .expect("the unlinked temporary file is as long as it was written");
        (self.chunk_at, start) = (self.at, 0);
        whole(&self.chunk, start).expect("a chunk is longer than a record")
    }

    /// Moves to the end of a record of this length.
    #[inline]
    fn pass(&mut self, record: &std::ops::Range<usize>) {
        self.at += (HEAD + record.len()) as u64;
    }

    /// Returns whether all passes over the file are done.
    #[inline]
    fn is_used_up(&self) -> bool {
        let (worker, workers) = self.turn;
        let runs = self.runs.filter(|_| self.compiled.done && !self.compiled.failed);
        runs.is_some_and(|runs| {
            let all = self.compiled.queries.saturating_mul(runs);
            self.taken >= all.saturating_sub(worker).div_ceil(workers)
        })
    }

    /// Moves to the next record of this worker, with `look` also to a newly compiled one; returns
    /// whether there is one (`false` after an error), or `None` if that is not known yet.
    #[inline]
    fn find(&mut self, look: bool) -> Option<bool> {
        loop {
            if self.at == self.compiled.octets {
                if look && !self.compiled.done {
                    self.compiled = self.file.shared.has_read(self.at);
                }
                match self.compiled {
                    Compiled { octets, .. } if self.at < octets => {}
                    Compiled { done: false, .. } => return None,
                    Compiled { failed: true, .. } => {
                        self.file.shared.lock().met_error = true;
                        return Some(false);
                    }
                    _ => self.at = 0,
                }
            }
            if self.skip == 0 {
                return Some(true);
            }
            let (_, record) = self.record();
            self.pass(&record);
            self.skip -= 1;
        }
    }

    /// Takes the next record of this worker: its key, and its range in the chunk.
    #[inline]
    fn take(&mut self) -> Option<(u32, std::ops::Range<usize>)> {
        if self.is_used_up() || self.find(false) != Some(true) || self.is_used_up() {
            return None;
        }
        let (key, record) = self.record();
        self.pass(&record);
        (self.taken, self.skip) = (self.taken + 1, self.turn.1 - 1);
        Some((key, record))
    }
}

impl Workload for FileWorkload {
    #[inline]
    fn is_ready(&mut self) -> bool {
        self.is_used_up() || self.find(true).is_some()
    }

    #[inline]
    fn room(&self) -> usize {
        self.compiled.longest.max(MAX_QUERY)
    }

    #[inline]
    fn next(&mut self, out: &mut [u8]) -> Option<ComposedQuery> {
        let (mut key, mut record) = self.take()?;
        while self.sample.as_mut().is_some_and(|chance| !chance.takes()) {
            (key, record) = self.take()?;
        }
        Some(ComposedQuery { len: self.form.compose(&self.chunk[record], out), key })
    }

    #[inline]
    fn check(&mut self, key: u32, message: &[u8]) -> Result<u8, Invalid> {
        self.form.check(key, message)
    }
}

#[cfg(test)]
mod tests;
