//! Stalls: times in which the Tester or a core of the testbed stood still, and whether a trial's
//! losses are near them.
//!
//! ```text
//! time      ──────────┬─stall─┬───────────────────────────────>
//! disturbed    ├window┼───────┼window┤
//! losses                 × ××   ×            ×
//!                        by the stall        the server's own
//! ```
//!
//! A virtual machine loses its core for milliseconds without saying so. What becomes due meanwhile
//! leaves or arrives afterwards at once and overflows a queue: that loss says nothing about the
//! server. A failing trial whose losses are near stalls, or near late departures, is void.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::limiter::Void;
use crate::units::Nanos;

/// A stall, or a departure after its due time, is noted from this length on.
pub const MIN_STALL: Nanos = Nanos::from_millis(1);
/// Shortest time around a stall whose losses it explains.
const MIN_WINDOW: Nanos = Nanos::from_millis(20);
/// Longest such time: a slow server's round trips must not excuse a whole trial.
const MAX_WINDOW: Nanos = Nanos::from_millis(100);
/// Round trips in such a time.
const WINDOW_ROUND_TRIPS: u64 = 50;

/// Number of lost queries that a trial keeps.
pub const MAX_LOST_KEPT: usize = 100;
/// Number of entries in each of a trial's lists of spans and stalls; later ones are not listed.
pub const MAX_SPANS: usize = 512;
/// Losses this close to each other belong to one span.
const LOSS_GAP: Nanos = Nanos::from_millis(1);
/// Longest time from the first to the last lost query of a [`LossSpan`].
const MAX_LOSS_SPAN: Nanos = Nanos::from_millis(5);
/// Number of spans at the end of the list to which a loss may be added: several sockets expire in turn.
const OPEN_SPANS: usize = 8;

/// A part of the testbed whose core stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The Measurer, which sends the queries.
    Tester,
    /// The AuthDNS, which answers a resolver's queries.
    AuthDns,
    /// The server under test (DUT).
    Dut,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Side::Tester => "Tester",
            Side::AuthDns => "AuthDNS",
            Side::Dut => "server",
        })
    }
}

/// A time in which a core did not run a thread that was due on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stall {
    /// Side to which the core belongs.
    pub side: Side,
    /// Time at which the core should have run, on the host's `CLOCK_MONOTONIC`.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// Time from then until the thread ran.
    #[serde(rename = "length_ns")]
    pub length: Nanos,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} ms of the {}'s core", self.length.as_secs_f64() * 1e3, self.side)
    }
}

/// A core that was watched for stalls during a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedCore {
    /// Side to which the core belongs.
    pub side: Side,
    /// Number of the core, as the kernel counts.
    pub cpu: usize,
    /// Whether the watcher has a real-time priority; without it, other threads on the core may
    /// delay it.
    pub real_time: bool,
    /// CPU time of the watcher on this core.
    #[serde(rename = "used_ns")]
    pub used: Nanos,
    /// Mean time of the same piece of arithmetic at each look in the time of sending, in
    /// nanoseconds: more if the core is slower, since its clock rate fell or another thread of the
    /// same physical core was busy. Absent if there were too few measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ns: Option<u64>,
    /// Longest time among the fastest tenth of the measurements, in nanoseconds: nearly that of the
    /// core when it has no neighbour, even where the mean is much longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_work_ns: Option<u64>,
}

/// A span in which queries left more than [`MIN_STALL`] late; times count from the start of the trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateSpan {
    /// Due time of the first of them.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// Time at which the last of these queries left.
    #[serde(rename = "until_ns")]
    pub until: Nanos,
    /// Number of queries that left late in the span.
    pub queries: u64,
    /// Largest schedule error among them.
    #[serde(rename = "worst_ns")]
    pub worst: Nanos,
}

/// Lost queries that were due close to each other; times count from the start of the trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossSpan {
    /// Due time of the first of them.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// Due time of the last of them.
    #[serde(rename = "until_ns")]
    pub until: Nanos,
    /// Number of queries that were lost in the span.
    pub queries: u64,
}

/// A query without a reply in time; times count from the start of the trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostQuery {
    /// Time at which the query was due.
    #[serde(rename = "due_ns")]
    pub due: Nanos,
    /// Time at which the query left.
    #[serde(rename = "sent_ns")]
    pub sent: Nanos,
    /// Number of the socket within its worker.
    pub socket: u16,
    /// Source port; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub port: Option<u16>,
    /// Id of the query's DNS message.
    pub id: u16,
    /// Address in the queried name; absent for a name without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<Ipv4Addr>,
    /// Whether the AuthDNS got a query for its name; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seen_by_authdns: Option<bool>,
}

