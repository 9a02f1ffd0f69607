//! Zone files read as a stream: text of any size through `domain`'s parser, entry by entry, in constant memory.
//!
//! ```text
//!   file ──> chunks, cut behind the end of an entry ──> domain's parser ──> Record
//! ```
//!
//! The parser works in place on what it holds, and what it is given is only ever whole entries: a line break outside
//! of parentheses, quotes and comments ends one. It keeps origin, owner, TTL and class from chunk to chunk.
//!
//! `$GENERATE` is expanded here, a line at a time; a file of `$INCLUDE` is read by a reader of its own, with the origin
//! and the TTL of this one, whose own stay as they are.

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

/// Octets read at once.
const CHUNK: usize = 256 << 10;
/// The longest entry; one with 64 KiB of record data in hexadecimal fits well.
const MAX_ENTRY: usize = 1 << 20;

/// How deep files may include others.
const MAX_DEPTH: usize = 8;

/// Why a zone file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ZoneFileError {
    /// It cannot be read.
    #[error("cannot read the zone file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An entry is not understood.
    #[error("{}:{place}: {why}", path.display())]
    BadEntry {
        /// The file.
        path: PathBuf,
        /// `line:column`, from 1.
        place: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The zone's name is not said before its records.
    #[error("{}: the first record is not a SOA record; it must be, or give the zone's name", path.display())]
    NoApex {
        /// The file.
        path: PathBuf,
    },
    /// A record lies outside of the zone.
    #[error("{}:{line}: {owner} does not lie in the zone {zone}", path.display())]
    Outside {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// Whose record it is.
        owner: String,
        /// The zone.
        zone: String,
    },
}

/// A record of a zone file.
#[derive(Debug)]
pub struct Record {
    scanned: ScannedRecord,
    owner: Vec<u8>,
    data: Vec<u8>,
}

impl Record {
    /// Whose record it is: an uncompressed name in wire form, as it is written.
    pub fn owner(&self) -> &[u8] {
        &self.owner
    }

    /// Its type.
    pub fn rtype(&self) -> Rtype {
        self.scanned.rtype()
    }

    /// Its TTL, seconds.
    pub fn ttl(&self) -> u32 {
        self.scanned.ttl().as_secs()
    }

    /// Its data, uncompressed, in wire form.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// As `domain` read it.
    pub fn scanned(&self) -> &ScannedRecord {
        &self.scanned
    }
}

