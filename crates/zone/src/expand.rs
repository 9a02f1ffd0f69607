//! Expansion of `$GENERATE`, one line of a zone file that stands for many (BIND Administrator Reference Manual, section
//! 8.2.3).
//!
//! ```text
//!   $GENERATE 1-3      host-${10,3,d} A 192.0.2.$        $ is the number, \$ and $$ are a dollar sign, written \$
//!             from-to[/step]  ${offset,width,base}       base d, o, x, X; n, N: hexadecimal digits in reverse order, with dots
//! ```

use std::fmt::Write as _;

use crate::words::Words;

/// Largest width of a number, in characters.
const MAX_WIDTH: usize = 255;
/// Largest number and offset; the limit of BIND too.
const MAX_NUMBER: i64 = i32::MAX as i64;

/// A part of the text after the range.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TextPart {
    Text(Vec<u8>),
    Number { offset: i64, width: usize, base: u8 },
}

/// The lines that a `$GENERATE` entry expands to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expansion {
    parts: Vec<TextPart>,
    next: i64,
    stop: i64,
    step: i64,
}

/// The mistake in a `$GENERATE` entry: its octet in the entry, from 0, and the reason.
pub(crate) type Mistake = (usize, String);

impl Expansion {
    /// Reads a `$GENERATE` entry, from its range on.
    pub(crate) fn parse(entry: &[u8]) -> Result<Self, Mistake> {
        let mut words = words(entry).skip(1);
        let (at, range) =
            words.next().ok_or_else(|| (9, "$GENERATE needs a range here, such as 1-10".into()))?;
        let (next, stop, step) = parse_range(range).ok_or_else(|| {
            let range = String::from_utf8_lossy(range);
            let why = format!("`{range}` is not a range of $GENERATE: write one such as 1-10 or 0-254/2, up to {MAX_NUMBER}");
            (at, why)
        })?;
        let end = at + range.len();
        let blank = entry[end..].iter().take_while(|octet| octet.is_ascii_whitespace()).count();
        let parts = match without_quotes(entry) {
            Some(entry) => template(&entry, end + blank)?,
            None => template(entry, end + blank)?,
        };
        Ok(Expansion { parts, next, stop, step })
    }

    /// Returns the number of the next line; `None` after the last.
    pub(crate) fn next_number(&self) -> Option<i64> {
        (self.next <= self.stop).then_some(self.next)
    }

    /// Appends the next line to `out`.
    pub(crate) fn next_line(&mut self, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                TextPart::Text(text) => out.extend_from_slice(text),
                TextPart::Number { offset, width, base } => {
                    out.extend_from_slice(number(self.next + offset, *width, *base).as_bytes());
                }
            }
        }
        self.next += self.step;
    }
}

/// Returns the entry without the quotes around its data, which may have several words then, as for named; `None` if the data is
/// not a single quoted word.
fn without_quotes(entry: &[u8]) -> Option<Vec<u8>> {
    let (mut words, mut kind, mut data) = (Words::new(entry), None, None);
    while let Some(word) = words.next() {
        kind = data.replace(word);
    }
    kind.filter(|kind| !kind.quoted && kind.rtype().is_some())?;
    let data = data.filter(|data| data.quoted)?;
    let mut out = entry[..data.at].to_vec();
    let mut text = data.text;
    while let Some((&octet, rest)) = text.split_first() {
        let is_quote = octet == b'\\' && rest.first() == Some(&b'"');
        out.push(if is_quote { b'"' } else { octet });
        text = if is_quote { &rest[1..] } else { rest };
    }
    Some(out)
}

/// Returns the words of an entry and their offsets.
fn words(entry: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += entry[at..].iter().take_while(|octet| octet.is_ascii_whitespace()).count();
        let length = entry[at..].iter().take_while(|octet| !octet.is_ascii_whitespace()).count();
        let word = (at, &entry[at..at + length]);
        at += length;
        (length > 0).then_some(word)
    })
}

/// Reads the range of an entry, `from-to` or `from-to/step`.
fn parse_range(range: &[u8]) -> Option<(i64, i64, i64)> {
    let range = std::str::from_utf8(range).ok()?;
    let (range, step) = range.split_once('/').unwrap_or((range, "1"));
    let (start, stop) = range.split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
        text.parse::<i64>().ok().filter(|&n| digits && n <= MAX_NUMBER)
    };
    let (start, stop, step) = (number(start)?, number(stop)?, number(step)?);
    (start <= stop && step > 0).then_some((start, stop, step))
}

/// Reads the text after the range, from octet `at` on.
fn template(entry: &[u8], mut at: usize) -> Result<Vec<TextPart>, Mistake> {
    if at >= entry.len() {
        return Err((at, "$GENERATE needs an owner, a type and data after its range".into()));
    }
    let (mut parts, mut text) = (Vec::new(), Vec::new());
    while let Some(&octet) = entry.get(at) {
        match (octet, entry.get(at + 1)) {
            (b'\\', Some(b'$')) | (b'$', Some(b'$')) => {
                text.extend(b"\\$");
                at += 2;
            }
            (b'\\', Some(&next)) => {
                text.extend([octet, next]);
                at += 2;
            }
            (b'$', next) => {
                let (number, length) = if next == Some(&b'{') {
                    modifier(entry, at)?
                } else {
                    (TextPart::Number { offset: 0, width: 0, base: b'd' }, 1)
                };
                if !text.is_empty() {
                    parts.push(TextPart::Text(std::mem::take(&mut text)));
                }
                parts.push(number);
                at += length;
            }
            _ => {
                text.push(octet);
                at += 1;
            }
        }
    }
    if text.last() != Some(&b'\n') {
        text.push(b'\n');
    }
    parts.push(TextPart::Text(text));
    Ok(parts)
}

