//! What a reply costs the AuthDNS, from the bytes of a query to the bytes of its reply: ns per reply.
//!
//! `cargo bench -p auth` measures; `cargo test` runs each once so that it never rots. The goal on the
//! reference machine is below 100 ns a reply; the kernel takes some 500 ns more of a core for each.

use std::net::SocketAddr;

use auth::{AaaaPolicy, Auth, AuthConfig, MAX_REPLY};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use engine::{Role, RxBatch, SocketId, TxBatch};
use measure::Nanos;
use wire::{Edns, Name, Namespace, Qtype, QueryTemplate};

/// Replies of one sample.
const QUERIES: usize = if cfg!(debug_assertions) { 256 } else { 65_536 };
/// Datagrams of a receive batch.
const BATCH: usize = 64;

fn main() {
    divan::main();
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Address,
    AddressEdns,
    Embedded,
    NoData,
    Missing,
    Pointer,
    Elsewhere,
}

const ASKED: [Asked; 7] = [
    Asked::Address,
    Asked::AddressEdns,
    Asked::Embedded,
    Asked::NoData,
    Asked::Missing,
    Asked::Pointer,
    Asked::Elsewhere,
];

fn auth(asked: Asked) -> Auth {
    let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix"));
    let always = matches!(asked, Asked::Embedded);
    let aaaa = if always { AaaaPolicy::Always } else { AaaaPolicy::Never };
    Auth::new(AuthConfig { aaaa, ..AuthConfig::new(namespace) })
}

/// Queries for different names.
fn queries(asked: Asked) -> Vec<Vec<u8>> {
    (0..1_024u32)
        .map(|i| {
            let [a, b] = [i / 256, i % 256];
            let host = format!("010-{a:03}-{b:03}-007.dns64perf.test");
            let (name, qtype) = match asked {
                Asked::Address | Asked::AddressEdns => (host, Qtype::A),
                Asked::Embedded | Asked::NoData => (host, Qtype::AAAA),
                Asked::Missing => (format!("x{i}.dns64perf.test"), Qtype::A),
                Asked::Pointer => (format!("7.{b}.{a}.10.in-addr.arpa"), Qtype::PTR),
                Asked::Elsewhere => (format!("x{i}.example.com"), Qtype::A),
            };
            let edns = matches!(asked, Asked::AddressEdns).then(Edns::default);
            let name: Name = name.parse().expect("a name");
            QueryTemplate::new(&name, qtype, true, false, edns.as_ref()).bytes().to_vec()
        })
        .collect()
}

/// A message alone.
#[divan::bench(args = ASKED)]
fn answer(bencher: Bencher<'_, '_>, asked: Asked) {
    let (mut auth, queries) = (auth(asked), queries(asked));
    let mut out = [0; MAX_REPLY];
    bencher.counter(ItemsCount::new(QUERIES)).bench_local(|| {
        for query in queries.iter().cycle().take(QUERIES) {
            black_box(auth.answer(black_box(query), &mut out));
        }
    });
}

/// The role: a batch in, a batch out.
#[divan::bench(args = ASKED)]
fn handle(bencher: Bencher<'_, '_>, asked: Asked) {
    let mut auth = auth(asked);
    let peer = SocketAddr::from(([127, 0, 0, 1], 5_000));
    let batches: Vec<RxBatch> = queries(asked)
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
