//! Checks the settings of connections: ranges of numbers, and features of the transports.

use measure::{Nanos, TlsVersion, Transport};
use record::request::Connecting;

use crate::error::Invalid;

/// Number of ports of an address that clients may have: all but the well-known ones.
const PORTS: u64 = 65_536 - 1_024;

/// Largest block size for padding, in bytes.
const MAX_PADDING: u16 = 512;

/// Refuses numbers out of range.
pub(crate) fn check_numbers(
    connecting: &Connecting,
    workers: u32,
    sources: usize,
) -> Result<(), Invalid> {
    let (clients, transports) = (connecting.clients, connecting.transports.len() as u32);
    let most = load::pipeline::MAX_OUTSTANDING;
    let bad = |field, why: String| Err(Invalid::value(field, why));
    if clients == 0 {
        return bad("engine.streams.clients", "must be at least 1".to_owned());
    }
    let most_clients = PORTS.saturating_mul(sources as u64);
    if u64::from(clients) > most_clients {
        let why = format!(
            "{clients} clients: an address has ports for {PORTS}, and there are {sources} source addresses; give more with --source"
        );
        return bad("engine.streams.clients", why);
    }
    if connecting.queries_per_connection == Some(0) {
        return bad("engine.streams.queries_per_connection", "must be at least 1".to_owned());
    }
    if clients < workers.max(transports) {
        let of = format!("{clients} clients for {workers} workers and {transports} transports");
        return bad("engine.streams.clients", format!("{of}: give each at least one"));
    }
    if connecting.outstanding.is_some_and(|n| n == 0 || n > most) {
        return bad("engine.streams.outstanding", format!("it is 1 to {most}"));
    }
    if connecting.retry == Some(Nanos::ZERO) {
        return bad("engine.streams.retry", "must be longer than 0".to_owned());
    }
    if connecting.padding > MAX_PADDING {
        return bad("engine.streams.padding", format!("it is at most {MAX_PADDING}"));
    }
    Ok(())
}

/// Refuses settings that some or all of the transports do not support.
pub(crate) fn check(connecting: &Connecting) -> Result<(), Invalid> {
    let any = |has: fn(Transport) -> bool| connecting.any(has);
    let wrong = |field, has: fn(Transport) -> bool, because| {
        Err(Invalid::Transport { field, wanted: Transport::words(has), because })
    };
    if connecting.tls.is_some() && !any(Transport::uses_tls) {
        return wrong("engine.streams.tls", Transport::uses_tls, "");
    }
    if connecting.http.is_some() && !any(Transport::uses_http) {
        return wrong("engine.streams.http", Transport::uses_http, "");
    }
    if connecting.tcp_fallback && !any(Transport::is_datagram) {
        return wrong("engine.streams.tcp_fallback", Transport::is_datagram, "");
    }
    if connecting.retry.is_some() && any(|transport| transport != Transport::Udp) {
        return wrong("engine.streams.retry", |transport| transport == Transport::Udp, "");
    }
    if connecting.fast_open && !any(Transport::uses_tcp) {
        return wrong("engine.streams.fast_open", Transport::uses_tcp, "");
    }
    if connecting.keepalive && !any(Transport::is_framed) {
        let because = ": the others have no such option (RFC 7828, RFC 9250 section 5.5.2)";
        return wrong("engine.streams.keepalive", Transport::is_framed, because);
    }
    if connecting.proxy.is_some() && any(Transport::uses_quic) {
        let because = ": no server takes the PROXY protocol in front of QUIC's packets";
        return wrong("engine.streams.proxy", |t| !t.uses_quic(), because);
    }
    if connecting.proxy.is_some_and(|proxy| proxy.within_tls) && !any(Transport::uses_tls) {
        return wrong("engine.streams.proxy.within_tls", Transport::uses_tls, "");
    }
    let version = connecting.tls.as_ref().and_then(|tls| tls.version);
    if version == Some(TlsVersion::V12) && any(Transport::uses_quic) {
        return Err(Invalid::value("engine.streams.tls.version", "QUIC has TLS 1.3 only"));
    }
    Ok(())
}
