//! Memory: bandwidth by STREAM's four kernels, latency by chasing pointers through working sets.
//!
//! STREAM (McCalpin): copy `c = a`, scale `b = s c`, add `c = a + b`, triad `a = b + s c`, over arrays that no
//! cache holds, every core its part; bytes read and written a second, the best of several rounds. Within each cache: copy by one core.
//! Latency: one cycle through all lines of the working set, in random order, each load's address the
//! result of the one before, so that neither prefetching nor overlap helps (as lmbench's lat_mem_rd).
//! Translation of addresses: the same over one line of each of many pages, beside as many lines that lie together (as
//! Calibrator's TLB ladder). Where the kernel gives huge pages, both hardly differ.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use measure::rng::Rng;
use nix::sched::sched_setaffinity;
use nix::unistd::Pid;
use record::HostFacts;
use record::host::{Bandwidth, CacheBandwidth, Latency, PageLatency};

use super::facts::last_cache;
use crate::testbed::cpus::CpuList;

/// Smallest and largest size of a STREAM array, in bytes: the three must fit, and be measured within seconds.
const ARRAY_SIZES: (u64, u64) = (8 << 20, 256 << 20);
/// Smallest and largest working set of the latencies, in bytes.
const SETS: (u64, u64) = (8 << 10, 256 << 20);
/// Largest size of an array and of a working set in the short form, in bytes: a run takes little memory from the servers that it
/// measures.
const SHORT_SIZES: (u64, u64) = (10 << 20, 16 << 20);
/// Size of a cache line, in bytes.
const LINE_SIZE: u64 = 64;
/// Number of cache lines in a page of 4 KiB.
const LINES_PER_PAGE: u32 = 64;
/// Smallest and largest number of pages of the ladder; 16,384 pages are 64 MiB.
const PAGE_COUNTS: (u32, u32) = (8, 1 << 14);

