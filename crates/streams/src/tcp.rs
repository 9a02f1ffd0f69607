//! A server of messages over TCP or TLS with a 16-bit length in front (RFC 1035 section 4.2.2, RFC 7766, RFC
//! 7858), and over HTTP/2, QUIC and HTTP/3 ([`crate::serve`]), on a runtime of one thread.
//!
//! It knows no DNS: it passes messages to a handler and sends its replies. Pipelined messages are answered in
//! order, and replies that are ready together are written together. The number of connections, idle time,
//! pipelining and message sizes are limited.

mod later;

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use engine::clock::monotonic;
use engine::named;
use engine::stream::{Leaves, first_message};
use measure::Nanos;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use self::later::{LaterReplies, Timetable, WaitUntil};
use crate::http::ALPN_H2;
use crate::serve::{self, Answer, Fault, Faults, Sender, StreamLimits};
use crate::tls::ServerTls;

/// Limits of a TCP service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpLimits {
    /// Highest number of connections; further ones are closed immediately.
    pub connections: usize,
    /// Time after which a connection is closed that sends no complete message or reads no reply.
    pub idle: Duration,
    /// Highest number of messages of a connection that are answered before their replies are written.
    pub pipelined: usize,
    /// Shortest time between two accepted connections; faster ones wait in the kernel's queue.
    pub accept_interval: Duration,
}

impl Default for TcpLimits {
    /// Returns 1,000 connections, without a limit of their rate, 10 s (RFC 7766 section 6.2.3
    /// recommends some seconds), 100 messages.
    fn default() -> Self {
        TcpLimits {
            connections: 1_000,
            idle: Duration::from_secs(10),
            pipelined: 100,
            accept_interval: Duration::ZERO,
        }
    }
}

impl TcpLimits {
    /// Returns the same limits for connections with streams.
    fn streams(&self) -> StreamLimits {
        let TcpLimits { connections, idle, pipelined, .. } = *self;
        let streams = u32::try_from(pipelined).unwrap_or(u32::MAX);
        StreamLimits { connections, streams, idle, ..StreamLimits::default() }
    }
}

/// Highest number of bytes of replies that are written together.
const MAX_OUTPUT: usize = 64 << 10;
/// Highest number of bytes of replies of a connection that wait until they are due; no more is read from it before.
const MAX_WAITING: usize = 256 << 10;
/// Time after which a stream of HTTP or QUIC whose reply is withheld ends without one, so that it does not count against the limit of
/// streams for ever. Clients give up earlier.
const WITHHELD_LIMIT: Duration = Duration::from_secs(10);
/// Time by which accepting connections may fall behind its rate and catch up.
const ACCEPT_BEHIND: Nanos = Nanos::from_millis(10);
/// Usual number of bytes of one read.
const READ_SIZE: usize = 4 << 10;
/// Highest number of connections that the kernel completes before they are accepted.
const BACKLOG: i32 = 1_024;
/// Highest number of pending connections with data in their SYN.
const FAST_OPEN: i32 = 256;
/// Interval at which `stop` is called.
const STOP_LATENCY: Duration = Duration::from_millis(50);

/// Listens on `address`.
///
/// # Errors
/// When the address cannot be bound; the error names it.
pub fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    listen_with(address, &|_| Ok(()))
}

/// Works as [`listen`]; `prepare` is called with the socket before it is bound.
///
/// # Errors
/// As [`listen`], and those of `prepare`.
pub fn listen_with(
    address: SocketAddr,
    prepare: &dyn Fn(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<std::net::TcpListener> {
    let failed = |e| named(e, "cannot listen on TCP", address);
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).map_err(failed)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    prepare(socket.as_fd()).map_err(failed)?;
    allow_fast_open(&socket);
    socket.bind(&address.into()).map_err(failed)?;
    socket.listen(BACKLOG).map_err(failed)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Lets clients send data in their SYN (RFC 7413), if the host permits it for servers
/// (`net.ipv4.tcp_fastopen`).
#[allow(unsafe_code)]
fn allow_fast_open(socket: &socket2::Socket) {
    let pending = FAST_OPEN;
    // SAFETY: the option's value is an int that lives through the call, of the stated size. If the
    // kernel refuses, the option is not set.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_FASTOPEN,
            (&raw const pending).cast(),
            size_of_val(&pending) as libc::socklen_t,
        );
    }
}

