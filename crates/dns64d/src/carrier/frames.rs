//! Messages on a stream: two octets of length before each (RFC 1035 section 4.2.2).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// What is read at once, usually.
const INPUT: usize = 4 << 10;

/// Messages as they come in.
pub(super) struct Frames {
    input: Vec<u8>,
    taken: usize,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self::after(Vec::with_capacity(INPUT))
    }

    /// Messages of which some octets have come in before.
    pub(super) fn after(input: Vec<u8>) -> Self {
        Frames { input, taken: 0 }
    }

    /// The next message, if all of it is there.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        let rest = &self.input[self.taken..];
        let len = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
        let message = rest.get(2..2 + len)?;
        self.taken += 2 + len;
        Some(message)
    }

    /// Reads more; `false` at the end of the stream. Dropped before it is ready it has read nothing.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) async fn read(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        // What is left is less than a message, so this holds two of them at most.
        self.input.drain(..self.taken);
        self.taken = 0;
        Ok(from.read_buf(&mut self.input).await? > 0)
    }
}

/// Adds a message to what is to be written.
pub(super) fn push(output: &mut Vec<u8>, message: &[u8]) {
    // No message is longer than its length field can say.
    let len = u16::try_from(message.len()).unwrap_or(u16::MAX);
    output.extend_from_slice(&len.to_be_bytes());
    output.extend_from_slice(&message[..usize::from(len)]);
}
