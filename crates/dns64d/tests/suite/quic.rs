//! DNS over QUIC: what a client may not send ends its connection with DOQ_PROTOCOL_ERROR (RFC 9250 section 4.3.3),
//! and what it cancels has no reply (section 4.3.1).

use std::net::Ipv4Addr;
use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint};
use quinn::{ReadError, ReadToEndError, VarInt};
use streams::tls::{ALPN_DOQ, ClientTls};
use tokio::time::timeout;

use crate::faults::{MAX_WAIT, dns64d, ipv4_only};
use crate::kit::client::{Query, frame};
use crate::private::{DOQ, Private};

/// DOQ_PROTOCOL_ERROR (RFC 9250 section 8.4).
const PROTOCOL_ERROR: u32 = 2;
/// DOQ_REQUEST_CANCELLED.
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);

/// Sends octets on a new stream, in one direction or in both, and waits for the end of the connection.
async fn ended_by(connection: &Connection, octets: &[u8], in_both: bool) -> ConnectionError {
    let (mut send, _answer) = match in_both {
        true => connection.open_bi().await.map(|(send, answer)| (send, Some(answer))),
        false => connection.open_uni().await.map(|send| (send, None)),
    }
    .expect("a stream");
    send.write_all(octets).await.expect("room");
    send.finish().expect("it is open");
    timeout(MAX_WAIT, connection.closed()).await.expect("the end")
}

/// Returns the message of a query without its id, with its length in front.
fn without_id(text: &str) -> Vec<u8> {
    let mut octets = frame(&Query::parse(text).octets);
    octets[2..4].fill(0);
    octets
}

/// Returns an endpoint for clients, within a runtime.
fn client() -> Endpoint {
    let tls = ClientTls { alpn: vec![ALPN_DOQ.to_vec()], ..ClientTls::default() };
    let tls = QuicClientConfig::try_from(tls.build().expect("a configuration"));
    let config = ClientConfig::new(Arc::new(tls.expect("TLS 1.3")));
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    endpoint.set_default_client_config(config);
    endpoint
}

#[test]
fn a_request_that_is_cancelled_is_reset() {
    let (script, private) = (ipv4_only(), Private::new());
    let _server = dns64d(&[&script], &private.config());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let endpoint = client();
        let connecting = endpoint.connect((private.address, DOQ).into(), "dns.example");
        let connection = connecting.expect("an address").await.expect("a connection");
        let (mut send, mut answer) = connection.open_bi().await.expect("a stream");
        send.write_all(&without_id("www.example AAAA")[..9]).await.expect("room");
        send.reset(REQUEST_CANCELLED).expect("it is open");
        let end = timeout(MAX_WAIT, answer.read_to_end(9)).await.expect("the end");
        assert_eq!(end, Err(ReadToEndError::Read(ReadError::Reset(REQUEST_CANCELLED))));
        // The connection goes on.
        let (mut send, mut answer) = connection.open_bi().await.expect("a stream");
        send.write_all(&without_id("www.example AAAA")).await.expect("room");
        send.finish().expect("it is open");
        let answer = timeout(MAX_WAIT, answer.read_to_end(999)).await.expect("the end");
        assert!(answer.is_ok_and(|answer| answer.len() > 40));
    });
}

#[test]
fn errors_of_the_protocol_end_a_connection() {
    let (script, private) = (ipv4_only(), Private::new());
    let _server = dns64d(&[&script], &private.config());
    let with_id = frame(&Query::parse("www.example AAAA").octets);
    let query = without_id("www.example AAAA");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let endpoint = client();
        for (what, octets, in_both) in [
            ("an id", &with_id, true),
            ("two messages", &[&query[..], &query].concat(), true),
            ("a part of a message", &query[..9].to_vec(), true),
            ("no message", &Vec::new(), true),
            ("keepalive", &without_id("www.example AAAA +option=11"), true),
            ("a stream in one direction", &query, false),
        ] {
            let connecting = endpoint.connect((private.address, DOQ).into(), "dns.example");
            let connection = connecting.expect("an address").await.expect("a connection");
            match ended_by(&connection, octets, in_both).await {
                ConnectionError::ApplicationClosed(close) => {
                    assert_eq!(close.error_code, PROTOCOL_ERROR.into(), "{what}");
                }
                other => panic!("{what}: {other}"),
            }
        }
    });
}
