//! Queries that are read while they are sent: from the standard input or a pipe, which may never end.
//!
//! ```text
//! pipe ──lines or messages──> chunks of records ──a bounded channel──> workers, a chunk each
//! ```
//!
//! At most `CHUNKS_AHEAD` chunks of `CHUNK` octets, 4 MiB, are read ahead; a chunk is passed on when it is full or the next read may wait.
//! Each of n Testers that read equal pipes keeps every n-th query; of these a sample keeps a share, chosen by chance.
//! A pipe that ends within its first `MAX_KEPT_OCTETS` octets of records is used again like a file; a longer one is used once.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use measure::Slice;
use wire::Invalid;

use super::file::{Form, QueryOptions, QuerySampler};
pub use super::read::Content;
use super::read::{BadLines, HEAD, QueryFileError, RecordReceiver, head};
use super::{ComposedQuery, MAX_QUERY, Workload};

/// Largest number of chunks that are read ahead.
const CHUNKS_AHEAD: usize = 64;
/// Size of a chunk in octets, but for its last record.
const CHUNK: usize = 64 << 10;
/// Largest size of records that are used again, in octets.
const MAX_KEPT_OCTETS: usize = 16 << 20;

/// Queries that come while they are sent.
#[derive(Clone, Debug)]
pub struct Feed {
    shared: Arc<SharedFeed>,
    /// Whether workers return used chunks.
    returns: bool,
}

#[derive(Debug)]
struct SharedFeed {
    content: Content,
    chunks: Mutex<Receiver<Vec<u8>>>,
    /// Records that a worker gave back.
    returned: Mutex<Vec<Vec<u8>>>,
    /// Number of queries that workers have taken.
    taken: AtomicU64,
    /// Whether workers had to wait for queries, or there are no more.
    short: AtomicBool,
    /// Whether a worker met the end.
    ended: AtomicBool,
    /// Length of the longest record so far, in octets.
    longest: AtomicUsize,
    skipped: Mutex<Option<BadLines>>,
    error: Mutex<Option<QueryFileError>>,
}

impl Feed {
    /// Starts to read the `slice` of `input`; `path` is named in errors.
    pub fn start(
        input: impl Read + Send + 'static,
        path: &Path,
        content: Content,
        options: &QueryOptions,
        slice: Slice,
    ) -> Self {
        let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
        let shared = Arc::new(SharedFeed {
            content,
            chunks: Mutex::new(receiver),
            returned: Mutex::new(Vec::new()),
            taken: AtomicU64::new(0),
            short: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            longest: AtomicUsize::new(0),
            skipped: Mutex::new(None),
            error: Mutex::new(None),
        });
        let (weak, path, runs) = (Arc::downgrade(&shared), path.to_owned(), options.runs);
        let mut chunks = Chunks {
            sender,
            shared: weak,
            chunk: Vec::new(),
            kept: (runs != Some(1)).then(Vec::new),
            octets: 0,
            seen: 0,
            slice,
            sample: options.sample.map(|sample| QuerySampler::new(sample, slice.worker(0))),
        };
        std::thread::spawn(move || {
            let read = content.read(input, &path, &mut chunks);
            let passed_on = chunks.pause();
            let error = read.and(passed_on).and_then(|()| chunks.again(&path, runs)).err();
            if let (Some(error), Some(shared)) = (error, chunks.shared.upgrade()) {
                *lock(&shared.error) = Some(error);
            }
            // A worker that reaches the end finds the error of the input.
            drop(chunks);
        });
        Feed { shared, returns: false }
    }

    /// Starts a run: its queries are counted from 0.
    pub fn begin(&self) {
        self.shared.taken.store(0, Ordering::Relaxed);
        self.shared.short.store(false, Ordering::Relaxed);
        self.shared.ended.store(false, Ordering::Relaxed);
    }

    /// Waits for the first queries.
    ///
    /// # Errors
    /// If there is none.
    pub fn wait(&self) -> Result<(), QueryFileError> {
        let first = lock(&self.shared.chunks).recv();
        let error = first.is_err().then(|| lock(&self.shared.error).take()).flatten();
        lock(&self.shared.returned).extend(first);
        error.map_or(Ok(()), Err)
    }

    /// Returns the same queries for a trial before the load, which does not consume them.
    pub fn for_asking(&self) -> Self {
        Feed { shared: self.shared.clone(), returns: true }
    }

