//! The recipe for CI systems (`docs/examples/regression`): a server that takes longer fails, the same one does not.

use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;

use crate::kit::host;

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
        .env("DURATION", "1s")
        .env("FAIL_IF", "answered < -30%")
        .current_dir(dir.path())
        .output()
        .expect("starts");
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&printed).into_owned(), dir)
}

#[test]
fn the_recipe_fails_on_a_regression_and_on_nothing_else() {
    // The AuthDNSs wait most of the time, so that both run at once. A busy machine makes more rounds, and no other code.
    let cases = [(120, 3, "slower: "), (40, 0, "fine: nothing is slower")];
    std::thread::scope(|scope| {
        for (port, (new, wanted, says)) in [0; 2].map(|_| host::free_port()).into_iter().zip(cases)
        {
            scope.spawn(move || {
                let (code, printed, dir) = regression(port, 40, new);
                assert_eq!(code, Some(wanted), "{printed}");
                assert!(printed.contains(says), "{printed}");
                for file in ["old-5.json", "new-5.json", "junit.xml", "comparison.txt"] {
                    assert!(dir.path().join(file).exists(), "{file}: {printed}");
                }
            });
        }
    });
}
