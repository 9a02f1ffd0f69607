//! Cache of answers, one for each worker, bounded in octets.
//!
//! An answer is found by its whole question and the bits that it depends on. No record of it ever answers another
//! question, so that records which a reply carries besides its answer cannot poison the cache.
//!
//! Eviction is by the CLOCK algorithm: a clock hand moves over the entries and removes those that
//! were not used since its last round.

use std::io::{self, Write};

use hashbrown::HashTable;
use measure::Nanos;
use wire::message::{Header, name_at, records};
use wire::name::strip_suffix;
use wire::{Name, Pref64, Qtype, Rcode};

use crate::answer::{Age, Answer, AnswerRef, apply_age};
use crate::config::Group;
use crate::mirror::{LastCopy, Mirror, MirroredAnswer};
use crate::policy::View;
use crate::question::{Key, KeyFlags};
use crate::rules::RuleSets;
use crate::snapshot::{SnapshotWriter, StoredAnswer};
use crate::special::apex;
use crate::table::slab::Slab;

/// Overhead of an entry in octets: the entry, its place in the index and an estimate for the allocator.
const ENTRY_OVERHEAD: usize = size_of::<CacheSlot>() + 32;

/// How long an answer may be served after it has expired, and its TTL then, in seconds.
pub(crate) type Stale = (Nanos, u32);

/// A stored answer with its key, its age and its use.
struct CacheSlot {
    /// The name, the message and the EDNS options.
    data: Box<[u8]>,
    name_len: u8,
    qtype: Qtype,
    view: View,
    flags: KeyFlags,
    group: Group,
    subnet: u64,
    message_len: u16,
    question_end: u16,
    optional_at: u16,
    rcode: u16,
    hash: u64,
    stored: Nanos,
    expires: Nanos,
    /// Time until which the expired entry is served without a query to upstream.
    put_off: Nanos,
    /// Whether the entry is a failure.
    failed: bool,
    /// Whether the entry was used since the hand's last visit, and whether it is still in the index.
    used: bool,
    alive: bool,
    /// Whether a refresh of the entry was requested.
    refreshed: bool,
    /// Time and generation of the last copy of the entry to a second cache; `None` if there was none.
    mirrored: Option<LastCopy>,
}

/// The names whose answers are removed from a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// This name alone, with all its types.
    Name(Name),
    /// A name and all names below it.
    Zone(Name),
}

impl Domain {
    /// Returns the same names, with the given one in lower case.
    fn to_lowercase(&self) -> Self {
        match self {
            Domain::Name(name) => Domain::Name(name.to_lowercase()),
            Domain::Zone(zone) => Domain::Zone(zone.to_lowercase()),
        }
    }

    /// Returns whether a name in wire format is one of them; both are in lower case.
    fn contains(&self, name: &[u8]) -> bool {
        match self {
            Domain::Name(own) => own.as_wire() == name,
            Domain::Zone(zone) => strip_suffix(name, zone.as_wire()).is_some(),
        }
    }
}

/// One answer of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedAnswer {
    /// Name of the question, in lower case.
    pub name: Name,
    /// Type of the question; an answer may contain others, such as aliases.
    pub qtype: Qtype,
    /// Return code of the answer; NOERROR without records for NODATA.
    pub rcode: Rcode,
    /// Whether the query had CD, and DO.
    pub checking_disabled: bool,
    /// Whether the query had DO, so that the answer has DNSSEC records.
    pub dnssec: bool,
    /// Number of records in the answer section.
    pub records: u16,
    /// Size of the message, in octets.
    pub octets: usize,
    /// Seconds until the answer expires; 0 if it has expired.
    pub seconds: u64,
}

/// A part of the answers of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// The answers of this part, in the order of their entries.
    pub answers: Vec<CachedAnswer>,
    /// Place at which the next part begins; `None` after the last one.
    pub next: Option<u32>,
}

/// The cache of one worker.
pub(crate) struct Cache {
    index: HashTable<u32>,
    entries: Slab<CacheSlot>,
    /// Highest number of an entry, plus one.
    end: u32,
    clock_hand: u32,
    used: usize,
    limit: usize,
}

/// A stored answer that was found.
pub(crate) struct CacheHit<'a> {
    /// Number of the entry, for later calls.
    pub(crate) number: u32,
    pub(crate) answer: AnswerRef<'a>,
    /// Age of the answer, or that it has expired.
    pub(crate) age: Age,
    /// Whether the caller must refresh the entry: it is in the last tenth of its lifetime, and no
    /// refresh was requested before.
    pub(crate) refresh: bool,
    /// Whether upstream has failed a short time ago, so that it is not queried again yet.
    pub(crate) is_put_off: bool,
}

