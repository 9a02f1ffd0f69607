//! Domain names in the form that they have in a message.
//!
//! A name is a sequence of labels, each a length octet (1 to 63) and that many octets. A zero octet, the root, ends it.
//! A name has at most 255 octets in total (RFC 1035 section 3.1):
//!
//! ```text
//!   3 w w w   7 e x a m p l e   0        www.example
//! ```
//!
//! Comparison of names ignores ASCII case (RFC 4343). Length octets are below 64 and upper-case letters above it,
//! so folding the case of every octet of a name, lengths included, is safe, and comparing needs no walk over labels.
//!
//! In text, a dot separates labels, `\.` is a dot inside a label, and `\065` is the octet 65 (RFC 1035 section 5.1). A
//! dot at the end is accepted and not printed: every name here is absolute.
//!
//! The order of names, and the ranges of labels that slice a zone and its queries, are in [`order`].

pub mod order;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use thiserror::Error;

/// Largest size of a name in wire form, in octets (RFC 1035 section 2.3.4).
pub const MAX_NAME: usize = 255;

/// Largest size of a label, in octets (RFC 1035 section 2.3.4).
pub const MAX_LABEL: usize = 63;

/// An absolute, uncompressed domain name of 1 to 255 octets, stored inline.
#[derive(Clone, Copy)]
pub struct Name {
    /// The wire form; zero beyond `len`.
    bytes: [u8; MAX_NAME],
    /// Number of octets in use, root included.
    len: u8,
}

impl Name {
    /// The root: a single empty label.
    pub const ROOT: Self = Self { bytes: [0; MAX_NAME], len: 1 };

    /// Reads the name that fills `wire`; an error if it is compressed, cut short or followed by other octets.
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

    /// Joins whole labels in wire form, of which the last one is the root; `None` if one of `labels` is, or if the name is too
    /// long.
    pub(crate) fn join<'a>(
        front: &[u8],
        labels: impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Option<Self> {
        let (mut name, mut len) = (Self::ROOT, front.len());
        name.bytes.get_mut(..len)?.copy_from_slice(front);
        for label in labels {
            let label = label?;
            name.bytes.get_mut(len..len + label.len())?.copy_from_slice(label);
            len += label.len();
        }
        name.len = len as u8;
        Some(name)
    }

    /// Returns the name in wire form, root included.
    #[inline]
    pub fn as_wire(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the size of the wire form in octets, 1..=255.
    #[inline]
    pub fn wire_len(&self) -> usize {
        usize::from(self.len)
    }

    /// Returns the name with its ASCII letters in lower case.
    pub fn to_lowercase(mut self) -> Self {
        self.bytes[..usize::from(self.len)].make_ascii_lowercase();
        self
    }

    /// Returns whether the name is the root.
    pub fn is_root(&self) -> bool {
        self.len == 1
    }

    /// Returns the labels from left to right, without the root.
    pub fn labels(&self) -> Labels<'_> {
        Labels(self.as_wire())
    }

    /// Returns the name above this one, without its first label; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let (first, rest) = self.as_wire().split_first()?;
        Self::from_wire(rest.get(usize::from(*first)..)?).ok()
    }

    /// Returns whether this name is `other` or lies below it.
    pub fn ends_with(&self, other: &Name) -> bool {
        strip_suffix(self.as_wire(), other.as_wire()).is_some()
    }

    /// Returns `label` followed by this name; an error if the label or the new name is too long.
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

