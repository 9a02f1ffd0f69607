//! 0-RTT over QUIC and HTTP/3, which openssl does not support. Our own client sends a query twice, the second
//! time in the handshake of a session resumed from the first.

#[path = "../../../streams/src/client/tests/client.rs"]
mod client;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use engine::WaitMode;
use engine::stream::{End, Mix};
use measure::HttpMethod;
use streams::StreamEngine;
use streams::client::{Carriage, Dialer, TlsDialer};
use streams::http::{ALPN_H3, PATH, Resource};
use streams::tls::ALPN_DOQ;
use streams::tls::ClientTls;

use self::client::Client;
use crate::faults::{dns64d, ipv4_only};
use crate::kit::script::Asked;
use crate::private::{DOH, DOQ, Private, QUERY, UPDATE};

/// Returns the reply to `message` on a new connection, and whether it was accepted with the handshake.
fn ask(dialer: &Dialer, message: &'static [u8]) -> (Vec<u8>, bool) {
    let client = Client { messages: vec![message.to_vec()], ..Client::default() };
    let engine = StreamEngine::new(vec![dialer.clone()], Mix::one(), 1, client);
    let mut engine = engine.expect("a port");
    engine.drive(WaitMode::Sleep, &AtomicBool::new(false)).expect("runs");
    let Client { mut replies, opened, end, failed, .. } = engine.into_role();
    assert_eq!(end, Some(End::Ordered), "{:?}: {failed:?}", dialer.carriage);
    (replies.remove(0), opened.is_some_and(|how| how.early_data))
}

#[test]
fn early_data_of_quic_and_http3_is_accepted_for_queries_only() {
    let resource =
        Resource { authority: "dns.example".into(), path: PATH.into(), method: HttpMethod::Post };
    let ways = [(Carriage::Quic, DOQ, ALPN_DOQ), (Carriage::Http3(resource), DOH, ALPN_H3)];
    for (allowed, (carriage, port, alpn)) in
        [true, false].map(|a| ways.clone().map(|w| (a, w))).concat()
    {
        let (script, private) = (ipv4_only(), Private::new());
        let server = dns64d(&[&script], &format!("{}early-data = {allowed}\n", private.config()));
        let target = SocketAddr::from((private.address, port));
        let name = format!("{carriage:?}, allowed: {allowed}");
        let asked = ClientTls {
            alpn: vec![alpn.to_vec()],
            sessions: 10,
            early_data: true,
            ..ClientTls::default()
        };
        for (message, rcode) in [(UPDATE, 4), (QUERY, 0), (UPDATE, 4)] {
            // Each with a session of its own: a connection that ends at the reply to early data may have got no other one.
            let tls = TlsDialer::new(&asked, "dns.example".try_into().expect("a name"));
            let (carriage, tls) = (carriage.clone(), Some(tls.expect("a configuration")));
            let dialer = Dialer { carriage, tls, ..Dialer::tcp(target) };
            assert!(!ask(&dialer, UPDATE).1, "{name}: no session yet");
            let (reply, early) = ask(&dialer, message);
            assert_eq!(early, allowed, "{name}: {}", server.log());
            assert_eq!(reply.get(3).map(|flags| flags & 15), Some(rcode), "{name}: {reply:?}");
        }
        // Nothing is sent upstream for an update.
        let asked = script.asked();
        let early = |asked: &Asked| asked.name.starts_with("early.");
        assert!(!asked.is_empty() && asked.iter().all(early), "{name}: {asked:?}");
    }
}
