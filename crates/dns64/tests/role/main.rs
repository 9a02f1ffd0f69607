//! Tests of the server as a role, step by step: upstream queries and their times, answers to clients, limits. `answers`,
//! `dnssec`, `options` and `cookies` have the rules for their content, `loss` upstreams from which replies are lost or late.

mod answers;
mod bench;
mod cookies;
mod dnssec;
mod loss;
mod mirror;
mod options;
mod text;

use std::net::SocketAddr;
use std::sync::Arc;

use dns64::streams::{FromStreams, ToStreams};
use dns64::{Config, Rules, Settings};
use engine::SocketId;
use measure::Nanos;
use wire::message::{HEADER, question_end};
use wire::{Name, Qtype, Rcode};

use bench::*;

const GLOBAL: &[u8] = &[8, 8, 4, 4];
const MAPPED: &str = "64:ff9b::808:404";

#[test]
fn a_query_takes_six_messages_in_the_order_of_rfc_8219() {
    let mut bench = Bench::new("cache.size = 0");
    let asked = bench.ask(1, &query("wWw.Example.test", Qtype::AAAA, 77));
    assert!(asked.clients.is_empty());
    let [aaaa] = &asked.upstream[..] else { panic!("one query") };
    assert_eq!(
        (aaaa.qtype(), aaaa.name().to_lowercase().as_str()),
        (Qtype::AAAA, "www.example.test")
    );
    assert_ne!(aaaa.name(), "www.example.test", "in mixed case");
    let second = bench.reply(aaaa, &reply(&aaaa.bytes, Rcode::NOERROR, &[]));
    let [a] = &second.upstream[..] else { panic!("one query") };
    assert_eq!(a.qtype(), Qtype::A);
    assert!(a.bytes[..2] != aaaa.bytes[..2] && a.name() != aaaa.name(), "id and case are random");
    let last = bench.reply(a, &reply(&a.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
    let [(peer, answer)] = &last.clients[..] else { panic!("one answer") };
    assert_eq!((peer.port(), &answer[..2]), (1, &77u16.to_be_bytes()[..]));
    assert!(last.upstream.is_empty());
    // The SOA's minimum limits the TTL; the question has the case of the query.
    assert_eq!(address(answer), (MAPPED.to_owned(), 100));
    assert_eq!(&answer[HEADER..HEADER + 5], b"\x03wWw\x07");
    let counters = bench.role.counters();
    assert_eq!((counters.synthesised, counters.upstream_queries, counters.replies), (1, 2, 1));
    assert_eq!(bench.role.gauges().outstanding, 0);
}

#[test]
fn aaaa_and_a_are_queried_in_parallel_if_configured() {
    for a_first in [false, true] {
        let mut bench = Bench::new("cache.size = 0\nsynthesis.parallel = true");
        let asked = bench.ask(1, &query("www.test", Qtype::AAAA, 1));
        let [aaaa, a] = &asked.upstream[..] else { panic!("two queries") };
        assert_eq!((aaaa.qtype(), a.qtype()), (Qtype::AAAA, Qtype::A));
        let to_aaaa = reply(&aaaa.bytes, Rcode::NOERROR, &[]);
        let to_a = reply(&a.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]);
        let order =
            if a_first { [(a, to_a), (aaaa, to_aaaa)] } else { [(aaaa, to_aaaa), (a, to_a)] };
        assert!(bench.reply(order[0].0, &order[0].1).clients.is_empty());
        let last = bench.reply(order[1].0, &order[1].1);
        assert_eq!(address(&last.clients[0].1), (MAPPED.to_owned(), 100), "A first: {a_first}");
        assert!(last.upstream.is_empty() && bench.role.gauges().outstanding == 0);
    }
    // With AAAA the answer does not wait for A, whose reply then has no pending query.
    let mut bench = Bench::new("cache.size = 0\nsynthesis.parallel = true");
    let asked = bench.ask(1, &query("www.test", Qtype::AAAA, 1));
    let [aaaa, a] = &asked.upstream[..] else { panic!("two queries") };
    let native = reply(&aaaa.bytes, Rcode::NOERROR, &[(Qtype::AAAA, &[1; 16])]);
    assert_eq!(bench.reply(aaaa, &native).clients.len(), 1);
    let late = reply(&a.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]);
    assert!(bench.reply(a, &late).clients.is_empty());
    assert_eq!(bench.role.counters().upstream_unexpected, 1);
}

