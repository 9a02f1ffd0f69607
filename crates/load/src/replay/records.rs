//! Recordings: the queries of a capture in an unlinked temporary file, in the order of their due times.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use measure::Nanos;
use wire::Header;

use crate::workload::message_key;

/// Longest query in bytes: as much as a datagram holds.
pub(crate) const MAX_REPLAYED: usize = 65_507;
/// Bytes read at a time.
const CHUNK: usize = 256 << 10;
/// Bytes in front of each query: time (8), hash of the question (4), client (4), length (2).
const HEAD_OCTETS: usize = 18;
/// Largest number of queries that are sorted; they take a gibibyte.
const MAX_SORTED: u64 = 1 << 26;

/// Number of queries of one client, and their distance in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientLoad {
    /// Number of queries in the recording.
    pub(crate) queries: u64,
    /// Upper bound of the number of queries within the recorder's window.
    pub(crate) peak: u32,
    /// Queries in the current stretch as long as the window, in the one before, and the number of the current one.
    current: u32,
    before: u32,
    stretch: u64,
}

impl ClientLoad {
    /// Counts a query in the stretch with this number. Any window touches two neighbouring stretches at most.
    fn add(&mut self, stretch: u64) {
        if stretch != self.stretch {
            self.before = if stretch == self.stretch + 1 { self.current } else { 0 };
            (self.current, self.stretch) = (0, stretch);
        }
        self.queries += 1;
        self.current = self.current.saturating_add(1);
        self.peak = self.peak.max(self.current.saturating_add(self.before));
    }
}

/// Records the queries of a capture.
pub struct Recorder {
    out: BufWriter<File>,
    first: Option<Nanos>,
    last: Nanos,
    /// Whether a query is older than the one before it, or far from it.
    is_mixed: bool,
    len: u64,
    queries: u64,
    far: u64,
    window: Nanos,
    clients: Vec<ClientLoad>,
}

impl Recorder {
    /// Starts an empty recording. Queries of a client within `window` may be outstanding together.
    ///
    /// # Errors
    /// When the temporary file cannot be created.
    pub fn new(window: Nanos) -> io::Result<Self> {
        let out = BufWriter::with_capacity(CHUNK, tempfile::tempfile()?);
        Ok(Recorder {
            out,
            first: None,
            last: Nanos::ZERO,
            is_mixed: false,
            len: 0,
            queries: 0,
            far: 0,
            window: window.max(Nanos(1)),
            clients: Vec::new(),
        })
    }

    /// Adds a query that arrived `at` from client number `client`; clients are numbered from 0 in the order of their
    /// first queries. Returns whether it can be replayed: it needs a header and must fit a datagram.
    ///
    /// # Errors
    /// When the temporary file cannot be written.
    pub fn add(&mut self, at: Nanos, client: u32, query: &[u8]) -> io::Result<bool> {
        if Header::read(query).is_none() || query.len() > MAX_REPLAYED {
            return Ok(false);
        }
        let first = *self.first.get_or_insert(at);
        self.is_mixed |= self.queries > 0 && (at < self.last || at.since(self.last) >= Nanos::YEAR);
        self.last = at;
        let hash = message_key(query);
        self.out.write_all(&at.0.to_le_bytes())?;
        self.out.write_all(&hash.to_le_bytes())?;
        self.out.write_all(&client.to_le_bytes())?;
        self.out.write_all(&(query.len() as u16).to_le_bytes())?;
        self.out.write_all(query)?;
        self.len += (HEAD_OCTETS + query.len()) as u64;
        self.queries += 1;
        let needed = client as usize + 1;
        if self.clients.len() < needed {
            self.clients.resize(needed, ClientLoad::default());
        }
        self.clients[client as usize].add(at.since(first).0 / self.window.0);
        Ok(true)
    }

    /// Returns the size of the records so far.
    pub fn octets(&self) -> u64 {
        self.len
    }

