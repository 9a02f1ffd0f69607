//! The memory of the server under clients of QUIC whose windows are closed: they send queries and permit no answers.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, TransportConfig};
use streams::tls::{ALPN_DOQ, ClientTls};
use tokio::time::timeout;

use crate::faults::{is_right, wait_for};
use crate::kit::client::{self, Query};
use crate::kit::script::Script;
use crate::memory::with_a_long_answer;
use crate::private::{DOQ, Private};

/// Connections, and queries on each.
const CONNECTIONS: usize = 90;
const QUERIES: usize = 100;
/// Longest wait for a connection or a stream, for which the server may have no memory left.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the configuration of a client that takes one octet of each answer.
fn closed() -> ClientConfig {
    let tls = ClientTls { alpn: vec![ALPN_DOQ.to_vec()], ..ClientTls::default() };
    let tls = QuicClientConfig::try_from(tls.build().expect("a configuration"));
    let mut config = ClientConfig::new(Arc::new(tls.expect("TLS 1.3")));
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(1u32.into()).max_idle_timeout(None);
    config.transport_config(Arc::new(transport));
    config
}

/// Sends queries on a new connection; returns what keeps it and its streams open.
async fn flood(
    endpoint: &Endpoint,
    at: Ipv4Addr,
    query: &[u8],
) -> Option<(Connection, Vec<RecvStream>)> {
    let connecting = endpoint.connect((at, DOQ).into(), "dns.example").expect("an address");
    let connection = timeout(PATIENCE, connecting).await.ok()?.ok()?;
    let mut answers = Vec::new();
    for _ in 0..QUERIES {
        let Ok(Ok((mut send, answer))) = timeout(PATIENCE, connection.open_bi()).await else {
            break;
        };
        if send.write_all(query).await.is_err() || send.finish().is_err() {
            break;
        }
        answers.push(answer);
    }
    Some((connection, answers))
}

#[test]
fn answers_that_no_window_permits_stay_within_the_memory() {
    let (script, private) = (Script::start(&[]), Private::new());
    let server = with_a_long_answer(&script, &private);
    // RFC 9250 section 4.2.1: the id is 0.
    let mut query = client::frame(&Query::parse("long.example TXT").octets);
    query[2..4].fill(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut endpoint =
            Endpoint::client((Ipv4Addr::new(127, 0, 0, 14), 0).into()).expect("a port");
        endpoint.set_default_client_config(closed());
        let mut kept = Vec::new();
        for _ in 0..CONNECTIONS {
            kept.extend(flood(&endpoint, private.address, &query).await);
        }
        let streams: usize = kept.iter().map(|(_, answers)| answers.len()).sum();
        assert!(streams > QUERIES, "{streams} queries");
        // The answers are made, and wait for windows.
        tokio::time::sleep(PATIENCE).await;
        for _ in 0..20 {
            if server.metric("dns64d_stream_memory_bytes") > 8 << 20 {
                break;
            }
            tokio::time::sleep(PATIENCE / 2).await;
        }
        assert!(server.metric("dns64d_stream_memory_bytes") > 8 << 20, "answers are under way");
        let most = server.most_resident() >> 20;
        assert!(most <= 256, "{most} MiB of 256");
        assert!(is_right(&server.ask("datagram.example AAAA")), "{}", server.log());
        kept.iter().for_each(|(connection, _)| connection.close(0u32.into(), b""));
        endpoint.wait_idle().await;
    });
    wait_for("the memory is free again", || server.metric("dns64d_stream_memory_bytes") < 1 << 20);
}
