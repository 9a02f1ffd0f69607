//! Experiments of others: what their files would start is shown, and starts only if the user says so.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use assert_cmd::cargo::cargo_bin;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::kit::command::Ran;

/// Writes an experiment whose server leaves a file behind; returns the path of that file and the experiment.
fn experiment(dir: &Path) -> (PathBuf, String) {
    let mark = dir.join("started");
    let text = format!(
        "name = \"x\"\ntitle = \"x\"\nrole = \"authoritative\"\nmethod = \"closed\"\nservers = [\"own\"]\nrepeats = 1\n\
         [workload]\nnamespace = \"10.0.0.0/24\"\n[closed]\nduration = \"300ms\"\nwindow = 8\n\
         [custom.own]\ncommand = \"mark={}; touch $mark; false\"\nready = \"1s\"\n\
         files = {{ \"own.conf\" = \"first\\nrun \\u001b[2J\" }}\n",
        mark.display()
    );
    std::fs::write(dir.join("x.toml"), &text).expect("writes");
    (mark, text)
}

/// Runs the experiment of a text without a terminal.
fn run(dir: &Path, text: &str, line: &str) -> Option<Ran> {
    Ran::experiment(dir, "300ms", text, line)
}

#[test]
fn without_a_terminal_a_file_with_commands_needs_trust() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mark, text) = experiment(dir.path());
    let Some(Ran { code, told, .. }) = run(dir.path(), &text, "") else { return };
    assert_eq!(code, 2, "{told}");
    let shown = format!("start mark={}; touch $mark; false (custom.own)", mark.display());
    assert!(told.contains(&shown) && told.contains("--trust"), "{told}");
    // Its files too, without what would change the terminal.
    let files = "  write own.conf (custom.own):\n    | first\n    | run \\u{1b}[2J\n  start";
    assert!(told.contains(files), "{told}");
    assert!(!mark.exists());
    // Its plan is only read, and a file without commands is not asked about.
    let Some(plan) = run(dir.path(), &text, "--dry-run") else { return };
    assert!(plan.code == 0 && !mark.exists(), "{}", plan.told);
    let Some(trusted) = run(dir.path(), &text, "--trust") else { return };
    assert!(mark.exists(), "{}", trusted.told);
    // What a store has is asked about too.
    std::fs::remove_file(&mark).expect("it is there");
    let Some(resumed) = run(dir.path(), &text, "--resume last") else { return };
    assert_eq!((resumed.code, mark.exists()), (2, false), "{}", resumed.told);
    // Load to an address is as much.
    let (front, _) = text.split_once("command").expect("a command");
    let text = format!("{front}address = \"192.0.2.1:53\"\n");
    let Some(Ran { code, told, .. }) = run(dir.path(), &text, "") else { return };
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("send load to 192.0.2.1:53 (custom.own)"), "{told}");
}

/// Runs the experiment on a terminal: calls `asked` when it asks, then types `answer`. Returns the exit code and what was told.
fn on_terminal(dir: &Path, answer: &str, asked: impl Fn()) -> (u32, String) {
    let pair = native_pty_system().openpty(PtySize::default()).expect("a terminal");
    let mut command = CommandBuilder::new(cargo_bin("dnsdyno"));
    command.cwd(dir);
    command.env("DNSDYNO_STORE", dir.join("runs.db"));
    command.args(["run", "--wait", "--plain", "x.toml"]);
    let mut child = pair.slave.spawn_command(command).expect("starts");
    drop(pair.slave);
    let mut output = pair.master.try_clone_reader().expect("reads");
    let mut input = pair.master.take_writer().expect("writes");
    let (mut told, mut answered, mut bytes) = (String::new(), false, [0; 4096]);
    // The kernel says EIO when nobody has the terminal open any more.
    while let Ok(n @ 1..) = output.read(&mut bytes) {
        told += &String::from_utf8_lossy(&bytes[..n]);
        if !answered && told.contains("run it? [y/N]") {
            asked();
            input.write_all(answer.as_bytes()).expect("typed");
            answered = true;
        }
    }
    let code = child.wait().expect("ends").exit_code();
    assert!(answered && told.contains("(custom.own)"), "{told}");
    assert_eq!(told.matches("run it?").count(), 1, "it asks once: {told}");
    (code, told)
}

#[test]
fn a_terminal_is_asked() {
    for (answer, starts) in [("\n", false), ("no\n", false), ("y\n", true)] {
        let dir = tempfile::tempdir().expect("a folder");
        let (mark, _) = experiment(dir.path());
        let (code, told) = on_terminal(dir.path(), answer, || ());
        if told.contains("cannot get its namespaces") {
            return skip::because(told);
        }
        assert_eq!((code == 2, mark.exists()), (!starts, starts), "{answer:?}: {told}");
    }
}

#[test]
fn only_what_was_shown_is_run() {
    for (part, other) in [("touch $mark", "true; touch $mark"), ("first", "second")] {
        let dir = tempfile::tempdir().expect("a folder");
        let (mark, text) = experiment(dir.path());
        let file = dir.path().join("x.toml");
        assert!(text.contains(part), "{text}");
        // Somebody changes the file between the question and the answer.
        let change = || std::fs::write(&file, text.replace(part, other)).expect("writes");
        let (code, told) = on_terminal(dir.path(), "y\n", change);
        if told.contains("cannot get its namespaces") {
            return skip::because(told);
        }
        assert_eq!((code, mark.exists()), (2, false), "{told}");
        assert!(told.contains("has changed since it was shown; nothing was run"), "{told}");
    }
}
