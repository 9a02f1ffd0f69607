//! Populations: the clients of a capture with their queries, and files of them.
//!
//! ```text
//! capture ──Collector──> Population ──sample, slices──> fewer or more clients ──> file ──> load --replay
//!                                   └──behaviour──> rates, think times, idle times, types
//! ```
//!
//! A client is an address that sends queries. More clients than a capture has are made of its time slices, as DNS Shotgun
//! does: each client of each slice becomes one of its own, and all slices begin at the same time. So every client is one
//! that was seen, with its names, its bursts and its pauses.

mod behaviour;
mod file;
mod synthetic;

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use measure::{Nanos, Rng};
use wire::Header;

use crate::capture::{Capture, CaptureError};
use crate::messages::{Message, Messages, Transport};
use crate::source;

pub use self::synthetic::{QUERIES_PER_VISIT, Synthetic};

/// Largest number of clients, since each takes memory.
pub const MAX_CLIENTS: usize = 1 << 20;
/// Largest number of queries; they take a gibibyte.
pub const MAX_QUERIES: usize = 1 << 26;
/// Largest memory of all different messages together, in octets: of each its own, and `MESSAGE_COST`.
pub const MAX_OCTETS: usize = 1 << 30;
/// Memory that a message uses in addition to its octets, approximately.
const MESSAGE_COST: usize = 64;
/// Shortest slice that is chosen by default.
const SHORTEST_SLICE: Nanos = Nanos::from_secs(1);

/// A file that can be replayed.
pub enum Input {
    /// A population, as `dnsdyno trace clients --output` writes it.
    Population(Population),
    /// A capture of any format that is read.
    Capture(Capture),
}

/// Opens a population or a capture; `-` is the standard input.
///
/// # Errors
/// If the file cannot be read, is neither, or is a population that is damaged.
pub fn open(path: &Path) -> Result<Input, CaptureError> {
    let unreadable = |source| CaptureError::Unreadable { path: path.to_owned(), source };
    let mut source = source::open(path).map_err(unreadable)?;
    let mut head = Vec::with_capacity(file::MAGIC.len());
    source.by_ref().take(file::MAGIC.len() as u64).read_to_end(&mut head).map_err(unreadable)?;
    if head == file::MAGIC {
        return Population::read(source, path).map(Input::Population);
    }
    let whole = Cursor::new(head).chain(source);
    Capture::new(Box::new(whole), path).map(Input::Capture)
}

/// A query of a population.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// Time since the start of the population.
    pub at: Nanos,
    /// Number of the client, from 0 in the order of their first queries.
    pub client: u32,
    /// The octets, with the id 0.
    pub message: &'a [u8],
}

/// A query with its message by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: Nanos,
    client: u32,
    message: u32,
}

/// Clients with their queries in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// The address of each client.
    clients: Vec<IpAddr>,
    /// The different messages, with the id 0.
    messages: Vec<Box<[u8]>>,
    queries: Vec<Entry>,
    /// Length of the time that the population covers.
    period: Nanos,
}

/// The reason why a population cannot have a number of clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooFew {
    /// Even the shortest slices have fewer clients.
    #[error(
        "{asked} clients: the capture has {clients}, and slices of {slice} give {found}; \
         give a longer capture, or shorter slices (--slice-length)"
    )]
    Clients {
        /// Requested number of clients.
        asked: usize,
        /// Number of clients of the capture.
        clients: usize,
        /// Length of the shortest slices that were tried.
        slice: Nanos,
        /// Number of clients in these slices.
        found: usize,
    },
    /// More than a population may have.
    #[error("{0} clients: a population has {MAX_CLIENTS} at most")]
    Most(usize),
    /// More queries than a population may have.
    #[error(
        "{0} clients have too many queries: a population has {MAX_QUERIES} at most; take a shorter time"
    )]
    Queries(usize),
}

/// Collects the queries of a capture.
#[derive(Debug, Default)]
pub struct Collector {
    population: Population,
    numbers: HashMap<IpAddr, u32>,
    /// The different messages with their numbers.
    messages: HashMap<Box<[u8]>, u32>,
    octets: usize,
    /// Number of queries that were left out: cut, without a header, a year or more from the others, or beyond a limit.
    pub left_out: u64,
    /// Whether a limit was reached.
    pub full: bool,
}

impl Collector {
    /// Collects the queries of a capture to its end, or to where it is damaged, with an error.
    ///
    /// # Errors
    /// That of the capture; the queries read before are collected.
    pub fn read(&mut self, capture: &mut Capture, ports: &[u16]) -> Result<(), CaptureError> {
        Messages::new(ports.to_vec()).read(capture, |message| self.add(message))
    }

