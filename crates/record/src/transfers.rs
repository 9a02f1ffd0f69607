//! Zone transfers counted on a link.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Transfers by kind: `axfr`, `ixfr`, `ixfr_in_full`, `ixfr_without_news`, `transfers_refused`.
pub type TransferCounts = BTreeMap<String, TransferCount>;

/// Count of the transfers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TransferCount {
    /// Number of transfers of this kind.
    pub transfers: u64,
    /// Octets of their replies, without length fields.
    pub octets: u64,
}

impl AddAssign for TransferCount {
    fn add_assign(&mut self, more: TransferCount) {
        self.transfers += more.transfers;
        self.octets += more.octets;
    }
}

/// Zone transfers that a listener saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transfers {
    /// Version of this form of JSON.
    pub schema: u32,
    /// Number of packets that the listener missed; the counts may then be too small.
    pub packets_lost: u64,
    /// Transfers of each secondary, in the order of the arguments.
    pub secondaries: Vec<TransferCounts>,
    /// Transfers of all other addresses.
    pub others: TransferCounts,
}

impl Transfers {
    /// Returns the sum of all transfers.
    pub fn all(&self) -> TransferCounts {
        let mut all = TransferCounts::new();
        for (kind, count) in self.secondaries.iter().chain([&self.others]).flatten() {
            *all.entry(kind.clone()).or_default() += *count;
        }
        all
    }
}
