//! `dnsdyno export` in the formats of other programs, from real runs (`tests/runs/*.json`).

use std::path::{Path, PathBuf};

use quick_junit::{Report, TestCaseStatus};
use record::{CellRecord, Run, TrialRecord, read_run};
use serde_json::{Value, json};

use crate::kit::command::{self, refused};
use crate::kit::shared;

fn runs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs");
    let files = std::fs::read_dir(folder).expect("the runs").map(|e| e.expect("an entry").path());
    let files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    assert!(files.len() > 3, "{files:?}");
    files
}

/// What a run is exported as.
fn export(file: &Path, form: &str) -> String {
    let (code, out, err) = command::run(&format!("export {} --format {form}", file.display()));
    assert_eq!(code, 0, "{} {form}: {err}", file.display());
    out
}

/// Calls `check` with each real run and what `form` makes of it.
fn each(form: &str, check: impl Fn(&Run, &str)) {
    for file in runs() {
        check(&read_run(&file).unwrap_or_else(|e| panic!("{e}")), &export(&file, form));
    }
}

fn median(values: &[f64]) -> f64 {
    measure::stats::median(values).expect("values")
}

/// Number of figures of a cell that were measured.
fn figures(cell: &CellRecord) -> usize {
    cell.figures.values().filter(|figure| !figure.values.is_empty()).count()
}

#[test]
fn bencher_has_the_median_and_the_range_of_each_figure() {
    each("bencher", |run, text| {
        let json: Value = serde_json::from_str(text).expect("JSON");
        for cell in run.results.iter().filter(|cell| cell.has_figure()) {
            let name = report::view::cell_name(cell);
            let found = cell.found_qps();
            if !found.is_empty() {
                let capacity = &json[&name]["capacity (qps)"];
                assert_eq!(capacity["value"].as_f64(), Some(median(&found)), "{name}: {json}");
                let lowest = found.iter().copied().fold(f64::INFINITY, f64::min);
                let wanted = (found.len() > 1).then_some(lowest);
                assert_eq!(capacity["lower_value"].as_f64(), wanted);
            }
            let metrics = json[&name].as_object().expect("an object for each cell");
            assert!(metrics.len() >= figures(cell), "{name}: {metrics:?}");
            assert!(metrics.values().all(|metric| metric["value"].is_number()), "{metrics:?}");
        }
    });
}

#[test]
fn github_lists_divide_the_figures_by_direction() {
    each("github-bigger", |run, bigger| {
        let bigger: Vec<Value> = serde_json::from_str(bigger).expect("a list");
        assert!(
            bigger
                .iter()
                .all(|e| ["qps", "1/s", "share"].contains(&e["unit"].as_str().expect("a unit")))
        );
        let capacities = run.results.iter().filter(|cell| !cell.found_qps().is_empty()).count();
        let listed =
            bigger.iter().filter(|e| e["name"].as_str().is_some_and(|n| n.ends_with(": capacity")));
        assert_eq!(listed.count(), capacities);
    });
    each("github-smaller", |run, smaller| {
        let smaller: Vec<Value> = serde_json::from_str(smaller).expect("a list");
        let has = |part: &str| {
            smaller.iter().any(|e| e["name"].as_str().is_some_and(|n| n.ends_with(part)))
        };
        let with_latency = run
            .results
            .iter()
            .any(|c| !c.found_qps().is_empty() && c.merged(|t| &t.trial.latency_us).is_some());
        assert!(!with_latency || has(": p99"), "{smaller:?}");
        assert!(smaller.iter().all(|e| e["value"].is_number() && e["unit"] != "qps"));
    });
}

#[test]
fn junit_has_a_test_for_each_cell() {
    each("junit", |run, text| {
        let report = Report::deserialize_from_str(text).expect("JUnit");
        let cases = &report.test_suites[0].test_cases;
        assert_eq!(cases.len(), run.results.len() + run.skipped.len());
        for (case, cell) in cases.iter().zip(&run.results) {
            let good = matches!(case.status, TestCaseStatus::Success { .. });
            assert_eq!(good, cell.has_figure(), "{}", case.name.as_str());
        }
    });
}

#[test]
fn a_missed_goal_is_a_failure() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("load.json");
    let port = std::net::UdpSocket::bind("127.0.0.1:0").expect("a silent server");
    let target = port.local_addr().expect("an address").to_string();
    let (_, _, err) = command::run(&format!(
        "load {target} --namespace 10.0.0.0/24 --rate 200 --duration 200ms --no-check --timeout 50ms \
         --goal 'loss < 10 %' --json {}",
        file.display()
    ));
    assert!(file.exists(), "{err}");
    let report = Report::deserialize_from_str(&export(&file, "junit")).expect("JUnit");
    let case = &report.test_suites[0].test_cases[0];
    assert!(case.name.as_str().contains("loss < 10"), "{}", case.name.as_str());
    let TestCaseStatus::NonSuccess { message, .. } = &case.status else { panic!("{case:?}") };
    let message = message.as_ref().expect("a reason").as_str();
    // A busy machine may hold queries back; no stall of it explains that nothing at all was answered.
    let held_back = shared::is_disturbance(message) && !message.contains("by a stall");
    assert!(message.contains("missed: ") || held_back, "{message}");
}

