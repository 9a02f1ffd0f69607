//! Benchmark of the statistics of a capture, in packets per second on one core.
//!
//! `cargo bench -p trace`; `cargo test` runs it once. The goal is a million packets per second.

#[path = "../tests/common/mod.rs"]
#[allow(dead_code)]
mod common;

use std::io::Cursor;
use std::path::Path;

use common::{FORMS, capture, frame, query, reply, udp};
use divan::Bencher;
use divan::counter::ItemsCount;
use measure::{Nanos, Rng};
use trace::{Capture, Messages, Stats};
use wire::Qtype;

/// Number of packets in the capture.
const PACKETS: usize = 20_000;

fn main() {
    divan::main();
}

/// Returns queries of 5,000 clients and their replies, one in ten over IPv6.
fn traffic() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(1);
    let types = [Qtype::A, Qtype::A, Qtype::A, Qtype::AAAA, Qtype::MX, Qtype::PTR];
    let mut one = || {
        let client = rng.below(5_000) as u16;
        let qtype = types[rng.below(types.len() as u64) as usize];
        let query_bytes = query(rng.below(1 << 20) as u32, qtype);
        let ipv6 = rng.below(10) == 0;
        let answer = udp(ipv6, client, true, &reply(query_bytes.clone(), 3));
        [udp(ipv6, client, false, &query_bytes), answer]
    };
    (0..PACKETS / 2).flat_map(|_| one()).map(|ip| frame(1, false, &ip)).collect()
}

/// Measures the way from the bytes of a capture to its statistics.
#[divan::bench(args = [0, 4])]
fn stats(bencher: Bencher<'_, '_>, form: usize) {
    let bytes = capture(FORMS[form], 1, &traffic());
    let mut stats = Stats::new(Nanos::from_secs(1));
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        let source = Box::new(Cursor::new(bytes.clone()));
        let mut capture = Capture::new(source, Path::new("x")).expect("a capture");
        let mut messages = Messages::new(vec![53]);
        messages.read(&mut capture, |message| stats.add(message)).expect("whole");
        assert_eq!(messages.counts().packets, PACKETS as u64);
    });
}
