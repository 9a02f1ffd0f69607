//! Queries and replies in an unlinked temporary file: written once, then read in the same order by
//! several workers, one worker at a time.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use measure::Nanos;

/// Bytes written and read at a time.
const CHUNK: usize = 256 << 10;

/// Reply of a server to a query, before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// A reply, whether it can be parsed or not.
    Message {
        /// The reply as on the wire.
        bytes: Vec<u8>,
        /// Whether the reply came over TCP: after a truncated reply over UDP, or because the query
        /// was sent over TCP.
        tcp: bool,
    },
    /// No reply came within the timeout.
    Timeout,
    /// An error of the socket, in words.
    Failed(String),
}

/// A query with replies to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryReplies {
    /// Number of the query, from 0.
    pub(crate) number: u64,
    /// Time of the query: since the first one in the capture, or since the start.
    pub(crate) at: Nanos,
    pub(crate) query: Vec<u8>,
    /// Whether this query is sent over TCP to servers that are otherwise queried over UDP.
    pub(crate) tcp: bool,
    /// The captured reply; after the first round, the reply of each side.
    pub(crate) replies: Vec<Raw>,
}

/// Writes the queries of a comparison into a temporary file.
pub struct SpoolWriter {
    out: BufWriter<File>,
    count: u64,
}

impl SpoolWriter {
    /// Makes an empty temporary file.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new() -> io::Result<Self> {
        let out = BufWriter::with_capacity(CHUNK, tempfile::tempfile()?);
        Ok(SpoolWriter { out, count: 0 })
    }

    /// Adds a query that is sent `at` after the first one, over TCP if `tcp`, with the reply to it
    /// that was captured.
    ///
    /// # Errors
    /// If the temporary file cannot be written.
    pub fn push(
        &mut self,
        at: Nanos,
        query: &[u8],
        tcp: bool,
        captured: Option<Raw>,
    ) -> io::Result<()> {
        let replies = captured.into_iter().collect();
        self.add(&QueryReplies { number: self.count, at, query: query.to_vec(), tcp, replies })
    }

    pub(crate) fn add(&mut self, entry: &QueryReplies) -> io::Result<()> {
        self.count += 1;
        self.out.write_all(&entry.number.to_le_bytes())?;
        self.out.write_all(&entry.at.0.to_le_bytes())?;
        self.put(entry.replies.len() as u8 | u8::from(entry.tcp) << 7, &entry.query)?;
        entry.replies.iter().try_for_each(|reply| match reply {
            Raw::Message { bytes, tcp } => self.put(u8::from(*tcp), bytes),
            Raw::Timeout => self.put(2, &[]),
            Raw::Failed(why) => self.put(3, why.as_bytes()),
        })
    }

    /// Writes a tag and octets after their length.
    fn put(&mut self, tag: u8, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(&[tag])?;
        self.out.write_all(&(bytes.len() as u32).to_le_bytes())?;
        self.out.write_all(bytes)
    }

    /// Returns the queries.
    ///
    /// # Errors
    /// If the temporary file cannot be written.
    pub fn finish(self) -> io::Result<Spool> {
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Spool { file, count: self.count })
    }
}

/// Queries in a temporary file.
pub struct Spool {
    file: File,
    count: u64,
}

impl Spool {
    /// Returns the number of queries.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns a reader from the first query on; there is only one at a time.
    pub(crate) fn read(&self) -> io::Result<SpoolReader> {
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        Ok(SpoolReader { file: BufReader::with_capacity(CHUNK, file), left: self.count })
    }
}

pub(crate) struct SpoolReader {
    file: BufReader<File>,
    left: u64,
}

impl SpoolReader {
    /// Returns the next query; `None` after the last one.
    pub(crate) fn next(&mut self) -> io::Result<Option<QueryReplies>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let mut words = [[0; 8]; 2];
        for word in &mut words {
            self.file.read_exact(word)?;
        }
        let [number, at] = words.map(u64::from_le_bytes);
        let (count, query) = self.take()?;
        let replies = (0..count & 0x7f).map(|_| {
            Ok(match self.take()? {
                (2, _) => Raw::Timeout,
                (3, why) => Raw::Failed(String::from_utf8_lossy(&why).into_owned()),
                (tcp, bytes) => Raw::Message { bytes, tcp: tcp == 1 },
            })
        });
        let replies = replies.collect::<io::Result<_>>()?;
        Ok(Some(QueryReplies { number, at: Nanos(at), query, tcp: count >> 7 == 1, replies }))
    }

    /// Reads a tag and octets.
    fn take(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let (mut tag, mut len) = ([0], [0; 4]);
        self.file.read_exact(&mut tag)?;
        self.file.read_exact(&mut len)?;
        let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
        self.file.read_exact(&mut bytes)?;
        Ok((tag[0], bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_more_than_once() {
        let entries = [
            QueryReplies {
                number: 0,
                at: Nanos(5),
                query: vec![1, 2],
                tcp: false,
                replies: vec![],
            },
            QueryReplies {
                number: 7,
                at: Nanos::ZERO,
                query: vec![],
                tcp: true,
                replies: vec![
                    Raw::Message { bytes: vec![3; 70_000], tcp: true },
                    Raw::Timeout,
                    Raw::Failed("refused".into()),
                    Raw::Message { bytes: vec![], tcp: false },
                ],
            },
        ];
        let mut writer = SpoolWriter::new().expect("a temporary file");
        entries.iter().for_each(|entry| writer.add(entry).expect("written"));
        let spool = writer.finish().expect("written");
        assert_eq!(spool.count(), 2);
        for _ in 0..2 {
            let mut reader = spool.read().expect("reads");
            for entry in &entries {
                assert_eq!(reader.next().expect("reads").as_ref(), Some(entry));
            }
            assert_eq!(reader.next().expect("reads"), None);
        }
    }
}
