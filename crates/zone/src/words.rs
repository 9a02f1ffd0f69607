//! The words of an entry of a zone file, and the small values that are single words: numbers, periods, names, text.
//!
//! ```text
//!   www 1h30m IN TXT ( "a word; with blanks"   ; a comment
//!                      \097nother\ word )      two words of text
//! ```
//!
//! Blanks, comments, parentheses and the line breaks inside of them separate words. A word keeps its escapes, `\DDD` for
//! an octet and `\X` for the character X (RFC 1035 section 5.1), because a name and a text treat them differently.

use domain::base::Rtype;
use wire::Qtype;
use wire::name::{MAX_LABEL, MAX_NAME};
use wire::period::period;

/// A mistake in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The octet in the entry, from 0.
    pub(crate) at: usize,
    /// The mistake, and what to write.
    pub(crate) why: String,
}

/// A word, without its quotes and with its escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) quoted: bool,
    /// The octet in the entry where the word starts, from 0.
    pub(crate) at: usize,
}

/// The words of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a> {
    entry: &'a [u8],
    at: usize,
    depth: u32,
}

/// Returns whether an octet ends a word that is not quoted.
fn is_end(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"')
}

impl<'a> Words<'a> {
    /// Returns the words of a whole entry: its quotes and parentheses are closed.
    pub(crate) fn new(entry: &'a [u8]) -> Self {
        Words { entry, at: 0, depth: 0 }
    }

    /// Returns the mistake at the end of the words that were read.
    pub(crate) fn mistake_here(&self, why: impl Into<String>) -> Mistake {
        Mistake { at: self.at.min(self.entry.trim_ascii_end().len()), why: why.into() }
    }

    /// Moves to the start of the next word; returns its first octet.
    fn skip_blanks(&mut self) -> Option<u8> {
        loop {
            let octet = *self.entry.get(self.at)?;
            match octet {
                b' ' | b'\t' | b'\r' | b'\n' => {}
                b'(' => self.depth += 1,
                b')' if self.depth > 0 => self.depth -= 1,
                b';' => {
                    let rest = &self.entry[self.at..];
                    self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                    continue;
                }
                other => return Some(other),
            }
            self.at += 1;
        }
    }

    /// Returns the length of the quoted text that starts here, without its closing quote.
    fn quoted_len(&self) -> usize {
        let text = &self.entry[self.at..];
        let mut len = 0;
        while let Some(&octet) = text.get(len) {
            match octet {
                b'"' => break,
                b'\\' => len += 2,
                _ => len += 1,
            }
        }
        len.min(text.len())
    }

    /// Returns the next word, `None` after the last. With `pair`, a quoted value may follow an equals sign:
    /// `key="a b"` is one word, quotes included.
    fn take(&mut self, pair: bool) -> Option<Word<'a>> {
        let first = self.skip_blanks()?;
        let at = self.at;
        if first == b'"' {
            self.at += 1;
            let len = self.quoted_len();
            let text = &self.entry[self.at..self.at + len];
            self.at = (self.at + len + 1).min(self.entry.len());
            return Some(Word { text, quoted: true, at });
        }
        // A closing parenthesis that was not opened is a word of its own.
        let mut end = at + usize::from(first == b')');
        while let Some(&octet) = self.entry.get(end).filter(|_| first != b')') {
            match octet {
                // An escape reaches over no line break.
                b'\\' => match self.entry.get(end + 1) {
                    Some(b'\n' | b'\r') => end += 1,
                    _ => end += 2,
                },
                b'"' if pair && self.entry[end - 1] == b'=' => {
                    self.at = end + 1;
                    end = self.at + self.quoted_len() + 1;
                    break;
                }
                other if is_end(other) => break,
                _ => end += 1,
            }
        }
        self.at = end.min(self.entry.len());
        Some(Word { text: &self.entry[at..self.at], quoted: false, at })
    }

    /// Returns the next word; `None` after the last.
    pub(crate) fn next(&mut self) -> Option<Word<'a>> {
        self.take(false)
    }

    /// Returns the next word, which may be `key="value"`; `None` after the last.
    pub(crate) fn next_pair(&mut self) -> Option<Word<'a>> {
        self.take(true)
    }

    /// Returns the next word without moving past it.
    pub(crate) fn peek(&self) -> Option<Word<'a>> {
        self.clone().next()
    }

    /// Returns the next word; `what` describes it in the error message if it is missing.
    pub(crate) fn need(&mut self, what: &str) -> Result<Word<'a>, Mistake> {
        self.next()
            .ok_or_else(|| self.mistake_here(format!("the record is cut short: {what} is missing")))
    }

    /// Checks that no word is left; `what` names the complete text.
    pub(crate) fn end(&mut self, what: &str) -> Result<(), Mistake> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(word.mistake(format!("{what} is complete: remove this word"))),
        }
    }

    /// Appends the text of all words that are left.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(word) = self.next() {
            all.extend_from_slice(word.text);
        }
        all
    }
}

