//! Drills: a tiny one against a server of the lab, and the refusal of every server outside of it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use measure::Nanos;
use record::{AttackKind, AttackRequest};
use serde_json::Value;

use crate::kit::shared::whole;

/// Our own AuthDNS as the server: it is always there. A flood of queries, and connections over TCP.
const EXPERIMENT: &str = r#"
name = "tiny-drill"
title = "a tiny drill"
role = "authoritative"
servers = ["authdns"]
method = "drill"
repeats = 1

[workload]
namespace = "10.0.0.0/20"

[drill]
attack = "random-names"
queries = "200"
rate = "500"
connections = 20
before = "1s"
during = "1s"
after = "2s"

[matrix]
drill.attack = ["random-names", "idle", "slow"]
"#;

/// Runs `dnsdyno run` on an experiment; returns the code, what it printed, and the record if it wrote one.
fn run(dir: &Path, text: &str, args: &[&str]) -> (Option<i32>, String, Value) {
    let (file, json) = (dir.join("x.toml"), dir.join("run.json"));
    std::fs::write(&file, text).expect("writes");
    let mut command = Command::new(cargo_bin("dnsdyno"));
    command.env("DNSDYNO_STORE", dir.join("runs.db")).env("DNSDYNO_TEST_TRIAL", "4s");
    command.args(["run", "--wait"]).arg(&file);
    let output = command.args(args).arg("--json").arg(&json).output().expect("starts");
    let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    let record = std::fs::read(&json).ok().and_then(|text| serde_json::from_slice(&text).ok());
    (output.status.code(), text, whole(record.unwrap_or_default()))
}

/// Checks the figures of a cell, and what its trial says of the attack.
fn check(cell: &Value) {
    let attack = cell["settings"]["attack"].as_str().expect("varied");
    assert_eq!(cell["method"], "drill");
    let figure = |name: &str| cell["figures"][name]["values"][0].as_f64();
    for name in ["goodput_before", "goodput_during", "goodput_after"] {
        assert!(figure(name).is_some_and(|share| (0.0..=100.0).contains(&share)), "{cell}");
    }
    let ends = [figure("recovery"), figure("not_recovered_within")];
    assert_eq!(ends.iter().flatten().count(), 1, "{cell}");
    // One that gives way to all others may get no time.
    let least = if cell["trials"][0]["conditions"]["attack"]["yields"] == true { 0.0 } else { 1.0 };
    let rate = figure("attack_a_second");
    assert!(rate.is_some_and(|rate| (least..=600.0).contains(&rate)), "{cell}");
    assert_eq!(figure("attack_closed").is_some(), attack != "random-names", "{cell}");
    let trial = cell["trials"].as_array().and_then(|trials| trials.last()).expect("a trial");
    assert_eq!(trial["series"].as_array().map(Vec::len), Some(4), "{trial}");
    let said = &trial["conditions"]["attack"];
    assert_eq!((said["kind"].as_str(), said["begins_s"].as_f64()), (Some(attack), Some(1.0)));
    let connections = if attack == "random-names" { 0 } else { 20 };
    let found = (said["connections"].as_u64(), said["lasts_s"].as_f64());
    assert_eq!(found, (Some(connections), Some(1.0)), "{trial}");
    // It has a core of its own, or says that it has none.
    let cpus = &trial["cpu"]["attacker"]["cpus"];
    assert_eq!(cpus, &said["cpus"], "{trial}");
    assert_eq!(said["yields"], Value::from(*cpus == trial["cpu"]["tester"]["cpus"]), "{trial}");
}

#[test]
fn a_server_of_the_lab_is_attacked() {
    let dir = tempfile::tempdir().expect("a folder");
    let (code, text, _) = run(dir.path(), EXPERIMENT, &["--dry-run"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("method: drill"), "{text}");
    let (_, text, record) = run(dir.path(), EXPERIMENT, &[]);
    if text.contains("cannot get its namespaces") {
        return skip::because(text);
    }
    let cells = record["results"].as_array().unwrap_or_else(|| panic!("{text}"));
    assert_eq!(cells.len(), 3, "{text}");
    for cell in cells {
        match cell["void_repeats"].as_array() {
            // What else runs here may keep the Tester from its core.
            Some(void) => assert!(!void.is_empty() && cell.get("figures").is_none(), "{cell}"),
            None => check(cell),
        }
    }
    let figures = cells.iter().any(|cell| cell.get("figures").is_some());
    assert!(!figures || text.contains("goodput during"), "{text}");
}

#[test]
fn no_experiment_attacks_a_server_outside() {
    let dir = tempfile::tempdir().expect("a folder");
    let remote = ["--dry-run", "--remote", "far=192.0.2.1:53"];
    let (code, text, _) = run(dir.path(), EXPERIMENT, &remote);
    assert_eq!(code, Some(2), "{text}");
    let why = "far at 192.0.2.1:53 is not attacked, since it is outside of the lab";
    assert!(text.contains("x.toml:6:10: ") && text.contains(why), "{text}");
    // Nor is one that the lab would start on another host.
    let there = ["--dry-run", "--dut", "far.example"];
    let (code, text, _) = run(dir.path(), EXPERIMENT, &there);
    assert_eq!(code, Some(2), "{text}");
    let why =
        "a server on another host (--dut, --hosts) is not attacked, since it is outside of the lab";
    assert!(text.contains("x.toml:6:10: ") && text.contains(why), "{text}");
    // The same servers may be loaded.
    let load = EXPERIMENT.replace("method = \"drill\"", "method = \"closed\"");
    let (head, _) = load.split_once("[matrix]").expect("a matrix");
    for args in [&remote[..], &there] {
        let (code, text, _) = run(dir.path(), head, args);
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn the_attacker_attacks_no_server_outside() {
    let attack = |target: SocketAddr| {
        let request = AttackRequest {
            kind: AttackKind::Idle,
            target,
            flood: None,
            from: target.ip(),
            addresses: 1,
            connections: 1,
            rate: 1,
            name: "large.dns64perf.test.".to_owned(),
            start_at: "@1000".parse().expect("an instant"),
            duration: Nanos::from_millis(1),
            yields: false,
        };
        let mut child = Command::new(cargo_bin("dnsdyno"))
            .args([lab::TASK_COMMAND, "attack"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut input = child.stdin.take().expect("piped");
        let task = lab::Task::Attack(Box::new(request));
        input.write_all(&serde_json::to_vec(&task).expect("JSON")).expect("writes");
        drop(input);
        let output = child.wait_with_output().expect("ends");
        assert!(output.stdout.is_empty());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for target in ["127.0.0.1:53", "[::1]:53", "192.0.2.1:53", "10.9.1.2:53"] {
        let (code, text) = attack(target.parse().expect(target));
        assert_eq!(code, Some(2), "{text}");
        let why =
            format!("{target} is not attacked, since it is not the server under test of a lab");
        assert!(text.contains(&why) && text.contains("its own namespaces"), "{text}");
    }
}
