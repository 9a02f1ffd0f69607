//! What conductor and Testers say to each other.
//!
//! ```text
//! ping   1, number (8 octets, little endian)                   17 octets are the longest of both: they are on the way when
//! pong   2, number, time of the Tester's clock (8 octets)      clocks are compared
//! orders and reports: JSON, which begins with `{`
//! ```

use measure::Nanos;
use record::{Trial, TrialRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest message, in octets: a part of a trial has some tens of thousands, more with many stalls.
pub const LONGEST: usize = 64 << 20;

/// First octets of a ping and of a pong.
const PING: u8 = 1;
const PONG: u8 = 2;

/// Order of the conductor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum Order {
    /// Check this request, and read what it names.
    Prepare {
        /// Number of the trial.
        trial: u64,
        /// Request with the Tester's slice.
        request: Box<TrialRequest>,
        /// Equivalent command line, for the record.
        command: String,
    },
    /// Start the prepared trial.
    Start {
        /// Number of the trial.
        trial: u64,
        /// Instant on the Tester's clock, in nanoseconds since 1970.
        at_ns: u64,
    },
    /// End the trial early, and report what there is.
    Stop {
        /// Number of the trial.
        trial: u64,
    },
    /// Nothing is wanted now; stay.
    Stay,
    /// Leave: nothing will be wanted.
    End,
}

/// Report of a Tester.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "kebab-case")]
pub enum Report {
    /// The Tester is there; its first report.
    Hello {
        /// Version of the Tester.
        version: String,
        /// Name of its host.
        host: String,
        /// Number of its process.
        pid: u32,
    },
    /// The trial can start.
    Prepared {
        /// Number of the trial.
        trial: u64,
    },
    /// It cannot run the trial, or could not.
    Failed {
        /// Number of the trial.
        trial: u64,
        /// Whether the request was wrong.
        bad_input: bool,
        /// Why.
        why: String,
    },
    /// The Tester is alive; the counters of the running trial.
    Beat {
        /// Number of queries sent, replies in time, valid ones among them, queries without a reply in time, and queries
        /// without a valid one.
        counters: [u64; 5],
    },
    /// The trial has ended.
    Done {
        /// Number of the trial.
        trial: u64,
        /// Record of the part.
        part: Box<Trial>,
    },
    /// A signal ends it.
    Leaving,
}

/// Message for a Tester.
#[derive(Clone, Debug, PartialEq)]
pub enum ToTester {
    /// Return this number, with the time.
    Ping(u64),
    /// An order.
    Order(Order),
}

/// Message for the conductor.
#[derive(Clone, Debug, PartialEq)]
pub enum ToConductor {
    /// Reply to a ping.
    Pong {
        /// Number of the ping.
        number: u64,
        /// Time of the Tester's clock.
        at: Nanos,
    },
    /// A report.
    Report(Report),
}

/// Error for octets that are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// The message is longer than any that is sent.
    #[error("a message of {0} octets; {LONGEST} are the most")]
    TooLong(usize),
    /// It is neither a ping, a pong nor JSON of this version.
    #[error("not a message of this program: {0}")]
    Unreadable(String),
}

impl ToTester {
    /// Writes the message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToTester::Ping(number) => [&[PING][..], &number.to_le_bytes()].concat(),
            ToTester::Order(order) => json(order),
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`BadMessage`] if it is none.
    pub fn decode(message: &[u8]) -> Result<Self, BadMessage> {
        match message.split_first() {
            Some((&PING, rest)) => {
                let [number] = numbers(rest)?;
                Ok(ToTester::Ping(number))
            }
            _ => read(message).map(ToTester::Order),
        }
    }
}

impl ToConductor {
    /// Writes the message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToConductor::Pong { number, at } => {
                [&[PONG][..], &number.to_le_bytes(), &at.0.to_le_bytes()].concat()
            }
            ToConductor::Report(report) => json(report),
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`BadMessage`] if it is none.
    pub fn decode(message: &[u8]) -> Result<Self, BadMessage> {
        match message.split_first() {
            Some((&PONG, rest)) => {
                let [number, at] = numbers(rest)?;
                Ok(ToConductor::Pong { number, at: Nanos(at) })
            }
            _ => read(message).map(ToConductor::Report),
        }
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data")
}

