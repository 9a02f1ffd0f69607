//! The runs that are kept, as a user sees them: listed, shown, exported, deleted.

use std::collections::BTreeMap;

use measure::Warning;
use record::{
    Capacity, CellRecord, Figure, Plan, Run, SCHEMA, Second, Store, Times, Trial, TrialRecord,
};
use serde_json::Value;

use crate::kit::command::run_in;

/// A trial of a DNS64 server, as `dnsdyno load --json` writes it.
const TRIAL: &str = include_str!("../../record/tests/fixtures/trial.json");

fn trial(repeat: u32, rate_qps: f64) -> TrialRecord {
    let mut latency = measure::Histogram::new();
    (1..100).for_each(|i| latency.record(measure::Nanos::from_micros(i * i)));
    let mut trial: Trial = serde_json::from_str(TRIAL).expect("a trial");
    trial.latency_us = Times::from(&latency);
    trial.latency_from_send_us = Times::from(&latency);
    trial.schedule_error_us = Times::from(&latency);
    trial.conditions.started_unix_s = Some(1_795_233_100.25);
    trial.series = vec![
        Second { sent: 7, valid: 6, ..Second::default() },
        Second { sent: 9, valid: 9, ..Second::default() },
    ];
    trial.warnings = vec![Warning::NobodyListens { times: 1, target: "one, \"quoted\"".into() }];
    TrialRecord { repeat, rate_qps, trial }
}

/// A run of one server at two settings, `scale` times as fast as another.
fn run(scale: f64) -> Run {
    let cell = |cores: u32| {
        let rates = [10_000.0, 10_100.0, 9_900.0].map(|r| r * scale * f64::from(cores));
        let capacities = rates.map(|qps| Capacity {
            qps: Some(qps),
            failed_qps: Some(qps * 1.02),
            limiter: measure::Limiter::Target,
            ..Capacity::default()
        });
        CellRecord {
            server_version: Some("1.17.1".into()),
            median_qps: Some(rates[0]),
            repeats: 3,
            capacities: capacities.into(),
            trials: vec![trial(0, rates[0]), trial(1, rates[1])],
            figures: [("zone_load".to_owned(), Figure::new("s", vec![1.5]))].into(),
            ..CellRecord::new(
                "unbound",
                BTreeMap::from([("cores".to_owned(), cores.to_string())]),
                "search",
            )
        }
    };
    Run {
        schema: SCHEMA,
        plan: Plan {
            experiment: "dns64-rfc8219".into(),
            text: "name = \"dns64-rfc8219\"".into(),
            version: "0.1.0".into(),
            command: "dnsdyno run dns64-rfc8219".into(),
            started_unix_s: 1_795_233_060.5,
            ..Plan::default()
        },
        complete: true,
        results: vec![cell(1), cell(2)],
        ..Run::default()
    }
}

/// A folder with `runs` in its store.
fn kept(runs: &[Run]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = Store::open(&dir.path().join("runs.db")).expect("a new store");
    for run in runs {
        store.put(run).expect("stores");
    }
    dir
}

#[test]
fn runs_are_listed_shown_and_deleted() {
    let dir = kept(&[run(1.0), run(2.0)]);
    let (code, list, _) = run_in(dir.path(), "runs");
    assert_eq!((code, list.lines().count()), (0, 3), "{list}");
    assert!(list.contains("2026-11-21T03:51:00Z") && list.contains("complete"), "{list}");
    let (_, json, _) = run_in(dir.path(), "runs --json -");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json[1]["id"], &json[1]["state"]), (&2.into(), &"complete".into()));

    let (code, last, _) = run_in(dir.path(), "show");
    assert!(code == 0 && last.starts_with("run 2: dns64-rfc8219"), "{last}");
    assert!(last.contains("unbound 1.17.1  2 ") && last.contains("40,000"), "{last}");
    let (_, details, _) = run_in(dir.path(), "show --details");
    assert!(details.contains("zone load") && details.contains("1.5 s"), "{details}");
    let warning = "one, \"quoted\" (ICMP): is the server up?";
    assert!(details.contains(warning) && !last.contains(warning), "{details}");
    let (_, first, _) = run_in(dir.path(), "show last~1 --files --trials");
    assert!(first.starts_with("run 1:") && first.contains("==> dns64-rfc8219.toml <=="), "{first}");

    let (code, _, told) = run_in(dir.path(), "delete last 1");
    assert_eq!((code, told.as_str()), (0, "deleted run 2\ndeleted run 1\n"));
    let (code, list, told) = run_in(dir.path(), "runs");
    assert_eq!((code, list.as_str()), (0, ""));
    assert!(told.starts_with("there are no runs in "), "{told}");
}

