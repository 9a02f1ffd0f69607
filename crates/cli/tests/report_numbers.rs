//! The numbers of a report's tables against the JSON of `dnsdyno export`: each is worked out here once more from the run.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use measure::{Histogram, stats};
use record::{CellRecord, Connections, Figure, Run, Secondary, Store, Times, TrialRecord};
use serde_json::Value;

/// A cell of a table: its column, its exact value, and what is shown.
type Cell = (String, Option<f64>, String);

/// What a row should say by column.
type Right<'a> = &'a dyn Fn(&str) -> Option<f64>;

/// Runs `dnsdyno` over a store.
fn dnsdyno(store: &Path, args: &[&str]) -> Vec<u8> {
    let mut command = Command::new(cargo_bin("dnsdyno"));
    let output = command.args(args).arg("--store").arg(store).output().expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Text as maud escaped it, back.
fn plain(text: &str) -> String {
    let mut out = String::new();
    // Tags within a cell: a break between the value and its spread.
    for (i, part) in text.split('<').enumerate() {
        match part.split_once('>') {
            Some((_, after)) if i > 0 => {
                out.push('\n');
                out.push_str(after);
            }
            _ => out.push_str(part),
        }
    }
    out.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The tables of a page by caption: rows of cells.
fn tables(page: &str) -> BTreeMap<String, Vec<Vec<Cell>>> {
    let between = |text: &str, from: &str, to: &str| {
        let start = text.find(from)? + from.len();
        Some(text[start..].split(to).next()?.to_owned())
    };
    let attribute =
        |cell: &str, name: &str| between(cell.split('>').next()?, &format!("{name}=\""), "\"");
    let mut out = BTreeMap::new();
    for table in page.split("<table class=\"sortable\">").skip(1) {
        let table = table.split("</table>").next().expect("a part");
        // The conditions stand behind the caption, in a tag of their own.
        let caption = between(table, "<caption>", "</caption>").expect("a caption");
        let caption = caption.split(" <span>").next().expect("a part");
        let body = between(table, "<tbody>", "</tbody>").expect("a body");
        let row = |row: &str| {
            row.split("<td")
                .skip(1)
                .map(|cell| {
                    let head = plain(&attribute(cell, "data-h").expect("the column's name"));
                    let value = attribute(cell, "data-v").and_then(|v| v.parse().ok());
                    let end = cell.find("</td>").expect("its end");
                    let text = plain(&cell[cell.find('>').expect("its beginning") + 1..end]);
                    (head, value, text)
                })
                .collect()
        };
        out.insert(plain(caption), body.split("<tr>").skip(1).map(row).collect());
    }
    out
}

/// The number at the beginning of a text in the base unit of its column, and how far it may be off by rounding.
fn shown(text: &str) -> Option<(f64, f64)> {
    let text = text.lines().next()?.trim_start_matches("≥ ").trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && !".,-".contains(c)).unwrap_or(text.len());
    let digits = text[..end].replace(',', "");
    let decimals = digits.split_once('.').map_or(0, |(_, d)| d.len());
    let factor = match text[end..].trim() {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => 1.0,
    };
    let number: f64 = digits.parse().ok()?;
    Some((number * factor, factor * 0.5001 * 10f64.powi(-(decimals as i32))))
}

/// The trials that stand for a cell, as docs/report.md says: of each search the valid ones at the rate that it found,
/// less those that missed the goal; if it found none, those at its lowest rate; of other methods the last one at the highest rate of each
/// repeat.
fn deciding(cell: &CellRecord) -> Vec<&TrialRecord> {
    let void: Vec<u32> = cell.void_repeats.iter().map(|void| void.repeat).collect();
    let made = cell.repeats as usize + void.len();
    let mut found = cell.capacities.iter().map(|capacity| capacity.qps);
    let mut out = Vec::new();
    for repeat in (0..made as u32).filter(|repeat| !void.contains(repeat)) {
        let valid: Vec<&TrialRecord> = { cell.trials.iter() }
            .filter(|t| t.repeat == repeat && t.trial.void.0.is_none())
            .collect();
        let rates = || valid.iter().map(|t| t.rate_qps);
        if cell.method != "search" {
            let highest = rates().fold(0.0, f64::max);
            out.extend(valid.iter().copied().rfind(|t| t.rate_qps == highest));
            continue;
        }
        let found = found.next().expect("a search for each repeat");
        let at = found.unwrap_or_else(|| rates().fold(f64::MAX, f64::min));
        let stands = |t: &&TrialRecord| {
            t.rate_qps == at && (found.is_none() || t.trial.passed != Some(false))
        };
        out.extend(valid.iter().copied().filter(stands));
    }
    out
}

/// The rate that a search found and that is nearest to the median, the first of several.
fn nearest(cell: &CellRecord) -> Option<f64> {
    let off = |found: &f64| (found - cell.median_qps.expect("a median")).abs();
    let found = cell.capacities.iter().filter_map(|capacity| capacity.qps);
    found.reduce(|best, next| if off(&next) < off(&best) { next } else { best })
}

fn merged<'a>(times: impl Iterator<Item = &'a Times>) -> Histogram {
    let mut all = Histogram::new();
    times.for_each(|t| all.merge(&t.histogram().expect("a histogram")));
    all
}

