//! The content of answers, one rule for each test, with queries and replies as text.

use crate::bench::Bench;
use crate::text::SOA;

/// A bench without a cache.
fn uncached(config: &str) -> Bench {
    let cache = if config.ends_with("[cache]") { "size = 0" } else { "cache.size = 0" };
    Bench::new(&format!("{config}\n{cache}"))
}

/// Checks a table of queries, scripts of upstream, and expected answers.
fn check(config: &str, cases: &[(&str, &[(&str, &str)], &str)]) {
    for (query, script, expected) in cases {
        assert_eq!(uncached(config).exchange(query, script).answer, *expected, "{config}: {query}");
    }
}

const AAAA: &str = "v4.example AAAA";
const A: (&str, &str) = ("v4.example A", "v4.example. 60 A 8.8.4.4");
const SYNTHESISED: &str = "NOERROR; v4.example. 60 AAAA 64:ff9b::808:404; ede 29";

#[test]
fn bogus_aaaa_are_never_papered_over() {
    for code in [1, 2, 5, 6, 7, 8, 9, 10, 11, 12] {
        let servfail = format!("SERVFAIL; ede {code}");
        for config in ["", "synthesis.parallel = true", "cache.serve-stale = \"1h\""] {
            let mut bench = uncached(config);
            let exchange = bench.exchange(AAAA, &[(AAAA, &servfail), A]);
            assert_eq!(exchange.answer, servfail);
            let aaaa = exchange.asked.iter().filter(|asked| asked.contains("AAAA"));
            assert_eq!(aaaa.count(), 1, "{config}: {:?}", exchange.asked);
        }
    }
    let checked = ["v4.example AAAA", "v4.example AAAA +cd"];
    for (cd, answer) in [
        ("v4.example. 60 AAAA 2001:db8::1", "SERVFAIL; ede 6"),
        (SOA, "SERVFAIL; ede 6"),
        ("NXDOMAIN", "SERVFAIL; ede 6"),
        ("SERVFAIL", SYNTHESISED),
        ("REFUSED", SYNTHESISED),
    ] {
        let script = [(AAAA, "SERVFAIL; ede 22"), ("v4.example AAAA +cd", cd), A];
        let exchange = uncached("").exchange(AAAA, &script);
        assert_eq!(exchange.answer, answer, "{cd}");
        assert_eq!(exchange.asked[..2], checked, "{cd}");
    }
    // No answer to the second query either; other errors; a client that checks by itself; at the end of a chain.
    let silent = uncached("").exchange(AAAA, &[(AAAA, "SERVFAIL"), A]);
    assert_eq!(silent.answer, SYNTHESISED);
    let refused = uncached("").exchange(AAAA, &[(AAAA, "REFUSED"), A]);
    assert_eq!((refused.answer.as_str(), refused.asked.len()), (SYNTHESISED, 2));
    let cd = [("v4.example AAAA +cd", "SERVFAIL"), ("v4.example A +cd", "v4.example. 60 A 8.8.4.4")];
    let exchange = uncached("").exchange("v4.example AAAA +cd", &cd);
    assert_eq!((exchange.answer.as_str(), exchange.asked.len()), (SYNTHESISED, 2));
    let chain = [
        ("www.example AAAA", "www.example. 60 CNAME v4.example."),
        (AAAA, "SERVFAIL; ede 6"),
        A,
    ];
    let kept = "SERVFAIL; www.example. 60 CNAME v4.example.; ede 6";
    check("", &[("www.example AAAA", &chain, kept)]);
}

#[test]
fn bogus_data_is_neither_queried_elsewhere_nor_replaced_by_old_data() {
    let servers = "upstream.source-ports = 2\nupstream.servers = [\"127.0.0.1:5353\", \"127.0.0.2:5353\"]";
    let exchange = uncached(servers).exchange(AAAA, &[(AAAA, "SERVFAIL; ede 7"), A]);
    assert_eq!((exchange.answer.as_str(), exchange.asked.len()), ("SERVFAIL; ede 7", 1));
    for bogus in ["SERVFAIL; ede 6", "SERVFAIL"] {
        let mut bench = Bench::new("cache.serve-stale = \"1h\"");
        let good = [(AAAA, "v4.example. 1 AAAA 2001:db8::1")];
        assert!(bench.exchange(AAAA, &good).answer.contains("2001:db8::1"));
        bench.wait(1_500);
        let script = [(AAAA, bogus), ("v4.example AAAA +cd", good[0].1), A];
        assert_eq!(bench.exchange(AAAA, &script).answer, "SERVFAIL; ede 6");
    }
}

