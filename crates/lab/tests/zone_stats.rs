//! Counts of zones beside those of BIND's own dump of the same zones.

mod signed;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use zone::stats::Stats;
use zone::{LeafZone, NameServer, Reader, TldZone};

const NAME: &str = "test";
const HEAD: &str = "$ORIGIN test.\n$TTL 3600\n@ SOA ns1 hostmaster 1 3600 900 604800 300\n@ NS ns1\nns1 A 192.0.2.1\n";

/// Zones of different make: a name, and the records after the head.
const ZONES: [(&str, &str); 6] = [
    ("plain", "www A 192.0.2.2\nwww AAAA 2001:db8::2\n* TXT any\nmail MX 10 www\n"),
    (
        "nested",
        "a NS ns.a\nns.a A 192.0.2.2\nb.a NS ns.b.a\nns.b.a A 192.0.2.3\nc.b.a NS ns.other.\nz NS ns.b.a\n",
    ),
    (
        "bailiwick",
        "in NS in\nin A 192.0.2.2\nin AAAA 2001:db8::2\nout NS ns.elsewhere.\nsib NS ns.in\nns.in A 192.0.2.3\n",
    ),
    ("empty-names", "a.b.c.d.e A 192.0.2.2\nx.c.d.e NS ns.x.c.d.e\nns.x.c.d.e A 192.0.2.3\n"),
    ("dname", "d DNAME www.example.\ne A 192.0.2.2\nd2.e DNAME d\nf NS ns.f\nns.f A 192.0.2.4\n"),
    ("wildcard", "*.w A 192.0.2.2\n*.w MX 10 ns1\nw.w NS ns.w.w\nns.w.w AAAA 2001:db8::3\n"),
];

/// A count: names, delegations, those with DS, their NS records, glue, occluded names.
type Counts = [usize; 6];

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    assert!(output.status.success(), "{program} {args:?}: {}", text(output.stderr));
    text(output.stdout)
}

/// Returns the records of BIND's dump of a zone, one to a line, each with its owner.
fn dump(path: &Path) -> Vec<String> {
    let path = path.to_str().expect("UTF-8");
    // No checks of the data: zones of this test have names without addresses.
    let options = [
        "-q", "-i", "none", "-k", "ignore", "-n", "ignore", "-r", "ignore", "-s", "full", "-o", "-",
    ];
    let text = run("named-compilezone", &[&options[..], &[NAME, path]].concat());
    text.lines().filter(|line| !line.starts_with(';')).map(str::to_owned).collect()
}

/// Counts the records of a dump by the definitions of `zone stats`.
fn recount(lines: &[String]) -> Counts {
    let mut names = BTreeMap::<String, Vec<&str>>::new();
    for line in lines {
        let mut words = line.split_ascii_whitespace();
        let owner = words.next().expect("an owner").to_ascii_lowercase();
        names.entry(owner).or_default().push(words.nth(2).expect("a type"));
    }
    let has = |name: &str, rtype| names.get(name).is_some_and(|types| types.contains(&rtype));
    let mut counts = [names.len(), 0, 0, 0, 0, 0];
    for (name, types) in &names {
        let labels: Vec<&str> =
            name.strip_suffix("test.").expect("in the zone").split_terminator('.').collect();
        let ups = (0..labels.len()).rev().map(|at| format!("{}.test.", labels[at..].join(".")));
        let Some(cut) = ups.into_iter().find(|up| has(up, "NS") || has(up, "DNAME")) else {
            continue;
        };
        let of = |wanted: &[&str]| types.iter().filter(|t| wanted.contains(t)).count();
        if has(&cut, "NS") {
            counts[4] += of(&["A", "AAAA"]);
            if cut == *name {
                counts[1] += 1;
                counts[2] += usize::from(of(&["DS"]) > 0);
                counts[3] += of(&["NS"]);
            }
        }
        counts[5] += usize::from(cut != *name);
    }
    counts
}

/// Compares the counts of a zone file with those of BIND's dump.
fn check(path: &Path) -> Counts {
    let (lines, name) = (dump(path), NAME.parse().expect("a name"));
    let s = Stats::of(|| Reader::open(path, Some(name))).expect("a valid zone");
    let all = [s.names, s.delegations, s.signed_delegations, s.servers, s.glue, s.occluded];
    let counts = all.map(|n| usize::try_from(n).expect("small"));
    assert_eq!((counts, s.records), (recount(&lines), lines.len() as u64), "{path:?}");
    counts
}

fn bind_is_missing() -> bool {
    let missing = Command::new("named-compilezone").arg("-v").output().is_err();
    if missing {
        skip::because("named-compilezone is not installed (bind9-utils)");
    }
    missing
}

#[test]
fn counts_are_those_of_another_reader_of_the_zone() {
    if bind_is_missing() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    for (name, records) in ZONES {
        let path = dir.path().join(name);
        fs::write(&path, format!("{HEAD}{records}")).expect("writes");
        check(&path);
    }
    let (tld, leaf) = (dir.path().join("tld"), dir.path().join("leaf"));
    let zone = NAME.parse().expect("a name");
    TldZone::new(zone, 500, 3)
        .write(&mut fs::File::create(&tld).expect("creates"))
        .expect("writes");
    let counts = check(&tld);
    assert_eq!(counts[1], 500);
    assert!(counts[4] > 20, "{counts:?}");
    let server = NameServer { v4: [192, 0, 2, 1].into(), v6: std::net::Ipv6Addr::LOCALHOST };
    let leaf_zone = LeafZone { zone, hosts: 100, ttl: 60, server, seed: 1 };
    leaf_zone.write(&mut fs::File::create(&leaf).expect("creates")).expect("writes");
    check(&leaf);
}

#[test]
fn counts_of_signed_zones_do_not_depend_on_the_signer() {
    if bind_is_missing() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let zone = NAME.parse().expect("a name");
    let input = dir.path().join("unsigned");
    let mut file = fs::File::create(&input).expect("creates");
    TldZone::new(zone, 300, 4).write(&mut file).expect("writes");
    let unsigned = check(&input);
    // Signing adds names of NSEC3 records, and nothing to delegations and glue.
    signed::by_each_signer(dir.path(), &zone, &input, |_, _, output| {
        assert_eq!(check(output)[1..], unsigned[1..], "{output:?}");
    });
}
