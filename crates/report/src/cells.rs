//! Cells of methods other than a search: tables of their figures, and the tables of the sources if there are any
//! (seed 000 for lock-step experiments, seed 002 for generators).

use std::fmt::Write;

use measure::stats;
use record::{CellRecord, Figure, LockStepRow, LockStepTable, Run, SCHEMA};

use crate::lockstep;
use crate::view::Align::{Left, Right};
use crate::view::conditions::Conditions;
use crate::view::name::{cores, long_name, repeats, server_name, short_name, void_notes};
use crate::view::table::{figure_order, varied, words_then_numbers};
use crate::view::{align, figure_name, quantity};
use crate::{answers, extrapolation, falls};

/// Returns the tables of all cells that have figures instead of a capacity.
pub(crate) fn tables(run: &Run) -> String {
    let mut out = String::new();
    let mut methods: Vec<&str> = Vec::new();
    for cell in run.results.iter().filter(|cell| cell.method != "search") {
        if !methods.contains(&cell.method.as_str()) {
            methods.push(&cell.method);
        }
    }
    for method in methods {
        let cells: Vec<&CellRecord> = run.results.iter().filter(|c| c.method == method).collect();
        let conditions = heading(&mut out, run, method, &cells);
        match method {
            "lockstep" => lanes(&mut out, &cells),
            "generators" => generators(&mut out, &cells),
            "answers" => {
                figures(&mut out, run, &cells, &conditions);
                compared(&mut out, &cells);
            }
            _ => figures(&mut out, run, &cells, &conditions),
        }
    }
    out
}

/// Writes the heading of the tables of `method`: the conditions that their cells share.
fn heading(out: &mut String, run: &Run, method: &str, cells: &[&CellRecord]) -> Conditions {
    let conditions = Conditions::of(run, cells.iter().copied(), &varied(cells.iter().copied()));
    let _ = writeln!(out, "{}", conditions.title(&format!("Figures of the method {method}")));
    conditions
}

/// Writes one line for each cell, with a column for each varied setting and each figure; medians of the repeats.
fn figures(out: &mut String, run: &Run, cells: &[&CellRecord], conditions: &Conditions) {
    let keys = varied(cells.iter().copied());
    let names = figure_order(cells.iter().flat_map(|cell| cell.figures.keys()));
    let limited = cells.iter().any(|cell| !cell.trials.is_empty());
    let mut head: Vec<String> = vec!["server".into()];
    head.extend(keys.iter().cloned());
    head.extend(conditions.columns.iter().map(|name| (*name).to_owned()));
    head.extend(names.iter().map(|name| figure_name(name)));
    head.push("repeats".into());
    head.extend(limited.then(|| "limiter".to_owned()));
    let mut rows = vec![head];
    for cell in cells {
        let mut row = vec![server_name(cell)];
        row.extend(keys.iter().map(|key| cell.settings.get(key).cloned().unwrap_or_default()));
        row.extend(conditions.values(run, cell));
        row.extend(names.iter().map(|name| median(cell.figures.get(*name))));
        row.push(repeats(cell));
        row.extend(limited.then(|| cell.limiters().to_string()));
        rows.push(row);
    }
    let words = 1 + keys.len() + conditions.columns.len();
    let mut sides = vec![Left; words];
    sides.extend(vec![Right; names.len() + 1]);
    sides.push(Left);
    out.push_str(&align(&rows, &sides));
    voids(out, cells, &keys);
    secondaries(out, cells, &keys);
    out.push_str(&falls::table(cells));
    out.push_str(&extrapolation::table(cells));
    if let Some(cores) = cores(cells) {
        let _ = writeln!(out, "cores: {cores}");
    }
}

/// Writes the counts of each comparison of answers.
fn compared(out: &mut String, cells: &[&CellRecord]) {
    let keys = varied(cells.iter().copied());
    for cell in cells {
        let Some(diff) = &cell.answers else { continue };
        let varied = cell.settings.iter().filter(|(key, _)| keys.contains(key));
        let at: String = varied.map(|(key, value)| format!(", {key}={value}")).collect();
        let _ = writeln!(out, "\n{}{at}\n{}\n", answers::title(diff), answers::conditions(diff));
        // A write to a String never fails.
        let _ = answers::write_counts(diff, out);
    }
}

/// Writes a line for each shortcoming and each void repeat, and for the void rates of each repeat.
fn voids(out: &mut String, cells: &[&CellRecord], keys: &[String]) {
    for cell in cells {
        for note in cell.notes.iter().cloned().chain(void_notes(cell)) {
            let _ = writeln!(out, "{}: {note}", short_name(cell, keys.iter()));
        }
    }
}

