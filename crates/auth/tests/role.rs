//! The role of the AuthDNS on the simulated engine: exact delay, loss and faults.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use auth::{AaaaPolicy, Auth, AuthConfig, AuthCounters, Streamed};
use engine::sim::{Replies, SimEngine};
use engine::stream::Leaves;
use engine::{Next, Role, RxBatch, SocketId, TxBatch, WaitMode, drive};
use measure::Nanos;
use wire::reply::{Expect, check};
use wire::{Edns, Invalid};

use crate::common::{HOST, config, query};

/// An AuthDNS that stops at a time.
struct Until {
    auth: Auth,
    end: Nanos,
}

impl Role for Until {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        match self.auth.handle(now, rx, tx) {
            _ if now >= self.end => Next::Done,
            Next::Idle => Next::At(self.end),
            Next::At(at) => Next::At(at.min(self.end)),
            other => other,
        }
    }

    fn paused_until(&self) -> Nanos {
        self.auth.paused_until()
    }
}

/// Sends `queries` to an AuthDNS, one per millisecond; returns the replies with their times, and the counters.
fn serve(config: AuthConfig, queries: &[Vec<u8>]) -> (Vec<(Nanos, Vec<u8>)>, AuthCounters) {
    serve_every(Nanos::from_millis(1), config, queries)
}

/// Sends `queries` to an AuthDNS, one per `interval`; returns the replies with their times, and the counters.
fn serve_every(
    interval: Nanos,
    config: AuthConfig,
    queries: &[Vec<u8>],
) -> (Vec<(Nanos, Vec<u8>)>, AuthCounters) {
    let peer: SocketAddr = "192.0.2.1:5000".parse().expect("an address");
    let mut engine = SimEngine::new(|_, _, _, _: &mut Replies| ()).recording();
    for (k, query) in (0..).zip(queries) {
        engine.inject(Nanos(k * interval.0), SocketId(0), peer, query.clone());
    }
    let end = Nanos(queries.len() as u64 * interval.0 + 1_000_000_000);
    let mut role = Until { auth: Auth::new(config), end };
    drive(&mut engine, &mut role, WaitMode::Sleep, &AtomicBool::new(false))
        .expect("no errors here");
    let sent = engine.sent().iter().map(|(at, _, bytes)| (*at, bytes.clone())).collect();
    (sent, role.auth.counters())
}

/// Returns queries for the A records of different names.
fn queries(count: usize) -> Vec<Vec<u8>> {
    let host = |i| format!("010-001-{:03}-{:03}.dns64perf.test", i / 250, i % 250);
    (0..count).map(|i| query(&host(i), "A", None)).collect()
}

fn faulty(faults: &[&str]) -> AuthConfig {
    AuthConfig { faults: faults.iter().map(|f| f.parse().expect(f)).collect(), ..config() }
}

/// Passes `queries` to an AuthDNS as messages of a stream, one per `interval`; returns as [`serve_every`].
fn serve_stream(
    interval: Nanos,
    config: AuthConfig,
    queries: &[Vec<u8>],
) -> (Vec<(Nanos, Vec<u8>)>, AuthCounters) {
    let (mut auth, mut replies) = (Auth::new(config), Vec::new());
    for (k, query) in (0..).zip(queries) {
        let (at, mut reply) = (Nanos(k * interval.0), Vec::new());
        let leaves = auth.answer_stream(Streamed { at, ..Streamed::default() }, query, &mut reply);
        let (at, copies) = match leaves {
            Leaves::AtOnce => (at, 1),
            Leaves::At(at, copies) => (at, copies),
            Leaves::Never => continue,
        };
        replies.extend((0..copies).map(|_| (at, reply.clone())));
    }
    replies.sort_by_key(|(at, _)| *at);
    (replies, auth.counters())
}

