//! Failures that a server makes on purpose, so that clients can be tested against a known truth.

use std::cell::Cell;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

/// A failure of one query or of its connection. A fault that a transport does not support is not
/// made there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// HTTP responds with this status and no message.
    Status(StatusCode),
    /// The stream of the query is reset: HTTP and QUIC.
    Reset,
    /// The stream of the query is refused, unprocessed: HTTP.
    Refuse,
    /// The query is answered, and its connection accepts no more: HTTP.
    GoAway,
    /// The connection is closed without a reply to the query.
    Close,
}

/// A fault, and the number of queries of which one gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    fault: Fault,
    every: u64,
}

/// Status codes of HTTP that a server may answer with instead of a reply.
const STATUS: RangeInclusive<u16> = 200..=599;

/// Error of the text of a [`FaultPlan`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}`: status=CODE/N ({least} to {most}), reset/N, refuse/N, goaway/N or close/N, with N from 1 on",
    least = STATUS.start(),
    most = STATUS.end()
)]
pub struct BadFaultPlan(String);

impl FromStr for FaultPlan {
    type Err = BadFaultPlan;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (fault, every) = text.split_once('/')?;
            let fault = match fault {
                "reset" => Fault::Reset,
                "refuse" => Fault::Refuse,
                "goaway" => Fault::GoAway,
                "close" => Fault::Close,
                status => {
                    let code = status.strip_prefix("status=")?.parse::<StatusCode>().ok()?;
                    Fault::Status(Some(code).filter(|code| STATUS.contains(&code.as_u16()))?)
                }
            };
            let every = every.parse().ok().filter(|every| *every > 0)?;
            Some(FaultPlan { fault, every })
        };
        parse().ok_or_else(|| BadFaultPlan(text.to_owned()))
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let every = self.every;
        match self.fault {
            Fault::Status(code) => write!(f, "status={}/{every}", code.as_str()),
            Fault::Reset => write!(f, "reset/{every}"),
            Fault::Refuse => write!(f, "refuse/{every}"),
            Fault::GoAway => write!(f, "goaway/{every}"),
            Fault::Close => write!(f, "close/{every}"),
        }
    }
}

/// The faults of a server: every Nth query over all its connections gets the planned one.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Option<FaultPlan>,
    queries: Cell<u64>,
    made: Arc<AtomicU64>,
}

impl Faults {
    /// Makes faults after a plan, and none without one.
    pub fn new(plan: Option<FaultPlan>) -> Self {
        Faults { plan, ..Faults::default() }
    }

    /// Returns the number of faults made so far, for other threads.
    pub fn made(&self) -> Arc<AtomicU64> {
        self.made.clone()
    }

    /// Counts a query; returns the fault that it gets.
    pub(crate) fn next(&self) -> Option<Fault> {
        let plan = self.plan?;
        self.queries.set(self.queries.get() + 1);
        let meets = self.queries.get().is_multiple_of(plan.every);
        meets.then(|| {
            self.made.fetch_add(1, Ordering::Relaxed);
            plan.fault
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_as_they_are_shown_and_met_in_turn() {
        for text in ["status=503/10", "reset/1", "refuse/3", "goaway/100", "close/7"] {
            let plan: FaultPlan = text.parse().expect("a plan");
            assert_eq!(plan.to_string(), text);
            let faults = Faults::new(Some(plan));
            let met = (1..=200).filter(|_| faults.next().is_some()).count() as u64;
            assert_eq!((met, faults.made().load(Ordering::Relaxed)), (200 / plan.every, met));
        }
        for text in ["", "reset", "reset/0", "status/10", "status=99/10", "status=x/1", "loss/3"] {
            assert!(text.parse::<FaultPlan>().is_err(), "{text}");
        }
        assert_eq!(Faults::new(None).next(), None);
    }
}
