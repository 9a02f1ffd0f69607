//! An update as a message (RFC 2136 section 2): the zone, the prerequisites, the operations.
//!
//! | meaning | class | type | TTL | data | section |
//! |---|---|---|---|---|---|
//! | the name exists | ANY | ANY | 0 | none | prerequisites |
//! | the RRset exists | ANY | its own | 0 | none | prerequisites |
//! | the RRset has this record, and no other that is not named too | IN | its own | 0 | its own | prerequisites |
//! | the name does not exist | NONE | ANY | 0 | none | prerequisites |
//! | the RRset does not exist | NONE | its own | 0 | none | prerequisites |
//! | add a record | IN | its own | its own | its own | updates |
//! | delete an RRset | ANY | its own | 0 | none | updates |
//! | delete a name | ANY | ANY | 0 | none | updates |
//! | delete a record | NONE | its own | 0 | its own | updates |

use std::collections::BTreeSet;

use domain::base::Message;
use domain::base::name::ToName;
use domain::base::rdata::ComposeRecordData;
use domain::rdata::AllRecordData;
use wire::Name;

/// The opcode UPDATE in the second word of a header.
pub(crate) const OPCODE_UPDATE: u16 = 5 << 11;
const CLASS_IN: u16 = 1;
const CLASS_NONE: u16 = 254;
const CLASS_ANY: u16 = 255;
const TYPE_SOA: u16 = 6;
const TYPE_ANY: u16 = 255;
/// Largest size of an update in octets: a length of 16 bits, minus room for a signature.
pub const MAX_MESSAGE: usize = 65_535 - 512;

/// An unsigned dynamic update with uncompressed names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    zone: Name,
    prerequisites: Vec<u8>,
    prerequisite_count: u16,
    operations: Vec<u8>,
    operation_count: u16,
}

/// A change that an update makes to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Adds a record to the name.
    Add {
        /// Number of the record's type.
        rtype: u16,
        /// TTL of the record, in seconds.
        ttl: u32,
        /// The data in wire form.
        data: &'a [u8],
    },
    /// Deletes all records of a name.
    DeleteName,
    /// Deletes the records of one type.
    DeleteRrset {
        /// Number of the records' type.
        rtype: u16,
    },
    /// Deletes the record with this data.
    DeleteRecord {
        /// Number of the record's type.
        rtype: u16,
        /// The data in wire form.
        data: &'a [u8],
    },
}

/// A condition for an update to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prerequisite<'a> {
    /// The name has records of any type.
    NameExists,
    /// The name has no records.
    NameAbsent,
    /// The name has records of this type.
    RrsetExists(u16),
    /// The name has no records of this type.
    RrsetAbsent(u16),
    /// The name has exactly the records of this type that all such prerequisites list, whatever
    /// their TTL.
    Record {
        /// Number of the record's type.
        rtype: u16,
        /// The data in wire form.
        data: &'a [u8],
    },
}

/// The reason why a message is not a usable update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The message ends before or after its last record.
    #[error("the message does not end with its last record")]
    Length,
    /// The message is not a request with opcode UPDATE and one zone.
    #[error("the message is not a dynamic update")]
    NotAnUpdate,
    /// A name is not valid.
    #[error("a name in the message is not valid: {0}")]
    Name(#[from] wire::NameError),
    /// A record has a class and TTL that no operation has.
    #[error("a record of the message does not match RFC 2136 section 2")]
    Record,
    /// The message is too long.
    #[error("the update has more than {MAX_MESSAGE} octets")]
    TooLong,
}

/// Returns whether records of this type remain at the zone's own name if a whole set or name is
/// deleted (RFC 2136 section 3.4.2.3).
pub(crate) fn is_kept_at_apex(rtype: u16) -> bool {
    matches!(
        domain::base::Rtype::from_int(rtype),
        domain::base::Rtype::SOA | domain::base::Rtype::NS
    )
}

impl Update {
    /// Returns an update of `zone` without operations.
    pub fn new(zone: Name) -> Self {
        Update {
            zone,
            prerequisites: Vec::new(),
            prerequisite_count: 0,
            operations: Vec::new(),
            operation_count: 0,
        }
    }

    /// Returns the zone that is updated.
    pub fn zone(&self) -> &Name {
        &self.zone
    }

