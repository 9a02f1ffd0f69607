//! The comparison: all queries once, then those whose answers differ a second time.
//!
//! ```text
//!   Spool ──> worker: wait until due, ask all servers, compare ──> equal, or into a second Spool
//!             (as many as the window; one lock on the Spool)             └──> worker: ask again ──> verdict
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use measure::Nanos;
use record::{AnswerDiff, AnswerDifference, AnswerVerdict, SCHEMA};
use streams::client::Dialer;

use crate::answer::Question;
use crate::ask::{Askers, QueriedServer};
use crate::compare::{Outcome, Terms};
use crate::kind::{DifferenceKind, Kinds};
use crate::known::KnownDifferences;
use crate::shown;
use crate::spool::{QueryReplies, Raw, Spool, SpoolReader, SpoolWriter};
use crate::stable::Pairs;
use crate::tally::Tally;

/// Number of queries after which a server that has not answered any ends the comparison: the least
/// number, and the factor of the window.
const SILENT_QUERIES: (u64, u64) = (32, 4);
/// Longest time that a query waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(86_400);

/// One of the compared sides: a server or the capture.
#[derive(Clone, Debug)]
pub enum Side {
    /// The replies of the capture that the queries come from.
    Captured,
    /// A server that is asked.
    Server {
        /// The server as the user named it.
        name: String,
        /// Address and port that queries are sent to.
        address: SocketAddr,
        /// How it is connected to; `None` for UDP, and TCP where a reply is truncated.
        dialer: Option<Box<Dialer>>,
    },
}

impl Side {
    fn name(&self) -> &str {
        match self {
            Side::Captured => "captured",
            Side::Server { name, .. } => name,
        }
    }
}

/// When each query is sent for the first time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At most this number a second, to each server.
    Rate(f64),
    /// At the times of the capture, faster by a factor.
    Captured {
        /// Factor: 2 replays the capture in half of its time.
        speed: f64,
    },
}

/// Settings of a comparison, checked by the caller.
#[derive(Clone, Debug)]
pub struct Diff {
    /// The sides, at least two; at most the first is `Captured`.
    pub sides: Vec<Side>,
    /// What counts as a difference.
    pub terms: Terms,
    /// Differences that the user expects, which are counted separately.
    pub known: KnownDifferences,
    /// When the queries of the first asking are sent.
    pub pace: Pace,
    /// Largest rate of repeated queries, in queries per second to each server.
    pub again_qps: f64,
    /// Number of outstanding queries.
    pub window: u16,
    /// Longest time from a query to its reply.
    pub timeout: Duration,
    /// Time between the two askings.
    pub pause: Duration,
}

/// Counters of a running comparison.
#[derive(Debug, Default)]
pub struct Progress {
    /// Number of queries sent so far, repetitions not counted.
    pub asked: AtomicU64,
    /// Number of queries whose answers differ.
    pub unlike: AtomicU64,
    /// Number of queries that were sent again.
    pub again: AtomicU64,
}

/// Takes each query whose answers differ.
type Lines<'a> = dyn FnMut(&AnswerDifference) -> io::Result<()> + Send + 'a;

