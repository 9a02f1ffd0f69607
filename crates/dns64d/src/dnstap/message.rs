//! A message in the format of dnstap: protocol buffers, with the fields of `dnstap.proto`.

use std::net::IpAddr;
use std::time::Duration;

use dns64::{Entry, Kind};
use measure::Transport;

/// Appends a message; times are since 1970.
pub(super) fn write(
    identity: &str,
    entry: &Entry,
    octets: &[u8],
    asked: Duration,
    at: Duration,
    to: &mut Vec<u8>,
) {
    let mut body = Vec::with_capacity(octets.len() + 80);
    // CLIENT_QUERY, CLIENT_RESPONSE
    number(1, if entry.kind == Kind::Query { 5 } else { 6 }, &mut body);
    number(2, if entry.client.is_ipv4() { 1 } else { 2 }, &mut body);
    number(3, protocol(entry.transport), &mut body);
    match entry.client {
        IpAddr::V4(address) => bytes(4, &address.octets(), &mut body),
        IpAddr::V6(address) => bytes(4, &address.octets(), &mut body),
    }
    if let Some(port) = entry.port {
        number(6, port.into(), &mut body);
    }
    time(8, asked, &mut body);
    if entry.kind == Kind::Query {
        bytes(10, octets, &mut body);
    } else {
        time(12, at, &mut body);
        bytes(14, octets, &mut body);
    }
    if !identity.is_empty() {
        bytes(1, identity.as_bytes(), to);
    }
    bytes(2, concat!("dns64d ", env!("CARGO_PKG_VERSION")).as_bytes(), to);
    bytes(14, &body, to);
    number(15, 1, to);
}

/// Returns the number of a transport (`SocketProtocol`); that of DNS over HTTPS has no version.
fn protocol(transport: Transport) -> u64 {
    match transport {
        Transport::Udp => 1,
        Transport::Tcp => 2,
        Transport::Tls => 3,
        Transport::Https | Transport::Http3 => 4,
        Transport::Quic => 7,
    }
}

/// Appends seconds, and in the next field nanoseconds as a fixed number of 32 bits.
fn time(field: u8, time: Duration, to: &mut Vec<u8>) {
    number(field, time.as_secs(), to);
    to.push((field + 1) << 3 | 5);
    to.extend_from_slice(&time.subsec_nanos().to_le_bytes());
}

/// Appends a number of variable length.
fn number(field: u8, value: u64, to: &mut Vec<u8>) {
    to.push(field << 3);
    varint(value, to);
}

/// Appends octets with their length.
fn bytes(field: u8, value: &[u8], to: &mut Vec<u8>) {
    to.push(field << 3 | 2);
    varint(value.len() as u64, to);
    to.extend_from_slice(value);
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value > 0x7f {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