/// Stalls, late departures and losses of a trial, with their times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disturbances {
    /// Time from which the offsets of the trial count, on the host's `CLOCK_MONOTONIC`.
    #[serde(rename = "started_ns")]
    pub started: Nanos,
    /// First lost queries, at most [`MAX_LOST_KEPT`].
    pub lost: Vec<LostQuery>,
    /// Lost queries by time, at most `MAX_SPANS` spans.
    pub losses: Vec<LossSpan>,
    /// Late departures by time, at most `MAX_SPANS` spans.
    pub late: Vec<LateSpan>,
    /// Stalls, at most `MAX_SPANS` of each side.
    pub stalls: Vec<Stall>,
    /// Cores that were watched for stalls, in addition to the Measurer's own.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub watched: Vec<WatchedCore>,
}

impl Disturbances {
    /// Adds a lost query, to the list while that has room and to the span of losses near it.
    pub fn add_lost(&mut self, lost: LostQuery) {
        if self.lost.len() < MAX_LOST_KEPT {
            self.lost.push(lost);
        }
        let near = |span: &LossSpan| {
            let (from, until) = (span.from.min(lost.due), span.until.max(lost.due));
            lost.due + LOSS_GAP >= span.from
                && lost.due <= span.until + LOSS_GAP
                && until.since(from) <= MAX_LOSS_SPAN
        };
        let open = self.losses.len().saturating_sub(OPEN_SPANS);
        if let Some(span) = self.losses[open..].iter_mut().rev().find(|span| near(span)) {
            (span.from, span.until) = (span.from.min(lost.due), span.until.max(lost.due));
            span.queries += 1;
        } else if self.losses.len() < MAX_SPANS {
            self.losses.push(LossSpan { from: lost.due, until: lost.due, queries: 1 });
        }
    }

    /// Adds a query that was due at `due` and left `late` later, if that is [`MIN_STALL`] or more.
    #[inline]
    pub fn add_departure(&mut self, due: Nanos, late: Nanos) {
        if late >= MIN_STALL {
            self.add_late(due, late);
        }
    }

    #[cold]
    fn add_late(&mut self, due: Nanos, late: Nanos) {
        self.add_late_span(LateSpan { from: due, until: due + late, queries: 1, worst: late });
    }

    /// Adds late departures that follow each other, as one span with the last one if that is close.
    pub fn add_late_span(&mut self, new: LateSpan) {
        let room = self.late.len() < MAX_SPANS;
        match self.late.last_mut() {
            Some(span) if new.from <= span.until + MIN_STALL => {
                span.from = span.from.min(new.from);
                span.until = span.until.max(new.until);
                span.queries += new.queries;
                span.worst = span.worst.max(new.worst);
            }
            _ if room => self.late.push(new),
            _ => (),
        }
    }

    /// Adds a stall, if it is [`MIN_STALL`] or more.
    pub fn add_stall(&mut self, stall: Stall) {
        let listed = self.stalls.iter().filter(|other| other.side == stall.side).count();
        if stall.length >= MIN_STALL && listed < MAX_SPANS {
            self.stalls.push(stall);
        }
    }

    /// Adds the stalls that another worker of the same trial noted.
    pub fn merge(&mut self, other: &Disturbances) {
        self.lost.extend_from_slice(&other.lost);
        self.lost.sort_by_key(|lost| lost.due);
        self.lost.truncate(MAX_LOST_KEPT);
        self.losses.extend_from_slice(&other.losses);
        self.losses.sort_by_key(|span| span.from);
        self.losses.truncate(MAX_SPANS);
        self.late.extend_from_slice(&other.late);
        self.late.sort_by_key(|span| span.from);
        self.late.truncate(MAX_SPANS);
        other.stalls.iter().for_each(|stall| self.add_stall(*stall));
        self.watched.extend_from_slice(&other.watched);
    }

    /// Adds the stalls from another host with its own `CLOCK_MONOTONIC`, whose trial began at the
    /// same time.
    pub fn merge_of_host(&mut self, other: &Disturbances) {
        let mut moved = other.clone();
        let here = |at: Nanos| Nanos((self.started.0 + at.0).saturating_sub(other.started.0));
        moved.stalls.iter_mut().for_each(|stall| stall.at = here(stall.at));
        self.merge(&moved);
    }

