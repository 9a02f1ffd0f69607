//! A server of messages over TCP or TLS with a 16-bit length in front (RFC 1035 section 4.2.2, RFC 7766, RFC
//! 7858), and over HTTP/2, QUIC and HTTP/3 ([`crate::serve`]), on a runtime of one thread.
//!
//! It knows no DNS: it passes messages to a handler and sends its replies. Pipelined messages are answered in
//! order, and replies that are ready together are written together. The number of connections, idle time,
//! pipelining and message sizes are limited.

mod far;

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use engine::named;
use engine::stream::first_message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use self::far::Far;
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
}

impl Default for TcpLimits {
    /// Returns 1,000 connections, 10 s (RFC 7766 section 6.2.3 recommends some seconds), 100 messages.
    fn default() -> Self {
        TcpLimits { connections: 1_000, idle: Duration::from_secs(10), pipelined: 100 }
    }
}

impl TcpLimits {
    /// Returns the same limits for connections with streams.
    fn streams(&self) -> StreamLimits {
        let TcpLimits { connections, idle, pipelined } = *self;
        let streams = u32::try_from(pipelined).unwrap_or(u32::MAX);
        StreamLimits { connections, streams, idle, ..StreamLimits::default() }
    }
}

/// Highest number of bytes of replies that are written together.
const MAX_OUTPUT: usize = 64 << 10;
/// Usual number of bytes of one read.
const INPUT: usize = 4 << 10;
/// Highest number of connections that the kernel completes before they are accepted.
const BACKLOG: i32 = 1_024;
/// Highest number of these with data in their SYN.
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
    // SAFETY: the option's value is an int that lives through the call, of the stated size. A kernel that refuses
    // changes nothing.
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
    /// TCP.
    Tcp(std::net::TcpListener),
    /// TLS, with HTTP/2 if negotiated by ALPN.
    Tls(std::net::TcpListener, ServerTls),
    /// QUIC, with HTTP/3 if negotiated by ALPN.
    Quic(std::net::UdpSocket, ServerTls),
}

/// Transport of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// One of the frames of a TCP or TLS connection, to this address of ours.
    Frame(Option<IpAddr>),
    /// Its own stream: HTTP, QUIC; with the number of the stream over QUIC ([`Sender::stream`]).
    Stream(Option<u64>),
}

/// Returns the distance of a server at one of our addresses: the time of a round trip to it.
pub type Distance = Box<dyn Fn(IpAddr) -> Duration>;

/// What a service does differently on purpose.
#[derive(Default)]
pub struct Disturbances {
    /// Failures that messages meet.
    pub faults: Faults,
    /// Distance of our addresses, which replies over TCP and TLS are late by; `None` if all are near.
    pub distance: Option<Distance>,
}

/// Serves `listeners` until `stop` returns true (called every 50 ms). `answer` gets a message and writes the
/// reply into the empty vector; an empty reply closes the connection.
///
/// A far address replies when a server at that distance would: a round trip after its message, and to the first ones
/// another round trip after the connection was accepted, that of the handshake. The kernel completes the handshake itself at once.
///
/// # Errors
/// When the runtime cannot be made.
pub fn serve(
    listeners: Vec<Listener>,
    limits: TcpLimits,
    answer: impl FnMut(&[u8], Carried, &mut Vec<u8>) + 'static,
    disturbances: Disturbances,
    stop: impl Fn() -> bool,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (open, answer) = (Cell::new(0), RefCell::new(answer));
    let Disturbances { faults, distance } = disturbances;
    let service = Rc::new(Service { limits, open, answer, faults, distance });
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
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
        Ok(())
    })
}

/// State shared by all connections.
struct Service<F> {
    limits: TcpLimits,
    /// Number of open connections.
    open: Cell<usize>,
    answer: RefCell<F>,
    faults: Faults,
    distance: Option<Distance>,
}

impl<F: FnMut(&[u8], Carried, &mut Vec<u8>)> Answer for Service<F> {
    async fn answer(&self, sender: Sender, message: Vec<u8>) -> Bytes {
        let mut reply = Vec::new();
        self.answer.borrow_mut()(&message, Carried::Stream(sender.stream), &mut reply);
        reply.into()
    }

    fn fault(&self) -> Option<Fault> {
        self.faults.next()
    }
}

/// Accepts connections until it is dropped.
async fn accept<F: FnMut(&[u8], Carried, &mut Vec<u8>) + 'static>(
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

/// Serves one connection from its handshake on; the handshake may take as long as an idle connection.
async fn begin<F: FnMut(&[u8], Carried, &mut Vec<u8>)>(
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
                return serve::http2(stream, early, client, limits, service).await.map(drop);
            }
            connection(&mut stream, local, early, service).await?;
            timeout(service.limits.idle, stream.shutdown()).await.map_err(io::Error::from)?
        }
    }
}

