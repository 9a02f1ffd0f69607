//! Generated queries: a single query, random subdomains, or a mix by Zipf's law.

use measure::Rng;
use wire::{Expect, Invalid, Name, NameError, Qclass, Qtype, compose, reply};

use super::expected::check_by_hash;
use super::file::QueryOptions;
use super::mix::{Mix, MixError, NameKind, Picker};
use super::{ComposedQuery, EdnsTooLong, Workload, opt_record};

/// Characters of a random label: 32 of them, so that each takes five bits.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Length of a random label, in characters: 60 bits.
const RANDOM_LABEL: usize = 12;

/// Kind of the generated queries.
#[derive(Clone, Debug)]
pub enum GeneratedSpec {
    /// The same query each time.
    Single {
        /// Name of each query.
        name: Name,
    },
    /// A new random label below a zone each time ("water torture").
    RandomSubdomain {
        /// Zone below which the random labels are.
        zone: Name,
    },
    /// Names below a zone, some repeated, some new, some missing: `n<k>`, `f<k>` and random ones below `nx`.
    Mix {
        /// Zone that all names are below.
        zone: Name,
        /// Number of popular names, at least 1.
        names: u32,
        /// Zipf's exponent; 1 is usual for DNS.
        exponent: f64,
        /// Share (0 to 1) of popular names among the queries for existing names.
        repeats: f64,
        /// Share (0 to 1) of queries for names below `nx.<zone>`, which does not exist.
        missing: f64,
    },
}

