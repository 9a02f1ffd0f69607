//! Numbers that IANA assigns for the DNS, and their names: record types, classes, opcodes, response codes.
//!
//! IANA can add numbers, so each is a newtype over the number in the message, not a closed enum: an unknown type is
//! written `TYPE1234` (RFC 3597 section 5) and is handled like any other.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A record type or query type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qtype(pub u16);

impl Qtype {
    /// An IPv4 address (RFC 1035).
    pub const A: Self = Self(1);
    /// A name server of a zone (RFC 1035).
    pub const NS: Self = Self(2);
    /// An alias of one name (RFC 1035).
    pub const CNAME: Self = Self(5);
    /// The start of authority (RFC 1035).
    pub const SOA: Self = Self(6);
    /// A pointer, used for reverse names (RFC 1035).
    pub const PTR: Self = Self(12);
    /// A host's hardware and system (RFC 1035).
    pub const HINFO: Self = Self(13);
    /// A mail exchanger (RFC 1035).
    pub const MX: Self = Self(15);
    /// Strings of free text (RFC 1035).
    pub const TXT: Self = Self(16);
    /// An IPv6 address (RFC 3596).
    pub const AAAA: Self = Self(28);
    /// Host and port of a service (RFC 2782).
    pub const SRV: Self = Self(33);
    /// An alias of a whole subtree (RFC 6672).
    pub const DNAME: Self = Self(39);
    /// The EDNS pseudo-record (RFC 6891).
    pub const OPT: Self = Self(41);
    /// A delegation signer (RFC 4034).
    pub const DS: Self = Self(43);
    /// A signature of DNSSEC (RFC 4034).
    pub const RRSIG: Self = Self(46);
    /// A zone key (RFC 4034).
    pub const DNSKEY: Self = Self(48);
    /// A proof of absence (RFC 4034).
    pub const NSEC: Self = Self(47);
    /// A proof of absence over hashed names (RFC 5155).
    pub const NSEC3: Self = Self(50);
    /// A service binding (RFC 9460).
    pub const SVCB: Self = Self(64);
    /// A service binding for HTTPS (RFC 9460).
    pub const HTTPS: Self = Self(65);
    /// A transaction signature (RFC 8945).
    pub const TSIG: Self = Self(250);
    /// An incremental transfer (RFC 1995).
    pub const IXFR: Self = Self(251);
    /// A zone transfer (RFC 5936).
    pub const AXFR: Self = Self(252);
    /// All types, in a query (RFC 1035, RFC 8482).
    pub const ANY: Self = Self(255);
}

impl FromStr for Qtype {
    type Err = QtypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let by_name = TYPES.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        if let Some(&(number, _)) = by_name {
            return Ok(Self(number));
        }
        if text == "*" {
            return Ok(Self::ANY);
        }
        if text.eq_ignore_ascii_case("DOA") {
            // BIND writes type 259 by its former name.
            return Ok(Self(259));
        }
        generic_number("TYPE", text).map(Self).ok_or_else(|| QtypeError(text.into()))
    }
}

impl fmt::Display for Qtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TYPES.binary_search_by_key(&self.0, |&(number, _)| number) {
            Ok(found) => f.pad(TYPES[found].1),
            Err(_) => f.pad(&format!("TYPE{}", self.0)),
        }
    }
}

/// The error for a text that is not a record type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a record type: write a name such as AAAA, or TYPE and a number from 0 to 65535"
)]
pub struct QtypeError(pub String);

/// A class; nearly always IN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Qclass(pub u16);

impl Qclass {
    /// The Internet, the class of nearly all records.
    pub const IN: Self = Self(1);
    /// Chaos, used to query the version of a server.
    pub const CH: Self = Self(3);
    /// Any class, in a query or an update.
    pub const ANY: Self = Self(255);
}

impl FromStr for Qclass {
    type Err = QclassError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = [1, 3, 4, 254, 255].map(Self);
        let by_name = named.into_iter().find(|class| class.to_string().eq_ignore_ascii_case(text));
        let class = by_name.or_else(|| generic_number("CLASS", text).map(Self));
        class.ok_or_else(|| QclassError(text.into()))
    }
}