#[test]
fn an_exported_run_is_the_run() {
    let dir = kept(&[run(1.0)]);
    let (code, _, _) = run_in(dir.path(), "export 1 --format json --output run.json");
    let exported: Run = record::read(&dir.path().join("run.json")).expect("a run");
    let stored = Store::open(&dir.path().join("runs.db")).and_then(|s| s.load(1)).expect("loads");
    assert!(code == 0 && exported == stored, "what is exported is what was stored");
    assert!(stored.results == run(1.0).results, "what is stored is what was put, to the last bit");
    let (_, shown, _) = run_in(dir.path(), "show run.json");
    assert_eq!(shown, run_in(dir.path(), "show 1").1, "a file is as good as the store");
}

#[test]
fn tables_have_a_row_for_each() {
    let dir = kept(&[run(1.0)]);
    for (table, rows, start) in [
        ("cells", 2, "1,dns64-rfc8219,unbound,1.17.1,1,search,10000,"),
        ("trials", 4, "1,dns64-rfc8219,unbound,1.17.1,1,search,1,10000,1795233100.25,"),
        ("figures", 8, "1,dns64-rfc8219,unbound,1.17.1,1,capacity,qps,1,10000"),
        ("series", 16, "1,dns64-rfc8219,unbound,1.17.1,1,0,10000,tester.sent,1/s,0,7"),
    ] {
        let (code, csv, _) = run_in(dir.path(), &format!("export --format csv --table {table}"));
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!((code, lines.len()), (0, rows + 1), "{table}: {csv}");
        assert!(lines[0].starts_with("run,experiment,server,server_version,setting.cores,"));
        assert!(lines[1].starts_with(start), "{table}: {}", lines[1]);
    }
    let (_, csv, _) = run_in(dir.path(), "export --format csv");
    assert!(csv.contains("one, \"\"quoted\"\" (ICMP)"), "{csv}");
}

/// What the schema says: <https://dns-oarc.github.io/dns-metrics/SCHEMA.html>.
#[test]
fn dns_metrics_have_what_the_schema_requires() {
    let dir = kept(&[run(1.0)]);
    let (code, lines, _) = run_in(dir.path(), "export --format dns-metrics");
    let objects: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(code, 0);
    let kinds = |kind: &str| objects.iter().filter(|o| o["type"] == kind).collect::<Vec<_>>();
    assert_eq!(objects.len(), 2 + 4 * 4);
    assert!(objects.iter().all(|o| o["runid"] == "1"));
    let header = &objects[0];
    assert_eq!((&header["type"], &header["generator"]), (&"header".into(), &"dnsdyno".into()));
    assert!(header["schema_version"].is_u64() && header["stats_interval"].is_number());
    for kind in ["event", "stats_periodic", "stats_sum"] {
        assert!(!kinds(kind).is_empty(), "no object of type {kind}");
    }
    assert!(kinds("event").iter().all(|o| o["msg"].is_string()));
    for stats in kinds("stats_periodic").iter().chain(&kinds("stats_sum")) {
        assert!(stats["since"].as_u64() < stats["until"].as_u64(), "{stats}");
        assert_eq!(stats["since"].as_u64().map(|ns| ns / 1_000_000_000 / 10), Some(179_523_310));
    }
    let (wanted, sum) = (trial(0, 1.0).trial, kinds("stats_sum")[0]);
    assert_eq!(
        (sum["sent"]["queries"].as_u64(), sum["received"]["responses"].as_u64()),
        (Some(wanted.sent), Some(wanted.answered))
    );
    assert_eq!(sum["response_latency"]["buckets"].as_array().map(Vec::len), Some(99));
    let counted: u64 = sum["response_latency"]["buckets"]
        .as_array()
        .expect("buckets")
        .iter()
        .map(|bucket| bucket[2].as_u64().expect("a count"))
        .sum();
    assert_eq!(counted, 99);
    assert_eq!(sum["conn_info"]["type"], "udp");

    // A single trial, as `dnsdyno load --json` writes it, is as good.
    let mut load = trial(0, 1.0).trial;
    load.series[0].invalid.insert("servfail".into(), 1);
    record::write(&dir.path().join("load.json"), &load).expect("writes");
    let (code, lines, told) = run_in(dir.path(), "export load.json --format dns-metrics");
    assert_eq!((code, lines.lines().count()), (0, 2 + 4), "{told}");
    // Those of a second are all replies too, valid or not.
    let of_second: Vec<Value> = lines
        .lines()
        .filter(|line| line.contains("stats_periodic"))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!((&of_second[0]["responses"], &of_second[1]["responses"]), (&7.into(), &9.into()));
}

