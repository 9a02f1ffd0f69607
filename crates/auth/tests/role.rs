//! The role of the AuthDNS on the simulated engine: exact delay, loss and faults.

mod common;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use auth::{AaaaPolicy, Auth, AuthConfig, AuthCounters};
use common::{HOST, config, query};
use engine::sim::{Replies, SimEngine};
use engine::{Next, Role, RxBatch, SocketId, TxBatch, WaitMode, drive};
use measure::Nanos;
use wire::reply::{Expect, check};
use wire::{Edns, Invalid};

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
}

/// Sends `queries` to an AuthDNS, one per millisecond; returns the replies with their times, and the counters.
fn serve(config: AuthConfig, queries: &[Vec<u8>]) -> (Vec<(Nanos, Vec<u8>)>, AuthCounters) {
    let peer: SocketAddr = "192.0.2.1:5000".parse().expect("an address");
    let mut engine = SimEngine::new(|_, _, _, _: &mut Replies| ()).recording();
    for (at, query) in (0..).map(Nanos::from_millis).zip(queries) {
        engine.inject(at, SocketId(0), peer, query.clone());
    }
    let end = Nanos::from_millis(queries.len() as u64 + 1_000);
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