/// The error for a text that is not a class.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a class: write IN, CH, HS, NONE, ANY, or CLASS and a number from 0 to 65535")]
pub struct QclassError(pub String);

impl fmt::Display for Qclass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.pad("IN"),
            3 => f.pad("CH"),
            4 => f.pad("HS"),
            254 => f.pad("NONE"),
            255 => f.pad("ANY"),
            other => f.pad(&format!("CLASS{other}")),
        }
    }
}

/// The opcode of a message: four bits of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

impl Opcode {
    /// A standard query (RFC 1035).
    pub const QUERY: Self = Self(0);
    /// A request to change a zone (RFC 2136).
    pub const UPDATE: Self = Self(5);
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match OPCODES.get(usize::from(self.0)) {
            Some(name) if !name.is_empty() => f.pad(name),
            _ => f.pad(&self.0.to_string()),
        }
    }
}

/// A response code; the four bits of the header, or twelve with EDNS (RFC 6891 section 6.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rcode(pub u16);

impl Rcode {
    /// The query succeeded, with or without an answer.
    pub const NOERROR: Self = Self(0);
    /// The server could not read the query.
    pub const FORMERR: Self = Self(1);
    /// The server failed to process the query.
    pub const SERVFAIL: Self = Self(2);
    /// The name does not exist.
    pub const NXDOMAIN: Self = Self(3);
    /// The server does not support the request.
    pub const NOTIMP: Self = Self(4);
    /// The server refuses the request.
    pub const REFUSED: Self = Self(5);
    /// A name that exists although it should not (RFC 2136), or one that is too long (RFC 6672 section 2.2).
    pub const YXDOMAIN: Self = Self(6);
    /// The server is not authoritative for the zone.
    pub const NOTAUTH: Self = Self(9);
    /// The server does not support the EDNS version (16 needs an OPT record).
    pub const BADVERS: Self = Self(16);
    /// The server requests a cookie that it has generated (RFC 7873; 23 needs an OPT record).
    pub const BADCOOKIE: Self = Self(23);
}

impl From<u8> for Rcode {
    fn from(code: u8) -> Self {
        Self(code.into())
    }
}

impl fmt::Display for Rcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match RCODES.get(usize::from(self.0)) {
            Some(name) if !name.is_empty() => f.pad(name),
            _ => f.pad(&format!("RCODE{}", self.0)),
        }
    }
}

/// Reads the number in `TYPE123` or `CLASS123`; only digits may follow the word.
fn generic_number(wanted: &str, text: &str) -> Option<u16> {
    let (word, digits) = text.split_at_checked(wanted.len())?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (plain && word.eq_ignore_ascii_case(wanted)).then(|| digits.parse().ok())?
}

/// Names of the opcodes by number; empty where IANA has none.
const OPCODES: [&str; 7] = ["QUERY", "IQUERY", "STATUS", "", "NOTIFY", "UPDATE", "DSO"];

/// Names of the response codes by number; empty where IANA has none.
#[rustfmt::skip]
const RCODES: [&str; 24] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
    "NOTZONE", "DSOTYPENI", "", "", "", "", "BADVERS", "BADKEY", "BADTIME", "BADMODE", "BADNAME", "BADALG",
    "BADTRUNC", "BADCOOKIE",
];