    /// Adds a message if it is a query.
    pub fn add(&mut self, message: &Message<'_>) {
        let Some(header) = Header::read(message.bytes) else {
            self.left_out += 1;
            return;
        };
        if header.is_response() {
            return;
        }
        if message.cut || self.add_query(message).is_none() {
            self.left_out += 1;
        }
    }

    /// Adds a query; `None` if a limit is reached.
    fn add_query(&mut self, message: &Message<'_>) -> Option<()> {
        let client = message.source.ip();
        let known = self.numbers.get(&client).copied();
        if self.population.queries.len() == MAX_QUERIES
            || (known.is_none() && self.numbers.len() == MAX_CLIENTS)
            || self.octets + message.bytes.len() + MESSAGE_COST > MAX_OCTETS
        {
            self.full = true;
            return None;
        }
        let number = known.unwrap_or_else(|| {
            let next = self.population.clients.len() as u32;
            self.numbers.insert(client, next);
            self.population.clients.push(client);
            next
        });
        let mut octets: Box<[u8]> = message.bytes.into();
        octets[..2].fill(0);
        let message_number = match self.messages.get(&octets) {
            Some(&known) => known,
            None => {
                let next = self.messages.len() as u32;
                self.octets += octets.len() + MESSAGE_COST;
                self.messages.insert(octets, next);
                next
            }
        };
        let entry = Entry { at: message.at, client: number, message: message_number };
        self.population.queries.push(entry);
        Some(())
    }

    /// Returns the population, and the number of omitted queries; times count from the first query.
    pub fn finish(self) -> (Population, u64) {
        let (mut population, mut left_out) = (self.population, self.left_out);
        population.messages.resize_with(self.messages.len(), Box::default);
        for (octets, number) in self.messages {
            population.messages[number as usize] = octets;
        }
        // Frames of several cores, or of a server's threads, may be out of order.
        population.queries.sort_by_key(|entry| entry.at);
        left_out += population.keep_main_era();
        let first = population.queries.first().map_or(Nanos::ZERO, |entry| entry.at);
        population.queries.iter_mut().for_each(|entry| entry.at = entry.at.since(first));
        let span = population.span();
        let gaps = population.queries.len().saturating_sub(1).max(1) as u64;
        population.period = span + Nanos((span.0 / gaps).max(1));
        (population.renumbered(), left_out)
    }
}

impl Population {
    /// Returns the number of clients.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Returns whether there is no query.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Returns the length of the time that the population covers: after it a replay begins again.
    pub fn period(&self) -> Nanos {
        self.period
    }

    /// Calls `visit` with each query, in the order of time, as a message over UDP from its client to an unspecified server.
    pub fn messages(&self, mut visit: impl FnMut(&Message<'_>)) {
        let destination = SocketAddr::from(([0, 0, 0, 0], 53));
        for (number, query) in (1..).zip(self.queries()) {
            let source = SocketAddr::new(self.clients[query.client as usize], 0);
            let ends = [source, destination];
            let whole = Message::whole(Transport::Udp, ends, query.at, query.message);
            visit(&Message { frame: number, ..whole });
        }
    }

    /// Drops queries whose times are far from most others; returns their number.
    fn keep_main_era(&mut self) -> u64 {
        let (all, mut start, mut kept) = (self.queries.len(), 0, 0..0);
        for era in self.queries.chunk_by(|one, next| next.at.since(one.at) < Nanos::YEAR) {
            if era.len() >= kept.len() {
                kept = start..start + era.len();
            }
            start += era.len();
        }
        self.queries.truncate(kept.end);
        self.queries.drain(..kept.start);
        (all - self.queries.len()) as u64
    }

    /// Returns the time of the last query.
    fn span(&self) -> Nanos {
        self.queries.last().map_or(Nanos::ZERO, |entry| entry.at)
    }

    /// Returns the queries in the order of time.
    pub fn queries(&self) -> impl Iterator<Item = Query<'_>> {
        self.queries.iter().map(|entry| Query {
            at: entry.at,
            client: entry.client,
            message: &self.messages[entry.message as usize],
        })
    }

