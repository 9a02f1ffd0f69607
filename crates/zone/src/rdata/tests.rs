use proptest::prelude::*;

use super::*;

/// The zone of relative names.
const ORIGIN: &[u8] = b"\x07example\0";

fn read(rtype: Rtype, text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    parse(rtype, &mut Words::new(text), ORIGIN, &mut out).map_err(|mistake| mistake.why)?;
    Ok(out)
}

fn rtype(name: &str) -> Rtype {
    name.parse().unwrap_or_else(|_| {
        let wire::Qtype(number) = name.parse().expect("a type");
        Rtype::from_int(number)
    })
}

/// Types with a text, and that text as it is printed; empty if it is printed as it was.
const TEXTS: [(&str, &str, &str); 80] = [
    ("A", "192.0.2.1", ""),
    ("NS", "ns1", "ns1.example."),
    ("MD", "@", "example."),
    ("SOA", "@ h ( 1 1h ; refresh\n 15m 1w2d 5 )", "example. h.example. 1 3600 900 777600 5"),
    ("WKS", "192.0.2.1 TCP smtp domain 80", "192.0.2.1 6 25 53 80"),
    ("WKS", "192.0.2.1 17", ""),
    ("HINFO", "PC \"Linux 6\"", "\"PC\" \"Linux 6\""),
    ("MINFO", "a.example. .", ""),
    ("MX", "10 mail", "10 mail.example."),
    ("TXT", "one \"t\\\"w\\111\" \\097\\;b", "\"one\" \"t\\\"wo\" \"a;b\""),
    ("TXT", "\"\"", ""),
    ("TXT", "\\# text", "\"#\" \"text\""),
    ("AFSDB", "0 a.example.", ""),
    ("X25", "311061700956", "\"311061700956\""),
    ("ISDN", "\"150862028003217\"", ""),
    ("ISDN", "\"150862028003217\" \"004\"", ""),
    ("NSAP", "0x47.0005.80.005a", "0x47000580005a"),
    ("KEY", "USER|NOCONF DNSSEC RSASHA1 AQID", "16384 3 5 AQID"),
    ("KEY", "49152 3 1", ""),
    ("KEY", "0x100 3 5 AQID", "256 3 5 AQID"),
    ("KEY", "NOKEY|FLAG2 255 0", "57344 255 0"),
    ("DOA", "0 1 2 \"text/html\" AQID", ""),
    ("KEYDATA", "20260101000000 0 0 KSK DNSSEC ED25519 AQID", "1767225600 0 0 1 3 15 AQID"),
    ("PX", "50 a.example. b.example.", ""),
    ("GPOS", "-22.6882 116.8652 250.0", "\"-22.6882\" \"116.8652\" \"250.0\""),
    ("AAAA", "2001:db8::1", ""),
    ("LOC", "60 9 N 24 39 E 10", "60 9 0.000 N 24 39 0.000 E 10.00m 1.00m 10000.00m 10.00m"),
    (
        "LOC",
        "60 9 .5 N 24 39 E -.5m .2",
        "60 9 0.500 N 24 39 0.000 E -0.50m 0.20m 10000.00m 10.00m",
    ),
    (
        "LOC",
        "52 22 23.5 s 4 53 32 w -2m 0 20m 3.00m",
        "52 22 23.500 S 4 53 32.000 W -2.00m 0.00m 20.00m 3.00m",
    ),
    ("NXT", "a.example. A 127 NXT", "a.example. A NXT TYPE127"),
    ("EID", "12 89AB", "1289ab"),
    ("SRV", "0 5 5060 sip", "0 5 5060 sip.example."),
    ("ATMA", "+61.200", "+61200"),
    ("ATMA", "39.246f00", "39246f00"),
    (
        "NAPTR",
        "100 50 \"s\" z3950+I2L+I2C \"\" _z3950._tcp",
        "100 50 \"s\" \"z3950+I2L+I2C\" \"\" _z3950._tcp.example.",
    ),
    ("KX", "2 a.example.", ""),
    ("CERT", "PGP 0 RSASHA256 AQID BAUG", "3 0 8 AQIDBAUG"),
    ("A6", "0 2001:db8::1", ""),
    ("A6", "64 ::1 sub.example.", ""),
    ("A6", "128 sub.example.", ""),
    ("DNAME", ".", ""),
    ("SINK", "1 0 0 AQID", ""),
    ("APL", "1:192.0.2.0/24 !2:2001:db8::/32", ""),
    ("APL", "", ""),
    ("DS", "4711 ECDSAP256SHA256 SHA-256 00 FF", "4711 13 2 00ff"),
    ("SSHFP", "1 1 123456789abcdef67890123456789abcdef67890", ""),
    ("IPSECKEY", "10 1 2 192.0.2.38 AQID", ""),
    ("IPSECKEY", "10 0 2 . AQID", ""),
    ("IPSECKEY", "10 2 2 2001:db8::1 AQID", ""),
    ("IPSECKEY", "10 3 0 gw.example.", ""),
    (
        "RRSIG",
        "A ED25519 2 300 20260101000000 20251231235959 1 @ AQID",
        "A 15 2 300 1767225600 1767225599 1 example. AQID",
    ),
    ("NSEC", "b.example. A MX RRSIG NSEC TYPE1234", ""),
    ("NSEC", "b.example.", ""),
    ("DNSKEY", "257 3 8 AQID", ""),
    ("DHCID", "AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=", ""),
    (
        "NSEC3",
        "1 1 12 aabbccdd 2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG",
        "1 1 12 aabbccdd 2VPTU5TIMAMQTTGL4LUU9KG21E0AOR3S A RRSIG",
    ),
    (
        "NSEC3",
        "SHA-1 0 0 - 2vptu5timamqttgl4luu9kg21e0aor3s",
        "1 0 0 - 2VPTU5TIMAMQTTGL4LUU9KG21E0AOR3S",
    ),
    ("NSEC3PARAM", "1 0 0 -", ""),
    ("TLSA", "3 1 1 00ff", ""),
    ("SMIMEA", "3 1 1 00 ff", "3 1 1 00ff"),
    ("HIP", "2 200100107b1a74df365639cc39f1d578 AQID rvs.example.", ""),
    ("CDS", "0 0 0 00", ""),
    ("OPENPGPKEY", "AQID", ""),
    ("CSYNC", "66 3 A NS AAAA", ""),
    ("ZONEMD", "2018031900 1 1 00ff", ""),
    ("SVCB", "0 pool", "0 pool.example."),
    ("HTTPS", "1 . port=443 alpn=h2,h3", "1 . alpn=\"h2,h3\" port=\"443\""),
    (
        "SVCB",
        "16 . alpn=\"f\\\\\\\\oo\\\\,bar,h2\" no-default-alpn mandatory=port,alpn port=1",
        "16 . mandatory=\"alpn,port\" alpn=\"f\\\\\\\\oo\\\\,bar,h2\" no-default-alpn port=\"1\"",
    ),
    (
        "SVCB",
        "1 . alpn=f\\\\\\092oo\\092,bar,h2 key667=hello\\210qoo",
        "1 . alpn=\"f\\\\\\\\oo\\\\,bar,h2\" key667=\"hello\\210qoo\"",
    ),
    (
        "SVCB",
        "1 . ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1 ech=AQID dohpath=/q{?dns} key9",
        "1 . ipv4hint=\"192.0.2.1,192.0.2.2\" ech=\"AQID\" ipv6hint=\"2001:db8::1\" dohpath=\"/q{?dns}\" key9=\"\"",
    ),
    ("NID", "10 14:4fff:ff20:ee64", "10 0014:4fff:ff20:ee64"),
    ("L32", "10 192.0.2.1", ""),
    ("LP", "10 l64.example.", ""),
    ("EUI48", "00-00-5e-00-53-2a", ""),
    ("EUI64", "00-00-5e-ef-10-00-00-2a", ""),
    ("URI", "10 1 \"ftp://a/b c\"", ""),
    ("CAA", "128 issue \"ca.example; account=1\"", ""),
    ("AMTRELAY", "10 1 1 192.0.2.1", ""),
    ("AMTRELAY", "10 0 3 amt.example.", ""),
    ("DLV", "1 8 2 00ff", ""),
];

