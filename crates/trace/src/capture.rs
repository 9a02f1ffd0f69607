//! The framing of pcap and pcapng: one frame after the other, from bytes of any length, in constant memory.
//!
//! ```text
//! pcap     header(24)  [seconds fraction caught original](16) frame  ...
//! pcapng   block: type(4) length(4) body length(4)        section, interface, enhanced packet, ...
//! ```
//!
//! This is ours and not a library's because it is the hot path and because an error must name its place: the number
//! of the packet and the byte where it starts. `pcap-parser` is the oracle of its tests. The formats are those of
//! draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use measure::Nanos;
use thiserror::Error;

use crate::source::{self, Source};

mod pcapng;

/// The longest frame there is: libpcap's MAXIMUM_SNAPLEN.
pub const MAX_FRAME: usize = 256 << 10;
/// Bytes of the window onto the source; holds the longest packet block.
const WINDOW: usize = 1 << 20;

/// A frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// From 1, as tshark counts.
    pub number: u64,
    /// When it was caught, since 1970.
    pub at: Nanos,
    /// The link type (the registry of LINKTYPE_ values).
    pub link: u16,
    /// How long it was on the wire, bytes.
    pub wire_len: u32,
    /// What was caught of it.
    pub bytes: &'a [u8],
}

/// Why a capture cannot be read, or not further.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// It cannot be opened.
    #[error("cannot read the capture {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else.
    #[error(
        "{}: not a capture: it begins with {found}; pcap and pcapng are read, plain or compressed by gzip, zstd or xz",
        path.display()
    )]
    NotACapture {
        /// The file.
        path: PathBuf,
        /// Its first bytes, in words.
        found: String,
    },
    /// It ends in the middle of something.
    #[error("{}: the capture is cut: it ends in the middle of {what} at byte {at}, after {frames} whole packets", path.display())]
    Cut {
        /// The file.
        path: PathBuf,
        /// Where that begins, in the decompressed capture.
        at: u64,
        /// What is cut.
        what: &'static str,
        /// Packets before it.
        frames: u64,
    },
    /// It says something that cannot be.
    #[error("{}: the capture is damaged at byte {at}, after {frames} whole packets: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the faulty block begins, in the decompressed capture.
        at: u64,
        /// What was found, and what would be accepted.
        what: String,
        /// Packets before it.
        frames: u64,
    },
    /// Reading or decompressing failed on the way.
    #[error("{}: reading failed at byte {at}, after {frames} whole packets: {source}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Where, in the decompressed capture.
        at: u64,
        /// Why.
        source: io::Error,
        /// Packets before it.
        frames: u64,
    },
}

impl CaptureError {
    /// Whether some of the capture was read before: what was counted stands.
    pub fn is_partial(&self) -> bool {
        match self {
            CaptureError::Unreadable { .. } | CaptureError::NotACapture { .. } => false,
            CaptureError::Cut { frames, .. }
            | CaptureError::Damaged { frames, .. }
            | CaptureError::Broken { frames, .. } => *frames > 0,
        }
    }
}

/// A fault before it has a place.
#[derive(Debug)]
enum Fault {
    Cut(&'static str),
    Damaged(String),
    Broken(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Broken(error)
    }
}

/// A capture, read from its start.
pub struct Capture {
    path: PathBuf,
    window: Window,
    format: Format,
    frames: u64,
    ended: bool,
}

/// What of a capture's format stays the same from frame to frame.
enum Format {
    Pcap(Pcap),
    Pcapng(pcapng::Section),
}

/// Where a frame lies in the window, and its facts.
struct Found {
    at: Nanos,
    link: u16,
    wire_len: u32,
    start: usize,
    len: usize,
}

impl Capture {
    /// Opens a capture; `-` is the standard input.
    ///
    /// # Errors
    /// When it cannot be read or is no capture.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let source = source::open(path)
            .map_err(|source| CaptureError::Unreadable { path: path.to_owned(), source })?;
        Self::new(source, path)
    }