#[test]
fn a_silent_upstream_gets_retries_and_the_client_servfail() {
    let mut bench = Bench::new("cache.size = 0\nupstream.dead-after = 100");
    bench.ask(1, &query("www.test", Qtype::AAAA, 1));
    let events = bench.wait(10_000);
    let times: Vec<u64> = events.iter().map(|(ms, _)| *ms).collect();
    // AAAA at 0, 400 and 1,000 ms, A beside it from 400 ms on; SERVFAIL when both have ended, each
    // after 3 s; with 10 % of jitter at each step and ticks of 4 ms.
    for (at, expected) in times.iter().zip([400, 800, 1_000, 1_400, 3_400]) {
        assert!(
            at + expected / 10 >= expected && *at <= expected + expected / 10 + 13,
            "{times:?}"
        );
    }
    assert_eq!(times.len(), 5);
    let types: Vec<Vec<Qtype>> =
        events.iter().map(|(_, out)| out.upstream.iter().map(Sent::qtype).collect()).collect();
    let (aaaa, a) = (Qtype::AAAA, Qtype::A);
    let (both, one) = (vec![aaaa, a], |qtype| vec![qtype]);
    assert_eq!(types, [both, one(a), one(aaaa), one(a), vec![]]);
    let (_, answer) = &events[4].1.clients[0];
    assert_eq!(rcode(answer), 2);
    assert_eq!(bench.role.counters().upstream_timeouts, 6);
}

#[test]
fn only_a_matching_reply_is_accepted() {
    let mut bench = Bench::new("cache.size = 0");
    let asked = bench.ask(1, &query("www.example.test", Qtype::A, 1));
    let sent = &asked.upstream[0];
    let good = reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]);
    let changed = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        edit(&mut bytes);
        bytes
    };
    let other_socket = (1..5).map(SocketId).find(|s| *s != sent.socket).expect("another");
    let elsewhere = Sent { socket: other_socket, bytes: Vec::new() };
    for (what, on, bytes) in [
        ("another id", sent, changed(&|b| b[1] ^= 1)),
        ("another socket", &elsewhere, good.clone()),
        ("another name", sent, changed(&|b| b[14] = b'x')),
        ("another type", sent, changed(&|b| b[HEADER + 18 + 1] = 16)),
        ("a query", sent, changed(&|b| b[2] &= 0x7f)),
        ("cut", sent, good[..good.len() - 1].to_vec()),
        ("a scrap", sent, good[..7].to_vec()),
    ] {
        let out = bench.reply(on, &bytes);
        assert!(out.clients.is_empty() && out.upstream.is_empty(), "{what}");
    }
    let counters = bench.role.counters();
    let ignored =
        counters.upstream_unexpected + counters.upstream_mismatched + counters.upstream_malformed;
    assert_eq!(ignored, 7);
    assert_eq!(bench.reply(sent, &good).clients.len(), 1);
    // The server is known to keep case: a reply in another case is forged, and the query is repeated over a stream.
    let asked = bench.ask(1, &query("www.example.test", Qtype::A, 2));
    let sent = &asked.upstream[0];
    let mut lower = reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]);
    lower[HEADER..HEADER + 17].make_ascii_lowercase();
    assert!(bench.reply(sent, &lower).clients.is_empty());
    assert_eq!(answer_stream(&mut bench).clients.len(), 1);
    let again = bench.ask(1, &query("www.example.test", Qtype::A, 3)).upstream;
    assert_ne!(again[0].name(), "www.example.test", "the next name is in mixed case again");
}

