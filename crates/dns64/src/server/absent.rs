//! Empty answers of our own: a name has A records, but none of them is mapped.
//!
//! Upstream's replies to AAAA and A have no SOA record for such an answer, which clients and caches need (RFC 2308
//! section 3), so it is queried.

use engine::TxBatch;
use measure::Nanos;
use wire::Qtype;

use super::Dns64;
use super::lookup::Outcome;
use crate::extended_error::ExtendedError;
use crate::reply::{MAX_CHAIN, Reading};
use crate::transaction::Phase;

impl Dns64 {
    /// Queries the SOA record for the name at which the A reply ends.
    pub(super) fn query_soa(&mut self, t: u32, reading: &Reading, now: Nanos, tx: &mut TxBatch) {
        let transaction = &mut self.transactions[t];
        if transaction.chain.len() + self.scratch.chain.len() > MAX_CHAIN {
            return self.fail(t, None, now, tx);
        }
        transaction.chain.extend_from_slice(&self.scratch.chain);
        if reading.hops > 0 {
            transaction.name = Some(Box::new(reading.name));
        }
        // The answer is true as long as the A records are.
        let ttls = self.scratch.found.iter().map(|found| found.ttl);
        transaction.negative_ttl = ttls.chain(transaction.negative_ttl).min();
        transaction.phase = Phase::Soa;
        self.release(t, 1);
        self.start_lookup(t, 0, Qtype::SOA, now, tx);
    }

    /// Answers that there are no records, as the configuration filters them; without an SOA record the answer is not cached.
    pub(super) fn proceed_soa(
        &mut self,
        t: u32,
        outcome: Outcome<'_>,
        now: Nanos,
        tx: &mut TxBatch,
    ) {
        self.question_of(t);
        let transaction = &self.transactions[t];
        let name = transaction.name();
        let record = &mut self.scratch.record;
        record.clear();
        let ttl = match outcome {
            Outcome::Reply(reply) => reply.push_soa(name, record),
            Outcome::Refused | Outcome::Nothing => None,
        };
        let ttl = ttl.map(|ttl| transaction.negative_ttl.map_or(ttl, |longest| ttl.min(longest)));
        self.scratch.answer.compose(&self.scratch.question, |c| {
            c.chain(&transaction.chain);
            if let Some(ttl) = ttl {
                c.authority_until(record, ttl);
            }
            c.limit_ttl(ttl.unwrap_or(0));
        });
        ExtendedError::Filtered.push(&mut self.scratch.answer.options);
        self.finish(t, now, tx);
    }
}
