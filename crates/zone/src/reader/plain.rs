//! A fast parser for plain lines, which are most of a large zone: an owner or none, optionally a TTL and IN, and a
//! record of one of a few types.
//!
//! ```text
//!   example   NS  ns1.hoster0000007      no escapes, quotes, parentheses or comments; names of letters,
//!             DS  4711 13 2 0a1b...      digits, hyphens and underscores; whole numbers
//! ```
//!
//! The parser of any entry ([`super::context`]) reads all other lines, and those that may have a mistake; it takes several
//! times as long per record and knows every form and every error. Both read plain lines alike; a property test compares
//! them.

use std::net::{Ipv4Addr, Ipv6Addr};

use domain::base::Rtype;
use wire::name::{MAX_LABEL, MAX_NAME};

use super::context::Context;
use crate::rdata::encoded;

/// Largest number of digits; every number up to this length is a valid TTL.
const MAX_DIGITS: usize = 9;

/// The buffers of the last record.
#[derive(Debug, Default)]
pub(super) struct Plain {
    /// The owner, in wire form.
    pub(super) owner: Vec<u8>,
    /// The data, in wire form.
    pub(super) data: Vec<u8>,
    /// Type and TTL, if the last line was plain.
    pub(super) line: Option<Line>,
}

/// The type and the TTL, in seconds, of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) rtype: Rtype,
    pub(super) ttl: u32,
    /// The TTL in the line itself.
    pub(super) written: Option<u32>,
}

impl Plain {
    /// Reads a line without its line break; `None` if it is not plain. A line without an owner has `last_owner`.
    pub(super) fn read(
        &mut self,
        line: &[u8],
        last_owner: Option<&[u8]>,
        context: &Context,
    ) -> Option<Line> {
        let origin = &context.origin;
        let mut rest = line;
        self.owner.clear();
        if line.first().is_some_and(|&octet| is_blank(octet)) {
            self.owner.extend_from_slice(last_owner?);
        } else {
            name(word(&mut rest), origin, &mut self.owner)?;
        }
        let (mut written_ttl, mut with_class) = (None, false);
        let rtype = loop {
            let word = word(&mut rest);
            match word.first()? {
                b'0'..=b'9' if written_ttl.is_none() => written_ttl = Some(number(word)?),
                _ if word == b"IN" && !with_class => with_class = true,
                _ => break word,
            }
        };
        let ttl = written_ttl.or_else(|| context.ttl())?;
        self.data.clear();
        let data = word(&mut rest);
        let rtype = match rtype {
            b"NS" => name(data, origin, &mut self.data).map(|()| Rtype::NS)?,
            b"CNAME" => name(data, origin, &mut self.data).map(|()| Rtype::CNAME)?,
            b"A" => {
                let address: Ipv4Addr = std::str::from_utf8(data).ok()?.parse().ok()?;
                self.data.extend(address.octets());
                Rtype::A
            }
            b"AAAA" => {
                let address: Ipv6Addr = std::str::from_utf8(data).ok()?.parse().ok()?;
                self.data.extend(address.octets());
                Rtype::AAAA
            }
            b"DS" => {
                let numbers = (number(data)?, number(word(&mut rest))?, number(word(&mut rest))?);
                self.data.extend(u16::try_from(numbers.0).ok()?.to_be_bytes());
                self.data.extend([u8::try_from(numbers.1).ok()?, u8::try_from(numbers.2).ok()?]);
                let digest = Some(word(&mut rest)).filter(|digest| !digest.is_empty())?;
                encoded::hex(digest, &mut self.data).ok()?;
                Rtype::DS
            }
            _ => return None,
        };
        if !rest.iter().all(|&octet| is_blank(octet)) {
            return None;
        }
        Some(Line { rtype, ttl, written: written_ttl })
    }
}

fn is_blank(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t')
}

/// Removes and returns the next word; an empty one at the end.
#[inline]
fn word<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let blank = rest.iter().take_while(|&&octet| is_blank(octet)).count();
    let length = rest[blank..].iter().take_while(|&&octet| !is_blank(octet)).count();
    let (word, after) = rest[blank..].split_at(length);
    *rest = after;
    word
}

/// Reads a decimal whole number.
#[inline]
fn number(word: &[u8]) -> Option<u32> {
    if word.is_empty() || word.len() > MAX_DIGITS {
        return None;
    }
    word.iter().try_fold(0, |number: u32, octet| {
        octet.is_ascii_digit().then(|| number * 10 + u32::from(octet - b'0'))
    })
}

/// Returns whether an octet never needs an escape in a name.
const fn is_plain(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_')
}

/// Appends a name in wire form, followed by `origin` unless it ends with a dot.
#[inline]
fn name(word: &[u8], origin: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let begin = out.len();
    if word != b"@" {
        let absolute = word.ends_with(b".");
        let labels = if absolute { &word[..word.len() - 1] } else { word };
        for label in labels.split(|&octet| octet == b'.') {
            if label.is_empty()
                || label.len() > MAX_LABEL
                || !label.iter().all(|&octet| is_plain(octet))
            {
                return None;
            }
            out.push(label.len() as u8);
            out.extend_from_slice(label);
        }
        if absolute {
            out.push(0);
            return (out.len() - begin <= MAX_NAME).then_some(());
        }
    }
    out.extend_from_slice(origin);
    (!origin.is_empty() && out.len() - begin <= MAX_NAME).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_lines_are_read() {
        let mut plain = Plain::default();
        let mut context = Context::default().with_origin(b"\x04test\0".to_vec());
        context.saw_ttl(60);
        for (line, read, owner, data) in [
            (
                "a\tNS\tns1",
                Some((Rtype::NS, 60)),
                &b"\x01a\x04test\0"[..],
                &b"\x03ns1\x04test\0"[..],
            ),
            (" 5 IN NS b.", Some((Rtype::NS, 5)), b"\x01l\0", b"\x01b\0"),
            ("@ IN 5 A 192.0.2.1 ", Some((Rtype::A, 5)), b"\x04test\0", &[192, 0, 2, 1]),
            ("x. DS 258 13 2 0aFf", Some((Rtype::DS, 60)), b"\x01x\0", &[1, 2, 13, 2, 10, 255]),
            ("a NS ns1 ; why", None, b"", b""),
            ("a\\000 NS b", None, b"", b""),
            ("*.a NS b", None, b"", b""),
            ("a..b NS b", None, b"", b""),
            ("a NS .", None, b"", b""),
            ("a NS b c", None, b"", b""),
            ("a NS (b", None, b"", b""),
            ("a ns b", None, b"", b""),
            ("a TXT b", None, b"", b""),
            ("a A 192.0.2.01", None, b"", b""),
            ("a 1h NS b", None, b"", b""),
            ("a 5 6 NS b", None, b"", b""),
            ("a DS 65536 13 2 0a", None, b"", b""),
            ("a DS 1 13 2 0a0", None, b"", b""),
            ("$TTL 5", None, b"", b""),
            ("", None, b"", b""),
            ("  ", None, b"", b""),
        ] {
            let found = plain.read(line.as_bytes(), Some(b"\x01l\0"), &context);
            assert_eq!(found.map(|found| (found.rtype, found.ttl)), read, "{line}");
            if read.is_some() {
                assert_eq!((&plain.owner[..], &plain.data[..]), (owner, data), "{line}");
            }
        }
        assert_eq!(plain.read(b" NS a", None, &context), None);
    }
}
