//! Primaries under update and the secondaries that follow them: all the real servers that are installed, at small size.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::kit::command::{Held, run_in};
use crate::kit::host::find;

/// An experiment whose cells are void is run again so often.
const VOID_RETRIES: u32 = 2;

/// An experiment with 400 delegations and one repeat; `more` begins with keys of `[replication]`.
fn experiment(method: &str, servers: &[&str], more: &str) -> String {
    format!(
        "name = \"x\"\ntitle = \"x\"\nrole = \"authoritative\"\nmethod = \"{method}\"\nservers = {servers:?}\n\
         repeats = 1\n[replication]\ndelegations = 400\n{more}"
    )
}

/// Takes the lab for one test: what another one does meanwhile would make this one's trials void.
fn lab() -> MutexGuard<'static, ()> {
    static LAB: Mutex<()> = Mutex::new(());
    LAB.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs an experiment, and calls `begun` when its testbed is up; its record with what it prints as `table`, or `None` where there is no
/// lab. Programs in the folder's `bin` come first.
fn run_any(dir: &Path, text: &str, begun: impl FnOnce()) -> Option<Value> {
    std::fs::write(dir.join("x.toml"), text).expect("writes");
    let path = std::env::var("PATH").unwrap_or_default();
    // As long as the experiment says, and the host's speed is not measured.
    let trial = text.split("duration = \"").nth(1).and_then(|rest| rest.split('"').next());
    let mut child = Command::new(cargo_bin("dnsdyno"))
        .args(["run", "--wait", "x.toml", "--no-store", "--json", "x.json"])
        .env("PATH", format!("{}:{path}", dir.join("bin").display()))
        .env("DNSDYNO_TEST_TRIAL", trial.unwrap_or("1s"))
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let (mut said, mut errors) =
        (String::new(), BufReader::new(child.stderr.take().expect("piped")));
    while !said.contains("testbed: ") && errors.read_line(&mut said).expect("text") > 0 {}
    begun();
    errors.read_to_string(&mut said).expect("text");
    let output = child.wait_with_output().expect("ends");
    let Ok(json) = std::fs::read_to_string(dir.join("x.json")) else {
        assert!(said.contains("namespace"), "{said}");
        return skip::none(format_args!("no lab here: {said}"));
    };
    let mut record: Value = serde_json::from_str(&json).expect("JSON");
    record["table"] = Value::from(String::from_utf8_lossy(&output.stdout));
    Some(record)
}

/// The same, run again where a cell stayed void, for whatever else runs here may keep the Tester from its core; what is
/// void at the last try has its reason and no figure, and stands in `void` instead of `results`. Only what is not installed here may be skipped.
fn run(dir: &Path, text: &str) -> Option<Value> {
    let voids = |record: &Value| {
        let results = record["results"].as_array().expect("a list").clone();
        results.into_iter().filter(|result| result["void_repeats"].is_array()).collect::<Vec<_>>()
    };
    let _lab = lab();
    let mut record = run_any(dir, text, || ())?;
    for _ in 0..VOID_RETRIES {
        if voids(&record).is_empty() {
            break;
        }
        record = run_any(dir, text, || ())?;
    }
    for skipped in record["skipped"].as_array().expect("a list") {
        let why = skipped["why"].as_str().expect("a reason");
        assert!(why.contains("is not installed"), "{skipped}");
        skip::because(why);
    }
    for result in voids(&record) {
        assert_void(&result);
    }
    let void = voids(&record);
    assert!(void.is_empty() || record["complete"] == false, "{record}");
    record["void"] = Value::from(void);
    if let Some(results) = record["results"].as_array_mut() {
        results.retain(|result| result["repeats"] != 0);
    }
    Some(record)
}

/// That a cell of one repeat, which stayed void, says why and has no figure.
fn assert_void(result: &Value) {
    let why = result["void_repeats"][0]["why"].as_str().expect("a reason");
    assert!(!why.is_empty() && result["repeats"] == 0, "{result}");
    assert!(result.get("figures").is_none(), "{result}");
}

/// A figure of a result.
fn figure(result: &Value, name: &str) -> f64 {
    result["figures"][name]["values"][0]
        .as_f64()
        .unwrap_or_else(|| panic!("no figure {name}: {}", result["figures"]))
}

