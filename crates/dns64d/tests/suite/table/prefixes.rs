//! Prefixes, suffixes, and the clients that get them (RFC 6052, RFC 6147 section 5.2).

use super::synthesis::V4;
use crate::kit::server::Kind;
use crate::row::Peer::{Cannot, With};
use crate::row::Row;

const ONE_PREFIX: &str = "only one prefix";
const FOR_ALL: &str = "one prefix for all clients";
const ALL_MAPPED: &str = "every IPv4 address is mapped";
/// The well-known prefix maps public addresses but no private ones.
const PRIVATE_AND_PUBLIC: &[(&str, &str)] = &[
    ("private.example A", "private.example 60 A 10.1.2.3"),
    ("private.example AAAA", ""),
    ("public.example A", "public.example 60 A 198.41.0.4"),
    ("public.example AAAA", ""),
    ("relay.example A", "relay.example 60 A 192.88.99.1"),
    ("relay.example AAAA", ""),
    ("both.example A", "both.example 60 A 10.1.2.3; both.example 60 A 198.41.0.4"),
    ("both.example AAAA", ""),
];

/// A row for one prefix length, with the vector of RFC 6052 section 2.4.
macro_rules! length {
    ($length:literal, $prefix:literal, $address:literal) => {
        Row {
            name: concat!("A prefix of ", $length, " bits"),
            rfc: "RFC 6052 2.4",
            config: concat!("dns64 = [{ prefix = \"", $prefix, "\" }]"),
            unbound: With(concat!("prefix: ", $prefix)),
            bind: With(concat!("prefix: ", $prefix)),
            upstream: V4,
            queries: &[("v4.example AAAA", concat!("NOERROR; v4.example AAAA ", $address))],
            ..Row::NONE
        }
    };
}

