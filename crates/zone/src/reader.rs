//! A zone file reader: text of any size goes through the parser of `domain`, entry by entry, in constant memory.
//!
//! ```text
//!                                       ┌ plain line ───────────────────────────> Record
//!   file ──> chunks, split into entries ┤
//!                                       └ any other entry ──> domain's parser ──> Record
//! ```
//!
//! The parser works in place on its buffer, and gets only whole entries: a line break outside of parentheses, quotes
//! and comments ends an entry. It keeps origin, owner, TTL and class from entry to entry. Plain lines do not reach it,
//! so before the next entry it gets a line that sets the last owner and TTL.
//!
//! `$GENERATE` is expanded here, one line at a time. A file of `$INCLUDE` gets its own reader, which starts with the
//! origin and the TTL of the including file; it does not change those of the including file.

mod cutter;
mod error;
mod plain;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use domain::base::Rtype;
use domain::base::iana::Class;
use domain::base::name::ToName;
use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace::{Entry, ScannedRecord, Zonefile};
use wire::Name;

use crate::expand::Expansion;
use cutter::Cutter;
pub use error::ZoneFileError;
use plain::Plain;

/// Size of one read, in octets.
const CHUNK: usize = 256 << 10;
/// Largest size of an entry, in octets; 64 KiB of record data in hexadecimal fit easily.
const MAX_ENTRY: usize = 1 << 20;

/// Largest depth of nested `$INCLUDE`.
const MAX_DEPTH: usize = 8;

/// A record of a zone file.
#[derive(Debug)]
pub struct Record {
    owner: Vec<u8>,
    rtype: Rtype,
    ttl: u32,
    data: Vec<u8>,
    scanned: Option<ScannedRecord>,
}

impl Record {
    /// Returns the owner: an uncompressed name in wire form, in the case of the file.
    pub fn owner(&self) -> &[u8] {
        &self.owner
    }

    /// Returns the type.
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

    /// Returns the record as `domain` parsed it; `None` if it was in a plain line.
    pub(crate) fn scanned(&self) -> Option<&ScannedRecord> {
        self.scanned.as_ref()
    }
}

/// A zone file reader that returns one record at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    chunk: Box<[u8]>,
    path: PathBuf,
    file: Zonefile,
    /// Whether the parser may have an entry that was not read yet.
    unread: bool,
    cutter: Cutter,
    plain: Plain,
    /// Whether a directive may have changed the origin or TTL that plain lines use.
    directed: bool,
    /// Octets that were read from the file.
    pending: Vec<u8>,
    /// Offset in `pending` of the current entry.
    entry: usize,
    /// Number of octets of `pending` that are consumed: plain lines, and entries given to the parser.
    consumed: usize,
    /// Number of octets of `pending` that were searched for the end of the entry.
    searched: usize,
    at_end: bool,
    apex: Option<Name>,
    last: Option<Record>,
    octets: u64,
    /// The remaining lines of a `$GENERATE`.
    expansion: Option<Expansion>,
    /// The number of the `$GENERATE` line that the parser has.
    expanded: Option<i64>,
    /// Number of lines given to the parser minus the number of lines in the file, to correct its line numbers.
    surplus: i64,
    /// The last `$TTL` entry, for included files.
    ttl: Vec<u8>,
    /// The included file that is being read.
    included: Option<Box<Reader<File>>>,
    /// Depth of `$INCLUDE` at which this file is included.
    depth: usize,
    /// The folder of included files; `None` if the input is not a file.
    folder: Option<PathBuf>,
}

impl Reader<File> {
    /// Opens a zone file; `zone` is the origin, and may be `None` if the first record is the SOA record.
    ///
    /// # Errors
    /// [`ZoneFileError::Unreadable`].
    pub fn open(path: &Path, zone: Option<Name>) -> Result<Self, ZoneFileError> {
        let file = File::open(path)
            .map_err(|source| ZoneFileError::Unreadable { path: path.to_owned(), source })?;
        let mut reader = Self::new(file, path, zone);
        reader.folder = Some(path.parent().unwrap_or(Path::new("")).to_owned());
        Ok(reader)
    }
}

