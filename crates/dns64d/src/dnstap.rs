//! dnstap out: messages of clients and to them, for a reader on a UNIX socket (<https://dnstap.info>).
//!
//! ```text
//!   worker ──frames──> queue of DNSTAP_QUEUE octets ──> thread "dnstap" ──frame streams──> reader
//!              └ full: lost                          └ no reader: lost
//! ```
//!
//! No worker waits for the reader. The thread connects again every second; it offers the content type and waits until the
//! reader accepts it, as the protocol of frame streams wants it of a bidirectional transport.

mod handshake;

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use dns64::config::{DNSTAP_QUEUE, DnstapConfig};
use dns64::{ObservedMessage, TapKind};
use measure::Transport;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio_util::sync::CancellationToken;
use wire::dnstap::{self, Message, Protocol};

/// Time between two attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time until the end of the server is noticed.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Longest wait for a reader that does not read at the end of the server.
const LAST_FRAMES: Duration = Duration::from_secs(1);

/// Numbers of frames that the reader has read, and of lost frames.
static FRAMES_SENT: AtomicU64 = AtomicU64::new(0);
static FRAMES_LOST: AtomicU64 = AtomicU64::new(0);

/// Returns the number of frames that the reader has read.
pub(crate) fn sent() -> u64 {
    FRAMES_SENT.load(Ordering::Relaxed)
}

/// Returns the number of lost frames.
pub(crate) fn lost() -> u64 {
    FRAMES_LOST.load(Ordering::Relaxed)
}

/// Counts frames that were lost before they had a place in the queue.
pub(crate) fn count_lost(frames: u64) {
    FRAMES_LOST.fetch_add(frames, Ordering::Relaxed);
}

/// Frames of one step of a worker.
struct Batch {
    octets: Vec<u8>,
    frames: u64,
}

/// The workers' end of the queue.
#[derive(Clone)]
pub(crate) struct TapQueue {
    sender: Sender<Batch>,
    /// Octets in the queue, which bound it.
    waiting: Arc<AtomicUsize>,
    identity: Arc<str>,
}

/// The reader's end of the queue.
pub(crate) struct Writer {
    receiver: Receiver<Batch>,
    waiting: Arc<AtomicUsize>,
    config: DnstapConfig,
}

/// Makes the queue; `None` if no reader is configured.
pub(crate) fn queue(config: &DnstapConfig) -> Option<(TapQueue, Writer)> {
    let (sender, receiver) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let identity = config.identity.as_str().into();
    let queue = TapQueue { sender, waiting: waiting.clone(), identity };
    config.is_on().then(|| (queue, Writer { receiver, waiting, config: config.clone() }))
}

impl TapQueue {
    /// Appends a message as a frame; times are since 1970.
    pub(crate) fn write(
        &self,
        entry: &ObservedMessage,
        octets: &[u8],
        asked: Duration,
        at: Duration,
        to: &mut Vec<u8>,
    ) {
        let start = to.len();
        to.extend_from_slice(&[0; 4]);
        let is_query = entry.kind == TapKind::Query;
        let message = Message {
            kind: match entry.kind {
                TapKind::Query => dnstap::Kind::CLIENT_QUERY,
                TapKind::Answer => dnstap::Kind::CLIENT_RESPONSE,
            },
            protocol: protocol(entry.transport),
            client: Some(entry.client),
            client_port: entry.port,
            query_time: Some(asked),
            query: is_query.then_some(octets),
            response_time: (!is_query).then_some(at),
            response: (!is_query).then_some(octets),
            ..Message::default()
        };
        let version = concat!("dns64d ", env!("CARGO_PKG_VERSION"));
        message.write(self.identity.as_bytes(), version.as_bytes(), to);
        let len = (to.len() - start - 4) as u32;
        to[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// Passes frames to the reader if the queue has room for them; otherwise they are lost.
    pub(crate) fn send(&self, octets: Vec<u8>, frames: u64) {
        let len = octets.len();
        let fits = self.waiting.fetch_add(len, Ordering::Relaxed) + len <= DNSTAP_QUEUE;
        // The thread ends last.
        if !fits || self.sender.send(Batch { octets, frames }).is_err() {
            self.waiting.fetch_sub(len, Ordering::Relaxed);
            count_lost(frames);
        }
    }
}

/// Returns the number of a transport; DNS over HTTPS has one number for all versions of HTTP.
fn protocol(transport: Transport) -> Protocol {
    match transport {
        Transport::Udp => Protocol::UDP,
        Transport::Tcp => Protocol::TCP,
        Transport::Tls => Protocol::DOT,
        Transport::Https | Transport::Http3 => Protocol::DOH,
        Transport::Quic => Protocol::DOQ,
    }
}

impl Writer {
    /// Writes frames to the reader until the end, and then the frames still in the queue.
    ///
    /// # Errors
    /// Never; all threads have this type.
    pub(crate) fn run(self, end: &CancellationToken) -> io::Result<()> {
        let (mut reader, mut tried) = (None, None::<Instant>);
        let mut said = false;
        loop {
            let batch = match self.receiver.recv_timeout(CHECK_INTERVAL) {
                Ok(batch) => Some(batch),
                Err(RecvTimeoutError::Timeout) if !end.is_cancelled() => None,
                Err(_) => break,
            };
            let due = tried.is_none_or(|tried| tried.elapsed() >= RETRY_INTERVAL);
            if reader.is_none() && due && !end.is_cancelled() {
                reader = match self.connect() {
                    Ok(stream) => {
                        tracing::info!("dnstap: {} reads", self.config.socket.display());
                        said = false;
                        Some(stream)
                    }
                    Err(error) => {
                        if !said {
                            let path = self.config.socket.display();
                            tracing::warn!("dnstap.socket: {path}: {error}; frames are lost");
                        }
                        said = true;
                        None
                    }
                };
                tried = Some(Instant::now());
            }
            let Some(Batch { octets, frames }) = batch else { continue };
            let written = match &mut reader {
                Some(stream) => write_all(stream, &octets, end),
                None => Err(io::ErrorKind::NotConnected.into()),
            };
            self.waiting.fetch_sub(octets.len(), Ordering::Relaxed);
            match written {
                Ok(()) => drop(FRAMES_SENT.fetch_add(frames, Ordering::Relaxed)),
                Err(_) => {
                    count_lost(frames);
                    reader = None;
                }
            }
        }
        if let Some(mut stream) = reader {
            // The reader may have disconnected.
            let _ = handshake::finish(&mut stream);
        }
        Ok(())
    }

    fn connect(&self) -> io::Result<UnixStream> {
        // A reader that hangs accepts no connections; the timeout of sending also applies to
        // connecting.
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_write_timeout(Some(CHECK_INTERVAL))?;
        socket.set_read_timeout(Some(RETRY_INTERVAL))?;
        socket.connect(&SockAddr::unix(&self.config.socket)?)?;
        let mut stream = UnixStream::from(OwnedFd::from(socket));
        handshake::start(&mut stream)?;
        Ok(stream)
    }
}

/// Writes to a reader that may be slow; at the end of the server it has [`LAST_FRAMES`].
fn write_all(
    stream: &mut UnixStream,
    mut octets: &[u8],
    end: &CancellationToken,
) -> io::Result<()> {
    let mut deadline = None;
    while !octets.is_empty() {
        match stream.write(octets) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => octets = &octets[written..],
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    let since = end.is_cancelled().then(Instant::now);
                    deadline = deadline.or(since.map(|since| since + LAST_FRAMES));
                    if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                        return Err(error);
                    }
                }
                _ => return Err(error),
            },
        }
    }
    Ok(())
}
