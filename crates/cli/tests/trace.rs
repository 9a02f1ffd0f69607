//! `dnsdyno trace` as a user sees it.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use assert_cmd::cargo::cargo_bin;
use measure::Nanos;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use trace::{Message, Transport, Writer};
use wire::{Edns, Name, Qtype, QueryTemplate};

/// Runs `dnsdyno` and returns exit code, standard output, standard error.
fn dnsdyno(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(cargo_bin("dnsdyno")).args(args).output().expect("starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

/// A query.
fn query(name: &str, qtype: Qtype) -> Vec<u8> {
    let name: Name = name.parse().expect("a name");
    QueryTemplate::new(&name, qtype, true, false, Some(&Edns::default())).bytes().to_vec()
}

/// A whole message of a capture.
fn message(
    at: Nanos,
    source: SocketAddr,
    destination: SocketAddr,
    transport: Transport,
    bytes: &[u8],
) -> Message<'_> {
    let (frame, fragmented, cut, len) = (1, false, false, bytes.len());
    Message { frame, at, source, destination, transport, fragmented, cut, len, bytes }
}

/// A capture of 100 queries a millisecond apart, of ten clients, every fifth over TCP; each is answered NXDOMAIN.
fn capture(dir: &Path) -> PathBuf {
    let mut out = Writer::new(Vec::new()).expect("in memory");
    let server: SocketAddr = "192.0.2.53:53".parse().expect("an address");
    for number in 0..100u16 {
        let client = SocketAddr::from(([10, 0, 0, (number % 10) as u8], 1_000 + number));
        let qtype = if number % 4 == 0 { Qtype::AAAA } else { Qtype::A };
        let mut bytes = query(&format!("www.n{number}.example"), qtype);
        let tcp = number % 5 == 0;
        let transport = if tcp { Transport::Tcp { sequence: 1 } } else { Transport::Udp };
        let at = Nanos(1_700_000_000_000_000_000 + u64::from(number) * 1_000_000);
        for (source, destination) in [(client, server), (server, client)] {
            out.write(&message(at, source, destination, transport, &bytes));
            bytes[2] |= 0x80;
            bytes[3] |= 3;
        }
    }
    let path = dir.join("capture.pcap");
    std::fs::write(&path, out.finish().expect("in memory")).expect("written");
    path
}

#[test]
fn a_capture_is_characterised() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = capture(dir.path());
    let file = path.to_str().expect("UTF-8");
    let (code, out, err) = dnsdyno(&["trace", "stats", file]);
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
    let (code, out, _) = dnsdyno(&["trace", "stats", file, "--plots"]);
    assert_eq!(code, 0);
    for part in [
        "of 10 clients:",
        "Types, of all queries:",
        "Octets of replies:",
        "  NXDOMAIN          100 100.0% █",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let (code, out, _) = dnsdyno(&["trace", "stats", file, file, "--json", "-"]);
    let stats: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(code, 0);
    // Merged by time, the same segments are repetitions: 160 queries over UDP, and 20 over TCP.
    assert_eq!(stats["queries"]["messages"], 180);
    assert_eq!(stats["return_codes"][0]["name"], "NXDOMAIN");
    assert_eq!(stats["series"]["queries"].as_array().expect("bins").len(), 1);
}

#[test]
fn what_is_cut_or_foreign_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = capture(dir.path());
    let file = path.to_str().expect("UTF-8");
    let whole = std::fs::read(&path).expect("there");
    std::fs::write(&path, &whole[..whole.len() - 5]).expect("written");
    let (code, out, err) = dnsdyno(&["trace", "stats", file]);
    assert_eq!(code, 1);
    assert!(out.starts_with("INCOMPLETE: ") && out.contains("100 requests"), "{out}");
    assert!(
        err.contains("the capture is cut short: it ends in the middle of a packet at byte"),
        "{err}"
    );
    std::fs::write(&path, "a text").expect("written");
    let (code, _, err) = dnsdyno(&["trace", "stats", file]);
    assert!(code == 2 && err.contains("not a capture: it starts with the bytes"), "{err}");
    let (code, _, err) = dnsdyno(&["trace", "stats", "/nonexistent.pcap"]);
    assert!(code == 2 && err.contains("cannot read the capture /nonexistent.pcap"), "{err}");
}