/// Sends to the only query over a stream the reply that is made of it.
fn answer_stream_with(bench: &mut Bench, reply: impl Fn(&[u8]) -> Vec<u8>) -> Out {
    let commands: Vec<ToStreams> = bench.role.drain_to_streams().collect();
    let [ToStreams::Query { lookup, ticket, message, .. }] = &commands[..] else {
        panic!("{commands:?}")
    };
    let message = Some(reply(message));
    let reply = FromStreams::Reply { lookup: *lookup, ticket: *ticket, message };
    bench.role.push_from_streams(reply);
    bench.step(&[])
}

/// Replies to the only query that was sent over a stream.
fn answer_stream(bench: &mut Bench) -> Out {
    answer_stream_with(bench, |query| reply(query, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]))
}

#[test]
fn an_error_without_a_question_on_a_stream_may_be_about_edns_too() {
    let mut bench = Bench::new("cache.size = 0\nupstream.transport = \"tcp\"");
    assert!(bench.ask(1, &query("www.test", Qtype::A, 1)).upstream.is_empty());
    let out = answer_stream_with(&mut bench, |query| {
        assert_eq!(query[10..12], [0, 1]);
        [&query[..2], &[0x81, 0x81], &[0; 8]].concat()
    });
    assert!(out.clients.is_empty());
    let out = answer_stream_with(&mut bench, |query| {
        assert_eq!(query[10..12], [0, 0], "without EDNS");
        reply(query, Rcode::NOERROR, &[(Qtype::A, GLOBAL)])
    });
    assert_eq!(rcode(&out.clients[0].1), 0);
}

#[test]
fn an_error_without_a_question_is_checked_and_confirmed() {
    let mut bench = Bench::new("cache.size = 0");
    let sent = bench.ask(1, &query("www.test", Qtype::A, 1)).upstream.remove(0);
    let short =
        |sent: &Sent, flags: [u8; 2], counts: [u8; 8]| [&sent.bytes[..2], &flags, &counts].concat();
    for (what, flags, counts) in [
        ("a query", [0x01, 0x81], [0; 8]),
        ("another opcode", [0xa9, 0x81], [0; 8]),
        ("truncated", [0x83, 0x81], [0; 8]),
        ("NOERROR", [0x81, 0x80], [0; 8]),
        ("NXDOMAIN", [0x81, 0x83], [0; 8]),
        ("a return code of another opcode", [0x81, 0x89], [0; 8]),
        ("records that are not there", [0x81, 0x82], [0, 1, 0, 0, 0, 0, 0, 0]),
    ] {
        let out = bench.reply(&sent, &short(&sent, flags, counts));
        assert!(out.clients.is_empty() && out.upstream.is_empty(), "{what}");
        assert_eq!(bench.role.drain_to_streams().count(), 0, "{what}");
    }
    assert_eq!(bench.role.counters().upstream_malformed, 7);
    // FORMERR, with an OPT record: without EDNS; SERVFAIL to that: over a stream.
    let error = short(&sent, [0x81, 0x81], [0, 0, 0, 0, 0, 0, 0, 1]);
    let out = bench.reply(&sent, &[&error[..], b"\0\0\x29\x04\xd0\0\0\0\0\0\0"].concat());
    let [plain] = &out.upstream[..] else { panic!("one query") };
    assert_eq!(plain.bytes[10..12], [0, 0]);
    let out = bench.reply(plain, &short(plain, [0x81, 0x82], [0; 8]));
    assert!(out.clients.is_empty() && out.upstream.is_empty());
    assert_eq!(rcode(&answer_stream(&mut bench).clients[0].1), 0);
}

#[test]
fn queries_to_a_server_that_changes_case_use_streams() {
    let mut bench = Bench::new("cache.size = 0");
    for round in 0..6 {
        let asked = bench.ask(1, &query("www.example.test", Qtype::A, 2));
        let sent = &asked.upstream[0];
        let mut lower = reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]);
        lower[HEADER..HEADER + 17].make_ascii_lowercase();
        let out = bench.reply(sent, &lower);
        if round < 4 {
            assert_eq!(answer_stream(&mut bench).clients.len(), 1, "round {round}");
        } else {
            assert_eq!(sent.name(), "www.example.test", "names are sent in lower case");
            assert_eq!(out.clients.len(), 1);
        }
    }
}

