//! Tests of the engine with servers of its own: success, and each kind of failure.

mod client;
mod exchanges;
mod failures;
mod going_away;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::stream::{End, Failure, Leaves, Mix, Opened, Orders, QueryFailure};
use engine::{Next, WaitMode};
use measure::Nanos;

use self::client::Client;
use super::*;
use crate::serve::{FaultPlan, Faults};
use crate::tcp::{self, Carried, Listener, TcpLimits};
use crate::tls::{ALPN_DOT, Authority, ClientTls, ServerTls, Verify};

fn run(dialer: Dialer, messages: Vec<Vec<u8>>) -> Client {
    run_counted(dialer, messages).0
}

/// Runs a client of `dialer`; returns also the outcomes of its streams.
fn run_counted(dialer: Dialer, messages: Vec<Vec<u8>>) -> (Client, StreamCounts) {
    run_client(dialer, Client { messages, ..Client::default() })
}

fn run_client(dialer: Dialer, client: Client) -> (Client, StreamCounts) {
    let mut engine = StreamEngine::new(vec![dialer], Mix::one(), 1, client).unwrap();
    engine.drive(WaitMode::Sleep, &AtomicBool::new(false)).unwrap();
    let streams = engine.streams();
    (engine.into_role(), streams)
}

/// Runs `client` while a server reverses the messages it gets, over TLS if configured.
fn with_server<T>(tls: Option<ServerTls>, client: impl FnOnce(SocketAddr) -> T) -> T {
    let listener = tcp::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let listener = match tls {
        None => Listener::Tcp(listener),
        Some(tls) => Listener::Tls(listener, tls),
    };
    with_listener(listener, None, || client(address))
}

/// Length of a message that the server never answers.
const SILENT: usize = 41;

/// Runs `client` while a server reverses the messages of `listener`.
///
/// The server fails as `plan` says.
fn with_listener<T>(listener: Listener, plan: Option<FaultPlan>, client: impl FnOnce() -> T) -> T {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let server = std::thread::spawn(move || {
        let reverse = |message: &[u8], _: Carried, reply: &mut Vec<u8>| {
            reply.extend(message.iter().rev());
            if message.len() == SILENT { Leaves::Never } else { Leaves::AtOnce }
        };
        let stop = || flag.load(Ordering::Relaxed);
        tcp::serve(vec![listener], TcpLimits::default(), reverse, Faults::new(plan), stop)
    });
    let result = client();
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap().unwrap();
    result
}

/// Runs a client of `dialer` against a peer that does `action` with its first connection.
fn against(
    action: impl FnOnce(TcpStream) + Send + 'static,
    change: impl FnOnce(&mut Dialer),
) -> Client {
    against_with(vec![b"abc".to_vec()], action, change)
}

/// As [`against`], with other messages.
fn against_with(
    messages: Vec<Vec<u8>>,
    action: impl FnOnce(TcpStream) + Send + 'static,
    change: impl FnOnce(&mut Dialer),
) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut dialer = Dialer::tcp(listener.local_addr().unwrap());
    change(&mut dialer);
    let peer = std::thread::spawn(move || action(listener.accept().unwrap().0));
    let client = run(dialer, messages);
    peer.join().unwrap();
    client
}

fn tls_dialer(tls: &ClientTls, name: &str) -> TlsDialer {
    let name = name.to_owned().try_into().unwrap();
    TlsDialer::new(tls, name).unwrap()
}

#[test]
fn messages_of_all_sizes_are_answered() {
    let messages: Vec<Vec<u8>> =
        [1, 65_535, 3, 40_000].iter().zip(1u8..).map(|(&n, k)| vec![k; n]).collect();
    let client = with_server(None, |address| run(Dialer::tcp(address), messages.clone()));
    assert!(client.replies == messages);
    assert_eq!((client.end, client.sent), (Some(End::Ordered), 1));
    assert!(client.opened.is_some_and(|how| !how.resumed && how.connect == how.handshake));
}

