use std::collections::HashMap;

use super::*;

/// Names and places of the fields of a structure of an object, and its size, in octets.
type Layout = (Vec<(String, usize)>, usize);

/// Reads a number of 32 bits.
fn word(octets: &[u8], at: usize) -> usize {
    u32::from_ne_bytes(octets[at..at + 4].try_into().expect("four octets")) as usize
}

/// Reads a text that ends with a zero.
fn text(octets: &[u8], at: usize) -> String {
    let text = octets[at..].split(|octet| *octet == 0).next().expect("a text");
    String::from_utf8_lossy(text).into_owned()
}

/// Returns the structures of the type information of an object (kernel: Documentation/bpf/btf.rst).
fn structures(object: &[u8]) -> HashMap<String, Layout> {
    let btf = section(object, ".BTF");
    let header = word(btf, 4);
    let (types, strings) = (&btf[header + word(btf, 8)..], &btf[header + word(btf, 16)..]);
    let (mut found, mut at) = (HashMap::new(), 0);
    while at < word(btf, 12) {
        let (name, info, size) = (word(types, at), word(types, at + 4), word(types, at + 8));
        let (kind, count) = (info >> 24 & 0x1f, info & 0xffff);
        at += 12;
        let len = match kind {
            // Numbers, variables, tags; arrays; structures and unions; enumerations and parameters; sections; enumerations of 64 bits.
            1 | 14 | 17 => 4,
            3 => 12,
            4 | 5 | 15 | 19 => 12 * count,
            6 | 13 => 8 * count,
            _ => 0,
        };
        if kind == 4 {
            let fields = types[at..at + len].chunks(12).map(|field| {
                let bits = word(field, 8);
                (text(strings, word(field, 0)), bits / 8)
            });
            found.insert(text(strings, name), (fields.collect(), size));
        }
        at += len;
    }
    found
}

/// Returns a section of an object (ELF, 64 bits).
fn section<'a>(object: &'a [u8], name: &str) -> &'a [u8] {
    let half = |at: usize| usize::from(u16::from_ne_bytes([object[at], object[at + 1]]));
    let (table, names) = (word(object, 40), half(62));
    let place = |number: usize| {
        let entry = table + 64 * number;
        (word(object, entry), &object[word(object, entry + 24)..][..word(object, entry + 32)])
    };
    let (_, names) = place(names);
    let mut all = (0..half(60)).map(place);
    all.find(|(at, _)| text(names, *at) == name).expect("the section is there").1
}

/// Compares a record with its structure in an object.
fn check<R: Record>(structures: &HashMap<String, Layout>) {
    let (name, fields) = R::LAYOUT;
    let (expected, mut size) = structures.get(name).cloned().unwrap_or_default();
    let of_field = |field: &str| expected.iter().find(|(name, _)| name == field).map(|(_, at)| *at);
    // The library writes the length of a prefix, and answers and replies have a part of variable length.
    let before = of_field("bits").map_or(0, |_| 4);
    size = of_field("data").filter(|_| name == "entry").unwrap_or(size);
    size = of_field("reply").filter(|_| name == "event").unwrap_or(size);
    let own = fields.iter().filter(|(field, _)| *field != "padding");
    let own = own.map(|(field, at)| (field.trim_start_matches("r#").to_owned(), at + before));
    let expected = expected.into_iter().filter(|(_, at)| (before..size).contains(at));
    assert_eq!(own.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name}");
    assert_eq!(size_of::<R>() + before, size, "{name}");
}

#[test]
fn records_are_those_of_the_objects() {
    let cache = structures(include_bytes!("../../bpf/cache.bpf.o"));
    let resolver = structures(include_bytes!("../../bpf/resolver.bpf.o"));
    let auth = structures(include_bytes!("../../bpf/auth.bpf.o"));
    for both in [&cache, &resolver] {
        check::<Config>(both);
        check::<Place>(both);
        check::<Client>(both);
        check::<Key>(both);
        check::<EntryHead>(both);
        check::<Counts>(both);
    }
    check::<Way>(&resolver);
    check::<UpstreamRecord>(&resolver);
    check::<EmbeddingRecord>(&resolver);
    check::<Mapped>(&resolver);
    check::<Slot>(&resolver);
    check::<EventRecord>(&resolver);
    check::<ResolvedCounts>(&resolver);
    check::<AuthRecord>(&auth);
    check::<Zone>(&auth);
    check::<AuthCounts>(&auth);
    let tester = structures(include_bytes!("../../bpf/tester.bpf.o"));
    check::<TesterConfig>(&tester);
    check::<Generator>(&tester);
    check::<LoadCounts>(&tester);
    check::<SecondCounts>(&tester);
    check::<StepCounts>(&tester);
    check::<ListedQuestion>(&tester);
    check::<LoadEvent>(&tester);
}

#[test]
fn addresses_are_written_as_on_the_wire() {
    let address: SocketAddr = "192.0.2.1:53".parse().expect("an address");
    let place = Place::from(address);
    assert_eq!(place.octets()[10..], [0xff, 0xff, 192, 0, 2, 1, 0, 53, 0, 0]);
    assert_eq!(SocketAddr::from(place), address);
    assert_eq!(Place::read(place.octets()), Some(place));
    assert_eq!(Place::read(&place.octets()[1..]), None);
}
