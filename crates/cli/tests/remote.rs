//! A server that the user runs, at its address: measured by the network alone. Here it is our AuthDNS on loopback.

use std::path::Path;

use crate::kit::AuthDns;
use crate::kit::command::Ran;
use crate::kit::shared::checked_is_complete;

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

/// Runs an experiment in a folder.
fn run(dir: &Path, text: &str, line: &str) -> Option<Ran> {
    Ran::experiment(dir, "400ms", text, &format!("--trust {line}"))
}

#[test]
fn a_server_at_an_address_is_measured_by_the_network_alone() {
    let (auth, dir) =
        (AuthDns::start(&["--aaaa", "always"]), tempfile::tempdir().expect("a temporary folder"));
    let text = EXPERIMENT.replace("ADDRESS", auth.plain());
    let Some(Ran { code, told, run }) = run(dir.path(), &text, "") else { return };
    let cell = &run["results"][0];
    checked_is_complete(Some(code), &told, &run, 2);
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
    let text = EXPERIMENT.replace("ADDRESS", &address);
    let Some(Ran { code, told, run }) = run(dir.path(), &text, "") else { return };
    assert_eq!(code, 1, "{told}");
    assert!(told.contains(&format!("{address} does not answer 010-000-000-000")), "{told}");
    assert!(told.contains("dnsdyno auth --listen ADDRESS:PORT --namespace 10.0.0.0/16"), "{told}");
    assert_eq!(run["results"].as_array().map(Vec::len), Some(0), "{run}");
}

#[test]
fn an_experiment_may_leave_its_servers_to_the_command_line() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let custom = EXPERIMENT.find("[custom").expect("a custom server");
    let text = EXPERIMENT[..custom].replace("servers = [\"mine\"]\n", "");
    let Some(Ran { code, told, .. }) = run(dir.path(), &text, "--dry-run") else { return };
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("there is no server to measure: write `servers = "), "{told}");
    assert!(told.contains("--remote NAME=ADDRESS"), "{told}");
    let line = "--dry-run --remote far=192.0.2.1:53";
    let Some(Ran { code, told, .. }) = run(dir.path(), &text, line) else { return };
    assert!(code == 0 && told.contains("far"), "{told}");
}
