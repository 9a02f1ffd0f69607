//! Hosts side by side, as the table by which seed 001 (ISC-TN-2008-1, section 2.2) selects its servers.
//!
//! ```text
//!   bandwidth of caches and memory (STREAM) | latency of each cache and the memory | ladders | clock | packet ceilings
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;

use record::HostFacts;

use crate::host::bytes;

/// A host with its name in the table.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Name at the head of its column.
    pub name: &'a str,
    /// Facts and measurements of the host, as `dnsdyno host` takes them.
    pub facts: &'a HostFacts,
}

/// Mark of a value that a host does not report or that was not measured.
const ABSENT: &str = "--";
/// Width of the first column, and least width of the others.
const LABEL_WIDTH: usize = 34;
const COLUMN_WIDTH: usize = 12;

/// Formats hosts as a table with one column for each.
pub fn hosts(candidates: &[Candidate<'_>]) -> String {
    let mut table = HostTable { candidates, out: String::new(), heading: None };
    table.row("", |c| Some(c.name.to_owned()));
    facts(&mut table);
    caches(&mut table);
    bandwidth(&mut table);
    ladders(&mut table);
    clock(&mut table);
    ceilings(&mut table);
    for candidate in candidates {
        for warning in &candidate.facts.warnings {
            // Writing to a string does not fail.
            let _ = writeln!(table.out, "WARNING {}: {}", candidate.name, warning.with_advice());
        }
    }
    table.out
}

/// A table under construction: a column for each host.
struct HostTable<'a> {
    candidates: &'a [Candidate<'a>],
    out: String,
    /// The heading of the next row, if that is the first below it.
    heading: Option<&'static str>,
}

impl HostTable<'_> {
    /// Adds a row; a row without any value is omitted.
    fn row(&mut self, label: &str, value: impl Fn(&Candidate<'_>) -> Option<String>) {
        let values: Vec<Option<String>> = self.candidates.iter().map(value).collect();
        if values.iter().all(Option::is_none) {
            return;
        }
        if let Some(heading) = self.heading.take() {
            let _ = writeln!(self.out, "{heading}");
        }
        let _ = write!(self.out, "{label:<LABEL_WIDTH$}");
        for (candidate, value) in self.candidates.iter().zip(values) {
            let width = COLUMN_WIDTH.max(candidate.name.chars().count());
            let _ = write!(self.out, "  {:>width$}", value.as_deref().unwrap_or(ABSENT));
        }
        self.out.push('\n');
    }

    /// Adds a row of numbers with `digits` after the point.
    fn numbers(&mut self, label: &str, digits: usize, value: impl Fn(&HostFacts) -> Option<f64>) {
        self.row(label, |c| value(c.facts).map(|x| format!("{x:.digits$}")));
    }

    /// Sets a heading over the rows that follow; a heading without rows is omitted.
    fn heading(&mut self, text: &'static str) {
        self.heading = Some(text);
    }
}

fn facts(table: &mut HostTable<'_>) {
    let whole = |n: f64| (n > 0.0).then_some(n);
    table.numbers("cores", 0, |h| whole(h.cpu.online as f64));
    table.numbers("clock rate MHz", 0, |h| h.cpu.mhz);
    table.row("memory", |c| whole(c.facts.memory.total as f64).map(bytes));
    table.row("virtual machine", |c| Some(c.facts.cpu.virtual_machine.to_string()));
}

/// Levels of the caches of all hosts.
fn levels(table: &HostTable<'_>) -> BTreeSet<u32> {
    let caches = table.candidates.iter().flat_map(|c| &c.facts.cpu.caches);
    caches.filter(|cache| cache.kind != "Instruction").map(|cache| cache.level).collect()
}

/// Returns the size of the cache of a level, in bytes.
fn size(host: &HostFacts, level: u32) -> Option<u64> {
    let caches = host.cpu.caches.iter().filter(|cache| cache.kind != "Instruction");
    caches.filter(|cache| cache.level == level).map(|cache| cache.bytes).max()
}

/// Returns the latency of the largest working set of at most half of a cache: which fits in
/// together with other data.
fn latency_within(host: &HostFacts, cache: u64) -> Option<f64> {
    let sets = host.memory_latency.iter().filter(|l| l.bytes <= cache / 2);
    sets.max_by_key(|l| l.bytes).map(|l| l.ns)
}

fn caches(table: &mut HostTable<'_>) {
    for level in levels(table) {
        table.row(&format!("L{level} size"), |c| size(c.facts, level).map(|n| bytes(n as f64)));
    }
    table.heading("load latency, ns");
    for level in levels(table) {
        let of = |host: &HostFacts| latency_within(host, size(host, level)?);
        table.numbers(&format!("  L{level}"), 1, of);
    }
    // A set that is no larger than the last cache does not measure the memory.
    let memory = |host: &HostFacts| {
        let last = host.cpu.caches.iter().map(|cache| cache.bytes).max().unwrap_or(0);
        host.memory_latency.iter().max_by_key(|l| l.bytes).filter(|l| l.bytes > last).map(|l| l.ns)
    };
    table.numbers("  memory", 1, memory);
}