    /// Returns the number of queries that workers have taken in this run, if they had to wait for
    /// queries or took all.
    pub fn taken_if_short(&self) -> Option<u64> {
        let short = self.shared.short.load(Ordering::Relaxed);
        short.then(|| self.shared.taken.load(Ordering::Relaxed))
    }

    /// Returns the error that ended the reading, once; none as long as no worker met the end, which is read ahead.
    pub fn take_error(&self) -> Option<QueryFileError> {
        if !self.shared.ended.load(Ordering::Relaxed) {
            return None;
        }
        let error = lock(&self.shared.error).take();
        error.filter(|error| !matches!(error, QueryFileError::Over))
    }

    /// Returns the lines that were skipped so far.
    pub fn skipped(&self) -> Option<BadLines> {
        lock(&self.shared.skipped).clone()
    }

    /// Makes the stream of a worker.
    ///
    /// # Panics
    /// When the EDNS options are too long for a query.
    pub fn workload(&self, options: &QueryOptions) -> FeedWorkload {
        let form = Form::new(self.shared.content, options);
        FeedWorkload { feed: self.clone(), form, chunk: Vec::new(), at: 0 }
    }
}

/// Locks a mutex also after a panic of its holder: its data are always valid.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writer of compiled queries into chunks for the workers.
struct Chunks {
    sender: SyncSender<Vec<u8>>,
    shared: Weak<SharedFeed>,
    chunk: Vec<u8>,
    /// All chunks so far, if they are few enough to be used again.
    kept: Option<Vec<Vec<u8>>>,
    octets: usize,
    /// Number of queries so far, including those of other slices.
    seen: u64,
    slice: Slice,
    sample: Option<QuerySampler>,
}

impl Chunks {
    fn send(&self, chunk: Vec<u8>) -> Result<(), QueryFileError> {
        self.sender.send(chunk).map_err(|_| QueryFileError::Over)
    }

    /// Passes all chunks on again until they were used `runs` times.
    fn again(&mut self, path: &Path, runs: Option<u64>) -> Result<(), QueryFileError> {
        match (self.seen, self.octets) {
            (0, _) => return Err(QueryFileError::Empty(PathBuf::from(path))),
            // No query belongs to this slice.
            (_, 0) => return Ok(()),
            _ => {}
        }
        let kept = match (self.kept.take(), runs) {
            (Some(kept), _) => kept,
            (None, None | Some(1)) => return Ok(()),
            (None, Some(runs)) => {
                let (path, most) = (PathBuf::from(path), MAX_KEPT_OCTETS);
                return Err(QueryFileError::TooLong { path, most, runs });
            }
        };
        let mut chunks = (1..runs.unwrap_or(u64::MAX)).flat_map(|_| &kept);
        chunks.try_for_each(|chunk| self.send(chunk.clone()))
    }
}

impl RecordReceiver for Chunks {
    fn push(&mut self, key: u32, bytes: &[u8]) -> Result<(), QueryFileError> {
        self.seen += 1;
        if !self.slice.has(self.seen - 1) || self.sample.as_mut().is_some_and(|c| !c.takes()) {
            return Ok(());
        }
        self.chunk.extend(head(key, bytes));
        self.chunk.extend_from_slice(bytes);
        if bytes.len() > MAX_QUERY
            && let Some(shared) = self.shared.upgrade()
        {
            shared.longest.fetch_max(bytes.len(), Ordering::Relaxed);
        }
        if self.chunk.len() < CHUNK { Ok(()) } else { self.pause() }
    }

    fn bad_line(&mut self, bad: BadLines) -> Result<(), QueryFileError> {
        let shared = self.shared.upgrade().ok_or(QueryFileError::Over)?;
        if !shared.content.skips_bad_lines() {
            return Err(QueryFileError::BadLines(bad));
        }
        bad.add_to(&mut lock(&shared.skipped));
        Ok(())
    }

    fn pause(&mut self) -> Result<(), QueryFileError> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.chunk);
        self.octets += chunk.len();
        self.kept = self.kept.take().filter(|_| self.octets <= MAX_KEPT_OCTETS);
        if let Some(kept) = &mut self.kept {
            kept.push(chunk.clone());
        }
        self.send(chunk)
    }
}

/// The stream of queries of one worker.
#[derive(Debug)]
pub struct FeedWorkload {
    feed: Feed,
    form: Form,
    chunk: Vec<u8>,
    /// Position of the next record in the chunk.
    at: usize,
}

impl Workload for FeedWorkload {
    fn room(&self) -> usize {
        self.feed.shared.longest.load(Ordering::Relaxed).max(MAX_QUERY)
    }

