//! Upstreams that are silent, slow, cut off or dead, or send forged replies.

use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use domain::base::iana::Rtype;

use super::{A, SYNTHESISED, dns64d, ipv4_only, is_right, recovers, wait_for};
use crate::kit::client::{Query, read_frame};
use crate::kit::message::{Reply, Seen, UNREADABLE};
use crate::kit::script::Script;
use crate::kit::server::{Kind, Server};

/// Short timeouts for tests with silent upstreams.
const QUICK: &str = "first-timeout = \"100ms\"\ngive-up-after = \"300ms\"\nprobe-after = \"100ms\"";

/// Two upstreams of which one does not answer: enough attempts for a pause of some seconds.
const ONE_OF_TWO: &str = "first-timeout = \"250ms\"\nattempts = 10\nprobe-after = \"100ms\"";

/// Returns the table `[upstream]` with these settings.
fn upstream(settings: &str) -> String {
    format!("[upstream]\n{settings}\n[cache]\nfailure-ttl = \"0s\"")
}

#[test]
fn a_silent_upstream_answers_again() {
    let script = ipv4_only();
    script.set_silent(true);
    let server = dns64d(&[&script], &upstream(QUICK));
    // More queries than are needed until the server counts as dead.
    std::thread::scope(|scope| {
        for n in 0..20 {
            let server = &server;
            scope.spawn(move || {
                let reply = server.ask(&format!("silent-{n}.example AAAA"));
                assert_eq!((reply.rcode.as_str(), reply.answer.len()), ("SERVFAIL", 0), "{reply}");
            });
        }
    });
    wait_for("the upstream is reported dead", || {
        server.http("/health").starts_with("HTTP/1.1 503")
    });
    wait_for("nothing is pending", || server.metric("dns64d_outstanding") == 0);
    script.set_silent(false);
    recovers(&server, "speaking");
    wait_for("the upstream is reported alive", || {
        server.http("/health").starts_with("HTTP/1.1 200")
    });
}

#[test]
fn silent_names_make_no_upstream_dead() {
    let script = ipv4_only();
    for n in 0..40 {
        for rtype in ["A", "AAAA"] {
            script.on(&format!("silent-{n}.example {rtype}"), "silent");
        }
    }
    // Long enough for the probes, which the upstream answers also on a busy machine.
    let server = dns64d(
        &[&script],
        &upstream("first-timeout = \"1s\"\ngive-up-after = \"2500ms\"\nprobe-after = \"1s\""),
    );
    std::thread::scope(|scope| {
        for n in 0..40 {
            let server = &server;
            scope.spawn(move || {
                let reply = server.ask(&format!("silent-{n}.example AAAA"));
                assert_eq!(reply.rcode, "SERVFAIL", "{reply}");
                assert!(server.http("/health").starts_with("HTTP/1.1 200"));
            });
        }
    });
    assert_eq!(server.metric("dns64d_upstream_deaths_total"), 0);
    assert!(is_right(&server.ask("spoken.example AAAA")));
    // The server was suspected, and answered the probes.
    assert!(script.asked().iter().any(|asked| asked.name.is_empty()));
}

#[test]
fn one_of_two_upstreams_is_silent_or_returns_errors() {
    for (reply, settings) in [("silent", upstream(ONE_OF_TWO)), ("SERVFAIL", String::new())] {
        let (bad, good) = (Script::start(&[]), ipv4_only());
        bad.others(Rtype::A, reply);
        bad.others(Rtype::AAAA, reply);
        let server = dns64d(&[&bad, &good], &settings);
        for n in 0..30 {
            let reply = server.ask(&format!("either-{n}.example AAAA"));
            assert!(is_right(&reply), "{n}: {reply}");
        }
    }
}

#[test]
fn refusals_and_replies_that_cannot_be_read_have_a_reason() {
    let script = Script::start(&[
        ("refused.example A", "REFUSED"),
        ("refused.example AAAA", "REFUSED"),
        ("told.example A", "REFUSED; ede 20"),
        ("bad.example MX", "bad.example 60 MX \\# 2 000a"),
    ]);
    let server = dns64d(&[&script], "");
    for (query, rcode, error) in [
        ("refused.example A", "REFUSED", 22),
        ("refused.example AAAA", "REFUSED", 22),
        ("told.example A", "REFUSED", 20),
        ("bad.example MX", "SERVFAIL", 23),
    ] {
        let reply = server.ask(query);
        assert_eq!(reply.rcode, rcode, "{query}: {reply}");
        assert!(reply.errors().eq([error]), "{query}: {error} is missing: {reply}");
    }
}