/// Serves one connection to the address `local`, message by message; `input` holds the bytes received so far.
async fn connection<F: FnMut(&[u8], Carried, &mut Vec<u8>)>(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    local: Option<IpAddr>,
    mut input: Vec<u8>,
    service: &Service<F>,
) -> io::Result<()> {
    let limits = service.limits;
    let far = local.zip(service.distance.as_ref()).map(|(local, distance)| distance(local));
    let mut far = far
        .filter(|round_trip| !round_trip.is_zero())
        .map(|round_trip| Far::new(Instant::now(), round_trip));
    // More is read only without a complete message, so that `input` holds at most one message and `INPUT`.
    let (mut output, mut reply) = (Vec::new(), Vec::new());
    let (mut deadline, mut close) = (Instant::now() + limits.idle, false);
    loop {
        let (mut taken, mut answered) = (0, 0);
        while let Some(message) = first_message(&input[taken..])
            && answered < limits.pipelined
            && output.len() + far.as_ref().map_or(0, Far::octets) < MAX_OUTPUT
            && !close
        {
            taken += 2 + message.len();
            answered += 1;
            reply.clear();
            if service.faults.next() != Some(Fault::Close) {
                service.answer.borrow_mut()(message, Carried::Frame(local), &mut reply);
            }
            let len = u16::try_from(reply.len())
                .map_err(|_| io::Error::other("a reply longer than 65535 bytes"))?;
            if len > 0 {
                output.extend_from_slice(&len.to_be_bytes());
                output.extend_from_slice(&reply);
            }
            close = len == 0;
        }
        input.drain(..taken);
        if let Some(far) = &mut far {
            far.exchange(Instant::now(), &mut output);
        }
        if !output.is_empty() {
            let written = async {
                stream.write_all(&output).await?;
                stream.flush().await
            };
            timeout(limits.idle, written).await.map_err(io::Error::from)??;
            output.clear();
        }
        let due = far.as_ref().and_then(Far::due);
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
        // As long as replies are due the connection is not idle.
        deadline = due + limits.idle;
        let full = close || first_message(&input).is_some();
        tokio::select! {
            received = receive(&mut stream, &mut input, deadline), if !full => close = received? == 0,
            () = sleep_until(due) => {}
        }
    }
}

/// Reads what has come, until `deadline`; returns its number of octets, 0 at the end of the stream.
async fn receive(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut Vec<u8>,
    deadline: Instant,
) -> io::Result<usize> {
    // `read_buf` fills the available room, even if it is a few bytes.
    input.reserve(INPUT);
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
        with_services(limits, Disturbances::default, |[address, _]| client(address));
    }

    /// Works as [`with_server`], for the addresses of both families.
    fn with_services(
        limits: TcpLimits,
        disturbances: impl FnOnce() -> Disturbances + Send + 'static,
        client: impl FnOnce([SocketAddr; 2]),
    ) {
        let listeners = ["127.0.0.1:0", "[::1]:0"].map(|a| listen(a.parse().unwrap()).unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let server = {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let reverse = |message: &[u8], _: Carried, reply: &mut Vec<u8>| {
                    reply.extend(message.iter().rev());
                };
                let listeners = listeners.map(Listener::Tcp).into();
                serve(listeners, limits, reverse, disturbances(), || stop.load(Ordering::Relaxed))
            })
        };
        client(addresses);
        stop.store(true, Ordering::Relaxed);
        server.join().unwrap().unwrap();
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
    fn far_addresses_reply_later_and_near_ones_do_not_wait_for_them() {
        let far = Duration::from_millis(300);
        let disturbances = move || {
            let distance: Distance = Box::new(move |at| far * u32::from(at.is_ipv4()));
            Disturbances { distance: Some(distance), ..Disturbances::default() }
        };
        let (asked, mut got) = (std::time::Instant::now(), [0; 5]);
        with_services(TcpLimits::default(), disturbances, |[v4, v6]| {
            let [mut slow, mut fast] = [v4, v6].map(|a| std::net::TcpStream::connect(a).unwrap());
            slow.write_all(b"\0\x03abc").unwrap();
            fast.write_all(b"\0\x03abc").unwrap();
            fast.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"\0\x03cba");
            // The far one has not replied: it does so a round trip after the handshake, which takes one too.
            slow.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"\0\x03cba");
            assert!(asked.elapsed() >= far * 2, "{:?}", asked.elapsed());
        });
    }

    #[test]
    fn the_error_for_a_port_in_use_names_it() {
        let first = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_addr().unwrap();
        let error = listen(address).expect_err("occupied").to_string();
        assert!(error.contains(&format!("TCP {address}")), "{error}");
    }
}
