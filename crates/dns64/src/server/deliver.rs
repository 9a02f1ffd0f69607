//! Delivers answers to all clients that wait for them, and stores them in the cache.

use std::hash::BuildHasher;

use engine::TxBatch;
use measure::Nanos;
use wire::Rcode;
use wire::extend::MAX_REPLY_OPTIONS;
use wire::message::OPT_FIXED;

use super::Dns64;
use crate::admission::{Admission, Verdict};
use crate::answer::{Age, AnswerRef, MAX_MESSAGE};
use crate::config::Group;
use crate::counters::Counters;
use crate::extended_error::ExtendedError;
use crate::statistics::Statistics;
use crate::streams::Outbox;
use crate::table::slab::NONE;
use crate::tap::Tap;
use crate::transaction::{Client, LookupId, ReplyTo, Transaction, Waiter};

/// The way of answers to clients: who may have how many, and what is noted of them.
pub(super) struct Delivery {
    pub(super) admission: Admission,
    pub(super) statistics: Statistics,
    pub(super) tap: Option<Box<Tap>>,
    pub(super) outbox: Outbox,
}

impl Dns64 {
    /// Sends the composed answer to one client.
    pub(super) fn deliver(&mut self, client: &Client, age: Age, now: Nanos, tx: &mut TxBatch) {
        let answer = self.scratch.answer.as_ref();
        self.delivery.deliver(&answer, client, age, now, tx, &mut self.counters);
    }

    /// Sends an error message; an empty message tells a stream that there is no reply.
    pub(super) fn send_error(
        &mut self,
        to: ReplyTo,
        network: u16,
        message: &[u8],
        now: Nanos,
        tx: &mut TxBatch,
    ) {
        match to {
            ReplyTo::Stream { stream, client } => {
                let sent = self.delivery.outbox.answer(stream, client, message.len(), |out| {
                    out.copy_from_slice(message);
                    message.len()
                });
                self.counters.unsent += u64::from(!sent);
            }
            ReplyTo::Datagram(to) if !message.is_empty() => {
                if self.delivery.admission.reply(network, &message[2..], now) != Verdict::Send {
                    self.counters.rate_limited += 1;
                    return;
                }
                let sent = tx.push(to, message.len(), |out| {
                    out.copy_from_slice(message);
                    message.len()
                });
                self.counters.replies += u64::from(sent);
                self.counters.unsent += u64::from(!sent);
            }
            ReplyTo::Datagram(_) => {}
        }
    }

    /// Stores the composed answer, sends it to all waiting clients and ends the question.
    pub(super) fn finish(&mut self, t: u32, now: Nanos, tx: &mut TxBatch) {
        let Transaction { subnet, scope, .. } = &self.transactions[t];
        let options = &mut self.scratch.answer.options;
        subnet.iter().for_each(|subnet| subnet.push_answer(*scope, options));
        self.store(t, now);
        self.deliver_to_all(t, Age::Fresh, now, tx);
        self.close(t);
    }

    /// Ends a question without a valid reply: with a recently expired answer if that is allowed and stored,
    /// otherwise with SERVFAIL and its reason.
    pub(super) fn fail(
        &mut self,
        t: u32,
        reason: Option<ExtendedError>,
        now: Nanos,
        tx: &mut TxBatch,
    ) {
        if !self.serve_stale(t, now, tx) {
            self.fail_now(t, reason, now, tx);
        }
    }

    /// Ends a question with SERVFAIL and its reason.
    pub(super) fn fail_now(
        &mut self,
        t: u32,
        reason: Option<ExtendedError>,
        now: Nanos,
        tx: &mut TxBatch,
    ) {
        self.question_of(t);
        let answer = &mut self.scratch.answer;
        answer.bare(&self.scratch.question, Rcode::SERVFAIL);
        answer.failure = true;
        reason.iter().for_each(|reason| reason.push(&mut answer.options));
        self.finish(t, now, tx);
    }

    /// Ends a question of which upstream has more than it could send: with a recently expired answer, or with an empty truncated
    /// one over UDP, so that the client uses TCP, and SERVFAIL over a stream (RFC 2181 section 9).
    pub(super) fn fail_truncated(&mut self, t: u32, now: Nanos, tx: &mut TxBatch) {
        if !self.serve_stale(t, now, tx) {
            self.question_of(t);
            let answer = &mut self.scratch.answer;
            answer.incomplete(&self.scratch.question);
            ExtendedError::NetworkError.push(&mut answer.options);
            self.finish(t, now, tx);
        }
    }

