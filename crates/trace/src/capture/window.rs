//! The octets of a capture that are in memory, and what the readers of all formats need: byte order, frames, faults.

use std::io::{self, Read};

use measure::Nanos;

use crate::source::Source;

/// Largest size of a frame in bytes: MAXIMUM_SNAPLEN of libpcap.
pub(crate) const MAX_FRAME: usize = 256 << 10;
/// Size of the read buffer in bytes; it holds the longest packet block.
pub(super) const WINDOW: usize = 1 << 20;

/// An error whose place in the file is not known yet.
#[derive(Debug)]
pub(super) enum Fault {
    Cut(&'static str),
    Damaged(String),
    Broken(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Broken(error)
    }
}

/// A frame in the window: its place, time and length.
pub(super) struct WindowFrame {
    pub(super) at: Nanos,
    pub(super) link: u16,
    pub(super) wire_len: u32,
    pub(super) start: usize,
    pub(super) len: usize,
}

/// A read buffer that moves over the source.
pub(super) struct Window {
    pub(super) source: Source,
    pub(super) bytes: Box<[u8]>,
    /// Offset of the current block.
    pub(super) at: usize,
    /// Offset after the last byte read.
    pub(super) end: usize,
    /// Number of bytes before the window.
    pub(super) before: u64,
    /// Number of bytes to skip before the next block; the frame that was just returned is in them.
    pub(super) spent: usize,
}

impl Window {
    pub(super) fn new(source: Source) -> Self {
        let bytes = vec![0; WINDOW].into_boxed_slice();
        Window { source, bytes, at: 0, end: 0, before: 0, spent: 0 }
    }

    /// Returns the offset of the current block in the whole capture.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Moves to the end of the last block.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.at += self.spent;
        self.spent = 0;
    }

    /// Moves to the next header of `len` bytes, whose name is for an error; returns whether there
    /// is one.
    #[inline]
    pub(super) fn next_header(&mut self, len: usize, name: &'static str) -> Result<bool, Fault> {
        self.advance();
        if self.need(len)? {
            return Ok(true);
        }
        if self.block().is_empty() { Ok(false) } else { Err(Fault::Cut(name)) }
    }

    /// Reads until `len` bytes of the block are available; returns whether they are. `len` is at most [`WINDOW`].
    #[inline]
    pub(super) fn need(&mut self, len: usize) -> io::Result<bool> {
        if self.end - self.at >= len { Ok(true) } else { self.fill(len) }
    }

    #[cold]
    fn fill(&mut self, len: usize) -> io::Result<bool> {
        self.bytes.copy_within(self.at..self.end, 0);
        self.before += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        while self.end < len {
            match self.source.read(&mut self.bytes[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Returns the bytes of the block that are available.
    #[inline]
    pub(super) fn block(&self) -> &[u8] {
        &self.bytes[self.at..self.end]
    }

    /// Skips `len` bytes, which may be more than the window; returns whether they exist.
    pub(super) fn skip(&mut self, mut len: u64) -> io::Result<bool> {
        while len > 0 {
            let here = ((self.end - self.at) as u64).min(len);
            self.at += here as usize;
            len -= here;
            if len > 0 && !self.need(1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The byte order of the numbers in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) big: bool,
}

impl Order {
    /// Returns the four bytes at `at` as a number; panics if they are missing.
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }

    /// Returns the two bytes at `at` as a number; panics if they are missing.
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let word = [bytes[at], bytes[at + 1]];
        if self.big { u16::from_be_bytes(word) } else { u16::from_le_bytes(word) }
    }
}