    /// Records the queries again in the order of their times, without those that are a year or more from most of them.
    fn sorted(self) -> io::Result<Self> {
        if self.queries > MAX_SORTED {
            let why = "queries out of order: sort the capture (`reordercap`)";
            return Err(io::Error::other(format!("more than {MAX_SORTED} {why}")));
        }
        let mut file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let mut input = BufReader::with_capacity(CHUNK, &file);
        let (mut places, mut at, mut head) = (Vec::new(), 0, [0; HEAD_OCTETS]);
        while at < self.len {
            input.read_exact(&mut head)?;
            let record = Record::of(&head, 0);
            places.push((record.due, at));
            input.seek_relative(record.len() as i64)?;
            at += (HEAD_OCTETS + record.len()) as u64;
        }
        places.sort_unstable();
        let eras = places.chunk_by(|(one, _), (next, _)| next.since(*one) < Nanos::YEAR);
        let kept = eras.max_by_key(|era| era.len()).unwrap_or_default();
        let (mut again, mut query) = (Recorder::new(self.window)?, Vec::new());
        for (_, at) in kept {
            file.read_exact_at(&mut head, *at)?;
            let record = Record::of(&head, 0);
            query.resize(record.len(), 0);
            file.read_exact_at(&mut query, at + HEAD_OCTETS as u64)?;
            again.add(record.due, record.client, &query)?;
        }
        again.far = self.queries - again.queries;
        Ok(again)
    }

    /// Returns the recording; `None` without queries. `period` is the time after which the next loop begins, if the
    /// recording knows it; otherwise it is the mean time between queries after the last one.
    ///
    /// # Errors
    /// When the temporary file cannot be written.
    pub fn finish(self, period: Option<Nanos>) -> io::Result<Option<Recording>> {
        let whole = if self.is_mixed { self.sorted()? } else { self };
        let Recorder { out, first, last, len, queries, far, clients, .. } = whole;
        let records = Arc::new(out.into_inner().map_err(io::IntoInnerError::into_error)?);
        let first = first.unwrap_or_default();
        let span = last.since(first);
        let mean = Nanos(span.0 / queries.saturating_sub(1).max(1));
        let period = period.unwrap_or(span + mean).max(span + Nanos(1));
        let clients = clients.into();
        let recording = Recording { records, len, queries, far, first, span, period, clients };
        Ok((queries > 0).then_some(recording))
    }
}

/// A recording: queries with their due times.
#[derive(Clone, Debug)]
pub struct Recording {
    records: Arc<File>,
    len: u64,
    /// Number of queries in one loop.
    pub queries: u64,
    /// Number of queries that are left out: their times are a year or more from those of most.
    pub far: u64,
    /// Time of the first query, as it was recorded.
    first: Nanos,
    /// Time from the first query to the last.
    pub span: Nanos,
    /// Time from the first query to the first one of the next loop.
    pub period: Nanos,
    clients: Arc<[ClientLoad]>,
}

impl Recording {
    /// Returns the number of clients.
    pub fn clients(&self) -> u32 {
        self.clients.len() as u32
    }

    /// Returns the time from the first query to the last of `loops` loops.
    pub fn span_of(&self, loops: u32) -> Nanos {
        let more = u64::from(loops.saturating_sub(1));
        Nanos(self.period.0.saturating_mul(more).saturating_add(self.span.0))
    }

    /// Returns the queries of a client.
    pub(crate) fn of_client(&self, client: u32) -> ClientLoad {
        self.clients.get(client as usize).copied().unwrap_or_default()
    }
}

/// One query of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) due: Nanos,
    pub(crate) hash: u32,
    pub(crate) client: u32,
    query: std::ops::Range<usize>,
}

impl Record {
    /// Reads the bytes in front of a query, which begins at `begin`; its due time is not yet
    /// adjusted.
    #[inline]
    fn of(head: &[u8; HEAD_OCTETS], begin: usize) -> Self {
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| head[at + i]));
        let due = Nanos(u64::from(number(4)) << 32 | u64::from(number(0)));
        let len = usize::from(u16::from_le_bytes([head[16], head[17]]));
        Record { due, hash: number(8), client: number(12), query: begin..begin + len }
    }

    /// Returns the length of the query in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.query.len()
    }

    /// Returns when the query is due at this speed.
    #[inline]
    pub(crate) fn due_at(&self, speed: f64) -> Nanos {
        if speed == 1.0 { self.due } else { Nanos((self.due.0 as f64 / speed) as u64) }
    }
}

