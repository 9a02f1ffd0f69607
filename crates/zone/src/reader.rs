//! A zone file reader: text of any size is read entry by entry, in constant memory.
//!
//! ```text
//!                                       ┌ plain line ──────────────────────────────> Record
//!   file ──> chunks, split into entries ┤
//!                                       └ any other entry ──> words ──> rdata ─────> Record
//! ```
//!
//! A line break outside of parentheses, quotes and comments ends an entry. The context keeps origin and TTL from entry
//! to entry, the reader the last owner.
//!
//! `$GENERATE` is expanded here, one line at a time. A file of `$INCLUDE` gets its own reader, which starts with the
//! context and the last owner of the including file; it changes its TTLs, but not its origin and
//! owner.

mod context;
mod cutter;
mod error;
mod notes;
mod plain;

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use domain::base::Rtype;
use wire::Name;
use wire::query_line::without_mark;

use crate::expand::Expansion;
use crate::rdata::fold_names;
use crate::words::Mistake;
use context::{Context, Outcome};
use cutter::Cutter;
pub use error::ZoneFileError;
pub use notes::Notes;
use plain::{Line, Plain};

/// Size of one read, in octets.
const CHUNK: usize = 256 << 10;
/// Largest size of an entry, in octets; 64 KiB of record data in hexadecimal fit easily.
const MAX_ENTRY: usize = 1 << 20;

/// Largest depth of nested `$INCLUDE`, and number of files that a zone includes.
const MAX_DEPTH: usize = 8;
const MAX_INCLUDED: usize = 10_000;

/// A record of a zone file.
#[derive(Clone, Debug)]
pub struct Record {
    owner: Vec<u8>,
    rtype: Rtype,
    ttl: u32,
    data: Vec<u8>,
}

impl Record {
    /// Returns the owner: an uncompressed name in wire form, in the case of the file.
    pub fn owner(&self) -> &[u8] {
        &self.owner
    }

    /// Returns the type of the record.
    pub fn rtype(&self) -> Rtype {
        self.rtype
    }

    /// Returns the TTL in seconds.
    pub fn ttl(&self) -> u32 {
        self.ttl
    }

    /// Returns the data, uncompressed, in wire form.
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

/// A zone file reader that returns one record at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    chunk: Box<[u8]>,
    path: PathBuf,
    cutter: Cutter,
    plain: Plain,
    context: Context,
    /// Octets that were read from the file.
    pending: Vec<u8>,
    /// Offset in `pending` of the current entry.
    entry: usize,
    /// Number of octets of `pending` that are consumed: the entries up to the current one.
    consumed: usize,
    /// Number of octets of `pending` that were searched for the end of the entry.
    searched: usize,
    at_end: bool,
    apex: Option<Name>,
    last: Option<Record>,
    octets: u64,
    /// The remaining lines of a `$GENERATE`.
    expansion: Option<Expansion>,
    /// The included file that is being read.
    included: Option<Box<Reader<File>>>,
    /// Depth of `$INCLUDE` at which this file is included.
    depth: usize,
    /// Number of files that were included so far.
    included_files: usize,
    /// The folder of included files; `None` if the input is not a file.
    folder: Option<PathBuf>,
    /// Data of the SOA record that was read; a file needs one.
    soa: Vec<u8>,
    seen: notes::LeftOutCounts,
    notes: Notes,
}

impl Reader<File> {
    /// Opens a zone file; `zone` is the origin, and may be `None` if the first record is the SOA record.
    ///
    /// # Errors
    /// [`ZoneFileError::Unreadable`], also for a pipe or another file that is not regular.
    pub fn open(path: &Path, zone: Option<Name>) -> Result<Self, ZoneFileError> {
        let unreadable = |source| ZoneFileError::Unreadable { path: path.to_owned(), source };
        // Opening a pipe would wait for its writer, and several passes cannot read it again.
        let kind = std::fs::metadata(path).map_err(unreadable)?;
        if !kind.is_file() {
            let what = if kind.is_dir() {
                "it is a folder"
            } else {
                "it is a pipe or a device: save it to a file"
            };
            return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        let (mut file, mut head) = (File::open(path).map_err(unreadable)?, [b' '; 8]);
        file.read_at(&mut head, 0).map_err(unreadable)?;
        let text = other_form(head).map_or_else(|| without_mark(&head), Err);
        let invalid = |what| unreadable(io::Error::new(io::ErrorKind::InvalidData, what));
        let mark = head.len() - text.map_err(invalid)?.len();
        file.seek(SeekFrom::Start(mark as u64)).map_err(unreadable)?;
        let mut reader = Self::new(file, path, zone);
        reader.folder = Some(path.parent().unwrap_or(Path::new("")).to_owned());
        Ok(reader)
    }
}

/// Returns the kind of a file that begins with these octets, if it is not text.
fn other_form(head: [u8; 8]) -> Option<&'static str> {
    Some(match head {
        [0x1f, 0x8b, ..] => "it is compressed with gzip: unpack it first (`zcat`)",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "it is compressed with zstd: unpack it first (`zstdcat`)",
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            "it is compressed with xz: unpack it first (`xzcat`)"
        }
        [b'B', b'Z', b'h', _, b'1', b'A', b'Y', b'&'] => {
            "it is compressed with bzip2: unpack it first (`bzcat`)"
        }
        // The raw format, which secondaries use by default; it begins with format and version.
        [0, 0, 0, 2, 0, 0, 0, 0 | 1] => {
            "it is in BIND's raw format: `named-compilezone -f raw -F text` makes it text"
        }
        _ => return None,
    })
}