#[test]
fn a_reply_to_another_subnet_is_dropped() {
    // RFC 7871 section 7.3: over UDP until the true reply, over a stream as no reply.
    let script = Script::start(&[(
        "subnet.example A",
        "other-subnet; subnet.example 60 A 203.0.113.66 && subnet.example 60 A 192.0.2.33",
    )]);
    let query = "subnet.example A +ecs=198.51.100.0/24";
    let server = dns64d(&[&script], "upstream.client-subnet = \"pass\"");
    assert_eq!(server.ask(query).shown(), "NOERROR 192.0.2.33");
    wait_for("it is counted", || server.metric("dns64d_upstream_mismatched_total") > 0);
    let config = "upstream = { client-subnet = \"pass\", transport = \"tcp\" }";
    let server = dns64d(&[&script], config);
    script.on("subnet.example A", "other-subnet; subnet.example 60 A 203.0.113.66");
    assert_eq!(server.ask(query).shown(), "SERVFAIL");
}

#[test]
fn a_server_that_refuses_all_queries_gets_few() {
    let (bad, good) = (Script::start(&[]), ipv4_only());
    for rtype in [Rtype::A, Rtype::AAAA] {
        bad.others(rtype, "REFUSED");
        // The one that refuses is the faster one.
        good.others(
            rtype,
            if rtype == Rtype::A { "delay 30; $ 60 A 192.0.2.33" } else { "delay 30" },
        );
    }
    let server = dns64d(&[&bad, &good], "");
    for n in 0..100 {
        assert!(is_right(&server.ask(&format!("n{n}.example AAAA"))), "{n}");
    }
    let count = bad.asked().len();
    assert!(count < 100, "{count} of 200 lookups began with a refusal");
}

#[test]
fn forged_replies_are_ignored_until_the_true_one() {
    let script = Script::start(&[]);
    let forgeries = ["wrong-id", "wrong-name", "wrong-type", "wrong-port", "scrap"];
    let all =
        forgeries.map(|forgery| format!("{forgery}; $ 60 A 203.0.113.66; $ 60 AAAA 2001:db8::666"));
    script.others(Rtype::A, &all.join(" && "));
    script.others(Rtype::AAAA, &all.join(" && "));
    let server = dns64d(&[&script], &upstream(QUICK));
    for n in 0..5 {
        let reply = server.ask(&format!("forgeries-{n}.example AAAA"));
        assert_eq!((reply.rcode.as_str(), reply.answer.len()), ("SERVFAIL", 0), "{reply}");
    }
    wait_for("forgeries counted", || {
        server.metric("dns64d_upstream_mismatched_total") > 0
            && server.metric("dns64d_upstream_unexpected_total") > 0
    });
    script.others(Rtype::A, A);
    script.others(Rtype::AAAA, "");
    recovers(&server, "truth");
}

/// Returns all records of a reply.
fn all_records(reply: &Reply) -> impl Iterator<Item = &Seen> {
    [&reply.answer, &reply.authority, &reply.additional].into_iter().flatten()
}

/// Returns whether a record has a type of fixed form, on which clients rely.
fn is_plain(seen: &Seen) -> bool {
    use Rtype as R;
    [R::A, R::AAAA, R::NS, R::CNAME, R::DNAME, R::PTR, R::SOA, R::MX, R::SRV].contains(&seen.rtype)
}

#[test]
fn mangled_replies_cause_no_unreadable_answers() {
    let script = Script::start(&[]);
    script.others(Rtype::A, "mangled; $ 60 A 192.0.2.33; additional; $ 60 TXT \"x\"");
    script.others(
        Rtype::AAAA,
        "mangled; $ 60 CNAME host.example; authority; \
         example 3600 SOA ns.example host.example 1 7200 3600 86400 300",
    );
    script
        .others(Rtype::HTTPS, "mangled; $ 60 TYPE65 \\# 18 0001 06746172676574076578616d706c6500");
    script.others(Rtype::PTR, "mangled; $ 60 CNAME a.example; a.example 60 PTR b.example");
    let server =
        dns64d(&[&script], &upstream("first-timeout = \"50ms\"\ngive-up-after = \"150ms\""));
    // Every question gets some answer, and the answer can be parsed. Most wait until the server gives up.
    std::thread::scope(|scope| {
        for client in 0..24 {
            let server = &server;
            scope.spawn(move || {
                for n in 0..25 {
                    let (name, qtype) = match n % 4 {
                        0 | 1 => (format!("m-{client}-{n}.example"), "AAAA"),
                        2 => (format!("m-{client}-{n}.example"), "HTTPS"),
                        _ => (format!("{n}.{client}.0.192.in-addr.arpa"), "PTR"),
                    };
                    let reply = server.ask(&format!("{name} {qtype}"));
                    let bad =
                        all_records(&reply).find(|seen| is_plain(seen) && seen.data == UNREADABLE);
                    assert!(bad.is_none(), "{reply}{:02x?}", reply.octets);
                }
            });
        }
    });
    script.others(Rtype::A, A);
    script.others(Rtype::AAAA, "");
    recovers(&server, "whole");
}