#[test]
fn every_primary_is_updated_killed_and_looked_at() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = run(
        dir.path(),
        &experiment(
            "update-rate",
            &["bind9", "knot", "yadifa", "pdns"],
            "updates = 40\nkilled-after = 10\n",
        ),
    );
    let Some(record) = record else { return };
    for result in record["results"].as_array().expect("a list") {
        assert_eq!(figure(result, "not_acknowledged"), 0.0, "{result}");
        assert_eq!(figure(result, "acknowledged_but_not_done"), 0.0, "{result}");
        assert_eq!(figure(result, "looked_up_after_SIGKILL"), 60.0, "{result}");
        assert!(figure(result, "disk_syncs") > 0.0, "{result}");
        assert_ne!(result["limiter"], "unknown", "{result}");
        // Whether a server keeps its word is its own affair, and told.
        println!("{}: {} gone", result["server"], figure(result, "gone_after_SIGKILL"));
    }
}

fn notes(result: &Value) -> String {
    result["notes"]
        .as_array()
        .map(|notes| Value::from(notes.clone()).to_string())
        .unwrap_or_default()
}

#[test]
fn a_primary_that_does_not_sync_is_caught() {
    let (Some(named), Some(eatmydata), Some(_)) =
        (find("named"), find("eatmydata"), find("strace"))
    else {
        return skip::because("named, eatmydata or strace is not installed");
    };
    let updates = "updates = 20\nkilled-after = 20\n";
    let text = experiment("update-rate", &["bind9"], updates);
    let dir = tempfile::tempdir().expect("a folder");
    let Some(record) = run(dir.path(), &text) else { return };
    let synced = &record["results"][0];
    if synced.is_null() {
        return;
    }
    assert!(figure(synced, "syncs_per_update") >= 1.0, "{synced}");
    assert!(figure(synced, "writes_per_update") >= 1.0, "{synced}");
    assert!(!notes(synced).contains("NOT ON STABLE STORAGE"), "{synced}");
    // The same program, its syncs taken away.
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    let script = format!("#!/bin/sh\nexec {} {} \"$@\"\n", eatmydata.display(), named.display());
    std::fs::write(bin.join("named"), script).expect("writes");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.join("named"), mode).expect("executable");
    let Some(record) = run(dir.path(), &text) else { return };
    let cell = &record["results"][0];
    if cell.is_null() {
        return;
    }
    assert_eq!(figure(cell, "syncs_per_update"), 0.0, "{cell}");
    assert!(figure(cell, "writes_per_update") >= 1.0, "{cell}");
    assert!(notes(cell).contains("NOT ON STABLE STORAGE"), "{cell}");
    assert_eq!(figure(cell, "gone_after_SIGKILL"), 0.0, "SIGKILL does not show it: {cell}");
    let table = record["table"].as_str().expect("a table");
    assert!(table.contains("NOT ON STABLE STORAGE"), "{table}");
}

#[test]
fn thirteen_secondaries_are_queried_and_watched() {
    let dir = tempfile::tempdir().expect("a folder");
    let more = "primary = \"bind9\"\ninstances = 13\n\
                [closed]\nduration = \"2s\"\nwindow = 4\n\
                [matrix]\nreplication.update-rate = [\"0\", \"32\"]\nvariables.safety_copies = [\"off\"]\n";
    let record = run(dir.path(), &experiment("query-under-update", &["bind9"], more));
    let Some(record) = record else { return };
    for result in record["results"].as_array().expect("a list") {
        let secondaries = result["secondaries"].as_array().expect("a list");
        assert_eq!(secondaries.len(), 13);
        let rates: Vec<f64> = secondaries.iter().map(|one| figure(one, "qps")).collect();
        let all = figure(result, "qps");
        assert!(rates.iter().all(|rate| *rate > 0.0), "{rates:?}");
        assert!((rates.iter().sum::<f64>() - all).abs() < all / 1e3, "{rates:?} are not {all}");
        let trial = &result["trials"].as_array().and_then(|all| all.last()).expect("a trial");
        assert!(trial["limiter"].is_string() && trial["void"] == false, "{result}");
        for role in ["tester", "dut", "primary", "secondaries"] {
            assert!(trial["cpu"][role]["cpus"].is_array(), "{role}: {}", trial["cpu"]);
        }
        if result["settings"]["update-rate"] == "32" {
            for one in secondaries {
                assert!(figure(one, "lag_watched") >= 50.0, "{one}");
                assert!(figure(one, "axfr") >= 1.0 && figure(one, "ixfr") >= 1.0, "{one}");
            }
        }
    }
}

