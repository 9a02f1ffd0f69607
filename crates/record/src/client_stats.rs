//! The clients of a capture and their behaviour.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TraceCode;

/// Clients of a capture or a population, and their behaviour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientStats {
    /// Version of this form of JSON.
    pub schema: u32,
    /// Paths of the captures, in order.
    pub captures: Vec<String>,
    /// Reason why reading ended early, if it did; the numbers then describe the part that was read.
    pub incomplete: Option<String>,
    /// Number of clients that sent queries.
    pub clients: u64,
    /// Number of queries of these clients.
    pub queries: u64,
    /// Number of queries that were left out: cut, without a header, a year or more from the others, or beyond a limit.
    pub left_out: u64,
    /// Time that the queries cover, in seconds.
    pub period_s: f64,
    /// Queries a second of all clients, the mean over that time; 0 if all have the same time.
    pub qps: f64,
    /// Number of queries of each client.
    pub queries_per_client: Quantiles,
    /// Queries a second of each client, the mean over that time.
    pub qps_per_client: Quantiles,
    /// Time between two queries of a client, in seconds.
    pub think_s: Quantiles,
    /// Time without a query after which a client counts as idle, in seconds.
    pub idle_after_s: f64,
    /// Times between two queries that are at least as long, in seconds.
    pub idle_s: Quantiles,
    /// Number of connections of clients that close one when they are idle.
    pub connections: u64,
    /// Largest number of these connections open at once.
    pub most_open: u64,
    /// Mean number of these connections open.
    pub mean_open: f64,
    /// Queries by type, most frequent first; unreadable questions have no name.
    pub types: Vec<TraceCode>,
}

/// Quantiles of a distribution of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// Number of values in the distribution.
    pub count: u64,
    /// Mean of the values; 0 without any.
    pub mean: f64,
    /// Value that 10 % do not exceed.
    pub p10: f64,
    /// Value that 50 % do not exceed.
    pub p50: f64,
    /// Value that 90 % do not exceed.
    pub p90: f64,
    /// Value that 99 % do not exceed.
    pub p99: f64,
    /// Largest of the values; 0 without any.
    pub max: f64,
}

impl Quantiles {
    /// Returns the distribution of values in rising order, each multiplied by `unit`.
    pub fn of_sorted(values: &[u64], unit: f64) -> Self {
        let count = values.len() as u64;
        let Some(&max) = values.last() else { return Quantiles::default() };
        // The smallest value that `percent` % do not exceed.
        let at = |percent: u64| {
            let rank = (count * percent).div_ceil(100).max(1);
            values[rank as usize - 1] as f64 * unit
        };
        let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
        Quantiles {
            count,
            mean: sum as f64 / count as f64 * unit,
            p10: at(10),
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: max as f64 * unit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values() {
        let values: Vec<u64> = (1..=200).collect();
        let found = Quantiles::of_sorted(&values, 0.5);
        let wanted = Quantiles {
            count: 200,
            mean: 50.25,
            p10: 10.0,
            p50: 50.0,
            p90: 90.0,
            p99: 99.0,
            max: 100.0,
        };
        assert_eq!(found, wanted);
        assert_eq!(Quantiles::of_sorted(&[7], 1.0).p10, 7.0);
        assert_eq!(Quantiles::of_sorted(&[], 1.0), Quantiles::default());
    }
}
