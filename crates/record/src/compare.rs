//! Two runs side by side, cell by cell.
//!
//! A cell is compared with the cell of the same server and settings: its capacity if searches found one, each of its
//! figures, or otherwise the rate of its answers. The confidence holds for all figures together: with `n` figures
//! each is held to `1 - (1 - confidence) / n` (Bonferroni), since a run of twenty cells would otherwise often differ
//! from itself.

use std::collections::{BTreeMap, BTreeSet};

use measure::Link;
use measure::stats::{self, Ratio, RepeatWarning, Repeated, Terms, Verdict};
use serde::Serialize;

use crate::{CellRecord, Conditions, HostFacts, Run};

/// Comparison of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Confidence (0 to 1) that no verdict is wrong by chance.
    pub confidence: f64,
    /// Share (0 to 1) by which two runs of the same server may differ.
    pub margin: f64,
    /// Compared figures, in the order of the first run.
    pub figures: Vec<Compared>,
    /// Cells with results in the first run only, and why.
    pub missing: Vec<Missing>,
    /// Cells that only the second run has.
    pub added: Vec<Missing>,
    /// Other differences between the runs, in words.
    pub differs: Vec<String>,
    /// Warnings about the hosts, from their facts.
    pub doubts: Vec<String>,
}

/// A cell without a result in one of the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Name of the server.
    pub server: String,
    /// Varied settings.
    pub settings: BTreeMap<String, String>,
    /// Reason why there is no result.
    pub why: String,
}

/// A figure of a cell in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Name of the server.
    pub server: String,
    /// Varied settings.
    pub settings: BTreeMap<String, String>,
    /// Name of the figure: `capacity`, `answered`, or as in the record.
    pub figure: String,
    /// Unit of the figure.
    pub unit: String,
    /// Median in the first run.
    pub first: f64,
    /// Median in the second run.
    pub second: f64,
    /// Numbers of repeats in the first and in the second run.
    pub repeats: [usize; 2],
    /// Ratio of the second median to the first.
    pub ratio: f64,
    /// Confidence interval of the ratio; null if there are no repeats to estimate it from.
    pub interval: Option<(f64, f64)>,
    /// Smallest ratio above one that could have been distinguished from one; null if there are no repeats.
    pub smallest: Option<f64>,
    /// Outcome of the comparison.
    pub outcome: Outcome,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Outcome of the comparison of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The second run is faster.
    Faster,
    /// The second run is slower.
    Slower,
    /// The second run has more of a figure that is neither a rate nor a time.
    More,
    /// The second run has less of such a figure.
    Less,
    /// The two may be equal or different.
    NoDifferenceShown,
    /// The two were not measured in the same way.
    NotComparable,
}

impl Outcome {
    /// Returns the outcome in words.
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Faster => "faster",
            Outcome::Slower => "slower",
            Outcome::More => "more",
            Outcome::Less => "less",
            Outcome::NoDifferenceShown => "no difference shown",
            Outcome::NotComparable => "not comparable",
        }
    }
}

/// Values of one figure of one cell.
struct Values {
    unit: String,
    median: f64,
    repeated: Repeated,
    at_least: bool,
    doubts: Vec<RepeatWarning>,
}

impl Values {
    fn new(unit: &str, values: &[f64], repeated: Repeated) -> Option<Self> {
        let median = stats::median(values).filter(|_| repeated.count() > 0)?;
        let doubts = stats::repeat_warnings(values);
        Some(Values { unit: unit.to_owned(), median, repeated, at_least: false, doubts })
    }
}

/// Returns the comparable figures of a cell.
fn figures(cell: &CellRecord) -> BTreeMap<String, Values> {
    let mut found = BTreeMap::new();
    let brackets = cell.capacities.iter().filter_map(|c| Some((c.qps?, c.failed_qps.or(c.qps)?)));
    if let Some(mut values) = Values::new("qps", &cell.found_qps(), Repeated::bracketed(brackets)) {
        values.at_least = cell.at_least;
        found.insert("capacity".to_owned(), values);
    }
    for (name, figure) in &cell.figures {
        let repeated = Repeated::new(&figure.values);
        found
            .extend(Values::new(&figure.unit, &figure.values, repeated).map(|v| (name.clone(), v)));
    }
    if found.is_empty() && cell.capacities.is_empty() {
        let trials = cell.trials.iter().filter(|t| !t.trial.void.is_void());
        let rates: Vec<f64> = trials.map(|t| t.trial.answered_qps).collect();
        let values = Values::new("qps", &rates, Repeated::new(&rates));
        found.extend(values.map(|v| ("answered".to_owned(), v)));
    }
    found
}