    /// Returns a population of `count` clients: some of its clients if there are enough, otherwise
    /// clients of slices of the time, which are `slice` long or as long as the number permits. The
    /// same `seed` chooses the same clients.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn with_clients(
        self,
        count: usize,
        slice: Option<Nanos>,
        seed: u64,
    ) -> Result<Self, TooFew> {
        if count > MAX_CLIENTS {
            return Err(TooFew::Most(count));
        }
        let slice = match slice {
            None if count <= self.clients.len() => return Ok(self.sample(count, seed)),
            None => self.longest_slice(count),
            Some(slice) => slice.min(self.period).max(Nanos(1)),
        };
        let found = self.clients_in(slice);
        if found < count {
            let clients = self.clients.len();
            return Err(TooFew::Clients { asked: count, clients, slice, found });
        }
        Ok(self.sliced(slice).sample(count, seed))
    }

    /// Returns the longest slice with `count` clients, or the shortest one that is tried.
    fn longest_slice(&self, count: usize) -> Nanos {
        let most = (self.period.0 / SHORTEST_SLICE.0).max(1);
        let length = |parts: u64| Nanos(self.period.0 / parts);
        // Each slice has at most all clients.
        let least = (count as u64).div_ceil(self.clients.len().max(1) as u64);
        let (mut low, mut high) = (least.min(most), most);
        // Shorter slices have more clients in all, except for the omitted last part.
        while low < high {
            let middle = low.midpoint(high);
            if self.clients_in(length(middle)) >= count {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        length(low)
    }

    /// Returns the number of whole slices of this length.
    fn slices(&self, length: Nanos) -> u64 {
        (self.period.0 / length.0.max(1)).max(1)
    }

    /// Returns the number of clients that slices of this length have together; a longer one is all of the time.
    pub fn clients_in(&self, length: Nanos) -> usize {
        let length = length.min(self.period).max(Nanos(1));
        let whole = self.slices(length);
        let mut last = vec![u64::MAX; self.clients.len()];
        let mut found = 0;
        for entry in &self.queries {
            let slice = entry.at.0 / length.0;
            let seen = &mut last[entry.client as usize];
            found += usize::from(slice < whole && *seen != slice);
            *seen = slice;
        }
        found
    }

    /// Returns the clients of the slices of this length, all of which begin at the same time.
    fn sliced(mut self, length: Nanos) -> Self {
        let whole = self.slices(length);
        // For each client of the capture: its current slice, and its new client there.
        let mut current = vec![(u64::MAX, 0u32); self.clients.len()];
        let mut clients = Vec::new();
        self.queries.retain(|entry| entry.at.0 / length.0 < whole);
        for entry in &mut self.queries {
            let slice = entry.at.0 / length.0;
            let known = &mut current[entry.client as usize];
            if known.0 != slice {
                *known = (slice, clients.len() as u32);
                clients.push(self.clients[entry.client as usize]);
            }
            entry.client = known.1;
            entry.at = Nanos(entry.at.0 % length.0);
        }
        // The order of each client's queries stays: since they belong to one slice.
        self.queries.sort_by_key(|entry| entry.at);
        (self.clients, self.period) = (clients, length);
        self.renumbered()
    }

    /// Returns `count` of the clients, chosen by chance.
    fn sample(mut self, count: usize, seed: u64) -> Self {
        let all = self.clients.len();
        if count >= all {
            return self;
        }
        let mut rng = Rng::new(seed);
        let mut order: Vec<u32> = (0..all as u32).collect();
        for place in 0..count {
            let other = place + rng.below((all - place) as u64) as usize;
            order.swap(place, other);
        }
        let mut chosen = vec![false; all];
        order[..count].iter().for_each(|client| chosen[*client as usize] = true);
        self.queries.retain(|entry| chosen[entry.client as usize]);
        self.renumbered()
    }

    /// Numbers clients and messages by their first queries, and drops the ones without queries.
    fn renumbered(mut self) -> Self {
        let mut clients = vec![None; self.clients.len()];
        let mut messages = vec![None; self.messages.len()];
        let (mut client_order, mut message_order) = (Vec::new(), Vec::new());
        let number = |known: &mut Option<u32>, order: &mut Vec<u32>, old: u32| {
            *known.get_or_insert_with(|| {
                order.push(old);
                order.len() as u32 - 1
            })
        };
        for entry in &mut self.queries {
            let (client, message) = (entry.client, entry.message);
            entry.client = number(&mut clients[client as usize], &mut client_order, client);
            entry.message = number(&mut messages[message as usize], &mut message_order, message);
        }
        self.clients = client_order.iter().map(|old| self.clients[*old as usize]).collect();
        let mut take = |old: &u32| std::mem::take(&mut self.messages[*old as usize]);
        self.messages = message_order.iter().map(&mut take).collect();
        self
    }
}

#[cfg(test)]
mod tests;
