//! Behaviour of the clients of a population: their rates, think times and idle times.

use std::collections::BTreeMap;

use measure::Nanos;
use record::{ClientStats, Quantiles, SCHEMA, TraceCode};
use wire::Qtype;

use super::Population;
use crate::dns::Dns;

/// Largest number of types that are counted separately; the others count as one.
const MAX_TYPES: usize = 1_024;
const SECONDS_PER_NS: f64 = 1e-9;

impl Population {
    /// Returns the behaviour of the clients; one without a query for `idle` closes its connection. The names of the captures
    /// are left to the caller.
    pub fn behaviour(&self, idle: Nanos) -> ClientStats {
        let mut counts = vec![0u64; self.clients()];
        let mut last: Vec<Option<Nanos>> = vec![None; self.clients()];
        let mut think: Vec<u64> = Vec::with_capacity(self.len());
        let mut open = Open { idle, period: self.period(), ..Open::default() };
        for entry in &self.queries {
            let client = entry.client as usize;
            counts[client] += 1;
            let before = last[client].replace(entry.at);
            think.extend(before.map(|before| entry.at.since(before).0));
            match before.filter(|before| entry.at.since(*before) < idle) {
                Some(before) => open.go_on(before, entry.at),
                None => open.begin(entry.at),
            }
        }
        counts.sort_unstable();
        think.sort_unstable();
        let first_idle = think.partition_point(|time| *time < idle.0);
        let period_s = self.period().as_secs_f64();
        // Queries with the same time have no rate.
        let has_rate = self.span() > Nanos::ZERO;
        let per_second = if has_rate { 1.0 / period_s } else { 0.0 };
        ClientStats {
            schema: SCHEMA,
            captures: Vec::new(),
            incomplete: None,
            clients: self.clients() as u64,
            queries: self.len() as u64,
            left_out: 0,
            period_s,
            qps: self.len() as f64 * per_second,
            queries_per_client: Quantiles::of_sorted(&counts, 1.0),
            qps_per_client: Quantiles::of_sorted(if has_rate { &counts } else { &[] }, per_second),
            think_s: Quantiles::of_sorted(&think, SECONDS_PER_NS),
            idle_after_s: idle.as_secs_f64(),
            idle_s: Quantiles::of_sorted(&think[first_idle..], SECONDS_PER_NS),
            connections: open.connections,
            most_open: open.most,
            mean_open: open.mean(),
            types: self.types(),
        }
    }

    /// Counts the queries by type, the most frequent first; each message is read once.
    fn types(&self) -> Vec<TraceCode> {
        let mut uses = vec![0u64; self.messages.len()];
        self.queries.iter().for_each(|entry| uses[entry.message as usize] += 1);
        let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
        let mut others = 0;
        for (message, count) in self.messages.iter().zip(uses) {
            let question = Dns::read(message).and_then(|dns| dns.question);
            let qtype = question.map(|question| question.qtype.0);
            match qtype.filter(|qtype| counts.len() < MAX_TYPES || counts.contains_key(qtype)) {
                Some(qtype) => *counts.entry(qtype).or_default() += count,
                None => others += count,
            }
        }
        let named = |(qtype, count)| TraceCode { name: Qtype(qtype).to_string(), count };
        let mut types: Vec<TraceCode> = counts.into_iter().map(named).collect();
        if others > 0 {
            types.push(TraceCode { name: String::new(), count: others });
        }
        types.sort_by_key(|kind| std::cmp::Reverse(kind.count));
        types
    }
}

/// Connections that are open: each from a query until `idle` after its last one.
#[derive(Debug, Default)]
struct Open {
    idle: Nanos,
    period: Nanos,
    connections: u64,
    /// Number of connections open at the time of the last query.
    now: u64,
    most: u64,
    /// Times at which connections close, unless further queries keep them open: the time, and the
    /// number of those that stay open.
    closings: BTreeMap<Nanos, i64>,
    /// Open connections times nanoseconds, from which their mean is computed.
    area: u128,
}

impl Open {
    fn begin(&mut self, at: Nanos) {
        self.close_until(at);
        (self.connections, self.now) = (self.connections + 1, self.now + 1);
        self.most = self.most.max(self.now);
        self.keep(at);
    }

    /// A connection with a query at `before` has one more.
    fn go_on(&mut self, before: Nanos, at: Nanos) {
        self.close_until(at);
        *self.closings.entry(before + self.idle).or_default() -= 1;
        self.area -= u128::from(self.open_after(before).since(at.since(before)).0);
        self.keep(at);
    }

    fn keep(&mut self, at: Nanos) {
        *self.closings.entry(at + self.idle).or_default() += 1;
        self.area += u128::from(self.open_after(at).0);
    }

    /// Returns the time for which a connection is open after its last query, within the period.
    fn open_after(&self, at: Nanos) -> Nanos {
        self.idle.min(self.period.since(at))
    }

    fn close_until(&mut self, at: Nanos) {
        while let Some(first) = self.closings.first_entry().filter(|first| *first.key() <= at) {
            let closing = u64::try_from(first.remove()).unwrap_or(0);
            self.now = self.now.saturating_sub(closing);
        }
    }

    /// Returns the mean number of open connections.
    fn mean(&self) -> f64 {
        self.area as f64 / self.period.0.max(1) as f64
    }
}