/// A quantile in microseconds, if there is anything.
fn quantile(times: &Histogram, q: f64) -> Option<f64> {
    (times.count() > 0).then(|| times.quantile(q).as_micros_f64())
}

fn capacity(cell: &CellRecord, head: &str) -> Option<f64> {
    let of = nearest(cell);
    let stands = |t: &&TrialRecord| of.is_none_or(|rate| t.rate_qps == rate);
    let stand = deciding(cell).into_iter().filter(stands);
    let latency = merged(stand.map(|t| &t.trial.latency_us));
    let found: Vec<f64> = cell.capacities.iter().filter_map(|c| c.qps).collect();
    match head {
        "median, queries/s" => cell.median_qps,
        "1st percentile" => cell.p01_qps,
        "99th percentile" => cell.p99_qps,
        "std. dev." => stats::std_dev(&found),
        "searches" => Some(f64::from(cell.repeats)),
        "latency p50" => quantile(&latency, 0.5),
        "latency p99" => quantile(&latency, 0.99),
        other => panic!("nothing is known of the column {other}"),
    }
}

fn trial(t: &TrialRecord, head: &str) -> Option<f64> {
    let (rate, repeat, t) = (t.rate_qps, t.repeat, &t.trial);
    Some(match head {
        "search" => f64::from(repeat),
        "offered, queries/s" => rate,
        "offered" => t.offered_qps,
        "answered" => t.answered_qps,
        "valid, %" if t.sent == 0 => 0.0,
        "valid, %" => 100.0 * t.valid as f64 / t.sent as f64,
        // What the Tester's own host dropped is not lost.
        "lost" => t.lost.saturating_sub(t.drops.tester_receive) as f64,
        "p50" => t.latency_us.p50,
        "p99" => t.latency_us.p99,
        "max" => t.latency_us.max,
        "schedule p99" => t.schedule_error_us.p99,
        "outstanding" => return t.outstanding.map(|numbers| numbers.end),
        other => panic!("nothing is known of the column {other}"),
    })
}