impl<R: Read> Reader<R> {
    /// Returns a reader of `input`; error messages name `path`.
    pub fn new(input: R, path: &Path, zone: Option<Name>) -> Self {
        let origin = zone.map_or_else(Vec::new, |zone| zone.as_wire().to_vec());
        Reader {
            input,
            chunk: vec![0; CHUNK].into(),
            path: path.to_owned(),
            cutter: Cutter::default(),
            plain: Plain::default(),
            context: Context::default().with_origin(origin),
            pending: Vec::with_capacity(2 * CHUNK),
            entry: 0,
            consumed: 0,
            searched: 0,
            at_end: false,
            apex: zone,
            last: None,
            octets: 0,
            expansion: None,
            included: None,
            depth: 0,
            included_files: 0,
            folder: None,
            soa: Vec::new(),
            seen: notes::LeftOutCounts::default(),
            notes: Notes::default(),
        }
    }

    /// Makes the reader write the counts of omitted records to `notes` after the last record.
    #[must_use]
    pub fn with_notes(mut self, notes: Notes) -> Self {
        self.notes = notes;
        self
    }

    /// Returns the zone name: the given one, or the owner of the first record.
    pub fn apex(&self) -> Option<&Name> {
        self.apex.as_ref()
    }

    /// Returns the path that error messages name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the record that was read last.
    pub fn record(&self) -> Option<&Record> {
        match &self.included {
            Some(included) => included.record(),
            None => self.last.as_ref(),
        }
    }

    /// Returns the number of octets read so far, included files counted.
    pub fn octets(&self) -> u64 {
        self.octets + self.included.as_ref().map_or(0, |included| included.octets())
    }

    /// Returns the next record of the zone; `None` after the last.
    ///
    /// # Errors
    /// [`ZoneFileError`] with the place of the mistake; no record can be read after an error.
    pub fn next_record(&mut self) -> Result<Option<&Record>, ZoneFileError> {
        loop {
            if self.included.is_some() {
                if self.next_included()? {
                    return Ok(self.record());
                }
                continue;
            }
            let line = match self.next_expanded()? {
                Some(line) => Some(line),
                None if self.next_entry()? => self.read_entry()?,
                None => return self.end().map(|()| None),
            };
            if let Some(line) = line
                && self.accept(line)?
            {
                return Ok(self.last.as_ref());
            }
        }
    }

    /// Writes the notes after the last record.
    fn end(&mut self) -> Result<(), ZoneFileError> {
        let path = || self.path.clone();
        match self.folder.is_some() && self.depth == 0 {
            true if self.soa.is_empty() => return Err(ZoneFileError::NoSoa { path: path() }),
            true if self.seen.failed => return Err(ZoneFileError::FailedTransfer { path: path() }),
            _ => {}
        }
        self.seen.minimum = self.context.minimum;
        self.notes.set(self.seen.clone());
        Ok(())
    }

    /// Stores the record in the buffers; returns whether it is in the zone.
    fn accept(&mut self, line: Line) -> Result<bool, ZoneFileError> {
        let Line { rtype, ttl, written } = line;
        if let Some(written) = written {
            self.context.saw_ttl(written);
        }
        let (owner, data) =
            (std::mem::take(&mut self.plain.owner), std::mem::take(&mut self.plain.data));
        let record = Record { owner, rtype, ttl, data };
        if let Some(last) = self.last.replace(record) {
            // The memory of the last record is used again.
            (self.plain.owner, self.plain.data) = (last.owner, last.data);
        }
        self.is_inside()
    }

