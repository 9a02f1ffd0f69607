//! Benchmarks of the AuthDNS, from the bytes of a query to the bytes of its reply, in nanoseconds per reply.
//!
//! `cargo bench -p auth` measures; `cargo test` runs each benchmark once. The goal on the reference machine is
//! less than 100 ns per reply; the kernel takes about 500 ns more per reply.

use std::net::SocketAddr;

use auth::{AaaaPolicy, Auth, AuthConfig, MAX_REPLY};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use engine::{Role, RxBatch, SocketId, TxBatch};
use measure::Nanos;
use wire::{Edns, Name, Namespace, Qtype, QueryTemplate};

/// Number of replies in one sample.
const QUERIES: usize = if cfg!(debug_assertions) { 256 } else { 65_536 };
/// Number of datagrams in a receive batch.
const BATCH: usize = 64;

fn main() {
    divan::main();
}

/// The kind of the queries.
#[derive(Clone, Copy, Debug)]
enum QueryKind {
    Address,
    AddressEdns,
    Embedded,
    NoData,
    Missing,
    Pointer,
    Elsewhere,
}

const KINDS: [QueryKind; 7] = [
    QueryKind::Address,
    QueryKind::AddressEdns,
    QueryKind::Embedded,
    QueryKind::NoData,
    QueryKind::Missing,
    QueryKind::Pointer,
    QueryKind::Elsewhere,
];

fn auth(kind: QueryKind) -> Auth {
    let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix"));
    let always = matches!(kind, QueryKind::Embedded);
    let aaaa = if always { AaaaPolicy::Always } else { AaaaPolicy::Never };
    Auth::new(AuthConfig { aaaa, ..AuthConfig::new(namespace) })
}

/// Returns queries for different names.
fn queries(kind: QueryKind) -> Vec<Vec<u8>> {
    (0..1_024u32)
        .map(|i| {
            let [a, b] = [i / 256, i % 256];
            let host = format!("010-{a:03}-{b:03}-007.dns64perf.test");
            let (name, qtype) = match kind {
                QueryKind::Address | QueryKind::AddressEdns => (host, Qtype::A),
                QueryKind::Embedded | QueryKind::NoData => (host, Qtype::AAAA),
                QueryKind::Missing => (format!("x{i}.dns64perf.test"), Qtype::A),
                QueryKind::Pointer => (format!("7.{b}.{a}.10.in-addr.arpa"), Qtype::PTR),
                QueryKind::Elsewhere => (format!("x{i}.example.com"), Qtype::A),
            };
            let edns = matches!(kind, QueryKind::AddressEdns).then(Edns::default);
            let name: Name = name.parse().expect("a name");
            QueryTemplate::new(&name, qtype, true, false, edns.as_ref()).bytes().to_vec()
        })
        .collect()
}

/// Measures the reply to one message.
#[divan::bench(args = KINDS)]
fn answer(bencher: Bencher<'_, '_>, kind: QueryKind) {
    let (mut auth, queries) = (auth(kind), queries(kind));
    let mut out = [0; MAX_REPLY];
    bencher.counter(ItemsCount::new(QUERIES)).bench_local(|| {
        for query in queries.iter().cycle().take(QUERIES) {
            black_box(auth.answer(black_box(query), &mut out));
        }
    });
}

/// Measures the role with a delay of 20 ms, at 500,000 queries per second: 10,000 replies wait.
#[divan::bench(args = [QueryKind::Address, QueryKind::Missing])]
fn handle_delayed(bencher: Bencher<'_, '_>, kind: QueryKind) {
    let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix"));
    let delay = Nanos::from_millis(20);
    let mut auth = Auth::new(AuthConfig { delay, ..AuthConfig::new(namespace) });
    let (peer, queries) = (SocketAddr::from(([127, 0, 0, 1], 5_000)), queries(kind));
    let mut rx = RxBatch::new(BATCH, 512);
    let mut tx = TxBatch::new(4_096, 8 << 20, 64);
    let mut now = Nanos::ZERO;
    bencher.counter(ItemsCount::new(QUERIES)).bench_local(|| {
        for queries in queries.chunks(BATCH).cycle().take(QUERIES / BATCH) {
            rx.clear();
            tx.clear();
            now += Nanos(2_000 * BATCH as u64);
            for query in queries {
                assert!(rx.put(SocketId(0), peer, now, query));
            }
            auth.handle(now, black_box(&rx), &mut tx);
            black_box(&tx);
        }
    });
    assert_eq!(auth.counters().overflow, 0);
}

/// Measures the role, from a receive batch to a send batch.
#[divan::bench(args = KINDS)]
fn handle(bencher: Bencher<'_, '_>, kind: QueryKind) {
    let mut auth = auth(kind);
    let peer = SocketAddr::from(([127, 0, 0, 1], 5_000));
    let batches: Vec<RxBatch> = queries(kind)
        .chunks(BATCH)
        .map(|queries| {
            let mut rx = RxBatch::new(BATCH, 512);
            for query in queries {
                assert!(rx.put(SocketId(0), peer, Nanos::ZERO, query));
            }
            rx
        })
        .collect();
    let mut tx = TxBatch::new(4_096, 8 << 20, 64);
    bencher.counter(ItemsCount::new(QUERIES)).bench_local(|| {
        for rx in batches.iter().cycle().take(QUERIES / BATCH) {
            tx.clear();
            auth.handle(Nanos::ZERO, black_box(rx), &mut tx);
            black_box(&tx);
        }
    });
}
