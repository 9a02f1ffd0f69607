//! Messages on a stream: two octets of length before each (RFC 1035 section 4.2.2).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Usual number of octets of one read.
const READ_OCTETS: usize = 4 << 10;

/// Parser of the messages on a stream.
pub(super) struct Frames {
    input: Vec<u8>,
    consumed: usize,
    /// Longest message that is accepted.
    max: usize,
}

impl Frames {
    /// Makes a parser of messages of at most `max` octets.
    pub(super) fn new(max: usize) -> Self {
        Self::after(Vec::new(), max)
    }

    /// Makes a parser that has already received some octets.
    pub(super) fn after(input: Vec<u8>, max: usize) -> Self {
        Frames { input, consumed: 0, max }
    }

    /// Returns the next message if it is complete.
    ///
    /// # Errors
    /// When its length is above the limit: the message is not read.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let rest = &self.input[self.consumed..];
        let Some(&len) = rest.first_chunk() else { return Ok(None) };
        let len = usize::from(u16::from_be_bytes(len));
        if len > self.max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let Some(message) = rest.get(2..2 + len) else { return Ok(None) };
        self.consumed += 2 + len;
        Ok(Some(message))
    }

    /// Reads more octets; returns `false` at the end of the stream. Called only after [`next`](Self::next) had no message.
    /// If the future is dropped before it is ready, nothing has been read.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(super) async fn read(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        // Room for the rest of the current message, or for what one read usually brings: never more.
        let len = self.input.first_chunk().map_or(0, |len| usize::from(u16::from_be_bytes(*len)));
        let room = (2 + len).max(READ_OCTETS).saturating_sub(self.input.len());
        if self.input.capacity() < self.input.len() + room {
            self.input.reserve_exact(room);
        }
        match from.take(room as u64).read_buf(&mut self.input).await {
            // Many close TLS without a close_notify; where a message ends is in its length.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            read => Ok(read? > 0),
        }
    }
}

/// Appends a message to the output.
pub(super) fn push(output: &mut Vec<u8>, message: &[u8]) {
    // A message is never longer than its length field allows.
    let len = u16::try_from(message.len()).unwrap_or(u16::MAX);
    output.extend_from_slice(&len.to_be_bytes());
    output.extend_from_slice(&message[..usize::from(len)]);
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    /// Parses pieces of a stream; returns the lengths of the messages, and the largest buffer.
    fn parse(pieces: &[&[u8]], max: usize) -> io::Result<(Vec<usize>, usize)> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let (mut frames, mut lens, mut largest) = (Frames::new(max), Vec::new(), 0);
        for mut piece in pieces.iter().copied() {
            while !piece.is_empty() {
                while let Some(message) = frames.next()? {
                    lens.push(message.len());
                }
                runtime.block_on(frames.read(&mut piece))?;
                largest = largest.max(frames.input.capacity());
            }
        }
        while let Some(message) = frames.next()? {
            lens.push(message.len());
        }
        Ok((lens, largest))
    }

    #[test]
    fn messages_are_found_and_the_buffer_is_no_larger_than_one() {
        let message = |len: usize| [&(len as u16).to_be_bytes()[..], &vec![7; len]].concat();
        let stream = [message(3), message(0), message(4_000), message(5_000), message(9)].concat();
        for size in [1, 7, 1_000, 100_000] {
            let pieces: Vec<&[u8]> = stream.chunks(size).collect();
            let (lens, largest) = parse(&pieces, 5_000).expect("no message is too long");
            assert_eq!(lens, [3, 0, 4_000, 5_000, 9], "{size}");
            assert!(largest <= 5_002, "{size}: {largest}");
        }
    }

    /// A TLS connection that the peer has closed without a close_notify.
    struct NotNotified;

    impl AsyncRead for NotNotified {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()))
        }
    }

    #[test]
    fn the_end_of_tls_without_a_notice_is_no_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let more = runtime.block_on(Frames::new(9).read(&mut NotNotified));
        assert!(!more.expect("an end"));
    }

    #[test]
    fn a_long_message_is_refused_by_its_length() {
        let error = parse(&[&[0xff, 0xff]], 4_096).expect_err("its length is known");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(parse(&[&[0x10, 0x00]], 4_096).is_ok());
    }
}
