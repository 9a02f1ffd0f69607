//! Cells in JSON: the common part of the trials of a cell is written once, in `shared` of the cell.
//!
//! ```text
//! trial of a cell = JSON Merge Patch (RFC 7396) of `shared` by the entry of `trials`
//!                   jq '.results[] | .shared as $shared | .trials[] | $shared * .'
//! ```
//!
//! The conditions that most trials have are there, and the names and the units of the samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserializer, Serialize, Serializer, ser};
use serde_json::{Map, Value, json};

use crate::samples::Samples;
use crate::trial::Conditions;

/// Name of the member with the common part of a cell's trials.
const SHARED: &str = "shared";
const TRIALS: &str = "trials";
const CONDITIONS: &str = "conditions";
const PROBES: &str = "probes";

/// A cell in its written form.
struct Written<'a, C>(&'a C);

impl<C: Serialize> Serialize for Written<'_, C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut cell = serde_json::to_value(self.0).map_err(ser::Error::custom)?;
        share(&mut cell);
        cell.serialize(serializer)
    }
}

pub(crate) fn serialize<C: Serialize, S: Serializer>(
    cells: &[C],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(cells.iter().map(Written))
}

/// Reads cells; a single trial is not shortened.
pub(crate) fn deserialize<'de, C: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<C>, D::Error> {
    struct Cells<C>(PhantomData<C>);

    impl<'de, C: DeserializeOwned> Visitor<'de> for Cells<C> {
        type Value = Vec<C>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of cells")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut cells = Vec::new();
            while let Some(mut cell) = list.next_element::<Value>()? {
                complete(&mut cell);
                let number = cells.len();
                // As text, which the store's readers of cells read too.
                let read = serde_json::from_str(&cell.to_string()).map_err(|e| {
                    let text = e.to_string();
                    let why = text.rsplit_once(" at line ").map_or(&*text, |(why, _)| why);
                    de::Error::custom(format_args!("results[{number}]: {why}"))
                });
                cells.push(read?);
            }
            Ok(cells)
        }
    }

    deserializer.deserialize_seq(Cells(PhantomData))
}

/// Moves the common part of a cell's trials to `shared`; a single trial is not changed.
fn share(cell: &mut Value) {
    let Some(trials) = cell.get_mut(TRIALS).and_then(Value::as_array_mut) else { return };
    if trials.len() < 2 {
        return;
    }
    let mut shared = Map::new();
    shared.insert(CONDITIONS.to_owned(), share_conditions(trials).into());
    if let Some(columns) = share_columns(trials) {
        shared.insert(PROBES.to_owned(), columns);
    }
    cell[SHARED] = shared.into();
}

/// Moves the conditions that most trials have; differing ones stay with their trial.
fn share_conditions(trials: &mut [Value]) -> Map<String, Value> {
    let first = trials[0].get(CONDITIONS).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut shared = Map::new();
    for name in first.keys() {
        let of_all: Vec<_> = trials.iter().filter_map(|t| t.get(CONDITIONS)?.get(name)).collect();
        let mut counts: BTreeMap<String, (usize, &Value)> = BTreeMap::new();
        for value in &of_all {
            counts.entry(value.to_string()).or_insert((0, value)).0 += 1;
        }
        // Only a field that all trials have is shared: the difference of a trial never removes one.
        if of_all.len() == trials.len()
            && let Some((count, usual)) = counts.into_values().max_by_key(|(count, _)| *count)
            && (count == trials.len() || count > 1 && !usual.is_object())
        {
            shared.insert(name.clone(), usual.clone());
        }
    }
    for trial in trials {
        if let Some(own) = trial.get_mut(CONDITIONS).and_then(Value::as_object_mut) {
            own.retain(|name, value| shared.get(name) != Some(&*value));
        }
    }
    shared
}

/// Moves the names and units of the samples; `None` if there are none. A trial without a series of another has an empty list.
fn share_columns(trials: &mut [Value]) -> Option<Value> {
    let mut columns = BTreeSet::new();
    for trial in &*trials {
        let own = keys(trial.get(PROBES));
        let distinct: BTreeSet<_> = own.iter().cloned().collect();
        if distinct.len() < own.len() {
            return None;
        }
        columns.extend(distinct);
    }
    for trial in trials {
        let own_keys = keys(trial.get(PROBES));
        let Some(own) = trial.get_mut(PROBES).and_then(Value::as_object_mut) else { continue };
        let values = own.remove("values").and_then(|values| values.as_array().cloned());
        let mut values: BTreeMap<_, _> =
            own_keys.into_iter().zip(values.unwrap_or_default()).collect();
        let ordered = columns.iter().map(|key| values.remove(key).unwrap_or_else(|| json!([])));
        let ordered: Vec<Value> = ordered.collect();
        own.insert("values".to_owned(), ordered.into());
        own.retain(|member, _| member != "names" && member != "units");
    }
    let (names, units): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    (!names.is_empty()).then(|| json!({ "names": names, "units": units }))
}

