//! Sample runs (`runs/`): each is of a built-in experiment, its record still gives its table and a page, and the README shows one of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;

/// Largest compressed record, in octets.
const MAX_RECORD: u64 = 384 * 1024;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn dnsdyno(args: &[&str]) -> Output {
    Command::new(cargo_bin("dnsdyno")).args(args).output().expect("starts")
}

/// What a command printed, which must succeed.
fn printed(args: &[&str]) -> String {
    let output = dnsdyno(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The text between the backticks of a section.
fn block<'a>(readme: &'a str, section: &str) -> &'a str {
    let (_, rest) = readme.split_once(section).unwrap_or_else(|| panic!("no {section}"));
    rest.split("```").nth(1).expect("a block").trim_matches('\n')
}

/// Checks the folder of the experiment `name`.
fn check(folder: &Path, name: &str) {
    let record = folder.join("record.json.gz");
    let run = record::read_run(&record).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((run.plan.experiment.as_str(), run.plan.quick), (name, true));
    assert!(root().join("experiments").join(format!("{name}.toml")).is_file(), "{name}");
    let size = record.metadata().expect("a file").len();
    assert!(size <= MAX_RECORD, "{name}: {size} octets");
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("a README");
    assert_eq!(block(&readme, "## Command"), run.plan.command, "{name}");
    assert!(readme.contains("**Question.** ") && readme.contains(&run.plan.title), "{name}");
    let file = record.to_str().expect("UTF-8");
    let shown = printed(&["show", "--details", file]);
    for line in block(&readme, "## Table").lines() {
        assert!(shown.contains(line.trim_end()), "{name}: no line `{line}` in\n{shown}");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let page = dir.path().join("page.html");
    printed(&["report", file, "--output", page.to_str().expect("UTF-8")]);
    assert!(std::fs::read_to_string(page).expect("a page").contains("<html"), "{name}");
}

#[test]
fn sample_runs_are_of_built_in_experiments_and_still_render() {
    for entry in std::fs::read_dir(root().join("runs")).expect("the sample runs") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            check(&path, &name);
        }
    }
}

#[test]
fn the_readme_shows_what_its_run_prints() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("a README");
    let record = root().join("runs/dns64-rfc8219/record.json.gz");
    let shown = printed(&["show", record.to_str().expect("UTF-8")]);
    let table = block(&readme, "## What `make demo` prints");
    assert!(table.lines().count() > 5, "{table}");
    for line in table.lines() {
        assert!(shown.contains(line.trim_end()), "no line `{line}` in\n{shown}");
    }
}

#[test]
fn a_stored_run_becomes_a_sample() {
    let dir = tempfile::tempdir().expect("a folder");
    let stored = root().join("crates/cli/tests/runs/generators.json");
    let table = dir.path().join("table.txt");
    std::fs::write(&table, printed(&["show", "--details", stored.to_str().expect("UTF-8")]))
        .expect("writes");
    let folder = dir.path().join("generators");
    let made = Command::new(root().join("scripts/sample-run.py"))
        .args([&stored, &table, &root().join("docs/experiments/generators.md"), &folder])
        .output();
    match made {
        Ok(made) => {
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            check(&folder, "generators");
        }
        Err(e) => skip::because(format!("scripts/sample-run.py: {e} (package python3)")),
    }
}