/// Part of one thread: its slices of the three arrays.
type Slices<'a> = (&'a mut [f64], &'a mut [f64], &'a mut [f64]);
/// One of the four loops of STREAM over a thread's slices.
type Kernel = fn(&mut Slices<'_>);

/// The kernels, each with the number of arrays it reads or writes.
const KERNELS: [(Kernel, f64); 4] = [
    (|(a, _, c)| c.copy_from_slice(a), 2.0),
    (|(_, b, c)| b.iter_mut().zip(&**c).for_each(|(b, c)| *b = 3.0 * c), 2.0),
    (|(a, b, c)| c.iter_mut().zip(&**a).zip(&**b).for_each(|((c, a), b)| *c = a + b), 3.0),
    (|(a, b, c)| a.iter_mut().zip(&**b).zip(&**c).for_each(|((a, b), c)| *a = b + 3.0 * c), 3.0),
];

/// Returns the size of a STREAM array in bytes: four times the last cache by STREAM's rule, limited
/// by memory; `None` if the array would fit into the cache.
fn array(host: &HostFacts, full: bool) -> Option<u64> {
    let cache = last_cache(&host.cpu);
    let room = host.memory.available / 16;
    let array = (4 * cache).min(room).clamp(ARRAY_SIZES.0, ARRAY_SIZES.1);
    let array = if full { array } else { array.min(SHORT_SIZES.0) };
    (array > cache).then_some(array)
}

/// Runs STREAM's kernels on the cores `on`; `None` if there is no room for arrays that the last cache does not hold.
pub(super) fn bandwidth(host: &HostFacts, on: &CpuList, full: bool) -> Option<Bandwidth> {
    let rounds = if full { 10 } else { 3 };
    let array = array(host, full)?;
    let len = (array / 8) as usize;
    let (mut a, mut b, mut c) = (vec![1.0_f64; len], vec![2.0; len], vec![0.0; len]);
    let piece = len.div_ceil(on.count());
    let mut parts: Vec<Slices<'_>> = a
        .chunks_mut(piece)
        .zip(b.chunks_mut(piece))
        .zip(c.chunks_mut(piece))
        .map(|((a, b), c)| (a, b, c))
        .collect();
    let mut best = [0.0_f64; 4];
    for _ in 0..rounds {
        for ((kernel, arrays), best) in KERNELS.into_iter().zip(&mut best) {
            let took = on_each(&mut parts, on, kernel);
            *best = best.max(arrays * array as f64 / took.as_secs_f64().max(1e-9));
        }
    }
    let threads = parts.len();
    black_box((&a, &b, &c));
    let [copy, scale, add, triad] = best;
    Some(Bandwidth { copy, scale, add, triad, array, threads })
}

/// Measures the copies of this thread within each cache of data; in the short form within a part of
/// a large cache.
pub(super) fn cache_bandwidths(host: &HostFacts, full: bool) -> Vec<CacheBandwidth> {
    let time = Duration::from_millis(if full { 100 } else { 5 });
    let most = if full { SETS.1 } else { 32 << 20 };
    let caches = host.cpu.caches.iter().filter(|cache| cache.kind != "Instruction");
    let of_level = |(level, bytes): (u32, u64)| {
        let a = vec![1.0_f64; (bytes.min(most) / 4 / 8).max(1) as usize];
        let (mut c, mut copied) = (vec![0.0; a.len()], 0);
        let began = Instant::now();
        while began.elapsed() < time {
            c.copy_from_slice(black_box(&a));
            black_box(&c);
            copied += 2 * 8 * a.len();
        }
        CacheBandwidth { level, copy: copied as f64 / began.elapsed().as_secs_f64() }
    };
    let levels: BTreeMap<u32, u64> = caches.map(|cache| (cache.level, cache.bytes)).collect();
    levels.into_iter().map(of_level).collect()
}

/// Runs `kernel` on every part, each on its own core; returns the time of the slowest.
fn on_each(parts: &mut [Slices<'_>], on: &CpuList, kernel: Kernel) -> Duration {
    std::thread::scope(|scope| {
        let threads = parts.iter_mut().zip(on.cpus()).map(|(part, cpu)| {
            scope.spawn(move || {
                bind(*cpu);
                let began = Instant::now();
                kernel(part);
                began.elapsed()
            })
        });
        let threads: Vec<_> = threads.collect();
        let took = threads.into_iter().map(|thread| thread.join().unwrap_or_default());
        took.max().unwrap_or_default()
    })
}

/// Binds the calling thread to a core; if that is refused, the thread stays unbound.
pub(super) fn bind(cpu: usize) {
    if let Some(set) = CpuList::new([cpu]).and_then(|list| list.to_set()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

/// Measures the latency of working sets, each twice as large as the one before.
pub(super) fn latencies(host: &HostFacts, full: bool) -> Vec<Latency> {
    let time = Duration::from_millis(if full { 100 } else { 10 });
    let caches = if full { 4 } else { 2 };
    let largest = (caches * last_cache(&host.cpu)).min(host.memory.available / 16).min(SETS.1);
    let largest = if full { largest } else { largest.min(SHORT_SIZES.1) };
    let sets = std::iter::successors(Some(SETS.0), |bytes| Some(bytes * 2));
    sets.take_while(|bytes| *bytes <= largest.max(1 << 20))
        .map(|bytes| latency(bytes, time))
        .collect()
}

/// A cache line that contains the index of the next one.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct CacheLine {
    next: u32,
}

/// Measures the latency of one line in each of a number of pages, each number twice as large as the one before.
pub(super) fn page_latencies(host: &HostFacts, full: bool) -> Vec<PageLatency> {
    let time = Duration::from_millis(if full { 50 } else { 5 });
    let room = (host.memory.available / 16 / (LINE_SIZE * u64::from(LINES_PER_PAGE))) as u32;
    let most = if full { PAGE_COUNTS.1 } else { PAGE_COUNTS.1 / 4 }.min(room.max(PAGE_COUNTS.0));
    let counts = std::iter::successors(Some(PAGE_COUNTS.0), |pages| Some(pages * 2));
    let of = |pages: u32| PageLatency {
        pages: pages.into(),
        ns: walk_time(&apart(pages), pages, time),
        packed_ns: walk_time(&together(pages), pages, time),
    };
    counts.take_while(|pages| *pages <= most).map(of).collect()
}

fn latency(bytes: u64, time: Duration) -> Latency {
    let lines = (bytes / LINE_SIZE) as u32;
    Latency { bytes, ns: walk_time(&together(lines), lines, time) }
}

/// Returns one cycle, in random order, through adjacent lines.
fn together(lines: u32) -> Vec<CacheLine> {
    let order = cycle(lines);
    order.into_iter().map(|next| CacheLine { next }).collect()
}

/// Returns one cycle, in random order, through one line of each page. The line differs from page to page, so that the
/// lines do not compete for the same places of a cache.
fn apart(pages: u32) -> Vec<CacheLine> {
    let place = |page: u32| page * LINES_PER_PAGE + page % LINES_PER_PAGE;
    let mut chain = vec![CacheLine { next: 0 }; (pages * LINES_PER_PAGE) as usize];
    for (page, next) in (0..pages).zip(cycle(pages)) {
        chain[place(page) as usize].next = place(next);
    }
    chain
}

/// Returns the successor of each number in one cycle through all of them (Sattolo's algorithm).
fn cycle(count: u32) -> Vec<u32> {
    let mut next: Vec<u32> = (0..count).collect();
    let mut rng = Rng::new(u64::from(count) * LINE_SIZE);
    for i in (1..next.len()).rev() {
        next.swap(i, rng.below(i as u64) as usize);
    }
    next
}

/// Returns the time of one step through a chain with `lines` steps that begins with its first line, in nanoseconds.
fn walk_time(chain: &[CacheLine], lines: u32, time: Duration) -> f64 {
    const STEPS: u32 = 4_096;
    let mut at = 0;
    let mut walk = |steps: u32| {
        for _ in 0..steps {
            at = chain[at as usize].next;
        }
        black_box(at);
    };
    // One warm-up round fills the caches, but never takes longer than the measurement.
    let began = Instant::now();
    let mut warm = 0;
    while warm < lines && began.elapsed() < time {
        walk(STEPS);
        warm += STEPS;
    }
    let began = Instant::now();
    let mut steps = 0_u64;
    while began.elapsed() < time {
        walk(STEPS);
        steps += u64::from(STEPS);
    }
    began.elapsed().as_secs_f64() * 1e9 / steps as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_compute() {
        let (mut a, mut b, mut c) = ([1.0], [2.0], [0.0]);
        let mut part: Slices<'_> = (&mut a, &mut b, &mut c);
        for (kernel, _) in KERNELS {
            kernel(&mut part);
        }
        // c = 1; b = 3; c = 1 + 3; a = 3 + 3 * 4.
        assert_eq!((a, b, c), ([15.0], [3.0], [4.0]));
    }

    #[test]
    fn arrays_are_larger_than_the_last_cache() {
        let host = |mebibytes: u64, available: u64| {
            let cache = record::host::Cache { bytes: mebibytes << 20, ..Default::default() };
            let mut host = HostFacts::default();
            host.cpu.caches = vec![cache];
            host.memory.available = available << 30;
            host
        };
        for (cache, available, full, wanted) in [
            (4, 16, true, Some(16)),
            (4, 16, false, Some(10)),
            (32, 16, true, Some(128)),
            (32, 16, false, None),
            (96, 16, true, Some(256)),
            // Too little memory, and a cache that is larger than any array.
            (96, 1, true, None),
            (256, 64, true, None),
        ] {
            let found = array(&host(cache, available), full).map(|bytes| bytes >> 20);
            assert_eq!(found, wanted, "{cache} MiB, {available} GiB, {full}");
        }
    }

    #[test]
    fn a_chain_has_one_line_of_each_page_and_returns_to_its_first() {
        let (pages, chain) = (37, apart(37));
        let (mut at, mut seen) = (0, std::collections::BTreeSet::new());
        for _ in 0..pages {
            at = chain[at as usize].next;
            seen.insert(at / LINES_PER_PAGE);
        }
        assert_eq!((at, seen.len()), (0, 37));
    }

    #[test]
    fn a_walk_takes_time() {
        let found = latency(8 << 10, Duration::from_millis(1));
        assert!(found.ns > 0.0 && found.bytes == 8 << 10);
    }
}