#[test]
fn secondaries_of_all_kinds_follow_one_primary() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = run(
        dir.path(),
        &experiment(
            "query-under-update",
            &["nsd"],
            "primary = \"bind9\"\nsecondaries = [\"bind9\", \"knot\", \"yadifa\", \"pdns\"]\nupdate-rate = \"20\"\n\
             [closed]\nduration = \"2s\"\n",
        ),
    );
    let Some(result) = record.map(|record| record["results"][0].clone()).filter(Value::is_object)
    else {
        return;
    };
    assert!(figure(&result, "qps") > 0.0);
    assert_eq!(figure(&result, "not_acknowledged"), 0.0);
    assert!(figure(&result, "lag_watched") > 0.0, "{result}");
    let secondaries = result["secondaries"].as_array().expect("a list");
    let names: Vec<_> = secondaries.iter().filter_map(|one| one["server"].as_str()).collect();
    assert_eq!(names, ["nsd", "bind9", "knot", "yadifa", "pdns"]);
    let kinds = ["axfr", "ixfr_in_full", "ixfr", "ixfr_octets", "axfr_octets"];
    let got = |one: &Value, kind: &str| one["figures"].get(kind).map_or(0.0, |_| figure(one, kind));
    for one in secondaries {
        assert!(got(one, "axfr") + got(one, "ixfr_in_full") >= 1.0, "{one}");
        assert!(got(one, "ixfr") >= 1.0 && got(one, "lag_watched") > 0.0, "{one}");
    }
    for kind in kinds {
        let sum: f64 = secondaries.iter().map(|one| got(one, kind)).sum();
        assert_eq!(sum, got(&result, kind), "{kind}: {result}");
    }
    let in_full =
        result["figures"].get("ixfr_in_full").map_or(0.0, |_| figure(&result, "ixfr_in_full"));
    assert!(figure(&result, "axfr") + in_full >= 5.0, "each got the zone once: {result}");
    assert!(figure(&result, "ixfr") > 0.0 && figure(&result, "ixfr_octets") > 100.0, "{result}");
}

#[test]
fn every_server_has_the_signed_zone() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = run(
        dir.path(),
        &experiment(
            "signed-unsigned",
            &["bind9", "knot", "yadifa", "nsd"],
            "[closed]\nduration = \"500ms\"\n[matrix]\nreplication.signed = [false, true]\n",
        ),
    );
    let Some(record) = record else { return };
    let results = record["results"].as_array().expect("a list");
    for result in results {
        assert!(figure(result, "qps") > 0.0, "{result}");
        let signed = result["settings"]["signed"] == "true";
        // Referrals with NSEC3 records and signatures, and without.
        assert_eq!(figure(result, "reply_octets") > 300.0, signed, "{result}");
    }
    let left_out = ["skipped", "void"].map(|key| record[key].as_array().expect("a list").len());
    assert_eq!(results.len() + left_out.iter().sum::<usize>(), 8);
}

#[test]
fn a_wrong_rate_is_refused_with_its_place_and_a_right_one_is_planned() {
    let dir = tempfile::tempdir().expect("a folder");
    let dry = |rate: &str| {
        let more = format!(
            "primary = \"bind9\"\n[matrix]\nreplication.update-rate = [\"0\", \"{rate}\"]\n"
        );
        let text = experiment("query-under-update", &["nsd"], &more);
        std::fs::write(dir.path().join("x.toml"), text).expect("writes");
        run_in(dir.path(), "run x.toml --dry-run")
    };
    let (code, out, err) = dry("fast");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("x.toml:11:33: `fast` is not a rate of updates: write 0 for none"),
        "{err}"
    );
    let (code, out, err) = dry("3%/day");
    assert_eq!(code, 0, "{err}");
    for part in
        ["method: query-under-update", "update-rate=0", "update-rate=3%/day", " a visit", " in all"]
    {
        assert!(out.contains(part), "no {part}: {out}");
    }
}

/// Starts a process that takes all it can of core 0, where the Tester is.
fn hog() -> Option<Held> {
    let spin = ["-c", "0", "sh", "-c", "while :; do :; done"];
    Command::new("taskset").args(spin).spawn().ok().map(Held)
}

#[test]
fn a_starved_tester_is_the_limiter() {
    let dir = tempfile::tempdir().expect("a folder");
    let _lab = lab();
    let mut hogs = Vec::new();
    let more = "primary = \"bind9\"\nupdate-rate = \"20\"\n[closed]\nduration = \"1s\"\n";
    let text = experiment("query-under-update", &["nsd"], more);
    // Not while it waits for its cores: others measure on them.
    let record = run_any(dir.path(), &text, || hogs.extend((0..3).filter_map(|_| hog())));
    drop(hogs);
    let Some(record) = record else { return };
    let skipped = record["skipped"].as_array().expect("a list");
    if let Some(why) = skipped.first().and_then(|one| one["why"].as_str()) {
        assert!(why.contains("is not installed"), "{why}");
        return skip::because(why);
    }
    let cell = &record["results"][0];
    assert!(figure(cell, "qps") > 0.0, "{cell}");
    assert_eq!(cell["limiter"], "tester-cpu", "{cell}");
}
