//! Messages over time, where some have a wrong time.
//!
//! An era has the messages whose times lie less than a year from another of it. Rates and duration are of the era with most
//! messages: a packet of 1970 or 2038 among those of today does not change them.

use measure::Nanos;

use super::rates::{self, Rates};

/// Largest number of eras; messages beyond it belong to the last one.
const MAX_ERAS: usize = 16;

/// Messages with times near each other.
#[derive(Clone, Debug)]
pub struct Era {
    /// Time of the earliest message, since 1970.
    pub first: Nanos,
    /// Time of the latest message, since 1970.
    pub last: Nanos,
    /// Number of messages of the era.
    pub messages: u64,
    /// Rates and series of the era's queries.
    pub queries: Rates,
    /// Rates and series of the era's replies.
    pub replies: Rates,
}

impl Era {
    fn new(at: Nanos, window: Nanos) -> Self {
        let (queries, replies) = (Rates::new(window), Rates::new(window));
        Era { first: at, last: at, messages: 0, queries, replies }
    }

    /// Tells whether a time belongs to the era.
    #[inline]
    fn has(&self, at: Nanos) -> bool {
        self.first.since(at) < Nanos::YEAR && at.since(self.last) < Nanos::YEAR
    }

    /// Returns the time from the first message to the last.
    pub fn duration(&self) -> Nanos {
        self.last.since(self.first)
    }

    /// Returns queries and replies over time: the length of a bin, the start of the first bin, and the counts of each bin.
    pub fn series(&self) -> (Nanos, Nanos, [Vec<u64>; 2]) {
        rates::series(&self.queries, &self.replies)
    }
}

/// The eras of a stream.
#[derive(Clone, Debug)]
pub(super) struct Eras {
    window: Nanos,
    /// The eras; the era of the last message comes first.
    eras: Vec<Era>,
}

impl Eras {
    /// Returns an empty list of eras; bursts are counted in windows of this length.
    pub(super) fn new(window: Nanos) -> Self {
        Eras { window, eras: Vec::new() }
    }

    /// Counts a message; returns its era.
    #[inline]
    pub(super) fn add(&mut self, at: Nanos) -> &mut Era {
        if !self.eras.first().is_some_and(|era| era.has(at)) {
            self.change(at);
        }
        let era = &mut self.eras[0];
        era.messages += 1;
        (era.first, era.last) = (era.first.min(at), era.last.max(at));
        era
    }

    /// Puts the era of a time first, which may be a new one.
    #[cold]
    fn change(&mut self, at: Nanos) {
        let place = self.eras.iter().position(|era| era.has(at)).unwrap_or_else(|| {
            if self.eras.len() < MAX_ERAS {
                self.eras.push(Era::new(at, self.window));
            }
            self.eras.len() - 1
        });
        self.eras.swap(0, place);
    }

    /// Returns the era with most messages, the latest of equal ones; an empty one without messages.
    pub(super) fn main(&self) -> Era {
        let most = self.eras.iter().max_by_key(|era| (era.messages, era.first));
        most.cloned().unwrap_or_else(|| Era::new(Nanos::ZERO, self.window))
    }

    /// Returns the times and the numbers of messages of the other eras, in the order of time.
    pub(super) fn others(&self) -> Vec<(Nanos, u64)> {
        let main = self.main().first;
        let all = self.eras.iter().map(|era| (era.first, era.messages));
        let mut others: Vec<_> = all.filter(|(first, _)| *first != main).collect();
        others.sort_unstable();
        others
    }
}