#[test]
fn over_a_stream_all_of_it_is_as_over_udp() {
    let behaviour = |change: fn(&mut AuthConfig)| {
        let mut config = config();
        change(&mut config);
        config
    };
    let table = [
        behaviour(|_| ()),
        behaviour(|c| c.delay = Nanos::from_micros(2_300)),
        behaviour(|c| c.loss = 0.3),
        behaviour(|c| c.capacity = Some("700:5".parse().expect("a capacity"))),
        behaviour(|c| c.stall = Some("20ms/100ms".parse().expect("a stall"))),
        behaviour(|c| c.latency = Some("bimodal:0.9:0.2ms:20ms".parse().expect("a latency"))),
        behaviour(|c| c.late = Some("0.01:250ms".parse().expect("late replies"))),
        behaviour(|c| {
            c.stall = Some("20ms/100ms".parse().expect("a stall"));
            c.delay = Nanos::from_micros(2_300);
            c.capacity = Some("700:5".parse().expect("a capacity"));
            c.loss = 0.25;
        }),
        faulty(&["duplicate:0.25", "servfail:0.25", "cut:0.125", "wrong-address:0.125"]),
        faulty(&["wrong-id:0.1", "wrong-question:0.1", "silent:0.1"]),
    ];
    let (interval, queries) = (Nanos::from_millis(1), queries(1_000));
    for config in table {
        let datagrams = serve_every(interval, config.clone(), &queries);
        let stream = serve_stream(interval, config.clone(), &queries);
        assert_eq!(stream.1, datagrams.1, "{config:?}");
        let sorted = |mut replies: Vec<(Nanos, Vec<u8>)>| {
            replies.sort();
            replies
        };
        assert!(sorted(stream.0) == sorted(datagrams.0), "{config:?}");
    }
    // A message over a stream is never truncated.
    let (replies, counts) = serve_stream(interval, faulty(&["truncate:0.5"]), &queries);
    assert!(counts.faults == 0 && replies.iter().all(|(_, reply)| reply[2] & 2 == 0));
}

#[test]
fn replies_are_late_by_the_delay() {
    for delay in [0, 25] {
        let config = AuthConfig { delay: Nanos::from_millis(delay), ..config() };
        let (replies, counts) = serve(config, &queries(100));
        let times: Vec<Nanos> = replies.iter().map(|(at, _)| *at).collect();
        let wanted: Vec<Nanos> = (0..100).map(|i| Nanos::from_millis(i + delay)).collect();
        assert_eq!(times, wanted);
        assert_eq!(
            (counts.queries, counts.answers, counts.faults, counts.overflow),
            (100, 100, 0, 0)
        );
    }
}

#[test]
fn delayed_replies_beyond_the_bound_are_dropped_and_counted() {
    // The last query comes after 70 ms: no reply leaves before.
    let config = AuthConfig { delay: Nanos::from_millis(100), ..config() };
    let queries = vec![query(HOST, "A", None); 70_000];
    let (replies, counts) = serve_every(Nanos::from_micros(1), config, &queries);
    assert_eq!((counts.queries, counts.answers), (70_000, 70_000));
    assert_eq!((replies.len(), counts.overflow), (65_536, 70_000 - 65_536));
    let last = replies.last().map(|(at, _)| *at);
    assert_eq!(last, Some(Nanos::from_micros(100_000 + 65_535)), "the first ones wait");
}

/// Returns the numbers of the queries that got replies, by the ids of the replies, with the times of these replies.
fn numbered(replies: &[(Nanos, Vec<u8>)], queries: &[Vec<u8>]) -> Vec<(usize, Nanos)> {
    let question = |message: &[u8]| message[12..42].to_vec();
    let number: std::collections::HashMap<Vec<u8>, usize> =
        queries.iter().enumerate().map(|(k, query)| (question(query), k)).collect();
    replies.iter().map(|(at, reply)| (number[&question(reply)], *at)).collect()
}

