//! Statistics of a zone, counted in one pass and constant memory.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use domain::base::Rtype;
use wire::Name;
use wire::name::order::{Place, compare, place};
use wire::name::strip_suffix;

use crate::{Reader, ZoneFileError};

/// Statistics of a zone.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The zone name.
    pub zone: Name,
    /// Size of the file in octets.
    pub octets: u64,
    /// Number of records.
    pub records: u64,
    /// Number of records of each type, by the number of the type.
    pub types: BTreeMap<u16, u64>,
    /// Number of names with records; a name counts again if it occurs again later in the file.
    pub names: u64,
    /// Number of names with NS records, without the apex.
    pub delegations: u64,
    /// Number of delegations with a DS record.
    pub signed_delegations: u64,
    /// Number of NS records of all delegations.
    pub servers: u64,
    /// Number of address records below the last delegation before them in the file.
    pub glue: u64,
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
    /// Reads a zone and counts.
    ///
    /// # Errors
    /// If the zone file is invalid.
    pub fn of<R: Read>(mut zone: Reader<R>) -> Result<Self, ZoneFileError> {
        let mut counter = Counter::new();
        while zone.next_record()?.is_some() {
            let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
            counter.count(apex, record.owner(), record.rtype(), record.ttl());
        }
        counter.end_name();
        counter.stats.zone = zone.apex().copied().unwrap_or(Name::ROOT);
        counter.stats.octets = zone.octets();
        Ok(counter.stats)
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

/// The counts so far, and the state of the current name.
struct Counter {
    stats: Stats,
    owner: Vec<u8>,
    at_apex: bool,
    servers: u64,
    secure: bool,
    delegation: Vec<u8>,
}

impl Counter {
    fn new() -> Self {
        let stats = Stats {
            zone: Name::ROOT,
            octets: 0,
            records: 0,
            types: BTreeMap::new(),
            names: 0,
            delegations: 0,
            signed_delegations: 0,
            servers: 0,
            glue: 0,
            ttls: (u32::MAX, 0),
            label_octets: 0,
            longest_label: 0,
            in_order: true,
        };
        let (owner, delegation) = (Vec::new(), Vec::new());
        Counter { stats, owner, at_apex: true, servers: 0, secure: false, delegation }
    }

    /// Counts a record.
    fn count(&mut self, apex: &Name, owner: &[u8], rtype: Rtype, ttl: u32) {
        self.stats.records += 1;
        *self.stats.types.entry(rtype.to_int()).or_default() += 1;
        self.stats.ttls = (self.stats.ttls.0.min(ttl), self.stats.ttls.1.max(ttl));
        if !self.owner.eq_ignore_ascii_case(owner) {
            self.end_name();
            let sorted = self.owner.is_empty() || compare(&self.owner, owner).is_lt();
            self.stats.in_order &= sorted;
            self.owner.clear();
            self.owner.extend_from_slice(owner);
            self.stats.names += 1;
            let place = place(owner, apex.as_wire());
            self.at_apex = place == Place::Apex;
            if let Place::Below(label) = place {
                self.stats.label_octets += label.len() as u64;
                self.stats.longest_label = self.stats.longest_label.max(label.len());
            }
        }
        match rtype {
            Rtype::NS => self.servers += 1,
            Rtype::DS => self.secure = true,
            Rtype::A | Rtype::AAAA => {
                let below =
                    !self.delegation.is_empty() && strip_suffix(owner, &self.delegation).is_some();
                self.stats.glue += u64::from(below);
            }
            _ => {}
        }
    }

    /// Counts the current name as a delegation if it is one.
    fn end_name(&mut self) {
        if self.servers > 0 && !self.at_apex {
            self.stats.delegations += 1;
            self.stats.servers += self.servers;
            self.stats.signed_delegations += u64::from(self.secure);
            self.delegation.clone_from(&self.owner);
        }
        (self.servers, self.secure) = (0, false);
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let per = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        writeln!(f, "zone          {}{}", self.zone, if self.signed() { ", signed" } else { "" })?;
        writeln!(f, "file          {:.1} MB", self.octets as f64 / 1e6)?;
        writeln!(f, "records       {}", self.records)?;
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
