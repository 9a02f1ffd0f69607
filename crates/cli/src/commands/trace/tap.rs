//! A socket to which servers write dnstap, as one stream of frames.
//!
//! ```text
//! server ──READY, START, frames──> thread ──whole frames──┐
//! server ──READY, START, frames──> thread ──whole frames──┴─> START frames ... STOP ──> trace::Capture
//! ```
//!
//! Servers connect, also again after a restart, until the time is over or a signal comes. A partial
//! frame at the end of a broken connection is dropped, and all frames before that are kept.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};
use udp::capture::Until;
use wire::frame_stream::{Control, Split, split};

/// Highest number of servers that are connected at a time.
const MAX_SERVERS: usize = 64;
/// Number of chunks of frames that wait to be read; then servers wait.
const QUEUED_CHUNKS: usize = 64;
/// Octets that are read at a time.
const CHUNK_OCTETS: usize = 64 << 10;
/// Longest time until the end of reading is noticed.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Longest time after the end for reading the rest from a server that still writes.
const LAST_FRAMES: Duration = Duration::from_secs(1);

/// The place of the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TapAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl FromStr for TapAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(address) => Ok(TapAddress::Tcp(address)),
            Err(_) if text.contains('/') => Ok(TapAddress::Unix(text.into())),
            Err(_) => Err(format!(
                "`{text}` is neither the path of a UNIX socket, with a `/`, nor ADDRESS:PORT"
            )),
        }
    }
}

impl std::fmt::Display for TapAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TapAddress::Unix(path) => path.display().fmt(f),
            TapAddress::Tcp(address) => address.fmt(f),
        }
    }
}

/// Numbers of connections and how they ended.
#[derive(Debug, Default)]
pub(crate) struct TapCounts {
    /// Number of accepted connections of servers.
    pub(crate) connections: AtomicU64,
    /// Connections that ended without STOP, or within a frame.
    pub(crate) cut: AtomicU64,
    /// Connections of something that is no dnstap.
    pub(crate) refused: AtomicU64,
}

/// The frames of all servers: a stream that ends at its end condition.
pub(crate) struct LiveTap {
    frames: Receiver<Vec<u8>>,
    ready: Vec<u8>,
    given: usize,
    /// Whether the STOP frame is in `ready`.
    stopped: bool,
    counts: Arc<TapCounts>,
}

/// The end of the reading.
struct ReadingEnd {
    until: Until,
    began: Instant,
}

impl ReadingEnd {
    fn is_over(&self) -> bool {
        let over = |duration| self.began.elapsed() >= Duration::from(duration);
        self.until.stop.load(Ordering::Relaxed) || self.until.duration.is_some_and(over)
    }
}

impl LiveTap {
    /// Listens at an address. A UNIX socket left by an earlier reader is replaced.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub(crate) fn listen(address: &TapAddress, until: Until) -> io::Result<Self> {
        let (domain, at) = match address {
            TapAddress::Unix(path) => {
                remove_stale(path)?;
                (Domain::UNIX, SockAddr::unix(path)?)
            }
            TapAddress::Tcp(address) => (Domain::for_address(*address), (*address).into()),
        };
        let listener = Socket::new(domain, Type::STREAM, None)?;
        // A port whose last connections are still closing is free.
        listener.set_reuse_address(domain != Domain::UNIX)?;
        listener.bind(&at)?;
        listener.listen(MAX_SERVERS as i32)?;
        listener.set_nonblocking(true)?;
        let ending = Arc::new(ReadingEnd { until, began: Instant::now() });
        let counts = Arc::new(TapCounts::default());
        let (sender, frames) = sync_channel(QUEUED_CHUNKS);
        let (counted, address) = (counts.clone(), address.clone());
        std::thread::spawn(move || {
            accept(&listener, &sender, &ending, &counted);
            if let TapAddress::Unix(path) = address {
                // Another process may have removed the socket.
                let _ = std::fs::remove_file(path);
            }
        });
        let ready = Control::Start.frame();
        Ok(LiveTap { frames, ready, given: 0, stopped: false, counts })
    }

    /// Returns the counts of the connections.
    pub(crate) fn counts(&self) -> Arc<TapCounts> {
        self.counts.clone()
    }

    /// Waits for frames, or for the end.
    fn fill(&mut self) {
        self.given = 0;
        // All threads end at the time limit; then the channel is closed.
        self.ready = loop {
            match self.frames.recv_timeout(CHECK_INTERVAL) {
                Ok(frames) => break frames,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.stopped = true;
                    break Control::Stop.frame();
                }
            }
        };
    }
}

impl Read for LiveTap {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ready.len() {
            if self.stopped {
                return Ok(0);
            }
            self.fill();
        }
        let part = &self.ready[self.given..];
        let len = part.len().min(out.len());
        out[..len].copy_from_slice(&part[..len]);
        self.given += len;
        Ok(len)
    }
}

