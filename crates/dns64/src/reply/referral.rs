//! Referrals: where a server that does not resolve sends those that do.

use wire::message::flag;
use wire::{Qtype, Rcode};

use super::Reply;

impl Reply<'_> {
    /// Returns whether it names other servers in place of an answer (RFC 2308 section 2.2), from a
    /// server that neither resolves, which the query desires, nor has the name: there may be records
    /// at these servers.
    pub(crate) fn is_referral(&self) -> bool {
        Rcode(self.rcode) == Rcode::NOERROR
            && self.header.flags & (flag::RD | flag::RA | flag::AA) == flag::RD
            && self.header.counts[1] == 0
            && self.soas == 0
            && self.authority().any(|record| record.rtype == Qtype::NS)
    }
}
