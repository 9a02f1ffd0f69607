//! A reader and a writer of nsupdate scripts.
//!
//! ```text
//!   zone test
//!   prereq nxdomain new.test.
//!   update add new.test. 172800 NS ns1.hoster.invalid.
//!   send
//! ```
//!
//! The reader accepts `zone`, `ttl`, `class IN`, `prereq`, `update` (the words after these two also alone), `send` and
//! empty lines, in any case. As in nsupdate, `;` begins a comment only where it is the first thing of a line, an empty line
//! sends, and what is not sent before `quit` or the end is dropped. An update is for the zone that the last `zone` before its
//! `send` names; without one the server is asked for the zone of the first name that is changed, once for all names with the
//! same parent. Words that do not change the updates (`server`, which [`server`] reads, `local`, `debug`, `show`, `answer`,
//! `check-names` and the like) are ignored. Octets that are not ASCII stand for themselves.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wire::Name;
use zone::Reader;

use crate::Update;
use crate::ask::zone_of;
use crate::message::{MessageError, Operation, Prerequisite};
use crate::stream::StreamError;

/// Largest size of a line, in octets; a record with 64 KiB of data in hexadecimal fits.
const MAX_LINE: usize = 1 << 18;
/// Largest number of zones that are kept; beyond it they are looked up again.
const MAX_ZONES: usize = 4_096;

/// Writes the start of a script, a comment.
///
/// # Errors
/// If writing to `out` fails.
pub fn begin(out: &mut impl Write, comment: &str) -> io::Result<()> {
    writeln!(out, "; {comment}")
}

/// Writes an update as a part of a script.
///
/// # Errors
/// If writing to `out` fails.
pub fn write(out: &mut impl Write, update: &Update) -> io::Result<()> {
    writeln!(out, "zone {}", dotted(update.zone().as_wire()))?;
    for (name, what) in update.prerequisites() {
        let name = dotted(name);
        match what {
            Prerequisite::NameExists => writeln!(out, "prereq yxdomain {name}")?,
            Prerequisite::NameAbsent => writeln!(out, "prereq nxdomain {name}")?,
            Prerequisite::RrsetExists(t) => writeln!(out, "prereq yxrrset {name} {}", rtype(t))?,
            Prerequisite::RrsetAbsent(t) => writeln!(out, "prereq nxrrset {name} {}", rtype(t))?,
            Prerequisite::Record { rtype: t, data } => {
                writeln!(out, "prereq yxrrset {name} {} {}", rtype(t), text_of(t, data))?;
            }
        }
    }
    for (name, operation) in update.operations() {
        let name = dotted(name);
        match operation {
            Operation::Add { rtype: t, ttl, data } => {
                writeln!(out, "update add {name} {ttl} {} {}", rtype(t), text_of(t, data))?;
            }
            Operation::DeleteName => writeln!(out, "update delete {name}")?,
            Operation::DeleteRrset { rtype: t } => {
                writeln!(out, "update delete {name} {}", rtype(t))?;
            }
            Operation::DeleteRecord { rtype: t, data } => {
                writeln!(out, "update delete {name} {} {}", rtype(t), text_of(t, data))?;
            }
        }
    }
    writeln!(out, "send")
}

/// Returns the type with this number.
fn rtype(number: u16) -> domain::base::Rtype {
    domain::base::Rtype::from_int(number)
}

/// Returns a name as text with a dot at the end.
fn dotted(name: &[u8]) -> String {
    match Name::from_wire(name) {
        Ok(name) if !name.is_root() => format!("{name}."),
        _ => ".".to_owned(),
    }
}

/// Returns record data as text: names and addresses as such, other data in the form of RFC 3597.
fn text_of(rtype: u16, data: &[u8]) -> String {
    match (rtype, data) {
        (2 | 5, name) => dotted(name),
        (1, &[a, b, c, d]) => Ipv4Addr::new(a, b, c, d).to_string(),
        (28, octets) if octets.len() == 16 => {
            let mut address = [0; 16];
            address.copy_from_slice(octets);
            Ipv6Addr::from(address).to_string()
        }
        _ => {
            let hex: String = data.iter().map(|octet| format!("{octet:02x}")).collect();
            format!("\\# {} {hex}", data.len())
        }
    }
}

