//! The commands of the README and of all pages: each is accepted, and each experiment can be planned.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use kit::words;

#[path = "kit/words.rs"]
mod kit;

/// Words that the reader replaces, and what stands for them here.
const PLACEHOLDERS: [(&str, &str); 10] = [
    ("FORMAT", "csv"),
    ("PID", "1"),
    ("SERVER", "127.0.0.1:53"),
    ("ADDRESS", "127.0.0.1:53"),
    ("N", "4"),
    ("256*B", "256"),
    ("RATE", "1000"),
    ("R", "1000"),
    ("A.0.0.0/8", "10.0.0.0/8"),
    ("10.A.0.0/16", "10.1.0.0/16"),
];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The pages, with their texts.
fn pages() -> Vec<(PathBuf, String)> {
    let folders = [docs(), docs().join("experiments")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("the pages"));
    let pages = entries.map(|entry| entry.expect("an entry").path());
    let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let pages = pages.chain([docs().join("../README.md")]);
    pages.map(|path| (path.clone(), std::fs::read_to_string(path).expect("a page"))).collect()
}

/// The commands in a page: lines of blocks, and texts between backticks; without comments and redirections.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            found.push(line.strip_prefix("$ ").unwrap_or(line));
        } else {
            found.extend(line.split('`').skip(1).step_by(2));
        }
    }
    let cut = |text: &str| {
        let end =
            ["  ", " >", " (", " #", " ...", " &"].iter().filter_map(|end| text.find(end)).min();
        text[..end.unwrap_or(text.len())].to_owned()
    };
    // Drop-ins have the help of their originals.
    let foreign = |text: &str| {
        ["dnsperf", "resperf", "kxdpgun"].iter().any(|tool| text[8..].starts_with(tool))
    };
    let own = |text: &&str| text.starts_with("dnsdyno ") && !foreign(text);
    found.into_iter().filter(own).map(cut).collect()
}

/// The arguments with which a command is tried, and whether they plan an experiment.
fn arguments(command: &str) -> (Vec<String>, bool) {
    let value = |word: &str| {
        let known = PLACEHOLDERS.iter().find(|(placeholder, _)| *placeholder == word);
        known.map_or(word, |(_, value)| value).to_owned()
    };
    let mut words: Vec<String> = words(command).iter().skip(1).map(|word| value(word)).collect();
    let built_in = |name: &String| !name.starts_with('-') && !name.ends_with(".toml");
    // Hosts that are not there cannot be planned with.
    let here = !words.iter().any(|word| ["--hosts", "--dut"].contains(&word.as_str()));
    let plans = here
        && words.first().is_some_and(|word| word == "run")
        && words.get(1).is_some_and(built_in);
    let wanted: &[&str] = if plans { &["--quick", "--dry-run"] } else { &["--help"] };
    for option in wanted {
        let is_medium = |word: &String| *option == "--quick" && word == "--medium";
        if !words.iter().any(|word| word == option || is_medium(word)) {
            words.push((*option).to_owned());
        }
    }
    (words, plans)
}

#[test]
fn documented_commands_are_accepted() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut tried = BTreeSet::new();
    let mut planned = BTreeSet::new();
    for (page, text) in pages() {
        for command in commands(&text) {
            let (words, plans) = arguments(&command);
            if !tried.insert(words.clone()) {
                continue;
            }
            let mut program = Command::new(cargo_bin("dnsdyno"));
            let output = program.current_dir(&dir).args(&words).output().expect("starts");
            let said = String::from_utf8_lossy(&output.stderr);
            // A machine without these servers plans nothing.
            let missing = plans && said.contains("not installed");
            assert!(output.status.success() || missing, "{}: {command}: {said}", page.display());
            if plans {
                planned.insert(words[1].clone());
            }
        }
    }
    let experiments = std::fs::read_dir(docs().join("../experiments")).expect("the experiments");
    for path in experiments.map(|entry| entry.expect("an entry").path()) {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(planned.contains(&name), "no page says how to run {name}");
    }
    assert!(tried.len() > 50, "{}", tried.len());
}
