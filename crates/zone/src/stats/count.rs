//! The passes over a zone that count its names.
//!
//! ```text
//!   first pass    every record ──> records, types, TTLs, order
//!                 each name ─────> names, delegations, glue        final if the names are in canonical order
//!   later passes  the names of some of the labels next to the apex ──> the same, for any order
//! ```
//!
//! Whether a name is a delegation, and whether an address is glue, depends on the names above it. In canonical order
//! these come before it. In any other order a pass collects names, and decides at its end. It takes all names below a
//! label next to the apex, so no name above is missing.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;

use domain::base::Rtype;
use wire::Name;
use wire::name::order::{Place, compare, place};
use wire::name::{Labels, strip_suffix};

use super::Stats;
use crate::recorded::Recorded;
use crate::{Reader, Record, ZoneFileError};

/// Number of names that a later pass keeps in memory, about 100 octets each. It keeps more only if more names share
/// their label next to the apex.
pub(super) const MAX_NAMES: usize = 1 << 21;

/// Records of a name that determine its kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NameCount {
    pub(crate) servers: u32,
    pub(crate) addresses: u32,
    pub(crate) secure: bool,
    pub(crate) dnames: u32,
    pub(crate) aliases: u32,
    /// Whether there are records that must not exist together with a CNAME record.
    pub(crate) others: bool,
}

/// The kind of a name whose names below are occluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Delegation,
    Dname,
}

impl NameCount {
    /// Counts a record of the name.
    pub(crate) fn count(&mut self, rtype: Rtype) {
        match rtype {
            Rtype::CNAME => self.aliases += 1,
            Rtype::RRSIG | Rtype::NSEC | Rtype::KEY | Rtype::SIG | Rtype::NXT => {}
            _ => self.others = true,
        }
        match rtype {
            Rtype::NS => self.servers += 1,
            Rtype::DS => self.secure = true,
            Rtype::A | Rtype::AAAA => self.addresses += 1,
            Rtype::DNAME => self.dnames += 1,
            _ => {}
        }
    }

    /// Returns the kind of cut at the name, if it is one; the apex is none.
    fn cut(&self, at_apex: bool) -> Option<Cut> {
        if self.servers > 0 && !at_apex {
            Some(Cut::Delegation)
        } else {
            (self.dnames > 0).then_some(Cut::Dname)
        }
    }
}

impl Stats {
    fn new() -> Self {
        Stats { ttls: (u32::MAX, 0), in_order: true, ..Stats::default() }
    }

    /// Sets the counts of names to zero.
    fn forget_names(&mut self) {
        let Stats { zone, octets, records, duplicates, ttls, in_order, .. } = *self;
        let types = std::mem::take(&mut self.types);
        *self = Stats { zone, octets, records, duplicates, types, ttls, in_order, ..Stats::new() };
    }

    /// Counts a record of any name.
    fn count_record(&mut self, rtype: Rtype, ttl: u32) {
        self.records += 1;
        *self.types.entry(rtype.to_int()).or_default() += 1;
        self.ttls = (self.ttls.0.min(ttl), self.ttls.1.max(ttl));
    }

    /// Counts a name with all its records; `above` is the highest cut above it.
    fn count_name(&mut self, place: Place<'_>, name: NameCount, above: Option<Cut>) {
        self.names += 1;
        self.conflicts += u64::from(name.aliases > 1 || name.aliases == 1 && name.others);
        let Place::Below(label) = place else { return };
        self.label_octets += label.len() as u64;
        self.longest_label = self.longest_label.max(label.len());
        self.occluded += u64::from(above.is_some());
        let cut = above.or(name.cut(false));
        if cut == Some(Cut::Delegation) {
            self.glue += u64::from(name.addresses);
        }
        if above.is_none() && cut == Some(Cut::Delegation) {
            self.delegations += 1;
            self.servers += u64::from(name.servers);
            self.signed_delegations += u64::from(name.secure);
        }
    }
}

/// Counts a zone; a later pass keeps `max_names` names in memory.
pub(super) fn count<R: Read>(
    mut open: impl FnMut() -> Result<Reader<R>, ZoneFileError>,
    max_names: usize,
) -> Result<Stats, ZoneFileError> {
    let mut zone = open()?;
    let mut first = FirstPass::new();
    while zone.next_record()?.is_some() {
        let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
        first.count(apex, record);
    }
    first.end_name(zone.apex().unwrap_or(&Name::ROOT));
    let FirstPass { mut stats, apex_dname, .. } = first;
    stats.zone = zone.apex().copied().unwrap_or(Name::ROOT);
    stats.octets = zone.octets();
    if stats.in_order {
        return Ok(stats);
    }
    stats.forget_names();
    let hash = RandomState::new();
    let mut pass = Some(LaterPass { hash: &hash, from: 0, to: u64::MAX, names: HashMap::new() });
    while let Some(mut this) = pass.take() {
        this.collect(&mut open()?, &stats, max_names)?;
        pass = this.settle(&mut stats, apex_dname);
    }
    Ok(stats)
}

/// The first pass: counts of names are right as long as the names are in canonical order.
struct FirstPass {
    stats: Stats,
    owner: Vec<u8>,
    name: NameCount,
    /// The highest cut at or above the last name, and its owner.
    cut: Option<Cut>,
    cut_owner: Vec<u8>,
    /// Whether the apex has a DNAME record.
    apex_dname: bool,
    recorded: Recorded,
}

