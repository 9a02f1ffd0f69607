//! Which records are in answers, one rule for each test, with queries and replies as text.

use std::sync::Arc;

use dns64::{Config, MirroredAnswer, Settings};
use measure::Nanos;

use crate::bench::{Bench, Sent};
use crate::text::{A, AAAA, SOA, SYNTHESISED, check, query, reply, shown, uncached};

#[test]
fn an_empty_answer_has_the_soa_of_upstream() {
    let private =
        ("private.example A", "private.example. 60 A 10.1.2.3; private.example. 50 A 10.1.2.4");
    let in_zone = ("private.example SOA", SOA);
    let at_apex =
        ("private.example SOA", "private.example. 30 SOA ns.example. host.example. 1 2 3 4 100");
    let soa = "authority; example. 50 SOA ns.example. host.example. 1 2 3 4 100";
    let chain = [
        (
            "www.example AAAA",
            "www.example. 60 CNAME private.example.; authority; example. 40 SOA ns.example. host.example. 1 2 3 4 100",
        ),
        ("www.example A", "www.example. 60 CNAME private.example.; private.example. 60 A 10.1.2.3"),
        in_zone,
    ];
    let cut_chain = [
        ("www.example AAAA", "www.example. 60 CNAME private.example."),
        ("private.example AAAA", SOA),
        private,
        in_zone,
    ];
    check(
        "",
        &[
            (
                "private.example AAAA",
                &[("private.example AAAA", SOA), private, in_zone],
                &format!("NOERROR; {soa}; ede 17"),
            ),
            (
                "private.example AAAA",
                &[("private.example AAAA", SOA), private, at_apex],
                "NOERROR; authority; private.example. 30 SOA ns.example. host.example. 1 2 3 4 100; ede 17",
            ),
            (
                "private.example AAAA",
                &[
                    ("private.example AAAA", "private.example. 60 AAAA ::ffff:1.2.3.4"),
                    private,
                    in_zone,
                ],
                &format!("NOERROR; {soa}; ede 17"),
            ),
            (
                "www.example AAAA",
                &chain,
                "NOERROR; www.example. 60 CNAME private.example.; authority; example. 40 SOA ns.example. host.example. 1 2 3 4 100; ede 17",
            ),
            (
                "www.example AAAA",
                &cut_chain,
                &format!("NOERROR; www.example. 60 CNAME private.example.; {soa}; ede 17"),
            ),
            // No SOA, and one of a zone to which the name does not belong.
            (
                "private.example AAAA",
                &[("private.example AAAA", SOA), private, ("private.example SOA", "REFUSED")],
                "NOERROR; ede 17",
            ),
            (
                "private.example AAAA",
                &[
                    ("private.example AAAA", SOA),
                    private,
                    (
                        "private.example SOA",
                        "authority; test. 30 SOA ns.test. host.test. 1 2 3 4 5",
                    ),
                ],
                "NOERROR; ede 17",
            ),
        ],
    );
    // With an SOA record the answer is cached, without one it is not.
    for (soa, asked) in [(in_zone, 0), (("private.example SOA", "REFUSED"), 3)] {
        let mut bench = Bench::new("");
        let script = [("private.example AAAA", SOA), private, soa];
        assert_eq!(bench.exchange("private.example AAAA", &script).asked.len(), 3);
        assert_eq!(bench.exchange("private.example AAAA", &script).asked.len(), asked);
    }
}

#[test]
fn a_ttl_with_the_top_bit_set_is_zero() {
    let huge = "v4.example. 4294967295 A 8.8.4.4";
    let mut bench = Bench::new("");
    for _ in 0..2 {
        // A TTL of 0 is not cached.
        let exchange = bench.exchange("v4.example A", &[("v4.example A", huge)]);
        assert_eq!(exchange.answer, "NOERROR; v4.example. 0 A 8.8.4.4");
        assert_eq!(exchange.asked.len(), 1);
    }
    let exchange = bench.exchange(AAAA, &[(AAAA, SOA), ("v4.example A", huge)]);
    assert_eq!(exchange.answer, "NOERROR; v4.example. 0 AAAA 64:ff9b::808:404; ede 29");
}

