//! Cost of a query in the Measurer, from composing to tally, without a kernel, in nanoseconds per query.
//!
//! `cargo bench -p load` measures; `cargo test` runs each benchmark once so that it keeps working. The goal
//! on the reference machine is below 120 ns per query, after subtracting `far_side`: the copying that stands for
//! the kernel and the server.

#[path = "../tests/common/plans.rs"]
mod plans;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divan::Bencher;
use divan::counter::ItemsCount;
use engine::{
    Destination, Engine, EngineCounters, Next, Role, RxBatch, SocketId, TxBatch, Wait, WaitMode,
    drive,
};
use load::workload::file::{Content, QueryFile, QueryOptions};
use load::workload::generated::{GeneratedSpec, GeneratedWorkload};
use load::workload::mix::Mix;
use load::workload::namespace::{NamespaceExpect, NamespaceSpec, NamespaceWorkload};
use load::{Measurer, Plan, Workload};
use measure::{Nanos, Pacing, Qps};
use wire::{Edns, Namespace, Pref64, Qtype, QueryTemplate};

/// Number of queries of one sample.
const QUERIES: u64 = if cfg!(debug_assertions) { 2_000 } else { 1_000_000 };
/// Rate in queries per second of virtual time.
const RATE: f64 = 1e6;
/// Number of datagrams between two reads of the clock.
const BATCH: usize = 44;

fn main() {
    divan::main();
}

/// Answers each query at once like a DNS64 server, without a kernel.
struct NullEngine {
    now: Nanos,
    step: Nanos,
    replies: RxBatch,
    pref64: Pref64,
}

impl NullEngine {
    fn new() -> Self {
        let step = Nanos((BATCH as f64 / RATE * 1e9) as u64);
        NullEngine { now: Nanos::ZERO, step, replies: RxBatch::new(512, 256), pref64: pref64() }
    }
}

impl Engine for NullEngine {
    fn now(&mut self) -> Nanos {
        self.now
    }

    fn batches(&self) -> (RxBatch, TxBatch) {
        (RxBatch::new(512, 256), TxBatch::new(512, 512 * 512, 64))
    }

    fn receive(&mut self, rx: &mut RxBatch, _: Wait) -> io::Result<()> {
        self.now += self.step;
        rx.clear();
        std::mem::swap(rx, &mut self.replies);
        Ok(())
    }

    fn send(&mut self, tx: &mut TxBatch) -> io::Result<()> {
        let peer = SocketAddr::from(([127, 0, 0, 1], 53));
        let mut reply = [0; 256];
        for (to, query) in tx.iter() {
            let end = query.len();
            reply[..end].copy_from_slice(query);
            (reply[2], reply[7]) = (0x81, 1);
            reply[end..end + 12].copy_from_slice(&[0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16]);
            let address = Namespace::parse_label(&query[13..28]).unwrap_or([0; 4].into());
            reply[end + 12..end + 28].copy_from_slice(&self.pref64.embed(address).octets());
            self.replies.put(to.socket(), peer, self.now, &reply[..end + 28]);
        }
        tx.clear();
        Ok(())
    }

    fn counters(&self) -> EngineCounters {
        EngineCounters::default()
    }
}

fn pref64() -> Pref64 {
    "2001:db8:64::/96".parse().expect("a prefix")
}

fn namespace() -> Namespace {
    Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix"))
}

/// Workload of a benchmark: where its queries come from.
#[derive(Clone, Copy, Debug)]
enum Queries {
    Namespace,
    NamespaceMix,
    File,
    Single,
    RandomSubdomain,
    ZipfMix,
}

fn workload(queries: Queries) -> Box<dyn Workload> {
    let options = QueryOptions { recursion_desired: true, ..QueryOptions::default() };
    let zone = "dns64perf.test".parse().expect("a name");
    let generated = |spec| {
        GeneratedWorkload::new(spec, vec![Qtype::AAAA], options.clone(), 1, 0, 1)
            .expect("short enough")
    };
    let names = NamespaceSpec {
        namespace: namespace(),
        qtype: Qtype::AAAA,
        expect: NamespaceExpect::Embedded(pref64()),
        first: 0,
        names: 1 << 24,
        reuse: true,
        sequential: false,
        seed: 1,
        recursion_desired: true,
        edns: None,
    };
    let names = NamespaceWorkload::new(names, 0, 1).expect("inside");
    match queries {
        Queries::Namespace => Box::new(names),
        Queries::NamespaceMix => {
            let mix = Mix { popular: 100_000, exponent: 1.0, repeats: 0.8, missing: 0.0 };
            Box::new(names.with_mix(mix).expect("a mix"))
        }
        Queries::File => {
            let text: String =
                (0..10_000).map(|i| format!("name-{i:06}.dns64perf.test AAAA\n")).collect();
            let file = QueryFile::compile(text.as_bytes(), Path::new("bench"), Content::LINES)
                .expect("good");
            Box::new(file.workload(0, 1, options))
        }
        Queries::Single => Box::new(generated(GeneratedSpec::Single { name: zone })),
        Queries::RandomSubdomain => Box::new(generated(GeneratedSpec::RandomSubdomain { zone })),
        Queries::ZipfMix => Box::new(generated(GeneratedSpec::Mix {
            zone,
            names: 100_000,
            exponent: 1.0,
            repeats: 0.8,
            missing: 0.1,
        })),
    }
}