#[test]
fn a_capture_is_replayed() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = capture(dir.path());
    let file = path.to_str().expect("UTF-8");
    // A server that keeps what it was asked, and answers with what it got.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let server = socket.local_addr().expect("an address").to_string();
    let asked = std::thread::spawn(move || {
        let (mut bytes, mut types) = ([0; 512], [0; 29]);
        for _ in 0..100 {
            let (len, peer) = socket.recv_from(&mut bytes).expect("a query");
            types[usize::from(bytes[len - 11 - 3])] += 1;
            (bytes[2], bytes[3]) = (0x81, 0x80);
            socket.send_to(&bytes[..len], peer).expect("sent");
        }
        types
    });
    let args = ["load", &server, "--replay", file, "--speed", "0.5x", "--timeout", "10s"];
    let (_, out, err) = dnsdyno(&[&args[..], &["--json", "-"]].concat());
    let trial: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    let types = asked.join().expect("it ends");
    assert_eq!((types[1], types[28]), (75, 25));
    assert_eq!((&trial["sent"], &trial["valid"]), (&100.into(), &100.into()), "{trial}");
    assert_eq!(trial["conditions"]["pacing"], "replay at 0.5x");
    let words = format!("100 queries of 10 clients of {file}");
    assert_eq!(trial["conditions"]["workload"], words);
    // 99 ms of capture at half the speed.
    let seconds = trial["duration_s"].as_f64().expect("a number");
    assert!((seconds - 0.198).abs() < 1e-6, "{seconds}");
    for (bad, message) in [
        (&["--replay", file, "--rate", "5"][..], "cannot be used with"),
        (&["--replay", file, "--speed", "fast"], "`fast` is not a speed such as 1x, 2x or 0.5x"),
        (&["--replay", file, "--dns-port", "54"], "it contains no query to replay (0 replies"),
        (&["--replay", "/nonexistent"], "cannot read the capture /nonexistent"),
    ] {
        let (code, _, err) = dnsdyno(&[&["load", "127.0.0.1:1"][..], bad].concat());
        assert!(code == 2 && err.contains(message), "{bad:?} {err}");
    }
}

#[test]
fn a_cut_capture_is_replayed_up_to_there() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = capture(dir.path());
    let whole = std::fs::read(&path).expect("there");
    // The last reply and a part of the query before it.
    std::fs::write(&path, &whole[..whole.len() - 150]).expect("written");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let server = socket.local_addr().expect("an address").to_string();
    let asked = std::thread::spawn(move || {
        let mut bytes = [0; 512];
        for _ in 0..99 {
            let (len, peer) = socket.recv_from(&mut bytes).expect("a query");
            (bytes[2], bytes[3]) = (0x81, 0x80);
            socket.send_to(&bytes[..len], peer).expect("sent");
        }
    });
    let file = path.to_str().expect("UTF-8");
    let args = ["load", &server, "--replay", file, "--timeout", "10s", "--json", "-"];
    let (code, out, err) = dnsdyno(&args);
    let trial: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    asked.join().expect("it ends");
    assert_eq!((code, &trial["sent"], &trial["valid"]), (1, &99.into(), &99.into()), "{err}");
    assert!(
        err.contains("the capture is cut short: it ends in the middle of a packet at byte"),
        "{err}"
    );
    assert!(err.contains("what stands before that was replayed"), "{err}");
    let warnings = trial["warnings"].to_string();
    assert!(warnings.contains("the capture is cut"), "{warnings}");
}

#[test]
fn every_tool_keeps_what_stands_before_a_cut() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = capture(dir.path());
    let whole = std::fs::read(&path).expect("there");
    std::fs::write(&path, &whole[..whole.len() - 5]).expect("written");
    let file = path.to_str().expect("UTF-8");
    std::fs::write(dir.path().join("key"), "0123456789abcdef".repeat(4)).expect("written");
    let at = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (out, key, slices) = (at("out"), at("key"), at("slices"));
    let table: [(&[&str], &str); 5] = [
        (&["filter", file, "--output", &out], "out"),
        (&["queries", file, "--output", &out], "out"),
        (&["slice", file, "--zone", "example", "--range", "..n5,n5..", "--output", &slices], ""),
        (&["anonymise", file, "--key-file", &key, "--output", &out], "out"),
        (&["export", file, "--format", "csv", "--output", &out], "out"),
    ];
    for (args, output) in table {
        let (code, _, err) = dnsdyno(&[&["trace"], args].concat());
        assert_eq!(code, 1, "{args:?}: {err}");
        assert!(
            err.contains("the capture is cut short: it ends in the middle of a packet at byte"),
            "{err}"
        );
        if !output.is_empty() {
            let written = std::fs::metadata(at(output)).expect("written").len();
            assert!(written > 1_000, "{args:?}: {written} octets");
            std::fs::remove_file(at(output)).expect("there");
        }
    }
}

