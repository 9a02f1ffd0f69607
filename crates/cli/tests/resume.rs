//! A run that is killed and taken up again: what was done is kept, the rest is done, the seam is told.

use std::process::Stdio;
use std::time::Duration;

use crate::kit::command::{Ran, dnsdyno, trials};
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

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let dir = dir.path();
    std::fs::write(dir.join("x.toml"), EXPERIMENT).expect("writes");
    let mut command = dnsdyno("run --wait --repeats 4 x.toml");
    command.env("DNSDYNO_STORE", dir.join("runs.db")).env("DNSDYNO_TEST_TRIAL", "400ms");
    command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let mut before = 0;
    while before < 3 && child.try_wait().expect("waits").is_none() {
        std::thread::sleep(Duration::from_millis(50));
        before = trials(dir);
    }
    child.kill().expect("kills");
    let output = child.wait_with_output().expect("ends");
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("cannot get its namespaces") {
        return skip::because(told);
    }
    assert!((3..16).contains(&before), "{before} trials: {told}");
    let resume = || Ran::experiment(dir, "400ms", EXPERIMENT, "--resume last").expect("a lab");
    let mut resumed = resume();
    // The one that was killed holds its lock until the kernel is done with it.
    while resumed.told.contains("is in use by another process") {
        std::thread::sleep(Duration::from_millis(50));
        resumed = resume();
    }
    // Repeats that stay void on a busy machine are done again by the next one.
    let mut times = 1;
    let run = loop {
        let Ran { code, told, run } = &resumed;
        if shared::checked_is_complete(Some(*code), told, run, 4) {
            break resumed.run;
        }
        assert!(times < 5, "{told}");
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
    let again = resume();
    assert_eq!(again.code, 2, "{}", again.told);
    assert!(again.told.contains("run 1 is complete: nothing is left to do"), "{}", again.told);
}