impl Default for Name {
    /// Returns the root.
    fn default() -> Self {
        Self::ROOT
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

/// Writes an octet of a label as text, with an escape if needed.
fn write_octet(octet: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match octet {
        b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' | b'#' => {
            write!(f, "\\{}", char::from(octet))
        }
        _ if octet.is_ascii_graphic() => write!(f, "{}", char::from(octet)),
        _ => write!(f, "\\{octet:03}"),
    }
}

/// An iterator over the labels of a name from left to right, without the root.
#[derive(Clone, Debug)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Labels<'a> {
    /// Returns the labels of an uncompressed name in wire form.
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

/// The reason why a name is not valid; positions are counted in octets from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// The text has no character; the root is `.`.
    #[error("a name is missing: write the root as `.`")]
    Empty,
    /// The text has two dots in a row, or a dot at the start.
    #[error("an empty label at character {0}: write one dot between two labels")]
    EmptyLabel(usize),
    /// A label has more than 63 octets.
    #[error("a label has more than {MAX_LABEL} octets")]
    LabelTooLong,
    /// The name has more than 255 octets.
    #[error("the name has more than {MAX_NAME} octets in wire form")]
    TooLong,
    /// A backslash is not followed by a valid escape.
    #[error(
        "an invalid escape at character {0}: write `\\.` or three digits from `\\000` to `\\255`"
    )]
    Escape(usize),
    /// The text has a character that is not allowed in a name.
    #[error(
        "an unprintable or non-ASCII character at {0}: write international names in their `xn--` form"
    )]
    Character(usize),
    /// A length octet is 64 or above: a compression pointer or an unknown label type.
    #[error("octet {0} is not the length of a label: a compressed name cannot be used here")]
    Compressed(usize),
    /// The octets end before the name does.
    #[error("the name is cut short after {0} octets")]
    Cut(usize),
    /// Other octets follow the name.
    #[error("the name ends after {0} octets, but more octets follow")]
    Trailing(usize),
}

/// Returns the size of the uncompressed name at the start of `wire`, at most 255 octets; takes at most 128 steps.
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

/// Returns the labels of `name` in front of `suffix`, without a root: empty if the names are equal, `None` if `name` is
/// not below `suffix`.
///
/// Both are uncompressed names in wire form; case is ignored.
#[inline]
pub fn strip_suffix<'a>(name: &'a [u8], suffix: &[u8]) -> Option<&'a [u8]> {
    let split = name.len().checked_sub(suffix.len())?;
    let (front, back) = name.split_at(split);
    // Nearly every name has the same case as its zone, and an exact comparison is faster.
    if back != suffix && !back.eq_ignore_ascii_case(suffix) {
        return None;
    }
    // The same octets can also lie inside a label, so the split must be where a label starts.
    let mut at = 0;
    while at < split {
        at += 1 + usize::from(front[at]);
    }
    (at == split).then_some(front)
}

/// A name under construction, with an open label whose length octet is not written yet.
struct Builder {
    name: Name,
    /// The position of the length octet of the open label.
    start: usize,
    /// The position of the next octet.
    at: usize,
}

impl Builder {
    /// Returns a builder without labels.
    fn new() -> Self {
        Self { name: Name::ROOT, start: 0, at: 1 }
    }

    /// Returns whether the open label has octets.
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

    /// Ends the open label, which must not be empty; `place` is the position in the text, for errors.
    fn close_label(&mut self, place: usize) -> Result<(), NameError> {
        if !self.in_label() {
            return Err(NameError::EmptyLabel(place));
        }
        self.name.bytes[self.start] = (self.at - self.start - 1) as u8;
        self.start = self.at;
        self.at += 1;
        Ok(())
    }

    /// Writes the root after the last label and returns the name.
    fn finish(mut self) -> Name {
        self.name.bytes[self.start] = 0;
        self.name.len = (self.start + 1) as u8;
        self.name
    }
}

/// Returns the octet of the escape at the start of `text`, and the number of characters of the escape.
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
    fn names_are_read_and_printed() {
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
    fn each_name_but_the_root_has_a_parent() {
        let mut name: Name = r"a\.b.www.test".parse().unwrap();
        for expected in ["www.test", "test", "."] {
            name = name.parent().unwrap();
            assert_eq!(name.to_string(), expected);
        }
        assert_eq!(name.parent(), None);
    }

    #[test]
    fn invalid_text_is_refused() {
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
    fn invalid_wire_form_is_refused() {
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
    fn comparison_ignores_case() {
        let (a, b): (Name, Name) =
            ("DNS64perf.Test".parse().unwrap(), "dns64PERF.tesT".parse().unwrap());
        assert_eq!(a, b);
        let host = a.prepend(b"010-000-000-001").unwrap();
        assert!(host.ends_with(&b) && host.ends_with(&Name::ROOT) && !b.ends_with(&host));
        // `\004test` inside a label looks like the suffix `test`, but is not.
        let inside: Name = r"ab\004test".parse().unwrap();
        assert!(!inside.ends_with(&"test".parse().unwrap()));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            if let Ok(name) = text.parse::<Name>() {
                let again: Name = name.to_string().parse().unwrap();
                proptest::prop_assert_eq!(again.as_wire(), name.as_wire());
            }
        }

        #[test]
        fn any_octets_are_read_or_refused(wire: Vec<u8>) {
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
