//! DNSSEC: bogus data, AD, signatures, and clients that validate.

use crate::bench::Bench;
use crate::text::{A, AAAA, GIVEN_SOA, SOA, SYNTHESISED, check, signature, uncached};

/// HTTPS 1 . mandatory=alpn,ipv4hint alpn=h2 ipv4hint=192.0.2.33, and the same without the hint.
const HINT: &str =
    "s.example. 60 TYPE65 \\# 26 0001 00 0000 0004 00010004 0001 0003 026832 0004 0004 c0000221";
const NO_HINT: &str = "s.example. 60 HTTPS 1 . mandatory=alpn alpn=h2";

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
    let cd =
        [("v4.example AAAA +cd", "SERVFAIL"), ("v4.example A +cd", "v4.example. 60 A 8.8.4.4")];
    let exchange = uncached("").exchange("v4.example AAAA +cd", &cd);
    assert_eq!((exchange.answer.as_str(), exchange.asked.len()), (SYNTHESISED, 2));
    let chain =
        [("www.example AAAA", "www.example. 60 CNAME v4.example."), (AAAA, "SERVFAIL; ede 6"), A];
    let kept = "SERVFAIL; www.example. 60 CNAME v4.example.; ede 6";
    check("", &[("www.example AAAA", &chain, kept)]);
}

