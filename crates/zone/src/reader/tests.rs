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
        ("a 60 AX 1\n".to_owned(), "z:4:", "a record type here"),
        ("b 60 A 192.0.2.1\n\nc A 192.0.2.300\n".to_owned(), "z:6:5: ", "IPv4"),
        ("$GENERATE 1-x a$ A 192.0.2.$\n".to_owned(), "z:4:11: ", "not a range of $GENERATE"),
        (
            "$GENERATE 254-258 a$ A 192.0.2.$\n".to_owned(),
            "z:4:1: ",
            "in the line that $GENERATE makes for 256",
        ),
        ("$GENERATE 1-9 a$ A 192.0.2.$\n;\nb AX 1\n".to_owned(), "z:6:", "a record type here"),
        (";\n$INCLUDE other\n".to_owned(), "z:5:1: ", "only a zone that is read from a file"),
        ("a (\nA 192.0.2.1\n".to_owned(), "z:4:1: ", "ends inside the entry"),
        ("b NS ns1...1\n".to_owned(), "z:4:1: ", "two dots in a row"),
        ("b MX 1 a..b\n".to_owned(), "z:4:1: ", "two dots in a row"),
        ("a..b A 192.0.2.1\n".to_owned(), "z:4:1: ", "two dots in a row"),
        ("t TXT \"i;b(\"(\"c\"\n".to_owned(), "z:4:1: ", "ends inside the entry"),
        ("b A 192.0.2.1\nb.other. (\n) A 192.0.2.1\n".to_owned(), "z:5: b.other", "zone example"),
        (format!("a A \"{}", "x\n".repeat(600_000)), "z:4:1: ", "parentheses and quotes"),
    ];
    for (text, place, part) in table {
        let error = read(&format!("{soa}{text}"), usize::MAX).unwrap_err();
        assert!(error.starts_with(place) && error.contains(part), "{error}");
    }
    let error = read("a.example. 60 A 192.0.2.1\n", 99).unwrap_err();
    assert!(error.contains("first record is not a SOA"), "{error}");
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
        "$ORIGIN example.\n$TTL 60\n@ IN SOA ns1 h 1 2 3 4 5\n$INCLUDE hosts sub\nb A 192.0.2.2\n",
    );
    write("hosts", "a A 192.0.2.1\n$INCLUDE more\n$GENERATE 1-2 g$ A 192.0.2.$\n");
    write("more", "$ORIGIN deep.example.\n@ 5 TXT x");
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
        ("x A 1.2.3.4\nx.other. A 1.2.3.4\n", "more:2: ", "is not in the zone example"),
        ("\n\n$INCLUDE nowhere", "more:3:1: ", "$INCLUDE nowhere: cannot read"),
        ("$INCLUDE more", "more:1:1: ", "8 deep at most"),
    ] {
        write("more", text);
        let error = all().unwrap_err();
        assert!(error.contains(place) && error.contains(part), "{error}");
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
    /// With reads of one octet, the parser of `domain` reads every line.
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
