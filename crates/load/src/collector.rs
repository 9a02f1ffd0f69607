//! The Measurer's half of a load whose queries are sent and received by programs in the kernel.
//!
//! ```text
//! counts, from time to time        ──┐
//! replies that nobody has judged   ──┼──> collector ──> tally
//! losses, late departures, stalls  ──┤
//! histograms and series, at the end──┘
//! ```
//!
//! Replies that are checked here are checked by the same code as replies of a socket.

use std::sync::Arc;

use measure::counted::{Counted, SentQuery};
use measure::stall::{LateSpan, LostQuery, Side, Stall};
use measure::{Histogram, Nanos};

use crate::flight::{FoundQuery, OutstandingTable, State};
use crate::live::{GoalWatch, Live};
use crate::outcome::Outcomes;
use crate::plan::Plan;
use crate::steps::Step;
use crate::tally::{NXDOMAIN, Second, Tally};
use crate::workload::Workload;

/// Times of a load that others counted, without the replies that the collector checked.
#[derive(Clone, Debug)]
pub struct CountedTimes {
    /// Time from due to sent.
    pub schedule_error: Histogram,
    /// Time from due to reply; the timeout for lost queries.
    pub latency: Histogram,
    /// Time from sent to reply.
    pub latency_from_send: Histogram,
    /// Counts of each second of the trial.
    pub series: Vec<Second>,
    /// Counts of each step, if the plan has them.
    pub steps: Vec<Step>,
    /// Queries that were outstanding at each of the [instants](Collector::instants).
    pub outstanding: Vec<u64>,
    /// Time at which the last query left, on the engine's clock.
    pub last_sent: Nanos,
    /// Time of the last valid reply, on the same clock.
    pub last_reply: Nanos,
    /// Whether the names ended before the trial did.
    pub exhausted: bool,
}

/// Collects the outcomes of a load.
pub struct Collector {
    outcomes: Outcomes,
    watch: GoalWatch,
    start: Nanos,
    /// Time after the start from which on an open loop sends no more queries.
    cut_off: Nanos,
    counted: Counted,
    /// Latencies of all replies up to the last reading.
    latency: Histogram,
}

/// A table with the query of one reply.
struct OnlyQuery(FoundQuery);

impl OutstandingTable for OnlyQuery {
    fn launch(&mut self, _due: Nanos, _key: u32) -> u16 {
        unreachable!("this table sends no queries")
    }

    fn find(&self, _id: u16) -> FoundQuery {
        self.0
    }

    fn mark_answered(&mut self, _id: u16) {}

    fn mark_predecessor_answered(&mut self, _id: u16) {}

    fn expire_each(&mut self, _now: Nanos, _timeout: Nanos, _lost: impl FnMut(u16, FoundQuery)) {}
}

impl Collector {
    /// Makes the collector of a load that began at `start` on the engine's clock, and plans `planned` queries.
    pub fn new(
        plan: &Plan,
        planned: u64,
        workload: Box<dyn Workload>,
        live: Arc<Live>,
        start: Nanos,
    ) -> Self {
        let mut tally = Tally::of(plan);
        (tally.planned, tally.started, tally.disturbances.started) = (planned, start, start);
        let watch = GoalWatch::new(plan, live);
        let outcomes = Outcomes::new(workload, tally, plan.timeout);
        let latency = Histogram::new();
        let cut_off = if plan.pacing.is_open_loop() { plan.cut_off() } else { Nanos::MAX };
        Collector { outcomes, watch, start, cut_off, counted: Counted::default(), latency }
    }

    /// Returns the instants at which outstanding queries are counted in a trial of this duration: the binary logarithm of
    /// the time between two of them in nanoseconds, and their number.
    pub fn instants(duration: Nanos) -> (u32, usize) {
        crate::outstanding::OutstandingCounts::new(duration).instants()
    }

    /// Validates and counts the reply to a query, which arrived `at` in time.
    pub fn reply(&mut self, query: SentQuery, at: Nanos, message: &[u8]) {
        let found = FoundQuery {
            state: State::Outstanding,
            key: query.key,
            due: query.due.since(self.start),
            sent: query.sent.since(self.start),
            after_lost: false,
        };
        let at = at.since(self.start);
        self.outcomes.record_reply(0, Some(&mut OnlyQuery(found)), at, message);
    }

    /// Notes a query that was counted as lost.
    pub fn lost(&mut self, query: SentQuery) {
        let address = self.outcomes.workload.address(query.key);
        self.outcomes.tally.disturbances.add_lost(LostQuery {
            due: query.due.since(self.start),
            sent: query.sent.since(self.start),
            socket: 0,
            port: Some(query.port),
            id: query.id,
            address,
            seen_by_authdns: None,
        });
    }

