//! Zone files read as a stream: text of any size through `domain`'s parser, entry by entry, in constant memory.
//!
//! ```text
//!                                      ┌ plain line ───────────────────────────> Record
//!   file ──> chunks, cut into entries ─┤
//!                                      └ any other entry ──> domain's parser ──> Record
//! ```
//!
//! The parser works in place on what it holds, and what it is given is only ever whole entries: a line break outside
//! of parentheses, quotes and comments ends one. It keeps origin, owner, TTL and class from entry to entry; before it is
//! given one behind plain lines it is told what they would have taught it.
//!
//! `$GENERATE` is expanded here, a line at a time; a file of `$INCLUDE` is read by a reader of its own, with the origin
//! and the TTL of this one, whose own stay as they are.

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

/// Octets read at once.
const CHUNK: usize = 256 << 10;
/// The longest entry; one with 64 KiB of record data in hexadecimal fits well.
const MAX_ENTRY: usize = 1 << 20;

/// How deep files may include others.
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
    /// Whose record it is: an uncompressed name in wire form, as it is written.
    pub fn owner(&self) -> &[u8] {
        &self.owner
    }

    /// Its type.
    pub fn rtype(&self) -> Rtype {
        self.rtype
    }

    /// Its TTL, seconds.
    pub fn ttl(&self) -> u32 {
        self.ttl
    }

    /// Its data, uncompressed, in wire form.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// As `domain` read it; `None` when it stood in a plain line.
    pub fn scanned(&self) -> Option<&ScannedRecord> {
        self.scanned.as_ref()
    }
}

/// A zone file that is being read.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    chunk: Box<[u8]>,
    path: PathBuf,
    file: Zonefile,
    /// Whether the parser may hold something that it was not asked for.
    unread: bool,
    cutter: Cutter,
    plain: Plain,
    /// Whether a directive may have changed what plain lines lean on.
    directed: bool,
    /// What was read and not handed to the parser.
    pending: Vec<u8>,
    /// Where in it the entry at hand begins.
    entry: usize,
    /// How much of it the parser has.
    handed: usize,
    /// How much of it was searched for the end of the entry.
    looked_at: usize,
    at_end: bool,
    apex: Option<Name>,
    last: Option<Record>,
    octets: u64,
    /// The lines of a `$GENERATE` that are still to come.
    expansion: Option<Expansion>,
    /// The number of the one that the parser has.
    expanded: Option<i64>,
    /// So many lines more than the file has were handed to the parser.
    surplus: i64,
    /// The last `$TTL`, for included files.
    ttl: Vec<u8>,
    /// An included file that is being read, and how deep this one is included itself.
    included: Option<Box<Reader<File>>>,
    depth: usize,
    /// Where included files are looked for; none when this does not come from a file.
    folder: Option<PathBuf>,
}

impl Reader<File> {
    /// Opens a zone file; `zone` is its origin, and may be left out if its first record is the SOA record.
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
    /// Reads from `input`; `path` is named in errors.
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
            handed: 0,
            looked_at: 0,
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

    /// The zone's name: the one given, or that of the first record.
    pub fn apex(&self) -> Option<&Name> {
        self.apex.as_ref()
    }

    /// The record read last.
    pub fn record(&self) -> Option<&Record> {
        match &self.included {
            Some(included) => included.record(),
            None => self.last.as_ref(),
        }
    }

    /// Octets of the file read so far, and of those that it includes.
    pub fn octets(&self) -> u64 {
        self.octets + self.included.as_ref().map_or(0, |included| included.octets())
    }

