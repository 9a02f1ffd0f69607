//! QUIC: messages on its streams (RFC 9250), or HTTP/3 requests (RFC 8484 over RFC 9114), as negotiated by
//! ALPN.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use engine::named;
use futures_util::stream::{FuturesUnordered, StreamExt};
use h3::error::Code;
use http::StatusCode;
use quinn::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn::{Endpoint, EndpointConfig, Incoming, TokioRuntime, VarInt};
use socket2::{Domain, Socket, Type};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Answer, Fault, MAX_MESSAGE, StreamLimits};
use crate::http::{self as doh, ALPN_H3, PATH, RequestHead};
use crate::tls::ServerTls;

/// `H3_NO_ERROR` (RFC 9114 section 8.1).
const H3_NO_ERROR: u32 = 0x100;
/// `DOQ_INTERNAL_ERROR` (RFC 9250 section 8.4).
const INTERNAL_ERROR: VarInt = VarInt::from_u32(1);
/// `DOQ_PROTOCOL_ERROR` (RFC 9250 section 8.4).
const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);
/// Pause between two looks for requests that come after a GOAWAY and that are rejected.
const DRAIN: Duration = Duration::from_millis(10);
/// Receive and send buffer of the socket, in bytes.
const BUFFER: usize = 4 << 20;

/// Opens a socket for [`quic`].
///
/// # Errors
/// When the address cannot be bound; the error names it.
pub fn listen(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into()).map_err(|e| named(e, "cannot listen on QUIC", address))?;
    // A smaller buffer is no error: the kernel gives what it permits.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
    Ok(socket.into())
}

/// Serves connections to `socket` until it is dropped, each in a local task.
///
/// # Errors
/// When QUIC cannot use the TLS configuration, or the runtime refuses the socket.
pub async fn quic<A: Answer + 'static>(
    socket: std::net::UdpSocket,
    tls: ServerTls,
    limits: StreamLimits,
    answer: Rc<A>,
) -> io::Result<()> {
    let mut current = tls.current();
    let mut config = Arc::new(configuration(&current, limits)?);
    let server = Some((*config).clone());
    let endpoint =
        Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))?;
    let open = Rc::new(Cell::new(0));
    while let Some(incoming) = endpoint.accept().await {
        let place = answer.place(incoming.remote_address());
        let Some(place) = place.filter(|_| open.get() < limits.connections) else {
            incoming.refuse();
            continue;
        };
        // The certificate may have been reloaded.
        let now = tls.current();
        if !Arc::ptr_eq(&now, &current) {
            config = Arc::new(configuration(&now, limits)?);
            current = now;
        }
        open.set(open.get() + 1);
        let (config, open, answer) = (config.clone(), open.clone(), answer.clone());
        tokio::task::spawn_local(async move {
            // The end of a connection, for any reason, affects no other connection.
            let _ = connection(incoming, config, limits, &*answer).await;
            open.set(open.get() - 1);
            drop(place);
        });
    }
    Ok(())
}