/// The state of a script reader: the settings for the next lines.
#[derive(Debug, Default)]
pub(crate) struct Script {
    line: u64,
    zone: Option<Name>,
    /// Finds the zone of a name, if the script does not name it.
    pub(crate) zones: Option<Zones>,
    ttl: Option<u32>,
    /// Whether `quit` was read, after which no line is read.
    has_quit: bool,
    /// Number of prerequisites and operations that were not sent before the end.
    pub(crate) unsent: Arc<AtomicU64>,
}

/// Looks up the zones of names at a server; clones share the results.
#[derive(Clone, Debug)]
pub struct Zones {
    server: SocketAddr,
    /// Zones by a name in lower case: the parent of the queried name, or the name itself if it is a zone.
    found: Arc<Mutex<HashMap<Vec<u8>, Name>>>,
}

impl Zones {
    /// Returns the zones of `server`, which is queried for each new name.
    pub fn of(server: SocketAddr) -> Self {
        Zones { server, found: Arc::default() }
    }

    /// Returns the zone of a name.
    fn zone(&self, name: &Name) -> Result<Name, Fault> {
        let own = name.as_wire().to_ascii_lowercase();
        let parent = parent(&own).to_vec();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(zone) = found.get(&own).or_else(|| found.get(&parent)) {
            return Ok(*zone);
        }
        let server = self.server;
        let asked = zone_of(server, name).map_err(|source| {
            Fault::Server(StreamError::Server { server, name: name.to_string(), source })
        });
        let unknown = || (1, format!("{server} does not report the zone of {name}: {WRITE_ZONE}"));
        let zone = asked?.ok_or_else(unknown)?;
        if found.len() >= MAX_ZONES {
            found.clear();
        }
        let is_apex = zone.as_wire().eq_ignore_ascii_case(&own);
        found.insert(if is_apex { own } else { parent }, zone);
        Ok(zone)
    }
}

/// A mistake in a line: its column from 1, and the reason.
type Mistake = (usize, String);

/// Why a line does not become a part of an update.
enum Fault {
    Line(Mistake),
    Server(StreamError),
}

impl From<Mistake> for Fault {
    fn from(mistake: Mistake) -> Self {
        Fault::Line(mistake)
    }
}

impl From<MessageError> for Fault {
    fn from(too_long: MessageError) -> Self {
        Fault::Line((1, too_long.to_string()))
    }
}

/// Remedy for a zone that is not known.
const WRITE_ZONE: &str = "write `zone NAME` before this line";

/// The accepted words, for messages.
const ACCEPTED: &str = "zone, ttl, prereq, update add, update delete, send, quit";