#[test]
fn a_silent_aaaa_costs_three_timeouts() {
    // Nothing is known of the server: 400 ms, and twice 30 ms for a reply to a later query.
    let mut bench = Bench::new("cache.size = 0");
    let unknown = bench.exchange(AAAA, &[A]);
    assert_eq!(unknown.answer, "NOERROR; v4.example. 60 AAAA 64:ff9b::808:404; ede 29");
    assert!((350..=570).contains(&unknown.ms), "{}", unknown.ms);
    // A fast server: three times the smallest timeout.
    let known = bench.exchange(AAAA, &[("v4.example A", "v4.example. 600 A 8.8.4.4")]);
    assert!((80..=125).contains(&known.ms), "{}", known.ms);
    // Whether there is AAAA is not known: the TTL is short.
    assert_eq!(known.answer, "NOERROR; v4.example. 60 AAAA 64:ff9b::808:404; ede 29");
    assert_eq!(known.asked, [AAAA, AAAA, "v4.example A", AAAA]);
    // A lost query: the second one brings the AAAA record, and A is not used.
    let mut lost = Bench::new("cache.size = 0");
    let first = lost.ask(1, &crate::text::query(AAAA)).upstream;
    let second = lost.wait(500).remove(0).1.upstream;
    let [aaaa, a] = &second[..] else { panic!("two queries") };
    assert!(lost.reply(a, &crate::text::reply(&a.bytes, A.1)).clients.is_empty());
    let native = crate::text::reply(&aaaa.bytes, "v4.example. 60 AAAA 2001:db8::1");
    let clients = lost.reply(aaaa, &native).clients;
    assert!(crate::text::shown(&clients[0].1).contains("2001:db8::1"));
    assert_ne!(first[0].bytes[..2], aaaa.bytes[..2]);
    // A slow name has its time: three attempts (RFC 9520 section 3.1), or eight if the server
    // answers others meanwhile, within a second, and the last one waits until 3 s.
    fn is_slow(sent: &Sent) -> bool {
        sent.name().eq_ignore_ascii_case("slow.example")
    }
    for (others, attempts) in [(false, 3), (true, 8)] {
        let mut slow = uncached("upstream.dead-after = 100");
        slow.exchange("v4.example A", &[A]);
        let mut sent = slow.ask(1, &crate::text::query("slow.example A")).upstream;
        for n in 0..20 {
            let mut out: Vec<Sent> =
                slow.wait(100).into_iter().flat_map(|(_, out)| out.upstream).collect();
            if others {
                out.extend(slow.ask(2, &crate::text::query(&format!("n{n}.example A"))).upstream);
            }
            for other in out.iter().filter(|sent| !is_slow(sent)) {
                slow.reply(other, &crate::text::reply(&other.bytes, "NXDOMAIN"));
            }
            sent.extend(out.into_iter().filter(is_slow));
        }
        let last = sent.pop().expect("a query");
        let reply = crate::text::reply(&last.bytes, "slow.example. 60 A 8.8.4.4");
        let clients = slow.reply(&last, &reply).clients.len();
        assert_eq!((sent.len() + 1, clients), (attempts, 1), "{others}");
    }
}

#[test]
fn a_chain_that_moves_on_needs_a_new_a_query() {
    // The A reply for the first name is there before the AAAA reply, which leads to another name.
    let mut bench = uncached("synthesis.parallel = true");
    let asked = bench.ask(1, &crate::text::query("www.example AAAA")).upstream;
    let alias = "www.example. 60 CNAME v4.example.";
    let a = crate::text::reply(&asked[1].bytes, &format!("{alias}; v4.example. 60 A 8.8.4.4"));
    bench.reply(&asked[1], &a);
    let next = bench.reply(&asked[0], &crate::text::reply(&asked[0].bytes, alias)).upstream;
    let next = bench.reply(&next[0], &crate::text::reply(&next[0].bytes, SOA)).upstream;
    let out = bench.reply(&next[0], &crate::text::reply(&next[0].bytes, A.1));
    let expected = format!("NOERROR; {alias}; v4.example. 60 AAAA 64:ff9b::808:404; ede 29");
    assert_eq!(crate::text::shown(&out.clients[0].1), expected);
}

#[test]
fn a_chain_that_is_too_long_is_no_error_of_the_network() {
    let aliases: Vec<String> =
        (0..17).map(|n| format!("n{n}.example. 60 CNAME n{}.example.", n + 1)).collect();
    for reply in [aliases.join("; "), "n0.example. 60 CNAME n0.example.".into()] {
        for query in ["n0.example AAAA", "n0.example A"] {
            let script = ["n0.example AAAA", "n0.example A"].map(|query| (query, reply.as_str()));
            assert_eq!(uncached("").exchange(query, &script).answer, "SERVFAIL", "{reply}");
        }
    }
}

