//! Applies a stream of updates to a zone file, to compute the zone that a server must have afterwards.
//!
//! The updates are kept in memory by name (their number is bounded); the zone is read as a stream. Prerequisites are
//! ignored: the result is the zone after every update, in the order of the stream.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, Read, Write};

use domain::base::Rtype;
use wire::Name;
use zone::{Reader, Written, ZoneFileError, ZoneWriter};

use crate::generate::MAX_UPDATES;
use crate::message::Operation;
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
    #[error("update {number} is for the zone {found}, but the file has the zone {zone}")]
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

/// An owned copy of an operation on a name.
#[derive(Clone, Debug)]
enum OwnedOperation {
    Add { rtype: u16, ttl: u32, data: Box<[u8]> },
    DeleteName,
    DeleteRrset { rtype: u16 },
    DeleteRecord { rtype: u16, data: Box<[u8]> },
}

/// The records of one name: TTL and data, by type.
type Records = BTreeMap<u16, Vec<(u32, Box<[u8]>)>>;

/// All operations of a stream of updates, by name.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    by_name: HashMap<Box<[u8]>, Vec<OwnedOperation>>,
    zone: Option<Name>,
    updates: u64,
}

impl Changes {
    /// Reads a stream of updates to its end.
    ///
    /// # Errors
    /// If the stream is invalid or too long.
    pub fn read<R: BufRead>(mut updates: UpdateReader<R>) -> Result<Self, ApplyError> {
        let mut changes = Changes::default();
        while let Some(update) = updates.next_update()? {
            changes.updates += 1;
            if changes.updates > MAX_UPDATES {
                return Err(ApplyError::TooMany);
            }
            let zone = *changes.zone.get_or_insert(*update.zone());
            if zone != *update.zone() {
                let (number, found) = (changes.updates, update.zone().to_string());
                return Err(ApplyError::OtherZone { number, found, zone: zone.to_string() });
            }
            for (name, operation) in update.operations() {
                let owned = match operation {
                    Operation::Add { rtype, ttl, data } => {
                        OwnedOperation::Add { rtype, ttl, data: data.into() }
                    }
                    Operation::DeleteName => OwnedOperation::DeleteName,
                    Operation::DeleteRrset { rtype } => OwnedOperation::DeleteRrset { rtype },
                    Operation::DeleteRecord { rtype, data } => {
                        OwnedOperation::DeleteRecord { rtype, data: data.into() }
                    }
                };
                changes.by_name.entry(name.to_ascii_lowercase().into()).or_default().push(owned);
            }
        }
        Ok(changes)
    }

    /// Writes the zone after all updates; its serial number does not change.
    ///
    /// # Errors
    /// If the zone is invalid or another one, or writing to `out` fails.
    pub fn apply<R: Read>(
        mut self,
        mut zone: Reader<R>,
        out: &mut impl Write,
    ) -> Result<Written, ApplyError> {
        let mut file = ZoneWriter::new(out);
        // The records of each changed name, from all places in the file.
        let mut changed = BTreeMap::<Box<[u8]>, Records>::new();
        let mut owner = Vec::new();
        while zone.next_record()?.is_some() {
            let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
            if let Some(other) = self.zone.take().filter(|other| other != apex) {
                let (found, zone) = (other.to_string(), apex.to_string());
                return Err(ApplyError::OtherZone { number: 1, found, zone });
            }
            owner.clear();
            owner.extend(record.owner().iter().map(u8::to_ascii_lowercase));
            if self.by_name.contains_key(&owner[..]) {
                let records = changed.entry(owner[..].into()).or_default();
                let rrset = records.entry(record.rtype().to_int()).or_default();
                rrset.push((record.ttl(), record.data().into()));
            } else {
                file.put(record, apex.as_wire())?;
            }
        }
        let apex = zone.apex().copied().unwrap_or(Name::ROOT);
        let mut names: Vec<_> = self.by_name.into_iter().collect();
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (name, operations) in names {
            let mut records = changed.remove(&name).unwrap_or_default();
            let at_apex = name[..].eq_ignore_ascii_case(apex.as_wire());
            operations.iter().for_each(|operation| change(&mut records, operation, at_apex));
            for (rtype, rrset) in &records {
                for (ttl, data) in rrset {
                    file.put_wire(&name, *ttl, *rtype, data, apex.as_wire())?;
                }
            }
        }
        Ok(file.finish()?)
    }
}

/// Applies one operation to the records of a name (RFC 2136 section 3.4.2).
fn change(records: &mut Records, operation: &OwnedOperation, at_apex: bool) {
    let kept_at_apex =
        |rtype: u16| at_apex && matches!(Rtype::from_int(rtype), Rtype::SOA | Rtype::NS);
    match operation {
        OwnedOperation::DeleteName => records.retain(|rtype, _| kept_at_apex(*rtype)),
        OwnedOperation::DeleteRrset { rtype } if kept_at_apex(*rtype) => {}
        OwnedOperation::DeleteRrset { rtype } => drop(records.remove(rtype)),
        OwnedOperation::DeleteRecord { rtype, data } => {
            if let Some(rrset) = records.get_mut(rtype) {
                let last = kept_at_apex(*rtype) && rrset.len() == 1;
                rrset.retain(|(_, other)| last || other != data);
            }
        }
        OwnedOperation::Add { rtype, ttl, data } => {
            let rrset = records.entry(*rtype).or_default();
            rrset.retain(|(_, other)| other != data);
            rrset.push((*ttl, data.clone()));
            // An RRset has one TTL (RFC 2181 section 5.2): the new one.
            rrset.iter_mut().for_each(|(old, _)| *old = *ttl);
        }
    }
}