#[test]
fn the_target_of_a_service_gets_no_addresses_after_an_error() {
    let service = "svc.example. 60 TYPE65 \\# 18 0001 06746172676574076578616d706c6500";
    let script = [
        ("svc.example HTTPS", service),
        ("target.example AAAA", "SERVFAIL; ede 6"),
        ("target.example A", "target.example. 60 A 8.8.4.4"),
    ];
    let exchange = uncached("").exchange("svc.example HTTPS", &script);
    assert_eq!(exchange.asked, ["svc.example HTTPS", "target.example AAAA"]);
    assert!(!exchange.answer.contains("64:ff9b"), "{}", exchange.answer);
}

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

/// HTTPS 1 . mandatory=alpn,ipv4hint alpn=h2 ipv4hint=192.0.2.33, and the same without the hint.
const HINT: &str = "s.example. 60 TYPE65 \\# 26 0001 00 0000 0004 00010004 0001 0003 026832 0004 0004 c0000221";
const NO_HINT: &str = "s.example. 60 HTTPS 1 . mandatory=alpn alpn=h2";

#[test]
fn changed_data_is_never_authentic() {
    let excluded = "ad; v4.example. 60 AAAA 2001:db8::1; v4.example. 60 AAAA ::ffff:1.2.3.4";
    let empty = format!("ad; {SOA}");
    let chain = [
        ("www.example AAAA", "ad; www.example. 60 CNAME v4.example."),
        (AAAA, "ad; v4.example. 60 AAAA 2001:db8::1"),
    ];
    let soa = "NOERROR; authority; example. 200 SOA ns.example. host.example. 1 2 3 4 100";
    check(
        "",
        &[
            ("v4.example AAAA +ad", &[(AAAA, "ad; v4.example. 60 AAAA 2001:db8::1")], "NOERROR; ad; v4.example. 60 AAAA 2001:db8::1"),
            ("v4.example AAAA +ad", &[(AAAA, excluded)], "NOERROR; v4.example. 60 AAAA 2001:db8::1"),
            ("v4.example AAAA +ad", &[(AAAA, "ad; v4.example. 60 AAAA ::ffff:1.2.3.4"), ("v4.example A", &empty)], &format!("{soa}; ede 17")),
            ("v4.example AAAA +ad", &[(AAAA, &empty), ("v4.example A", &empty)], soa),
            ("v4.example A +ad", &[("v4.example A", &empty)], &soa.replace("NOERROR", "NOERROR; ad")),
            (
                "www.example AAAA +ad",
                &chain,
                "NOERROR; www.example. 60 CNAME v4.example.; v4.example. 60 AAAA 2001:db8::1",
            ),
        ],
    );
    let service: &[(&str, &str)] = &[("s.example HTTPS", &format!("ad; {HINT}"))];
    let config = "synthesis.ipv4hint = \"strip\"\nsynthesis.service-targets = false";
    let without = format!("NOERROR; {NO_HINT}");
    check(config, &[("s.example HTTPS +ad", service, &without)]);
    // A client that validates gets what is signed.
    let untouched = uncached(config).exchange("s.example HTTPS +do", service).answer;
    assert!(untouched.starts_with("NOERROR; ad;") && untouched.contains("ipv4hint"), "{untouched}");
}

