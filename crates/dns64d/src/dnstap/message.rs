//! A message of a client or to it, in the format of dnstap (`wire::dnstap`).

use std::time::Duration;

use dns64::{Kind, ObservedMessage};
use measure::Transport;
use wire::dnstap::{self, Message, Protocol};

/// Appends a message; times are since 1970.
pub(super) fn write(
    identity: &str,
    entry: &ObservedMessage,
    octets: &[u8],
    asked: Duration,
    at: Duration,
    to: &mut Vec<u8>,
) {
    let message = Message {
        protocol: protocol(entry.transport),
        client: Some(entry.client),
        client_port: entry.port,
        query_time: Some(asked),
        ..Message::default()
    };
    let message = match entry.kind {
        Kind::Query => Message { kind: dnstap::Kind::CLIENT_QUERY, query: Some(octets), ..message },
        Kind::Answer => Message {
            kind: dnstap::Kind::CLIENT_RESPONSE,
            response_time: Some(at),
            response: Some(octets),
            ..message
        },
    };
    let version = concat!("dns64d ", env!("CARGO_PKG_VERSION"));
    message.write(identity.as_bytes(), version.as_bytes(), to);
}

/// Returns the number of a transport; DNS over HTTPS has one number for all versions of HTTP.
fn protocol(transport: Transport) -> Protocol {
    match transport {
        Transport::Udp => Protocol::UDP,
        Transport::Tcp => Protocol::TCP,
        Transport::Tls => Protocol::DOT,
        Transport::Https | Transport::Http3 => Protocol::DOH,
        Transport::Quic => Protocol::DOQ,
    }
}
