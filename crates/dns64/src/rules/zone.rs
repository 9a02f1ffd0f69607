//! Rules as a response policy zone (RPZ, draft-vixie-dnsop-dns-rpz): an owner below the zone's name is the name that is
//! queried, and its records are the rule.
//!
//! ```text
//!   NAME CNAME .               no such name          NAME CNAME rpz-passthru.   as usual
//!   NAME CNAME *.              no records            NAME CNAME rpz-drop.       no reply
//!   NAME CNAME dns64-never.    never synthesised     NAME CNAME TARGET          an alias
//!   NAME CNAME dns64-always.   always synthesised    NAME A, AAAA, TXT, ...     these records
//! ```
//!
//! The two rules for synthesis are our own. Rules with other triggers (addresses, name servers, clients) and other actions are
//! counted and left out.

use domain::base::Rtype;
use domain::base::iana::Class;
use domain::base::name::ToName;
use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace::{Entry, ScannedRecord, Zonefile};
use wire::period::period;
use wire::{Name, Qtype};

use super::{LocalRecord, Rule, Rules, RulesError, label_count};

/// Labels at the end of owners with other triggers than the name that is queried.
const OTHER_TRIGGERS: [&[u8]; 4] = [b"rpz-client-ip", b"rpz-ip", b"rpz-nsip", b"rpz-nsdname"];

/// Name of a zone whose file names none.
const ORIGIN: &[u8] = b"\x03rpz\0";

/// Adds the rules of a response policy zone.
pub(super) fn read(text: &str, rules: &mut Rules) -> Result<(), RulesError> {
    let text = with_seconds(text);
    let mut file = Zonefile::with_capacity(text.len() + 1);
    file.extend_from_slice(text.as_bytes());
    // The parser requires a line break at the end.
    file.extend_from_slice(b"\n");
    file.set_default_class(Class::IN);
    if let Ok(origin) = domain::base::Name::from_octets(bytes::Bytes::from_static(ORIGIN)) {
        file.set_origin(origin);
    }
    let (mut apex, mut line, mut counted) = (None, 0, 0);
    loop {
        let entry = file.next_entry().map_err(|error| broken(&error.to_string()))?;
        let offset = file.current_offset().min(text.len());
        let passed = text.as_bytes().get(counted..offset).unwrap_or_default();
        line += passed.iter().filter(|octet| **octet == b'\n').count();
        counted = offset;
        let record = match entry {
            None => return Ok(()),
            Some(Entry::Record(record)) => record,
            Some(Entry::Include { .. }) => {
                return Err(RulesError {
                    line: line.max(1),
                    problem: "$INCLUDE is not supported: write the records here".into(),
                });
            }
        };
        let error = |problem| RulesError { line: line.max(1), problem };
        let owner = wire_name(record.owner()).map_err(error)?;
        if record.rtype() == Rtype::SOA {
            apex = Some(owner);
        }
        let apex = match (apex, file.origin()) {
            (Some(apex), _) => apex,
            (None, Ok(origin)) => wire_name(&origin).map_err(error)?,
            (None, Err(_)) => Name::ROOT,
        };
        add(&record, &owner, &apex, rules).map_err(error)?;
    }
}

/// Place of a word in an entry.
#[derive(Clone, Copy)]
enum WordPlace {
    Owner,
    BeforeType,
    /// The value of `$TTL`.
    Ttl,
    /// The data of an SOA record, after this number of words: the times follow two names.
    Soa(u8),
    Other,
}

/// Returns a zone with the times that have units, as BIND writes them (`1h30m`), in seconds, which
/// the parser requires: in TTLs and SOA records. The number of lines does not change.
fn with_seconds(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut place, mut depth) = (WordPlace::Owner, 0u32);
    for line in text.split_inclusive('\n') {
        if depth == 0 {
            let is_owner = !line.starts_with([' ', '\t']);
            place = if is_owner { WordPlace::Owner } else { WordPlace::BeforeType };
        }
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            match first {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            let (word, behind) = rest.split_at(word_len(rest));
            rest = behind;
            if word.starts_with(ends_word) && first != '"' {
                out.push_str(word);
                continue;
            }
            let is_time =
                matches!(place, WordPlace::BeforeType | WordPlace::Ttl | WordPlace::Soa(2..));
            let seconds = period(word.as_bytes()).filter(|_| is_time);
            match seconds {
                Some(seconds) => out.push_str(&seconds.to_string()),
                None => out.push_str(word),
            }
            let is = |known: &str| word.eq_ignore_ascii_case(known);
            place = match place {
                WordPlace::Owner if is("$TTL") => WordPlace::Ttl,
                WordPlace::Owner if first != '$' => WordPlace::BeforeType,
                WordPlace::BeforeType
                    if seconds.is_some() || ["IN", "CH", "HS"].into_iter().any(is) =>
                {
                    place
                }
                WordPlace::BeforeType if is("SOA") => WordPlace::Soa(0),
                WordPlace::Soa(words) => WordPlace::Soa(words.saturating_add(1)),
                _ => WordPlace::Other,
            };
        }
    }
    out
}

