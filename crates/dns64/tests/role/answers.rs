//! Which records are in answers, one rule for each test, with queries and replies as text.

use crate::bench::Bench;
use crate::text::{A, AAAA, SOA, SYNTHESISED, check, uncached};

/// Reverse names of 64:ff9b::8.8.4.4 and of 2001:db8:64::10.1.2.3.
const PUBLIC: &str = "4.0.4.0.8.0.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa";
const PRIVATE: &str = "3.0.2.0.1.0.a.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa";

#[test]
fn the_random_letter_case_of_queries_reaches_no_client() {
    // Replies are compressed: owners, targets and the SOA end in pointers to the question.
    for (query, script) in [
        (
            "www.sub.example AAAA",
            &[
                ("www.sub.example AAAA", "www.sub.example. 60 CNAME host.sub.example."),
                ("host.sub.example AAAA", SOA),
                (
                    "host.sub.example A",
                    "host.sub.example. 60 CNAME end.sub.example.; end.sub.example. 60 A 8.8.4.4; \
                     additional; ns.sub.example. 60 A 8.8.4.4",
                ),
            ][..],
        ),
        (
            "www.sub.example AAAA",
            &[
                ("www.sub.example AAAA", "www.sub.example. 60 CNAME host.sub.example."),
                ("host.sub.example AAAA", SOA),
                ("host.sub.example A", SOA),
            ],
        ),
        (
            "sub.example MX",
            &[(
                "sub.example MX",
                "sub.example. 60 MX 1 mail.sub.example.; additional; mail.sub.example. 60 A 8.8.4.4",
            )],
        ),
    ] {
        // The second answer comes from the cache.
        let mut bench = Bench::new("");
        for _ in 0..2 {
            let exchange = bench.exchange(query, script);
            let answer = exchange.answer;
            let names = answer.split([' ', ';']).filter(|w| w.to_lowercase().contains(".example"));
            assert!(names.clone().count() > 1, "{answer}");
            assert!(names.clone().all(|name| name == name.to_lowercase()), "{answer}");
        }
    }
}

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
fn the_authority_section_of_the_a_reply_is_copied() {
    let more = "authority; sub.example. 60 NS ns.sub.example.; additional; ns.sub.example. 60 A 192.0.2.53";
    let a = format!("v4.sub.example. 60 A 8.8.4.4; {more}");
    let answer = format!("NOERROR; v4.sub.example. 60 AAAA 64:ff9b::808:404; {more}; ede 29");
    let script = [("v4.sub.example AAAA", SOA), ("v4.sub.example A", &a)];
    check("", &[("v4.sub.example AAAA", &script, &answer)]);
}

#[test]
fn reverse_names_follow_section_5_3_1_for_everybody() {
    let config = "[[dns64]]\nprefix = \"2001:db8:64::/96\"\nclients = [\"192.0.2.1\"]\nnot-mapped = [\"10.0.0.0/8\"]\n[cache]";
    let script = [
        ("4.4.8.8.in-addr.arpa PTR", "4.4.8.8.in-addr.arpa. 60 PTR dns.example."),
        ("4.4.8.8.in-addr.arpa PTR +cd", "4.4.8.8.in-addr.arpa. 60 PTR dns.example."),
        ("3.2.1.10.in-addr.arpa PTR", "3.2.1.10.in-addr.arpa. 60 PTR private.example."),
        (
            "4.4.8.8.in-addr.arpa TXT",
            "authority; 8.in-addr.arpa. 60 SOA ns.example. host.example. 1 2 3 4 5",
        ),
    ];
    let alias = format!("{PUBLIC}. 600 CNAME 4.4.8.8.in-addr.arpa.");
    let pointer = format!("NOERROR; {alias}; 4.4.8.8.in-addr.arpa. 60 PTR dns.example.");
    let private = format!(
        "NOERROR; {PRIVATE}. 600 CNAME 3.2.1.10.in-addr.arpa.; 3.2.1.10.in-addr.arpa. 60 PTR private.example."
    );
    let no_data = format!(
        "NOERROR; {alias}; authority; 8.in-addr.arpa. 60 SOA ns.example. host.example. 1 2 3 4 5"
    );
    for (query, answer) in [
        (format!("{PUBLIC} PTR"), &pointer),
        (format!("{PUBLIC} PTR +do +cd"), &pointer),
        (format!("{PRIVATE} PTR"), &private),
        (format!("{PUBLIC} TXT"), &no_data),
        (format!("{PUBLIC} CNAME"), &format!("NOERROR; {alias}")),
    ] {
        assert_eq!(uncached(config).exchange(&query, &script).answer, *answer, "{query}");
    }
    // Names above those of addresses exist, without records.
    for name in [&PUBLIC[2..], &PRIVATE[16..]] {
        let exchange = uncached(config).exchange(&format!("{name} PTR"), &[]);
        assert!(
            exchange.asked.is_empty() && exchange.answer.starts_with("NOERROR; authority; "),
            "{}",
            exchange.answer
        );
        assert_eq!(exchange.answer.matches("SOA").count(), 1);
    }
    // The reverse names of the addresses of ipv4only.arpa have nothing but the PTR record.
    let exchange = uncached("").exchange("170.0.0.192.in-addr.arpa TXT", &[]);
    let soa = "170.0.0.192.in-addr.arpa. 86400 SOA 170.0.0.192.in-addr.arpa. nobody.invalid. 1 3600 1200 604800 86400";
    assert_eq!(exchange.answer, format!("NOERROR; authority; {soa}"));
}

