//! Meaning of a zone file's entries: directives, and records that inherit owner, class and TTL from
//! earlier ones.
//!
//! The rules are BIND's, as in RFC 1035 section 5.1 and RFC 2308 section 4: a record without a TTL
//! has the one of `$TTL`; without `$TTL`, the one of the record before; and if the SOA record, the
//! first, has none, its minimum becomes the TTL of all records.

use domain::base::Rtype;
use wire::Qtype;
use wire::period::period;

use super::plain::Line;
use crate::expand::Expansion;
use crate::rdata;
use crate::words::{Mistake, Word, Words};

/// The largest TTL in seconds; for every larger one 0 is read (RFC 2181 section 8), as by named.
const MAX_TTL: u32 = i32::MAX as u32;

/// Returns the TTL for a number in a zone file.
fn valid_ttl(seconds: u32) -> u32 {
    if seconds <= MAX_TTL { seconds } else { 0 }
}

/// The state that entries share, also entries of included files.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    /// The origin, in wire form; empty when there is none.
    pub(super) origin: Vec<u8>,
    /// The TTL of `$TTL` or of the SOA record's minimum, in seconds.
    default_ttl: Option<u32>,
    /// The last TTL of a record, in seconds.
    last_ttl: Option<u32>,
    /// The minimum of a SOA record without TTL, which is the TTL of records without one.
    pub(super) minimum: Option<u32>,
}

/// Result of reading an entry of the file.
#[derive(Debug)]
pub(super) enum Outcome {
    /// An empty entry, or a directive that changed the context.
    Nothing,
    /// A record, whose owner and data are in the buffers.
    Record(Line),
    /// A file to include, with its origin.
    Include { file: Vec<u8>, origin: Vec<u8> },
    /// The lines to read instead.
    Generate(Expansion),
}

impl Context {
    /// Returns the context with another origin.
    pub(super) fn with_origin(self, origin: Vec<u8>) -> Self {
        Context { origin, ..self }
    }

    /// Returns the TTL of a record that has none.
    pub(super) fn ttl(&self) -> Option<u32> {
        self.default_ttl.or(self.last_ttl)
    }

    /// Stores the TTL that a record has.
    pub(super) fn saw_ttl(&mut self, ttl: u32) {
        self.last_ttl = Some(ttl);
    }

    /// Adopts the TTLs of an included file, which remain valid after it, as in BIND.
    pub(super) fn follow(&mut self, included: &Context) {
        (self.default_ttl, self.last_ttl) = (included.default_ttl, included.last_ttl);
        self.minimum = included.minimum;
    }

    /// Reads an entry; the owner and the data of a record are written to the buffers.
    pub(super) fn read(
        &mut self,
        entry: &[u8],
        last_owner: Option<&[u8]>,
        owner: &mut Vec<u8>,
        data: &mut Vec<u8>,
    ) -> Result<Outcome, Mistake> {
        if entry.first() == Some(&b'$') {
            return self.directive(entry);
        }
        let mut words = Words::new(entry);
        if words.peek().is_none() {
            return Ok(Outcome::Nothing);
        }
        owner.clear();
        if entry.first().is_some_and(|octet| matches!(octet, b' ' | b'\t')) {
            let last = last_owner.ok_or_else(|| {
                words.mistake_here(
                    "the first record needs an owner: write it at the start of the line",
                )
            })?;
            owner.extend_from_slice(last);
        } else {
            words.need("an owner")?.name(&self.origin, owner)?;
        }
        if is_signature_of_message(&words) {
            return Ok(Outcome::Nothing);
        }
        let (written, rtype) = head(&mut words)?;
        rdata::parse(rtype, &mut words, &self.origin, data)?;
        let ttl = match written.or(self.ttl()) {
            Some(ttl) => ttl,
            None => self.minimum_of(rtype, data).ok_or_else(|| {
                words.mistake_here("the TTL of this record is not known: write one before its type, or $TTL before the first record")
            })?,
        };
        self.last_ttl = written.or(self.last_ttl);
        Ok(Outcome::Record(Line { rtype, ttl, written }))
    }

