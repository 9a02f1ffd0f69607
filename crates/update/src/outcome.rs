//! What became of updates.

use std::collections::BTreeMap;

use measure::{Histogram, Nanos};

/// What became of one update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The primary replied with this RCODE.
    Reply(u8),
    /// There was no reply in time.
    Lost,
}

/// RCODE 0: the update is done, and kept (RFC 2136 section 3.5).
pub const NOERROR: u8 = 0;

/// The name of an RCODE that answers to updates have (RFC 2136 section 2.2).
pub fn rcode_name(rcode: u8) -> String {
    let names = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
        "NXRRSET", "NOTAUTH", "NOTZONE",
    ];
    names.get(usize::from(rcode)).map_or_else(|| format!("RCODE{rcode}"), |&name| name.to_owned())
}

/// The outcomes of a stream of updates.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Updates sent.
    pub sent: u64,
    /// Replies by RCODE.
    pub rcodes: BTreeMap<u8, u64>,
    /// Updates without a reply.
    pub lost: u64,
    /// Time to the acknowledgement of those done, from when they were due.
    pub latency: Histogram,
}

impl Tally {
    /// Counts an update whose outcome is known `latency` after it was due.
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

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Tally) {
        self.sent += other.sent;
        self.lost += other.lost;
        for (rcode, count) in &other.rcodes {
            *self.rcodes.entry(*rcode).or_default() += count;
        }
        self.latency.merge(&other.latency);
    }

    /// Updates that are done.
    pub fn acknowledged(&self) -> u64 {
        self.rcodes.get(&NOERROR).copied().unwrap_or(0)
    }
}
