//! Zones split into slices, and queries that go to the slice that answers them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use wire::name::order::{Place, place};
use wire::{LabelRange, Name};
use zone::queries::Queries;
use zone::slice::{SliceError, Slicer, balance};
use zone::{LeafZone, NameServer, Reader, TldZone};

/// Owner in lower case, type, TTL and data of a record.
type Record = (Vec<u8>, u16, u32, Vec<u8>);

fn reader(text: &[u8]) -> Reader<&[u8]> {
    Reader::new(text, Path::new("zone"), None)
}

fn records(text: &[u8]) -> Vec<Record> {
    let mut reader = reader(text);
    let mut all = Vec::new();
    while let Some(r) = reader.next_record().expect("well formed") {
        all.push((r.owner().to_ascii_lowercase(), r.rtype().to_int(), r.ttl(), r.data().to_vec()));
    }
    all
}

/// Returns whether a name is below the apex and in the range.
fn contains_name(range: &LabelRange, name: &[u8]) -> bool {
    matches!(place(name, APEX), Place::Below(label) if range.contains(label))
}

fn tld(delegations: u64) -> Vec<u8> {
    let mut text = Vec::new();
    TldZone::new("test".parse().expect("a name"), delegations, 5).write(&mut text).expect("writes");
    text
}

fn slice_zone(zone: &[u8], ranges: Vec<LabelRange>) -> Vec<Vec<u8>> {
    let mut outs = vec![Vec::new(); ranges.len()];
    let mut slicer = Slicer::new(ranges);
    let slices = slicer.slice(|| Ok(reader(zone)), &mut outs).expect("cuts");
    for (slice, out) in slices.iter().zip(&outs) {
        assert_eq!(slice.written.bytes, out.len() as u64);
        assert_eq!(slice.written.records, records(out).len() as u64);
    }
    assert_eq!(slicer.forgotten(), 0);
    outs
}

const APEX: &[u8] = b"\x04test\0";
const NS: u16 = 2;

#[test]
fn slices_are_balanced_disjoint_and_complete() {
    let zone = tld(6_000);
    let ranges = balance(reader(&zone), 3, 1).expect("cuts");
    let slices = slice_zone(&zone, ranges.clone());
    let whole: BTreeSet<_> = records(&zone).into_iter().collect();
    let mut found = BTreeMap::new();
    for (slice, range) in slices.iter().zip(&ranges) {
        let records = records(slice);
        let share = records.len() as f64 / whole.len() as f64;
        assert!((0.31..0.37).contains(&share), "{range}: {share}");
        let owners: BTreeSet<_> = records.iter().map(|r| r.0.clone()).collect();
        for record in records {
            assert!(whole.contains(&record));
            if let (NS, Place::Below(_)) = (record.1, place(&record.3, APEX)) {
                assert!(owners.contains(&record.3), "{range}: a name server without an address");
            }
            if let Place::Below(label) = place(&record.0, APEX) {
                if range.contains(label) {
                    *found.entry(record).or_insert(0) += 1;
                }
            } else {
                *found.entry(record).or_insert(-2) += 1;
            }
        }
    }
    assert_eq!(found.len(), whole.len());
    assert!(found.values().all(|&slices| slices == 1), "each record in one slice, the apex in all");
}

#[test]
fn one_slice_equals_the_zone() {
    let mut zone = Vec::new();
    let name: Name = "example.test".parse().expect("a name");
    let server = NameServer::default();
    let leaf = LeafZone { zone: name, hosts: 500, ttl: 60, server, seed: 2 };
    leaf.write(&mut zone).expect("writes");
    zone.extend_from_slice(
        b"a\\.b\\032c 5 TXT \"q\\\"s;\" x\n\\@\tCAA 0 issue \"ca\"\n  SRV 1 2 3 .\n",
    );
    let slices = slice_zone(&zone, vec![LabelRange::default()]);
    assert_eq!(records(&slices[0]), records(&zone));
}

#[test]
fn a_zone_with_too_few_labels_is_refused() {
    let error = balance(reader(&tld(3)), 9, 1).expect_err("four labels");
    assert!(matches!(error, SliceError::TooFew { parts: 9, labels: 4 }), "{error}");
}

#[test]
fn queries_go_to_their_slice() {
    let zone = tld(4_000);
    let ranges = balance(reader(&zone), 4, 1).expect("cuts");
    let write = |range: &LabelRange| {
        let queries = Queries {
            count: 2_000,
            range: range.clone(),
            missing: 0.2,
            www: 0.5,
            exponent: 0.9,
            seed: 3,
        };
        let mut text = Vec::new();
        queries.write(reader(&zone), &mut text).expect("writes");
        String::from_utf8(text).expect("text")
    };
    let names = |text: &str| -> Vec<Name> {
        text.lines()
            .map(|l| l.split(' ').next().expect("a name").parse().expect("a name"))
            .collect()
    };
    let owners: BTreeSet<_> = records(&zone).into_iter().map(|r| r.0).collect();
    for range in &ranges {
        let text = write(range);
        assert_eq!(text.lines().count(), 2_000);
        let mut missing = 0;
        for name in names(&text) {
            assert!(contains_name(range, name.as_wire()), "{name} is not in {range}");
            let Place::Below(label) = place(name.as_wire(), APEX) else { panic!("{name}") };
            let cut = [&[label.len() as u8][..], label, APEX].concat();
            missing += u32::from(!owners.contains(&cut));
        }
        assert!(
            (300..500).contains(&missing),
            "{missing} of 2000 do not exist; 400 were requested"
        );
    }
    // Queries for the whole zone, split by the same ranges.
    let mut stream = write(&LabelRange::default());
    stream.push_str("; a comment\n\ntest SOA\nexample.com A\n");
    let mut outs = vec![Vec::new(); 4];
    let apex: Name = "test".parse().expect("a name");
    let (counts, others) = Slicer::new(ranges.clone())
        .slice_queries(&apex, stream.as_bytes(), Path::new("q"), &mut outs)
        .expect("cuts");
    assert_eq!((counts.iter().sum::<u64>(), others), (2_000 + 4, 1));
    for ((out, range), count) in outs.iter().zip(&ranges).zip(counts) {
        let names = names(std::str::from_utf8(out).expect("text"));
        assert_eq!(names.len() as u64, count);
        assert!(count > 0, "{range}: no queries");
        let inside = |n: &Name| *n == apex || contains_name(range, n.as_wire());
        assert!(names.iter().all(inside));
    }
    let error = Slicer::new(ranges)
        .slice_queries(&apex, &b"a A\na..b A\n"[..], Path::new("q"), &mut outs)
        .expect_err("an empty label");
    assert!(error.to_string().starts_with("q:2:1: `a..b` is not a name"), "{error}");
}
