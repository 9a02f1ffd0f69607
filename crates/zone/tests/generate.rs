//! Generated zones, read back with the zone file parser of `domain`.

use std::collections::{BTreeMap, BTreeSet};

use domain::base::{Name, Rtype, ToName};
use domain::rdata::ZoneRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};
use zone::{Dns64Zone, LeafZone, NameServer, Style, TldZone, ZoneRecords};

type Owned = Name<Vec<u8>>;

/// Returns the owner and type of each record, and the target of NS and CNAME records.
fn records(text: &[u8]) -> Vec<(Owned, Rtype, Option<Owned>)> {
    let mut file = Zonefile::from(text);
    let mut records = Vec::new();
    while let Some(entry) = file.next_entry().expect("the zone file is well formed") {
        let Entry::Record(record) = entry else { panic!("an include") };
        let target = match record.data() {
            ZoneRecordData::Ns(ns) => Some(ns.nsdname().to_vec()),
            ZoneRecordData::Cname(cname) => Some(cname.cname().to_vec()),
            _ => None,
        };
        records.push((record.owner().to_vec(), record.rtype(), target));
    }
    records
}

fn tld(delegations: u64, seed: u64) -> Vec<u8> {
    let zone = TldZone::new("test".parse().expect("a name"), delegations, seed);
    let mut text = Vec::new();
    let written = zone.write(&mut text).expect("writes");
    assert_eq!(written.bytes, text.len() as u64);
    text
}

#[test]
fn a_top_level_domain_has_glue_and_the_stated_shares() {
    let text = tld(5_000, 9);
    let records = records(&text);
    assert!(records.is_sorted_by(|a, b| a.0 <= b.0), "in canonical order");
    let apex: Owned = "test".parse().unwrap();
    let mut servers = BTreeMap::<&Owned, BTreeSet<&Owned>>::new();
    let mut addresses = BTreeSet::new();
    let mut signed = 0;
    for (owner, rtype, target) in &records {
        match (*rtype, target) {
            (Rtype::NS, Some(target)) => assert!(servers.entry(owner).or_default().insert(target)),
            (Rtype::A, _) => drop(addresses.insert(owner)),
            (Rtype::DS, _) => signed += 1,
            _ => {}
        }
    }
    assert!(servers.remove(&apex).is_some());
    assert_eq!(servers.len(), 5_000);
    assert!((150..350).contains(&signed), "{signed}");
    let mut sizes = BTreeMap::new();
    for (owner, targets) in &servers {
        assert!((2..=4).contains(&targets.len()), "{owner}");
        for target in targets.iter().filter(|t| t.ends_with(&apex)) {
            assert!(addresses.contains(target), "{target} has no glue");
        }
        let target = targets.first().unwrap();
        *sizes.entry(target.parent().unwrap()).or_insert(0u32) += 1;
    }
    // 25 operators, Zipf's exponent 1: the largest has 97 % x 1/3.8 of the delegations.
    assert!((1_000..1_600).contains(sizes.values().max().unwrap()), "{:?}", sizes.values().max());
}

#[test]
fn equal_seeds_give_equal_zones() {
    assert_eq!(tld(2_000, 1), tld(2_000, 1));
    assert_ne!(tld(2_000, 1), tld(2_000, 2));
    // FNV-1a hash of the zone that version 0.1.0 writes: experiments identify a zone by its seed.
    let hash = tld(20_000, 1).iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    });
    assert_eq!(hash, 0x4a9f_7203_fbda_bc82);
}

#[test]
fn aliases_of_a_leaf_zone_have_a_target() {
    let zone = LeafZone {
        zone: "example.test".parse().unwrap(),
        hosts: 3_000,
        ttl: 60,
        server: NameServer::default(),
        seed: 4,
    };
    let mut text = Vec::new();
    let written = zone.write(&mut text).unwrap();
    let records = records(&text);
    assert_eq!(written.records, records.len() as u64);
    assert!(records.is_sorted_by(|a, b| a.0 <= b.0), "in canonical order");
    let names: BTreeSet<_> = records.iter().map(|(owner, ..)| owner).collect();
    assert_eq!(names.len(), 3_002, "the apex, its server and the hosts");
    let mut aliases = 0;
    for (owner, rtype, target) in &records {
        if *rtype == Rtype::CNAME {
            aliases += 1;
            assert!(
                names.contains(target.as_ref().unwrap()),
                "the target of {owner} does not exist"
            );
            assert_eq!(records.iter().filter(|r| r.0 == *owner).count(), 1, "{owner}");
        }
    }
    assert!((200..400).contains(&aliases), "{aliases}");
}

#[test]
fn the_dns64_zone_contains_its_namespace() {
    let zone = Dns64Zone {
        namespace: wire::Namespace::with_default_zone("10.0.0.0/22".parse().unwrap()),
        records: ZoneRecords::Aaaa("64:ff9b::/96".parse().unwrap()),
        style: Style::Expanded,
        ttl: 60,
        server: NameServer::default(),
    };
    let mut text = Vec::new();
    let written = zone.write(&mut text).unwrap();
    let records = records(&text);
    assert_eq!((written.records, records.len()), (1_028, 1_028));
    assert_eq!(records.iter().filter(|r| r.1 == Rtype::AAAA).count(), 1_025);
}
