//! The content of answers, one rule for each test, with queries and replies as text.

use crate::bench::Bench;
use crate::text::SOA;

/// A bench without a cache.
fn bench(config: &str) -> Bench {
    Bench::new(&format!("{config}\ncache.size = 0"))
}

/// Checks a table of queries, scripts of upstream, and expected answers.
fn check(config: &str, cases: &[(&str, &[(&str, &str)], &str)]) {
    for (query, script, expected) in cases {
        assert_eq!(bench(config).exchange(query, script).answer, *expected, "{config}: {query}");
    }
}

const AAAA: &str = "v4.example AAAA";
const A: (&str, &str) = ("v4.example A", "v4.example. 60 A 8.8.4.4");
const SYNTHESISED: &str = "NOERROR; v4.example. 60 AAAA 64:ff9b::808:404";

#[test]
fn bogus_aaaa_are_never_papered_over() {
    for code in [1, 2, 5, 6, 7, 8, 9, 10, 11, 12] {
        let servfail = format!("SERVFAIL; ede {code}");
        for config in ["", "synthesis.parallel = true", "cache.serve-stale = \"1h\""] {
            let mut bench = bench(config);
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
        let exchange = bench("").exchange(AAAA, &script);
        assert_eq!(exchange.answer, answer, "{cd}");
        assert_eq!(exchange.asked[..2], checked, "{cd}");
    }
    // No answer to the second query either; other errors; a client that checks by itself; at the end of a chain.
    let silent = bench("").exchange(AAAA, &[(AAAA, "SERVFAIL"), A]);
    assert_eq!(silent.answer, SYNTHESISED);
    let refused = bench("").exchange(AAAA, &[(AAAA, "REFUSED"), A]);
    assert_eq!((refused.answer.as_str(), refused.asked.len()), (SYNTHESISED, 2));
    let cd = [("v4.example AAAA +cd", "SERVFAIL"), ("v4.example A +cd", "v4.example. 60 A 8.8.4.4")];
    let exchange = bench("").exchange("v4.example AAAA +cd", &cd);
    assert_eq!((exchange.answer.as_str(), exchange.asked.len()), (SYNTHESISED, 2));
    let chain = [
        ("www.example AAAA", "www.example. 60 CNAME v4.example."),
        (AAAA, "SERVFAIL; ede 6"),
        A,
    ];
    check("", &[("www.example AAAA", &chain, "SERVFAIL; ede 6")]);
}

#[test]
fn bogus_data_is_neither_queried_elsewhere_nor_replaced_by_old_data() {
    let servers = "upstream.source-ports = 2\nupstream.servers = [\"127.0.0.1:5353\", \"127.0.0.2:5353\"]";
    let exchange = bench(servers).exchange(AAAA, &[(AAAA, "SERVFAIL; ede 7"), A]);
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
    let exchange = bench("").exchange("svc.example HTTPS", &script);
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