#[test]
fn every_type_is_read_and_printed() {
    for (name, text, printed) in TEXTS {
        let rtype = rtype(name);
        let data =
            read(rtype, text.as_bytes()).unwrap_or_else(|why| panic!("{name} {text}: {why}"));
        let mut out = Vec::new();
        assert!(print(rtype, &data, &mut out), "{name} {text}: {data:02x?}");
        let out = String::from_utf8(out).expect("ASCII");
        assert_eq!(out, if printed.is_empty() { text } else { printed }, "{name}");
        assert_eq!(read(rtype, out.as_bytes()).as_ref(), Ok(&data), "{name} {out}");
        let mut generic = format!("\\# {} ", data.len()).into_bytes();
        encoded::put_hex(&data, &mut generic);
        assert_eq!(read(rtype, &generic), Ok(data), "{name}");
    }
}

#[test]
fn mistakes_are_named() {
    for (name, text, part) in [
        ("A", "192.0.2.300", "`192.0.2.300` is not an IPv4 address"),
        ("A", "192.0.2.1 x", "the record is complete: remove this word"),
        ("A", "", "an IPv4 address is missing"),
        ("MX", "70000 a", "`70000` is not a whole number up to 65535"),
        ("MX", "1 a..b", "two dots in a row"),
        ("MX", "1 \\999", "an invalid escape"),
        ("TXT", "", "a text is missing"),
        ("DS", "1 NOALG 1 00", "nor a known name such as RSAMD5"),
        ("DS", "1 8 2", "missing"),
        ("DS", "1 8 2 0", "an odd number"),
        ("DNSKEY", "257 3 8 A", "not base64"),
        ("NSEC", "a A AX", "`AX` is not a record type"),
        ("LOC", "90 1 N 0 E 0", "larger than 90 degrees"),
        ("LOC", "9 60 N 0 E 0", "degrees, minutes or seconds"),
        ("RRSIG", "A 8 2 300 20261301000000 0 1 . AQID", "YYYYMMDDHHMMSS"),
        ("CAA", "0 is-sue x", "a tag of letters and digits"),
        ("SVCB", "1 . alpn", "a valid value"),
        ("SVCB", "1 . port=1 port=2", "given twice"),
        ("SVCB", "1 . kex=1", "keyNNNNN"),
        ("SVCB", "1 . mandatory=alpn,port port=1", "`mandatory` names is missing"),
        ("SVCB", "\\# 9 0001 00 0000 0002 0001", "not data of the type SVCB"),
        ("APL", "3:1/1", "an address prefix such as"),
        ("TYPE4711", "x", "\\# LENGTH HEX"),
        ("TYPE4711", "\\# 2 00", "has 1 octets, not 2"),
        ("A", "\\# 3 000000", "not data of the type A"),
        ("NULL", "x", "\\# LENGTH HEX"),
    ] {
        let why = read(rtype(name), text.as_bytes()).expect_err(text);
        assert!(why.contains(part), "{name} {text}: {why}");
    }
    assert_eq!(read(rtype("TYPE4711"), b"\\# 0"), Ok(vec![]));
}