struct SharedDiff<'a> {
    diff: &'a Diff,
    progress: &'a Progress,
    stop: &'a AtomicBool,
    began: Instant,
    tally: Mutex<Tally>,
    /// Set when no further query is to be sent.
    over: AtomicBool,
    end_reason: Mutex<Option<String>>,
    failed: Mutex<Option<io::Error>>,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counters and files stay valid after a panic of their holder.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Diff {
    /// Compares the answers to all queries; `lines` gets each query whose answers differ, in any order.
    ///
    /// # Errors
    /// If a temporary file or `lines` fails.
    pub fn run(
        &self,
        queries: &Spool,
        lines: &mut Lines<'_>,
        progress: &Progress,
        stop: &AtomicBool,
    ) -> io::Result<AnswerDiff> {
        let shared = SharedDiff {
            diff: self,
            progress,
            stop,
            began: Instant::now(),
            tally: Mutex::new(Tally::new(self.sides.iter().map(Side::name))),
            over: AtomicBool::new(false),
            end_reason: Mutex::new(None),
            failed: Mutex::new(None),
        };
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unlike = Mutex::new(SpoolWriter::new()?);
        shared
            .each(queries.read()?, self.pace, |askers, entry| shared.first(askers, entry, &unlike));
        let unlike = unlike.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
        if unlike.count() > 0 && shared.wait(Instant::now() + self.pause) {
            let lines = Mutex::new(lines);
            shared.each(unlike.read()?, Pace::Rate(self.again_qps), |askers, entry| {
                shared.second(askers, entry, &lines)
            });
        }
        if let Some(error) = lock(&shared.failed).take() {
            return Err(error);
        }
        let mut record = self.record(queries);
        record.started_unix_s = started.as_secs_f64();
        record.elapsed_s = shared.began.elapsed().as_secs_f64();
        record.incomplete = lock(&shared.end_reason).take();
        if stop.load(Ordering::Relaxed) {
            record.incomplete.get_or_insert_with(|| "it was interrupted".to_owned());
        }
        let tally = shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        if record.incomplete.is_none()
            && let Some((name, why)) = tally.silent()
        {
            record.incomplete = Some(format!("{name} answered no query{why}"));
        }
        tally.finish(&mut record);
        record.unchecked = unlike.count() - (record.differ + record.known + record.unstable);
        Ok(record)
    }

    /// Returns a record with the settings.
    fn record(&self, queries: &Spool) -> AnswerDiff {
        AnswerDiff {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            queries: queries.count(),
            rate_qps: match self.pace {
                Pace::Rate(qps) => Some(qps),
                Pace::Captured { .. } => None,
            },
            window: self.window.into(),
            timeout_s: self.timeout.as_secs_f64(),
            ttl: self.terms.ttl.to_string(),
            ignored: self.terms.ignored.words(),
            ..AnswerDiff::default()
        }
    }
}

