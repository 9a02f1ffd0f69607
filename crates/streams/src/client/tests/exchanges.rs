//! Tests of HTTP/2, and of QUIC and HTTP/3 as far as they are built.

use super::*;
use measure::HttpMethod;

use crate::http::{ALPN_H2, ALPN_H3, PATH, Resource};
use crate::serve;
use crate::tls::ALPN_DOQ;

/// Makes a message that equals its reversal after its tag.
pub(super) fn palindrome(tag: u8, len: usize) -> Vec<u8> {
    let mut message = vec![tag; len];
    message[len - 2..].fill(0);
    message
}

pub(super) fn resource(method: HttpMethod) -> Resource {
    Resource { authority: "localhost".into(), path: PATH.into(), method }
}

/// Returns the transports with a stream for each query.
pub(super) fn carriages() -> Vec<Carriage> {
    let all = [
        Carriage::Http2(resource(HttpMethod::Get)),
        Carriage::Http2(resource(HttpMethod::Post)),
        Carriage::Quic,
        Carriage::Http3(resource(HttpMethod::Get)),
        Carriage::Http3(resource(HttpMethod::Post)),
    ];
    all.into_iter().filter(|carriage| cfg!(feature = "quic") || !carriage.is_quic()).collect()
}

/// Returns the protocols to negotiate for `carriage`.
fn alpn(carriage: &Carriage) -> &'static [&'static [u8]] {
    match carriage {
        Carriage::Http2(_) => &[ALPN_H2],
        Carriage::Http3(_) => &[ALPN_H3],
        _ => &[ALPN_DOQ],
    }
}

/// Runs `client` against a server of `carriage`, with a dialer for it.
pub(super) fn with_carriage<T>(
    carriage: Carriage,
    plan: Option<FaultPlan>,
    client: impl FnOnce(Dialer, &dyn Fn(&ClientTls) -> TlsDialer) -> T,
) -> T {
    let identity = Authority::new().unwrap().identity(&["localhost"]).unwrap();
    let alpn = alpn(&carriage);
    let server = ServerTls::new(identity, alpn, true).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let (listener, address) = if carriage.is_quic() {
        let socket = serve::listen(any).unwrap();
        let address = socket.local_addr().unwrap();
        (Listener::Quic(socket, server), address)
    } else {
        let socket = tcp::listen(any).unwrap();
        let address = socket.local_addr().unwrap();
        (Listener::Tls(socket, server), address)
    };
    let dialer = Dialer { carriage, ..Dialer::tcp(address) };
    let tls = |settings: &ClientTls| {
        let alpn = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        tls_dialer(&ClientTls { alpn, ..settings.clone() }, "localhost")
    };
    with_listener(listener, plan, || client(dialer, &tls))
}

#[test]
fn replies_are_related_to_their_queries() {
    for carriage in carriages() {
        let name = format!("{carriage:?}");
        let messages: Vec<_> =
            (1..).zip([4, 1_000, 3_000, 5, 6]).map(|(tag, len)| palindrome(tag, len)).collect();
        let client = with_carriage(carriage, None, |dialer, tls| {
            let tls = Some(tls(&ClientTls::default()));
            run(Dialer { tls, ..dialer }, messages.clone())
        });
        let mut replies = client.replies;
        replies.sort();
        assert!(replies == messages, "{name}: {:?}", client.end);
        assert_eq!((client.end, client.sent), (Some(End::Ordered), 1), "{name}");
        assert!(client.opened.is_some_and(|how| !how.resumed && how.handshake > Nanos(0)));
    }
}

