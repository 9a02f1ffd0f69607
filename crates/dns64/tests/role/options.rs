//! EDNS options: those of clients that end here, cookies, and servers that refuse options.

use wire::Query;

use crate::bench::Bench;
use crate::text::{query, reply, uncached};

/// Options: NSID, a cookie, MAC addresses (65001, 65073), an option without a meaning.
const OPTIONS: [&str; 5] =
    ["3:", "10:0123456789abcdef", "65001:010203040506", "65073:0102", "4711:ff"];
/// Client subnet options (RFC 7871) for 192.0.2.0/24 and 198.51.100.0/24.
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
    assert_eq!(bench.ask(1, &query("v4.example A")).upstream.len(), 1);
    for (port, option) in (2..).zip(OPTIONS) {
        let query = query(&format!("v4.example A +option={option}"));
        assert!(bench.ask(port, &query).upstream.is_empty(), "{option}");
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
        let query = query(&format!("v4.example A +option=10:{cookie}"));
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

#[test]
fn a_server_that_refuses_options_is_queried_without_them() {
    let subnet = "upstream.client-subnet = \"add\"";
    let both = &format!("{subnet}\nupstream.cookies = true")[..];
    // The errors, and the number of options in each query; `None` for one without an OPT record.
    for (config, errors, options) in [
        // FORMERR to a cookie, with an OPT record (c-ares #911).
        ("upstream.cookies = true", &["FORMERR", "FORMERR"][..], &[Some(1), Some(0), None][..]),
        (both, &["BADVERS"], &[Some(2), Some(0)]),
        (both, &["REFUSED"], &[Some(2), Some(0)]),
        // RFC 7871 section 7.1.3: once more without the address.
        (subnet, &["REFUSED"], &[Some(1), Some(0)]),
        ("", &["FORMERR"], &[Some(0), None]),
    ] {
        let mut bench = uncached(config);
        let mut sent = bench.ask(1, &query("v4.example A +do")).upstream.remove(0);
        for (round, expected) in options.iter().enumerate() {
            let Query { ad, edns, .. } = Query::parse(&sent.bytes).expect("a query");
            let found = edns.map(|edns| edns.options().count());
            assert_eq!((found, ad), (*expected, expected.is_some()), "{config} {round}");
            assert!(edns.is_none_or(|edns| edns.do_bit));
            let Some(error) = errors.get(round) else { break };
            let mut out = bench.reply(&sent, &reply(&sent.bytes, error));
            assert!(out.clients.is_empty(), "{config} {error}");
            sent = out.upstream.remove(0);
        }
        let out = bench.reply(&sent, &reply(&sent.bytes, "v4.example. 60 A 8.8.4.4"));
        assert_eq!(out.clients.len(), 1, "{config}");
    }
    let refused = uncached("").exchange("v4.example A", &[("v4.example A", "REFUSED")]);
    assert_eq!((refused.answer.as_str(), refused.asked.len()), ("REFUSED; ede 22", 1));
}