fn bandwidth(table: &mut HostTable<'_>) {
    table.heading("copy by one core within a cache, MB/s");
    for level in levels(table) {
        let of = |host: &HostFacts| host.cache_bandwidth.iter().find(|c| c.level == level).copied();
        table.numbers(&format!("  L{level}"), 0, |host| of(host).map(|cache| cache.copy / 1e6));
    }
    table.heading("STREAM, MB/s");
    table.numbers("  copy", 0, |h| h.memory_bandwidth.as_ref().map(|b| b.copy / 1e6));
    table.numbers("  scale", 0, |h| h.memory_bandwidth.as_ref().map(|b| b.scale / 1e6));
    table.numbers("  add", 0, |h| h.memory_bandwidth.as_ref().map(|b| b.add / 1e6));
    table.numbers("  triad", 0, |h| h.memory_bandwidth.as_ref().map(|b| b.triad / 1e6));
    table.numbers("  threads", 0, |h| h.memory_bandwidth.as_ref().map(|b| b.threads as f64));
}

fn ladders(table: &mut HostTable<'_>) {
    let hosts = table.candidates.iter();
    let sets: BTreeSet<u64> =
        hosts.clone().flat_map(|c| &c.facts.memory_latency).map(|l| l.bytes).collect();
    let pages: BTreeSet<u64> = hosts.flat_map(|c| &c.facts.page_latency).map(|p| p.pages).collect();
    table.heading("cache ladder: ns a load by working set");
    for set in sets {
        let label = format!("  {}", bytes(set as f64));
        let of = |h: &HostFacts| h.memory_latency.iter().find(|l| l.bytes == set).map(|l| l.ns);
        table.numbers(&label, 1, of);
    }
    table.heading("TLB ladder: ns added to a load if its lines are on as many different pages");
    for count in pages {
        let of = |h: &HostFacts| h.page_latency.iter().find(|p| p.pages == count).copied();
        table.numbers(&format!("  {count}"), 1, |h| of(h).map(|p| p.ns - p.packed_ns));
    }
}

fn clock(table: &mut HostTable<'_>) {
    table.heading("clock and scheduler");
    let timer = |h: &HostFacts| h.timer.clone();
    table.numbers("  clock read, ns", 0, |h| timer(h).map(|t| t.clock_read_ns));
    table.numbers("  sleep lateness p99, us", 0, |h| timer(h).map(|t| t.sleep_late_p99_us));
    let longest = |h: &HostFacts| timer(h)?.gaps.iter().map(|gaps| gaps.max_us).reduce(f64::max);
    table.numbers("  longest interruption, us", 0, longest);
    table.numbers("  hypervisor took, %", 2, |h| h.steal.map(|share| share * 100.0));
}

fn ceilings(table: &mut HostTable<'_>) {
    let all = table.candidates.iter().flat_map(|c| &c.facts.packet_ceilings);
    let engines: BTreeSet<String> = all.map(|ceiling| ceiling.engine.clone()).collect();
    table.heading("packet ceilings: thousand round trips a second");
    for engine in engines {
        let of = |h: &HostFacts| {
            let ceiling = h.packet_ceilings.iter().find(|c| c.engine == engine)?;
            ceiling.round_trips_per_s.map(|rate| rate / 1e3)
        };
        table.numbers(&format!("  {engine}"), 0, of);
    }
}

#[cfg(test)]
mod tests {
    use record::host::{
        Bandwidth, Cache, CacheBandwidth, CpuFacts, Latency, PacketCeiling, PageLatency,
    };

    use super::*;

    fn host(kib: u64, ns: f64) -> HostFacts {
        let cache = |level, bytes| Cache { level, kind: "Data".into(), bytes, ..Cache::default() };
        let latency = |kib: u64, ns| Latency { bytes: kib << 10, ns };
        HostFacts {
            cpu: CpuFacts { online: 2, caches: vec![cache(1, kib << 10)], ..CpuFacts::default() },
            memory_latency: vec![
                latency(8, 1.0),
                latency(16, 1.5),
                latency(32, 4.0),
                latency(64, ns),
            ],
            page_latency: vec![PageLatency { pages: 8, ns: 3.5, packed_ns: 1.0 }],
            ..HostFacts::default()
        }
    }

    #[test]
    fn hosts_are_columns_and_what_one_lacks_is_marked() {
        let (mut first, second) = (host(32, 90.0), host(64, 120.0));
        first.memory_bandwidth =
            Some(Bandwidth { copy: 2.5e9, threads: 2, ..Bandwidth::default() });
        first.cache_bandwidth = vec![CacheBandwidth { level: 1, copy: 9e10 }];
        let ceiling = |rate| PacketCeiling {
            engine: "udp".into(),
            round_trips_per_s: Some(rate),
            ..PacketCeiling::default()
        };
        first.packet_ceilings = vec![ceiling(200_000.0)];
        let all = [
            Candidate { name: "a", facts: &first },
            Candidate { name: "a-longer-name", facts: &second },
        ];
        let text = hosts(&all);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for line in [
            "a a-longer-name",
            "cores 2 2",
            "L1 size 32 KiB 64 KiB",
            // Half of the cache: 16 KiB of 32, 32 of 64. The set of 64 KiB is larger than the first cache only.
            "L1 1.5 4.0",
            "memory 90.0 --",
            "L1 90000 --",
            "copy 2500 --",
            "16 KiB 1.5 1.5",
            "8 2.5 2.5",
            "udp 200 --",
        ] {
            assert!(text.lines().any(|found| words(found) == words(line)), "{line}:\n{text}");
        }
        assert!(!text.contains("clock"), "{text}");
        let widths: BTreeSet<usize> = text
            .lines()
            .filter(|l| l.contains("  copy") || l.contains("cores"))
            .map(str::len)
            .collect();
        assert_eq!(widths.len(), 1, "columns are aligned:\n{text}");
    }
}
