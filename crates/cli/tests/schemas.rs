//! Records of all versions of the schema: each is still read, and means what it meant.
//!
//! `tests/runs` holds runs of schema 1, `tests/tables` what `dnsdyno export --format csv` wrote of each when schema 1 was
//! today's.

use std::path::{Path, PathBuf};

use record::{Run, SCHEMA, Table, read_run, write_csv, write_dns_metrics};

/// The stored runs by name.
fn stored() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs");
    let entries = std::fs::read_dir(folder).expect("the stored runs");
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let runs: Vec<_> = paths.map(|path| (name(&path), path)).collect();
    assert!(runs.len() >= 8, "{runs:?}");
    runs
}

fn csv(run: &Run, table: Table) -> String {
    let mut out = Vec::new();
    write_csv(run, table, &mut out).expect("writes to memory");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn stored_runs_of_schema_1_have_the_numbers_that_they_had() {
    for (name, path) in stored() {
        let run = read_run(&path).expect("a run");
        assert_eq!(run.schema, SCHEMA, "{name}");
        let tables = [Table::Cells, Table::Trials, Table::Figures].map(|table| csv(&run, table));
        let wanted = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/tables/{name}.csv"));
        let wanted = std::fs::read_to_string(wanted).expect("the tables of then");
        let now = tables.join("\n") + "\n";
        let (now, then): (Vec<_>, Vec<_>) =
            (now.split("\n\n").collect(), wanted.split("\n\n").collect());
        assert_eq!(now.len(), then.len(), "{name}");
        for (now, then) in now.iter().zip(then) {
            assert_eq!(columns(now, &headers(then)), columns(then, &headers(then)), "{name}");
        }
    }
}

/// Returns the names of the columns of a table.
fn headers(table: &str) -> Vec<String> {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    reader.headers().expect("a header").iter().map(str::to_owned).collect()
}

/// Returns these columns of a table, row by row; columns that came later are left out.
fn columns(table: &str, names: &[String]) -> Vec<Vec<String>> {
    let all = headers(table);
    let place = |name: &String| all.iter().position(|one| one == name).expect(name);
    let places: Vec<usize> = names.iter().map(place).collect();
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let rows = reader.records().map(|row| row.expect("a row"));
    rows.map(|row| places.iter().map(|i| row[*i].to_owned()).collect()).collect()
}

#[test]
fn a_run_of_schema_1_written_in_todays_is_the_same_run_and_the_same_report() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, path) in stored() {
        let old = read_run(&path).expect("a run");
        let path = folder.path().join(format!("{name}.json"));
        record::write(&path, &old).expect("written");
        let new = read_run(&path).expect("a run");
        assert_eq!(new, old, "{name}");
        assert_eq!(report::run(&new), report::run(&old), "{name}");
        assert_eq!(csv(&new, Table::Series), csv(&old, Table::Series), "{name}");
        let metrics = |run| {
            let mut out = Vec::new();
            write_dns_metrics(run, &mut out).expect("writes to memory");
            out
        };
        assert!(metrics(&new) == metrics(&old), "{name}");
    }
}

#[test]
fn every_fact_of_a_testbed_of_schema_1_has_a_field() {
    for (name, path) in stored() {
        let run = read_run(&path).expect("a run");
        let testbed = run.plan.testbed.as_ref().expect("a testbed");
        let other: Vec<&str> = testbed.other.keys().map(String::as_str).collect();
        // Experiments with updates were run by another part of the program, with words of its own.
        let wanted: &[&str] =
            if name == "updates" { &["Tester and primary", "server asked", "zone"] } else { &[] };
        assert_eq!(other, wanted, "{name}");
        assert!(run.plan.host.is_some_and(|host| host.cpu.model.is_some()), "{name}");
    }
}
