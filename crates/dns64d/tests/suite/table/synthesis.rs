//! When to synthesise, and which records (RFC 6147 sections 5.1.1, 5.1.4, 5.1.6 to 5.1.8).

use crate::kit::server::Kind;
use crate::row::Peer::{Cannot, With};
use crate::row::Row;

/// A name with one A record and no AAAA.
pub(crate) const V4: &[(&str, &str)] =
    &[("v4.example A", "v4.example 60 A 192.0.2.33"), ("v4.example AAAA", "")];

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "Existing AAAA records are passed on unchanged, A is not queried",
        rfc: "RFC 6147 5.1.1",
        upstream: &[
            (
                "six.example AAAA",
                "six.example 60 AAAA 2001:db8::1; six.example 60 AAAA 2001:db8::2",
            ),
            ("six.example A", "six.example 60 A 192.0.2.1"),
        ],
        queries: &[(
            "six.example AAAA",
            "NOERROR; six.example 60 AAAA 2001:db8::1; six.example 60 AAAA 2001:db8::2; unasked six.example A",
        )],
        ..Row::NONE
    },
    Row {
        name: "Without AAAA, records are synthesised from A",
        rfc: "RFC 6147 5.1.6",
        upstream: V4,
        queries: &[(
            "v4.example AAAA",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; +ra; -aa; asked v4.example AAAA; asked v4.example A",
        )],
        ..Row::NONE
    },
    Row {
        name: "One AAAA for each A",
        rfc: "RFC 6147 5.1.7",
        upstream: &[
            (
                "v4.example A",
                "v4.example 60 A 192.0.2.1; v4.example 60 A 192.0.2.2; v4.example 60 A 198.51.100.7",
            ),
            ("v4.example AAAA", ""),
        ],
        queries: &[(
            "v4.example AAAA",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:201; v4.example AAAA 2001:db8:64::c000:202; \
             v4.example AAAA 2001:db8:64::c633:6407",
        )],
        ..Row::NONE
    },
    Row {
        name: "TTL: that of A if it is smaller",
        rfc: "RFC 6147 5.1.7",
        upstream: V4,
        queries: &[("v4.example AAAA", "NOERROR; v4.example 60 AAAA 2001:db8:64::c000:221")],
        ..Row::NONE
    },
    Row {
        name: "TTL: the SOA's negative TTL if it is smaller",
        rfc: "RFC 6147 5.1.7",
        upstream: &[("v4.example A", "v4.example 9999 A 192.0.2.33"), ("v4.example AAAA", "")],
        queries: &[("v4.example AAAA", "NOERROR; v4.example 300 AAAA 2001:db8:64::c000:221")],
        differs: &[
            (Kind::Bind, "it uses the TTL of the SOA record, not its minimum"),
            (Kind::Unbound, "it uses the TTL of the A record only"),
        ],
        ..Row::NONE
    },
    Row {
        name: "TTL: also limited by the TTL of the SOA record",
        rfc: "RFC 2308 5",
        upstream: &[
            ("v4.example A", "v4.example 9999 A 192.0.2.33"),
            (
                "v4.example AAAA",
                "authority; example 120 SOA ns.example host.example 1 7200 3600 86400 300",
            ),
        ],
        queries: &[("v4.example AAAA", "NOERROR; v4.example 120 AAAA 2001:db8:64::c000:221")],
        differs: &[(Kind::Unbound, "it uses the TTL of the A record only")],
        ..Row::NONE
    },
    Row {
        name: "TTL: at most 600 s if the empty answer has no SOA",
        rfc: "RFC 6147 5.1.7",
        upstream: &[
            ("v4.example A", "v4.example 9999 A 192.0.2.33"),
            ("v4.example AAAA", "NOERROR"),
        ],
        queries: &[("v4.example AAAA", "NOERROR; v4.example 600 AAAA 2001:db8:64::c000:221")],
        differs: &[(Kind::Unbound, "it uses the TTL of the A record only")],
        ..Row::NONE
    },
    Row {
        name: "AAAA under ::ffff:0:0/96 count as absent",
        rfc: "RFC 6147 5.1.4",
        upstream: &[
            ("mapped.example AAAA", "mapped.example 60 AAAA ::ffff:192.0.2.9"),
            ("mapped.example A", "mapped.example 60 A 192.0.2.33"),
        ],
        queries: &[("mapped.example AAAA", "NOERROR; mapped.example AAAA 2001:db8:64::c000:221")],
        differs: &[(Kind::Unbound, "no exclusion by address: it returns the mapped address")],
        ..Row::NONE
    },
    Row {
        name: "Of excluded and other AAAA the others are kept",
        rfc: "RFC 6147 5.1.4",
        upstream: &[
            (
                "mixed.example AAAA",
                "mixed.example 60 AAAA ::ffff:192.0.2.9; mixed.example 60 AAAA 2001:db8::1",
            ),
            ("mixed.example A", "mixed.example 60 A 192.0.2.33"),
        ],
        queries: &[(
            "mixed.example AAAA",
            "NOERROR; mixed.example AAAA 2001:db8::1; unasked mixed.example A",
        )],
        differs: &[(Kind::Unbound, "no exclusion by address: it returns the mapped address too")],
        ..Row::NONE
    },
    Row {
        name: "Other networks can be excluded",
        rfc: "RFC 6147 5.1.4",
        config: "synthesis.exclude = [\"2001:db8:bad::/48\"]",
        unbound: Cannot("no exclusion by address"),
        bind: With("exclude { 2001:db8:bad::/48; };"),
        upstream: &[
            ("bad.example AAAA", "bad.example 60 AAAA 2001:db8:bad::1"),
            ("bad.example A", "bad.example 60 A 192.0.2.33"),
        ],
        queries: &[("bad.example AAAA", "NOERROR; bad.example AAAA 2001:db8:64::c000:221")],
        ..Row::NONE
    },
    Row {
        name: "Excluded AAAA and no A: an empty answer",
        rfc: "RFC 6147 5.1.4, 5.1.6",
        upstream: &[
            ("bad.example AAAA", "bad.example 60 AAAA ::ffff:192.0.2.9"),
            ("bad.example A", ""),
        ],
        queries: &[("bad.example AAAA", "NOERROR; none; soa 1")],
        differs: &[(Kind::Unbound, "no exclusion by address: it returns the mapped address")],
        ..Row::NONE
    },
    Row {
        name: "Parallel queries: existing AAAA are used",
        rfc: "RFC 6147 5.1.8",
        config: "synthesis.parallel = true",
        unbound: Cannot("it always queries AAAA first"),
        bind: Cannot("it always queries AAAA first"),
        upstream: &[
            ("six.example AAAA", "delay 100; six.example 60 AAAA 2001:db8::1"),
            ("six.example A", "six.example 60 A 192.0.2.1"),
        ],
        queries: &[(
            "six.example AAAA",
            "NOERROR; six.example AAAA 2001:db8::1; asked six.example A",
        )],
        ..Row::NONE
    },
    Row {
        name: "Parallel queries: A is used if AAAA is empty, with the same TTL rule",
        rfc: "RFC 6147 5.1.8",
        config: "synthesis.parallel = true",
        unbound: Cannot("it always queries AAAA first"),
        bind: Cannot("it always queries AAAA first"),
        upstream: &[
            ("v4.example A", "v4.example 9999 A 192.0.2.33"),
            ("v4.example AAAA", "delay 50; soa"),
        ],
        queries: &[("v4.example AAAA", "NOERROR; v4.example 300 AAAA 2001:db8:64::c000:221")],
        ..Row::NONE
    },
    Row {
        name: "The question keeps the case of the name, which does not matter otherwise",
        rfc: "RFC 4343",
        upstream: V4,
        queries: &[("V4.Example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221")],
        ..Row::NONE
    },
    Row {
        name: "The authority section is that of the A reply",
        rfc: "RFC 6147 5.4",
        unbound: With("minimal-responses: no"),
        bind: With("options: minimal-responses no;"),
        upstream: &[
            (
                "v4.sub.example A",
                "v4.sub.example 60 A 192.0.2.33; authority; sub.example 60 NS ns.sub.example; additional; ns.sub.example 60 A 192.0.2.53",
            ),
            ("v4.sub.example AAAA", ""),
        ],
        differs: &[
            (Kind::Unbound, "no authority section with a synthesised answer"),
            (Kind::Bind, "no authority section with a synthesised answer"),
        ],
        queries: &[(
            "v4.sub.example AAAA",
            "NOERROR; v4.sub.example AAAA 2001:db8:64::c000:221; authority sub.example NS ns.sub.example; additional ns.sub.example A 192.0.2.53",
        )],
        ..Row::NONE
    },
    Row {
        name: "Domains that are never synthesised",
        rfc: "Unbound #1249",
        config: "synthesis.never = [\"example\"]",
        unbound: Cannot("no names that are never synthesised, only names that always are"),
        bind: Cannot("rules for clients and addresses only, not for names"),
        upstream: V4,
        queries: &[("v4.example AAAA", "NOERROR; none; soa 1; unasked v4.example A")],
        ..Row::NONE
    },
    Row {
        name: "Domains that are always synthesised, even with AAAA",
        rfc: "CoreDNS #7246",
        config: "synthesis.always = [\"broken.example\"]",
        unbound: With("dns64-ignore-aaaa: \"www.broken.example\""),
        bind: With("exclude { any; };"),
        upstream: &[
            ("www.broken.example AAAA", "www.broken.example 60 AAAA 2001:db8::1"),
            ("www.broken.example A", "www.broken.example 60 A 192.0.2.33"),
        ],
        queries: &[(
            "www.broken.example AAAA",
            "NOERROR; www.broken.example AAAA 2001:db8:64::c000:221",
        )],
        ..Row::NONE
    },
    Row {
        name: "The longest matching domain decides",
        rfc: "Unbound #1249",
        config: "synthesis.always = [\".\"]\nsynthesis.never = [\"example\"]",
        unbound: Cannot("no names that are never synthesised"),
        bind: Cannot("no rules for names"),
        upstream: &[
            ("six.example AAAA", "six.example 60 AAAA 2001:db8::1"),
            ("six.example A", "six.example 60 A 192.0.2.33"),
            ("six.test AAAA", "six.test 60 AAAA 2001:db8::1"),
            ("six.test A", "six.test 60 A 192.0.2.33"),
        ],
        queries: &[
            ("six.example AAAA", "NOERROR; six.example AAAA 2001:db8::1"),
            (
                "six.test AAAA",
                "NOERROR; six.test AAAA 2001:db8:64::c000:221; unasked six.test AAAA",
            ),
        ],
        ..Row::NONE
    },
    Row {
        name: "The target of an alias is never synthesised either",
        rfc: "Unbound #1249",
        config: "synthesis.never = [\"internal.example\"]",
        unbound: Cannot("no names that are never synthesised"),
        bind: Cannot("no rules for names"),
        upstream: &[
            (
                "www.example AAAA",
                "www.example 50 CNAME host.internal.example; authority; example 3600 SOA ns.example host.example 1 2 3 4 300",
            ),
            (
                "www.example A",
                "www.example 50 CNAME host.internal.example; host.internal.example 40 A 192.0.2.33",
            ),
            ("odd.example AAAA", ""),
            (
                "odd.example A",
                "odd.example 50 CNAME host.internal.example; host.internal.example 40 A 192.0.2.33",
            ),
        ],
        queries: &[
            (
                "www.example AAAA",
                "NOERROR; www.example CNAME host.internal.example; soa 1; unasked www.example A",
            ),
            ("odd.example AAAA", "NOERROR; none; soa 1"),
        ],
        ..Row::NONE
    },
    Row {
        name: "A name that is always synthesised keeps its AAAA if no A is mapped",
        rfc: "CoreDNS #7246",
        config: "synthesis.always = [\"example\"]
                 dns64 = [{ prefix = \"2001:db8:64::/96\", not-mapped = [\"10.0.0.0/8\"] }]",
        unbound: Cannot("every IPv4 address is mapped"),
        bind: With("exclude { any; }; mapped { !10.0.0.0/8; any; };"),
        upstream: &[
            ("six.example AAAA", "six.example 60 AAAA 2001:db8::1"),
            ("six.example A", "six.example 60 A 10.1.2.3"),
        ],
        queries: &[("six.example AAAA", "NOERROR; six.example AAAA 2001:db8::1")],
        differs: &[(Kind::Bind, "it removes the excluded records: an empty answer")],
        ..Row::NONE
    },
    Row {
        name: "With all of IPv6 excluded NAT64 is preferred, and names that have nothing else keep their AAAA",
        rfc: "RFC 6147 5.1.4",
        config: "synthesis.exclude = [\"::/0\"]",
        unbound: Cannot("it excludes by name only"),
        bind: With("exclude { any; };"),
        upstream: &[
            ("six.example AAAA", "six.example 60 AAAA 2001:db8::1"),
            ("six.example A", ""),
            ("both.example AAAA", "both.example 60 AAAA 2001:db8::1"),
            ("both.example A", "both.example 60 A 192.0.2.33"),
            ("none.example AAAA", ""),
            ("none.example A", ""),
            // HTTPS 1 of itself, with what upstream supplies.
            (
                "six.example HTTPS",
                "six.example 60 TYPE65 \\# 3 000100; additional; six.example 60 AAAA 2001:db8::1",
            ),
            (
                "both.example HTTPS",
                "both.example 60 TYPE65 \\# 23 000100 0006 0010 20010db8000000000000000000000001",
            ),
        ],
        queries: &[
            ("both.example AAAA", "NOERROR; both.example AAAA 2001:db8:64::c000:221"),
            ("none.example AAAA", "NOERROR; none; soa 1"),
            ("six.example AAAA", "NOERROR; six.example AAAA 2001:db8::1; no-ede"),
            (
                "six.example HTTPS",
                "NOERROR; additionals 1; additional six.example AAAA 2001:db8::1",
            ),
            (
                "both.example HTTPS",
                "NOERROR; both.example TYPE65 \\# 23 000100 0006 0010 20010db8000000000000000000000001; \
                 additionals 1; additional both.example AAAA 2001:db8:64::c000:221",
            ),
        ],
        differs: &[(Kind::Bind, "it removes the excluded records: an empty answer")],
        ..Row::NONE
    },
    Row {
        name: "A name that is always synthesised keeps its AAAA if it has no A",
        rfc: "CoreDNS #7246",
        config: "synthesis.always = [\"example\"]",
        unbound: With("dns64-ignore-aaaa: \"six.example\""),
        bind: With("exclude { any; };"),
        upstream: &[
            ("six.example AAAA", "six.example 60 AAAA 2001:db8::1"),
            ("six.example A", ""),
            ("bad.example AAAA", "bad.example 60 AAAA 2001:db8::1"),
            ("bad.example A", "SERVFAIL"),
        ],
        queries: &[
            ("six.example AAAA", "NOERROR; six.example AAAA 2001:db8::1"),
            ("bad.example AAAA", "NOERROR; bad.example AAAA 2001:db8::1"),
        ],
        differs: &[
            (Kind::Unbound, "it does not query AAAA for such a name: an empty answer"),
            (Kind::Bind, "it removes the excluded records: an empty answer"),
        ],
        ..Row::NONE
    },
];
