//! The outputs that README.md and docs/guide.md show: their commands are run, and print the same lines in the same order. Numbers, units,
//! addresses and the dates in them are masked.

use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;

use crate::kit::AuthDns;

/// Labels of lines that a load has only where it found something.
const SOMETIMES: [&str; 8] = [
    "stalls of cores",
    "warning",
    "VOID",
    "turned bad",
    "dropped here",
    "besides",
    "invalid",
    "drops",
];
/// Labels of lines whose rest depends on what else the machine does.
const BY_THE_MACHINE: [&str; 4] = ["outstanding", "cpu tester", "limiter", "result"];

/// A command of a page, and the lines that the page shows below it.
struct Shown {
    command: String,
    lines: Vec<String>,
}

/// The commands with their outputs in the blocks of a page.
fn shown(page: &str) -> Vec<Shown> {
    let blocks = page.split("```").skip(1).step_by(2);
    let mut found = Vec::new();
    for block in blocks {
        let mut of_block: Vec<Shown> = Vec::new();
        for line in block.lines() {
            match (line.strip_prefix("$ "), of_block.last_mut()) {
                (Some(command), _) => {
                    of_block.push(Shown { command: command.to_owned(), lines: vec![] });
                }
                (None, Some(last)) => last.lines.push(line.to_owned()),
                (None, None) => {}
            }
        }
        found.extend(of_block.into_iter().filter(|shown| !shown.lines.is_empty()));
    }
    found
}

/// The words of a line without numbers and units; of a line that depends on the machine its label only.
fn masked(line: &str) -> Vec<String> {
    let label = line.split("  ").next().unwrap_or_default();
    let line = if BY_THE_MACHINE.contains(&label) { label } else { line };
    let words = line.split_whitespace().map(|word| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        match bare {
            "" | "us" | "ms" | "s" => None,
            _ if bare.starts_with(|c: char| c.is_ascii_digit()) => Some("N".to_owned()),
            _ => Some(bare.to_owned()),
        }
    });
    words.flatten().collect()
}

/// Whether a load has a line only where it found something: stalls, warnings, why it is void, and the buckets with replies.
fn is_conditional(line: &str) -> bool {
    let bucket = line.starts_with("    ") && line.contains(" to ");
    bucket || SOMETIMES.iter().any(|label| line.starts_with(label))
}

/// Compares what a page shows with what its command printed: the same lines in the same order, but for those that `...` stands for.
fn compare(shown: &Shown, printed: &str, shortened: bool) -> Result<(), String> {
    let mut rest = printed.lines();
    let mut gap = shortened;
    // On a busy machine a load may be void, and says what to do then.
    let is_void = printed.lines().any(|line| line.starts_with("VOID "));
    let masked = |line: &str| match line.starts_with("next ") && is_void {
        true => vec!["next".to_owned()],
        false => masked(line),
    };
    for line in shown.lines.iter().filter(|line| !line.trim().is_empty()) {
        if line.trim() == "..." {
            gap = true;
            continue;
        }
        if is_conditional(line) {
            continue;
        }
        let wanted = masked(line);
        let next = rest.find(|printed| {
            let same = masked(printed) == wanted;
            same || !(gap || is_conditional(printed))
        });
        if next.map(&masked) != Some(wanted) {
            return Err(format!("`{line}` is shown, `{}` is printed", next.unwrap_or_default()));
        }
        gap = shortened;
    }
    Ok(())
}

/// Checks that the table which the guide shows below a command is one that such a command has `printed`: the same title, and columns that
/// are there, in their order.
pub(crate) fn has_the_table(command: &str, printed: &str) {
    let guide = include_str!("../../../docs/guide.md");
    let shown = shown(guide).into_iter().find(|shown| shown.command.starts_with(command));
    let shown = shown.unwrap_or_else(|| panic!("no `{command}` in the guide")).lines;
    let printed: Vec<&str> = printed.lines().collect();
    assert_eq!(masked(&shown[0]), masked(printed[0]));
    // On a busy machine a search may have no figure, and other columns.
    if printed.iter().any(|line| line.starts_with("INCOMPLETE") || line.starts_with("\">=\"")) {
        return;
    }
    let columns = |line: &str| {
        line.split("  ")
            .map(str::trim)
            .filter(|c| !c.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (wanted, all) = (columns(&shown[1]), columns(printed[1]));
    let found: Vec<String> = all.iter().filter(|column| wanted.contains(column)).cloned().collect();
    assert_eq!(wanted, found, "of {all:?}");
}

#[test]
fn the_pages_show_what_their_commands_print() {
    let (auth, dir) = (AuthDns::start(&[]), tempfile::tempdir().expect("a folder"));
    let names: String =
        (0..256).map(|i| format!("010-000-000-{i:03}.dns64perf.test A\n")).collect();
    std::fs::write(dir.path().join("q.txt"), names).expect("writes");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let program = cargo_bin("dnsdyno");
    let others = std::env::var("PATH").expect("a PATH");
    let path = format!("{}:{others}", program.parent().expect("a folder").display());
    let mut tried = 0;
    for page in ["guide.md", "../README.md"] {
        let text = std::fs::read_to_string(docs.join(page)).expect("a page");
        for shown in shown(&text) {
            let command = &shown.command;
            // A search takes minutes: other tests that make one call `has_the_table`.
            if ["make", "dnsdyno search", "dnsdyno report"].iter().any(|no| command.starts_with(no))
            {
                continue;
            }
            let is_server = command.contains("dnsdyno auth");
            let line = command.trim_end_matches(" &").replace("--cpus 1", "--cpus 0");
            let line = match is_server {
                true => line.replace("127.0.0.1:5353", "127.0.0.1:0") + " --duration 200ms",
                false => ["127.0.0.1:5353", "127.0.0.1:5300"]
                    .iter()
                    .fold(line, |l, a| l.replace(a, auth.plain())),
            };
            let line = line.replace("--duration 5s", "--duration 1s");
            let output = Command::new("sh")
                .args(["-c", &line])
                .current_dir(dir.path())
                .env("PATH", &path)
                .output();
            let output = output.expect("a shell");
            let told = String::from_utf8(output.stdout).expect("UTF-8");
            // README.md says below its output that it is shortened.
            let found = compare(&shown, &told, page != "guide.md");
            assert!(found.is_ok(), "{page}: `{}`: {found:?}\n{told}", shown.command);
            tried += 1;
        }
    }
    assert!(tried >= 5, "{tried}");
}
