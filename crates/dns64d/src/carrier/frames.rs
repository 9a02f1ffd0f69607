//! Messages on a stream: two octets of length before each (RFC 1035 section 4.2.2).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Usual number of octets of one read.
const INPUT: usize = 4 << 10;

/// Parser of the messages on a stream.
pub(super) struct Frames {
    input: Vec<u8>,
    taken: usize,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self::after(Vec::with_capacity(INPUT))
    }

    /// Makes a parser that has already received some octets.
    pub(super) fn after(input: Vec<u8>) -> Self {
        Frames { input, taken: 0 }
    }

    /// Returns the next message if it is complete.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        let rest = &self.input[self.taken..];
        let len = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
        let message = rest.get(2..2 + len)?;
        self.taken += 2 + len;
        Some(message)
    }

    /// Reads more octets; returns `false` at the end of the stream. If the future is dropped before it is
    /// ready, nothing has been read.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(super) async fn read(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        // The remainder is less than a message, so that this holds at most two of them.
        self.input.drain(..self.taken);
        self.taken = 0;
        Ok(from.read_buf(&mut self.input).await? > 0)
    }
}

/// Appends a message to the output.
pub(super) fn push(output: &mut Vec<u8>, message: &[u8]) {
    // A message is never longer than its length field allows.
    let len = u16::try_from(message.len()).unwrap_or(u16::MAX);
    output.extend_from_slice(&len.to_be_bytes());
    output.extend_from_slice(&message[..usize::from(len)]);
}
