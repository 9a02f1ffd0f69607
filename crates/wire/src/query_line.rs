//! Lines of a query file, in the text format of dnsperf and queryperf: a name and a type on each line, such as
//! `www.example.com AAAA`. Blank lines, and lines that begin with `;`, are no queries; of our own commands nor those with `#`, which
//! is written as `\#` where a name begins with it.

use crate::name::NameError;
use crate::{Name, Qtype};

/// Longest line of a query file, in bytes.
pub const MAX_LINE: usize = 4_096;

/// Error of a line that is no query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct BadLine {
    /// Column, from 1, in bytes.
    pub column: usize,
    /// Reason why it is not accepted.
    pub why: String,
}

/// A query with the rest of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLine<'a> {
    /// The queried name, the first word of the line.
    pub name: Name,
    /// The queried type, the second word of the line.
    pub qtype: Qtype,
    /// The rest of the line, without white space around it.
    pub rest: &'a str,
}

impl QueryLine<'_> {
    /// Refuses a word after the type on `line`.
    ///
    /// # Errors
    /// [`BadLine`], if anything does.
    pub fn without_rest(&self, line: &[u8]) -> Result<(), BadLine> {
        match self.rest.split_ascii_whitespace().next() {
            None => Ok(()),
            Some(third) => {
                Err(self.bad_rest(line, format!("unexpected `{third}` after name and type")))
            }
        }
    }

    /// Returns the error about the text after the type on `line`.
    pub fn bad_rest(&self, line: &[u8], why: String) -> BadLine {
        let column = (self.rest.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize) + 1;
        BadLine { column, why }
    }
}

/// Returns the start of a text without the byte order mark with which some editors begin a file.
///
/// # Errors
/// Describes the encoding and how to convert the text, if the mark is one of UTF-16.
pub fn without_mark(start: &[u8]) -> Result<&[u8], &'static str> {
    match start {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Err("the text is UTF-16; `iconv -f UTF-16 -t UTF-8` converts it")
        }
        _ => Ok(start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(start)),
    }
}

/// Parses a line; `None` for blank lines and comments.
///
/// # Errors
/// [`BadLine`], if it is not a name and a type.
pub fn parse(line: &[u8]) -> Result<Option<(Name, Qtype)>, BadLine> {
    let Some(found) = parse_with_rest(line)? else { return Ok(None) };
    found.without_rest(line)?;
    Ok(Some((found.name, found.qtype)))
}

/// Parses a line that may have more text after the type; `None` for blank lines and comments.
///
/// # Errors
/// [`BadLine`], if it does not begin with a name and a type.
pub fn parse_with_rest(line: &[u8]) -> Result<Option<QueryLine<'_>>, BadLine> {
    let comment = line.trim_ascii_start().starts_with(b"#");
    if comment { Ok(None) } else { parse_start(line) }
}

/// Parses the name and the type at the start of a line; `None` for blank lines and comments. As for dnsperf, `#` begins none.
///
/// # Errors
/// [`BadLine`], if it does not begin with a name and a type.
pub fn parse_start(line: &[u8]) -> Result<Option<QueryLine<'_>>, BadLine> {
    let bad = |column, why: String| BadLine { column, why };
    if line.len() > MAX_LINE {
        return Err(bad(MAX_LINE, format!("the line is longer than {MAX_LINE} bytes")));
    }
    let start = line.iter().position(|octet| !octet.is_ascii_whitespace());
    let Some(start) = start.filter(|start| line[*start] != b';') else { return Ok(None) };
    let length = line[start..].iter().position(u8::is_ascii_whitespace);
    let end = length.map_or(line.len(), |length| start + length);
    let name = name(&line[start..end]).map_err(|e| bad(start + 1, format!("{e}")))?;
    let text = std::str::from_utf8(&line[end..]);
    let text =
        text.map_err(|e| bad(end + e.valid_up_to() + 1, "the line is not UTF-8".to_owned()))?;
    let second = text.split_ascii_whitespace().next();
    let second = second.ok_or_else(|| bad(end + 1, "the type is missing".to_owned()))?;
    let column = second.as_ptr() as usize - line.as_ptr() as usize + 1;
    let qtype: Qtype = second.parse().map_err(|e| bad(column, format!("{e}")))?;
    let rest = text[column - 1 - end + second.len()..].trim_ascii();
    Ok(Some(QueryLine { name, qtype, rest }))
}