    /// Returns the same update of another zone.
    ///
    /// # Errors
    /// If the message becomes too long.
    pub(crate) fn in_zone(self, zone: Name) -> Result<Self, MessageError> {
        let moved = Update { zone, ..self };
        moved.check_length().map(|()| moved)
    }

    /// Returns whether there are neither prerequisites nor operations.
    pub fn is_empty(&self) -> bool {
        self.prerequisite_count == 0 && self.operation_count == 0
    }

    /// Adds a prerequisite.
    ///
    /// # Errors
    /// If the message becomes too long.
    pub fn require(&mut self, name: &[u8], what: Prerequisite<'_>) -> Result<(), MessageError> {
        let none: &[u8] = &[];
        let (class, rtype, data) = match what {
            Prerequisite::NameExists => (CLASS_ANY, TYPE_ANY, none),
            Prerequisite::RrsetExists(rtype) => (CLASS_ANY, rtype, none),
            Prerequisite::NameAbsent => (CLASS_NONE, TYPE_ANY, none),
            Prerequisite::RrsetAbsent(rtype) => (CLASS_NONE, rtype, none),
            Prerequisite::Record { rtype, data } => (CLASS_IN, rtype, data),
        };
        Fields { rtype, class, ttl: 0, data }.put(name, &mut self.prerequisites);
        self.prerequisite_count += 1;
        self.check_length()
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// If the message becomes too long.
    pub fn push(&mut self, name: &[u8], operation: Operation<'_>) -> Result<(), MessageError> {
        let record = match operation {
            Operation::Add { rtype, ttl, data } => Fields { rtype, class: CLASS_IN, ttl, data },
            Operation::DeleteName => {
                Fields { rtype: TYPE_ANY, class: CLASS_ANY, ttl: 0, data: &[] }
            }
            Operation::DeleteRrset { rtype } => {
                Fields { rtype, class: CLASS_ANY, ttl: 0, data: &[] }
            }
            Operation::DeleteRecord { rtype, data } => {
                Fields { rtype, class: CLASS_NONE, ttl: 0, data }
            }
        };
        record.put(name, &mut self.operations);
        self.operation_count += 1;
        self.check_length()
    }

    /// Checks the size of the message.
    fn check_length(&self) -> Result<(), MessageError> {
        let length =
            12 + self.zone.wire_len() + 4 + self.prerequisites.len() + self.operations.len();
        if length > MAX_MESSAGE { Err(MessageError::TooLong) } else { Ok(()) }
    }

    /// Returns the message in wire form.
    pub fn to_wire(&self, id: u16) -> Vec<u8> {
        let mut wire = Vec::with_capacity(512);
        let counts = [1, self.prerequisite_count, self.operation_count, 0];
        for word in [id, OPCODE_UPDATE].into_iter().chain(counts) {
            wire.extend_from_slice(&word.to_be_bytes());
        }
        wire.extend_from_slice(&self.zone_section());
        wire.extend_from_slice(&self.prerequisites);
        wire.extend_from_slice(&self.operations);
        wire
    }

    /// Reads an unsigned message without compressed names.
    ///
    /// # Errors
    /// If the message is not such an update.
    pub fn from_wire(wire: &[u8]) -> Result<Self, MessageError> {
        let word = |at: usize| match wire.get(at..at + 2) {
            Some(&[high, low]) => Ok(u16::from_be_bytes([high, low])),
            _ => Err(MessageError::Length),
        };
        let counts = [word(4)?, word(6)?, word(8)?, word(10)?];
        if word(2)? != OPCODE_UPDATE || counts[0] != 1 || counts[3] != 0 {
            return Err(MessageError::NotAnUpdate);
        }
        let end = 12 + wire::name::wire_len(&wire[12..])?;
        let zone = Name::from_wire(&wire[12..end])?;
        let mut at = end + 4;
        if word(end)? != TYPE_SOA || word(end + 2)? != CLASS_IN {
            return Err(MessageError::NotAnUpdate);
        }
        let mut section = |count: u16, check: fn(&RawRecord<'_>) -> bool| {
            let begin = at;
            for _ in 0..count {
                let record = RawRecord::read(wire.get(at..).unwrap_or_default())?;
                if !check(&record) {
                    return Err(MessageError::Record);
                }
                at += record.octets.len();
            }
            Ok(wire[begin..at].to_vec())
        };
        let prerequisites = section(counts[1], |record| record.prerequisite().is_some())?;
        let operations = section(counts[2], |record| record.operation().is_some())?;
        if at != wire.len() {
            return Err(MessageError::Length);
        }
        let (prerequisite_count, operation_count) = (counts[1], counts[2]);
        Ok(Update { zone, prerequisites, prerequisite_count, operations, operation_count })
    }

    /// Returns the prerequisites and their names.
    pub fn prerequisites(&self) -> impl Iterator<Item = (&[u8], Prerequisite<'_>)> {
        records(&self.prerequisites).filter_map(|r| Some((r.name, r.prerequisite()?)))
    }

    /// Returns the operations and their names.
    pub fn operations(&self) -> impl Iterator<Item = (&[u8], Operation<'_>)> {
        records(&self.operations).filter_map(|r| Some((r.name, r.operation()?)))
    }

    /// Returns the zone section in wire form.
    pub(crate) fn zone_section(&self) -> Vec<u8> {
        let mut octets = self.zone.as_wire().to_vec();
        octets.extend_from_slice(&TYPE_SOA.to_be_bytes());
        octets.extend_from_slice(&CLASS_IN.to_be_bytes());
        octets
    }

    /// Returns the records of the prerequisite section in wire form.
    pub(crate) fn raw_prerequisites(&self) -> impl Iterator<Item = &[u8]> {
        records(&self.prerequisites).map(|record| record.octets)
    }

    /// Returns the records of the update section in wire form.
    pub(crate) fn raw_operations(&self) -> impl Iterator<Item = &[u8]> {
        records(&self.operations).map(|record| record.octets)
    }
}

/// The fields of a record after its name.
struct Fields<'a> {
    rtype: u16,
    class: u16,
    ttl: u32,
    data: &'a [u8],
}