#[test]
fn an_upstream_truncates_but_its_streams_fail() {
    let script = Script::start(&[]);
    for reply in
        ["tc; hang-up; $ 60 A 192.0.2.33", "tc; garbage-tcp", "tc; silent-tcp; $ 60 A 192.0.2.33"]
    {
        script.others(Rtype::A, reply);
        script.others(Rtype::AAAA, reply);
        let server =
            dns64d(&[&script], &upstream("first-timeout = \"200ms\"\ntcp-timeout = \"300ms\""));
        // There may be records: the client is to use TCP, where there is no answer.
        for (query, rcode) in
            [("cut.example AAAA", "NOERROR"), ("cut.example AAAA +tcp", "SERVFAIL")]
        {
            let seen = server.ask(query);
            let is_cut = seen.flags.contains(&"tc");
            let got = (seen.rcode.as_str(), seen.answer.len(), is_cut);
            assert_eq!(got, (rcode, 0, rcode == "NOERROR"), "{reply}: {seen}");
        }
        wait_for("nothing is pending", || server.metric("dns64d_outstanding") == 0);
        script.others(Rtype::A, "tc; $ 60 A 192.0.2.33");
        script.others(Rtype::AAAA, "tc; soa");
        recovers(&server, "whole");
    }
}

#[test]
fn an_upstream_stops_and_starts_again() {
    let mut script = ipv4_only();
    let server = dns64d(&[&script], &upstream(QUICK));
    for round in 0..3 {
        recovers(&server, &format!("alive-{round}"));
        script.die();
        let reply = server.ask(&format!("dead-{round}.example AAAA"));
        assert_eq!((reply.rcode.as_str(), reply.answer.len()), ("SERVFAIL", 0), "{reply}");
        script.come_back();
        recovers(&server, &format!("back-{round}"));
    }
}

#[test]
fn one_of_two_upstreams_stops_and_starts_again() {
    let (mut first, second) = (ipv4_only(), ipv4_only());
    let server = dns64d(&[&first, &second], &upstream(ONE_OF_TWO));
    for round in 0..3 {
        first.die();
        for n in 0..20 {
            let reply = server.ask(&format!("one-{round}-{n}.example AAAA"));
            assert!(is_right(&reply), "round {round}, {n}: {reply}");
        }
        first.come_back();
        for n in 0..20 {
            let reply = server.ask(&format!("two-{round}-{n}.example AAAA"));
            assert!(is_right(&reply), "round {round}, {n}: {reply}");
        }
    }
}

#[test]
fn cached_answers_are_served_after_upstream_stops() {
    let mut script = ipv4_only();
    script.on("short.example A", "short.example 1 A 192.0.2.33");
    let server = dns64d(&[&script], &format!("{}\nserve-stale = \"1h\"", upstream(QUICK)));
    for name in ["long.example AAAA", "short.example AAAA"] {
        // What is late is not answered here, and asked for again.
        wait_for("an answer in the cache", || is_right(&server.ask(name)));
    }
    script.die();
    // Until the TTL of one second has passed.
    std::thread::sleep(Duration::from_millis(2_100));
    for name in ["long.example", "short.example"] {
        let reply = server.ask(&format!("{name} AAAA"));
        assert!(is_right(&reply), "{name} has {SYNTHESISED}: {reply}");
    }
    assert!(server.metric("dns64d_uptime_seconds") >= 2);
}

#[test]
fn expired_answers_are_served_during_upstream_errors() {
    let script = ipv4_only();
    script.on("short.example A", "short.example 1 A 192.0.2.33 || SERVFAIL");
    script.on(
        "short.example AAAA",
        "authority; example 1 SOA ns.example host.example 1 7200 3600 86400 1 || SERVFAIL",
    );
    let server = dns64d(&[&script], &format!("{}\nserve-stale = \"1h\"", upstream("")));
    assert!(is_right(&server.ask("short.example AAAA")));
    // Until its TTL of one second has passed.
    std::thread::sleep(Duration::from_millis(2_100));
    for _ in 0..3 {
        let reply = server.ask("short.example AAAA");
        assert!(is_right(&reply), "the expired answer, each time: {reply}");
    }
}