#[test]
fn json_lines_are_whole_trials() {
    each("json-lines", |run, text| {
        let trials = run.results.iter().flat_map(|cell| cell.trials.iter().map(move |t| (cell, t)));
        let mut lines = text.lines();
        for (cell, trial) in trials {
            let line = lines.next().expect("a line for each trial");
            assert_eq!(&serde_json::from_str::<TrialRecord>(line).expect("a trial"), trial);
            let line: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(
                (&line["server"], &line["method"]),
                (&json!(cell.server), &json!(cell.method))
            );
            assert_eq!(line["settings"], json!(cell.settings));
        }
        assert_eq!(lines.next(), None);
    });
}

#[test]
fn a_log_has_each_trial_that_counts() {
    each("hlog", |run, text| {
        let trials = run.results.iter().flat_map(|cell| &cell.trials);
        let counted = trials
            .filter(|t| !t.trial.void.is_void() && !t.trial.latency_us.hdr.is_empty())
            .count();
        assert_eq!(text.lines().filter(|line| line.starts_with("Tag=")).count(), counted);
        assert!(text.contains("#[StartTime: "), "{text:.200}");
    });
}

#[test]
fn open_metrics_have_histograms_that_add_up() {
    each("openmetrics", |run, text| {
        assert!(text.ends_with("\n# EOF\n") || text == "# EOF\n", "{text:.200}");
        let value = |line: &str| {
            line.rsplit(' ').next().and_then(|v| v.parse::<f64>().ok()).expect("a number")
        };
        let samples = |name: &str| -> Vec<(String, f64)> {
            let lines = text.lines().filter(|line| line.starts_with(name));
            lines.map(|line| (line.to_owned(), value(line))).collect()
        };
        let (counts, buckets) =
            (samples("dnsdyno_latency_seconds_count"), samples("dnsdyno_latency_seconds_bucket"));
        let with_latency =
            run.results.iter().filter(|c| c.merged(|t| &t.trial.latency_us).is_some()).count();
        assert_eq!((counts.len(), buckets.len()), (with_latency, with_latency * 20));
        for (of_cell, (_, count)) in buckets.chunks(20).zip(&counts) {
            assert!(of_cell.windows(2).all(|two| two[0].1 <= two[1].1), "{of_cell:?}");
            assert!(
                of_cell[19].0.contains("le=\"+Inf\"") && of_cell[19].1 == *count && *count > 0.0
            );
        }
    });
}

#[test]
fn tables_have_a_row_for_each_cell() {
    each("markdown", |run, text| {
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), run.results.len() + 2, "{text}");
        assert!(lines.iter().all(|line| columns(line) == columns(lines[0])), "{text}");
    });
    each("csv --table results", |run, text| {
        assert_eq!(text.lines().count(), run.results.len() + 1, "{text}");
        assert!(text.starts_with("server,"), "{text}");
    });
    each("latex", |run, text| {
        let rows: Vec<_> = text.lines().filter(|line| line.ends_with("\\\\")).collect();
        assert_eq!(rows.len(), run.results.len() + 1, "{text}");
        let columns = |line: &str| line.replace("\\&", "").matches('&').count();
        assert!(rows.iter().all(|row| columns(row) == columns(rows[0])), "{text}");
        let bare = |line: &&str| line.replace("\\_", "").replace("\\%", "").contains(['_', '%']);
        assert_eq!(rows.iter().find(|row| bare(row)), None);
    });
}

#[test]
fn plots_are_svg_files_that_need_nothing_else() {
    let mut files = 0;
    // Of a run whose trials are all void there is nothing to plot.
    let valid = |path: &PathBuf| {
        let run = read_run(path).unwrap_or_else(|e| panic!("{e}"));
        let mut trials = run.results.iter().flat_map(|cell| &cell.trials);
        run.results.iter().any(|cell| figures(cell) > 0) || trials.any(|t| !t.trial.void.is_void())
    };
    for run in runs().into_iter().filter(valid) {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("new/figures");
        let told = export(&run, &format!("svg --output {}", folder.display()));
        for path in told.lines() {
            let text = std::fs::read_to_string(path).expect("the file that was told");
            assert!(text.starts_with("<svg xmlns=") && text.ends_with("</svg>\n"), "{path}");
            for other in ["href", "var(", "NaN", "<script"] {
                assert!(!text.contains(other), "{path}: {other}");
            }
            files += 1;
        }
        assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), told.lines().count());
    }
    assert!(files > 20, "{files}");
    let file = &runs()[0];
    for form in ["svg", "svg --output -"] {
        let said = refused(&format!("export {} --format {form}", file.display()));
        assert!(said.contains("--output"), "{form}: {said}");
    }
}