/// Reads `${offset,width,base}` at octet `at`; returns it and its length in octets.
fn modifier(entry: &[u8], at: usize) -> Result<(TextPart, usize), Mistake> {
    let wrong = || {
        let form = "write ${offset,width,base} with a width up to";
        (at, format!("{form} {MAX_WIDTH} and base d, o, x, X, n or N"))
    };
    let length = entry[at..].iter().position(|&octet| octet == b'}').ok_or_else(wrong)?;
    let inner = std::str::from_utf8(&entry[at + 2..at + length]).map_err(|_| wrong())?;
    let mut fields = inner.split(',');
    let offset = fields.next().and_then(|text| text.trim().parse::<i64>().ok());
    let offset = offset.filter(|n| n.abs() <= MAX_NUMBER).ok_or_else(wrong)?;
    let width = fields.next().map_or(Some(0), |text| text.trim().parse().ok());
    let width = width.filter(|&width| width <= MAX_WIDTH).ok_or_else(wrong)?;
    let base = fields.next().map_or("d", str::trim);
    let known = base.len() == 1 && b"doxXnN".contains(&base.as_bytes()[0]);
    if !known || fields.next().is_some() {
        return Err(wrong());
    }
    Ok((TextPart::Number { offset, width, base: base.as_bytes()[0] }, length + 1))
}

/// Formats a number; only base d prints negative numbers.
fn number(value: i64, width: usize, base: u8) -> String {
    let bits = value as u32;
    match base {
        b'o' => format!("{bits:0width$o}"),
        b'x' => format!("{bits:0width$x}"),
        b'X' => format!("{bits:0width$X}"),
        b'n' | b'N' => nibbles(bits, width, base == b'N'),
        _ => format!("{value:0width$}"),
    }
}

/// Formats a number as hexadecimal digits in reverse order with dots between them; as in BIND, the width counts the
/// dots.
fn nibbles(mut value: u32, mut width: usize, capital: bool) -> String {
    let mut text = String::new();
    loop {
        let digit = value & 15;
        // Writing to a String does not fail.
        let _ = if capital { write!(text, "{digit:X}") } else { write!(text, "{digit:x}") };
        value >>= 4;
        width = width.saturating_sub(1);
        if width == 0 && value == 0 {
            return text;
        }
        text.push('.');
        width = width.saturating_sub(1);
        if width == 0 && value == 0 {
            return text;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(entry: &str) -> Result<String, Mistake> {
        let mut expansion = Expansion::parse(entry.as_bytes())?;
        let mut out = Vec::new();
        while expansion.next_number().is_some() {
            expansion.next_line(&mut out);
        }
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn lines_are_those_that_bind_makes() {
        for (entry, expected) in [
            ("$GENERATE 1-3 a$ A 192.0.2.$\n", "a1 A 192.0.2.1\na2 A 192.0.2.2\na3 A 192.0.2.3\n"),
            ("$GENERATE 0-1 $ TXT \\$$$$\n", "0 TXT \\$\\$0\n1 TXT \\$\\$1\n"),
            (
                "$GENERATE 0-4/2 \\$a$ A 1.2.3.4",
                "\\$a0 A 1.2.3.4\n\\$a2 A 1.2.3.4\n\\$a4 A 1.2.3.4\n",
            ),
            ("$GENERATE 1-1 $$ A 1.2.3.4", "\\$ A 1.2.3.4\n"),
            ("$generate 9-10 h${0,3} A 10.0.0.${-9}", "h009 A 10.0.0.0\nh010 A 10.0.0.1\n"),
            ("$GENERATE 255-255 ${0,4,x}${1,0,X}${0,0,o} A 1.2.3.4", "00ff100377 A 1.2.3.4\n"),
            ("$GENERATE 18-18 ${0,0,n}.${0,5,N} A 1.2.3.4", "2.1.2.1.0 A 1.2.3.4\n"),
            ("$GENERATE 1-1 \\000\\a$ A 1.2.3.4", "\\000\\a1 A 1.2.3.4\n"),
            ("$GENERATE 1-1 a$ 5 TXT \"x y $\"\n", "a1 5 TXT x y 1\n"),
            ("$GENERATE 1-1 a$ IN TXT \"\\\"x y\\\" $\" ; c", "a1 IN TXT \"x y\" 1\n"),
        ] {
            assert_eq!(lines(entry).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn mistakes_have_their_place() {
        for (entry, at, part) in [
            ("$GENERATE\n", 9, "needs a range here"),
            ("$GENERATE 3-1 a A 1.2.3.4\n", 10, "`3-1` is not a range"),
            ("$GENERATE 1-2147483648 a\n", 10, "is not a range"),
            ("$GENERATE 1-3/0 a\n", 10, "is not a range"),
            ("$GENERATE 1-3 \n", 15, "needs an owner"),
            ("$GENERATE 1-3 a${1,2,q} A 1.2.3.4\n", 15, "write ${offset,width,base}"),
            ("$GENERATE 1-3 a${1 A 1.2.3.4\n", 15, "write ${offset,width,base}"),
            ("$GENERATE 1-3 a${0,256} A 1.2.3.4\n", 15, "write ${offset,width,base}"),
        ] {
            let (found, why) = lines(entry).expect_err(entry);
            assert!(found == at && why.contains(part), "{entry}: {found} {why}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-$0-9{},dxn\\\\ ]{0,40}") {
            if let Ok(mut expansion) = Expansion::parse(format!("$GENERATE 1-2 {text}").as_bytes()) {
                expansion.next_line(&mut Vec::new());
            }
        }
    }
}