    /// Returns whether no disturbance was noted.
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty()
            && self.losses.is_empty()
            && self.late.is_empty()
            && self.stalls.is_empty()
            && self.watched.is_empty()
    }

    /// Returns why a failed trial is void: without the losses near stalls and late departures at
    /// most `allowed` of its `bad` queries (those without a valid reply in time) are left.
    /// `round_trip` is the round trip time of a server that is not overloaded; it is 0 if nothing
    /// was answered, which no stall explains.
    pub fn void(&self, bad: u64, allowed: u64, round_trip: Nanos) -> Option<Void> {
        if round_trip == Nanos::ZERO {
            return None;
        }
        let window = window(round_trip);
        let times = self.disturbed();
        let near = |loss: &LossSpan, time: &DisturbedSpan| {
            time.from <= loss.until + window && loss.from <= time.until + window
        };
        let by_stalls: u64 = self
            .losses
            .iter()
            .filter(|loss| times.iter().any(|time| near(loss, time)))
            .map(|loss| loss.queries)
            .sum();
        if by_stalls == 0 || bad.saturating_sub(by_stalls) > allowed {
            return None;
        }
        let longest = times
            .iter()
            .filter(|time| self.losses.iter().any(|loss| near(loss, time)))
            .max_by_key(|time| time.stall.length)?;
        Some(Void::Stalled { lost: bad, by_stalls, longest: longest.stall })
    }

    /// Returns the stalls and the late departures as spans from the start of the trial.
    fn disturbed(&self) -> Vec<DisturbedSpan> {
        let stalls = self.stalls.iter().map(|stall| DisturbedSpan {
            from: stall.at.since(self.started),
            until: (stall.at + stall.length).since(self.started),
            stall: *stall,
        });
        let late = self.late.iter().map(|span| DisturbedSpan {
            from: span.from,
            until: span.until,
            stall: Stall { side: Side::Tester, at: self.started + span.from, length: span.worst },
        });
        // A stall that ended before the trial began does not count.
        let within = |time: &DisturbedSpan| time.stall.at + time.stall.length >= self.started;
        stalls.chain(late).filter(within).collect()
    }
}

/// A span of a trial in which something stood still.
#[derive(Clone, Copy, Debug)]
struct DisturbedSpan {
    from: Nanos,
    until: Nanos,
    stall: Stall,
}

