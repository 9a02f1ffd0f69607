//! Other types (RFC 6147 section 5.3, RFC 9460), access control, and messages that are not ordinary queries.

use super::synthesis::V4;
use crate::kit::server::Kind;
use crate::row::Peer::{Cannot, With};
use crate::row::Row;

const NO_TARGETS: &str = "nothing is added for the target";
/// HTTPS 1 target.example.
const TARGET: &str = "svc.example 60 TYPE65 \\# 18 0001 06746172676574076578616d706c6500";
/// HTTPS 1 . ipv4hint=192.0.2.33.
const HINT: &str = "hint.example 60 TYPE65 \\# 11 0001 00 0004 0004 c0000221";

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "A passes",
        rfc: "RFC 6147 5.3.3",
        upstream: V4,
        queries: &[(
            "v4.example A",
            "NOERROR; v4.example 60 A 192.0.2.33; unasked v4.example AAAA",
        )],
        ..Row::NONE
    },
    Row {
        name: "TXT passes",
        rfc: "RFC 6147 5.3.3",
        upstream: &[("t.example TXT", "t.example 60 TXT \"hello\"")],
        queries: &[("t.example TXT", "NOERROR; t.example 60 TXT \"hello\"")],
        ..Row::NONE
    },
    Row {
        name: "An unknown type passes",
        rfc: "RFC 3597",
        upstream: &[("t.example TYPE65400", "t.example 60 TYPE65400 \\# 3 abcdef")],
        queries: &[("t.example TYPE65400", "NOERROR; t.example 60 TYPE65400 \\# 3 abcdef")],
        ..Row::NONE
    },
    Row {
        name: "The additional section passes: nothing is synthesised there",
        rfc: "RFC 6147 5.3.2",
        unbound: With("minimal-responses: no"),
        upstream: &[
            ("example MX", "example 60 MX 10 v4.example; additional; v4.example 60 A 192.0.2.33"),
            V4[0],
            V4[1],
        ],
        queries: &[(
            "example MX",
            "NOERROR; example 60 MX 10 v4.example; additional v4.example A 192.0.2.33",
        )],
        ..Row::NONE
    },
    Row {
        name: "HTTPS and its hints pass",
        rfc: "RFC 9460 7.3",
        upstream: &[("hint.example HTTPS", HINT)],
        queries: &[(
            "hint.example HTTPS",
            "NOERROR; hint.example 60 TYPE65 \\# 11 0001 00 0004 0004 c0000221",
        )],
        ..Row::NONE
    },
    Row {
        name: "HTTPS: AAAA of the target are synthesised in the additional section",
        rfc: "RFC 9460 4.2.1",
        unbound: Cannot(NO_TARGETS),
        bind: Cannot(NO_TARGETS),
        upstream: &[
            ("svc.example HTTPS", TARGET),
            ("target.example A", "target.example 60 A 192.0.2.33"),
            ("target.example AAAA", ""),
        ],
        queries: &[(
            "svc.example HTTPS",
            "NOERROR; svc.example TYPE65 \\# 18 0001 06746172676574076578616d706c6500; additional target.example 60 AAAA 2001:db8:64::c000:221",
        )],
        ..Row::NONE
    },
    Row {
        name: "HTTPS: existing AAAA of the target are added",
        rfc: "RFC 9460 4.2.1",
        unbound: Cannot(NO_TARGETS),
        bind: Cannot(NO_TARGETS),
        upstream: &[
            ("svc.example HTTPS", TARGET),
            ("target.example AAAA", "target.example 60 AAAA 2001:db8::1"),
        ],
        queries: &[("svc.example HTTPS", "NOERROR; additional target.example 60 AAAA 2001:db8::1")],
        ..Row::NONE
    },
    Row {
        name: "HTTPS: nothing is added for the target if so configured",
        rfc: "RFC 9460 4.2.1",
        config: "synthesis.service-targets = false",
        unbound: With("# as it is"),
        bind: With("# as it is"),
        upstream: &[("svc.example HTTPS", TARGET)],
        queries: &[("svc.example HTTPS", "NOERROR; no-additional; unasked target.example AAAA")],
        ..Row::NONE
    },
    Row {
        name: "HTTPS: ipv4hint is removed if so configured",
        rfc: "RFC 9460 7.3",
        config: "synthesis.ipv4hint = \"strip\"",
        unbound: Cannot("no such setting"),
        bind: Cannot("no such setting"),
        upstream: &[
            ("hint.example HTTPS", HINT),
            ("hint.example A", "hint.example 60 A 192.0.2.33"),
            ("hint.example AAAA", ""),
        ],
        queries: &[("hint.example HTTPS", "NOERROR; hint.example 60 TYPE65 \\# 3 000100")],
        ..Row::NONE
    },
    Row {
        name: "HTTPS: without ipv4hint it is not mandatory either, and the data is not authentic",
        rfc: "RFC 9460 8, RFC 4035 3.2.3",
        config: "synthesis.ipv4hint = \"strip\"\nsynthesis.service-targets = false",
        unbound: Cannot("no such setting"),
        bind: Cannot("no such setting"),
        upstream: &[(
            "must.example HTTPS",
            "ad; must.example 60 TYPE65 \\# 26 0001 00 0000 0004 00010004 0001 0003 026832 0004 0004 c0000221",
        )],
        queries: &[(
            "must.example HTTPS +ad",
            "NOERROR; must.example 60 TYPE65 \\# 16 0001 00 0000 0002 0001 0001 0003 026832; -ad",
        )],
        ..Row::NONE
    },
    Row {
        name: "HTTPS: a client that asks for signatures gets the data unchanged",
        rfc: "RFC 4035 3.1.6",
        config: "synthesis.ipv4hint = \"strip\"\nsynthesis.service-targets = false",
        unbound: With("# as it is"),
        bind: With("# as it is"),
        upstream: &[("hint.example HTTPS", HINT)],
        queries: &[(
            "hint.example HTTPS +do",
            "NOERROR; hint.example 60 TYPE65 \\# 11 0001 00 0004 0004 c0000221",
        )],
        ..Row::NONE
    },
    Row {
        name: "Clients that are not permitted: REFUSED, no upstream query",
        rfc: "RFC 5358",
        config: "server.allow = [\"127.0.0.1\"]",
        unbound: With("access-control: 127.0.0.9/32 refuse"),
        bind: With("options: allow-query-cache { 127.0.0.1; };"),
        upstream: V4,
        queries: &[
            (
                "v4.example AAAA +from=127.0.0.9",
                "REFUSED; none; unasked v4.example AAAA; unasked v4.example A",
            ),
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Denied networks within permitted ones",
        rfc: "RFC 5358",
        config: "server.allow = [\"any\"]\nserver.deny = [\"127.0.0.8/30\"]",
        unbound: With("access-control: 127.0.0.8/30 refuse"),
        bind: With("options: allow-query-cache { !127.0.0.8/30; any; };"),
        upstream: V4,
        queries: &[
            ("v4.example AAAA +from=127.0.0.9", "REFUSED; none"),
            ("v4.example AAAA +from=127.0.0.7", "NOERROR; v4.example AAAA 2001:db8:64::c000:221"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Another class: REFUSED",
        rfc: "RFC 6147 5.1",
        upstream: V4,
        queries: &[("v4.example AAAA +class=HS", "REFUSED; none; unasked v4.example A")],
        ..Row::NONE
    },
    Row {
        name: "Another opcode: NOTIMP",
        rfc: "RFC 1035 4.1.1",
        upstream: V4,
        queries: &[("v4.example AAAA +opcode=2", "NOTIMP; none")],
        ..Row::NONE
    },
    Row {
        name: "A zone transfer: REFUSED",
        rfc: "RFC 5936",
        upstream: V4,
        queries: &[("example AXFR +tcp", "REFUSED; none; unasked example AXFR")],
        differs: &[(Kind::Bind, "it replies NOTAUTH")],
        ..Row::NONE
    },
    Row {
        name: "A signed query (TSIG) with an unknown key: NOTAUTH",
        rfc: "RFC 8945 5.2.1",
        upstream: V4,
        queries: &[("v4.example AAAA +tsig", "NOTAUTH; none; unasked v4.example AAAA")],
        differs: &[(Kind::Unbound, "it replies FORMERR")],
        ..Row::NONE
    },
    Row {
        name: "ANY over UDP gets one record, over TCP all",
        rfc: "RFC 8482",
        unbound: With("deny-any: yes"),
        bind: With("options: minimal-any yes;"),
        upstream: &[("v4.example ANY", "v4.example 60 A 192.0.2.33; v4.example 60 TXT \"x\"")],
        queries: &[
            (
                "v4.example ANY",
                "NOERROR; v4.example HINFO \"RFC8482\" \"\"; unasked v4.example ANY",
            ),
            ("v4.example ANY +tcp", "NOERROR; v4.example A 192.0.2.33; v4.example TXT \"x\""),
        ],
        differs: &[
            (Kind::Unbound, "an empty answer, over TCP too"),
            (Kind::Bind, "one of the record sets of upstream"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Twenty clients with one question: one upstream query",
        rfc: "RFC 5452 5",
        bind: With("options: clients-per-query 100;"),
        upstream: &[
            ("v4.example A", "delay 40; v4.example 60 A 192.0.2.33"),
            (
                "v4.example AAAA",
                "delay 40; authority; example 3600 SOA ns.example host.example 1 7200 3600 86400 300",
            ),
        ],
        check: Some(|server, script| {
            let answered = std::thread::scope(|scope| {
                let clients: Vec<_> =
                    (0..20).map(|_| scope.spawn(|| server.ask("v4.example AAAA"))).collect();
                let replies = clients.into_iter().map(|client| client.join().expect("a reply"));
                replies.filter(|reply| reply.answer.len() == 1).count()
            });
            let asked = script.asked().iter().filter(|a| a.name == "v4.example").count();
            match (answered, asked) {
                (20, 2) => Ok(()),
                _ => Err(format!("{answered} of 20 answered, {asked} questions upstream")),
            }
        }),
        ..Row::NONE
    },
];
