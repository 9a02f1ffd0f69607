//! Runs as a program reads them: what trials share stands in their cell, and repeats may have stayed void.

use std::path::Path;

use serde_json::Value;

/// Makes each trial of a run whole, as docs/store.md says.
pub(crate) fn whole(mut run: Value) -> Value {
    for cell in run.get_mut("results").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(shared) = cell.get("shared").cloned() else { continue };
        for trial in cell["trials"].as_array_mut().into_iter().flatten() {
            let mut all = shared.clone();
            patch(&mut all, trial.take());
            *trial = all;
        }
    }
    run
}

/// What a busy machine does to trials, as the reasons of void ones say it.
const DISTURBANCES: [&str; 6] = [
    "the schedule was not kept",
    "the Tester was starved",
    "processes that are not of the testbed used",
    "the server waited",
    "slower than at its best",
    "were due near a stall",
];

/// Returns whether `why` tells what a busy machine did.
pub(crate) fn is_disturbance(why: &str) -> bool {
    DISTURBANCES.iter().any(|words| why.contains(words))
}

/// Checks that each cell of a run has `repeats` repeats, made or void for what a busy machine does to trials, and that the record and the
/// exit code say so. Returns whether the run is complete.
pub(crate) fn checked_is_complete(
    code: Option<i32>,
    told: &str,
    run: &Value,
    repeats: u64,
) -> bool {
    let cells = run["results"].as_array().unwrap_or_else(|| panic!("no cells: {told}"));
    assert!(!cells.is_empty(), "{told}");
    let disturbed = |void: &Value| is_disturbance(void["why"].as_str().unwrap_or_default());
    let mut all_made = true;
    for cell in cells {
        let void = cell["void_repeats"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(void.iter().all(disturbed), "{void:?}");
        let made = cell["repeats"].as_u64().unwrap_or(0);
        assert_eq!(made + void.len() as u64, repeats, "{cell}");
        all_made &= void.is_empty();
    }
    assert_eq!(run["complete"].as_bool(), Some(all_made), "{told}");
    assert_eq!(code, Some(i32::from(!all_made)), "{told}");
    all_made
}

/// Makes a certificate one whose self-test passed at a rate: on a busy machine its verdict may be any.
pub(crate) fn certify(file: &Path, qps: f64) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut certificate: Value = serde_json::from_str(&text).expect("JSON");
    certificate["certified_qps"] = qps.into();
    certificate["self_test"]["certified_qps"] = qps.into();
    certificate["self_test"]["passed"] = true.into();
    std::fs::write(file, certificate.to_string()).expect("writes");
}

/// Applies a JSON Merge Patch (RFC 7396).
fn patch(target: &mut Value, by: Value) {
    let Value::Object(members) = by else {
        *target = by;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Default::default());
    }
    let all = target.as_object_mut().expect("an object");
    for (name, value) in members {
        if value.is_null() {
            all.remove(&name);
        } else {
            patch(all.entry(name).or_insert(Value::Null), value);
        }
    }
}
