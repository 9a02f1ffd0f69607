//! Whether two zones are the same, in any order of their records, in constant memory.
//!
//! Sums of hashes do not depend on the order. One pass over each zone adds the hash of every record into one of 65,536
//! buckets by its owner; where a bucket differs, a second pass collects its records and says which.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;

use domain::base::Rtype;
use wire::Name;

use crate::{Reader, ZoneFileError};

const BUCKETS: usize = 1 << 16;
/// The most records looked at for their differences.
const MAX_RECORDS: usize = 100_000;

/// How two zones differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Records compared, of each.
    pub records: [u64; 2],
    /// Records that only one has; of large differences, a part.
    pub only: [Vec<String>; 2],
    /// Whether there are more differences than were looked at.
    pub more: bool,
}

impl Difference {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.only.iter().all(Vec::is_empty) && !self.more
    }
}

/// Which records are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// SOA records too; a server counts its serial on.
    pub soa: bool,
    /// What signing adds too: RRSIG, NSEC, NSEC3, NSEC3PARAM, DNSKEY, CDS, CDNSKEY and types of a server's own.
    pub signatures: bool,
}

impl Compared {
    fn takes(self, rtype: Rtype) -> bool {
        match rtype {
            Rtype::SOA => self.soa,
            Rtype::RRSIG
            | Rtype::NSEC
            | Rtype::NSEC3
            | Rtype::NSEC3PARAM
            | Rtype::DNSKEY
            | Rtype::CDS
            | Rtype::CDNSKEY => self.signatures,
            // From here on types are for private use (RFC 6895 section 3.1); signers keep their state there.
            other => other.to_int() < 65_280 || self.signatures,
        }
    }
}

/// Compares two zones; `open` gives each of them anew for each pass.
///
/// # Errors
/// When a zone file is bad.
pub fn compare<R: Read>(
    mut open: [impl FnMut() -> Result<Reader<R>, ZoneFileError>; 2],
    compared: Compared,
) -> Result<Difference, ZoneFileError> {
    let hash = RandomState::new();
    let mut difference = Difference::default();
    let mut sums = vec![0u128; BUCKETS];
    for (side, open) in open.iter_mut().enumerate() {
        let mut zone = open()?;
        each(&mut zone, compared, |record| {
            difference.records[side] += 1;
            let sum = &mut sums[bucket(&hash, record.owner)];
            let hash = record.hash(&hash);
            *sum = if side == 0 { sum.wrapping_add(hash) } else { sum.wrapping_sub(hash) };
        })?;
    }
    if sums.iter().all(|&sum| sum == 0) {
        return Ok(difference);
    }
    // How often each record is in the one zone more than in the other.
    let mut surplus = BTreeMap::<String, i64>::new();
    for (side, open) in open.iter_mut().enumerate() {
        let mut zone = open()?;
        each(&mut zone, compared, |record| {
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

    fn text(&self) -> String {
        let owner = Name::from_wire(self.owner).map_or_else(|e| e.to_string(), |n| n.to_string());
        let data = match self.rtype {
            Rtype::NS | Rtype::CNAME => {
                Name::from_wire(self.data).ok().map(|name| name.to_string())
            }
            _ => None,
        };
        let data = data.unwrap_or_else(|| self.data.iter().map(|o| format!("{o:02x}")).collect());
        format!("{owner} {} {} {data}", self.ttl, self.rtype)
    }
}

fn bucket(hash: &RandomState, owner: &[u8]) -> usize {
    hash.hash_one(owner) as usize % BUCKETS
}

/// Shows each record that is compared to `see`.
fn each<R: Read>(
    zone: &mut Reader<R>,
    compared: Compared,
    mut see: impl FnMut(&Canonical<'_>),
) -> Result<(), ZoneFileError> {
    let (mut owner, mut data) = (Vec::new(), Vec::new());
    let mut soas = 0;
    while let Some(record) = zone.next_record()? {
        let rtype = record.rtype();
        // The answer to a transfer begins and ends with the same SOA record (RFC 5936 section 2.2).
        soas += u32::from(rtype == Rtype::SOA);
        if !compared.takes(rtype) || (rtype == Rtype::SOA && soas > 1) {
            continue;
        }
        owner.clear();
        owner.extend(record.owner().iter().map(u8::to_ascii_lowercase));
        data.clear();
        data.extend_from_slice(record.data());
        if matches!(rtype, Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME) {
            data.make_ascii_lowercase();
        }
        see(&Canonical { owner: &owner, rtype, ttl: record.ttl(), data: &data });
    }
    Ok(())
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
    fn what_differs_is_said() {
        let a = "@ SOA n h 1 2 3 4 5\n@ NS n\nm NS n\no 6 NS n\n";
        let b = "@ SOA n h 1 2 3 4 5\n@ NS n\nm NS k\no NS n\n@ NSEC m NS SOA NSEC\n";
        let found = difference(a, b, Compared::default());
        assert_eq!(found.only[0], ["m.x 5 NS n.x", "o.x 6 NS n.x"]);
        assert_eq!(found.only[1], ["m.x 5 NS k.x", "o.x 5 NS n.x"]);
        assert!(
            !difference(b, &b[..b.len() - 21], Compared { soa: false, signatures: true }).is_none()
        );
    }
}
