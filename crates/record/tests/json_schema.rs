//! The JSON Schema of the records in `docs/schema`: it is made of the types, all records that this program writes are valid by it.
//!
//! After a change of the types: `DNSDYNO_WRITE_SCHEMA=1 cargo test -p record --test json_schema`.

use std::path::{Path, PathBuf};

use jsonschema::Validator;
use record::{
    AnswerDiff, AnswerDifference, CertificateFile, ClientStats, HostFacts, LockStepTable, Run,
    SCHEMA, SelfTest, TraceStats, Transfers, Trial, UpdateCheck, UpdateRun, read_run,
};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the schema of what this program writes of a type.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Each document with its schema.
fn documents() -> Vec<(&'static str, Value)> {
    vec![
        ("run", schema::<Run>()),
        ("trial", schema::<Trial>()),
        ("self-test", schema::<SelfTest>()),
        ("lock-step", schema::<LockStepTable>()),
        ("certificate", schema::<CertificateFile>()),
        ("host", schema::<HostFacts>()),
        ("update-run", schema::<UpdateRun>()),
        ("update-check", schema::<UpdateCheck>()),
        ("transfers", schema::<Transfers>()),
        ("trace-stats", schema::<TraceStats>()),
        ("answer-diff", schema::<AnswerDiff>()),
        ("answer-difference", schema::<AnswerDifference>()),
        ("trace-clients", schema::<ClientStats>()),
    ]
}

fn validator<T: JsonSchema>() -> Validator {
    jsonschema::validator_for(&schema::<T>()).expect("a schema")
}

/// Returns what is wrong with a document, with the places.
fn faults(validator: &Validator, document: &Value) -> Vec<String> {
    validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let folder = workspace().join("docs/schema");
    for (name, schema) in documents() {
        let path = folder.join(name).with_extension("json");
        let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
        if std::env::var_os("DNSDYNO_WRITE_SCHEMA").is_some() {
            std::fs::write(&path, text).expect("writes");
        } else {
            let published = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                published == text,
                "{} is not that of the types: see this test",
                path.display()
            );
        }
    }
    let files = std::fs::read_dir(&folder).expect("docs/schema").count();
    assert_eq!(files, documents().len() + 1, "a README and the schemas");
}

/// Returns the records of a folder and the folders below it: runs in files that end with .json or .json.gz.
fn records(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(records(&path));
        } else if name.ends_with(".json") || name.ends_with(".json.gz") {
            found.push(path);
        }
    }
    found
}

/// Returns the JSON of a file, which gzip may have compressed.
fn json_of(path: &Path) -> Value {
    record::read(path).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn sample_runs_are_valid() {
    let validator = validator::<Run>();
    let samples = records(&workspace().join("runs"));
    assert!(samples.len() >= 10, "{samples:?}");
    let mut shared = 0;
    for path in samples {
        let run = json_of(&path);
        let faults = faults(&validator, &run);
        assert!(faults.is_empty(), "{}: {faults:#?}", path.display());
        let cells = run["results"].as_array().expect("cells");
        shared += cells.iter().filter(|cell| cell["shared"].is_object()).count();
    }
    assert!(shared > 10, "cells of several trials write once what they share: {shared}");
}

#[test]
fn another_schema_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let newer = folder.path().join("newer.json");
    std::fs::write(&newer, json!({ "schema": SCHEMA + 1 }).to_string()).expect("writes");
    let error = read_run(&newer).expect_err("a newer schema").to_string();
    assert!(error.contains(&format!("has schema {}", SCHEMA + 1)), "{error}");
}

#[test]
fn what_is_no_record_is_refused() {
    let validator = validator::<Run>();
    let sample = workspace().join("runs/dns64-cached/record.json.gz");
    let good = serde_json::to_value(read_run(&sample).expect("a run")).expect("JSON");
    let changes: [(&str, Value); 8] = [
        ("/schema", json!(3)),
        ("/complete", json!("yes")),
        ("/results/0/limiter", json!("the weather")),
        ("/results/0/trials/0/sent", json!(-1)),
        ("/results/0/trials/0/void", json!(true)),
        ("/results/0/trials/0/latency_us/p99", json!("1 ms")),
        ("/results/0/shared/conditions/target", json!(53)),
        ("/command", json!(["run"])),
    ];
    for (place, value) in changes {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap_or_else(|| panic!("{place}: {}", sample.display())) = value;
        let faults = faults(&validator, &bad);
        assert!(!faults.is_empty(), "{place}");
    }
    let mut bad = good;
    bad.as_object_mut().expect("an object").remove("results");
    assert!(!validator.is_valid(&bad));
}
