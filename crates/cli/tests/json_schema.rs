//! What the commands write with `--json` is valid by the published schemas (`docs/schema`).

use std::path::Path;

use serde_json::Value;

use crate::kit::AuthDns;
use crate::kit::command::{check_schema, json};

/// Runs a command that writes a document to the standard output, and checks it.
fn written(name: &str, line: &str) -> Value {
    let document = json(line);
    check_schema(name, &document);
    document
}

#[test]
fn loads_searches_and_tests_of_the_tester_are_valid() {
    let auth = AuthDns::encrypted(&[]);
    let ca = auth.authority();
    let names = "--namespace 10.0.0.0/12 --type A --duration 300ms --json -";
    let of = |target: &str, more: &str| written("trial", &format!("load {target} {names} {more}"));
    of(auth.plain(), "--rate 500");
    of(auth.plain(), "--pacing 'ramp 100..1k' --goal 'loss < 1%'");
    of(auth.plain(), "--pacing 'window 4'");
    // Nobody listens there: lost queries, warnings.
    of("127.0.0.1:9", "--no-check --rate 200 --timeout 100ms");
    for transport in ["tcp", "tls", "https"] {
        let ca = if transport == "tcp" { String::new() } else { format!("--ca {ca}") };
        let more = format!("--transport {transport} {ca} --rate 200 --clients 3");
        let trial = of(auth.address(transport), &more);
        assert!(trial["connections"].is_object(), "{transport}: {trial}");
    }
    written("run", &format!("search {} --start 200 --min 100 --max 400 {names}", auth.plain()));
    written("self-test", "selftest --rate 1k --duration 300ms --json -");
    written("host", "host --quick --json -");
}

#[test]
fn statistics_of_captures_are_valid() {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/captures");
    let capture =
        std::fs::read_dir(captures).expect("captures").flatten().map(|entry| entry.path());
    let capture = capture.filter(|path| path.extension().is_some_and(|end| end == "pcap")).min();
    let capture = capture.expect("a capture").display().to_string();
    written("trace-stats", &format!("trace stats {capture} --json -"));
}
