//! Updates generated for a zone, and the zone after applying them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use update::apply::Changes;
use update::message::Prerequisite;
use update::{Generate, GenerateError, Operation, Prerequisites, Update, UpdateReader, stream};
use zone::{Reader, TldZone};

type Records = BTreeMap<Vec<u8>, BTreeSet<(u16, u32, Vec<u8>)>>;

fn reader(text: &[u8]) -> Reader<&[u8]> {
    Reader::new(text, Path::new("zone"), None)
}

fn records(text: &[u8]) -> Records {
    let mut reader = reader(text);
    let mut all = Records::new();
    while let Some(r) = reader.next_record().expect("well formed") {
        let name = all.entry(r.owner().to_vec()).or_default();
        name.insert((r.rtype().to_int(), r.ttl(), r.data().to_vec()));
    }
    all
}

fn tld(delegations: u64) -> Vec<u8> {
    let mut text = Vec::new();
    TldZone::new("test".parse().expect("a name"), delegations, 5).write(&mut text).expect("writes");
    text
}

fn generate(zone: &[u8], generate: Generate) -> Vec<Update> {
    let mut updates = Vec::new();
    let made = generate.run(reader(zone), |update| {
        updates.push(update.clone());
        Ok(())
    });
    assert_eq!(made.expect("makes"), generate.kinds());
    updates
}

#[test]
fn updates_fit_the_zone_and_apply() {
    let zone = tld(3_000);
    let before = records(&zone);
    let updates = generate(&zone, Generate::new(1_500, 8));
    assert_eq!(updates.len(), 1_500);
    let mut expected = before.clone();
    let (mut seen, mut kinds) = (BTreeSet::new(), [0; 3]);
    for update in &updates {
        let (name, what) = update.prerequisites().next().expect("one prerequisite");
        assert!(seen.insert(name.to_vec()), "a name is updated once");
        assert!(update.operations().count() > 0);
        assert!(update.operations().all(|(other, _)| other == name));
        let present = before.contains_key(name);
        let added: BTreeSet<_> = update
            .operations()
            .filter_map(|(_, operation)| match operation {
                Operation::Add { rtype, ttl, data } => Some((rtype, ttl, data.to_vec())),
                _ => None,
            })
            .collect();
        match what {
            Prerequisite::NameAbsent => {
                assert!(!present && added.len() >= 2);
                expected.insert(name.to_vec(), added);
                kinds[1] += 1;
            }
            Prerequisite::NameExists => {
                assert!(present && added.is_empty());
                expected.remove(name);
                kinds[2] += 1;
            }
            _ => {
                assert!(present && !added.is_empty());
                let old = expected.get_mut(name).expect("present");
                let kept: BTreeSet<_> = old.iter().filter(|r| r.0 != 2).cloned().collect();
                let new: BTreeSet<_> = kept.union(&added).cloned().collect();
                assert_ne!(*old, new, "a change changes something");
                *old = new;
                kinds[0] += 1;
            }
        }
        // No name is below a deleted one, so no glue remains.
        assert!(!before.keys().any(|other| other.len() > name.len() && other.ends_with(name)));
    }
    assert_eq!(kinds, [500, 500, 500]);

    let mut binary = Vec::new();
    stream::begin(&mut binary).expect("writes");
    updates.iter().for_each(|update| stream::write(&mut binary, update).expect("writes"));
    let changes = UpdateReader::new(&binary[..], Path::new("updates")).expect("reads");
    let mut after = Vec::new();
    let changes = Changes::read(changes).expect("reads");
    changes.apply(reader(&zone), &mut after).expect("applies");
    assert_eq!(records(&after), expected);
}

#[test]
fn proportions_and_seeds_decide() {
    let zone = tld(500);
    let only = |mix| Generate { mix, prerequisites: Prerequisites::None, ..Generate::new(100, 1) };
    for (mix, wanted) in
        [([1, 0, 0], [100, 0, 0]), ([0, 1, 0], [0, 100, 0]), ([0, 1, 3], [0, 25, 75])]
    {
        let kinds = only(mix).kinds();
        assert_eq!([kinds.changes, kinds.additions, kinds.deletions], wanted);
        let updates = generate(&zone, only(mix));
        assert_eq!(updates.len(), 100);
        assert!(updates.iter().all(|update| update.prerequisites().count() == 0));
    }
    let make = |seed| generate(&zone, Generate::new(90, seed));
    assert_eq!(make(1), make(1));
    assert_ne!(make(1), make(2));
}

