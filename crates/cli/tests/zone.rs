//! `dnsdyno zone` as a user sees it.

use std::path::Path;
use std::process::Command;

use crate::kit::command::{Told, run_in};

/// Runs `dnsdyno zone` in a folder; exit code, standard output, standard error.
fn zone(dir: &Path, line: &str) -> Told {
    run_in(dir, &format!("zone {line}"))
}

/// Runs `dnsdyno zone` with the words of a line, which must succeed; standard output.
fn succeeds(dir: &Path, line: &str) -> String {
    let (code, out, err) = zone(dir, line);
    assert_eq!(code, 0, "{line}: {err}");
    out
}

#[test]
fn from_a_seed_to_slices() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let run = |line: &str| succeeds(dir, line);
    run("generate tld --zone nl --delegations 3k --output nl.zone");
    let stats: serde_json::Value =
        serde_json::from_str(&run("stats --json - nl.zone")).expect("JSON");
    assert_eq!(stats["zone"], "nl");
    assert_eq!(stats["delegations"], 3_000);
    assert_eq!(stats["canonical_order"], true);
    run("queries nl.zone --count 1k --missing 0 --output nl.queries");
    let said = run("slice nl.zone --parts 3 --queries nl.queries --output part");
    assert!(said.ends_with("0 queries for names outside of every slice\n"), "{said}");
    let lines =
        |name: &str| std::fs::read_to_string(dir.join(name)).expect("reads").lines().count();
    assert_eq!((1..=3).map(|n| lines(&format!("part.{n}.queries"))).sum::<usize>(), 1_000);
    let delegations: u64 = (1..=3)
        .map(|n| run(&format!("stats --json - part.{n}.zone")))
        .map(|json| serde_json::from_str::<serde_json::Value>(&json).expect("JSON"))
        .map(|stats| stats["delegations"].as_u64().expect("a number"))
        .sum();
    assert_eq!(delegations, 3_000);
}

#[test]
fn names_without_leading_zeros_are_a_zone_in_canonical_order() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let run = |line: &str| succeeds(dir, line);
    let generate = "generate dns64 --namespace 10.0.0.0/20 --unpadded";
    run(&format!("{generate} --output expanded.zone"));
    run(&format!("{generate} --style generate --output generate.zone"));
    let stats = run("stats --json - expanded.zone");
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!((&stats["names"], &stats["canonical_order"]), (&(4_096 + 2).into(), &true.into()));
    // The same records as `$GENERATE` lines, which other programs expand too.
    assert_eq!(run("compare expanded.zone generate.zone"), "the same 4099 records\n");
    let text = std::fs::read_to_string(dir.join("expanded.zone")).expect("reads");
    assert!(
        text.contains("\n10-0-2-10\tA\t10.0.2.10\n10-0-2-100\tA\t10.0.2.100\n"),
        "{}",
        text.len()
    );
}

/// Every type that named reads: what is read from the file is what named writes after it has read the same file.
#[test]
fn every_type_is_read_as_named_reads_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    std::fs::write(dir.join("all.zone"), include_str!("tables/every_type.zone")).expect("writes");
    std::fs::write(dir.join("more hosts.zone"), "@ A 192.0.2.2\nwww 5 CNAME @\n").expect("writes");
    let named = Command::new("named-compilezone")
        .args("-i none -k ignore -n ignore -s full -o named.zone example all.zone".split(' '))
        .current_dir(dir)
        .output();
    let Ok(named) = named else { return skip::because("named-compilezone is not installed") };
    assert!(named.status.success(), "{}", String::from_utf8_lossy(&named.stdout));
    let (code, out, err) = zone(dir, "compare all.zone named.zone --soa --signatures");
    assert_eq!((code, &*out), (0, "the same 79 records\n"), "{err}");
    assert_eq!(err, "all.zone:81: out.of.zone is outside of the zone and left out, and 1 more\n");
    // What is written has the same records too.
    succeeds(dir, "slice all.zone --range .. --output part");
    assert_eq!(
        succeeds(dir, "compare part.1.zone named.zone --soa --signatures"),
        "the same 79 records\n"
    );
    let (_, stats, _) = zone(dir, "stats --json - all.zone");
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!(stats["records"], 79);
}

