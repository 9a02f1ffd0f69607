//! What the commands write with `--json` is valid by the published schemas (`docs/schema`).

use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::kit::AuthDns;

/// Checks a document by the schema of this name.
fn check(name: &str, document: &Value, what: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let text = std::fs::read(folder.join(name).with_extension("json")).expect("a schema");
    let schema: Value = serde_json::from_slice(&text).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let faults = validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path()));
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{what} is not valid by {name}: {faults:#?}");
}

/// Runs a command that writes a document to the standard output, and checks it.
fn written(name: &str, words: &[&str]) -> Value {
    let mut command = Command::new(cargo_bin("dnsdyno"));
    let output = command.args(words).stdin(Stdio::null()).output().expect("starts");
    let told = String::from_utf8_lossy(&output.stderr);
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{words:?}: {e}: {told}"));
    check(name, &document, &words.join(" "));
    document
}

#[test]
fn loads_searches_and_tests_of_the_tester_are_valid() {
    let auth = AuthDns::encrypted(&[]);
    let ca = auth.authority();
    let names = ["--namespace", "10.0.0.0/12", "--type", "A", "--duration", "300ms", "--json", "-"];
    let of = |target: &str, more: &[&str]| {
        written("trial", &[&["load", target][..], &names, more].concat())
    };
    of(auth.plain(), &["--rate", "500"]);
    of(auth.plain(), &["--pacing", "ramp 100..1k", "--goal", "loss < 1%"]);
    of(auth.plain(), &["--pacing", "window 4"]);
    // Nobody listens there: lost queries, warnings.
    of("127.0.0.1:9", &["--no-check", "--rate", "200", "--timeout", "100ms"]);
    for transport in ["tcp", "tls", "https"] {
        let more = ["--transport", transport, "--ca", &ca, "--rate", "200", "--clients", "3"];
        let more =
            if transport == "tcp" { [&more[..2], &more[4..]].concat() } else { more.to_vec() };
        let trial = of(auth.address(transport), &more);
        assert!(trial["connections"].is_object(), "{transport}: {trial}");
    }
    let search = ["search", auth.plain(), "--start", "200", "--min", "100", "--max", "400"];
    written("run", &[&search[..], &names].concat());
    written("self-test", &["selftest", "--rate", "1k", "--duration", "300ms", "--json", "-"]);
    written("host", &["host", "--quick", "--json", "-"]);
}

#[test]
fn statistics_of_captures_are_valid() {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/captures");
    let capture =
        std::fs::read_dir(captures).expect("captures").flatten().map(|entry| entry.path());
    let capture = capture.filter(|path| path.extension().is_some_and(|end| end == "pcap")).min();
    let capture = capture.expect("a capture").display().to_string();
    written("trace-stats", &["trace", "stats", &capture, "--json", "-"]);
}
