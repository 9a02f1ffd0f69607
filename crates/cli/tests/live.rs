//! A run on a terminal: its live view, the keys that end it, and the terminal as it was before.

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::kit::command::{runs, small_load};

/// What a run left behind that was ended by keys as soon as its screen showed all that was waited for.
struct Left {
    /// The screen while it ran.
    seen: String,
    screen: vt100::Screen,
    /// Whether the terminal's modes are as they were.
    restored: bool,
    code: u32,
}

/// The size of a terminal.
fn size(rows: u16, cols: u16) -> PtySize {
    PtySize { rows, cols, ..PtySize::default() }
}

/// Runs on a terminal of a size until `enough`, then types `keys`.
fn run(
    dir: &Path,
    size: PtySize,
    words: &[&str],
    enough: impl Fn(&vt100::Screen) -> bool,
    keys: &[u8],
) -> Left {
    let file = dir.join("x.toml");
    // Longer than any test waits.
    small_load(dir, "looked-at", 100, "1s");
    let pair = native_pty_system().openpty(size).expect("a terminal");
    let before = pair.master.get_termios().expect("modes");
    let mut command = CommandBuilder::new(cargo_bin("dnsdyno"));
    command.env("DNSDYNO_STORE", dir.join("runs.db"));
    command.env("TERM", "xterm-256color");
    command.env("DNSDYNO_TEST_TRIAL", "1s");
    // The tests of this file use the same cores.
    command.args(["run", "--wait=5m"]);
    command.arg(&file);
    command.args(words);
    let mut child = pair.slave.spawn_command(command).expect("starts");
    let whole = |side| NonZero::new(side).expect("a size");
    let parser = Arc::new(Mutex::new(vt100::Parser::new(whole(size.rows), whole(size.cols), 500)));
    let mut output = pair.master.try_clone_reader().expect("reads");
    let heard = parser.clone();
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        // The kernel says EIO when nobody has the terminal open any more.
        while let Ok(n @ 1..) = output.read(&mut bytes) {
            heard.lock().expect("whole").process(&bytes[..n]);
        }
    });
    let screen = || parser.lock().expect("whole").screen().clone();
    while !enough(&screen()) && child.try_wait().expect("waits").is_none() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let seen = screen().contents();
    let mut input = pair.master.take_writer().expect("writes");
    input.write_all(keys).expect("typed");
    let code = child.wait().expect("ends").exit_code();
    let restored = pair.master.get_termios().expect("modes") == before;
    drop(pair.slave);
    reader.join().expect("reads to the end");
    Left { seen, screen: screen(), restored, code }
}

/// Whether the screen shows a repeat after the first: a trial has ended, and there is something to keep.
fn shows_a_later_repeat(text: &str) -> bool {
    let mut numbers = text.split("repeat ").skip(1).filter_map(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u32>().ok()
    });
    numbers.any(|number| number > 1)
}

/// Whether a process is left that was started with this folder's store.
fn leaves_processes(dir: &Path) -> bool {
    let wanted = dir.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").expect("reads").flatten();
    let environments = processes.filter_map(|p| std::fs::read(p.path().join("environ")).ok());
    environments.into_iter().any(|text| String::from_utf8_lossy(&text).contains(&wanted))
}

/// Whether there is no lab here; it has said so.
fn is_skipped(left: &Left) -> bool {
    let skipped = left.screen.contents().contains("cannot get its namespaces");
    if skipped {
        skip::because(left.screen.contents());
    }
    skipped
}

#[test]
fn keys_end_a_run_and_the_terminal_is_as_it_was() {
    let sizes =
        [(size(24, 80), &b"q?ny\x1b[5~qy"[..]), (size(15, 40), b"\x03"), (size(60, 200), b"qy")];
    for (size, keys) in sizes {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let wanted = [
            "looked-at",
            "authdns",
            "constant 500 qps",
            "sent ",
            "p99 <",
            "last ",
            "tester",
            "dut ",
        ];
        let enough = |screen: &vt100::Screen| {
            let text = screen.contents();
            shows_a_later_repeat(&text) && wanted.iter().all(|part| text.contains(part))
        };
        let left = run(dir.path(), size, &[], enough, keys);
        if is_skipped(&left) {
            return;
        }
        let (seen, after) = (&left.seen, left.screen.contents());
        assert!(shows_a_later_repeat(seen), "{seen}\n{after}");
        assert_eq!(left.code, 1, "{after}");
        assert!(left.restored && !left.screen.alternate_screen(), "{after}");
        assert!(!left.screen.hide_cursor(), "{after}");
        assert!(after.contains("INCOMPLETE: "), "{after}");
        assert!(!leaves_processes(dir.path()));
        let runs = runs(dir.path());
        assert!(runs[0]["trials"].as_u64() >= Some(1), "{runs}");
        assert_eq!(runs[0]["state"], "incomplete", "{runs}");
    }
}

#[test]
fn plain_lines_on_a_terminal_for_who_wants_them() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let enough = |screen: &vt100::Screen| shows_a_later_repeat(&screen.contents());
    // The terminal makes a signal of it.
    let left = run(dir.path(), size(50, 100), &["--plain"], enough, b"\x03");
    if is_skipped(&left) {
        return;
    }
    let after = left.screen.contents();
    assert!(left.seen.contains("[1/100, about") && left.restored, "{}\n{after}", left.seen);
    assert!(after.contains("INCOMPLETE") && left.code == 1, "{after}");
}
