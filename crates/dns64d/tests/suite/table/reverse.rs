//! Reverse names under a prefix (RFC 6147 section 5.3.1) and `ipv4only.arpa` (RFC 7050, RFC 8880).

use crate::kit::server::Kind;
use crate::row::Peer::{Cannot, With};
use crate::row::Row;

/// Reverse name of 192.0.2.33 under 2001:db8:64::/96.
macro_rules! reverse {
    () => {
        "1.2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
    };
}

/// Reverse name of 192.0.2.33 under 64:ff9b::/96.
macro_rules! well_known_prefix {
    () => {
        "1.2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa"
    };
}

/// Reverse name of 192.0.2.33 under 2001:db8::/32, with the suffix ::5.
macro_rules! with_suffix {
    () => {
        "5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.2.2.0.0.0.0.c.8.b.d.0.1.0.0.2.ip6.arpa"
    };
}

/// Reverse name of 192.0.0.170 under 2001:db8:64::/96.
macro_rules! well_known {
    () => {
        "a.a.0.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
    };
}

/// Answer with a CNAME of a reverse name to that of 192.0.2.33 in `in-addr.arpa`, and the rest of the result.
macro_rules! alias {
    ($name:ident, $rest:literal) => {
        concat!("NOERROR; ", $name!(), " CNAME 33.2.0.192.in-addr.arpa", $rest)
    };
}

/// Query for the PTR records of the reverse name.
const ASKED: &str = concat!(reverse!(), " PTR");

/// The same for 192.0.2.34.
const NEXT: &str = "2.2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR";

const PTR: (&str, &str) =
    ("33.2.0.192.in-addr.arpa PTR", "33.2.0.192.in-addr.arpa 70 PTR v4.example");

