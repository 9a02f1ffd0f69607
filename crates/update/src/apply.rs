//! Applies a stream of updates to a zone file, to compute the zone that a server must have afterwards.
//!
//! The updates are kept in memory (their number is bounded), with the records of the names that they read or change; the rest of
//! the zone is read as a stream. An update whose prerequisites do not hold changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufRead, Read, Write};

use domain::base::Rtype;
use wire::{Name, name};
use zone::{Reader, Written, ZoneFileError, ZoneWriter, fold_names};

use crate::Update;
use crate::generate::MAX_UPDATES;
use crate::message::{Operation, Prerequisite, is_kept_at_apex};
use crate::stream::{StreamError, UpdateReader};

/// The reason why the updates were not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The zone file is invalid.
    #[error(transparent)]
    Zone(#[from] ZoneFileError),
    /// The stream of updates is invalid.
    #[error(transparent)]
    Updates(#[from] StreamError),
    /// There are too many updates.
    #[error(
        "there are more than {MAX_UPDATES} updates, the largest number that can be applied at once"
    )]
    TooMany,
    /// An update is for another zone.
    #[error("update {number} is for the zone {found}, but the zone of the file is {zone}")]
    OtherZone {
        /// The number of the update, from 1.
        number: u64,
        /// The zone of the update.
        found: String,
        /// The zone of the file.
        zone: String,
    },
    /// The zone cannot be written.
    #[error("cannot write the zone: {0}")]
    Write(#[from] io::Error),
}

const SOA: u16 = 6;

/// The records of one name: TTL and data, by type; no set is empty.
type Records = BTreeMap<u16, Vec<(u32, Box<[u8]>)>>;

/// The updates of a stream, with the names that they read or change.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    updates: Vec<Update>,
    /// The names in lower case, each as it is first written: in the zone, else in the updates.
    names: HashMap<Box<[u8]>, Box<[u8]>>,
}

/// Size of a zone to which updates were applied, and the updates without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Size of the zone that was written.
    pub written: Written,
    /// Number of updates that changed nothing, because a prerequisite did not hold, or a name is
    /// not in the zone.
    pub unmet: u64,
}

impl Changes {
    /// Reads a stream of updates to its end.
    ///
    /// # Errors
    /// If the stream is invalid or too long.
    pub fn read<R: BufRead>(mut updates: UpdateReader<R>) -> Result<Self, ApplyError> {
        let mut changes = Changes::default();
        while let Some(update) = updates.next_update()? {
            if changes.updates.len() as u64 == MAX_UPDATES {
                return Err(ApplyError::TooMany);
            }
            let zone = *changes.updates.first().unwrap_or(&update).zone();
            if zone != *update.zone() {
                let (number, found) = (changes.updates.len() as u64 + 1, update.zone().to_string());
                return Err(ApplyError::OtherZone { number, found, zone: zone.to_string() });
            }
            let required = update.prerequisites().map(|(name, _)| name);
            let names = required.chain(update.operations().map(|(name, _)| name));
            for name in names {
                let written = changes.names.entry(name.to_ascii_lowercase().into());
                written.or_insert_with(|| name.into());
            }
            changes.updates.push(update);
        }
        Ok(changes)
    }

    /// Writes the zone after all updates; its SOA record does not change.
    ///
    /// # Errors
    /// If the zone is invalid or another one, or writing to `out` fails.
    pub fn apply<R: Read>(
        mut self,
        mut zone: Reader<R>,
        out: &mut impl Write,
    ) -> Result<Applied, ApplyError> {
        let mut file = ZoneWriter::new(out);
        // The records of each of the names, from all places in the file.
        let mut names = BTreeMap::<Box<[u8]>, Records>::new();
        let mut owner = Vec::new();
        while zone.next_record()?.is_some() {
            let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
            if let Some(other) = self.updates.first().map(Update::zone).filter(|z| *z != apex) {
                let (found, zone) = (other.to_string(), apex.to_string());
                return Err(ApplyError::OtherZone { number: 1, found, zone });
            }
            owner.clear();
            owner.extend(record.owner().iter().map(u8::to_ascii_lowercase));
            let written = self.names.get_mut(&owner[..]);
            let is_named = written.is_some();
            if let Some(written) = written {
                let records = names.entry(owner[..].into()).or_insert_with(|| {
                    *written = record.owner().into();
                    Records::new()
                });
                let rrset = records.entry(record.rtype().to_int()).or_default();
                rrset.push((record.ttl(), record.data().into()));
            }
            if !is_named || record.rtype() == Rtype::SOA {
                file.put(record, apex.as_wire())?;
            }
        }
        let apex = zone.apex().copied().unwrap_or(Name::ROOT);
        let mut unmet = 0;
        for update in &self.updates {
            if !is_inside(update, &apex) || !required(update, &names) {
                unmet += 1;
                continue;
            }
            for (name, operation) in update.operations() {
                let name = name.to_ascii_lowercase();
                let at_apex = name[..].eq_ignore_ascii_case(apex.as_wire());
                change(names.entry(name.into()).or_default(), &operation, at_apex);
            }
        }
        for (name, records) in &names {
            let owner = self.names.get(name).unwrap_or(name);
            // The SOA record is the first of the file.
            for (rtype, rrset) in records.iter().filter(|(rtype, _)| **rtype != SOA) {
                for (ttl, data) in rrset {
                    file.put_wire(owner, *ttl, *rtype, data, apex.as_wire())?;
                }
            }
        }
        Ok(Applied { written: file.finish()?, unmet })
    }
}