#[test]
fn a_truncated_reply_is_queried_again_over_a_stream() {
    let mut bench = Bench::new("cache.size = 0");
    let asked = bench.ask(1, &query("www.test", Qtype::TXT, 5));
    let mut cut = reply(&asked.upstream[0].bytes, Rcode::NOERROR, &[]);
    cut[2] |= 2;
    let out = bench.reply(&asked.upstream[0], &cut);
    assert!(out.clients.is_empty());
    let commands: Vec<ToStreams> = bench.role.drain_to_streams().collect();
    let [ToStreams::Query { lookup, ticket, message, .. }] = &commands[..] else {
        panic!("{commands:?}")
    };
    let whole =
        reply(message, Rcode::NOERROR, &[(Qtype::TXT, &[255; 256]), (Qtype::TXT, &[254; 255])]);
    // A reply with a wrong ticket is ignored; the right one is used; after a failure the answer is cut too.
    let (lookup, ticket) = (*lookup, *ticket);
    bench.role.push_from_streams(FromStreams::Reply {
        lookup,
        ticket: ticket + 1,
        message: Some(whole.clone()),
    });
    assert!(bench.step(&[]).clients.is_empty());
    bench.role.push_from_streams(FromStreams::Reply { lookup, ticket, message: Some(whole) });
    let out = bench.step(&[]);
    assert!(out.clients[0].1.len() > 500 && rcode(&out.clients[0].1) == 0);

    let asked = bench.ask(1, &query("www.test", Qtype::TXT, 5));
    bench.reply(&asked.upstream[0], &{
        let mut cut = reply(&asked.upstream[0].bytes, Rcode::NOERROR, &[]);
        cut[2] |= 2;
        cut
    });
    let commands: Vec<ToStreams> = bench.role.drain_to_streams().collect();
    let [ToStreams::Query { lookup, ticket, .. }] = commands[..] else { panic!("{commands:?}") };
    bench.role.push_from_streams(FromStreams::Reply { lookup, ticket, message: None });
    let cut = &bench.step(&[]).clients[0].1;
    assert_eq!((rcode(cut), cut[2] & 2), (0, 2));
}