/// Compares `second` with `first`.
pub fn compare(first: &Run, second: &Run, terms: &Terms) -> Comparison {
    let mut comparison = Comparison {
        confidence: terms.confidence,
        margin: terms.margin,
        figures: Vec::new(),
        missing: Vec::new(),
        added: Vec::new(),
        differs: differences(first, second),
        doubts: [(first, "first"), (second, "second")]
            .iter()
            .flat_map(|(run, which)| {
                let warnings = run.plan.host.iter().flat_map(|host| &host.warnings);
                warnings.map(move |w| format!("{which} run: {}", w.with_advice()))
            })
            .collect(),
    };
    let mut pairs = Vec::new();
    for cell in &first.results {
        let had = figures(cell);
        let other = second.results.iter().find(|c| c.is(&cell.server, &cell.settings));
        let Some(other) = other else {
            comparison.missing.push(absent(cell, why_absent(cell, second)));
            continue;
        };
        let mut has = figures(other);
        let gone = had.keys().filter(|name| !has.contains_key(*name)).cloned().collect::<Vec<_>>();
        if !gone.is_empty() {
            comparison.missing.push(absent(cell, format!("no {}", gone.join(", "))));
        }
        let both = had.into_iter().filter_map(|(name, a)| has.remove(&name).map(|b| (name, a, b)));
        pairs.extend(both.map(|(name, a, b)| (cell, other, name, a, b)));
    }
    let new = second
        .results
        .iter()
        .filter(|c| !first.results.iter().any(|f| f.is(&c.server, &c.settings)));
    comparison.added = new.map(|cell| absent(cell, "not in the first run".to_owned())).collect();
    // The confidence holds for all verdicts together.
    let count = pairs.len().max(1) as f64;
    let each = Terms { confidence: 1.0 - (1.0 - terms.confidence) / count, ..*terms };
    for (cell, other, name, a, b) in &pairs {
        let similar = pairs.iter().filter(|(.., n, _, _)| n == name);
        let pooled = similar.map(|(.., a, b)| a.repeated.scatter() + b.repeated.scatter()).sum();
        if let Some(ratio) = stats::ratio(&a.repeated, &b.repeated, pooled, &each) {
            comparison.figures.push(compared(cell, other, name, a, b, ratio));
        }
    }
    comparison
}

fn absent(cell: &CellRecord, why: String) -> Missing {
    Missing { server: cell.server.clone(), settings: cell.settings.clone(), why }
}

/// Returns the reason why `run` has no such cell.
fn why_absent(cell: &CellRecord, run: &Run) -> String {
    let skipped = run.skipped.iter().find(|s| {
        s.server == cell.server && (s.settings.is_empty() || s.settings == cell.settings)
    });
    skipped.map_or("not in the second run".to_owned(), |s| format!("not measured: {}", s.why))
}

/// Compares one figure of two cells.
fn compared(
    cell: &CellRecord,
    other: &CellRecord,
    name: &str,
    a: &Values,
    b: &Values,
    ratio: Ratio,
) -> Compared {
    let mut notes = Vec::new();
    let unlike = unlike(cell, other, a, b);
    let outcome = if unlike.is_empty() {
        let outcome = outcome(&a.unit, ratio.verdict);
        bounded(outcome, a.at_least, b.at_least, &mut notes)
    } else {
        notes.extend(unlike);
        Outcome::NotComparable
    };
    if ratio.interval.is_none() {
        notes.push("a single repeat: nothing says how much repeats differ".to_owned());
    } else if a.repeated.count().max(b.repeated.count()) == 1 {
        notes.push(
            "a single repeat: how much repeats differ is taken from the other cells".to_owned(),
        );
    }
    for (values, run) in [(a, "first"), (b, "second")] {
        notes.extend(values.doubts.iter().map(|doubt| format!("{run} run: {doubt}")));
    }
    Compared {
        server: cell.server.clone(),
        settings: cell.settings.clone(),
        figure: name.to_owned(),
        unit: a.unit.clone(),
        first: a.median,
        second: b.median,
        repeats: [a.repeated.count(), b.repeated.count()],
        ratio: ratio.ratio,
        interval: ratio.interval,
        smallest: ratio.smallest,
        outcome,
        notes,
    }
}