/// Returns data with its names in lower case, in which it is compared (RFC 4343).
fn folded(rtype: u16, data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    fold_names(Rtype::from_int(rtype), &mut data);
    data
}

/// Returns whether all names of an update are in the zone; else a server makes none of its changes
/// (RFC 2136 section 3.4.1).
fn is_inside(update: &Update, apex: &Name) -> bool {
    let is_inside = |owner| name::strip_suffix(owner, apex.as_wire()).is_some();
    let mut required = update.prerequisites().map(|(owner, _)| owner);
    required.all(is_inside) && update.operations().all(|(owner, _)| is_inside(owner))
}

/// Returns whether the prerequisites of an update hold (RFC 2136 section 3.2).
fn required(update: &Update, names: &BTreeMap<Box<[u8]>, Records>) -> bool {
    // Records that are required make up the whole set of their name and type.
    let mut sets = BTreeMap::<(Vec<u8>, u16), BTreeSet<Vec<u8>>>::new();
    let rrset = |name: &[u8], rtype: u16| names.get(name).and_then(|records| records.get(&rtype));
    let hold = update.prerequisites().all(|(name, what)| {
        let name = name.to_ascii_lowercase();
        let exists = || names.get(&name[..]).is_some_and(|records| !records.is_empty());
        match what {
            Prerequisite::NameExists => exists(),
            Prerequisite::NameAbsent => !exists(),
            Prerequisite::RrsetExists(rtype) => rrset(&name, rtype).is_some(),
            Prerequisite::RrsetAbsent(rtype) => rrset(&name, rtype).is_none(),
            Prerequisite::Record { rtype, data } => {
                sets.entry((name, rtype)).or_default().insert(folded(rtype, data));
                true
            }
        }
    });
    hold && sets.iter().all(|((name, rtype), wanted)| {
        let there = rrset(name, *rtype).into_iter().flatten();
        there.map(|(_, data)| folded(*rtype, data)).collect::<BTreeSet<_>>() == *wanted
    })
}

/// Applies one operation to the records of a name (RFC 2136 section 3.4.2).
fn change(records: &mut Records, operation: &Operation<'_>, at_apex: bool) {
    let kept_at_apex = |rtype: u16| at_apex && is_kept_at_apex(rtype);
    match *operation {
        Operation::DeleteName => records.retain(|rtype, _| kept_at_apex(*rtype)),
        Operation::DeleteRrset { rtype } if kept_at_apex(rtype) => {}
        Operation::DeleteRrset { rtype } => drop(records.remove(&rtype)),
        Operation::DeleteRecord { rtype, data } => {
            let deleted = folded(rtype, data);
            if let Some(rrset) = records.get_mut(&rtype) {
                let last = kept_at_apex(rtype) && rrset.len() == 1;
                rrset.retain(|(_, other)| last || folded(rtype, other) != deleted);
                if rrset.is_empty() {
                    records.remove(&rtype);
                }
            }
        }
        Operation::Add { rtype, ttl, data } => add(records, rtype, ttl, data),
    }
}

/// Adds a record, or ignores it as RFC 2136 section 3.4.2.2 says beside a CNAME record, and a CNAME
/// record beside others. The SOA record is not changed.
fn add(records: &mut Records, rtype: u16, ttl: u32, data: &[u8]) {
    let number = Rtype::from_int(rtype);
    // Signatures and proofs may exist beside any record (RFC 4035 section 2.5).
    let beside_any = |rtype: u16| {
        matches!(Rtype::from_int(rtype), Rtype::RRSIG | Rtype::NSEC | Rtype::KEY | Rtype::SIG)
    };
    let has_other = |is: &dyn Fn(Rtype) -> bool| {
        records.keys().any(|other| !beside_any(*other) && is(Rtype::from_int(*other)))
    };
    let ignored = match number {
        _ if beside_any(rtype) => false,
        Rtype::CNAME => has_other(&|other| other != Rtype::CNAME),
        Rtype::SOA => true,
        _ => has_other(&|other| other == Rtype::CNAME),
    };
    if ignored {
        return;
    }
    let rrset = records.entry(rtype).or_default();
    let added = folded(rtype, data);
    rrset.retain(|(_, other)| match number {
        // A name has one record of these types: the new one.
        Rtype::CNAME | Rtype::DNAME | Rtype::NSEC => false,
        // There is one for each address and protocol (RFC 2136 section 3.4.2.2).
        Rtype::WKS => other.get(..5) != added.get(..5),
        _ => folded(rtype, other) != added,
    });
    rrset.push((ttl, data.into()));
    // An RRset has one TTL (RFC 2181 section 5.2): the new one.
    rrset.iter_mut().for_each(|(old, _)| *old = ttl);
}
