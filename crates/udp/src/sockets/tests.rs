//! Tests with access to the engine's internals: shapes of messages, and the fallback when the kernel refuses
//! segmentation.

use std::net::{IpAddr, SocketAddr};

use measure::Nanos;

use engine::batch::Destination;
use engine::{Engine, RxBatch, SocketId, TxBatch, Wait, clock};

use crate::*;

/// Makes a listening engine and a connected one for it, over `host`.
fn pair(host: &str, sockets: usize, options: UdpOptions) -> (UdpEngine, UdpEngine) {
    let host: IpAddr = host.parse().unwrap();
    let server = UdpEngine::server(&[SocketAddr::new(host, 0)], false, options).unwrap();
    let target = server.local_address(SocketId(0)).unwrap();
    let client = UdpEngine::client(target, &sources(&[host], sockets), options).unwrap();
    (server, client)
}

/// Adds datagrams of these lengths to the peer of the first socket, filled with their number.
fn push(tx: &mut TxBatch, lens: &[usize]) {
    for (k, &len) in lens.iter().enumerate() {
        let pushed = tx.push(Destination::Connected(SocketId(0)), len, |room| {
            room.fill(k as u8);
            len
        });
        assert!(pushed);
    }
}

/// Receives until `count` datagrams have arrived; checks their bytes and returns their lengths.
fn receive(engine: &mut UdpEngine, rx: &mut RxBatch, count: usize) -> Vec<usize> {
    let mut lens = Vec::new();
    while lens.len() < count {
        engine.receive(rx, Wait::Until(engine_deadline())).unwrap();
        assert!(!rx.is_empty(), "{} of {count} arrived", lens.len());
        for r in rx.iter() {
            assert!(r.bytes.iter().all(|&b| b == lens.len() as u8), "{:?}", r.bytes);
            lens.push(r.bytes.len());
        }
    }
    lens
}

/// Returns a generous deadline for loopback.
fn engine_deadline() -> Nanos {
    clock::monotonic() + Nanos::from_secs(10)
}

#[test]
fn segments_arrive_unchanged_also_short_ones() {
    let lens = [76, 76, 76, 40, 1_232, 1_232, 5, 4_000, 4_000, 76];
    for host in ["127.0.0.1", "::1"] {
        let (mut server, mut client) = pair(host, 1, UdpOptions::default());
        let (mut rx, mut tx) = client.batches();
        push(&mut tx, &lens);
        let facts = client.facts();
        if facts.gso {
            // Long datagrams are not joined: the kernel refuses segments beyond the MTU.
            let shape: Vec<_> = tx.messages().iter().map(|m| m.segments).collect();
            assert_eq!(shape, [4, 3, 1, 1, 1]);
        }
        client.send(&mut tx).unwrap();
        assert!(tx.is_empty());
        assert_eq!(receive(&mut server, &mut rx, lens.len()), lens);
        assert_eq!((client.counters().sent, server.counters().received), (10, 10));
        assert_eq!(client.counters().send_calls, 1);
        assert_eq!(client.facts(), facts, "all offloads are still on");
    }
}

#[test]
fn failing_segmentation_is_switched_off_and_all_is_sent() {
    for host in ["127.0.0.1", "::1"] {
        let (mut server, mut client) = pair(host, 1, UdpOptions::default());
        if !client.facts().gso {
            continue;
        }
        // Segmentation needs checksums: without them the kernel answers EINVAL or EIO.
        client.sockets[0].set(libc::SOL_SOCKET, libc::SO_NO_CHECK, 1);
        if host == "::1" {
            client.sockets[0].set(libc::SOL_UDP, libc::UDP_NO_CHECK6_TX, 1);
            server.sockets[0].set(libc::SOL_UDP, libc::UDP_NO_CHECK6_RX, 1);
        }
        let (mut rx, mut tx) = client.batches();
        let lens = [60, 60, 20, 70, 70, 70, 70, 7];
        for round in 0..2 {
            push(&mut tx, &lens);
            client.send(&mut tx).unwrap();
            assert_eq!(receive(&mut server, &mut rx, lens.len()), lens, "round {round}");
        }
        assert!(!client.facts().gso);
        assert_eq!((client.counters().sent, client.counters().send_errors), (16, 0));
        push(&mut tx, &lens);
        assert!(!tx.messages().is_empty());
        assert!(tx.messages().iter().all(|m| m.segments == 1), "no more segmented messages");
    }
}

