//! Places of connections: strangers take none, clients of one transport or network none of others', silent ones none for
//! long.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::base::iana::Rtype;
use socket2::{Domain, Socket, Type};
use streams::http::ALPN_H3;
use streams::strangers::send_initials;
use streams::tls::ALPN_DOQ;

use crate::faults::{A, SYNTHESISED, dns64d, ipv4_only, is_right, wait_for};
use crate::kit::client::{self, Query};
use crate::kit::server::Server;
use crate::private::{DOH, DOQ, DOT, Private, WAYS};

/// A client that is not permitted, and one that is.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);
const FRIEND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);

/// Connects from an address; `None` if the server refuses.
fn connect(from: Ipv4Addr, to: SocketAddr) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((from, 0)).into()).expect("loopback");
    socket.connect(&to.into()).ok()?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    Some(stream)
}

/// Sends a query on a connection; returns whether the right answer came.
fn asks(stream: &mut TcpStream, name: &str) -> bool {
    let query = Query::parse(&format!("{name} AAAA"));
    // It may be closed already.
    let sent = stream.write_all(&client::frame(&query.octets));
    let reply = sent.ok().and_then(|()| client::read_frame(stream));
    reply.is_some_and(|reply| is_right(&crate::kit::message::Reply::parse(&reply)))
}

/// Returns whether the server has closed a connection, without a timeout.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(len) => len == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

fn refused(server: &Server, transport: &str, reason: &str) -> u64 {
    let labels = format!("{{transport=\"{transport}\",reason=\"{reason}\"}}");
    server.metric(&format!("dns64d_connections_refused_total{labels}"))
}

#[test]
fn strangers_take_no_place_on_any_transport() {
    let (script, private) = (ipv4_only(), Private::new());
    let config = format!(
        "{}[server]\nallow = [\"{FRIEND}\"]\n[limits]\ntcp-connections = 8\ntcp-idle = \"1h\"",
        private.config()
    );
    let server = dns64d(&[&script], &config);
    let encrypted = [DOT, DOH].map(|port| SocketAddr::from((private.address, port)));
    let mut kept = Vec::new();
    for to in [&[server.address()][..], &encrypted].concat() {
        kept.extend((0..100).filter_map(|_| connect(STRANGER, to)));
    }
    for (port, alpn) in [(DOQ, ALPN_DOQ), (DOH, ALPN_H3)] {
        send_initials(STRANGER.into(), (private.address, port).into(), alpn, 0..100);
    }
    for transport in ["tcp", "tls", "https"] {
        wait_for("all strangers are refused", || refused(&server, transport, "client") == 100);
    }
    assert!(is_closed(&mut kept[0]), "a stranger's connection is open");
    let mut friend = connect(FRIEND, server.address()).expect("a place");
    assert!(asks(&mut friend, "friend.example"), "{}", server.log());
    for (way, port) in WAYS {
        let Some(answer) = private.kdig(port, &[way, "AAAA", "private.example"]) else { return };
        assert_eq!(answer, SYNTHESISED, "{way}: {}", server.log());
    }
    for transport in ["quic", "http3"] {
        wait_for("all strangers are refused", || refused(&server, transport, "client") > 50);
    }
}

#[test]
fn forged_first_packets_of_quic_take_no_place() {
    let (script, private) = (ipv4_only(), Private::new());
    let limits = "[limits]\ntcp-connections = 8\ntcp-idle = \"1h\"";
    let server = dns64d(&[&script], &format!("{}{limits}", private.config()));
    let to = SocketAddr::from((private.address, DOQ));
    // An attacker forges the addresses of permitted clients, each with a few ports.
    for n in 1..=20 {
        let from = IpAddr::from([127, 0, 1, n]);
        send_initials(from, to, ALPN_DOQ, u64::from(n) * 100..u64::from(n) * 100 + 20);
    }
    let Some(answer) = private.kdig(DOQ, &["+quic", "AAAA", "busy.example"]) else { return };
    assert_eq!(answer, SYNTHESISED, "{}", server.log());
    let retries = || server.metric("dns64d_retries_total{transport=\"quic\"}");
    assert!(retries() > 0, "no client had to show its address");
    assert!(server.metric("dns64d_connections_open{transport=\"quic\"}") <= 1);
    // Handshakes are limited in time: then nobody has to show its address any more.
    wait_for("the handshakes end", || {
        let before = retries();
        private.kdig(DOQ, &["+quic", "AAAA", "calm.example"]).as_deref() == Some(SYNTHESISED)
            && retries() == before
    });
}