    /// Takes the zone name from the first record, and returns whether the last record is in the zone.
    fn is_inside(&mut self) -> Result<bool, ZoneFileError> {
        let Some(Record { owner, rtype, data, .. }) = &self.last else { return Ok(false) };
        if self.apex.is_none() && *rtype == Rtype::SOA {
            self.apex = Name::from_wire(owner).ok();
        }
        let Some(zone) = self.apex else {
            return Err(ZoneFileError::NoApex { path: self.path.clone() });
        };
        let inside = wire::name::strip_suffix(owner, zone.as_wire());
        if inside.is_some_and(|front| *rtype != Rtype::SOA || front.is_empty()) {
            // A transfer ends with the SOA record with which it begins.
            if *rtype == Rtype::SOA {
                let mut soa = data.clone();
                fold_names(Rtype::SOA, &mut soa);
                if !self.soa.is_empty() && self.soa != soa {
                    let why = "another SOA record: the file is an incremental transfer, or more than one zone";
                    return Err(self.bad_line(self.cutter.line, why.to_owned()));
                }
                self.soa = soa;
            }
            return Ok(true);
        }
        let name = Name::from_wire(owner).map_or_else(|e| e.to_string(), |name| name.to_string());
        if inside.is_some() {
            let why = format!(
                "a SOA record of {name} in the zone {zone}: only the zone's own name has one"
            );
            return Err(self.bad_line(self.cutter.line, why));
        }
        self.seen.outside += 1;
        if self.seen.first_outside.is_none() {
            self.seen.first_outside =
                Some(format!("{}:{}: {name}", self.path.display(), self.cutter.line));
        }
        Ok(false)
    }

    /// Reads the current entry; returns whether it is a record, which is then in the buffers.
    fn read_entry(&mut self) -> Result<Option<Line>, ZoneFileError> {
        if self.entry == self.consumed {
            // A plain line, which was read already.
            return Ok(self.plain.line.take());
        }
        let entry = &self.pending[self.entry..self.consumed];
        self.seen.failed |= entry.starts_with(b"; Transfer failed.");
        let last_owner = self.last.as_ref().map(|last| &last.owner[..]);
        let Plain { owner, data, .. } = &mut self.plain;
        match self.context.read(entry, last_owner, owner, data) {
            Ok(Outcome::Nothing) => Ok(None),
            Ok(Outcome::Record(line)) => Ok(Some(line)),
            Ok(Outcome::Include { file, origin }) => self.include(&file, origin).map(|()| None),
            Ok(Outcome::Generate(expansion)) => {
                self.expansion = Some(expansion);
                Ok(None)
            }
            Err(mistake) => Err(self.bad_entry(&mistake)),
        }
    }

    /// Reads the next line of a `$GENERATE`; returns whether there is one, whose record is then in the buffers.
    fn next_expanded(&mut self) -> Result<Option<Line>, ZoneFileError> {
        let Some(expansion) = &mut self.expansion else { return Ok(None) };
        let Some(number) = expansion.next_number() else {
            self.expansion = None;
            return Ok(None);
        };
        let mut line = Vec::new();
        expansion.next_line(&mut line);
        let last_owner = self.last.as_ref().map(|last| &last.owner[..]);
        let Plain { owner, data, .. } = &mut self.plain;
        let why = match self.context.read(&line, last_owner, owner, data) {
            Ok(Outcome::Record(line)) => return Ok(Some(line)),
            Ok(_) => "$GENERATE makes records only".to_owned(),
            Err(mistake) => mistake.why,
        };
        let why = format!("{why}, in the line that $GENERATE makes for {number}");
        Err(self.bad_line(self.cutter.line, why))
    }

    /// Opens an included file: relative to the folder of this file, or else to the working directory, as named does.
    fn include(&mut self, file: &[u8], origin: Vec<u8>) -> Result<(), ZoneFileError> {
        let name = String::from_utf8_lossy(file).into_owned();
        let bad = |why: &str| self.bad_line(self.cutter.line, format!("$INCLUDE {name}: {why}"));
        let Some(folder) = &self.folder else {
            return Err(bad("$INCLUDE requires a zone that is read from a file"));
        };
        if self.depth == MAX_DEPTH {
            return Err(bad(&format!("files can be included {MAX_DEPTH} deep at most")));
        }
        if self.included_files == MAX_INCLUDED {
            return Err(bad(&format!("a zone can include {MAX_INCLUDED} files at most")));
        }
        let file = Path::new(std::ffi::OsStr::from_bytes(file));
        let beside = folder.join(file);
        let path = if !beside.exists() && file.exists() { file.to_owned() } else { beside };
        let mut included = Reader::open(&path, None).map_err(|error| match error {
            ZoneFileError::Unreadable { source, .. } => {
                bad(&format!("cannot read {}: {source}", path.display()))
            }
            other => other,
        })?;
        included.apex = self.apex;
        included.soa.clone_from(&self.soa);
        included.last.clone_from(&self.last);
        included.depth = self.depth + 1;
        included.included_files = self.included_files + 1;
        included.context = self.context.clone().with_origin(origin);
        self.included = Some(Box::new(included));
        Ok(())
    }

