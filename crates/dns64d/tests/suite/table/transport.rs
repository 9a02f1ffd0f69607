//! EDNS (RFC 6891), truncation and TCP on both sides (RFC 7766), and forged replies (RFC 5452).

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use super::synthesis::V4;
use crate::kit::client::{self, Query};
use crate::kit::message::{COOKIE, Reply};
use crate::kit::script::{Asked, Script};
use crate::kit::server::Kind;
use crate::kit::server::Server;
use crate::row::Peer::{Cannot, With};
use crate::row::Row;

/// Longest wait: longer than any step takes on the busiest machine.
const MAX_WAIT: Duration = Duration::from_secs(30);
const SYNTHESISED: &str = "NOERROR; v4.example AAAA 2001:db8:64::c000:221";
/// More than 1232 octets after synthesis.
const MANY: &[(&str, &str)] =
    &[("many.example A", "tc; many many.example 60"), ("many.example AAAA", "")];

/// Reason why Unbound fails after a forged reply.
const ENDS: &str = "any reply with the right id ends an attempt, and it fails after five attempts";

/// Reason why Unbound has no cookies.
const NO_COOKIES: &str = "it sends no cookies upstream";

/// A row for one kind of forged reply, which comes before the true one.
macro_rules! forged {
    ($name:literal, $word:literal $(, $kind:ident: $why:expr)*) => {
        Row {
            name: concat!("Forged reply ignored: ", $name),
            rfc: "RFC 5452 9.1",
            upstream: &[
                (
                    "v4.example A",
                    concat!(
                        $word,
                        "; v4.example 60 A 203.0.113.66 && delay 20; v4.example 60 A 192.0.2.33"
                    ),
                ),
                ("v4.example AAAA", ""),
            ],
            queries: &[("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221")],
            differs: &[$((Kind::$kind, $why)),*],
            ..Row::NONE
        }
    };
}

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "A query without EDNS gets a reply without EDNS",
        rfc: "RFC 6891 6.1.1",
        upstream: V4,
        queries: &[(
            "v4.example AAAA +noedns",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; no-opt",
        )],
        ..Row::NONE
    },
    Row {
        name: "A query with EDNS gets a reply with EDNS, without unknown options",
        rfc: "RFC 6891 6.1.2",
        upstream: V4,
        queries: &[(
            "v4.example AAAA +option=65001",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; opt; no-additional",
        )],
        ..Row::NONE
    },
    Row {
        name: "EDNS version 1: BADVERS",
        rfc: "RFC 6891 6.1.3",
        upstream: V4,
        queries: &[("v4.example AAAA +version=1", "BADVERS; none; opt; unasked v4.example AAAA")],
        ..Row::NONE
    },
    Row {
        name: "The client subnet is also in the A query, and answers are not shared, if so configured",
        rfc: "RFC 7871, PowerDNS #12680",
        config: "upstream.client-subnet = \"pass\"",
        unbound: Cannot(
            "it needs the subnetcache module, which the packaged module chain with dns64 does not have",
        ),
        bind: Cannot("BIND 9.18 sends no client subnet"),
        upstream: V4,
        queries: &[
            (
                "v4.example AAAA +ecs=198.51.100.0/24",
                "NOERROR; v4.example AAAA 2001:db8:64::c000:221; asked-with v4.example A ecs=198.51.100.0/24; \
                 asked-with v4.example AAAA ecs=198.51.100.0/24",
            ),
            (
                "v4.example AAAA +ecs=203.0.113.0/24",
                "NOERROR; asked-with v4.example A ecs=203.0.113.0/24; asked v4.example A 2",
            ),
        ],
        ..Row::NONE
    },
    Row {
        name: "The scope of an answer is the longest of the replies it is made of, from the cache too",
        rfc: "RFC 7871 7.2.1, 7.3",
        config: "upstream.client-subnet = \"pass\"",
        unbound: Cannot(
            "it needs the subnetcache module, which the packaged module chain with dns64 does not have",
        ),
        bind: Cannot("BIND 9.18 sends no client subnet"),
        upstream: &[
            ("a6.example AAAA", "scope 24"),
            ("a6.example A", "a6.example 60 A 192.0.2.33"),
            ("a4.example AAAA", "scope 16"),
            ("a4.example A", "scope 20; a4.example 60 A 192.0.2.33"),
            ("www.example AAAA", "scope 24; www.example 60 CNAME host.example"),
            ("host.example AAAA", "host.example 60 AAAA 2001:db8::1"),
            ("none.example AAAA", "no-scope"),
            ("none.example A", "no-scope; none.example 60 A 192.0.2.33"),
        ],
        queries: &[
            ("a6.example AAAA +ecs=198.51.100.0/24", "NOERROR; scope 24"),
            ("a6.example AAAA +ecs=198.51.100.0/24", "NOERROR; scope 24; asked a6.example A 1"),
            ("a4.example AAAA +ecs=198.51.100.0/24", "NOERROR; scope 20"),
            ("www.example AAAA +ecs=198.51.100.0/24", "NOERROR; scope 24"),
            ("none.example AAAA +ecs=198.51.100.0/24", "NOERROR; scope 0; ede 29"),
            ("none.example AAAA", "NOERROR; options 1"),
            ("localhost AAAA +ecs=198.51.100.0/24", "NOERROR; localhost AAAA ::1; scope 0"),
            ("x.invalid A +ecs=198.51.100.0/24", "NXDOMAIN; scope 0"),
        ],
        ..Row::NONE
    },
    Row {
        name: "No other option reaches upstream, keeps a query from the cache, or comes back from upstream",
        rfc: "RFC 6891 6.2.6",
        config: "upstream.cookies = false",
        unbound: With("# as it is"),
        bind: With("options: send-cookie no;"),
        upstream: &[("v4.example A", "option 3; option 65001; v4.example 60 A 192.0.2.33")],
        queries: &[
            ("v4.example A +option=65001", "NOERROR; v4.example A 192.0.2.33; options 0"),
            ("v4.example A +option=65073", "NOERROR; v4.example A 192.0.2.33; options 0"),
            (
                "v4.example A",
                "NOERROR; v4.example A 192.0.2.33; asked v4.example A 1; asked-with v4.example A no-options",
            ),
        ],
        ..Row::NONE
    },
    Row {
        name: "The client subnet stays here unless configured otherwise",
        rfc: "RFC 7871 11.1",
        config: "upstream.cookies = false",
        unbound: With("# as it is"),
        bind: With("options: send-cookie no;"),
        upstream: V4,
        queries: &[
            ("v4.example A +ecs=198.51.100.0/24", "NOERROR; v4.example A 192.0.2.33; options 0"),
            (
                "v4.example A +ecs=203.0.113.0/24",
                "NOERROR; asked v4.example A 1; asked-with v4.example A no-options",
            ),
        ],
        differs: &[(Kind::Bind, "it repeats the client's option in its reply, with scope 0")],
        ..Row::NONE
    },
    Row {
        name: "The client's network is sent as client subnet if so configured",
        rfc: "RFC 7871 7.1.1",
        config: "upstream.client-subnet = \"add\"",
        unbound: Cannot(
            "it needs the subnetcache module, which the packaged module chain with dns64 does not have",
        ),
        bind: Cannot("BIND 9.18 sends no client subnet"),
        upstream: V4,
        queries: &[(
            "v4.example AAAA +from=127.0.0.9",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; options 1; ede 29; \
             asked-with v4.example A ecs=127.0.0.0/24",
        )],
        ..Row::NONE
    },
    Row {
        name: "Upstream replies FORMERR to EDNS: the query is repeated without EDNS",
        rfc: "RFC 6891 6.2.2",
        upstream: &[
            ("v4.example A", "formerr-opt; v4.example 60 A 192.0.2.33"),
            ("v4.example AAAA", "formerr-opt; soa"),
        ],
        queries: &[(
            "v4.example AAAA",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; asked-with v4.example A no-opt",
        )],
        ..Row::NONE
    },
    Row {
        name: "A reply from upstream without OPT is accepted",
        rfc: "RFC 6891 7",
        upstream: &[
            ("v4.example A", "no-opt; v4.example 60 A 192.0.2.33"),
            ("v4.example AAAA", "no-opt; soa"),
        ],
        queries: &[("v4.example AAAA", SYNTHESISED)],
        ..Row::NONE
    },
    Row {
        name: "A reply with a later version of EDNS, or with octets behind its records, is accepted",
        rfc: "RFC 6891 6.1.3",
        upstream: &[
            ("v4.example A", "edns-1; v4.example 60 A 192.0.2.33"),
            ("v4.example AAAA", "soa; octets-behind"),
        ],
        queries: &[("v4.example AAAA", SYNTHESISED)],
        ..Row::NONE
    },
    Row {
        name: "A truncated reply from upstream: the query is repeated over TCP",
        rfc: "RFC 7766 5",
        upstream: &[
            ("v4.example A", "tc; v4.example 60 A 192.0.2.33"),
            ("v4.example AAAA", "tc; soa"),
        ],
        queries: &[(
            "v4.example AAAA",
            "NOERROR; v4.example 60 AAAA 2001:db8:64::c000:221; asked-with v4.example A udp; asked-with v4.example A tcp; asked-with v4.example AAAA tcp",
        )],
        ..Row::NONE
    },
    Row {
        name: "Truncated AAAA, and no TCP: never \"no AAAA\"; TC over UDP, SERVFAIL over TCP",
        rfc: "RFC 2181 9, RFC 6147 5.1.3",
        upstream: &[
            V4[0],
            ("v4.example AAAA", "tc; hang-up"),
            ("cut.example A", "tc; hang-up"),
            ("cut.example AAAA", ""),
            ("no.example A", "no.example 60 A 192.0.2.33"),
            ("no.example AAAA", "tc; REFUSED"),
        ],
        queries: &[
            ("v4.example AAAA", "NOERROR; none; +tc; unasked v4.example A"),
            ("v4.example AAAA +tcp", "SERVFAIL; none; -tc; unasked v4.example A"),
            ("cut.example AAAA", "NOERROR; none; +tc"),
            ("cut.example A +tcp", "SERVFAIL; none; -tc"),
            ("no.example AAAA +tcp", "SERVFAIL; none; -tc; unasked no.example A"),
        ],
        differs: &[
            (Kind::Unbound, "it takes it for an error to AAAA: it queries A"),
            (Kind::Bind, "SERVFAIL over UDP too"),
        ],
        ..Row::NONE
    },
    Row {
        name: "A reply that is truncated over TCP too is no answer",
        rfc: "RFC 2181 9",
        upstream: &[
            ("v4.example A", "tc-tcp; v4.example 60 A 192.0.2.33"),
            ("v4.example AAAA", ""),
        ],
        queries: &[
            ("v4.example AAAA", "NOERROR; none; +tc"),
            ("v4.example A +tcp", "SERVFAIL; none; -tc"),
        ],
        differs: &[(Kind::Unbound, "it takes it as empty"), (Kind::Bind, "SERVFAIL over UDP too")],
        ..Row::NONE
    },
    Row {
        name: "Too long for the client without EDNS: 512 octets, TC",
        rfc: "RFC 1035 4.2.1",
        upstream: &[("many.example A", "tc; many many.example 30"), ("many.example AAAA", "")],
        queries: &[("many.example AAAA +noedns", "NOERROR; +tc; size 512")],
        ..Row::NONE
    },
    Row {
        name: "Too long for the client's buffer: TC",
        rfc: "RFC 6891 6.2.3",
        upstream: &[("many.example A", "tc; many many.example 40"), ("many.example AAAA", "")],
        queries: &[
            ("many.example AAAA +bufsize=1000", "NOERROR; +tc; size 1000"),
            ("many.example AAAA +bufsize=100", "NOERROR; +tc; size 512"),
        ],
        ..Row::NONE
    },
    Row {
        name: "A larger buffer of the client is limited to our own maximum: 1232 octets",
        rfc: "RFC 9715 3.1",
        unbound: With("max-udp-size: 1232"),
        upstream: MANY,
        queries: &[("many.example AAAA +bufsize=4096", "NOERROR; +tc; size 1232")],
        ..Row::NONE
    },
    Row {
        name: "Over TCP the answer is complete",
        rfc: "RFC 7766 5",
        upstream: MANY,
        queries: &[("many.example AAAA +tcp", "NOERROR; -tc; opt")],
        check: Some(|server, _| {
            let reply = server.ask("many.example AAAA +tcp");
            match reply.answer.len() {
                60 => Ok(()),
                n => Err(format!("60 addresses were expected, {n} came")),
            }
        }),
        ..Row::NONE
    },
    Row {
        name: "TCP: many queries on one connection are answered out of order",
        rfc: "RFC 7766 6.2.1",
        config: "upstream.first-timeout = \"10s\"\nupstream.give-up-after = \"30s\"",
        unbound: With("# as it is"),
        bind: With("# as it is"),
        upstream: &[
            ("slow.example AAAA", "hold; slow.example 60 AAAA 2001:db8::5"),
            ("v4.example A", "v4.example 60 A 192.0.2.33"),
            ("v4.example AAAA", ""),
        ],
        check: Some(pipeline),
        ..Row::NONE
    },
    Row {
        name: "TCP: a message in pieces, and two in one piece",
        rfc: "RFC 7766 8",
        upstream: V4,
        check: Some(pieces),
        ..Row::NONE
    },
    Row {
        name: "IPv6 from the client",
        rfc: "issue: both families",
        upstream: V4,
        queries: &[("v4.example AAAA +v6", SYNTHESISED), ("v4.example AAAA +v6 +tcp", SYNTHESISED)],
        ..Row::NONE
    },
    Row {
        name: "IPv6 to upstream",
        rfc: "issue: both families",
        upstream6: true,
        upstream: &[("v4.example A", "tc; v4.example 60 A 192.0.2.33"), ("v4.example AAAA", "")],
        queries: &[("v4.example AAAA", SYNTHESISED)],
        ..Row::NONE
    },
    forged!("another id", "wrong-id"),
    forged!("another name in the question", "wrong-name", Unbound: ENDS),
    forged!("another type in the question", "wrong-type", Unbound: ENDS),
    forged!("another port", "wrong-port"),
    forged!("octets that cannot be parsed", "garbage", Unbound: ENDS, Bind: "it takes an unreadable reply with the right id as an error of the server"),
    forged!("a scrap", "scrap"),
    forged!("another cookie", "wrong-cookie", Unbound: NO_COOKIES),
    Row {
        name: "Forged reply ignored: the name in another case",
        rfc: "draft-vixie-dnsext-dns0x20",
        unbound: With("use-caps-for-id: yes"),
        bind: Cannot("no mixed case in names"),
        upstream: &[
            (
                "mixed-case-name.example A",
                "wrong-case; mixed-case-name.example 60 A 203.0.113.66 && delay 20; mixed-case-name.example 60 A 192.0.2.33",
            ),
            ("mixed-case-name.example AAAA", ""),
        ],
        queries: &[(
            "mixed-case-name.example AAAA",
            "NOERROR; mixed-case-name.example AAAA 2001:db8:64::c000:221",
        )],
        differs: &[(
            Kind::Unbound,
            "after such replies it queries without mixed case, and accepts a reply that it gets three times",
        )],
        ..Row::NONE
    },
    Row {
        name: "Cookies: the server's part goes with the next query",
        rfc: "RFC 7873 5.1",
        unbound: Cannot(NO_COOKIES),
        upstream: &[
            ("v4.example A", "cookie; v4.example 60 A 192.0.2.33"),
            ("v4.example AAAA", "cookie; soa"),
        ],
        queries: &[(
            "v4.example AAAA",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; asked-with v4.example AAAA cookie=8; asked-with v4.example A cookie=16",
        )],
        ..Row::NONE
    },
    Row {
        name: "Cookies: a refused one (BADCOOKIE) is replaced by the one of the reply, then the query goes over TCP",
        rfc: "RFC 7873 5.3",
        unbound: Cannot(NO_COOKIES),
        upstream: &[
            ("v4.example A", "BADCOOKIE; cookie || cookie; v4.example 60 A 192.0.2.33"),
            (
                "v4.example AAAA",
                "BADCOOKIE; cookie || BADCOOKIE; cookie || \
                 cookie; soa",
            ),
        ],
        queries: &[(
            "v4.example AAAA",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; asked v4.example A 2; \
             asked v4.example AAAA 3; asked-with v4.example AAAA cookie=8 cookie=16 tcp",
        )],
        ..Row::NONE
    },
    Row {
        name: "Cookies: a reply without one, of a server that has them, is not believed over UDP",
        rfc: "RFC 7873 5.3",
        unbound: Cannot(NO_COOKIES),
        upstream: &[
            ("v4.example A", "v4.example 60 A 203.0.113.66 || cookie; v4.example 60 A 192.0.2.33"),
            ("v4.example AAAA", "cookie; soa"),
        ],
        queries: &[(
            "v4.example AAAA",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; asked-with v4.example A udp tcp",
        )],
        ..Row::NONE
    },
    Row {
        name: "Cookies: a server without them gets none after a few replies",
        rfc: "RFC 7873 5.1",
        unbound: Cannot(NO_COOKIES),
        upstream: V4,
        check: Some(without_cookies),
        differs: &[(Kind::Bind, "it sends a cookie with every query")],
        ..Row::NONE
    },
    Row {
        name: "The random letter case of queries reaches no client",
        rfc: "draft-vixie-dnsext-dns0x20",
        unbound: With("use-caps-for-id: yes"),
        bind: Cannot("no mixed case in names"),
        upstream: &[
            ("www.sub.example AAAA", "www.sub.example 50 CNAME host.sub.example"),
            ("www.sub.example A", "www.sub.example 50 CNAME host.sub.example"),
            ("host.sub.example AAAA", ""),
            (
                "host.sub.example A",
                "host.sub.example 40 A 192.0.2.33; additional; ns.sub.example 60 A 192.0.2.53",
            ),
            (
                "no.sub.example AAAA",
                "authority; sub.example 60 SOA ns.sub.example host.sub.example 1 2 3 4 5",
            ),
            (
                "no.sub.example A",
                "authority; sub.example 60 SOA ns.sub.example host.sub.example 1 2 3 4 5",
            ),
            (
                "sub.example MX",
                "sub.example 60 MX 1 mail.sub.example; additional; mail.sub.example 60 A 192.0.2.54",
            ),
        ],
        queries: &[
            (
                "www.sub.example AAAA",
                "NOERROR; www.sub.example CNAME host.sub.example; host.sub.example AAAA 2001:db8:64::c000:221; lower-case",
            ),
            ("www.sub.example AAAA", "NOERROR; lower-case"),
            ("no.sub.example AAAA", "NOERROR; none; soa 1; lower-case"),
            ("sub.example MX", "NOERROR; lower-case"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Records that were not queried are not cached",
        rfc: "RFC 2181 5.4.1, RFC 5452 6",
        upstream: &[
            (
                "v4.example A",
                "v4.example 60 A 192.0.2.33; additional; bank.example 3600 A 203.0.113.66",
            ),
            ("v4.example AAAA", ""),
            ("bank.example A", "bank.example 60 A 192.0.2.44"),
            ("bank.example AAAA", ""),
        ],
        queries: &[
            ("v4.example AAAA", "NOERROR"),
            ("bank.example AAAA", "NOERROR; bank.example AAAA 2001:db8:64::c000:22c"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Records of other owners are removed from the answer",
        rfc: "RFC 2181 5.4.1",
        upstream: &[
            ("v4.example A", "v4.example 60 A 192.0.2.33; bank.example 3600 A 203.0.113.66"),
            ("v4.example AAAA", ""),
        ],
        queries: &[("v4.example AAAA", SYNTHESISED)],
        ..Row::NONE
    },
    Row {
        name: "Records of other domains are removed from all sections",
        rfc: "RFC 2181 5.4.1, RFC 5452 6",
        unbound: With("minimal-responses: no"),
        bind: With("options: minimal-responses no;"),
        upstream: &[(
            "v4.sub.example A",
            "v4.sub.example 60 A 192.0.2.33; www.bank.test 3600 A 203.0.113.66; \
             authority; bank.test 60 NS ns.sub.example; additional; www.bank.test 3600 A 203.0.113.66",
        )],
        queries: &[(
            "v4.sub.example A",
            "NOERROR; v4.sub.example 60 A 192.0.2.33; no-additional; no-authority",
        )],
        ..Row::NONE
    },
    Row {
        name: "Ids, ports and the case of names differ between queries",
        rfc: "RFC 5452 9.2",
        config: "upstream.source-ports = 128",
        unbound: With("use-caps-for-id: yes"),
        bind: With("# as it is"),
        upstream: &[],
        check: Some(unpredictable),
        differs: &[(Kind::Bind, "it does not send names in mixed case")],
        ..Row::NONE
    },
];

/// Sends a slow query and 19 others together; the others must be answered before upstream answers the slow
/// one.
fn pipeline(server: &Server, script: &Script) -> Result<(), String> {
    let mut stream = TcpStream::connect(server.address()).map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(MAX_WAIT)).map_err(|e| e.to_string())?;
    let mut octets = Vec::new();
    for id in 0..20_u16 {
        let name = if id == 0 { "slow.example AAAA" } else { "v4.example AAAA" };
        let mut query = Query::parse(name).octets;
        query[..2].copy_from_slice(&id.to_be_bytes());
        octets.extend(client::frame(&query));
    }
    stream.write_all(&octets).map_err(|e| e.to_string())?;
    for answered in 0..20 {
        if answered == 19 {
            script.release();
        }
        let octets = client::read_frame(&mut stream).ok_or("not all were answered")?;
        let reply = Reply::parse(&octets);
        let right = if reply.id == 0 { "2001:db8::5" } else { "2001:db8:64::c000:221" };
        if reply.answer.iter().all(|seen| seen.data != right) {
            return Err(format!("query {}: {reply}", reply.id));
        }
    }
    Ok(())
}

/// Sends one message octet by octet, then two messages in one segment.
fn pieces(server: &Server, _: &Script) -> Result<(), String> {
    let mut stream = TcpStream::connect(server.address()).map_err(|e| e.to_string())?;
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(MAX_WAIT)).map_err(|e| e.to_string())?;
    let framed = client::frame(&Query::parse("v4.example AAAA").octets);
    for octet in &framed {
        stream.write_all(&[*octet]).map_err(|e| e.to_string())?;
        std::thread::sleep(Duration::from_millis(1));
    }
    client::read_frame(&mut stream).ok_or("no answer to the pieces")?;
    stream.write_all(&framed.repeat(2)).map_err(|e| e.to_string())?;
    client::read_frame(&mut stream).ok_or("no answer to the first of two")?;
    client::read_frame(&mut stream).ok_or("no answer to the second of two")?;
    Ok(())
}

/// Queries ten names of a server without cookies; the last queries must have none.
fn without_cookies(server: &Server, script: &Script) -> Result<(), String> {
    for n in 0..10 {
        server.ask(&format!("plain-{n}.example A"));
    }
    let has_cookie =
        |asked: &Asked| asked.edns.as_ref().is_some_and(|e| e.option(COOKIE).is_some());
    let with: Vec<bool> = script.asked().iter().map(has_cookie).collect();
    match (with.first(), with.last()) {
        (Some(true), Some(false)) => Ok(()),
        _ => Err(format!("queries with cookies: {with:?}")),
    }
}

/// Queries 40 names and checks the queries that reached upstream.
fn unpredictable(server: &Server, script: &Script) -> Result<(), String> {
    for n in 0..40 {
        server.ask(&format!("unpredictable-{n}.example A"));
    }
    let asked = script.asked();
    let asked: Vec<_> = asked.iter().filter(|a| a.name.starts_with("unpredictable")).collect();
    let distinct =
        |keys: Vec<String>| keys.into_iter().collect::<std::collections::HashSet<_>>().len();
    let ports = distinct(asked.iter().map(|a| a.from.port().to_string()).collect());
    let ids = distinct(asked.iter().map(|a| a.id.to_string()).collect());
    // Expected from the name `unpredictable`, which every query contains.
    let cases = distinct(asked.iter().map(|a| a.spelling[..13].to_owned()).collect());
    // Random values give fewer distinct ones than these in less than one of a billion runs.
    match (ports >= 15, ids >= 35, cases >= 30) {
        (true, true, true) => Ok(()),
        _ => Err(format!("of 40 queries: {ports} ports, {ids} ids, {cases} spellings")),
    }
}