/// Sets its flag when it is dropped, also by a panic.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_few_networks_with_all_places_leave_one_to_each_other() {
    let script = ipv4_only();
    script.others(Rtype::TXT, "silent");
    let limits =
        "[limits]\ntcp-connections = 30\ntcp-connections-per-client = 10\ntcp-idle = \"1h\"";
    let patient = "[upstream]\ngive-up-after = \"30s\"";
    let config = format!("server.allow = [\"127.0.0.0/8\"]\n{limits}\n{patient}");
    let server = dns64d(&[&script], &config);
    let (to, end) = (server.address(), AtomicBool::new(false));
    // Connections with a pending query, opened again as soon as they are closed.
    let hold = |network: u8| {
        let query = client::frame(&Query::parse(&format!("held-{network}.example TXT")).octets);
        let mut held: Vec<TcpStream> = Vec::new();
        while !end.load(Ordering::Relaxed) {
            let is_open = |stream: &TcpStream| {
                let waits = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
                stream.peek(&mut [0]).is_err_and(waits)
            };
            held.retain(is_open);
            if held.len() < 10
                && let Some(mut stream) = connect(Ipv4Addr::new(127, network, 0, 1), to)
                && stream.write_all(&query).is_ok()
                && stream.set_nonblocking(true).is_ok()
            {
                held.push(stream);
            }
        }
    };
    std::thread::scope(|scope| {
        for network in 1..=3 {
            let hold = &hold;
            scope.spawn(move || hold(network));
        }
        let _end = AtEnd(&end);
        wait_for("all places are taken", || {
            server.metric("dns64d_connections_open{transport=\"tcp\"}") == 30
        });
        let answered = (0..100).filter(|n| {
            let friend = connect(Ipv4Addr::new(127, 9, 0, 1), to);
            friend.is_some_and(|mut friend| asks(&mut friend, &format!("friend-{n}.example")))
        });
        assert_eq!(answered.count(), 100, "{}", server.log());
    });
}

