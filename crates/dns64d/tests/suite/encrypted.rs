//! Upstream over encrypted transports: which servers are trusted, the padding of queries, connections that end.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use domain::base::Message;
use domain::base::opt::Padding;
use engine::stream::Leaves;
use streams::serve::{self, Faults};
use streams::tcp::{self, Listener, TcpLimits};
use wire::message::question_end;

use crate::faults::{dns64d, ipv4_only, is_right, wait_for};
use crate::kit::script::Script;
use crate::kit::server::{Kind, Server};
use crate::private::{DOH, DOQ, DOT, Private};

/// Encrypted transports, and the port of a resolver for each.
const TRANSPORTS: [(&str, u16); 4] = [("tls", DOT), ("https", DOH), ("http3", DOH), ("quic", DOQ)];

/// Starts a dns64d that queries another server over a transport.
fn forwarder(upstream: SocketAddr, transport: &str, settings: &str) -> Server {
    let config = format!("[upstream]\ntransport = \"{transport}\"\n{settings}");
    Server::start(Kind::Dns64d, &[upstream], &config).expect("it starts")
}

/// Returns the settings for the certificate of upstream.
fn trusts(name: &str, authorities: &str) -> String {
    format!("tls-name = \"{name}\"\ntls-authorities = \"{authorities}\"\n")
}

/// Starts a resolver over all transports, which logs its answers: a dns64d that synthesises nothing.
fn resolver(script: &Script, private: &Private) -> Server {
    let config = "[synthesis]\nnever = [\".\"]\n[server]\nlog-queries = 1";
    dns64d(&[script], &format!("{}{config}", private.config()))
}

#[test]
fn upstream_is_queried_over_the_configured_transport_only() {
    let (script, private) = (ipv4_only(), Private::new());
    let upstream = resolver(&script, &private);
    let ca = private.path("ca.pem");
    let ways = TRANSPORTS.map(|(transport, port)| (transport, (private.address, port).into()));
    for (transport, address) in [("tcp", upstream.address())].into_iter().chain(ways) {
        for (kind, trust) in [
            ("named", trusts("dns.example", &ca)),
            ("address", trusts("", &ca)),
            ("any", trusts("other.example", "")),
        ] {
            let server = forwarder(address, transport, &trust);
            let name = format!("{kind}-{transport}.example");
            assert!(is_right(&server.ask(&format!("{name} AAAA"))), "{name}: {}", server.log());
            wait_for("the log", || {
                upstream.log().contains(&format!("transport={transport} name={name} type=A "))
            });
        }
    }
    assert!(!upstream.log().contains("transport=udp"), "{}", upstream.log());
}

#[test]
fn an_upstream_with_a_wrong_certificate_is_not_trusted() {
    let (script, private, stranger) = (ipv4_only(), Private::new(), Private::new());
    let _upstream = resolver(&script, &private);
    let wrong = [
        trusts("other.example", &private.path("ca.pem")),
        trusts("dns.example", &stranger.path("ca.pem")),
    ];
    for (transport, port) in TRANSPORTS {
        for trust in &wrong {
            let server = forwarder((private.address, port).into(), transport, trust);
            assert_eq!(server.ask("wrong.example AAAA").rcode, "SERVFAIL", "{transport}");
            wait_for("the reason in the log", || server.log().contains("no TLS with upstream"));
        }
    }
    assert!(script.asked().is_empty(), "no query was sent");
}

#[test]
fn an_upstream_that_ends_no_handshake_is_in_the_log() {
    let address = (std::net::Ipv4Addr::LOCALHOST, 0);
    let tcp = std::net::TcpListener::bind(address).expect("a port");
    let udp = std::net::UdpSocket::bind(address).expect("a port");
    let silent =
        [("tls", tcp.local_addr()), ("https", tcp.local_addr()), ("quic", udp.local_addr())];
    for (transport, upstream) in silent {
        let upstream = upstream.expect("an address");
        let server = forwarder(upstream, transport, "tcp-timeout = \"100ms\"");
        assert_eq!(server.ask("silent.example AAAA").rcode, "SERVFAIL", "{transport}");
        wait_for("the reason in the log", || server.log().contains("no TLS with upstream"));
    }
}

/// A server that has an A record for each name, over all transports.
struct Upstream {
    tcp: SocketAddr,
    quic: SocketAddr,
    queries: Arc<Mutex<Vec<Vec<u8>>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Upstream {
    /// Starts it with a fault, unless its plan is empty, and with or without TLS.
    fn start(private: &Private, fault: &str, encrypted: bool) -> Self {
        let tcp_socket = tcp::listen((private.address, 0).into()).expect("a port");
        let quic_socket = serve::listen((private.address, 0).into()).expect("a port");
        let (tcp, quic) = (tcp_socket.local_addr(), quic_socket.local_addr());
        let over_tcp = match encrypted {
            true => Listener::Tls(tcp_socket, private.server_tls(&[b"dot", b"h2"])),
            false => Listener::Tcp(tcp_socket),
        };
        let over_quic = Listener::Quic(quic_socket, private.server_tls(&[b"doq", b"h3"]));
        let plan = (!fault.is_empty()).then(|| fault.parse().expect(fault));
        let queries = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let stop = Arc::<AtomicBool>::default();
        let (seen, stopped) = (queries.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let answer = move |query: &[u8], _, reply: &mut Vec<u8>| {
                seen.lock().expect("no panic").push(query.to_vec());
                reply.extend(reply_to(query));
                Leaves::AtOnce
            };
            let (limits, faults) = (TcpLimits::default(), Faults::new(plan));
            let stop = move || stopped.load(Ordering::Relaxed);
            tcp::serve(vec![over_tcp, over_quic], limits, answer, faults, stop).expect("it serves");
        });
        let (tcp, quic) = (tcp.expect("an address"), quic.expect("an address"));
        Upstream { tcp, quic, queries, stop, thread: Some(thread) }
    }

