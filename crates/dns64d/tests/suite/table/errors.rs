//! Errors and timeouts of the AAAA query and of the A query (RFC 6147 sections 5.1.2, 5.1.3, 5.1.6).

use crate::kit::message::Reply;
use crate::kit::server::{Kind, Server};
use crate::row::Peer::{self, Cannot, With};
use crate::row::Row;

const A: (&str, &str) = ("v4.example A", "v4.example 60 A 192.0.2.33");
/// Short timeouts for rows with a silent upstream.
const QUICK: &str = "upstream.first-timeout = \"500ms\"\nupstream.give-up-after = \"3s\"";
/// The same with expired answers, which are asked for once on a busy machine too.
const STALE: &str = "upstream.first-timeout = \"1500ms\"\nupstream.give-up-after = \"3s\"\n\
    cache.serve-stale = \"1h\"";
const AS_IS: Peer = With("# as it is");
const SYNTHESISED: &[(&str, &str)] =
    &[("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221")];

const SIGNED_NXDOMAIN: &str = "NXDOMAIN; authority; example 60 SOA ns.example host.example 1 7200 3600 86400 60; \
    example 60 RRSIG SOA 13 1 60 20300101000000 20200101000000 1 example AAAA";

/// Settings of the other servers for expired answers.
const UNBOUND_STALE: &str =
    "serve-expired: yes\nserve-expired-client-timeout: 200\nede: yes\nede-serve-expired: yes";
const BIND_STALE: Peer = With(
    "options: stale-answer-enable yes; stale-cache-enable yes; stale-answer-client-timeout 200; stale-refresh-time 0;",
);