impl Word<'_> {
    /// Returns the mistake at this word.
    pub(crate) fn mistake(&self, why: impl Into<String>) -> Mistake {
        Mistake { at: self.at, why: why.into() }
    }

    /// Returns the mistake of a word that is not `what`.
    pub(crate) fn is_not(&self, what: &str) -> Mistake {
        self.mistake(format!("`{}` is not {what}", String::from_utf8_lossy(self.text)))
    }

    /// Returns the word as text; empty if it is not UTF-8.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.text).unwrap_or_default()
    }

    /// Reads a whole number up to `max`.
    pub(crate) fn number(&self, max: u64) -> Result<u64, Mistake> {
        let digits = !self.text.is_empty() && self.text.iter().all(u8::is_ascii_digit);
        let number = self.as_str().parse().ok().filter(|&number| digits && number <= max);
        number.ok_or_else(|| self.is_not(&format!("a whole number up to {max}")))
    }

    /// Reads a time in seconds, or with units: `1h`, `1w2d`.
    pub(crate) fn period(&self) -> Result<u32, Mistake> {
        period(self.text).ok_or_else(|| self.is_not("a time such as 3600, 1h or 1w2d"))
    }

    /// Reads a record type; `None` if the word is not one.
    pub(crate) fn rtype(&self) -> Option<Rtype> {
        self.as_str().parse().ok().map(|Qtype(number)| Rtype::from_int(number))
    }

    /// Appends the octets of a text, without its escapes.
    pub(crate) fn octets(&self, out: &mut Vec<u8>) -> Result<(), Mistake> {
        let mut at = 0;
        while let Some((octet, used)) = octet(self.text, at) {
            out.push(octet);
            at += used;
        }
        if at == self.text.len() { Ok(()) } else { Err(self.bad_escape(at)) }
    }

    fn bad_escape(&self, at: usize) -> Mistake {
        let at = self.at + at + usize::from(self.quoted);
        let why = "an invalid escape: write `\\` and a character, or three digits from `\\000` to `\\255`";
        Mistake { at, why: why.into() }
    }

    /// Appends a name in wire form; a relative name is below `origin`, which is empty if it is not known.
    pub(crate) fn name(&self, origin: &[u8], out: &mut Vec<u8>) -> Result<(), Mistake> {
        let begin = out.len();
        let absolute = match self.text {
            b"@" if !self.quoted => false,
            b"." => {
                out.push(0);
                return Ok(());
            }
            _ => self.labels(out)?,
        };
        if absolute {
            out.push(0);
        } else if origin.is_empty() {
            return Err(self.mistake("the origin of this name is not known: end it with a dot, start with $ORIGIN, or give the zone name"));
        } else {
            out.extend_from_slice(origin);
        }
        if out.len() - begin > MAX_NAME {
            return Err(self.mistake(format!("the name has more than {MAX_NAME} octets")));
        }
        Ok(())
    }

    /// Appends the labels of a name; returns whether the name ends with a dot.
    fn labels(&self, out: &mut Vec<u8>) -> Result<bool, Mistake> {
        let (mut start, mut at) = (out.len(), 0);
        out.push(0);
        while at < self.text.len() {
            if self.text[at] == b'.' {
                at += 1;
                if out.len() == start + 1 {
                    let why =
                        "a name has two dots in a row: write at least one character between them";
                    return Err(self.mistake(why));
                }
                if at == self.text.len() {
                    return Ok(true);
                }
                start = out.len();
                out.push(0);
                continue;
            }
            let (octet, used) = octet(self.text, at).ok_or_else(|| self.bad_escape(at))?;
            if out.len() - start > MAX_LABEL {
                return Err(
                    self.mistake(format!("a label of the name has more than {MAX_LABEL} octets"))
                );
            }
            out.push(octet);
            out[start] += 1;
            at += used;
        }
        if self.text.is_empty() {
            return Err(self.mistake("a name is empty: write the root as `.`"));
        }
        Ok(false)
    }
}