    /// Notes a series of queries that left late; the span is on the engine's clock.
    pub fn departures(&mut self, span: LateSpan) {
        let (from, until) = (span.from.since(self.start), span.until.since(self.start));
        self.outcomes.tally.disturbances.add_late_span(LateSpan { from, until, ..span });
    }

    /// Notes a time in which no packet was sent or received.
    pub fn stall(&mut self, from: Nanos, until: Nanos) {
        let stall = Stall { side: Side::Tester, at: from, length: until.since(from) };
        self.outcomes.tally.disturbances.add_stall(stall);
    }

    /// Stores the counts up to `now`; returns whether the sending ends: the goal is missed for
    /// certain, or an open loop is behind its schedule after its end ([`Plan::cut_off`]).
    pub fn count(&mut self, counted: Counted, now: Nanos) -> bool {
        let (tally, before) = (&mut self.outcomes.tally, self.counted);
        tally.sent += counted.sent - before.sent;
        tally.answered += counted.valid - before.valid;
        tally.valid += counted.valid - before.valid;
        tally.valid_while_sending += counted.while_sending - before.while_sending;
        let nxdomain = counted.nxdomain - before.nxdomain;
        tally.rcodes[NXDOMAIN] += nxdomain;
        tally.rcodes[0] += (counted.valid - before.valid).saturating_sub(nxdomain);
        tally.late += counted.late - before.late;
        tally.lost += counted.lost - before.lost;
        tally.duplicates += counted.duplicates - before.duplicates;
        tally.unexpected += counted.unexpected - before.unexpected;
        tally.blocked += counted.blocked - before.blocked;
        tally.query_bytes += counted.query_octets - before.query_octets;
        tally.reply_bytes += counted.reply_octets - before.reply_octets;
        self.counted = counted;
        let now = now.since(self.start);
        let missed = self.watch.goal_missed_by(now, tally, &self.latency);
        missed || now >= self.cut_off
    }

    /// Returns whether the [`latencies`](Self::latencies) so far are used, by the goal or by a
    /// display.
    pub fn needs_latencies(&self) -> bool {
        self.watch.needs_latencies()
    }

    /// Stores the latencies so far, without the replies that the collector checks.
    pub fn latencies(&mut self, latency: Histogram) {
        self.latency = latency;
        self.latency.merge(&self.outcomes.tally.latency);
    }

    /// Notes that the sending ends at `now` before all queries left.
    pub fn stop(&mut self, now: Nanos) {
        let tally = &mut self.outcomes.tally;
        tally.cut_off = now.since(self.start) >= self.cut_off;
        tally.stopped_early = !tally.cut_off;
    }

    /// Returns the number of queries that have neither a reply nor been lost.
    pub fn outstanding(&self) -> u64 {
        let tally = &self.outcomes.tally;
        tally.sent.saturating_sub(tally.answered + tally.lost)
    }

    /// Returns the outcomes of the queries.
    pub fn finish(mut self, times: &CountedTimes) -> Tally {
        let unresolved = self.outstanding();
        let tally = &mut self.outcomes.tally;
        tally.schedule_error.merge(&times.schedule_error);
        tally.latency.merge(&times.latency);
        tally.latency_from_send.merge(&times.latency_from_send);
        for (second, of) in (0..).zip(&times.series) {
            tally.second(Nanos::from_secs(second)).merge(of);
        }
        if let Some(steps) = &mut tally.steps {
            steps.add(&times.steps);
        }
        tally.outstanding.add_counts(&times.outstanding);
        tally.last_reply = tally.last_reply.max(times.last_reply);
        (tally.last_sent, tally.unresolved) = (times.last_sent, unresolved);
        tally.exhausted |= times.exhausted;
        self.watch.show(&self.outcomes.tally);
        self.outcomes.tally
    }
}

#[cfg(test)]
mod tests {
    use measure::{Pacing, Qps};
    use wire::{Expect, Invalid, Name, Qtype};

    use super::*;
    use crate::workload::MAX_QUERY;
    use crate::workload::file::QueryOptions;
    use crate::workload::generated::{GeneratedSpec, GeneratedWorkload};

    const START: Nanos = Nanos::from_secs(100);
    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn query(due: u64, key: u32) -> SentQuery {
        SentQuery { due: START + MS(due), sent: START + MS(due + 1), key, port: 20_000, id: 5 }
    }