    /// The next record; `None` after the last.
    ///
    /// # Errors
    /// [`ZoneFileError`], with its place; nothing can be read after one.
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
                Ok(Some(Entry::Record(record))) => return self.take(record).map(Some),
                Ok(Some(Entry::Include { path, origin })) => {
                    let origin = origin.or_else(|| self.file.origin().ok());
                    self.include(&path, origin)?;
                }
                Ok(None) => self.unread = false,
                Err(error) => return Err(self.bad_entry(&error.to_string())),
            }
        }
    }

    /// Takes a record that the parser has read.
    fn take(&mut self, scanned: ScannedRecord) -> Result<&Record, ZoneFileError> {
        let (mut owner, mut data) =
            self.last.take().map_or_else(Default::default, |last| (last.owner, last.data));
        owner.clear();
        data.clear();
        // Neither a name nor record data can outgrow a Vec.
        let _ = scanned.owner().compose(&mut owner);
        let _ = scanned.data().compose_rdata(&mut data);
        let (rtype, ttl) = (scanned.rtype(), scanned.ttl().as_secs());
        if wire::name::wire_len(&owner).ok() != Some(owner.len()) || has_empty_label(rtype, &data) {
            let why = "a name has two dots in a row: a label has at least one octet".to_owned();
            return Err(self.bad_line(self.cutter.line, why));
        }
        self.check_place(&owner, rtype)?;
        let mut origin = Vec::new();
        if data.windows(2).any(|two| two == b"\x01@") {
            let _ = self.file.origin().map(|name| name.compose(&mut origin));
        }
        let scanned = (!take_at_for_origin(rtype, &mut data, &origin)).then_some(scanned);
        Ok(self.last.insert(Record { owner, rtype, ttl, data, scanned }))
    }

    /// Reads the line that begins where the last entry ended, if it is whole and plain; whether it was.
    fn plain_line(&mut self) -> Result<bool, ZoneFileError> {
        let text = &self.pending[self.handed..];
        if self.looked_at != self.handed || text.first().is_none_or(|&octet| octet == b'$') {
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
        self.entry = self.handed;
        self.handed += end + 1;
        self.looked_at = self.handed;
        self.cutter.pass_line();
        self.surplus -= 1;
        let (owner, data) =
            (std::mem::take(&mut self.plain.owner), std::mem::take(&mut self.plain.data));
        self.check_place(&owner, line.rtype)?;
        let record = Record { owner, rtype: line.rtype, ttl: line.ttl, data, scanned: None };
        if let Some(last) = self.last.replace(record) {
            // Their room is used again.
            (self.plain.owner, self.plain.data) = (last.owner, last.data);
        }
        Ok(true)
    }

    /// Hands whole entries to the parser, after what it would know by the plain lines before them.
    fn hand(&mut self, entries: &[u8]) {
        let owner = self.last.as_ref().filter(|_| self.plain.unknown);
        if let Some(owner) = owner.and_then(|last| Name::from_wire(&last.owner).ok()) {
            let dot = if owner.is_root() { "" } else { "." };
            let ttl = self.plain.written_ttl.map_or(String::new(), |ttl| ttl.to_string());
            self.file.extend_from_slice(format!("{owner}{dot} {ttl} IN A 0.0.0.0\n").as_bytes());
            // It was made to be read.
            let _ = self.file.next_entry();
            self.surplus += 1;
        }
        (self.plain.unknown, self.plain.written_ttl) = (false, None);
        self.directed |= entries.first() == Some(&b'$');
        self.file.extend_from_slice(entries);
        self.unread = true;
    }

    /// Begins to read an included file.
    fn include(
        &mut self,
        file: &str,
        origin: Option<domain::base::Name<bytes::Bytes>>,
    ) -> Result<(), ZoneFileError> {
        let bad = |why: &str| self.bad_line(self.cutter.line, format!("$INCLUDE {file}: {why}"));
        let Some(folder) = &self.folder else {
            return Err(bad("only a zone that is read from a file can include others"));
        };
        if self.depth == MAX_DEPTH {
            return Err(bad(&format!("files are included {MAX_DEPTH} deep at most")));
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
        included.hand(&self.ttl);
        included.surplus = self.ttl.iter().filter(|&&octet| octet == b'\n').count() as i64;
        self.included = Some(Box::new(included));
        Ok(())
    }

    /// Reads on in the included file, if there is one; whether it had a record.
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

    /// Takes the zone's name from the first record, and holds every record to it.
    fn check_place(&mut self, owner: &[u8], rtype: Rtype) -> Result<(), ZoneFileError> {
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

    /// Reads the next line if it is plain; else hands the next whole entry to the parser, or the next line of a
    /// `$GENERATE`. Whether there is a record.
    fn fill(&mut self) -> Result<bool, ZoneFileError> {
        loop {
            if self.expand() {
                return Ok(false);
            }
            if self.plain_line()? {
                return Ok(true);
            }
            if let Some(length) = self.cutter.cut(&self.pending[self.looked_at..]) {
                let end = self.looked_at + length;
                self.entry = self.handed;
                (self.handed, self.looked_at) = (end, end);
                if self.pending[self.entry] == b'$' && self.directive()? {
                    continue;
                }
                let pending = std::mem::take(&mut self.pending);
                self.hand(&pending[self.entry..end]);
                self.pending = pending;
                return Ok(false);
            }
            if self.pending.len() - self.handed > MAX_ENTRY {
                let why = format!(
                    "the entry that starts here has no end within {MAX_ENTRY} octets: close its parentheses and quotes"
                );
                return Err(self.bad_line(self.cutter.handed_lines + 1, why));
            }
            self.pending.drain(..self.handed);
            self.handed = 0;
            self.looked_at = self.pending.len();
            if self.read()? == 0 {
                self.cutter.begin_entry();
                self.at_end = true;
                if self.cutter.is_open() {
                    // The parser of domain 0.12 panics at what is open at its end, such as `"a"("b"`.
                    let why = "the file ends within the entry that begins here".to_owned();
                    return Err(self.bad_line(self.cutter.line, why));
                }
                // The parser wants every entry ended.
                if !self.pending.is_empty() {
                    self.pending.push(b'\n');
                }
                (self.entry, self.handed) = (0, self.pending.len());
                let is_directive = self.pending.first() == Some(&b'$') && self.directive()?;
                let mut pending = std::mem::take(&mut self.pending);
                if !is_directive {
                    self.hand(&pending);
                }
                pending.clear();
                self.pending = pending;
                (self.entry, self.handed, self.looked_at) = (0, 0, 0);
                self.expand();
                return Ok(false);
            }
        }
    }

    /// Looks at the entry at hand, which begins with a dollar sign; whether it is done with.
    fn directive(&mut self) -> Result<bool, ZoneFileError> {
        let entry = &self.pending[self.entry..self.handed];
        if entry.len() > 4 && entry[..4].eq_ignore_ascii_case(b"$TTL") {
            self.ttl.clear();
            self.ttl.extend_from_slice(entry);
        }
        if !Expansion::is_one(entry) {
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

    /// Hands the next line of a `$GENERATE` to the parser, if there is one.
    fn expand(&mut self) -> bool {
        self.expanded = self.expansion.as_ref().and_then(Expansion::next_number);
        let (Some(expansion), Some(_)) = (&mut self.expansion, self.expanded) else {
            self.expansion = None;
            return false;
        };
        let mut line = Vec::new();
        expansion.next_line(&mut line);
        self.surplus += line.iter().filter(|&&octet| octet == b'\n').count() as i64;
        self.hand(&line);
        true
    }

    /// Reads on; 0 at the end.
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

    /// Where the last word of the entry at hand stands.
    fn last_word(&self) -> String {
        let entry = self.pending.get(self.entry..self.handed).unwrap_or_default().trim_ascii_end();
        let line = entry.rsplit(|&octet| octet == b'\n').next().unwrap_or_default();
        let word = line.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
        format!("{}:{}", self.cutter.handed_lines, word + 1)
    }

    fn bad_line(&self, line: u64, why: String) -> ZoneFileError {
        ZoneFileError::BadEntry { path: self.path.clone(), place: format!("{line}:1"), why }
    }

    /// From the parser's `line:column: why`.
    fn bad_entry(&self, error: &str) -> ZoneFileError {
        let mut parts = error.splitn(3, ':');
        let (line, column) = (parts.next().unwrap_or("1"), parts.next().unwrap_or("1"));
        let why = parts.next().unwrap_or(error).trim();
        if let Some(number) = self.expanded {
            let why = format!("{why}, in the line that $GENERATE makes of {number}");
            return self.bad_line(self.cutter.line, why);
        }
        if self.at_end
            && matches!(why, "trailing tokens" | "short buffer" | "unexpected end of entry")
        {
            return self.bad_line(
                self.cutter.line,
                "the file ends within the entry that begins here".into(),
            );
        }
        let hint = match why {
            "missing origin" => ": begin with $ORIGIN or give the zone's name",
            "expected rtype" => ": a TTL, IN or the type of a record belongs here",
            "missing last owner" => ": the first record needs an owner",
            "trailing tokens" => ": the record ends before this",
            "unexpected end of entry" => ": the record is cut short",
            _ => "",
        };
        let line = line.parse::<i64>().map(|line| (line - self.surplus).max(1) as u64);
        let place = match line {
            // The last word of the entry was wrong, and the parser is behind its end.
            Ok(line) if line > self.cutter.handed_lines && !self.at_end => self.last_word(),
            Ok(line) => format!("{line}:{column}"),
            Err(_) => format!("{}:{column}", self.cutter.line),
        };
        let path = self.path.clone();
        ZoneFileError::BadEntry { path, place, why: format!("{why}{hint}") }
    }
}

/// How many names there are in record data of a type, and at which octet they begin.
fn names_in(rtype: Rtype) -> (usize, usize) {
    match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::DNAME | Rtype::PTR => (1, 0),
        Rtype::MX => (1, 2),
        Rtype::SRV => (1, 6),
        Rtype::SOA => (2, 0),
        _ => (0, 0),
    }
}

/// Whether a name in record data has a label without an octet, which the parser of domain 0.12 lets pass.
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
    // Of SOA five numbers of four octets follow.
    at + if rtype == Rtype::SOA { 20 } else { 0 } != data.len()
}

/// Puts `origin` for each name in record data that is written `@`, which the parser of domain 0.12 takes for a label
/// below the origin; whether there was one.
fn take_at_for_origin(rtype: Rtype, data: &mut Vec<u8>, origin: &[u8]) -> bool {
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
