//! The server side of transports on which each message has its own stream: HTTP, QUIC, HTTP/3.
//!
//! It knows no DNS: it passes each message to an implementation of [`Answer`], which may take time to reply.
//! Connections, streams, idle time, sizes and buffers are limited.

mod fault;
mod http1;
mod http2;
#[cfg_attr(not(feature = "quic"), path = "serve/no_quic.rs")]
mod quic;

pub use fault::{BadFaultPlan, Fault, FaultPlan, Faults};
pub use quic::{Attempt, Established, QuicServer, listen, listen_with, quic};

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Origin of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Number of its stream over QUIC: a client numbers streams in the order in which it opens them
    /// (RFC 9000 section 2.1), and the network may change the order in which they arrive. `None`
    /// over HTTP/2 and HTTP/1.1, whose requests come in order.
    pub stream: Option<u64>,
}

/// Callbacks of a server for messages and connections, over any transport.
pub trait Answer {
    /// Returns the reply to `message` from `sender`; an empty one for no reply. The reply is dropped when it is written or
    /// its connection has ended.
    fn answer(&self, sender: Sender, message: Vec<u8>) -> impl Future<Output = Bytes>;

    /// Returns whether a message may not be sent over QUIC: it ends its connection as a protocol error (RFC 9250 section 4.3.3).
    fn is_forbidden(&self, _message: &[u8]) -> bool {
        false
    }

    /// Waits until one more connection may be accepted.
    fn admit(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Returns the planned failure of the next message; called once for each.
    fn fault(&self) -> Option<Fault> {
        None
    }

    /// Returns the number of seconds for which an HTTP cache may keep `reply` (RFC 8484 section
    /// 5.1); `None` if not stated.
    fn freshness(&self, _reply: &[u8]) -> Option<u32> {
        None
    }

    /// Returns an alternative service for HTTP clients (`alt-svc`, RFC 7838); `None` for none.
    fn alternative(&self) -> Option<HeaderValue> {
        None
    }
}

/// Serves a connection of HTTP/1.1 or HTTP/2 until it ends or is idle for too long, then closes it
/// so that the client does not lose the last replies; `early` contains data received with the
/// handshake.
///
/// # Errors
/// The error with which the connection ended.
pub async fn http<A: Answer>(
    stream: impl AsyncRead + AsyncWrite,
    early: Vec<u8>,
    client: SocketAddr,
    limits: StreamLimits,
    answer: &A,
    is_http2: bool,
) -> io::Result<Ending> {
    let (read, write) = tokio::io::split(stream);
    let early = io::Cursor::new(early);
    let mut stream = tokio::io::join(AsyncReadExt::chain(early, read), write);
    let ended = match is_http2 {
        true => http2::until_closed(&mut stream, client, limits, answer).await,
        false => http1::until_closed(&mut stream, client, limits, answer).await,
    };
    linger(&mut stream, &ended).await;
    ended
}

/// Longest time for which a connection that this side has closed is still read.
const LINGER: Duration = Duration::from_secs(1);

/// Closes a connection to the client, then reads and drops further data, at most [`MAX_DRAINED`]
/// bytes, until the client closes it too: unread data would reset the connection, and the client
/// would lose the last replies (RFC 9112 section 9.6).
async fn linger(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), ended: &io::Result<Ending>) {
    // A fault on purpose may appear as a reset.
    if matches!(ended, Ok(Ending::Fault)) {
        return;
    }
    let close = async {
        // On the heap: otherwise it would be a part of each connection's task, also of those that
        // do not need it.
        let (mut buffer, mut drained) = (vec![0; 4096], 0);
        let closed = stream.shutdown().await.is_ok();
        while closed
            && drained < MAX_DRAINED
            && let Ok(count @ 1..) = stream.read(&mut buffer).await
        {
            drained += count;
        }
    };
    // The connection is dropped if the client does not close it.
    let _ = timeout(LINGER, close).await;
}

/// Limits of connections with streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Highest number of connections of [`quic`]; beyond that new ones are refused.
    pub connections: usize,
    /// Highest number of concurrent streams of a connection.
    pub streams: u32,
    /// Time after which a connection without a stream, or with an incomplete message, ends.
    pub idle: Duration,
    /// Longest message of a client, in bytes.
    pub message: usize,
    /// Highest number of bytes of a QUIC connection that are unread, and that are not acknowledged.
    pub window: u32,
}

impl Default for StreamLimits {
    /// Returns 1,000 connections, 100 streams each (RFC 9113 section 6.5.2 recommends at least that), 30 s, messages of any
    /// length, 10 MB of a connection on the way.
    fn default() -> Self {
        StreamLimits {
            connections: 1_000,
            streams: 100,
            idle: Duration::from_secs(30),
            message: u16::MAX.into(),
            window: 10_000_000,
        }
    }
}

