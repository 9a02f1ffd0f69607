//! DO, CD and AD (RFC 6147 sections 3 and 5.5).

use super::synthesis::V4;
use crate::kit::server::Kind;
use crate::row::Peer::{Cannot, With};
use crate::row::Row;

const SIGNED: &str = "v4.example 60 A 192.0.2.33; \
    v4.example 60 RRSIG A 13 2 60 20300101000000 20200101000000 1 example. AAAA";
const SIGNED_SOA: &str = "soa; \
    example 3600 RRSIG SOA 13 1 3600 20300101000000 20200101000000 1 example. AAAA";
const SIGNED_ALIAS: &str = "www.example 50 CNAME v4.example; \
    www.example 50 RRSIG CNAME 13 2 60 20300101000000 20200101000000 1 example. AAAA";
const AD: &[(&str, &str)] = &[
    ("v4.example A", "ad; v4.example 60 A 192.0.2.33"),
    ("v4.example AAAA", "ad; soa"),
    ("six.example AAAA", "ad; six.example 60 AAAA 2001:db8::1"),
];

/// A signed record, and the signed NS records of a zone above its domain.
const WITH_NS: &str = "www.zone.example 60 A 192.0.2.33; \
    www.zone.example 60 RRSIG A 13 3 60 20300101000000 20200101000000 1 example. AAAA; authority; \
    example 60 NS ns.example; \
    example 60 RRSIG NS 13 1 60 20300101000000 20200101000000 1 example. AAAA";

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "DO and CD: passed on unchanged, A is not queried",
        rfc: "RFC 6147 5.5",
        upstream: V4,
        queries: &[(
            "v4.example AAAA +do +cd",
            "NOERROR; none; soa 1; unasked v4.example A; asked-with v4.example AAAA +do +cd",
        )],
        differs: &[(Kind::Bind, "it passes on only signed records unchanged")],
        ..Row::NONE
    },
    Row {
        name: "DO and CD with break-dnssec: synthesised",
        rfc: "BIND break-dnssec",
        config: "synthesis.break-dnssec = true",
        unbound: Cannot("no such setting"),
        bind: With("break-dnssec yes;"),
        upstream: V4,
        queries: &[(
            "v4.example AAAA +do +cd",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; -ad",
        )],
        ..Row::NONE
    },
    Row {
        name: "DO alone: synthesised, never AD",
        rfc: "RFC 6147 5.5",
        upstream: AD,
        queries: &[(
            "v4.example AAAA +do",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; -ad; echo-do",
        )],
        ..Row::NONE
    },
    Row {
        name: "CD alone: synthesised, and CD is sent upstream",
        rfc: "RFC 6147 5.5",
        upstream: V4,
        queries: &[(
            "v4.example AAAA +cd",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; +cd; -ad; asked-with v4.example A +cd",
        )],
        differs: &[(Kind::Unbound, "it synthesises nothing for a client that sets CD")],
        ..Row::NONE
    },
    Row {
        name: "AD requested: never set on synthesised answers",
        rfc: "RFC 6147 5.5",
        upstream: AD,
        queries: &[("v4.example AAAA +ad", "NOERROR; v4.example AAAA 2001:db8:64::c000:221; -ad")],
        ..Row::NONE
    },
    Row {
        name: "AD passes with answers from upstream",
        rfc: "RFC 6840 5.8",
        upstream: AD,
        queries: &[("six.example AAAA +ad", "NOERROR; six.example AAAA 2001:db8::1; +ad")],
        differs: &[
            (Kind::Unbound, "it sets AD only on answers that it has validated itself"),
            (Kind::Bind, "it sets AD only on answers that it has validated itself"),
        ],
        ..Row::NONE
    },
    Row {
        name: "AD of upstream is not believed if so configured",
        rfc: "RFC 4035 4.9.3",
        config: "upstream.trust-ad = \"never\"",
        unbound: With("# as it is"),
        bind: With("# as it is"),
        upstream: AD,
        queries: &[("six.example AAAA +ad", "NOERROR; six.example AAAA 2001:db8::1; -ad")],
        ..Row::NONE
    },
    Row {
        name: "AD is cleared if records were removed",
        rfc: "RFC 4035 3.2.3, RFC 6147 5.1.4",
        unbound: Cannot("no exclusion by address"),
        upstream: &[(
            "six.example AAAA",
            "ad; six.example 60 AAAA 2001:db8::1; six.example 60 AAAA ::ffff:192.0.2.1",
        )],
        queries: &[("six.example AAAA +ad", "NOERROR; six.example AAAA 2001:db8::1; -ad")],
        ..Row::NONE
    },
    Row {
        name: "AD is cleared if the absence of A stands for that of AAAA",
        rfc: "RFC 4035 3.2.3, RFC 6147 5.1.6",
        upstream: &[("txt.example A", "ad; soa"), ("txt.example AAAA", "")],
        queries: &[("txt.example AAAA +ad", "NOERROR; none; soa 1; -ad")],
        ..Row::NONE
    },
    Row {
        name: "AD is not set for clients that did not request it",
        rfc: "RFC 6840 5.8",
        upstream: AD,
        queries: &[("six.example AAAA", "NOERROR; six.example AAAA 2001:db8::1; -ad")],
        ..Row::NONE
    },
    Row {
        name: "No signatures with synthesised records",
        rfc: "RFC 6147 5.5",
        upstream: &[("v4.example A", SIGNED), ("v4.example AAAA", "")],
        queries: &[(
            "v4.example AAAA +do",
            "NOERROR; no-rrsig; v4.example AAAA 2001:db8:64::c000:221",
        )],
        differs: &[(
            Kind::Bind,
            "it synthesises nothing from signed records for a client that sets DO",
        )],
        ..Row::NONE
    },
    Row {
        name: "leave-alone = signed: signed data is passed on to a client that sets DO",
        rfc: "BIND break-dnssec",
        config: "synthesis.leave-alone = \"signed\"",
        unbound: Cannot("no such setting"),
        bind: With("# as it is"),
        upstream: &[("v4.example A", SIGNED), ("v4.example AAAA", SIGNED_SOA)],
        queries: &[
            ("v4.example AAAA +do", "NOERROR; none; soa 1"),
            ("v4.example AAAA +do +cd", "NOERROR; none; soa 1"),
            ("v4.example AAAA", "NOERROR; v4.example AAAA 2001:db8:64::c000:221"),
        ],
        ..Row::NONE
    },
    Row {
        name: "leave-alone = signed: unsigned data is synthesised, also for a client that sets DO and CD",
        rfc: "BIND break-dnssec",
        config: "synthesis.leave-alone = \"signed\"",
        unbound: Cannot("no such setting"),
        bind: With("# as it is"),
        upstream: V4,
        queries: &[(
            "v4.example AAAA +do +cd",
            "NOERROR; v4.example AAAA 2001:db8:64::c000:221; -ad",
        )],
        ..Row::NONE
    },
    Row {
        name: "Signatures of aliases are kept for a client that sets DO",
        rfc: "RFC 4035 3.1.1, RFC 6147 5.1.5",
        upstream: &[
            ("www.example AAAA", SIGNED_ALIAS),
            ("www.example A", SIGNED_ALIAS),
            ("v4.example A", "v4.example 60 A 192.0.2.33"),
            ("v4.example AAAA", ""),
        ],
        queries: &[(
            "www.example AAAA +do",
            "NOERROR; www.example CNAME v4.example; \
             www.example RRSIG CNAME 13 2 60 20300101000000 20200101000000 1 example. AAAA; \
             v4.example AAAA 2001:db8:64::c000:221",
        )],
        ..Row::NONE
    },
    Row {
        name: "Signatures of other types pass",
        rfc: "RFC 6147 5.3.3",
        upstream: &[("v4.example A", SIGNED)],
        queries: &[(
            "v4.example A +do",
            "NOERROR; v4.example A 192.0.2.33; v4.example RRSIG A 13 2 60 20300101000000 20200101000000 1 example. AAAA; asked-with v4.example A +do",
        )],
        ..Row::NONE
    },
    Row {
        name: "No signature without its records: NS above the name's domain are left out with theirs",
        rfc: "RFC 4035 3.1.1",
        upstream: &[
            ("www.zone.example A", WITH_NS),
            (
                "www.zone.example TXT",
                "www.zone.example 60 TXT \"x\"; additional; ns.zone.example 60 RRSIG A 13 3 60 20300101000000 20200101000000 1 example. AAAA",
            ),
        ],
        queries: &[
            ("www.zone.example A +do", "NOERROR; no-authority"),
            ("www.zone.example A +do +cd", "NOERROR; no-authority"),
            ("www.zone.example TXT +do", "NOERROR; www.zone.example TXT \"x\"; no-additional"),
        ],
        ..Row::NONE
    },
];
