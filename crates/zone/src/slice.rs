//! Slices zones and streams of queries by the same ranges of labels.
//!
//! ```text
//!   zone ──pass 1──> a sample of labels ──> bounds ──> ranges
//!   zone ──pass 2──> k slices: the apex and the names in the range
//!   zone ──pass 3──> addresses of name servers that one slice uses and another contains
//!   queries ───────> k query files
//! ```
//!
//! A slice is a zone that a server can load: it has all records of the apex, and the addresses of all name servers in
//! the zone that its NS records name. Each name below the apex is in exactly one range, so each query goes to the slice
//! that answers it.

use std::collections::HashSet;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};

use domain::base::Rtype;
use measure::Rng;
use wire::name::order::{Place, place};
use wire::query_line::MAX_LINE;
use wire::{LabelRange, Name};

use crate::{Reader, Record, Written, ZoneFileError, ZoneWriter};

/// Largest number of slices, each of which is an open file.
pub const MAX_PARTS: usize = 256;
/// Number of labels in the sample; the sizes of the parts then differ by at most one percent.
const SAMPLE_SIZE: usize = 1 << 16;
/// Largest number of name servers whose addresses are copied into other slices, in total.
const MAX_SHARED: usize = 1 << 20;

/// The reason why a zone or a query file was not sliced.
#[derive(Debug, thiserror::Error)]
pub enum SliceError {
    /// The zone file is invalid.
    #[error(transparent)]
    Zone(#[from] ZoneFileError),
    /// The zone has too few labels.
    #[error(
        "the zone has only {labels} different labels below its apex, too few for {parts} parts"
    )]
    TooFew {
        /// The number of parts requested.
        parts: usize,
        /// The number of different labels found.
        labels: usize,
    },
    /// A slice cannot be written.
    #[error("cannot write slice {0}: {1}")]
    Write(usize, #[source] io::Error),
    /// The query file cannot be read.
    #[error("cannot read the query file {path}: {1}", path = .0.display())]
    Queries(PathBuf, #[source] io::Error),
    /// A line of the query file is not valid.
    #[error("{}:{line}:1: {why}: write a name and a type, such as `www.example.com AAAA`", path.display())]
    Query {
        /// The path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// The error in the line.
        why: String,
    },
}

/// Returns the ranges that split a zone into `parts` with about equally many records, estimated from a sample.
///
/// # Errors
/// If the zone file is invalid or has too few labels.
pub fn balance<R: Read>(
    mut zone: Reader<R>,
    parts: usize,
    seed: u64,
) -> Result<Vec<LabelRange>, SliceError> {
    let mut sample = Vec::<Box<[u8]>>::new();
    let mut rng = Rng::part(seed, 0x0073_6c69_6365);
    let mut seen = 0;
    while zone.next_record()?.is_some() {
        let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
        let Place::Below(label) = place(record.owner(), apex.as_wire()) else { continue };
        seen += 1;
        if sample.len() < SAMPLE_SIZE {
            sample.push(label.to_ascii_lowercase().into());
        } else if let Some(kept) = sample.get_mut(rng.below(seen) as usize) {
            *kept = label.to_ascii_lowercase().into();
        }
    }
    sample.sort_unstable();
    let mut bounds: Vec<&[u8]> = (1..parts)
        .filter_map(|part| sample.get(part * sample.len() / parts))
        .map(|l| &l[..])
        .collect();
    bounds.dedup();
    // The very first label is not used as a bound, because no label is before it.
    bounds.retain(|bound| sample.first().is_some_and(|first| first[..] < **bound));
    let ranges = LabelRange::split(&bounds).ok().filter(|ranges| ranges.len() == parts);
    ranges.ok_or_else(|| {
        sample.dedup();
        SliceError::TooFew { parts, labels: sample.len() }
    })
}

/// The size of a written slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sliced {
    /// Number of records and octets, with the apex and copied addresses.
    pub written: Written,
    /// Number of address records copied from other slices.
    pub shared: u64,
}

/// A slicer that splits zones and query files by ranges.
#[derive(Debug)]
pub struct Slicer {
    ranges: Vec<LabelRange>,
    /// For each range, the name servers that it uses and another range contains, in lower case.
    shared: Vec<HashSet<Box<[u8]>>>,
    /// Number of name servers beyond the limit.
    forgotten: u64,
}

impl Slicer {
    /// Returns a slicer for these ranges, which need not cover all labels.
    pub fn new(ranges: Vec<LabelRange>) -> Self {
        let shared = vec![HashSet::new(); ranges.len()];
        Slicer { ranges, shared, forgotten: 0 }
    }

    /// Returns the range of labels of each slice, in order.
    pub fn ranges(&self) -> &[LabelRange] {
        &self.ranges
    }

    /// Returns the number of name servers whose addresses are missing in slices, because there are more than the limit.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Writes a slice to each of `outs`; `open` returns a new reader of the zone for each pass.
    ///
    /// # Errors
    /// If the zone is invalid or a slice cannot be written.
    ///
    /// # Panics
    /// If `outs` and ranges differ in number.
    pub fn slice<R: Read, W: Write>(
        &mut self,
        mut open: impl FnMut() -> Result<Reader<R>, ZoneFileError>,
        outs: &mut [W],
    ) -> Result<Vec<Sliced>, SliceError> {
        assert_eq!(outs.len(), self.ranges.len(), "each slice has a range");
        let mut slices: Vec<_> = outs.iter_mut().map(Slice::new).collect();
        self.write_slices(open()?, &mut slices)?;
        if self.shared.iter().any(|shared| !shared.is_empty()) {
            self.copy_addresses(open()?, &mut slices)?;
        }
        let finish = |(number, slice): (usize, Slice<'_, W>)| {
            let written =
                slice.file.finish().map_err(|source| SliceError::Write(number + 1, source))?;
            Ok(Sliced { written, shared: slice.shared })
        };
        slices.into_iter().enumerate().map(finish).collect()
    }

