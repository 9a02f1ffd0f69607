//! Finds where entries of a zone file end: at a line break outside of parentheses, quotes and comments. A line break is LF or CR LF; CR
//! alone is one outside of quotes and comments, as for named.

/// A line ended within quotes; for named too they end in their line, unless the break is escaped.
const OPEN_QUOTES: &str =
    "quotes are open at the end of a line: close them, or end the line with a backslash";
const NOT_OPENED: &str =
    "a parenthesis is closed that was not opened: write it within quotes, or as `\\)`";

/// The state between two searches for the end of an entry.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    parens: u32,
    quoted: bool,
    comment: bool,
    escaped: bool,
    /// Whether the last octet was a CR that is a line break, unless LF follows.
    returned: bool,
    /// The mistake in the entry: open quotes, or a parenthesis too many.
    pub(super) mistake: Option<&'static str>,
    /// The first line of the last complete entry, from 1.
    pub(super) line: u64,
    /// Number of lines up to the end of the last complete entry.
    pub(super) lines: u64,
    /// Number of further lines of the entry.
    open_lines: u64,
}

impl Cutter {
    /// Returns the length of `text` up to the end of the entry; `None` if the entry continues. `text` follows the text
    /// of the last call.
    pub(super) fn find_end(&mut self, text: &[u8]) -> Option<usize> {
        for (at, &octet) in text.iter().enumerate() {
            if std::mem::take(&mut self.returned) && octet != b'\n' {
                self.open_lines += 1;
                if self.parens == 0 {
                    self.end_entry();
                    return Some(at);
                }
            }
            // An escape reaches over no line break.
            let is_escaped = std::mem::take(&mut self.escaped) && (octet != b'\r' || self.quoted);
            if octet == b'\n' {
                self.comment = false;
                self.open_lines += 1;
                if self.quoted && !is_escaped {
                    (self.quoted, self.mistake) = (false, Some(OPEN_QUOTES));
                }
                if self.parens == 0 && !self.quoted {
                    self.end_entry();
                    return Some(at + 1);
                }
            } else if !self.comment && !is_escaped {
                match octet {
                    b'\\' => self.escaped = true,
                    b'\r' => self.returned = !self.quoted,
                    b'"' => self.quoted = !self.quoted,
                    b';' if !self.quoted => self.comment = true,
                    b'(' if !self.quoted => self.parens += 1,
                    b')' if !self.quoted => match self.parens.checked_sub(1) {
                        Some(parens) => self.parens = parens,
                        None => self.mistake = Some(NOT_OPENED),
                    },
                    _ => {}
                }
            }
        }
        None
    }

    /// Returns whether parentheses, quotes or an escape are open.
    pub(super) fn is_open(&self) -> bool {
        self.parens > 0 || self.quoted || self.escaped
    }

    /// Counts a line that is a whole entry.
    pub(super) fn pass_line(&mut self) {
        self.lines += 1;
        self.line = self.lines;
    }

    /// Counts the lines of the entry that just ended.
    pub(super) fn end_entry(&mut self) {
        self.line = self.lines + 1;
        self.lines += self.open_lines;
        self.open_lines = 0;
    }
}