/// Listening socket, with its protocol.
#[derive(Debug)]
pub enum Listener {
    /// TCP: messages after their length.
    Tcp(std::net::TcpListener),
    /// TLS, with HTTP/2 if negotiated by ALPN.
    Tls(std::net::TcpListener, ServerTls),
    /// QUIC, with HTTP/3 if negotiated by ALPN.
    Quic(std::net::UdpSocket, ServerTls),
}

/// Carrier of a message to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// One of the frames of a TCP or TLS connection.
    Frame {
        /// The local address to which the message was sent.
        to: Option<IpAddr>,
        /// Time at which the connection was accepted, on the monotonic clock.
        accepted: Nanos,
    },
    /// A stream for each query: HTTP, QUIC; with the number of the stream over QUIC
    /// ([`Sender::stream`]).
    Stream(Option<u64>),
}

/// Serves `listeners` until `stop` returns true (called every 50 ms); returns the number of
/// accepted connections. `answer` gets a message and writes the reply into the empty vector, and
/// returns when it leaves. Over TCP and TLS delayed replies may overtake each other (RFC 7766
/// section 6.2.1.1).
///
/// # Errors
/// When the runtime cannot be made.
pub fn serve(
    listeners: Vec<Listener>,
    limits: TcpLimits,
    answer: impl FnMut(&[u8], Carried, &mut Vec<u8>) -> Leaves + 'static,
    faults: Faults,
    stop: impl Fn() -> bool,
) -> io::Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (open, answer) = (Cell::new(0), RefCell::new(answer));
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let service = Rc::new(Service {
            limits,
            open,
            answer,
            faults,
            timetable: Timetable::new()?,
            accepted: Cell::new(0),
            accepts: Cell::new(Nanos::ZERO),
        });
        let timing = service.clone();
        tokio::task::spawn_local(async move { timing.timetable.run().await });
        for listener in listeners {
            match listener {
                Listener::Tcp(socket) => {
                    let socket = TcpListener::from_std(socket)?;
                    tokio::task::spawn_local(accept(socket, None, service.clone()));
                }
                Listener::Tls(socket, tls) => {
                    let socket = TcpListener::from_std(socket)?;
                    tokio::task::spawn_local(accept(socket, Some(tls), service.clone()));
                }
                Listener::Quic(socket, tls) => {
                    let limits = limits.streams();
                    tokio::task::spawn_local(serve::quic(socket, tls, limits, service.clone()));
                }
            }
        }
        while !stop() {
            tokio::time::sleep(STOP_LATENCY).await;
        }
        Ok(service.accepted.get())
    })
}

/// State shared by all connections.
struct Service<F> {
    limits: TcpLimits,
    /// Number of connections that are open now.
    open: Cell<usize>,
    answer: RefCell<F>,
    faults: Faults,
    timetable: Timetable,
    /// Number of connections that were accepted.
    accepted: Cell<u64>,
    /// Earliest time of the next accepted connection.
    accepts: Cell<Nanos>,
}

impl<F: FnMut(&[u8], Carried, &mut Vec<u8>) -> Leaves> Answer for Service<F> {
    async fn answer(&self, sender: Sender, message: Vec<u8>) -> Bytes {
        let mut reply = Vec::new();
        let leaves = self.answer.borrow_mut()(&message, Carried::Stream(sender.stream), &mut reply);
        match leaves {
            Leaves::AtOnce => {}
            // A stream carries one reply.
            Leaves::At(due, _) => self.timetable.until(due).await,
            Leaves::Never => {
                sleep(WITHHELD_LIMIT).await;
                reply.clear();
            }
        }
        reply.into()
    }

    fn fault(&self) -> Option<Fault> {
        self.faults.next()
    }