    /// Makes the minimum of a SOA record the TTL of records without one; `None` for other types.
    fn minimum_of(&mut self, rtype: Rtype, data: &[u8]) -> Option<u32> {
        let minimum = data.last_chunk::<4>().filter(|_| rtype == Rtype::SOA)?;
        self.minimum = Some(valid_ttl(u32::from_be_bytes(*minimum)));
        self.default_ttl = self.minimum;
        self.minimum
    }

    /// Reads a directive, such as `$ORIGIN` or `$TTL`.
    fn directive(&mut self, entry: &[u8]) -> Result<Outcome, Mistake> {
        let mut words = Words::new(entry);
        let word = words.need("a directive")?;
        let is = |name: &str| word.text.eq_ignore_ascii_case(name.as_bytes());
        if is("$GENERATE") {
            let expansion = Expansion::parse(entry);
            return expansion.map(Outcome::Generate).map_err(|(at, why)| Mistake { at, why });
        }
        if is("$INCLUDE") {
            let (mut file, mut origin) = (Vec::new(), Vec::new());
            words.need("the file to include")?.octets(&mut file)?;
            match words.next() {
                Some(name) => name.name(&self.origin, &mut origin)?,
                None => origin.clone_from(&self.origin),
            }
            words.end("the directive")?;
            return Ok(Outcome::Include { file, origin });
        }
        if is("$ORIGIN") {
            let mut origin = Vec::new();
            words.need("the origin")?.name(&self.origin, &mut origin)?;
            self.origin = origin;
        } else if is("$TTL") {
            self.default_ttl = Some(valid_ttl(words.need("a TTL")?.period()?));
        } else if is("$DATE") {
            // The time of a dump of named; TTLs are used unchanged.
            words.need("a time")?;
        } else {
            return Err(word.is_not("a directive: write $ORIGIN, $TTL, $INCLUDE or $GENERATE"));
        }
        words.end("the directive")?;
        Ok(Outcome::Nothing)
    }
}

/// Returns whether TTL, class and type belong to a TSIG record, which dig and kdig print after each
/// message of a signed transfer, perhaps in the form of RFC 3597.
fn is_signature_of_message(words: &Words<'_>) -> bool {
    let mut words = words.clone();
    let head: [_; 3] = std::array::from_fn(|_| words.next().map(|word| word.text));
    let is = |word: Option<&[u8]>, names: [&str; 2]| {
        let is = |name: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        names.into_iter().any(is)
    };
    is(head[1], ["ANY", "CLASS255"]) && is(head[2], ["TSIG", "TYPE250"])
}

/// Reads TTL and class in any order, each at most once, and the type.
fn head(words: &mut Words<'_>) -> Result<(Option<u32>, Rtype), Mistake> {
    let (mut ttl, mut with_class) = (None, false);
    loop {
        let word = words.next().ok_or_else(|| {
            words.mistake_here("the record is cut short: write a record type here")
        })?;
        if !with_class && class(&word)? {
            with_class = true;
        } else if let (None, Some(period)) = (ttl, period(word.text)) {
            ttl = Some(valid_ttl(period));
        } else {
            let rtype = word
                .rtype()
                .ok_or_else(|| word.is_not("known: write a TTL, IN or a record type here"))?;
            return Ok((ttl, record_type(&word, rtype)?));
        }
    }
}

/// Returns whether a word is the class IN; other classes are refused.
fn class(word: &Word<'_>) -> Result<bool, Mistake> {
    let is = |name: &str| word.text.eq_ignore_ascii_case(name.as_bytes());
    if is("IN") || is("CLASS1") {
        return Ok(true);
    }
    if ["CH", "CHAOS", "HS", "HESIOD", "NONE"].into_iter().any(is) {
        return Err(
            word.mistake(format!("the class {}: only zones of class IN are read", word.as_str()))
        );
    }
    Ok(false)
}

/// Returns the type if records can have it (RFC 6895 section 3.1).
fn record_type(word: &Word<'_>, rtype: Rtype) -> Result<Rtype, Mistake> {
    match Qtype(rtype.to_int()) {
        Qtype(0 | 41 | 128..=255) => Err(word.is_not("a type of records in a zone")),
        _ => Ok(rtype),
    }
}