    #[inline]
    fn is_ready(&mut self) -> bool {
        if self.at < self.chunk.len() {
            return true;
        }
        let shared = &self.feed.shared;
        let next = lock(&shared.returned).pop().map_or_else(|| lock(&shared.chunks).try_recv(), Ok);
        match next {
            Ok(chunk) => {
                (self.chunk, self.at) = (chunk, 0);
                true
            }
            Err(why) => {
                shared.short.store(!self.feed.returns, Ordering::Relaxed);
                // At the end there are no queries to wait for.
                let is_end = why == TryRecvError::Disconnected;
                shared.ended.fetch_or(is_end && !self.feed.returns, Ordering::Relaxed);
                is_end
            }
        }
    }

    #[inline]
    fn next(&mut self, out: &mut [u8]) -> Option<ComposedQuery> {
        let bytes = self.chunk.get(self.at..self.at + HEAD)?;
        let len = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        let key = u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
        let start = self.at + HEAD;
        self.at = start + len;
        self.feed.shared.taken.fetch_add(u64::from(!self.feed.returns), Ordering::Relaxed);
        Some(ComposedQuery { len: self.form.compose(&self.chunk[start..self.at], out), key })
    }

    #[inline]
    fn check(&mut self, key: u32, message: &[u8]) -> Result<u8, Invalid> {
        self.form.check(key, message)
    }
}