/// The part of a recording that one worker replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Every n-th record, from that with the worker's number on.
    Records { worker: u32, workers: u32 },
    /// All records of every n-th client, from that with the worker's number on.
    Clients { worker: u32, workers: u32 },
}

/// Reads the records of one worker.
#[derive(Debug)]
pub(crate) struct RecordReader {
    recording: Recording,
    share: Share,
    /// Number of loops after the current one.
    loops_left: u32,
    /// Due time of the first record of the current loop.
    loop_at: Nanos,
    chunk: Vec<u8>,
    /// Position of the chunk in the file.
    chunk_at: u64,
    /// Position of the next record in the file.
    at: u64,
    /// Number of the next record, over all loops.
    number: u64,
}

impl RecordReader {
    /// Makes a reader of a share of `loops` loops.
    pub(crate) fn new(recording: Recording, share: Share, loops: u32) -> Self {
        let mut records = RecordReader {
            recording,
            share,
            loops_left: loops.saturating_sub(1),
            loop_at: Nanos::ZERO,
            chunk: Vec::with_capacity(CHUNK),
            chunk_at: 0,
            at: 0,
            number: 0,
        };
        records.skip_others();
        records
    }

    /// Returns the next record, read in if necessary; `None` at the end.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<Record> {
        if self.at >= self.recording.len {
            self.loops_left = self.loops_left.checked_sub(1)?;
            (self.at, self.loop_at) = (0, self.loop_at + self.recording.period);
        }
        if let Some(found) = self.in_chunk() {
            return Some(found);
        }
        self.chunk.resize(CHUNK.min((self.recording.len - self.at) as usize), 0);
        self.recording
            .records
            .read_exact_at(&mut self.chunk, self.at)
            .expect("the unlinked temporary file is as long as it was written");
        self.chunk_at = self.at;
        Some(self.in_chunk().expect("a chunk is longer than a record"))
    }

    #[inline]
    fn in_chunk(&self) -> Option<Record> {
        let start = usize::try_from(self.at.checked_sub(self.chunk_at)?).ok()?;
        let mut record = Record::of(self.chunk.get(start..)?.first_chunk()?, start + HEAD_OCTETS);
        record.due = self.loop_at + record.due.since(self.recording.first);
        (record.query.end <= self.chunk.len()).then_some(record)
    }

    /// Returns the query of the record that was returned last.
    #[inline]
    pub(crate) fn query(&self, record: &Record) -> &[u8] {
        &self.chunk[record.query.clone()]
    }

    /// Goes to the next record of this worker.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if self.skip_one() {
            self.skip_others();
        }
    }

    /// Goes to the next record; returns whether there was one.
    #[inline]
    fn skip_one(&mut self) -> bool {
        let Some(record) = self.peek() else { return false };
        self.at += (HEAD_OCTETS + record.len()) as u64;
        self.number += 1;
        true
    }

    /// Passes over the records of other workers.
    #[inline]
    fn skip_others(&mut self) {
        while let Some(record) = self.peek() {
            let own = match self.share {
                Share::Records { worker, workers } => {
                    self.number % u64::from(workers) == u64::from(worker)
                }
                Share::Clients { worker, workers } => record.client % workers == worker,
            };
            if own || !self.skip_one() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a query of twelve octets and more.
    fn query(number: u16) -> Vec<u8> {
        let mut query = vec![0; 12 + usize::from(number % 40)];
        query[..2].copy_from_slice(&number.to_be_bytes());
        query
    }

    proptest! {
        #[test]
        fn shares_are_all_records_in_order_and_loops_follow_the_period(
            gaps in prop::collection::vec((0u64..50, 0u32..9), 1..200), workers in 1u32..5, loops in 1u32..4, by_client: bool
        ) {
            let mut recorder = Recorder::new(Nanos(100)).expect("a place");
            let (mut at, mut wanted) = (Nanos::from_secs(5), Vec::new());
            for (number, (gap, client)) in (0u16..).zip(&gaps) {
                at += Nanos(*gap);
                assert!(recorder.add(at, *client, &query(number)).expect("room"));
                wanted.push((number, *client, at));
            }
            let first = wanted[0].2;
            let recording = recorder.finish(None).expect("room").expect("queries");
            let mut found = Vec::new();
            for worker in 0..workers {
                let share = match by_client {
                    true => Share::Clients { worker, workers },
                    false => Share::Records { worker, workers },
                };
                let mut reader = RecordReader::new(recording.clone(), share, loops);
                let mut last = Nanos::ZERO;
                while let Some(record) = reader.peek() {
                    prop_assert!(record.due >= last);
                    prop_assert!(!by_client || record.client % workers == worker);
                    last = record.due;
                    let octets = reader.query(&record);
                    let number = u16::from_be_bytes([octets[0], octets[1]]);
                    prop_assert_eq!(octets, &query(number)[..]);
                    found.push((number, record.client, record.due));
                    reader.advance();
                }
            }
            let all = (0..u64::from(loops)).flat_map(|round| {
                let period = recording.period;
                wanted.iter().map(move |&(number, client, at)| {
                    (number, client, at.since(first) + Nanos(period.0 * round))
                })
            });
            let mut all: Vec<_> = all.collect();
            prop_assert_eq!(all.last().map(|last| last.2), Some(recording.span_of(loops)));
            all.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, all);
        }

        /// Whatever the order in the capture, queries leave in that of their times; those of another year are left out.
        #[test]
        fn queries_are_sorted_and_the_era_of_most_is_kept(
            offsets in prop::collection::vec(0u64..1_000, 2..100), wrong in prop::collection::vec(any::<prop::sample::Index>(), 0..3)
        ) {
            const YEAR_2001: Nanos = Nanos::from_secs(1_000_000_000);
            let mut times: Vec<Nanos> = offsets.iter().map(|offset| YEAR_2001 + Nanos(*offset)).collect();
            for (index, at) in wrong.iter().zip([Nanos::ZERO, Nanos(u64::MAX), Nanos::from_secs(3_000_000_000)]) {
                times.insert(index.index(times.len()), at);
            }
            let mut recorder = Recorder::new(Nanos(100)).expect("a place");
            for (number, at) in (0u16..).zip(&times) {
                prop_assert!(recorder.add(*at, 0, &query(number)).expect("room"));
            }
            let recording = recorder.finish(None).expect("room").expect("queries");
            prop_assert_eq!((recording.far, recording.queries), (wrong.len() as u64, offsets.len() as u64));
            prop_assert_eq!(recording.of_client(0).queries, recording.queries);
            let share = Share::Records { worker: 0, workers: 1 };
            let mut reader = RecordReader::new(recording, share, 1);
            let first = YEAR_2001 + Nanos(*offsets.iter().min().expect("a query"));
            let mut found = Vec::new();
            while let Some(record) = reader.peek() {
                let octets = reader.query(&record);
                let number = usize::from(u16::from_be_bytes([octets[0], octets[1]]));
                prop_assert_eq!(times[number], first + record.due);
                found.push(record.due);
                reader.advance();
            }
            prop_assert!(found.is_sorted());
            prop_assert_eq!(found.len(), offsets.len());
        }

        #[test]
        fn the_peak_bounds_every_window(gaps in prop::collection::vec(0u64..60, 1..100)) {
            let mut recorder = Recorder::new(Nanos(100)).expect("a place");
            let mut times = vec![Nanos::ZERO];
            for gap in gaps {
                times.push(times[times.len() - 1] + Nanos(gap));
            }
            times.iter().for_each(|at| assert!(recorder.add(*at, 3, &query(1)).expect("room")));
            let recording = recorder.finish(None).expect("room").expect("queries");
            let within = |from: &Nanos| {
                times.iter().filter(|at| *from <= **at && at.since(*from) < Nanos(100)).count()
            };
            let most = times.iter().map(within).max().expect("a time");
            prop_assert!(recording.of_client(3).peak as usize >= most);
            prop_assert_eq!(recording.of_client(3).queries as usize, times.len());
            prop_assert_eq!((recording.clients(), recording.of_client(0).queries), (4, 0));
        }
    }
}
