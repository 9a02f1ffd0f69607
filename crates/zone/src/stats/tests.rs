//! Tests of the counts: any order, any number of passes, and a plain recount.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use measure::Rng;
use proptest::prelude::*;

use super::*;
use crate::TldZone;

const HEAD: &str = "$ORIGIN test.\n$TTL 60\n@ SOA ns1 h 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\n";

fn reader(text: &[u8]) -> Reader<&[u8]> {
    Reader::new(text, Path::new("zone"), None)
}

fn stats(text: &str, max_names: usize) -> Stats {
    count::count(|| Ok(reader(text.as_bytes())), max_names).expect("a valid zone")
}

/// Shuffles all lines but the first `keep`.
fn shuffled(text: &str, keep: usize, seed: u64) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut rng = Rng::part(seed, 1);
    for at in (keep + 1..lines.len()).rev() {
        let other = keep + rng.below((at - keep + 1) as u64) as usize;
        lines.swap(at, other);
    }
    lines.join("\n") + "\n"
}

/// Asserts that a shuffled zone has the counts of `ordered`, with few and with many names in memory.
fn assert_same_in_any_order(ordered: &Stats, text: &str, names: &[usize]) {
    for seed in 0..4 {
        // $ORIGIN, $TTL and SOA stay in front.
        let text = shuffled(text, 3, seed);
        for &max_names in names {
            let found = stats(&text, max_names);
            let same_order = Stats { in_order: ordered.in_order, ..found };
            assert_eq!(&same_order, ordered, "seed {seed}, {max_names} names");
        }
    }
}

#[test]
fn a_shuffled_zone_has_the_same_delegations_and_glue() {
    let mut text = Vec::new();
    TldZone::new("test".parse().unwrap(), 1_000, 5).write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let ordered = stats(&text, count::MAX_NAMES);
    assert!(ordered.in_order && ordered.delegations == 1_000 && ordered.glue > 50);
    assert!(ordered.to_string().contains("delegations   1000, "), "{ordered}");
    // Each line gets its owner, so that lines can be moved.
    let mut owner = "";
    let mut whole = String::new();
    for line in text.lines() {
        if !line.starts_with('\t') {
            owner = line.split('\t').next().expect("a first field");
            whole.push_str(&format!("{line}\n"));
        } else {
            whole.push_str(&format!("{owner}{line}\n"));
        }
    }
    assert_same_in_any_order(
        &Stats { octets: whole.len() as u64, ..ordered },
        &whole,
        &[300, count::MAX_NAMES],
    );
}

#[test]
fn what_is_below_a_cut_is_not_counted_as_a_cut() {
    // Names; delegations, those with DS, their servers; glue; occluded names.
    let table: [(&str, [u64; 6]); 8] = [
        ("a NS ns.b\nb NS ns.b\nns.b A 192.0.2.2\n", [5, 2, 0, 2, 1, 1]),
        // The address of the delegation itself, before and after its NS record.
        ("a A 192.0.2.2\na NS a\n", [3, 1, 0, 1, 1, 0]),
        ("a NS a\na AAAA ::1\na DS 1 13 2 00\n", [3, 1, 1, 1, 1, 0]),
        // A delegation below a delegation, and its glue.
        ("a NS x\nb.a NS ns.b.a\nns.b.a A 192.0.2.2\nb.a DS 1 13 2 00\n", [5, 1, 0, 1, 1, 2]),
        // Other records below a delegation; other names with a similar label.
        ("a NS x\nt.a TXT t\nt-a TXT t\nta A 192.0.2.2\n", [6, 1, 0, 1, 0, 1]),
        // Below a DNAME there is neither a delegation nor glue.
        ("d DNAME e\nx.d NS ns.x.d\nns.x.d A 192.0.2.2\n", [5, 0, 0, 0, 0, 2]),
        // Empty names between, a wildcard, letter case.
        ("*.w A 192.0.2.2\nb.c.d NS ns.B.c.D\nns.b.C.d A 192.0.2.2\n", [5, 1, 0, 1, 1, 1]),
        ("@ DNAME e\n", [2, 0, 0, 0, 0, 1]),
    ];
    for (lines, wanted) in table {
        let text = format!("{HEAD}{lines}");
        let s = stats(&text, count::MAX_NAMES);
        let found = |s: &Stats| {
            [s.names, s.delegations, s.signed_delegations, s.servers, s.glue, s.occluded]
        };
        assert_eq!(found(&s), wanted, "{lines}");
        assert_same_in_any_order(&s, &text, &[1, 3, count::MAX_NAMES]);
        // A record that is written twice is one.
        let twice = format!("{text}{lines}");
        assert_eq!(found(&stats(&twice, count::MAX_NAMES)), wanted, "{lines}");
        let doubled: String = lines.lines().map(|line| format!("{line}\n{line}\n")).collect();
        assert_eq!(found(&stats(&format!("{HEAD}{doubled}"), 3)), wanted, "{lines}");
    }
}