impl Script {
    /// Reads the lines of the next update, up to its `send`.
    pub(crate) fn next_update(
        &mut self,
        input: &mut impl BufRead,
        path: &Path,
    ) -> Result<Option<Update>, StreamError> {
        let mut update: Option<Update> = None;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = Read::take(&mut *input, MAX_LINE as u64 + 1).read_until(b'\n', &mut line);
            let read = read.map_err(|source| StreamError::Unreadable(path.to_owned(), source))?;
            if read == 0 || self.has_quit {
                if let Some(update) = update {
                    let lines = update.prerequisites().count() + update.operations().count();
                    self.unsent.store(lines as u64, Ordering::Relaxed);
                }
                return Ok(None);
            }
            self.line += 1;
            let number = self.line;
            let mistake = |(column, why): Mistake| {
                let path = path.to_owned();
                StreamError::BadLine { path, line: number, column, why }
            };
            if line.len() > MAX_LINE {
                return Err(mistake((
                    MAX_LINE,
                    format!("the line is longer than {MAX_LINE} octets"),
                )));
            }
            let told = |fault| match fault {
                Fault::Line(why) => mistake(why),
                Fault::Server(error) => error,
            };
            let is_end = self.read_line(&as_ascii(&line), &mut update).map_err(told)?;
            if let Some(update) = update.take_if(|_| is_end) {
                return self.in_zone(update).map(Some).map_err(told);
            }
        }
    }

    /// Reads a line; returns whether it ends an update.
    fn read_line(&mut self, line: &str, update: &mut Option<Update>) -> Result<bool, Fault> {
        let mut words = Words { line, at: 0 };
        let Some((column, word)) = words.next() else { return Ok(true) };
        let keyword = word.to_ascii_lowercase();
        match keyword.as_str() {
            _ if word.starts_with(';') => Ok(false),
            "send" => Ok(true),
            "quit" => {
                self.has_quit = true;
                Ok(false)
            }
            "server" | "local" | "debug" | "show" | "answer" | "check-names" | "checknames"
            | "check-svcb" | "checksvcb" | "help" | "version" => Ok(false),
            "class" if words.skip_class() => Ok(false),
            "class" => Err((words.at + 1, "only the class IN is accepted".to_owned()).into()),
            "zone" => {
                self.zone = Some(words.name("a zone")?.1);
                Ok(false)
            }
            "ttl" => {
                let next = words.clone().next();
                let is_none = next.is_some_and(|(_, word)| word.eq_ignore_ascii_case("none"));
                self.ttl = if is_none { None } else { Some(words.number()?) };
                Ok(false)
            }
            "key" => Err((column, "give the key with --key, not in the script".to_owned()).into()),
            "gsstsig" | "oldgsstsig" | "realm" | "tkeyname" => {
                Err((column, "GSS-TSIG is not supported: sign with --key".to_owned()).into())
            }
            "prereq" => {
                let (column, kind) = words.next().unwrap_or((words.at + 1, ""));
                Self::prerequisite(column, kind, &mut words, update).map(|()| false)
            }
            "nxdomain" | "yxdomain" | "nxrrset" | "yxrrset" => {
                Self::prerequisite(column, word, &mut words, update).map(|()| false)
            }
            "update" => match words.next().map(|(_, word)| word.to_ascii_lowercase()).as_deref() {
                Some("add") => self.add(&mut words, update).map(|()| false),
                Some("delete" | "del") => Self::delete(&mut words, update).map(|()| false),
                _ => Err((words.at + 1, "write `add` or `delete` here".to_owned()).into()),
            },
            "add" => self.add(&mut words, update).map(|()| false),
            "delete" | "del" => Self::delete(&mut words, update).map(|()| false),
            _ => Err((column, format!("`{word}` is not known; write one of: {ACCEPTED}")).into()),
        }
    }

    /// Returns an update with its zone: the script's, or the zone that contains its first name.
    fn in_zone(&self, update: Update) -> Result<Update, Fault> {
        let changed = update.operations().next().map(|(name, operation)| match operation {
            // DS records belong to the zone above.
            Operation::Add { rtype: DS, .. }
            | Operation::DeleteRrset { rtype: DS }
            | Operation::DeleteRecord { rtype: DS, .. } => parent(name),
            _ => name,
        });
        let first = changed.or_else(|| Some(update.prerequisites().next()?.0));
        let first = Name::from_wire(first.unwrap_or(&[0])).expect("names of a script are valid");
        let zone = match (self.zone, &self.zones) {
            (Some(zone), _) => zone,
            (None, Some(zones)) => zones.zone(&first)?,
            (None, None) => {
                return Err((1, format!("the zone is not known yet: {WRITE_ZONE}")).into());
            }
        };
        Ok(update.in_zone(zone)?)
    }

    /// Reads the rest of a line with a prerequisite of this `kind`, which is at `column`.
    fn prerequisite(
        column: usize,
        kind: &str,
        words: &mut Words<'_>,
        update: &mut Option<Update>,
    ) -> Result<(), Fault> {
        let (_, name) = words.name("a name")?;
        let data;
        let what = match kind.to_ascii_lowercase().as_str() {
            "nxdomain" => Prerequisite::NameAbsent,
            "yxdomain" => Prerequisite::NameExists,
            "nxrrset" => Prerequisite::RrsetAbsent(words.rtype()?),
            "yxrrset" => {
                let rtype = words.rtype()?;
                if words.is_at_end() {
                    Prerequisite::RrsetExists(rtype)
                } else {
                    data = words.data(rtype)?;
                    Prerequisite::Record { rtype, data: &data }
                }
            }
            _ => {
                let why = format!(
                    "`{kind}` is not a prerequisite; write nxdomain, yxdomain, nxrrset or yxrrset"
                );
                return Err((column, why).into());
            }
        };
        if let Some((column, word)) = words.next() {
            let why = format!("`{word}` is not accepted: only yxrrset takes the data of a record");
            return Err((column, why).into());
        }
        Ok(started(update).require(name.as_wire(), what)?)
    }

    /// Reads a line that adds a record.
    fn add(&self, words: &mut Words<'_>, update: &mut Option<Update>) -> Result<(), Fault> {
        let (_, name) = words.name("a name")?;
        let rest = words.clone();
        let ttl = match (words.number(), self.ttl) {
            (Ok(ttl), _) => ttl,
            (Err(_), Some(ttl)) => {
                *words = rest;
                ttl
            }
            (Err(bad), None) => return Err(bad.into()),
        };
        let rtype = words.rtype()?;
        let data = words.data(rtype)?;
        let operation = Operation::Add { rtype, ttl, data: &data };
        Ok(started(update).push(name.as_wire(), operation)?)
    }

    /// Reads a line that deletes records.
    fn delete(words: &mut Words<'_>, update: &mut Option<Update>) -> Result<(), Fault> {
        let (_, name) = words.name("a name")?;
        // A TTL is allowed and ignored.
        let rest = words.clone();
        if words.number().is_err() {
            *words = rest;
        }
        let data;
        words.skip_class();
        let operation = if words.is_at_end() {
            Operation::DeleteName
        } else {
            let rtype = words.rtype()?;
            if words.is_at_end() {
                Operation::DeleteRrset { rtype }
            } else {
                data = words.data(rtype)?;
                Operation::DeleteRecord { rtype, data: &data }
            }
        };
        Ok(started(update).push(name.as_wire(), operation)?)
    }
}