impl Fields<'_> {
    /// Appends the record in wire form.
    fn put(&self, name: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(name);
        out.extend_from_slice(&self.rtype.to_be_bytes());
        out.extend_from_slice(&self.class.to_be_bytes());
        out.extend_from_slice(&self.ttl.to_be_bytes());
        // The caller refuses a result that is longer than a message.
        out.extend_from_slice(&(self.data.len() as u16).to_be_bytes());
        out.extend_from_slice(self.data);
    }
}

/// A record in a message.
struct RawRecord<'a> {
    name: &'a [u8],
    rtype: u16,
    class: u16,
    ttl: u32,
    data: &'a [u8],
    /// The whole record in wire form.
    octets: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// Reads the record at the start of `wire`.
    fn read(wire: &'a [u8]) -> Result<Self, MessageError> {
        let end = wire::name::wire_len(wire)?;
        let &[t0, t1, c0, c1, l0, l1, l2, l3, d0, d1] =
            wire.get(end..).and_then(|rest| rest.first_chunk()).ok_or(MessageError::Length)?;
        let length = end + 10 + usize::from(u16::from_be_bytes([d0, d1]));
        Ok(RawRecord {
            name: &wire[..end],
            rtype: u16::from_be_bytes([t0, t1]),
            class: u16::from_be_bytes([c0, c1]),
            ttl: u32::from_be_bytes([l0, l1, l2, l3]),
            data: wire.get(end + 10..length).ok_or(MessageError::Length)?,
            octets: &wire[..length],
        })
    }

    /// Returns the prerequisite that the record encodes.
    fn prerequisite(&self) -> Option<Prerequisite<'a>> {
        let (rtype, data) = (self.rtype, self.data);
        if self.ttl != 0 || (self.class != CLASS_IN && !data.is_empty()) {
            return None;
        }
        match (self.class, rtype) {
            (CLASS_IN, _) => Some(Prerequisite::Record { rtype, data }),
            (CLASS_ANY, TYPE_ANY) => Some(Prerequisite::NameExists),
            (CLASS_NONE, TYPE_ANY) => Some(Prerequisite::NameAbsent),
            (CLASS_ANY, rtype) => Some(Prerequisite::RrsetExists(rtype)),
            (CLASS_NONE, rtype) => Some(Prerequisite::RrsetAbsent(rtype)),
            _ => None,
        }
    }

    /// Returns the operation that the record encodes.
    fn operation(&self) -> Option<Operation<'a>> {
        let (rtype, ttl, data) = (self.rtype, self.ttl, self.data);
        match (self.class, rtype) {
            (CLASS_IN, _) => Some(Operation::Add { rtype, ttl, data }),
            (CLASS_ANY, TYPE_ANY) => Some(Operation::DeleteName),
            (CLASS_ANY, _) => Some(Operation::DeleteRrset { rtype }),
            (CLASS_NONE, _) => Some(Operation::DeleteRecord { rtype, data }),
            _ => None,
        }
    }
}