    #[test]
    fn counts_and_judged_replies_add_up() {
        let rate = Qps::new(1_000.0).expect("a rate");
        let plan = Plan {
            pacing: Pacing::Constant { rate },
            duration: Nanos::from_secs(1),
            timeout: MS(100),
            max_burst: Nanos::ZERO,
            segmented: false,
            adaptive_window: true,
            keep_places: false,
            stop_at: None,
            most_outstanding: None,
            step: Some(MS(500)),
            sockets: 1,
            seed: 1,
            worker: 0,
            workers: 1,
        };
        let name: Name = "example.".parse().expect("a name");
        let options = QueryOptions { expect: Expect::NoError, ..QueryOptions::default() };
        let single = GeneratedSpec::Single { name };
        let workload =
            GeneratedWorkload::new(single, vec![Qtype::A], options, 1, 0, 1).expect("valid");
        let mut workload: Box<dyn Workload> = Box::new(workload);
        let mut message = [0; MAX_QUERY];
        let composed = workload.next(&mut message).expect("a query");
        let (len, key) = (composed.len, composed.key);
        let live = Arc::new(Live::default());
        let mut collector = Collector::new(&plan, 1_000, workload, live.clone(), START);
        // The query itself is no response; with QR it is a reply without records.
        collector.reply(query(10, key), START + MS(12), &message[..len]);
        message[2] |= 0x80;
        collector.reply(query(20, key), START + MS(22), &message[..len]);
        message[3] |= 2;
        collector.reply(query(30, key), START + MS(32), &message[..len]);
        collector.lost(query(40, key));
        let (from, until) = (START + MS(50), START + MS(55));
        collector.departures(LateSpan { from, until, queries: 2, worst: MS(5) });
        collector.stall(START + MS(50), START + MS(54));
        let counted = Counted {
            sent: 1_000,
            valid: 996,
            while_sending: 995,
            nxdomain: 6,
            lost: 1,
            late: 1,
            ..Counted::default()
        };
        assert!(!collector.count(Counted { sent: 500, ..Counted::default() }, START + MS(500)));
        assert!(!collector.count(counted, START + MS(2_099)));
        assert!(collector.count(counted, START + MS(2_100)), "it is a tenth and a second late");
        collector.stop(START + MS(2_100));
        assert_eq!(collector.outstanding(), 0);
        let mut latency = Histogram::new();
        latency.record_many(MS(2), 997);
        let times = CountedTimes {
            schedule_error: Histogram::new(),
            latency,
            latency_from_send: Histogram::new(),
            series: vec![Second { sent: 1_000, answered: 996, valid: 996, ..Second::default() }],
            steps: vec![Step { sent: 500, answered: 499, ..Step::default() }; 2],
            outstanding: vec![0, 4],
            last_sent: START + MS(999),
            last_reply: START + MS(1_003),
            exhausted: false,
        };
        let tally = collector.finish(&times);
        assert_eq!((tally.sent, tally.answered, tally.valid, tally.lost), (1_000, 999, 997, 1));
        assert_eq!(tally.valid_while_sending, 996, "one of them was judged here");
        assert_eq!(tally.last_reply, START + MS(1_003));
        assert_eq!((tally.cut_off, tally.stopped_early), (true, false));
        assert_eq!(tally.invalid[Invalid::NotResponse.index()], 1);
        assert_eq!(tally.empty, 1, "the valid one; the invalid one has no answer either");
        assert_eq!(tally.invalid[Invalid::Rcode(2).index()], 1);
        assert_eq!((tally.rcodes[0], tally.rcodes[2], tally.rcodes[3]), (992, 1, 6));
        assert_eq!((tally.unresolved, tally.planned, tally.latency.count()), (0, 1_000, 1_000));
        let Second { sent, answered, valid, codes, .. } = &tally.series[0];
        assert_eq!((*sent, *answered, *valid), (1_000, 999, 997));
        assert_eq!(codes.as_ref().map(|codes| codes.rcodes[2]), Some(1));
        let steps = tally.steps.as_ref().map(|steps| &steps.counts[..]).unwrap_or_default();
        let found: Vec<_> =
            steps.iter().map(|s| (s.sent, s.answered, s.answered_of_sent)).collect();
        assert_eq!(found, [(500, 502, 3), (500, 499, 0)]);
        let lost = tally.disturbances.lost[0];
        assert_eq!((lost.due, lost.port, lost.id), (MS(40), Some(20_000), 5));
        assert_eq!((tally.disturbances.late.len(), tally.disturbances.stalls.len()), (1, 1));
        assert_eq!(live.sent.load(std::sync::atomic::Ordering::Relaxed), 1_000);
    }
}