#[test]
fn a_name_that_is_always_synthesised_keeps_its_aaaa_if_no_a_is_mapped() {
    let native = "v4.example. 60 AAAA 2001:db8::1";
    for a in ["v4.example. 60 A 10.1.2.3", SOA, "SERVFAIL"] {
        let script = [("v4.example A", a), (AAAA, native)];
        let answer = uncached("synthesis.always = [\".\"]").exchange(AAAA, &script).answer;
        assert_eq!(answer, format!("NOERROR; {native}"), "{a}");
    }
}

#[test]
fn a_name_that_is_never_synthesised_is_neither_at_the_end_of_a_chain() {
    let config = "synthesis.never = [\"internal.example\"]";
    let alias = "www.example. 60 CNAME host.internal.example.";
    let a = format!("{alias}; host.internal.example. 60 A 8.8.4.4");
    let script = [("www.example AAAA", &format!("{alias}; {SOA}")[..]), ("www.example A", &a)];
    let exchange = uncached(config).exchange("www.example AAAA", &script);
    assert_eq!((exchange.answer, exchange.asked.len()), (format!("NOERROR; {alias}; {SOA}"), 1));
    // Also if only the A query leads there.
    let script = [("www.example AAAA", SOA), ("www.example A", &a)];
    let exchange = uncached(config).exchange("www.example AAAA", &script);
    assert_eq!(exchange.answer, format!("NOERROR; {SOA}"));
}

#[test]
fn a_dname_gets_its_cname() {
    let dname = "old.example. 50 DNAME new.example.";
    let cname = "www.old.example. 50 CNAME www.new.example.";
    for (upstream, qtype, end, answer) in [
        (
            dname.to_owned(),
            "AAAA",
            "www.new.example. 60 AAAA 2001:db8::1",
            "www.new.example. 60 AAAA 2001:db8::1",
        ),
        (dname.to_owned(), "A", "www.new.example. 60 A 8.8.4.4", "www.new.example. 60 A 8.8.4.4"),
        (
            format!("{dname}; {cname}"),
            "A",
            "www.new.example. 60 A 8.8.4.4",
            "www.new.example. 60 A 8.8.4.4",
        ),
        (
            dname.to_owned(),
            "TXT",
            "www.new.example. 60 CNAME end.example.; end.example. 60 TXT \"x\"",
            "www.new.example. 60 CNAME end.example.; end.example. 60 TXT \"x\"",
        ),
    ] {
        let query = format!("www.old.example {qtype}");
        let script = [(&query[..], &format!("{upstream}; {end}")[..])];
        let exchange = uncached("").exchange(&query, &script);
        assert_eq!(exchange.answer, format!("NOERROR; {dname}; {cname}; {answer}"), "{upstream}");
    }
    // Two in a row, and synthesis behind them.
    let dnames = format!("{dname}; new.example. 40 DNAME last.example.");
    let script = [
        ("www.old.example AAAA", &format!("{dnames}; {SOA}")[..]),
        ("www.old.example A", &format!("{dnames}; www.last.example. 60 A 8.8.4.4")),
    ];
    let answer = uncached("").exchange("www.old.example AAAA", &script).answer;
    let last = "new.example. 40 DNAME last.example.; www.new.example. 40 CNAME www.last.example.";
    assert_eq!(
        answer,
        format!(
            "NOERROR; {dname}; {cname}; {last}; www.last.example. 60 AAAA 64:ff9b::808:404; ede 29"
        )
    );
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
    // A slow name has its time: eight attempts within a second, and the last one waits until 3 s.
    let mut slow = uncached("upstream.dead-after = 100");
    slow.exchange("v4.example A", &[A]);
    let mut sent = slow.ask(1, &crate::text::query("slow.example A")).upstream;
    sent.extend(slow.wait(2_000).into_iter().flat_map(|(_, out)| out.upstream));
    let last = sent.pop().expect("a query");
    let reply = crate::text::reply(&last.bytes, "slow.example. 60 A 8.8.4.4");
    assert_eq!((sent.len(), slow.reply(&last, &reply).clients.len()), (7, 1));
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
fn records_that_do_not_belong_to_the_question_are_removed() {
    let bank = "www.bank.test. 3600 A 203.0.113.66";
    let own = "www.sub.example. 60 CNAME v4.sub.example.; v4.sub.example. 60 A 8.8.4.4";
    let soa = "sub.example. 200 SOA ns.sub.example. host.sub.example. 1 2 3 4 100";
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