/// A zone file that is being read.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    chunk: Box<[u8]>,
    path: PathBuf,
    file: Zonefile,
    cutter: Cutter,
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
            cutter: Cutter::default(),
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
        let scanned = loop {
            if self.next_included()? {
                return Ok(self.record());
            }
            match self.file.next_entry() {
                Ok(Some(Entry::Record(record))) => break record,
                Ok(Some(Entry::Include { path, origin })) => {
                    let origin = origin.or_else(|| self.file.origin().ok());
                    self.include(&path, origin)?;
                }
                Ok(None) if self.at_end && !self.expand() => return Ok(None),
                Ok(None) if self.at_end => {}
                Ok(None) => self.fill()?,
                Err(error) => return Err(self.bad_entry(&error.to_string())),
            }
        };
        let (mut owner, mut data) =
            self.last.take().map_or_else(Default::default, |last| (last.owner, last.data));
        owner.clear();
        data.clear();
        // Neither a name nor record data can outgrow a Vec.
        let _ = scanned.owner().compose(&mut owner);
        let _ = scanned.data().compose_rdata(&mut data);
        if wire::name::wire_len(&owner).ok() != Some(owner.len())
            || has_empty_label(scanned.rtype(), &data)
        {
            let why = "a name has two dots in a row: a label has at least one octet".to_owned();
            return Err(self.bad_line(self.cutter.line, why));
        }
        self.check_place(&owner, scanned.rtype())?;
        Ok(Some(self.last.insert(Record { scanned, owner, data })))
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
        included.file.extend_from_slice(&self.ttl);
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

    /// Hands the next whole entry to the parser, or the next line of a `$GENERATE`.
    fn fill(&mut self) -> Result<(), ZoneFileError> {
        loop {
            if self.expand() {
                return Ok(());
            }
            if let Some(length) = self.cutter.cut(&self.pending[self.looked_at..]) {
                let end = self.looked_at + length;
                self.entry = self.handed;
                (self.handed, self.looked_at) = (end, end);
                let entry = &self.pending[self.entry..end];
                if entry[0] == b'$' && self.directive()? {
                    continue;
                }
                self.file.extend_from_slice(&self.pending[self.entry..end]);
                return Ok(());
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
                if !is_directive {
                    self.file.extend_from_slice(&self.pending);
                }
                self.pending.clear();
                (self.entry, self.handed, self.looked_at) = (0, 0, 0);
                self.expand();
                return Ok(());
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
        self.file.extend_from_slice(&line);
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

/// Whether a name in record data has a label without an octet, which the parser of domain 0.12 lets pass.
fn has_empty_label(rtype: Rtype, data: &[u8]) -> bool {
    let at = match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::DNAME | Rtype::PTR => 0,
        Rtype::MX => 2,
        Rtype::SRV => 6,
        Rtype::SOA => {
            let first = wire::name::wire_len(data).unwrap_or(data.len());
            let second = data.get(first..).map(wire::name::wire_len);
            // Five numbers of four octets follow.
            return !matches!(second, Some(Ok(second)) if first + second + 20 == data.len());
        }
        _ => return false,
    };
    let name = data.get(at..).unwrap_or_default();
    wire::name::wire_len(name).ok() != Some(name.len())
}

/// Finds the ends of entries.
#[derive(Debug, Default)]
struct Cutter {
    parens: u32,
    quoted: bool,
    comment: bool,
    escaped: bool,
    /// The line the entry that was cut last begins at, from 1.
    line: u64,
    /// Lines up to the last cut.
    handed_lines: u64,
    /// Lines behind it.
    open_lines: u64,
}

impl Cutter {
    /// How much of `text`, which follows what was shown before, ends the entry; `None` if there is no end in it.
    fn cut(&mut self, text: &[u8]) -> Option<usize> {
        for (at, &octet) in text.iter().enumerate() {
            if octet == b'\n' {
                self.comment = false;
                self.open_lines += 1;
                if self.parens == 0 && !self.quoted && !self.escaped {
                    self.begin_entry();
                    return Some(at + 1);
                }
                self.escaped = false;
            } else if self.comment {
            } else if self.escaped {
                self.escaped = false;
            } else {
                match octet {
                    b'\\' => self.escaped = true,
                    b'"' => self.quoted = !self.quoted,
                    b';' if !self.quoted => self.comment = true,
                    b'(' if !self.quoted => self.parens += 1,
                    b')' if !self.quoted => self.parens = self.parens.saturating_sub(1),
                    _ => {}
                }
            }
        }
        None
    }

    /// Whether parentheses, quotes or an escape wait for their end.
    fn is_open(&self) -> bool {
        self.parens > 0 || self.quoted || self.escaped
    }

    /// Counts the lines of an entry that was cut.
    fn begin_entry(&mut self) {
        self.line = self.handed_lines + 1;
        self.handed_lines += self.open_lines;
        self.open_lines = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives what it holds a few octets at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(buffer.len());
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    type Read1 = (Vec<u8>, u32, Rtype, Vec<u8>);

    fn read(text: &str, step: usize) -> Result<Vec<Read1>, String> {
        let mut reader = Reader::new(Trickle(text.as_bytes(), step), Path::new("z"), None);
        let mut all = Vec::new();
        while let Some(record) = reader.next_record().map_err(|e| e.to_string())? {
            all.push((
                record.owner().to_vec(),
                record.ttl(),
                record.rtype(),
                record.data().to_vec(),
            ));
        }
        Ok(all)
    }

    const ZONE: &str = "$ORIGIN example.\n$TTL 60\n@ IN SOA ns1 h (1 ; a ( in a comment\n 2 3\n 4 5)\n\
        \tNS ns1\n\n; nothing\nns1 A 192.0.2.1\n 30 AAAA 2001:db8::1\n\
        t TXT \"a;b(\" \"c\\\"d e\"\nq\\;x 5 IN MX 10 ns1\n$ORIGIN sub\nw CNAME ns1.example.";

    #[test]
    fn everything_a_master_file_may_have() {
        let records = read(ZONE, 4096).unwrap();
        assert_eq!(records.len(), 7);
        let ttls: Vec<_> = records.iter().map(|r| r.1).collect();
        assert_eq!(ttls, [60, 60, 60, 30, 60, 5, 60]);
        assert_eq!(records[3].0, b"\x03ns1\x07example\0");
        assert_eq!(records[4].3, b"\x04a;b(\x05c\"d e");
        assert_eq!(records[5].0, b"\x03q;x\x07example\0");
        assert_eq!(records[6].0, b"\x01w\x03sub\x07example\0");
    }

    #[test]
    fn errors_have_their_place() {
        let soa = "$ORIGIN example.\n@ 60 IN SOA ns1 h (1 2\n3 4 5)\n";
        let table = [
            ("a 60 AX 1\n".to_owned(), "z:4:", "type of a record belongs here"),
            ("b 60 A 192.0.2.1\n\nc A 192.0.2.300\n".to_owned(), "z:6:5: ", "IPv4"),
            ("$GENERATE 1-x a$ A 192.0.2.$\n".to_owned(), "z:4:11: ", "not a range of $GENERATE"),
            (
                "$GENERATE 254-258 a$ A 192.0.2.$\n".to_owned(),
                "z:4:1: ",
                "in the line that $GENERATE makes of 256",
            ),
            (
                "$GENERATE 1-9 a$ A 192.0.2.$\n;\nb AX 1\n".to_owned(),
                "z:6:",
                "type of a record belongs here",
            ),
            (";\n$INCLUDE other\n".to_owned(), "z:5:1: ", "only a zone that is read from a file"),
            ("a (\nA 192.0.2.1\n".to_owned(), "z:4:1: ", "ends within the entry"),
            ("b NS ns1...1\n".to_owned(), "z:4:1: ", "two dots in a row"),
            ("b MX 1 a..b\n".to_owned(), "z:4:1: ", "two dots in a row"),
            ("a..b A 192.0.2.1\n".to_owned(), "z:4:1: ", "two dots in a row"),
            ("t TXT \"i;b(\"(\"c\"\n".to_owned(), "z:4:1: ", "ends within the entry"),
            (
                "b A 192.0.2.1\nb.other. (\n) A 192.0.2.1\n".to_owned(),
                "z:5: b.other",
                "zone example",
            ),
            (format!("a A \"{}", "x\n".repeat(600_000)), "z:4:1: ", "parentheses and quotes"),
        ];
        for (text, place, part) in table {
            let error = read(&format!("{soa}{text}"), usize::MAX).unwrap_err();
            assert!(error.starts_with(place) && error.contains(part), "{error}");
        }
        let error = read("a.example. 60 A 192.0.2.1\n", 99).unwrap_err();
        assert!(error.contains("first record is not a SOA"), "{error}");
    }

    #[test]
    fn generated_lines_are_records_like_others() {
        let soa = "$ORIGIN example.\n$TTL 60\n@ IN SOA ns1 h (1 2\n3 4 5)\n";
        let short =
            format!("{soa}$GENERATE 1-3 a$ A 192.0.2.$\n 5 TXT last\n$GENERATE 7-7 $ A 192.0.2.7");
        let long = format!(
            "{soa}a1 A 192.0.2.1\na2 A 192.0.2.2\na3 A 192.0.2.3\n 5 TXT last\n7 A 192.0.2.7\n"
        );
        for step in [1, 7, usize::MAX] {
            assert_eq!(read(&short, step).unwrap(), read(&long, usize::MAX).unwrap());
        }
    }

    #[test]
    fn included_files_are_read_in_their_place() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("writes");
        };
        write(
            "zone",
            "$ORIGIN example.\n$TTL 60\n@ IN SOA ns1 h 1 2 3 4 5\n$INCLUDE hosts sub\nb A 192.0.2.2\n",
        );
        write("hosts", "a A 192.0.2.1\n$INCLUDE more\n$GENERATE 1-2 g$ A 192.0.2.$\n");
        write("more", "$ORIGIN deep.example.\n@ 5 TXT x");
        let all = || {
            let mut reader = Reader::open(&dir.path().join("zone"), None).expect("opens");
            let mut all = Vec::new();
            while let Some(record) = reader.next_record().map_err(|e| e.to_string())? {
                let owner = Name::from_wire(record.owner()).expect("a name").to_string();
                all.push(format!("{owner} {}", record.ttl()));
            }
            assert_eq!(reader.apex().expect("known").to_string(), "example");
            Ok::<_, String>(all)
        };
        assert_eq!(
            all().unwrap(),
            [
                "example 60",
                "a.sub.example 60",
                "deep.example 5",
                "g1.sub.example 60",
                "g2.sub.example 60",
                "b.example 60"
            ]
        );
        for (text, place, part) in [
            ("\nx AX 1\n", "more:2:", "type of a record belongs here"),
            ("x A 1.2.3.4\nx.other. A 1.2.3.4\n", "more:2: ", "does not lie in the zone example"),
            ("\n\n$INCLUDE nowhere", "more:3:1: ", "$INCLUDE nowhere: cannot read"),
            ("$INCLUDE more", "more:1:1: ", "8 deep at most"),
        ] {
            write("more", text);
            let error = all().unwrap_err();
            assert!(error.contains(place) && error.contains(part), "{error}");
        }
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(step in 1usize..40) {
            prop_assert_eq!(read(ZONE, step).unwrap(), read(ZONE, usize::MAX).unwrap());
        }

        #[test]
        fn any_text_is_survived(text in "[\\x00-\\x7fé]{0,200}", cut in 0usize..200) {
            let _ = read(&text, 7);
            let mut mixed = ZONE.as_bytes().to_vec();
            let cut = cut.min(mixed.len());
            mixed.splice(cut..cut, text.bytes());
            let _ = read(&String::from_utf8_lossy(&mixed), 64);
        }
    }
}