    /// Writes each record to its slice, and records of the apex to all.
    fn write_slices<R: Read, W: Write>(
        &mut self,
        mut zone: Reader<R>,
        slices: &mut [Slice<'_, W>],
    ) -> Result<(), SliceError> {
        while zone.next_record()?.is_some() {
            let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
            let apex = apex.as_wire();
            match place(record.owner(), apex) {
                Place::Apex => {
                    for (number, slice) in slices.iter_mut().enumerate() {
                        self.note_server(number, record, apex);
                        slice.put(number, record, apex)?;
                    }
                }
                Place::Below(label) => {
                    let number = self.ranges.iter().position(|range| range.contains(label));
                    if let Some(number) = number {
                        self.note_server(number, record, apex);
                        slices[number].put(number, record, apex)?;
                    }
                }
                Place::Outside => {}
            }
        }
        Ok(())
    }

    /// Stores the name server of an NS record if another slice contains its address.
    fn note_server(&mut self, number: usize, record: &Record, apex: &[u8]) {
        let server = record.data();
        if record.rtype() != Rtype::NS {
            return;
        }
        if !matches!(place(server, apex), Place::Below(label) if !self.ranges[number].contains(label))
        {
            return;
        }
        let server = server.to_ascii_lowercase().into_boxed_slice();
        if self.shared.iter().map(HashSet::len).sum::<usize>() < MAX_SHARED {
            self.shared[number].insert(server);
        } else if !self.shared[number].contains(&server) {
            self.forgotten += 1;
        }
    }

    /// Copies the addresses of shared name servers into the slices that use them.
    fn copy_addresses<R: Read, W: Write>(
        &self,
        mut zone: Reader<R>,
        slices: &mut [Slice<'_, W>],
    ) -> Result<(), SliceError> {
        let mut owner = Vec::new();
        while zone.next_record()?.is_some() {
            let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
            if !matches!(record.rtype(), Rtype::A | Rtype::AAAA) {
                continue;
            }
            owner.clear();
            owner.extend(record.owner().iter().map(u8::to_ascii_lowercase));
            for (number, slice) in slices.iter_mut().enumerate() {
                if self.shared[number].contains(&owner[..]) {
                    slice.put(number, record, apex.as_wire())?;
                    slice.shared += 1;
                }
            }
        }
        Ok(())
    }

    /// Writes each query of a file to the slice that answers it, and queries for the apex to all slices. Returns the
    /// number of queries for each slice, and of those that no slice answers.
    ///
    /// # Errors
    /// If a line is not a query, or a file cannot be read or written.
    pub fn slice_queries<W: Write>(
        &self,
        apex: &Name,
        mut input: impl BufRead,
        path: &Path,
        outs: &mut [W],
    ) -> Result<(Vec<u64>, u64), SliceError> {
        let (mut counts, mut others) = (vec![0; self.ranges.len()], 0);
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            let read = Read::take(&mut input, MAX_LINE as u64 + 1).read_until(b'\n', &mut line);
            if read.map_err(|source| SliceError::Queries(path.to_owned(), source))? == 0 {
                return Ok((counts, others));
            }
            number += 1;
            let bad = |why: String| SliceError::Query { path: path.to_owned(), line: number, why };
            let Some(name) = name_of_query(&line).map_err(bad)? else { continue };
            let place = place(name.as_wire(), apex.as_wire());
            let mut hit = false;
            for (slice, out) in outs.iter_mut().enumerate() {
                if self.ranges[slice].has(&place) {
                    out.write_all(&line).map_err(|source| SliceError::Write(slice + 1, source))?;
                    counts[slice] += 1;
                    hit = true;
                }
            }
            others += u64::from(!hit);
        }
    }
}

/// Returns the name in a line of a query file; `None` for empty lines and comments.
fn name_of_query(line: &[u8]) -> Result<Option<Name>, String> {
    if line.len() > MAX_LINE {
        return Err(format!("the line is longer than {MAX_LINE} octets"));
    }
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8 text".to_owned())?;
    match text.split_ascii_whitespace().next() {
        None => Ok(None),
        Some(word) if word.starts_with([';', '#']) => Ok(None),
        Some(word) => word.parse().map(Some).map_err(|e| format!("`{word}` is not a name: {e}")),
    }
}

/// A slice that is being written.
struct Slice<'a, W: Write> {
    file: ZoneWriter<'a, W>,
    shared: u64,
}

impl<'a, W: Write> Slice<'a, W> {
    fn new(out: &'a mut W) -> Self {
        Slice { file: ZoneWriter::new(out), shared: 0 }
    }

    /// Writes a record to the slice with this index.
    fn put(&mut self, number: usize, record: &Record, apex: &[u8]) -> Result<(), SliceError> {
        let written = self.file.put(record, apex);
        written.map_err(|source| SliceError::Write(number + 1, source))
    }
}
