//! Expired answers (RFC 8767): instead of a failure, and for clients that have waited long enough
//! while upstream is still queried.
//!
//! ```text
//!   expired ──> upstream is asked ──failure, or 1.8 s──> the expired answer, with a TTL of 30 s
//!      ^                                                    │
//!      └───────────── 30 s, meanwhile at once ──────────────┘
//! ```

use measure::Nanos;
use wire::Rcode;

use super::{Ctx, Dns64};
use crate::answer::{Age, AnswerRef};
use crate::cache::{CacheHit, Stale};
use crate::config::CacheConfig;
use crate::extended_error::ExtendedError;
use crate::question::Key;
use crate::transaction::{Client, Transaction};

/// Longest time for which a client waits for upstream while there is an expired answer: just under
/// two seconds, after which many clients give up (RFC 8767 section 5).
const MAX_PATIENCE: Nanos = Nanos::from_millis(1_800);

impl Dns64 {
    /// Ends a question with a recently expired answer, if stale answers are allowed and one is
    /// stored (RFC 8767 section 5); upstream is not queried again before that answer has expired
    /// too. Returns whether there was such an answer.
    pub(super) fn serve_stale(&mut self, t: u32, ctx: &mut Ctx<'_>) -> bool {
        self.serve_stale_if(t, |_| true, ctx)
    }

    /// Works as [`serve_stale`](Self::serve_stale) with an answer that matches `wanted`.
    pub(super) fn serve_stale_if(
        &mut self,
        t: u32,
        wanted: impl FnOnce(&AnswerRef<'_>) -> bool,
        ctx: &mut Ctx<'_>,
    ) -> bool {
        let transaction = &self.questions[t];
        if !transaction.shared || !transaction.cached {
            return false;
        }
        let key = transaction.key;
        let taken = self.take_stale(&key, ctx.now, |hit| wanted(&hit.answer));
        let Some((number, age)) = taken else { return false };
        self.give_stale(t, number, age, ctx);
        self.close(t);
        true
    }

    /// Ends a question for which there is no room: with a recently expired answer if stale answers
    /// are allowed and one is stored, otherwise with SERVFAIL. Upstream has not failed, so the next
    /// client's question is sent to it (RFC 9520 section 2).
    pub(super) fn abandon(&mut self, t: u32, ctx: &mut Ctx<'_>) {
        let Transaction { key, shared, cached, .. } = &mut self.questions[t];
        let (key, may_be_stale) = (*key, std::mem::take(cached) && *shared);
        match self.take_stale(&key, ctx.now, |_| may_be_stale) {
            Some((_, age)) => {
                self.deliver_to_all(t, age, ctx);
                self.close(t);
            }
            None => self.fail_now(t, None, ctx),
        }
    }

    /// Gives the composed answer, which has expired, to all clients of a question; until it expires
    /// again upstream is not queried.
    fn give_stale(&mut self, t: u32, number: u32, age: Age, ctx: &mut Ctx<'_>) {
        let until = ctx.now + self.settings.config.cache.stale_ttl;
        self.store.cache.put_off(number, until);
        self.deliver_to_all(t, age, ctx);
    }

    /// Notes a question that begins if there is an expired answer to it. There are no more notes
    /// than questions can be.
    pub(super) fn note_stale(&mut self, t: u32, now: Nanos) {
        let Some(stale) = self.stale() else { return };
        let has_room = self.waits.impatient.len() < self.settings.outstanding();
        if has_room && self.store.has(&self.questions[t].key, now, Some(stale)) {
            self.waits.impatient.push_back((now + MAX_PATIENCE, t));
        }
    }

    /// Gives expired answers to clients that have waited long enough; their lookups go on and
    /// fill the cache.
    pub(super) fn serve_impatient(&mut self, ctx: &mut Ctx<'_>) {
        while let Some((due, t)) = self.waits.impatient.front().copied()
            && due <= ctx.now
        {
            self.waits.impatient.pop_front();
            // Another question may have the place of the one that was noted; one with a service has
            // its answer, and waits for addresses.
            let Transaction { key, client, cached, service, .. } = &self.questions[t];
            let key = *key;
            let has_waited = |client: &Client| client.asked + MAX_PATIENCE <= ctx.now;
            if *cached
                && service.is_none()
                && client.as_ref().is_some_and(has_waited)
                && let Some((number, age)) = self.take_stale(&key, ctx.now, |_| true)
            {
                self.give_stale(t, number, age, ctx);
            }
        }
    }

    /// Returns how old an expired answer may be, and its TTL in seconds; `None` if stale answers
    /// are off.
    fn stale(&self) -> Option<Stale> {
        let CacheConfig { serve_stale, stale_ttl, .. } = self.settings.config.cache;
        let ttl = (stale_ttl.0 / 1_000_000_000) as u32;
        (serve_stale > Nanos::ZERO).then_some((serve_stale, ttl))
    }

    /// Composes the answer from a recently expired one that matches `wanted`; returns the number of
    /// its entry, and its age.
    pub(super) fn take_stale(
        &mut self,
        key: &Key,
        now: Nanos,
        wanted: impl FnOnce(&CacheHit<'_>) -> bool,
    ) -> Option<(u32, Age)> {
        let stale = self.stale()?;
        let hit = self.store.find(key, now, Some(stale)).filter(wanted)?;
        self.counters.cache_stale += 1;
        self.scratch.answer.set(&hit.answer);
        let error = match Rcode(hit.answer.rcode) {
            Rcode::NXDOMAIN => ExtendedError::StaleNxdomain,
            _ => ExtendedError::StaleAnswer,
        };
        error.push(&mut self.scratch.answer.options);
        Some((hit.number, hit.age))
    }
}
