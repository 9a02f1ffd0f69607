//! `dnsdyno trace` as a user sees it.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;

use measure::Nanos;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use tempfile::TempDir;
use trace::{Transport, Writer};
use wire::Qtype;

use crate::kit::capture::{write, write_udp};
use crate::kit::command::{dnsdyno, refused, run, run_in};
use crate::kit::host::signal;
use crate::kit::peer::{self, reply};
use crate::kit::serve::query;

/// What is said of a capture whose end is missing.
const CUT: &str = "the capture is cut short: it ends in the middle of a packet at byte";

/// A folder with `c.pcap`: 100 queries a millisecond apart, of ten clients, every fifth over TCP; each is answered NXDOMAIN.
fn captured() -> TempDir {
    let mut out = Writer::new(Vec::new()).expect("in memory");
    let server = SocketAddr::from(([192, 0, 2, 53], 53));
    for number in 0..100u16 {
        let client = SocketAddr::from(([10, 0, 0, (number % 10) as u8], 1_000 + number));
        let qtype = if number % 4 == 0 { Qtype::AAAA } else { Qtype::A };
        let mut bytes = query(&format!("www.n{number}.example"), qtype, 0);
        let tcp = number % 5 == 0;
        let transport = if tcp { Transport::Tcp { sequence: 1 } } else { Transport::Udp };
        for ends in [[client, server], [server, client]] {
            write(&mut out, Nanos::from_millis(number.into()), ends, transport, &bytes);
            bytes[2] |= 0x80;
            bytes[3] |= 3;
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let octets = out.finish().expect("in memory");
    std::fs::write(dir.path().join("c.pcap"), octets).expect("written");
    dir
}

/// The same without so many octets at its end.
fn captured_without(octets: usize) -> TempDir {
    let dir = captured();
    let path = dir.path().join("c.pcap");
    let whole = std::fs::read(&path).expect("there");
    std::fs::write(&path, &whole[..whole.len() - octets]).expect("written");
    dir
}

/// Statistics of captures in a folder.
fn stats(dir: &Path, files: &str) -> Value {
    let (code, out, err) = run_in(dir, &format!("trace stats {files} --json -"));
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn a_capture_is_characterised() {
    let dir = captured();
    let (code, out, err) = run_in(dir.path(), "trace stats c.pcap");
    assert_eq!((code, &*err), (0, ""), "{out}");
    for line in [
        "Start: 2023-11-14T22:13:20.000000000Z, duration: 0.10 seconds.",
        "100 requests (100.0% failed)",
        "            75  75.0%  A                          75 failed (100.0%)",
        "Clients: 10 in all; 5 make half of the requests, 9 make nine in ten",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    assert!(!out.contains('█'), "{out}");
    let (_, out, _) = run_in(dir.path(), "trace stats c.pcap --plots");
    for part in [
        "of 10 clients:",
        "Types, of all queries:",
        "Octets of replies:",
        "  NXDOMAIN          100 100.0% █",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let stats = stats(dir.path(), "c.pcap c.pcap");
    // Merged by time, the same segments are repetitions: 160 queries over UDP, and 20 over TCP.
    assert_eq!(stats["packets"]["packets"], 400);
    assert_eq!(stats["queries"]["messages"], 180);
    assert_eq!(stats["return_codes"][0]["name"], "NXDOMAIN");
    assert_eq!(stats["series"]["queries"].as_array().expect("bins").len(), 1);
}

#[test]
fn what_is_cut_or_foreign_is_told() {
    let dir = captured_without(5);
    let (code, out, err) = run_in(dir.path(), "trace stats c.pcap");
    assert_eq!(code, 1);
    assert!(out.starts_with("INCOMPLETE: ") && out.contains("100 requests"), "{out}");
    assert!(err.contains(CUT), "{err}");
    std::fs::write(dir.path().join("c.pcap"), "a text").expect("written");
    let (code, _, err) = run_in(dir.path(), "trace stats c.pcap");
    assert!(code == 2 && err.contains("not a capture: it starts with the bytes"), "{err}");
    let err = refused("trace stats /nonexistent.pcap");
    assert!(err.contains("cannot read the capture /nonexistent.pcap"), "{err}");
}

#[test]
fn an_input_is_not_overwritten() {
    let dir = captured();
    let path = dir.path().join("c.pcap");
    let before = std::fs::read(&path).expect("a capture");
    std::os::unix::fs::symlink(&path, dir.path().join("same.pcap")).expect("links");
    std::fs::write(dir.path().join("key"), "0".repeat(64)).expect("writes");
    for line in [
        "filter c.pcap --output same.pcap",
        "anonymise c.pcap --key-file key --output c.pcap",
        "queries c.pcap --output c.pcap",
        "export c.pcap --format csv --output c.pcap",
        "mix c.pcap --with c.pcap --share 0.5 --output c.pcap",
    ] {
        let (code, _, err) = run_in(dir.path(), &format!("trace {line}"));
        assert!(code == 2 && err.contains("the command reads this file"), "{line}: {err}");
    }
    // A wrong name of an input leaves the output as it is.
    let (code, _, err) = run_in(dir.path(), "trace filter nothing.pcap --output c.pcap");
    assert!(code == 2 && err.contains("cannot read the capture nothing.pcap"), "{err}");
    assert_eq!(std::fs::read(&path).expect("a capture"), before);
}

#[test]
fn a_capture_is_replayed() {
    let dir = captured();
    let (seen, types) = channel();
    let server = peer::start(move |query, _| {
        // The test may have ended.
        let _ = seen.send(query[query.len() - 3]);
        reply(query, 0)
    });
    let line = format!("load {server} --replay c.pcap --speed 0.5x --timeout 10s --json -");
    let (_, out, err) = run_in(dir.path(), &line);
    let trial: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    let types: Vec<u8> = types.try_iter().collect();
    let of = |qtype| types.iter().filter(|found| **found == qtype).count();
    assert_eq!((of(1), of(28)), (75, 25));
    assert_eq!((&trial["sent"], &trial["valid"]), (&100.into(), &100.into()), "{trial}");
    assert_eq!(trial["conditions"]["pacing"], "replay at 0.5x");
    assert_eq!(trial["conditions"]["workload"], "100 queries of 10 clients of c.pcap");
    // 99 ms of capture at half the speed.
    let seconds = trial["duration_s"].as_f64().expect("a number");
    assert!((seconds - 0.198).abs() < 1e-6, "{seconds}");
    for (bad, message) in [
        ("--replay c.pcap --rate 5", "cannot be used with"),
        ("--replay c.pcap --speed fast", "`fast` is not a speed such as 1x, 2x or 0.5x"),
        ("--replay c.pcap --dns-port 54", "it contains no query to replay (0 replies"),
        ("--replay /nonexistent", "cannot read the capture /nonexistent"),
    ] {
        let (code, _, err) = run_in(dir.path(), &format!("load 127.0.0.1:1 {bad}"));
        assert!(code == 2 && err.contains(message), "{bad} {err}");
    }
}

#[test]
fn a_cut_capture_is_replayed_up_to_there() {
    // The last reply and a part of the query before it.
    let dir = captured_without(120);
    let server = peer::start(|query, _| reply(query, 0));
    let line = format!("load {server} --replay c.pcap --timeout 10s --json -");
    let (code, out, err) = run_in(dir.path(), &line);
    let trial: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    assert_eq!((code, &trial["sent"], &trial["valid"]), (1, &99.into(), &99.into()), "{err}");
    assert!(err.contains(CUT) && err.contains("the queries before it were replayed"), "{err}");
    let warnings = trial["warnings"].to_string();
    assert!(warnings.contains("the capture is cut"), "{warnings}");
}

#[test]
fn every_tool_keeps_what_stands_before_a_cut() {
    let dir = captured_without(5);
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("key"), "0123456789abcdef".repeat(4)).expect("written");
    for (tool, options) in [
        ("filter", "--output out"),
        ("queries", "--output out"),
        ("slice", "--zone example --range ..n5,n5.. --output slices"),
        ("anonymise", "--key-file key --output out"),
        ("export", "--format csv --output out"),
    ] {
        let (code, _, err) = run_in(dir.path(), &format!("trace {tool} c.pcap {options}"));
        assert!(code == 1 && err.contains(CUT), "{tool}: {err}");
        if tool != "slice" {
            let written = std::fs::metadata(at("out")).expect("written").len();
            assert!(written > 1_000, "{tool}: {written} octets");
            std::fs::remove_file(at("out")).expect("there");
        }
    }
}

#[test]
fn an_interface_is_listened_to() {
    let err = refused("trace stats --device no-such-if --for 1ms");
    assert!(err.contains("no-such-if"), "{err}");
    let (code, out, err) = run("trace stats --device lo --for 10ms");
    if err.contains("no right to listen") {
        return skip::because(err);
    }
    assert_eq!(code, 0, "{out}{err}");
    // Asked until one is seen: it takes a while until it listens.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut child = dnsdyno("trace queries --device lo --dns-port 9 --for 30s --output");
    let path = tempfile::NamedTempFile::new().expect("a file");
    let mut child = child.arg(path.path()).spawn().expect("starts");
    let listening = format!("/proc/{}/net/packet", child.id());
    let sockets = || std::fs::read_to_string(&listening).map_or(0, |text| text.lines().count());
    let (begun, mut sent) = (std::time::Instant::now(), 0);
    while sent < 100 && begun.elapsed().as_secs() < 20 {
        if sockets() > 1 {
            socket.send_to(&query("heard.example", Qtype::MX, 0), "127.0.0.1:9").expect("sent");
            sent += 1;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    signal(child.id(), "TERM");
    assert!(child.wait().expect("it ends").success());
    let heard = std::fs::read_to_string(path.path()).expect("written");
    assert!(heard.contains("heard.example MX"), "{heard}");
}

#[test]
fn other_queries_are_added_or_replace_some() {
    let dir = captured();
    let mut out = Writer::new(Vec::new()).expect("in memory");
    let ends = [([192, 0, 2, 1], 9), ([192, 0, 2, 53], 53)].map(SocketAddr::from);
    for name in ["a.other", "b.other"] {
        write(&mut out, Nanos(7), ends, Transport::Udp, &query(name, Qtype::TXT, 0));
    }
    let other = out.finish().expect("in memory");
    std::fs::write(dir.path().join("other.pcap"), other).expect("written");
    let mix = |options: &str| {
        let line = format!("trace mix c.pcap --with other.pcap --output mixed.pcap {options}");
        run_in(dir.path(), &line)
    };
    let count = |options: &str| {
        let (code, _, err) = mix(options);
        assert_eq!(code, 0, "{err}");
        let (_, out, _) = run_in(dir.path(), "trace queries mixed.pcap --output -");
        let others = out.lines().filter(|line| line.ends_with(" TXT")).count();
        let (_, stats, _) = run_in(dir.path(), "trace stats mixed.pcap");
        assert!(stats.contains("duration: 0.10 seconds"), "{stats}");
        (out.lines().count(), others)
    };
    assert_eq!(count("--share 0.2"), (125, 25));
    assert_eq!(count("--share 0.5"), (200, 100));
    let (all, others) = count("--share 0.5 --replace");
    assert!(all == 100 && (30..70).contains(&others), "{others}");
    assert_eq!(count("--share 1 --replace"), (100, 100));
    let (code, _, err) = mix("--share 1");
    assert!(code == 2 && err.contains("give a smaller share, or --replace"), "{err}");
}

#[test]
fn a_capture_is_cut_hidden_and_turned_into_queries() {
    let dir = captured();
    let trace = |line: &str| run_in(dir.path(), &format!("trace {line}"));
    // Of a capture: queries, replies, clients.
    let counts = |file: &str| {
        let stats = stats(dir.path(), file);
        let [queries, replies] = ["queries", "replies"].map(|of| stats[of]["messages"].as_u64());
        [queries, replies, stats["clients"]["distinct"].as_u64()].map(|n| n.expect("a count"))
    };
    for (select, expected) in [
        ("--type AAAA", [25, 25, 5]),
        ("--type MX,AAAA --only queries", [25, 0, 5]),
        ("--zone n7.example,n13.example", [2, 2, 2]),
        ("--client 10.0.0.0/31,10.0.0.9", [30, 30, 3]),
        ("--from 2023-11-14T22:13:20.050Z", [50, 50, 10]),
        ("--from 2023-11-14T22:13:20.010Z --to 1700000000.02", [10, 10, 10]),
        ("--sample 0", [0, 0, 0]),
    ] {
        let (code, _, err) = trace(&format!("filter c.pcap --output out.pcap {select}"));
        assert_eq!(code, 0, "{err}");
        assert_eq!(counts("out.pcap"), expected, "{select}");
    }

    let (code, said, err) =
        trace("slice c.pcap --zone example --range ..n3,n3..n8,n8.. --output part");
    assert_eq!((code, &*err), (0, ""));
    assert!(said.ends_with("0 messages with names outside of every slice\n"), "{said}");
    let parts = [1, 2, 3].map(|n| counts(&format!("part.{n}.pcap"))[0]);
    // n0, n1, n10 to n29; n3 to n7 and n30 to n79; n8, n9 and n80 to n99.
    assert_eq!(parts, [23, 55, 22]);

    let hide = |key: &str| {
        std::fs::write(dir.path().join("key"), key).expect("written");
        trace("anonymise c.pcap --key-file key --output out.pcap")
    };
    assert_eq!(hide(&("15221722".repeat(8) + "\n")).0, 0);
    assert_eq!(counts("out.pcap"), [100, 100, 10]);
    let (_, table, _) = trace("stats out.pcap");
    assert!(!table.contains("10.0.0."), "{table}");
    let (code, _, err) = hide("15");
    assert!(code == 2 && err.contains("2 digits; 64 hexadecimal digits are accepted"), "{err}");

    let (code, text, err) = trace("queries c.pcap --output -");
    assert_eq!((code, text.lines().count()), (0, 100), "{err}");
    let start = text.replace(". ", " ");
    assert!(start.starts_with("www.n0.example AAAA\nwww.n1.example A\n"), "{text}");
    let (_, again, _) = trace("queries c.pcap --of-replies --output -");
    assert_eq!(again, text);

    let (code, csv, err) = trace("export c.pcap --type AAAA --format csv --output -");
    assert_eq!((code, &*err), (0, "25 transactions are in -\n"));
    let mut csv = csv::Reader::from_reader(csv.as_bytes());
    let names = csv.headers().expect("names").clone();
    let docs = include_str!("../../../docs/notes/records.md");
    assert_eq!(names.iter().find(|name| !docs.contains(&format!("`{name}`"))), None);
    let qtype = names.iter().position(|name| name == "dns_qtype").expect("a column");
    assert!(csv.records().all(|row| &row.expect("a row")[qtype] == "28"));
    let (code, _, err) = trace("export c.pcap --output -");
    assert!(code == 2 && err.contains("--format <FORMAT>"), "{err}");
}

/// Names of any octets, as messages have them.
fn names() -> impl Strategy<Value = BTreeSet<Vec<u8>>> {
    let label = prop::collection::vec(any::<u8>(), 1..=63);
    let name = prop::collection::vec(label, 0..8).prop_map(|labels| {
        let mut name = Vec::new();
        for label in &labels {
            if name.len() + label.len() < 254 {
                name.extend([&[label.len() as u8], &label[..]].concat());
            }
        }
        name.push(0);
        name
    });
    prop::collection::btree_set(name, 1..100)
}

/// Names of any octets are the same in a capture, in the file of its queries, and in the messages that are sent of it.
#[test]
fn any_name_of_a_capture_is_sent_as_it_was() {
    let dir = tempfile::tempdir().expect("a folder");
    let odd: BTreeSet<Vec<u8>> =
        [&b"\0"[..], b"\x04#tag\0", b"\x01;\x01.\0", b"\x02\xc3\xbc\0", b"\x01\\\0"]
            .map(<[u8]>::to_vec)
            .into();
    let sent = |names: &BTreeSet<Vec<u8>>| {
        let questions: BTreeSet<Vec<u8>> =
            names.iter().map(|name| [&name[..], b"\0\x01\0\x01"].concat()).collect();
        let mut out = Writer::new(Vec::new()).expect("in memory");
        let (client, server) = (([192, 0, 2, 1], 999), ([192, 0, 2, 53], 53));
        for question in &questions {
            let bytes = [b"\0\0\x01\0\0\x01\0\0\0\0\0\0", &question[..]].concat();
            write_udp(&mut out, Nanos::ZERO, client, server, &bytes);
        }
        let notify = b"\0\0\x20\0\0\x01\0\0\0\0\0\0\x01n\0\0\x06\0\x01";
        write_udp(&mut out, Nanos::ZERO, client, server, notify);
        let octets = out.finish().expect("in memory");
        std::fs::write(dir.path().join("names.pcap"), octets).expect("written");
        let (code, _, err) = run_in(dir.path(), "trace queries names.pcap --output q.txt");
        assert!(code == 0 && err.contains("1 messages were left out: another opcode"), "{err}");
        for line in [
            "load 127.0.0.1:PORT --queries q.txt --runs 1 --pacing 'window 9' --timeout 60s",
            "dnsperf -s 127.0.0.1 -p PORT -d q.txt -t 60",
        ] {
            let (seen, came) = channel();
            let address = peer::start(move |query, _| {
                // The test may have ended.
                let _ = seen.send(query[12..].to_vec());
                reply(query, 0)
            });
            let port = address.rsplit(':').next().expect("a port");
            let (code, out, err) = run_in(dir.path(), &line.replace("PORT", port));
            // A busy machine may make it void.
            assert!(code < 2, "{out}{err}");
            assert_eq!(came.try_iter().collect::<BTreeSet<_>>(), questions);
        }
    };
    sent(&odd);
    let mut runner = TestRunner::new(Config { max_shrink_iters: 30, ..Config::with_cases(8) });
    let run = |names: BTreeSet<Vec<u8>>| {
        sent(&names);
        Ok(())
    };
    runner.run(&names(), run).expect("as it was");
}

/// Python with DuckDB: of `DNSDYNO_DUCKDB`, or as `make test` installs it. Says so where there is none.
fn duckdb() -> Option<PathBuf> {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/duckdb/bin/python");
    let python = std::env::var_os("DNSDYNO_DUCKDB").map_or_else(|| installed.into(), PathBuf::from);
    let found = Command::new(&python).args(["-c", "import duckdb"]).output();
    if found.is_ok_and(|found| found.status.success()) {
        return Some(python);
    }
    skip::none(
        "no DuckDB: scripts/install-duckdb installs it, or name a Python that has it in DNSDYNO_DUCKDB",
    )
}

/// The recipes of docs/trace.md run on an exported table.
#[test]
fn recipes_for_duckdb_run() {
    let Some(python) = duckdb() else { return };
    let dir = captured();
    let (code, _, err) =
        run_in(dir.path(), "trace export c.pcap --format json-lines --output day.jsonl");
    assert_eq!(code, 0, "{err}");
    let docs = include_str!("../../../docs/trace.md");
    let recipes: Vec<_> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("duckdb -c \"")?.strip_suffix('"'))
        .collect();
    assert_eq!(recipes.len(), 6);
    let program =
        "import sys, duckdb\nduckdb.sql(sys.argv[1]).to_csv('/dev/stdout', sep=' ', header=False)";
    let rows: Vec<_> = recipes
        .iter()
        .map(|recipe| {
            let mut command = Command::new(&python);
            let output = command.args(["-c", program, recipe]).current_dir(dir.path());
            let output = output.output().expect("starts");
            assert!(
                output.status.success(),
                "{recipe}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8(output.stdout).expect("UTF-8")
        })
        .collect();
    // 75 queries of type A and 25 of AAAA, all NXDOMAIN, of ten clients, in one minute.
    assert_eq!(rows[0], "100\n");
    assert!(std::fs::read(dir.path().join("day.parquet")).expect("written").starts_with(b"PAR1"));
    assert!(rows[1].starts_with("1 3 75 ") && rows[1].contains("\n28 3 25 "), "{}", rows[1]);
    assert!(rows[2].lines().count() == 1 && rows[2].ends_with(" 100\n"), "{}", rows[2]);
    assert!(rows[3].lines().count() == 10 && rows[3].contains(" 10 10\n"), "{}", rows[3]);
    assert_eq!(rows[4], "");
    assert!(rows[5].starts_with("example "), "{}", rows[5]);
}

/// Queries without a reply are counted, and DNS of another port is pointed out.
#[test]
fn queries_without_a_reply_and_dns_of_other_ports_are_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut out = Writer::new(Vec::new()).expect("in memory");
    // The ports of the server, the number of queries, and of these with a reply.
    for (port, queries, answered) in [(53, 9, 4), (5300, 3, 2)] {
        let server = SocketAddr::from(([192, 0, 2, 53], port));
        for number in 0..queries {
            let client = SocketAddr::from(([10, 0, 0, 1], 2_000 + port + number));
            let mut bytes = query("www.example", Qtype::A, 0);
            let at = Nanos(number.into());
            write_udp(&mut out, at, client, server, &bytes);
            if number < answered {
                bytes[2] |= 0x80;
                write_udp(&mut out, at, server, client, &bytes);
            }
        }
    }
    std::fs::write(dir.path().join("two.pcap"), out.finish().expect("in memory")).expect("written");
    let (code, out, err) = run_in(dir.path(), "trace stats two.pcap");
    assert_eq!((code, &*err), (0, ""), "{out}");
    for line in [
        "5 queries have no reply in the capture (55.6%)",
        "5  packets of port 5300 that look like DNS: --dns-port 5300 reads them",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    let other = "18 packets look like DNS: --dns-port 53,5300";
    let (_, out, err) = run_in(dir.path(), "trace stats two.pcap --dns-port 54");
    assert!(err.contains(other), "{err}{out}");
    let (code, _, err) = run_in(dir.path(), "load 127.0.0.1 --replay two.pcap --dns-port 54");
    assert!(code == 2 && err.contains(other), "{err}");
}

/// A capture without DNS says what it has instead.
#[test]
fn a_capture_without_dns_is_explained() {
    let dir = captured();
    let (code, _, err) = run_in(dir.path(), "trace stats c.pcap --dns-port 54");
    assert_eq!(code, 0, "{err}");
    let expected = "no DNS found on port 54; packets: 200; 160 packets are UDP of port 53, 40 packets are TCP of port 53\n\
                    200 packets look like DNS: --dns-port 53\n";
    assert_eq!(err, expected);
}