#[test]
fn idle_connections_give_way_and_busy_ones_do_not() {
    let script = ipv4_only();
    script.on("held.example AAAA", "");
    script.on("held.example A", &format!("hold; {}", A.replace('$', "held.example")));
    let config = "limits.tcp-connections = 4\nlimits.tcp-idle = \"1h\"\n\
                  upstream.first-timeout = \"10s\"\nupstream.min-timeout = \"10s\"\n\
                  upstream.give-up-after = \"30s\"";
    let server = dns64d(&[&script], config);
    let mut busy = connect(FRIEND, server.address()).expect("a place");
    busy.write_all(&client::frame(&Query::parse("held.example AAAA").octets)).expect("writes");
    let mut idle: Vec<TcpStream> = (0..3)
        .map(|n| {
            let mut stream = connect(FRIEND, server.address()).expect("a place");
            assert!(asks(&mut stream, &format!("idle-{n}.example")));
            // The order in which they are idle.
            std::thread::sleep(Duration::from_millis(100));
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    assert!(asks(&mut idle[0], "again.example"), "it has its place");
    std::thread::sleep(Duration::from_millis(500));
    let mut new = connect(FRIEND, server.address()).expect("a place");
    assert!(asks(&mut new, "new.example"), "the idlest connection gives way");
    assert!(is_closed(&mut idle[1]), "the idlest is the second one");
    assert!(asks(&mut idle[0], "first.example") && asks(&mut idle[2], "third.example"));
    script.release();
    let reply = client::read_frame(&mut busy).expect("the answer");
    assert!(crate::kit::message::Reply::parse(&reply).rcode == "NOERROR");
    let closed = "dns64d_connections_closed_total{transport=\"tcp\",reason=\"displaced\"}";
    assert_eq!(server.metric(closed), 1);
}

#[test]
fn each_transport_and_each_network_has_its_own_places() {
    let (script, private) = (ipv4_only(), Private::new());
    script.set_silent(true);
    let limits = "[limits]\ntcp-connections = 6\ntcp-connections-per-client = 3\n\
                  [upstream]\nfirst-timeout = \"10s\"\nmin-timeout = \"10s\"\n\
                  give-up-after = \"30s\"";
    let server = dns64d(&[&script], &format!("{}{limits}", private.config()));
    let busy = |from: Ipv4Addr, name: &str| {
        let mut stream = connect(from, server.address()).expect("loopback");
        let query = client::frame(&Query::parse(&format!("{name}.example AAAA")).octets);
        stream.write_all(&query).expect("loopback");
        stream
    };
    let queries = || server.metric("dns64d_stream_queries_total{transport=\"tcp\"}");
    let mut kept: Vec<TcpStream> = (0..4).map(|n| busy(FRIEND, &format!("one-{n}"))).collect();
    wait_for("three of one network", || queries() == 3);
    wait_for("its fourth is refused", || refused(&server, "tcp", "network") == 1);
    kept.extend((0..3).map(|n| busy(Ipv4Addr::new(127, 0, 0, 2), &format!("two-{n}"))));
    wait_for("three of another one", || queries() == 6);
    kept.push(busy(Ipv4Addr::new(127, 0, 0, 3), "three"));
    // All places are taken, and all have pending queries.
    wait_for("a place of who has most", || queries() == 7);
    let displaced = "dns64d_connections_closed_total{transport=\"tcp\",reason=\"displaced\"}";
    assert_eq!((server.metric(displaced), refused(&server, "tcp", "full")), (1, 0));
    script.set_silent(false);
    for (way, port) in WAYS {
        let Some(answer) = private.kdig(port, &[way, "AAAA", "private.example"]) else { return };
        assert_eq!(answer, SYNTHESISED, "{way}: {}", server.log());
    }
}

#[test]
fn silent_handshakes_end_long_before_the_idle_time() {
    let (script, private) = (ipv4_only(), Private::new());
    let server = dns64d(&[&script], &format!("{}[limits]\ntcp-idle = \"1h\"", private.config()));
    let begun = [(DOT, "tls"), (DOH, "https")].map(|(port, transport)| {
        let to = SocketAddr::from((private.address, port));
        let mut silent = connect(FRIEND, to).expect("a place");
        // The first octets of a ClientHello.
        silent.write_all(&[0x16, 3, 1, 1, 0, 1]).expect("writes");
        (silent, transport)
    });
    for (mut silent, transport) in begun {
        assert!(is_closed(&mut silent), "{transport}");
        let failed = format!("dns64d_handshakes_failed_total{{transport=\"{transport}\"}}");
        wait_for("it is counted", || server.metric(&failed) == 1);
    }
}

#[test]
fn handshakes_have_a_quarter_of_the_places() {
    let (script, private) = (ipv4_only(), Private::new());
    let limits = "[limits]\ntcp-connections = 8\ntcp-connections-per-client = 8";
    let server = dns64d(&[&script], &format!("{}{limits}", private.config()));
    let to = SocketAddr::from((private.address, DOT));
    let silent: Vec<_> = (0..8).filter_map(|_| connect(FRIEND, to)).collect();
    assert_eq!(silent.len(), 8);
    wait_for("handshakes beyond two are refused or displaced", || {
        let displaced = "dns64d_connections_closed_total{transport=\"tls\",reason=\"displaced\"}";
        refused(&server, "tls", "handshakes") + server.metric(displaced) >= 6
    });
    std::thread::sleep(Duration::from_millis(500));
    let Some(answer) = private.kdig(DOT, &["+tls", "AAAA", "private.example"]) else { return };
    assert_eq!(answer, SYNTHESISED, "the oldest handshake gives way: {}", server.log());
}