/// Returns the octet of the text at `at`, and its length in characters; `None` at the end or if it
/// is an invalid escape.
pub(crate) fn octet(text: &[u8], at: usize) -> Option<(u8, usize)> {
    match *text.get(at..)? {
        [b'\\', a, b, c, ..] if [a, b, c].iter().all(u8::is_ascii_digit) => {
            let number = [a, b, c].iter().fold(0u16, |n, digit| n * 10 + u16::from(digit - b'0'));
            Some((u8::try_from(number).ok()?, 4))
        }
        [b'\\', digit, ..] if digit.is_ascii_digit() => None,
        [b'\\', other, ..] => Some((other, 2)),
        [b'\\'] | [] => None,
        [other, ..] => Some((other, 1)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(entry: &str) -> Vec<(String, bool)> {
        let mut words = Words::new(entry.as_bytes());
        std::iter::from_fn(|| words.next())
            .map(|word| (String::from_utf8_lossy(word.text).into(), word.quoted))
            .collect()
    }

    #[test]
    fn words_are_separated_as_bind_does() {
        for (entry, expected) in [
            ("a  b\tc\r\n", vec![("a", false), ("b", false), ("c", false)]),
            ("a ( b ; c )\n d )", vec![("a", false), ("b", false), ("d", false)]),
            ("a\"b c\"\"d\"e", vec![("a", false), ("b c", true), ("d", true), ("e", false)]),
            ("a\\ b \"c\\\"d\" \\;", vec![("a\\ b", false), ("c\\\"d", true), ("\\;", false)]),
            ("a )b", vec![("a", false), (")", false), ("b", false)]),
            ("", vec![]),
        ] {
            let expected: Vec<_> = expected.iter().map(|(t, q)| ((*t).to_owned(), *q)).collect();
            assert_eq!(words(entry), expected, "{entry}");
        }
        let mut pairs = Words::new(b"alpn=\"h2 h3\" port=1");
        assert_eq!(pairs.next_pair().map(|word| word.text), Some(&b"alpn=\"h2 h3\""[..]));
        assert_eq!(pairs.next_pair().map(|word| word.text), Some(&b"port=1"[..]));
    }

    proptest! {
        #[test]
        fn any_entry_is_split(entry: Vec<u8>) {
            let mut words = Words::new(&entry);
            let mut out = Vec::new();
            while let Some(word) = words.next() {
                let _ = (word.number(99), word.period(), word.rtype());
                let _ = word.octets(&mut out);
                out.clear();
                if word.name(b"\0", &mut out).is_ok() {
                    prop_assert_eq!(wire::name::wire_len(&out), Ok(out.len()));
                }
                out.clear();
            }
            let mut words = Words::new(&entry);
            while words.next_pair().is_some() {}
        }
    }
}
