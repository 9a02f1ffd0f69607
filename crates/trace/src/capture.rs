//! A reader of pcap, pcapng, snoop and dnstap files that returns one frame at a time, in constant memory.
//!
//! ```text
//! pcap     header(24)  [seconds fraction caught original](16) frame  ...   header(24) ...  (`cat a b`)
//! pcapng   block: type(4) length(4) body length(4)        section, interface, enhanced packet, ...
//! snoop    header(16)  [original caught record drops seconds microseconds](24) frame padding  ...
//! dnstap   START  length(4) frame  ...  STOP
//! ```
//!
//! No library is used, because this is the hot path and an error must name its place: the number of the packet and the
//! byte where it starts. The tests compare the frames with those of `pcap-parser`. The formats are those of
//! draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng, and of RFC 1761.

use std::io;
use std::path::{Path, PathBuf};

use measure::Nanos;
use thiserror::Error;

use crate::source::{self, Source};

mod dnstap;
mod merge;
mod pcapng;
mod snoop;
mod window;

pub(crate) use dnstap::LINK as DNSTAP;
pub use merge::Merge;
pub(crate) use window::MAX_FRAME;
use window::{Fault, Order, Window, WindowFrame};

/// A frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The number of the frame, from 1, as in tshark.
    pub number: u64,
    /// Time of capture, since 1970.
    pub at: Nanos,
    /// The link type (the registry of LINKTYPE_ values); 65535 for a frame of dnstap.
    pub link: u16,
    /// Length on the wire, in bytes.
    pub wire_len: u32,
    /// The captured bytes, fewer than `wire_len` if the capture is cut.
    pub bytes: &'a [u8],
}

/// The reason why a capture cannot be read, or not to its end.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("cannot read the capture {}: {source}", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system or the decompressor.
        source: io::Error,
    },
    /// The file is not a capture.
    #[error(
        "{}: not a capture: it starts with {found}; use pcap, pcapng, snoop or dnstap, plain or compressed with gzip, zstd, xz or lz4",
        path.display()
    )]
    NotACapture {
        /// The path of the file.
        path: PathBuf,
        /// A description of the first bytes.
        found: String,
    },
    /// The capture ends in the middle of a block.
    #[error("{}: the capture is cut short: it ends in the middle of {what} at byte {at}, after {}", path.display(), packets(*frames))]
    Cut {
        /// The path of the file.
        path: PathBuf,
        /// The byte where the block starts, in the decompressed capture.
        at: u64,
        /// Kind of the block, in words.
        what: &'static str,
        /// Number of packets before the error.
        frames: u64,
    },
    /// The capture has an invalid value.
    #[error("{}: the capture is damaged at byte {at}, after {}: {what}", path.display(), packets(*frames))]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// The byte where the block starts, in the decompressed capture.
        at: u64,
        /// The value found, and the accepted values.
        what: String,
        /// Number of packets before it.
        frames: u64,
    },
    /// Reading or decompressing failed after the start.
    #[error("{}: reading failed at byte {at}, after {}: {source}", path.display(), packets(*frames))]
    Broken {
        /// The path of the file.
        path: PathBuf,
        /// The byte, in the decompressed capture.
        at: u64,
        /// The error of the operating system or the decompressor.
        source: io::Error,
        /// Number of packets before it.
        frames: u64,
    },
    /// A population is cut short, damaged, or cannot be read to its end.
    #[error(
        "{}: the population {what} at byte {at} of its decompressed file, after {}; copy it again, or make it again of its capture (trace clients --output)",
        path.display(),
        counted(*queries, "whole query", "whole queries")
    )]
    Population {
        /// The path of the file.
        path: PathBuf,
        /// The error: a verb with the value found and the accepted ones.
        what: String,
        /// The byte, in the decompressed file.
        at: u64,
        /// Number of queries before the error.
        queries: u64,
    },
    /// Several of the captures cannot be read to their end.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<CaptureError>),
}

/// Returns a number of packets in words.
fn packets(count: u64) -> String {
    counted(count, "whole packet", "whole packets")
}