/// How the other servers answer for ipv4only.arpa.
const IPV4ONLY: &[(Kind, &str)] = &[
    (Kind::Unbound, "it handles ipv4only.arpa like any other name (Unbound #793)"),
    (
        Kind::Bind,
        "it has no ipv4only.arpa zones of its own if it forwards all queries (`forward only`)",
    ),
];

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "PTR: a CNAME to in-addr.arpa, and its PTR",
        rfc: "RFC 6147 5.3.1",
        upstream: &[PTR],
        queries: &[(
            ASKED,
            alias!(reverse, "; 33.2.0.192.in-addr.arpa 70 PTR v4.example; ttl 86400"),
        )],
        differs: &[(Kind::Unbound, "it returns the PTR record under the original name")],
        ..Row::NONE
    },
    Row {
        name: "PTR: the CNAME can be cached",
        rfc: "PowerDNS #13010",
        upstream: &[PTR],
        queries: &[(ASKED, concat!("NOERROR; ttl 86400; asked ", "33.2.0.192.in-addr.arpa PTR"))],
        ..Row::NONE
    },
    Row {
        name: "PTR: under the original name (`in-place`)",
        rfc: "RFC 6147 5.3.1",
        config: "synthesis.ptr = \"in-place\"",
        unbound: With("# as it is"),
        bind: Cannot("it always returns a CNAME"),
        upstream: &[PTR],
        queries: &[(ASKED, concat!("NOERROR; ", reverse!(), " 70 PTR v4.example"))],
        ..Row::NONE
    },
    Row {
        name: "PTR: under the original name (`in-place`), no longer than the aliases before it are true",
        rfc: "RFC 6147 5.3.1, RFC 2317",
        config: "synthesis.ptr = \"in-place\"",
        unbound: With("# as it is"),
        bind: Cannot("it always returns a CNAME"),
        upstream: &[
            (
                "33.2.0.192.in-addr.arpa PTR",
                "33.2.0.192.in-addr.arpa 50 CNAME 33.0-63.2.0.192.in-addr.arpa",
            ),
            (
                "33.0-63.2.0.192.in-addr.arpa PTR",
                "33.0-63.2.0.192.in-addr.arpa 40 CNAME x.example; x.example 70 PTR v4.example",
            ),
            ("x.example PTR", "x.example 70 PTR v4.example"),
            // It ends in an alias.
            ("34.2.0.192.in-addr.arpa PTR", "34.2.0.192.in-addr.arpa 50 CNAME y.example"),
            ("y.example PTR", "y.example 70 PTR v4.example"),
        ],
        queries: &[
            (ASKED, concat!("NOERROR; ", reverse!(), " 40 PTR v4.example")),
            (NEXT, "NOERROR; ttl 50"),
        ],
        differs: &[(
            Kind::Unbound,
            "it returns the aliases instead, from the name in in-addr.arpa on",
        )],
        ..Row::NONE
    },
    Row {
        name: "PTR: a name made from the address (`local`)",
        rfc: "RFC 6147 5.3.1",
        config: "synthesis.ptr = \"local\"\nsynthesis.ptr-zone = \"nat64.example\"",
        unbound: Cannot("it always queries in-addr.arpa"),
        bind: Cannot("it has one name for all addresses (dns64-server), behind a CNAME"),
        upstream: &[PTR],
        queries: &[(
            ASKED,
            concat!(
                "NOERROR; ",
                reverse!(),
                " PTR 192-0-2-33.nat64.example; ttl 86400; unasked 33.2.0.192.in-addr.arpa PTR"
            ),
        )],
        ..Row::NONE
    },
    Row {
        name: "PTR: passed on",
        rfc: "RFC 6147 5.3.1",
        config: "synthesis.ptr = \"pass\"",
        unbound: Cannot("it always queries in-addr.arpa"),
        bind: Cannot("it always returns a CNAME"),
        upstream: &[PTR, (ASKED, concat!(reverse!(), " 70 PTR own.example"))],
        queries: &[(ASKED, concat!("NOERROR; ", reverse!(), " 70 PTR own.example"))],
        ..Row::NONE
    },
    Row {
        name: "PTR of an address without a name: NXDOMAIN, one SOA",
        rfc: "RFC 6147 5.3.1, RFC 2308",
        upstream: &[],
        queries: &[(ASKED, "NXDOMAIN; soa 1; asked 33.2.0.192.in-addr.arpa PTR")],
        ..Row::NONE
    },
    Row {
        name: "PTR of an address that is not mapped: a CNAME too",
        rfc: "RFC 6147 5.3.1",
        config: "dns64 = [{ prefix = \"2001:db8:64::/96\", not-mapped = [\"192.0.2.0/24\"] }]",
        unbound: Cannot("every IPv4 address is mapped"),
        bind: With("mapped { !192.0.2.0/24; any; };"),
        upstream: &[PTR],
        queries: &[(ASKED, alias!(reverse, "; 33.2.0.192.in-addr.arpa PTR v4.example"))],
        ..Row::NONE
    },
    Row {
        name: "PTR under the well-known prefix, also if another one is configured",
        rfc: "RFC 6147 5.3.1",
        upstream: &[PTR],
        queries: &[(
            concat!(well_known_prefix!(), " PTR"),
            alias!(well_known_prefix, "; 33.2.0.192.in-addr.arpa PTR v4.example"),
        )],
        differs: &[
            (Kind::Unbound, "it knows only its own prefix"),
            (Kind::Bind, "it knows only its own prefixes"),
        ],
        ..Row::NONE
    },
    Row {
        name: "PTR for a client that no block serves",
        rfc: "RFC 6147 5.3.1",
        config: "server.allow = [\"any\"]
                 dns64 = [{ prefix = \"2001:db8:64::/96\", clients = [\"127.0.0.2/32\"] }]",
        unbound: Cannot("one prefix for all clients"),
        bind: With("clients { 127.0.0.2; };"),
        upstream: &[PTR],
        queries: &[(
            concat!(reverse!(), " PTR +from=127.0.0.3"),
            alias!(reverse, "; 33.2.0.192.in-addr.arpa PTR v4.example"),
        )],
        ..Row::NONE
    },
    Row {
        name: "PTR for a query with DO and CD",
        rfc: "RFC 6147 5.3.1",
        upstream: &[PTR],
        queries: &[(
            concat!(reverse!(), " PTR +do +cd"),
            alias!(reverse, "; 33.2.0.192.in-addr.arpa PTR v4.example"),
        )],
        differs: &[(Kind::Unbound, "it returns the PTR record under the original name")],
        ..Row::NONE
    },
    Row {
        name: "Another type at a reverse name: the CNAME, and no data at its target",
        rfc: "RFC 6147 5.3.1, RFC 1034 3.6.2",
        upstream: &[PTR],
        queries: &[
            (concat!(reverse!(), " TXT"), alias!(reverse, "; soa 1")),
            (concat!(reverse!(), " CNAME"), alias!(reverse, "")),
        ],
        differs: &[(Kind::Unbound, "it handles only PTR under the prefix")],
        ..Row::NONE
    },
    Row {
        name: "PTR of an address without a name (`in-place`): NXDOMAIN, with the SOA of its own zone",
        rfc: "RFC 6147 5.3.1, RFC 2308",
        config: "synthesis.ptr = \"in-place\"",
        unbound: With("# as it is"),
        bind: Cannot("it always returns a CNAME"),
        upstream: &[
            // A delegation without classes (RFC 2317).
            (
                "33.2.0.192.in-addr.arpa PTR",
                "NXDOMAIN; 33.2.0.192.in-addr.arpa 60 CNAME 33.0-63.2.0.192.in-addr.arpa; soa",
            ),
        ],
        queries: &[(
            ASKED,
            "NXDOMAIN; none; soa 1; authority 0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa 60 SOA \
             0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa nobody.invalid 1 3600 1200 604800 60",
        )],
        differs: &[(Kind::Unbound, "the SOA record is that of in-addr.arpa")],
        ..Row::NONE
    },
    Row {
        name: "Another type at a reverse name (`in-place`): no data",
        rfc: "RFC 6147 5.3.1, RFC 2308",
        config: "synthesis.ptr = \"in-place\"",
        unbound: With("# as it is"),
        bind: Cannot("it always returns a CNAME"),
        upstream: &[PTR],
        queries: &[(concat!(reverse!(), " TXT"), "NOERROR; none; soa 1")],
        differs: &[(Kind::Unbound, "it handles only PTR under the prefix")],
        ..Row::NONE
    },
    Row {
        name: "Names above those of addresses exist, without records",
        rfc: "RFC 6147 5.3.1, RFC 8020",
        upstream: &[],
        queries: &[
            (
                "c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR",
                "NOERROR; none; soa 1",
            ),
            (
                "0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR",
                "NOERROR; none; soa 1",
            ),
            ("0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR", "NXDOMAIN"),
        ],
        differs: &[(Kind::Unbound, "it handles only complete addresses")],
        ..Row::NONE
    },
    Row {
        name: "PTR: the bits behind the IPv4 address do not matter, but the u octet does",
        rfc: "RFC 6052 2.2, 2.3",
        config: "dns64 = [{ prefix = \"2001:db8::/32\", suffix = \"::7\" }]",
        unbound: With("prefix: 2001:db8::/32"),
        bind: With("prefix: 2001:db8::/32"),
        upstream: &[PTR],
        queries: &[
            (
                concat!(with_suffix!(), " PTR"),
                alias!(with_suffix, "; 33.2.0.192.in-addr.arpa PTR v4.example"),
            ),
            (
                "5.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.1.2.2.0.0.0.0.c.8.b.d.0.1.0.0.2.ip6.arpa PTR",
                "NXDOMAIN",
            ),
        ],
        differs: &[(Kind::Unbound, "it returns the PTR record under the original name")],
        ..Row::NONE
    },
    Row {
        name: "PTR outside the prefixes passes",
        rfc: "RFC 6147 5.3.1",
        upstream: &[(
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.9.9.9.9.8.b.d.0.1.0.0.2.ip6.arpa PTR",
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.9.9.9.9.8.b.d.0.1.0.0.2.ip6.arpa 70 PTR six.example",
        )],
        queries: &[(
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.9.9.9.9.8.b.d.0.1.0.0.2.ip6.arpa PTR",
            "NOERROR; 1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.9.9.9.9.8.b.d.0.1.0.0.2.ip6.arpa 70 PTR six.example",
        )],
        ..Row::NONE
    },
    Row {
        name: "ipv4only.arpa AAAA: answered locally with both addresses, no upstream query",
        rfc: "RFC 7050 3, RFC 8880 7.1",
        upstream: &[
            ("ipv4only.arpa A", "ipv4only.arpa 60 A 203.0.113.66"),
            ("ipv4only.arpa AAAA", ""),
        ],
        queries: &[(
            "ipv4only.arpa AAAA",
            "NOERROR; ipv4only.arpa AAAA 2001:db8:64::c000:aa; ipv4only.arpa AAAA 2001:db8:64::c000:ab; \
             ede 29; ttl 86400; unasked ipv4only.arpa A; unasked ipv4only.arpa AAAA",
        )],
        differs: IPV4ONLY,
        ..Row::NONE
    },
    Row {
        name: "ipv4only.arpa AAAA under the well-known prefix, which maps no other special address",
        rfc: "RFC 7050 3, RFC 8880 7.1",
        config: "dns64 = [{ prefix = \"64:ff9b::/96\" }]",
        unbound: With("prefix: 64:ff9b::/96"),
        bind: With("prefix: 64:ff9b::/96"),
        upstream: &[
            ("ipv4only.arpa A", "ipv4only.arpa 60 A 192.0.0.170; ipv4only.arpa 60 A 192.0.0.171"),
            ("ipv4only.arpa AAAA", ""),
        ],
        queries: &[(
            "ipv4only.arpa AAAA",
            "NOERROR; ipv4only.arpa AAAA 64:ff9b::c000:aa; ipv4only.arpa AAAA 64:ff9b::c000:ab",
        )],
        ..Row::NONE
    },
    Row {
        name: "ipv4only.arpa AAAA also for a query with DO and CD",
        rfc: "RFC 7050 3, RFC 8880 7.1",
        upstream: &[
            ("ipv4only.arpa A", "ipv4only.arpa 60 A 192.0.0.170; ipv4only.arpa 60 A 192.0.0.171"),
            ("ipv4only.arpa AAAA", ""),
        ],
        queries: &[(
            "ipv4only.arpa AAAA +do +cd",
            "NOERROR; ipv4only.arpa AAAA 2001:db8:64::c000:aa; ipv4only.arpa AAAA 2001:db8:64::c000:ab; -ad",
        )],
        differs: &[(Kind::Unbound, "it handles ipv4only.arpa like any other name (Unbound #793)")],
        ..Row::NONE
    },
    Row {
        name: "ipv4only.arpa A: answered locally",
        rfc: "RFC 8880 7.1",
        upstream: &[("ipv4only.arpa A", "ipv4only.arpa 60 A 203.0.113.66")],
        queries: &[(
            "ipv4only.arpa A",
            "NOERROR; ipv4only.arpa A 192.0.0.170; ipv4only.arpa A 192.0.0.171; unasked ipv4only.arpa A",
        )],
        differs: IPV4ONLY,
        ..Row::NONE
    },
    Row {
        name: "ipv4only.arpa, another type: no data",
        rfc: "RFC 8880 7.1",
        upstream: &[("ipv4only.arpa TXT", "ipv4only.arpa 60 TXT \"no\"")],
        queries: &[("ipv4only.arpa TXT", "NOERROR; none; soa 1; unasked ipv4only.arpa TXT")],
        differs: IPV4ONLY,
        ..Row::NONE
    },
    Row {
        name: "ipv4only.arpa DS: passed on, as the delegation belongs to the parent zone",
        rfc: "RFC 8880",
        upstream: &[("ipv4only.arpa DS", "authority; arpa 3600 SOA ns.arpa host.arpa 1 2 3 4 300")],
        queries: &[(
            "ipv4only.arpa DS +do +cd",
            "NOERROR; none; authority arpa SOA ns.arpa host.arpa 1 2 3 4 300; asked ipv4only.arpa DS",
        )],
        ..Row::NONE
    },
    Row {
        name: "Names below ipv4only.arpa do not exist",
        rfc: "RFC 8880 7.1",
        upstream: &[("www.ipv4only.arpa AAAA", "www.ipv4only.arpa 60 AAAA 2001:db8::1")],
        queries: &[(
            "www.ipv4only.arpa AAAA",
            "NXDOMAIN; none; soa 1; unasked www.ipv4only.arpa AAAA",
        )],
        differs: IPV4ONLY,
        ..Row::NONE
    },
    Row {
        name: "PTR of the addresses synthesised for it: ipv4only.arpa",
        rfc: "RFC 8880 7.1",
        upstream: &[(
            "170.0.0.192.in-addr.arpa PTR",
            "170.0.0.192.in-addr.arpa 60 PTR other.example",
        )],
        queries: &[(
            concat!(well_known!(), " PTR"),
            concat!(
                "NOERROR; ",
                well_known!(),
                " PTR ipv4only.arpa; ttl 86400; unasked 170.0.0.192.in-addr.arpa PTR"
            ),
        )],
        differs: &[(Kind::Unbound, "it handles ipv4only.arpa like any other name (Unbound #793)")],
        ..Row::NONE
    },
    Row {
        name: "PTR of 192.0.0.170 and 192.0.0.171: ipv4only.arpa",
        rfc: "RFC 8880 7.1",
        upstream: &[(
            "170.0.0.192.in-addr.arpa PTR",
            "170.0.0.192.in-addr.arpa 60 PTR other.example",
        )],
        queries: &[
            (
                "170.0.0.192.in-addr.arpa PTR",
                "NOERROR; 170.0.0.192.in-addr.arpa PTR ipv4only.arpa; ttl 86400",
            ),
            (
                "171.0.0.192.in-addr.arpa PTR",
                "NOERROR; 171.0.0.192.in-addr.arpa PTR ipv4only.arpa; ttl 86400",
            ),
            ("170.0.0.192.in-addr.arpa TXT", "NOERROR; none; soa 1"),
        ],
        differs: IPV4ONLY,
        ..Row::NONE
    },
    Row {
        name: "ipv4only.arpa is passed to upstream if so configured",
        rfc: "RFC 8880 7.1",
        config: "synthesis.ipv4only-arpa = false",
        unbound: With("# as it is"),
        bind: With("options: ipv4only-enable no;"),
        upstream: &[
            ("ipv4only.arpa A", "ipv4only.arpa 60 A 192.0.0.170"),
            ("ipv4only.arpa AAAA", ""),
        ],
        queries: &[(
            "ipv4only.arpa AAAA",
            "NOERROR; ipv4only.arpa AAAA 2001:db8:64::c000:aa; asked ipv4only.arpa A",
        )],
        ..Row::NONE
    },
];
