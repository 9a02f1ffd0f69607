//! A run that is killed and taken up again: what was done is kept, the rest is done, the seam is told.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::kit::shared;

/// Our own AuthDNS as the server: it is always there. Eight visits with two trials each, as the
/// command line says.
const EXPERIMENT: &str = r#"
name = "resumed"
title = "a run that is killed"
role = "authoritative"
servers = ["authdns"]
method = "load"
repeats = 1

[workload]
namespace = "10.0.0.0/24"

[load]
rates = ["500", "1k"]
duration = "400ms"
timeout = "200ms"

[matrix]
dut.threads = [1, 2]
"#;

fn dnsdyno(store: &Path) -> Command {
    let mut command = Command::new(cargo_bin("dnsdyno"));
    command.env("DNSDYNO_STORE", store);
    command
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(both).expect("UTF-8")
}

/// Trials of the only run in the store.
fn trials(store: &Path) -> u64 {
    let output = dnsdyno(store).args(["runs", "--json", "-"]).output().expect("starts");
    let runs: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    runs[0]["trials"].as_u64().unwrap_or(0)
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (store, file) = (dir.path().join("runs.db"), dir.path().join("x.toml"));
    std::fs::write(&file, EXPERIMENT).expect("writes");
    let mut child = dnsdyno(&store)
        .args(["run", "--wait", "--repeats", "4"])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut before = 0;
    while before < 3 && child.try_wait().expect("waits").is_none() {
        std::thread::sleep(Duration::from_millis(50));
        before = trials(&store);
    }
    child.kill().expect("kills");
    let output = child.wait_with_output().expect("ends");
    if text(&output).contains("cannot get its namespaces") {
        skip::because(text(&output));
        return;
    }
    assert!((3..16).contains(&before), "{before} trials: {}", text(&output));
    let json = dir.path().join("out.json");
    // The one that was killed holds its lock until the kernel is done with it.
    let resume = || {
        let mut command = dnsdyno(&store);
        command
            .args(["run", "--wait", "--resume", "last", "--json"])
            .arg(&json)
            .output()
            .expect("starts")
    };
    let mut resumed = resume();
    while text(&resumed).contains("is in use by another process") {
        std::thread::sleep(Duration::from_millis(50));
        resumed = resume();
    }
    // Repeats that stay void on a busy machine are done again by the next one.
    let mut times = 1;
    let run = loop {
        let run = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
        if shared::checked_is_complete(resumed.status.code(), &text(&resumed), &run, 4) {
            break run;
        }
        assert!(times < 5, "{}", text(&resumed));
        resumed = resume();
        times += 1;
    };
    assert_eq!(run["seams"].as_array().map(Vec::len), Some(times));
    assert!(run["seams"][0]["trials_before"].as_u64() >= Some(before), "{}", run["seams"]);
    let cells = run["results"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    for cell in cells {
        assert_eq!(cell["repeats"], 4);
        let mut done: Vec<(u64, u64)> = cell["trials"]
            .as_array()
            .expect("trials")
            .iter()
            .filter(|trial| trial["void"] == false)
            .map(|t| {
                (
                    t["repeat"].as_u64().expect("a repeat"),
                    t["rate_qps"].as_f64().expect("a rate") as u64,
                )
            })
            .collect();
        // Each trial once: nothing was lost and nothing done twice.
        done.sort_unstable();
        let mut once = done.clone();
        once.dedup();
        assert_eq!(done, once);
        assert!(!once.is_empty(), "{cell}");
        assert!(once.iter().all(|(repeat, _)| *repeat < 4), "{once:?}");
    }
    // There is nothing left to do now.
    let again =
        dnsdyno(&store).args(["run", "--wait", "--resume", "last"]).output().expect("starts");
    assert_eq!(again.status.code(), Some(2), "{}", text(&again));
    assert!(text(&again).contains("run 1 is complete: nothing is left to do"), "{}", text(&again));
}
