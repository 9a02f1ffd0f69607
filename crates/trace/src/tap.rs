//! The messages in a frame of dnstap, with the addresses and ports of both sides.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use measure::Nanos;
use wire::dnstap::{self, Malformed};

use crate::capture::Frame;
use crate::messages::{Message, Transport};

/// The port of a server that is not stated.
const PORT: u16 = 53;
/// Longest message that a frame may hold, in octets.
const MAX_MESSAGE: usize = u16::MAX as usize;

/// The messages of a frame: a query, or a response with its query where the server adds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TappedMessages<'a> {
    pub(crate) query: Option<Message<'a>>,
    pub(crate) response: Option<Message<'a>>,
}

/// Returns the messages of a frame. An address that is not stated is the unspecified one of the other side's family.
///
/// # Errors
/// If the frame is damaged, or a message too long for any transport.
pub(crate) fn messages<'a>(frame: &Frame<'a>) -> Result<TappedMessages<'a>, Malformed> {
    let nothing = TappedMessages { query: None, response: None };
    let Some(tapped) = dnstap::Message::read(frame.bytes)? else { return Ok(nothing) };
    let is_query = tapped.kind.is_query();
    if !is_query && tapped.response.is_none() {
        return Ok(nothing);
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
    let tcp = tapped.protocol.is_tcp();
    let message = |bytes: &'a [u8], at, source, destination| {
        if bytes.len() > MAX_MESSAGE {
            return Err(Malformed { at: MAX_MESSAGE, len: bytes.len() });
        }
        let transport = if tcp { Transport::Tcp { sequence: 0 } } else { Transport::Udp };
        let whole = Message::whole(transport, [source, destination], at, bytes);
        Ok(Message { frame: frame.number, ..whole })
    };
    let asked = tapped.query_time.filter(|_| !is_query).map_or(frame.at, Nanos::from);
    let query = tapped.query.map(|query| message(query, asked, client, server));
    let response = tapped.response.filter(|_| !is_query);
    let response = response.map(|response| message(response, frame.at, server, client));
    Ok(TappedMessages { query: query.transpose()?, response: response.transpose()? })
}