fn read<T: DeserializeOwned>(message: &[u8]) -> Result<T, BadMessage> {
    if message.len() > LONGEST {
        return Err(BadMessage::TooLong(message.len()));
    }
    serde_json::from_slice(message).map_err(|e| BadMessage::Unreadable(e.to_string()))
}

/// Reads exactly `N` numbers of 8 octets each.
fn numbers<const N: usize>(octets: &[u8]) -> Result<[u64; N], BadMessage> {
    let (numbers, rest) = octets.as_chunks::<8>();
    let numbers: Vec<u64> = numbers.iter().map(|octets| u64::from_le_bytes(*octets)).collect();
    match numbers.try_into() {
        Ok(numbers) if rest.is_empty() => Ok(numbers),
        _ => Err(BadMessage::Unreadable(format!("{} octets behind the first", octets.len()))),
    }
}

#[cfg(test)]
mod tests {
    use measure::Pacing;
    use proptest::prelude::*;
    use record::request::{Expect, Query, Workload};

    use super::*;

    /// A request for a trial.
    fn request() -> TrialRequest {
        let (name, qtype) = ("x.test".to_owned(), "A".to_owned());
        let workload =
            Workload::Name { name, qtype, expect: Expect::Answered, query: Query::plain(true) };
        let pacing = Pacing::Window { outstanding: 3 };
        TrialRequest::new(([127, 0, 0, 1], 53).into(), workload, pacing)
    }

    proptest! {
        #[test]
        fn what_is_said_is_understood(trial: u64, at_ns: u64, text: String, bad_input: bool, counters: [u64; 5]) {
            let prepare = Order::Prepare { trial, request: Box::new(request()), command: text.clone() };
            let orders = [prepare, Order::Start { trial, at_ns }, Order::Stop { trial }, Order::Stay, Order::End];
            let messages = orders.into_iter().map(ToTester::Order).chain([ToTester::Ping(trial)]);
            for message in messages {
                prop_assert_eq!(ToTester::decode(&message.encode()), Ok(message));
            }
            let reports = [
                Report::Hello { version: text.clone(), host: text.clone(), pid: trial as u32 },
                Report::Prepared { trial },
                Report::Failed { trial, bad_input, why: text },
                Report::Beat { counters },
                Report::Leaving,
            ];
            let pong = ToConductor::Pong { number: trial, at: Nanos(at_ns) };
            for message in reports.into_iter().map(ToConductor::Report).chain([pong]) {
                prop_assert_eq!(ToConductor::decode(&message.encode()), Ok(message));
            }
        }

        #[test]
        fn any_octets_are_understood_or_refused(octets in prop::collection::vec(any::<u8>(), 0..40), first in 0u8..4) {
            for octets in [octets.clone(), [vec![first], octets].concat()] {
                let order = ToTester::decode(&octets);
                if let Ok(ping @ ToTester::Ping(_)) = order {
                    prop_assert_eq!(ping.encode(), octets.clone());
                }
                if let Ok(pong @ ToConductor::Pong { .. }) = ToConductor::decode(&octets) {
                    prop_assert_eq!(pong.encode(), octets);
                }
            }
        }
    }

    #[test]
    fn messages_that_are_none_are_refused() {
        for octets in [&b""[..], b"\x01short", b"\x02", b"{", b"{\"order\":\"dance\"}", b"null"] {
            assert!(ToTester::decode(octets).is_err(), "{octets:?}");
            assert!(ToConductor::decode(octets).is_err(), "{octets:?}");
        }
        let long = vec![b' '; LONGEST + 1];
        assert_eq!(ToTester::decode(&long), Err(BadMessage::TooLong(long.len())));
    }
}