#[test]
fn a_capacity_drops_what_is_beyond_it() {
    // 2,000 queries at 10,000 per second, for a capacity of 4,000 per second with a burst of 8.
    let config = AuthConfig { capacity: Some("4k:8".parse().expect("a capacity")), ..config() };
    let queries = queries(2_000);
    let (replies, counts) = serve_every(Nanos::from_micros(100), config, &queries);
    let answered = numbered(&replies, &queries);
    // Tokens come every 250 us: the bucket lasts while 100 us per query is ahead of them.
    let mut tokens = Vec::new();
    let mut full_at = 0u64;
    for k in 0..2_000u64 {
        let now = k * 100_000;
        if full_at.max(now) - now <= 7 * 250_000 {
            full_at = full_at.max(now) + 250_000;
            tokens.push((k as usize, Nanos(now)));
        }
    }
    assert_eq!(answered, tokens, "each at the time of its query");
    assert_eq!(answered.len(), 807, "4,000 per second for 0.2 s, and the burst");
    assert_eq!((counts.queries, counts.answers, counts.over_capacity), (2_000, 807, 1_193));
}

#[test]
fn no_query_is_dropped_below_the_capacity() {
    let config = AuthConfig { capacity: Some("10k:1".parse().expect("a capacity")), ..config() };
    let (replies, counts) = serve_every(Nanos::from_micros(100), config, &queries(2_000));
    assert_eq!((replies.len(), counts.over_capacity), (2_000, 0));
}

#[test]
fn queries_wait_until_the_end_of_a_stall() {
    let config = AuthConfig { stall: Some("20ms/100ms".parse().expect("a stall")), ..config() };
    let queries = queries(300);
    let (replies, counts) = serve(config, &queries);
    let wanted: Vec<(usize, Nanos)> = (0..300u64)
        .map(|k| {
            let at = if k % 100 >= 80 { (k / 100 + 1) * 100 } else { k };
            (k as usize, Nanos::from_millis(at))
        })
        .collect();
    assert_eq!(numbered(&replies, &queries), wanted);
    assert_eq!((counts.answers, counts.overflow), (300, 0));
}

#[test]
fn a_stall_holds_delayed_replies_and_spends_the_burst() {
    // The replies to the queries of 70 to 79 ms would be due in the stall.
    let stalling = AuthConfig {
        stall: Some("20ms/100ms".parse().expect("a stall")),
        delay: Nanos::from_millis(10),
        ..config()
    };
    let queries = queries(150);
    let (replies, _) = serve(stalling.clone(), &queries);
    for (k, at) in numbered(&replies, &queries) {
        let wanted = match k {
            70..80 => 100,
            80..100 => 110,
            _ => k as u64 + 10,
        };
        assert_eq!(at, Nanos::from_millis(wanted), "query {k}");
    }
    // Of the 21 queries at the end of the stall, the burst of five gets answers.
    let both = AuthConfig { capacity: Some("1k:5".parse().expect("a capacity")), ..stalling };
    let (replies, counts) = serve(both, &queries);
    let at_the_end =
        numbered(&replies, &queries).iter().filter(|(k, _)| (80..101).contains(k)).count();
    assert_eq!((at_the_end, counts.over_capacity), (5, 16));
}

#[test]
fn two_latencies_have_their_exact_shares_and_times() {
    let latency = "bimodal:0.75:200us:20ms".parse().expect("a latency");
    let queries = queries(1_000);
    for stalls in [false, true] {
        let stall = stalls.then(|| "1ms/10s".parse().expect("a stall"));
        let config = AuthConfig { latency: Some(latency), stall, ..config() };
        let (replies, _) = serve(config, &queries);
        let answered = numbered(&replies, &queries);
        let after = |(k, at): &(usize, Nanos)| at.since(Nanos::from_millis(*k as u64));
        let slow = answered.iter().filter(|a| after(a) == Nanos::from_millis(20)).count();
        let fast = answered.iter().filter(|a| after(a) == Nanos::from_micros(200)).count();
        assert_eq!((fast, slow), (750, 250));
    }
}