fn plan(pacing: Pacing, sockets: u16) -> Plan {
    let duration = Nanos((QUERIES as f64 / RATE * 1e9) as u64);
    let timeout = Nanos::from_secs(1);
    Plan { timeout, segmented: true, ..plans::plan(pacing, duration, sockets) }
}

/// Runs a Measurer to its end.
fn measure(bencher: Bencher<'_, '_>, queries: Queries, plan: &Plan) {
    bencher
        .counter(ItemsCount::new(QUERIES))
        .with_inputs(|| Measurer::new(plan.clone(), workload(queries), Arc::default()))
        .bench_local_values(|mut measurer| {
            drive(&mut NullEngine::new(), &mut measurer, WaitMode::Spin, &AtomicBool::new(false))
                .expect("no errors here");
            let tally = measurer.into_tally();
            assert!(tally.valid == tally.sent && tally.sent > QUERIES / 2, "{}", tally.sent);
        });
}

#[divan::bench(args = [Queries::Namespace, Queries::NamespaceMix, Queries::File, Queries::Single, Queries::RandomSubdomain, Queries::ZipfMix], sample_count = 5, sample_size = 1)]
fn by_workload(bencher: Bencher<'_, '_>, queries: Queries) {
    let rate = Qps::new(RATE).expect("a rate");
    measure(bencher, queries, &plan(Pacing::Constant { rate }, 16));
}

/// Pacing of a benchmark, and the number of sockets.
#[derive(Clone, Copy, Debug)]
enum Paced {
    Constant1,
    Constant62,
    Poisson,
    Ramp,
    Window,
}

#[divan::bench(args = [Paced::Constant1, Paced::Constant62, Paced::Poisson, Paced::Ramp, Paced::Window], sample_count = 5, sample_size = 1)]
fn by_pacing(bencher: Bencher<'_, '_>, paced: Paced) {
    let rate = Qps::new(RATE).expect("a rate");
    let from = Qps::new(RATE / 2.0).expect("a rate");
    let to = Qps::new(RATE * 1.5).expect("a rate");
    let plan = match paced {
        Paced::Constant1 => plan(Pacing::Constant { rate }, 1),
        Paced::Constant62 => plan(Pacing::Constant { rate }, 62),
        Paced::Poisson => plan(Pacing::Poisson { rate }, 16),
        Paced::Ramp => plan(Pacing::Ramp { from, to }, 16),
        Paced::Window => plan(Pacing::Window { outstanding: BATCH as u32 }, 16),
    };
    measure(bencher, Queries::Namespace, &plan);
}

/// Sends the same query again and again and ignores all replies.
struct Blind {
    template: QueryTemplate,
    left: u64,
}

impl Role for Blind {
    fn handle(&mut self, _: Nanos, _: &RxBatch, tx: &mut TxBatch) -> Next {
        for _ in 0..BATCH {
            tx.push(Destination::Connected(SocketId(0)), 512, |out| self.template.write(0, out));
        }
        self.left = self.left.saturating_sub(BATCH as u64);
        if self.left == 0 { Next::Done } else { Next::Now }
    }
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn far_side(bencher: Bencher<'_, '_>) {
    let none: Option<&Edns> = None;
    let template = QueryTemplate::for_namespace(&namespace(), Qtype::AAAA, true, false, none);
    bencher.counter(ItemsCount::new(QUERIES)).bench_local(|| {
        let mut role = Blind { template: template.clone(), left: QUERIES };
        drive(&mut NullEngine::new(), &mut role, WaitMode::Spin, &AtomicBool::new(false))
            .expect("no errors here");
    });
}
