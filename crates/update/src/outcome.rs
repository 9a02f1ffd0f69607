//! Outcomes of updates, and their counts.

use std::collections::BTreeMap;

use measure::{Histogram, Nanos};

/// The outcome of one update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The primary replied with this RCODE.
    Reply(u8),
    /// There was no reply before the timeout.
    Lost,
}

/// RCODE 0: the update is applied and on stable storage (RFC 2136 section 3.5).
pub const NOERROR: u8 = 0;

/// Returns the name of an RCODE in a reply to an update (RFC 2136 section 2.2).
pub fn rcode_name(rcode: u8) -> String {
    let names = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
        "NXRRSET", "NOTAUTH", "NOTZONE",
    ];
    names.get(usize::from(rcode)).map_or_else(|| format!("RCODE{rcode}"), |&name| name.to_owned())
}

/// Counts of the outcomes of a stream of updates.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of updates sent.
    pub sent: u64,
    /// Number of replies by RCODE.
    pub rcodes: BTreeMap<u8, u64>,
    /// Number of updates without a reply.
    pub lost: u64,
    /// Time from the due time of an update to its acknowledgement.
    pub latency: Histogram,
}

impl Tally {
    /// Counts an update; `latency` is the time from its due time to its outcome.
    pub fn count(&mut self, outcome: Outcome, latency: Nanos) {
        self.sent += 1;
        match outcome {
            Outcome::Lost => self.lost += 1,
            Outcome::Reply(rcode) => {
                *self.rcodes.entry(rcode).or_default() += 1;
                if rcode == NOERROR {
                    self.latency.record(latency);
                }
            }
        }
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Tally) {
        self.sent += other.sent;
        self.lost += other.lost;
        for (rcode, count) in &other.rcodes {
            *self.rcodes.entry(*rcode).or_default() += count;
        }
        self.latency.merge(&other.latency);
    }

    /// Returns the number of acknowledged updates.
    pub fn acknowledged(&self) -> u64 {
        self.rcodes.get(&NOERROR).copied().unwrap_or(0)
    }
}