/// A row for an error to AAAA that counts as empty, and more about the error.
macro_rules! counts_as_empty {
    ($rcode:literal $(, $more:literal)?) => {
        Row {
            name: concat!($rcode, " to AAAA", $($more,)? " counts as empty"),
            rfc: "RFC 6147 5.1.2",
            upstream: &[A, ("v4.example AAAA", $rcode)],
            queries: SYNTHESISED,
            differs: &[(
                Kind::Bind,
                "it returns SERVFAIL after an error to AAAA and does not query A",
            )],
            ..Row::NONE
        }
    };
}

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "NXDOMAIN passes, A is not queried",
        rfc: "RFC 6147 5.1.2",
        upstream: &[("no.example AAAA", "NXDOMAIN")],
        queries: &[("no.example AAAA", "NXDOMAIN; none; soa 1; unasked no.example A")],
        differs: super::chains::NXDOMAIN,
        ..Row::NONE
    },
    Row {
        name: "AAAA with the four octets of an A record counts as absent",
        rfc: "RFC 4074 4.4",
        upstream: &[
            A,
            ("v4.example AAAA", "v4.example 60 AAAA \\# 4 c0000221"),
            (
                "some.example AAAA",
                "some.example 60 AAAA \\# 4 c0000221; some.example 60 AAAA 2001:db8::1",
            ),
        ],
        queries: &[
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221"),
            ("some.example AAAA", "NOERROR; some.example AAAA 2001:db8::1"),
        ],
        differs: &[(Kind::Unbound, "it passes the record on"), (Kind::Bind, "SERVFAIL")],
        ..Row::NONE
    },
    Row {
        name: "Addresses with octets too few or too many count as absent where nothing is synthesised too",
        rfc: "RFC 4074 4.4",
        config: "synthesis.never = [\"never.example\"]\nsynthesis.always = [\"always.example\"]",
        unbound: Cannot("no names that are never synthesised"),
        bind: Cannot("no rules for names"),
        upstream: &[
            A,
            ("v4.example AAAA", "v4.example 60 AAAA \\# 4 c0000221"),
            ("never.example AAAA", "never.example 60 AAAA \\# 4 c0000221"),
            (
                "some.never.example AAAA",
                "some.never.example 60 AAAA \\# 4 c0000221; some.never.example 60 AAAA 2001:db8::1",
            ),
            ("always.example A", ""),
            (
                "always.example AAAA",
                "always.example 60 AAAA \\# 4 c0000221; always.example 60 AAAA 2001:db8::1",
            ),
            ("www.never.example AAAA", "www.never.example 60 CNAME never.example"),
            ("long.example A", "long.example 60 A \\# 16 20010db8000000000000000000000001"),
            (
                "example MX",
                "example 60 MX 10 v4.example; additional; v4.example 60 AAAA \\# 4 c0000221; v4.example 60 A 192.0.2.33",
            ),
            // No other type is guessed.
            ("bad.example MX", "bad.example 60 MX \\# 2 000a"),
            ("www.bad.example MX", "www.bad.example 60 CNAME bad.example"),
        ],
        queries: &[
            ("v4.example AAAA +do +cd", "NOERROR; none"),
            ("never.example AAAA", "NOERROR; none; unasked never.example A"),
            ("some.never.example AAAA", "NOERROR; some.never.example AAAA 2001:db8::1; -ad"),
            ("always.example AAAA", "NOERROR; always.example AAAA 2001:db8::1"),
            ("www.never.example AAAA", "NOERROR; www.never.example CNAME never.example"),
            ("long.example A", "NOERROR; none"),
            (
                "example MX",
                "NOERROR; example MX 10 v4.example; additionals 1; additional v4.example A 192.0.2.33",
            ),
            ("bad.example MX", "SERVFAIL"),
            ("www.bad.example MX", "SERVFAIL"),
        ],
        ..Row::NONE
    },
    Row {
        name: "ignore-nxdomain: NXDOMAIN to AAAA counts as empty for listed names, unless it is proven",
        rfc: "against RFC 6147 5.1.2 for RFC 4074 4.2",
        config: "upstream.trust-ad = \"never\"\n\
            synthesis = { ignore-nxdomain = [\"V4.example\", \"gone.example\", \"ad.example\", \"signed.example\", \"never.example\"], \
            never = [\"never.example\"] }",
        unbound: Cannot("it takes every NXDOMAIN to AAAA as empty"),
        bind: Cannot("no such setting"),
        upstream: &[
            A,
            ("v4.example AAAA", "NXDOMAIN"),
            ("v4.example MX", "NXDOMAIN"),
            ("www.example AAAA", "NXDOMAIN; www.example 60 CNAME v4.example"),
            ("www.example A", "www.example 60 CNAME v4.example; v4.example 60 A 192.0.2.33"),
            ("usual.example A", "usual.example 60 A 192.0.2.33"),
            ("usual.example AAAA", "NXDOMAIN"),
            ("gone.example A", "NXDOMAIN"),
            ("gone.example AAAA", "NXDOMAIN"),
            ("ad.example A", "ad.example 60 A 192.0.2.33"),
            ("ad.example AAAA", "NXDOMAIN; ad"),
            ("signed.example A", "signed.example 60 A 192.0.2.33"),
            ("signed.example AAAA", SIGNED_NXDOMAIN),
            ("never.example A", "never.example 60 A 192.0.2.33"),
            ("never.example AAAA", "NXDOMAIN"),
            ("svc.example HTTPS", "svc.example 60 TYPE65 \\# 14 0001 02 7634 07 6578616d706c65 00"),
        ],
        queries: &[
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221; ede 29"),
            ("v4.example MX", "NXDOMAIN; none"),
            (
                "www.example AAAA",
                "NOERROR; www.example CNAME v4.example; v4.example AAAA 2001:db8:64::c000:221",
            ),
            ("usual.example AAAA", "NXDOMAIN; none; soa 1; unasked usual.example A"),
            ("gone.example AAAA", "NXDOMAIN; none; soa 1; asked gone.example A"),
            ("ad.example AAAA", "NXDOMAIN; none; unasked ad.example A"),
            ("signed.example AAAA +do", "NXDOMAIN; none; unasked signed.example A"),
            ("never.example AAAA", "NXDOMAIN; none; unasked never.example A"),
            ("svc.example HTTPS", "NOERROR; additional v4.example 60 AAAA 2001:db8:64::c000:221"),
        ],
        ..Row::NONE
    },
    Row {
        name: "SERVFAIL to AAAA because of DNSSEC (extended error 6) is passed on",
        rfc: "RFC 6147 5.5, RFC 8914",
        upstream: &[A, ("v4.example AAAA", "SERVFAIL; ede 6")],
        queries: &[("v4.example AAAA", "SERVFAIL; none; unasked v4.example A")],
        differs: &[(Kind::Unbound, "it queries A after any error to AAAA")],
        ..Row::NONE
    },
    Row {
        name: "SERVFAIL to AAAA because of DNSSEC (extended errors 25 and 27) is passed on",
        rfc: "RFC 6147 5.5, RFC 9276",
        upstream: &[
            A,
            ("v4.example AAAA", "SERVFAIL; ede 27"),
            ("two.example A", "two.example 60 A 192.0.2.33"),
            ("two.example AAAA", "SERVFAIL; ede 22; ede 25"),
        ],
        queries: &[
            ("v4.example AAAA", "SERVFAIL; none; ede 27; unasked v4.example A"),
            ("two.example AAAA", "SERVFAIL; none; ede 25; unasked two.example A"),
        ],
        differs: &[
            (Kind::Unbound, "it queries A after any error to AAAA"),
            (Kind::Bind, "it sends no extended errors"),
        ],
        ..Row::NONE
    },
    Row {
        name: "SERVFAIL to AAAA, but an answer with CD: bogus data, SERVFAIL",
        rfc: "RFC 6147 5.5",
        upstream: &[A, ("v4.example AAAA", "servfail-without-cd; v4.example 60 AAAA 2001:db8::1")],
        queries: &[("v4.example AAAA", "SERVFAIL; none; unasked v4.example A")],
        differs: &[
            (Kind::Unbound, "it queries A after any error to AAAA"),
            (Kind::Bind, "it forwards with CD, and passes the data on unless it validates itself"),
        ],
        ..Row::NONE
    },
    counts_as_empty!("SERVFAIL", ", with CD too,"),
    counts_as_empty!("REFUSED"),
    counts_as_empty!("NOTIMP"),
    counts_as_empty!("FORMERR"),
    Row {
        name: "on-error = pass: an error of AAAA is passed on",
        rfc: "Unbound #1511",
        config: "synthesis.on-error = \"pass\"",
        unbound: Cannot("no such setting"),
        bind: Cannot("no such setting: it always passes the error on"),
        upstream: &[A, ("v4.example AAAA", "SERVFAIL")],
        queries: &[("v4.example AAAA", "SERVFAIL; none; unasked v4.example A")],
        ..Row::NONE
    },
    Row {
        name: "A timeout of AAAA counts as empty",
        rfc: "RFC 6147 5.1.3",
        config: QUICK,
        unbound: AS_IS,
        bind: AS_IS,
        upstream: &[A, ("v4.example AAAA", "silent")],
        queries: SYNTHESISED,
        differs: &[
            (Kind::Unbound, "it retries for longer than a client waits"),
            (Kind::Bind, "it returns SERVFAIL after a timeout of AAAA"),
        ],
        ..Row::NONE
    },
    Row {
        name: "A silent AAAA costs three timeouts: A is queried beside the second AAAA query",
        rfc: "RFC 6147 5.1.3, RFC 6298",
        // Long enough for the A record, which is asked for once, on a busy machine.
        config: "upstream.first-timeout = \"800ms\"\nupstream.attempts = 4",
        unbound: AS_IS,
        bind: AS_IS,
        upstream: &[A, ("v4.example AAAA", "silent")],
        queries: &[(
            "v4.example AAAA",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; asked v4.example AAAA 3; asked v4.example A 1",
        )],
        differs: &[
            (Kind::Unbound, "it retries for longer than a client waits"),
            (Kind::Bind, "it returns SERVFAIL after a timeout of AAAA"),
        ],
        ..Row::NONE
    },
    Row {
        name: "on-timeout = fail: a timeout of AAAA is SERVFAIL",
        rfc: "RFC 6147 5.1.3",
        config: "upstream.first-timeout = \"500ms\"\nupstream.give-up-after = \"3s\"\n\
                 synthesis.on-timeout = \"fail\"",
        unbound: Cannot("no such setting"),
        bind: Cannot("no such setting: it always returns SERVFAIL"),
        upstream: &[A, ("v4.example AAAA", "silent")],
        queries: &[("v4.example AAAA", "SERVFAIL; none; unasked v4.example A")],
        ..Row::NONE
    },
    Row {
        name: "A lost query is sent again",
        rfc: "RFC 1035 4.2.1",
        config: "upstream.first-timeout = \"1500ms\"",
        unbound: AS_IS,
        bind: AS_IS,
        upstream: &[
            A,
            (
                "v4.example AAAA",
                "silent || authority; example 3600 SOA ns.example host.example 1 2 3 4 300",
            ),
        ],
        queries: &[(
            "v4.example AAAA",
            "NOERROR; v4.example 60 AAAA 2001:db8:64::c000:221; asked v4.example AAAA 2",
        )],
        ..Row::NONE
    },
    Row {
        name: "No A either: an empty answer from the reply to A",
        rfc: "RFC 6147 5.1.6",
        upstream: &[("txt.example A", ""), ("txt.example AAAA", "")],
        queries: &[("txt.example AAAA", "NOERROR; none; soa 1; asked txt.example A")],
        ..Row::NONE
    },
    Row {
        name: "SERVFAIL to A is SERVFAIL",
        rfc: "RFC 6147 5.1.6",
        upstream: &[("v4.example A", "SERVFAIL"), ("v4.example AAAA", "")],
        queries: &[("v4.example AAAA", "SERVFAIL; none")],
        differs: &[(Kind::Unbound, "it returns the empty answer to AAAA")],
        ..Row::NONE
    },
    Row {
        name: "NXDOMAIN to A only is passed on",
        rfc: "RFC 6147 5.1.6",
        upstream: &[("odd.example A", "NXDOMAIN"), ("odd.example AAAA", "")],
        queries: &[("odd.example AAAA", "NXDOMAIN; none; soa 1")],
        ..Row::NONE
    },
    Row {
        name: "A timeout of both is SERVFAIL",
        rfc: "RFC 6147 5.1.3",
        config: QUICK,
        unbound: AS_IS,
        bind: AS_IS,
        upstream: &[("v4.example A", "silent"), ("v4.example AAAA", "silent")],
        queries: &[("v4.example AAAA", "SERVFAIL; none")],
        differs: &[(Kind::Unbound, "it retries for longer than a client waits")],
        ..Row::NONE
    },
    Row {
        name: "SERVFAIL to another type passes",
        rfc: "RFC 6147 5.3.3",
        upstream: &[("v4.example TXT", "SERVFAIL")],
        queries: &[("v4.example TXT", "SERVFAIL; none")],
        ..Row::NONE
    },
    Row {
        name: "Extended errors of upstream are passed on",
        rfc: "RFC 8914",
        unbound: With("ede: yes"),
        bind: AS_IS,
        upstream: &[("v4.example A", "SERVFAIL; ede 7")],
        queries: &[("v4.example A", "SERVFAIL; none; ede 7")],
        differs: &[(Kind::Unbound, "it sends none"), (Kind::Bind, "it sends none")],
        ..Row::NONE
    },
    Row {
        name: "Extended error 29 with synthesised records, none without EDNS",
        rfc: "RFC 8914",
        unbound: With("ede: yes"),
        bind: AS_IS,
        upstream: super::synthesis::V4,
        queries: &[
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221; ede 29"),
            ("v4.example AAAA +noedns", "NOERROR; v4.example AAAA 2001:db8:64::c000:221; no-opt"),
        ],
        differs: &[(Kind::Unbound, "it sends none"), (Kind::Bind, "it sends none")],
        ..Row::NONE
    },
    Row {
        name: "Extended error 17 if all AAAA are excluded, or no A is mapped",
        rfc: "RFC 8914",
        config: "dns64 = [{ prefix = \"2001:db8:64::/96\", not-mapped = [\"10.0.0.0/8\"] }]",
        unbound: Cannot("no exclusion by address"),
        bind: With("mapped { !10.0.0.0/8; any; };"),
        upstream: &[
            ("excluded.example AAAA", "excluded.example 60 AAAA ::ffff:192.0.2.1"),
            ("private.example A", "private.example 60 A 10.1.2.3"),
            ("private.example AAAA", ""),
        ],
        queries: &[
            ("excluded.example AAAA", "NOERROR; none; soa 1; ede 17"),
            ("private.example AAAA", "NOERROR; none; soa 1; ede 17"),
        ],
        differs: &[(Kind::Bind, "it sends none")],
        ..Row::NONE
    },
    Row {
        name: "Extended error 18 for a client that is not permitted, if its query was as long",
        rfc: "RFC 8914, RFC 5358",
        config: "server.allow = [\"127.0.0.1\"]",
        unbound: With("access-control: 127.0.0.9/32 refuse\nede: yes"),
        bind: With("options: allow-query-cache { 127.0.0.1; };"),
        upstream: super::synthesis::V4,
        queries: &[
            ("v4.example AAAA +from=127.0.0.9", "REFUSED; none; no-ede"),
            ("v4.example AAAA +from=127.0.0.9 +option=65001", "REFUSED; none; ede 18"),
        ],
        differs: &[
            (Kind::Unbound, "its reply may be longer than the query"),
            (Kind::Bind, "its reply may be longer than the query"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Extended error 23 if upstream does not reply",
        rfc: "RFC 8914",
        config: QUICK,
        unbound: With("ede: yes"),
        bind: AS_IS,
        upstream: &[("v4.example A", "silent"), ("v4.example AAAA", "silent")],
        queries: &[("v4.example AAAA", "SERVFAIL; none; ede 23")],
        differs: &[
            (Kind::Unbound, "it retries for longer than a client waits"),
            (Kind::Bind, "it sends none"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Extended error 3 with expired answers",
        rfc: "RFC 8914, RFC 8767",
        config: STALE,
        unbound: With(UNBOUND_STALE),
        bind: BIND_STALE,
        upstream: &[("v4.example A", "v4.example 1 A 192.0.2.33 || silent")],
        queries: &[("v4.example A", "NOERROR; v4.example A 192.0.2.33; no-ede")],
        check: Some(|server, _| {
            let is_told = |r: &Reply| r.errors().any(|code| code == 3) && r.answer.len() == 1;
            expired(server, "v4.example A", is_told)
        }),
        ..Row::NONE
    },
    Row {
        name: "Extended error 19 with an expired answer that a name does not exist",
        rfc: "RFC 8914, RFC 8767",
        config: STALE,
        unbound: With(UNBOUND_STALE),
        bind: BIND_STALE,
        upstream: &[(
            "no.example A",
            "NXDOMAIN; authority; example 1 SOA ns.example host.example 1 7200 3600 86400 1 || silent",
        )],
        queries: &[("no.example A", "NXDOMAIN; none; no-ede")],
        check: Some(|server, _| {
            let is_told = |r: &Reply| r.errors().any(|code| code == 19) && r.rcode == "NXDOMAIN";
            expired(server, "no.example A", is_told)
        }),
        differs: &[
            (Kind::Unbound, "it sends extended error 3 with all expired answers"),
            (Kind::Bind, "it serves no expired NXDOMAIN: SERVFAIL"),
        ],
        ..Row::NONE
    },
    Row {
        name: "An expired AAAA is better than a synthesised one if only AAAA is silent",
        rfc: "RFC 8767",
        config: STALE,
        unbound: With(UNBOUND_STALE),
        bind: BIND_STALE,
        upstream: &[A, ("v4.example AAAA", "v4.example 1 AAAA 2001:db8::1 || silent")],
        queries: &[("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8::1")],
        check: Some(|server, _| {
            let is_old = |r: &Reply| r.answer.first().is_some_and(|a| a.data == "2001:db8::1");
            expired(server, "v4.example AAAA", is_old)
        }),
        ..Row::NONE
    },
    Row {
        name: "Expired answers are served while upstream fails",
        rfc: "RFC 8767",
        config: STALE,
        unbound: With(UNBOUND_STALE),
        bind: BIND_STALE,
        upstream: &[
            ("v4.example A", "v4.example 1 A 192.0.2.33 || silent"),
            (
                "v4.example AAAA",
                "authority; example 1 SOA ns.example host.example 1 7200 3600 86400 1 || silent",
            ),
        ],
        queries: SYNTHESISED,
        check: Some(|server, _| {
            let is_old =
                |r: &Reply| r.answer.first().is_some_and(|a| a.data == "2001:db8:64::c000:221");
            expired(server, "v4.example AAAA", is_old)
        }),
        ..Row::NONE
    },
];

/// Asks again when an answer of a second has expired.
fn expired(
    server: &Server,
    question: &str,
    is_right: impl Fn(&Reply) -> bool,
) -> Result<(), String> {
    std::thread::sleep(std::time::Duration::from_millis(2200));
    let reply = server.ask(question);
    if is_right(&reply) { Ok(()) } else { Err(format!("what expired was expected: {reply}")) }
}