impl<R: Read> Reader<R> {
    /// Returns a reader of `input`; error messages name `path`.
    pub fn new(input: R, path: &Path, zone: Option<Name>) -> Self {
        let mut file = Zonefile::with_capacity(2 * CHUNK);
        file.set_default_class(Class::IN);
        if let Some(origin) = zone.and_then(|zone| {
            domain::base::Name::from_octets(bytes::Bytes::copy_from_slice(zone.as_wire())).ok()
        }) {
            file.set_origin(origin);
        }
        Reader {
            input,
            chunk: vec![0; CHUNK].into(),
            path: path.to_owned(),
            file,
            unread: false,
            cutter: Cutter::default(),
            plain: Plain::default(),
            directed: true,
            pending: Vec::with_capacity(2 * CHUNK),
            entry: 0,
            consumed: 0,
            searched: 0,
            at_end: false,
            apex: zone,
            last: None,
            octets: 0,
            expansion: None,
            expanded: None,
            surplus: 0,
            ttl: Vec::new(),
            included: None,
            depth: 0,
            folder: None,
        }
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

    /// Returns the next record; `None` after the last.
    ///
    /// # Errors
    /// [`ZoneFileError`] with the place of the mistake; no record can be read after an error.
    pub fn next_record(&mut self) -> Result<Option<&Record>, ZoneFileError> {
        loop {
            if self.next_included()? {
                return Ok(self.record());
            }
            if !self.unread {
                if self.at_end && !self.expand() {
                    return Ok(None);
                }
                if !self.at_end && self.fill()? {
                    return Ok(self.last.as_ref());
                }
            }
            match self.file.next_entry() {
                Ok(Some(Entry::Record(record))) => return self.accept(record).map(Some),
                Ok(Some(Entry::Include { path, origin })) => {
                    let origin = origin.or_else(|| self.file.origin().ok());
                    self.include(&path, origin)?;
                }
                Ok(None) => self.unread = false,
                Err(error) => return Err(self.bad_entry(&error.to_string())),
            }
        }
    }

    /// Checks and stores a record that the parser has read.
    fn accept(&mut self, scanned: ScannedRecord) -> Result<&Record, ZoneFileError> {
        let (mut owner, mut data) =
            self.last.take().map_or_else(Default::default, |last| (last.owner, last.data));
        owner.clear();
        data.clear();
        // Writing to a Vec does not fail.
        let _ = scanned.owner().compose(&mut owner);
        let _ = scanned.data().compose_rdata(&mut data);
        let (rtype, ttl) = (scanned.rtype(), scanned.ttl().as_secs());
        if wire::name::wire_len(&owner).ok() != Some(owner.len()) || has_empty_label(rtype, &data) {
            let why = "a name has two dots in a row: write at least one character between them"
                .to_owned();
            return Err(self.bad_line(self.cutter.line, why));
        }
        self.check_owner(&owner, rtype)?;
        let mut origin = Vec::new();
        if data.windows(2).any(|two| two == b"\x01@") {
            let _ = self.file.origin().map(|name| name.compose(&mut origin));
        }
        let scanned = (!replace_at_signs(rtype, &mut data, &origin)).then_some(scanned);
        Ok(self.last.insert(Record { owner, rtype, ttl, data, scanned }))
    }

    /// Reads the line after the last entry if it is complete and plain; returns whether it is.
    fn plain_line(&mut self) -> Result<bool, ZoneFileError> {
        let text = &self.pending[self.consumed..];
        if self.searched != self.consumed || text.first().is_none_or(|&octet| octet == b'$') {
            return Ok(false);
        }
        let Some(end) = memchr::memchr(b'\n', text) else { return Ok(false) };
        if std::mem::take(&mut self.directed) {
            self.plain.origin.clear();
            if let Ok(origin) = self.file.origin() {
                let _ = origin.compose(&mut self.plain.origin);
            }
            self.plain.ttl = {
                let mut words = self.ttl.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
                words.nth(1).and_then(plain::number)
            };
        }
        let last_owner = self.last.as_ref().map(|last| &last.owner[..]);
        let Some(line) = self.plain.read(&text[..end], last_owner) else { return Ok(false) };
        self.entry = self.consumed;
        self.consumed += end + 1;
        self.searched = self.consumed;
        self.cutter.pass_line();
        self.surplus -= 1;
        let (owner, data) =
            (std::mem::take(&mut self.plain.owner), std::mem::take(&mut self.plain.data));
        self.check_owner(&owner, line.rtype)?;
        let record = Record { owner, rtype: line.rtype, ttl: line.ttl, data, scanned: None };
        if let Some(last) = self.last.replace(record) {
            // The memory of the last record is used again.
            (self.plain.owner, self.plain.data) = (last.owner, last.data);
        }
        Ok(true)
    }

    /// Gives whole entries to the parser, after a line that sets the owner and TTL of the plain lines before them.
    fn feed(&mut self, entries: &[u8]) {
        let owner = self.last.as_ref().filter(|_| self.plain.unknown);
        if let Some(owner) = owner.and_then(|last| Name::from_wire(&last.owner).ok()) {
            let dot = if owner.is_root() { "" } else { "." };
            let ttl = self.plain.written_ttl.map_or(String::new(), |ttl| ttl.to_string());
            self.file.extend_from_slice(format!("{owner}{dot} {ttl} IN A 0.0.0.0\n").as_bytes());
            // The parser reads the line that was made here; its record is dropped.
            let _ = self.file.next_entry();
            self.surplus += 1;
        }
        (self.plain.unknown, self.plain.written_ttl) = (false, None);
        self.directed |= entries.first() == Some(&b'$');
        self.file.extend_from_slice(entries);
        self.unread = true;
    }

    /// Opens an included file.
    fn include(
        &mut self,
        file: &str,
        origin: Option<domain::base::Name<bytes::Bytes>>,
    ) -> Result<(), ZoneFileError> {
        let bad = |why: &str| self.bad_line(self.cutter.line, format!("$INCLUDE {file}: {why}"));
        let Some(folder) = &self.folder else {
            return Err(bad("only a zone that is read from a file can include other files"));
        };
        if self.depth == MAX_DEPTH {
            return Err(bad(&format!("files can be included {MAX_DEPTH} deep at most")));
        }
        let path = folder.join(file);
        let mut included = Reader::open(&path, None).map_err(|error| match error {
            ZoneFileError::Unreadable { source, .. } => {
                bad(&format!("cannot read {}: {source}", path.display()))
            }
            other => other,
        })?;
        included.apex = self.apex;
        included.depth = self.depth + 1;
        if let Some(origin) = origin {
            included.file.set_origin(origin);
        }
        included.ttl.clone_from(&self.ttl);
        included.feed(&self.ttl);
        included.surplus = self.ttl.iter().filter(|&&octet| octet == b'\n').count() as i64;
        self.included = Some(Box::new(included));
        Ok(())
    }

    /// Reads a record of the included file, if there is one; returns whether there is a record.
    fn next_included(&mut self) -> Result<bool, ZoneFileError> {
        let Some(included) = &mut self.included else { return Ok(false) };
        if included.next_record()?.is_some() {
            return Ok(true);
        }
        self.octets += included.octets();
        self.apex = self.apex.or(included.apex);
        self.included = None;
        Ok(false)
    }

    /// Takes the zone name from the first record, and checks that every owner is in the zone.
    fn check_owner(&mut self, owner: &[u8], rtype: Rtype) -> Result<(), ZoneFileError> {
        if self.apex.is_none() && rtype == Rtype::SOA {
            self.apex = Name::from_wire(owner).ok();
        }
        let Some(zone) = self.apex else {
            return Err(ZoneFileError::NoApex { path: self.path.clone() });
        };
        if wire::name::strip_suffix(owner, zone.as_wire()).is_some() {
            return Ok(());
        }
        Err(ZoneFileError::Outside {
            path: self.path.clone(),
            line: self.cutter.line,
            owner: Name::from_wire(owner).map_or_else(|e| e.to_string(), |name| name.to_string()),
            zone: zone.to_string(),
        })
    }

    /// Reads the next line if it is plain; else gives the parser the next entry or `$GENERATE` line. Returns whether a
    /// plain record was read.
    fn fill(&mut self) -> Result<bool, ZoneFileError> {
        loop {
            if self.expand() {
                return Ok(false);
            }
            if self.plain_line()? {
                return Ok(true);
            }
            if let Some(length) = self.cutter.find_end(&self.pending[self.searched..]) {
                let end = self.searched + length;
                self.entry = self.consumed;
                (self.consumed, self.searched) = (end, end);
                if self.pending[self.entry] == b'$' && self.directive()? {
                    continue;
                }
                let pending = std::mem::take(&mut self.pending);
                self.feed(&pending[self.entry..end]);
                self.pending = pending;
                return Ok(false);
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
            if self.read()? == 0 {
                self.cutter.end_entry();
                self.at_end = true;
                if self.cutter.is_open() {
                    // The parser of domain 0.12 panics if the input ends inside an entry, such as `"a"("b"`.
                    let why = "the file ends inside the entry that starts here".to_owned();
                    return Err(self.bad_line(self.cutter.line, why));
                }
                // The parser needs a line break at the end of every entry.
                if !self.pending.is_empty() {
                    self.pending.push(b'\n');
                }
                (self.entry, self.consumed) = (0, self.pending.len());
                let is_directive = self.pending.first() == Some(&b'$') && self.directive()?;
                let mut pending = std::mem::take(&mut self.pending);
                if !is_directive {
                    self.feed(&pending);
                }
                pending.clear();
                self.pending = pending;
                (self.entry, self.consumed, self.searched) = (0, 0, 0);
                self.expand();
                return Ok(false);
            }
        }
    }

    /// Handles the current entry, which starts with a dollar sign; returns whether the parser must not get it.
    fn directive(&mut self) -> Result<bool, ZoneFileError> {
        let entry = &self.pending[self.entry..self.consumed];
        if entry.len() > 4 && entry[..4].eq_ignore_ascii_case(b"$TTL") {
            self.ttl.clear();
            self.ttl.extend_from_slice(entry);
        }
        if !Expansion::is_generate(entry) {
            return Ok(false);
        }
        self.surplus -= entry.iter().filter(|&&octet| octet == b'\n').count() as i64;
        match Expansion::parse(entry) {
            Ok(expansion) => self.expansion = Some(expansion),
            Err((at, why)) => {
                let before = entry.get(..at).unwrap_or_default();
                let lines = before.iter().filter(|&&octet| octet == b'\n').count() as u64;
                let column = before.iter().rev().take_while(|&&octet| octet != b'\n').count() + 1;
                let place = format!("{}:{column}", self.cutter.line + lines);
                return Err(ZoneFileError::BadEntry { path: self.path.clone(), place, why });
            }
        }
        Ok(true)
    }

    /// Gives the next line of a `$GENERATE` to the parser; returns whether there is one.
    fn expand(&mut self) -> bool {
        self.expanded = self.expansion.as_ref().and_then(Expansion::next_number);
        let (Some(expansion), Some(_)) = (&mut self.expansion, self.expanded) else {
            self.expansion = None;
            return false;
        };
        let mut line = Vec::new();
        expansion.next_line(&mut line);
        self.surplus += line.iter().filter(|&&octet| octet == b'\n').count() as i64;
        self.feed(&line);
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

    /// Returns the place of the last word of the current entry, as `line:column`.
    fn last_word(&self) -> String {
        let entry =
            self.pending.get(self.entry..self.consumed).unwrap_or_default().trim_ascii_end();
        let line = entry.rsplit(|&octet| octet == b'\n').next().unwrap_or_default();
        let word = line.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
        format!("{}:{}", self.cutter.lines, word + 1)
    }

    /// Returns the error for a mistake in this line.
    fn bad_line(&self, line: u64, why: String) -> ZoneFileError {
        ZoneFileError::BadEntry { path: self.path.clone(), place: format!("{line}:1"), why }
    }

    /// Returns the error for a message of the parser, `line:column: why`.
    fn bad_entry(&self, error: &str) -> ZoneFileError {
        let mut parts = error.splitn(3, ':');
        let (line, column) = (parts.next().unwrap_or("1"), parts.next().unwrap_or("1"));
        let why = parts.next().unwrap_or(error).trim();
        if let Some(number) = self.expanded {
            let why = format!("{why}, in the line that $GENERATE makes for {number}");
            return self.bad_line(self.cutter.line, why);
        }
        if self.at_end
            && matches!(why, "trailing tokens" | "short buffer" | "unexpected end of entry")
        {
            return self.bad_line(
                self.cutter.line,
                "the file ends inside the entry that starts here".into(),
            );
        }
        let hint = match why {
            "missing origin" => ": start with $ORIGIN or give the zone name",
            "expected rtype" => ": write a TTL, IN or a record type here",
            "missing last owner" => ": the first record needs an owner",
            "trailing tokens" => ": the record is complete before this word",
            "unexpected end of entry" => ": the record is cut short",
            _ => "",
        };
        let line = line.parse::<i64>().map(|line| (line - self.surplus).max(1) as u64);
        let place = match line {
            // The last word of the entry is the mistake, and the parser is already in the next line.
            Ok(line) if line > self.cutter.lines && !self.at_end => self.last_word(),
            Ok(line) => format!("{line}:{column}"),
            Err(_) => format!("{}:{column}", self.cutter.line),
        };
        let path = self.path.clone();
        ZoneFileError::BadEntry { path, place, why: format!("{why}{hint}") }
    }
}

/// Returns the number of names in the data of a type, and the offset of the first.
fn names_in(rtype: Rtype) -> (usize, usize) {
    match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::DNAME | Rtype::PTR => (1, 0),
        Rtype::MX => (1, 2),
        Rtype::SRV => (1, 6),
        Rtype::SOA => (2, 0),
        _ => (0, 0),
    }
}

/// Returns whether a name in record data has an empty label, which the parser of domain 0.12 accepts.
fn has_empty_label(rtype: Rtype, data: &[u8]) -> bool {
    let (names, mut at) = names_in(rtype);
    if names == 0 {
        return false;
    }
    for _ in 0..names {
        match data.get(at..).map(wire::name::wire_len) {
            Some(Ok(length)) => at += length,
            _ => return true,
        }
    }
    // In a SOA record five numbers of four octets follow.
    at + if rtype == Rtype::SOA { 20 } else { 0 } != data.len()
}

/// Replaces each name `@` in record data by `origin`, because the parser of domain 0.12 reads it as a label below the
/// origin. Returns whether there was one.
fn replace_at_signs(rtype: Rtype, data: &mut Vec<u8>, origin: &[u8]) -> bool {
    let (names, mut at) = names_in(rtype);
    let mut found = false;
    for _ in 0..names {
        let name = data.get(at..).unwrap_or_default();
        let is_at = name.strip_prefix(b"\x01@").is_some_and(|rest| rest.starts_with(origin));
        if is_at && !origin.is_empty() {
            data.drain(at..at + 2);
            found = true;
        }
        at += wire::name::wire_len(data.get(at..).unwrap_or_default()).unwrap_or(0);
    }
    found
}

#[cfg(test)]
mod tests;
