//! The most clients that a server carries: a search over clients in the lab, with clients that are made up and those of a file.

use std::fs::File;

use measure::Nanos;
use serde_json::Value;
use trace::population::Synthetic;
use wire::{Qtype, QueryTemplate};

use crate::kit::command::Ran;

/// Our own AuthDNS as the server: it is always there. It carries 40 clients.
const EXPERIMENT: &str = r#"
name = "few-clients"
title = "the most clients, of few"
role = "authoritative"
servers = ["authdns"]
method = "clients"
repeats = 1

[workload]
namespace = "10.0.0.0/20"
client-rate = 10.0
repeat-share = 0.5

[search]
goal = "p99 < 500ms, loss < 5%"
start = "20"
min = "10"
max = "40"
resolution = 0.5
duration = "1s"

[tester]
close-idle = "500ms"

[matrix]
tester.transport = ["udp", "tcp"]
"#;

/// Checks `count` cells: that every trial had as many clients as its number says, and that a search found one of these numbers.
fn check(run: &Value, told: &str, count: usize) {
    let cells = run["results"].as_array().unwrap_or_else(|| panic!("{told}"));
    assert_eq!(cells.len(), count, "{told}");
    for cell in cells {
        assert_eq!((&cell["method"], &cell["over"]), (&"search".into(), &"clients".into()));
        let trials = cell["trials"].as_array().expect("trials");
        assert!(!trials.is_empty(), "{told}");
        for trial in trials {
            let number = trial["rate_qps"].as_f64().expect("a number");
            let clients = trial["connections"]["clients"].as_f64();
            assert_eq!(clients, Some(number), "{trial}");
            assert!(trial["passed"] != true || trial["sent"] == trial["planned"], "{trial}");
        }
        // A busy machine may make trials void.
        if let Some(found) = cell["median_qps"].as_f64() {
            assert!((10.0..=40.0).contains(&found), "{cell}");
            let verdict = cell["capacities"][0]["verdict"].as_str().expect("a verdict");
            assert!(verdict.contains(&format!("{found} clients")), "{verdict}");
            assert!(cell["settings"]["transport"] != "udp" || told.contains("of UDP"), "{told}");
        }
    }
    assert!(told.contains("median, clients") || told.contains("highest bound, clients"), "{told}");
}

#[test]
fn the_most_clients_are_searched_over_udp_and_tcp() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = |text: &str, line: &str| Ran::experiment(dir.path(), "1s", text, line);
    let Some(plan) = run(EXPERIMENT, "--dry-run") else { return };
    let said = plan.told;
    assert_eq!(plan.code, 0, "{said}");
    assert!(said.contains("method: clients") && said.contains("cells: 2; order"));
    let Some(made_up) = run(EXPERIMENT, "") else { return };
    check(&made_up.run, &made_up.told, 2);
    // The same of a file, whose clients are those of its slices.
    let name = |number: u64| format!("010-000-000-{number:03}.dns64perf.test");
    let message = |number: u64| {
        let name = name(number).parse().expect("a name");
        QueryTemplate::new(&name, Qtype::AAAA, false, false, None).bytes().to_vec()
    };
    let period = Nanos::from_secs(3);
    let made = Synthetic {
        clients: 40,
        period,
        rate: 10.0,
        names: 200,
        popular: 200,
        repeats: 1.0,
        seed: 5,
    };
    let population = made.population(message).expect("small");
    let saved = File::create(dir.path().join("some.population")).expect("a file");
    population.write(saved).expect("written");
    let replayed = EXPERIMENT.replace("client-rate = 10.0", "replay = \"some.population\"");
    let replayed = replayed.replace("[\"udp\", \"tcp\"]", "[\"tcp\"]");
    let Some(of_file) = run(&replayed, "") else { return };
    check(&of_file.run, &of_file.told, 1);
    // More than there are.
    let text = replayed.replace("max = \"40\"", "max = \"5000\"");
    let Some(Ran { code, told, .. }) = run(&text, "--dry-run") else { return };
    assert!(code == 2 && told.contains("`max` is 5000: lower it"), "{told}");
}
