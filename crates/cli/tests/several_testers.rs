//! Several Testers that are one: slices of a load, an agreed start, and the merge of their results.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use record::Trial;
use serde_json::Value;

use crate::kit::AuthDns;
use crate::kit::command::{Told, dnsdyno, run_in};
use crate::kit::host::signal;

/// The second that begins between nine and ten seconds from now: all start in time, also on a busy machine.
fn soon() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    format!("@{}", now.as_secs() + 10)
}

/// Starts a slice of a load of 3,000 queries a second for a second.
fn slice(dir: &Path, target: &str, slice: &str, start_at: &str) -> (Child, PathBuf) {
    let json = dir.join(format!("{}.json", slice.replace('/', "-of-")));
    let mut command = dnsdyno(&format!(
        "load {target} --namespace 10.0.0.0/16 --type A --rate 3k --duration 1s --slice {slice} \
         --start-at {start_at} --clock-bound unchecked --json {}",
        json.display()
    ));
    command.env("DNSDYNO_STORE", dir.join("runs.db")).stdout(Stdio::null());
    (command.spawn().expect("starts"), json)
}

/// What three Testers of one trial wrote.
struct Three {
    dir: tempfile::TempDir,
    files: [PathBuf; 3],
    /// The merged trial, and the outcome of the merge.
    trial: Trial,
    merged: Told,
}

/// Runs three Testers and merges their parts.
fn three_testers(auth: &AuthDns) -> Three {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let at = soon();
    let running = ["1/3", "2/3", "3/3"].map(|part| slice(dir.path(), auth.plain(), part, &at));
    let files = running.map(|(mut child, file)| {
        child.wait().expect("ends");
        file
    });
    let more = "--goal 'loss < 50%' --keep --start-bound 1s --json whole.json";
    let merged = run_in(dir.path(), &format!("merge 1-of-3.json 2-of-3.json 3-of-3.json {more}"));
    let trial = record::read(&dir.path().join("whole.json")).expect("a trial");
    Three { dir, files, trial, merged }
}

#[test]
fn three_testers_start_together_and_are_one() {
    let auth = AuthDns::start(&[]);
    // Again, where one stood still when it was to start.
    let mut tries = (0..3).map(|_| three_testers(&auth));
    let together =
        |three: &Three| three.trial.merged.as_ref().is_some_and(|m| m.start_spread_us < 1e6);
    let found = tries.find(together).expect("they start together");
    let Three { dir, files, trial, merged: (code, out, err) } = found;
    assert_eq!(code == 0, !trial.void.is_void(), "{err}");
    // Each name once, as one Tester sends them; on a busy machine late, but all of them.
    assert_eq!((trial.planned, trial.sent), (3_000, 3_000));
    let parts: Vec<Trial> = files.iter().map(|file| record::read(file).expect("a part")).collect();
    assert_eq!(trial.valid, parts.iter().map(|part| part.valid).sum::<u64>());
    let mut latency = measure::Histogram::new();
    parts.iter().for_each(|part| latency.merge(&part.latency_us.histogram().expect("readable")));
    assert_eq!(trial.latency_us, record::Times::from(&latency));
    let merged = trial.merged.as_ref().expect("its parts");
    assert!(merged.parts.iter().all(|part| part.sent == 1_000), "{merged:?}");
    assert!(parts.iter().all(|part| part.conditions.agreed_start.is_some()));
    assert!(out.contains("part 2/3") && out.contains("starts  "), "{out}");
    let (_, kept, _) = run_in(dir.path(), "runs --json -");
    let kept: Value = serde_json::from_str(&kept).unwrap_or_default();
    assert!(kept.as_array().is_some_and(|runs| runs.len() == 1), "{kept}");
    // What was merged is no part, and one part is not the whole.
    for (parts, why) in [
        ("whole.json", "was merged already"),
        ("1-of-3.json 2-of-3.json", "the load has 3 slices, and one is not given: 3/3"),
    ] {
        let (code, _, err) = run_in(dir.path(), &format!("merge {parts}"));
        assert!(code == 2 && err.contains(why), "{parts}: {err}");
    }
}

#[test]
fn an_interrupt_ends_the_wait_for_the_start() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let target = silent.local_addr().expect("bound").to_string();
    let (mut child, json) = slice(dir.path(), &target, "1/2", "@9000000000");
    // The signals are handled before the progress is shown; a signal that comes earlier ends the process too.
    std::thread::sleep(std::time::Duration::from_millis(500));
    signal(child.id(), "TERM");
    assert!(!child.wait().expect("ends").success());
    if let Ok(trial) = record::read::<Trial>(&json) {
        assert!(trial.void.is_void() && trial.sent == 0, "{:?}", trial.void);
    }
}
