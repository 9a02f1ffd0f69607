//! Numbers that have names in zone files, as BIND and the registries of IANA spell them.

/// Names of numbers, which are read only: numbers are printed as numbers.
pub(super) type Codes = [(&'static str, u16)];

/// Algorithms of keys and signatures (RFC 8624).
pub(super) const ALGORITHMS: [(&str, u16); 18] = [
    ("RSAMD5", 1),
    ("DH", 2),
    ("DSA", 3),
    ("ECC", 4),
    ("RSASHA1", 5),
    ("NSEC3DSA", 6),
    ("DSA-NSEC3-SHA1", 6),
    ("NSEC3RSASHA1", 7),
    ("RSASHA1-NSEC3-SHA1", 7),
    ("RSASHA256", 8),
    ("RSASHA512", 10),
    ("ECCGOST", 12),
    ("ECDSAP256SHA256", 13),
    ("ECDSAP384SHA384", 14),
    ("ED25519", 15),
    ("ED448", 16),
    ("PRIVATEDNS", 253),
    ("PRIVATEOID", 254),
];

/// Digest types of DS records that have a name (IANA).
pub(super) const DIGESTS: [(&str, u16); 7] = [
    ("SHA-1", 1),
    ("SHA1", 1),
    ("SHA-256", 2),
    ("SHA256", 2),
    ("GOST", 3),
    ("SHA-384", 4),
    ("SHA384", 4),
];

/// Hash functions of NSEC3 (RFC 5155).
pub(super) const HASHES: [(&str, u16); 2] = [("SHA-1", 1), ("SHA1", 1)];

/// Kinds of certificates (RFC 4398).
pub(super) const CERTIFICATES: [(&str, u16); 10] = [
    ("PKIX", 1),
    ("SPKI", 2),
    ("PGP", 3),
    ("IPKIX", 4),
    ("ISPKI", 5),
    ("IPGP", 6),
    ("ACPKIX", 7),
    ("IACPKIX", 8),
    ("URI", 253),
    ("OID", 254),
];

/// Protocols of keys (RFC 2535 section 3.1.3).
pub(super) const PROTOCOLS: [(&str, u16); 6] =
    [("NONE", 0), ("TLS", 1), ("EMAIL", 2), ("DNSSEC", 3), ("IPSEC", 4), ("ALL", 255)];

/// Flags of keys (RFC 2535 section 3.1.2, RFC 4034); several are joined by `|`.
pub(super) const FLAGS: [(&str, u16); 18] = [
    ("NOCONF", 0x4000),
    ("NOAUTH", 0x8000),
    ("NOKEY", 0xc000),
    ("EXTEND", 0x1000),
    ("USER", 0),
    ("ZONE", 0x0100),
    ("HOST", 0x0200),
    ("NTYP3", 0x0300),
    ("KSK", 0x0001),
    ("SEP", 0x0001),
    ("REVOKE", 0x0080),
    ("FLAG2", 0x2000),
    ("FLAG4", 0x0800),
    ("FLAG5", 0x0400),
    ("FLAG8", 0x0080),
    ("FLAG9", 0x0040),
    ("FLAG10", 0x0020),
    ("FLAG11", 0x0010),
];

/// Schemes of DSYNC (RFC 9859).
pub(super) const SCHEMES: [(&str, u16); 1] = [("NOTIFY", 1)];

/// Transport protocols of WKS and their numbers.
pub(super) const TRANSPORTS: [(&str, u16); 3] = [("ICMP", 1), ("TCP", 6), ("UDP", 17)];

/// Services of WKS and their ports.
pub(super) const SERVICES: [(&str, u16); 27] = [
    ("tcpmux", 1),
    ("echo", 7),
    ("discard", 9),
    ("systat", 11),
    ("daytime", 13),
    ("netstat", 15),
    ("qotd", 17),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("nameserver", 42),
    ("domain", 53),
    ("tftp", 69),
    ("gopher", 70),
    ("finger", 79),
    ("http", 80),
    ("pop3", 110),
    ("sunrpc", 111),
    ("nntp", 119),
    ("ntp", 123),
    ("imap2", 143),
    ("snmp", 161),
    ("https", 443),
];

/// Returns the number of a name, without regard to case.
pub(super) fn number(codes: &Codes, name: &[u8]) -> Option<u16> {
    codes.iter().find(|(own, _)| own.as_bytes().eq_ignore_ascii_case(name)).map(|found| found.1)
}
