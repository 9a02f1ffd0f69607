//! Migration of records of schema 1, from files and stores, to the present schema.
//!
//! Schema 1 had sentences where [`measure::Warning`] and [`measure::Void`] are types now. A sentence is kept in their
//! variant `Other`, without parsing it. The facts of the testbed were words by name: those are parsed into their
//! fields, since `--resume` needs them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::SCHEMA;
use crate::host::HOST_SCHEMA;
use crate::testbed::{
    Choices, CustomHow, CustomServer, Network, PacketSteering, TestbedFacts, User,
};

/// Migrates a record of any kind: a run, a trial, a self-test, a lock-step table; other kinds differ in the version
/// only.
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
    plan(run);
    for cell in items(run, "results") {
        items(cell, "trials").for_each(trial);
        if let Some(certificate) = cell.get_mut("certificate") {
            items(certificate, "trials").for_each(trial);
        }
    }
}

/// Migrates a trial; any other value stays as it is.
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

/// Migrates a plan: its testbed was sentences by name, mixed with the choices that `--resume` needs; the host's facts
/// had empty texts for absent values.
pub(crate) fn plan(plan: &mut Value) {
    let Some(fields) = plan.as_object_mut() else { return };
    let words = fields.remove("testbed").unwrap_or_default();
    let words: BTreeMap<String, String> = serde_json::from_value(words).unwrap_or_default();
    let (testbed, choices) = (testbed(&words), choices(&words));
    if testbed != TestbedFacts::default() {
        fields.insert("testbed".to_owned(), json!(testbed));
    }
    fields.insert("choices".to_owned(), json!(choices));
    match fields.get_mut("host") {
        Some(facts @ Value::Object(_)) => host(facts),
        _ => {
            fields.remove("host");
        }
    }
}

/// Prefix of the name of a custom server with a command line.
const CUSTOM: &str = "custom ";
/// Prefix of the name of a server that the user runs.
const REMOTE: &str = "remote ";
/// Names of the choices of the command line.
const CHOSEN: [&str; 2] = ["seed", "servers"];

fn choices(words: &BTreeMap<String, String>) -> Choices {
    let custom = words.iter().filter_map(|(key, value)| {
        let (name, how) = match key.strip_prefix(REMOTE) {
            Some(name) => (name, CustomHow::Address(value.parse().ok()?)),
            None => (key.strip_prefix(CUSTOM)?, CustomHow::Command(value.clone())),
        };
        Some(CustomServer { name: name.to_owned(), how })
    });
    let servers = words.get("servers").map(|servers| servers.split(", ").map(str::to_owned));
    Choices {
        seed: words.get("seed").and_then(|seed| seed.parse().ok()),
        servers: servers.into_iter().flatten().collect(),
        custom: custom.collect(),
        ..Choices::default()
    }
}

fn testbed(words: &BTreeMap<String, String>) -> TestbedFacts {
    let chosen =
        |name: &str| CHOSEN.contains(&name) || name.starts_with(CUSTOM) || name.starts_with(REMOTE);
    let words = words.iter().filter(|(name, _)| !chosen(name));
    words.fold(TestbedFacts::default(), |mut facts, (name, fact)| {
        if !take(&mut facts, name, fact) {
            facts.other.insert(name.clone(), fact.clone());
        }
        facts
    })
}

/// Puts a fact into its field; returns false if it has none or cannot be parsed.
fn take(facts: &mut TestbedFacts, name: &str, fact: &str) -> bool {
    let text = |field: &mut Option<String>| {
        *field = Some(fact.to_owned());
        true
    };
    let cpus = |field: &mut Vec<usize>| {
        *field = cpus(fact).unwrap_or_default();
        !field.is_empty()
    };
    match (name, fact) {
        ("namespaces", "tester, auth, dut on veth links") => {
            facts.network = Some(Network::Namespaces);
            true
        }
        ("network", "one namespace, its loopback") => {
            facts.network = Some(Network::Loopback);
            true
        }
        ("user", "root") => {
            facts.user = Some(User::Root);
            true
        }
        ("user", "user namespace") => {
            facts.user = Some(User::UserNamespace);
            true
        }
        ("packet steering", how) => {
            facts.packet_steering = steering(how);
            facts.packet_steering.is_some()
        }
        ("tester cpus", _) => cpus(&mut facts.tester_cpus),
        ("auth cpus", _) => cpus(&mut facts.auth_cpus),
        ("dut cpus", "as each cell says") => {
            facts.dut_cpus_vary = true;
            true
        }
        ("dut cpus", _) => cpus(&mut facts.dut_cpus),
        ("kernel", _) => text(&mut facts.kernel),
        ("cpu", _) => text(&mut facts.cpu),
        ("refused settings", _) => {
            facts.refused_settings = fact.split("; ").map(str::to_owned).collect();
            true
        }
        _ => false,
    }
}

/// Parses the steering of a sentence.
fn steering(how: &str) -> Option<PacketSteering> {
    let why = how.strip_prefix("refused (").and_then(|rest| rest.rsplit_once("):"));
    let all = [
        PacketSteering::On { virtual_machine: false },
        PacketSteering::On { virtual_machine: true },
        PacketSteering::Off,
    ];
    let known = all.into_iter().find(|steering| steering.to_string() == how);
    known.or_else(|| Some(PacketSteering::Refused { why: why?.0.to_owned() }))
}

/// Parses a list of cores such as `0-2,5`.
fn cpus(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// Migrates the facts of a host.
fn host(host: &mut Value) {
    for warning in items(host, "warnings").filter(|warning| warning.is_string()) {
        *warning = json!({ "kind": "other", "text": warning.take() });
    }
    let cores = host.get("cores").cloned();
    if let Some(model @ Value::String(_)) = host.get_mut("cpu") {
        *model = json!({ "model": model.take(), "online": cores });
    }
    absent(host);
    host["schema"] = HOST_SCHEMA.into();
}

/// Removes empty texts and nulls from an object and the objects in it.
fn absent(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null() && *value != "");
            fields.values_mut().for_each(absent);
        }
        Value::Array(items) => items.iter_mut().for_each(absent),
        _ => {}
    }
}

/// Returns the items of the list `key` of an object; none if there is no such list.
fn items<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use measure::{Void, Warning};

    use super::*;
    use crate::{LockStepTable, Run, SelfTest, Trial, read};

    /// Returns a void trial of schema 1 with a warning.
    fn old() -> Value {
        let text = include_str!("../tests/fixtures/trial_1.json");
        let mut trial: Value = serde_json::from_str(text).expect("JSON");
        trial["void"] = "the Tester was starved".into();
        trial["warnings"] = json!(["3 replies belong to no query"]);
        trial
    }

    /// Reads `record` from a file.
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
