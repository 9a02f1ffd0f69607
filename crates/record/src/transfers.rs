//! Zone transfers counted on a link.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Transfers by kind: `axfr`, `ixfr`, `ixfr_in_full`, `ixfr_without_news`, `transfers_refused`.
pub type TransferCounts = BTreeMap<String, TransferCount>;

/// How many transfers of a kind there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferCount {
    /// Transfers.
    pub transfers: u64,
    /// Octets of their replies.
    pub octets: u64,
}

/// What was seen of zone transfers while somebody listened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfers {
    /// The version of the types.
    pub schema: u32,
    /// Packets that the listener missed: what is counted may then be too little.
    pub packets_lost: u64,
    /// Those of each secondary that was asked about, in that order.
    pub secondaries: Vec<TransferCounts>,
    /// Those of anybody else.
    pub others: TransferCounts,
}

impl Transfers {
    /// All transfers together.
    pub fn all(&self) -> TransferCounts {
        let mut all = TransferCounts::new();
        for (kind, count) in self.secondaries.iter().chain([&self.others]).flatten() {
            let sum = all.entry(kind.clone()).or_default();
            sum.transfers += count.transfers;
            sum.octets += count.octets;
        }
        all
    }
}