#[test]
fn a_cname_record_beside_other_data_is_told() {
    let text = format!(
        "{HEAD}c CNAME ns1\nd CNAME ns1\nd CNAME NS1\nd NSEC ns1 CNAME NSEC\nC A 192.0.2.2\ne CNAME a\ne CNAME b\n"
    );
    let s = stats(&text, count::MAX_NAMES);
    assert_eq!(s.conflicts, 2);
    assert!(s.to_string().contains("2 names with a CNAME record and other data"), "{s}");
    assert_same_in_any_order(&s, &text, &[1, count::MAX_NAMES]);
}

#[test]
fn a_file_that_changed_between_passes_is_an_error() {
    let long = format!("{HEAD}b A 192.0.2.2\na A 192.0.2.2\n");
    let mut texts = [long.as_bytes(), &long.as_bytes()[..HEAD.len()]].into_iter();
    let error = Stats::of(|| Ok(reader(texts.next().expect("two passes")))).unwrap_err();
    assert!(error.to_string().starts_with("zone: 5 records at first, 3 when"), "{error}");
}

/// Recounts a zone by the definitions, from all its names at once: names, delegations, glue, occluded names.
fn recount(records: &[(Vec<u8>, &str)]) -> [u64; 4] {
    let mut names = BTreeMap::<Vec<u8>, Vec<&str>>::new();
    for (name, rtype) in records {
        names.entry(name.clone()).or_default().push(rtype);
    }
    let cuts: BTreeSet<&Vec<u8>> = names
        .iter()
        .filter(|(_, types)| types.iter().any(|t| ["NS", "DNAME"].contains(t)))
        .map(|(n, _)| n)
        .collect();
    let mut counts = [names.len() as u64, 0, 0, 0];
    for (name, types) in &names {
        // The labels of these names are single letters, the last one next to the apex.
        let highest =
            (0..name.len()).rev().map(|at| name[at..].to_vec()).find(|n| cuts.contains(n));
        let Some(cut) = highest else { continue };
        let delegated = names[&cut].contains(&"NS");
        counts[1] += u64::from(cut == *name && delegated);
        // All addresses of the test are the same one.
        counts[2] += u64::from(delegated && types.contains(&"A"));
        counts[3] += u64::from(cut != *name);
    }
    counts
}

proptest! {
    #[test]
    fn any_zone_in_any_order_has_the_counts_of_the_definitions(
        records in proptest::collection::vec(
            (proptest::collection::vec(b'a'..b'd', 1..4), proptest::sample::select(vec!["A", "NS", "DNAME", "TXT"])),
            0..24,
        ),
        max_names in 1usize..8,
    ) {
        let mut text = "$ORIGIN test.\n@ 60 SOA ns h 1 2 3 4 5\n".to_owned();
        for (name, rtype) in &records {
            let labels: Vec<String> = name.iter().map(|c| char::from(*c).to_string()).collect();
            let data = if *rtype == "A" { "192.0.2.1" } else { "x" };
            text.push_str(&format!("{} 60 {rtype} {data}\n", labels.join(".")));
        }
        let s = stats(&text, max_names);
        let [names, delegations, glue, occluded] = recount(&records);
        prop_assert_eq!([s.names, s.delegations, s.glue, s.occluded], [names + 1, delegations, glue, occluded]);
    }
}

#[test]
fn equal_records_count_once() {
    let text = "$ORIGIN x.\n@ 5 SOA n h 1 2 3 4 5\n@ NS n\n@ 6 NS N\nn A 192.0.2.1\nm MX 1 n\nn A 192.0.2.1\nm MX 1 N.x.\n";
    let open = || Ok(Reader::new(text.as_bytes(), std::path::Path::new("z"), None));
    let stats = Stats::of(open).expect("a zone");
    assert_eq!((stats.records, stats.duplicates, stats.names), (4, 3, 3));
}
