//! Sample runs (`runs/`): each is of a built-in experiment, its record still gives its table and a page, and the README shows one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, UNIX_EPOCH};

use assert_cmd::cargo::cargo_bin;
use record::Form;
use sha2::{Digest, Sha256};

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

/// Checks the folder of an experiment, of its medium form, or of a server's history by it.
fn check(folder: &Path, name: &str) {
    let name = name.split_once("-history-").map_or(name, |(experiment, _)| experiment);
    let (name, form) = match name.strip_suffix("-medium") {
        Some(name) => (name, Form::Medium),
        None => (name, Form::Quick),
    };
    let record = folder.join("record.json.gz");
    let run = record::read_run(&record).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((run.plan.experiment.as_str(), run.plan.form()), (name, form));
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

/// The table of docs/stability.md is made of the records: DNSDYNO_WRITE_STABLE=1 writes it.
#[test]
fn the_support_matrix_is_what_was_run() {
    let mut seen = BTreeMap::<String, BTreeSet<String>>::new();
    for entry in std::fs::read_dir(root().join("runs")).expect("the sample runs") {
        let path = entry.expect("an entry").path();
        if !path.is_dir() {
            continue;
        }
        let run = record::read_run(&path.join("record.json.gz")).unwrap_or_else(|e| panic!("{e}"));
        let kernel = run.plan.host.map(|host| host.kernel).unwrap_or_default();
        let release = kernel.release.unwrap_or_default();
        let release: Vec<&str> = release.split(['.', '-']).take(2).collect();
        seen.entry("Linux".to_owned()).or_default().insert(release.join("."));
        if let Some(distribution) = kernel.distribution {
            seen.entry("Distributions".to_owned()).or_default().insert(distribution);
        }
        for cell in run.results {
            // A front has both: `nginx+nsd`. Builds are of the user's own.
            if let (false, Some(version)) = (cell.server.contains(['+', '@']), cell.server_version)
            {
                seen.entry(cell.server).or_default().insert(version);
            }
        }
    }
    let row = |(what, versions): (&String, &BTreeSet<String>)| {
        format!("| {what} | {} |\n", Vec::from_iter(versions.iter().cloned()).join(", "))
    };
    let wanted: String = seen.iter().map(row).collect();
    let path = root().join("docs/stability.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let head = "| what | versions |\n|---|---|\n";
    let (before, table) = page.split_once(head).expect("the table ends the page");
    if std::env::var_os("DNSDYNO_WRITE_STABLE").is_some() {
        std::fs::write(&path, format!("{before}{head}{wanted}")).expect("our own file");
    } else {
        assert_eq!(table, wanted, "DNSDYNO_WRITE_STABLE=1 writes it");
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
fn the_page_of_figures_is_made_of_the_records() {
    let made = Command::new("python3")
        .arg(root().join("scripts/results"))
        .arg("-")
        .env("DNSDYNO", cargo_bin("dnsdyno"))
        .output();
    let made = skip::unless_ok(made, "scripts/results (package python3)");
    let Some(made) = made else { return };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let page = std::fs::read_to_string(root().join("docs/results.md")).expect("a page");
    let made = String::from_utf8(made.stdout).expect("UTF-8");
    let differs = made.lines().zip(page.lines()).find(|(made, page)| made != page);
    assert!(
        made == page,
        "docs/results.md is not of the records: run scripts/results; {differs:?}"
    );
}

/// The text chunk `Source` of a PNG.
fn source(picture: &Path) -> String {
    let bytes = std::fs::read(picture).expect("a picture");
    let mut rest = &bytes[8..];
    while let [a, b, c, d, tail @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if let Some(text) = tail[..length + 4].strip_prefix(b"tEXtSource\0") {
            return String::from_utf8_lossy(text).into_owned();
        }
        // Behind the content is its checksum.
        rest = &tail[length + 8..];
    }
    panic!("{}: run scripts/pictures", picture.display());
}

#[test]
fn the_pictures_are_of_the_records() {
    let folders = std::fs::read_dir(root().join("runs")).expect("the sample runs");
    let records = folders.map(|entry| entry.expect("an entry").path().join("record.json.gz"));
    let mut all: Vec<PathBuf> = records.filter(|record| record.is_file()).collect();
    all.sort();
    let one = vec![root().join("runs/dns64-rfc8219/record.json.gz")];
    for (picture, records) in [("report.png", one), ("site.png", all)] {
        let runs =
            records.iter().map(|record| record::read_run(record).unwrap_or_else(|e| panic!("{e}")));
        let last = runs.map(|run| run.plan.started_unix_s).fold(0.0, f64::max);
        let minute = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs_f64(last))
            .to_string();
        let minute = minute[..16].replace('T', " ");
        let content: Vec<u8> =
            records.iter().flat_map(|record| std::fs::read(record).expect("a record")).collect();
        let digest = Sha256::digest(&content);
        let digest: String = digest.iter().map(|octet| format!("{octet:02x}")).collect();
        let source = source(&root().join("docs").join(picture));
        assert!(source.contains("runs/"), "{picture}: {source}");
        assert!(
            source.contains(&minute) && source.ends_with(&digest),
            "{picture} is of other records: run scripts/pictures; {source}"
        );
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
    let made = skip::unless_ok(made, "scripts/sample-run.py (package python3)");
    let Some(made) = made else { return };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    check(&folder, "generators");
}
