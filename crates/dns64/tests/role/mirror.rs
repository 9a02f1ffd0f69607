//! Copies of answers for a second cache: which are made, when, and how long they hold.

use std::sync::Arc;

use dns64::rules::RulesFormat;
use dns64::{Config, MirroredAnswer, RuleSets, Settings};
use measure::Nanos;
use wire::{Qtype, Rcode};

use crate::GLOBAL;
use crate::bench::*;

/// Returns generation, type and remaining seconds of the answers copied in the last steps.
fn copied(bench: &mut Bench) -> Vec<(u64, Qtype, u64)> {
    let now = bench.now;
    let Some(mirrored) = bench.role.mirrored() else { return Vec::new() };
    let left = |answer: &MirroredAnswer<'_>| answer.until.since(now).0 / 1_000_000_000;
    let seen = mirrored.iter().map(|a| (a.generation, a.qtype, left(&a))).collect();
    mirrored.clear();
    seen
}

/// Asks for an A record, with upstream's reply if there is a query.
fn ask(bench: &mut Bench, name: &str) {
    let out = bench.ask(1, &query(name, Qtype::A, 1));
    if let [sent] = &out.upstream[..] {
        bench.reply(sent, &reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
    }
}

#[test]
fn stored_answers_are_copied_and_used_ones_now_and_then() {
    let mut bench = Bench::new("");
    ask(&mut bench, "one.test");
    assert!(bench.role.mirrored().is_none(), "nobody wants copies");
    bench.role.mirror_as(7);
    ask(&mut bench, "two.test");
    assert_eq!(copied(&mut bench), [(7, Qtype::A, 256)]);
    // An answer of before is copied when it is used.
    ask(&mut bench, "one.test");
    assert_eq!(copied(&mut bench).len(), 1);
    ask(&mut bench, "one.test");
    assert_eq!(copied(&mut bench), []);
    // Its copy may be gone after a while.
    bench.now += Nanos::from_secs(11);
    ask(&mut bench, "one.test");
    let seen = copied(&mut bench);
    assert!(seen.len() == 1 && seen[0].2 < 256, "{seen:?}");
    bench.role.mirror_as(8);
    ask(&mut bench, "one.test");
    assert_eq!(copied(&mut bench).iter().map(|seen| seen.0).collect::<Vec<_>>(), [8]);
    bench.role.mirror_as(0);
    ask(&mut bench, "one.test");
    assert!(bench.role.mirrored().is_none());
}

#[test]
fn a_copy_is_the_answer_of_the_cache() {
    let mut bench = Bench::new("");
    bench.role.mirror_as(1);
    let asked = bench.ask(1, &query("WWW.test", Qtype::AAAA, 1));
    let second =
        bench.reply(&asked.upstream[0], &reply(&asked.upstream[0].bytes, Rcode::NOERROR, &[]));
    let a = &second.upstream[0];
    bench.reply(a, &reply(&a.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
    let now = bench.now;
    let mirrored = bench.role.mirrored().expect("copies are wanted");
    let [answer] = &mirrored.iter().collect::<Vec<_>>()[..] else { panic!("one answer") };
    assert_eq!(address(answer.message), ("64:ff9b::808:404".to_owned(), 100));
    assert_eq!(&answer.message[12..17], b"\x03www\x04");
    assert_eq!((answer.view, answer.rd, answer.cd, answer.dnssec), (1, true, false, false));
    // It is synthesised.
    assert_eq!(answer.options, [0, 15, 0, 2, 0, 29]);
    assert_eq!((answer.stored, answer.until), (now, now + Nanos::from_secs(100)));
}

#[test]
fn what_depends_on_more_than_the_question_is_not_copied() {
    for (file, name, qtype, copies) in [
        ("", "www.test", Qtype::A, 1),
        ("", "www.test", Qtype::MX, 1),
        ("cache.prefetch = true", "www.test", Qtype::A, 1),
        ("server.minimal-any = false", "www.test", Qtype::ANY, 0),
        ("upstream.client-subnet = \"add\"", "www.test", Qtype::A, 0),
        ("cache.size = 0", "www.test", Qtype::A, 0),
    ] {
        let mut bench = Bench::new(file);
        bench.role.mirror_as(1);
        let sent = bench.ask(1, &query(name, qtype, 1)).upstream.remove(0);
        let answer: &[(Qtype, &[u8])] = if qtype == Qtype::A { &[(Qtype::A, GLOBAL)] } else { &[] };
        bench.reply(&sent, &reply(&sent.bytes, Rcode::NOERROR, answer));
        let seen = copied(&mut bench);
        assert_eq!(seen.len(), copies, "{file} {qtype}");
        if file.contains("prefetch") {
            // The last tenth is for queries that lead to a refresh.
            assert!(seen[0].2 < 240, "{seen:?}");
        }
    }
    // A name with a rule, which each query has to meet.
    let mut bench = Bench::new("");
    let mut rules = RuleSets::default();
    Arc::make_mut(&mut rules.common)
        .add(RulesFormat::List, "www.test never\n")
        .expect("it is right");
    bench.role.mirror_as(1);
    let config = Config::parse("upstream.source-ports = 4").expect("it is right");
    let settings = Settings::new(config, 1, [7; 16]).with_rules(rules);
    bench.role.reload(Arc::new(settings));
    ask(&mut bench, "www.test");
    assert_eq!(copied(&mut bench), []);
    ask(&mut bench, "other.test");
    assert_eq!(copied(&mut bench).len(), 1);
}

#[test]
fn a_failure_is_copied_as_one() {
    let mut bench = Bench::new("upstream.attempts = 1\ncache.failure-ttl = \"60s\"");
    bench.role.mirror_as(1);
    let sent = bench.ask(1, &query("failed.test", Qtype::A, 1)).upstream.remove(0);
    bench.reply(&sent, &reply(&sent.bytes, Rcode::REFUSED, &[]));
    bench.wait(5_000);
    ask(&mut bench, "other.test");
    let mirrored = bench.role.mirrored().expect("copies are wanted");
    let seen: Vec<_> = mirrored.iter().map(|a| (a.is_failure, a.until.since(a.stored))).collect();
    assert_eq!(seen, [(true, Nanos::from_secs(60)), (false, Nanos::from_secs(256))]);
}