#[test]
fn the_exit_code_says_what_a_comparison_found() {
    let mut less = run(1.0);
    less.results.pop();
    let dir = kept(&[run(1.0), run(1.01), run(0.5), less]);
    record::write(&dir.path().join("run.json"), &run(1.0)).expect("writes");
    let mut other = run(1.0);
    other.results.iter_mut().for_each(|cell| cell.server = "other".to_owned());
    record::write(&dir.path().join("other.json"), &other).expect("writes");
    let mut goal = run(1.0);
    goal.results.iter_mut().for_each(|cell| cell.goal = "loss < 1%".to_owned());
    record::write(&dir.path().join("goal.json"), &goal).expect("writes");
    let (_, out, told) = run_in(dir.path(), "compare 1 goal.json");
    assert!(out.is_empty() && told.contains("nothing can be compared: goal: `"), "{out}{told}");
    for (args, wanted, part) in [
        ("1 other.json", 2, ""),
        ("1 goal.json", 2, ""),
        ("2", 4, "\nsecond  last: run 4: "),
        ("1 2", 0, "no difference shown"),
        ("1 3", 3, "slower"),
        ("3 1", 0, "faster"),
        ("run.json last~1", 3, "slower"),
        ("1 last", 4, "MISSING unbound cores=2: not in the second run"),
        ("1 9", 2, ""),
    ] {
        let (code, out, told) = run_in(dir.path(), &format!("compare {args}"));
        assert_eq!(code, wanted, "{args}: {out}{told}");
        assert!(out.contains(part), "{args}: {out}");
        let (json_code, json, _) = run_in(dir.path(), &format!("compare {args} --json -"));
        assert_eq!(json_code, wanted);
        if wanted == 3 {
            let json: Value = serde_json::from_str(&json).expect("JSON");
            let figure = &json["figures"][0];
            assert_eq!(
                (&figure["outcome"], &figure["figure"]),
                (&"slower".into(), &"capacity".into())
            );
            assert!((figure["ratio"].as_f64().expect("a number") - 0.5).abs() < 0.01);
        }
    }
    // A wide margin shows no difference, but excludes none either.
    for (options, wanted, part) in [
        ("--margin 99", 4, "NOT SURE (exit 4): unbound"),
        ("--margin 99 --require-resolution 60", 0, "PASSED (exit 0): nothing is slower\n"),
        ("--fail-if 'capacity < -10%'", 3, "% less than the first run; limit 10 %\n"),
        ("--fail-if 'capacity < -70%'", 0, "PASSED (exit 0): "),
        ("--fail-if 'capacity < -50%'", 4, "NOT SURE (exit 4): "),
        ("--fail-if 'zone_load > 10%'", 4, "zone_load an unknown change from the first run"),
        ("--fail-if 'p99 > 1%'", 2, "no figure `p99`; they have capacity, zone_load"),
        ("--fail-if 'capacity < 1%'", 2, "at character 12, a change after `<` is below 0"),
        ("--confidence 100", 2, "is not from 0 to below 100"),
    ] {
        let (code, out, told) = run_in(dir.path(), &format!("compare 1 3 {options}"));
        assert_eq!(code, wanted, "{options}: {out}{told}");
        assert!(out.contains(part) || told.contains(part), "{options}: {out}{told}");
    }
}