    /// Reads a record of the included file; returns whether there is one.
    fn next_included(&mut self) -> Result<bool, ZoneFileError> {
        let Some(included) = &mut self.included else { return Ok(false) };
        if included.next_record()?.is_some() {
            return Ok(true);
        }
        self.octets += included.octets();
        self.apex = self.apex.or(included.apex);
        self.soa.clone_from(&included.soa);
        self.included_files = included.included_files;
        self.context.follow(&included.context);
        self.seen.failed |= included.seen.failed;
        self.seen.outside += included.seen.outside;
        if self.seen.first_outside.is_none() {
            self.seen.first_outside = included.seen.first_outside.take();
        }
        self.included = None;
        Ok(false)
    }

    /// Finds the next entry, and reads it if it is a plain line; returns whether there is one.
    fn next_entry(&mut self) -> Result<bool, ZoneFileError> {
        loop {
            if self.plain_line() {
                return Ok(true);
            }
            if let Some(length) = self.cutter.find_end(&self.pending[self.searched..]) {
                self.entry = self.consumed;
                self.consumed = self.searched + length;
                self.searched = self.consumed;
                return self.cut_entry();
            }
            self.searched = self.pending.len();
            if self.at_end {
                return self.last_entry();
            }
            if self.pending.len() - self.consumed > MAX_ENTRY {
                let why = format!(
                    "the entry that starts here does not end within {MAX_ENTRY} octets: close its parentheses and quotes"
                );
                return Err(self.bad_line(self.cutter.lines + 1, why));
            }
            self.pending.drain(..self.consumed);
            self.consumed = 0;
            self.searched = self.pending.len();
            self.at_end = self.read()? == 0;
        }
    }

    /// Returns the mistake found while the entry was split off.
    fn cut_entry(&self) -> Result<bool, ZoneFileError> {
        match self.cutter.mistake {
            Some(why) => Err(self.bad_line(self.cutter.line, why.to_owned())),
            None => Ok(true),
        }
    }

    /// Reads the text after the last line break as an entry; returns whether there is any.
    fn last_entry(&mut self) -> Result<bool, ZoneFileError> {
        (self.entry, self.consumed) = (self.consumed, self.pending.len());
        if self.entry == self.consumed {
            return Ok(false);
        }
        self.cutter.end_entry();
        if self.cutter.is_open() {
            let why = "the file ends inside the entry that starts here".to_owned();
            return Err(self.bad_line(self.cutter.line, why));
        }
        self.cut_entry()
    }

    /// Reads the line after the last entry if it is complete and plain; returns whether it is.
    fn plain_line(&mut self) -> bool {
        let text = &self.pending[self.consumed..];
        if self.searched != self.consumed || text.first().is_none_or(|&octet| octet == b'$') {
            return false;
        }
        let Some(end) = memchr::memchr(b'\n', text) else { return false };
        let last_owner = self.last.as_ref().map(|last| &last.owner[..]);
        self.plain.line = self.plain.read(&text[..end], last_owner, &self.context);
        if self.plain.line.is_none() {
            return false;
        }
        self.consumed += end + 1;
        (self.entry, self.searched) = (self.consumed, self.consumed);
        self.cutter.pass_line();
        true
    }

    /// Reads more of the file; returns the number of octets, 0 at the end.
    fn read(&mut self) -> Result<usize, ZoneFileError> {
        loop {
            match self.input.read(&mut self.chunk) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(ZoneFileError::Unreadable { path: self.path.clone(), source });
                }
                Ok(read) => {
                    self.pending.extend_from_slice(&self.chunk[..read]);
                    self.octets += read as u64;
                    return Ok(read);
                }
            }
        }
    }

    /// Returns the error for a mistake in this line.
    fn bad_line(&self, line: u64, why: String) -> ZoneFileError {
        ZoneFileError::BadEntry { path: self.path.clone(), place: format!("{line}:1"), why }
    }

    /// Returns the error for a mistake in the current entry.
    fn bad_entry(&self, mistake: &Mistake) -> ZoneFileError {
        let entry = &self.pending[self.entry..self.consumed];
        let before = &entry[..mistake.at.min(entry.len())];
        let lines = before.iter().filter(|&&octet| octet == b'\n').count() as u64;
        let column = before.iter().rev().take_while(|&&octet| octet != b'\n').count() + 1;
        let place = format!("{}:{column}", self.cutter.line + lines);
        ZoneFileError::BadEntry { path: self.path.clone(), place, why: mistake.why.clone() }
    }
}

#[cfg(test)]
mod tests;
