//! Updates that fit a zone: never a name that is already there, never one that is not.
//!
//! One pass over the zone keeps a sample of delegations to change and to delete, and strikes out of a set of new
//! labels those the zone has. A name is in one update at most, so that updates can be sent in any order and lost ones
//! do not make later ones fail. Taken are only delegations without anything below them: deleting one that has glue
//! would leave the glue behind as hosts.

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

/// The most updates of one stream: what is sampled for them is kept in memory.
pub const MAX_UPDATES: u64 = 4_000_000;
/// Delegations whose name servers are borrowed, at least.
const DONORS: u64 = 1_024;
/// The type NS.
const NS: u16 = 2;
/// The type DS.
const DS: u16 = 43;

/// What updates check before they do anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prerequisites {
    /// Nothing.
    None,
    /// That new names are not there, and others are.
    #[default]
    Names,
}

/// A stream of updates to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generate {
    /// How many updates.
    pub count: u64,
    /// In which proportions delegations are changed, added and deleted.
    pub mix: [u32; 3],
    /// What they check.
    pub prerequisites: Prerequisites,
    /// Seed of everything that looks random.
    pub seed: u64,
}

/// Updates made, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    /// Other name servers for a delegation.
    pub changes: u64,
    /// New delegations.
    pub additions: u64,
    /// Delegations gone.
    pub deletions: u64,
}

/// Why no updates were made.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The zone file is bad.
    #[error(transparent)]
    Zone(#[from] ZoneFileError),
    /// Too many are asked for.
    #[error("{0} updates: at most {MAX_UPDATES} in one stream")]
    TooMany(u64),
    /// The proportions are all zero.
    #[error("the proportions of changes, additions and deletions are all zero")]
    NoMix,
    /// The zone has too few delegations.
    #[error(
        "{wanted} changes and deletions need as many delegations with nothing below them; the zone has {found}"
    )]
    TooFew {
        /// Changes and deletions.
        wanted: u64,
        /// Delegations.
        found: u64,
    },
    /// Too many new names are in the zone.
    #[error("only {found} of {wanted} new names are not in the zone: try another seed")]
    Taken {
        /// Additions.
        wanted: u64,
        /// New names.
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
    /// A third each of changes, additions and deletions.
    pub fn new(count: u64, seed: u64) -> Self {
        Generate { count, mix: [1, 1, 1], prerequisites: Prerequisites::Names, seed }
    }

    /// How many of each kind there will be.
    pub fn kinds(&self) -> Generated {
        let whole: u64 = self.mix.iter().map(|&part| u64::from(part)).sum();
        let part = |k: usize| {
            (u128::from(self.count) * u128::from(self.mix[k]) / u128::from(whole.max(1))) as u64
        };
        let (additions, deletions) = (part(1), part(2));
        let changes = if self.mix[0] > 0 { self.count - additions - deletions } else { 0 };
        Generated { changes, additions, deletions }
    }

    /// Makes the updates, and hands each to `out`.
    ///
    /// # Errors
    /// When the zone is bad or does not have what is needed, or `out` fails.
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
        let survey = self.survey(zone, wanted.max(DONORS), left.additions, &mut rng)?;
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
                // By RRset: PowerDNS 4.7 acknowledges the deletion of a delegation's name, and does not do it.
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

    fn change(
        &self,
        update: &mut Update,
        delegation: &Delegation,
        donor: &Delegation,
    ) -> Result<(), MessageError> {
        self.require(update, &delegation.name, Prerequisite::RrsetExists(NS))?;
        update.push(&delegation.name, Operation::DeleteRrset { rtype: NS })?;
        if donor.servers == delegation.servers {
            // The same operator: another one that all zones can name.
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

    fn add(
        &self,
        update: &mut Update,
        name: &Name,
        donor: &Delegation,
    ) -> Result<(), MessageError> {
        self.require(update, name.as_wire(), Prerequisite::NameAbsent)?;
        push_servers(update, name.as_wire(), donor.ttl, &donor.servers)
    }

    /// Looks through the zone.
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
            survey.enter(label, rng);
            survey.see(record.owner(), record.rtype(), record.ttl(), record.data());
        }
        survey.apex = zone.apex().copied().unwrap_or(Name::ROOT);
        survey.leave(rng);
        survey.finish(additions, rng);
        Ok(survey)
    }
}

fn push_servers(
    update: &mut Update,
    name: &[u8],
    ttl: u32,
    servers: &BTreeSet<Box<[u8]>>,
) -> Result<(), MessageError> {
    servers.iter().try_for_each(|data| update.push(name, Operation::Add { rtype: NS, ttl, data }))
}

/// A delegation with nothing below it.
#[derive(Clone, Debug, Default)]
struct Delegation {
    name: Box<[u8]>,
    ttl: u32,
    servers: BTreeSet<Box<[u8]>>,
}

/// What was found in a zone.
struct Survey {
    apex: Name,
    /// A sample, in random order.
    delegations: Vec<Delegation>,
    keep: u64,
    /// Delegations there are.
    found: u64,
    /// Labels drawn, in order, and whether the zone has them.
    drawn: Vec<(Box<[u8]>, bool)>,
    /// Names that the zone does not have, in random order.
    new: Vec<Name>,
    /// The label at hand, what it has, and whether that is a delegation and no more.
    label: Vec<u8>,
    at_hand: Delegation,
    plain: bool,
}

impl Survey {
    fn new(keep: u64, additions: u64, seed: u64) -> Self {
        // Short labels are taken in a large zone.
        let mut labels = Labels::new(
            if additions > 0 { 2 * additions + 64 } else { 0 },
            seed ^ 0x6e65_7721,
            |_| false,
        );
        let mut drawn = Vec::new();
        while let Some(label) = labels.next_label() {
            drawn.push((label.into(), false));
        }
        Survey {
            apex: Name::ROOT,
            delegations: Vec::new(),
            keep,
            found: 0,
            drawn,
            new: Vec::new(),
            label: Vec::new(),
            at_hand: Delegation::default(),
            plain: false,
        }
    }

    /// Goes on to a label, unless it is the one at hand.
    fn enter(&mut self, label: &[u8], rng: &mut Rng) {
        if self.label.eq_ignore_ascii_case(label) {
            return;
        }
        self.leave(rng);
        self.label.clear();
        self.label.extend(label.iter().map(u8::to_ascii_lowercase));
        self.plain = true;
        if let Ok(at) = self.drawn.binary_search_by(|(drawn, _)| drawn[..].cmp(&self.label)) {
            self.drawn[at].1 = true;
        }
    }

    fn see(&mut self, owner: &[u8], rtype: Rtype, ttl: u32, data: &[u8]) {
        if self.at_hand.name.is_empty() {
            self.at_hand.name = owner.into();
            self.at_hand.ttl = ttl;
        }
        self.plain &= NameLabels::of(&self.at_hand.name).count() == NameLabels::of(owner).count();
        match rtype {
            Rtype::NS => drop(self.at_hand.servers.insert(data.into())),
            Rtype::DS | Rtype::RRSIG | Rtype::NSEC => {}
            _ => self.plain = false,
        }
    }

    /// Ends with the label at hand.
    fn leave(&mut self, rng: &mut Rng) {
        let delegation = std::mem::take(&mut self.at_hand);
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

    /// Picks the new names.
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