#[test]
fn tls_verifies_resumes_and_accepts_early_data() {
    let dir = std::env::temp_dir().join(format!("dnsdyno-streams-tls-{}", std::process::id()));
    Authority::new().unwrap().write(&dir, &["localhost", "127.0.0.1"]).unwrap();
    let files = (dir.join("server.pem"), dir.join("server.key"));
    let server = ServerTls::from_files(&files.0, &files.1, &[ALPN_DOT], true).unwrap();
    let verify = Verify::Authorities(dir.join("ca.pem"));
    let settings = ClientTls {
        verify,
        alpn: vec![ALPN_DOT.to_vec()],
        sessions: 10,
        early_data: true,
        ..ClientTls::default()
    };
    let messages = vec![b"abc".to_vec(), b"de".to_vec()];
    with_server(Some(server.clone()), |address| {
        let dialer = |tls| Dialer { tls: Some(tls), ..Dialer::tcp(address) };
        let good = dialer(tls_dialer(&settings, "localhost"));
        let (first, second) = (run(good.clone(), messages.clone()), run(good, messages.clone()));
        assert_eq!((first.replies.len(), second.replies.len()), (2, 2));
        let (first, second) = (first.opened.unwrap(), second.opened.unwrap());
        assert!(!first.resumed && !first.early_data && first.connect < first.handshake);
        assert!(second.resumed && second.early_data);

        let bad = |tls| run(dialer(tls), messages.clone()).end;
        let untrusted = Some(End::Failed(Failure::BadCertificate));
        assert_eq!(bad(tls_dialer(&settings, "example.com")), untrusted);
        // After a change of the authority, only clients that trust the new one succeed.
        Authority::new().unwrap().write(&dir, &["localhost"]).unwrap();
        assert_eq!(
            bad(tls_dialer(&ClientTls { sessions: 0, ..settings.clone() }, "localhost")),
            untrusted
        );
        server.reload().unwrap();
        let again = ClientTls { sessions: 0, early_data: false, ..settings.clone() };
        assert_eq!(bad(tls_dialer(&again, "localhost")), Some(End::Ordered));
        let odd = ClientTls { alpn: vec![b"odd".to_vec()], ..again };
        assert_eq!(bad(tls_dialer(&odd, "localhost")), Some(End::Failed(Failure::Handshake)));
    });
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A certificate as `openssl req -x509` makes it: an authority's own, and a server's.
#[test]
fn the_certificate_in_the_file_is_trusted_for_its_names_and_dates() {
    let dir = std::env::temp_dir().join(format!("dnsdyno-streams-own-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = |name: &str| dir.join(name);
    for (until, name, expected) in [
        (4096, "localhost", End::Ordered),
        (4096, "example.com", End::Failed(Failure::BadCertificate)),
        (2020, "localhost", End::Failed(Failure::BadCertificate)),
    ] {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        std::fs::write(path("own.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(path("own.key"), key.serialize_pem()).unwrap();
        let server =
            ServerTls::from_files(&path("own.pem"), &path("own.key"), &[ALPN_DOT], true).unwrap();
        let verify = Verify::Authorities(path("own.pem"));
        let settings = ClientTls { verify, alpn: vec![ALPN_DOT.to_vec()], ..ClientTls::default() };
        let client = with_server(Some(server), |address| {
            let tls = Some(tls_dialer(&settings, name));
            run(Dialer { tls, ..Dialer::tcp(address) }, vec![b"abc".to_vec()])
        });
        assert_eq!(client.end, Some(expected), "{name} until {until}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn each_failure_has_its_own_reason() {
    // A port without a listener.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = run(Dialer::tcp(free), vec![b"abc".to_vec()]);
    assert_eq!(refused.end, Some(End::Failed(Failure::Refused)));

    let end = |client: Client| client.end.unwrap();
    let reset = |stream: TcpStream| {
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    };
    assert_eq!(end(against(reset, |_| {})), End::Failed(Failure::Reset));
    let close_properly = |mut stream: TcpStream| {
        stream.read_exact(&mut [0; 5]).unwrap();
    };
    assert_eq!(end(against(close_properly, |_| {})), End::ByPeer);
    let half = |mut stream: TcpStream| {
        stream.read_exact(&mut [0; 5]).unwrap();
        stream.write_all(b"\0\x09half").unwrap();
    };
    assert_eq!(end(against(half, |_| {})), End::Failed(Failure::ClosedEarly));
    let long = |mut stream: TcpStream| {
        stream.read_exact(&mut [0; 5]).unwrap();
        stream.write_all(b"\x02\0").unwrap();
        // Until the peer stops reading.
        let _ = stream.read(&mut [0; 1]);
    };
    assert_eq!(end(against(long, |d| d.max_message = 511)), End::Failed(Failure::Oversized));
}

#[test]
fn a_proxy_header_is_sent_first() {
    let peer = |mut stream: TcpStream| {
        let mut header = [0; 16 + 12];
        stream.read_exact(&mut header).unwrap();
        assert_eq!(header[12..20], [0x21, 0x11, 0, 12, 192, 0, 2, 7]);
        let mut frame = [0; 5];
        stream.read_exact(&mut frame).unwrap();
        assert_eq!(frame, *b"\0\x03abc");
        stream.write_all(&frame).unwrap();
        let _ = stream.read(&mut frame);
    };
    let client = against(peer, |dialer| dialer.proxied = vec!["192.0.2.7".parse().unwrap()]);
    assert_eq!((client.replies, client.end), (vec![b"abc".to_vec()], Some(End::Ordered)));
}

#[test]
fn a_handshake_has_a_timeout_and_a_protocol() {
    let tls = |dialer: &mut Dialer| {
        dialer.tls = Some(tls_dialer(&ClientTls::default(), "localhost"));
    };
    let impatient = |dialer: &mut Dialer| {
        tls(dialer);
        dialer.timeout = Duration::from_millis(200);
    };
    let silent = |mut stream: TcpStream| {
        let _ = stream.read_to_end(&mut Vec::new());
    };
    assert_eq!(against(silent, impatient).end, Some(End::Failed(Failure::HandshakeStalled)));
    let other = |mut stream: TcpStream| {
        stream.write_all(b"220 mail.example.com ESMTP\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    };
    assert_eq!(against(other, tls).end, Some(End::Failed(Failure::Protocol)));
}
