//! Comparison of two zones, whose records may be in any order, in constant memory.
//!
//! A sum of hashes does not depend on the order. The first pass over each zone adds the hash of every record to one of
//! 65,536 buckets, chosen by its owner. If a bucket differs, a second pass collects its records and finds the different
//! ones.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;

use domain::base::Rtype;
use wire::Name;

use crate::rdata::{self, encoded};
use crate::recorded::Recorded;
use crate::{Reader, ZoneFileError};

/// Number of buckets into which records are sorted by the hash of their owner.
const BUCKETS: usize = 1 << 16;
/// Largest number of records that the second pass collects.
const MAX_RECORDS: usize = 100_000;

/// The difference between two zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Number of records compared, of each zone; one that is written twice counts once.
    pub records: [u64; 2],
    /// Number of records that have another TTL than their set, which has one as in named.
    pub other_ttls: [u64; 2],
    /// Records that only the first and only the second zone has; for large differences, a part of them.
    pub only: [Vec<String>; 2],
    /// Whether there may be more differences than listed.
    pub more: bool,
}

impl Difference {
    /// Returns whether the zones are equal.
    pub fn is_none(&self) -> bool {
        self.only.iter().all(Vec::is_empty) && !self.more
    }
}

/// The choice of records to compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Whether to compare SOA records; a server changes their serial.
    pub soa: bool,
    /// Whether to compare records that signing adds: RRSIG, NSEC, NSEC3, NSEC3PARAM, DNSKEY, CDS, CDNSKEY and private
    /// types.
    pub signatures: bool,
}

impl Compared {
    /// Returns whether records of a type are compared.
    fn includes(self, rtype: Rtype) -> bool {
        match rtype {
            Rtype::SOA => self.soa,
            Rtype::RRSIG
            | Rtype::NSEC
            | Rtype::NSEC3
            | Rtype::NSEC3PARAM
            | Rtype::DNSKEY
            | Rtype::CDS
            | Rtype::CDNSKEY => self.signatures,
            // Types from 65,280 on are for private use (RFC 6895 section 3.1); signers keep their state there.
            other => other.to_int() < 65_280 || self.signatures,
        }
    }
}

/// Compares two zones; `open` returns a new reader of each zone for each pass.
///
/// # Errors
/// If a zone file is invalid.
pub fn compare<R: Read>(
    mut open: [impl FnMut() -> Result<Reader<R>, ZoneFileError>; 2],
    compared: Compared,
) -> Result<Difference, ZoneFileError> {
    let hash = RandomState::new();
    let mut difference = Difference::default();
    let mut sums = vec![0u128; BUCKETS];
    let mut recorded = [Recorded::default(), Recorded::default()];
    for (side, (open, recorded)) in open.iter_mut().zip(&mut recorded).enumerate() {
        let mut own = vec![0u128; BUCKETS];
        loop {
            difference.records[side] = 0;
            difference.other_ttls[side] = for_each(&mut open()?, recorded, compared, |record| {
                difference.records[side] += 1;
                let sum = &mut own[bucket(&hash, record.owner)];
                *sum = sum.wrapping_add(record.hash(&hash));
            })?;
            if !recorded.read_again() {
                break;
            }
            own.fill(0);
        }
        for (sum, own) in sums.iter_mut().zip(own) {
            *sum = if side == 0 { own } else { sum.wrapping_sub(own) };
        }
    }
    if sums.iter().all(|&sum| sum == 0) {
        return Ok(difference);
    }
    // For each record, its count in the first zone minus its count in the second.
    let mut surplus = BTreeMap::<String, i64>::new();
    for (side, (open, recorded)) in open.iter_mut().zip(&mut recorded).enumerate() {
        for_each(&mut open()?, recorded, compared, |record| {
            if sums[bucket(&hash, record.owner)] == 0 {
                return;
            }
            let text = record.text();
            if surplus.len() >= MAX_RECORDS && !surplus.contains_key(&text) {
                difference.more = true;
                return;
            }
            *surplus.entry(text).or_default() += if side == 0 { 1 } else { -1 };
        })?;
    }
    for (text, surplus) in surplus {
        if surplus != 0 {
            difference.only[usize::from(surplus < 0)].push(text);
        }
    }
    Ok(difference)
}

/// A record in canonical form.
struct Canonical<'a> {
    owner: &'a [u8],
    rtype: Rtype,
    ttl: u32,
    data: &'a [u8],
}

