//! Zones that fit together, their names, and their queries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::Reader;

fn name(text: &str) -> Name {
    text.parse().expect(text)
}

fn plan() -> InternetPlan {
    InternetPlan { servers: 20, ..InternetPlan::default() }
}

fn zone_file(internet: &Internet, zone: &Name) -> Vec<u8> {
    let mut text = Vec::new();
    internet.write_zone(zone, &mut text).expect("in memory");
    text
}

/// The records of a zone file: owner, type as a number, and data.
fn records(internet: &Internet, zone: &Name) -> Vec<(Name, u16, Vec<u8>)> {
    let text = zone_file(internet, zone);
    let mut reader = Reader::new(&text[..], Path::new("zone"), None);
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().expect("a valid zone") {
        let owner = Name::from_wire(record.owner()).expect("a name");
        all.push((owner, record.rtype().to_int(), record.data().to_vec()));
    }
    assert_eq!(reader.apex(), Some(zone));
    all
}

const A: u16 = 1;
const NS: u16 = 2;
const SOA: u16 = 6;

/// Checks that all zones are delegated, that their servers have addresses, and that names are where they should be.
fn check(internet: &Internet) {
    let zones: Vec<Name> = internet.zones().collect();
    let all: BTreeMap<Name, Vec<_>> =
        zones.iter().map(|zone| (*zone, records(internet, zone))).collect();
    assert_eq!(all.len(), zones.len(), "each zone once");
    let owners = |rtype| {
        let records = all.values().flatten().filter(move |record| record.1 == rtype);
        records.map(|record| record.0).collect::<BTreeSet<Name>>()
    };
    let addresses = owners(A);
    for (place, zone) in zones.iter().enumerate() {
        let own = &all[zone];
        assert_eq!((own[0].0, own[0].1), (*zone, SOA), "the SOA record is the first");
        let servers: Vec<&Vec<u8>> =
            own.iter().filter(|record| record.0 == *zone && record.1 == NS).map(|r| &r.2).collect();
        assert_eq!(servers.len(), 2, "{zone}");
        for server in &servers {
            assert!(addresses.contains(&Name::from_wire(server).expect("a name")), "{zone}");
        }
        let Some(parent) = zone.parent() else { continue };
        assert!(zones[place..].contains(&parent), "{zone} comes before its parent");
        let delegation = all[&parent].iter().filter(|record| record.0 == *zone && record.1 == NS);
        assert_eq!(delegation.map(|record| &record.2).collect::<Vec<_>>(), servers, "{zone}");
    }
    for asked in internet.names() {
        let domain = last_labels(asked, 2).expect("a domain");
        let star = domain.prepend(b"*").expect("a short name");
        let has =
            |owner: &Name| all[&domain].iter().any(|record| record.0 == *owner && record.1 == A);
        assert_eq!(internet.exists(asked), has(asked) || has(&star), "{asked}");
    }
}

#[test]
fn zones_of_made_names_fit_together() {
    let made = Internet::new(plan(), synthetic(4, 25, 10)).expect("valid");
    assert_eq!((made.names().count(), made.zones().count()), (1_000, 4 * 25 + 4 + 1));
    check(&made);
    let missing = made.names().filter(|name| !made.exists(name)).count();
    assert!((60..140).contains(&missing), "{missing}");
    let glueless =
        made.zones().filter(|zone| zone.labels().count() == 2 && made.provider(zone) != *zone);
    let glueless = glueless.count();
    assert!((15..45).contains(&glueless), "{glueless}");
    let again = Internet::new(plan(), synthetic(4, 25, 10)).expect("valid");
    assert!(made.zones().all(|zone| zone_file(&made, &zone) == zone_file(&again, &zone)));
}

#[test]
fn extreme_shares_are_possible() {
    for (glueless, wildcards, missing) in [(1.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 1.0, 1.0)] {
        let plan = InternetPlan { glueless, wildcards, missing, ..plan() };
        check(&Internet::new(plan, synthetic(2, 10, 5)).expect("valid"));
    }
}

#[test]
fn names_of_a_capture_become_zones() {
    let asked = [
        "WWW.Example.com",
        "www.example.com",
        "a.b.c.example.com",
        "example.com",
        "com",
        "wpad",
        "ns1.example.com",
        "x.nic-servers.com",
        "a.root-servers",
        "*.example.org",
        "1.2.in-addr.arpa",
    ];
    let internet = Internet::new(plan(), asked.map(name)).expect("valid");
    let names: Vec<String> = internet.names().map(ToString::to_string).collect();
    let wanted = ["1.2.in-addr.arpa", "example.com", "a.b.c.example.com", "www.example.com"];
    assert_eq!(names, wanted);
    let zones: Vec<String> = internet.zones().map(|zone| zone.to_string()).collect();
    assert_eq!(zones, ["in-addr.arpa", "example.com", "arpa", "com", "."]);
    check(&internet);
}

