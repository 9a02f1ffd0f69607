//! The message in a frame of dnstap, with the addresses and ports of both sides.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wire::dnstap::{self, Malformed};

use crate::capture::Frame;
use crate::messages::{Message, Transport};

/// The port of a server that is not stated.
const PORT: u16 = 53;
/// Longest message that a frame may hold, in octets.
const MAX_MESSAGE: usize = u16::MAX as usize;

/// Returns the message of a frame; `None` if it has none. An address that is not stated is the unspecified one of the other
/// side's family.
///
/// # Errors
/// If the frame is damaged, or its message too long for any transport.
pub(crate) fn message<'a>(frame: &Frame<'a>) -> Result<Option<Message<'a>>, Malformed> {
    let Some(tapped) = dnstap::Message::read(frame.bytes)? else { return Ok(None) };
    let query = tapped.kind.is_query();
    let Some(bytes) = (if query { tapped.query } else { tapped.response }) else {
        return Ok(None);
    };
    if bytes.len() > MAX_MESSAGE {
        return Err(Malformed { at: MAX_MESSAGE, len: bytes.len() });
    }
    let unspecified = match tapped.client.or(tapped.server) {
        Some(IpAddr::V6(_)) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    let end = |address: Option<IpAddr>, port: Option<u16>, usual| {
        SocketAddr::new(address.unwrap_or(unspecified), port.unwrap_or(usual))
    };
    let client = end(tapped.client, tapped.client_port, 0);
    let server = end(tapped.server, tapped.server_port, PORT);
    let (source, destination) = if query { (client, server) } else { (server, client) };
    let tcp = tapped.protocol.is_tcp();
    Ok(Some(Message {
        frame: frame.number,
        at: frame.at,
        source,
        destination,
        transport: if tcp { Transport::Tcp { sequence: 0 } } else { Transport::Udp },
        fragmented: false,
        cut: false,
        len: bytes.len(),
        bytes,
    }))
}