#[test]
fn several_loads_are_compared_as_repeats() {
    let dir = tempfile::tempdir().expect("a folder");
    let loads = |name: &str, rates: &[f64], window: u32| {
        let write = |(number, rate): (usize, &f64)| {
            let mut load = trial(0, *rate).trial;
            load.conditions.pacing = format!("window {window}").into();
            (load.answered_qps, load.void) = (*rate, record::Voidness(None));
            let file = format!("{name}-{number}.json");
            record::write(&dir.path().join(&file), &load).expect("writes");
            file
        };
        rates.iter().enumerate().map(write).collect::<Vec<_>>().join(",")
    };
    let old = loads("old", &[10_000.0, 10_100.0, 9_900.0, 10_050.0], 64);
    let same = loads("same", &[10_020.0, 9_950.0, 10_080.0, 9_990.0], 64);
    let slow = loads("slow", &[7_000.0, 7_100.0, 6_900.0, 7_020.0], 64);
    let other = loads("other", &[10_000.0, 10_000.0], 8);
    let mixed = format!("{old},{other}");
    let compare = |first: &str, second: &str| {
        run_in(dir.path(), &format!("compare {first} {second} --fail-if 'answered < -10%'"))
    };
    for (first, second, wanted, part) in [
        (&old, &same, 0, "PASSED (exit 0): "),
        (&old, &slow, 3, "FAILED (exit 3): "),
        (&old, &mixed, 2, "other-0.json is no repeat of "),
    ] {
        let (code, out, told) = compare(first, second);
        assert_eq!(code, wanted, "{out}{told}");
        assert!(format!("{out}{told}").contains(part), "{out}{told}");
    }
    // One load of each says nothing of how loads differ.
    let (code, out, told) = compare("old-0.json", "slow-0.json");
    assert_eq!(code, 4, "{out}{told}");
    assert!(out.contains("one visit each: no interval") && out.contains("0.700"), "{out}");
}

#[test]
fn runs_that_were_measured_unlike_are_refused() {
    let mut other = run(1.0);
    for record in other.results.iter_mut().flat_map(|cell| &mut cell.trials) {
        record.trial.conditions.timeout_s += 1.0;
    }
    let dir = kept(&[run(1.0), other]);
    let (code, out, told) = run_in(dir.path(), "compare 1 2");
    assert_eq!((code, out.as_str()), (2, ""), "{told}");
    assert!(
        told.contains("the runs were measured under different conditions: timeout: `"),
        "{told}"
    );
    let (code, out, told) = run_in(dir.path(), "compare 1 2 --unlike");
    assert_eq!(code, 0, "{out}{told}");
    assert!(out.contains("timeout: `"), "{out}");
}

#[test]
fn what_is_not_there_is_said() {
    let dir = kept(&[run(1.0)]);
    std::fs::write(dir.path().join("corrupt.db"), "not a store").expect("writes");
    for (line, part) in [
        ("show 7", "there is no run 7; the last one is 1"),
        ("show last~3", "the store has 1 runs, there is no last~3"),
        ("show none.json", "cannot read none.json"),
        ("delete none.json", "none.json is not a run of the store"),
        ("export 1", "--format <FORMAT>"),
        ("export 1 --format json --table cells", "--table requires --format csv"),
        ("show --store absent.db", "there is no store at "),
        ("delete 1 --store absent.db", "there is no store at "),
        (
            "runs --store corrupt.db",
            "not a store of dnsdyno (it is no SQLite file); it was left untouched",
        ),
    ] {
        let (code, out, told) = run_in(dir.path(), line);
        assert_eq!((code, out.as_str()), (2, ""), "{line}: {told}");
        assert!(told.contains(part), "{line}: {told}");
    }
    assert!(!dir.path().join("absent.db").exists(), "to look makes no store");
    let corrupt = std::fs::read(dir.path().join("corrupt.db")).expect("readable");
    assert_eq!(corrupt, b"not a store");
}
