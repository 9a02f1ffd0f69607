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
    write(out, at, [source.into(), destination.into()], Transport::Udp, bytes);
}

/// Writes a whole message from the first address to the second, so long after the start of the capture.
pub(crate) fn write(
    out: &mut Writer<Vec<u8>>,
    at: Nanos,
    [source, destination]: [SocketAddr; 2],
    transport: Transport,
    bytes: &[u8],
) {
    let (frame, fragmented, cut, len) = (1, false, false, bytes.len());
    let at = Nanos::from_secs(1_700_000_000) + at;
    out.write(&Message { frame, at, source, destination, transport, fragmented, cut, len, bytes });
}