impl Cache {
    /// Makes a cache of `limit` octets; 0 turns it off.
    pub(crate) fn new(limit: usize) -> Self {
        Cache {
            index: HashTable::new(),
            entries: Slab::new(limit / ENTRY_OVERHEAD),
            end: 0,
            clock_hand: 0,
            used: 0,
            limit,
        }
    }

    /// Returns whether the cache is off.
    pub(crate) fn is_off(&self) -> bool {
        self.limit == 0
    }

    /// Returns the number of octets in use and the number of answers.
    pub(crate) fn used(&self) -> (usize, usize) {
        (self.used, self.entries.len())
    }

    /// Returns the answer to a question if it is valid, or if it expired at most `stale.0` ago; such an
    /// answer gets the TTL `stale.1`.
    pub(crate) fn get(
        &mut self,
        key: &Key,
        now: Nanos,
        stale: Option<Stale>,
    ) -> Option<CacheHit<'_>> {
        let (number, age) = self.find(key, now, stale)?;
        let entry = &mut self.entries[number];
        entry.used = true;
        let life = entry.expires.since(entry.stored);
        let refresh = !entry.refreshed && entry.expires.since(now).0 < life.0 / 10;
        entry.refreshed |= refresh;
        let is_put_off = now < entry.put_off;
        Some(CacheHit { number, answer: entry.answer(), age, refresh, is_put_off })
    }

    /// Notes that upstream has failed to replace an answer: it is not queried again before then.
    pub(crate) fn put_off(&mut self, number: u32, until: Nanos) {
        self.entries[number].put_off = until;
    }

    /// Returns whether [`get`](Self::get) would return an answer, without the use of it.
    #[inline]
    pub(crate) fn has(&self, key: &Key, now: Nanos, stale: Option<Stale>) -> bool {
        self.find(key, now, stale).is_some()
    }

    /// Returns the number of the entry for a question, and its age.
    #[inline]
    fn find(&self, key: &Key, now: Nanos, stale: Option<Stale>) -> Option<(u32, Age)> {
        let number = *self.index.find(key.hash, |&n| self.entries[n].is_for(key))?;
        let entry = &self.entries[number];
        if now < entry.expires {
            let seconds = now.since(entry.stored).0 / 1_000_000_000;
            return Some((number, Age::Seconds(seconds as u32)));
        }
        // A failure is no better than the next one (RFC 8767 section 4).
        let (longest, ttl) = stale.filter(|_| !entry.failed)?;
        (now <= entry.expires + longest).then_some((number, Age::Stale(ttl)))
    }

    /// Stores an answer for `life`, replacing an older one; returns the number of its entry, `None`
    /// if it is not stored.
    pub(crate) fn put(
        &mut self,
        key: &Key,
        answer: &Answer,
        now: Nanos,
        life: Nanos,
    ) -> Option<u32> {
        let name = key.name.as_wire();
        let message = answer.bytes();
        let size = name.len() + message.len() + answer.options.len() + ENTRY_OVERHEAD;
        // The old answer is outdated, even if the new one is not stored.
        self.remove(key.hash, |entry, _| entry.is_for(key));
        if life == Nanos::ZERO || size > self.limit / 8 {
            return None;
        }
        while self.used + size > self.limit || self.entries.is_full() {
            self.evict(now);
        }
        let mut data = Vec::with_capacity(size - ENTRY_OVERHEAD);
        data.extend_from_slice(name);
        data.extend_from_slice(message);
        data.extend_from_slice(&answer.options);
        let entry = CacheSlot {
            data: data.into_boxed_slice(),
            name_len: name.len() as u8,
            qtype: key.qtype,
            view: key.view,
            flags: key.flags,
            group: key.group,
            subnet: key.subnet,
            message_len: message.len() as u16,
            question_end: answer.question_end as u16,
            optional_at: answer.optional_at as u16,
            rcode: answer.rcode,
            hash: key.hash,
            stored: now,
            expires: now + life,
            put_off: Nanos::ZERO,
            failed: answer.is_failure(),
            used: false,
            alive: true,
            refreshed: false,
            mirrored: None,
        };
        self.used += size;
        let number = self.entries.insert(entry).expect("room was made for the entry");
        self.end = self.end.max(number + 1);
        let entries = &self.entries;
        self.index.insert_unique(key.hash, number, |&n| entries[n].hash);
        Some(number)
    }

    /// Copies an answer to a second cache if a copy is due and the answer is valid for all queries
    /// with its key. With `prefetch` the copy expires when a refresh is due, so that the next query
    /// triggers it. `is_plain`: the name has no rule.
    #[inline]
    pub(crate) fn mirror(
        &mut self,
        number: u32,
        to: &mut Mirror,
        now: Nanos,
        prefetch: bool,
        is_plain: impl FnOnce(&[u8]) -> bool,
    ) {
        let entry = &mut self.entries[number];
        let may_be_copied = entry.subnet == 0 && entry.qtype != Qtype::ANY;
        if !may_be_copied || !to.is_due(entry.mirrored, now) || !is_plain(entry.name()) {
            return;
        }
        let life = entry.expires.since(entry.stored);
        let last = if prefetch { life.0 / 10 } else { 0 };
        let optional = entry.stored + Nanos::from_secs(entry.answer().optional_ttl().into());
        let until = Nanos(entry.expires.0 - last);
        if until <= now {
            return;
        }
        // An answer without its additional records is not copied; the entry only states that the
        // sockets have an answer.
        let is_partial = optional <= now;
        let until = if is_partial { until } else { until.min(optional) };
        let KeyFlags { rd, cd, dnssec } = entry.flags;
        let facts = MirroredAnswer {
            generation: to.generation,
            qtype: entry.qtype,
            view: entry.view.0,
            rd,
            cd,
            dnssec,
            is_failure: is_partial
                || !matches!(Rcode(entry.rcode), Rcode::NOERROR | Rcode::NXDOMAIN),
            message: &[],
            options: &[],
            stored: entry.stored,
            until,
        };
        entry.mirrored = to.copy(facts, &entry.answer(), now).or(entry.mirrored);
    }

    /// Removes the entry with this hash for which `is_it` is true, if there is one.
    fn remove(&mut self, hash: u64, is_it: impl Fn(&CacheSlot, u32) -> bool) {
        let entries = &mut self.entries;
        let Ok(found) = self.index.find_entry(hash, |&n| is_it(&entries[n], n)) else { return };
        let (number, _) = found.remove();
        let entry = &mut entries[number];
        self.used -= entry.data.len() + ENTRY_OVERHEAD;
        entry.data = Box::default();
        entry.alive = false;
        entries.remove(number);
    }

    /// Moves the hand to the next entry, and removes the current one unless it was used and is still valid.
    fn evict(&mut self, now: Nanos) {
        let number = self.clock_hand;
        self.clock_hand = if number + 1 < self.end { number + 1 } else { 0 };
        let entry = &mut self.entries[number];
        if !entry.alive || std::mem::take(&mut entry.used) && now < entry.expires {
            return;
        }
        let hash = entry.hash;
        self.remove(hash, |_, n| n == number);
    }

    /// Removes the answers to questions about some names, and the answers with records of these
    /// names after aliases or in the additional section; returns the number of removed answers.
    pub(crate) fn flush(&mut self, domain: &Domain) -> usize {
        let domain = domain.to_lowercase();
        self.remove_if(|entry| {
            domain.contains(entry.name())
                || entry.targets().any(|target| domain.contains(target.to_lowercase().as_wire()))
        })
    }

    /// Removes the answers with records of another name than that of the question for which a rule
    /// has an answer, since the rule takes precedence over upstream's records of a target.
    pub(crate) fn forget_targets(&mut self, rules: &RuleSets) {
        if !rules.is_empty() {
            self.remove_if(|entry| {
                entry.targets().any(|name| rules.may_answer(&name.to_lowercase()))
            });
        }
    }

    /// Removes the answers that depend on one of the blocks of `view`, and answers at reverse names
    /// under these prefixes.
    pub(crate) fn forget(&mut self, view: View, prefixes: &[Pref64]) {
        if view.is_empty() && prefixes.is_empty() {
            return;
        }
        let zones: Vec<Vec<u8>> = prefixes.iter().map(|&prefix| apex(prefix)).collect();
        self.remove_if(|entry| {
            let below = |zone: &Vec<u8>| strip_suffix(entry.name(), zone).is_some();
            entry.view.0 & view.0 != 0 || zones.iter().any(below)
        });
    }

    /// Removes all answers for which `condition` is true; returns the number of removed answers.
    fn remove_if(&mut self, condition: impl Fn(&CacheSlot) -> bool) -> usize {
        let before = self.entries.len();
        for number in 0..self.end {
            let entry = &self.entries[number];
            if entry.alive && condition(entry) {
                let hash = entry.hash;
                self.remove(hash, |_, n| n == number);
            }
        }
        before - self.entries.len()
    }

    /// Returns up to `most` answers from the place `from` on.
    pub(crate) fn dump(&self, from: u32, most: usize, now: Nanos) -> Dump {
        let mut alive = (from..self.end).filter(|&number| self.entries[number].alive);
        let shown = |number| self.entries[number].shown(now);
        let answers = alive.by_ref().take(most).filter_map(shown).collect();
        Dump { answers, next: alive.next() }
    }

    /// Adds to a snapshot the answers of one worker that a later server may use. Answers for a
    /// client subnet are left out, since their hashes differ from server to server. Returns the
    /// number of added answers.
    pub(crate) fn save<W: Write>(
        &self,
        worker: u16,
        now: Nanos,
        to: &mut SnapshotWriter<W>,
    ) -> io::Result<usize> {
        let all = (0..self.end).map(|number| &self.entries[number]);
        let mut saved = 0;
        for entry in all.filter(|entry| entry.alive && entry.subnet == 0) {
            if let Some(stored) = entry.stored(worker, now) {
                to.add(&stored)?;
                saved += 1;
            }
        }
        Ok(saved)
    }

    /// Stores an answer of a snapshot; `scratch` is a buffer.
    pub(crate) fn restore(&mut self, stored: &StoredAnswer<'_>, now: Nanos, scratch: &mut Answer) {
        let StoredAnswer { rcode, message: bytes, options, .. } = *stored;
        let (question_end, optional_at) = (stored.question_end(), stored.optional_at.into());
        scratch.set(&AnswerRef { bytes, question_end, optional_at, rcode, options });
        apply_age(&mut scratch.room[..bytes.len()], question_end, Age::Seconds(stored.age));
        self.put(&stored.key, scratch, now, Nanos::from_secs(stored.left.into()));
    }
}

