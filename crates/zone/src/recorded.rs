//! Records of a zone that were read before, in bounded memory: a record written twice is one (RFC
//! 2181 section 5), and a set of records has one TTL. As in BIND it is that of the first record in
//! the last place of the file where the set stands; a place ends where another owner begins.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use domain::base::Rtype;

use crate::Record;
use crate::rdata::fold_names;

/// Number of records of which every repetition in the file is found, about 40 octets each.
const MAX_RECORDS: usize = 1 << 20;

/// Hashes of the records that were read: all of them up to [`MAX_RECORDS`]; at that number the
/// table is emptied.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    by: RandomState,
    records: HashSet<u64>,
    /// TTLs of sets of records, with the number of the place that has it.
    ttls: HashMap<u64, (u32, u64)>,
    place: u64,
    /// Whether the TTLs are those of an earlier pass.
    again: bool,
    /// Whether the last place of a set changed its TTL.
    changed: bool,
    owner: Vec<u8>,
    data: Vec<u8>,
}

impl Recorded {
    /// Adds a record; returns whether it was new. Names are compared without regard to case, and
    /// TTLs are not.
    pub(crate) fn add(&mut self, record: &Record) -> bool {
        self.reach(record.owner());
        self.data.clear();
        self.data.extend_from_slice(record.data());
        fold_names(record.rtype(), &mut self.data);
        self.records.insert(self.by.hash_one((&self.owner, record.rtype().to_int(), &self.data)))
    }

    /// Notes that a record of this owner follows, also one that is not added: it ends the place of
    /// the records of another.
    pub(crate) fn reach(&mut self, owner: &[u8]) {
        if self.owner.eq_ignore_ascii_case(owner) {
            return;
        }
        self.place += 1;
        // Equal records are next to each other in most zones.
        if self.records.len() >= MAX_RECORDS {
            self.records.clear();
            self.ttls.clear();
        }
        self.owner.clear();
        self.owner.extend(owner.iter().map(u8::to_ascii_lowercase));
    }

    /// Returns owner and data of the record that was added last, with names in lower case.
    pub(crate) fn last(&self) -> (&[u8], &[u8]) {
        (&self.owner, &self.data)
    }

    /// Returns the TTL of the set of the record that was added last, also an existing one; in the
    /// first pass the TTL of the set so far. Signatures of each type are a set of their own.
    pub(crate) fn set_ttl(&mut self, record: &Record) -> u32 {
        let covered = self.data.first_chunk::<2>().filter(|_| record.rtype() == Rtype::RRSIG);
        let set = self.by.hash_one((&self.owner, record.rtype().to_int(), covered));
        let (ttl, place) = self.ttls.entry(set).or_insert((record.ttl(), self.place));
        if !self.again && *place != self.place {
            self.changed |= *ttl != record.ttl();
            (*ttl, *place) = (record.ttl(), self.place);
        }
        *ttl
    }

    /// Forgets the records, but not the TTLs, for another pass over the same file; returns whether
    /// the previous pass returned TTLs that changed later.
    pub(crate) fn read_again(&mut self) -> bool {
        self.records.clear();
        self.again = true;
        std::mem::take(&mut self.changed)
    }
}