    /// Ends a question with a recently expired answer, if that is allowed and stored (RFC 8767 section 5).
    /// Returns whether it did.
    pub(super) fn serve_stale(&mut self, t: u32, now: Nanos, tx: &mut TxBatch) -> bool {
        self.serve_stale_if(t, |_| true, now, tx)
    }

    /// Works as [`serve_stale`](Self::serve_stale) with an answer that is `wanted`.
    pub(super) fn serve_stale_if(
        &mut self,
        t: u32,
        wanted: impl FnOnce(&AnswerRef<'_>) -> bool,
        now: Nanos,
        tx: &mut TxBatch,
    ) -> bool {
        let config = &self.settings.config.cache;
        let transaction = &self.transactions[t];
        let stale = (config.serve_stale, (config.stale_ttl.0 / 1_000_000_000) as u32);
        if stale.0 == Nanos::ZERO || !transaction.shared || !transaction.cached {
            return false;
        }
        let (key, hash) = (transaction.key, transaction.hash);
        let (key, hash) = self.cached_as(&key, hash, now, Some(stale));
        if let Some(hit) = self.cache.get(&key, hash, now, Some(stale))
            && wanted(&hit.answer)
        {
            self.counters.cache_stale += 1;
            let (age, answer) = (hit.age, hit.answer);
            let out = &mut self.scratch.answer;
            out.clear();
            out.len = answer.bytes.len();
            out.room[..out.len].copy_from_slice(answer.bytes);
            (out.question_end, out.optional_at) = (answer.question_end, answer.optional_at);
            out.rcode = answer.rcode;
            out.options.extend_from_slice(answer.options);
            let error = match Rcode(answer.rcode) {
                Rcode::NXDOMAIN => ExtendedError::StaleNxdomain,
                _ => ExtendedError::StaleAnswer,
            };
            error.push(&mut out.options);
            self.deliver_to_all(t, age, now, tx);
            self.close(t);
            return true;
        }
        false
    }

    /// Ends a question without a reply to its clients.
    pub(super) fn drop_all(&mut self, t: u32, now: Nanos, tx: &mut TxBatch) {
        let first = self.transactions[t].client;
        let mut waiter = std::mem::replace(&mut self.transactions[t].waiters, NONE);
        first.iter().for_each(|client| self.drop_client(client, now, tx));
        while waiter != NONE {
            let Waiter { client, next } = self.waiters[waiter];
            self.drop_client(&client, now, tx);
            self.waiters.remove(waiter);
            waiter = next;
        }
        self.close(t);
    }

    /// Stops the wait of a client, which gets no reply.
    fn drop_client(&mut self, client: &Client, now: Nanos, tx: &mut TxBatch) {
        self.delivery.admission.leave(client.network);
        self.send_error(client.to, client.network, &[], now, tx);
    }

    /// Stores the composed answer in the cache if it may be stored.
    fn store(&mut self, t: u32, now: Nanos) {
        let transaction = &self.transactions[t];
        if !transaction.shared || !transaction.cached || self.cache.is_off() {
            return;
        }
        let (mut key, mut hash) = (transaction.key, transaction.hash);
        if key.group != Group::ALL && !transaction.is_apart {
            key.group = Group::ALL;
            hash = self.hasher.hash_one(key);
        }
        let config = &self.settings.config.cache;
        let answer = &mut self.scratch.answer;
        let failed = answer.failure || !matches!(answer.rcode, 0 | 3);
        if failed && self.cache.has(&key, hash, now, Some((config.serve_stale, 0))) {
            // A failed refresh must not replace a valid answer.
            return;
        }
        let seconds = |time: Nanos| u32::try_from(time.0 / 1_000_000_000).unwrap_or(u32::MAX);
        // The TTLs that clients get agree with the time in the cache.
        answer.bound_ttls(seconds(config.min_ttl), seconds(config.max_ttl));
        let ttl = Nanos::from_secs(answer.ttl.into());
        let negative = answer.rcode == 3 || answer.bytes()[6..8] == [0, 0];
        let life = if failed {
            config.failure_ttl
        } else if negative {
            ttl.min(config.max_negative_ttl)
        } else {
            ttl.max(config.min_ttl).min(config.max_ttl)
        };
        if let Some(number) = self.cache.put(&key, hash, answer, now, life) {
            self.mirror(number, now);
        }
    }

    /// Sends the composed answer to all clients that wait for it.
    fn deliver_to_all(&mut self, t: u32, age: Age, now: Nanos, tx: &mut TxBatch) {
        if self.scratch.answer.rcode == Rcode::SERVFAIL.0 {
            self.counters.failures += 1;
        }
        if let Some(client) = self.transactions[t].client {
            self.delivery.admission.leave(client.network);
            self.deliver(&client, age, now, tx);
        }
        let mut waiter = std::mem::replace(&mut self.transactions[t].waiters, NONE);
        while waiter != NONE {
            let client = self.waiters[waiter].client;
            self.delivery.admission.leave(client.network);
            self.deliver(&client, age, now, tx);
            self.waiters.remove(waiter);
            waiter = self.waiters[waiter].next;
        }
    }

    /// Removes a question from all tables.
    pub(super) fn close(&mut self, t: u32) {
        self.release(LookupId::first(t));
        self.release(LookupId::second(t));
        let transaction = &mut self.transactions[t];
        self.kept -= std::mem::take(&mut transaction.kept) as usize;
        transaction.chain = Vec::new();
        (transaction.name, transaction.early) = (None, None);
        transaction.service = None;
        let (older, newer) = (transaction.older, transaction.newer);
        let (shared, hash) = (transaction.shared, transaction.hash);
        match older {
            NONE => self.oldest = newer,
            older => self.transactions[older].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.transactions[newer].older = older,
        }
        if shared && let Ok(found) = self.joinable.find_entry(hash, |&other| other == t) {
            found.remove();
        }
        self.transactions.remove(t);
    }
}

impl Delivery {
    /// Sends an answer to one client.
    pub(super) fn deliver(
        &mut self,
        answer: &AnswerRef<'_>,
        client: &Client,
        age: Age,
        now: Nanos,
        tx: &mut TxBatch,
        counters: &mut Counters,
    ) {
        let (mut truncated, sent) = (false, counters.replies);
        match client.to {
            ReplyTo::Stream { stream, client: address } => {
                let own = OPT_FIXED + answer.options.len();
                let asked = if client.wants.options.is_empty() { 0 } else { MAX_REPLY_OPTIONS };
                let room = (answer.bytes.len() + own + asked).min(MAX_MESSAGE);
                let sent = self.outbox.answer(stream, address, room, |out| {
                    let len;
                    (len, truncated) = answer.deliver(&client.wants, age, out);
                    // The server's own query is nobody's.
                    let tap = self.tap.iter_mut().filter(|_| !client.is_discovery());
                    tap.for_each(|tap| tap.answer(client, now, &out[..len]));
                    len
                });
                counters.replies += u64::from(sent);
                counters.unsent += u64::from(!sent);
            }
            ReplyTo::Datagram(to) => {
                let mut wants = client.wants;
                let verdict = match client.proven {
                    true => Verdict::Send,
                    false => self.admission.reply(client.network, answer.identity(), now),
                };
                match verdict {
                    Verdict::Send => {}
                    Verdict::Slip => {
                        // Room for the question only.
                        wants.limit = (answer.question_end + 11) as u16;
                        counters.rate_limited += 1;
                    }
                    Verdict::Drop => return counters.rate_limited += 1,
                }
                let room = usize::from(wants.limit);
                let sent = tx.push(to, room, |out| {
                    let len;
                    (len, truncated) = answer.deliver(&wants, age, out);
                    self.tap.iter_mut().for_each(|tap| tap.answer(client, now, &out[..len]));
                    len
                });
                counters.replies += u64::from(sent);
                counters.unsent += u64::from(!sent);
            }
        }
        counters.truncated += u64::from(truncated);
        if counters.replies > sent {
            self.statistics.answered(answer.qtype(), Rcode(answer.rcode), now.since(client.asked));
        }
    }
}
