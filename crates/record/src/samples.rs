//! Samples of several series in JSON: series with the same times state them once.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::series::Series;

/// Series that were sampled at the same times.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Group {
    /// Times of the samples, in seconds since the start of the trial.
    times_s: Vec<f64>,
    /// Values of each series, one for each time.
    series: Vec<Values>,
}

/// Values of one series.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Values {
    /// Name of the series: the role, a dot, the quantity.
    name: String,
    /// Unit of the values.
    unit: String,
    values: Vec<f64>,
}

pub(crate) fn serialize<S: Serializer>(all: &[Series], serializer: S) -> Result<S::Ok, S::Error> {
    let mut groups: Vec<Group> = Vec::new();
    for series in all {
        let (times_s, values): (Vec<f64>, _) = series.samples.iter().copied().unzip();
        let values = Values { name: series.name.clone(), unit: series.unit.clone(), values };
        match groups.iter_mut().find(|group| group.times_s == times_s) {
            Some(group) => group.series.push(values),
            None => groups.push(Group { times_s, series: vec![values] }),
        }
    }
    groups.serialize(serializer)
}

/// Reads them, also as older records have them: each series with the times of its own samples.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Series>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Group(Group),
        Series(Series),
    }
    let mut all: Vec<Series> = Vec::new();
    for part in Vec::<Either>::deserialize(deserializer)? {
        match part {
            Either::Series(series) => all.push(series),
            Either::Group(Group { times_s, series }) => {
                all.extend(series.into_iter().map(|Values { name, unit, values }| Series {
                    name,
                    unit,
                    samples: times_s.iter().copied().zip(values).collect(),
                }));
            }
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}
