//! What a zone consists of, counted in one pass and constant memory.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use domain::base::Rtype;
use wire::Name;
use wire::name::order::{Place, compare, place};
use wire::name::strip_suffix;

use crate::{Reader, ZoneFileError};

/// The counts of a zone.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The zone.
    pub zone: Name,
    /// Octets of its file.
    pub octets: u64,
    /// Records.
    pub records: u64,
    /// Records by type, by the type's number.
    pub types: BTreeMap<u16, u64>,
    /// Names that have records, counted anew when a name comes back later in the file.
    pub names: u64,
    /// Names other than the apex that have NS records.
    pub delegations: u64,
    /// Delegations with a DS record.
    pub signed_delegations: u64,
    /// Name servers of all delegations.
    pub servers: u64,
    /// Addresses below a delegation that stands right before them.
    pub glue: u64,
    /// The lowest and the highest TTL, seconds.
    pub ttls: (u32, u32),
    /// Octets of the labels next to the apex, one for each name.
    pub label_octets: u64,
    /// The longest of them, octets.
    pub longest_label: usize,
    /// Whether the names stand in canonical order.
    pub in_order: bool,
}

impl Stats {
    /// Counts a zone.
    ///
    /// # Errors
    /// When the zone file is bad.
    pub fn of<R: Read>(mut zone: Reader<R>) -> Result<Self, ZoneFileError> {
        let mut counter = Counter::new();
        while zone.next_record()?.is_some() {
            let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
            counter.see(apex, record.owner(), record.rtype(), record.ttl());
        }
        counter.end_name();
        counter.stats.zone = zone.apex().copied().unwrap_or(Name::ROOT);
        counter.stats.octets = zone.octets();
        Ok(counter.stats)
    }

    /// Records by type, by the type's mnemonic.
    pub fn type_counts(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.types.iter().map(|(rtype, count)| (Rtype::from_int(*rtype).to_string(), *count))
    }

    /// Whether it has signatures.
    pub fn signed(&self) -> bool {
        self.types.contains_key(&Rtype::RRSIG.to_int())
    }
}

/// Counts, and what the name at hand has had so far.
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

    fn see(&mut self, apex: &Name, owner: &[u8], rtype: Rtype, ttl: u32) {
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
                "labels        {mean:.1} octets on average, {} at most",
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
