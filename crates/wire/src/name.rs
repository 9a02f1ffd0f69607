//! Domain names as they stand in a message.
//!
//! A name is a row of labels, each a length octet (1 to 63) and that many octets, closed by a zero octet, the root; at
//! most 255 octets in all (RFC 1035 section 3.1):
//!
//! ```text
//!   3 w w w   7 e x a m p l e   0        www.example
//! ```
//!
//! Names compare without regard to ASCII case (RFC 4343). Length octets are below 64 and upper-case letters above it,
//! so folding the case of every octet of a name, lengths included, is safe, and comparing needs no walk over labels.
//!
//! In text, a dot parts labels, `\.` is a dot inside a label, and `\065` is the octet 65 (RFC 1035 section 5.1). A
//! closing dot is taken and not printed: every name here is absolute.
//!
//! Their order, and the ranges that cut a zone and its queries alike, are in [`order`].

pub mod order;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use thiserror::Error;

/// The most octets of a name on the wire (RFC 1035 section 2.3.4).
pub const MAX_NAME: usize = 255;

/// The most octets of a label (RFC 1035 section 2.3.4).
pub const MAX_LABEL: usize = 63;

/// An absolute, uncompressed domain name of 1 to 255 octets, kept inline.
#[derive(Clone, Copy)]
pub struct Name {
    /// The wire form; zero beyond `len`.
    bytes: [u8; MAX_NAME],
    /// How many octets are in use, closing root included.
    len: u8,
}

impl Name {
    /// The root.
    pub const ROOT: Self = Self { bytes: [0; MAX_NAME], len: 1 };

    /// The name that `wire` consists of; an error if it is compressed, cut or followed by something.
    pub fn from_wire(wire: &[u8]) -> Result<Self, NameError> {
        let len = wire_len(wire)?;
        if len != wire.len() {
            return Err(NameError::Trailing(len));
        }
        let mut name = Self::ROOT;
        name.bytes[..len].copy_from_slice(wire);
        name.len = len as u8;
        Ok(name)
    }

    /// The name in wire form, closing root included.
    #[inline]
    pub fn as_wire(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// How many octets the wire form has, 1..=255.
    #[inline]
    pub fn wire_len(&self) -> usize {
        usize::from(self.len)
    }

    /// The name with its ASCII letters in lower case.
    pub fn to_lowercase(mut self) -> Self {
        self.bytes[..usize::from(self.len)].make_ascii_lowercase();
        self
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.len == 1
    }

    /// The labels from the left, without the root.
    pub fn labels(&self) -> Labels<'_> {
        Labels(self.as_wire())
    }

    /// Whether this name is `other` or lies below it.
    pub fn ends_with(&self, other: &Name) -> bool {
        strip_suffix(self.as_wire(), other.as_wire()).is_some()
    }

    /// The name one label longer: `label` and then this name; an error if either gets too long.
    pub fn prepend(&self, label: &[u8]) -> Result<Self, NameError> {
        let mut longer = Builder::new();
        label.iter().try_for_each(|&octet| longer.push(octet))?;
        longer.close_label(0)?;
        for label in self.labels() {
            label.iter().try_for_each(|&octet| longer.push(octet))?;
            longer.close_label(0)?;
        }
        Ok(longer.finish())
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_wire().eq_ignore_ascii_case(other.as_wire())
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for octet in self.as_wire() {
            state.write_u8(octet.to_ascii_lowercase());
        }
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "." {
            return Ok(Self::ROOT);
        }
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        let bytes = text.as_bytes();
        let mut name = Builder::new();
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'.' => {
                    name.close_label(at)?;
                    at += 1;
                }
                b'\\' => {
                    let (octet, used) = unescape(&bytes[at..]).ok_or(NameError::Escape(at))?;
                    name.push(octet)?;
                    at += used;
                }
                octet if octet.is_ascii_graphic() || octet == b' ' => {
                    name.push(octet)?;
                    at += 1;
                }
                _ => return Err(NameError::Character(at)),
            }
        }
        if name.in_label() {
            name.close_label(at)?;
        }
        Ok(name.finish())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for (number, label) in self.labels().enumerate() {
            if number > 0 {
                f.write_str(".")?;
            }
            for &octet in label {
                write_octet(octet, f)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

/// Writes an octet of a label, escaped where text needs it.
fn write_octet(octet: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match octet {
        b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => {
            write!(f, "\\{}", char::from(octet))
        }
        _ if octet.is_ascii_graphic() => write!(f, "{}", char::from(octet)),
        _ => write!(f, "\\{octet:03}"),
    }
}

/// The labels of a name from the left, without the root.
#[derive(Clone, Debug)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Labels<'a> {
    /// The labels of an uncompressed name in wire form.
    pub fn of(name: &'a [u8]) -> Self {
        Labels(name)
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&len, rest) = self.0.split_first()?;
        if len == 0 {
            return None;
        }
        let (label, rest) = rest.split_at_checked(usize::from(len))?;
        self.0 = rest;
        Some(label)
    }
}

