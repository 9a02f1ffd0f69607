//! Cells of methods other than a search: tables of their figures, and the tables of the sources if there are any
//! (seed 000 for lock-step experiments, seed 002 for generators).

use std::fmt::Write;

use measure::stats;
use record::{CellRecord, LockStepRow, LockStepTable, Run, SCHEMA};

use crate::lockstep;
use crate::results::{Results, spread_words};
use crate::spread::spread;
use crate::view::align;
use crate::view::limiter::{differences, last_proof, limiter_names};
use crate::view::name::{cores, long_name, notes_of_cells, repeats, server_name, void_notes};
use crate::view::table::{by_key, sorted_once, varied, words_then_numbers};
use crate::{answers, extrapolation, falls};

/// Returns the tables of all cells that have figures instead of a capacity, at most `width` columns
/// wide by omitting columns; and the number of omitted ones.
pub(crate) fn tables(run: &Run, width: usize) -> (String, usize) {
    let (mut out, mut left_out) = (String::new(), 0);
    for (method, cells) in by_method(run) {
        let results = Results::of(run, cells.clone());
        let spread = spread_words(&cells);
        let repeated = cells.iter().find(|_| method == "load" && cells.len() == 1);
        let repeated = repeated.filter(|cell| cell.repeats_made() > 1 && !cell.figures.is_empty());
        let what = match repeated {
            Some(cell) => format!("{} loads of {}{spread}", repeats(cell), server_name(cell)),
            None => format!("Figures of the method {method}{spread}"),
        };
        let _ = writeln!(out, "{}", results.conditions.title(&what));
        match (method, repeated) {
            ("lockstep", _) => lanes(&mut out, &cells),
            ("generators", _) => generators(&mut out, &cells),
            (_, Some(cell)) => {
                let (table, _) = Results::by_figure(cell).text(width);
                let _ = writeln!(out, "{table}limited by {}", limiter_names(cell));
            }
            (_, None) => {
                let (text, gone) = results.figures().text(width);
                out.push_str(&text);
                left_out += gone;
            }
        }
        compared(&mut out, &cells);
    }
    (out, left_out)
}

/// Returns the cells of each method but searches.
fn by_method(run: &Run) -> Vec<(&str, Vec<&CellRecord>)> {
    let others = run.results.iter().filter(|cell| cell.method != "search");
    by_key(others.map(|cell| (cell.method.as_str(), cell)))
}