#[test]
fn records_that_do_not_belong_to_the_question_are_removed() {
    let bank = "www.bank.test. 3600 A 203.0.113.66";
    let own = "www.sub.example. 60 CNAME v4.sub.example.; v4.sub.example. 60 A 8.8.4.4";
    let soa = "sub.example. 100 SOA ns.sub.example. host.sub.example. 1 2 3 4 100";
    let glue = "ns.sub.example. 60 A 192.0.2.53";
    for (reply, answer) in [
        (own.to_owned(), own.to_owned()),
        (format!("{own}; {bank}"), own.to_owned()),
        (format!("{bank}; {own}"), own.to_owned()),
        (format!("{own}; v4.sub.example. 60 TXT \"x\""), own.to_owned()),
        (format!("{own}; authority; bank.test. 60 NS ns.sub.example."), own.to_owned()),
        (format!("{own}; authority; {bank}"), own.to_owned()),
        (format!("{own}; additional; {bank}; {glue}"), format!("{own}; additional; {glue}")),
        (format!("{own}; additional; {glue}"), format!("{own}; additional; {glue}")),
        (
            format!("authority; {soa}; bank.test. 60 NS ns.sub.example."),
            format!("authority; {soa}"),
        ),
        (format!("authority; {soa}; additional; {bank}"), format!("authority; {soa}")),
        (
            "NXDOMAIN; authority; bank.test. 60 SOA a.test. b.test. 1 2 3 4 5".to_owned(),
            "NXDOMAIN".to_owned(),
        ),
    ] {
        for (ad, dnssec) in [("", ""), ("", " +do"), ("ad; ", " +ad")] {
            let query = format!("www.sub.example A{dnssec}");
            let exchange =
                uncached("").exchange(&query, &[("www.sub.example A", &format!("{ad}{reply}"))]);
            let expected = if answer.starts_with("NX") {
                answer.clone()
            } else {
                format!("NOERROR; {answer}")
            };
            // What is left of a changed answer section is not authentic, nor is a statement without its SOA record.
            let mut given: Vec<&str> = exchange.answer.split("; ").collect();
            let authentic = given.contains(&"ad");
            given.retain(|part| *part != "ad");
            let given = given.join("; ");
            assert_eq!(given, expected, "{reply}");
            let changed = reply.contains(&format!("; {bank}"))
                && !reply.contains("authority")
                && !reply.contains("additional");
            assert!(!changed || !authentic, "{}", exchange.answer);
        }
    }
    let script = [
        ("v4.example AAAA", SOA),
        (
            "v4.example A",
            &format!(
                "v4.example. 60 A 8.8.4.4; {bank}; authority; bank.test. 60 NS a.test.; additional; {bank}"
            )[..],
        ),
    ];
    assert_eq!(uncached("").exchange(AAAA, &script).answer, SYNTHESISED);
}

#[test]
fn all_types_of_a_name_keep_their_types() {
    let any = "v4.example. 60 A 8.8.4.4; v4.example. 60 TXT \"x\"";
    let foreign = format!("{any}; additional; www.bank.test. 60 A 203.0.113.66");
    let config = "server.minimal-any = false";
    let exchange = uncached(config).exchange("v4.example ANY", &[("v4.example ANY", &foreign)]);
    assert_eq!(exchange.answer, format!("NOERROR; {any}"));
    // Otherwise ANY gets one record without a meaning.
    let minimal = uncached("").exchange("v4.example ANY", &[]);
    assert_eq!(
        (minimal.answer.as_str(), minimal.asked.len()),
        ("NOERROR; v4.example. 3600 HINFO \"RFC8482\" \"\"", 0)
    );
}

#[test]
fn no_ttl_is_raised_above_the_time_of_its_prefix() {
    let file =
        "upstream.cookies = false\ncache.min-ttl = \"60s\"\n[[dns64]]\nprefix = \"64:ff9b::/96\"";
    let mut config = Config::parse(file).expect("it is right");
    // As of a prefix that is learned, which ends at its own time.
    config.dns64[0].max_ttl = Nanos::from_secs(10);
    let mut bench = Bench::new("");
    bench.role.reload(Arc::new(Settings::new(config, 1, [7; 16])));
    bench.open_sockets();
    for (wait, asked) in [(0, 2), (9_000, 0), (1_100, 2)] {
        bench.wait(wait);
        let exchange = bench.exchange(AAAA, &[(AAAA, SOA), A]);
        let ttl = if asked > 0 { 10 } else { 1 };
        let expected = format!("NOERROR; v4.example. {ttl} AAAA 64:ff9b::808:404; ede 29");
        assert_eq!((exchange.answer, exchange.asked.len()), (expected, asked));
    }
}

#[test]
fn the_absence_of_both_is_kept_no_longer_than_that_of_either() {
    let brief = "authority; example. 3 SOA ns.example. host.example. 1 2 3 4 100";
    for (aaaa, a) in [(brief, SOA), (SOA, brief)] {
        let mut bench = Bench::new("");
        let script = [("txt.example AAAA", aaaa), ("txt.example A", a)];
        for (wait, asked) in [(0, 2), (2_000, 0), (1_100, 2)] {
            bench.wait(wait);
            let exchange = bench.exchange("txt.example AAAA", &script);
            let ttl = if asked > 0 { 3 } else { 1 };
            let soa = format!("example. {ttl} SOA ns.example. host.example. 1 2 3 4 100");
            assert_eq!(exchange.answer, format!("NOERROR; authority; {soa}"));
            assert_eq!(exchange.asked.len(), asked);
        }
    }
}

