//! Other types (RFC 6147 section 5.3, RFC 9460), access control, and messages that are not ordinary queries.

use super::synthesis::V4;
use crate::kit::server::Kind;
use crate::row::Peer::{Cannot, With};
use crate::row::Row;

const NO_TARGETS: &str = "nothing is added for the target";
/// `HTTPS 1 target.example.`: its addresses are those of another name.
const TARGET: &str = "svc.example 60 TYPE65 \\# 18 0001 06746172676574076578616d706c6500";
/// `HTTPS 1 . ipv4hint=192.0.2.33`: addresses of IPv4 alone.
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
        name: "HTTPS: no AAAA at an alias, but the alias and the AAAA at its end",
        rfc: "RFC 9460 4.2.1, RFC 1034 3.6.2",
        unbound: Cannot(NO_TARGETS),
        bind: Cannot(NO_TARGETS),
        upstream: &[
            ("svc.example HTTPS", TARGET),
            ("target.example AAAA", "target.example 60 CNAME cdn.test"),
            ("target.example A", "target.example 60 CNAME cdn.test; cdn.test 60 A 192.0.2.33"),
            ("cdn.test AAAA", ""),
            ("cdn.test A", "cdn.test 60 A 192.0.2.33"),
        ],
        queries: &[(
            "svc.example HTTPS",
            "NOERROR; additional target.example 60 CNAME cdn.test; additional cdn.test 60 AAAA 2001:db8:64::c000:221",
        )],
        ..Row::NONE
    },
    Row {
        name: "HTTPS: the rules for a target are those of a query for its AAAA",
        rfc: "RFC 9460 4.2.1, RFC 6147 5.1.4",
        config: "synthesis.always = [\"half.example\"]\nsynthesis.never = [\"never.example\"]",
        unbound: Cannot(NO_TARGETS),
        bind: Cannot(NO_TARGETS),
        upstream: &[
            (
                "half.example HTTPS",
                "half.example 60 TYPE65 \\# 3 000100; additional; half.example 60 AAAA 2001:db8:dead::1",
            ),
            ("half.example A", "half.example 60 A 192.0.2.33"),
            ("half.example AAAA", "half.example 60 AAAA 2001:db8:dead::1"),
            (
                "old.example HTTPS",
                "old.example 60 TYPE65 \\# 3 000100; additional; old.example 60 AAAA ::ffff:192.0.2.33",
            ),
            ("old.example A", "old.example 60 A 192.0.2.33"),
            ("old.example AAAA", "old.example 60 AAAA ::ffff:192.0.2.33"),
            ("never.example HTTPS", "never.example 60 TYPE65 \\# 3 000100"),
            ("never.example A", "never.example 60 A 192.0.2.33"),
            ("never.example AAAA", ""),
            // For a query for its AAAA nothing is excluded.
            (
                "x.never.example HTTPS",
                "x.never.example 60 TYPE65 \\# 3 000100; additional; x.never.example 60 AAAA ::ffff:192.0.2.33",
            ),
            ("y.never.example HTTPS", "y.never.example 60 TYPE65 \\# 3 000100"),
            ("y.never.example AAAA", "y.never.example 60 AAAA ::ffff:192.0.2.33"),
            ("signed.half.example HTTPS", "signed.half.example 60 TYPE65 \\# 3 000100"),
            ("signed.half.example AAAA", "signed.half.example 60 AAAA 2001:db8:dead::1"),
            (
                "signed.half.example A",
                "signed.half.example 60 A 192.0.2.33; \
                 signed.half.example 60 RRSIG A 13 3 60 20300101000000 20200101000000 1 example. AAAA",
            ),
        ],
        queries: &[
            (
                "half.example HTTPS",
                "NOERROR; additionals 1; additional half.example AAAA 2001:db8:64::c000:221",
            ),
            (
                "old.example HTTPS",
                "NOERROR; additionals 1; additional old.example AAAA 2001:db8:64::c000:221",
            ),
            ("never.example HTTPS", "NOERROR; no-additional; unasked never.example A"),
            (
                "x.never.example HTTPS",
                "NOERROR; additionals 1; additional x.never.example AAAA ::ffff:192.0.2.33",
            ),
            (
                "y.never.example HTTPS",
                "NOERROR; additionals 1; additional y.never.example AAAA ::ffff:192.0.2.33",
            ),
            ("signed.half.example HTTPS +do", "NOERROR; no-additional"),
        ],
        ..Row::NONE
    },
    Row {
        name: "HTTPS: the target of an alias is followed, and a loop or a failure there ends it",
        rfc: "RFC 9460 4.2",
        unbound: Cannot(NO_TARGETS),
        bind: Cannot(NO_TARGETS),
        upstream: &[
            // HTTPS 0 pool.example; HTTPS 0 loop.example; HTTPS 0 bad.example.
            (
                "apex.example HTTPS",
                "apex.example 60 TYPE65 \\# 16 0000 04706f6f6c 076578616d706c65 00",
            ),
            ("pool.example HTTPS", "pool.example 60 TYPE65 \\# 3 000100"),
            ("pool.example A", "pool.example 60 A 192.0.2.33"),
            ("pool.example AAAA", ""),
            (
                "loop.example HTTPS",
                "loop.example 60 TYPE65 \\# 16 0000 046c6f6f70 076578616d706c65 00",
            ),
            (
                "fail.example HTTPS",
                "fail.example 60 TYPE65 \\# 15 0000 03626164 076578616d706c65 00",
            ),
            ("bad.example HTTPS", "SERVFAIL"),
        ],
        queries: &[
            (
                "apex.example HTTPS",
                "NOERROR; additional pool.example TYPE65 \\# 3 000100; additional pool.example AAAA 2001:db8:64::c000:221",
            ),
            (
                "loop.example HTTPS",
                "NOERROR; loop.example TYPE65 \\# 16 0000 046c6f6f70 076578616d706c65 00",
            ),
            (
                "fail.example HTTPS",
                "NOERROR; fail.example TYPE65 \\# 15 0000 03626164 076578616d706c65 00; no-additional",
            ),
        ],
        ..Row::NONE
    },
    Row {
        name: "HTTPS: addresses for the client's network are not added, nor unsigned ones for signed A",
        rfc: "RFC 7871 7.2.1, RFC 9460 4.3",
        config: "upstream.client-subnet = \"pass\"",
        unbound: Cannot(NO_TARGETS),
        bind: Cannot(NO_TARGETS),
        upstream: &[
            ("svc.example HTTPS", TARGET),
            ("target.example AAAA", ""),
            (
                "target.example A",
                "scope 24; target.example 60 A 192.0.2.33; \
                 target.example 60 RRSIG A 13 2 60 20300101000000 20200101000000 1 example. AAAA",
            ),
        ],
        queries: &[
            ("svc.example HTTPS +ecs=198.51.100.0/24", "NOERROR; no-additional; scope 0"),
            ("svc.example HTTPS +do", "NOERROR; no-additional"),
            ("svc.example HTTPS", "NOERROR; additional target.example AAAA 2001:db8:64::c000:221"),
        ],
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
        name: "Views: names that are never synthesised for some clients, with a common cache for all others",
        rfc: "an operator's rule",
        config: "view = [{ clients = [\"::1\"], never = [\"v4.example\"], \
            forward = [{ zones = [\"corp.example\"], servers = [\"127.0.0.1:9\"] }] }]",
        unbound: Cannot("its views have local data, and no rules of synthesis"),
        bind: Cannot("a cache for each view, and rules for clients and addresses only"),
        upstream: &[
            V4[0],
            V4[1],
            ("usual.example A", "usual.example 60 A 192.0.2.33"),
            ("usual.example AAAA", ""),
            (
                "example MX",
                "example 60 MX 10 mail.corp.example; additional; mail.corp.example 60 A 192.0.2.33",
            ),
        ],
        queries: &[
            // What its own servers know of a name is not the common word.
            ("example MX", "NOERROR; additionals 1"),
            ("example MX +v6", "NOERROR; no-additional"),
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221"),
            ("v4.example AAAA +v6", "NOERROR; none; soa 1; asked v4.example AAAA 2"),
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221"),
            ("usual.example AAAA +v6", "NOERROR; usual.example AAAA 2001:db8:64::c000:221"),
            (
                "usual.example AAAA",
                "NOERROR; usual.example AAAA 2001:db8:64::c000:221; asked usual.example AAAA 1",
            ),
        ],
        ..Row::NONE
    },
    Row {
        name: "Names of hosts: their addresses and reverse names, AAAA synthesised where there are none",
        rfc: "RFC 6147 5.1.6, RFC 1035 3.5",
        config: concat!(
            "hosts.files = [\"",
            env!("CARGO_MANIFEST_DIR"),
            "/tests/suite/table/hosts\"]"
        ),
        unbound: Cannot("it reads no hosts files"),
        bind: Cannot("it reads no hosts files"),
        upstream: &[("printer.lan A", "printer.lan 60 A 198.51.100.1"), V4[0], V4[1]],
        queries: &[
            ("printer.lan A", "NOERROR; printer.lan A 192.0.2.33; ttl 60; unasked printer.lan A"),
            ("PRINTER.lan AAAA", "NOERROR; PRINTER.lan AAAA 2001:db8:64::c000:221; ttl 60"),
            ("six.lan AAAA", "NOERROR; six.lan AAAA 2001:db8::7"),
            ("six.lan A", "NOERROR; none"),
            ("33.2.0.192.in-addr.arpa PTR", "NOERROR; 33.2.0.192.in-addr.arpa PTR printer.lan."),
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Upstream servers with IPv4 through the NAT64: at their address under the prefix, unless they are on the host itself",
        rfc: "RFC 6052 2.2, RFC 7050 3",
        config: "upstream.via-prefix = true",
        unbound: Cannot("no such setting"),
        bind: Cannot("no such setting"),
        upstream: V4,
        queries: &[("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221")],
        check: Some(|_, _| {
            crate::nat64::upstreams_are_reached_through_a_prefix_that_is_learned();
            Ok(())
        }),
        ..Row::NONE
    },
    Row {
        name: "AAAA only: no A records for clients of a block, if the name has or gets AAAA",
        rfc: "against RFC 6147 5.3.3",
        config: "synthesis.never = [\"never.example\"]\n\
            dns64 = [{ prefix = \"2001:db8:64::/96\", ipv4 = \"drop\", not-mapped = [\"10.0.0.0/8\"] }]",
        unbound: Cannot("no such setting for some clients, and no SOA with `block_a`"),
        bind: Cannot("no such setting"),
        upstream: &[
            V4[0],
            V4[1],
            ("six.example A", "six.example 60 A 192.0.2.33"),
            ("six.example AAAA", "six.example 60 AAAA 2001:db8::1"),
            ("six.example ANY", "six.example 60 A 192.0.2.33; six.example 60 AAAA 2001:db8::1"),
            ("www.example A", "www.example 60 CNAME v4.example; v4.example 60 A 192.0.2.33"),
            ("never.example A", "never.example 60 A 192.0.2.33"),
            ("never.example AAAA", ""),
            ("never.example ANY", "never.example 60 A 192.0.2.33"),
            ("never.example HTTPS", "never.example 60 TYPE65 \\# 11 0001 00 0004 0004 c0000221"),
            // For never.example and hint.example, each with a hint.
            (
                "svc.example HTTPS",
                "svc.example 60 TYPE65 \\# 25 0001 05 6e65766572 07 6578616d706c65 00 0004 0004 c0000221",
            ),
            (
                "never.example SVCB",
                "never.example 60 TYPE64 \\# 24 0001 04 68696e74 07 6578616d706c65 00 0004 0004 c0000221",
            ),
            (
                "x.old.example ANY",
                "old.example 60 DNAME new.example; x.new.example 60 A 192.0.2.33; x.new.example 60 AAAA 2001:db8::1",
            ),
            ("private.example A", "private.example 60 A 10.1.2.3"),
            ("private.example AAAA", ""),
            ("bogus.example A", "bogus.example 60 A 192.0.2.33"),
            ("bogus.example AAAA", "SERVFAIL; ede 6"),
            ("far.example A", "far.example 60 CNAME to-bogus.example"),
            (
                "to-bogus.example A",
                "to-bogus.example 60 CNAME bogus.example; bogus.example 60 A 192.0.2.33",
            ),
            (
                "example MX",
                "example 60 MX 10 v4.example; additional; v4.example 60 A 192.0.2.33; never.example 60 A 192.0.2.33",
            ),
            ("hint.example HTTPS", HINT),
            ("hint.example A", "hint.example 60 A 192.0.2.33"),
            ("hint.example AAAA", ""),
            (
                "all.example ANY",
                "all.example 60 A 192.0.2.33; all.example 60 TYPE65 \\# 11 0001 00 0004 0004 c0000221",
            ),
            // HTTPS 0 hint.example, also with what upstream supplies.
            (
                "apex.example HTTPS",
                "apex.example 60 TYPE65 \\# 16 0000 04 68696e74 07 6578616d706c65 00",
            ),
            (
                "given.example HTTPS",
                "given.example 60 TYPE65 \\# 16 0000 04 68696e74 07 6578616d706c65 00; additional; \
                 hint.example 60 TYPE65 \\# 11 0001 00 0004 0004 c0000221",
            ),
            (
                "a.never.example HTTPS",
                "a.never.example 60 TYPE65 \\# 16 0000 04 68696e74 07 6578616d706c65 00",
            ),
            (
                "b.never.example HTTPS",
                "b.never.example 60 TYPE65 \\# 16 0000 04 68696e74 07 6578616d706c65 00; additional; \
                 hint.example 60 TYPE65 \\# 11 0001 00 0004 0004 c0000221",
            ),
            (
                "c.never.example HTTPS",
                "c.never.example 60 CNAME hint.example; hint.example 60 TYPE65 \\# 11 0001 00 0004 0004 c0000221",
            ),
            ("four.example A", "four.example 60 CNAME ipv4only.arpa"),
            ("four.example AAAA", "four.example 60 CNAME ipv4only.arpa"),
        ],
        queries: &[
            ("v4.example A", "NOERROR; none; soa 1; ede 17"),
            ("v4.example A", "NOERROR; none; soa 1; asked v4.example A 1; asked v4.example AAAA 1"),
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221"),
            ("www.example A", "NOERROR; www.example CNAME v4.example; soa 1"),
            ("six.example A", "NOERROR; none; soa 1"),
            ("six.example ANY +tcp", "NOERROR; six.example AAAA 2001:db8::1"),
            ("never.example A", "NOERROR; never.example A 192.0.2.33"),
            ("never.example ANY +tcp", "NOERROR; never.example A 192.0.2.33"),
            (
                "never.example HTTPS",
                "NOERROR; never.example TYPE65 \\# 11 000100 0004 0004 c0000221",
            ),
            (
                "svc.example HTTPS",
                "NOERROR; svc.example TYPE65 \\# 25 0001 05 6e65766572 07 6578616d706c65 00 0004 0004 c0000221",
            ),
            (
                "never.example SVCB",
                "NOERROR; never.example TYPE64 \\# 16 0001 04 68696e74 07 6578616d706c65 00",
            ),
            (
                "x.old.example ANY +tcp",
                "NOERROR; old.example DNAME new.example; x.old.example CNAME x.new.example; x.new.example AAAA 2001:db8::1",
            ),
            ("private.example A", "NOERROR; private.example A 10.1.2.3"),
            ("bogus.example A", "NOERROR; bogus.example A 192.0.2.33"),
            (
                "far.example A",
                "NOERROR; far.example CNAME to-bogus.example; to-bogus.example CNAME bogus.example; bogus.example A 192.0.2.33",
            ),
            ("v4.example A +do", "NOERROR; v4.example A 192.0.2.33"),
            (
                "example MX",
                "NOERROR; example MX 10 v4.example; additional never.example 60 A 192.0.2.33; additionals 1",
            ),
            ("hint.example HTTPS", "NOERROR; hint.example TYPE65 \\# 3 000100"),
            ("all.example ANY +tcp", "NOERROR; all.example TYPE65 \\# 3 000100"),
            (
                "apex.example HTTPS",
                "NOERROR; additionals 2; additional hint.example TYPE65 \\# 3 000100; additional hint.example AAAA 2001:db8:64::c000:221",
            ),
            (
                "given.example HTTPS",
                "NOERROR; additionals 2; additional hint.example TYPE65 \\# 3 000100; additional hint.example AAAA 2001:db8:64::c000:221",
            ),
            // Beside an answer a hint follows its own name's rule, in it the question's too.
            (
                "a.never.example HTTPS",
                "NOERROR; additionals 2; additional hint.example TYPE65 \\# 3 000100; additional hint.example AAAA 2001:db8:64::c000:221",
            ),
            (
                "b.never.example HTTPS",
                "NOERROR; additionals 2; additional hint.example TYPE65 \\# 3 000100; additional hint.example AAAA 2001:db8:64::c000:221",
            ),
            (
                "c.never.example HTTPS",
                "NOERROR; c.never.example CNAME hint.example; hint.example TYPE65 \\# 11 000100 0004 0004 c0000221",
            ),
            (
                "ipv4only.arpa A",
                "NOERROR; ipv4only.arpa A 192.0.0.170; ipv4only.arpa A 192.0.0.171",
            ),
            (
                "four.example A",
                "NOERROR; four.example CNAME ipv4only.arpa; ipv4only.arpa A 192.0.0.170; ipv4only.arpa A 192.0.0.171",
            ),
            ("localhost A", "NOERROR; localhost A 127.0.0.1"),
        ],
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
            ("v4.example AAAA", "delay 40; soa"),
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