fn connections(cell: &CellRecord, head: &str) -> Option<f64> {
    let all: Vec<&Connections> =
        cell.trials.iter().filter_map(|t| t.trial.connections.as_ref()).collect();
    let sum = |n: fn(&Connections) -> u64| all.iter().map(|c| n(c)).sum::<u64>() as f64;
    let established = sum(|c| c.established);
    let time =
        |which: fn(&Connections) -> &Times, q| quantile(&merged(all.iter().map(|c| which(c))), q);
    match head {
        "connections" => Some(established),
        "failed" => Some(sum(|c| c.failed.values().sum())),
        "resumed" => Some(sum(|c| c.resumed) / established.max(1.0)),
        "0-RTT" => Some(sum(|c| c.early_data) / established.max(1.0)),
        "TCP p50" => time(|c| &c.connect_us, 0.5),
        "handshake p50" => time(|c| &c.handshake_us, 0.5),
        "handshake p99" => time(|c| &c.handshake_us, 0.99),
        "first query p50" => time(|c| &c.first_query_us, 0.5),
        "later queries p50" => time(|c| &c.steady_us, 0.5),
        other => panic!("nothing is known of the column {other}"),
    }
}

/// A figure's name as the head of its column.
fn head_of(name: &str) -> String {
    report::view::figure_name(name).to_lowercase()
}

fn figure(figures: &BTreeMap<String, Figure>, head: &str) -> Option<f64> {
    let found = figures.iter().find(|(name, _)| head_of(name) == head.to_lowercase());
    let mut values = found?.1.values.clone();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    Some((values.get(n / 2)? + values.get((n - 1) / 2)?) / 2.0)
}

fn of_cell(cell: &CellRecord, head: &str) -> Option<f64> {
    let repeats = (head == "repeats").then_some(f64::from(cell.repeats));
    repeats.or_else(|| figure(&cell.figures, head))
}

fn of_secondary(secondary: &Secondary, head: &str) -> Option<f64> {
    figure(&secondary.figures, head)
}

/// How many of what `shown` reads are one of a figure's unit, by the heads of the columns.
fn factors(run: &Run) -> BTreeMap<String, f64> {
    let factor = |unit: &str| match unit {
        "s" => 1e6,
        "ms" => 1e3,
        _ => 1.0,
    };
    let of_cells = run.results.iter().map(|c| &c.figures);
    let of_secondaries = run.results.iter().flat_map(|c| &c.secondaries).map(|s| &s.figures);
    let all = of_cells.chain(of_secondaries).flatten();
    all.map(|(name, figure)| (head_of(name), factor(&figure.unit))).collect()
}

const IN_WORDS: [&str; 10] = [
    "rates",
    "limited by",
    "verdict",
    "RFC 8219",
    "address",
    "where",
    "sustained",
    "rule",
    "link",
    "path",
];

