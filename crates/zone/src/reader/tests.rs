use proptest::prelude::*;

use super::*;

/// A reader that returns this many octets at a time.
struct SmallReads<'a>(&'a [u8], usize);

impl Read for SmallReads<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(self.0.len()).min(buffer.len());
        buffer[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

/// Owner, TTL, type and data of a record.
type Row = (Vec<u8>, u32, Rtype, Vec<u8>);

fn read(text: &str, step: usize) -> Result<Vec<Row>, String> {
    let mut reader = Reader::new(SmallReads(text.as_bytes(), step), Path::new("z"), None);
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().map_err(|e| e.to_string())? {
        all.push((record.owner().to_vec(), record.ttl(), record.rtype(), record.data().to_vec()));
    }
    Ok(all)
}

const ZONE: &str = "$ORIGIN example.\n$TTL 60\n@ IN SOA ns1 h (1 ; a ( in a comment\n 2 3\n 4 5)\n\
    \tNS ns1\n\n; nothing\nns1 A 192.0.2.1\n 30 AAAA 2001:db8::1\n\
    t TXT \"a;b(\" \"c\\\"d e\"\nq\\;x 5 IN MX 10 ns1\n$ORIGIN sub\nw CNAME ns1.example.";

#[test]
fn all_forms_of_a_master_file_are_read() {
    let records = read(ZONE, 4096).unwrap();
    assert_eq!(records.len(), 7);
    let ttls: Vec<_> = records.iter().map(|r| r.1).collect();
    assert_eq!(ttls, [60, 60, 60, 30, 60, 5, 60]);
    assert_eq!(records[3].0, b"\x03ns1\x07example\0");
    assert_eq!(records[4].3, b"\x04a;b(\x05c\"d e");
    assert_eq!(records[5].0, b"\x03q;x\x07example\0");
    assert_eq!(records[6].0, b"\x01w\x03sub\x07example\0");
}

#[test]
fn an_at_sign_in_record_data_is_the_origin() {
    let records =
        read("$ORIGIN example.\n@ 5 IN SOA @ h 1 2 3 4 5\n MX 1 @\n$ORIGIN sub\na 5 NS @\n", 99);
    let records = records.unwrap();
    assert!(records[0].3.starts_with(b"\x07example\0\x01h\x07example\0\0\0\0\x01"));
    assert_eq!(records[1].3, b"\0\x01\x07example\0");
    assert_eq!(records[2].3, b"\x03sub\x07example\0");
}

#[test]
fn errors_have_their_place() {
    let soa = "$ORIGIN example.\n@ 60 IN SOA ns1 h (1 2\n3 4 5)\n";
    let table = [
        ("a 60 AX 1\n".to_owned(), "z:4:6: ", "a record type here"),
        ("b 60 A 192.0.2.1\n\nc A 192.0.2.300\n".to_owned(), "z:6:5: ", "IPv4"),
        ("$GENERATE 1-x a$ A 192.0.2.$\n".to_owned(), "z:4:11: ", "not a range of $GENERATE"),
        (
            "$GENERATE 254-258 a$ A 192.0.2.$\n".to_owned(),
            "z:4:1: ",
            "in the line that $GENERATE makes for 256",
        ),
        ("$GENERATE 1-9 a$ A 192.0.2.$\n;\nb AX 1\n".to_owned(), "z:6:3: ", "a record type here"),
        (";\n$INCLUDE other\n".to_owned(), "z:5:1: ", "requires a zone that is read from a file"),
        ("$INCLUDE\n".to_owned(), "z:4:9: ", "the file to include is missing"),
        ("$INCULDE x\n".to_owned(), "z:4:1: ", "`$INCULDE` is not a directive"),
        ("$ORIGIN a b\n".to_owned(), "z:4:11: ", "the directive is complete"),
        ("$TTL 1y\n".to_owned(), "z:4:6: ", "a time such as 3600, 1h"),
        ("a CH A 192.0.2.1\n".to_owned(), "z:4:3: ", "only zones of class IN"),
        ("a 5 ANY x\n".to_owned(), "z:4:5: ", "a type of records in a zone"),
        ("a (\nA 192.0.2.1\n".to_owned(), "z:4:1: ", "ends inside the entry"),
        ("a A )192.0.2.1\n".to_owned(), "z:4:1: ", "a parenthesis is closed"),
        ("a TXT ( b ) )\n".to_owned(), "z:4:1: ", "a parenthesis is closed"),
        ("a TXT b )".to_owned(), "z:4:1: ", "a parenthesis is closed"),
        ("b NS ns1...1\n".to_owned(), "z:4:6: ", "two dots in a row"),
        ("b MX 1\n".to_owned(), "z:4:7: ", "cut short: a name is missing"),
        ("b MX 1 a..b\n".to_owned(), "z:4:8: ", "two dots in a row"),
        ("a..b A 192.0.2.1\n".to_owned(), "z:4:1: ", "two dots in a row"),
        ("a SOA a b 1 2 3 4 5\n".to_owned(), "z:4:1: ", "a SOA record of a.example"),
        ("t TXT \"i;b(\"(\"c\"\n".to_owned(), "z:4:1: ", "ends inside the entry"),
        ("t TXT \"x\n".to_owned(), "z:4:1: ", "quotes are open"),
        (format!("a A ({}", "x\n".repeat(600_000)), "z:4:1: ", "parentheses and quotes"),
    ];
    for (text, place, part) in table {
        let error = read(&format!("{soa}{text}"), usize::MAX).unwrap_err();
        assert!(error.starts_with(place) && error.contains(part), "{error}");
    }
    let error = read("a.example. 60 A 192.0.2.1\n", 99).unwrap_err();
    assert!(error.contains("first record is not a SOA"), "{error}");
    // The serial numbers are `A` and `a`: only names have no case.
    let error = read("e. 9 SOA . . 65 2 3 4 5\ne. 9 SOA . . 97 2 3 4 5\n", 99).unwrap_err();
    assert!(error.contains("another SOA record"), "{error}");
    for (text, place, part) in [
        (" A 192.0.2.1\n", "z:1:1: ", "the first record needs an owner"),
        ("a. NS b.\n", "z:1:9: ", "the TTL of this record is not known"),
        ("a.example. 60 NS b\n", "z:1:18: ", "the origin of this name is not known"),
    ] {
        let error = read(text, 99).unwrap_err();
        assert!(error.starts_with(place) && error.contains(part), "{error}");
    }
}

/// RFC 2181 section 8.
#[test]
fn a_ttl_over_31_bits_is_0() {
    let text = "$ORIGIN example.\n@ SOA n h 1 2 3 4 4000000000\na A 192.0.2.1\nb 2147483648 A 192.0.2.1\n\
                c 3551w A 192.0.2.1\nd 2147483647 A 192.0.2.1\n$TTL 4294967295\ne A 192.0.2.1\n";
    let ttls: Vec<_> = read(text, 99).expect("a zone").iter().map(|record| record.1).collect();
    assert_eq!(ttls, [0, 0, 0, 0, i32::MAX as u32, 0]);
}

#[test]
fn forms_of_bind_are_read() {
    let soa = "$ORIGIN example.\n$TTL 1h30m\n@ 1w2d IN SOA @ h (1 1h 15m 1w 5 )\n";
    let text = "a 2D CLASS1 A 192.0.2.1\r\n\tIN 1m TXT \"gr\u{fc}n\" \u{e4}\nb TYPE1 192.0.2.2\n\\@ MX 1 @\n";
    let records = read(&format!("{soa}{text}"), 99).unwrap();
    let ttls: Vec<_> = records.iter().map(|r| r.1).collect();
    assert_eq!(ttls, [777_600, 172_800, 60, 5_400, 5_400]);
    assert_eq!(records[2].3, "\x05gr\u{fc}n\x02\u{e4}".as_bytes());
    assert_eq!(records[3].2, Rtype::A);
    assert_eq!(
        (&records[4].0[..], &records[4].3[..]),
        (&b"\x01@\x07example\0"[..], &b"\0\x01\x07example\0"[..])
    );
}

#[test]
fn missing_ttls_are_the_minimum_of_the_soa_record() {
    let notes = Notes::default();
    let text = "$ORIGIN example.\n@ SOA n h 1 2 3 4 77\n@ NS n\nn 5 A 192.0.2.1\n A 192.0.2.2\n";
    let mut reader = Reader::new(text.as_bytes(), Path::new("z"), None).with_notes(notes.clone());
    let mut ttls = Vec::new();
    while let Some(record) = reader.next_record().expect("a zone") {
        ttls.push(record.ttl());
    }
    assert_eq!(ttls, [77, 77, 5, 77]);
    assert!(notes.lines()[0].contains("its minimum, 77 s"), "{:?}", notes.lines());
    // Without a minimum in use, the TTL of the record before counts (RFC 1035 section 5.1).
    let rows = read(
        "$ORIGIN example.\n@ 9 SOA n h 1 2 3 4 77\n@ NS n\nn 5 A 192.0.2.1\n A 192.0.2.2\n",
        99,
    );
    assert_eq!(rows.unwrap().iter().map(|row| row.1).collect::<Vec<_>>(), [9, 9, 5, 5]);
}

#[test]
fn records_outside_of_the_zone_are_left_out() {
    let notes = Notes::default();
    let text = "$ORIGIN example.\n@ 9 SOA n h 1 2 3 4 77\nother. NS n\n A 192.0.2.1\nb.other. TXT x\nn A 192.0.2.2\n";
    let mut reader = Reader::new(text.as_bytes(), Path::new("z"), None).with_notes(notes.clone());
    let mut count = 0;
    while reader.next_record().expect("a zone").is_some() {
        count += 1;
    }
    assert_eq!(count, 2);
    assert_eq!(notes.lines(), ["z:3: other is outside of the zone and left out, and 2 more"]);
}

#[test]
fn pipes_are_refused_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(made.success());
    let error = Reader::open(&path, None).expect_err("a pipe").to_string();
    assert!(error.contains("it is a pipe or a device: save it to a file"), "{error}");
    let error = Reader::open(dir.path(), None).expect_err("a folder").to_string();
    assert!(error.contains("it is a folder"), "{error}");
}