/// What is wrong with a name; places are counted in octets from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// There is no text.
    #[error("a name is missing: write the root as `.`")]
    Empty,
    /// Two dots in a row, or one at the start.
    #[error("an empty label at character {0}: labels are parted by one dot")]
    EmptyLabel(usize),
    /// A label of more than 63 octets.
    #[error("a label has more than 63 octets")]
    LabelTooLong,
    /// A name of more than 255 octets.
    #[error("the name has more than 255 octets on the wire")]
    TooLong,
    /// A backslash with nothing valid behind it.
    #[error("a bad escape at character {0}: write `\\.` or three digits from `\\000` to `\\255`")]
    Escape(usize),
    /// A character that no name in text has.
    #[error(
        "an unprintable or non-ASCII character at {0}: write international names in their `xn--` form"
    )]
    Character(usize),
    /// A length octet of 64 and above: a compression pointer or an unknown label type.
    #[error("the octet {0} is not the length of a label: a compressed name cannot be used here")]
    Compressed(usize),
    /// The octets end inside the name.
    #[error("the name is cut after {0} octets")]
    Cut(usize),
    /// Something follows the name.
    #[error("octets follow the name, which ends after {0}")]
    Trailing(usize),
}

/// How many octets the uncompressed name at the start of `wire` takes, at most 255; at most 128 steps.
#[inline]
pub fn wire_len(wire: &[u8]) -> Result<usize, NameError> {
    let mut at = 0;
    loop {
        match wire.get(at) {
            Some(0) => return if at < MAX_NAME { Ok(at + 1) } else { Err(NameError::TooLong) },
            Some(&len) if usize::from(len) <= MAX_LABEL => at += 1 + usize::from(len),
            Some(_) => return Err(NameError::Compressed(at)),
            None => return Err(NameError::Cut(wire.len())),
        }
        if at >= MAX_NAME {
            return Err(NameError::TooLong);
        }
    }
}

/// The labels of `name` in front of `suffix`, without a root: empty if they are equal, `None` if `name` is not below it.
///
/// Both are uncompressed names in wire form; case is ignored.
#[inline]
pub fn strip_suffix<'a>(name: &'a [u8], suffix: &[u8]) -> Option<&'a [u8]> {
    let split = name.len().checked_sub(suffix.len())?;
    let (front, back) = name.split_at(split);
    // Nearly every name is written in the case of its zone, and comparing as it stands is quicker.
    if back != suffix && !back.eq_ignore_ascii_case(suffix) {
        return None;
    }
    // The same octets can also straddle a label, so the split must be where a label starts.
    let mut at = 0;
    while at < split {
        at += 1 + usize::from(front[at]);
    }
    (at == split).then_some(front)
}

/// A name under construction, with an open label whose length octet is not written yet.
struct Builder {
    name: Name,
    /// Where the open label's length octet goes.
    start: usize,
    /// Where the next octet goes.
    at: usize,
}

impl Builder {
    /// No labels yet.
    fn new() -> Self {
        Self { name: Name::ROOT, start: 0, at: 1 }
    }

    /// Whether the open label has octets.
    fn in_label(&self) -> bool {
        self.at > self.start + 1
    }

    /// Adds an octet to the open label.
    fn push(&mut self, octet: u8) -> Result<(), NameError> {
        if self.at - self.start > MAX_LABEL {
            return Err(NameError::LabelTooLong);
        }
        // One octet stays free for the root.
        if self.at >= MAX_NAME - 1 {
            return Err(NameError::TooLong);
        }
        self.name.bytes[self.at] = octet;
        self.at += 1;
        Ok(())
    }

    /// Ends the open label, which must not be empty; `place` is where in the text that happens.
    fn close_label(&mut self, place: usize) -> Result<(), NameError> {
        if !self.in_label() {
            return Err(NameError::EmptyLabel(place));
        }
        self.name.bytes[self.start] = (self.at - self.start - 1) as u8;
        self.start = self.at;
        self.at += 1;
        Ok(())
    }

    /// Writes the root behind the last closed label.
    fn finish(mut self) -> Name {
        self.name.bytes[self.start] = 0;
        self.name.len = (self.start + 1) as u8;
        self.name
    }
}