#[test]
fn an_interface_is_listened_to() {
    let (code, _, err) = dnsdyno(&["trace", "stats", "--device", "no-such-if", "--for", "1ms"]);
    assert!(code == 2 && err.contains("no-such-if"), "{err}");
    let (code, out, err) = dnsdyno(&["trace", "stats", "--device", "lo", "--for", "10ms"]);
    if err.contains("no right to listen") {
        skip::because(err);
        return;
    }
    assert_eq!(code, 0, "{out}{err}");
    // Asked until one is seen: it takes a while until it listens.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut child = Command::new(cargo_bin("dnsdyno"));
    let path = tempfile::NamedTempFile::new().expect("a file");
    child.args("trace queries --device lo --dns-port 9 --for 30s --output".split(' '));
    let mut child = child.arg(path.path()).spawn().expect("starts");
    let listening = format!("/proc/{}/net/packet", child.id());
    let sockets = || std::fs::read_to_string(&listening).map_or(0, |text| text.lines().count());
    let (begun, mut sent) = (std::time::Instant::now(), 0);
    while sent < 100 && begun.elapsed().as_secs() < 20 {
        if sockets() > 1 {
            socket.send_to(&query("heard.example", Qtype::MX), "127.0.0.1:9").expect("sent");
            sent += 1;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().is_ok_and(|s| s.success()));
    assert!(child.wait().expect("it ends").success());
    let heard = std::fs::read_to_string(path.path()).expect("written");
    assert!(heard.contains("heard.example MX"), "{heard}");
}

#[test]
fn a_capture_is_cut_hidden_and_turned_into_queries() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = capture(dir.path());
    let (file, at) = (path.to_str().expect("UTF-8"), |name: &str| dir.path().join(name));
    let out = at("out.pcap");
    let out = out.to_str().expect("UTF-8");
    // Of a capture: queries, replies, clients.
    let counts = |file: &str| {
        let (code, json, err) = dnsdyno(&["trace", "stats", file, "--json", "-"]);
        assert_eq!(code, 0, "{err}");
        let stats: Value = serde_json::from_str(&json).expect("JSON");
        let number = |value: &Value| value.as_u64().expect("a number");
        [
            &stats["queries"]["messages"],
            &stats["replies"]["messages"],
            &stats["clients"]["distinct"],
        ]
        .map(number)
    };
    for (select, expected) in [
        (&["--type", "AAAA"][..], [25, 25, 5]),
        (&["--type", "MX,AAAA", "--only", "queries"], [25, 0, 5]),
        (&["--zone", "n7.example,n13.example"], [2, 2, 2]),
        (&["--client", "10.0.0.0/31,10.0.0.9"], [30, 30, 3]),
        (&["--from", "2023-11-14T22:13:20.050Z"], [50, 50, 10]),
        (&["--from", "2023-11-14T22:13:20.010Z", "--to", "1700000000.02"], [10, 10, 10]),
        (&["--sample", "0"], [0, 0, 0]),
    ] {
        let args = [&["trace", "filter", file, "--output", out][..], select].concat();
        let (code, _, err) = dnsdyno(&args);
        assert_eq!(code, 0, "{err}");
        assert_eq!(counts(out), expected, "{select:?}");
    }

    let prefix = at("part");
    let args = [
        "--zone",
        "example",
        "--range",
        "..n3,n3..n8,n8..",
        "--output",
        prefix.to_str().expect("UTF-8"),
    ];
    let (code, said, err) = dnsdyno(&[&["trace", "slice", file][..], &args].concat());
    assert_eq!((code, &*err), (0, ""));
    assert!(said.ends_with("0 messages are about names of no slice\n"), "{said}");
    let parts =
        [1, 2, 3].map(|n| counts(at(&format!("part.{n}.pcap")).to_str().expect("UTF-8"))[0]);
    // n0, n1, n10 to n29; n3 to n7 and n30 to n79; n8, n9 and n80 to n99.
    assert_eq!(parts, [23, 55, 22]);

    let key = at("key");
    std::fs::write(&key, "15221722".repeat(8) + "\n").expect("written");
    let hide = |key: &Path| {
        let key = key.to_str().expect("UTF-8");
        dnsdyno(&["trace", "anonymise", file, "--key-file", key, "--output", out])
    };
    assert_eq!(hide(&key).0, 0);
    assert_eq!(counts(out), [100, 100, 10]);
    let (_, table, _) = dnsdyno(&["trace", "stats", out]);
    assert!(!table.contains("10.0.0."), "{table}");
    std::fs::write(&key, "15").expect("written");
    let (code, _, err) = hide(&key);
    assert!(code == 2 && err.contains("2 digits; 64 hexadecimal digits are accepted"), "{err}");

    let (code, text, err) = dnsdyno(&["trace", "queries", file, "--output", "-"]);
    assert_eq!((code, text.lines().count()), (0, 100), "{err}");
    assert!(
        text.starts_with("www.n0.example. AAAA\nwww.n1.example. A\n")
            || text.starts_with("www.n0.example AAAA\nwww.n1.example A\n"),
        "{text}"
    );
    let (_, again, _) = dnsdyno(&["trace", "queries", file, "--of-replies", "--output", "-"]);
    assert_eq!(again, text);

    let (code, csv, err) =
        dnsdyno(&["trace", "export", file, "--type", "AAAA", "--format", "csv", "--output", "-"]);
    assert_eq!((code, &*err), (0, "25 transactions are in -\n"));
    let mut csv = csv::Reader::from_reader(csv.as_bytes());
    let names = csv.headers().expect("names").clone();
    let docs = include_str!("../../../docs/notes/records.md");
    assert_eq!(names.iter().find(|name| !docs.contains(&format!("`{name}`"))), None);
    let qtype = names.iter().position(|name| name == "dns_qtype").expect("a column");
    assert!(csv.records().all(|row| &row.expect("a row")[qtype] == "28"));
    let (code, _, err) = dnsdyno(&["trace", "export", file, "--output", "-"]);
    assert!(code == 2 && err.contains("--format <FORMAT>"), "{err}");
}