/// Record types by number, from the IANA registry, sorted.
#[rustfmt::skip]
const TYPES: [(u16, &str); 98] = [
    (1, "A"), (2, "NS"), (3, "MD"), (4, "MF"), (5, "CNAME"), (6, "SOA"),
    (7, "MB"), (8, "MG"), (9, "MR"), (10, "NULL"), (11, "WKS"), (12, "PTR"),
    (13, "HINFO"), (14, "MINFO"), (15, "MX"), (16, "TXT"), (17, "RP"), (18, "AFSDB"),
    (19, "X25"), (20, "ISDN"), (21, "RT"), (22, "NSAP"), (23, "NSAP-PTR"), (24, "SIG"),
    (25, "KEY"), (26, "PX"), (27, "GPOS"), (28, "AAAA"), (29, "LOC"), (30, "NXT"),
    (31, "EID"), (32, "NIMLOC"), (33, "SRV"), (34, "ATMA"), (35, "NAPTR"), (36, "KX"),
    (37, "CERT"), (38, "A6"), (39, "DNAME"), (40, "SINK"), (41, "OPT"), (42, "APL"),
    (43, "DS"), (44, "SSHFP"), (45, "IPSECKEY"), (46, "RRSIG"), (47, "NSEC"), (48, "DNSKEY"),
    (49, "DHCID"), (50, "NSEC3"), (51, "NSEC3PARAM"), (52, "TLSA"), (53, "SMIMEA"), (55, "HIP"),
    (56, "NINFO"), (57, "RKEY"), (58, "TALINK"), (59, "CDS"), (60, "CDNSKEY"), (61, "OPENPGPKEY"),
    (62, "CSYNC"), (63, "ZONEMD"), (64, "SVCB"), (65, "HTTPS"), (66, "DSYNC"), (67, "HHIT"),
    (68, "BRID"), (99, "SPF"),
    (100, "UINFO"), (101, "UID"), (102, "GID"), (103, "UNSPEC"), (104, "NID"), (105, "L32"),
    (106, "L64"), (107, "LP"), (108, "EUI48"), (109, "EUI64"), (128, "NXNAME"), (249, "TKEY"),
    (250, "TSIG"), (251, "IXFR"), (252, "AXFR"), (253, "MAILB"), (254, "MAILA"), (255, "ANY"),
    (256, "URI"), (257, "CAA"), (258, "AVC"), (259, "DOI"), (260, "AMTRELAY"), (261, "RESINFO"),
    (262, "WALLET"), (263, "CLA"), (264, "IPN"), (32768, "TA"), (32769, "DLV"),
    // Private type of named for the keys that it tracks (RFC 5011): a type for private use.
    (65533, "KEYDATA"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_sorted_and_unique() {
        assert!(TYPES.is_sorted_by(|a, b| a.0 < b.0));
        for (number, name) in TYPES {
            assert_eq!(name.parse(), Ok(Qtype(number)));
            assert_eq!(Qtype(number).to_string(), name);
        }
    }

    #[test]
    fn classes_are_read() {
        for (text, number) in [("IN", 1), ("ch", 3), ("CLASS3", 3), ("class65535", 65_535)] {
            assert_eq!(text.parse(), Ok(Qclass(number)), "{text}");
            assert_eq!(Qclass(number).to_string().parse(), Ok(Qclass(number)), "{text}");
        }
        for text in ["", "X", "CLASS", "CLASS65536", "3", "TYPE3", "CL\u{e4}SS1"] {
            let error = text.parse::<Qclass>().unwrap_err().to_string();
            assert!(error.contains("is not a class"), "{text}: {error}");
        }
    }

    #[test]
    fn types_are_read() {
        for (text, number) in [
            ("AAAA", 28),
            ("aaaa", 28),
            ("TYPE65", 65),
            ("type0", 0),
            ("TYPE65535", 65535),
            ("*", 255),
            ("ANY", 255),
            ("NSAP-PTR", 23),
        ] {
            assert_eq!(text.parse(), Ok(Qtype(number)), "{text}");
        }
        for text in
            ["", "AAAAA", "TYPE", "TYPE65536", "TYPE-1", "TYPE+1", "TYPE 1", "28", "ÄÄ", "TYP€1"]
        {
            let error = text.parse::<Qtype>().unwrap_err().to_string();
            assert!(error.contains("is not a record type"), "{text}: {error}");
        }
    }

    #[test]
    fn unknown_numbers_are_printed() {
        assert_eq!(Qtype(4711).to_string(), "TYPE4711");
        assert_eq!(Qtype(65).to_string(), "HTTPS");
        assert_eq!(format!("{:>6}|", Qtype::A), "     A|");
        assert_eq!(Rcode(2).to_string(), "SERVFAIL");
        assert_eq!(Rcode(12).to_string(), "RCODE12");
        assert_eq!(Rcode(4095).to_string(), "RCODE4095");
        assert_eq!(Rcode::BADVERS.to_string(), "BADVERS");
    }

    proptest::proptest! {
        #[test]
        fn every_number_round_trips(number: u16) {
            proptest::prop_assert_eq!(Qtype(number).to_string().parse(), Ok(Qtype(number)));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<Qtype>();
        }
    }
}
