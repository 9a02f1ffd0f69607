//! The request for an attack, and its result.
//!
//! ```text
//! [drill] of an experiment ──> AttackRequest ──JSON, a pipe──> dnsdyno __task attack ──> AttackOutcome
//! ```

use std::net::{IpAddr, SocketAddr};

use measure::{Nanos, StartAt};
use serde::{Deserialize, Serialize};

use super::{TrialRequest, text};
use crate::attack::AttackKind;

/// Request for an attack, which runs in a process of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackRequest {
    /// Kind of messages or connections of the attacker.
    pub kind: AttackKind,
    /// Address and port of the server under test.
    pub target: SocketAddr,
    /// The flood of queries to the same server, at its own times; absent for other attacks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flood: Option<Box<TrialRequest>>,
    /// First address of the attacker; the next ones are used in turn.
    pub from: IpAddr,
    /// Number of addresses of the attacker.
    pub addresses: u32,
    /// Largest number of connections at a time.
    pub connections: u32,
    /// Largest number of new connections or first packets a second.
    pub rate: u32,
    /// Name whose TXT records are the large answer.
    pub name: String,
    /// Instant at which the attack starts.
    #[serde(with = "text")]
    pub start_at: StartAt,
    /// Duration of the attack, in nanoseconds.
    #[serde(with = "text")]
    pub duration: Nanos,
    /// Whether the attacker runs only while no other process needs its cores.
    pub yields: bool,
}

/// Counts of an attack's packets, and of the server's reactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackOutcome {
    /// Number of queries or first packets sent, or of connections opened.
    pub sent: u64,
    /// Number of connections that the server closed or refused.
    pub closed: u64,
    /// Octets of the queries of a flood.
    pub query_octets: u64,
    /// Octets of the replies to the attack's queries that came within a second.
    pub reply_octets: u64,
}

#[cfg(test)]
mod tests {
    use measure::Pacing;

    use super::*;
    use crate::request::{Expect, Query, Workload};

    #[test]
    fn requests_are_read_as_they_are_written() {
        let target = "[fd00:9::2]:53".parse().expect("an address");
        let workload = Workload::RandomSubdomain {
            zone: "dns64perf.test".to_owned(),
            qtype: "A".to_owned(),
            expect: Expect::Answered,
            query: Query::plain(true),
        };
        let flood = TrialRequest::new(target, workload, Pacing::Window { outstanding: 1 });
        for flood in [None, Some(Box::new(flood))] {
            let request = AttackRequest {
                kind: AttackKind::Slow,
                target,
                flood,
                from: "fd00:9:ffff::4001:0".parse().expect("an address"),
                addresses: 256,
                connections: 100,
                rate: 50,
                name: "large.dns64perf.test.".to_owned(),
                start_at: "@1795408200.5".parse().expect("an instant"),
                duration: Nanos::from_secs(20),
                yields: true,
            };
            let json = serde_json::to_string(&request).expect("JSON");
            assert_eq!(serde_json::from_str::<AttackRequest>(&json).expect(&json), request);
        }
        let outcome = AttackOutcome { sent: 5, closed: 2, query_octets: 1, reply_octets: 9 };
        let json = serde_json::to_string(&outcome).expect("JSON");
        assert_eq!(serde_json::from_str::<AttackOutcome>(&json).expect(&json), outcome);
    }
}