/// Returns further facts about these cells: notes, void repeats, secondaries, and comparisons with
/// publications.
pub(crate) fn details(run: &Run) -> String {
    let mut out = String::new();
    for (_, cells) in by_method(run) {
        notes_of_cells(&mut out, &cells, |cell| {
            let seen = cell.capacity.iter().flat_map(|c| &c.seen).map(ToString::to_string);
            let notes = cell.notes.iter().cloned().chain(void_notes(cell)).chain(spread(cell));
            notes.chain(seen).chain(last_proof(cell)).chain(differences(cell)).collect()
        });
        if let Some(table) = Results::of(run, cells.clone()).secondaries() {
            let _ = write!(out, "\n{}", table.whole_text());
        }
        out.push_str(&falls::text(&cells));
        out.push_str(&extrapolation::table(&cells));
        if let Some(cores) = cores(&cells) {
            let _ = writeln!(out, "cores: {cores}");
        }
    }
    out
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

/// Returns the mean of a figure over the repeats.
fn mean(cell: &CellRecord, name: &str) -> Option<f64> {
    stats::mean(&cell.figures.get(name)?.values)
}

/// Writes seed 000's table for each server and each other varied setting.
fn lanes(out: &mut String, cells: &[&CellRecord]) {
    let row = |cell: &&CellRecord| {
        let lanes = cell.settings.get("lanes");
        let threads = lanes.and_then(|lanes| lanes.parse().ok()).unwrap_or(1);
        let others = cell.settings.keys().filter(|key| !["lanes", "cores"].contains(&key.as_str()));
        let title = long_name(cell, others);
        // The trial of the last repeat shows the outcomes of the queries.
        let last = cell.trials.iter().rev().find(|t| !t.trial.void.is_void());
        let last = last.filter(|_| cell.repeats > 0)?;
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
        Some((title, row))
    };
    for (server, mut rows) in by_key(cells.iter().filter_map(row)) {
        rows.sort_by_key(|row| row.threads);
        let _ = writeln!(out, "{}", lockstep(&LockStepTable { schema: SCHEMA, server, rows }));
    }
}

/// Writes seed 002's table for each server: one column for each generator.
fn generators(out: &mut String, cells: &[&CellRecord]) {
    for title in sorted_once(cells.iter().map(|cell| server_name(cell))) {
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
}

#[cfg(test)]
mod tests {
    use record::{Basis, CapacityRatio, Figure, Secondary, Seen, ServerCapacity};

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
        let (table, _) = tables(&run, 100);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines,
            [
                "Figures of the method zone-load",
                "server  namespace       qps  resident  zone load  repeats  limited by",
                "nsd     10.0.0.0/16  12,345    2.5 MB      1.5 s        1  not known",
                "knot    10.0.0.0/12       -         -      1.5 s        1  not known",
            ]
        );
    }

    #[test]
    fn a_table_shows_how_far_repeats_differ() {
        let mut hidden = cell("auth", "pacing", "window", "load", &[]);
        let values = vec![303_262.0, 8_522.0, 300_104.0];
        hidden.figures.insert("highest_answered".into(), Figure::new("qps", values));
        hidden.repeats = 3;
        let (table, _) = tables(&Run { results: vec![hidden], ..Run::default() }, 100);
        assert!(table.contains("300,104 (8,522 to 303,262)"), "{table}");
    }

    #[test]
    fn the_repeats_of_a_load_have_a_row_for_each_figure() {
        let mut load = cell("auth", "x", "1", "load", &[]);
        load.figures.insert("valid_answers".into(), Figure::new("qps", vec![9.0, 11.0]));
        load.figures.insert("lost".into(), Figure::new("%", vec![0.0, 1.0]));
        load.repeats = 2;
        let (table, _) = tables(&Run { results: vec![load], ..Run::default() }, 100);
        let lines: Vec<String> = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let wanted = [
            "2 loads of auth, medians; ranges in brackets",
            "figure median",
            "lost 0.5 % (0 % to 1 %)",
            "valid answers 10 (9 to 11)",
            "limited by not known",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn enough_repeats_have_an_interval() {
        let of = |values: &[f64]| {
            let mut many = cell("auth", "pacing", "window", "closed", &[]);
            many.figures.insert("lost".into(), Figure::new("%", values.to_vec()));
            many.repeats = values.len() as u32;
            tables(&Run { results: vec![many], ..Run::default() }, 100).0
        };
        // Of nine values the second smallest and the second largest have the median between them in 96 of 100 cases.
        let nine = of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 90.0]);
        assert!(nine.contains("method closed, 95 % intervals in brackets"), "{nine}");
        assert!(nine.contains("5 % (2 % to 8 %)"), "{nine}");
        let five = of(&[1.0, 2.0, 3.0, 4.0, 90.0]);
        assert!(five.contains("method closed, medians; ranges in brackets"), "{five}");
        assert!(five.contains("3 % (1 % to 90 %)"), "{five}");
    }

    #[test]
    fn servers_are_compared_with_the_baseline() {
        let of = |server: &str, qps: f64, ratio: Option<CapacityRatio>| {
            let mut cell = cell(server, "x", "1", "capacity", &[]);
            cell.figures.insert("capacity".into(), Figure::new("qps", vec![qps; 8]));
            cell.capacity = Some(ServerCapacity {
                qps,
                low_qps: 0.98 * qps,
                high_qps: 1.02 * qps,
                basis: Basis::Demand,
                cpu_us_per_answer: Some(1e6 / qps),
                seen: vec![Seen::TesterBusy(0.99)],
                ..ServerCapacity::default()
            });
            CellRecord { ratio, ..cell }
        };
        let ratio = CapacityRatio { baseline: "old".into(), value: 0.934, low: 0.923, high: 0.949 };
        let results = vec![of("old", 20_000.0, None), of("new", 18_680.0, Some(ratio))];
        let mut run = Run { results, ..Run::default() };
        let (table, left_out) = tables(&run, 100);
        for part in [
            "Figures of the method capacity, 95 % intervals in brackets",
            "~20,000 (19,600 to 20,400)                       1",
            "~18,680 (18,306 to 19,054)  0.934 (0.923 to 0.949)",
        ] {
            assert!(table.contains(part), "{part}\n{table}");
        }
        assert_eq!(left_out, 0, "{table}");
        let details = details(&run);
        assert!(details.contains("all: the Tester's core was 99 % busy"), "{details}");
        // Beside a lower bound the ratio is an upper one.
        run.results[0].capacity.as_mut().expect("a capacity").exceeded = true;
        let (table, _) = tables(&run, 100);
        assert!(table.contains("< 0.934 (0.923 to 0.949)"), "{table}");
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
        let table = details(&Run { results: vec![asked], ..Run::default() });
        let lines: Vec<&str> = table.lines().filter(|line| !line.is_empty()).collect();
        let wanted = [
            "secondary  address    where  AXFR",
            "nsd        127.0.0.2  nsd       1",
            "bind9      127.0.0.3  nsd       2",
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
        let (table, _) = tables(&run, 100);
        for part in [
            "server  ttl  over TCP  differs from two  repeats  limited by\none     5s          7                 1        1  not known\n",
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
        let (table, _) = tables(&run, 100);
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
