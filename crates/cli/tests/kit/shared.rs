//! Trials of a run as a program reads them: what they share stands in their cell.

// Each test uses a part of the kit.
#![allow(dead_code)]

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