#[test]
fn clients_with_the_same_question_share_one_lookup() {
    let mut bench = Bench::new("cache.size = 0");
    let asked = bench.ask(1, &query("www.test", Qtype::A, 1));
    assert!(bench.ask(2, &query("WWW.test", Qtype::A, 2)).upstream.is_empty());
    assert!(bench.ask(3, &query("www.TEST", Qtype::A, 3)).upstream.is_empty());
    // The first client repeats its query.
    assert!(bench.ask(1, &query("www.test", Qtype::A, 1)).upstream.is_empty());
    let sent = &asked.upstream[0];
    let out = bench.reply(sent, &reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
    let mut got: Vec<(u16, u8, String)> = Vec::new();
    for (peer, answer) in &out.clients {
        let end = question_end(answer).expect("a question");
        let name = Name::from_wire(&answer[HEADER..end - 4]).expect("a name");
        got.push((peer.port(), answer[1], name.to_string()));
    }
    got.sort();
    let expected = [(1, 1, "www.test"), (2, 2, "WWW.test"), (3, 3, "www.TEST")];
    assert_eq!(got, expected.map(|(port, id, name)| (port, id, name.to_owned())));
    assert_eq!((bench.role.counters().joined, bench.role.gauges().waiters), (3, 0));
}

#[test]
fn outstanding_queries_are_limited_by_policy() {
    for (policy, answers, oldest_fails) in [
        ("refuse-newest", 1, false),
        ("drop-newest", 0, false),
        ("refuse-oldest", 1, true),
        ("drop-oldest", 0, true),
    ] {
        let mut bench = Bench::new(&format!(
            "cache.size = 0\nlimits.outstanding = 3\nlimits.client-share = 1.0\nlimits.overload = \"{policy}\""
        ));
        for i in 0..3 {
            assert_eq!(bench.ask(i, &query(&format!("{i}.test"), Qtype::A, i)).upstream.len(), 1);
        }
        let out = bench.ask(9, &query("9.test", Qtype::A, 9));
        assert_eq!((out.clients.len(), out.upstream.len()), (answers, usize::from(oldest_fails)));
        if let Some((peer, answer)) = out.clients.first() {
            assert_eq!((peer.port(), rcode(answer)), (if oldest_fails { 0 } else { 9 }, 2));
        }
        assert_eq!(bench.role.gauges().outstanding, 3);
        let counters = bench.role.counters();
        assert_eq!(
            (counters.overloaded, counters.displaced),
            if oldest_fails { (0, 1) } else { (1, 0) }
        );
    }
}

#[test]
fn replies_to_unknown_clients_amplify_nothing() {
    let stranger: SocketAddr = "192.0.2.1:5000".parse().expect("an address");
    let asked = query("www.test", Qtype::ANY, 3);
    let mut bench = Bench::new("");
    let out = bench.step(&[(LISTENING, stranger, &asked)]);
    let [(_, answer)] = &out.clients[..] else { panic!("one reply") };
    assert_eq!((rcode(answer), answer.len()), (5, asked.len()));
    let garbage = bench.step(&[(LISTENING, stranger, &asked[..20])]);
    assert!(garbage.clients.is_empty());
    let mut dropping = Bench::new("server.denied = \"drop\"");
    assert!(dropping.step(&[(LISTENING, stranger, &asked)]).clients.is_empty());
    assert_eq!(dropping.role.counters().denied, 1);
    // A permitted client gets FORMERR.
    assert_eq!(rcode(&bench.ask(1, &asked[..20]).clients[0].1), 1);
}

#[test]
fn one_retry_remains_when_all_servers_are_dead() {
    let mut bench = Bench::new("cache.size = 0\nupstream.dead-after = 2");
    bench.ask(1, &query("first.test", Qtype::A, 1));
    bench.wait(10_000);
    assert!(bench.role.health().all(|server| !server.alive));
    bench.ask(1, &query("second.test", Qtype::A, 2));
    let mut sent: Vec<Sent> =
        bench.wait(600).into_iter().flat_map(|(_, out)| out.upstream).collect();
    sent.retain(|sent| sent.name() != ".");
    let [retry] = &sent[..] else { panic!("one retry: {sent:?}") };
    let out = bench.reply(retry, &reply(&retry.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
    assert_eq!(rcode(&out.clients[0].1), 0);
}

#[test]
fn answers_are_cached_refreshed_and_served_stale() {
    let mut bench = Bench::new(
        "cache.prefetch = true\ncache.serve-stale = \"1h\"\nupstream.give-up-after = \"400ms\"",
    );
    let sent = bench.ask(1, &query("www.test", Qtype::A, 1)).upstream.remove(0);
    bench.reply(&sent, &reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
    // TTL 256: the answer is cached for this time, and its age is subtracted.
    bench.now += Nanos::from_secs(100);
    let out = bench.ask(2, &query("WWW.test", Qtype::A, 2));
    assert!(out.upstream.is_empty());
    let ttl = |message: &[u8]| {
        let at = question_end(message).expect("a question");
        wire::message::Record::read(message, at).expect("a record").0.ttl
    };
    assert_eq!(ttl(&out.clients[0].1), 156);
    // In the last tenth of its life the answer is refreshed once, while the client gets the old one.
    bench.now += Nanos::from_secs(140);
    let out = bench.ask(2, &query("www.test", Qtype::A, 2));
    assert_eq!((out.clients.len(), out.upstream.len()), (1, 1));
    let again = bench.ask(2, &query("www.test", Qtype::A, 3));
    assert_eq!((again.clients.len(), again.upstream.len()), (1, 0));
    let refreshed = reply(&out.upstream[0].bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]);
    assert!(bench.reply(&out.upstream[0], &refreshed).clients.is_empty());
    assert_eq!(ttl(&bench.ask(2, &query("www.test", Qtype::A, 4)).clients[0].1), 256);
    // The answer has expired and upstream is silent: the expired answer is served.
    bench.now += Nanos::from_secs(300);
    assert_eq!(bench.ask(2, &query("www.test", Qtype::A, 5)).upstream.len(), 1);
    let events = bench.wait(600);
    let (_, answer) =
        &events.iter().find(|(_, out)| !out.clients.is_empty()).expect("an answer").1.clients[0];
    assert_eq!((rcode(answer), ttl(answer)), (0, 30));
    assert_eq!(bench.role.counters().cache_stale, 1);
    // At once as long as clients may use it; then upstream is asked again.
    let out = bench.ask(2, &query("www.test", Qtype::A, 6));
    assert_eq!((out.clients.len(), out.upstream.len()), (1, 0));
    bench.now += Nanos::from_secs(30);
    let out = bench.ask(2, &query("www.test", Qtype::A, 7));
    assert_eq!((out.clients.len(), out.upstream.len()), (0, 1));
}

#[test]
fn a_failure_that_has_expired_is_no_answer() {
    let mut bench = Bench::new(
        "cache.serve-stale = \"1h\"\nupstream.give-up-after = \"400ms\"\nupstream.dead-after = 100",
    );
    for id in 1..4 {
        // Upstream is asked each time, not only once it may have been put off.
        assert!(!bench.ask(1, &query("www.test", Qtype::A, id)).upstream.is_empty());
        let failed = bench.wait(600).into_iter().flat_map(|(_, out)| out.clients);
        assert_eq!(failed.map(|(_, answer)| rcode(&answer)).collect::<Vec<_>>(), [2]);
        bench.now += Nanos::from_secs(2);
    }
    assert_eq!(bench.role.counters().cache_stale, 0);
}

#[test]
fn a_failed_refresh_keeps_the_old_answer() {
    for silent in [true, false] {
        let mut bench = Bench::new(
            "cache.prefetch = true\nupstream.give-up-after = \"400ms\"\nupstream.dead-after = 100",
        );
        let sent = bench.ask(1, &query("www.test", Qtype::A, 1)).upstream.remove(0);
        bench.reply(&sent, &reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
        bench.now += Nanos::from_secs(240);
        let refresh = bench.ask(2, &query("www.test", Qtype::A, 2)).upstream.remove(0);
        if silent {
            bench.wait(600);
        } else {
            bench.reply(&refresh, &reply(&refresh.bytes, Rcode::SERVFAIL, &[]));
        }
        assert_eq!(bench.role.gauges().outstanding, 0, "the refresh has failed");
        let out = bench.ask(3, &query("www.test", Qtype::A, 3));
        assert_eq!(
            (rcode(&out.clients[0].1), out.upstream.len()),
            (0, 0),
            "the old answer is still valid"
        );
    }
}

#[test]
fn what_all_views_share_is_refreshed_too() {
    let mut bench = Bench::new("cache.prefetch = true\n[[view]]\nclients = [\"::1\"]");
    let sent = bench.ask(1, &query("www.test", Qtype::A, 1)).upstream.remove(0);
    bench.reply(&sent, &reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
    bench.now += Nanos::from_secs(240);
    let out = bench.ask(2, &query("www.test", Qtype::A, 2));
    assert_eq!((out.clients.len(), out.upstream.len()), (1, 1));
}

#[test]
fn a_server_in_several_pools_has_one_state() {
    let zone = "[[forward]]\nzones = [\"corp.test\"]\nservers = [\"127.0.0.1:5353\"]\n";
    let mut bench = Bench::new(&format!(
        "cache.size = 0\nupstream.dead-after = 2\nupstream.servers = [\"127.0.0.1:5353\"]\n{zone}"
    ));
    let states = |bench: &Bench| -> Vec<(bool, bool)> {
        bench.role.health().map(|server| (server.alive, server.forward)).collect()
    };
    assert_eq!(states(&bench), [(true, false)]);
    bench.ask(1, &query("first.test", Qtype::A, 1));
    bench.wait(10_000);
    assert_eq!(states(&bench), [(false, false)], "the zone has not queried it");
}

#[test]
fn a_refreshed_reverse_name_gets_the_same_lookup() {
    let mut bench = Bench::new("cache.prefetch = true");
    let name = "4.0.4.0.8.0.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa";
    let mut asked = Vec::new();
    for id in 1..=2 {
        let sent = bench.ask(1, &query(name, Qtype::PTR, id)).upstream.remove(0);
        asked.push(sent.name().to_lowercase());
        let target = b"\x03www\x04test\0";
        bench.reply(&sent, &reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::PTR, target)]));
        bench.now += Nanos::from_secs(240);
    }
    assert_eq!(asked, ["4.4.8.8.in-addr.arpa"; 2]);
}

#[test]
fn a_reload_keeps_pending_questions() {
    let mut bench = Bench::new("cache.size = 0");
    let aaaa = bench.ask(1, &query("www.test", Qtype::AAAA, 1)).upstream.remove(0);
    let other = "upstream.servers = [\"127.0.0.9:53\"]\nupstream.source-ports = 4\n[[dns64]]\nprefix = \"2001:db8::/96\"";
    let settings = Settings::new(Config::parse(other).expect(other), 1, [7; 16]);
    bench.role.reload(Arc::new(settings));
    bench.open_sockets();
    // The old server may still answer; the next lookup goes to the new one, by the new rules.
    let a = bench.reply(&aaaa, &reply(&aaaa.bytes, Rcode::NOERROR, &[])).upstream.remove(0);
    assert_ne!(a.socket, aaaa.socket);
    let out = bench.reply(&a, &reply(&a.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
    assert_eq!(address(&out.clients[0].1).0, "2001:db8::808:404");
    assert_eq!(
        bench.role.health().map(|s| s.address.to_string()).collect::<Vec<_>>(),
        ["127.0.0.9:53"]
    );
}

#[test]
fn a_reload_keeps_pending_questions_from_other_views() {
    const OWN: &str = "[[view]]\nclients = [\"127.0.0.1\"]\nnever = [\"www.test\"]\n";
    const SIX: &str = "[[view]]\nclients = [\"::1\"]\n";
    let mut bench = Bench::new(&format!("{OWN}{SIX}"));
    let pending = bench.ask(1, &query("www.test", Qtype::AAAA, 1)).upstream.remove(0);
    let alias = bench.ask(1, &query("alias.test", Qtype::AAAA, 2)).upstream.remove(0);
    let file = format!("upstream.source-ports = 4\n{SIX}{OWN}");
    let settings = Settings::new(Config::parse(&file).expect(&file), 1, [7; 16]);
    bench.role.reload(Arc::new(settings));
    // The place of the view in the file is now that of another one.
    let six = "[::1]:2".parse().expect("an address");
    let again = query("www.test", Qtype::AAAA, 3);
    let aaaa = bench.step(&[(LISTENING, six, &again)]).upstream.remove(0);
    let out = bench.reply(&pending, &reply(&pending.bytes, Rcode::NOERROR, &[]));
    assert_eq!((out.clients.len(), out.upstream.len()), (1, 0), "it is never synthesised");
    let a = bench.reply(&aaaa, &reply(&aaaa.bytes, Rcode::NOERROR, &[])).upstream.remove(0);
    let out = bench.reply(&a, &reply(&a.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
    assert_eq!(address(&out.clients[0].1).0, "64:ff9b::808:404");
    let out = bench.step(&[(LISTENING, six, &again)]);
    assert_eq!(address(&out.clients[0].1).0, "64:ff9b::808:404");
    // The rest of a pending question is of the view that its client has now.
    let www = reply(&alias.bytes, Rcode::NOERROR, &[(Qtype::CNAME, b"\x03www\x04test\0")]);
    let aaaa = bench.reply(&alias, &www).upstream.remove(0);
    let out = bench.reply(&aaaa, &reply(&aaaa.bytes, Rcode::NOERROR, &[]));
    assert_eq!((out.clients.len(), out.upstream.len()), (1, 0));
}

#[test]
fn a_reload_keeps_the_cache_unless_the_rules_change() {
    let base = "upstream.source-ports = 4\n";
    for (change, kept) in [
        ("", true),
        (
            "server.log = \"debug\"\nlimits.responses-per-second = 1000\nserver.allow = [\"any\"]",
            true,
        ),
        ("upstream.first-timeout = \"1s\"", true),
        ("synthesis.never = [\"other.test\"]", false),
        ("cache.max-ttl = \"1h\"", false),
        ("upstream.servers = [\"127.0.0.9:53\"]", false),
        ("[[dns64]]\nprefix = \"2001:db8::/96\"", false),
    ] {
        let mut bench = Bench::new("");
        let sent = bench.ask(1, &query("www.test", Qtype::A, 1)).upstream.remove(0);
        bench.reply(&sent, &reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
        let file = format!("{base}{change}");
        let settings = Settings::new(Config::parse(&file).expect(&file), 1, [7; 16]);
        bench.role.reload(Arc::new(settings));
        bench.open_sockets();
        let out = bench.ask(1, &query("www.test", Qtype::A, 2));
        assert_eq!(
            (out.clients.len(), out.upstream.len()),
            if kept { (1, 0) } else { (0, 1) },
            "{change}"
        );
    }
}

#[test]
fn other_names_of_hosts_change_nothing_else() {
    let mut bench = Bench::new("limits.responses-per-second = 1\nlimits.slip = 0");
    let sent = bench.ask(1, &query("www.test", Qtype::A, 1)).upstream.remove(0);
    let out = bench.reply(&sent, &reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
    assert_eq!(out.clients.len(), 1, "the only reply of this second");
    let mut hosts = Rules::default();
    hosts.add_hosts("2001:db8::7 printer.test");
    bench.role.reload(Arc::new(bench.role.settings().with_hosts(Arc::new(hosts))));
    let printer = query("printer.test", Qtype::AAAA, 2);
    let out = bench.ask(1, &printer);
    assert_eq!((out.clients.len(), out.upstream.len()), (0, 0), "the limit stays as it was");
    bench.now += Nanos::from_secs(1);
    assert_eq!(address(&bench.ask(1, &printer).clients[0].1).0, "2001:db8::7");
}

#[test]
fn ids_ports_and_letter_cases_are_random_and_even() {
    let mut bench = Bench::new("cache.size = 0");
    let (mut ids, mut sockets, mut capitals) = (Vec::new(), [0; 5], 0);
    for i in 0..4_000u32 {
        let sent = bench.ask(1, &query("abcdefgh.test", Qtype::A, i as u16)).upstream.remove(0);
        ids.push(u16::from_be_bytes([sent.bytes[0], sent.bytes[1]]));
        sockets[usize::from(sent.socket.0)] += 1;
        capitals += sent.name().chars().filter(char::is_ascii_uppercase).count();
        bench.reply(&sent, &reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]));
    }
    // Expected: each bit of the ids is set in half of the queries, each socket has a quarter, each letter is
    // a capital in half; tolerance five standard deviations.
    for bit in 0..16 {
        let ones = ids.iter().filter(|id| *id >> bit & 1 == 1).count();
        assert!(ones.abs_diff(2_000) < 160, "bit {bit}: {ones}");
    }
    assert!(sockets[1..].iter().all(|n: &usize| n.abs_diff(1_000) < 140), "{sockets:?}");
    assert!(capitals.abs_diff(24_000) < 390, "{capitals} of 48000");
}