proptest! {
    /// What is printed reads back as the same octets.
    #[test]
    fn printed_octets_read_back(number in 0u16..270, mut data: Vec<u8>, zeros in 0usize..24) {
        data.extend(vec![0; zeros]);
        let rtype = Rtype::from_int(number);
        let mut out = Vec::new();
        if print(rtype, &data, &mut out) {
            let text = String::from_utf8(out).expect("ASCII");
            prop_assert_eq!(read(rtype, text.as_bytes()), Ok(data), "{} {}", rtype, text);
        }
    }

    /// Any text is read or refused, and what is read can be printed.
    #[test]
    fn any_text_is_read_or_refused(
        row in proptest::sample::select(&TEXTS[..]),
        cut in 0usize..60,
        text in "[-0-9a-zA-Z. \"\\\\=,:/+!()]{0,12}",
    ) {
        let (name, known, _) = row;
        let rtype = rtype(name);
        let mut mixed = known.as_bytes().to_vec();
        let cut = cut.min(mixed.len());
        mixed.splice(cut..cut, text.bytes());
        if let Ok(data) = read(rtype, &mixed) {
            let mut out = Vec::new();
            prop_assert!(print(rtype, &data, &mut out), "{} {}", name, String::from_utf8_lossy(&mixed));
            prop_assert_eq!(read(rtype, &out), Ok(data));
        }
    }
}