#[test]
fn a_bad_destination_drops_only_its_own_datagrams() {
    let (mut server, _) = pair("127.0.0.1", 1, UdpOptions::default());
    let own = server.local_address(SocketId(0)).unwrap();
    let (mut rx, mut tx) = server.batches();
    let gso = server.facts().gso;
    // The kernel refuses port 0 with EINVAL, as a device without segmentation might.
    let nowhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    for (k, peer) in [own, nowhere, nowhere, nowhere, own, nowhere, own].into_iter().enumerate() {
        let to = Destination::Peer { socket: SocketId(0), peer, from: None };
        let number = [0, 9, 9, 9, 1, 9, 2][k];
        assert!(tx.push(to, 10, |room| {
            room.fill(number);
            10
        }));
    }
    server.send(&mut tx).unwrap();
    assert_eq!(receive(&mut server, &mut rx, 3), [10, 10, 10]);
    assert_eq!((server.counters().sent, server.counters().send_errors), (3, 4));
    assert_eq!(server.facts().gso, gso, "segmentation was not the cause");
}

#[test]
fn drops_are_counted_immediately() {
    let small = UdpOptions { buffer: 1, ..UdpOptions::default() };
    let (server, mut client) = pair("127.0.0.1", 1, small);
    assert!(server.facts().drop_counts, "SO_MEMINFO exists since Linux 4.12");
    let (_, mut tx) = client.batches();
    for _ in 0..100 {
        push(&mut tx, &[1_000]);
        client.send(&mut tx).unwrap();
    }
    let dropped = server.counters().dropped;
    assert!(dropped > 0 && dropped < 100, "{dropped} of 100");
}

#[test]
fn few_or_many_sockets_none_is_starved() {
    for (sockets, old_kernel) in [(3, false), (20, false), (20, true)] {
        let (mut server, mut client) = pair("127.0.0.1", sockets, UdpOptions::default());
        assert_eq!(client.facts().epoll, sockets > 4);
        if old_kernel {
            client.ready.without_pwait2();
        }
        let (mut rx, mut tx) = client.batches();
        let peers: Vec<_> =
            (0..sockets as u16).map(|s| client.local_address(SocketId(s)).unwrap()).collect();
        // The first socket gets many more datagrams than a batch holds, as single messages; the others get
        // one each.
        let flood = 4 * rx.slots();
        for k in 0..flood + sockets - 1 {
            let peer = peers[k.saturating_sub(flood - 1)];
            let to = Destination::Peer { socket: SocketId(0), peer, from: None };
            assert!(tx.push(to, 2_000, |room| room.len() - 1 - k % 2));
        }
        server.send(&mut tx).unwrap();
        let mut seen = vec![0; sockets];
        let mut others_at = 0;
        for batch in 0.. {
            client.receive(&mut rx, Wait::Until(engine_deadline())).unwrap();
            assert!(!rx.is_empty(), "{seen:?}");
            for r in rx.iter() {
                seen[usize::from(r.socket.0)] += 1;
            }
            if others_at == 0 && seen[1..].iter().all(|&n| n == 1) {
                others_at = batch;
            }
            if seen[0] == flood && seen[1..].iter().all(|&n| n == 1) {
                break;
            }
        }
        assert!(others_at <= 2, "the flooded socket came first {others_at} times");
        let now = client.now();
        client.receive(&mut rx, Wait::Until(now + Nanos(1_000))).unwrap();
        assert!(rx.is_empty() && client.now() >= now + Nanos(1_000));
    }
}

