//! Round trips per second between a client and an echo server over loopback, one core each, by engine option.
//!
//! `cargo bench -p udp` measures; `cargo test` runs each benchmark once so that it keeps working.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use divan::Bencher;
use divan::counter::ItemsCount;

use engine::{Destination, Echo, Engine, Next, Role, RxBatch, SocketId, TxBatch, WaitMode, drive};
use measure::Nanos;
use udp::{UdpEngine, UdpOptions, sources, sys};

/// Number of round trips of one sample.
const ROUND_TRIPS: u32 = if cfg!(debug_assertions) { 2_000 } else { 200_000 };
/// Length of a datagram in bytes: a usual query.
const LEN: usize = 76;
/// Number of consecutive datagrams of one socket.
const RUN: u32 = 32;

/// The CPUs of the process, read before the first worker is pinned.
static CPUS: OnceLock<Vec<usize>> = OnceLock::new();

fn main() {
    divan::main();
}

/// Keeps `window` datagrams outstanding until `left` are sent, and waits for the rest.
struct Window {
    sockets: u16,
    window: u32,
    outstanding: u32,
    sent: u32,
    last: Nanos,
    total: u32,
}

impl Role for Window {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        if !rx.is_empty() {
            self.last = now;
        }
        let answered = rx.iter().filter(|r| r.bytes.len() == LEN).count() as u32;
        self.outstanding -= answered;
        while self.outstanding < self.window && self.sent < self.total {
            let socket = SocketId((self.sent / RUN % u32::from(self.sockets)) as u16);
            let k = self.sent;
            let pushed = tx.push(Destination::Connected(socket), LEN, |room| {
                room[..4].copy_from_slice(&k.to_be_bytes());
                LEN
            });
            if !pushed {
                return Next::Now;
            }
            self.sent += 1;
            self.outstanding += 1;
        }
        // A lost datagram must not hang the benchmark.
        if self.outstanding == 0 || now > self.last + Nanos::from_secs(1) {
            Next::Done
        } else {
            Next::At(now + Nanos::from_millis(100))
        }
    }
}

/// What is measured: all offloads on, or one of them off, and how the workers wait.
#[derive(Clone, Copy, Debug)]
enum Case {
    Offloads,
    NoGso,
    NoGro,
    Plain,
    PlainNoStamps,
    Sleep,
    Sockets16,
    Sockets200,
    Ipv6,
}

#[divan::bench(args = [Case::Offloads, Case::NoGso, Case::NoGro, Case::Plain, Case::PlainNoStamps, Case::Sleep, Case::Sockets16, Case::Sockets200, Case::Ipv6], sample_count = 3, sample_size = 1)]
fn round_trips(bencher: Bencher, case: Case) {
    let on = UdpOptions::default();
    let options = match case {
        Case::NoGso => UdpOptions { gso: false, ..on },
        Case::NoGro => UdpOptions { gro: false, ..on },
        Case::Plain => UdpOptions { gso: false, gro: false, ..on },
        Case::PlainNoStamps => UdpOptions { gso: false, gro: false, timestamps: false, ..on },
        Case::Offloads | Case::Sleep | Case::Sockets16 | Case::Sockets200 | Case::Ipv6 => on,
    };
    let mode = if matches!(case, Case::Sleep) { WaitMode::Sleep } else { WaitMode::Spin };
    let sockets = match case {
        Case::Sockets16 => 16,
        Case::Sockets200 => 200,
        _ => 1,
    };
    let host = if matches!(case, Case::Ipv6) { "::1" } else { "127.0.0.1" };
    let host: std::net::IpAddr = host.parse().expect("an address");
    let stop = AtomicBool::new(false);
    let serving = UdpOptions { timestamps: false, ..options };
    let mut server =
        UdpEngine::server(&[SocketAddr::new(host, 0)], false, serving).expect("a free port");
    let target = server.local_address(SocketId(0)).expect("bound");
    let mut client =
        UdpEngine::client(target, &sources(&[host], sockets), options).expect("connects");
    let cpus = CPUS.get_or_init(|| sys::allowed_cpus().expect("readable"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = sys::pin_to_cpus(&[*cpus.last().expect("one at least")]);
            drive(&mut server, &mut Echo, mode, &stop).expect("loopback works");
        });
        let _ = sys::pin_to_cpus(&cpus[..1]);
        bencher.counter(ItemsCount::new(ROUND_TRIPS)).bench_local(|| {
            let last = client.now();
            let mut role = Window {
                sockets: sockets as u16,
                window: 1_024,
                outstanding: 0,
                sent: 0,
                last,
                total: ROUND_TRIPS,
            };
            drive(&mut client, &mut role, mode, &AtomicBool::new(false)).expect("loopback works");
            assert_eq!(role.outstanding, 0, "{case:?}: {:?}", client.counters());
        });
        stop.store(true, Ordering::Relaxed);
    });
}