#[test]
fn late_replies_come_after_their_time_and_duplicates_too() {
    let config = AuthConfig {
        late: Some("0.125:300ms".parse().expect("late replies")),
        delay: Nanos::from_millis(2),
        ..faulty(&["duplicate:0.5"])
    };
    let queries = queries(800);
    let (replies, counts) = serve(config, &queries);
    let answered = numbered(&replies, &queries);
    let after = |(k, at): &(usize, Nanos)| at.since(Nanos::from_millis(*k as u64));
    let late: Vec<usize> =
        answered.iter().filter(|a| after(a) == Nanos::from_millis(300)).map(|a| a.0).collect();
    let in_time = answered.iter().filter(|a| after(a) == Nanos::from_millis(2)).count();
    assert_eq!(late.len() + in_time, 1_200, "each second reply is sent twice");
    let late: std::collections::BTreeSet<usize> = late.into_iter().collect();
    assert_eq!((late.len(), counts.late, counts.faults), (100, 100, 400));
}

#[test]
fn workers_share_their_capacity() {
    let config = AuthConfig { capacity: Some("1k:10".parse().expect("a capacity")), ..config() };
    let mut rx = RxBatch::new(8, 512);
    let peer: SocketAddr = "192.0.2.1:5000".parse().expect("an address");
    for query in queries(8) {
        assert!(rx.put(SocketId(0), peer, Nanos::ZERO, &query));
    }
    let mut workers = Auth::workers(&config, 3);
    let answers: Vec<usize> = workers
        .iter_mut()
        .map(|auth| {
            let mut tx = TxBatch::new(9, 1 << 16, 1);
            auth.handle(Nanos::ZERO, &rx, &mut tx);
            tx.len()
        })
        .collect();
    assert_eq!(answers, [8, 2, 0]);
}

#[test]
fn loss_is_exact_and_even() {
    for (loss, period) in [(0.001, 1_000), (0.01, 100), (0.5, 2)] {
        let (replies, counts) = serve(AuthConfig { loss, ..config() }, &queries(3_000));
        let missing: Vec<u64> = (0..3_000)
            .filter(|i| {
                replies.binary_search_by_key(&Nanos::from_millis(*i), |(at, _)| *at).is_err()
            })
            .collect();
        let wanted: Vec<u64> = (1..=3_000 / period).map(|k| k * period - 1).collect();
        assert_eq!(missing, wanted);
        assert_eq!((counts.answers, counts.faults), (3_000, 3_000 / period));
    }
}

#[test]
fn loss_and_faults_apply_only_to_replies() {
    let config = AuthConfig { loss: 0.25, ..faulty(&["servfail:0.25"]) };
    // The short message after each query has no reply, so it gets no fault.
    let both: Vec<Vec<u8>> = queries(1_000).into_iter().flat_map(|q| [q, vec![0; 5]]).collect();
    let (replies, counts) = serve(config, &both);
    let servfail = replies.iter().filter(|(_, bytes)| bytes[3] & 15 == 2).count();
    assert!(
        replies.len().abs_diff(750) <= 1 && servfail.abs_diff(250) <= 1,
        "{} {servfail}",
        replies.len()
    );
    assert_eq!((counts.queries, counts.ignored), (2_000, 1_000));
}

/// A DNS64 server queries AAAA, which is empty, and A in turn; a share of all replies could affect no address.
#[test]
fn wrong_addresses_are_a_share_of_replies_with_addresses() {
    let turns: Vec<Vec<u8>> =
        (0..400).map(|i| query(HOST, if i % 2 == 0 { "AAAA" } else { "A" }, None)).collect();
    let (replies, counts) = serve(faulty(&["wrong-address:0.25"]), &turns);
    let wrong = replies.iter().filter(|(_, bytes)| bytes.ends_with(&[10, 1, 2, 2])).count();
    assert_eq!((wrong, counts.faults), (50, 50));
}