/// A server that answers each query with its header and question, and the questions that it has seen.
fn witness() -> (SocketAddr, Arc<Mutex<BTreeSet<Vec<u8>>>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
    let (address, seen) = (socket.local_addr().expect("an address"), Arc::default());
    let questions: Arc<Mutex<BTreeSet<Vec<u8>>>> = Arc::clone(&seen);
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((len, peer)) = socket.recv_from(&mut bytes) {
            questions.lock().expect("no panic").insert(bytes[12..len].to_vec());
            bytes[2] |= 0x80;
            let _ = socket.send_to(&bytes[..len], peer);
        }
    });
    (address, seen)
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
    let (capture, file) = (dir.path().join("names.pcap"), dir.path().join("q.txt"));
    let (capture, file) = (capture.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
    let (client, server) = ("192.0.2.1:999".parse(), "192.0.2.53:53".parse());
    let (client, server) = (client.expect("an address"), server.expect("an address"));
    let odd: BTreeSet<Vec<u8>> =
        [&b"\0"[..], b"\x04#tag\0", b"\x01;\x01.\0", b"\x02\xc3\xbc\0", b"\x01\\\0"]
            .map(<[u8]>::to_vec)
            .into();
    let sent = |names: &BTreeSet<Vec<u8>>| {
        let questions: BTreeSet<Vec<u8>> =
            names.iter().map(|name| [&name[..], b"\0\x01\0\x01"].concat()).collect();
        let mut out = Writer::new(Vec::new()).expect("in memory");
        for question in &questions {
            let bytes = [b"\0\0\x01\0\0\x01\0\0\0\0\0\0", &question[..]].concat();
            let at = Nanos::from_secs(1_700_000_000);
            out.write(&message(at, client, server, Transport::Udp, &bytes));
        }
        std::fs::write(capture, out.finish().expect("in memory")).expect("written");
        let (code, _, err) = dnsdyno(&["trace", "queries", capture, "--output", file]);
        assert_eq!(code, 0, "{err}");
        let load = ["load", "ADDRESS", "--queries", file, "--runs", "1", "--pacing", "window 9"];
        let dnsperf = ["dnsperf", "-s", "127.0.0.1", "-p", "PORT", "-d", file, "-t", "60"];
        for args in [[&load[..], &["--timeout", "60s"]].concat(), dnsperf.to_vec()] {
            let (address, seen) = witness();
            let (port, address) = (address.port().to_string(), address.to_string());
            let args = args.into_iter().map(|word| match word {
                "ADDRESS" => &*address,
                "PORT" => &*port,
                word => word,
            });
            let (code, out, err) = dnsdyno(&args.collect::<Vec<_>>());
            // A busy machine may make it void.
            assert!(code < 2, "{out}{err}");
            assert_eq!(*seen.lock().expect("no panic"), questions);
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
    skip::because(
        "no DuckDB: scripts/install-duckdb installs it, or name a Python that has it in DNSDYNO_DUCKDB",
    );
    None
}

/// The recipes of docs/trace.md run on an exported table.
#[test]
fn recipes_for_duckdb_run() {
    let Some(python) = duckdb() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let path = capture(dir.path());
    let lines = dir.path().join("day.jsonl");
    let words = ["--format", "json-lines", "--output", lines.to_str().expect("UTF-8")];
    let (code, _, err) =
        dnsdyno(&[&["trace", "export", path.to_str().expect("UTF-8")], &words[..]].concat());
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
    let server = |port| SocketAddr::from(([192, 0, 2, 53], port));
    // The ports of the server, the number of queries, and of these with a reply.
    for (port, queries, answered) in [(53, 9, 4), (5300, 3, 2)] {
        for number in 0..queries {
            let client = SocketAddr::from(([10, 0, 0, 1], 2_000 + port + number));
            let mut bytes = query("www.example", Qtype::A);
            let at = Nanos(1_700_000_000_000_000_000 + u64::from(number));
            let mut ends = (client, server(port));
            for _ in 0..1 + u16::from(number < answered) {
                let (source, destination) = ends;
                out.write(&message(at, source, destination, Transport::Udp, &bytes));
                bytes[2] |= 0x80;
                ends = (destination, source);
            }
        }
    }
    let path = dir.path().join("two.pcap");
    std::fs::write(&path, out.finish().expect("in memory")).expect("written");
    let file = path.to_str().expect("UTF-8");
    let (code, out, err) = dnsdyno(&["trace", "stats", file]);
    assert_eq!((code, &*err), (0, ""), "{out}");
    for line in [
        "5 queries have no reply in the capture (55.6%)",
        "5  packets of port 5300 that look like DNS: --dns-port 5300 reads them",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    let (_, out, err) = dnsdyno(&["trace", "stats", file, "--dns-port", "54"]);
    assert!(err.contains("18 packets look like DNS: --dns-port 53,5300"), "{err}{out}");
    let (code, _, err) = dnsdyno(&["load", "127.0.0.1", "--replay", file, "--dns-port", "54"]);
    assert!(code == 2 && err.contains("18 packets look like DNS: --dns-port 53,5300"), "{err}");
}

/// A capture without DNS says what it has instead.
#[test]
fn a_capture_without_dns_is_explained() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = capture(dir.path());
    let file = path.to_str().expect("UTF-8");
    let (code, _, err) = dnsdyno(&["trace", "stats", file, "--dns-port", "54"]);
    assert_eq!(code, 0, "{err}");
    let expected = "no DNS found on port 54; packets: 200; 160 packets are UDP of port 53, 40 packets are TCP of port 53\n\
                    200 packets look like DNS: --dns-port 53\n";
    assert_eq!(err, expected);
    // The same capture twice: all packets are merged by time.
    let (_, out, err) = dnsdyno(&["trace", "stats", file, file, "--json", "-"]);
    let stats: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(stats["packets"]["packets"], 400, "{err}");
}
