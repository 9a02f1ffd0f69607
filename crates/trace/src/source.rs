//! Where a capture comes from: a file, a pipe, the standard input, each plain or compressed.
//!
//! The compression is told by the first bytes, never by the file's name. All decompressors stream, so that memory
//! stays constant; concatenated gzip members, zstd frames and xz streams are read as one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

/// Bytes read from the file at once.
const CHUNK: usize = 256 << 10;

/// The bytes of a capture, decompressed.
pub type Source = Box<dyn Read + Send>;

/// Opens `path`; `-` is the standard input.
///
/// # Errors
/// When it cannot be opened or read.
pub fn open(path: &Path) -> io::Result<Source> {
    if path == Path::new("-") {
        return decompress(io::stdin());
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, not a capture"));
    }
    decompress(file)
}

/// The plain bytes of `input`.
///
/// # Errors
/// When the first bytes cannot be read.
pub fn decompress(mut input: impl Read + Send + 'static) -> io::Result<Source> {
    let mut magic = Vec::with_capacity(6);
    input.by_ref().take(6).read_to_end(&mut magic)?;
    let start = magic.clone();
    let whole = BufReader::with_capacity(CHUNK, Cursor::new(magic).chain(input));
    Ok(match start[..] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(whole)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(Zstd { frame: None, rest: Some(whole) }),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Box::new(XzReader::new(whole, true)),
        _ => Box::new(whole),
    })
}

/// Reads one zstd frame after the other.
struct Zstd<R: BufRead> {
    frame: Option<Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>>,
    /// What follows the last frame; `None` while one is open.
    rest: Option<R>,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(frame) = &mut self.frame {
                match frame.read(out)? {
                    0 => self.rest = self.frame.take().map(|frame| frame.into_inner()),
                    some => return Ok(some),
                }
            }
            let Some(mut rest) = self.rest.take() else { return Ok(0) };
            if rest.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let frame = StreamingDecoder::new(rest)
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
            self.frame = Some(Box::new(frame));
        }
    }
}