/// A zone whose first record is not the SOA record has its name from `--zone`.
#[test]
fn zones_are_compared_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    std::fs::write(dir.join("a.zone"), "$TTL 5\nwww A 192.0.2.1\n@ SOA @ h 1 2 3 4 5\n")
        .expect("writes");
    std::fs::write(dir.join("b.zone"), "@ SOA @ h 1 2 3 4 5\nwww.example. A 192.0.2.1\n")
        .expect("writes");
    let (code, _, err) = zone(dir, "compare a.zone b.zone");
    assert!(code == 2 && err.contains("the origin of this name is not known"), "{err}");
    let (code, out, err) = zone(dir, "compare a.zone b.zone --zone example --soa");
    assert_eq!((code, &*out), (0, "the same 2 records\n"), "{err}");
    assert!(
        err.starts_with(
            "b.zone: the SOA record has no TTL: all records without one get its minimum, 5 s"
        ),
        "{err}"
    );
    std::fs::write(
        dir.join("c.zone"),
        "$TTL 5\n@ SOA @ h 1 2 3 4 5\nwww A 192.0.2.1\nwww 7 A 192.0.2.1\n",
    )
    .expect("writes");
    let (code, out, err) = zone(dir, "compare a.zone c.zone --zone example");
    assert_eq!((code, &*out), (0, "the same 1 records\n"), "a record written twice is one: {err}");
    std::fs::write(
        dir.join("d.zone"),
        "$TTL 5\n@ SOA @ h 1 2 3 4 5\nwww A 192.0.2.1\nwww 7 A 192.0.2.2\n",
    )
    .expect("writes");
    let (code, _, err) = zone(dir, "compare d.zone d.zone --zone example");
    let told = "d.zone: a set has one TTL, as in named: 1 records have another one";
    assert!(code == 0 && err.contains(told), "{err}");
}

/// A set whose records have several TTLs has the one that named takes.
#[test]
fn sets_have_the_ttl_that_named_takes() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    for records in [
        "m A 192.0.2.1\nm 9 A 192.0.2.2\nm TXT t\nm 8 A 192.0.2.3\n",
        "m A 192.0.2.1\nk A 192.0.2.1\nm 9 A 192.0.2.2\nm 8 A 192.0.2.3\n",
        "m 9 A 192.0.2.1\nm TXT t\nk A 192.0.2.1\nM 7 A 192.0.2.1\n",
        "m 9 A 192.0.2.1\nk A 192.0.2.1\nm A 192.0.2.2\nk A 192.0.2.1\nm 7 A 192.0.2.3\n",
        // Also where the records between are not compared.
        "m 9 A 192.0.2.1\nk NSEC m A\nm 7 A 192.0.2.2\n",
    ] {
        let head = "$TTL 5\n@ SOA n h 1 2 3 4 5\n@ NS n\nn A 192.0.2.1\n";
        std::fs::write(dir.join("a.zone"), format!("{head}{records}")).expect("writes");
        let named = Command::new("named-compilezone")
            .args("-i none -o b.zone x a.zone".split(' '))
            .current_dir(dir)
            .output();
        let Ok(named) = named else { return skip::because("named-compilezone is not installed") };
        assert!(named.status.success(), "{}", String::from_utf8_lossy(&named.stdout));
        for more in ["--signatures", ""] {
            let (code, out, err) = zone(dir, &format!("compare a.zone b.zone --zone x {more}"));
            assert_eq!(code, 0, "{records} {more}: {out}{err}");
        }
    }
}

/// `zone check` refuses what named refuses, and nothing else.
#[test]
fn zones_are_checked_as_named_checks_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let head = "$ORIGIN x.\n$TTL 5\n@ SOA n h 1 2 3 4 5\nn A 192.0.2.1\n";
    let none = "no NS record: a zone needs the names of its servers";
    let both = "a CNAME record and other data: leave one of them";
    let address = "a server of the zone without address: add an A or AAAA record";
    let alias = "a server of the zone that is an alias (CNAME): write its own name";
    let below = "a server of the zone below a DNAME record: write its own name";
    for (records, name, what) in [
        ("@ NS N\n@ NS n.y.\nd NS q.d\n", "", ""),
        ("d NS n\n", "x", none),
        ("@ NS n\na CNAME b\nb TXT t\nA A 192.0.2.2\n", "a.x", both),
        ("@ NS n\na CNAME b\na NSEC b CNAME\na CNAME B\n", "", ""),
        ("@ NS n\na CNAME b\na CNAME c\n", "a.x", "several CNAME records: leave one"),
        ("@ NS n\na DNAME b\na DNAME c\n", "a.x", "several DNAME records: leave one"),
        ("@ NS n\n*.w NS q.y.\n", "*.w.x", "NS records of a wildcard: write each delegation"),
        (
            "@ NS n\n@ DS 1 8 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
            "x",
            "a DS record of the zone's own name: it belongs to the zone above",
        ),
        ("@ NS n\n@ NS m\n", "m.x", address),
        ("@ NS n\n@ NS 192.0.2.1\n", "192.0.2.1.x", address),
        ("@ NS m\nm AAAA ::1\n", "", ""),
        ("@ NS m\nm CNAME n\n", "m.x", alias),
        ("@ NS m.d\nd DNAME n\n", "m.d.x", below),
        ("@ NS n\n@ DNAME y.\n", "n.x", below),
        // Another zone has the address.
        ("@ NS m.d\nd NS q.y.\n", "", ""),
        ("@ NS m.d\n*.d A 192.0.2.1\n", "", ""),
        ("@ NS m.d\n*.d CNAME n\n", "m.d.x", alias),
        ("@ NS m.d\n*.d A 192.0.2.1\nk.m.d A 192.0.2.1\n", "m.d.x", address),
        // Warnings of named.
        ("@ NS n\nd NS n.d\na MX 5 b\na SRV 1 1 1 c\nc CNAME n\na.y. A 192.0.2.1\n", "", ""),
    ] {
        std::fs::write(dir.join("x.zone"), format!("{head}{records}")).expect("writes");
        let said = match name {
            "" => "x.zone: no errors\n".to_owned(),
            name => format!("x.zone: {name}: {what}\n"),
        };
        let (code, out, err) = zone(dir, "check x.zone");
        assert_eq!((code, out), (i32::from(!name.is_empty()), said), "{records}: {err}");
        let named = Command::new("named-checkzone")
            .args("-i local x x.zone".split(' '))
            .current_dir(dir)
            .output();
        let Ok(named) = named else { return skip::because("named-checkzone is not installed") };
        let told = String::from_utf8_lossy(&named.stdout);
        assert_eq!(named.status.success(), name.is_empty(), "{records}: {told}");
    }
}

