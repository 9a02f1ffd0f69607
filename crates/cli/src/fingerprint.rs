//! `dnsdyno host`: what this host is, how fast its parts are, and what spoils measurements on it.

use std::fmt::Write as _;
use std::io::Write as _;

use lab::CpuList;
use lab::host::{Depth, fingerprint};
use measure::Nanos;
use serde_json::Value;

use crate::ceilings;
use crate::failure::Failure;

/// Arguments of `dnsdyno host`.
#[derive(Debug, clap::Args)]
pub(crate) struct HostArgs {
    /// Print all of it as JSON
    #[arg(long)]
    json: bool,
    /// Facts only: measure nothing
    #[arg(long, conflicts_with = "quick")]
    facts: bool,
    /// Measure for about two seconds, as a run does
    #[arg(long)]
    quick: bool,
}

pub(crate) const EXAMPLES: &str = "Examples:
  What is this host worth, and what should be mended before it measures?
    dnsdyno host

  The same for a record
    dnsdyno host --json > host.json";

pub(crate) fn run(args: &HostArgs) -> Result<(), Failure> {
    let depth = match (args.facts, args.quick) {
        (true, _) => Depth::Facts,
        (_, true) => Depth::Quick,
        _ => Depth::Full,
    };
    let host = take(depth);
    let mut out = std::io::stdout().lock();
    let written = if args.json {
        serde_json::to_string_pretty(&host)
            .map_err(std::io::Error::from)
            .and_then(|text| writeln!(out, "{text}"))
    } else {
        write!(out, "{}", table(&host))
    };
    written.map_err(Failure::run)
}

/// The fingerprint as it goes into the plan of a run.
pub(crate) fn take(depth: Depth) -> Value {
    let on = CpuList::allowed();
    let mut host = serde_json::to_value(fingerprint(depth, &on)).unwrap_or_default();
    let time = match depth {
        Depth::Facts => return host,
        Depth::Quick => Nanos::from_millis(200),
        Depth::Full => Nanos::from_secs(1),
    };
    host["packet_ceilings"] = ceilings::measure(on.cpus(), time);
    host
}

/// The fingerprint for people.
fn table(host: &Value) -> String {
    let mut out = String::new();
    let mut line = |what: &str, how: String| {
        if !how.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{what:<18} {how}");
        }
    };
    let (cpu, kernel, memory) = (&host["cpu"], &host["kernel"], &host["memory"]);
    line("cpu", format!("{}, {} cores", text(&cpu["model"]), cpu["online"]));
    line("clock rate", clock_rate(cpu));
    line("SMT", text(&cpu["smt"]));
    let caches = items(&cpu["caches"]).filter(|cache| cache["kind"] != "Instruction");
    let caches = caches.map(|c| format!("L{} {}", c["level"], bytes(c["bytes"].as_f64())));
    line("caches", join(caches, ", "));
    let weak = cpu["mitigations"].as_object().into_iter().flatten();
    line(
        "mitigations",
        join(weak.map(|(name, how)| format!("{name}: {}", text(how))), "\n                   "),
    );
    line("kernel", text(&kernel["release"]));
    line("options", join(items(&kernel["options"]).map(text), " "));
    line("clock source", text(&kernel["clock_source"]));
    line(
        "memory",
        format!(
            "{}, {} available",
            bytes(memory["total"].as_f64()),
            bytes(memory["available"].as_f64())
        ),
    );
    for card in items(&host["network"]) {
        let hashing = join(items(&card["hashing"]).map(text), ", ");
        let hashing =
            if hashing.is_empty() { String::new() } else { format!(", UDP spread by {hashing}") };
        let how = format!(
            "{} {} receive and {} send queues{hashing}",
            text(&card["driver"]),
            card["receive_queues"],
            card["send_queues"]
        );
        line(&text(&card["name"]), how.trim().to_owned());
    }
    measured(host, &mut line);
    let warnings: Vec<String> = items(&host["warnings"]).map(text).collect();
    for warning in &warnings {
        line("WARNING", warning.clone());
    }
    out
}