/// Removes a socket without a listener.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Accepts servers until the end, each on a thread of its own, and waits for the threads.
fn accept(
    listener: &Socket,
    sender: &SyncSender<Vec<u8>>,
    ending: &Arc<ReadingEnd>,
    counts: &Arc<TapCounts>,
) {
    let open = Arc::new(AtomicUsize::new(0));
    while !ending.is_over() {
        let accepted = listener.accept().and_then(|(stream, _)| {
            stream.set_write_timeout(Some(LAST_FRAMES))?;
            stream.set_read_timeout(Some(CHECK_INTERVAL))?;
            Ok(stream)
        });
        // No server waits, the server has disconnected, or this process has too many open files.
        let Ok(mut stream) = accepted else {
            std::thread::sleep(CHECK_INTERVAL);
            continue;
        };
        counts.connections.fetch_add(1, Ordering::Relaxed);
        if open.load(Ordering::Relaxed) == MAX_SERVERS {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (open, sender, ending) = (open.clone(), sender.clone(), ending.clone());
        let counts = counts.clone();
        std::thread::spawn(move || {
            let mut session = Session { octets: Vec::new(), started: false };
            match session.read(&mut stream, &sender, &ending) {
                Ok(EndReason::Stopped | EndReason::Over) => {}
                Ok(EndReason::Cut) => drop(counts.cut.fetch_add(1, Ordering::Relaxed)),
                Err(_) => drop(counts.refused.fetch_add(1, Ordering::Relaxed)),
            }
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

enum EndReason {
    Stopped,
    /// `listen` got a signal to end.
    Over,
    /// The server closed the connection without STOP.
    Cut,
}

/// The frame stream of one connected server.
struct Session {
    /// Octets that are not a whole part yet.
    octets: Vec<u8>,
    started: bool,
}

impl Session {
    /// Reads a server's frames until it stops, or until the end.
    ///
    /// # Errors
    /// If the server's frames are not dnstap.
    fn read(
        &mut self,
        stream: &mut Socket,
        sender: &SyncSender<Vec<u8>>,
        ending: &ReadingEnd,
    ) -> io::Result<EndReason> {
        let (mut chunk, mut over) = (vec![0; CHUNK_OCTETS], None::<Instant>);
        loop {
            if ending.is_over() {
                let since = *over.get_or_insert_with(Instant::now);
                if since.elapsed() > LAST_FRAMES {
                    return Ok(EndReason::Over);
                }
            }
            let len = match stream.read(&mut chunk) {
                Ok(0) => return Ok(EndReason::Cut),
                Ok(len) => len,
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => continue,
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if over.is_none() => {
                        continue;
                    }
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        return Ok(EndReason::Over);
                    }
                    _ => return Ok(EndReason::Cut),
                },
            };
            self.octets.extend_from_slice(&chunk[..len]);
            let (frames, answer, stopped) = self.parts()?;
            // The reader of the frames has ended.
            if !frames.is_empty() && sender.send(frames).is_err() {
                return Ok(EndReason::Over);
            }
            if let Some(answer) = answer {
                let written = stream.write_all(&answer.frame()).and_then(|()| stream.flush());
                if written.is_err() && !stopped {
                    return Ok(EndReason::Cut);
                }
            }
            if stopped {
                return Ok(EndReason::Stopped);
            }
        }
    }

    /// Removes and returns the complete frames with their lengths, the control frame for the
    /// server, and whether it sent STOP.
    fn parts(&mut self) -> io::Result<(Vec<u8>, Option<Control>, bool)> {
        let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let (mut frames, mut at) = (Vec::new(), 0);
        let (mut answer, mut stopped) = (None, false);
        while !stopped {
            match split(&self.octets[at..]).map_err(|why| wrong(why.to_string()))? {
                Split::More(_) => break,
                Split::Frame { len, .. } if self.started => {
                    frames.extend_from_slice(&self.octets[at..at + len]);
                    at += len;
                }
                Split::Frame { .. } => return Err(wrong("a frame in front of START".to_owned())),
                Split::Control { kind, dnstap, len } => {
                    match kind {
                        Control::Ready if dnstap => answer = Some(Control::Accept),
                        // A writer that speaks in one direction only sends no READY.
                        Control::Start if dnstap => self.started = true,
                        Control::Stop => (answer, stopped) = (Some(Control::Finish), true),
                        _ => return Err(wrong("it does not offer dnstap".to_owned())),
                    }
                    at += len;
                }
            }
        }
        self.octets.drain(..at);
        Ok((frames, answer, stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths_or_tcp() {
        let parse = |text: &str| text.parse::<TapAddress>();
        assert_eq!(parse("./tap"), Ok(TapAddress::Unix("./tap".into())));
        assert!(matches!(parse("[::1]:6000"), Ok(TapAddress::Tcp(_))));
        for bad in ["", "tap", "127.0.0.1", "localhost:6000"] {
            let error = parse(bad).expect_err(bad);
            assert!(error.contains("neither the path of a UNIX socket"), "{error}");
        }
    }

    #[test]
    fn a_session_takes_whole_frames_only() {
        let stream = [Control::Ready.frame(), Control::Start.frame(), vec![0, 0, 0, 2, 7, 8]];
        let whole = [stream.concat(), Control::Stop.frame()].concat();
        let mut session = Session { octets: Vec::new(), started: false };
        let (mut frames, mut answers) = (Vec::new(), Vec::new());
        for (number, octet) in whole.iter().enumerate() {
            session.octets.push(*octet);
            let (more, answer, stopped) = session.parts().expect("a stream");
            frames.extend(more);
            answers.extend(answer);
            assert_eq!(stopped, number == whole.len() - 1);
        }
        assert_eq!(frames, [0, 0, 0, 2, 7, 8]);
        assert_eq!(answers, [Control::Accept, Control::Finish]);
        for bad in [&b"GET / HTTP/1.1"[..], &[0, 0, 0, 1, 7], &Control::Finish.frame()] {
            let mut session = Session { octets: bad.to_vec(), started: false };
            let parts = session.parts();
            assert!(parts.is_err() || parts.is_ok_and(|(frames, ..)| frames.is_empty()), "{bad:?}");
        }
    }
}