/// The words of a line, with their columns from 1.
#[derive(Clone)]
struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Iterator for Words<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<(usize, &'a str)> {
        let rest = &self.line[self.at..];
        let start = self.at + (rest.len() - rest.trim_ascii_start().len());
        let word = self.line[start..].split(|c: char| c.is_ascii_whitespace()).next()?;
        self.at = start + word.len();
        (!word.is_empty()).then_some((start + 1, word))
    }
}

impl Words<'_> {
    /// Returns whether all words have been read.
    fn is_at_end(&self) -> bool {
        self.line[self.at..].trim_ascii().is_empty()
    }

    /// Reads a name; `what` describes it in the message if it is missing.
    fn name(&mut self, what: &str) -> Result<(usize, Name), Mistake> {
        let (column, word) =
            self.next().ok_or_else(|| (self.at + 1, format!("write {what} here")))?;
        match word.parse() {
            Ok(name) => Ok((column, name)),
            Err(e) => Err((column, format!("`{word}` is not a name: {e}"))),
        }
    }

    /// Reads a TTL of up to 31 bits (RFC 2181 section 8), in seconds or with units.
    fn number(&mut self) -> Result<u32, Mistake> {
        let (column, word) = self.next().unwrap_or((self.at + 1, ""));
        let ttl = zone::period(word.as_bytes()).filter(|ttl| i32::try_from(*ttl).is_ok());
        let form =
            || format!("`{word}` is not a TTL in seconds up to {}, or such as 1h30m", i32::MAX);
        ttl.ok_or_else(|| (column, form()))
    }

    /// Skips the class IN; returns whether it was there.
    fn skip_class(&mut self) -> bool {
        let mut rest = self.clone();
        let class = rest.next().is_some_and(|(_, word)| {
            word.eq_ignore_ascii_case("IN") || word.eq_ignore_ascii_case("CLASS1")
        });
        if class {
            *self = rest;
        }
        class
    }

    /// Reads a type, which may follow a class.
    fn rtype(&mut self) -> Result<u16, Mistake> {
        self.skip_class();
        let (column, word) = self.next().unwrap_or((self.at + 1, ""));
        let rtype = word.parse::<domain::base::Rtype>();
        rtype.map(|t| t.to_int()).map_err(|_| (column, format!("`{word}` is not a record type")))
    }

    /// Reads the rest of the line as record data.
    fn data(&mut self, rtype: u16) -> Result<Vec<u8>, Mistake> {
        let data = self.line[self.at..].trim_ascii();
        let column = self.at + 2;
        self.at = self.line.len();
        // The zone file reader parses the data of all types.
        let record = format!(". 0 IN {} {}\n", self::rtype(rtype), as_in_zone_file(data));
        let mut reader = Reader::new(record.as_bytes(), Path::new(""), Some(Name::ROOT));
        match reader.next_record() {
            Ok(Some(record)) => Ok(record.data().to_vec()),
            Ok(None) => Err((column, "the data of the record is missing".to_owned())),
            Err(zone::ZoneFileError::BadEntry { why, .. }) => Err((column, why)),
            Err(other) => Err((column, other.to_string())),
        }
    }
}