/// Zones of registries come compressed, and secondaries keep them in a form of their own.
#[test]
fn what_is_no_text_is_named() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let open = |head: &[u8]| {
        std::fs::write(file.path(), head).expect("written");
        Reader::open(file.path(), None).map_err(|e| e.to_string())
    };
    for (head, command) in [
        (&b"\x1f\x8b\x08\0\0\0\0\0"[..], "zcat"),
        (b"\x28\xb5\x2f\xfd\0\0\0\0", "zstdcat"),
        (b"\xfd7zXZ\0\0\x04", "xzcat"),
        (b"BZh91AY&SY", "bzcat"),
        (b"\0\0\0\x02\0\0\0\x01rest", "named-compilezone"),
        (b"\xff\xfe@\0 \0", "iconv"),
        (b"\xfe\xff\0@\0 ", "iconv"),
    ] {
        let error = open(head).expect_err(command);
        assert!(error.contains(command), "{error}");
    }
    for text in [&b""[..], b"@", b"BZh91A A 192.0.2.1\n"] {
        assert!(open(text).is_ok());
    }
    // The byte order mark of UTF-8 belongs to no name.
    let mut zone = open("\u{feff}a. 1 SOA n. h. 1 2 3 4 5\n".as_bytes()).expect("text");
    let record = zone.next_record().expect("a zone").expect("a record");
    assert_eq!(record.owner(), b"\x01a\0");
}

