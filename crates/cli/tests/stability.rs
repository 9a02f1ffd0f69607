//! The stable surface (docs/stability.md): what programs and files of users depend on is compared with a stored list.
//!
//! ```text
//! man pages ──> options ─────────────────────────┐
//! docs/schema ──> fields of JSON ────────────────┤
//! errors about unknown keys ──> keys of files ───┼──> compared with tests/tables/stable.txt
//! runs of commands ──> exit codes ───────────────┘
//! ```
//!
//! Each is read from what users see, never from the sources. Metrics are compared where they are made: in the tests of `report` and `dns64d`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::kit::command::run;

/// Set to write the list anew, as a release does: what is new is promised from then on.
const WRITE: &str = "DNSDYNO_WRITE_STABLE";
/// Kinds of the list that other crates compare.
const ELSEWHERE: &str = "metric ";
/// Deepest table of a file.
const MAX_DEPTH: usize = 3;

/// Names by their kind and place, such as `option dnsdyno-load`.
type Surface = BTreeMap<String, BTreeSet<String>>;

fn list() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables/stable.txt")
}

/// Returns what a line of the list says: `KIND PLACE: NAME NAME ...`.
fn stored(text: &str) -> Surface {
    let line = |line: &str| {
        let (place, names) = line.split_once(':').expect("a place before `:`");
        (place.to_owned(), names.split_whitespace().map(str::to_owned).collect())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

/// Adds the options of each command, as the man pages name them.
fn options(all: &mut Surface) {
    let dir = tempfile::tempdir().expect("a folder");
    for (program, how) in [("dnsdyno", "man"), ("dns64d", "--man")] {
        let made = Command::new(cargo_bin(program)).arg(how).arg(dir.path()).status();
        assert!(made.expect("starts").success());
    }
    for entry in std::fs::read_dir(dir.path()).expect("the pages") {
        let path = entry.expect("an entry").path();
        let page = std::fs::read_to_string(&path).expect("a page").replace("\\-", "-");
        let command = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let names = page.lines().filter(|line| line.starts_with("\\fB-")).flat_map(|line| {
            line.split("\\fB").filter_map(|part| part.strip_prefix("--")?.split("\\fR").next())
        });
        all.insert(format!("option {command}"), names.map(str::to_owned).collect());
    }
}

/// Adds the fields of each type of the published schemas.
fn fields(all: &mut Surface) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    for entry in std::fs::read_dir(folder).expect("the schemas") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|end| end == "json") {
            let text = std::fs::read_to_string(&path).expect("a schema");
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            of_type(&name, &serde_json::from_str(&text).expect("JSON"), all);
        }
    }
}

fn of_type(name: &str, schema: &Value, all: &mut Surface) {
    for (key, value) in schema.as_object().into_iter().flatten() {
        let named = value.as_object().into_iter().flatten();
        match &**key {
            "$defs" => named.for_each(|(name, schema)| of_type(name, schema, all)),
            "properties" => {
                let fields = all.entry(format!("field {name}")).or_default();
                fields.extend(named.map(|(name, _)| name.clone()));
                value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .for_each(|(_, one)| of_type(name, one, all));
            }
            _ => {
                of_type(name, value, all);
                value.as_array().into_iter().flatten().for_each(|one| of_type(name, one, all));
            }
        }
    }
}

/// Returns what a program says about a file of a kind.
fn complaint(kind: &str, text: &str) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file.toml");
    std::fs::write(&file, text).expect("our own folder");
    let (program, words) = match kind {
        "experiment" => ("dnsdyno", vec!["run".as_ref(), file.as_os_str(), "--dry-run".as_ref()]),
        "adapter" => {
            ("dnsdyno", vec!["servers".as_ref(), "--servers-dir".as_ref(), dir.path().as_os_str()])
        }
        _ => ("dns64d", vec!["--check".as_ref(), "--config".as_ref(), file.as_os_str()]),
    };
    let output = Command::new(cargo_bin(program)).args(&words).output().expect("starts");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Adds the keys of a table of a file, and of the tables in it: an unknown key is answered with those that are known.