/// Returns the name and the unit of each series of samples.
fn keys(samples: Option<&Value>) -> Vec<(String, String)> {
    let texts = |member: &str| {
        let list = samples.and_then(|samples| samples.get(member)?.as_array());
        let items: &[Value] = list.map_or(&[], Vec::as_slice);
        items.iter().map(|item| item.as_str().unwrap_or_default().to_owned())
    };
    texts("names").zip(texts("units")).collect()
}

/// Merges `shared` into each trial, and removes it.
fn complete(cell: &mut Value) {
    let Some(shared) = cell.as_object_mut().and_then(|cell| cell.remove(SHARED)) else { return };
    for trial in cell.get_mut(TRIALS).and_then(Value::as_array_mut).into_iter().flatten() {
        for member in [CONDITIONS, PROBES] {
            let all = shared.get(member).and_then(Value::as_object);
            let own = trial.get_mut(member).and_then(Value::as_object_mut);
            let (Some(all), Some(own)) = (all, own) else { continue };
            for (name, value) in all {
                own.entry(name.as_str()).or_insert_with(|| value.clone());
            }
        }
    }
}

/// Returns the schema of the cells as they are written: with `shared`.
pub(crate) fn schema<C: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let cell = generator.subschema_for::<C>();
    let conditions = generator.subschema_for::<Conditions>();
    let probes = generator.subschema_for::<Samples>();
    let shared = json_schema!({
        "description": "What most trials of the cell have in common: a trial is the JSON Merge Patch (RFC 7396) of it by the item of \
                        `trials`. Absent if there are fewer than two.",
        "type": "object",
        "properties": { "conditions": conditions, "probes": probes },
    });
    json_schema!({
        "type": "array",
        "items": { "allOf": [cell, { "properties": { "shared": shared } }] },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CellRecord, Run, Series, Trial, TrialRecord};

    /// Returns a run with one cell of trials whose conditions and samples differ a little.
    fn run(trials: u32) -> Run {
        let trial: Trial =
            serde_json::from_str(include_str!("../tests/fixtures/trial.json")).expect("a trial");
        let mut cell = CellRecord::new("nsd", BTreeMap::new(), "search");
        for repeat in 0..trials {
            let mut trial = trial.clone();
            trial.conditions.options = format!("--first-name {repeat}");
            let series = |name: &str, value: f64| Series {
                name: name.into(),
                unit: "%".into(),
                samples: vec![(0.5, value), (1.0, 0.25)],
            };
            trial.probes = vec![series("dut.user", 1.0), series("tester.user", 2.0)];
            trial.probes.truncate(2 - repeat as usize % 3);
            cell.trials.push(TrialRecord { repeat, rate_qps: 1_000.0, trial });
        }
        Run { schema: crate::SCHEMA, results: vec![cell], ..Run::default() }
    }

    #[test]
    fn what_trials_share_is_written_once() {
        for trials in [0, 1, 2, 5] {
            let run = run(trials);
            let written = serde_json::to_value(&run).expect("JSON");
            let cell = &written["results"][0];
            if trials < 2 {
                assert_eq!(cell.get(SHARED), None);
            } else {
                let shared = &cell[SHARED];
                assert_eq!(
                    shared[PROBES],
                    json!({ "names": ["dut.user", "tester.user"], "units": ["%", "%"] })
                );
                assert_eq!(shared[CONDITIONS]["target"], "[fd00:9::2]:53");
                let own = &cell[TRIALS][1];
                assert_eq!(own[CONDITIONS], json!({ "options": "--first-name 1" }));
                assert_eq!(own[PROBES], json!({ "times_s": [0.5, 1], "values": [[1, 0.25], []] }));
            }
            assert_eq!(serde_json::from_value::<Run>(written).expect("reads"), run);
            let text = serde_json::to_string(&run).expect("JSON");
            assert_eq!(serde_json::from_str::<Run>(&text).expect("reads"), run);
        }
    }

    #[test]
    fn series_of_one_name_stay_with_their_trials() {
        let mut run = run(2);
        let twin = run.results[0].trials[0].trial.probes[0].clone();
        run.results[0].trials[0].trial.probes.insert(0, twin);
        let written = serde_json::to_value(&run).expect("JSON");
        assert_eq!(written["results"][0][SHARED].get(PROBES), None);
        assert_eq!(serde_json::from_value::<Run>(written).expect("reads"), run);
    }

    #[test]
    fn a_cell_that_cannot_be_read_is_named() {
        let mut written = serde_json::to_value(run(2)).expect("JSON");
        written["results"][0][TRIALS][1]["sent"] = json!("many");
        let error = serde_json::from_value::<Run>(written).expect_err("no number").to_string();
        assert!(error.starts_with("results[0]: invalid type: string \"many\""), "{error}");
    }
}
