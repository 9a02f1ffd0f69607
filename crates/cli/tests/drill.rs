//! Drills: a tiny one against a server of the lab, and the refusal of every server outside of it.

use std::net::SocketAddr;
use std::path::Path;

use measure::Nanos;
use record::{AttackKind, AttackRequest};
use serde_json::Value;

use crate::kit::command::{Ran, task};

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

/// Runs an experiment in a folder.
fn run(dir: &Path, text: &str, line: &str) -> Option<Ran> {
    Ran::experiment(dir, "4s", text, line)
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
    let Some(plan) = run(dir.path(), EXPERIMENT, "--dry-run") else { return };
    assert!(plan.code == 0 && plan.told.contains("method: drill"), "{}", plan.told);
    let Some(Ran { told: text, run: record, .. }) = run(dir.path(), EXPERIMENT, "") else { return };
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
    // Nor is one that the lab would start on another host.
    let refused = [
        ("--dry-run --remote far=192.0.2.1:53", "far at 192.0.2.1:53"),
        ("--dry-run --dut far.example", "a server on another host (--dut, --hosts)"),
    ];
    for (line, who) in refused {
        let Some(ran) = run(dir.path(), EXPERIMENT, line) else { return };
        assert_eq!(ran.code, 2, "{}", ran.told);
        let why = format!("{who} is not attacked, since it is outside of the lab");
        assert!(ran.told.contains("x.toml:6:10: ") && ran.told.contains(&why), "{}", ran.told);
    }
    // The same servers may be loaded.
    let load = EXPERIMENT.replace("method = \"drill\"", "method = \"closed\"");
    let (head, _) = load.split_once("[matrix]").expect("a matrix");
    for (line, _) in refused {
        let Some(ran) = run(dir.path(), head, line) else { return };
        assert_eq!(ran.code, 0, "{}", ran.told);
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
        let (code, out, err) = task("attack", &lab::Task::Attack(Box::new(request)));
        assert!(out.is_empty());
        (code, err)
    };
    for target in ["127.0.0.1:53", "[::1]:53", "192.0.2.1:53", "10.9.1.2:53"] {
        let (code, text) = attack(target.parse().expect(target));
        assert_eq!(code, 2, "{text}");
        let why =
            format!("{target} is not attacked, since it is not the server under test of a lab");
        assert!(text.contains(&why) && text.contains("its own namespaces"), "{text}");
    }
}