/// The octet of the escape that `text` starts with, and how many characters it takes.
fn unescape(text: &[u8]) -> Option<(u8, usize)> {
    let first = *text.get(1)?;
    if !first.is_ascii_digit() {
        return first.is_ascii_graphic().then_some((first, 2));
    }
    let digits = text.get(1..4)?;
    let value = digits.iter().try_fold(0u16, |value, digit| {
        digit.is_ascii_digit().then(|| value * 10 + u16::from(digit - b'0'))
    })?;
    Some((u8::try_from(value).ok()?, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints() {
        for (text, wire, printed) in [
            (".", &b"\0"[..], "."),
            ("test", b"\x04test\0", "test"),
            ("dns64perf.test.", b"\x09dns64perf\x04test\0", "dns64perf.test"),
            (r"a\.b.c", b"\x03a.b\x01c\0", r"a\.b.c"),
            (r"\065\000", b"\x02A\0\0", r"A\000"),
            ("_sip._tcp.x", b"\x04_sip\x04_tcp\x01x\0", "_sip._tcp.x"),
            ("a b", b"\x03a b\0", r"a\032b"),
        ] {
            let name: Name = text.parse().unwrap();
            assert_eq!(name.as_wire(), wire, "{text}");
            assert_eq!(name.to_string(), printed, "{text}");
            assert_eq!(Name::from_wire(wire), Ok(name));
        }
    }

    #[test]
    fn refuses_text() {
        let long = "a".repeat(64);
        let label = "a".repeat(63);
        let name = [&label[..]; 4].join(".");
        for (text, error) in [
            ("", NameError::Empty),
            ("..", NameError::EmptyLabel(0)),
            (".a", NameError::EmptyLabel(0)),
            ("a..b", NameError::EmptyLabel(2)),
            ("a\\", NameError::Escape(1)),
            ("a\\25", NameError::Escape(1)),
            ("a\\256", NameError::Escape(1)),
            ("a\\2x5", NameError::Escape(1)),
            ("bücher.example", NameError::Character(1)),
            ("a\tb", NameError::Character(1)),
            (&long, NameError::LabelTooLong),
            (&name, NameError::TooLong),
        ] {
            assert_eq!(text.parse::<Name>(), Err(error), "{text}");
        }
    }

    #[test]
    fn the_longest_name_fits() {
        let label = "a".repeat(63);
        let text = [&label[..], &label[..], &label[..], &"b".repeat(61)].join(".");
        let name: Name = text.parse().unwrap();
        assert_eq!(name.wire_len(), 255);
        assert_eq!(Name::from_wire(name.as_wire()), Ok(name));
        assert_eq!(name.prepend(b"x"), Err(NameError::TooLong));
        let one_more = format!("{text}b");
        assert_eq!(one_more.parse::<Name>(), Err(NameError::TooLong));
    }

    #[test]
    fn refuses_wire() {
        for (wire, error) in [
            (&b""[..], NameError::Cut(0)),
            (b"\x03ab", NameError::Cut(3)),
            (b"\x01a\xc0\x0c", NameError::Compressed(2)),
            (b"\x40", NameError::Compressed(0)),
            (b"\x01a\0x", NameError::Trailing(3)),
        ] {
            assert_eq!(Name::from_wire(wire), Err(error), "{wire:?}");
        }
        let endless = [1u8; 300];
        assert_eq!(Name::from_wire(&endless), Err(NameError::TooLong));
    }

    #[test]
    fn compares_without_case() {
        let (a, b): (Name, Name) =
            ("DNS64perf.Test".parse().unwrap(), "dns64PERF.tesT".parse().unwrap());
        assert_eq!(a, b);
        let host = a.prepend(b"010-000-000-001").unwrap();
        assert!(host.ends_with(&b) && host.ends_with(&Name::ROOT) && !b.ends_with(&host));
        // `\004test` inside a label looks like the suffix `test` and is not.
        let inside: Name = r"ab\004test".parse().unwrap();
        assert!(!inside.ends_with(&"test".parse().unwrap()));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text: String) {
            if let Ok(name) = text.parse::<Name>() {
                let again: Name = name.to_string().parse().unwrap();
                proptest::prop_assert_eq!(again.as_wire(), name.as_wire());
            }
        }

        #[test]
        fn any_wire_is_survived(wire: Vec<u8>) {
            if let Ok(name) = Name::from_wire(&wire) {
                proptest::prop_assert_eq!(name.as_wire(), &wire[..]);
                let again: Name = name.to_string().parse().unwrap();
                proptest::prop_assert_eq!(again.as_wire(), &wire[..]);
            }
        }

        #[test]
        fn labels_make_names(labels in proptest::collection::vec(proptest::collection::vec(0u8.., 1..20), 0..10)) {
            let name = labels.iter().rev().try_fold(Name::ROOT, |name, label| name.prepend(label)).unwrap();
            proptest::prop_assert!(name.labels().eq(labels.iter().map(|label| &label[..])));
            proptest::prop_assert_eq!(Name::from_wire(name.as_wire()).unwrap(), name);
        }
    }
}
