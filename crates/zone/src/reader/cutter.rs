//! Where the entries of a zone file end: at a line break outside of parentheses, quotes and comments.

/// Finds the ends of entries.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    parens: u32,
    quoted: bool,
    comment: bool,
    escaped: bool,
    /// The line the entry that was cut last begins at, from 1.
    pub(super) line: u64,
    /// Lines up to the last cut.
    pub(super) handed_lines: u64,
    /// Lines behind it.
    open_lines: u64,
}

impl Cutter {
    /// How much of `text`, which follows what was shown before, ends the entry; `None` if there is no end in it.
    pub(super) fn cut(&mut self, text: &[u8]) -> Option<usize> {
        for (at, &octet) in text.iter().enumerate() {
            if octet == b'\n' {
                self.comment = false;
                self.open_lines += 1;
                if self.parens == 0 && !self.quoted && !self.escaped {
                    self.begin_entry();
                    return Some(at + 1);
                }
                self.escaped = false;
            } else if self.comment {
            } else if self.escaped {
                self.escaped = false;
            } else {
                match octet {
                    b'\\' => self.escaped = true,
                    b'"' => self.quoted = !self.quoted,
                    b';' if !self.quoted => self.comment = true,
                    b'(' if !self.quoted => self.parens += 1,
                    b')' if !self.quoted => self.parens = self.parens.saturating_sub(1),
                    _ => {}
                }
            }
        }
        None
    }

    /// Whether parentheses, quotes or an escape wait for their end.
    pub(super) fn is_open(&self) -> bool {
        self.parens > 0 || self.quoted || self.escaped
    }

    /// Passes over a line that is an entry, where one begins.
    pub(super) fn pass_line(&mut self) {
        self.handed_lines += 1;
        self.line = self.handed_lines;
    }

    /// Counts the lines of an entry that was cut.
    pub(super) fn begin_entry(&mut self) {
        self.line = self.handed_lines + 1;
        self.handed_lines += self.open_lines;
        self.open_lines = 0;
    }
}
