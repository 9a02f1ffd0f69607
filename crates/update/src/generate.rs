//! A generator of updates that fit a zone: they add only missing names, and change or delete only existing ones.
//!
//! One pass over the zone keeps a sample of delegations to change and to delete, and removes the labels that the zone
//! has from a set of new labels. Each name is in at most one update, so updates can be sent in any order and lost ones
//! do not make later ones fail. Only delegations without names below them are used: deletion of a delegation with glue
//! would leave the glue as hosts.

use std::collections::BTreeSet;
use std::io::{self, Read};

use domain::base::Rtype;
use measure::Rng;
use wire::Name;
use wire::name::Labels as NameLabels;
use wire::name::order::{Place, place};
use zone::labels::Labels;
use zone::{Reader, ZoneFileError};

use crate::Update;
use crate::message::{MessageError, Operation, Prerequisite};

/// Largest number of updates in one stream; their sample is kept in memory.
pub(crate) const MAX_UPDATES: u64 = 4_000_000;
/// Smallest number of delegations in the sample; their name servers are used for new and changed delegations.
const MIN_DONORS: u64 = 1_024;
const NS: u16 = 2;
const DS: u16 = 43;

/// The prerequisites of generated updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prerequisites {
    /// None: every update is applied.
    None,
    /// A new name does not exist; a changed or deleted one exists.
    #[default]
    Names,
}

/// The parameters of a stream of updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generate {
    /// Number of updates in the stream.
    pub count: u64,
    /// The proportions of changed, added and deleted delegations.
    pub mix: [u32; 3],
    /// The prerequisites of the updates.
    pub prerequisites: Prerequisites,
    /// Seed of the random choices.
    pub seed: u64,
}

/// Number of generated updates, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    /// Number of updates that replace the name servers of a delegation.
    pub changes: u64,
    /// Number of updates that add a delegation.
    pub additions: u64,
    /// Number of updates that delete a delegation.
    pub deletions: u64,
}

/// The reason why updates were not generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The zone file is invalid.
    #[error(transparent)]
    Zone(#[from] ZoneFileError),
    /// The requested number of updates is too large.
    #[error("{0} updates are too many: write at most {MAX_UPDATES}")]
    TooMany(u64),
    /// All three proportions of the mix are zero.
    #[error(
        "the proportions of changes, additions and deletions are all zero: write at least one above zero"
    )]
    NoMix,
    /// The zone has too few delegations.
    #[error(
        "{wanted} changes and deletions need as many delegations without names below them, but the zone has {found}"
    )]
    TooFew {
        /// The number of changes and deletions.
        wanted: u64,
        /// The number of usable delegations.
        found: u64,
    },
    /// Too many of the new names exist in the zone.
    #[error(
        "the zone has too many of the generated names: {found} of {wanted} are new; use another seed"
    )]
    Taken {
        /// Number of additions in the stream.
        wanted: u64,
        /// The number of new names.
        found: u64,
    },
    /// An update is too long.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The updates cannot be written.
    #[error("cannot write the updates: {0}")]
    Write(#[from] io::Error),
}

impl Generate {
    /// Returns parameters for equal numbers of changes, additions and deletions.
    pub fn new(count: u64, seed: u64) -> Self {
        Generate { count, mix: [1, 1, 1], prerequisites: Prerequisites::Names, seed }
    }

    /// Returns the number of updates of each kind.
    pub fn kinds(&self) -> Generated {
        let whole: u64 = self.mix.iter().map(|&part| u64::from(part)).sum();
        let part = |k: usize| {
            (u128::from(self.count) * u128::from(self.mix[k]) / u128::from(whole.max(1))) as u64
        };
        let (additions, deletions) = (part(1), part(2));
        let changes = if self.mix[0] > 0 { self.count - additions - deletions } else { 0 };
        Generated { changes, additions, deletions }
    }

