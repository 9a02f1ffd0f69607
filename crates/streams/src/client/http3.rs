//! HTTP/3 (RFC 8484 over RFC 9114): one request per message.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use engine::stream::{End, Failure, Opened};
use h3::client::{Connection, SendRequest};
use h3::error::{ConnectionError, StreamError};

use super::exchange::{Exchange, PendingReply};
use super::quic::{self, Quic};
use crate::http::{Resource, is_message};

/// An HTTP/3 connection.
pub(super) struct Http3 {
    // In front of the connection to which they belong, for the order of drops.
    requests: SendRequest<h3_quinn::OpenStreams, Bytes>,
    driver: Connection<h3_quinn::Connection, Bytes>,
    quic: Quic,
    resource: Resource,
    max_message: usize,
}

impl Http3 {
    /// Starts HTTP/3 on `quic`.
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
        Ok(Http3 { requests, driver, quic, resource, max_message })
    }
}

impl Exchange for Http3 {
    fn send_query(&mut self, message: Bytes) -> PendingReply {
        let (mut requests, most) = (self.requests.clone(), self.max_message);
        let (request, connection) = (self.resource.request(&message), self.quic.connection.clone());
        Box::pin(async move {
            let ended = |error: StreamError| stream_end(&connection, &error);
            let (request, body) = request.ok_or(End::Failed(Failure::Other))?;
            let mut stream = requests.send_request(request).await.map_err(ended)?;
            if let Some(body) = body {
                stream.send_data(body).await.map_err(ended)?;
            }
            stream.finish().await.map_err(ended)?;
            let response = stream.recv_response().await.map_err(ended)?;
            if !response.status().is_success() {
                return Err(End::Failed(Failure::Status));
            }
            if !is_message(&response) {
                return Err(End::Failed(Failure::Protocol));
            }
            let mut reply = Vec::new();
            while let Some(mut part) = stream.recv_data().await.map_err(ended)? {
                if reply.len() + part.remaining() > most {
                    return Err(End::Failed(Failure::Oversized));
                }
                reply.extend_from_slice(&part.copy_to_bytes(part.remaining()));
            }
            Ok(reply)
        })
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if let Poll::Ready(end) = self.quic.poll_over(cx) {
            return Poll::Ready(end);
        }
        self.driver.poll_close(cx).map(|error| match error {
            error if error.is_h3_no_error() => End::ByPeer,
            ConnectionError::Timeout { .. } => End::ByPeer,
            _ => End::Failed(Failure::Protocol),
        })
    }

    fn opened(&mut self) -> Option<Opened> {
        self.quic.opened()
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        // The endpoint closes the connection.
        Box::pin(std::future::ready(()))
    }
}

/// Returns how a connection ended when one of its streams failed with `error`.
fn stream_end(connection: &quinn::Connection, error: &StreamError) -> End {
    match (connection.close_reason(), error) {
        (Some(reason), _) => quic::end(&reason, false),
        (None, error) if error.is_h3_no_error() => End::ByPeer,
        (None, StreamError::RemoteClosing { .. }) => End::ByPeer,
        (None, StreamError::RemoteTerminate { .. }) => End::Failed(Failure::Reset),
        (None, _) => End::Failed(Failure::Protocol),
    }
}