/// Returns a number of things in words: one, or several.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl CaptureError {
    /// Returns whether packets were read before the error, so that there are counts to report.
    pub fn is_partial(&self) -> bool {
        match self {
            CaptureError::Several(all) => all.iter().any(CaptureError::is_partial),
            CaptureError::Unreadable { .. }
            | CaptureError::NotACapture { .. }
            | CaptureError::Population { .. } => false,
            CaptureError::Cut { frames, .. }
            | CaptureError::Damaged { frames, .. }
            | CaptureError::Broken { frames, .. } => *frames > 0,
        }
    }
}

/// A capture file that is read frame by frame, compressed or not.
pub struct Capture {
    path: PathBuf,
    window: Window,
    format: Format,
    frames: u64,
    ended: bool,
    /// The next frame, if its time was read already.
    peeked: Option<WindowFrame>,
}

/// A source of frames: a capture, or several.
pub trait Frames {
    /// Returns the next frame; `None` at the end and after an error.
    ///
    /// # Errors
    /// The place where the capture is cut short or damaged.
    fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError>;
}

impl Frames for Capture {
    fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        Capture::next_frame(self)
    }
}

/// The format of a capture, and its state between frames.
enum Format {
    Pcap(Pcap),
    Pcapng(pcapng::Section),
    Snoop(snoop::Snoop),
    Dnstap(dnstap::Dnstap),
}

impl Capture {
    /// Opens a capture; `-` is the standard input.
    ///
    /// # Errors
    /// If the file cannot be read or is not a capture.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let source = source::open(path)
            .map_err(|source| CaptureError::Unreadable { path: path.to_owned(), source })?;
        Self::new(source, path)
    }

    /// Returns a reader of uncompressed bytes; error messages name `path`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(source: Source, path: &Path) -> Result<Self, CaptureError> {
        let path = path.to_owned();
        let mut window = Window::new(source);
        let not = |found: String| CaptureError::NotACapture { path: path.clone(), found };
        match window.need(4) {
            Ok(true) => {}
            Ok(false) if window.at == window.end => return Err(not("no bytes".into())),
            Ok(false) => return Err(not(format!("{:02x?}", &window.bytes[..window.end]))),
            Err(source) => return Err(CaptureError::Unreadable { path, source }),
        }
        let magic = [window.bytes[0], window.bytes[1], window.bytes[2], window.bytes[3]];
        let format = match (Pcap::of(magic), magic) {
            (Some(pcap), _) => Format::Pcap(pcap),
            (None, pcapng::SECTION) => Format::Pcapng(pcapng::Section::default()),
            (None, snoop::MAGIC) => Format::Snoop(snoop::Snoop::default()),
            (None, dnstap::MAGIC) => Format::Dnstap(dnstap::Dnstap::default()),
            // A CBOR array with the text "C-DNS".
            (None, [0x83 | 0x9f, 0x65, b'C', b'-']) => {
                let how = "which the `inspector` of DNS-STATS turns into pcap";
                return Err(not(format!("C-DNS (RFC 8618), {how}")));
            }
            _ => return Err(not(format!("the bytes {magic:02x?}"))),
        };
        let mut capture = Capture { path, window, format, frames: 0, ended: false, peeked: None };
        let header = match &mut capture.format {
            Format::Pcap(pcap) => pcap.read_header(&mut capture.window),
            Format::Snoop(snoop) => snoop.read_header(&mut capture.window),
            Format::Dnstap(dnstap) => dnstap.read_header(&mut capture.window),
            Format::Pcapng(_) => Ok(()),
        };
        match header {
            Ok(()) => Ok(capture),
            Err(fault) => Err(capture.place(fault)),
        }
    }

    /// Returns the next frame; `None` at the end and after an error.
    ///
    /// # Errors
    /// The place where the capture is cut short or damaged.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        let Some(found) = (match self.peeked.take() {
            Some(found) => Some(found),
            None => self.find()?,
        }) else {
            return Ok(None);
        };
        self.frames += 1;
        let bytes = &self.window.bytes[found.start..found.start + found.len];
        let (number, WindowFrame { at, link, wire_len, .. }) = (self.frames, found);
        Ok(Some(Frame { number, at, link, wire_len, bytes }))
    }

    /// Returns the time of the next frame; `None` at the end and after an error.
    fn peek(&mut self) -> Result<Option<Nanos>, CaptureError> {
        if self.peeked.is_none() {
            self.peeked = self.find()?;
        }
        Ok(self.peeked.as_ref().map(|found| found.at))
    }

    /// Finds the next frame in the window, in any format.
    #[inline]
    fn find(&mut self) -> Result<Option<WindowFrame>, CaptureError> {
        if self.ended {
            return Ok(None);
        }
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.window),
            Format::Pcapng(section) => section.next(&mut self.window),
            Format::Snoop(snoop) => snoop.next(&mut self.window),
            Format::Dnstap(dnstap) => dnstap.next(&mut self.window),
        };
        match found {
            Ok(Some(found)) => Ok(Some(found)),
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

    /// Returns the error with its place.
    fn place(&self, fault: Fault) -> CaptureError {
        let (path, at, frames) = (self.path.clone(), self.window.offset(), self.frames);
        match fault {
            Fault::Cut(what) => CaptureError::Cut { path, at, what, frames },
            Fault::Damaged(what) => CaptureError::Damaged { path, at, what, frames },
            Fault::Broken(source) => CaptureError::Broken { path, at, source, frames },
        }
    }
}

