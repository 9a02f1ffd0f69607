//! The facts of a host, one on each line: for `dnsdyno host` and for the page of a run.

use std::fmt::Write;

use record::HostFacts;
use record::host::{Card, CpuFacts, Timer};

/// Formats the facts of a host for a terminal.
pub fn host(host: &HostFacts) -> String {
    let mut out = String::new();
    for (what, how) in lines(host) {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{what:<18} {how}");
    }
    for warning in &host.warnings {
        let _ = writeln!(out, "{:<18} {}", "WARNING", warning.with_advice());
    }
    out
}

/// Returns name and value of each fact; facts that the host does not report are omitted.
pub(crate) fn lines(host: &HostFacts) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut line = |what: &str, how: String| {
        if !how.is_empty() {
            out.push((what.to_owned(), how));
        }
    };
    let (cpu, kernel, memory) = (&host.cpu, &host.kernel, &host.memory);
    let machine = if cpu.virtual_machine { ", a virtual machine" } else { "" };
    line("cpu", format!("{}, {} cores{machine}", text(&cpu.model), cpu.online));
    line("cores allowed", record::testbed::cpu_list(&cpu.allowed));
    line("clock rate", clock_rate(cpu));
    line("SMT", text(&cpu.smt));
    line("sibling cores", cpu.siblings.join("; "));
    let caches = cpu.caches.iter().filter(|cache| cache.kind != "Instruction");
    line("caches", join(caches.map(|c| format!("L{} {}", c.level, bytes(c.bytes as f64)))));
    for (name, how) in &cpu.mitigations {
        line("mitigation", format!("{name}: {how}"));
    }
    line("kernel", text(&kernel.release));
    line("build", text(&kernel.version));
    line("distribution", text(&kernel.distribution));
    line("options", kernel.options.join(" "));
    let others = kernel.clock_sources.join(", ");
    let source = kernel.clock_source.as_ref();
    line("clock source", source.map_or(String::new(), |source| format!("{source} (of {others})")));
    for (name, value) in &kernel.settings {
        line("setting", format!("{name} {value}"));
    }
    if memory.total > 0 {
        let (total, available) = (bytes(memory.total as f64), bytes(memory.available as f64));
        let nodes =
            if memory.nodes > 1 { format!(", {} nodes", memory.nodes) } else { String::new() };
        line("memory", format!("{total}, {available} available{nodes}"));
    }
    for card in &host.network {
        line(&card.name, describe_card(card));
    }
    measured(host, &mut line);
    out
}

/// Describes a card: its driver, queues, speed, and how it spreads packets over its queues.
fn describe_card(card: &Card) -> String {
    let mut parts = vec![
        format!(
            "{} {} receive and {} send queues",
            text(&card.driver),
            card.receive_queues,
            card.send_queues
        )
        .trim()
        .to_owned(),
        format!("MTU {}", card.mtu),
    ];
    parts.extend(card.mbit.map(|mbit| format!("{mbit} Mbit/s")));
    if !card.hashing.is_empty() {
        parts.push(format!("UDP spread by {}", card.hashing.join(", ")));
    }
    let steering = card.steering.iter().map(|(queue, mask)| format!("{queue} steered to {mask}"));
    parts.extend(steering);
    parts.join(", ")
}

/// Adds the lines of the measured values.
fn measured(host: &HostFacts, line: &mut impl FnMut(&str, String)) {
    let percent = |share: Option<f64>| {
        share.map_or(String::new(), |share| format!("{:.1} % of the cores' time", share * 100.0))
    };
    line("others used", percent(host.others_busy));
    line("hypervisor took", percent(host.steal));
    if let Some(stream) = &host.memory_bandwidth {
        let rates = [
            ("copy", stream.copy),
            ("scale", stream.scale),
            ("add", stream.add),
            ("triad", stream.triad),
        ];
        let rates = join(rates.iter().map(|(kernel, rate)| format!("{kernel} {:.1}", rate / 1e9)));
        line(
            "memory bandwidth",
            format!(
                "{rates} GB/s ({} threads, arrays of {})",
                stream.threads,
                bytes(stream.array as f64)
            ),
        );
    }
    let caches = host.cache_bandwidth.iter();
    let caches = caches.map(|cache| format!("L{} {:.1}", cache.level, cache.copy / 1e9));
    line("cache copy GB/s", join(caches));
    let latencies = host.memory_latency.iter();
    let latencies = latencies.map(|l| format!("{} {:.1}", bytes(l.bytes as f64), l.ns));
    line("memory latency ns", join(latencies));
    let pages = host.page_latency.iter();
    let pages = pages.map(|p| format!("{} {:.1} ({:.1})", p.pages, p.ns, p.packed_ns));
    line("page latency ns", join(pages));
    if let Some(timer) = &host.timer {
        timer_lines(timer, line);
    }
    for ceiling in &host.packet_ceilings {
        let found = match (ceiling.round_trips_per_s, &ceiling.not_measured) {
            (Some(rate), _) => format!("{:.0}k round trips a second", rate / 1e3),
            (None, why) => text(why),
        };
        line("ceiling", format!("{}: {found}", ceiling.engine));
    }
}

