//! Differences between the conditions of two runs, and of two cells.

use std::collections::{BTreeMap, BTreeSet};

use super::figures::Values;
use crate::{CellRecord, Conditions, EngineKind, HostFacts, Run};

/// Returns why the figures of two cells cannot be compared; `None` if they can.
///
/// A figure of another method, goal or unit is another figure; these differences cannot be waived.
pub(super) fn other_figure(a: &CellRecord, b: &CellRecord, x: &Values, y: &Values) -> Vec<String> {
    differing([
        ("method", a.method.clone(), b.method.clone()),
        ("goal", a.goal.clone(), b.goal.clone()),
        ("unit", x.unit.clone(), y.unit.clone()),
    ])
}

/// Returns the differences between the conditions of two cells, in words: they may explain a difference of figures.
pub(crate) fn unlike(a: &CellRecord, b: &CellRecord) -> Vec<String> {
    let mut why = differing([
        ("link", link(a), link(b)),
        ("path", path(a), path(b)),
        ("engine", engine(a).to_owned(), engine(b).to_owned()),
        ("transport", transport(a).to_owned(), transport(b).to_owned()),
    ]);
    let (Some(x), Some(y)) = (conditions(a), conditions(b)) else { return why };
    let on = |on: bool| if on { "on" } else { "off" }.to_owned();
    let seconds = |s: f64| format!("{s} s");
    why.extend(differing([
        ("timeout", seconds(x.timeout_s), seconds(y.timeout_s)),
        (
            "receive buffer of a socket",
            format!("{} bytes", x.receive_buffer),
            format!("{} bytes", y.receive_buffer),
        ),
        ("segmented messages (UDP_SEGMENT)", on(x.gso), on(y.gso)),
    ]));
    if !same_duration(duration(a), duration(b)) {
        let (a, b) = (duration(a), duration(b));
        why.extend(differing([("duration", seconds(a), seconds(b))]));
    }
    // Each trial of a search has another rate, and rounds choose their window.
    let chooses = |cell: &CellRecord| !cell.capacities.is_empty() || cell.capacity.is_some();
    if !chooses(a) && !chooses(b) {
        why.extend(differing([("pacing", x.pacing.to_string(), y.pacing.to_string())]));
    }
    why
}

