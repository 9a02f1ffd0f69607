//! The lab for real: namespaces, links, processes and servers of this machine.
//!
//! The test program plays `dnsdyno` itself, since the lab executes its own program again: it has the
//! hidden wrapper command and the task of an AuthDNS, reduced to what a test needs; `auth` is a
//! server under test. Each case runs in a lab of its own, as a child process: `case NAME`. Where
//! the kernel gives this user no namespaces, the cases are skipped and the reason is printed.

#![expect(clippy::unwrap_used, reason = "a test without the usual harness: what unwraps fails")]

mod cases;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

/// A case that cannot be tried here says so with this code.
const SKIPPED: u8 = 77;

/// Says why a case cannot be tried here; its exit code.
pub(crate) fn skipped(why: impl std::fmt::Display) -> u8 {
    skip::because(why);
    SKIPPED
}

/// Whether a case that ran as a child process could not be tried.
pub(crate) fn is_skipped(code: Option<i32>) -> bool {
    code == Some(i32::from(SKIPPED))
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = args.next().and_then(|arg| arg.into_string().ok()).unwrap_or_default();
    match first.as_str() {
        lab::exec::EXEC_COMMAND => match lab::exec_main(args) {
            Ok(never) => match never {},
            Err(e) => {
                eprintln!("{e}");
                ExitCode::from(127)
            }
        },
        "case" => {
            let name = args.next().and_then(|arg| arg.into_string().ok()).unwrap_or_default();
            ExitCode::from(cases::run(&name))
        }
        lab::TASK_COMMAND => {
            cases::authority::serve(serde_json::from_reader(std::io::stdin()).unwrap());
            ExitCode::SUCCESS
        }
        "auth" => {
            let words: Vec<String> = args.filter_map(|arg| arg.into_string().ok()).collect();
            cases::authority::serve_words(&words);
            ExitCode::SUCCESS
        }
        filter => run_all(filter),
    }
}

/// Runs every case whose name contains `filter`, one after the other.
fn run_all(filter: &str) -> ExitCode {
    let filter = if filter.starts_with("--") { "" } else { filter };
    let (mut failed, mut passed, mut skipped) = (0, 0, 0);
    for (name, _) in cases::CASES.iter().filter(|(name, _)| name.contains(filter)) {
        let status =
            Command::new("/proc/self/exe").args(["case", name]).env("PATH", search_path()).status();
        let verdict = match status.ok().and_then(|status| status.code()) {
            Some(0) => {
                passed += 1;
                "ok"
            }
            code if is_skipped(code) => {
                skipped += 1;
                "skipped"
            }
            _ => {
                failed += 1;
                "FAILED"
            }
        };
        println!("test {name} ... {verdict}");
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    // In the words of the usual harness, for whoever adds them up.
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; {skipped} ignored");
    ExitCode::from(u8::from(failed > 0))
}

/// PATH with our own programs in front, which are built one directory up from tests: those of the
/// workspace that have been.
fn search_path() -> OsString {
    let own = std::env::current_exe().unwrap();
    let built = own.ancestors().nth(2).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(built.into_iter().chain(std::env::split_paths(&path))).unwrap()
}