/// Properties of a pcap file's packets, from its header.
struct Pcap {
    order: Order,
    /// Unit of the fraction of a second, in nanoseconds.
    unit: u64,
    /// Size of the header of a packet, in octets.
    header: usize,
    /// Whether the two lengths of a packet may be in the other order, as before version 2.4.
    is_old: bool,
    link: u16,
}

impl Pcap {
    /// Returns the format for a magic number; `None` if it is not pcap.
    fn of(magic: [u8; 4]) -> Option<Self> {
        let (big, unit, header) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1_000, 16),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1_000, 16),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1, 16),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1, 16),
            // Kuznetzov's form, with the interface, the protocol and the kind of each packet.
            [0xa1, 0xb2, 0xcd, 0x34] => (true, 1_000, 24),
            [0x34, 0xcd, 0xb2, 0xa1] => (false, 1_000, 24),
            _ => return None,
        };
        Some(Pcap { order: Order { big }, unit, header, is_old: false, link: 0 })
    }

    fn read_header(&mut self, window: &mut Window) -> Result<(), Fault> {
        if !window.need(24)? {
            return Err(Fault::Cut("the file's header"));
        }
        self.is_old = self.order.u16(window.block(), 6) < 4;
        // The upper half of the field describes frame check sequences.
        self.link = self.order.u32(window.block(), 20) as u16;
        window.spent = 24;
        Ok(())
    }

    /// Begins with the next of several captures in one file; returns whether its header is at this
    /// place. As a record the header would be an empty packet of the year 2055, so it is not
    /// mistaken for one.
    #[cold]
    fn begin_next(&mut self, window: &mut Window) -> Result<bool, Fault> {
        let is_header = |next: &Pcap| {
            let (block, empty) = (window.block(), [0; 8]);
            next.order.u16(block, 4) == 2 && block.get(8..16) == Some(&empty)
        };
        let Some(next) = window.block().first_chunk().and_then(|magic| Pcap::of(*magic)) else {
            return Ok(false);
        };
        if !is_header(&next) {
            return Ok(false);
        }
        *self = next;
        self.read_header(window).map(|()| true)
    }

    #[inline]
    fn next(&mut self, window: &mut Window) -> Result<Option<WindowFrame>, Fault> {
        loop {
            if !window.next_header(self.header, "a packet's header")? {
                return Ok(None);
            }
            let header = window.block();
            let word = |at| self.order.u32(header, at);
            let (seconds, fraction, mut caught, mut wire_len) =
                (word(0), word(4), word(8), word(12));
            if caught == 0 && wire_len == 0 && self.begin_next(window)? {
                continue;
            }
            if self.is_old && caught > wire_len {
                std::mem::swap(&mut caught, &mut wire_len);
            }
            let len = caught as usize;
            if len > MAX_FRAME {
                return Err(Fault::Damaged(format!(
                    "a packet of {len} bytes; the largest has {MAX_FRAME}"
                )));
            }
            if !window.need(self.header + len)? {
                return Err(Fault::Cut("a packet"));
            }
            let at = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit;
            let start = window.at + self.header;
            window.spent = self.header + len;
            return Ok(Some(WindowFrame { at: Nanos(at), link: self.link, wire_len, start, len }));
        }
    }
}
