//! EDNS options: what ends here, the client subnet, extended errors, cookies.

use crate::bench::Bench;
use crate::text::{A, AAAA, SOA, check, uncached};

/// Options: NSID, a cookie, MAC addresses (65001, 65073), an option without a meaning.
const OPTIONS: [&str; 5] =
    ["3:", "10:0123456789abcdef", "65001:010203040506", "65073:0102", "4711:ff"];
/// 192.0.2.0/24 and 198.51.100.0/24.
const SUBNETS: [&str; 2] = ["8:00011800c00002", "8:00011800c63364"];

#[test]
fn options_of_clients_end_here() {
    let script = [(
        "v4.example A",
        "option 3 ff; option 8 00011810c00002; option 10 00; option 65001 01; ede 3; v4.example. 60 A 8.8.4.4",
    )];
    let mut bench = Bench::new("");
    // One query to upstream for all clients, whatever options they send; no option of upstream for them.
    for (round, option) in OPTIONS.iter().chain(&SUBNETS).enumerate() {
        let exchange = bench.exchange(&format!("v4.example A +option={option}"), &script);
        let answer = exchange.answer.split("; option 10").next();
        assert_eq!(answer, Some("NOERROR; v4.example. 60 A 8.8.4.4; ede 3"), "{option}");
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
    let unscoped = "NOERROR; v4.example. 60 A 8.8.4.4; option 8 [0, 1, 24, 0, 198, 51, 100]";
    let mut pass = Bench::new("upstream.client-subnet = \"pass\"");
    let [first, second] = SUBNETS.map(|subnet| format!("v4.example A +option={subnet}"));
    for (query, asked, answer) in [
        ("v4.example A", &["v4.example A"][..], plain),
        (&first, &["v4.example A option 8"], scoped),
        // Answers are cached for each subnet; a reply for another subnet says nothing about this one.
        (&first, &[], scoped),
        (&second, &["v4.example A option 8"], unscoped),
        ("v4.example A +option=3:", &[], plain),
        ("v4.example A +option=8:00012000c00002", &[], "FORMERR"),
    ] {
        let exchange = pass.exchange(query, &script);
        assert_eq!(
            (exchange.answer.as_str(), &exchange.asked[..]),
            (answer, &asked.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>()[..]),
            "{query}"
        );
    }
    let mut add = Bench::new("upstream.client-subnet = \"add\"");
    for (query, asked) in [("v4.example A", 1), ("v4.example A +option=3:", 0), (&first, 1)] {
        assert_eq!(
            add.exchange(query, &script).asked,
            vec!["v4.example A option 8"; asked],
            "{query}"
        );
    }
    // Both queries of a synthesis have it.
    let script = [(AAAA, SOA), A];
    let exchange = uncached("upstream.client-subnet = \"pass\"")
        .exchange(&format!("{AAAA} +option={}", SUBNETS[0]), &script);
    assert_eq!(exchange.asked, ["v4.example AAAA option 8", "v4.example A option 8"]);
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
    check(
        "",
        &[(
            "v4.example AAAA +noedns",
            &[(AAAA, SOA), A],
            "NOERROR; v4.example. 60 AAAA 64:ff9b::808:404",
        )],
    );
    // They are stored with the answer; an expired one gets its own.
    let mut bench = Bench::new("cache.serve-stale = \"1h\"");
    let script = [
        (AAAA, SOA),
        ("v4.example A", "v4.example. 1 A 8.8.4.4"),
        ("no.example A", "NXDOMAIN; authority; example. 1 SOA ns.example. host.example. 1 2 3 4 1"),
    ];
    for _ in 0..2 {
        assert_eq!(
            bench.exchange(AAAA, &script).answer,
            "NOERROR; v4.example. 1 AAAA 64:ff9b::808:404; ede 29"
        );
        assert!(
            bench.exchange("no.example A", &script).answer.starts_with("NXDOMAIN; authority; ")
        );
    }
    bench.wait(2_000);
    assert_eq!(
        bench.exchange(AAAA, &[]).answer,
        "NOERROR; v4.example. 30 AAAA 64:ff9b::808:404; ede 29; ede 3"
    );
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
fn a_client_with_its_cookie_is_not_limited() {
    let mut bench = Bench::new("limits.responses-per-second = 1\nlimits.slip = 0");
    let script = [("v4.example A", "v4.example. 60 A 8.8.4.4")];
    // The client's part alone: the reply brings the other part, and counts.
    let first = bench.exchange("v4.example A +option=10:0102030405060708", &script).answer;
    let (_, data) = first.split_once("option 10 [").expect("a cookie");
    let octets: Vec<u8> =
        data.trim_end_matches(']').split(", ").map(|n| n.parse().expect("an octet")).collect();
    assert_eq!((octets.len(), &octets[..9]), (24, &[1, 2, 3, 4, 5, 6, 7, 8, 1][..]));
    let hex = |octets: &[u8]| octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    let replies = |bench: &mut Bench, cookie: &str| {
        let query = crate::text::query(&format!("v4.example A +option=10:{cookie}"));
        (0..20).map(|_| bench.ask(1, &query).clients.len()).sum::<usize>()
    };
    assert_eq!(replies(&mut bench, &hex(&octets)), 20);
    let mut forged = octets.clone();
    forged[23] ^= 1;
    assert_eq!(replies(&mut bench, &hex(&forged)), 0);
    assert_eq!(replies(&mut bench, "0102030405060708"), 0);
    // Lengths that do not exist.
    let mut bench = Bench::new("");
    for cookie in ["01", "010203040506070809", &"00".repeat(41)] {
        let query = format!("v4.example A +option=10:{cookie}");
        assert_eq!(bench.exchange(&query, &script).answer, "FORMERR", "{cookie}");
    }
}
