//! A writer that writes on a background thread, so that the thread that makes the text does not wait for the kernel.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Capacity of the queue of chunks; together with the buffers of the kernel this keeps both threads busy.
const CHUNKS: usize = 4;

/// A writer with a background thread. It keeps the order; an error is returned at the next write or flush.
#[derive(Debug)]
pub struct BackgroundWriter {
    /// Sends chunks to the thread; an empty one requests a flush. `None` after the thread has failed.
    chunks_out: Option<SyncSender<Vec<u8>>>,
    /// Receives written chunks for reuse, and an empty one for each completed flush.
    written: Receiver<Vec<u8>>,
    /// Written chunks whose memory is used again.
    spare: Vec<Vec<u8>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl BackgroundWriter {
    /// Starts a thread that writes to `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        let (chunks_out, chunks) = sync_channel(CHUNKS);
        let (back, written) = channel();
        let thread = std::thread::spawn(move || write_all(out, &chunks, &back));
        BackgroundWriter {
            chunks_out: Some(chunks_out),
            written,
            spare: Vec::new(),
            thread: Some(thread),
        }
    }

    /// Sends a chunk to the thread.
    fn send(&mut self, chunk: Vec<u8>) -> io::Result<()> {
        let sent =
            self.chunks_out.as_ref().is_some_and(|chunks_out| chunks_out.send(chunk).is_ok());
        if sent { Ok(()) } else { Err(self.failure()) }
    }

    /// Returns the reason why the thread has ended.
    fn failure(&mut self) -> io::Error {
        self.chunks_out = None;
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(Err(error))) => error,
            _ => io::Error::other("the thread that writes the file has panicked"),
        }
    }
}

/// Writes chunks in order and returns each for reuse, until the channel closes.
fn write_all(
    mut out: impl Write,
    chunks: &Receiver<Vec<u8>>,
    back: &Sender<Vec<u8>>,
) -> io::Result<()> {
    for mut chunk in chunks {
        if chunk.is_empty() {
            out.flush()?;
        }
        out.write_all(&chunk)?;
        if !chunk.is_empty() {
            chunk.clear();
            // One octet distinguishes the chunk from the answer to a flush.
            chunk.push(0);
        }
        // The receiver may have ended already.
        let _ = back.send(chunk);
    }
    out.flush()
}

impl Write for BackgroundWriter {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if octets.is_empty() {
            return Ok(0);
        }
        self.spare.extend(self.written.try_iter());
        let mut chunk = self.spare.pop().unwrap_or_default();
        chunk.clear();
        chunk.extend_from_slice(octets);
        self.send(chunk)?;
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send(Vec::new())?;
        loop {
            match self.written.recv() {
                Ok(chunk) if chunk.is_empty() => return Ok(()),
                Ok(chunk) => self.spare.push(chunk),
                Err(_) => return Err(self.failure()),
            }
        }
    }
}

impl Drop for BackgroundWriter {
    /// Waits until everything is written.
    fn drop(&mut self) {
        self.chunks_out = None;
        if let Some(thread) = self.thread.take() {
            // A caller that needs the error calls `flush` before.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that accepts this many octets, then fails.
    struct FailsAfter(usize);

    impl Write for FailsAfter {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let accepted = octets.len().min(self.0);
            self.0 -= accepted;
            if accepted == 0 { Err(io::Error::other("full")) } else { Ok(accepted) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn chunks_are_written_in_order() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut out = BackgroundWriter::new(file.try_clone().expect("clones"));
        let mut wanted = Vec::new();
        for number in 0..1_000u32 {
            out.write_all(&number.to_le_bytes()).expect("writes");
            wanted.extend(number.to_le_bytes());
            if number % 300 == 0 {
                out.flush().expect("flushes");
            }
        }
        drop(out);
        let mut found = Vec::new();
        io::Seek::rewind(&mut file).expect("rewinds");
        io::Read::read_to_end(&mut file, &mut found).expect("reads");
        assert_eq!(found, wanted);
    }

    #[test]
    fn errors_of_the_thread_are_returned() {
        let mut out = BackgroundWriter::new(FailsAfter(10));
        out.write_all(b"0123456789").expect("has room");
        out.flush().expect("has room");
        let failed = (0..100).find_map(|_| out.write_all(b"x").err());
        let error = failed.or_else(|| out.flush().err()).expect("full");
        assert_eq!(error.to_string(), "full");
        assert!(out.flush().is_err() && out.write(b"x").is_err());
    }
}