    /// Returns its address for a transport.
    fn address(&self, transport: &str) -> SocketAddr {
        if ["quic", "http3"].contains(&transport) { self.quic } else { self.tcp }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("it runs").join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// Returns the reply to a query: an address for A, nothing for other types.
fn reply_to(query: &[u8]) -> Vec<u8> {
    let end = question_end(query).expect("a question");
    let is_a = query[end - 4..end - 2] == [0, 1];
    let mut reply = query[..end].to_vec();
    (reply[2], reply[3]) = (0x81, 0x80);
    reply[6..12].copy_from_slice(&[0, u8::from(is_a), 0, 0, 0, 0]);
    if is_a {
        reply.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x21");
    }
    reply
}

#[test]
fn encrypted_queries_are_padded() {
    let private = Private::new();
    for (transport, padded) in
        [("tcp", false), ("tls", true), ("https", true), ("http3", true), ("quic", true)]
    {
        let upstream = Upstream::start(&private, "", padded);
        let trust = trusts("dns.example", &private.path("ca.pem"));
        let server = forwarder(upstream.address(transport), transport, &trust);
        // Of all lengths around the end of a block.
        for len in (1..60).step_by(7) {
            let name = format!("{}.{}.example", "a".repeat(len), "b".repeat(40));
            assert!(is_right(&server.ask(&format!("{name} AAAA"))), "{}", server.log());
        }
        let queries = upstream.queries.lock().expect("no panic");
        assert_eq!(queries.len(), 2 * 9);
        for query in queries.iter() {
            let message = Message::from_octets(query).expect("a message");
            let options = message.opt().expect("it has EDNS");
            let paddings = options.opt().iter::<Padding<_>>().count();
            assert_eq!(paddings, usize::from(padded), "{transport}");
            assert!(!padded || query.len() % 128 == 0, "{transport}: {} octets", query.len());
            let has_own_stream = ["https", "http3", "quic"].contains(&transport);
            assert!(!has_own_stream || query[..2] == [0, 0], "RFC 8484 4.1, RFC 9250 4.2.1");
        }
    }
}

#[test]
fn queries_whose_stream_or_connection_ends_are_sent_again() {
    let private = Private::new();
    for (transport, fault, at_once) in [
        // One query for each connection; the rest goes to others.
        ("https", "goaway/1", 10),
        ("http3", "goaway/1", 10),
        ("tls", "close/2", 1),
        ("https", "close/2", 1),
        ("http3", "close/2", 1),
        ("quic", "close/2", 1),
        ("https", "refuse/2", 1),
        ("https", "reset/2", 1),
        ("quic", "reset/2", 1),
        ("https", "status=503/2", 1),
    ] {
        let upstream = Upstream::start(&private, fault, true);
        let trust = trusts("dns.example", &private.path("ca.pem"));
        // Each connection takes a handshake, which a busy machine makes long.
        let times = "give-up-after = \"30s\"\ntcp-timeout = \"30s\"\ntcp-connections = 2";
        let settings = format!("{trust}{times}");
        let server = forwarder(upstream.address(transport), transport, &settings);
        for round in 0..6 / at_once.min(6) {
            std::thread::scope(|scope| {
                for n in 0..at_once {
                    let server = &server;
                    scope.spawn(move || {
                        let reply = server.ask(&format!("ends-{round}-{n}.example AAAA"));
                        assert!(is_right(&reply), "{transport} {fault} {n}: {reply}");
                    });
                }
            });
        }
    }
}

#[test]
fn a_reload_changes_the_transport_at_once() {
    let private = Private::new();
    let upstream = Upstream::start(&private, "", true);
    let trust = trusts("dns.example", &private.path("ca.pem"));
    let server = forwarder(upstream.tcp, "tls", &trust);
    assert!(is_right(&server.ask("before.example AAAA")), "{}", server.log());
    server.reload(&[upstream.tcp], &format!("[upstream]\ntransport = \"https\"\n{trust}"));
    wait_for("the reload", || server.log().contains("read again"));
    assert!(is_right(&server.ask("after.example AAAA")), "{}", server.log());
    let queries = upstream.queries.lock().expect("no panic");
    let ids: Vec<&[u8]> = queries.iter().map(|query| &query[..2]).collect();
    assert_eq!(ids, [[0, 0], [0, 1], [0, 0], [0, 0]], "no ids over HTTPS");
}

#[test]
fn settings_of_encrypted_transports_are_checked() {
    let upstream = SocketAddr::from(([127, 0, 0, 1], 443));
    for (settings, says) in [
        ("https-path = \"dns-query\"", "https-path: `dns-query` is no path"),
        ("tls-name = \"a b\"", "tls-name: `a b` is no name"),
    ] {
        let config = format!("[upstream]\ntransport = \"https\"\n{settings}");
        let error = Server::start(Kind::Dns64d, &[upstream], &config).err();
        assert!(error.as_ref().is_some_and(|error| error.contains(says)), "{error:?}");
    }
}