#[test]
fn signed_zones_have_signed_parents() {
    let unsigned = Internet::new(plan(), synthetic(3, 50, 1)).expect("valid");
    assert!(!unsigned.zones().any(|zone| unsigned.is_signed(&zone)));
    let signed = InternetPlan { signed: 0.2, ..plan() };
    let signed = Internet::new(signed, synthetic(3, 50, 1)).expect("valid");
    let (domains, above): (Vec<Name>, Vec<Name>) =
        signed.zones().partition(|zone| zone.labels().count() == 2);
    assert!(above.iter().all(|zone| signed.is_signed(zone)));
    let count = domains.iter().filter(|zone| signed.is_signed(zone)).count();
    assert!((10..60).contains(&count), "{count}");
}

#[test]
fn impossible_parameters_are_named() {
    let refused = |plan: InternetPlan| plan.validate().expect_err("refused").to_string();
    for (plan, why) in [
        (InternetPlan { missing: 1.5, ..plan() }, "the share of missing names is 1.5"),
        (InternetPlan { signed: f64::NAN, ..plan() }, "the share of signed domains is NaN"),
        (InternetPlan { servers: 1, ..plan() }, "1 servers of domains: there are 2 to 48000"),
        (InternetPlan { first: Ipv4Addr::new(10, 53, 1, 0), ..plan() }, "10.53.1.0 does not begin"),
    ] {
        let told = refused(plan);
        assert!(told.contains(why), "{told}");
    }
    let none = Internet::new(plan(), [name("com"), Name::ROOT]).expect_err("no names");
    assert_eq!(none, InternetError::NoNames);
    let tlds = Internet::new(plan(), synthetic(8_001, 1, 1)).expect_err("too many");
    assert_eq!(tlds, InternetError::TooManyTlds(8_001));
}

#[test]
fn files_of_zones_have_plain_and_different_names() {
    let zones = [".", "com", "example.com", "ex\\.com", "x/y", "ex%2ecom", "\\000", "@.zone"];
    let names: BTreeSet<String> = zones.iter().map(|zone| file_name(&name(zone))).collect();
    assert_eq!(names.len(), zones.len(), "{names:?}");
    assert!(names.contains("@.zone") && names.contains("example.com.zone"));
    assert!(names.iter().all(|file| !file.contains('/')));
}

#[test]
fn queries_repeat_as_often_as_is_wanted() {
    let internet = Internet::new(plan(), synthetic(5, 100, 20)).expect("valid");
    for hit_rate in [0.0, 0.5, 0.9] {
        let queries = InternetQueries { count: 10_000, hit_rate, seed: 7 };
        queries.check(internet.names().count() as u64).expect("enough names");
        let mut text = Vec::new();
        let written = queries.write(&internet, &mut text).expect("in memory");
        let text = String::from_utf8(text).expect("text");
        let (mut asked, mut hits, mut missing) = (BTreeSet::new(), 0.0, 0);
        for (line, number) in text.lines().zip(1u32..) {
            let is_new = asked.insert(line);
            hits += if is_new { 0.0 } else { 1.0 };
            assert_eq!(hits, queries.repeated(number.into()) as f64, "after {number} queries");
            let (qname, _) = line.split_once(' ').expect("name and type");
            missing += u64::from(is_new && !internet.exists(&name(qname)));
            if number > 3_000 {
                let share: f64 = hits / f64::from(number);
                assert!((share - hit_rate).abs() < 0.001, "{share} after {number} queries");
            }
        }
        assert_eq!((written.queries, written.repeated as f64), (10_000, hits));
        assert_eq!(written.missing, missing);
        assert!((written.hit_rate() - hit_rate).abs() < 1e-9);
        let mut again = Vec::new();
        queries.write(&internet, &mut again).expect("in memory");
        assert_eq!(again, text.as_bytes());
    }
    let many = InternetQueries { count: 20_000, hit_rate: 0.4, seed: 7 };
    let why = many.check(10_000).expect_err("too few names").to_string();
    assert!(
        why.starts_with("20000 queries with this hit rate need 12000 names, but there are 10000"),
        "{why}"
    );
}

proptest! {
    #[test]
    fn any_names_make_zones_that_can_be_read(
        labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 2..6), seed: u64,
    ) {
        let named = labels.iter().try_fold(Name::ROOT, |name, label| name.prepend(label));
        let named = named.expect("short labels");
        let plan = InternetPlan { seed, missing: 0.5, glueless: 0.5, wildcards: 0.5, ..plan() };
        match Internet::new(plan, synthetic(2, 3, 2).chain([named])) {
            Ok(internet) => check(&internet),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}
