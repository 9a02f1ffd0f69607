//! HTTP/2 (RFC 8484 over RFC 9113).

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Request, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Answer, Fault, MAX_MESSAGE, StreamLimits};
use crate::http::{self as doh, PATH, RequestHead};

/// Serves an HTTP/2 connection until it ends or is idle for too long; `early` came with the handshake.
///
/// # Errors
/// The error with which the connection ended.
pub async fn http2<A: Answer>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    early: Vec<u8>,
    client: SocketAddr,
    limits: StreamLimits,
    answer: &A,
) -> io::Result<()> {
    let (read, write) = tokio::io::split(stream);
    let stream = tokio::io::join(AsyncReadExt::chain(io::Cursor::new(early), read), write);
    let handshake = h2::server::Builder::new()
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(16 << 10)
        .handshake(stream);
    let mut connection = timeout(limits.idle, handshake).await?.map_err(io::Error::other)?;
    let mut requests = FuturesUnordered::new();
    let mut deadline = Instant::now() + limits.idle;
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                None => return Ok(()),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok((head, respond))) => {
                    let request = request(head, respond, client, answer);
                    requests.push(timeout(limits.idle, request));
                }
            },
            Some(done) = requests.next(), if !requests.is_empty() => {
                match done {
                    Ok(Ok(Some(Fault::GoAway))) => connection.graceful_shutdown(),
                    Ok(Ok(Some(Fault::Close))) => return Ok(()),
                    _ => {}
                }
                deadline = Instant::now() + limits.idle;
            }
            () = sleep_until(deadline), if requests.is_empty() => {
                // Closes the connection properly, within the idle time.
                connection.graceful_shutdown();
                let end = std::future::poll_fn(|cx| connection.poll_closed(cx));
                return timeout(limits.idle, end).await?.map_err(io::Error::other);
            }
        }
    }
}

/// Handles one request; returns the fault that its connection meets. An error concerns only its client.
async fn request<A: Answer>(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    client: SocketAddr,
    answer: &A,
) -> Result<Option<Fault>, h2::Error> {
    let message = match doh::read_head(&request, PATH, MAX_MESSAGE) {
        RequestHead::Message(message) => message,
        RequestHead::InBody => match body(request.into_body()).await? {
            Some(message) => message,
            None => {
                let refusal = doh::refusal(StatusCode::PAYLOAD_TOO_LARGE);
                return respond.send_response(refusal, true).map(|_| None);
            }
        },
        RequestHead::Refused(status) => {
            return respond.send_response(doh::refusal(status), true).map(|_| None);
        }
    };
    let fault = answer.fault();
    match fault {
        Some(Fault::Status(status)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            return respond.send_response(doh::refusal(status), true).map(|_| None);
        }
        Some(Fault::Reset) => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            return Ok(None);
        }
        Some(Fault::Refuse) => {
            respond.send_reset(Reason::REFUSED_STREAM);
            return Ok(None);
        }
        Some(Fault::Close) => return Ok(fault),
        Some(Fault::GoAway) | None => {}
    }
    let reply = answer.answer(client, message).await;
    if reply.is_empty() {
        return respond.send_response(doh::refusal(StatusCode::BAD_REQUEST), true).map(|_| None);
    }
    let head = doh::reply(reply.len(), answer.freshness(&reply));
    respond.send_response(head, false)?.send_data(reply.into(), true)?;
    Ok(fault)
}

/// Reads a request's body; `None` if it is too long.
async fn body(mut body: RecvStream) -> Result<Option<Vec<u8>>, h2::Error> {
    let mut message = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        if message.len() + part.len() > MAX_MESSAGE {
            return Ok(None);
        }
        message.extend_from_slice(&part);
    }
    Ok(Some(message))
}