#[test]
fn lines_may_end_in_cr_alone() {
    let lines: Vec<_> = ZONE.lines().skip(5).filter(|line| !line.contains(';')).collect();
    let with = |end: &str| {
        format!("$ORIGIN example.{end}$TTL 60{end}@ IN SOA a b 1 2 3 4 5{end}{}", lines.join(end))
    };
    let records = read(&with("\n"), 99).expect("a zone");
    for end in ["\r", "\r\n", "\r\r"] {
        for step in [1, 7, usize::MAX] {
            assert_eq!(read(&with(end), step).as_ref(), Ok(&records), "{end:?}");
        }
    }
    // In quotes it is text, as for named.
    assert_eq!(
        read("$ORIGIN e.\r@ 5 IN SOA . . 1 2 3 4 5\ra TXT \"x\ry\"", 99).expect("a zone")[1].3,
        b"\x03x\ry"
    );
}

#[test]
fn generate_lines_equal_written_lines() {
    let soa = "$ORIGIN example.\n$TTL 60\n@ IN SOA ns1 h (1 2\n3 4 5)\n";
    let short =
        format!("{soa}$GENERATE 1-3 a$ A 192.0.2.$\n 5 TXT last\n$GENERATE 7-7 $ A 192.0.2.7");
    let long = format!(
        "{soa}a1 A 192.0.2.1\na2 A 192.0.2.2\na3 A 192.0.2.3\n 5 TXT last\n7 A 192.0.2.7\n"
    );
    for step in [1, 7, usize::MAX] {
        assert_eq!(read(&short, step).unwrap(), read(&long, usize::MAX).unwrap());
    }
}