impl Canonical<'_> {
    /// Returns a 128-bit hash of the record.
    fn hash(&self, hash: &RandomState) -> u128 {
        let half = |salt: u8| {
            let mut hasher = hash.build_hasher();
            hasher.write_u8(salt);
            hasher.write(self.owner);
            hasher.write_u16(self.rtype.to_int());
            hasher.write_u32(self.ttl);
            hasher.write(self.data);
            u128::from(hasher.finish())
        };
        half(1) << 64 | half(2)
    }

    /// Returns the record as text for a message.
    fn text(&self) -> String {
        let owner = Name::from_wire(self.owner).map_or_else(|e| e.to_string(), |n| n.to_string());
        let mut data = Vec::new();
        let printed = rdata::print(self.rtype, self.data, &mut data);
        if !printed {
            encoded::put_hex(self.data, &mut data);
        }
        let data = String::from_utf8_lossy(&data);
        format!("{owner} {} {} {data}", self.ttl, self.rtype)
    }
}

/// Returns the bucket of an owner name.
fn bucket(hash: &RandomState, owner: &[u8]) -> usize {
    hash.hash_one(owner) as usize % BUCKETS
}

/// Calls `visit` with each record that is to be compared; returns the number of those with another
/// TTL than their set.
fn for_each<R: Read>(
    zone: &mut Reader<R>,
    recorded: &mut Recorded,
    compared: Compared,
    mut visit: impl FnMut(&Canonical<'_>),
) -> Result<u64, ZoneFileError> {
    let (mut soas, mut other_ttls) = (0, 0);
    while let Some(record) = zone.next_record()? {
        let rtype = record.rtype();
        // A zone transfer starts and ends with the same SOA record (RFC 5936 section 2.2).
        soas += u32::from(rtype == Rtype::SOA);
        if !compared.includes(rtype) || (rtype == Rtype::SOA && soas > 1) {
            recorded.reach(record.owner());
            continue;
        }
        let is_new = recorded.add(record);
        let ttl = recorded.set_ttl(record);
        if !is_new {
            continue;
        }
        other_ttls += u64::from(ttl != record.ttl());
        let (owner, data) = recorded.last();
        visit(&Canonical { owner, rtype, ttl, data });
    }
    Ok(other_ttls)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn difference(a: &str, b: &str, compared: Compared) -> Difference {
        let open =
            |text: &'static str| move || Ok(Reader::new(text.as_bytes(), Path::new("z"), None));
        let leak = |text: &str| -> &'static str { format!("$ORIGIN x.\n$TTL 5\n{text}").leak() };
        let (a, b) = (leak(a), leak(b));
        compare([open(a), open(b)], compared).unwrap()
    }

    #[test]
    fn order_and_case_do_not_matter() {
        let a = "@ SOA n h 1 2 3 4 5\n@ NS n\nn A 192.0.2.1\nm NS N.x.\n";
        let b = "@ SOA n h 7 2 3 4 5\nM NS n\nN A 192.0.2.1\n@ NS n\n@ SOA n h 7 2 3 4 5\n";
        let found = difference(a, b, Compared::default());
        assert!(found.is_none(), "{found:?}");
        assert_eq!(found.records, [3, 3]);
        let found = difference(a, b, Compared { soa: true, signatures: false });
        assert_eq!((found.only[0].len(), found.only[1].len()), (1, 1));
    }

    #[test]
    fn a_record_written_twice_is_one_and_a_set_has_one_ttl() {
        let a = "@ SOA n h 1 2 3 4 5\n@ NS n\nn A 192.0.2.1\nm A 192.0.2.1\nN 7 A 192.0.2.2\nn A 192.0.2.1\n";
        let b = "@ SOA n h 1 2 3 4 5\n@ NS n\nm A 192.0.2.1\nn 7 A 192.0.2.1\nn A 192.0.2.2\n";
        let found = difference(a, b, Compared::default());
        assert!(found.is_none(), "{found:?}");
        assert_eq!((found.records, found.other_ttls), ([4, 4], [1, 1]));
    }

    #[test]
    fn differences_are_listed() {
        let a = "@ SOA n h 1 2 3 4 5\n@ NS n\nm NS n\no 6 NS n\n";
        let b = "@ SOA n h 1 2 3 4 5\n@ NS n\nm NS k\no NS n\n@ NSEC m NS SOA NSEC\n";
        let found = difference(a, b, Compared::default());
        assert_eq!(found.only[0], ["m.x 5 NS n.x.", "o.x 6 NS n.x."]);
        assert_eq!(found.only[1], ["m.x 5 NS k.x.", "o.x 5 NS n.x."]);
        assert!(
            !difference(b, &b[..b.len() - 21], Compared { soa: false, signatures: true }).is_none()
        );
    }
}
