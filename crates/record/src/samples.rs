//! Samples of several series in JSON: a table with a column of times, and one of values for each series.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::series::Series;

/// Series of a trial as JSON has them: names, units and times once, and values for each series.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Samples {
    /// Name of each series: the role, a dot, the quantity. In a run, `shared` of the cell has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    /// Unit of the values of each series. In a run, `shared` of the cell has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    units: Vec<String>,
    /// Times of the samples, in seconds since the start of the trial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    times_s: Vec<Number>,
    /// Values of each series, one for each time; null for a time without a sample, which may be left out at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<Vec<Option<Number>>>,
}

/// A number, written without a fraction if it has none.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(transparent)]
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let whole = self.0 as i64;
        if whole.unsigned_abs() < 1 << 53 && (whole as f64).to_bits() == self.0.to_bits() {
            serializer.serialize_i64(whole)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

impl From<&[Series]> for Samples {
    fn from(all: &[Series]) -> Self {
        let mut times: Vec<f64> =
            all.iter().flat_map(|s| &s.samples).map(|sample| sample.0).collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        let values = |series: &Series| {
            let mut column: Vec<Option<Number>> = Vec::new();
            for (at, value) in &series.samples {
                let row = times.partition_point(|time| time.total_cmp(at).is_lt());
                column.resize(column.len().max(row + 1), None);
                column[row] = Some(Number(*value));
            }
            column
        };
        Samples {
            names: all.iter().map(|series| series.name.clone()).collect(),
            units: all.iter().map(|series| series.unit.clone()).collect(),
            values: all.iter().map(values).collect(),
            times_s: times.into_iter().map(Number).collect(),
        }
    }
}

impl From<Samples> for Vec<Series> {
    /// Returns the series that have a sample.
    fn from(Samples { names, units, times_s, values }: Samples) -> Self {
        let mut units = units.into_iter();
        let all = names.into_iter().zip(values).map(|(name, column)| Series {
            name,
            unit: units.next().unwrap_or_default(),
            samples: times_s
                .iter()
                .zip(column)
                .filter_map(|(at, value)| Some((at.0, value?.0)))
                .collect(),
        });
        all.filter(|series| !series.samples.is_empty()).collect()
    }
}

pub(crate) fn serialize<S: Serializer>(all: &[Series], serializer: S) -> Result<S::Ok, S::Error> {
    Samples::from(all).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Series>, D::Error> {
    let mut all: Vec<Series> = Samples::deserialize(deserializer)?.into();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder(#[serde(with = "super")] Vec<Series>);

    fn series(name: &str, samples: &[(f64, f64)]) -> Series {
        Series { name: name.into(), unit: "%".into(), samples: samples.to_vec() }
    }

    #[test]
    fn series_are_a_table_and_read_as_they_were() {
        let all = Holder(vec![
            series("a", &[(0.25, 1.0), (0.5, 2.5)]),
            series("b", &[(0.5, f64::MAX)]),
            series("c", &[(0.25, -0.0)]),
        ]);
        let written = serde_json::to_value(&all).expect("JSON");
        let wanted = json!({
            "names": ["a", "b", "c"], "units": ["%", "%", "%"], "times_s": [0.25, 0.5],
            "values": [[1, 2.5], [null, f64::MAX], [-0.0]]
        });
        assert_eq!(written, wanted);
        assert_eq!(serde_json::from_value::<Holder>(written).expect("reads"), all);
    }
}