#[test]
fn additional_records_are_given_no_longer_than_their_time() {
    // `HTTPS 1 .`
    let https = ("svc.example HTTPS", "svc.example. 300 TYPE65 \\# 3 000100");
    let script = [https, ("svc.example AAAA", SOA), ("svc.example A", "svc.example. 30 A 8.8.4.4")];
    let mut bench = Bench::new("");
    bench.role.mirror_as(1);
    for (wait, ttls) in [(0, [300, 30]), (29_000, [271, 1]), (1_000, [270, 0])] {
        bench.wait(wait);
        let exchange = bench.exchange("svc.example HTTPS", &script);
        assert_eq!(exchange.asked.len(), if wait == 0 { 3 } else { 0 });
        let [answer, additional] = ttls;
        let answer = format!("NOERROR; svc.example. {answer} HTTPS 1 . ");
        let expected = match additional {
            0 => answer,
            ttl => format!("{answer}; additional; svc.example. {ttl} AAAA 64:ff9b::808:404"),
        };
        assert_eq!(exchange.answer, expected);
        // A copy is for that time.
        let copies = bench.role.mirrored().expect("copies are wanted");
        let seconds = |copy: MirroredAnswer<'_>| copy.until.since(copy.stored).0 / 1_000_000_000;
        assert_eq!(
            copies.iter().map(seconds).collect::<Vec<_>>(),
            if wait == 1_000 { vec![] } else { vec![30] }
        );
        copies.clear();
    }
}

#[test]
fn an_absence_behind_an_alias_is_kept_as_long_as_its_records_say() {
    for (config, ttl, alias, soa, kept) in [
        ("max-negative-ttl = \"5s\"", 2, 2, 5, 2),
        ("max-negative-ttl = \"5s\"", 60, 60, 5, 5),
        ("min-ttl = \"4s\"", 2, 4, 100, 4),
        ("min-ttl = \"200s\"", 2, 200, 100, 100),
        ("max-ttl = \"3s\"", 60, 3, 100, 3),
    ] {
        let mut bench = Bench::new(&format!("cache.{config}"));
        let absent = format!("www.example. {ttl} CNAME t.example.; {SOA}");
        let mut exchange = || bench.exchange("www.example TXT", &[("www.example TXT", &absent)]);
        let expected = format!(
            "NOERROR; www.example. {alias} CNAME t.example.; {}",
            SOA.replacen("200", &soa.to_string(), 1)
        );
        assert_eq!(exchange().answer, expected, "{config} {ttl}");
        let asked = [1_000 * kept - 1_000, 1_100].map(|ms| {
            bench.wait(ms);
            bench.exchange("www.example TXT", &[("www.example TXT", &absent)]).asked.len()
        });
        assert_eq!(asked, [0, 1], "{config} {ttl}");
    }
}

#[test]
fn more_addresses_than_a_message_holds_are_a_failure() {
    let address = |n: u16| format!("v4.example. 60 A 8.8.{}.{}", n / 256, n % 256);
    let addresses: Vec<String> = (0..2_350).map(address).collect();
    let addresses = addresses.join("; ");
    let script = [("v4.example A", addresses.as_str()), ("v4.example AAAA", SOA)];
    assert_eq!(uncached("").exchange("v4.example AAAA", &script).answer, "SERVFAIL");
}

#[test]
fn another_server_is_queried_after_a_referral() {
    let referral = "authority; sub.example. 60 NS ns.sub.example.; additional; ns.sub.example. 60 A 192.0.2.53";
    let txt = "v4.sub.example TXT";
    let servers =
        "upstream.source-ports = 2\nupstream.servers = [\"127.0.0.1:5353\", \"127.0.0.2:5353\"]";
    for (config, query, asked) in [
        ("", txt, 1),
        (servers, txt, 3),
        // A query without recursion asks for no more than a referral.
        (servers, "v4.sub.example TXT -rd", 1),
    ] {
        let exchange = uncached(config).exchange(query, &[(txt, referral)]);
        assert_eq!(exchange.answer, format!("NOERROR; {referral}"), "{config} {query}");
        assert_eq!(exchange.asked, vec![txt; asked], "{config} {query}");
    }
    let mut bench = uncached(servers);
    let sent = bench.ask(1, &query(txt)).upstream.remove(0);
    let again = bench.reply(&sent, &reply(&sent.bytes, referral)).upstream.remove(0);
    let out = bench.reply(&again, &reply(&again.bytes, "v4.sub.example. 60 TXT x"));
    assert!(shown(&out.clients[0].1).contains("TXT"), "the answer of the other server");
}
