//! The recipe for CI systems (`docs/examples/regression`): a server that takes longer fails, the same one does not.

#[path = "kit/host.rs"]
mod host;

use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;

/// Runs the recipe at a port with AuthDNSs that answer after these times in milliseconds; returns its exit code, what it printed, and its
/// folder.
fn regression(port: u16, old: u32, new: u32) -> (Option<i32>, String, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    let program = cargo_bin("dnsdyno");
    let server = |delay| {
        let program = program.display();
        format!(
            "{program} auth --listen 127.0.0.1:$PORT --namespace 10.0.0.0/16 --aaaa always --delay {delay}ms"
        )
    };
    let path = std::env::var("PATH").unwrap_or_default();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/regression");
    let output = Command::new(script)
        .args([server(old), server(new)])
        .env(
            "PATH",
            format!("{}:{path}", program.parent().map(PathBuf::from).expect("a folder").display()),
        )
        .env("PORT", port.to_string())
        .env("DURATION", "8s")
        .env("FAIL_IF", "answered < -30%")
        .current_dir(dir.path())
        .output()
        .expect("starts");
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&printed).into_owned(), dir)
}

#[test]
fn the_recipe_fails_on_a_regression_and_on_nothing_else() {
    let ports = [0, 1].map(|_| host::free_port());
    // Both at the same time: the AuthDNSs wait most of it.
    std::thread::scope(|scope| {
        scope.spawn(|| fails_on_a_regression(ports[0]));
        scope.spawn(|| does_not_fail_on_the_same(ports[1]));
    });
}

fn fails_on_a_regression(port: u16) {
    // On a machine that is too busy trials are void, which is inconclusive.
    let mut attempts = (0..3).map(|_| regression(port, 40, 120));
    let done = attempts.find(|(code, ..)| *code != Some(4));
    let (code, printed, dir) = done.unwrap_or_else(|| regression(port, 40, 120));
    assert!(code == Some(3) || code == Some(4) && printed.contains("VOID"), "{code:?}: {printed}");
    for file in ["old.json", "new.json", "junit.xml", "comparison.txt"] {
        assert!(dir.path().join(file).exists(), "{file}: {printed}");
    }
}

fn does_not_fail_on_the_same(port: u16) {
    let once = || regression(port, 40, 40);
    let (code, printed, _dir) =
        Some(once()).filter(|(code, ..)| *code != Some(3)).unwrap_or_else(once);
    assert!(matches!(code, Some(0 | 4)), "{code:?}: {printed}");
}
