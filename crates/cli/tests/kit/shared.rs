//! Runs as a program reads them: what trials share stands in their cell, and repeats may have stayed void.

// Each test uses a part of the kit.
#![allow(dead_code)]

use std::process::Output;

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

/// That each cell of a run has `repeats` repeats, made or void, and that the run is complete and ended well if none is
/// void: whatever else uses the cores may keep the Tester from its schedule. Returns whether the run is complete.
pub(crate) fn is_complete_or_void(output: &Output, run: &Value, repeats: u64) -> bool {
    let told = String::from_utf8_lossy(&output.stderr);
    let cells = run["results"].as_array().unwrap_or_else(|| panic!("no cells: {told}"));
    assert!(!cells.is_empty(), "{told}");
    let mut all_made = true;
    for cell in cells {
        let void = cell["void_repeats"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(void.iter().all(|one| one["why"].as_str().is_some_and(|why| !why.is_empty())));
        let made = cell["repeats"].as_u64().unwrap_or(0);
        assert_eq!(made + void.len() as u64, repeats, "{cell}");
        all_made &= void.is_empty();
    }
    assert_eq!(run["complete"].as_bool(), Some(all_made), "{told}");
    assert_eq!(output.status.code(), Some(i32::from(!all_made)), "{told}");
    all_made
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
