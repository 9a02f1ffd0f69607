//! Several Testers that are one: slices of a load, an agreed start, and the merge of their results.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use assert_cmd::cargo::cargo_bin;
use record::Trial;
use serde_json::Value;

use crate::kit::AuthDns;

fn dnsdyno(dir: &Path) -> Command {
    let mut command = Command::new(cargo_bin("dnsdyno"));
    command.env("DNSDYNO_STORE", dir.join("runs.db"));
    command
}

/// The second that begins between nine and ten seconds from now: all start in time, also on a busy machine.
fn soon() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    format!("@{}", now.as_secs() + 10)
}

/// Starts a slice of a load of 3,000 queries a second for a second.
fn slice(dir: &Path, target: &str, slice: &str, start_at: &str) -> (Child, PathBuf) {
    let json = dir.join(format!("{}.json", slice.replace('/', "-of-")));
    let child = dnsdyno(dir)
        .args(["load", target, "--namespace", "10.0.0.0/16", "--type", "A", "--rate", "3k"])
        .args(["--duration", "1s", "--slice", slice, "--start-at", start_at])
        .args(["--clock-bound", "unchecked", "--json"])
        .arg(&json)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    (child, json)
}

fn merge(dir: &Path, files: &[PathBuf], more: &[&str]) -> Output {
    dnsdyno(dir).arg("merge").args(files).args(more).output().expect("starts")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What three Testers of one trial wrote.
struct Three {
    dir: tempfile::TempDir,
    files: [PathBuf; 3],
    /// The merged trial, its file, and the output of the merge.
    trial: Trial,
    whole: PathBuf,
    output: Output,
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
    let whole = dir.path().join("whole.json");
    let more = ["--goal", "loss < 50%", "--keep", "--start-bound", "1s", "--json"];
    let more = [&more[..], &[whole.to_str().expect("UTF-8")]].concat();
    let output = merge(dir.path(), &files, &more);
    let trial = record::read(&whole).expect("a trial");
    Three { dir, files, trial, whole, output }
}

#[test]
fn three_testers_start_together_and_are_one() {
    let auth = AuthDns::start(&[]);
    // Again, where one stood still when it was to start.
    let mut tries = (0..3).map(|_| three_testers(&auth));
    let together =
        |three: &Three| three.trial.merged.as_ref().is_some_and(|m| m.start_spread_us < 1e6);
    let found = tries.find(together).expect("they start together");
    let Three { dir, files, trial, whole, output } = found;
    assert_eq!(output.status.success(), !trial.void.is_void(), "{}", told(&output));
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
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("part 2/3") && text.contains("starts  "), "{text}");
    let kept = dnsdyno(dir.path()).args(["runs", "--json", "-"]).output().expect("starts");
    let kept: Value = serde_json::from_slice(&kept.stdout).unwrap_or_default();
    assert!(kept.as_array().is_some_and(|runs| runs.len() == 1), "{kept}");
    // What was merged is no part, and one part is not the whole.
    let again = merge(dir.path(), &[whole], &[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(told(&again).contains("was merged already"), "{}", told(&again));
    let two = merge(dir.path(), &files[..2], &[]);
    assert_eq!(two.status.code(), Some(2));
    assert!(
        told(&two).contains("the load has 3 slices, and one is not given: 3/3"),
        "{}",
        told(&two)
    );
}

#[test]
fn a_start_that_cannot_be_kept_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let table: [(&[&str], &str); 5] = [
        (&["--start-at", "@1000", "--clock-bound", "unchecked"], "1970-01-01T00:16:40Z is past"),
        (&["--start-at", "@32503680000", "--clock-bound", "0s"], "is not an instant"),
        (&["--start-at", "@9000000000", "--clock-bound", "0s"], "this host's clock"),
        (&["--clock-bound", "1ms"], "--clock-bound requires --start-at"),
        (&["--slice", "3/2"], "`3/2` is not a slice"),
    ];
    for (arguments, why) in table {
        let output = dnsdyno(dir.path())
            .args(["load", "127.0.0.1:9", "--name", "x.test", "--duration", "1s"])
            .args(arguments)
            .output()
            .expect("starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", told(&output));
        assert!(told(&output).contains(why), "{arguments:?}: {}", told(&output));
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
    let killed = Command::new("kill").arg(child.id().to_string()).status().expect("starts");
    assert!(killed.success(), "it runs");
    assert!(!child.wait().expect("ends").success());
    if let Ok(trial) = record::read::<Trial>(&json) {
        assert!(trial.void.is_void() && trial.sent == 0, "{:?}", trial.void);
    }
}
