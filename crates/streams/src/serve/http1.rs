//! HTTP/1.1 (RFC 8484 over RFC 9112), for proxies in front of the server, and for clients without HTTP/2.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT, HOST, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Answer, Ending, Fault, MAX_DRAINED, Sender, StreamLimits};
use crate::http::{self as doh, PATH, RequestHead};

/// Highest number of bytes of a request's head, and of its body that are read ahead.
const MAX_BUFFER: usize = 16 << 10;

/// Serves the connection until this side closes it, or the client does.
pub(super) async fn until_closed<A: Answer>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    client: SocketAddr,
    limits: StreamLimits,
    answer: &A,
) -> io::Result<Ending> {
    let (busy, since, fault) = (Cell::new(false), Cell::new(Instant::now()), Cell::new(None));
    let service = service_fn(|request| {
        busy.set(true);
        let (busy, since, fault) = (&busy, &since, &fault);
        async move {
            let exchanged = timeout(limits.idle, respond(request, client, limits, answer)).await;
            busy.set(false);
            since.set(Instant::now());
            let response = exchanged
                .unwrap_or_else(|_| Ok(closing(refusal(StatusCode::REQUEST_TIMEOUT, answer))));
            response.inspect_err(|met| fault.set(Some(*met))).map_err(|_| Faulty)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    loop {
        let deadline = if busy.get() { Instant::now() } else { since.get() } + limits.idle;
        tokio::select! {
            ended = &mut connection => return match ended {
                _ if fault.get().is_some() => Ok(Ending::Fault),
                Ok(()) => Ok(Ending::Client),
                Err(error) => Err(io::Error::other(error)),
            },
            () = sleep_until(deadline) => {
                // A response that the client does not read keeps no connection open.
                if !busy.get() && since.get() + limits.idle <= Instant::now() {
                    return Ok(Ending::Idle);
                }
            }
        }
    }
}

/// The connection is closed without a response: an injected fault.
#[derive(Debug, thiserror::Error)]
#[error("an injected fault")]
struct Faulty;

/// Returns the response to a request, or the fault that closes its connection.
async fn respond<A: Answer>(
    request: Request<Incoming>,
    client: SocketAddr,
    limits: StreamLimits,
    answer: &A,
) -> Result<Response<Full<Bytes>>, Fault> {
    let (head, mut body) = request.into_parts();
    // A client that waits for permission to send the body gets the refusal instead.
    let waits = head.headers.contains_key(EXPECT);
    let names_host =
        head.version < Version::HTTP_11 || head.headers.get_all(HOST).iter().count() == 1;
    let head = match names_host {
        true => doh::read_head(&Request::from_parts(head, ()), PATH, limits.message),
        // RFC 9112 section 3.2.
        false => RequestHead::Refused(StatusCode::BAD_REQUEST),
    };
    let message = match head {
        RequestHead::Message(message) => Ok(message),
        RequestHead::InBody => read(&mut body, limits.message).await,
        RequestHead::Refused(status) => Err(status),
    };
    let message = match message {
        Ok(message) => message,
        Err(status) => {
            let complete = body.is_end_stream() || !waits && drain(&mut body).await;
            let refusal = refusal(status, answer);
            return Ok(if complete { refusal } else { closing(refusal) });
        }
    };
    let fault = answer.fault();
    match fault {
        Some(Fault::Status(status)) => return Ok(refusal(status, answer)),
        Some(fault @ (Fault::Reset | Fault::Refuse | Fault::Close)) => return Err(fault),
        Some(Fault::GoAway) | None => {}
    }
    let reply = answer.answer(Sender { client, stream: None }, message).await;
    if reply.is_empty() {
        return Ok(refusal(StatusCode::BAD_REQUEST, answer));
    }
    let head = doh::reply(reply.len(), answer.freshness(&reply), answer.alternative());
    let response = head.map(|()| Full::new(reply));
    Ok(if fault == Some(Fault::GoAway) { closing(response) } else { response })
}

/// Reads a request's body; the status of a refusal if it is too long or cut off.
async fn read(body: &mut Incoming, max: usize) -> Result<Vec<u8>, StatusCode> {
    let mut message = Vec::new();
    while let Some(frame) = body.frame().await {
        let part = frame.map_err(|_| StatusCode::BAD_REQUEST)?.into_data().unwrap_or_default();
        if message.len() + part.len() > max {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        message.extend_from_slice(&part);
    }
    Ok(message)
}

/// Reads the rest of a refused request's body, up to [`MAX_DRAINED`] bytes; returns whether the
/// body was complete.
async fn drain(body: &mut Incoming) -> bool {
    let mut drained = 0;
    while drained < MAX_DRAINED {
        match body.frame().await {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => drained += frame.data_ref().map_or(0, Bytes::len),
        }
    }
    false
}

/// Returns a response without a message.
fn refusal<A: Answer>(status: StatusCode, answer: &A) -> Response<Full<Bytes>> {
    doh::refusal(status, answer.alternative()).map(|()| Full::default())
}

/// Returns a response after which the connection is closed.
fn closing(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
