//! HTTP/2 (RFC 8484 over RFC 9113): one request per message.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use engine::stream::{End, Failure, Opened, QueryFailure, StreamCode};
use h2::client::{Connection, SendRequest};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::exchange::{Exchange, HasStream, NoReply, PendingReply, Reply};
use super::failure;
use super::meter::Meter;
use super::stream::{Stream, WhenOpened};
use crate::http::{Resource, age, is_message};

/// Receive window in bytes: so large that no reply waits for it.
const RECEIVE_WINDOW: u32 = 16 << 20;
/// Highest number of requests until the peer has announced its limit: the least that it should allow (RFC
/// 9113 section 6.5.2).
const FIRST_STREAMS: usize = 100;
/// Highest number of streams at a time, if the peer sets none.
const MAX_STREAMS: usize = 1 << 20;
/// Longest wait for a peer when a connection is closed.
const CLOSE_GRACE: Duration = Duration::from_millis(200);

/// A connection of HTTP/2 for queries.
pub(super) struct Http2 {
    connection: Connection<Stream>,
    requests: SendRequest<Bytes>,
    opened: WhenOpened,
    resource: Rc<Resource>,
    max_message: usize,
    streams: Rc<Streams>,
    meter: Meter,
}

impl Http2 {
    /// Starts HTTP/2 on `stream` with the settings of the client.
    pub(super) async fn new(
        stream: Stream,
        resource: Resource,
        max_message: usize,
        meter: Meter,
    ) -> Result<Self, Failure> {
        let opened = stream.watch();
        let (requests, connection) = h2::client::Builder::new()
            .enable_push(false)
            .initial_max_send_streams(FIRST_STREAMS)
            .initial_window_size(RECEIVE_WINDOW)
            .initial_connection_window_size(RECEIVE_WINDOW)
            .handshake(stream)
            .await
            .map_err(|error| failure(&error))?;
        let (resource, streams) = (Rc::new(resource), Rc::new(Streams::new()));
        Ok(Http2 { connection, requests, opened, resource, max_message, streams, meter })
    }
}

/// The streams that the peer permits now. The library's own queue would send even queries that were
/// given up.
struct Streams {
    permits: Semaphore,
    /// Number of permits, in use and free.
    given: Cell<usize>,
    /// Number of streams that the peer permits at a time.
    limit: Cell<usize>,
}

/// The permit for a stream; it is not passed to the next query if the peer now permits fewer
/// streams.
struct Permit<'a> {
    of: &'a Streams,
    permit: Option<SemaphorePermit<'a>>,
}

impl Streams {
    fn new() -> Self {
        let permits = Semaphore::new(FIRST_STREAMS);
        Streams { permits, given: Cell::new(FIRST_STREAMS), limit: Cell::new(FIRST_STREAMS) }
    }

    async fn take(&self) -> Permit<'_> {
        Permit { of: self, permit: self.permits.acquire().await.ok() }
    }

    fn follow(&self, limit: usize) {
        let given = self.given.get();
        self.limit.set(limit);
        self.permits.add_permits(limit.saturating_sub(given));
        let forgotten = self.permits.forget_permits(given.saturating_sub(limit));
        self.given.set(given.max(limit) - forgotten);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let (given, limit) = (self.of.given.get(), self.of.limit.get());
        if given > limit
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
            self.of.given.set(given - 1);
        }
    }
}

impl Exchange for Http2 {
    fn send_query(&mut self, message: Bytes, has_stream: HasStream) -> PendingReply {
        let (requests, most) = (self.requests.clone(), self.max_message);
        let (resource, streams) = (self.resource.clone(), self.streams.clone());
        let meter = self.meter.clone();
        Box::pin(async move {
            let _stream = meter.count_wait(streams.take()).await;
            let reply = send_query(requests, &resource, message, &has_stream, most).await;
            reply.unwrap_or_else(|error| Err(no_reply(&error)))
        })
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let over = Pin::new(&mut self.connection).poll(cx);
        self.streams.follow(self.requests.current_max_send_streams().min(MAX_STREAMS));
        over.map(|over| match over {
            Ok(()) => End::ByPeer,
            Err(error) => end(&error),
        })
    }

    fn opened(&mut self) -> Option<Opened> {
        self.opened.get()
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        let Http2 { connection, requests, .. } = *self;
        drop(requests);
        Box::pin(async move {
            // A connection without requests ends by itself; the wait for a peer that does not close
            // in time is bounded.
            let _ = timeout(CLOSE_GRACE, connection).await;
        })
    }
}