/// Writes one line for each secondary of each cell, with a column for each figure; medians of the repeats.
fn secondaries(out: &mut String, cells: &[&CellRecord], keys: &[String]) {
    let all = || cells.iter().flat_map(|cell| cell.secondaries.iter().map(move |s| (cell, s)));
    let names = figure_order(all().flat_map(|(_, secondary)| secondary.figures.keys()));
    if names.is_empty() {
        return;
    }
    let mut head: Vec<String> = vec!["secondary".into(), "address".into()];
    head.extend(keys.iter().cloned());
    head.extend(names.iter().map(|name| figure_name(name)));
    let mut rows = vec![head];
    for (cell, secondary) in all() {
        let mut row = vec![secondary.server.clone(), secondary.address.clone()];
        row.extend(keys.iter().map(|key| cell.settings.get(key).cloned().unwrap_or_default()));
        row.extend(names.iter().map(|name| median(secondary.figures.get(*name))));
        rows.push(row);
    }
    out.push('\n');
    out.push_str(&align(&rows, &words_then_numbers(2 + keys.len())));
}

/// Formats the median of a figure.
fn median(figure: Option<&Figure>) -> String {
    let median = figure.and_then(|f| Some(quantity(f.median()?, &f.unit)));
    median.unwrap_or_else(|| "-".to_owned())
}

/// Returns the mean of a figure over the repeats.
fn mean(cell: &CellRecord, name: &str) -> Option<f64> {
    stats::mean(&cell.figures.get(name)?.values)
}

/// Writes seed 000's table for each server and each other varied setting.
fn lanes(out: &mut String, cells: &[&CellRecord]) {
    let mut groups: Vec<(String, Vec<LockStepRow>)> = Vec::new();
    for cell in cells {
        let lanes = cell.settings.get("lanes");
        let threads = lanes.and_then(|lanes| lanes.parse().ok()).unwrap_or(1);
        let others = cell.settings.keys().filter(|key| !["lanes", "cores"].contains(&key.as_str()));
        let title = long_name(cell, others);
        // The trial of the last repeat stands for what became of the queries.
        let last = cell.trials.iter().rev().find(|t| !t.trial.void.is_void());
        let Some(last) = last.filter(|_| cell.repeats > 0) else { continue };
        let figure = |name| mean(cell, name);
        let row = LockStepRow {
            threads,
            experiments: (last.trial.planned / 256) as u32,
            mean_ms: figure("experiment_time").unwrap_or(0.0),
            std_dev_ms: figure("experiment_time_std_dev").unwrap_or(0.0),
            max_ms: figure("experiment_time_max").unwrap_or(0.0),
            qps: figure("qps").unwrap_or(0.0),
            cpu_percent: figure("cpu"),
            cpu_std_dev: figure("cpu_std_dev"),
            trial: last.trial.clone(),
        };
        match groups.iter_mut().find(|(other, _)| *other == title) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((title, vec![row])),
        }
    }
    for (server, mut rows) in groups {
        rows.sort_by_key(|row| row.threads);
        let _ = writeln!(out, "{}", lockstep(&LockStepTable { schema: SCHEMA, server, rows }));
    }
    voids(out, cells, &varied(cells.iter().copied()));
}

/// Writes seed 002's table for each server: one column for each generator.
fn generators(out: &mut String, cells: &[&CellRecord]) {
    let mut servers: Vec<String> = cells.iter().map(|cell| server_name(cell)).collect();
    servers.dedup();
    servers.sort_unstable();
    servers.dedup();
    for title in servers {
        let of: Vec<&&CellRecord> =
            cells.iter().filter(|cell| server_name(cell) == title).collect();
        let _ = writeln!(out, "Generators against {title}");
        let line = |what: &str, which: &str, cell: &dyn Fn(&CellRecord) -> String| {
            let mut row = vec![what.to_owned(), which.to_owned()];
            row.extend(of.iter().map(|c| cell(c)));
            row
        };
        let figure = |name: &'static str, digits: usize| {
            move |c: &CellRecord| mean(c, name).map_or("-".to_owned(), |x| format!("{x:.digits$}"))
        };
        let what = |c: &CellRecord| c.settings.get("generator").cloned().unwrap_or_default();
        let rows = [
            line("Generator", "", &what),
            line("Execution time of one experiment (s)", "average", &figure("experiment_time", 4)),
            line("", "std. dev.", &figure("experiment_time_std_dev", 4)),
            line("", "maximum", &figure("experiment_time_max", 4)),
            line("Performance (requests/s)", "", &figure("requests_per_second", 0)),
            line("Queries without an answer", "", &figure("unanswered", 0)),
            line("CPU time (% of a core)", "Tester", &figure("cpu_tester", 1)),
            line("", "server", &figure("cpu_dut", 1)),
            line("", "AuthDNS", &figure("cpu_authdns", 1)),
        ];
        out.push_str(&align(&rows, &words_then_numbers(2)));
        out.push('\n');
    }
    voids(out, cells, &varied(cells.iter().copied()));
}

#[cfg(test)]
mod tests {
    use record::Secondary;