#[test]
fn a_zone_with_too_few_delegations_is_refused() {
    let run = |g: Generate| g.run(reader(&tld(50)), |_| Ok(())).expect_err("too few");
    let error = run(Generate::new(300, 1));
    assert!(matches!(error, GenerateError::TooFew { wanted: 200, .. }), "{error}");
    assert!(matches!(run(Generate::new(u64::MAX, 1)), GenerateError::TooMany(_)));
    assert!(matches!(run(Generate { mix: [0; 3], ..Generate::new(1, 1) }), GenerateError::NoMix));
}

const BASE: &str = "$ORIGIN test.\n@ 300 SOA ns h 5 2 3 4 5\n@ 300 NS ns\nns 300 A 192.0.2.1\na 300 A 192.0.2.10\n\
    c 300 CNAME a\np 300 PTR Host.Example.\n";

/// Returns the base zone, without its first records, after a script, and how many updates of it changed nothing.
fn after(script: &str) -> (Vec<String>, u64) {
    let script = format!("zone test.\n{script}send\n");
    let updates = UpdateReader::new(script.as_bytes(), Path::new("script")).expect("reads");
    let (mut out, base) = (Vec::new(), BASE.as_bytes());
    let changes = Changes::read(updates).expect("valid");
    let applied = changes.apply(reader(base), &mut out).expect("applies");
    let mut zone = reader(&out);
    let mut all = Vec::new();
    while let Some(r) = zone.next_record().expect("well formed") {
        let name = wire::Name::from_wire(r.owner()).expect("a name");
        all.push(format!("{name} {}", r.rtype()));
    }
    all.sort_unstable();
    (all, applied.unmet)
}

/// A name keeps the case of the zone, and a new name that of the first update (RFC 4343).
#[test]
fn names_keep_their_case() {
    let script = "add NEW.test. 300 A 192.0.2.50\nadd A.test. 300 TXT x\nadd new.test. 300 TXT x\n";
    let (found, _) = after(script);
    for record in ["NEW.test A", "NEW.test TXT", "a.test A", "a.test TXT"] {
        assert!(found.iter().any(|found| found == record), "{record}: {found:?}");
    }
}

/// As BIND 9.18 did with the same scripts.
#[test]
fn updates_change_what_a_server_changes() {
    let base = ["a.test A", "c.test CNAME", "ns.test A", "p.test PTR", "test NS", "test SOA"];
    for (script, unmet, gone, new) in [
        ("add c.test. 300 A 192.0.2.99\n", 0, "", ""),
        ("add a.test. 300 CNAME b.test.\n", 0, "", ""),
        ("add c.test. 300 CNAME m.test.\n", 0, "", ""),
        ("delete p.test. PTR hOST.eXAMPLE.\n", 0, "p.test PTR", ""),
        ("delete test. NS ns.test.\ndelete test. SOA\n", 0, "", ""),
        ("nxdomain a.test.\nadd new.test. 300 A 192.0.2.50\n", 1, "", ""),
        ("yxrrset a.test. A 192.0.2.11\nadd new.test. 300 A 192.0.2.50\n", 1, "", ""),
        ("yxrrset A.test. A 192.0.2.10\nadd new.test. 300 A 192.0.2.50\n", 0, "", "new.test A"),
        ("add d.test. 300 DNAME one.\nsend\nadd d.test. 300 DNAME two.\n", 0, "", "d.test DNAME"),
        (
            "add w.test. 300 WKS 192.0.2.1 tcp 25\nsend\nadd w.test. 300 WKS 192.0.2.1 tcp 80\n",
            0,
            "",
            "w.test WKS",
        ),
        ("add new.test. 300 A 192.0.2.50\nadd x.other. 300 A 192.0.2.50\n", 1, "", ""),
        ("nxdomain x.other.\nadd new.test. 300 A 192.0.2.50\n", 1, "", ""),
        // The second update sees what the first did.
        (
            "delete a.test.\nsend\nnxdomain a.test.\nadd a.test. 300 TXT x\n",
            0,
            "a.test A",
            "a.test TXT",
        ),
    ] {
        let mut expected: Vec<_> = base.iter().filter(|r| **r != gone).copied().collect();
        expected.extend(Some(new).filter(|new| !new.is_empty()));
        expected.sort_unstable();
        let (found, failed) = after(script);
        assert_eq!(
            (found.iter().map(String::as_str).collect(), failed),
            (expected, unmet),
            "{script}"
        );
    }
}
