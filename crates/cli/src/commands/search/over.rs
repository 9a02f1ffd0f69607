//! What a search varies: the rate, the number of clients, or the number of new connections a second.
//!
//! ```text
//! rate          n queries a second, over the given clients
//! clients       n clients, at one rate, or each at one
//! connections   n connections a second: n times the queries of a connection, each connection closed after them
//! ```
//!
//! The search itself only knows a number that passes or fails.

use std::borrow::Cow;

use experiment::{BenchError, TrialSpec};
use measure::{OpenPacing, Qps};
use record::CellRecord;
use tester::Setup;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Axis {
    #[default]
    Rate,
    Clients,
    Connections,
}

impl Axis {
    /// Returns the unit of the number.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Axis::Rate => "qps",
            Axis::Clients => "clients",
            Axis::Connections => "connections/s",
        }
    }

    /// Returns the first, the lowest and the highest number, unless they are given.
    pub(crate) fn usual(self) -> [f64; 3] {
        match self {
            Axis::Rate => [1e4, 1e3, 2e6],
            Axis::Clients => [16.0, 1.0, 2e4],
            Axis::Connections => [100.0, 10.0, 1e5],
        }
    }

    /// Returns a text about rates with the unit of this search.
    pub(crate) fn words(self, text: &str) -> Cow<'_, str> {
        match self {
            Axis::Rate => Cow::Owned(text.to_owned()),
            other => Cow::Owned(text.replace(" qps", &format!(" {}", other.unit()))),
        }
    }

    /// Names the unit in a record.
    pub(crate) fn label(self, record: &mut CellRecord) {
        if self != Axis::Rate {
            record.set_over(self.unit());
        }
    }
}

/// The searched quantity, and how its value becomes a trial setup.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Varied {
    pub(crate) over: Axis,
    pub(crate) pacing: OpenPacing,
    /// Queries a second in a search over clients.
    pub(crate) rate: Qps,
    /// Queries a second of each client in a search over clients, in place of the rate of all.
    pub(crate) each: Option<Qps>,
    /// Queries of a connection in a search over connections.
    pub(crate) queries: u64,
}

impl Varied {
    /// Returns the setup of a trial.
    ///
    /// # Errors
    /// If this number of clients is not possible.
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
            Axis::Rate => Ok(setup.for_trial(spec)),
            Axis::Clients => {
                let all = |each: Qps| Qps::new(each.get() * number);
                let rate = self.each.and_then(all).unwrap_or(self.rate);
                setup.for_trial(&at(rate)).with_clients(number.round() as u32).map_err(failed)
            }
            Axis::Connections => {
                let rate = Qps::new(number * self.queries as f64).unwrap_or(self.rate);
                Ok(setup.for_trial(&at(rate)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use measure::{Nanos, Pacing, Transport};
    use record::TrialRequest;
    use record::request::{Connecting, Engine, Expect, Query, Workload};

    use super::*;

    #[test]
    fn the_rate_follows_the_clients_if_it_is_that_of_each() {
        let workload = Workload::Name {
            name: "x.test".to_owned(),
            qtype: "A".to_owned(),
            expect: Expect::Answered,
            query: Query::plain(false),
        };
        let pacing = |rate| OpenPacing::Constant.at(Qps::new(rate).expect("a rate"));
        let target = "127.0.0.1:53".parse().expect("an address");
        let request = TrialRequest {
            engine: Engine::Streams(Box::new(Connecting::over(Transport::Tcp))),
            ..TrialRequest::new(target, workload, pacing(1.0))
        };
        let setup = Setup::new(request, String::new()).expect("a good request");
        let spec = TrialSpec {
            names: 1,
            ..TrialSpec::new(pacing(40.0), Nanos::from_secs(1), Nanos::from_secs(1))
        };
        for (each, rate) in [(Qps::new(0.5), 20.0), (None, 7.0)] {
            let all = Qps::new(7.0).expect("a rate");
            let varied = Varied { over: Axis::Clients, each, rate: all, ..Varied::default() };
            let trial = varied.setup(&setup, &spec).expect("clients");
            let expected: (u32, Pacing) = (40, pacing(rate));
            assert_eq!((trial.request().clients(), trial.request().pacing), expected);
        }
    }
}
