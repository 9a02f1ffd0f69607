//! The search that tests of several rules begin with.

use experiment::{Rule, Search};
use measure::{Goal, Nanos, OpenPacing, Qps};

/// Returns a rate of so many queries a second.
pub(crate) fn qps(rate: f64) -> Qps {
    Qps::new(rate).expect("a rate")
}

/// Returns a search by the rule of RFC 8219, to a width of 5 %.
pub(crate) fn search() -> Search {
    Search {
        rule: Rule::Rfc8219,
        goal: Goal::zero_loss(),
        start: qps(10_000.0),
        expected: None,
        min: qps(1_000.0),
        max: qps(1_000_000.0),
        resolution: 0.05,
        duration: Nanos::from_secs(1),
        timeout: Nanos::from_secs(1),
        client_names: None,
        pacing: OpenPacing::Constant,
    }
}