#[test]
fn included_files_are_read_in_their_place() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("writes");
    };
    write(
        "zone",
        "$ORIGIN example.\n$TTL 60\n@ IN SOA ns1 h 1 2 3 4 5\n$INCLUDE \"hosts\" sub ; a comment\nb A 192.0.2.2\n",
    );
    write("hosts", "a A 192.0.2.1\n$INCLUDE more\n$GENERATE 1-2 g$ A 192.0.2.$\n");
    write("more", "$ORIGIN deep.example.\n@ 5 TXT x");
    write("empty", "");
    let all = || {
        let mut reader = Reader::open(&dir.path().join("zone"), None).expect("opens");
        let mut all = Vec::new();
        while let Some(record) = reader.next_record().map_err(|e| e.to_string())? {
            let owner = Name::from_wire(record.owner()).expect("a name").to_string();
            all.push(format!("{owner} {}", record.ttl()));
        }
        assert_eq!(reader.apex().expect("known").to_string(), "example");
        Ok::<_, String>(all)
    };
    assert_eq!(
        all().unwrap(),
        [
            "example 60",
            "a.sub.example 60",
            "deep.example 5",
            "g1.sub.example 60",
            "g2.sub.example 60",
            "b.example 60"
        ]
    );
    for (text, place, part) in [
        ("\nx AX 1\n", "more:2:", "a record type here"),
        ("\n\n$INCLUDE nowhere", "more:3:1: ", "$INCLUDE nowhere: cannot read"),
        ("$INCLUDE more", "more:1:1: ", "8 deep at most"),
        ("example. SOA ns1 h 2 2 3 4 5\n", "more:1:", "another SOA record"),
        ("$INCLUDE empty\n".repeat(10_001).as_str(), "more:9999:1: ", "10000 files at most"),
    ] {
        write("more", text);
        let error = all().unwrap_err();
        assert!(error.contains(place) && error.contains(part), "{error}");
    }
}

/// As BIND reads it.
#[test]
fn an_included_file_goes_on_with_the_owner_before_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("zone");
    std::fs::write(dir.path().join("more"), " TXT x\nb A 192.0.2.2\n").expect("writes");
    let zone = "$ORIGIN t.\n$TTL 5\n@ SOA n h 1 2 3 4 5\na A 192.0.2.1\n$INCLUDE more\n AAAA ::1\n";
    std::fs::write(&path, zone).expect("writes");
    let mut reader = Reader::open(&path, None).expect("opens");
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().expect("a zone") {
        let owner = Name::from_wire(record.owner()).expect("a name");
        all.push(format!("{owner} {}", record.rtype()));
    }
    assert_eq!(all, ["t SOA", "a.t A", "a.t TXT", "b.t A", "a.t AAAA"]);
}

