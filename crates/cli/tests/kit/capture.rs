//! Captures that tests make.

use std::net::SocketAddr;

use measure::Nanos;
use trace::{Message, Transport, Writer};

/// Writes a message over UDP, so long after the start of the capture.
pub(crate) fn write_udp(
    out: &mut Writer<Vec<u8>>,
    at: Nanos,
    source: impl Into<SocketAddr>,
    destination: impl Into<SocketAddr>,
    bytes: &[u8],
) {
    out.write(&Message {
        frame: 1,
        at: Nanos::from_secs(1_700_000_000) + at,
        source: source.into(),
        destination: destination.into(),
        transport: Transport::Udp,
        fragmented: false,
        cut: false,
        len: bytes.len(),
        bytes,
    });
}