impl Drop for FeedWorkload {
    fn drop(&mut self) {
        let sent = if self.feed.returns { 0 } else { self.at };
        let rest = self.chunk.split_off(sent);
        if !rest.is_empty() {
            lock(&self.feed.shared.returned).push(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Write, pipe};

    use super::*;

    /// The first octet of the name of the next query, waited for; `None` at the end.
    fn next(workload: &mut FeedWorkload) -> Option<u8> {
        while !workload.is_ready() {
            std::thread::yield_now();
        }
        let mut out = [0; MAX_QUERY];
        workload.next(&mut out).map(|_| out[13])
    }

    fn start(
        input: impl Read + Send + 'static,
        content: Content,
        runs: Option<u64>,
        slice: Slice,
    ) -> Feed {
        let options = QueryOptions { runs, ..QueryOptions::default() };
        Feed::start(input, Path::new("-"), content, &options, slice)
    }

    fn feed(text: &'static str, runs: Option<u64>) -> Feed {
        start(text.as_bytes(), Content::LINES, runs, Slice::default())
    }

    #[test]
    fn slices_of_an_endless_pipe_are_dealt_out() {
        for number in 1..=3 {
            let slice = Slice::new(number, 3).expect("a slice");
            let endless = Endless(0);
            let mut workload =
                start(endless, Content::LINES, Some(1), slice).workload(&QueryOptions::default());
            let own = b"abc"[number as usize - 1];
            (0..100_000).for_each(|_| assert_eq!(next(&mut workload), Some(own)));
            // Of too few queries some slices have none.
            let few = start(&b"a.x A\nb.x A\n"[..], Content::LINES, None, slice);
            let first = next(&mut few.workload(&QueryOptions::default()));
            assert_eq!(
                (first, few.take_error().is_none()),
                ([Some(b'a'), Some(b'b'), None][number as usize - 1], true)
            );
        }
    }

    /// An input that repeats three queries for ever.
    struct Endless(usize);

    impl Read for Endless {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let text = b"a.x A\nb.x A\nc.x A\n";
            for octet in &mut *out {
                *octet = text[self.0 % text.len()];
                self.0 += 1;
            }
            Ok(out.len())
        }
    }

    #[test]
    fn a_short_pipe_is_used_again() {
        let mut workload = feed("a.x A\nb.x A\n", Some(3)).workload(&QueryOptions::default());
        let all: Vec<u8> = std::iter::from_fn(|| next(&mut workload)).collect();
        assert_eq!(all, b"ababab");
        let mut workload = feed("a.x A\nb.x A\n", None).workload(&QueryOptions::default());
        let many: Vec<u8> = (0..1_000).filter_map(|_| next(&mut workload)).collect();
        assert_eq!(many, b"ab".repeat(500));
    }

    #[test]
    fn queries_come_one_by_one_and_those_asked_first_come_again() {
        let (input, mut output) = pipe().expect("a pipe");
        let feed = start(input, Content::LINES, Some(1), Slice::default());
        output.write_all(b"a.x A\n").expect("written");
        assert_eq!(next(&mut feed.for_asking().workload(&QueryOptions::default())), Some(b'a'));
        let mut workload = feed.workload(&QueryOptions::default());
        assert_eq!((next(&mut workload), feed.taken_if_short()), (Some(b'a'), None));
        assert!(!workload.is_ready());
        assert_eq!(feed.taken_if_short(), Some(1));
        output.write_all(b"b.x A\n").expect("written");
        assert_eq!(next(&mut workload), Some(b'b'));
        drop(output);
        assert_eq!((next(&mut workload), feed.taken_if_short()), (None, Some(2)));
    }

    #[test]
    fn each_run_counts_its_own_queries_and_leaves_the_others() {
        let (input, mut output) = pipe().expect("a pipe");
        let feed = start(input, Content::LINES, Some(1), Slice::default());
        output.write_all(b"a.x A\nb.x A\n").expect("written");
        feed.wait().expect("two queries");
        output.write_all(b"c.x AX\n").expect("written");
        let mut workload = feed.workload(&QueryOptions::default());
        assert_eq!(next(&mut workload), Some(b'a'));
        drop(workload);
        // The bad line was only read ahead.
        assert!(feed.take_error().is_none());
        feed.begin();
        let mut workload = feed.workload(&QueryOptions::default());
        assert_eq!((next(&mut workload), feed.taken_if_short()), (Some(b'b'), None));
        assert_eq!((next(&mut workload), feed.taken_if_short()), (None, Some(1)));
        assert!(feed.take_error().is_some());
    }

    /// The queries of a long pipe are sent once; that they cannot be sent again is an error.
    #[test]
    fn a_long_pipe_is_used_once() {
        let line = format!("{}.x A\n", ["x"; 3].map(|label| label.repeat(60)).join("."));
        let (lines, length) = (MAX_KEPT_OCTETS as u64 / line.len() as u64, line.len());
        for (runs, is_error) in [(None, false), (Some(2), true)] {
            let text = std::io::Cursor::new(line.repeat(lines as usize));
            let feed = start(text, Content::LINES, runs, Slice::default());
            let mut workload = feed.workload(&QueryOptions::default());
            let sent = std::iter::from_fn(|| next(&mut workload)).count() as u64;
            assert_eq!((sent, feed.take_error().is_some()), (lines, is_error), "{length}");
        }
    }

    #[test]
    fn reading_ahead_has_a_bound() {
        // More than the channel and the pipe hold: the writer waits for the workers.
        let (input, mut output) = pipe().expect("a pipe");
        let feed = start(input, Content::LINES, Some(1), Slice::default());
        let writer = std::thread::spawn(move || {
            let lines = "a.x A\n".repeat(1_000);
            (0..1_000_000).find(|_| output.write_all(lines.as_bytes()).is_err())
        });
        let mut workload = feed.workload(&QueryOptions::default());
        (0..100_000).for_each(|_| assert_eq!(next(&mut workload), Some(b'a')));
        drop((workload, feed));
        assert!(writer.join().expect("it ends").is_some_and(|written| written < 2_000));
    }

    #[test]
    fn bad_lines_are_skipped_where_that_is_wanted() {
        let content = Content::Lines { expecting: false, skip_bad: true };
        let text = "a.x A\nb.x AX\nc.x A\nd.x\n".as_bytes();
        let feed = start(text, content, Some(2), Slice::default());
        let mut workload = feed.workload(&QueryOptions::default());
        let all: Vec<u8> = std::iter::from_fn(|| next(&mut workload)).collect();
        assert_eq!((&*all, feed.take_error().is_none()), (&b"acac"[..], true));
        let skipped = feed.skipped().expect("two lines");
        assert!(skipped.to_string().starts_with("-:2:5: `AX`"), "{skipped}");
        assert_eq!(skipped.count(), 2);
    }

    #[test]
    fn errors_end_the_stream_and_are_told_once() {
        for (text, why) in
            [("a.x A\nb.x AX\n", "-:2:5: `AX`"), ("; c\n", "-: the file has no query")]
        {
            let feed = feed(text, Some(1));
            let mut asking = feed.for_asking().workload(&QueryOptions::default());
            while next(&mut asking).is_some() {}
            drop(asking);
            assert!(feed.take_error().is_none());
            let mut workload = feed.workload(&QueryOptions::default());
            let sent = std::iter::from_fn(|| next(&mut workload)).count();
            assert_eq!(sent, text.matches(" A\n").count());
            let error = feed.take_error();
            assert!(error.is_some_and(|error| error.to_string().starts_with(why)), "{text}");
            assert!(feed.take_error().is_none());
        }
    }
}