#[test]
fn bogus_data_is_neither_queried_elsewhere_nor_replaced_by_old_data() {
    let servers =
        "upstream.source-ports = 2\nupstream.servers = [\"127.0.0.1:5353\", \"127.0.0.2:5353\"]";
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

/// The answer is there: upstream's silence about its targets delays it by no more than the time of one lookup.
#[test]
fn silence_about_the_targets_of_a_service_costs_one_lookup() {
    // HTTPS 1 target.example, HTTPS 2 other.example.
    let service = "svc.example. 60 TYPE65 \\# 18 0001 06746172676574076578616d706c6500; \
        svc.example. 60 TYPE65 \\# 17 0002 056f74686572076578616d706c6500";
    let a = ("target.example A", "target.example. 60 A 8.8.4.4");
    let script = [("svc.example HTTPS", service), a];
    for (script, is_added) in [(&script[..1], false), (&script[..], true)] {
        let exchange = uncached("").exchange("svc.example HTTPS", script);
        assert!(exchange.answer.contains("TYPE65") || exchange.answer.contains("HTTPS"));
        assert_eq!(exchange.answer.contains("64:ff9b::808:404"), is_added, "{}", exchange.answer);
        assert!(exchange.ms < 3_100, "{}", exchange.ms);
    }
}

#[test]
fn what_is_no_address_is_none_of_a_services_target() {
    let service = "svc.example. 60 TYPE65 \\# 18 0001 06746172676574076578616d706c6500";
    let script = [
        ("svc.example HTTPS", service),
        ("target.example AAAA", "target.example. 60 TYPE28 \\# 3 010203"),
        ("target.example A", "target.example. 60 A 8.8.4.4"),
    ];
    let exchange = uncached("").exchange("svc.example HTTPS", &script);
    assert!(
        exchange.answer.contains("target.example. 60 AAAA 64:ff9b::808:404"),
        "{}",
        exchange.answer
    );
    assert_eq!(exchange.answer.matches("target.example. 60").count(), 1, "{}", exchange.answer);
}

#[test]
fn changed_data_is_never_authentic() {
    let excluded = "ad; v4.example. 60 AAAA 2001:db8::1; v4.example. 60 AAAA ::ffff:1.2.3.4";
    let empty = format!("ad; {SOA}");
    let chain = [
        ("www.example AAAA", "ad; www.example. 60 CNAME v4.example."),
        (AAAA, "ad; v4.example. 60 AAAA 2001:db8::1"),
    ];
    let soa = &format!("NOERROR; {GIVEN_SOA}");
    check(
        "",
        &[
            (
                "v4.example AAAA +ad",
                &[(AAAA, "ad; v4.example. 60 AAAA 2001:db8::1")],
                "NOERROR; ad; v4.example. 60 AAAA 2001:db8::1",
            ),
            (
                "v4.example AAAA +ad",
                &[(AAAA, excluded)],
                "NOERROR; v4.example. 60 AAAA 2001:db8::1",
            ),
            (
                "v4.example AAAA +ad",
                &[(AAAA, "ad; v4.example. 60 AAAA ::ffff:1.2.3.4"), ("v4.example A", &empty)],
                &format!("{soa}; ede 17"),
            ),
            ("v4.example AAAA +ad", &[(AAAA, &empty), ("v4.example A", &empty)], soa),
            (
                "v4.example A +ad",
                &[("v4.example A", &empty)],
                &soa.replace("NOERROR", "NOERROR; ad"),
            ),
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
    let servers =
        |servers: &str| format!("upstream.servers = [\"{servers}\"]\nupstream.source-ports = 4");
    for (config, believed) in [
        (servers("127.0.0.1:5353"), true),
        (servers("[::1]:5353"), true),
        (servers("192.0.2.1:53"), false),
        (servers("192.0.2.1:53") + "\nupstream.trust-ad = \"always\"", true),
        (servers("127.0.0.1:5353") + "\nupstream.trust-ad = \"never\"", false),
    ] {
        let script = [("v4.example A", "ad; v4.example. 60 A 8.8.4.4")];
        let exchange = uncached(&config).exchange("v4.example A +ad", &script);
        let expected = if believed {
            "NOERROR; ad; v4.example. 60 A 8.8.4.4"
        } else {
            "NOERROR; v4.example. 60 A 8.8.4.4"
        };
        assert_eq!(exchange.answer, expected, "{config}");
    }
}

#[test]
fn signed_data_alone_is_left_alone_if_so_configured() {
    let signed_soa =
        format!("{SOA}; example. 200 RRSIG SOA 13 1 60 1893456000 1577836800 1 example. AAAA");
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
        assert_eq!(odd.answer, format!("NOERROR; {GIVEN_SOA}"));
        let broken = format!("{config}\nsynthesis.break-dnssec = true");
        assert_eq!(ask(&broken, &signed_soa, &signed_a).answer, SYNTHESISED);
    }
    // Without DO nothing says that the client validates; the default leaves all alone for DO and CD.
    let script = [(AAAA, &signed_soa[..]), ("v4.example A", &signed_a)];
    assert_eq!(uncached(config).exchange(AAAA, &script).answer, SYNTHESISED);
    let cd = [("v4.example AAAA +cd", SOA), ("v4.example A +cd", A.1)];
    assert_eq!(
        uncached("").exchange("v4.example AAAA +do +cd", &cd).answer,
        format!("NOERROR; {GIVEN_SOA}")
    );
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
            (
                "www.example AAAA +do",
                &[("www.example AAAA", SOA), ("www.example A", &a)],
                &synthesised,
            ),
            ("www.example AAAA +do", &[("www.example AAAA", &mixed)], &filtered),
            ("www.example AAAA +do", &[("www.example AAAA", &signed), (AAAA, &native)], &whole),
            (
                "www.example AAAA",
                &[
                    ("www.example AAAA", SOA),
                    ("www.example A", &format!("{alias}; v4.example. 60 A 8.8.4.4")),
                ],
                &format!("NOERROR; {alias}; v4.example. 60 AAAA 64:ff9b::808:404; ede 29"),
            ),
        ],
    );
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
fn no_signature_reaches_a_client_that_requests_none() {
    let mx = "v4.example. 60 MX 10 v4.example.";
    let glue = "additional; v4.example. 60 A 8.8.4.4";
    let signed = format!("{mx}; {}; {glue}; {}", signature("MX"), signature("A"));
    let script = [("v4.example MX", &signed[..])];
    for query in ["v4.example MX", "v4.example MX +noedns"] {
        check("", &[(query, &script, &format!("NOERROR; {mx}; {glue}"))]);
    }
    check("", &[("v4.example MX +do", &script, &format!("NOERROR; {signed}"))]);
}
