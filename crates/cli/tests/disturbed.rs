//! A search while another process uses the server's core: void or right, and never a lower capacity of the server.
//! The tests of `measure::limiter` and of the lab's verdict show how each case is judged; this one has a real server.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use assert_cmd::cargo::cargo_bin;
use engine::clock;
use lab::{CpuList, CpuPlan};
use measure::Nanos;
use serde_json::Value;
use udp::sys;

/// A search for the capacity of NSD, which is limited by its core.
const EXPERIMENT: &str = r#"
name = "disturbed"
title = "a server whose core is used by others"
role = "authoritative"
servers = ["nsd"]
repeats = 1

[workload]
namespace = "10.0.0.0/20"

[search]
rule = "rfc8219"
goal = "loss < 0.1%"
start = "100k"
max = "800k"
resolution = 0.3
duration = "500ms"
timeout = "300ms"
self-test = false
"#;

/// Period of the hog, which runs once in each.
const PERIOD: Nanos = Nanos::from_millis(10);

/// A thread that uses a share of one core until it is dropped.
struct Hog {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// Starts to use `busy` of each period of core `cpu`.
    fn start(cpu: usize, busy: Nanos) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let flag = done.clone();
        let thread = std::thread::spawn(move || {
            sys::pin_to_cpus(&[cpu]).expect("a core of this machine");
            while !flag.load(Ordering::Relaxed) {
                let (began, used) = (clock::monotonic(), clock::thread_cpu_time());
                while clock::thread_cpu_time().since(used) < busy {
                    std::hint::spin_loop();
                }
                sys::sleep_until(began + PERIOD);
            }
        });
        Hog { done, thread: Some(thread) }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Runs the search; its record, or `None` where it cannot be run.
fn search() -> Option<Value> {
    let dir = tempfile::tempdir().expect("a folder");
    let (file, json) = (dir.path().join("x.toml"), dir.path().join("x.json"));
    std::fs::write(&file, EXPERIMENT).expect("writes");
    let output = Command::new(cargo_bin("dnsdyno"))
        .args(["run", "--wait", "--no-store", "--json"])
        .arg(&json)
        .arg(&file)
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let Ok(text) = std::fs::read_to_string(&json) else {
        assert!(said.contains("namespace"), "{said}");
        return skip::none(format_args!("no lab here: {said}"));
    };
    let run: Value = serde_json::from_str(&text).expect("JSON");
    if let Some(skipped) = run["skipped"].as_array().and_then(|all| all.first())
        && skipped["why"].as_str().is_some_and(|why| why.contains("is not installed"))
    {
        return skip::none(skipped);
    }
    Some(run)
}

#[test]
fn a_hog_on_the_servers_core_is_no_limit_of_the_server() {
    let plan = CpuPlan::spread(&CpuList::allowed(), 1);
    if plan.dut_shares() {
        return skip::because("the server has no core of its own here");
    }
    for busy in [PERIOD.0 * 3 / 10, PERIOD.0 / 10] {
        let hog = Hog::start(plan.dut.cpus()[0], Nanos(busy));
        let Some(run) = search() else { return };
        drop(hog);
        let cells = run["results"].as_array().expect("cells");
        let trials = cells.iter().flat_map(|cell| cell["trials"].as_array().expect("trials"));
        let trials: Vec<&Value> = trials.collect();
        assert!(!trials.is_empty(), "{run}");
        for trial in &trials {
            let right = trial["passed"] == true || trial["limiter"] != "dut";
            assert!(right || trial["void"] != false, "a hog of {busy} ns: {}", told(trial));
        }
        let noticed = |trial: &Value| {
            let warnings = trial["warnings"].as_array().expect("a list");
            warnings.iter().any(|warning| warning["kind"] == "foreign-on-server")
        };
        let all: Vec<String> = trials.iter().map(|trial| told(trial)).collect();
        assert!(trials.iter().any(|trial| noticed(trial)), "a hog of {busy} ns: {all:?}");
    }
}

/// What a trial says of its rate, its limiter, and the use of the server's core.
fn told(trial: &Value) -> String {
    let names = ["rate_qps", "passed", "void", "limiter", "limiter_proof", "drops", "cpu"];
    names.map(|name| format!("{name} {}", trial[name])).join(", ")
}