/// Adds the lines of the clock and the scheduler.
fn timer_lines(timer: &Timer, line: &mut impl FnMut(&str, String)) {
    line(
        "clock",
        format!("{:.0} ns a read, smallest step {} ns", timer.clock_read_ns, timer.clock_step_ns),
    );
    line(
        "lateness of sleeps",
        format!(
            "p50 {:.0} us, p99 {:.0} us, max {:.0} us",
            timer.sleep_late_p50_us, timer.sleep_late_p99_us, timer.sleep_late_max_us
        ),
    );
    for gaps in &timer.gaps {
        line(
            "core away",
            format!(
                "core {}: {:.0} times a second, longest {:.0} us, {:.2} % of the time",
                gaps.cpu,
                gaps.per_s,
                gaps.max_us,
                gaps.share * 100.0
            ),
        );
    }
}

/// Describes the clock rate of the cores, and its governors.
fn clock_rate(cpu: &CpuFacts) -> String {
    let mut parts = Vec::new();
    parts.extend(cpu.mhz.map(|mhz| format!("{mhz:.0} MHz")));
    parts.extend(cpu.max_mhz.map(|mhz| format!("at most {mhz:.0} MHz")));
    parts.push(match cpu.governors.is_empty() {
        true => "no governor".to_owned(),
        false => format!("governor {}", cpu.governors.join(", ")),
    });
    parts.extend(cpu.boost.map(|boost| format!("boost {}", if boost { "on" } else { "off" })));
    parts.join(", ")
}

fn text(fact: &Option<String>) -> String {
    fact.clone().unwrap_or_default()
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// Formats bytes in the largest unit that gives a whole number.
pub(crate) fn bytes(mut value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value.fract() > 0.05);
    format!("{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use measure::Warning;
    use record::host::Gaps;

    use super::*;

    #[test]
    fn facts_are_lines_and_absent_ones_are_left_out() {
        assert_eq!(bytes(32.0 * 1024.0), "32 KiB");
        assert_eq!(bytes(1.5 * 1024.0 * 1024.0), "1.5 MiB");
        let cpu = CpuFacts {
            model: Some("A CPU".into()),
            online: 4,
            allowed: vec![0, 1, 3],
            mhz: Some(2_400.4),
            governors: vec!["ondemand".into()],
            boost: Some(true),
            ..CpuFacts::default()
        };
        let gaps = vec![Gaps { cpu: 1, per_s: 10.0, max_us: 5_000.0, share: 0.1 }];
        let facts = HostFacts {
            cpu,
            timer: Some(Timer { clock_read_ns: 36.7, gaps, ..Timer::default() }),
            warnings: vec![Warning::Boost],
            ..HostFacts::default()
        };
        let text = host(&facts);
        for line in [
            "cpu                A CPU, 4 cores\n",
            "cores allowed      0-1,3\n",
            "clock rate         2400 MHz, governor ondemand, boost on\n",
            "clock              37 ns a read, smallest step 0 ns\n",
            "core away          core 1: 10 times a second, longest 5000 us, 10.00 % of the time\n",
            "WARNING            the clock rate exceeds its nominal value",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        for left_out in ["SMT", "memory", "kernel", "ceiling", "others"] {
            assert!(!text.contains(left_out), "{left_out}: {text}");
        }
    }
}
