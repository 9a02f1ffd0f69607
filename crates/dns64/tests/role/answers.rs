//! The content of answers, one rule for each test, with queries and replies as text.

use crate::bench::Bench;
use crate::text::SOA;

/// A bench without a cache.
fn bench(config: &str) -> Bench {
    Bench::new(&format!("{config}\ncache.size = 0"))
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
