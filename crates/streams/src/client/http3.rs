//! HTTP/3 (RFC 8484 over RFC 9114): one request per message.
//!
//! After a GOAWAY the peer resets the streams that it does not process, or closes the connection without an error when it has
//! answered all others (RFC 9114 section 5.2). The library does not tell which stream the GOAWAY names.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use engine::stream::{End, Failure, Opened, QueryFailure, StreamCode};
use h3::ConnectionState;
use h3::client::{Connection, SendRequest};
use h3::error::{Code, ConnectionError, StreamError};
use tokio::sync::Notify;

use super::exchange::{Exchange, HasStream, NoReply, PendingReply, Reply};
use super::quic::{self, Quic};
use crate::http::{Resource, age, is_message};

/// A connection of HTTP/3 for queries.
pub(super) struct Http3 {
    // Declared before their connection, `quic`: fields are dropped in this order.
    requests: SendRequest<h3_quinn::OpenStreams, Bytes>,
    driver: Connection<h3_quinn::Connection, Bytes>,
    quic: Quic,
    resource: Resource,
    max_message: usize,
    /// Wakes the queries that wait for a stream when the peer accepts no more queries.
    going_away: Rc<Notify>,
}

impl Http3 {
    /// Starts HTTP/3 on `quic` with the settings of the client.
    pub(super) async fn new(
        quic: Quic,
        resource: Resource,
        max_message: usize,
    ) -> Result<Self, Failure> {
        let connection = h3_quinn::Connection::new(quic.connection.clone());
        let (driver, requests) = h3::client::builder()
            .send_grease(false)
            .build(connection)
            .await
            .map_err(|_| Failure::Protocol)?;
        let going_away = Rc::default();
        Ok(Http3 { requests, driver, quic, resource, max_message, going_away })
    }
}

impl Exchange for Http3 {
    fn send_query(&mut self, message: Bytes, has_stream: HasStream) -> PendingReply {
        let (mut requests, most) = (self.requests.clone(), self.max_message);
        let (request, connection) = (self.resource.request(&message), self.quic.connection.clone());
        let (meter, going_away) = (self.quic.meter.clone(), self.going_away.clone());
        Box::pin(async move {
            let failed = |why| Err(NoReply::Failed(why));
            let Some((request, body)) = request else { return failed(QueryFailure::Other) };
            let stream = tokio::select! {
                biased;
                stream = meter.count_wait(requests.send_request(request)) => stream,
                () = going_away.notified() => return Err(NoReply::TurnedAway),
            };
            let ended = |error| no_reply(&connection, &requests, &error);
            let mut stream = stream.map_err(ended)?;
            has_stream.set(true);
            // A peer that stops reading may respond nevertheless (RFC 9114 section 4.1); the
            // response shows the reason better than an error of the request.
            if let Some(body) = body {
                let _ = stream.send_data(body).await;
            }
            let _ = stream.finish().await;
            let response = stream.recv_response().await.map_err(ended)?;
            if !response.status().is_success() {
                return failed(QueryFailure::Status(response.status().as_u16()));
            }
            if !is_message(&response) {
                return failed(QueryFailure::MediaType);
            }
            let mut message = Vec::new();
            while let Some(mut part) = stream.recv_data().await.map_err(ended)? {
                if message.len() + part.remaining() > most {
                    return failed(QueryFailure::Oversized);
                }
                message.extend_from_slice(&part.copy_to_bytes(part.remaining()));
            }
            Ok(Reply { message, age: age(&response) })
        })
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let http = self.driver.poll_close(cx).map(|error| match error {
            error if error.is_h3_no_error() => End::ByPeer,
            ConnectionError::Timeout => End::ByPeer,
            _ => End::Failed(Failure::Protocol),
        });
        let going_away = self.requests.is_closing();
        if going_away {
            self.going_away.notify_waiters();
        }
        let over = self.quic.poll_over(cx);
        let over = if over.is_ready() { over } else { http };
        over.map(|end| if going_away && end == End::ByPeer { End::GoingAway } else { end })
    }

    fn opened(&mut self) -> Option<Opened> {
        self.quic.opened()
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        // The endpoint closes the connection.
        Box::pin(std::future::ready(()))
    }
}

/// Returns why a stream that ended with `error` brought no reply.
fn no_reply(
    connection: &quinn::Connection,
    state: &impl ConnectionState,
    error: &StreamError,
) -> NoReply {
    match (connection.close_reason(), error) {
        (Some(reason), _) => NoReply::Over(quic::end(&reason, false)),
        (None, StreamError::RemoteClosing) => NoReply::TurnedAway,
        (None, StreamError::RemoteTerminate { code, .. }) => match *code {
            Code::H3_REQUEST_REJECTED if state.is_closing() => NoReply::TurnedAway,
            Code::H3_REQUEST_REJECTED => NoReply::Refused,
            code => NoReply::Failed(QueryFailure::StreamReset(StreamCode::Http3(code.value()))),
        },
        (None, StreamError::HeaderTooBig { .. } | StreamError::StreamError { .. }) => {
            NoReply::Failed(QueryFailure::Protocol)
        }
        (None, error) if error.is_h3_no_error() => NoReply::Over(End::ByPeer),
        (None, _) => NoReply::Over(End::Failed(Failure::Protocol)),
    }
}