    /// Generates the updates and calls `out` with each.
    ///
    /// # Errors
    /// If the zone is invalid or has too few delegations, or `out` fails.
    pub fn run<R: Read>(
        &self,
        zone: Reader<R>,
        mut out: impl FnMut(&Update) -> io::Result<()>,
    ) -> Result<Generated, GenerateError> {
        if self.count > MAX_UPDATES {
            return Err(GenerateError::TooMany(self.count));
        }
        if self.mix == [0; 3] {
            return Err(GenerateError::NoMix);
        }
        let mut left = self.kinds();
        let mut rng = Rng::part(self.seed, 0x0075_7064_6174);
        let wanted = left.changes + left.deletions;
        let survey = self.survey(zone, wanted.max(MIN_DONORS), left.additions, &mut rng)?;
        if survey.found < wanted || survey.delegations.is_empty() {
            return Err(GenerateError::TooFew { wanted, found: survey.found });
        }
        if (survey.new.len() as u64) < left.additions {
            let (wanted, found) = (left.additions, survey.new.len() as u64);
            return Err(GenerateError::Taken { wanted, found });
        }
        let (mut old, mut new) = (survey.delegations.iter(), survey.new.iter());
        let mut made = Generated::default();
        for total in (1..=left.changes + left.additions + left.deletions).rev() {
            let draw = rng.below(total);
            let donor = &survey.delegations[rng.below(survey.delegations.len() as u64) as usize];
            let mut update = Update::new(survey.apex);
            if draw < left.changes {
                let Some(delegation) = old.next() else { break };
                self.change(&mut update, delegation, donor)?;
                left.changes -= 1;
                made.changes += 1;
            } else if draw < left.changes + left.additions {
                let Some(name) = new.next() else { break };
                self.add(&mut update, name, donor)?;
                left.additions -= 1;
                made.additions += 1;
            } else {
                let Some(delegation) = old.next() else { break };
                self.require(&mut update, &delegation.name, Prerequisite::NameExists)?;
                // Delete RRsets, because PowerDNS 4.7 acknowledges the deletion of a delegation's name but does not do
                // it.
                for rtype in [NS, DS] {
                    update.push(&delegation.name, Operation::DeleteRrset { rtype })?;
                }
                left.deletions -= 1;
                made.deletions += 1;
            }
            out(&update)?;
        }
        Ok(made)
    }

    /// Adds a prerequisite, if updates have prerequisites.
    fn require(
        &self,
        update: &mut Update,
        name: &[u8],
        what: Prerequisite,
    ) -> Result<(), MessageError> {
        match self.prerequisites {
            Prerequisites::None => Ok(()),
            Prerequisites::Names => update.require(name, what),
        }
    }

    /// Makes an update that replaces the name servers of a delegation by the ones of `donor`.
    fn change(
        &self,
        update: &mut Update,
        delegation: &Delegation,
        donor: &Delegation,
    ) -> Result<(), MessageError> {
        self.require(update, &delegation.name, Prerequisite::RrsetExists(NS))?;
        update.push(&delegation.name, Operation::DeleteRrset { rtype: NS })?;
        if donor.servers == delegation.servers {
            // Both delegations would have the same name servers, so use constant names below
            // `invalid` instead.
            let moved = BTreeSet::from([
                b"\x03ns1\x05moved\x07invalid\0".as_slice().into(),
                b"\x03ns2\x05moved\x07invalid\0".as_slice().into(),
            ]);
            let servers = if moved == delegation.servers {
                moved.into_iter().take(1).collect()
            } else {
                moved
            };
            return push_servers(update, &delegation.name, delegation.ttl, &servers);
        }
        push_servers(update, &delegation.name, delegation.ttl, &donor.servers)
    }

    /// Makes an update that adds a delegation with the name servers of `donor`.
    fn add(
        &self,
        update: &mut Update,
        name: &Name,
        donor: &Delegation,
    ) -> Result<(), MessageError> {
        self.require(update, name.as_wire(), Prerequisite::NameAbsent)?;
        push_servers(update, name.as_wire(), donor.ttl, &donor.servers)
    }

    /// Reads the zone and takes the samples.
    fn survey<R: Read>(
        &self,
        mut zone: Reader<R>,
        keep: u64,
        additions: u64,
        rng: &mut Rng,
    ) -> Result<Survey, GenerateError> {
        let mut survey = Survey::new(keep, additions, self.seed);
        while zone.next_record()?.is_some() {
            let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
            let Place::Below(label) = place(record.owner(), apex.as_wire()) else { continue };
            survey.start_label(label, rng);
            survey.add_record(record.owner(), record.rtype(), record.ttl(), record.data());
        }
        survey.apex = zone.apex().copied().unwrap_or(Name::ROOT);
        survey.end_label(rng);
        survey.finish(additions, rng);
        Ok(survey)
    }
}