/// Returns the records of a section that has been checked before.
fn records(mut section: &[u8]) -> impl Iterator<Item = RawRecord<'_>> {
    std::iter::from_fn(move || {
        let record = RawRecord::read(section).ok()?;
        section = &section[record.octets.len()..];
        Some(record)
    })
}

/// Returns the data of all records of a name and type in a reply, also of a referral with its glue, in lower case and uncompressed;
/// `None` if the reply is malformed.
pub fn records_of(reply: &[u8], name: &[u8], rtype: u16) -> Option<BTreeSet<Vec<u8>>> {
    let message = Message::from_octets(reply).ok()?;
    let wanted = domain::base::Name::from_octets(name).ok()?;
    let mut found = BTreeSet::new();
    let (_, answer, authority, additional) = message.sections().ok()?;
    for record in answer.into_iter().chain(authority).chain(additional) {
        let record = record.ok()?;
        if record.rtype().to_int() != rtype || !record.owner().name_eq(&wanted) {
            continue;
        }
        let record = record.to_any_record::<AllRecordData<_, _>>().ok()?;
        let mut data = Vec::new();
        record.data().compose_rdata(&mut data).ok()?;
        data.make_ascii_lowercase();
        found.insert(data);
    }
    Some(found)
}

/// Returns the types of the records of a name in the answer section of a reply; `None` if it is malformed.
pub(crate) fn types_at(reply: &[u8], name: &[u8]) -> Option<Vec<u16>> {
    let message = Message::from_octets(reply).ok()?;
    let wanted = domain::base::Name::from_octets(name).ok()?;
    let records = message.answer().ok()?.filter_map(Result::ok);
    let at_name = records.filter(|record| record.owner().name_eq(&wanted));
    Some(at_name.map(|record| record.rtype().to_int()).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn update() -> Update {
        let mut update = Update::new("test".parse().unwrap());
        update.require(b"\x01a\x04test\0", Prerequisite::NameAbsent).unwrap();
        update.require(b"\x01b\x04test\0", Prerequisite::RrsetExists(2)).unwrap();
        let data = [192, 0, 2, 1];
        update.push(b"\x01a\x04test\0", Operation::Add { rtype: 1, ttl: 60, data: &data }).unwrap();
        update.push(b"\x01b\x04test\0", Operation::DeleteRrset { rtype: 2 }).unwrap();
        update.push(b"\x01c\x04test\0", Operation::DeleteName).unwrap();
        update.push(b"\x01d\x04test\0", Operation::DeleteRecord { rtype: 1, data: &data }).unwrap();
        update
    }

    #[test]
    fn messages_read_back() {
        let wire = update().to_wire(7);
        assert_eq!(&wire[..12], b"\0\x07\x28\0\0\x01\0\x02\0\x04\0\0");
        let read = Update::from_wire(&wire).unwrap();
        assert_eq!(read, update());
        assert_eq!(read.operations().count(), 4);
        assert_eq!(read.prerequisites().next().unwrap().1, Prerequisite::NameAbsent);
        for cut in 0..wire.len() {
            assert!(Update::from_wire(&wire[..cut]).is_err(), "{cut}");
        }
        assert_eq!(Update::from_wire(&[&wire[..], b"x"].concat()), Err(MessageError::Length));
    }

    proptest! {
        #[test]
        fn any_octets_are_read_or_refused(at in 0usize..200, octet: u8, tail: Vec<u8>) {
            let mut wire = update().to_wire(1);
            let at = at % wire.len();
            wire[at] = octet;
            if let Ok(read) = Update::from_wire(&wire) {
                prop_assert_eq!(&read.to_wire(1)[2..], &wire[2..]);
            }
            wire.extend(tail);
            let _ = Update::from_wire(&wire);
        }
    }
}