impl CacheSlot {
    /// Returns whether the entry answers this question.
    fn is_for(&self, key: &Key) -> bool {
        self.hash == key.hash
            && (self.qtype, self.view, self.flags) == (key.qtype, key.view, key.flags)
            && (self.group, self.subnet) == (key.group, key.subnet)
            && self.name() == key.name.as_wire()
    }

    /// Returns the name of the question, in wire format.
    fn name(&self) -> &[u8] {
        &self.data[..usize::from(self.name_len)]
    }

    /// Returns the entry for an operator.
    fn shown(&self, now: Nanos) -> Option<CachedAnswer> {
        let message = self.answer().bytes;
        Some(CachedAnswer {
            name: Name::from_wire(self.name()).ok()?,
            qtype: self.qtype,
            rcode: Rcode(self.rcode),
            checking_disabled: self.flags.cd,
            dnssec: self.flags.dnssec,
            records: Header::read(message)?.counts[1],
            octets: message.len(),
            seconds: self.expires.since(now).0 / 1_000_000_000,
        })
    }

    /// Returns the entry for a snapshot; `None` for one that has expired.
    fn stored(&self, worker: u16, now: Nanos) -> Option<StoredAnswer<'_>> {
        let seconds = |time: Nanos| u32::try_from(time.0 / 1_000_000_000).unwrap_or(u32::MAX);
        let AnswerRef { bytes, options, .. } = self.answer();
        Some(StoredAnswer {
            worker,
            key: Key {
                name: Name::from_wire(self.name()).ok()?,
                qtype: self.qtype,
                view: self.view,
                flags: self.flags,
                group: self.group,
                ..Key::default()
            },
            rcode: self.rcode,
            optional_at: self.optional_at,
            age: seconds(now.since(self.stored)),
            left: Some(seconds(self.expires.since(now))).filter(|left| *left > 0)?,
            message: bytes,
            options,
        })
    }

    /// Returns the names other than the question's name of which the entry has records: targets of
    /// aliases, and names of optional records, such as addresses.
    fn targets(&self) -> impl Iterator<Item = Name> {
        let answer = self.answer();
        let aliases = answer.answers().filter(|record| record.rtype == Qtype::CNAME);
        let is_used = |rtype| matches!(rtype, Qtype::A | Qtype::AAAA | Qtype::HTTPS | Qtype::SVCB);
        let optional = records(answer.bytes, answer.optional_at);
        let optional = optional.filter(move |record| is_used(record.rtype));
        let places = aliases.map(|alias| alias.rdata_at).chain(optional.map(|record| record.owner));
        places.filter_map(move |place| name_at(answer.bytes, place))
    }

    fn answer(&self) -> AnswerRef<'_> {
        let (_, rest) = self.data.split_at(usize::from(self.name_len));
        let (bytes, options) = rest.split_at(usize::from(self.message_len));
        AnswerRef {
            bytes,
            question_end: usize::from(self.question_end),
            optional_at: usize::from(self.optional_at),
            rcode: self.rcode,
            options,
        }
    }
}

#[cfg(test)]
mod tests;