#[test]
fn a_server_that_may_be_unresponsive_gets_a_query_three_times() {
    // RFC 9520 section 3.1.
    let config = "upstream = { first-timeout = \"100ms\", min-timeout = \"30ms\", attempts = 8, \
                  give-up-after = \"4s\", dead-after = 100 }";
    let silent = || Script::start(&[("silent.example A", "silent")]);
    let asked = |script: &Script| script.asked().len();
    let (one, other) = (silent(), silent());
    let server = dns64d(&[&one], config);
    assert_eq!(server.ask("silent.example A").rcode, "SERVFAIL");
    assert_eq!(asked(&one), 3);
    let server = dns64d(&[&one, &other], config);
    assert_eq!(server.ask("silent.example A").rcode, "SERVFAIL");
    assert_eq!([asked(&one), asked(&other)], [6, 3], "three more, and three");
}

#[test]
fn an_expired_answer_does_not_wait_for_the_end_of_a_lookup() {
    let script = Script::start(&[
        ("slow.example A", "slow.example 1 A 192.0.2.33 || hold; slow.example 600 A 192.0.2.34"),
        ("bad.example A", "bad.example 1 A 192.0.2.33 || SERVFAIL"),
    ]);
    // A lookup ends after 15 s, with a second query after 10 s.
    let server = dns64d(
        &[&script],
        "cache.serve-stale = \"1h\"\nupstream = { first-timeout = \"10s\", min-timeout = \"10s\" }",
    );
    let asked = |name: &str| script.asked().iter().filter(|asked| asked.name == name).count();
    let is_old = |reply: &Reply| {
        reply.errors().any(|code| code == 3) && reply.answer[0].data == "192.0.2.33"
    };
    for name in ["bad.example", "slow.example"] {
        let question = format!("{name} A");
        assert_eq!(server.ask(&question).answer[0].data, "192.0.2.33");
        std::thread::sleep(Duration::from_millis(2_200));
        // Upstream is not asked again for each of these.
        for _ in 0..3 {
            let reply = server.ask(&question);
            assert!(is_old(&reply), "{name}: {reply}");
        }
        assert_eq!(asked(name), 2, "{name}");
    }
    // The lookup has gone on for the cache.
    script.release();
    wait_for("the new answer", || server.ask("slow.example A").answer[0].data == "192.0.2.34");
    assert_eq!(asked("slow.example"), 2);
}

#[test]
fn queries_on_a_connection_that_closes_go_to_another_one() {
    // The server closes each connection after one answer, whatever else was sent on it.
    let script = Script::start(&[]);
    script.others(Rtype::A, &format!("bye; {A}"));
    script.others(Rtype::AAAA, "bye; authority; example 60 SOA ns.example h.example 1 2 3 4 60");
    let config = "[upstream]\ntransport = \"tcp\"\ngive-up-after = \"10s\"\ntcp-connections = 2";
    let server = dns64d(&[&script], config);
    std::thread::scope(|scope| {
        for n in 0..30 {
            let server = &server;
            scope.spawn(move || {
                let reply = server.ask(&format!("closed-{n}.example AAAA"));
                assert!(is_right(&reply), "{n}: {reply}");
            });
        }
    });
    // One that makes the server close every connection ends.
    script.on("killer.example A", "hang-up");
    assert_eq!(server.ask("killer.example A").rcode, "SERVFAIL");
    let asked = script.asked();
    let tries = asked.iter().filter(|asked| asked.name == "killer.example").count();
    assert!((1..=12).contains(&tries), "{tries}");
    assert!(is_right(&server.ask("others.example AAAA")));
}

#[test]
fn a_connection_without_queries_is_used_before_one_that_waits() {
    // The server answers nothing: a further query on a connection would wait for the one before.
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("bound");
    let config = "[upstream]\ntransport = \"tcp\"\ntcp-connections = 3\ntcp-timeout = \"60s\"\n\
                  give-up-after = \"30s\"";
    let server = Server::start(Kind::Dns64d, &[address], config).expect("it starts");
    let client = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let mut connections = Vec::new();
    for n in 0..3 {
        let query = Query::parse(&format!("n{n}.example A"));
        client.send_to(&query.octets, server.address()).expect("loopback");
        wait_for("a connection for each query", || {
            connections.extend(listener.accept().map(|(stream, _)| stream));
            connections.len() > n
        });
        connections[n].set_nonblocking(false).expect("a socket");
        let received = read_frame(&mut connections[n]).expect("the query");
        assert_eq!(received[13..15], [b'n', b'0' + n as u8]);
    }
}