#[test]
fn the_ad_bit_is_believed_as_configured() {
    let servers = |servers: &str| format!("upstream.servers = [\"{servers}\"]\nupstream.source-ports = 4");
    for (config, believed) in [
        (servers("127.0.0.1:5353"), true),
        (servers("[::1]:5353"), true),
        (servers("192.0.2.1:53"), false),
        (servers("192.0.2.1:53") + "\nupstream.trust-ad = \"always\"", true),
        (servers("127.0.0.1:5353") + "\nupstream.trust-ad = \"never\"", false),
    ] {
        let script = [("v4.example A", "ad; v4.example. 60 A 8.8.4.4")];
        let exchange = uncached(&config).exchange("v4.example A +ad", &script);
        let expected = if believed { "NOERROR; ad; v4.example. 60 A 8.8.4.4" } else { "NOERROR; v4.example. 60 A 8.8.4.4" };
        assert_eq!(exchange.answer, expected, "{config}");
    }
}

/// Options: NSID, a cookie, MAC addresses (65001, 65073), an option without a meaning.
const OPTIONS: [&str; 5] = ["3:", "10:0123456789abcdef", "65001:010203040506", "65073:0102", "4711:ff"];
/// 192.0.2.0/24 and 198.51.100.0/24.
const SUBNETS: [&str; 2] = ["8:00011800c00002", "8:00011800c63364"];

#[test]
fn options_of_clients_end_here() {
    let script = [("v4.example A", "option 3 ff; option 8 00011810c00002; option 10 00; option 65001 01; ede 3; v4.example. 60 A 8.8.4.4")];
    let mut bench = Bench::new("");
    // One query to upstream for all clients, whatever options they send; no option of upstream for them.
    for (round, option) in OPTIONS.iter().chain(&SUBNETS).enumerate() {
        let exchange = bench.exchange(&format!("v4.example A +option={option}"), &script);
        assert_eq!(exchange.answer, "NOERROR; v4.example. 60 A 8.8.4.4; ede 3", "{option}");
        let asked: &[&str] = if round == 0 { &["v4.example A"] } else { &[] };
        assert_eq!(exchange.asked, asked, "{option}");
    }
    // Clients with other options join a pending question.
    let mut bench = uncached("");
    assert_eq!(bench.ask(1, &crate::text::query("v4.example A")).upstream.len(), 1);
    for (port, option) in (2..).zip(OPTIONS) {
        let query = crate::text::query(&format!("v4.example A +option={option}"));
        assert!(bench.ask(port, &query).upstream.is_empty(), "{option}");
    }
}

#[test]
fn the_client_subnet_is_passed_or_added_as_configured() {
    let script = [("v4.example A", "option 8 00011810c00002; v4.example. 60 A 8.8.4.4")];
    let plain = "NOERROR; v4.example. 60 A 8.8.4.4";
    let scoped = "NOERROR; v4.example. 60 A 8.8.4.4; option 8 [0, 1, 24, 16, 192, 0, 2]";
    let mut pass = Bench::new("upstream.client-subnet = \"pass\"");
    let [first, second] = SUBNETS.map(|subnet| format!("v4.example A +option={subnet}"));
    for (query, asked, answer) in [
        ("v4.example A", &["v4.example A"][..], plain),
        (&first, &["v4.example A option 8"], scoped),
        // Answers are cached for each subnet; a reply for another subnet has no option.
        (&first, &[], scoped),
        (&second, &["v4.example A option 8"], plain),
        ("v4.example A +option=3:", &[], plain),
        ("v4.example A +option=8:00012000c00002", &[], "FORMERR"),
    ] {
        let exchange = pass.exchange(query, &script);
        assert_eq!((exchange.answer.as_str(), &exchange.asked[..]), (answer, &asked.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>()[..]), "{query}");
    }
    let mut add = Bench::new("upstream.client-subnet = \"add\"");
    for (query, asked) in [("v4.example A", 1), ("v4.example A +option=3:", 0), (&first, 1)] {
        assert_eq!(add.exchange(query, &script).asked, vec!["v4.example A option 8"; asked], "{query}");
    }
    // Both queries of a synthesis have it.
    let script = [(AAAA, SOA), A];
    let exchange = uncached("upstream.client-subnet = \"pass\"").exchange(&format!("{AAAA} +option={}", SUBNETS[0]), &script);
    assert_eq!(exchange.asked, ["v4.example AAAA option 8", "v4.example A option 8"]);
}

