//! The tally: counts of the outcomes of a trial's queries.
//!
//! ```text
//! sent = answered + lost + unresolved      every query that left ends as one of these
//! unserved                                 queries that never left: they found no connection in time
//! answered = valid + invalid               in time
//! late, duplicates, unexpected             replies without an outstanding query, not in the sum
//! ```

use measure::stall::Disturbances;
use measure::{Histogram, Nanos, Outstanding, Qps};
use wire::Invalid;

use crate::outstanding::OutstandingCounts;
use crate::plan::Plan;
use crate::steps::Steps;

/// Return code of a name that does not exist.
pub(crate) const NXDOMAIN: usize = 3;

/// Counts of one second of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Queries that left in this second.
    pub sent: u64,
    /// Queries given up in this second because they found no connection.
    pub unserved: u64,
    /// Replies in time to queries that left in this second.
    pub answered: u64,
    /// Number of valid replies among `answered`.
    pub valid: u64,
    /// Connections that were established in this second.
    pub connections: u64,
    /// The replies other than NOERROR and the invalid ones; none yet if absent.
    pub codes: Option<Box<Codes>>,
}

/// Replies of one second that are not NOERROR or not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes {
    /// Replies by return code; the last entry has all codes above 30.
    pub rcodes: [u32; 32],
    /// Invalid replies by reason ([`Invalid::index`]).
    pub invalid: [u32; Invalid::COUNT],
}

impl Default for Codes {
    fn default() -> Self {
        Codes { rcodes: [0; 32], invalid: [0; Invalid::COUNT] }
    }
}

impl Second {
    /// Counts a reply in time, which is invalid for a reason or valid.
    #[inline]
    pub(crate) fn add_reply(&mut self, rcode: usize, invalid: Option<Invalid>) {
        self.answered += 1;
        self.valid += u64::from(invalid.is_none());
        if rcode == 0 && invalid.is_none() {
            return;
        }
        let codes = self.codes.get_or_insert_default();
        codes.rcodes[rcode.min(codes.rcodes.len() - 1)] += 1;
        if let Some(reason) = invalid {
            codes.invalid[reason.index()] += 1;
        }
    }

    /// Notes the number of valid replies with NXDOMAIN.
    pub fn note_nxdomain(&mut self, replies: u64) {
        if replies > 0 {
            self.codes.get_or_insert_default().rcodes[NXDOMAIN] += replies as u32;
        }
    }

    pub(crate) fn merge(&mut self, other: &Second) {
        measure::add!(self, other; sent, unserved, answered, valid, connections);
        let Some(others) = &other.codes else { return };
        let codes = self.codes.get_or_insert_default();
        let add = |to: &mut [u32], from: &[u32]| to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        add(&mut codes.rcodes, &others.rcodes);
        add(&mut codes.invalid, &others.invalid);
    }
}

/// Longest series of seconds; later events count in its last second.
const MAX_SECONDS: usize = 86_400;

/// Outcomes of the queries of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    /// Number of queries that left.
    pub sent: u64,
    /// Replies in time, valid or not.
    pub answered: u64,
    /// Valid replies in time, as the workload checks them.
    pub valid: u64,
    /// Valid replies that arrived before `until`.
    pub valid_while_sending: u64,
    /// Time of sending that was planned.
    pub until: Nanos,
    /// Invalid replies in time, by reason ([`Invalid::index`]).
    pub invalid: [u64; Invalid::COUNT],
    /// Valid replies in time with NOERROR and no record in their answer section.
    pub empty: u64,
    /// Replies in time, by return code: with the EDNS extension if the workload read it, else the
    /// header's four bits.
    pub rcodes: [u64; 256],
    /// Replies to queries whose timeout had passed.
    pub late: u64,
    /// Queries that left and got no reply in time.
    pub lost: u64,
    /// Queries that found no connection in time, so that they never left.
    pub unserved: u64,
    /// Further replies to an answered query.
    pub duplicates: u64,
    /// Replies with an id that no query had.
    pub unexpected: u64,
    /// Queries that were outstanding when the trial was stopped.
    pub unresolved: u64,
    /// Number of times that a due query found no free id.
    pub blocked: u64,
    /// Time in which a query was due but the workload had none ready.
    pub starved: Nanos,
    /// Octets of the queries, as the workload composed them.
    pub query_bytes: u64,
    /// Octets of the replies in time.
    pub reply_bytes: u64,
    /// Latency from due time to reply; queries that were lost or not served count with the timeout.
    pub latency: Histogram,
    /// Latency from sending to reply; answered queries only.
    pub latency_from_send: Histogram,
    /// Schedule error: time from due time to sending.
    pub schedule_error: Histogram,
    /// Time at which the first query was due, on the engine's clock.
    pub started: Nanos,
    /// Time at which the last query left, on the engine's clock.
    pub last_sent: Nanos,
    /// Time from the start to the last reply in time; zero where the programs in the kernel judged
    /// the replies.
    pub last_reply: Nanos,
    /// Counts of each second of the trial.
    pub series: Vec<Second>,
    /// Counts of shorter or longer steps, if the plan has them.
    pub steps: Option<Steps>,
    /// Whether the sending ended early: the goal could not be met any more, or too many queries were outstanding.
    pub stopped_early: bool,
    /// Whether an open loop ended behind its schedule ([`Plan::cut_off`]), so that planned queries were never sent.
    pub cut_off: bool,
    /// Whether the workload ended before the trial did.
    pub exhausted: bool,
    /// Number of queries in the schedule (for Poisson arrivals the expected number); 0 for a window.
    pub planned: u64,
    /// Stalls, late departures and lost queries by time.
    pub disturbances: Disturbances,
    /// Number of queries outstanding over time, sampled at instants.
    pub(crate) outstanding: OutstandingCounts,
    /// Smallest number of queries to which a closed loop held its window after it had lost many at once.
    pub window_held_at: Option<u64>,
}