/// Type of the records that are in the zone above their name.
const DS: u16 = 43;

/// Returns a name in wire form without its first label; the root has no other.
fn parent(name: &[u8]) -> &[u8] {
    name.get(usize::from(name[0]) + 1..).filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// Returns the server that a script names in `server`, as nsupdate reads it: host and port, 53 by default; `None` without
/// one. `path` is named in errors.
///
/// # Errors
/// [`StreamError`], if the script cannot be read, or names several servers.
pub fn server(mut input: impl BufRead, path: &Path) -> Result<Option<(String, u16)>, StreamError> {
    let unreadable = |source| StreamError::Unreadable(path.to_owned(), source);
    let (mut found, mut octets, mut line) = (None, Vec::new(), 0);
    loop {
        octets.clear();
        let read = Read::take(&mut input, MAX_LINE as u64).read_until(b'\n', &mut octets);
        if read.map_err(unreadable)? == 0 || octets == crate::stream::MAGIC {
            return Ok(found);
        }
        line += 1;
        let text = as_ascii(&octets);
        let mut words = text.split_ascii_whitespace();
        match words.next().map(str::to_ascii_lowercase).as_deref() {
            Some("quit") => return Ok(found),
            Some("server") => {}
            _ => continue,
        }
        let bad = |why: &str| {
            let (path, why) = (path.to_owned(), why.to_owned());
            StreamError::BadLine { path, line, column: 1, why }
        };
        let host = words.next().ok_or_else(|| bad("write an address behind `server`"))?;
        let port = words.next().map_or(Ok(53), str::parse).ok().filter(|port| *port > 0);
        let server = (host.to_owned(), port.ok_or_else(|| bad("a port is 1 to 65535"))?);
        if found.replace(server.clone()).is_some_and(|other| other != server) {
            return Err(bad("updates go to one server: send the parts separately"));
        }
    }
}

/// Returns the update that is being read; starts a new one if necessary, whose zone is known at its
/// end.
fn started(update: &mut Option<Update>) -> &mut Update {
    update.get_or_insert_with(|| Update::new(Name::ROOT))
}

/// Returns a line with its octets that are not ASCII as `\DDD`, since nsupdate knows no encodings.
pub fn as_ascii(line: &[u8]) -> Cow<'_, str> {
    let text = |octet: &u8| match octet {
        0..=127 => char::from(*octet).to_string(),
        _ => format!("\\{octet:03}"),
    };
    std::str::from_utf8(line)
        .ok()
        .filter(|line| line.is_ascii())
        .map_or_else(|| line.iter().map(text).collect::<String>().into(), Cow::Borrowed)
}

/// Returns data as a zone file has it: there `;`, `(` and `)` have a meaning outside of quotes, in a script they have none.
fn as_in_zone_file(data: &str) -> String {
    let (mut text, mut quoted, mut escaped) = (String::new(), false, false);
    for char in data.chars() {
        if matches!(char, ';' | '(' | ')') && !quoted && !escaped {
            text.push('\\');
        }
        quoted ^= char == '"' && !escaped;
        escaped = char == '\\' && !escaped;
        text.push(char);
    }
    text
}

#[cfg(test)]
mod tests;
