//! The memory of the server under clients that send queries and read no answers.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::base::iana::Rtype;
use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, Socket, Type};
use streams::http::ALPN_H2;
use streams::tls::ClientTls;

use crate::faults::{A, MAX_WAIT, dns64d, is_right, wait_for};
use crate::kit::client::{self, Query};
use crate::kit::script::Script;
use crate::kit::server::Server;
use crate::private::{DOH, DOT, Private, http2_frame, http2_head};

/// Connections of each transport, and queries on each.
const CONNECTIONS: usize = 90;
const QUERIES: usize = 100;

/// Connects from an address, with a receive buffer that holds little of an answer.
fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4 << 10).expect("a buffer");
    socket.bind(&SocketAddr::from((from, 0)).into()).expect("loopback");
    socket.connect(&to.into()).expect("loopback");
    socket.into()
}

/// Connects with TLS; the connection is open as long as the result lives.
fn encrypted(
    from: Ipv4Addr,
    to: SocketAddr,
    alpn: &[&[u8]],
) -> StreamOwned<ClientConnection, TcpStream> {
    let alpn = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let tls = ClientTls { alpn, ..ClientTls::default() }.build().expect("a configuration");
    let name = "dns.example".try_into().expect("a name");
    let client = ClientConnection::new(Arc::new(tls), name).expect("a client");
    StreamOwned::new(client, connect(from, to))
}

/// Returns the start of an HTTP/2 connection whose client permits any amount of answers, and its requests.
fn requests(query: &[u8]) -> Vec<u8> {
    let most = 0x7fff_ffffu32.to_be_bytes();
    // SETTINGS_INITIAL_WINDOW_SIZE, then the window of the connection (RFC 9113 sections 6.5.2 and 6.9).
    let settings = http2_frame(4, 0, 0, &[&[0, 4][..], &most].concat());
    let window = http2_frame(8, 0, 0, &(0x7fff_ffffu32 - 65_535).to_be_bytes());
    let start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut all = [&start[..], &settings, &window].concat();
    for n in 0..QUERIES {
        let stream = 2 * n as u8 + 1;
        all.extend_from_slice(&http2_frame(1, 4, stream, &http2_head()));
        all.extend_from_slice(&http2_frame(0, 1, stream, query));
    }
    all
}

/// Waits until no more queries arrive for two seconds. On a busy machine the server may stand still for one.
fn all_arrived(server: &Server) {
    let (mut before, mut last) = (0, Instant::now());
    wait_for("all queries have arrived", || {
        let now = server.metric("dns64d_queries_stream_total");
        if now != std::mem::replace(&mut before, now) {
            last = Instant::now();
        }
        last.elapsed() >= Duration::from_secs(2)
    });
}

/// Starts dns64d over all transports with the answer of 60 kB for `long.example TXT` in its cache. Each connection stays
/// until the end of the test; all other limits are the defaults.
pub(crate) fn with_a_long_answer(script: &Script, private: &Private) -> Server {
    with_a_long_answer_and(script, private, "")
}

/// The same with other limits too.
fn with_a_long_answer_and(script: &Script, private: &Private, limits: &str) -> Server {
    let text = "\"0123456789abcdef0123456789abcdef\" ".repeat(1_800);
    script.others(Rtype::TXT, &format!("tc; $ 60 TXT {}", text.trim()));
    script.others(Rtype::A, A);
    let config = format!("{}[limits]\ntcp-idle = \"1h\"\n{limits}", private.config());
    let server = dns64d(&[script], &config);
    let first = Query::parse("long.example TXT +tcp").ask(server.address(), MAX_WAIT);
    assert!(first.is_some_and(|reply| reply.octets > 59_000), "a long answer, in the cache now");
    server
}

/// Sends queries for a long answer over HTTP/2 on many connections from an address, and reads nothing; the connections are open
/// as long as the result lives.
fn flood(from: Ipv4Addr, server: &Server, private: &Private) -> Vec<Box<dyn Write>> {
    let posted = requests(&Query::parse("long.example TXT").octets);
    let mut kept: Vec<Box<dyn Write>> = Vec::new();
    // Connections for which there is no memory left are closed.
    for _ in 0..CONNECTIONS {
        let mut https = encrypted(from, (private.address, DOH).into(), &[ALPN_H2]);
        let _ = https.write_all(&posted);
        kept.push(Box::new(https));
    }
    // How many come in before there is no memory left is a matter of time.
    let share = server.metric("dns64d_stream_memory_limit_bytes") / 4;
    wait_for("more requests have arrived than fit", || {
        server.metric("dns64d_queries_stream_total") * 59_000 > 2 * share
    });
    kept
}