#[test]
fn a_port_shared_with_another_process_is_refused() {
    let any = "127.0.0.1:0".parse().unwrap();
    let servers = |listen: &[SocketAddr], workers| {
        UdpEngine::servers(listen, workers, UdpOptions::default(), &|_| Ok(()), true, Vec::new())
    };
    let workers = servers(&[any, "[::1]:0".parse().unwrap()], 3).unwrap();
    let address = |w: &UdpEngine| w.local_address(SocketId(0)).unwrap();
    assert!(workers.iter().all(|w| w.facts().sockets == 2 && address(w) == address(&workers[0])));
    let taken = servers(&[address(&workers[0])], 2);
    let error = taken.err().expect("the port is in use").to_string();
    assert!(
        error.contains(&address(&workers[0]).to_string()) && error.contains("ss -lptun"),
        "{error}"
    );
}

#[test]
fn listening_and_connected_sockets_share_an_engine() {
    let (mut upstream, mut proxy) = pair("127.0.0.1", 2, UdpOptions::default());
    let listening = proxy.listen("0.0.0.0:0".parse().unwrap(), false).unwrap();
    assert_eq!(listening, SocketId(2));
    let port = proxy.local_address(listening).unwrap().port();
    let target = SocketAddr::from(([127, 0, 0, 9], port));
    let mut client =
        UdpEngine::client(target, &["127.0.0.1:0".parse().unwrap()], UdpOptions::default())
            .unwrap();
    let (mut rx, mut tx) = proxy.batches();
    let pass = |from: &mut UdpEngine, rx: &mut RxBatch, expected: &[u8]| {
        from.receive(rx, Wait::Until(engine_deadline())).unwrap();
        let r = rx.iter().next().expect("one datagram");
        assert_eq!(r.bytes, expected);
        (r.socket, r.to, Destination::reply_to(&r))
    };
    let mut say = |engine: &mut UdpEngine, to: Destination, bytes: &[u8]| {
        tx.push(to, bytes.len(), |room| {
            room.copy_from_slice(bytes);
            bytes.len()
        });
        engine.send(&mut tx).unwrap();
    };
    say(&mut client, Destination::Connected(SocketId(0)), b"query");
    let (socket, destination, back) = pass(&mut proxy, &mut rx, b"query");
    assert_eq!((socket, destination), (listening, Some(target.ip())));
    say(&mut proxy, Destination::Connected(SocketId(1)), b"to upstream");
    let (_, destination, up) = pass(&mut upstream, &mut rx, b"to upstream");
    assert_eq!(destination, None, "not a wildcard socket");
    say(&mut upstream, up, b"answer");
    assert_eq!(pass(&mut proxy, &mut rx, b"answer").0, SocketId(1));
    say(&mut proxy, back, b"reply");
    pass(&mut client, &mut rx, b"reply");
}

#[test]
fn a_doorbell_ends_a_wait_and_a_replaced_socket_receives() {
    for others in [0, 8] {
        let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut engine =
            UdpEngine::client(target, &vec![any; 1 + others], UdpOptions::default()).unwrap();
        let bell = engine.doorbell().unwrap();
        assert!(!engine.was_rung());
        let ringer = bell.clone();
        let ringing = std::thread::spawn(move || ringer.ring());
        let (mut rx, mut tx) = engine.batches();
        let long = engine.now() + Nanos::from_secs(20);
        while !engine.was_rung() {
            engine.receive(&mut rx, Wait::Until(long)).unwrap();
        }
        ringing.join().unwrap();
        assert!(engine.now() < long && rx.is_empty() && !engine.was_rung());

        let before = engine.local_address(SocketId(0)).unwrap();
        engine.replace(SocketId(0), target, any, &|_| Ok(())).unwrap();
        let after = engine.local_address(SocketId(0)).unwrap();
        assert_ne!(before, after);
        tx.push(Destination::Connected(SocketId(0)), 4, |room| {
            room.copy_from_slice(b"ping");
            4
        });
        engine.send(&mut tx).unwrap();
        let mut room = [0; 16];
        let (len, peer) = server.recv_from(&mut room).unwrap();
        assert_eq!((&room[..len], peer), (&b"ping"[..], after));
        server.send_to(b"pong", peer).unwrap();
        while rx.is_empty() {
            engine.receive(&mut rx, Wait::Until(long)).unwrap();
        }
        assert_eq!(
            rx.iter().next().map(|r| (r.socket, r.bytes)),
            Some((SocketId(0), &b"pong"[..]))
        );
    }
}