/// Kind of a connection's end without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client closed the connection.
    Client,
    /// The connection was idle for too long.
    Idle,
    /// The server has a fault on purpose.
    Fault,
}

/// Highest number of bytes of a refused request's body that are read, so that the client sees the response instead of a
/// reset.
const MAX_DRAINED: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::sleep;

    use super::*;

    /// Answers each message with itself.
    struct Echo;

    impl Answer for Echo {
        async fn answer(&self, _: Sender, message: Vec<u8>) -> Bytes {
            message.into()
        }
    }

    /// A connection over loopback: the client's side and the server's.
    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).await.expect("connects");
        (client, listener.accept().await.expect("accepts").0)
    }

    /// Reads to the end of a connection and then sends more, twice: a reset comes after the first time at the latest. Returns what was read.
    async fn go_on_after_the_end(mut client: TcpStream) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        client.read_to_end(&mut read).await?;
        for _ in 0..2 {
            client.write_all(&[2; 1_000]).await?;
            sleep(Duration::from_millis(20)).await;
        }
        Ok(read)
    }

    #[tokio::test]
    async fn what_the_client_still_sends_resets_no_connection() {
        let idle = || Err(io::ErrorKind::TimedOut.into());
        for ended in [Ok(Ending::Client), Ok(Ending::Idle), idle(), Ok(Ending::Fault)] {
            let (mut client, mut server) = connection().await;
            let fault = matches!(ended, Ok(Ending::Fault));
            let serving = tokio::spawn(async move {
                server.read_exact(&mut [0; 10]).await.expect("reads");
                server.write_all(b"reply").await.expect("writes");
                linger(&mut server, &ended).await;
            });
            client.write_all(&[1; 1_000]).await.expect("writes");
            let mut reply = [0; 5];
            client.read_exact(&mut reply).await.expect("a reply");
            let rest = go_on_after_the_end(client).await.map_err(|error| error.kind());
            let reset = Err(io::ErrorKind::ConnectionReset);
            assert_eq!(rest, if fault { reset } else { Ok(Vec::new()) });
            serving.await.expect("ends");
        }
    }

    #[tokio::test]
    async fn requests_behind_the_last_one_of_http1_reset_nothing() {
        let (mut client, server) = connection().await;
        let from = client.local_addr().expect("bound");
        let serving =
            async { http(server, Vec::new(), from, StreamLimits::default(), &Echo, false).await };
        let asking = async {
            let head = "POST /dns-query HTTP/1.1\r\nhost: x\r\ncontent-type: application/dns-message\r\n\
                        content-length: 12\r\nconnection: close\r\n\r\n";
            let all = [head.as_bytes(), &[7; 12], &[b'x'; 100_000]].concat();
            client.write_all(&all).await?;
            go_on_after_the_end(client).await
        };
        let (ended, read) = tokio::join!(serving, asking);
        let read = read.expect("no reset");
        assert!(read.starts_with(b"HTTP/1.1 200 ") && read.ends_with(&[7; 12]), "{read:?}");
        assert_eq!(ended.expect("no error"), Ending::Client);
    }

    #[tokio::test]
    async fn frames_after_the_last_goaway_of_http2_reset_nothing() {
        let (mut client, server) = connection().await;
        let from = client.local_addr().expect("bound");
        let limits = StreamLimits { idle: Duration::from_millis(100), ..StreamLimits::default() };
        let serving = async { http(server, Vec::new(), from, limits, &Echo, true).await };
        let asking = async {
            client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
            // The idle server sends a PING (type 6) after its first GOAWAY, and closes when that is answered.
            loop {
                let mut header = [0; 9];
                client.read_exact(&mut header).await?;
                let mut frame = vec![0; usize::from(header[1]) << 8 | usize::from(header[2])];
                client.read_exact(&mut frame).await?;
                if header[3] == 6 {
                    header[4] = 1;
                    client.write_all(&[&header[..], &frame].concat()).await?;
                    return go_on_after_the_end(client).await;
                }
            }
        };
        let (ended, rest) = tokio::join!(serving, asking);
        assert_eq!(rest.expect("no reset")[3], 7, "the second GOAWAY");
        assert_eq!(ended.expect("no error"), Ending::Idle);
    }

    #[tokio::test]
    async fn a_client_that_does_not_close_is_left() {
        let (mut server, _client) = tokio::io::duplex(64);
        let began = tokio::time::Instant::now();
        linger(&mut server, &Ok(Ending::Idle)).await;
        assert!(began.elapsed() >= LINGER);
    }
}