#[test]
fn bad_zones_get_one_message_with_its_place() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let soa = "$ORIGIN example.\n@ 60 IN SOA ns1 h 1 2 3 4 5\n";
    std::fs::write(dir.join("bad.zone"), format!("{soa}\na A 192.0.2.256\n")).expect("writes");
    std::fs::write(dir.join("good.zone"), format!("{soa}a A 192.0.2.1\n")).expect("writes");
    let more = |name: &str, line: &str| {
        std::fs::write(dir.join(name), format!("{soa}{line}\n")).expect("writes");
    };
    more("generated.zone", "$GENERATE 2-1 a$ A 192.0.2.$");
    more("including.zone", "$INCLUDE bad.zone");
    more("incremental.ixfr", "@ SOA ns1 h 2 2 3 4 5");
    more("cut.axfr", "a A 192.0.2.1\n; Transfer failed.");
    std::fs::write(dir.join("failed.axfr"), "; <<>> DiG <<>> example AXFR\n; Transfer failed.\n")
        .expect("writes");
    let fifo = Command::new("mkfifo").arg(dir.join("pipe")).status().expect("mkfifo");
    assert!(fifo.success());
    std::fs::copy(dir.join("good.zone"), dir.join("part.1.zone")).expect("copies");
    let table: [(&str, &str); 19] = [
        ("slice part.1.zone --range .. --output part", "part.1.zone: the command reads this file"),
        (
            "stats pipe",
            "cannot read the zone file pipe: it is a pipe or a device: save it to a file",
        ),
        ("compare good.zone good.zone --zone a..b", "an empty label"),
        ("stats bad.zone", "bad.zone:4:5: `192.0.2.256` is not an IPv4 address"),
        (
            "stats nowhere.zone",
            "cannot read the zone file nowhere.zone: No such file or directory (os error 2)\n",
        ),
        ("slice bad.zone --output x", "bad.zone:4:5: "),
        ("queries bad.zone --output x", "bad.zone:4:5: "),
        ("compare good.zone bad.zone", "bad.zone:4:5: "),
        ("stats generated.zone", "generated.zone:3:11: `2-1` is not a range of $GENERATE"),
        ("stats including.zone", "bad.zone:4:5: "),
        ("stats incremental.ixfr", "incremental.ixfr:3:1: another SOA record"),
        ("compare failed.axfr failed.axfr --zone example", "failed.axfr: it has no SOA record"),
        ("stats failed.axfr --zone example", "failed.axfr: it has no SOA record"),
        ("compare good.zone cut.axfr", "cut.axfr: dig wrote that this transfer failed"),
        ("queries cut.axfr --output x", "cut.axfr: dig wrote that this transfer failed"),
        ("slice good.zone --parts 2 --output x", "only 1 different labels"),
        ("slice good.zone --range n..g --output x", "ends before it starts"),
        ("queries good.zone --range n.. --output x", "no names below its apex in the range n.."),
        ("generate tld --delegations 5x --output x", "is not a count"),
    ];
    for (line, part) in table {
        let (code, _, err) = zone(dir, line);
        assert_eq!(code, 2, "{line}: {err}");
        assert!(err.contains(part), "{line}: {err}");
    }
}
