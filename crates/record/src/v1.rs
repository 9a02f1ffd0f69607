//! Records of schema 1, as they stand in files and stores, changed to today's.
//!
//! Schema 1 had sentences where [`measure::Warning`] and [`measure::Void`] are types now. A sentence is kept as it
//! stands, as their variant `Other`: nothing is read out of it.

use serde_json::{Value, json};

use crate::SCHEMA;

/// Changes a record of any kind: a run, a trial, a self-test, a lock-step table; others differ in the version only.
pub(crate) fn upgrade(record: &mut Value) {
    if record.get("schema").is_some() {
        record["schema"] = SCHEMA.into();
    }
    if record.get("results").is_some() {
        run(record);
    } else if record.get("rows").is_some() {
        items(record, "rows").filter_map(|row| row.get_mut("trial")).for_each(trial);
    } else {
        trial(record);
    }
}

fn run(run: &mut Value) {
    for cell in items(run, "results") {
        items(cell, "trials").for_each(trial);
        if let Some(certificate) = cell.get_mut("certificate") {
            items(certificate, "trials").for_each(trial);
        }
    }
}

/// Changes a trial; what is none stays as it is.
pub(crate) fn trial(trial: &mut Value) {
    let Some(fields) = trial.as_object_mut() else { return };
    if !fields.contains_key("void") {
        return;
    }
    if fields.contains_key("schema") {
        fields["schema"] = SCHEMA.into();
    }
    if let Some(why @ Value::String(_)) = fields.get_mut("void") {
        *why = json!({ "reason": "other", "text": why.take() });
    }
    for warning in items(trial, "warnings").filter(|warning| warning.is_string()) {
        *warning = json!({ "kind": "other", "text": warning.take() });
    }
}

/// The items of the list `key` of an object; none where there is no such list.
fn items<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use measure::{Void, Warning};

    use super::*;
    use crate::{LockStepTable, Run, SelfTest, Trial, read};

    /// A trial of schema 1 that is void and has a warning.
    fn old() -> Value {
        let text = include_str!("../tests/fixtures/trial_1.json");
        let mut trial: Value = serde_json::from_str(text).expect("JSON");
        trial["void"] = "the Tester was starved".into();
        trial["warnings"] = json!(["3 replies belong to no query"]);
        trial
    }

    /// What `text`, in a file, is read as.
    fn reads<T: serde::de::DeserializeOwned>(record: &Value) -> T {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("old.json");
        std::fs::write(&path, record.to_string()).expect("writes");
        read(&path).expect("reads")
    }

    #[test]
    fn sentences_of_every_kind_of_record_are_kept() {
        let check = |trial: &Trial| {
            assert_eq!(trial.schema, SCHEMA);
            assert_eq!(trial.void.0, Some(Void::Other { text: "the Tester was starved".into() }));
            let text = "3 replies belong to no query".to_owned();
            assert_eq!(trial.warnings, [Warning::Other { text }]);
        };
        let trial = old();
        check(&reads(&trial));
        let mut of_cell = trial.clone();
        of_cell["repeat"] = 0.into();
        of_cell["rate_qps"] = 1_000.into();
        let mut test = trial.clone();
        test["self_test_passed"] = false.into();
        test["certified_qps"] = 0.into();
        check(&reads::<SelfTest>(&test).trial);
        let certificate = json!({
            "certified_qps": 0.0, "self_test_qps": 1.0, "timeout_s": 1.0, "duration_s": 1.0, "passed": false,
            "trials": [of_cell]
        });
        let mut cell = serde_json::to_value(crate::CellRecord::default()).expect("serialises");
        cell["trials"] = json!([of_cell]);
        cell["certificate"] = certificate;
        let mut run =
            serde_json::to_value(Run { schema: 1, ..Run::default() }).expect("serialises");
        run["results"] = json!([cell]);
        let run: Run = reads(&run);
        check(&run.results[0].trials[0].trial);
        check(&run.results[0].certificate.as_ref().expect("there is one").trials[0].trial);
        let row = json!({
            "threads": 1, "experiments": 1, "mean_ms": 1.0, "std_dev_ms": 0.0, "max_ms": 1.0, "qps": 256.0,
            "cpu_percent": null, "cpu_std_dev": null, "trial": trial
        });
        let table: LockStepTable = reads(&json!({"schema": 1, "server": "x", "rows": [row]}));
        check(&table.rows[0].trial);
    }
}
