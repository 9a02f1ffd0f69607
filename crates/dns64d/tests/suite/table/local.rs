//! Names that never leave a network (RFC 6761, RFC 7686, RFC 9462), and IPv4 addresses that no NAT64 reaches.

use crate::kit::server::Kind;
use crate::row::Peer::Cannot;
use crate::row::Row;

/// `SVCB 1 dns.example.`, by which the resolver designates itself (RFC 9462).
const DESIGNATION: &str = "_dns.resolver.arpa 60 TYPE64 \\# 15 0001 03646e73076578616d706c6500";
const UNREACHABLE: &[(&str, &str)] = &[
    ("ads.example A", "ads.example 60 A 0.0.0.0"),
    ("ads.example AAAA", ""),
    ("meta.example A", "meta.example 60 A 169.254.169.254"),
    ("meta.example AAAA", ""),
    ("both.example A", "both.example 60 A 127.0.0.1; both.example 60 A 192.0.2.33"),
    ("both.example AAAA", ""),
    ("cast.example A", "cast.example 60 A 239.1.2.3"),
    ("cast.example AAAA", ""),
];

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "resolver.arpa: no designation of upstream reaches clients",
        rfc: "RFC 9462 4, 6.4",
        upstream: &[("_dns.resolver.arpa SVCB", DESIGNATION)],
        queries: &[
            ("_dns.resolver.arpa SVCB", "NOERROR; none; soa 1; unasked _dns.resolver.arpa SVCB"),
            ("_DNS.Resolver.arpa ANY +tcp", "NOERROR; none; soa 1"),
            ("resolver.arpa AAAA", "NOERROR; none; soa 1; unasked resolver.arpa AAAA"),
            ("x.resolver.arpa A", "NOERROR; none; soa 1; unasked x.resolver.arpa A"),
        ],
        differs: &[(Kind::Unbound, "it forwards the name"), (Kind::Bind, "it forwards the name")],
        ..Row::NONE
    },
    Row {
        name: "resolver.arpa DS: passed on, as the delegation belongs to the parent zone",
        rfc: "RFC 9462 6.1, RFC 6303",
        upstream: &[("resolver.arpa DS", "")],
        queries: &[("resolver.arpa DS", "NOERROR; none; soa 1; asked resolver.arpa DS")],
        ..Row::NONE
    },
    Row {
        name: "localhost and names below it: the host itself, and nothing else",
        rfc: "RFC 6761 6.3",
        upstream: &[
            ("localhost A", "localhost 60 A 127.0.0.1"),
            ("app.localhost A", "app.localhost 60 A 127.0.0.1"),
        ],
        queries: &[
            ("localhost AAAA", "NOERROR; localhost AAAA ::1; unasked localhost A"),
            ("app.LOCALHOST AAAA", "NOERROR; app.localhost AAAA ::1"),
            ("app.localhost A", "NOERROR; app.localhost A 127.0.0.1; unasked app.localhost A"),
            ("localhost MX", "NOERROR; none; soa 1; unasked localhost MX"),
        ],
        differs: &[(Kind::Bind, "it forwards the name, and synthesises from 127.0.0.1")],
        ..Row::NONE
    },
    Row {
        name: "local names stay local at the end of an alias",
        rfc: "RFC 6761 6.3, 6.4, RFC 8880 7.1",
        config: "synthesis.exclude = [\"::/0\"]\ndns64 = [{ prefix = \"2001:db8:64::/96\", mapped = [\"any\", \"127.0.0.0/8\"] }]",
        upstream: &[
            ("bare.example AAAA", "bare.example 60 CNAME app.localhost"),
            ("bare.example A", "bare.example 60 CNAME app.localhost"),
            (
                "tail.example AAAA",
                "tail.example 60 CNAME localhost; authority; . 60 SOA ns. h. 1 2 3 4 60",
            ),
            ("tail.example A", "tail.example 60 CNAME localhost; localhost 60 A 192.0.2.33"),
            ("far.example AAAA", "far.example 60 CNAME x.onion; x.onion 60 AAAA 2001:db8::9"),
            ("four.example AAAA", "four.example 60 CNAME ipv4only.arpa"),
            ("far.example MX", "far.example 60 CNAME x.invalid"),
            ("www.example HTTPS", "www.example 60 TYPE65 \\# 15 0001 03737663076578616d706c6500"),
            ("svc.example AAAA", "svc.example 60 CNAME app.localhost"),
            ("svc.example A", "svc.example 60 CNAME app.localhost"),
        ],
        queries: &[
            (
                "bare.example AAAA",
                "NOERROR; bare.example CNAME app.localhost; app.localhost AAAA ::1; -ad",
            ),
            (
                "bare.example A",
                "NOERROR; bare.example CNAME app.localhost; app.localhost A 127.0.0.1",
            ),
            ("bare.example MX", "NOERROR; none"),
            ("tail.example AAAA", "NOERROR; tail.example CNAME localhost; localhost AAAA ::1"),
            ("tail.example A", "NOERROR; tail.example CNAME localhost; localhost A 127.0.0.1"),
            ("far.example AAAA", "NXDOMAIN; far.example CNAME x.onion; soa 1"),
            ("far.example MX", "NXDOMAIN; far.example CNAME x.invalid; soa 1"),
            (
                "four.example AAAA",
                "NOERROR; ede 29; four.example CNAME ipv4only.arpa; ipv4only.arpa AAAA 2001:db8:64::c000:aa; ipv4only.arpa AAAA 2001:db8:64::c000:ab",
            ),
            (
                "four.example AAAA +do +cd",
                "NOERROR; ede 29; four.example CNAME ipv4only.arpa; ipv4only.arpa AAAA 2001:db8:64::c000:aa; ipv4only.arpa AAAA 2001:db8:64::c000:ab",
            ),
            (
                "ipv4only.arpa ANY +tcp",
                "NOERROR; ede 29; ipv4only.arpa A 192.0.0.170; ipv4only.arpa A 192.0.0.171; ipv4only.arpa AAAA 2001:db8:64::c000:aa; ipv4only.arpa AAAA 2001:db8:64::c000:ab; ipv4only.arpa NS ipv4only.arpa; ipv4only.arpa SOA ipv4only.arpa nobody.invalid 1 3600 1200 604800 86400",
            ),
            (
                "www.example HTTPS",
                "NOERROR; additionals 2; additional svc.example CNAME app.localhost; additional app.localhost AAAA ::1",
            ),
            (
                "www.example NS",
                "NOERROR; none; unasked app.localhost AAAA; unasked app.localhost A; unasked localhost AAAA",
            ),
            (
                "www.example SOA",
                "NOERROR; none; unasked x.onion AAAA; unasked x.invalid MX; unasked ipv4only.arpa AAAA",
            ),
        ],
        unbound: Cannot("it has no such settings"),
        bind: Cannot("it has no such settings"),
        ..Row::NONE
    },
    Row {
        name: "invalid and onion do not exist",
        rfc: "RFC 6761 6.4, RFC 7686 2",
        upstream: &[("a.onion A", "a.onion 60 A 192.0.2.33")],
        queries: &[
            ("a.onion AAAA", "NXDOMAIN; none; soa 1; unasked a.onion AAAA; unasked a.onion A"),
            ("a.b.invalid TXT", "NXDOMAIN; none; soa 1; unasked a.b.invalid TXT"),
        ],
        differs: &[(Kind::Bind, "it forwards these names")],
        ..Row::NONE
    },
    Row {
        name: "test, local and home.arpa are forwarded and synthesised",
        rfc: "RFC 6761 6.2, RFC 6762, RFC 8375",
        upstream: &[
            ("a.test A", "a.test 60 A 192.0.2.33"),
            ("a.test AAAA", ""),
            ("a.local A", "a.local 60 A 192.0.2.33"),
            ("a.local AAAA", ""),
            ("a.home.arpa A", "a.home.arpa 60 A 192.0.2.33"),
            ("a.home.arpa AAAA", ""),
        ],
        queries: &[
            ("a.test AAAA", "NOERROR; a.test AAAA 2001:db8:64::c000:221"),
            ("a.local AAAA", "NOERROR; a.local AAAA 2001:db8:64::c000:221"),
            ("a.home.arpa AAAA", "NOERROR; a.home.arpa AAAA 2001:db8:64::c000:221"),
        ],
        differs: &[(Kind::Unbound, "it answers names of test itself: NXDOMAIN")],
        ..Row::NONE
    },
    Row {
        name: "Addresses that no NAT64 reaches are not mapped",
        rfc: "RFC 6890, RFC 1112",
        upstream: UNREACHABLE,
        queries: &[
            ("ads.example AAAA", "NOERROR; none; soa 1; ede 17"),
            ("meta.example AAAA", "NOERROR; none; soa 1"),
            ("cast.example AAAA", "NOERROR; none; soa 1"),
            ("both.example AAAA", "NOERROR; both.example AAAA 2001:db8:64::c000:221"),
        ],
        differs: &[
            (Kind::Unbound, "every address is mapped"),
            (Kind::Bind, "every address is mapped unless `mapped` excludes it"),
        ],
        ..Row::NONE
    },
    Row {
        name: "Addresses that no NAT64 reaches are mapped if `mapped` names them",
        rfc: "RFC 6890",
        config: "dns64 = [{ prefix = \"2001:db8:64::/96\", mapped = [\"any\", \"169.254.0.0/16\"] }]",
        unbound: Cannot("every address is mapped"),
        bind: Cannot("every address is mapped unless `mapped` excludes it"),
        upstream: UNREACHABLE,
        queries: &[
            ("meta.example AAAA", "NOERROR; meta.example AAAA 2001:db8:64::a9fe:a9fe"),
            ("ads.example AAAA", "NOERROR; none; soa 1"),
        ],
        ..Row::NONE
    },
];
