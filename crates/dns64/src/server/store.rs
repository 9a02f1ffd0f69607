//! The answers that are kept for later questions, and the copies of them for a second cache.

use std::hash::{BuildHasher, RandomState};

use measure::Nanos;
use wire::Name;

use crate::answer::Answer;
use crate::cache::{Cache, CacheHit, Stale};
use crate::config::Group;
use crate::mirror::Mirror;
use crate::question::Key;
use crate::settings::Settings;
use crate::snapshot::{self, Snapshot};
use crate::transaction::Transaction;

/// The cache, and the copies from it for a second cache.
pub(super) struct Store {
    pub(super) cache: Cache,
    /// Keyed hash by which the cache finds keys, so that no client can choose collisions.
    pub(super) hasher: RandomState,
    pub(super) mirror: Option<Box<Mirror>>,
}

impl Store {
    /// Returns the answer to a question, for all clients or for the group of one, if it is valid or
    /// may be served under the terms of `stale`.
    pub(super) fn find(
        &mut self,
        key: &Key,
        now: Nanos,
        stale: Option<Stale>,
    ) -> Option<CacheHit<'_>> {
        match self.of_all(key, now, stale) {
            Some(key) => self.cache.get(&key, now, stale),
            None => self.cache.get(key, now, stale),
        }
    }

    /// Returns the key of an answer to the question of a group's client that is for all clients, if
    /// there is one.
    fn of_all(&self, key: &Key, now: Nanos, stale: Option<Stale>) -> Option<Key> {
        if key.group == Group::ALL {
            return None;
        }
        let of_all = self.hashed(Key { group: Group::ALL, ..*key });
        self.cache.has(&of_all, now, stale).then_some(of_all)
    }

    /// Returns a key with its hash.
    pub(super) fn hashed(&self, key: Key) -> Key {
        Key { hash: self.hasher.hash_one(key), ..key }
    }

    /// Returns whether [`find`](Self::find) would return an answer, without the use of it.
    pub(super) fn has(&self, key: &Key, now: Nanos, stale: Option<Stale>) -> bool {
        self.of_all(key, now, stale).is_some() || self.cache.has(key, now, stale)
    }

    /// Stores the answer to a question if it may be stored.
    pub(super) fn put(
        &mut self,
        question: &Transaction,
        answer: &mut Answer,
        settings: &Settings,
        now: Nanos,
    ) {
        if !question.shared || !question.cached || self.cache.is_off() {
            // The TTL of a negative answer is limited by both of its replies, also when it is not
            // stored.
            if answer.as_ref().is_negative() {
                answer.bound_ttls(0..=u32::MAX, u32::MAX);
            }
            return;
        }
        let (mut of_all, mut key) = (None, &question.key);
        if key.group != Group::ALL && !question.is_apart {
            key = &*of_all.insert(self.hashed(Key { group: Group::ALL, ..*key }));
        }
        let config = &settings.config.cache;
        let failed = answer.is_failure();
        if failed && self.cache.has(key, now, Some((config.serve_stale, 0))) {
            // A failed refresh must not replace a valid answer.
            return;
        }
        let seconds = |time: Nanos| u32::try_from(time.0 / 1_000_000_000).unwrap_or(u32::MAX);
        // The TTLs that clients get agree with the time in the cache.
        let (least, most) = (seconds(config.min_ttl), seconds(config.max_ttl));
        let ttl = match answer.as_ref().is_negative() {
            true => answer.bound_ttls(least..=most, seconds(config.max_negative_ttl)),
            // Addresses under a prefix expire with the prefix.
            false => answer.bound_ttls(least..=most.min(answer.longest_ttl), u32::MAX),
        };
        let life = if failed { config.failure_ttl } else { Nanos::from_secs(ttl.into()) };
        if let Some(number) = self.cache.put(key, answer, now, life) {
            self.mirror(number, settings, now);
        }
    }

    /// Copies an answer in the cache if a copy is due.
    #[inline]
    pub(super) fn mirror(&mut self, number: u32, settings: &Settings, now: Nanos) {
        let Some(mirror) = &mut self.mirror else { return };
        let (rules, prefetch) = (&settings.rules, settings.config.cache.prefetch);
        let is_plain = |name: &[u8]| {
            rules.is_empty()
                || Name::from_wire(name).is_ok_and(|name| rules.find(Group::ALL, &name).is_none())
        };
        self.cache.mirror(number, mirror, now, prefetch, is_plain);
    }

    /// Stores the answers of a snapshot that belong to a worker; `scratch` is a buffer.
    pub(super) fn restore(
        &mut self,
        from: &Snapshot,
        belongs: impl Fn(&snapshot::StoredAnswer<'_>) -> bool,
        now: Nanos,
        scratch: &mut Answer,
    ) {
        if !self.cache.is_off() {
            for mut stored in from.answers().filter(belongs) {
                stored.key = self.hashed(stored.key);
                self.cache.restore(&stored, now, scratch);
            }
        }
    }
}