    /// A capture from plain bytes; `path` is named in errors.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(source: Source, path: &Path) -> Result<Self, CaptureError> {
        let path = path.to_owned();
        let mut window = Window::new(source);
        let not = |found: String| CaptureError::NotACapture { path: path.clone(), found };
        match window.need(4) {
            Ok(true) => {}
            Ok(false) if window.at == window.end => return Err(not("nothing: it is empty".into())),
            Ok(false) => return Err(not(format!("{:02x?}", &window.bytes[..window.end]))),
            Err(source) => return Err(CaptureError::Unreadable { path, source }),
        }
        let magic = [window.bytes[0], window.bytes[1], window.bytes[2], window.bytes[3]];
        let format = match (Pcap::of(magic), magic) {
            (Some(pcap), _) => Format::Pcap(pcap),
            (None, pcapng::SECTION) => Format::Pcapng(pcapng::Section::default()),
            _ => return Err(not(format!("the bytes {magic:02x?}"))),
        };
        let mut capture = Capture { path, window, format, frames: 0, ended: false };
        if let Format::Pcap(pcap) = &mut capture.format
            && let Err(fault) = pcap.read_header(&mut capture.window)
        {
            return Err(capture.place(fault));
        }
        Ok(capture)
    }

    /// The next frame; `None` at the end. After an error there is no more.
    ///
    /// # Errors
    /// With the place where the capture is cut or damaged.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        if self.ended {
            return Ok(None);
        }
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.window),
            Format::Pcapng(section) => section.next(&mut self.window),
        };
        match found {
            Ok(Some(found)) => {
                self.frames += 1;
                let bytes = &self.window.bytes[found.start..found.start + found.len];
                let (number, Found { at, link, wire_len, .. }) = (self.frames, found);
                Ok(Some(Frame { number, at, link, wire_len, bytes }))
            }
            Ok(None) => {
                self.ended = true;
                Ok(None)
            }
            Err(fault) => {
                self.ended = true;
                Err(self.place(fault))
            }
        }
    }

    /// The fault with its place.
    fn place(&self, fault: Fault) -> CaptureError {
        let (path, at, frames) = (self.path.clone(), self.window.offset(), self.frames);
        match fault {
            Fault::Cut(what) => CaptureError::Cut { path, at, what, frames },
            Fault::Damaged(what) => CaptureError::Damaged { path, at, what, frames },
            Fault::Broken(source) => CaptureError::Broken { path, at, source, frames },
        }
    }
}

/// A window that slides over the source.
struct Window {
    source: Source,
    bytes: Box<[u8]>,
    /// Where the current block begins.
    at: usize,
    /// Where the bytes end that were read.
    end: usize,
    /// Bytes before the window.
    before: u64,
    /// Bytes to let go before the next block: the frame just given out lies in them.
    spent: usize,
}

impl Window {
    fn new(source: Source) -> Self {
        let bytes = vec![0; WINDOW].into_boxed_slice();
        Window { source, bytes, at: 0, end: 0, before: 0, spent: 0 }
    }

    /// Where the current block begins, in the whole capture.
    fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Goes behind the last block.
    #[inline]
    fn advance(&mut self) {
        self.at += self.spent;
        self.spent = 0;
    }

    /// Reads until `len` bytes of the block are there; whether they are. `len` is at most [`WINDOW`].
    #[inline]
    fn need(&mut self, len: usize) -> io::Result<bool> {
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

    /// The block's bytes that are there.
    #[inline]
    fn block(&self) -> &[u8] {
        &self.bytes[self.at..self.end]
    }

    /// Passes over `len` bytes, however many; whether they were there.
    fn pass(&mut self, mut len: u64) -> io::Result<bool> {
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

/// The order of bytes of a capture's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Order {
    big: bool,
}

impl Order {
    /// The four bytes at `at`, which must be there.
    #[inline]
    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }

    /// The two bytes at `at`, which must be there.
    #[inline]
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let word = [bytes[at], bytes[at + 1]];
        if self.big { u16::from_be_bytes(word) } else { u16::from_le_bytes(word) }
    }
}

/// The classic format.
struct Pcap {
    order: Order,
    /// Nanoseconds of a unit of the fraction.
    unit: u64,
    link: u16,
}

impl Pcap {
    /// By the magic number, if it is one of this format.
    fn of(magic: [u8; 4]) -> Option<Self> {
        let (big, unit) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1_000),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1_000),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1),
            _ => return None,
        };
        Some(Pcap { order: Order { big }, unit, link: 0 })
    }

    fn read_header(&mut self, window: &mut Window) -> Result<(), Fault> {
        if !window.need(24)? {
            return Err(Fault::Cut("the file's header"));
        }
        // The upper half of the field tells of frame check sequences.
        self.link = self.order.u32(window.block(), 20) as u16;
        window.spent = 24;
        Ok(())
    }

    #[inline]
    fn next(&mut self, window: &mut Window) -> Result<Option<Found>, Fault> {
        window.advance();
        if !window.need(16)? {
            return if window.block().is_empty() {
                Ok(None)
            } else {
                Err(Fault::Cut("a packet's header"))
            };
        }
        let header = window.block();
        let word = |at| self.order.u32(header, at);
        let (seconds, fraction, caught, wire_len) = (word(0), word(4), word(8), word(12));
        let len = caught as usize;
        if len > MAX_FRAME {
            return Err(Fault::Damaged(format!(
                "a packet of {len} bytes; none has more than {MAX_FRAME}"
            )));
        }
        if !window.need(16 + len)? {
            return Err(Fault::Cut("a packet"));
        }
        let at = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit;
        let start = window.at + 16;
        window.spent = 16 + len;
        Ok(Some(Found { at: Nanos(at), link: self.link, wire_len, start, len }))
    }
}