    use super::*;

    fn cell(
        server: &str,
        key: &str,
        value: &str,
        method: &str,
        figures: &[(&str, &str, f64)],
    ) -> CellRecord {
        let settings = [(key.to_owned(), value.to_owned()), ("cores".into(), "1".into())];
        let mut cell = CellRecord::new(server, settings.into(), method);
        cell.repeats = 1;
        for (name, unit, value) in figures {
            cell.figures.insert((*name).to_owned(), Figure::new(unit, vec![*value]));
        }
        cell
    }

    #[test]
    fn figures_stand_in_columns_and_what_is_common_is_left_out() {
        let figures = [("zone_load", "s", 1.5), ("resident", "B", 2.5e6), ("qps", "qps", 12_345.0)];
        let run = Run {
            results: vec![
                cell("nsd", "namespace", "10.0.0.0/16", "zone-load", &figures),
                cell("knot", "namespace", "10.0.0.0/12", "zone-load", &figures[..1]),
            ],
            ..Run::default()
        };
        let table = tables(&run);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines,
            [
                "Figures of the method zone-load",
                "server  namespace       qps  resident  zone load  repeats",
                "nsd     10.0.0.0/16  12,345    2.5 MB      1.5 s        1",
                "knot    10.0.0.0/12       -         -      1.5 s        1",
            ]
        );
    }

    #[test]
    fn each_secondary_has_a_line() {
        let mut asked =
            cell("nsd", "primary", "knot", "query-under-update", &[("qps", "qps", 1.0)]);
        for (number, server) in ["nsd", "bind9"].into_iter().enumerate() {
            let axfr = ("axfr".to_owned(), Figure::new("", vec![number as f64 + 1.0]));
            asked.secondaries.push(Secondary {
                server: server.to_owned(),
                server_version: None,
                address: format!("127.0.0.{}", number + 2),
                figures: [axfr].into(),
            });
        }
        let table = tables(&Run { results: vec![asked], ..Run::default() });
        let (_, below) = table.split_once("\n\n").expect("a second table");
        let lines: Vec<&str> = below.lines().collect();
        let wanted = [
            "secondary  address    AXFR",
            "nsd        127.0.0.2     1",
            "bind9      127.0.0.3     2",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_comparison_of_answers_stands_below_the_figures() {
        let of = |server: &str, ttl: &str| {
            let settings = [("ttl".to_owned(), ttl.to_owned())].into();
            let mut cell = CellRecord::new(server, settings, "answers");
            cell.repeats = 1;
            cell.figures.insert("differs_from_two".into(), Figure::new("", vec![1.0]));
            cell.figures.insert("over_tcp".into(), Figure::new("", vec![7.0]));
            cell.answers = (server == "one").then(|| Box::new(answers::tests::sample()));
            cell
        };
        let run = Run {
            results: vec![of("one", "5s"), of("three", "5s"), of("one", "any")],
            ..Run::default()
        };
        let table = tables(&run);
        for part in [
            "server  ttl  over TCP  differs from two  repeats\none     5s          7                 1        1\n",
            "\nanswers of one, two, three, ttl=5s\n1,200 queries of q.txt",
            "\nanswers of one, two, three, ttl=any\n",
            "\n1,198 equal, 1 differ, 0 known, 1 unstable\n",
            "\nA one, B two    1,198       1       1\n",
        ] {
            assert!(table.contains(part), "{part}\n{table}");
        }
    }

    #[test]
    fn generators_stand_side_by_side() {
        let of = |generator, s: f64| {
            let figures = [
                ("experiment_time", "s", s),
                ("requests_per_second", "1/s", 256.0 / s),
                ("cpu_tester", "%", 100.0 - s),
                ("cpu_dut", "%", s),
            ];
            cell("dns64d", "generator", generator, "generators", &figures)
        };
        let run =
            Run { results: vec![of("script", 4.663), of("lockstep-4", 0.049)], ..Run::default() };
        let table = tables(&run);
        let words: Vec<Vec<&str>> =
            table.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
        let row = |what: &str| {
            let row = words.iter().find(|row| row[0] == what);
            row.unwrap_or_else(|| panic!("{what}: {table}"))[1..]
                .iter()
                .copied()
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
        };
        assert_eq!(row("Generator"), ["script", "lockstep-4"]);
        assert_eq!(row("Execution time of one experiment (s)"), ["average", "4.6630", "0.0490"]);
        assert_eq!(row("Performance (requests/s)"), ["55", "5224"]);
        assert_eq!(row("CPU time (% of a core)"), ["Tester", "95.3", "100.0"]);
        let of =
            |which: &str| words.iter().find(|row| row.contains(&which)).expect("a row").concat();
        assert_eq!(
            (of("server"), of("AuthDNS")),
            ("server4.70.0".to_owned(), "AuthDNS--".to_owned())
        );
    }
}