/// Parses a name in which octets that are no printable ASCII characters are used as they are, as in
/// UTF-8 or Latin-1.
fn name(word: &[u8]) -> Result<Name, NameError> {
    if let Ok(text) = std::str::from_utf8(word)
        && text.bytes().all(|octet| octet.is_ascii_graphic())
    {
        return text.parse();
    }
    let (mut text, mut is_escaped) = (String::new(), false);
    for &octet in word {
        if octet.is_ascii_graphic() {
            text.push(octet.into());
        } else {
            // The character is escaped already.
            text.push_str(if is_escaped { "" } else { "\\" });
            text.push_str(&format!("{octet:03}"));
        }
        is_escaped = octet == b'\\' && !is_escaped;
    }
    text.parse()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_types() {
        let parsed = parse(b"  www.example.com\tAAAA \n").expect("a query").expect("no comment");
        assert_eq!(
            (parsed.0.to_string().trim_end_matches('.'), parsed.1),
            ("www.example.com", Qtype::AAAA)
        );
        for none in [&b""[..], b"  \n", b"; a A", b"# a A"] {
            assert_eq!(parse(none), Ok(None));
        }
    }

    #[test]
    fn a_third_word_is_kept_apart() {
        let line = parse_start(b" a.test  DS \t D  x \n").expect("a query").expect("no comment");
        assert_eq!((line.qtype.to_string().as_str(), line.rest), ("DS", "D  x"));
        assert_eq!(parse_start(b"; a A").expect("a comment"), None);
    }

    #[test]
    fn octets_stand_for_themselves() {
        for (line, name) in [
            (&b"m\xfcller.test A"[..], "m\\252ller.test"),
            ("müller.test A".as_bytes(), "m\\195\\188ller.test"),
            (b"\\#tag.test A", "\\#tag.test"),
            (b"a\x01\x7f.\0.test A", "a\\001\\127.\\000.test"),
            (b"a\\\xff\\\\\xfe.test A", "a\\255\\\\\\254.test"),
        ] {
            let (found, _) = parse(line).expect("a query").expect("no comment");
            assert_eq!(found.to_string(), name);
        }
        assert!(parse_start(b"#tag.test A").expect("a query").is_some());
    }

    #[test]
    fn errors_have_their_column() {
        let table = [
            (&b"a.test\n"[..], 7, "the type is missing"),
            (b"a.test A IN", 10, "unexpected `IN`"),
            (b"a.test \xff", 8, "not UTF-8"),
            (b" a..test A", 2, ""),
            (b"a.test NONE", 8, ""),
        ];
        for (line, column, why) in table {
            let error = parse(line).expect_err("no query");
            assert_eq!(error.column, column, "{error:?}");
            assert!(error.why.contains(why), "{error:?}");
        }
        assert!(parse(&[b'a'; MAX_LINE + 1]).expect_err("long").why.contains("longer"));
    }

    proptest! {
        #[test]
        fn any_name_is_read_as_it_is_written(labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 1..8)) {
            let mut octets: Vec<u8> = labels.iter().flat_map(|l| [&[l.len() as u8], &l[..]].concat()).collect();
            octets.push(0);
            let name = Name::from_wire(&octets).expect("a name");
            let line = format!("{name} A");
            let (read, _) = parse(line.as_bytes()).expect("a query").expect("no comment");
            prop_assert_eq!(read.as_wire(), &octets[..]);
        }

        #[test]
        fn any_bytes_give_a_query_or_a_place_within_them(line in prop::collection::vec(any::<u8>(), 0..80)) {
            for error in [parse(&line).err(), parse_start(&line).err()].into_iter().flatten() {
                prop_assert!((1..=line.len() + 1).contains(&error.column));
            }
        }
    }
}
