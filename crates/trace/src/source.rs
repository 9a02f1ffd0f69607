//! The source of a capture: a file, a pipe or the standard input, plain or compressed.
//!
//! The first bytes decide on the compression, never the file name. All decompressors work on streams, so that memory
//! stays constant, and that of xz below 66 MiB; concatenated gzip members, zstd and lz4 frames and xz streams are read as one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

/// Size of one read from the file, in bytes.
const CHUNK: usize = 256 << 10;

/// Most memory for the dictionary of an xz file, in KiB; `xz -9` needs 64 MiB.
const XZ_MEMORY: u32 = 66 << 10;

/// A reader of the decompressed bytes of a capture.
pub type Source = Box<dyn Read + Send>;

/// Opens `path`; `-` is the standard input.
///
/// # Errors
/// If the file cannot be opened or read.
pub fn open(path: &Path) -> io::Result<Source> {
    if path == Path::new("-") {
        return decompress(io::stdin());
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "this is a folder, not a file"));
    }
    decompress(file)
}

/// Returns the decompressed bytes of `input`.
///
/// # Errors
/// If the first bytes cannot be read.
pub fn decompress(mut input: impl Read + Send + 'static) -> io::Result<Source> {
    let mut magic = Vec::with_capacity(6);
    input.by_ref().take(1).read_to_end(&mut magic)?;
    // The next octets of a pipe of short lines may arrive much later.
    if matches!(magic[..], [0x1f | 0x28 | 0x04 | 0xfd | b'B' | b'P' | b'7']) {
        input.by_ref().take(5).read_to_end(&mut magic)?;
    }
    let start = magic.clone();
    let whole = BufReader::with_capacity(CHUNK, Cursor::new(magic).chain(input));
    Ok(match start[..] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(whole)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(Zstd { frame: None, rest: Some(whole) }),
        [0x04, 0x22, 0x4d, 0x18, ..] => Box::new(Lz4(Some(FrameDecoder::new(whole)))),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            Box::new(Xz(XzReader::new_mem_limit(whole, true, XZ_MEMORY)))
        }
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A'] => return unread("bzip2", "bunzip2"),
        [b'P', b'K', 3, 4, ..] => return unread("zip", "unzip -p"),
        [b'7', b'z', 0xbc, 0xaf, ..] => return unread("7z", "7z x -so"),
        _ => Box::new(whole),
    })
}

/// Returns the error of a form of compression that is not read, with the command that unpacks it.
fn unread(form: &str, command: &str) -> io::Result<Source> {
    let why = format!("it is compressed with {form}: unpack it first (`{command}`)");
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// A reader of xz streams with bounded memory.
struct Xz<R: Read>(XzReader<R>);

impl<R: Read> Read for Xz<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out).map_err(|error| match error.kind() {
            io::ErrorKind::OutOfMemory => io::Error::new(
                io::ErrorKind::InvalidData,
                "its xz dictionary is larger than 64 MiB: decompress it first (`xz -d`)",
            ),
            _ => error,
        })
    }
}

/// A reader of a sequence of lz4 frames; `None` after the last one.
struct Lz4<R: BufRead>(Option<FrameDecoder<R>>);

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(frame) = &mut self.0 else { return Ok(0) };
            let some = frame.read(out)?;
            if some > 0 || out.is_empty() {
                return Ok(some);
            }
            let Some(frame) = self.0.take() else { return Ok(0) };
            let mut rest = frame.into_inner();
            if !rest.fill_buf()?.is_empty() {
                self.0 = Some(FrameDecoder::new(rest));
            }
        }
    }
}

/// A reader of a sequence of zstd frames.
struct Zstd<R: BufRead> {
    frame: Option<Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>>,
    /// The input after the last frame; `None` while a frame is open.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_otherwise_is_named() {
        for (start, form) in [
            (&b"BZh91AY&SY"[..], "bzip2: unpack it first (`bunzip2`)"),
            (b"PK\x03\x04\x14\0", "zip: unpack it first (`unzip -p`)"),
            (b"7z\xbc\xaf'\x1c", "7z: unpack it first"),
        ] {
            let error = decompress(start).err().expect("it is not read").to_string();
            assert!(error.contains(form), "{error}");
        }
        for plain in [&b"B A\n"[..], b"BZh91.test A\n", b"PK.test A\n", b". A", b""] {
            let mut read = Vec::new();
            decompress(plain).and_then(|mut source| source.read_to_end(&mut read)).expect("text");
            assert_eq!(read, plain);
        }
    }

    /// Returns the start of an xz file whose dictionary has the size of this property, up to the header of its block.
    fn xz(property: u8) -> Vec<u8> {
        let mut header = vec![2, 0, 0x21, 1, property, 0, 0, 0];
        let mut crc = flate2::Crc::new();
        crc.update(&header);
        header.extend_from_slice(&crc.sum().to_le_bytes());
        [&b"\xfd7zXZ\0\0\x01\x69\x22\xde\x36"[..], &header].concat()
    }

    #[test]
    fn large_dictionaries_of_xz_are_refused_before_they_take_memory() {
        let read = |property| {
            let mut source = decompress(Cursor::new(xz(property))).expect("the first bytes");
            source.read(&mut [0; 16]).expect_err("the file is cut off").to_string()
        };
        // 64 MiB, 96 MiB, 512 MiB, 4 GiB.
        assert!(!read(28).contains("64 MiB"), "{}", read(28));
        for property in [29, 34, 40] {
            assert!(read(property).contains("decompress it first"), "{}", read(property));
        }
    }
}
