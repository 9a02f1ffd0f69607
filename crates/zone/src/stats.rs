//! Statistics of a zone, which do not depend on the order of its records.
//!
//! A zone in canonical order is counted in one pass and constant memory. Any other order takes further passes, with a
//! bounded number of names in memory.

pub(crate) mod count;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use domain::base::Rtype;
use wire::Name;

use crate::{Reader, ZoneFileError};

/// Statistics of a zone, as `dnsdyno zone stats` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Name of the zone, its apex.
    pub zone: Name,
    /// Size of the file in octets.
    pub octets: u64,
    /// Number of records, equal ones counted once, as servers load them.
    pub records: u64,
    /// Number of records that repeat an earlier one, apart from their TTL. In a zone of more than a
    /// million records, repeats that are far apart are not found.
    pub duplicates: u64,
    /// Number of records of each type, by the number of the type.
    pub types: BTreeMap<u16, u64>,
    /// Number of names with records.
    pub names: u64,
    /// Number of delegations: names with NS records, without the apex and names below a delegation or a DNAME record.
    pub delegations: u64,
    /// Number of delegations with a DS record.
    pub signed_delegations: u64,
    /// Number of NS records of all delegations.
    pub servers: u64,
    /// Number of address records at or below a delegation.
    pub glue: u64,
    /// Number of names below a delegation or a DNAME record; no answer comes from them, other than glue.
    pub occluded: u64,
    /// Number of names with a CNAME record and other data (RFC 2181 section 10.1): servers refuse the zone.
    pub conflicts: u64,
    /// The lowest and the highest TTL, in seconds.
    pub ttls: (u32, u32),
    /// Total size of the labels next to the apex, one for each name, in octets.
    pub label_octets: u64,
    /// Size of the longest of these labels, in octets.
    pub longest_label: usize,
    /// Whether the names are in canonical order.
    pub in_order: bool,
}

impl Stats {
    /// Reads a zone and counts; `open` returns a new reader of the zone for each pass.
    ///
    /// # Errors
    /// If the zone file is invalid, or cannot be read again.
    pub fn of<R: Read>(
        open: impl FnMut() -> Result<Reader<R>, ZoneFileError>,
    ) -> Result<Self, ZoneFileError> {
        count::count(open, count::MAX_NAMES)
    }

    /// Returns the number of records of each type, by the mnemonic of the type.
    pub fn type_counts(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.types.iter().map(|(rtype, count)| (Rtype::from_int(*rtype).to_string(), *count))
    }

    /// Returns whether the zone has signatures.
    pub fn signed(&self) -> bool {
        self.types.contains_key(&Rtype::RRSIG.to_int())
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let per = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        writeln!(f, "zone          {}{}", self.zone, if self.signed() { ", signed" } else { "" })?;
        writeln!(f, "file          {:.1} MB", self.octets as f64 / 1e6)?;
        writeln!(f, "records       {}", self.records)?;
        if self.duplicates > 0 {
            writeln!(f, "duplicates    {} repeated records, counted once", self.duplicates)?;
        }
        writeln!(f, "names         {}", self.names)?;
        if self.names > 1 {
            let mean = per(self.label_octets, self.names.saturating_sub(1));
            writeln!(
                f,
                "labels        {mean:.1} octets on average, longest {}",
                self.longest_label
            )?;
        }
        if self.delegations > 0 {
            let (mean, signed) = (
                per(self.servers, self.delegations),
                share(self.signed_delegations, self.delegations),
            );
            writeln!(
                f,
                "delegations   {}, {mean:.2} name servers each, {signed:.1} % with DS",
                self.delegations
            )?;
            writeln!(f, "glue          {} addresses", self.glue)?;
        }
        if self.occluded > 0 {
            writeln!(f, "occluded      {} names below delegations and DNAMEs", self.occluded)?;
        }
        if self.conflicts > 0 {
            writeln!(
                f,
                "conflicts     {} names with a CNAME record and other data: servers refuse the zone",
                self.conflicts
            )?;
        }
        if self.records > 0 {
            writeln!(f, "TTLs          {} to {} s", self.ttls.0, self.ttls.1)?;
        }
        writeln!(f, "order         {}", if self.in_order { "canonical" } else { "none" })?;
        writeln!(f, "by type")?;
        for (rtype, count) in &self.types {
            let percent = share(*count, self.records);
            writeln!(
                f,
                "  {:<10} {count:>12} {percent:>6.2} %",
                Rtype::from_int(*rtype).to_string()
            )?;
        }
        Ok(())
    }
}