#[test]
fn one_network_leaves_memory_to_the_others() {
    let (script, private) = (Script::start(&[]), Private::new());
    let server = with_a_long_answer(&script, &private);
    let stranger = Ipv4Addr::new(127, 0, 0, 11);
    let mut kept = flood(stranger, &server, &private);
    let framed = client::frame(&Query::parse("long.example TXT").octets);
    for _ in 0..CONNECTIONS {
        let mut tcp = connect(stranger, server.address());
        let _ = tcp.write_all(&framed.repeat(QUERIES));
        kept.push(Box::new(tcp));
    }
    all_arrived(&server);
    // Other networks get all their answers.
    for n in 12..20 {
        let mut tcp = connect(Ipv4Addr::new(127, 0, 0, n), server.address());
        tcp.write_all(&framed.repeat(5)).expect("it has a place");
        for _ in 0..5 {
            let reply = client::read_frame(&mut tcp);
            let len = reply.map_or(0, |reply| reply.len());
            assert!(len > 59_000, "{n}: {len} octets: {}", server.log());
        }
    }
    let limit = server.metric("dns64d_stream_memory_limit_bytes");
    let used = server.metric("dns64d_stream_memory_bytes");
    assert!(used <= limit / 4 + (2 << 20), "{used} of {limit}");
    assert!(server.metric("dns64d_client_memory_refused_total") > 0);
    drop(kept);
}

#[test]
fn answers_that_nobody_reads_stay_within_the_memory() {
    let (script, private) = (Script::start(&[]), Private::new());
    let server = with_a_long_answer(&script, &private);
    let query = Query::parse("long.example TXT").octets;
    let framed = client::frame(&query).repeat(QUERIES);
    let clients = [11, 12, 13].map(|n| Ipv4Addr::new(127, 0, 0, n));
    let mut kept = flood(clients[2], &server, &private);
    for _ in 0..CONNECTIONS {
        let mut tcp = connect(clients[0], server.address());
        let _ = tcp.write_all(&framed);
        let mut tls = encrypted(clients[1], (private.address, DOT).into(), &[b"dot"]);
        let _ = tls.write_all(&framed);
        kept.extend([Box::new(tcp) as Box<dyn Write>, Box::new(tls)]);
    }
    all_arrived(&server);
    assert!(is_right(&server.ask("datagram.example AAAA")), "{}", server.log());
    let most = server.most_resident() >> 20;
    assert!(most <= 256, "{most} MiB of 256");
    assert!(server.metric("dns64d_stream_memory_bytes") > 8 << 20, "answers are under way");
    drop(kept);
    wait_for("the memory is free again", || server.metric("dns64d_stream_memory_bytes") < 1 << 20);
}

#[test]
fn connections_that_take_no_answers_give_way() {
    let (script, private) = (Script::start(&[]), Private::new());
    let limits = "tcp-connections = 4\ntcp-connections-per-client = 4";
    let server = with_a_long_answer_and(&script, &private, limits);
    let framed = client::frame(&Query::parse("long.example TXT").octets);
    let answered = || server.metric("dns64d_queries_stream_total");
    let mut kept = Vec::new();
    for n in 1..=4u8 {
        let (mut tcp, before) = (connect([127, 0, 0, n].into(), server.address()), answered());
        tcp.write_all(&framed.repeat(20)).expect("it has a place");
        wait_for("its queries arrive", || answered() >= before + 20);
        kept.push(tcp);
    }
    // None of them is idle: answers are under way on each.
    let ask = || {
        let mut tcp = connect([127, 0, 0, 9].into(), server.address());
        tcp.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        tcp.write_all(&client::frame(&Query::parse("friend.example A").octets)).ok()?;
        client::read_frame(&mut tcp)
    };
    wait_for("a client that reads has its answer", || ask().is_some());
    let displaced =
        server.metric("dns64d_connections_closed_total{transport=\"tcp\",reason=\"displaced\"}");
    assert!((1..=4).contains(&displaced), "{displaced} gave way");
    drop(kept);
}

#[test]
fn clients_come_in_where_others_of_their_network_have_its_memory() {
    let (script, private) = (Script::start(&[]), Private::new());
    let limits = "client-memory-share = 0.01\ntcp-connections-per-client = 1000";
    let server = with_a_long_answer_and(&script, &private, limits);
    let here = Ipv4Addr::LOCALHOST;
    let refused = "dns64d_connections_refused_total{transport=\"tcp\",reason=\"memory\"}";
    let displaced = "dns64d_connections_closed_total{transport=\"tcp\",reason=\"displaced\"}";
    let mut kept = Vec::new();
    wait_for("connections have the memory of their network", || {
        kept.push(connect(here, server.address()));
        server.metric(refused) + server.metric(displaced) > 0
    });
    // Until they may give way.
    std::thread::sleep(Duration::from_millis(500));
    let before = server.metric(displaced);
    for n in 1..=10 {
        let mut tcp = connect(here, server.address());
        tcp.write_all(&client::frame(&Query::parse("friend.example A").octets)).expect("a place");
        assert!(client::read_frame(&mut tcp).is_some(), "client {n} has its answer");
        kept.push(tcp);
    }
    wait_for("ten gave way", || server.metric(displaced) == before + 10);
}