/// Returns the pairs that differ, in words.
fn differing(pairs: impl IntoIterator<Item = (&'static str, String, String)>) -> Vec<String> {
    let differ = pairs.into_iter().filter(|(_, a, b)| a != b);
    differ
        .map(|(what, a, b)| format!("{what}: `{a}` in the first run, `{b}` in the second"))
        .collect()
}

/// Share within which two durations are the same: a trial ends with its last batch.
const SAME_DURATION: f64 = 0.02;

/// Returns whether two durations in seconds are the same, or one of them is not known.
fn same_duration(a: f64, b: f64) -> bool {
    a == 0.0 || b == 0.0 || (a - b).abs() <= SAME_DURATION * a.max(b)
}

/// Returns the longest duration of a complete trial of a cell, in seconds with two decimals; 0 if there is none.
fn duration(cell: &CellRecord) -> f64 {
    let whole = cell.trials.iter().filter(|t| !t.trial.stopped_early);
    let longest = whole.map(|t| t.trial.duration_s).fold(0.0, f64::max);
    (longest * 100.0).round() / 100.0
}

/// Returns the conditions of a cell's first trial.
fn conditions(cell: &CellRecord) -> Option<&Conditions> {
    cell.trials.first().map(|trial| &trial.trial.conditions)
}

/// Returns the kind of the links of a cell.
fn link(cell: &CellRecord) -> String {
    cell.link().map_or_else(|| "unknown".to_owned(), |link| link.to_string())
}

/// Returns the path of datagrams over the links. In early records, without this field, messages
/// crossed whole.
fn path(cell: &CellRecord) -> String {
    cell.path().map_or_else(|| "unknown".to_owned(), |path| path.to_string())
}

/// Returns the engine of a cell's queries; in early records, without this field, sockets.
/// Connections are known by the transport.
fn engine(cell: &CellRecord) -> &str {
    if cell.engine() == Some(EngineKind::Kernel) { "kernel" } else { "sockets" }
}

/// Returns the transport of a cell's queries. In early records, without this field: UDP.
fn transport(cell: &CellRecord) -> &str {
    let word = cell.trials.first().map_or("", |t| t.trial.conditions.transport.as_str());
    if word.is_empty() { "udp" } else { word }
}

/// Reads a fact of a host in words; `None` if the host does not report it.
type Fact = fn(&HostFacts) -> Option<String>;

/// Facts that distinguish two hosts.
const OF_HOSTS: [(&str, Fact); 9] = [
    ("CPU model", |host| host.cpu.model.clone()),
    ("cores", |host| Some(host.cpu.online.to_string())),
    ("SMT", |host| host.cpu.smt.clone()),
    ("frequency governors", |host| Some(host.cpu.governors.join(", "))),
    ("boost", |host| host.cpu.boost.map(|on| if on { "on" } else { "off" }.to_owned())),
    ("mitigations", |host| {
        let all = host.cpu.mitigations.iter().map(|(name, how)| format!("{name}: {how}"));
        Some(all.collect::<Vec<_>>().join("; "))
    }),
    ("kernel release", |host| host.kernel.release.clone()),
    ("clock source", |host| host.kernel.clock_source.clone()),
    ("memory", |host| Some(format!("{} bytes", host.memory.total))),
];

/// Returns the differences between the runs as a whole.
pub(super) fn differences(first: &Run, second: &Run) -> Vec<String> {
    let (a, b) = (&first.plan, &second.plan);
    let mut pairs = vec![
        ("experiment".to_owned(), a.experiment.clone(), b.experiment.clone()),
        ("form".to_owned(), a.form().word().to_owned(), b.form().word().to_owned()),
        ("dnsdyno".to_owned(), a.version.clone(), b.version.clone()),
    ];
    let of = |map: &BTreeMap<String, String>, key: &str| {
        map.get(key).cloned().unwrap_or_else(|| "(none)".to_owned())
    };
    // Hosts are compared if both runs have their facts.
    if let (Some(first), Some(second)) = (&a.host, &b.host) {
        let words = |fact: Option<String>| {
            fact.filter(|fact| !fact.is_empty()).unwrap_or_else(|| "(none)".to_owned())
        };
        pairs.extend(
            OF_HOSTS
                .iter()
                .map(|(what, fact)| ((*what).to_owned(), words(fact(first)), words(fact(second)))),
        );
    }
    let (words_a, words_b) = (a.words(), b.words());
    let keys: BTreeSet<&String> = words_a.keys().chain(words_b.keys()).collect();
    pairs.extend(keys.into_iter().map(|k| (k.clone(), of(&words_a, k), of(&words_b, k))));
    let mut differ: Vec<String> = pairs
        .into_iter()
        .filter(|(_, a, b)| a != b)
        .map(|(what, a, b)| format!("{what}: {a}; then {b}"))
        .collect();
    if a.text != b.text {
        differ.push("the text of the experiment".to_owned());
    }
    for run in [(first, "first"), (second, "second")] {
        if !run.0.complete {
            differ.push(format!("the {} run is incomplete", run.1));
        }
    }
    for cell in &first.results {
        let other = super::partner(first, cell, second);
        if let Some(other) = other.filter(|other| other.server != cell.server) {
            differ.push(format!("target: {}; then {}", cell.server, other.server));
        }
        let versions = (&cell.server_version, other.and_then(|c| c.server_version.as_ref()));
        if let (Some(a), Some(b)) = (versions.0, versions.1)
            && a != b
        {
            let line = format!("{}: {a}; then {b}", cell.server);
            if !differ.contains(&line) {
                differ.push(line);
            }
        }
    }
    differ
}