/// Sends one query as a request; returns its reply, or the error.
async fn send_query(
    requests: SendRequest<Bytes>,
    resource: &Resource,
    message: Bytes,
    has_stream: &HasStream,
    most: usize,
) -> Result<Result<Reply, NoReply>, h2::Error> {
    let failed = |why| Ok(Err(NoReply::Failed(why)));
    let Some((request, body)) = resource.request(&message) else {
        return failed(QueryFailure::Other);
    };
    let mut requests = requests.ready().await?;
    let (response, mut stream) = requests.send_request(request, body.is_none())?;
    drop(requests);
    has_stream.set(true);
    if let Some(body) = body {
        // An error is ignored: the response shows the reason better.
        let _ = stream.send_data(body, true);
    }
    let response = response.await?;
    if !response.status().is_success() {
        return failed(QueryFailure::Status(response.status().as_u16()));
    }
    if !is_message(&response) {
        return failed(QueryFailure::MediaType);
    }
    let age = age(&response);
    let (mut message, mut body) = (BytesMut::new(), response.into_body());
    while let Some(part) = body.data().await {
        let part = part?;
        // The window of a stream that has ended need not be released.
        let _ = body.flow_control().release_capacity(part.len());
        message.extend_from_slice(&part);
        if message.len() > most {
            return failed(QueryFailure::Oversized);
        }
    }
    Ok(Ok(Reply { message: message.into(), age }))
}

/// Returns why a stream that ended with `error` brought no reply.
fn no_reply(error: &h2::Error) -> NoReply {
    match error.reason() {
        Some(h2::Reason::NO_ERROR) if error.is_go_away() && error.is_remote() => {
            NoReply::TurnedAway
        }
        Some(h2::Reason::REFUSED_STREAM) if error.is_reset() => NoReply::Refused,
        Some(reason) if error.is_reset() && error.is_remote() => {
            NoReply::Failed(QueryFailure::StreamReset(StreamCode::Http2(reason.into())))
        }
        // Our library reset the stream.
        Some(_) if error.is_reset() => NoReply::Failed(QueryFailure::Protocol),
        _ => NoReply::Over(end(error)),
    }
}

/// Returns the kind of end of a connection with `error`.
fn end(error: &h2::Error) -> End {
    match (error.get_io(), error.reason()) {
        // TLS without a close_notify.
        (Some(io), _) if io.kind() == io::ErrorKind::UnexpectedEof => End::ByPeer,
        (None, Some(h2::Reason::NO_ERROR)) if error.is_go_away() => End::ByPeer,
        _ => End::Failed(failure(error)),
    }
}

fn failure(error: &h2::Error) -> Failure {
    match error.get_io() {
        Some(io) => failure::of(io),
        None if error.is_go_away() && error.is_remote() => Failure::ClosedWithError,
        None => Failure::Protocol,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use measure::{HttpMethod, Nanos};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::client::meter::Metered;
    use crate::http::{self as doh, PATH};

    #[test]
    fn a_reply_has_the_age_of_its_response() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let server = async {
                let (tcp, _) = listener.accept().await.expect("a client");
                let mut server = h2::server::handshake(tcp).await.expect("HTTP/2");
                let (_, mut respond) = server.accept().await.expect("one").expect("a request");
                let mut head = doh::reply(3, None, None);
                head.headers_mut().insert(http::header::AGE, 7.into());
                let mut body = respond.send_response(head, false).expect("a stream");
                body.send_data("abc".into(), true).expect("a stream");
                while server.accept().await.is_some() {}
            };
            let client = async {
                let inner = TcpStream::connect(address).await.expect("a connection");
                let tcp = Metered { inner, meter: Meter::default() };
                let stream = Stream::Tcp { tcp, connect: Nanos::ZERO };
                let (path, method) = (PATH.into(), HttpMethod::Get);
                let resource = Resource { authority: "localhost".into(), path, method };
                let http = Http2::new(stream, resource, 512, Meter::default()).await;
                let mut http = http.expect("HTTP/2");
                let reply = http.send_query(Bytes::from_static(b"\0\0"), HasStream::default());
                tokio::select! {
                    reply = reply => reply.expect("a reply"),
                    end = poll_fn(|cx| http.poll_over(cx)) => panic!("{end:?}"),
                }
            };
            tokio::select! {
                () = server => panic!("the server ended"),
                reply = client => assert_eq!(reply, Reply { message: b"abc".into(), age: 7 }),
            }
        });
    }
}