/// The lines of what was measured.
fn measured(host: &Value, line: &mut impl FnMut(&str, String)) {
    let stream = &host["memory_bandwidth"];
    if stream.is_object() {
        let kernels = ["copy", "scale", "add", "triad"];
        let rates = kernels.map(|k| format!("{k} {:.1}", stream[k].as_f64().unwrap_or(0.0) / 1e9));
        line(
            "memory bandwidth",
            format!("{} GB/s ({} threads)", rates.join(", "), stream["threads"]),
        );
    }
    let latencies = items(&host["memory_latency"]);
    let latencies = latencies
        .map(|l| format!("{} {:.1}", bytes(l["bytes"].as_f64()), l["ns"].as_f64().unwrap_or(0.0)));
    line("memory latency ns", join(latencies, ", "));
    let timer = &host["timer"];
    if timer.is_object() {
        let number = |key: &str| timer[key].as_f64().unwrap_or(0.0);
        line("clock", format!("{:.0} ns a look", number("clock_read_ns")));
        line(
            "sleepers wake late",
            format!(
                "p50 {:.0} us, p99 {:.0} us, max {:.0} us",
                number("sleep_late_p50_us"),
                number("sleep_late_p99_us"),
                number("sleep_late_max_us")
            ),
        );
        for gaps in items(&timer["gaps"]) {
            let number = |key: &str| gaps[key].as_f64().unwrap_or(0.0);
            line(
                "core away",
                format!(
                    "core {}: {:.0} times a second, longest {:.0} us, {:.2} % of the time",
                    gaps["cpu"],
                    number("per_s"),
                    number("max_us"),
                    number("share") * 100.0
                ),
            );
        }
    }
    for ceiling in items(&host["packet_ceilings"]) {
        let found = match ceiling["round_trips_per_s"].as_f64() {
            Some(rate) => format!("{:.0}k round trips a second", rate / 1e3),
            None => text(&ceiling["not_measured"]),
        };
        line("ceiling", format!("{}: {found}", text(&ceiling["engine"])));
    }
}

/// The clock rate of the cores, and who governs it.
fn clock_rate(cpu: &Value) -> String {
    let mut parts = Vec::new();
    parts.extend(cpu["mhz"].as_f64().map(|mhz| format!("{mhz:.0} MHz")));
    parts.extend(cpu["max_mhz"].as_f64().map(|mhz| format!("at most {mhz:.0} MHz")));
    let governors = join(items(&cpu["governors"]).map(text), ", ");
    parts.push(match governors.is_empty() {
        true => "no governor".to_owned(),
        false => format!("governor {governors}"),
    });
    parts.extend(
        cpu["boost"].as_bool().map(|boost| format!("boost {}", if boost { "on" } else { "off" })),
    );
    parts.join(", ")
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn join(parts: impl Iterator<Item = String>, by: &str) -> String {
    parts.collect::<Vec<_>>().join(by)
}

/// Bytes in the largest unit that leaves a whole one.
fn bytes(value: Option<f64>) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value.unwrap_or(0.0);
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
    use super::*;

    #[test]
    fn the_facts_are_told() {
        let host = take(Depth::Facts);
        let told = table(&host);
        assert!(told.contains("kernel") && told.contains("cores"), "{told}");
        assert!(host.get("packet_ceilings").is_none());
        assert_eq!(bytes(Some(32.0 * 1024.0)), "32 KiB");
        assert_eq!(bytes(Some(1.5 * 1024.0 * 1024.0)), "1.5 MiB");
        let cpu = serde_json::json!({"mhz": 2400.4, "governors": ["ondemand"], "boost": true});
        assert_eq!(clock_rate(&cpu), "2400 MHz, governor ondemand, boost on");
    }
}