impl FirstPass {
    fn new() -> Self {
        let (owner, cut_owner, name) = (Vec::new(), Vec::new(), NameCount::default());
        let recorded = Recorded::default();
        FirstPass {
            stats: Stats::new(),
            owner,
            name,
            cut: None,
            cut_owner,
            apex_dname: false,
            recorded,
        }
    }

    /// Counts a record in the first pass over the file.
    fn count(&mut self, apex: &Name, record: &Record) {
        let (owner, rtype) = (record.owner(), record.rtype());
        if !self.owner.eq_ignore_ascii_case(owner) {
            self.end_name(apex);
            let sorted = self.owner.is_empty() || compare(&self.owner, owner).is_lt();
            self.stats.in_order &= sorted;
            self.owner.clear();
            self.owner.extend_from_slice(owner);
        }
        if self.recorded.add(record) {
            self.stats.count_record(rtype, record.ttl());
            self.name.count(rtype);
        } else {
            self.stats.duplicates += 1;
        }
    }

    /// Counts the current name, after its last record.
    fn end_name(&mut self, apex: &Name) {
        if self.owner.is_empty() {
            return;
        }
        let name = std::mem::take(&mut self.name);
        let place = place(&self.owner, apex.as_wire());
        self.apex_dname |= place == Place::Apex && name.dnames > 0;
        // A name below the cut; equal owners are one name here.
        let below = self.cut.is_some() && strip_suffix(&self.owner, &self.cut_owner).is_some();
        let above = if below { self.cut } else { None };
        self.stats.count_name(place, name, above);
        if !below {
            self.cut = name.cut(place == Place::Apex);
            self.cut_owner.clone_from(&self.owner);
        }
    }
}

/// A later pass: the names whose label next to the apex has a hash from `from` up to `to`.
struct LaterPass<'a> {
    hash: &'a RandomState,
    from: u64,
    /// Last hash of the pass. The pass halves its range when it has too many names.
    to: u64,
    /// Names by their labels in front of the apex, in lower case.
    names: HashMap<Box<[u8]>, NameCount>,
}

impl<'a> LaterPass<'a> {
    /// Collects the names of the pass.
    ///
    /// # Errors
    /// If the zone does not have as many records as before.
    fn collect<R: Read>(
        &mut self,
        zone: &mut Reader<R>,
        before: &Stats,
        max_names: usize,
    ) -> Result<(), ZoneFileError> {
        let (mut key, mut seen, records) = (Vec::new(), 0, before.records + before.duplicates);
        let mut recorded = (before.duplicates > 0).then(Recorded::default);
        while zone.next_record()?.is_some() {
            let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
            seen += 1;
            key.clear();
            // The reader refuses records that are not in the zone.
            let Some(front) = strip_suffix(record.owner(), apex.as_wire()) else { continue };
            key.extend_from_slice(front);
            key.make_ascii_lowercase();
            if !(self.from..=self.to).contains(&hash(self.hash, &key)) {
                continue;
            }
            if recorded.as_mut().is_some_and(|recorded| !recorded.add(record)) {
                continue;
            }
            if let Some(name) = self.names.get_mut(&key[..]) {
                name.count(record.rtype());
                continue;
            }
            let mut name = NameCount::default();
            name.count(record.rtype());
            self.names.insert(key.as_slice().into(), name);
            while self.names.len() > max_names && self.to > self.from {
                self.halve();
            }
        }
        if seen != records {
            return Err(ZoneFileError::Changed { path: zone.path().to_owned(), records, seen });
        }
        Ok(())
    }

    /// Leaves the upper half of the range to the next pass.
    fn halve(&mut self) {
        self.to = self.from + (self.to - self.from) / 2;
        let (by, to) = (self.hash, self.to);
        self.names.retain(|key, _| hash(by, key) <= to);
    }

    /// Counts the names, and returns the next pass; `None` if this was the last one.
    fn settle(self, stats: &mut Stats, apex_dname: bool) -> Option<LaterPass<'a>> {
        for (key, name) in &self.names {
            match Labels::of(key).last() {
                None => stats.count_name(Place::Apex, *name, None),
                Some(label) => {
                    let above = self.cut_above(key, apex_dname);
                    stats.count_name(Place::Below(label), *name, above);
                }
            }
        }
        let from = self.to.checked_add(1)?;
        Some(LaterPass { hash: self.hash, from, to: u64::MAX, names: HashMap::new() })
    }

    /// Returns the highest cut above a name of the zone.
    fn cut_above(&self, key: &[u8], apex_dname: bool) -> Option<Cut> {
        let mut highest = None;
        let mut rest = key;
        while let Some((&len, _)) = rest.split_first() {
            rest = &rest[1 + usize::from(len)..];
            highest = self
                .names
                .get(rest)
                .filter(|_| !rest.is_empty())
                .and_then(|n| n.cut(false))
                .or(highest);
        }
        if apex_dname { Some(Cut::Dname) } else { highest }
    }
}

/// Returns the hash that assigns a name to a pass, from its last label, so that the names above it
/// are in the same pass.
fn hash(by: &RandomState, key: &[u8]) -> u64 {
    by.hash_one(Labels::of(key).last())
}