/// Makes the QUIC configuration from a TLS configuration.
fn configuration(
    current: &Arc<rustls::ServerConfig>,
    limits: StreamLimits,
) -> io::Result<quinn::ServerConfig> {
    let mut tls = (**current).clone();
    if tls.max_early_data_size > 0 {
        // QUIC itself limits the amount (RFC 9001 section 4.6.1).
        tls.max_early_data_size = u32::MAX;
    }
    let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    let mut transport = quinn::TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(limits.streams.into())
        .max_idle_timeout(limits.idle.try_into().ok());
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Serves one connection from its handshake on.
async fn connection<A: Answer>(
    incoming: Incoming,
    config: Arc<quinn::ServerConfig>,
    limits: StreamLimits,
    answer: &A,
) -> io::Result<()> {
    let mut connecting = incoming.accept_with(config)?;
    let handshake = timeout(limits.idle, connecting.handshake_data()).await??;
    let http = handshake
        .downcast_ref::<HandshakeData>()
        .is_some_and(|data| data.protocol.as_deref() == Some(ALPN_H3));
    // Data before the end of the handshake exists only if the configuration permits it.
    let connection = match connecting.into_0rtt() {
        Ok((connection, _)) => connection,
        Err(connecting) => timeout(limits.idle, connecting).await??,
    };
    if http {
        http3(connection, limits, answer).await
    } else {
        messages(connection, limits, answer).await
    }
}

/// Serves messages on their own streams; the idle timeout of the transport ends the connection.
async fn messages<A: Answer>(
    connection: quinn::Connection,
    limits: StreamLimits,
    answer: &A,
) -> io::Result<()> {
    let mut streams = FuturesUnordered::new();
    loop {
        tokio::select! {
            stream = connection.accept_bi() => {
                let (send, receive) = stream?;
                let client = connection.remote_address();
                streams.push(timeout(limits.idle, message(send, receive, client, answer)));
            }
            Some(done) = streams.next(), if !streams.is_empty() => {
                match done {
                    Ok(Err(Malformed)) => connection.close(PROTOCOL_ERROR, b""),
                    Ok(Ok(Some(Fault::Close))) => connection.close(VarInt::from_u32(0), b""),
                    _ => {}
                }
            }
        }
    }
}

/// The stream does not contain exactly one message with id 0.
struct Malformed;

/// Serves one stream.
async fn message<A: Answer>(
    mut send: quinn::SendStream,
    mut receive: quinn::RecvStream,
    client: SocketAddr,
    answer: &A,
) -> Result<Option<Fault>, Malformed> {
    let mut message = match receive.read_to_end(2 + MAX_MESSAGE).await {
        Ok(message) => message,
        Err(quinn::ReadToEndError::TooLong) => return Err(Malformed),
        Err(quinn::ReadToEndError::Read(_)) => return Ok(None),
    };
    let Some(&[high, low, 0, 0]) = message.first_chunk() else { return Err(Malformed) };
    if usize::from(u16::from_be_bytes([high, low])) + 2 != message.len() {
        return Err(Malformed);
    }
    match answer.fault() {
        Some(Fault::Close) => return Ok(Some(Fault::Close)),
        Some(Fault::Reset) => {
            let _ = send.reset(INTERNAL_ERROR);
            return Ok(None);
        }
        Some(Fault::Status(_) | Fault::Refuse | Fault::GoAway) | None => {}
    }
    let reply = answer.answer(client, message.split_off(2)).await;
    if reply.is_empty() || reply.len() > MAX_MESSAGE {
        // The end of the stream without a message means that there is no reply.
        let _ = send.reset(INTERNAL_ERROR);
        return Ok(None);
    }
    let framed = [&(reply.len() as u16).to_be_bytes()[..], &reply].concat();
    // A client that does not accept its reply gets none.
    if send.write_all(&framed).await.is_ok() {
        let _ = send.finish();
    }
    Ok(None)
}

/// Serves HTTP/3 requests; each must end within the idle time.
async fn http3<A: Answer>(
    connection: quinn::Connection,
    limits: StreamLimits,
    answer: &A,
) -> io::Result<()> {
    let (client, quic) = (connection.remote_address(), connection.clone());
    let connection = h3_quinn::Connection::new(connection);
    let mut connection = h3::server::builder()
        .max_field_section_size(16 << 10)
        .send_grease(false)
        .build::<_, Bytes>(connection)
        .await
        .map_err(io::Error::other)?;
    let mut requests = FuturesUnordered::new();
    let mut deadline = Instant::now() + limits.idle;
    loop {
        tokio::select! {
            request = connection.accept() => match request.map_err(io::Error::other)? {
                // All requests are answered, but their replies may still be on the way: the client closes the
                // connection.
                None => sleep(DRAIN).await,
                Some(resolver) => requests.push(timeout(limits.idle, async {
                    let (request, stream) = resolver.resolve_request().await?;
                    http3_request(request, stream, client, answer).await
                })),
            },
            Some(done) = requests.next(), if !requests.is_empty() => {
                match done {
                    Ok(Ok(Some(Fault::GoAway))) => {
                        connection.shutdown(0).await.map_err(io::Error::other)?;
                    }
                    Ok(Ok(Some(Fault::Close))) => {
                        quic.close(VarInt::from_u32(H3_NO_ERROR), b"");
                    }
                    _ => {}
                }
                deadline = Instant::now() + limits.idle;
            }
            () = sleep_until(deadline), if requests.is_empty() => {
                return connection.shutdown(0).await.map_err(io::Error::other);
            }
        }
    }
}

/// Handles one request; an error concerns only its client.
async fn http3_request<A: Answer>(
    request: http::Request<()>,
    mut stream: h3::server::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>,
    client: SocketAddr,
    answer: &A,
) -> Result<Option<Fault>, h3::error::StreamError> {
    let refused = match doh::read_head(&request, PATH, MAX_MESSAGE) {
        RequestHead::Message(message) => Ok(message),
        RequestHead::Refused(status) => Err(status),
        RequestHead::InBody => {
            let mut message = Vec::new();
            while let Some(mut part) = stream.recv_data().await?
                && message.len() <= MAX_MESSAGE
            {
                message.extend_from_slice(&part.copy_to_bytes(part.remaining()));
            }
            if message.len() <= MAX_MESSAGE {
                Ok(message)
            } else {
                Err(StatusCode::PAYLOAD_TOO_LARGE)
            }
        }
    };
    let fault = answer.fault();
    let reply = match refused {
        Err(status) => Err(status),
        Ok(_) if let Some(Fault::Status(status)) = fault => {
            Err(StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE))
        }
        Ok(_) if fault == Some(Fault::Reset) => {
            stream.stop_stream(Code::H3_INTERNAL_ERROR);
            return Ok(None);
        }
        Ok(_) if fault == Some(Fault::Refuse) => {
            stream.stop_stream(Code::H3_REQUEST_REJECTED);
            return Ok(None);
        }
        Ok(_) if fault == Some(Fault::Close) => return Ok(fault),
        Ok(message) => match answer.answer(client, message).await {
            reply if reply.is_empty() => Err(StatusCode::BAD_REQUEST),
            reply => Ok(reply),
        },
    };
    match reply {
        Err(status) => stream.send_response(doh::refusal(status)).await?,
        Ok(reply) => {
            stream.send_response(doh::reply(reply.len(), answer.freshness(&reply))).await?;
            stream.send_data(reply.into()).await?;
        }
    }
    stream.finish().await?;
    Ok(fault)
}