#[test]
fn the_check_of_replies_finds_each_fault() {
    let expect = Expect::A("10.1.2.3".parse().expect("an address"));
    for edns in [None, Some(Edns::default())] {
        let query = query(HOST, "A", edns.as_ref());
        let question = wire::reply::question(&query).expect("one question");
        let serve = |faults: &[&str], delay| {
            let delay = Nanos::from_millis(delay);
            serve(AuthConfig { delay, ..faulty(faults) }, std::slice::from_ref(&query)).0
        };
        let correct = &serve(&[], 0)[0].1;
        assert_eq!(check(correct, question, &expect), Ok(0));
        for (fault, wanted) in [
            ("wrong-address", Invalid::WrongAddress),
            ("wrong-question", Invalid::WrongQuestion),
            ("truncate", Invalid::Truncated),
            ("cut", Invalid::Malformed),
            ("servfail", Invalid::Rcode(2)),
        ] {
            let replies = serve(&[fault], 0);
            assert_eq!(replies.len(), 1);
            assert_eq!(check(&replies[0].1, question, &expect), Err(wanted), "{fault}");
            assert_eq!(serve(&[fault], 3)[0].1, replies[0].1, "the same, later");
            assert_eq!(replies[0].1[..2], correct[..2]);
        }
        let other_id = &serve(&["wrong-id"], 0)[0].1;
        assert_eq!((&other_id[2..], other_id[..2] == correct[..2]), (&correct[2..], false));
        for delay in [0, 3] {
            assert_eq!(serve(&["silent"], delay), []);
            let at = Nanos::from_millis(delay);
            assert_eq!(
                serve(&["duplicate"], delay),
                [(at, correct.clone()), (at, correct.clone())]
            );
        }
    }
}

#[test]
fn errors_with_faults_are_valid_messages() {
    // A malformed query, one for a name outside all zones, one with EDNS version 1, and one for the root.
    let mut version = query(HOST, "A", Some(&Edns::default()));
    let at = version.len() - 5;
    version[at] = 1;
    let cut = query(HOST, "A", None)[..20].to_vec();
    let others = query("www.example.com", "A", None);
    let queries = [cut, others, version, query(".", "NS", Some(&Edns::default()))];
    for (fault, wanted_rcode, wanted_tc) in
        [("servfail", Some(2), 0), ("truncate", Some(0), 2), ("wrong-question", None, 0)]
    {
        let (replies, _) = serve(faulty(&[fault]), &queries);
        let (correct, _) = serve(config(), &queries);
        assert_eq!((replies.len(), correct.len()), (queries.len(), queries.len()), "{fault}");
        for ((_, reply), (_, correct)) in replies.iter().zip(&correct) {
            let message = domain::base::Message::from_octets(&reply[..]).expect("a message");
            assert_eq!(reply[3] & 15, wanted_rcode.unwrap_or(correct[3] & 15), "{fault}");
            assert_eq!(reply[2] & 2, wanted_tc, "{fault}");
            assert_eq!(message.opt().is_some(), correct[11] == 1, "{fault}");
            assert!(
                message.opt().is_none()
                    || fault == "wrong-question"
                    || message.opt_rcode().to_int() < 16
            );
            assert!(message.sections().is_ok());
        }
    }
}

#[test]
fn a_batch_without_room_is_counted() {
    let mut rx = RxBatch::new(8, 512);
    let peer: SocketAddr = "192.0.2.1:5000".parse().expect("an address");
    for query in queries(8) {
        assert!(rx.put(SocketId(0), peer, Nanos::ZERO, &query));
    }
    let mut auth = Auth::new(AuthConfig { aaaa: AaaaPolicy::Always, ..faulty(&["duplicate:0.5"]) });
    let mut tx = TxBatch::new(9, 1 << 16, 1);
    assert_eq!(auth.handle(Nanos::ZERO, &rx, &mut tx), Next::Idle);
    // Every second reply is sent twice, so six queries fill the batch.
    let counts = auth.counters();
    assert_eq!((tx.len(), counts.queries, counts.answers, counts.overflow), (9, 8, 6, 2));
}
