//! Upstreams from which replies are lost or late: queries are sent again soon and often enough, and not too often.

use std::collections::{BTreeMap, VecDeque};

use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use measure::Nanos;
use wire::{Qtype, Rcode};

use crate::bench::*;
use crate::{GLOBAL, MAPPED};

/// A path to upstream on which replies take time and may be lost.
struct Link {
    /// Share of lost replies, of 100.
    loss: u32,
    /// Milliseconds until a reply arrives.
    delay: u64,
    rng: ChaCha12Rng,
    /// Replies on the way, with the time of their arrival.
    replies: VecDeque<(Nanos, Sent, Vec<u8>)>,
}

impl Link {
    fn new(loss: u32, delay: u64, seed: u64) -> Self {
        let rng = ChaCha12Rng::seed_from_u64(seed);
        Link { loss, delay, rng, replies: VecDeque::new() }
    }

    /// Takes queries to upstream, whose names have A records only, and loses some of its replies.
    fn take(&mut self, now: Nanos, queries: Vec<Sent>) {
        for sent in queries {
            let records: &[(Qtype, &[u8])] = match sent.qtype() {
                Qtype::A => &[(Qtype::A, GLOBAL)],
                _ => &[],
            };
            if self.rng.next_u32() % 100 >= self.loss {
                let reply = reply(&sent.bytes, Rcode::NOERROR, records);
                self.replies.push_back((now + Nanos::from_millis(self.delay), sent, reply));
            }
        }
    }

    /// Returns the replies that have arrived.
    fn arrived(&mut self, now: Nanos) -> Vec<(Sent, Vec<u8>)> {
        let later = self.replies.iter().position(|(due, ..)| *due > now);
        let all = self.replies.drain(..later.unwrap_or(self.replies.len()));
        all.map(|(_, sent, reply)| (sent, reply)).collect()
    }
}

/// Return codes and latencies in milliseconds of all answers to queries.
#[derive(Default)]
struct Answers {
    rcodes: BTreeMap<u8, usize>,
    /// Answers that are not the synthesised address.
    wrong: usize,
    latencies: Vec<u64>,
}

impl Answers {
    /// Returns the latency that this share of the answers did not exceed, in milliseconds.
    fn latency(&mut self, share: f64) -> u64 {
        self.latencies.sort_unstable();
        self.latencies[((self.latencies.len() - 1) as f64 * share) as usize]
    }
}

/// Asks for one new name each millisecond, and waits until all are answered.
fn run(bench: &mut Bench, link: &mut Link, queries: u16, answers: &mut Answers) {
    let start = bench.now;
    let mut answered = 0;
    while answered < queries {
        let ms = bench.now.since(start).0 / 1_000_000;
        assert!(ms < u64::from(queries) + 20_000, "{answered} of {queries} are answered");
        let mut steps = Vec::new();
        if ms < queries.into() {
            let name = format!("n{ms}.s{}.test", start.0);
            steps.push(bench.ask(ms as u16 + 1, &query(&name, Qtype::AAAA, ms as u16)));
        }
        for (sent, reply) in link.arrived(bench.now) {
            steps.push(bench.reply(&sent, &reply));
        }
        steps.push(bench.step(&[]));
        for out in steps {
            link.take(bench.now, out.upstream);
            for (peer, answer) in out.clients {
                answered += 1;
                answers.latencies.push(ms + 1 - u64::from(peer.port()));
                let rcode = rcode(&answer);
                *answers.rcodes.entry(rcode).or_default() += 1;
                answers.wrong += usize::from(rcode == 0 && address(&answer).0 != MAPPED);
            }
        }
        bench.now += Nanos::from_millis(1);
    }
}

#[test]
fn a_fifth_of_the_replies_may_be_lost() {
    // A path of 1 ms, and one of 40 ms. Expected: of 40,000 lookups 0.1 lose all of their eight replies; none does with
    // these seeds.
    for (delay, median, p99) in [(1, 2, 160), (40, 80, 700)] {
        let mut answers = Answers::default();
        for seed in 0..20 {
            let mut bench = Bench::new("cache.size = 0");
            let mut link = Link::new(20, delay, seed);
            run(&mut bench, &mut link, 1_000, &mut answers);
        }
        let failed = answers.rcodes.get(&2).copied().unwrap_or(0);
        assert!(failed == 0 && answers.wrong == 0, "{delay} ms: {:?}", answers.rcodes);
        let latencies = [0.5, 0.99].map(|share| answers.latency(share));
        assert!(latencies[0] <= median && latencies[1] <= p99, "{delay} ms: {latencies:?}");
    }
}

