//! A generator of query files for a zone, with existing and missing names and the popularity of real traffic.
//!
//! One pass over the zone keeps a sample of its names. Queries are then drawn from the sample: a few names often, most
//! names rarely (Zipf's law), with the mix of types that a name server of a top-level domain receives.

use std::io::{self, Read, Write};

use measure::{Rng, Zipf};
use wire::name::order::{Place, place};
use wire::{LabelRange, Name};

use crate::{Reader, ZoneFileError};

/// Largest number of different names in the queries.
pub const MAX_NAMES: usize = 1 << 18;
/// Query types and their number per thousand queries: the mix at a root server, without obsolete types.
const TYPES: [(&str, u64); 8] = [
    ("A", 640),
    ("AAAA", 150),
    ("MX", 70),
    ("SOA", 40),
    ("NS", 40),
    ("DS", 30),
    ("TXT", 20),
    ("SRV", 10),
];

/// The parameters of a query file.
#[derive(Clone, Debug)]
pub struct Queries {
    /// Number of queries in the file.
    pub count: u64,
    /// The range of labels that queries use.
    pub range: LabelRange,
    /// Share (0 to 1) of queries for names that are not in the zone.
    pub missing: f64,
    /// Share (0 to 1) of queries with `www.` in front of the name.
    pub www: f64,
    /// Zipf exponent of the popularity of names.
    pub exponent: f64,
    /// Seed of the random choices.
    pub seed: u64,
}

/// The reason why no query file was written.
#[derive(Debug, thiserror::Error)]
pub enum QueriesError {
    /// The zone file is invalid.
    #[error(transparent)]
    Zone(#[from] ZoneFileError),
    /// The range contains no name of the zone.
    #[error("the zone has no names below its apex in the range {0}")]
    NoNames(LabelRange),
    /// The query file cannot be written.
    #[error("cannot write the queries: {0}")]
    Write(#[from] io::Error),
}

impl Queries {
    /// Writes the queries in the format of dnsperf; returns the number of different names in the sample.
    ///
    /// # Errors
    /// If the zone is invalid or empty, or writing to `out` fails.
    pub fn write<R: Read>(
        &self,
        zone: Reader<R>,
        out: &mut impl Write,
    ) -> Result<usize, QueriesError> {
        let mut rng = Rng::part(self.seed, 0x0071_7565_7279);
        let (apex, labels) = self.sample(zone, &mut rng)?;
        if labels.is_empty() {
            return Err(QueriesError::NoNames(self.range.clone()));
        }
        let zipf = Zipf::new(labels.len() as u64, self.exponent);
        for _ in 0..self.count {
            let label = &labels[zipf.draw(&mut rng) as usize];
            let missing = rng.unit() < self.missing;
            let name = missing.then(|| self.absent(&apex, label)).flatten();
            let mut name = name.unwrap_or(*label);
            if rng.unit() < self.www {
                name = name.prepend(b"www").unwrap_or(name);
            }
            writeln!(out, "{name} {}", rtype(&mut rng))?;
        }
        out.flush()?;
        Ok(labels.len())
    }

    /// Returns the apex and a sample of the names directly below it, in random order.
    fn sample<R: Read>(
        &self,
        mut zone: Reader<R>,
        rng: &mut Rng,
    ) -> Result<(Name, Vec<Name>), QueriesError> {
        let mut labels = Vec::<Box<[u8]>>::new();
        let (mut last, mut seen) = (Vec::new(), 0);
        while zone.next_record()?.is_some() {
            let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
            let Place::Below(label) = place(record.owner(), apex.as_wire()) else { continue };
            if last.eq_ignore_ascii_case(label) || !self.range.contains(label) {
                continue;
            }
            last.clear();
            last.extend_from_slice(label);
            seen += 1;
            if labels.len() < MAX_NAMES {
                // Insert at a random place, so that popularity does not depend on the alphabet.
                labels.push(label.into());
                let other = rng.below(seen) as usize;
                let newest = labels.len() - 1;
                labels.swap(other, newest);
            } else if let Some(kept) = labels.get_mut(rng.below(seen) as usize) {
                *kept = label.into();
            }
        }
        let apex = zone.apex().copied().unwrap_or(Name::ROOT);
        Ok((apex, labels.iter().filter_map(|label| apex.prepend(label).ok()).collect()))
    }

    /// Returns a name close to `present` that nearly no zone has; `None` if it is not in the range.
    fn absent(&self, apex: &Name, present: &Name) -> Option<Name> {
        let mut label = present.labels().next()?.to_vec();
        label.extend_from_slice(b"--0");
        self.range.contains(&label).then(|| apex.prepend(&label).ok()).flatten()
    }
}

/// Draws a query type by its weight in `TYPES`.
fn rtype(rng: &mut Rng) -> &'static str {
    let mut draw = rng.below(TYPES.iter().map(|(_, weight)| weight).sum());
    for (name, weight) in TYPES {
        if draw < weight {
            return name;
        }
        draw -= weight;
    }
    TYPES[0].0
}