pub(crate) const ROWS: &[Row] = &[
    length!("32", "2001:db8::/32", "2001:db8:c000:221::"),
    length!("40", "2001:db8:100::/40", "2001:db8:1c0:2:21::"),
    length!("48", "2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
    length!("56", "2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
    length!("64", "2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
    length!("96", "2001:db8:122:344::/96", "2001:db8:122:344::c000:221"),
    Row {
        name: "A suffix behind the IPv4 address",
        rfc: "RFC 6052 2.2",
        config: "dns64 = [{ prefix = \"2001:db8::/32\", suffix = \"::1:2:3\" }]",
        unbound: Cannot("no suffix"),
        bind: With("prefix: 2001:db8::/32\nsuffix ::1:2:3;"),
        upstream: V4,
        queries: &[("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:c000:221:0:1:2:3")],
        ..Row::NONE
    },
    Row {
        name: "Two blocks with one prefix: each address once",
        rfc: "RFC 2181 5",
        config: "dns64 = [{ prefix = \"2001:db8:64::/96\", mapped = [\"192.0.2.0/24\"] }, { prefix = \"2001:db8:64::/96\" }]",
        unbound: Cannot(ONE_PREFIX),
        bind: Cannot("it refuses a second block with the prefix"),
        upstream: V4,
        queries: &[
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221"),
            (
                "ipv4only.arpa AAAA",
                "NOERROR; ipv4only.arpa AAAA 2001:db8:64::c000:aa; ipv4only.arpa AAAA 2001:db8:64::c000:ab",
            ),
        ],
        ..Row::NONE
    },
    Row {
        name: "The well-known prefix maps public addresses",
        rfc: "RFC 6052 2.1",
        config: "dns64 = [{ prefix = \"64:ff9b::/96\" }]",
        unbound: With("prefix: 64:ff9b::/96"),
        bind: With("prefix: 64:ff9b::/96"),
        upstream: PRIVATE_AND_PUBLIC,
        queries: &[("public.example AAAA", "NOERROR; public.example AAAA 64:ff9b::c629:4")],
        ..Row::NONE
    },
    Row {
        name: "The well-known prefix never maps private addresses",
        rfc: "RFC 6052 3.1",
        config: "dns64 = [{ prefix = \"64:ff9b::/96\" }]",
        unbound: With("prefix: 64:ff9b::/96"),
        bind: With("prefix: 64:ff9b::/96"),
        upstream: PRIVATE_AND_PUBLIC,
        queries: &[
            ("private.example AAAA", "NOERROR; none; soa 1"),
            ("relay.example AAAA", "NOERROR; none; soa 1"),
            ("both.example AAAA", "NOERROR; both.example AAAA 64:ff9b::c629:4"),
        ],
        differs: &[
            (Kind::Unbound, "every address is mapped"),
            (Kind::Bind, "every address is mapped unless `mapped` excludes it"),
        ],
        ..Row::NONE
    },
    Row {
        name: "The well-known prefix maps private addresses if so configured",
        rfc: "RFC 6052 3.1",
        config: "dns64 = [{ prefix = \"64:ff9b::/96\", map-non-global = true }]",
        unbound: With("prefix: 64:ff9b::/96"),
        bind: With("prefix: 64:ff9b::/96"),
        upstream: PRIVATE_AND_PUBLIC,
        queries: &[("private.example AAAA", "NOERROR; private.example AAAA 64:ff9b::a01:203")],
        ..Row::NONE
    },
    Row {
        name: "A network-specific prefix maps private addresses",
        rfc: "RFC 6052 3.1",
        upstream: PRIVATE_AND_PUBLIC,
        queries: &[("private.example AAAA", "NOERROR; private.example AAAA 2001:db8:64::a01:203")],
        ..Row::NONE
    },
    Row {
        name: "Excluded IPv4 networks are not mapped",
        rfc: "RFC 6147 5.2, BIND mapped",
        config: "dns64 = [{ prefix = \"2001:db8:64::/96\", not-mapped = [\"10.0.0.0/8\"] }]",
        unbound: Cannot(ALL_MAPPED),
        bind: With("mapped { !10.0.0.0/8; any; };"),
        upstream: PRIVATE_AND_PUBLIC,
        queries: &[
            ("both.example AAAA", "NOERROR; both.example AAAA 2001:db8:64::c629:4"),
            ("private.example AAAA", "NOERROR; none; soa 1"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Single addresses can be mapped too",
        rfc: "BIND mapped",
        config: "dns64 = [{ prefix = \"2001:db8:64::/96\", mapped = [\"198.41.0.4\"] }]",
        unbound: Cannot(ALL_MAPPED),
        bind: With("mapped { 198.41.0.4; };"),
        upstream: PRIVATE_AND_PUBLIC,
        queries: &[
            ("both.example AAAA", "NOERROR; both.example AAAA 2001:db8:64::c629:4"),
            ("private.example AAAA", "NOERROR; none; soa 1"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Each IPv4 network has its own prefix",
        rfc: "RFC 6147 5.2",
        config: "dns64 = [{ prefix = \"2001:db8:10::/96\", mapped = [\"10.0.0.0/8\"] }, \
                 { prefix = \"2001:db8:64::/96\", not-mapped = [\"10.0.0.0/8\"] }]",
        unbound: Cannot(ONE_PREFIX),
        bind: With(
            "mapped { !10.0.0.0/8; any; };
            options: dns64 2001:db8:10::/96 { mapped { 10.0.0.0/8; }; };",
        ),
        upstream: PRIVATE_AND_PUBLIC,
        queries: &[(
            "both.example AAAA",
            "NOERROR; both.example AAAA 2001:db8:64::c629:4; both.example AAAA 2001:db8:10::a01:203",
        )],
        ..Row::NONE
    },
    Row {
        name: "Several prefixes: one address for each",
        rfc: "RFC 6147 5.2",
        config: "dns64 = [{ prefix = \"2001:db8:a::/96\" }, { prefix = \"2001:db8:64::/96\" }]",
        unbound: Cannot(ONE_PREFIX),
        bind: With("options: dns64 2001:db8:a::/96 { };"),
        upstream: V4,
        queries: &[(
            "v4.example AAAA",
            "NOERROR; v4.example AAAA 2001:db8:a::c000:221; v4.example AAAA 2001:db8:64::c000:221",
        )],
        ..Row::NONE
    },
    Row {
        name: "Each client network has its own prefix",
        rfc: "RFC 6147 5.2",
        config: "server.allow = [\"any\"]
                 dns64 = [{ prefix = \"2001:db8:a::/96\", clients = [\"127.0.0.2/32\"] }, \
                 { prefix = \"2001:db8:b::/96\", clients = [\"127.0.0.3/32\"] }]",
        unbound: Cannot(FOR_ALL),
        bind: With(
            "prefix: 2001:db8:a::/96
            clients { 127.0.0.2; };
            options: dns64 2001:db8:b::/96 { clients { 127.0.0.3; }; };",
        ),
        upstream: V4,
        queries: &[
            ("v4.example AAAA +from=127.0.0.2", "NOERROR; v4.example AAAA 2001:db8:a::c000:221"),
            ("v4.example AAAA +from=127.0.0.3", "NOERROR; v4.example AAAA 2001:db8:b::c000:221"),
            ("v4.example AAAA +from=127.0.0.4", "NOERROR; none; soa 1"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Synthesis only for queries that want recursion",
        rfc: "BIND recursive-only",
        config: "synthesis.recursive-only = true",
        unbound: Cannot("no such setting"),
        bind: With("recursive-only yes;"),
        upstream: V4,
        queries: &[("v4.example AAAA -rd", "NOERROR; none")],
        differs: &[],
        ..Row::NONE
    },
];