/// Returns the outcome of a verdict for a figure of `unit`.
fn outcome(unit: &str, verdict: Verdict) -> Outcome {
    let time = matches!(unit, "s" | "ms" | "us" | "ns");
    let rate = matches!(unit, "qps" | "pps" | "1/s");
    match verdict {
        Verdict::NotShown => Outcome::NoDifferenceShown,
        Verdict::Higher if rate => Outcome::Faster,
        Verdict::Higher if time => Outcome::Slower,
        Verdict::Higher => Outcome::More,
        Verdict::Lower if rate => Outcome::Slower,
        Verdict::Lower if time => Outcome::Faster,
        Verdict::Lower => Outcome::Less,
    }
}

/// Weakens the outcome for a lower bound: the true value may be higher.
fn bounded(outcome: Outcome, first: bool, second: bool, notes: &mut Vec<String>) -> Outcome {
    let bounds = [(first, "first"), (second, "second")].into_iter().filter(|(bound, _)| *bound);
    notes.extend(bounds.map(|(_, run)| {
        format!("{run} run: a lower bound, the server was not what limited every search")
    }));
    match outcome {
        Outcome::Faster if first => Outcome::NoDifferenceShown,
        Outcome::Slower if second => Outcome::NoDifferenceShown,
        other => other,
    }
}

/// Returns the reasons why two cells were not measured in the same way.
fn unlike(a: &CellRecord, b: &CellRecord, x: &Values, y: &Values) -> Vec<String> {
    let mut why = Vec::new();
    let mut differ = |what: &str, a: &str, b: &str| {
        if a != b {
            why.push(format!("{what}: `{a}` in the first run, `{b}` in the second"));
        }
    };
    differ("method", &a.method, &b.method);
    differ("goal", &a.goal, &b.goal);
    differ("unit", &x.unit, &y.unit);
    differ("link", &link(a), &link(b));
    differ("path", &path(a), &path(b));
    differ("transport", transport(a), transport(b));
    why
}

/// Returns the conditions of a cell's first trial.
fn conditions(cell: &CellRecord) -> Option<&Conditions> {
    cell.trials.first().map(|trial| &trial.trial.conditions)
}

/// Returns the kind of the links of a cell. Early records only say whether packets were steered.
fn link(cell: &CellRecord) -> String {
    match conditions(cell).map(|c| (c.link, c.packet_steering)) {
        Some((Some(link), _)) => link.to_string(),
        Some((None, Some(true))) => Link::Steered.to_string(),
        Some((None, Some(false))) => Link::Plain.to_string(),
        _ => "unknown".to_owned(),
    }
}

/// Returns how a datagram crossed the links. Early records do not say it: messages crossed whole.
fn path(cell: &CellRecord) -> String {
    let path = conditions(cell).and_then(|c| c.path);
    path.map_or_else(|| "unknown".to_owned(), |path| path.to_string())
}

/// Returns the transport of a cell's queries. Early records do not say it: it was UDP.
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
fn differences(first: &Run, second: &Run) -> Vec<String> {
    let (a, b) = (&first.plan, &second.plan);
    let quick = |quick: bool| if quick { "quick" } else { "full" }.to_owned();
    let mut pairs = vec![
        ("experiment".to_owned(), a.experiment.clone(), b.experiment.clone()),
        ("form".to_owned(), quick(a.quick), quick(b.quick)),
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
        let other = second.results.iter().find(|c| c.is(&cell.server, &cell.settings));
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

impl Comparison {
    /// Returns whether any figure of the second run is shown to be slower.
    pub fn has_slower(&self) -> bool {
        self.figures.iter().any(|f| f.outcome == Outcome::Slower)
    }

    /// Returns whether both runs have a figure that was measured in the same way.
    pub fn says_something(&self) -> bool {
        self.figures.iter().any(|f| f.outcome != Outcome::NotComparable)
    }
}