    async fn admit(&self) {
        self.accepted.set(self.accepted.get() + 1);
        let interval = Nanos::from(self.limits.accept_interval);
        if interval > Nanos::ZERO {
            let at = self.accepts.get().max(monotonic().since(ACCEPT_BEHIND));
            self.accepts.set(at + interval);
            self.timetable.until(at).await;
        }
    }
}

/// Accepts connections until the future is dropped.
async fn accept<F: FnMut(&[u8], Carried, &mut Vec<u8>) -> Leaves + 'static>(
    listener: TcpListener,
    tls: Option<ServerTls>,
    service: Rc<Service<F>>,
) {
    loop {
        // A failed accept is temporary (the connection was reset, or no descriptor is free).
        let Ok((stream, client)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if service.open.get() >= service.limits.connections {
            continue;
        }
        service.admit().await;
        service.open.set(service.open.get() + 1);
        let service = service.clone();
        let tls = tls.as_ref().map(|tls| TlsAcceptor::from(tls.current()));
        tokio::task::spawn_local(async move {
            // The end of a connection, for any reason, affects no other connection.
            let _ = begin(stream, client, tls, &service).await;
            service.open.set(service.open.get() - 1);
        });
    }
}

/// Serves one connection including its handshake; the handshake may take as long as an idle
/// connection.
async fn begin<F: FnMut(&[u8], Carried, &mut Vec<u8>) -> Leaves>(
    stream: TcpStream,
    client: SocketAddr,
    tls: Option<TlsAcceptor>,
    service: &Service<F>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let local = stream.local_addr().ok().map(|address| address.ip());
    match tls {
        None => connection(stream, local, Vec::new(), service).await,
        Some(tls) => {
            let accepted = timeout(service.limits.idle, tls.accept(stream)).await;
            let mut stream = accepted.map_err(io::Error::from)??;
            let http = stream.get_ref().1.alpn_protocol() == Some(ALPN_H2);
            let mut early = Vec::new();
            if let Some(mut data) = stream.get_mut().1.early_data() {
                data.read_to_end(&mut early)?;
            }
            if http {
                let limits = service.limits.streams();
                return serve::http(stream, early, client, limits, service, true).await.map(drop);
            }
            connection(&mut stream, local, early, service).await?;
            timeout(service.limits.idle, stream.shutdown()).await.map_err(io::Error::from)?
        }
    }
}

/// Serves one connection to the address `local`, message by message; `input` holds the bytes received so far.
async fn connection<F: FnMut(&[u8], Carried, &mut Vec<u8>) -> Leaves>(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    local: Option<IpAddr>,
    mut input: Vec<u8>,
    service: &Service<F>,
) -> io::Result<()> {
    let (limits, timetable) = (service.limits, &service.timetable);
    let carried = Carried::Frame { to: local, accepted: monotonic() };
    // More is read only without a complete message, so that `input` holds at most one message and
    // `READ_SIZE`.
    let mut replies = Replies::default();
    let (mut deadline, mut close) = (Instant::now() + limits.idle, false);
    let mut alarm: Option<WaitUntil<'_>> = None;
    loop {
        let (mut taken, mut answered) = (0, 0);
        while let Some(message) = first_message(&input[taken..])
            && answered < limits.pipelined
            && replies.have_room()
            && !close
        {
            taken += 2 + message.len();
            answered += 1;
            close = replies.answer(service, carried, message)?;
        }
        input.drain(..taken);
        let output = replies.due_now();
        if !output.is_empty() {
            let written = async {
                stream.write_all(output).await?;
                stream.flush().await
            };
            timeout(limits.idle, written).await.map_err(io::Error::from)??;
            output.clear();
        }
        let due = replies.waiting.due();
        if close && due.is_none() {
            return Ok(());
        }
        if answered > 0 {
            deadline = Instant::now() + limits.idle;
            continue;
        }
        let Some(due) = due else {
            close = receive(&mut stream, &mut input, deadline).await? == 0;
            continue;
        };
        if alarm.as_ref().is_none_or(|alarm| alarm.due() != due) {
            alarm = Some(timetable.until(due));
        }
        // As long as replies are due the connection is not idle.
        deadline = Instant::now() + Duration::from(due.since(monotonic())) + limits.idle;
        let full = close || first_message(&input).is_some();
        tokio::select! {
            received = receive(&mut stream, &mut input, deadline), if !full => close = received? == 0,
            () = async { if let Some(alarm) = &mut alarm { alarm.await } } => {}
        }
    }
}

/// The replies of one connection that are not written yet, with their lengths in front.
#[derive(Default)]
struct Replies {
    output: Vec<u8>,
    waiting: LaterReplies,
    /// The reply that is being made.
    reply: Vec<u8>,
}

impl Replies {
    /// Returns whether another message may be answered.
    fn have_room(&self) -> bool {
        self.output.len() < MAX_OUTPUT && self.waiting.octets() < MAX_WAITING
    }

    /// Answers a message; returns whether the connection ends after the replies so far.
    fn answer<F: FnMut(&[u8], Carried, &mut Vec<u8>) -> Leaves>(
        &mut self,
        service: &Service<F>,
        carried: Carried,
        message: &[u8],
    ) -> io::Result<bool> {
        self.reply.clear();
        let mut leaves = Leaves::AtOnce;
        if service.faults.next() != Some(Fault::Close) {
            leaves = service.answer.borrow_mut()(message, carried, &mut self.reply);
        }
        let len = u16::try_from(self.reply.len())
            .map_err(|_| io::Error::other("a reply longer than 65535 bytes"))?;
        match leaves {
            Leaves::Never => {}
            Leaves::At(due, copies) => {
                let framed = [&len.to_be_bytes(), &self.reply[..]].concat();
                (0..copies).for_each(|_| self.waiting.keep(due, framed.clone()));
            }
            Leaves::AtOnce if len == 0 => return Ok(true),
            Leaves::AtOnce => {
                self.output.extend_from_slice(&len.to_be_bytes());
                self.output.extend_from_slice(&self.reply);
            }
        }
        Ok(false)
    }

    /// Returns the octets to write now.
    fn due_now(&mut self) -> &mut Vec<u8> {
        if self.waiting.octets() > 0 {
            self.waiting.release(monotonic(), &mut self.output);
        }
        &mut self.output
    }
}

/// Reads available octets, until `deadline`; returns their number, 0 at the end of the stream.
async fn receive(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut Vec<u8>,
    deadline: Instant,
) -> io::Result<usize> {
    // `read_buf` fills the available room, even if it is a few bytes.
    input.reserve(READ_SIZE);
    timeout_at(deadline, stream.read_buf(input)).await?
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Serves on a free port with a handler that reverses messages and does not reply to an empty one; runs
    /// `client` against it.
    fn with_server(limits: TcpLimits, client: impl FnOnce(SocketAddr)) {
        let reverse = |message: &[u8], reply: &mut Vec<u8>| {
            reply.extend(message.iter().rev());
            Leaves::AtOnce
        };
        with_handler(limits, reverse, client);
    }

    /// Works as [`with_server`], with a handler; returns the number of accepted connections.
    fn with_handler(
        limits: TcpLimits,
        mut answer: impl FnMut(&[u8], &mut Vec<u8>) -> Leaves + Send + 'static,
        client: impl FnOnce(SocketAddr),
    ) -> u64 {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let ended = stop.clone();
        let server = std::thread::spawn(move || {
            let answer =
                move |message: &[u8], _: Carried, reply: &mut Vec<u8>| answer(message, reply);
            let stop = || ended.load(Ordering::Relaxed);
            serve(vec![Listener::Tcp(listener)], limits, answer, Faults::default(), stop)
        });
        client(address);
        stop.store(true, Ordering::Relaxed);
        server.join().unwrap().unwrap()
    }

    #[test]
    fn frames_are_answered_and_limits_hold() {
        let idle = Duration::from_millis(1_500);
        with_server(TcpLimits { connections: 1, idle, ..TcpLimits::default() }, |address| {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client.write_all(b"\0\x03abc\0\x02de").unwrap();
            let mut got = [0; 9];
            client.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"\0\x03cba\0\x02ed");
            // The second connection is over the limit; the first is closed when idle.
            let mut second = std::net::TcpStream::connect(address).unwrap();
            assert_eq!(second.read(&mut got).unwrap(), 0);
            client.write_all(b"\0\x09half").unwrap();
            assert_eq!(client.read(&mut got).unwrap(), 0);
        });
    }

    #[test]
    fn pipelined_messages_of_all_sizes_are_answered_in_order() {
        let limits = TcpLimits { pipelined: 3, ..TcpLimits::default() };
        with_server(limits, |address| {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            let lens = [1, 65_535, 7, 7, 7, 7, 7, 40_000, 50_000, 2];
            let messages: Vec<Vec<u8>> = (0u8..).zip(lens).map(|(k, n)| vec![k; n]).collect();
            let frame = |m: &Vec<u8>| [&(m.len() as u16).to_be_bytes()[..], m].concat();
            let sent: Vec<u8> = messages.iter().flat_map(frame).collect();
            let mut writer = client.try_clone().unwrap();
            let expected = sent.clone();
            let writing = std::thread::spawn(move || {
                // In pieces that do not match the frames, with an empty message at the end, which gets no
                // reply.
                for piece in sent.chunks(7_777) {
                    writer.write_all(piece).unwrap();
                }
                writer.write_all(b"\0\0\0\x01x").unwrap();
            });
            let mut got = Vec::new();
            client.read_to_end(&mut got).unwrap();
            writing.join().unwrap();
            // All messages are palindromes.
            assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
        });
    }

    #[test]
    fn replies_leave_when_they_are_due_as_often_as_they_should_or_never() {
        let ms = Nanos::from_millis;
        let handler = move |message: &[u8], reply: &mut Vec<u8>| {
            reply.extend_from_slice(message);
            match message[0] {
                b'n' => Leaves::Never,
                b't' => Leaves::At(Nanos::ZERO, 2),
                b'o' => Leaves::AtOnce,
                tenths => Leaves::At(monotonic() + ms(100 * u64::from(tenths - b'0')), 1),
            }
        };
        let asked = std::time::Instant::now();
        with_handler(TcpLimits::default(), handler, |address| {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client.write_all(b"\0\x013\0\x01n\0\x011\0\x01t\0\x01o").unwrap();
            // What has no reply ends no connection.
            client.write_all(b"\0\x010").unwrap();
            let mut got = [0; 18];
            client.read_exact(&mut got).unwrap();
            let mut order: Vec<u8> = got.iter().skip(2).step_by(3).copied().collect();
            assert!(order.ends_with(b"13"), "{order:?}");
            order.sort_unstable();
            assert_eq!(order, b"013ott");
            assert!(asked.elapsed() >= Duration::from_millis(300), "{:?}", asked.elapsed());
        });
    }

    #[test]
    fn connections_are_accepted_at_their_rate() {
        let limits =
            TcpLimits { accept_interval: Duration::from_millis(40), ..TcpLimits::default() };
        let echo = |message: &[u8], reply: &mut Vec<u8>| {
            reply.extend_from_slice(message);
            Leaves::AtOnce
        };
        let asked = std::time::Instant::now();
        let accepted = with_handler(limits, echo, |address| {
            let connect = |_| std::net::TcpStream::connect(address).unwrap();
            let mut clients: Vec<_> = (0..6).map(connect).collect();
            for client in &mut clients {
                client.write_all(b"\0\x01a").unwrap();
                client.read_exact(&mut [0; 3]).unwrap();
            }
            // The first comes at once.
            assert!(asked.elapsed() >= Duration::from_millis(5 * 40 - 10));
        });
        assert_eq!(accepted, 6);
    }

    #[test]
    fn the_error_for_a_port_in_use_names_it() {
        let first = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_addr().unwrap();
        let error = listen(address).expect_err("occupied").to_string();
        assert!(error.contains(&format!("TCP {address}")), "{error}");
    }
}