#[test]
fn a_query_is_repeated_also_if_two_timeouts_take_longer_than_a_lookup() {
    for seed in 0..20 {
        let mut bench = Bench::new("cache.size = 0\nupstream.first-timeout = \"1600ms\"");
        // The jitter differs.
        (0..seed).for_each(|n| drop(bench.ask(2, &query(&format!("n{n}.test"), Qtype::A, 1))));
        bench.ask(1, &query("www.test", Qtype::A, 1));
        let sent = bench.wait(2_000).into_iter().flat_map(|(_, out)| out.upstream);
        let again = sent.filter(|sent| sent.name().eq_ignore_ascii_case("www.test")).count();
        assert_eq!(again, 1);
    }
}

#[test]
fn a_reply_to_the_attempt_before_is_accepted() {
    let mut bench = Bench::new("cache.size = 0");
    let first = bench.ask(1, &query("www.test", Qtype::A, 1)).upstream.remove(0);
    let mut sent = vec![first];
    while sent.len() < 3 {
        sent.extend(bench.wait(1).into_iter().flat_map(|(_, out)| out.upstream));
    }
    let answer = |sent: &Sent| reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]);
    // Three attempts with ids and ports of their own: the first one is closed, the second one is not.
    assert!(sent[0].bytes[..2] != sent[1].bytes[..2] && sent[1].bytes[..2] != sent[2].bytes[..2]);
    assert!(bench.reply(&sent[0], &answer(&sent[0])).clients.is_empty());
    assert_eq!(bench.role.counters().upstream_unexpected, 1);
    // Its round trip time counts from its own sending: 1 s, not the 400 ms since the last one.
    assert_eq!(bench.reply(&sent[1], &answer(&sent[1])).clients.len(), 1);
    let rtt = bench.role.health().next().expect("a server").rtt;
    assert!(rtt > Nanos::from_millis(500), "{rtt}");
    assert!(bench.reply(&sent[2], &answer(&sent[2])).clients.is_empty(), "all are closed");
    assert_eq!(bench.role.gauges().outstanding, 0);
}

#[test]
fn an_upstream_that_gets_slower_is_still_used() {
    let mut bench = Bench::new("cache.size = 0\nsynthesis.on-timeout = \"fail\"");
    let mut answers = Answers::default();
    let mut link = Link::new(0, 1, 1);
    run(&mut bench, &mut link, 300, &mut answers);
    // From 1 ms to 150 ms, far longer than the timeout so far.
    link.delay = 150;
    run(&mut bench, &mut link, 2_000, &mut answers);
    assert_eq!(answers.rcodes, BTreeMap::from([(0, 2_300)]));
    let before = bench.role.counters().upstream_retries;
    run(&mut bench, &mut link, 1_000, &mut answers);
    let retries = bench.role.counters().upstream_retries - before;
    assert!(retries <= 20, "the timeouts follow: {retries} of 2000");
}

#[test]
fn an_overloaded_upstream_does_not_get_many_times_the_queries() {
    // It answers one query in ten.
    let mut bench = Bench::new("cache.size = 0\nsynthesis.on-timeout = \"fail\"");
    let mut link = Link::new(90, 1, 1);
    let mut answers = Answers::default();
    run(&mut bench, &mut link, 5_000, &mut answers);
    let counters = bench.role.counters();
    // Without a limit each of the lookups would be sent 5.7 times on average. The patient attempts are at 0, 0.4 and 1.2 s.
    let most = 3 * (counters.upstream_queries - counters.upstream_retries)
        + counters.upstream_replies
        + 1_000;
    assert!(counters.upstream_queries <= most, "{counters:?}");
    assert!(counters.upstream_postponed > 1_000, "{counters:?}");
}