#[test]
fn sessions_are_resumed_and_early_data_is_accepted() {
    for carriage in carriages() {
        let name = format!("{carriage:?}");
        with_carriage(carriage, None, |dialer, tls| {
            for early_data in [false, true] {
                let settings = ClientTls { sessions: 10, early_data, ..ClientTls::default() };
                let dialer = Dialer { tls: Some(tls(&settings)), ..dialer.clone() };
                let kinds: Vec<_> = (0..3)
                    .map(|_| {
                        let client = run(dialer.clone(), vec![palindrome(1, 9)]);
                        assert_eq!(client.replies.len(), 1, "{name}: {:?}", client.end);
                        client.opened.map(|how| (how.resumed, how.early_data)).unwrap()
                    })
                    .collect();
                let expected = [(false, false), (true, early_data), (true, early_data)];
                assert_eq!(kinds, expected, "{name}");
            }
        });
    }
}

#[test]
fn failures_are_named() {
    for carriage in carriages() {
        let name = format!("{carriage:?}");
        with_carriage(carriage, None, |dialer, tls| {
            let end = |dialer| run(dialer, vec![palindrome(1, 900)]).end;
            let tls = |settings: &ClientTls| Some(tls(settings));
            let dir = tempdir();
            Authority::new().unwrap().write(&dir, &["localhost"]).unwrap();
            let verify = Verify::Authorities(dir.join("ca.pem"));
            let stranger = tls(&ClientTls { verify, ..ClientTls::default() });
            std::fs::remove_dir_all(&dir).unwrap();
            let untrusted = Dialer { tls: stranger, ..dialer.clone() };
            assert_eq!(end(untrusted), Some(End::Failed(Failure::BadCertificate)), "{name}");

            let mut odd = ClientTls { alpn: vec![b"odd".to_vec()], ..ClientTls::default() };
            let odd_dialer = tls_dialer(&odd, "localhost");
            let odd_dialer = Dialer { tls: Some(odd_dialer), ..dialer.clone() };
            assert_eq!(end(odd_dialer), Some(End::Failed(Failure::Handshake)), "{name}");

            odd.alpn.clear();
            let tls = tls(&odd);
            let long = Dialer { tls: tls.clone(), max_message: 512, ..dialer.clone() };
            let failed = |dialer| {
                let client = run(dialer, vec![palindrome(1, 900)]);
                assert_eq!(client.end, Some(End::Ordered), "{name}");
                client.failed
            };
            assert_eq!(failed(long), [(1, QueryFailure::Oversized)], "{name}");
            let mut elsewhere = Dialer { tls, ..dialer.clone() };
            if let Carriage::Http2(resource) | Carriage::Http3(resource) = &mut elsewhere.carriage {
                resource.path = "/elsewhere".into();
                assert_eq!(failed(elsewhere), [(1, QueryFailure::Status(404))], "{name}");
            }
        });
    }
}

fn tempdir() -> std::path::PathBuf {
    use std::sync::atomic::AtomicU32;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("dnsdyno-streams-exchanges-{}-{next}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[cfg(not(feature = "quic"))]
#[test]
fn a_build_without_quic_says_so() {
    let any = "127.0.0.1:0".parse().unwrap();
    let mut dialer = Dialer::tcp(any);
    dialer.carriage = Carriage::Quic;
    let settings = ClientTls { alpn: vec![ALPN_DOQ.to_vec()], ..ClientTls::default() };
    dialer.tls = Some(tls_dialer(&settings, "localhost"));
    for error in [serve::listen(any).map(drop), dialer.endpoints(1).map(drop)] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("the feature `quic`"), "{error}");
    }
}

#[cfg(feature = "quic")]
#[test]
fn a_silent_quic_peer_runs_into_the_timeout() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut dialer = Dialer::tcp(socket.local_addr().unwrap());
    let settings = ClientTls { alpn: vec![ALPN_DOQ.to_vec()], ..ClientTls::default() };
    dialer.carriage = Carriage::Quic;
    dialer.tls = Some(tls_dialer(&settings, "localhost"));
    dialer.timeout = Duration::from_millis(200);
    let end = run(dialer, vec![palindrome(1, 9)]).end;
    assert_eq!(end, Some(End::Failed(Failure::HandshakeStalled)));
}