#[test]
fn a_file_without_a_soa_record_is_no_zone() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    for text in ["", "; Transfer failed.\n", "a 5 A 192.0.2.1\n"] {
        std::fs::write(file.path(), text).expect("writes");
        let zone: Name = "example".parse().expect("a name");
        let mut reader = Reader::open(file.path(), Some(zone)).expect("opens");
        let error = std::iter::from_fn(|| reader.next_record().map(|r| r.map(drop)).transpose())
            .find_map(Result::err);
        assert!(error.expect("an error").to_string().contains("no SOA record"), "{text}");
    }
}

#[test]
fn signatures_of_messages_are_no_records() {
    for line in ["ANY TSIG hmac-sha256. 1 300 0 1 0", "CLASS255 TYPE250 \\# ( 2\n0102 ) ; TSIG"] {
        let text =
            format!("$ORIGIN example.\n@ 5 SOA n h 1 2 3 4 5\nKEY. 0 {line}\na 5 A 192.0.2.1\n");
        assert_eq!(read(&text, 99).expect("a zone").len(), 2);
    }
}

#[test]
fn a_backslash_at_the_end_of_a_line_swallows_nothing() {
    let soa = "$ORIGIN example.\n@ 5 SOA n h 1 2 3 4 5\n";
    let text = format!("{soa}a 5 TXT \"x\\\ny\"\nb 5 TXT z\n");
    assert_eq!(read(&text, 99).expect("a break within quotes").len(), 3);
    let error = read(&format!("{soa}a 5 TXT \"x\nb 5 TXT y\"\n"), 99).expect_err("open quotes");
    assert!(error.starts_with("z:3:1: quotes are open"), "{error}");
    for line in ["a 5 TXT x\\\nb 5 TXT y\n", "a 5 TXT \\\nb 5 TXT y\n", "a\\\nb 5 TXT y\n"] {
        for end in ["\n", "\r\n", "\r"] {
            let text = format!("{soa}{line}").replace('\n', end);
            let error = read(&text, 99).expect_err(line);
            assert!(error.starts_with("z:3:"), "{end:?} {error}");
        }
    }
}

/// Lines that are plain, nearly plain, and not plain; some depend on the line before.
const LINES: [&str; 28] = [
    "a NS ns1",
    "\tNS\tns2.other.",
    "b 5 IN A 192.0.2.1",
    " 7 AAAA 2001:db8::7",
    " IN DS 4711 13 2 00ff",
    "c-d_e.f CNAME @",
    "@ NS a.b.c",
    " A 192.0.2.9",
    "$TTL 90",
    "$TTL 1h",
    "$ORIGIN sub",
    "$ORIGIN example.",
    "$GENERATE 1-2 g$ A 192.0.2.$",
    "x TXT \"a;b\" (",
    ") ; c",
    "",
    "; NS",
    "\\101b NS c",
    "e ns F",
    " MX 5 b",
    " MX 5 @",
    " 8 IN SOA @ (@ 1 2 3 4 5)",
    "f A 192.0.2.300",
    "g 0 A 192.0.2.1 x",
    "h..i NS j",
    "k NS l..m",
    "n.other. NS o",
    " 4294967296 A 192.0.2.1",
];

proptest! {
    /// With reads of one octet, no line is read as a plain one.
    #[test]
    fn plain_lines_are_read_as_the_parser_reads_them(
        lines in proptest::collection::vec(proptest::sample::select(&LINES[..]), 0..12),
        with_ttl: bool,
    ) {
        let ttl = if with_ttl { "$TTL 60\n" } else { "" };
        let text = format!("$ORIGIN example.\n{ttl}@ 9 IN SOA a b 1 2 3 4 5\n{}\n", lines.join("\n"));
        prop_assert_eq!(read(&text, usize::MAX), read(&text, 1));
    }

    #[test]
    fn the_size_of_reads_does_not_matter(step in 1usize..40) {
        prop_assert_eq!(read(ZONE, step).unwrap(), read(ZONE, usize::MAX).unwrap());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\\x00-\\x7fé]{0,200}", cut in 0usize..200) {
        let _ = read(&text, 7);
        let mut mixed = ZONE.as_bytes().to_vec();
        let cut = cut.min(mixed.len());
        mixed.splice(cut..cut, text.bytes());
        let _ = read(&String::from_utf8_lossy(&mixed), 64);
    }
}
