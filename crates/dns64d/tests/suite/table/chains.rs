//! Chains of CNAME and DNAME, and negative answers at their end (RFC 6147 section 5.1.5, RFC 2308).

use crate::kit::server::Kind;
use crate::row::Peer::{Cannot, With};
use crate::row::Row;

const CNAME: &str = "www.example 50 CNAME host.example";

/// The denial of a name with the SOA record of another zone.
const FOREIGN: &str =
    "NXDOMAIN; authority; other.test 300 SOA ns.other.test host.other.test 1 2 3 4 300";
/// A name below a DNAME that is too long with its target.
const LONG_AAAA: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.long.example AAAA";
const LONG_MX: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.long.example MX";
const LONG_REPLY: &str = "YXDOMAIN; long.example 60 DNAME ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc.ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd.ffffffffffffffffffffffffffffffffffffffff.example";
const LONG_ANSWER: &str = "YXDOMAIN; long.example 60 DNAME ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc.ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd.ffffffffffffffffffffffffffffffffffffffff.example; unasked aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.long.example A";

/// How Unbound answers for names that do not exist.
pub(super) const NXDOMAIN: &[(Kind, &str)] =
    &[(Kind::Unbound, "it takes NXDOMAIN to AAAA as empty: it queries A and returns NOERROR")];

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "A CNAME is kept, the synthesised records are at its end",
        rfc: "RFC 6147 5.1.5",
        upstream: &[
            ("www.example AAAA", "www.example 50 CNAME host.example; soa"),
            ("www.example A", "www.example 50 CNAME host.example; host.example 40 A 192.0.2.33"),
            ("host.example AAAA", ""),
            ("host.example A", "host.example 40 A 192.0.2.33"),
        ],
        queries: &[(
            "www.example AAAA",
            "NOERROR; www.example 50 CNAME host.example; host.example 40 AAAA 2001:db8:64::c000:221",
        )],
        ..Row::NONE
    },
    Row {
        name: "A CNAME to a name with AAAA is passed on unchanged",
        rfc: "RFC 6147 5.1.5",
        upstream: &[
            (
                "www.example AAAA",
                "www.example 50 CNAME host.example; host.example 40 AAAA 2001:db8::1",
            ),
            ("host.example AAAA", "host.example 40 AAAA 2001:db8::1"),
            ("host.example A", "host.example 40 A 192.0.2.33"),
        ],
        queries: &[(
            "www.example AAAA",
            "NOERROR; www.example 50 CNAME host.example; host.example 40 AAAA 2001:db8::1; unasked www.example A; unasked host.example A",
        )],
        ..Row::NONE
    },
    Row {
        name: "Three CNAMEs in a row",
        rfc: "RFC 6147 5.1.5",
        upstream: &[
            (
                "a.example AAAA",
                "a.example 50 CNAME b.example; b.example 50 CNAME c.example; c.example 50 CNAME d.example; soa",
            ),
            (
                "a.example A",
                "a.example 50 CNAME b.example; b.example 50 CNAME c.example; c.example 50 CNAME d.example; d.example 40 A 192.0.2.33",
            ),
            ("b.example AAAA", "b.example 50 CNAME c.example; c.example 50 CNAME d.example"),
            (
                "b.example A",
                "b.example 50 CNAME c.example; c.example 50 CNAME d.example; d.example 40 A 192.0.2.33",
            ),
            ("c.example AAAA", "c.example 50 CNAME d.example"),
            ("c.example A", "c.example 50 CNAME d.example; d.example 40 A 192.0.2.33"),
            ("d.example AAAA", ""),
            ("d.example A", "d.example 40 A 192.0.2.33"),
        ],
        queries: &[(
            "a.example AAAA",
            "NOERROR; a.example CNAME b.example; b.example CNAME c.example; c.example CNAME d.example; d.example AAAA 2001:db8:64::c000:221",
        )],
        ..Row::NONE
    },
    Row {
        name: "A DNAME and its CNAME are kept",
        rfc: "RFC 6147 5.1.5, RFC 6672",
        upstream: &[
            (
                "www.old.example AAAA",
                "old.example 50 DNAME new.example; www.old.example 50 CNAME www.new.example; soa",
            ),
            (
                "www.old.example A",
                "old.example 50 DNAME new.example; www.old.example 50 CNAME www.new.example; www.new.example 40 A 192.0.2.33",
            ),
            (
                "www.old.example DNAME",
                "old.example 50 DNAME new.example; www.old.example 50 CNAME www.new.example; soa",
            ),
            ("www.new.example AAAA", ""),
            ("www.new.example A", "www.new.example 40 A 192.0.2.33"),
        ],
        queries: &[
            (
                "www.old.example AAAA",
                "NOERROR; old.example DNAME new.example; www.old.example CNAME www.new.example; www.new.example AAAA 2001:db8:64::c000:221",
            ),
            (
                "www.old.example DNAME",
                "NOERROR; old.example DNAME new.example; www.old.example CNAME www.new.example",
            ),
        ],
        ..Row::NONE
    },
    Row {
        name: "A DNAME without its CNAME: the CNAME is added",
        rfc: "RFC 6672 3.1",
        upstream: &[
            ("www.old.example AAAA", "old.example 50 DNAME new.example; soa"),
            (
                "www.old.example A",
                "old.example 50 DNAME new.example; www.new.example 40 A 192.0.2.33",
            ),
            ("www.new.example AAAA", ""),
            ("www.new.example A", "www.new.example 40 A 192.0.2.33"),
        ],
        queries: &[
            (
                "www.old.example A",
                "NOERROR; old.example DNAME new.example; www.old.example CNAME www.new.example; www.new.example A 192.0.2.33",
            ),
            (
                "www.old.example AAAA",
                "NOERROR; old.example DNAME new.example; www.old.example CNAME www.new.example; www.new.example AAAA 2001:db8:64::c000:221",
            ),
        ],
        ..Row::NONE
    },
    Row {
        name: "A chain that ends in an alias is followed by another query",
        rfc: "RFC 6147 5.1.5",
        upstream: &[
            ("www.example AAAA", CNAME),
            ("www.example A", CNAME),
            ("host.example AAAA", ""),
            ("host.example A", "host.example 40 A 192.0.2.33"),
        ],
        queries: &[(
            "www.example AAAA",
            "NOERROR; www.example 50 CNAME host.example; host.example 40 AAAA 2001:db8:64::c000:221; asked host.example A",
        )],
        ..Row::NONE
    },
    Row {
        name: "A chain that ends in an alias of a name with AAAA",
        rfc: "RFC 6147 5.1.5",
        upstream: &[
            ("www.example AAAA", CNAME),
            ("www.example A", CNAME),
            ("host.example AAAA", "host.example 40 AAAA 2001:db8::1"),
            ("host.example A", "host.example 40 A 192.0.2.33"),
        ],
        queries: &[(
            "www.example AAAA",
            "NOERROR; www.example CNAME host.example; host.example AAAA 2001:db8::1",
        )],
        ..Row::NONE
    },
    Row {
        name: "A CNAME to a missing name: NXDOMAIN, one SOA, the CNAME is kept",
        rfc: "RFC 2308 2.1",
        upstream: &[
            ("www.example AAAA", "NXDOMAIN; www.example 50 CNAME no.example; soa"),
            ("no.example AAAA", "NXDOMAIN"),
        ],
        queries: &[(
            "www.example AAAA",
            "NXDOMAIN; www.example CNAME no.example; soa 1; unasked www.example A; unasked no.example A",
        )],
        differs: NXDOMAIN,
        ..Row::NONE
    },
    Row {
        name: "No A behind a CNAME: one CNAME, exactly one SOA",
        rfc: "RFC 6147 5.1.6, PowerDNS #14362",
        upstream: &[
            ("www.example AAAA", "www.example 50 CNAME host.example; soa"),
            ("www.example A", "www.example 50 CNAME host.example; soa"),
            ("host.example AAAA", ""),
            ("host.example A", ""),
        ],
        queries: &[("www.example AAAA", "NOERROR; www.example CNAME host.example; soa 1")],
        ..Row::NONE
    },
    Row {
        name: "No A behind a chain that ends in an alias: exactly one SOA",
        rfc: "RFC 6147 5.1.6, PowerDNS #14362",
        upstream: &[
            ("www.example AAAA", CNAME),
            ("www.example A", CNAME),
            ("host.example AAAA", ""),
            ("host.example A", ""),
        ],
        queries: &[("www.example AAAA", "NOERROR; www.example CNAME host.example; soa 1")],
        ..Row::NONE
    },
    Row {
        name: "Only unmapped A behind a CNAME: an empty answer with the CNAME and one SOA",
        rfc: "RFC 6147 5.1.6, RFC 2308 3",
        config: "dns64 = [{ prefix = \"2001:db8:64::/96\", not-mapped = [\"10.0.0.0/8\"] }]",
        unbound: Cannot("every IPv4 address is mapped"),
        bind: With("mapped { !10.0.0.0/8; any; };"),
        upstream: &[
            ("www.example AAAA", "www.example 50 CNAME host.example; soa"),
            ("www.example A", "www.example 50 CNAME host.example; host.example 40 A 10.1.2.3"),
            ("host.example AAAA", ""),
            ("host.example A", "host.example 40 A 10.1.2.3"),
        ],
        queries: &[("www.example AAAA", "NOERROR; www.example CNAME host.example; soa 1")],
        ..Row::NONE
    },
    Row {
        name: "A loop of CNAMEs ends",
        rfc: "RFC 1034 3.6.2",
        upstream: &[
            ("a.example AAAA", "a.example 50 CNAME b.example"),
            ("a.example A", "a.example 50 CNAME b.example"),
            ("b.example AAAA", "b.example 50 CNAME a.example"),
            ("b.example A", "b.example 50 CNAME a.example"),
        ],
        queries: &[("a.example AAAA", "SERVFAIL")],
        ..Row::NONE
    },
    Row {
        name: "A query for CNAME itself passes",
        rfc: "RFC 6147 5.3.3",
        upstream: &[("www.example CNAME", CNAME)],
        queries: &[(
            "www.example CNAME",
            "NOERROR; www.example 50 CNAME host.example; unasked host.example A",
        )],
        ..Row::NONE
    },
    Row {
        name: "An empty answer is cached for the TTL from its SOA",
        rfc: "RFC 2308 5",
        upstream: &[("txt.example A", ""), ("txt.example AAAA", "")],
        queries: &[
            ("txt.example AAAA", "NOERROR; none"),
            (
                "txt.example AAAA",
                "NOERROR; none; soa 1; asked txt.example AAAA 1; asked txt.example A 1",
            ),
        ],
        ..Row::NONE
    },
    Row {
        name: "NXDOMAIN is cached for the TTL from its SOA",
        rfc: "RFC 2308 5",
        upstream: &[("no.example AAAA", "NXDOMAIN")],
        queries: &[
            ("no.example AAAA", "NXDOMAIN; none"),
            ("no.example AAAA", "NXDOMAIN; none; soa 1; asked no.example AAAA 1"),
        ],
        differs: NXDOMAIN,
        ..Row::NONE
    },
    Row {
        name: "A negative answer without SOA is not cached",
        rfc: "RFC 2308 5",
        upstream: &[("no.example AAAA", "NXDOMAIN; aa")],
        queries: &[
            ("no.example AAAA", "NXDOMAIN; none"),
            ("no.example AAAA", "NXDOMAIN; none; asked no.example AAAA 2"),
        ],
        differs: &[
            (Kind::Unbound, "it takes NXDOMAIN to AAAA as empty: it queries A and returns NOERROR"),
            (Kind::Bind, "it caches the answer"),
        ],
        ..Row::NONE
    },
    Row {
        name: "A negative answer with the SOA of another zone is not cached",
        rfc: "RFC 2308 5",
        upstream: &[("no.example AAAA", FOREIGN)],
        queries: &[
            ("no.example AAAA", "NXDOMAIN; none; soa 0"),
            ("no.example AAAA", "NXDOMAIN; none; asked no.example AAAA 2"),
        ],
        differs: NXDOMAIN,
        ..Row::NONE
    },
    Row {
        name: "TTL: the SOA of another zone does not count, as if there was none",
        rfc: "RFC 6147 5.1.7, RFC 2308 5",
        upstream: &[
            ("v4.example A", "v4.example 3600 A 192.0.2.33"),
            (
                "v4.example AAAA",
                "authority; other.test 5 SOA ns.other.test host.other.test 1 2 3 4 5",
            ),
        ],
        queries: &[("v4.example AAAA", "NOERROR; v4.example 600 AAAA 2001:db8:64::c000:221")],
        differs: &[
            (Kind::Unbound, "it uses the TTL of the A record only"),
            (Kind::Bind, "it takes such a reply for an error of the server"),
        ],
        ..Row::NONE
    },
    Row {
        name: "A name that a DNAME makes too long: YXDOMAIN and the DNAME, A is not queried",
        rfc: "RFC 6672 2.2",
        upstream: &[(LONG_AAAA, LONG_REPLY), (LONG_MX, LONG_REPLY)],
        queries: &[(LONG_AAAA, LONG_ANSWER), (LONG_MX, LONG_ANSWER)],
        differs: &[(
            Kind::Unbound,
            "it takes YXDOMAIN to AAAA as empty: it queries A and returns NOERROR",
        )],
        ..Row::NONE
    },
    Row {
        name: "A TTL of 2^31 or more is 0",
        rfc: "RFC 2181 8",
        upstream: &[
            ("huge.example A", "huge.example 4294967295 A 192.0.2.33"),
            ("huge.example AAAA", ""),
        ],
        queries: &[
            ("huge.example A", "NOERROR; huge.example 0 A 192.0.2.33"),
            ("huge.example AAAA", "NOERROR; huge.example 0 AAAA 2001:db8:64::c000:221"),
        ],
        differs: &[(Kind::Bind, "it takes it for a large TTL, which it limits to a week")],
        ..Row::NONE
    },
    Row {
        name: "Synthesised answers are cached",
        rfc: "RFC 6147 5.1.7",
        upstream: super::synthesis::V4,
        queries: &[
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221"),
            (
                "v4.example AAAA",
                "NOERROR; v4.example 60 AAAA 2001:db8:64::c000:221; asked v4.example A 1; asked v4.example AAAA 1",
            ),
        ],
        ..Row::NONE
    },
    Row {
        name: "No cache: every query goes upstream",
        rfc: "RFC 8219 9.2",
        config: "cache.size = \"0\"",
        unbound: With(
            "msg-cache-size: 0\nrrset-cache-size: 0\ncache-max-ttl: 0\ncache-max-negative-ttl: 0",
        ),
        bind: With("options: max-cache-ttl 0; max-ncache-ttl 0;"),
        upstream: super::synthesis::V4,
        queries: &[
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221"),
            (
                "v4.example AAAA",
                "NOERROR; v4.example AAAA 2001:db8:64::c000:221; asked v4.example A 2; asked v4.example AAAA 2",
            ),
        ],
        differs: &[(
            Kind::Bind,
            "no such setting: with TTLs of 0 it still caches the empty answer to AAAA",
        )],
        ..Row::NONE
    },
];
