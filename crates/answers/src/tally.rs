//! Counts of a comparison, with samples.

use std::collections::BTreeMap;

use record::{AnswerDiff, AnswerDifference, AnswerKind, AnswerPair, AnswerServer, AnswerVerdict};

use crate::compare::Outcome;
use crate::kind::{DifferenceKind, Kinds};
use crate::spool::Raw;
use crate::stable::Pairs;

/// Largest number of samples of each kind and verdict.
const MAX_SAMPLES: usize = 5;

pub(crate) struct Tally {
    servers: Vec<AnswerServer>,
    /// The first error of each server.
    errors: Vec<Option<String>>,
    pub(crate) asked: u64,
    pub(crate) equal: u64,
    /// Queries by verdict: differs, known, unstable.
    verdicts: [u64; 3],
    kinds: BTreeMap<DifferenceKind, AnswerKind>,
    /// Queries that two servers answer differently, by the first kind in which they do.
    pairs: BTreeMap<[usize; 2], BTreeMap<DifferenceKind, u64>>,
}

impl Tally {
    /// Makes an empty tally for servers with these names.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let server = |name: &str| AnswerServer { name: name.to_owned(), ..AnswerServer::default() };
        let mut servers: Vec<AnswerServer> = names.map(server).collect();
        if servers.len() > 2 {
            servers.iter_mut().for_each(|server| server.alone = Some(0));
        }
        let (kinds, pairs) = (BTreeMap::new(), BTreeMap::new());
        let errors = vec![None; servers.len()];
        Tally { servers, errors, asked: 0, equal: 0, verdicts: [0; 3], kinds, pairs }
    }

    /// Counts the first outcome of a query at each server.
    pub(crate) fn count(&mut self, raw: &[Raw], seen: &[Outcome]) {
        self.asked += 1;
        for (first, raw) in self.errors.iter_mut().zip(raw) {
            if let (None, Raw::Failed(why)) = (&first, raw) {
                *first = Some(why.clone());
            }
        }
        for (server, (raw, seen)) in self.servers.iter_mut().zip(raw.iter().zip(seen)) {
            match seen {
                Outcome::Answer(answer) => {
                    server.replies += 1;
                    *server.rcodes.entry(answer.rcode.to_string()).or_default() += 1;
                }
                Outcome::Malformed => server.malformed += 1,
                Outcome::Timeout => server.timeouts += 1,
                Outcome::Failed => server.errors += 1,
            }
            server.over_tcp += u64::from(matches!(raw, Raw::Message { tcp: true, .. }));
        }
    }

    /// Returns the name of a server without any reply, and its first error after a colon if it has one.
    pub(crate) fn silent(&self) -> Option<(&str, String)> {
        let mut all = self.servers.iter().zip(&self.errors);
        let (server, error) = all.find(|(server, _)| server.replies + server.malformed == 0)?;
        let why = error.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        Some((&server.name, why))
    }

    /// Counts a query whose answers differ.
    pub(crate) fn add(
        &mut self,
        found: AnswerDifference,
        first: DifferenceKind,
        all: Kinds,
        pairs: &Pairs,
    ) {
        self.verdicts[found.verdict as usize] += 1;
        let of_kind = |kind: DifferenceKind| AnswerKind {
            kind: kind.word().to_owned(),
            ..AnswerKind::default()
        };
        let counts = self.kinds.entry(first).or_insert_with(|| of_kind(first));
        let count = match found.verdict {
            AnswerVerdict::Differs => &mut counts.differ,
            AnswerVerdict::Known => &mut counts.known,
            AnswerVerdict::Unstable => &mut counts.unstable,
        };
        *count += 1;
        let stable = found.verdict != AnswerVerdict::Unstable;
        let groups = &found.groups;
        if stable && groups.len() == 2 {
            let alone = groups.iter().filter(|group| group.len() == 1).map(|group| group[0]);
            alone.for_each(|server| {
                self.servers[server].alone = self.servers[server].alone.map(|count| count + 1);
            });
        }
        if *count <= MAX_SAMPLES as u64 {
            counts.samples.push(found);
        }
        if !stable {
            return;
        }
        for kind in all.iter() {
            self.kinds.entry(kind).or_insert_with(|| of_kind(kind)).among += 1;
        }
        for (pair, kind) in pairs.unlike() {
            *self.pairs.entry(pair).or_default().entry(kind).or_default() += 1;
        }
    }

    /// Writes the counts into a record.
    pub(crate) fn finish(self, record: &mut AnswerDiff) {
        let [differ, known, unstable] = self.verdicts;
        (record.asked, record.equal) = (self.asked, self.equal);
        (record.differ, record.known, record.unstable) = (differ, known, unstable);
        record.servers = self.servers;
        record.kinds = self.kinds.into_values().collect();
        for kind in &mut record.kinds {
            kind.samples.sort_by_key(|sample| (sample.verdict, sample.number));
        }
        let pair =
            |([first, second], kinds): ([usize; 2], BTreeMap<DifferenceKind, u64>)| AnswerPair {
                first,
                second,
                differ: kinds.values().sum(),
                kinds: kinds.into_iter().map(|(kind, n)| (kind.word().to_owned(), n)).collect(),
            };
        record.pairs = self.pairs.into_iter().map(pair).collect();
    }
}