fn keys(kind: &str, table: &[&str], all: &Mutex<Surface>) {
    let place = table.join(".");
    let forms = if table.is_empty() {
        vec![String::new()]
    } else {
        vec![format!("[{place}]\n"), format!("[[{place}]]\n")]
    };
    let known = forms.iter().find_map(|form| {
        let told = complaint(kind, &format!("{form}no-such-key = 1\n"));
        let (_, known) = told.split_once("unknown field `no-such-key`, expected ")?;
        let names = known.split('`').skip(1).step_by(2).map(str::to_owned);
        Some(names.collect::<BTreeSet<String>>())
    });
    let Some(known) = known else { return };
    all.lock().expect("no panic").insert(format!("{kind} {place}"), known.clone());
    if table.len() < MAX_DEPTH {
        known.iter().for_each(|name| keys(kind, &[table, &[&**name]].concat(), all));
    }
}

#[test]
fn options_fields_and_keys_of_the_list_are_still_there() {
    if !cargo_bin("dns64d").exists() {
        return skip::because("dns64d is not built: cargo build");
    }
    let found = Mutex::new(Surface::new());
    std::thread::scope(|scope| {
        for kind in ["experiment", "adapter", "configuration"] {
            let found = &found;
            scope.spawn(move || keys(kind, &[], found));
        }
    });
    let mut found = found.into_inner().expect("no panic");
    options(&mut found);
    fields(&mut found);
    found.retain(|_, names| !names.is_empty());
    let text = std::fs::read_to_string(list()).unwrap_or_default();
    let mut stored = stored(&text);
    if std::env::var_os(WRITE).is_some() {
        stored.retain(|place, _| place.starts_with(ELSEWHERE));
        stored.extend(found);
        let line = |(place, names): (&String, &BTreeSet<String>)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("{place}: {}\n", names.join(" "))
        };
        let head: String =
            text.lines().filter(|l| l.starts_with('#')).map(|l| format!("{l}\n")).collect();
        let lines: String = stored.iter().map(line).collect();
        return std::fs::write(list(), head + &lines).expect("our own file");
    }
    stored.retain(|place, _| !place.starts_with(ELSEWHERE));
    let gone = missing(&stored, &found);
    assert!(gone.is_empty(), "renamed or removed, which breaks docs/stability.md: {gone:#?}");
    // One that is renamed is seen, of each kind.
    for kind in ["option ", "field ", "experiment ", "adapter ", "configuration "] {
        let mut renamed = found.clone();
        let (place, names) = { stored.iter() }
            .find(|(place, names)| place.starts_with(kind) && !names.is_empty())
            .expect(kind);
        let name = names.first().expect("a name");
        let here = renamed.get_mut(place).expect("it is still there");
        here.remove(name);
        here.insert(format!("{name}-renamed"));
        assert_eq!(missing(&stored, &renamed), [format!("{place}: {name}")]);
    }
}

/// Returns the stored names that are not found.
fn missing(stored: &Surface, found: &Surface) -> Vec<String> {
    let gone = |(place, names): (&String, &BTreeSet<String>)| -> Vec<String> {
        let here = found.get(place);
        let gone = names.iter().filter(|name| here.is_none_or(|here| !here.contains(*name)));
        gone.map(|name| format!("{place}: {name}")).collect()
    };
    stored.iter().flat_map(gone).collect()
}

#[test]
fn exit_codes_are_those_of_the_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/stability.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/search.json").display().to_string();
    let lost = "load 127.0.0.1:9 --name a.test --rate 100 --duration 100ms --timeout 50ms --goal zero-loss";
    // 3 is that of a worse run: `the_exit_code_says_what_a_comparison_found` of runs.rs.
    for (line, wanted) in [
        (format!("show {file}"), 0),
        (lost.to_owned(), 1),
        ("load 127.0.0.1:9 --no-such-option".to_owned(), 2),
        (format!("compare {file} {file}"), 4),
    ] {
        let (code, _, told) = run(&line);
        assert_eq!(code, wanted, "{line}: {told}");
        let row = format!("| {wanted} |");
        assert!(page.lines().any(|line| line.starts_with(&row)), "the page has no row of {wanted}");
    }
}