/// Adds an NS record for each name server.
fn push_servers(
    update: &mut Update,
    name: &[u8],
    ttl: u32,
    servers: &BTreeSet<Box<[u8]>>,
) -> Result<(), MessageError> {
    servers.iter().try_for_each(|data| update.push(name, Operation::Add { rtype: NS, ttl, data }))
}

/// A delegation without names below it.
#[derive(Clone, Debug, Default)]
struct Delegation {
    name: Box<[u8]>,
    ttl: u32,
    servers: BTreeSet<Box<[u8]>>,
}

/// The samples from a zone.
#[derive(Default)]
struct Survey {
    apex: Name,
    /// A sample of the delegations, in random order.
    delegations: Vec<Delegation>,
    /// Largest size of the sample.
    keep: u64,
    /// Number of usable delegations in the zone.
    found: u64,
    /// Random labels in canonical order, each with whether the zone has it.
    drawn: Vec<(Box<[u8]>, bool)>,
    /// Names that are not in the zone, in random order.
    new: Vec<Name>,
    /// The current label next to the apex, in lower case.
    label: Vec<u8>,
    /// The delegation of the current label.
    current: Delegation,
    /// Whether the current label has only a delegation.
    plain: bool,
}

impl Survey {
    fn new(keep: u64, additions: u64, seed: u64) -> Self {
        // More labels than needed, because a large zone has many of the short ones.
        let mut labels = Labels::new(
            if additions > 0 { 2 * additions + 64 } else { 0 },
            seed ^ 0x6e65_7721,
            |_| false,
        );
        let mut drawn = Vec::new();
        while let Some(label) = labels.next_label() {
            drawn.push((label.into(), false));
        }
        Survey { keep, drawn, ..Survey::default() }
    }

    /// Starts a label, unless it is the current one.
    fn start_label(&mut self, label: &[u8], rng: &mut Rng) {
        if self.label.eq_ignore_ascii_case(label) {
            return;
        }
        self.end_label(rng);
        self.label.clear();
        self.label.extend(label.iter().map(u8::to_ascii_lowercase));
        self.plain = true;
        if let Ok(at) = self.drawn.binary_search_by(|(drawn, _)| drawn[..].cmp(&self.label)) {
            self.drawn[at].1 = true;
        }
    }

    /// Adds a record to the current label.
    fn add_record(&mut self, owner: &[u8], rtype: Rtype, ttl: u32, data: &[u8]) {
        if self.current.name.is_empty() {
            self.current.name = owner.into();
            self.current.ttl = ttl;
        }
        self.plain &= NameLabels::of(&self.current.name).count() == NameLabels::of(owner).count();
        match rtype {
            Rtype::NS => drop(self.current.servers.insert(data.into())),
            Rtype::DS | Rtype::RRSIG | Rtype::NSEC => {}
            _ => self.plain = false,
        }
    }

    /// Ends the current label, and puts its delegation into the sample.
    fn end_label(&mut self, rng: &mut Rng) {
        let delegation = std::mem::take(&mut self.current);
        if !self.plain || delegation.servers.is_empty() {
            return;
        }
        self.found += 1;
        if (self.delegations.len() as u64) < self.keep {
            self.delegations.push(delegation);
            let newest = self.delegations.len() - 1;
            let other = rng.below(self.found) as usize;
            self.delegations.swap(newest, other);
        } else if let Some(kept) = self.delegations.get_mut(rng.below(self.found) as usize) {
            *kept = delegation;
        }
    }

    /// Picks as many new names as there are additions, in random order.
    fn finish(&mut self, additions: u64, rng: &mut Rng) {
        let apex = self.apex;
        let free = self.drawn.iter().filter(|(_, taken)| !taken);
        self.new = free.filter_map(|(label, _)| apex.prepend(label).ok()).collect();
        for last in (1..self.new.len()).rev() {
            self.new.swap(last, rng.below(last as u64 + 1) as usize);
        }
        self.new.truncate(additions as usize);
    }
}