/// Reason why queries cannot be generated.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum GeneratedError {
    /// The zone is too long for labels in front of it.
    #[error("the zone is too long for labels in front of it: {0}")]
    Zone(#[from] NameError),
    /// The mix is not valid.
    #[error(transparent)]
    Mix(#[from] MixError),
    /// The EDNS options are too long.
    #[error(transparent)]
    Edns(#[from] EdnsTooLong),
}

/// The stream of queries of one worker.
#[derive(Clone, Debug)]
pub struct GeneratedWorkload {
    spec: GeneratedSpec,
    /// Types of the queries, used in turn.
    qtypes: Vec<Qtype>,
    class: Qclass,
    /// Place of the next type.
    next_type: usize,
    rng: Rng,
    picker: Option<Picker>,
    /// Number of names queried once so far; workers use different residues.
    fresh: u64,
    step: u64,
    expect: Expect,
    recursion_desired: bool,
    opt: Option<Vec<u8>>,
}

impl GeneratedWorkload {
    /// Makes the stream of `worker` among `workers`, for `seed`, whose queries have the types `qtypes` in turn.
    ///
    /// # Panics
    /// When there is no type.
    ///
    /// # Errors
    /// When the zone is too long for labels in front of it, the mix is not valid, or the EDNS options are too
    /// long.
    pub fn new(
        spec: GeneratedSpec,
        qtypes: Vec<Qtype>,
        options: QueryOptions,
        seed: u64,
        worker: u32,
        workers: u32,
    ) -> Result<Self, GeneratedError> {
        assert!(!qtypes.is_empty(), "the data of a query includes its type");
        let mut picker = None;
        match &spec {
            GeneratedSpec::Single { .. } => {}
            GeneratedSpec::RandomSubdomain { zone } => {
                zone.prepend(&[b'a'; RANDOM_LABEL])?;
            }
            &GeneratedSpec::Mix { zone, names, exponent, repeats, missing } => {
                zone.prepend(b"nx")?.prepend(&[b'a'; RANDOM_LABEL])?;
                let mix = Mix { popular: names.into(), exponent, repeats, missing };
                picker = Some(Picker::new(mix, names.into(), seed, worker)?);
            }
        }
        Ok(GeneratedWorkload {
            spec,
            class: Qclass::IN,
            next_type: worker as usize % qtypes.len(),
            qtypes,
            rng: Rng::part(seed, u64::from(worker)),
            picker,
            fresh: u64::from(worker),
            step: u64::from(workers),
            expect: options.expect,
            recursion_desired: options.recursion_desired,
            opt: opt_record(options.edns.as_ref())?,
        })
    }

    /// Sets a class other than IN.
    pub fn of_class(mut self, class: Qclass) -> Self {
        self.class = class;
        self
    }

    /// Writes the next name; returns its length.
    fn write_name(&mut self, out: &mut [u8; 255]) -> usize {
        match &self.spec {
            GeneratedSpec::Single { name } => append(out, 0, name.as_wire()),
            GeneratedSpec::RandomSubdomain { zone } => {
                let at = random_label(out, &mut self.rng);
                append(out, at, zone.as_wire())
            }
            GeneratedSpec::Mix { zone, .. } => {
                let at = match self.picker.as_mut().map_or(NameKind::Fresh, Picker::next) {
                    NameKind::Missing => {
                        let at = random_label(out, &mut self.rng);
                        append(out, at, b"\x02nx")
                    }
                    NameKind::Popular(rank) => numbered_label(out, b'n', rank),
                    NameKind::Fresh => {
                        self.fresh += self.step;
                        numbered_label(out, b'f', self.fresh)
                    }
                };
                append(out, at, zone.as_wire())
            }
        }
    }
}

/// Appends bytes of a name; returns the new length.
fn append(out: &mut [u8; 255], at: usize, bytes: &[u8]) -> usize {
    out[at..at + bytes.len()].copy_from_slice(bytes);
    at + bytes.len()
}

/// Writes a random label; returns the new length.
fn random_label(out: &mut [u8; 255], rng: &mut Rng) -> usize {
    let mut bits = rng.next_u64();
    out[0] = RANDOM_LABEL as u8;
    for byte in &mut out[1..=RANDOM_LABEL] {
        *byte = ALPHABET[(bits & 31) as usize];
        bits >>= 5;
    }
    1 + RANDOM_LABEL
}

/// Writes a label of a letter and eleven digits, so that all names of a mix have the same length; returns the
/// new length.
fn numbered_label(out: &mut [u8; 255], letter: u8, mut number: u64) -> usize {
    out[0] = RANDOM_LABEL as u8;
    out[1] = letter;
    for byte in out[2..=RANDOM_LABEL].iter_mut().rev() {
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
    }
    1 + RANDOM_LABEL
}

impl Workload for GeneratedWorkload {
    fn next(&mut self, out: &mut [u8]) -> Option<ComposedQuery> {
        let mut question = [0; 255 + 4];
        let name: &mut [u8; 255] = question.first_chunk_mut().expect("longer");
        let end = self.write_name(name);
        let qtype = self.qtypes[self.next_type];
        self.next_type =
            if self.next_type + 1 == self.qtypes.len() { 0 } else { self.next_type + 1 };
        question[end..end + 2].copy_from_slice(&qtype.0.to_be_bytes());
        question[end + 2..end + 4].copy_from_slice(&self.class.0.to_be_bytes());
        let question = &question[..end + 4];
        let len = compose(out, 0, question, self.recursion_desired, self.opt.as_deref());
        Some(ComposedQuery { len, key: reply::question_hash(question) })
    }

    fn check(&mut self, key: u32, message: &[u8]) -> Result<u8, Invalid> {
        check_by_hash(key, u32::MAX, message, &self.expect)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn names(spec: GeneratedSpec, seed: u64, count: usize) -> Vec<String> {
        let options = QueryOptions { recursion_desired: true, ..QueryOptions::default() };
        let mut workload = GeneratedWorkload::new(spec, vec![Qtype::A], options, seed, 0, 1)
            .expect("short enough");
        let mut out = [0; super::super::MAX_QUERY];
        (0..count)
            .map(|_| {
                let composed = workload.next(&mut out).expect("endless");
                Name::from_wire(&out[12..composed.len - 4]).expect("a name").to_string()
            })
            .collect()
    }

    #[test]
    fn types_take_turns() {
        let name = "a.test".parse().expect("a name");
        let options = QueryOptions { recursion_desired: true, ..QueryOptions::default() };
        let types = vec![Qtype::A, Qtype::AAAA, Qtype::MX];
        let spec = GeneratedSpec::Single { name };
        let mut stream =
            GeneratedWorkload::new(spec, types.clone(), options, 1, 0, 1).expect("short");
        for qtype in types.iter().cycle().take(7) {
            let mut out = [0; super::super::MAX_QUERY];
            let len = stream.next(&mut out).expect("endless").len;
            assert_eq!(out[len - 4..len - 2], qtype.0.to_be_bytes());
        }
    }

    #[test]
    fn equal_seeds_give_equal_names() {
        let spec = GeneratedSpec::RandomSubdomain { zone: "example.org".parse().expect("a name") };
        assert_eq!(names(spec.clone(), 1, 50), names(spec.clone(), 1, 50));
        assert_ne!(names(spec.clone(), 1, 50), names(spec, 2, 50));
    }

    #[test]
    fn a_mix_has_its_shares() {
        let zone = "example.org".parse().expect("a name");
        let spec =
            GeneratedSpec::Mix { zone, names: 1_000, exponent: 1.0, repeats: 0.8, missing: 0.1 };
        let mut counts: HashMap<String, u32> = HashMap::new();
        for name in names(spec, 7, 20_000) {
            *counts.entry(name).or_default() += 1;
        }
        let sum = |part: &str, start: &str| {
            counts
                .iter()
                .filter(|(n, _)| n.contains(part) && n.starts_with(start))
                .map(|(_, c)| c)
                .sum::<u32>()
        };
        let missing = sum(".nx.", "");
        assert!((1_700..2_300).contains(&missing), "{missing}");
        let fresh = counts.keys().filter(|n| n.starts_with("f0")).count();
        assert!((3_300..3_900).contains(&fresh), "{fresh} of 18,000 x 0.2");
        let (first, tenth) =
            (counts["n00000000000.example.org"], counts["n00000000009.example.org"]);
        assert!(first > 6 * tenth && first < 16 * tenth, "Zipf: {first} {tenth}");
    }
}