impl SharedDiff<'_> {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
    }

    /// Ends the comparison, for the first reason given.
    fn end(&self, why: String) {
        lock(&self.end_reason).get_or_insert(why);
        self.over.store(true, Ordering::Relaxed);
    }

    /// Waits until a query is due; false when all is over before.
    fn wait(&self, due: Instant) -> bool {
        zone::wait_until(due, || self.is_over())
    }

    /// Lets the workers handle all queries of a file, each when it is due.
    fn each(
        &self,
        source: SpoolReader,
        pace: Pace,
        handle: impl Fn(&mut Askers, QueryReplies) -> io::Result<()> + Sync,
    ) {
        let source = Mutex::new((source, 0u64));
        let began = Instant::now();
        let next = || -> io::Result<Option<(QueryReplies, Instant)>> {
            let (source, place) = &mut *lock(&source);
            let Some(entry) = source.next()? else { return Ok(None) };
            let due = match pace {
                Pace::Rate(qps) => *place as f64 / qps,
                Pace::Captured { speed } => entry.at.as_secs_f64() / speed,
            };
            *place += 1;
            // It never waits for longer than a day.
            let due = Duration::try_from_secs_f64(due).unwrap_or(MAX_WAIT).min(MAX_WAIT);
            Ok(Some((entry, began + due)))
        };
        let work = |worker: u16| -> io::Result<()> {
            let mut askers = Askers::new(&self.queried(), self.diff.timeout, worker);
            while let Some((entry, due)) = next()? {
                if !self.wait(due) {
                    break;
                }
                handle(&mut askers, entry)?;
            }
            Ok(())
        };
        let work = &work;
        std::thread::scope(|scope| {
            for worker in 0..self.diff.window.max(1) {
                scope.spawn(move || {
                    if let Err(error) = work(worker) {
                        lock(&self.failed).get_or_insert(error);
                        self.over.store(true, Ordering::Relaxed);
                    }
                });
            }
        });
    }

    /// Returns the sides that are servers, to which queries are sent; a capture is no server.
    fn queried(&self) -> Vec<QueriedServer> {
        let queried = |side: &Side| match side {
            Side::Captured => None,
            Side::Server { address, dialer, .. } => {
                Some(QueriedServer { address: *address, dialer: dialer.as_deref().cloned() })
            }
        };
        self.diff.sides.iter().filter_map(queried).collect()
    }

    /// Returns the answers of all sides: the captured one first, if there is one.
    fn ask(&self, askers: &mut Askers, entry: &QueryReplies) -> Vec<Raw> {
        let captured = match self.diff.sides.first() {
            Some(Side::Captured) => Some(entry.replies.first().cloned().unwrap_or(Raw::Timeout)),
            _ => None,
        };
        captured.into_iter().chain(askers.ask(&entry.query, entry.tcp)).collect()
    }

    fn first(
        &self,
        askers: &mut Askers,
        entry: QueryReplies,
        unlike: &Mutex<SpoolWriter>,
    ) -> io::Result<()> {
        let raw = self.ask(askers, &entry);
        let seen: Vec<Outcome> = raw.iter().map(Outcome::of).collect();
        let equal = Pairs::of(&seen, &self.diff.terms).all().is_empty();
        let mut tally = lock(&self.tally);
        tally.count(&raw, &seen);
        tally.equal += u64::from(equal);
        let silence = SILENT_QUERIES.0.max(SILENT_QUERIES.1 * u64::from(self.diff.window));
        if tally.asked == silence
            && let Some((name, why)) = tally.silent()
        {
            self.end(format!("{name} answered none of the first {silence} queries{why}"));
        }
        drop(tally);
        self.progress.asked.fetch_add(1, Ordering::Relaxed);
        if equal {
            return Ok(());
        }
        self.progress.unlike.fetch_add(1, Ordering::Relaxed);
        let at = Nanos::from(self.began.elapsed());
        lock(unlike).add(&QueryReplies { at, replies: raw, ..entry })
    }

    /// Repeats a query and decides whether the difference is stable.
    fn second(
        &self,
        askers: &mut Askers,
        entry: QueryReplies,
        lines: &Mutex<&mut Lines<'_>>,
    ) -> io::Result<()> {
        let again = self.ask(askers, &entry);
        let aged = Nanos::from(self.began.elapsed()).since(entry.at);
        // TTLs are whole seconds, and the server counts them down at its own moments.
        let aged_s = aged.as_secs_f64().ceil() as u32 + 1;
        let [first, second] = [&entry.replies, &again]
            .map(|raw| raw.iter().map(Outcome::of).collect::<Vec<Outcome>>());
        let stable = Pairs::stable(&first, &second, &self.diff.terms, aged_s);
        let (verdict, kind, kinds, pairs) = match stable.all() {
            Kinds::NONE => {
                let pairs = Pairs::of(&first, &self.diff.terms);
                (AnswerVerdict::Unstable, pairs.all().first(), pairs.all(), pairs)
            }
            kinds => {
                let question = Question::read(&entry.query);
                let known =
                    question.map_or(Kinds::NONE, |q| self.diff.known.kinds(&q.name, q.qtype));
                match kinds.without(known).first() {
                    Some(new) => (AnswerVerdict::Differs, Some(new), kinds, stable),
                    None => (AnswerVerdict::Known, kinds.first(), kinds, stable),
                }
            }
        };
        // The file has only queries with different answers.
        let kind = kind.unwrap_or(DifferenceKind::Answer);
        let shown = if verdict == AnswerVerdict::Unstable { &entry.replies } else { &again };
        let found = difference(&entry, verdict, kind, kinds, pairs.groups(), shown);
        let written = (lock(lines))(&found);
        lock(&self.tally).add(found, kind, kinds, &pairs);
        self.progress.again.fetch_add(1, Ordering::Relaxed);
        written
    }
}

/// Returns the record of a query whose answers differ.
fn difference(
    entry: &QueryReplies,
    verdict: AnswerVerdict,
    kind: DifferenceKind,
    kinds: Kinds,
    groups: Vec<Vec<usize>>,
    answers: &[Raw],
) -> AnswerDifference {
    let question = Question::read(&entry.query);
    let text = |of: fn(&Question) -> String| question.as_ref().map(of).unwrap_or_default();
    AnswerDifference {
        number: entry.number,
        name: text(|question| shown::absolute(&question.name)),
        class: text(|question| question.qclass.to_string()),
        qtype: text(|question| question.qtype.to_string()),
        verdict,
        kind: kind.word().to_owned(),
        kinds: kinds.words(),
        groups,
        answers: answers.iter().map(|raw| shown::render(raw, &entry.query)).collect(),
    }
}
