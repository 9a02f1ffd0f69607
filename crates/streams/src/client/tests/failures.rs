//! One query's failure is one query's: the others of its connection are answered, and each reason is named.

use engine::stream::StreamCode;

use super::exchanges::{carriages, palindrome, with_carriage};
use super::*;

/// Returns the messages whose tags are 1 to 20.
fn messages() -> Vec<Vec<u8>> {
    (1..=20).map(|tag| palindrome(tag, 40)).collect()
}

/// Runs the messages over each carriage against a server that fails as `plan` says.
fn against_fault(plan: &str, mut check: impl FnMut(&Carriage, Client, StreamCounts)) {
    for carriage in carriages() {
        let kind = carriage.clone();
        let plan = Some(plan.parse().unwrap());
        let (client, streams) = with_carriage(carriage, plan, |dialer, tls| {
            let tls = Some(tls(&ClientTls::default()));
            run_counted(Dialer { tls, ..dialer }, messages())
        });
        check(&kind, client, streams);
    }
}

#[test]
fn a_status_and_a_reset_end_one_query_each() {
    against_fault("status=503/10", |carriage, client, _| {
        let failed: Vec<_> = client.failed.iter().map(|(_, why)| *why).collect();
        let expected = match carriage {
            Carriage::Quic => vec![],
            _ => vec![QueryFailure::Status(503); 2],
        };
        assert_eq!(failed, expected, "{carriage:?}");
        assert_eq!((client.replies.len(), client.end), (20 - failed.len(), Some(End::Ordered)));
    });
    against_fault("reset/10", |carriage, client, _| {
        let code = match carriage {
            Carriage::Http2(_) => StreamCode::Http2(2),
            Carriage::Http3(_) => StreamCode::Http3(0x102),
            _ => StreamCode::Quic(1),
        };
        let failed: Vec<_> = client.failed.iter().map(|(_, why)| *why).collect();
        assert_eq!(failed, [QueryFailure::StreamReset(code); 2], "{carriage:?}");
        assert_eq!((client.replies.len(), client.end), (18, Some(End::Ordered)), "{carriage:?}");
    });
}

#[test]
fn a_refused_stream_is_opened_again_and_counted() {
    against_fault("refuse/10", |carriage, client, streams| {
        // Every tenth of 20 queries and of the two or so that were refused.
        let refused = if *carriage == Carriage::Quic { 0 } else { 2 };
        assert_eq!((client.replies.len(), streams.refused), (20, refused), "{carriage:?}");
    });
    against_fault("refuse/1", |carriage, client, streams| {
        if *carriage != Carriage::Quic {
            let failed: Vec<_> = client.failed.iter().map(|(_, why)| *why).collect();
            assert_eq!(failed, [QueryFailure::StreamRefused; 20], "{carriage:?}");
            assert_eq!(streams.refused, 20 * 7, "{carriage:?}");
        }
    });
}

#[test]
fn queries_beyond_the_streams_of_the_peer_wait_and_are_counted() {
    for carriage in carriages() {
        let name = format!("{carriage:?}");
        let messages: Vec<_> = (0..150).map(|tag| palindrome(tag, 40)).collect();
        let (client, streams) = with_carriage(carriage, None, |dialer, tls| {
            let tls = Some(tls(&ClientTls::default()));
            run_counted(Dialer { tls, write: WriteMode::Together, ..dialer }, messages.clone())
        });
        assert_eq!((client.replies.len(), client.failed.len()), (150, 0), "{name}");
        // The server takes 100 streams at a time.
        assert!((1..=50).contains(&streams.waited), "{name}: {streams:?}");
    }
}

#[test]
fn a_query_that_gets_no_stream_in_time_never_left() {
    for carriage in carriages() {
        let name = format!("{carriage:?}");
        let messages: Vec<_> = (0..150).map(|tag| palindrome(tag, SILENT)).collect();
        // The server takes 100 streams at a time.
        let client = Client { messages, silent: 100, ..Client::default() };
        let (client, streams) = with_carriage(carriage, None, |dialer, tls| {
            let tls = Some(tls(&ClientTls::default()));
            let query_timeout = Some(Duration::from_secs(2));
            let write = WriteMode::Together;
            run_client(Dialer { tls, query_timeout, write, ..dialer }, client)
        });
        assert_eq!((client.end, client.replies.len()), (Some(End::Ordered), 0), "{name}");
        let mut never_left = client.never_left;
        never_left.sort_unstable();
        assert_eq!(never_left, (100..150).collect::<Vec<u8>>(), "{name}: {streams:?}");
    }
}

#[test]
fn what_an_aborted_connection_has_not_written_never_left() {
    let aborted = |dialer| {
        let client = Client { messages: messages(), aborts: true, ..Client::default() };
        run_client(dialer, client).0
    };
    let mut all = vec![with_server(None, |address| aborted(Dialer::tcp(address)))];
    all.extend(carriages().into_iter().map(|carriage| {
        with_carriage(carriage, None, |dialer, tls| {
            aborted(Dialer { tls: Some(tls(&ClientTls::default())), ..dialer })
        })
    }));
    for client in all {
        assert_eq!((client.end, client.sent), (Some(End::Ordered), 0));
        assert_eq!(client.never_left, (1..=20).collect::<Vec<u8>>());
    }
}

#[test]
fn the_end_of_tls_without_a_notice_is_a_close_by_the_peer() {
    let identity = Authority::new().unwrap().identity(&["localhost"]).unwrap();
    let server = ServerTls::new(identity, &[ALPN_DOT], false).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut dialer = Dialer::tcp(listener.local_addr().unwrap());
    dialer.tls = Some(tls_dialer(
        &ClientTls { alpn: vec![ALPN_DOT.to_vec()], ..ClientTls::default() },
        "localhost",
    ));
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut session = rustls::ServerConnection::new(server.current()).unwrap();
        let mut frame = [0; 5];
        rustls::Stream::new(&mut session, &mut stream).read_exact(&mut frame).unwrap();
        rustls::Stream::new(&mut session, &mut stream).write_all(&frame).unwrap();
        // A FIN and no close_notify.
    });
    let client = Client { messages: vec![b"abc".to_vec()], stays_open: true, ..Client::default() };
    let mut engine = StreamEngine::new(vec![dialer], Mix::one(), 1, client).unwrap();
    engine.drive(WaitMode::Sleep, &AtomicBool::new(false)).unwrap();
    peer.join().unwrap();
    let client = engine.into_role();
    assert_eq!((client.replies, client.end), (vec![b"abc".to_vec()], Some(End::ByPeer)));
}

#[test]
fn queries_are_written_together_or_each_on_its_own() {
    for (write, writes) in [(WriteMode::Together, 1), (WriteMode::Each, 5)] {
        let messages: Vec<Vec<u8>> = (1..=5).map(|k| vec![k; 30]).collect();
        let client = Client { messages: messages.clone(), ..Client::default() };
        let (client, bytes) = with_server(None, |address| {
            let dialer = Dialer { write, ..Dialer::tcp(address) };
            let mut engine = StreamEngine::new(vec![dialer], Mix::one(), 1, client).unwrap();
            engine.drive(WaitMode::Sleep, &AtomicBool::new(false)).unwrap();
            let bytes = engine.bytes();
            (engine.into_role(), bytes)
        });
        assert_eq!((client.replies, bytes.writes), (messages, writes), "{write:?}");
    }
}
