//! HTTP/2 (RFC 8484 over RFC 9113).

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Request, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Answer, Ending, Fault, MAX_DRAINED, Sender, StreamLimits};
use crate::http::{self as doh, PATH, RequestHead};

/// Serves the connection until this side closes it, or the client has.
pub(super) async fn until_closed<A: Answer>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    client: SocketAddr,
    limits: StreamLimits,
    answer: &A,
) -> io::Result<Ending> {
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
                None => return Ok(Ending::Client),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok((request, respond))) => {
                    let exchange = Http2Exchange { respond, client, limits, answer };
                    requests.push(timeout(limits.idle, exchange.run(request)));
                }
            },
            Some(done) = requests.next(), if !requests.is_empty() => {
                match done {
                    Ok(Ok(Some(Fault::GoAway))) => connection.graceful_shutdown(),
                    Ok(Ok(Some(Fault::Close))) => return Ok(Ending::Fault),
                    _ => {}
                }
                deadline = Instant::now() + limits.idle;
            }
            () = sleep_until(deadline), if requests.is_empty() => {
                // Closes the connection properly, within the idle time.
                connection.graceful_shutdown();
                let end = std::future::poll_fn(|cx| connection.poll_closed(cx));
                timeout(limits.idle, end).await?.map_err(io::Error::other)?;
                return Ok(Ending::Idle);
            }
        }
    }
}

/// A request and its response; an error concerns only its client.
struct Http2Exchange<'a, A> {
    respond: SendResponse<Bytes>,
    client: SocketAddr,
    limits: StreamLimits,
    answer: &'a A,
}

impl<A: Answer> Http2Exchange<'_, A> {
    /// Handles the request; returns the fault that its connection gets.
    async fn run(mut self, request: Request<RecvStream>) -> Result<Option<Fault>, h2::Error> {
        let (head, mut body) = request.into_parts();
        let head = doh::read_head(&Request::from_parts(head, ()), PATH, self.limits.message);
        let message = match head {
            RequestHead::Message(message) => Ok(message),
            RequestHead::InBody => read(&mut body, self.limits.message).await?,
            RequestHead::Refused(status) => Err(status),
        };
        let message = match message {
            Ok(message) => message,
            Err(status) => {
                self.refuse(status)?;
                return drain(body).await.map(|()| None);
            }
        };
        drop(body);
        let fault = self.answer.fault();
        match fault {
            Some(Fault::Status(status)) => return self.refuse(status),
            Some(Fault::Reset) => {
                self.respond.send_reset(Reason::INTERNAL_ERROR);
                return Ok(None);
            }
            Some(Fault::Refuse) => {
                self.respond.send_reset(Reason::REFUSED_STREAM);
                return Ok(None);
            }
            Some(Fault::Close) => return Ok(fault),
            Some(Fault::GoAway) | None => {}
        }
        let sender = Sender { client: self.client, stream: None };
        let reply = self.answer.answer(sender, message).await;
        if reply.is_empty() {
            return self.refuse(StatusCode::BAD_REQUEST);
        }
        let (age, alternative) = (self.answer.freshness(&reply), self.answer.alternative());
        let head = doh::reply(reply.len(), age, alternative);
        self.respond.send_response(head, false)?.send_data(reply, true)?;
        Ok(fault)
    }

    /// Responds with a status and without a message.
    fn refuse(&mut self, status: StatusCode) -> Result<Option<Fault>, h2::Error> {
        let refusal = doh::refusal(status, self.answer.alternative());
        self.respond.send_response(refusal, true).map(|_| None)
    }
}

/// Reads a request's body; the status of a refusal if it is too long.
async fn read(body: &mut RecvStream, max: usize) -> Result<Result<Vec<u8>, StatusCode>, h2::Error> {
    let mut message = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        if message.len() + part.len() > max {
            body.flow_control().release_capacity(message.len() + part.len())?;
            return Ok(Err(StatusCode::PAYLOAD_TOO_LARGE));
        }
        message.extend_from_slice(&part);
    }
    // This lets the client send as much again: the window of the connection, 64 KiB, bounds
    // incomplete messages.
    body.flow_control().release_capacity(message.len())?;
    Ok(Ok(message))
}

/// Reads the rest of a refused request's body, up to [`MAX_DRAINED`] bytes.
async fn drain(mut body: RecvStream) -> Result<(), h2::Error> {
    let mut drained = 0;
    while drained < MAX_DRAINED
        && let Some(part) = body.data().await
    {
        let part = part?;
        drained += part.len();
        body.flow_control().release_capacity(part.len())?;
    }
    Ok(())
}