/// Compares a table with what it should say; how many numbers there were.
fn check(
    name: &str,
    rows: &[Vec<Cell>],
    wanted: &[Right<'_>],
    settings: &[String],
    factors: &BTreeMap<String, f64>,
) -> usize {
    assert_eq!(rows.len(), wanted.len(), "{name}: rows");
    let mut numbers = 0;
    for (row, wanted) in rows.iter().zip(wanted) {
        for (head, value, text) in row {
            if settings.contains(head) || IN_WORDS.contains(&head.as_str()) {
                continue;
            }
            let right = wanted(head);
            let same = match (value, right) {
                (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * b.abs().max(1e-9),
                (a, b) => a.is_none() && b.is_none(),
            };
            assert!(same, "{name}, {head}: {value:?} instead of {right:?}");
            let Some(right) = right else {
                assert_eq!(text, "–", "{name}, {head}");
                continue;
            };
            // Percent of a share, and searches from 1.
            let (number, off) =
                shown(text).unwrap_or_else(|| panic!("{name}, {head}: no number in {text}"));
            let figures = ["figures", "secondaries"].contains(&name);
            let scale = match head.as_str() {
                "search" => right + 1.0,
                "resumed" | "0-RTT" => right * 100.0,
                "repeats" => right,
                head if figures => right * factors[&head.to_lowercase()],
                _ => right,
            };
            // Long numbers in figures have four digits.
            let off = if figures { off.max(scale.abs() * 1e-3) } else { off };
            assert!((number - scale).abs() <= off, "{name}, {head}: {text} is not {scale}");
            numbers += 1;
        }
    }
    numbers
}

/// Takes the buckets out: the page leaves them out, and `hdr` says the same.
fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("hdr") {
                fields.remove("buckets");
            }
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// The raw data of a page.
fn raw(page: &str) -> Value {
    let packed = page.split("data:application/gzip;base64,").nth(1).expect("raw data");
    let packed =
        BASE64_STANDARD.decode(packed.split('"').next().expect("its end")).expect("base64");
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).expect("gzip");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn every_number_of_a_table_is_that_of_the_export() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = dir.path().join("runs.db");
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs");
    let mut total = BTreeMap::new();
    for entry in std::fs::read_dir(runs).expect("the stored runs") {
        let path = entry.expect("an entry").path();
        let run = record::read_run(&path).expect("a run");
        let id = Store::open(&store).expect("a store").put(&run).expect("kept").to_string();
        let mut exported: Value =
            serde_json::from_slice(&dnsdyno(&store, &["export", &id, "--format", "json"]))
                .expect("JSON");
        let page = dnsdyno(&store, &["report", &id, "--output", "-"]);
        let page = String::from_utf8(page).expect("UTF-8");
        strip(&mut exported);
        assert_eq!(raw(&page), exported, "{}: the raw data", path.display());

        let run: Run = serde_json::from_value(exported).expect("a run");
        let settings: Vec<String> =
            run.results.iter().flat_map(|c| c.settings.keys()).cloned().collect();
        for (caption, rows) in tables(&page) {
            let of = |which: &dyn Fn(&CellRecord) -> bool| -> Vec<&CellRecord> {
                run.results.iter().filter(|c| which(c)).collect()
            };
            type Wanted<'a> = Vec<Box<dyn Fn(&str) -> Option<f64> + 'a>>;
            let cells = |of: Vec<_>, how: fn(&CellRecord, &str) -> Option<f64>| -> Wanted<'_> {
                of.into_iter()
                    .map(|c: &CellRecord| Box::new(move |h: &str| how(c, h)) as Box<_>)
                    .collect()
            };
            let (name, wanted): (_, Wanted<'_>) = match caption.as_str() {
                "Capacity of each server and setting" => {
                    ("capacity", cells(of(&|c| c.method == "search"), capacity))
                }
                "Figures of each server and setting" => {
                    ("figures", cells(of(&|c| !c.figures.is_empty()), of_cell))
                }
                "Each secondary separately" => {
                    let all = run.results.iter().flat_map(|c| &c.secondaries);
                    (
                        "secondaries",
                        all.map(|s| Box::new(move |h: &str| of_secondary(s, h)) as Box<_>)
                            .collect(),
                    )
                }
                "What connections cost" => {
                    let with =
                        |c: &CellRecord| c.trials.iter().any(|t| t.trial.connections.is_some());
                    ("connections", cells(of(&with), connections))
                }
                "Every trial" => {
                    let all = run.results.iter().flat_map(|c| &c.trials);
                    (
                        "trials",
                        all.map(|t| Box::new(move |h: &str| trial(t, h)) as Box<_>).collect(),
                    )
                }
                other => panic!("nothing is known of the table {other}"),
            };
            let wanted: Vec<Right<'_>> = wanted.iter().map(|w| &**w).collect();
            *total.entry(name).or_insert(0) +=
                check(name, &rows, &wanted, &settings, &factors(&run));
        }
    }
    for name in ["capacity", "figures", "secondaries", "connections", "trials"] {
        assert!(total.get(name).is_some_and(|n| *n > 20), "{name}: {total:?}");
    }
}

#[test]
fn numbers_are_read_as_they_are_shown() {
    for (text, number) in [
        ("≥ 1,234,567", 1_234_567.0),
        ("1.50 ms", 1_500.0),
        ("25 %\n n = 3", 25.0),
        ("2.50 GB", 2.5e9),
    ] {
        assert_eq!(shown(text).map(|(n, _)| n), Some(number), "{text}");
    }
    assert_eq!(shown("–"), None);
}