/// Returns whether a character is no part of a word.
fn ends_word(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '(' | ')' | ';' | '"')
}

/// Returns the length of the first word of a line, with its escapes or quotes, of the comment, or
/// of what separates words, in octets.
fn word_len(line: &str) -> usize {
    let (is_comment, is_quoted) = (line.starts_with(';'), line.starts_with('"'));
    if is_comment || line.starts_with(ends_word) && !is_quoted {
        return if is_comment { line.len() } else { 1 };
    }
    let mut escaped = false;
    let end = line.char_indices().skip(usize::from(is_quoted)).find(|(_, c)| {
        let ends = !escaped && if is_quoted { *c == '"' } else { ends_word(*c) };
        escaped = !escaped && *c == '\\';
        ends
    });
    end.map_or(line.len(), |(at, _)| at + usize::from(is_quoted))
}

/// Adds the rule of a record.
fn add(record: &ScannedRecord, owner: &Name, apex: &Name, rules: &mut Rules) -> Result<(), String> {
    if owner == apex || matches!(record.rtype(), Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3) {
        return Ok(());
    }
    let Some(front) = wire::name::strip_suffix(owner.as_wire(), apex.as_wire()) else {
        return Err(format!("{owner} is not in the zone {apex}: remove the final dot"));
    };
    let name = Name::from_wire(&[front, &[0]].concat()).map_err(|error| error.to_string())?;
    let last = name.labels().last().unwrap_or_default();
    if OTHER_TRIGGERS.iter().any(|trigger| last.eq_ignore_ascii_case(trigger)) {
        rules.skipped += 1;
        return Ok(());
    }
    let mut data = Vec::new();
    let Ok(()) = record.data().compose_rdata(&mut data);
    let rule = if record.rtype() == Rtype::CNAME {
        let target = Name::from_wire(&data).map_err(|error| error.to_string())?;
        match action(&name, &target) {
            Some(rule) => rule,
            None => {
                rules.skipped += 1;
                return Ok(());
            }
        }
    } else {
        Rule::Records(vec![LocalRecord {
            rtype: Qtype(record.rtype().to_int()),
            ttl: record.ttl().as_secs(),
            data: data.into(),
        }])
    };
    rules.insert(&name, rule)
}

/// Returns the rule for a CNAME record; `None` if it is not supported.
fn action(name: &Name, target: &Name) -> Option<Rule> {
    let target = target.to_lowercase();
    Some(match target.as_wire() {
        b"\0" => Rule::Nxdomain,
        b"\x01*\0" => Rule::NoData,
        b"\x0crpz-passthru\0" => Rule::Exception,
        b"\x08rpz-drop\0" => Rule::Drop,
        b"\x0bdns64-never\0" => Rule::Never,
        b"\x0cdns64-always\0" => Rule::Always,
        // The old form of an exception.
        _ if target == name.to_lowercase() => Rule::Exception,
        [1, b'*', ..] => return None,
        wire if label_count(&target) == 1 && wire[1..].starts_with(b"rpz-") => return None,
        _ => Rule::Alias(Box::new(target)),
    })
}

/// Returns a name of a zone file.
fn wire_name(name: &impl ToName) -> Result<Name, String> {
    Name::from_wire(name.to_vec().as_octets()).map_err(|error| error.to_string())
}

/// Makes an error from one of the parser, which begins with line and column; after the last value
/// of a line the parser names the next line.
fn broken(text: &str) -> RulesError {
    let mut parts = text.splitn(3, ':');
    let line = parts.next().and_then(|line| line.parse().ok());
    let problem = parts.nth(1).unwrap_or(text).trim().to_owned();
    RulesError {
        line: line.unwrap_or(1).max(1),
        problem: format!("this line or the one before it is not a record: {problem}"),
    }
}