#[test]
fn an_empty_answer_has_the_soa_of_upstream() {
    let private = ("private.example A", "private.example. 60 A 10.1.2.3; private.example. 50 A 10.1.2.4");
    let in_zone = ("private.example SOA", SOA);
    let at_apex = ("private.example SOA", "private.example. 30 SOA ns.example. host.example. 1 2 3 4 100");
    let soa = "authority; example. 50 SOA ns.example. host.example. 1 2 3 4 100";
    let chain = [
        ("www.example AAAA", "www.example. 60 CNAME private.example.; authority; example. 40 SOA ns.example. host.example. 1 2 3 4 100"),
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
            ("private.example AAAA", &[("private.example AAAA", SOA), private, in_zone], &format!("NOERROR; {soa}; ede 17")),
            ("private.example AAAA", &[("private.example AAAA", SOA), private, at_apex], "NOERROR; authority; private.example. 30 SOA ns.example. host.example. 1 2 3 4 100; ede 17"),
            ("private.example AAAA", &[("private.example AAAA", "private.example. 60 AAAA ::ffff:1.2.3.4"), private, in_zone], &format!("NOERROR; {soa}; ede 17")),
            ("www.example AAAA", &chain, "NOERROR; www.example. 60 CNAME private.example.; authority; example. 40 SOA ns.example. host.example. 1 2 3 4 100; ede 17"),
            ("www.example AAAA", &cut_chain, &format!("NOERROR; www.example. 60 CNAME private.example.; {soa}; ede 17")),
            // No SOA, and one of a zone to which the name does not belong.
            ("private.example AAAA", &[("private.example AAAA", SOA), private, ("private.example SOA", "REFUSED")], "NOERROR; ede 17"),
            ("private.example AAAA", &[("private.example AAAA", SOA), private, ("private.example SOA", "authority; test. 30 SOA ns.test. host.test. 1 2 3 4 5")], "NOERROR; ede 17"),
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

/// Reverse names of 64:ff9b::8.8.4.4 and of 2001:db8:64::10.1.2.3.
const PUBLIC: &str = "4.0.4.0.8.0.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa";
const PRIVATE: &str = "3.0.2.0.1.0.a.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa";

#[test]
fn reverse_names_follow_section_5_3_1_for_everybody() {
    let config = "[[dns64]]\nprefix = \"2001:db8:64::/96\"\nclients = [\"192.0.2.1\"]\nnot-mapped = [\"10.0.0.0/8\"]\n[cache]";
    let script = [
        ("4.4.8.8.in-addr.arpa PTR", "4.4.8.8.in-addr.arpa. 60 PTR dns.example."),
        ("4.4.8.8.in-addr.arpa PTR +cd", "4.4.8.8.in-addr.arpa. 60 PTR dns.example."),
        ("3.2.1.10.in-addr.arpa PTR", "3.2.1.10.in-addr.arpa. 60 PTR private.example."),
        ("4.4.8.8.in-addr.arpa TXT", "authority; 8.in-addr.arpa. 60 SOA ns.example. host.example. 1 2 3 4 5"),
    ];
    let alias = format!("{PUBLIC}. 600 CNAME 4.4.8.8.in-addr.arpa.");
    let pointer = format!("NOERROR; {alias}; 4.4.8.8.in-addr.arpa. 60 PTR dns.example.");
    let private = format!("NOERROR; {PRIVATE}. 600 CNAME 3.2.1.10.in-addr.arpa.; 3.2.1.10.in-addr.arpa. 60 PTR private.example.");
    let no_data = format!("NOERROR; {alias}; authority; 8.in-addr.arpa. 60 SOA ns.example. host.example. 1 2 3 4 5");
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
        assert!(exchange.asked.is_empty() && exchange.answer.starts_with("NOERROR; authority; "), "{}", exchange.answer);
        assert_eq!(exchange.answer.matches("SOA").count(), 1);
    }
    // The reverse names of the addresses of ipv4only.arpa have nothing but the PTR record.
    let exchange = uncached("").exchange("170.0.0.192.in-addr.arpa TXT", &[]);
    let soa = "170.0.0.192.in-addr.arpa. 86400 SOA 170.0.0.192.in-addr.arpa. nobody.invalid. 1 3600 1200 604800 86400";
    assert_eq!(exchange.answer, format!("NOERROR; authority; {soa}"));
}

/// A signature of v4.example, of this type.
fn signature(rtype: &str) -> String {
    format!("v4.example. 60 RRSIG {rtype} 13 2 60 1893456000 1577836800 1 example. AAAA")
}

#[test]
fn signed_data_alone_is_left_alone_if_so_configured() {
    let signed_soa = format!("{SOA}; example. 200 RRSIG SOA 13 1 60 1893456000 1577836800 1 example. AAAA");
    let signed_a = format!("v4.example. 60 A 8.8.4.4; {}", signature("A"));
    let excluded = format!("v4.example. 60 AAAA ::ffff:1.2.3.4; {}", signature("AAAA"));
    let config = "synthesis.leave-alone = \"signed\"";
    for bits in ["", " +cd"] {
        let query = format!("{AAAA} +do{bits}");
        let (aaaa, a) = (format!("{AAAA}{bits}"), format!("v4.example A{bits}"));
        let ask = |config: &str, aaaa_reply: &str, a_reply: &str| {
            uncached(config).exchange(&query, &[(&aaaa, aaaa_reply), (&a, a_reply)])
        };
        // BIND as a forwarder sets DO and CD; its clients get what is not signed.
        assert_eq!(ask(config, SOA, A.1).answer, SYNTHESISED);
        let left = ask(config, &signed_soa, &signed_a);
        assert!(left.answer.contains("RRSIG SOA") && left.asked.len() == 1, "{}", left.answer);
        assert!(ask(config, &excluded, A.1).answer.contains("::ffff:1.2.3.4"));
        // Only the A records are signed: AAAA is queried again and passed on.
        let odd = ask(config, SOA, &signed_a);
        assert_eq!(odd.asked, [aaaa.clone(), a.clone(), aaaa.clone()]);
        assert_eq!(odd.answer, format!("NOERROR; {SOA}"));
        let broken = format!("{config}\nsynthesis.break-dnssec = true");
        assert_eq!(ask(&broken, &signed_soa, &signed_a).answer, SYNTHESISED);
    }
    // Without DO nothing says that the client validates; the default leaves all alone for DO and CD.
    let script = [(AAAA, &signed_soa[..]), ("v4.example A", &signed_a)];
    assert_eq!(uncached(config).exchange(AAAA, &script).answer, SYNTHESISED);
    let cd = [("v4.example AAAA +cd", SOA), ("v4.example A +cd", A.1)];
    assert_eq!(uncached("").exchange("v4.example AAAA +do +cd", &cd).answer, format!("NOERROR; {SOA}"));
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
fn signatures_of_aliases_are_kept() {
    let alias = "www.example. 60 CNAME v4.example.";
    let signed = format!("{alias}; {}", signature("CNAME").replace("v4.example.", "www.example."));
    let a = format!("{signed}; v4.example. 60 A 8.8.4.4; {}", signature("A"));
    let native = format!("v4.example. 60 AAAA 2001:db8::1; {}", signature("AAAA"));
    let mixed = format!("{signed}; {native}; v4.example. 60 AAAA ::ffff:1.2.3.4");
    let synthesised = format!("NOERROR; {signed}; v4.example. 60 AAAA 64:ff9b::808:404; ede 29");
    let filtered = format!("NOERROR; {signed}; v4.example. 60 AAAA 2001:db8::1");
    let whole = format!("NOERROR; {signed}; {native}");
    check(
        "",
        &[
            ("www.example AAAA +do", &[("www.example AAAA", SOA), ("www.example A", &a)], &synthesised),
            ("www.example AAAA +do", &[("www.example AAAA", &mixed)], &filtered),
            ("www.example AAAA +do", &[("www.example AAAA", &signed), (AAAA, &native)], &whole),
            ("www.example AAAA", &[("www.example AAAA", SOA), ("www.example A", &format!("{alias}; v4.example. 60 A 8.8.4.4"))], &format!("NOERROR; {alias}; v4.example. 60 AAAA 64:ff9b::808:404; ede 29")),
        ],
    );
}

#[test]
fn a_dname_gets_its_cname() {
    let dname = "old.example. 50 DNAME new.example.";
    let cname = "www.old.example. 50 CNAME www.new.example.";
    for (upstream, qtype, end, answer) in [
        (dname.to_owned(), "AAAA", "www.new.example. 60 AAAA 2001:db8::1", "www.new.example. 60 AAAA 2001:db8::1"),
        (dname.to_owned(), "A", "www.new.example. 60 A 8.8.4.4", "www.new.example. 60 A 8.8.4.4"),
        (format!("{dname}; {cname}"), "A", "www.new.example. 60 A 8.8.4.4", "www.new.example. 60 A 8.8.4.4"),
        (dname.to_owned(), "TXT", "www.new.example. 60 CNAME end.example.; end.example. 60 TXT \"x\"", "www.new.example. 60 CNAME end.example.; end.example. 60 TXT \"x\""),
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
    assert_eq!(answer, format!("NOERROR; {dname}; {cname}; {last}; www.last.example. 60 AAAA 64:ff9b::808:404; ede 29"));
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
fn a_silent_aaaa_costs_one_timeout() {
    // Nothing is known of the server: 400 ms, and 100 ms for a reply that comes a little later.
    let mut bench = Bench::new("cache.size = 0");
    let unknown = bench.exchange(AAAA, &[A]);
    assert_eq!(unknown.answer, "NOERROR; v4.example. 60 AAAA 64:ff9b::808:404; ede 29");
    assert!((350..=570).contains(&unknown.ms), "{}", unknown.ms);
    // A fast server: twice the smallest timeout.
    let known = bench.exchange(AAAA, &[("v4.example A", "v4.example. 600 A 8.8.4.4")]);
    assert!((180..=230).contains(&known.ms), "{}", known.ms);
    // Whether there is AAAA is not known: the TTL is short.
    assert_eq!(known.answer, "NOERROR; v4.example. 60 AAAA 64:ff9b::808:404; ede 29");
    assert_eq!(known.asked, [AAAA, AAAA, "v4.example A"]);
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
    // A slow name keeps the time that it had: three attempts, 2.8 s.
    let mut slow = Bench::new("cache.size = 0");
    slow.exchange("v4.example A", &[A]);
    let mut sent = slow.ask(1, &crate::text::query("slow.example A")).upstream;
    sent.extend(slow.wait(2_000).into_iter().flat_map(|(_, out)| out.upstream));
    let last = sent.pop().expect("a query");
    let reply = crate::text::reply(&last.bytes, "slow.example. 60 A 8.8.4.4");
    assert_eq!((sent.len(), slow.reply(&last, &reply).clients.len()), (2, 1));
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
fn extended_errors_give_the_reason() {
    // Those of upstream are passed on, those of DNSSEC and others.
    for code in [0, 7, 9, 22] {
        let servfail = format!("SERVFAIL; ede {code}");
        check("", &[("v4.example A", &[("v4.example A", &servfail)], &servfail)]);
    }
    check("", &[("v4.example A", &[], "SERVFAIL; ede 23"), (AAAA, &[], "SERVFAIL; ede 23")]);
    // Without EDNS there is no room for them.
    check("", &[("v4.example AAAA +noedns", &[(AAAA, SOA), A], "NOERROR; v4.example. 60 AAAA 64:ff9b::808:404")]);
    // They are stored with the answer; an expired one gets its own.
    let mut bench = Bench::new("cache.serve-stale = \"1h\"");
    let script = [(AAAA, SOA), ("v4.example A", "v4.example. 1 A 8.8.4.4"), ("no.example A", "NXDOMAIN; authority; example. 1 SOA ns.example. host.example. 1 2 3 4 1")];
    for _ in 0..2 {
        assert_eq!(bench.exchange(AAAA, &script).answer, "NOERROR; v4.example. 1 AAAA 64:ff9b::808:404; ede 29");
        assert!(bench.exchange("no.example A", &script).answer.starts_with("NXDOMAIN; authority; "));
    }
    bench.wait(2_000);
    assert_eq!(bench.exchange(AAAA, &[]).answer, "NOERROR; v4.example. 30 AAAA 64:ff9b::808:404; ede 29; ede 3");
    assert!(bench.exchange("no.example A", &[]).answer.ends_with("; ede 19"));
    let known = uncached("").exchange("ipv4only.arpa AAAA", &[]).answer;
    assert!(known.ends_with("; ede 29"), "{known}");
}

#[test]
fn a_client_that_is_not_permitted_gets_the_reason_if_there_is_room() {
    let stranger = "192.0.2.1:5000".parse().expect("an address");
    let mut bench = uncached("");
    for (text, shown) in [
        ("www.test A", "REFUSED"),
        ("www.test A +noedns", "REFUSED"),
        ("www.test A +option=10:0123456789abcdef", "REFUSED; ede 18"),
    ] {
        let query = crate::text::query(text);
        let out = bench.step(&[(crate::bench::LISTENING, stranger, &query)]);
        let (_, answer) = &out.clients[0];
        assert_eq!(crate::text::shown(answer), shown);
        assert!(answer.len() <= query.len());
    }
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
        (format!("authority; {soa}; bank.test. 60 NS ns.sub.example."), format!("authority; {soa}")),
        (format!("authority; {soa}; additional; {bank}"), format!("authority; {soa}")),
        (format!("NXDOMAIN; authority; bank.test. 60 SOA a.test. b.test. 1 2 3 4 5"), "NXDOMAIN".to_owned()),
    ] {
        for (ad, dnssec) in [("", ""), ("", " +do"), ("ad; ", " +ad")] {
            let query = format!("www.sub.example A{dnssec}");
            let exchange = uncached("").exchange(&query, &[("www.sub.example A", &format!("{ad}{reply}"))]);
            let expected = if answer.starts_with("NX") { answer.clone() } else { format!("NOERROR; {answer}") };
            // What is left of a changed answer section is not authentic, nor is a statement without its SOA record.
            let given = exchange.answer.replacen("; ad", "", 1);
            assert_eq!(given, expected, "{reply}");
            let changed = reply.contains(&format!("; {bank}")) && !reply.contains("authority") && !reply.contains("additional");
            assert!(!changed || !exchange.answer.contains("; ad"), "{}", exchange.answer);
        }
    }
    let script = [("v4.example AAAA", SOA), ("v4.example A", &format!("v4.example. 60 A 8.8.4.4; {bank}; authority; bank.test. 60 NS a.test.; additional; {bank}")[..])];
    assert_eq!(uncached("").exchange(AAAA, &script).answer, SYNTHESISED);
}

#[test]
fn signatures_and_proofs_belong_to_the_question_of_a_validator() {
    let signed = format!("v4.example. 60 A 8.8.4.4; {}", signature("A"));
    let proof = "authority; a.example. 60 NSEC z.example. A; a.example. 60 RRSIG NSEC 13 2 60 1893456000 1577836800 1 example. AAAA";
    let reply = format!("ad; {signed}; {proof}");
    let exchange = uncached("").exchange("v4.example A +do", &[("v4.example A", &reply)]);
    assert_eq!(exchange.answer, format!("NOERROR; {reply}"));
    // Also when something else is removed.
    let more = format!("{reply}; additional; www.bank.test. 60 A 203.0.113.66");
    let exchange = uncached("").exchange("v4.example A +do", &[("v4.example A", &more)]);
    assert_eq!(exchange.answer, format!("NOERROR; {reply}"));
}

#[test]
fn all_types_of_a_name_keep_their_types() {
    let any = "v4.example. 60 A 8.8.4.4; v4.example. 60 TXT \"x\"";
    let foreign = format!("{any}; additional; www.bank.test. 60 A 203.0.113.66");
    let exchange = uncached("").exchange("v4.example ANY", &[("v4.example ANY", &foreign)]);
    assert_eq!(exchange.answer, format!("NOERROR; {any}"));
}
