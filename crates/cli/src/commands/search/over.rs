//! What a search varies: the rate, the number of clients, or the number of new connections a second.
//!
//! ```text
//! rate          n queries a second, over the given clients
//! clients       n clients, at one rate
//! connections   n connections a second: n times the queries of a connection, each connection closed after them
//! ```
//!
//! The search itself only knows a number that passes or fails.

use std::borrow::Cow;

use experiment::{BenchError, TrialSpec};
use measure::{OpenPacing, Qps};
use record::CellRecord;
use tester::Setup;

/// What a search varies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Over {
    /// Queries a second.
    #[default]
    Rate,
    /// Clients.
    Clients,
    /// New connections a second.
    Connections,
}

impl Over {
    /// Returns the unit of the number.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Over::Rate => "qps",
            Over::Clients => "clients",
            Over::Connections => "connections/s",
        }
    }

    /// Returns the first, the lowest and the highest number, unless they are given.
    pub(crate) fn usual(self) -> [f64; 3] {
        match self {
            Over::Rate => [1e4, 1e3, 2e6],
            Over::Clients => [16.0, 1.0, 2e4],
            Over::Connections => [100.0, 10.0, 1e5],
        }
    }

    /// Returns a text about rates with the unit of this search.
    pub(crate) fn words(self, text: &str) -> Cow<'_, str> {
        match self {
            Over::Rate => Cow::Owned(text.to_owned()),
            other => Cow::Owned(text.replace(" qps", &format!(" {}", other.unit()))),
        }
    }

    /// Names the unit in a record.
    pub(crate) fn label(self, record: &mut CellRecord) {
        if self != Over::Rate {
            record.set_over(self.unit());
        }
    }
}

/// How the number of a trial becomes its setup.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Varied {
    pub(crate) over: Over,
    pub(crate) pacing: OpenPacing,
    /// Queries a second in a search over clients.
    pub(crate) rate: Qps,
    /// Queries of a connection in a search over connections.
    pub(crate) queries: u64,
}

impl Varied {
    /// Returns the setup of a trial.
    ///
    /// # Errors
    /// If the clients cannot be had.
    pub(crate) fn setup(&self, setup: &Setup, spec: &TrialSpec) -> Result<Setup, BenchError> {
        let number = spec.pacing.peak_rate().map_or(0.0, Qps::get);
        let names = setup.names().unwrap_or(u64::MAX);
        let at = |rate: Qps| TrialSpec {
            pacing: self.pacing.at(rate),
            first_name: 0,
            names,
            ..spec.clone()
        };
        let failed = |e: tester::TesterError| BenchError::Failed(e.to_string());
        match self.over {
            Over::Rate => Ok(setup.for_trial(spec)),
            Over::Clients => {
                setup.for_trial(&at(self.rate)).with_clients(number.round() as u32).map_err(failed)
            }
            Over::Connections => {
                let rate = Qps::new(number * self.queries as f64).unwrap_or(self.rate);
                Ok(setup.for_trial(&at(rate)))
            }
        }
    }
}