impl Tally {
    /// Makes the empty tally of a plan, with its steps.
    pub(crate) fn of(plan: &Plan) -> Self {
        let steps = plan.step.map(|length| Steps::new(length, plan.duration));
        Tally { steps, ..Self::new(plan.duration) }
    }

    /// Makes an empty tally for a trial of about `duration`.
    pub fn new(duration: Nanos) -> Self {
        let seconds = (duration.as_secs_f64().ceil() as usize + 2).min(MAX_SECONDS);
        Tally {
            sent: 0,
            answered: 0,
            valid: 0,
            valid_while_sending: 0,
            until: duration,
            invalid: [0; Invalid::COUNT],
            empty: 0,
            rcodes: [0; 256],
            late: 0,
            lost: 0,
            unserved: 0,
            duplicates: 0,
            unexpected: 0,
            unresolved: 0,
            blocked: 0,
            starved: Nanos::ZERO,
            query_bytes: 0,
            reply_bytes: 0,
            latency: Histogram::new(),
            latency_from_send: Histogram::new(),
            schedule_error: Histogram::new(),
            started: Nanos::MAX,
            last_sent: Nanos::ZERO,
            last_reply: Nanos::ZERO,
            series: vec![Second::default(); seconds],
            steps: None,
            stopped_early: false,
            cut_off: false,
            exhausted: false,
            planned: 0,
            disturbances: Disturbances::default(),
            outstanding: OutstandingCounts::new(duration),
            window_held_at: None,
        }
    }

    /// Returns the number of queries without a valid reply in time so far.
    pub fn bad(&self) -> u64 {
        self.answered - self.valid + self.lost + self.unserved
    }

    /// Returns the number of offered queries: those that left, and those that found no connection.
    pub fn wanted(&self) -> u64 {
        self.sent + self.unserved
    }

    /// Returns the share of the time of sending in which a query was due but the workload had none
    /// ready.
    pub fn starved_share(&self) -> f64 {
        let sending = self.last_sent.since(self.started).max(self.starved);
        self.starved.as_secs_f64() / sending.as_secs_f64().max(1e-9)
    }

    /// Returns the number of queries outstanding in the middle and at the end of a trial that sent
    /// for `duration` at `rate`.
    pub fn outstanding(&self, duration: Nanos, rate: Qps) -> Option<Outstanding> {
        self.outstanding.numbers(duration, rate)
    }

    /// Returns the counts of the second at `offset` from the start.
    #[inline]
    pub(crate) fn second(&mut self, offset: Nanos) -> &mut Second {
        let last = self.series.len() - 1;
        &mut self.series[((offset.0 / 1_000_000_000) as usize).min(last)]
    }

    /// Adds another worker's tally of the same trial.
    pub fn merge(&mut self, other: &Tally) {
        measure::add!(self, other;
            sent, answered, valid, valid_while_sending, late, lost, unserved, duplicates,
            empty, unexpected, unresolved, blocked, planned, query_bytes, reply_bytes);
        self.starved = self.starved.max(other.starved);
        if let (Some(steps), Some(other)) = (&mut self.steps, &other.steps) {
            steps.merge(other);
        }
        let add = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        add(&mut self.invalid, &other.invalid);
        add(&mut self.rcodes, &other.rcodes);
        self.latency.merge(&other.latency);
        self.latency_from_send.merge(&other.latency_from_send);
        self.schedule_error.merge(&other.schedule_error);
        self.started = self.started.min(other.started);
        self.last_sent = self.last_sent.max(other.last_sent);
        self.last_reply = self.last_reply.max(other.last_reply);
        self.stopped_early |= other.stopped_early;
        self.cut_off |= other.cut_off;
        self.exhausted |= other.exhausted;
        self.disturbances.merge(&other.disturbances);
        self.outstanding.merge(&other.outstanding);
        // Each worker holds its own part of the window.
        self.window_held_at = match (self.window_held_at, other.window_held_at) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        if self.series.len() < other.series.len() {
            self.series.resize(other.series.len(), Second::default());
        }
        for (a, b) in self.series.iter_mut().zip(&other.series) {
            a.merge(b);
        }
    }
}
