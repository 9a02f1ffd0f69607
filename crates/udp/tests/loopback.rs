//! The UDP engine on real loopback sockets, with each offload on and off.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Destination, Echo, Engine, Next, Role, RxBatch, SocketId, TxBatch, WaitMode, drive};
use measure::Nanos;
use udp::{UdpEngine, UdpOptions, sources};

/// Sends `total` datagrams of varying length in bursts over all sockets, with a few outstanding, and checks
/// the echoes.
struct Caller {
    sockets: u16,
    total: u32,
    sent: u32,
    seen: Vec<bool>,
    answered: u32,
    started: Nanos,
}

impl Caller {
    fn len(k: u32) -> usize {
        // Runs of equal length with shorter ones between them, to get all shapes of segmented messages.
        if k.is_multiple_of(7) { 20 } else { 48 }
    }
}

impl Role for Caller {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        for received in rx.iter() {
            let k = u32::from_be_bytes(received.bytes[..4].try_into().expect("four bytes"));
            assert_eq!(received.bytes.len(), Self::len(k));
            assert!(received.bytes[4..].iter().all(|b| *b == k as u8), "bytes of {k}");
            assert_eq!(u32::from(received.socket.0), k / 16 % u32::from(self.sockets));
            assert!(
                received.at <= now && received.at >= self.started,
                "timestamp {:?} at {now:?}",
                received.at
            );
            assert!(!std::mem::replace(&mut self.seen[k as usize], true), "{k} twice");
            self.answered += 1;
        }
        while self.sent < self.total && self.sent < self.answered + 256 {
            let k = self.sent;
            let socket = SocketId((k / 16 % u32::from(self.sockets)) as u16);
            tx.push(Destination::Connected(socket), 64, |room| {
                room[..4].copy_from_slice(&k.to_be_bytes());
                room[4..Self::len(k)].fill(k as u8);
                Self::len(k)
            });
            self.sent += 1;
        }
        if self.answered == self.total { Next::Done } else { Next::Idle }
    }
}

fn exchange(listen: &str, target: &str, sockets: u16, options: UdpOptions) {
    let mut server =
        UdpEngine::server(&[listen.parse().expect("an address")], false, options).expect("listens");
    let port = server.local_address(SocketId(0)).expect("bound").port();
    let target: SocketAddr = SocketAddr::new(target.parse().expect("an address"), port);
    let stop = Arc::new(AtomicBool::new(false));
    let echo = {
        let stop = stop.clone();
        std::thread::spawn(move || {
            drive(&mut server, &mut Echo, WaitMode::Sleep, &stop).map(|_| server.counters())
        })
    };
    let from = if target.is_ipv4() { "127.0.0.1" } else { "::1" };
    let mut client = UdpEngine::client(
        target,
        &sources(&[from.parse().expect("an address")], usize::from(sockets)),
        options,
    )
    .expect("connects");
    let total = 5_000;
    let started = client.now();
    let mut caller =
        Caller { sockets, total, sent: 0, seen: vec![false; total as usize], answered: 0, started };
    drive(&mut client, &mut caller, WaitMode::Auto, &stop).expect("no errors on loopback");
    stop.store(true, Ordering::Relaxed);
    let served = echo.join().expect("no panic").expect("no errors on loopback");
    assert_eq!((served.received, served.sent), (u64::from(total), u64::from(total)));
    assert_eq!(client.counters().received, u64::from(total));
    assert_eq!(client.counters().dropped, 0);
}

#[test]
fn datagrams_are_exchanged_with_each_offload_on_and_off() {
    for bits in 0..8 {
        let options = UdpOptions {
            gso: bits & 1 != 0,
            gro: bits & 2 != 0,
            timestamps: bits & 4 != 0,
            ..UdpOptions::default()
        };
        exchange("127.0.0.1:0", "127.0.0.1", 1, options);
        exchange("[::1]:0", "::1", 5, options);
    }
}

#[test]
fn a_wildcard_bind_answers_from_the_destination_address() {
    exchange("0.0.0.0:0", "127.0.0.77", 3, UdpOptions::default());
    exchange("[::]:0", "::1", 1, UdpOptions::default());
}

#[test]
fn datagrams_are_exchanged_over_many_sockets() {
    exchange(
        "127.0.0.1:0",
        "127.0.0.1",
        200,
        UdpOptions { buffer: 1 << 16, ..UdpOptions::default() },
    );
}

#[test]
fn source_addresses_need_not_be_on_an_interface() {
    for (target, source) in [("127.0.0.1:9", "198.51.100.77:0"), ("[::1]:9", "[2001:db8::77]:0")] {
        let source: SocketAddr = source.parse().expect("an address");
        let target: SocketAddr = target.parse().expect("an address");
        match UdpEngine::client(target, &[source; 3], UdpOptions::default()) {
            Ok(client) => {
                let address = client.local_address(SocketId(2)).expect("bound");
                assert_eq!(address.ip(), source.ip());
            }
            // Without a route for the source the kernel may find no path, but binding always works.
            Err(e) => assert!(e.to_string().starts_with("cannot send to"), "{e}"),
        }
    }
}

#[test]
fn the_error_for_a_port_in_use_names_it() {
    let first = UdpEngine::server(
        &["127.0.0.1:0".parse().expect("an address")],
        false,
        UdpOptions::default(),
    )
    .expect("a free port");
    let address = first.local_address(SocketId(0)).expect("bound");
    let error = UdpEngine::server(&[address], false, UdpOptions::default())
        .err()
        .expect("occupied")
        .to_string();
    assert!(error.contains(&address.to_string()), "{error}");
}

#[test]
fn a_peer_without_a_listener_is_counted() {
    struct Once(u32);
    impl Role for Once {
        fn handle(&mut self, now: Nanos, _: &RxBatch, tx: &mut TxBatch) -> Next {
            self.0 += 1;
            tx.push(Destination::Connected(SocketId(0)), 1, |_| 1);
            if self.0 > 5 { Next::Done } else { Next::At(now + Nanos::from_millis(1)) }
        }
    }
    let target: SocketAddr = {
        let gone = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
        gone.local_addr().expect("bound")
    };
    let mut client = UdpEngine::client(
        target,
        &sources(&["127.0.0.1".parse().expect("an address")], 1),
        UdpOptions::default(),
    )
    .expect("connects");
    drive(&mut client, &mut Once(0), WaitMode::Sleep, &AtomicBool::new(false))
        .expect("refusals pass");
    assert!(client.counters().refused > 0);
}
