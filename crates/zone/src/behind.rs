//! A writer whose work is done by a thread of its own, so that who makes the text does not wait for the kernel to take
//! it.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Chunks on their way: with what the kernel holds back it is enough that neither side waits for long.
const CHUNKS: usize = 4;

/// Writes behind the back of its owner, in order; what went wrong is told at the next write or flush.
#[derive(Debug)]
pub struct WriteBehind {
    /// Chunks; an empty one asks for a flush. `None` once the thread has failed.
    full: Option<SyncSender<Vec<u8>>>,
    /// Chunks that are written, for their room, and an empty one for each flush that is done.
    written: Receiver<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl WriteBehind {
    /// Writes to `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        let (full, chunks) = sync_channel(CHUNKS);
        let (back, written) = channel();
        let thread = std::thread::spawn(move || write_all(out, &chunks, &back));
        WriteBehind { full: Some(full), written, spare: Vec::new(), thread: Some(thread) }
    }

    /// Hands a chunk over.
    fn send(&mut self, chunk: Vec<u8>) -> io::Result<()> {
        let sent = self.full.as_ref().is_some_and(|full| full.send(chunk).is_ok());
        if sent { Ok(()) } else { Err(self.failure()) }
    }

    /// Why the thread has ended.
    fn failure(&mut self) -> io::Error {
        self.full = None;
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(Err(error))) => error,
            _ => io::Error::other("the writing thread has ended"),
        }
    }
}

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
            // An octet tells it from the answer to a flush.
            chunk.push(0);
        }
        // Nobody may wait for it any more.
        let _ = back.send(chunk);
    }
    out.flush()
}

impl Write for WriteBehind {
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

impl Drop for WriteBehind {
    /// Waits until all is written.
    fn drop(&mut self) {
        self.full = None;
        if let Some(thread) = self.thread.take() {
            // Who wants to know of an error flushes first.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many octets, then fails.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let taken = octets.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(io::Error::other("full")) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_is_written_in_order() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut out = WriteBehind::new(file.try_clone().expect("clones"));
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
    fn what_went_wrong_is_told() {
        let mut out = WriteBehind::new(Full(10));
        out.write_all(b"0123456789").expect("has room");
        out.flush().expect("has room");
        let failed = (0..100).find_map(|_| out.write_all(b"x").err());
        let error = failed.or_else(|| out.flush().err()).expect("full");
        assert_eq!(error.to_string(), "full");
        assert!(out.flush().is_err() && out.write(b"x").is_err());
    }
}
