//! A server that the user runs, at its address: measured by the network alone. Here it is our AuthDNS on loopback.

use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::kit;
use crate::kit::AuthDns;

const EXPERIMENT: &str = r#"
name = "remote"
title = "a remote server"
role = "dns64"
servers = ["mine"]
method = "load"
repeats = 2

[workload]
namespace = "10.0.0.0/16"

[load]
rates = ["500"]
duration = "400ms"
timeout = "200ms"

[custom.mine]
address = "ADDRESS"
"#;

fn run(dir: &Path, text: &str, more: &[&str]) -> (Output, Value) {
    let (file, json) = (dir.join("x.toml"), dir.join("out.json"));
    std::fs::write(&file, text).expect("writes");
    let output = Command::new(cargo_bin("dnsdyno"))
        .env("DNSDYNO_STORE", dir.join("runs.db"))
        .env("DNSDYNO_TEST_TRIAL", "400ms")
        .args(["run", "--wait", "--trust"])
        .arg(&file)
        .arg("--json")
        .arg(&json)
        .args(more)
        .output()
        .expect("starts");
    let run = std::fs::read(&json).ok().and_then(|text| serde_json::from_slice(&text).ok());
    (output, kit::shared::whole(run.unwrap_or_default()))
}

#[test]
fn a_server_at_an_address_is_measured_by_the_network_alone() {
    let (auth, dir) =
        (AuthDns::start(&["--aaaa", "always"]), tempfile::tempdir().expect("a temporary folder"));
    let (output, run) = run(dir.path(), &EXPERIMENT.replace("ADDRESS", auth.plain()), &[]);
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("cannot get its namespaces") {
        skip::because(told);
        return;
    }
    let cell = &run["results"][0];
    kit::shared::checked_is_complete(&output, &run, 2);
    assert!(told.contains(&format!("mine at {}", auth.plain())), "{told}");
    let trials = cell["trials"].as_array().expect("trials");
    assert!(!trials.is_empty(), "{cell}");
    for trial in trials {
        assert_eq!(trial["conditions"]["target"], auth.plain());
        assert!(trial["valid"].as_u64() > Some(0), "{trial}");
        let roles: Vec<&String> = trial["cpu"].as_object().expect("roles").keys().collect();
        assert_eq!(roles, ["tester"]);
        // No wire, though its address was given.
        let path = &trial["conditions"]["path"];
        assert!(path == "one-host" || path == "host-offload", "{path}");
    }
    let notes = cell["notes"].to_string();
    assert!(
        notes.contains("the server runs on this host, outside of the testbed: its processor"),
        "{notes}"
    );
    assert!(cell["settings"].get("cores").is_none(), "{cell}");
}

#[test]
fn who_does_not_answer_right_is_not_loaded() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // Held so that nobody else takes the port; it answers nothing.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound").to_string();
    let (output, run) = run(dir.path(), &EXPERIMENT.replace("ADDRESS", &address), &[]);
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("cannot get its namespaces") {
        skip::because(told);
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(&format!("{address} does not answer 010-000-000-000")), "{told}");
    assert!(told.contains("dnsdyno auth --listen ADDRESS:PORT --namespace 10.0.0.0/16"), "{told}");
    assert_eq!(run["results"].as_array().map(Vec::len), Some(0), "{run}");
}

#[test]
fn an_experiment_may_leave_its_servers_to_the_command_line() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let custom = EXPERIMENT.find("[custom").expect("a custom server");
    let text = EXPERIMENT[..custom].replace("servers = [\"mine\"]\n", "");
    let (output, _) = run(dir.path(), &text, &["--dry-run"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("there is no server to measure: write `servers = "), "{told}");
    assert!(told.contains("--remote NAME=ADDRESS"), "{told}");
    let remote = ["--dry-run", "--remote", "far=192.0.2.1:53"];
    let (output, _) = run(dir.path(), &text, &remote);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("far"), "{told}");
}