/// Returns the time around a stall whose losses it explains: 50 round trips, 20 ms at least.
fn window(round_trip: Nanos) -> Nanos {
    Nanos(round_trip.0.saturating_mul(WINDOW_ROUND_TRIPS)).clamp(MIN_WINDOW, MAX_WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;
    const RTT: Nanos = Nanos::from_micros(100);

    fn lost(due: Nanos) -> LostQuery {
        LostQuery {
            due,
            sent: due,
            socket: 0,
            port: None,
            id: 1,
            address: None,
            seen_by_authdns: None,
        }
    }

    fn stall(side: Side, at: u64, length: u64) -> Stall {
        Stall { side, at: MS(at), length: MS(length) }
    }

    /// Makes a trial that began 1 s after the host and lost queries at `losses` ms.
    fn trial(losses: &[u64], stalls: &[Stall]) -> Disturbances {
        let mut trial = Disturbances { started: MS(1_000), ..Disturbances::default() };
        losses.iter().for_each(|at| trial.add_lost(lost(MS(*at))));
        stalls.iter().for_each(|stall| trial.add_stall(*stall));
        trial
    }

    #[test]
    fn losses_by_stalls_make_a_failure_void() {
        let dut = stall(Side::Dut, 1_100, 8);
        // Losses at ms of the trial, stalls at ms of the host, allowed losses, round trip: void by how many.
        let table = [
            // Before, in and after the stall from 100 to 108 ms.
            (vec![80, 100, 104, 128], vec![dut], 0, RTT, Some(4)),
            (vec![79], vec![dut], 0, RTT, None),
            (vec![129], vec![dut], 0, RTT, None),
            (vec![], vec![dut], 0, RTT, None),
            (vec![104], vec![], 0, RTT, None),
            // One loss elsewhere is the server's, if the goal allows none.
            (vec![104, 300], vec![dut], 0, RTT, None),
            (vec![104, 300], vec![dut], 1, RTT, Some(1)),
            // 50 round trips of 1 ms, and at most 100 ms.
            (vec![150], vec![dut], 0, MS(1), Some(1)),
            (vec![207], vec![dut], 0, MS(290), Some(1)),
            (vec![209], vec![dut], 0, MS(290), None),
            // Nothing was answered, so that there is no round trip.
            (vec![104], vec![dut], 0, Nanos::ZERO, None),
            // A stall that ended before the trial.
            (vec![1], vec![stall(Side::Dut, 980, 8)], 0, RTT, None),
            (vec![1], vec![stall(Side::Dut, 995, 8)], 0, RTT, Some(1)),
        ];
        for (losses, stalls, allowed, round_trip, wanted) in table {
            let trial = trial(&losses, &stalls);
            let found = trial.void(losses.len() as u64, allowed, round_trip);
            let found = found.map(|void| match void {
                Void::Stalled { by_stalls, .. } => by_stalls,
                other => panic!("{other:?}"),
            });
            assert_eq!(found, wanted, "{losses:?} {stalls:?}");
        }
    }

    #[test]
    fn the_longest_stall_by_a_loss_is_named() {
        let stalls = [
            stall(Side::Tester, 1_100, 2),
            stall(Side::Dut, 1_110, 9),
            stall(Side::AuthDns, 1_500, 50),
        ];
        let void = trial(&[105], &stalls).void(1, 0, RTT).expect("void");
        assert_eq!(
            void,
            Void::Stalled { lost: 1, by_stalls: 1, longest: stall(Side::Dut, 1_110, 9) }
        );
    }

    #[test]
    fn late_departures_are_spans() {
        let mut trial = trial(&[210], &[]);
        for (due, late) in [(10, 0), (200, 7), (204, 4), (300, 1), (400, 2)] {
            trial.add_departure(MS(due), MS(late));
        }
        let spans = trial.late.iter().map(|s| (s.from, s.until, s.queries, s.worst));
        let wanted = [
            (MS(200), MS(208), 2, MS(7)),
            (MS(300), MS(301), 1, MS(1)),
            (MS(400), MS(402), 1, MS(2)),
        ];
        assert!(spans.eq(wanted), "{:?}", trial.late);
        // Those of another worker at the same time are of the same span.
        let mut merged = trial.clone();
        merged.add_late_span(LateSpan { from: MS(399), until: MS(409), queries: 5, worst: MS(9) });
        let span = LateSpan { from: MS(399), until: MS(409), queries: 6, worst: MS(9) };
        assert_eq!((merged.late.len(), merged.late[2]), (3, span));
        let void = trial.void(1, 0, RTT).expect("lost within 20 ms of a late departure");
        let longest = Stall { side: Side::Tester, at: MS(1_200), length: MS(7) };
        assert_eq!(void, Void::Stalled { lost: 1, by_stalls: 1, longest });
    }

    #[test]
    fn an_overload_is_no_stall() {
        // One loss each millisecond for 2 s, and a stall of 8 ms each 700 ms.
        let losses: Vec<u64> = (0..2_000).collect();
        let stalls = [100, 800, 1_500].map(|at| stall(Side::Tester, 1_000 + at, 8));
        let trial = trial(&losses, &stalls);
        assert_eq!(trial.losses.len(), 334, "spans of 5 ms");
        assert_eq!(trial.void(2_000, 10, RTT), None);
    }

    #[test]
    fn lists_are_bounded() {
        let mut trial = Disturbances::default();
        for at in 0..10_000 {
            trial.add_lost(lost(MS(at * 10)));
            trial.add_departure(MS(at * 10), MS(2));
            trial.add_stall(stall(Side::Tester, at * 10, 2));
            trial.add_stall(Stall { length: Nanos(999_999), ..stall(Side::Dut, at, 0) });
        }
        let twice = trial.clone();
        trial.merge(&twice);
        let lengths = [trial.lost.len(), trial.losses.len(), trial.late.len(), trial.stalls.len()];
        assert_eq!(lengths, [MAX_LOST_KEPT, MAX_SPANS, MAX_SPANS, MAX_SPANS]);
    }

    #[test]
    fn a_span_takes_losses_of_several_sockets() {
        let mut trial = Disturbances::default();
        for at in [10, 11, 12, 10, 11, 14, 40, 40] {
            trial.add_lost(lost(MS(at)));
        }
        let spans: Vec<_> = trial.losses.iter().map(|s| (s.from, s.until, s.queries)).collect();
        assert_eq!(spans, [(MS(10), MS(12), 5), (MS(14), MS(14), 1), (MS(40), MS(40), 2)]);
    }

    #[test]
    fn stored_times_are_nanoseconds() {
        let one = stall(Side::AuthDns, 2, 3);
        let json = serde_json::to_string(&one).expect("serialises");
        assert_eq!(json, r#"{"side":"authdns","at_ns":2000000,"length_ns":3000000}"#);
        assert_eq!(serde_json::from_str::<Stall>(&json).expect("reads"), one);
        let trial = trial(&[5], &[one]);
        let json = serde_json::to_string(&trial).expect("serialises");
        assert_eq!(serde_json::from_str::<Disturbances>(&json).expect("reads"), trial);
    }
}
