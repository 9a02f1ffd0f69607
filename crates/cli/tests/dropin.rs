//! `dnsdyno dnsperf`, `resperf` and `kxdpgun` beside the tools of these names, against one AuthDNS.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::kit::AuthDns;
use crate::kit::host;

/// Returns whether a program can be started here; says so if not.
fn installed(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skip::because(format_args!("{tool} is not installed"));
    }
    found
}

fn output(program: &mut Command) -> Output {
    program.stdin(Stdio::null()).output().expect("starts")
}

/// Runs a command of ours; returns its output and its messages.
fn ours(dir: &Path, tool: &str, args: &[&str]) -> (String, String) {
    let done = output(Command::new(cargo_bin("dnsdyno")).arg(tool).args(args).current_dir(dir));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let (out, err) = (text(done.stdout), text(done.stderr));
    assert_eq!(done.status.code(), Some(0), "{tool} {args:?}: {out}{err}");
    (out, err)
}

fn theirs(dir: &Path, tool: &str, args: &[&str]) -> String {
    let done = output(Command::new(tool).args(args).current_dir(dir));
    String::from_utf8(done.stdout).expect("UTF-8")
}

/// The labels of the lines with a value, such as `  Queries sent`, up to our own report; numbers in them are left out.
fn labels(output: &str) -> Vec<&str> {
    let theirs = output.split("dnsdyno's checks:").next().unwrap_or_default();
    theirs.lines().filter_map(|line| line.split_once(':')).map(|(label, _)| label).collect()
}

/// The text behind a label.
fn value<'a>(output: &'a str, label: &str) -> &'a str {
    let line = output.lines().find_map(|line| line.trim_start().strip_prefix(label));
    line.unwrap_or_else(|| panic!("no line {label}: {output}")).trim_start_matches(':').trim()
}

/// The first number behind a label.
fn number(output: &str, label: &str) -> f64 {
    let text = value(output, label);
    let digits: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse().unwrap_or_else(|_| panic!("{label}: {text}"))
}

/// Address, port and folder of an AuthDNS with a query file of 300 queries.
struct Bench {
    auth: AuthDns,
    dir: tempfile::TempDir,
}

impl Bench {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let names = (0..297).map(|i| format!("010-000-000-{i:03}.dns64perf.test A\n"));
        let missing = (0..3).map(|i| format!("missing-{i}.dns64perf.test A\n"));
        let text: String = names.chain(missing).collect();
        std::fs::write(dir.path().join("q.txt"), text).expect("writes");
        Bench { auth: AuthDns::start(&[]), dir }
    }

    fn port(&self) -> &str {
        self.auth.plain().rsplit(':').next().expect("a port")
    }
}

#[test]
fn dnsperf_reports_what_dnsperf_reports() {
    let bench = Bench::start();
    let dir = bench.dir.path();
    let table: [(&[&str], f64); 9] = [
        (&["-n", "2"], 600.0),
        (&["-n", "1", "-Q", "1000", "-q", "10"], 300.0),
        (&["-m", "tcp", "-c", "2"], 300.0),
        (&["-e", "-c", "4"], 300.0),
        (&["-D", "-E", "10:0011223344556677"], 300.0),
        (&["-c", "3", "-T", "2", "-t", "2", "-b", "512"], 300.0),
        (&["-y", "lab:c2VjcmV0LXNlY3JldC1zZWNyZXQ="], 300.0),
        (&["-y", "hmac-sha224:lab:c2VjcmV0LXNlY3JldC1zZWNyZXQ=", "-e"], 300.0),
        (&["-y", "hmac-sha256:lab:c2VjcmV0LXNlY3JldC1zZWNyZXQ=", "-f", "inet"], 300.0),
    ];
    let installed = installed("dnsperf");
    for (options, sent) in table {
        let args = [&["-s", "127.0.0.1", "-p", bench.port(), "-d", "q.txt"], options].concat();
        let (own, _) = ours(dir, "dnsperf", &args);
        let all = [
            "Queries sent",
            "Queries completed",
            "Queries lost",
            "Response codes",
            "Run time (s)",
            "Queries per second",
            "Average Latency (s)",
            "Latency StdDev (s)",
            "Average packet size",
        ];
        all.iter().for_each(|label| assert!(!value(&own, label).is_empty(), "{label}: {own}"));
        assert_eq!(number(&own, "Queries sent"), sent, "{options:?}: {own}");
        assert!(own.contains("[Status] Testing complete (end of file)"), "{own}");
        assert!(
            own.contains("limiter ") && own.contains(" queries of q.txt"),
            "our report follows: {own}"
        );
        if !installed {
            continue;
        }
        let other = theirs(dir, "dnsperf", &args);
        for label in [
            "Queries sent",
            "Queries completed",
            "Queries lost",
            "Response codes",
            "Average packet size",
        ] {
            assert_eq!(value(&own, label), value(&other, label), "{options:?}\n{own}\n{other}");
        }
        // Version 2.10 has no statistics of connections.
        let known = |labels: Vec<&str>| -> Vec<String> {
            let of_connections = ["Connection", "  Reconnections"];
            let end = labels.iter().position(|l| {
                of_connections.iter().any(|c| l.trim_start().starts_with(c.trim_start()))
            });
            labels[..end.unwrap_or(labels.len())].iter().map(|l| (*l).to_owned()).collect()
        };
        assert_eq!(known(labels(&own)), known(labels(&other)), "{options:?}");
        let same =
            |label: &str| value(&own, label).replace(" (dnsdyno", "") == value(&other, label);
        assert!(
            same("[Status] Sending queries (to") && same("[Status] Stopping after"),
            "{own}\n{other}"
        );
    }
}

#[test]
fn dnsperf_prints_each_query() {
    let bench = Bench::start();
    let dir = bench.dir.path();
    let text = "010-000-000-001.dns64perf.test A\nMissing.dns64perf.test AAAA\n010-000-000-002.dns64perf.test MX\n";
    std::fs::write(dir.join("three.txt"), text).expect("writes");
    // Return code, name and type of each line; the rest is a time.
    let each = |output: &str| -> Vec<String> {
        let lines = output.lines().filter_map(|line| line.strip_prefix("> "));
        let mut all: Vec<String> = lines
            .map(|line| {
                let (what, seconds) = line.rsplit_once(' ').expect("a time");
                assert!(seconds.parse::<f64>().is_ok_and(|s| (0.0..5.0).contains(&s)), "{line}");
                what.to_owned()
            })
            .collect();
        all.sort();
        all
    };
    for more in [&[][..], &["-m", "tcp"]] {
        let args =
            [&["-s", "127.0.0.1", "-p", bench.port(), "-d", "three.txt", "-n", "2", "-v"], more];
        let (own, _) = ours(dir, "dnsperf", &args.concat());
        let found = each(&own);
        assert_eq!(found.len(), 6, "{own}");
        assert!(
            found.iter().filter(|line| *line == "NXDOMAIN Missing.dns64perf.test AAAA").count()
                == 2,
            "{own}"
        );
        if installed("dnsperf") {
            let other = theirs(dir, "dnsperf", &args.concat());
            assert_eq!(found, each(&other), "{own}\n{other}");
        }
    }
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port().to_string();
    let args = ["-s", "127.0.0.1", "-p", &port, "-d", "three.txt", "-v", "-t", "0.2"];
    let (own, _) = ours(dir, "dnsperf", &args);
    assert!(own.contains("> T Missing.dns64perf.test AAAA"), "{own}");
}

#[test]
fn dnsperf_speaks_tls_and_https() {
    let bench = Bench::start();
    let (dir, auth) = (bench.dir.path(), AuthDns::encrypted(&[]));
    let port = |transport| auth.address(transport).rsplit(':').next().expect("a port").to_owned();
    let (tls, https) = (port("tls"), port("https"));
    let uri = format!("doh-uri=https://localhost:{https}/dns-query");
    let table: [&[&str]; 3] = [
        &["-m", "dot", "-p", &tls, "-c", "2", "-O", "tls-sni=localhost"],
        &["-m", "doh", "-p", &https, "-O", &uri],
        &["-m", "doh", "-p", &https, "-O", "doh-method=POST", "-O", &uri, "-c", "3"],
    ];
    for options in table {
        let args = [&["-s", "127.0.0.1", "-d", "q.txt"], options].concat();
        let (own, _) = ours(dir, "dnsperf", &args);
        assert_eq!(
            (number(&own, "Queries sent"), number(&own, "Queries completed")),
            (300.0, 300.0),
            "{options:?}: {own}"
        );
        let attempts = value(&own, "Connection attempts");
        assert!(attempts.contains("successful, 100.00%"), "{own}");
        let codes = value(&own, "Response codes");
        assert_eq!(codes, "NOERROR 256 (85.33%), NXDOMAIN 44 (14.67%)", "{own}");
        let http = own.contains("DNS-over-HTTPS statistics:\n\n  HTTP/2 return codes:  200: 300\n");
        assert_eq!(http, options[1] == "doh", "{own}");
    }
    let auth = AuthDns::encrypted(&["--stream-fault", "status=503/3"]);
    let port = auth.address("https").rsplit(':').next().expect("a port");
    let args = ["-s", "127.0.0.1", "-d", "q.txt", "-m", "doh", "-p", port, "-t", "60"];
    let (own, _) = ours(dir, "dnsperf", &args);
    assert_eq!(value(&own, "HTTP/2 return codes"), "200: 200, 503: 100", "{own}");
}

#[test]
fn dnsperf_reads_its_other_files_and_stops_in_time() {
    let bench = Bench::start();
    let dir = bench.dir.path();
    let server = ["-s", "localhost", "-f", "inet", "-p", bench.port()];
    let run = |more: &[&str]| ours(dir, "dnsperf", &[&server, more].concat());
    std::fs::write(
        dir.join("bad.txt"),
        "a.dns64perf.test\n010-000-000-001.dns64perf.test A third\n",
    )
    .expect("writes");
    let (own, err) = run(&["-d", "bad.txt"]);
    assert_eq!(number(&own, "Queries sent"), 1.0);
    assert!(err.contains("Warning: dnsperf: invalid query input format: bad.txt:1:17"), "{err}");
    assert!(err.contains("localhost is 127.0.0.1"), "{err}");
    let (own, err) = run(&["-d", "bad.txt", "-W", "-v", "-O", "suppress=timeouts"]);
    assert!(
        own.contains("bad.txt:1:17")
            && own.contains("> NOERROR 010-000-000-001.dns64perf.test A 0.")
            && own.contains("suppress"),
        "{own}"
    );
    assert!(!err.contains("Warning"), "{err}");
    let update = "example.com\nadd x 3600 A 10.1.2.3\nsend\n".repeat(5);
    std::fs::write(dir.join("u.txt"), update).expect("writes");
    let (own, _) = run(&["-d", "u.txt", "-u", "-n", "2"]);
    // The AuthDNS takes no updates.
    assert_eq!(
        (number(&own, "Updates sent"), number(&own, "Updates completed")),
        (10.0, 10.0),
        "{own}"
    );
    let query = b"\0\x1d\0\0\x01\0\0\x01\0\0\0\0\0\0\x0bx-dns64perf\0\0\x01\0\x01".to_vec();
    std::fs::write(dir.join("b.bin"), query).expect("writes");
    let (own, _) = run(&["-d", "b.bin", "-B", "-v"]);
    assert!(own.contains(" binary input 0."), "{own}");
    assert_eq!(
        (number(&own, "Queries sent"), number(&own, "Queries completed")),
        (1.0, 1.0),
        "{own}"
    );
    let (own, _) =
        run(&["-d", "q.txt", "-l", "1", "-Q", "200", "-S", "0.2", "-O", "latency-histogram"]);
    assert!(
        own.contains("(time limit)") && own.contains("[Status] Stopping after 1.000000 seconds"),
        "{own}"
    );
    assert!((150.0..=201.0).contains(&number(&own, "Queries sent")), "{own}");
    let rates = own.lines().filter(|line| {
        line.split_once(": ").is_some_and(|(at, rate)| {
            at.split_once('.').is_some_and(|(s, us)| s.len() == 10 && us.len() == 6)
                && rate.parse::<f64>().is_ok()
        })
    });
    assert!(rates.count() >= 2, "{own}");
    assert!(own.contains("  Latency bucket (s):   answer count"), "{own}");
}

#[test]
fn resperf_reports_what_resperf_reports() {
    let bench = Bench::start();
    let dir = bench.dir.path();
    let args = |plot| {
        [
            "-s",
            "127.0.0.1",
            "-p",
            bench.port(),
            "-d",
            "q.txt",
            "-R",
            "-m",
            "400",
            "-r",
            "2",
            "-c",
            "1",
            "-t",
            "1",
            "-L",
            "50",
            "-i",
            "0.5",
            "-P",
            plot,
        ]
        .map(str::to_owned)
    };
    let run = |plot| args(plot);
    let own_args = run("own.plot");
    let words: Vec<&str> = own_args.iter().map(String::as_str).collect();
    let (own, _) = ours(dir, "resperf", &words);
    assert!((795.0..=800.0).contains(&number(&own, "Queries sent")), "{own}");
    assert!((300.0..=410.0).contains(&number(&own, "Maximum throughput")), "{own}");
    let columns = |name: &str| {
        let text = std::fs::read_to_string(dir.join(name)).expect("the plot");
        let (head, rows) = text.split_once('\n').expect("a head");
        let row = |row: &str| -> Vec<f64> {
            row.split_whitespace().map(|number| number.parse().expect("a number")).collect()
        };
        (head.to_owned(), rows.lines().map(row).collect::<Vec<_>>())
    };
    let (head, rows) = columns("own.plot");
    assert!(rows.len() >= 5 && rows.iter().all(|row| row.len() == 8), "{rows:?}");
    assert_eq!([rows[0][0], rows[0][1], rows[5][1]], [0.25, 50.0, 400.0]);
    let (own_none, err) = ours(dir, "resperf", &[&words[..], &["-F", "0", "-v"]].concat());
    assert!(err.contains("-F: ") && err.contains("-v: "), "{err}");
    assert!(own_none.contains("[Status] Ramp-up done, sending constant traffic"), "{own_none}");
    // 300 queries are too few without -R.
    let once: Vec<&str> = words.iter().copied().filter(|word| *word != "-R").collect();
    let done =
        output(Command::new(cargo_bin("dnsdyno")).arg("resperf").args(&once).current_dir(dir));
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("ran out of query data"), "{said}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("Queries sent:         300"), "{said}");
    if installed("resperf") {
        let their_args = run("their.plot");
        let words: Vec<&str> = their_args.iter().map(String::as_str).collect();
        let other = theirs(dir, "resperf", &words);
        let known = |labels: Vec<&str>| -> Vec<String> {
            labels.iter().filter(|l| !l.contains("Reconnection")).map(|l| (*l).to_owned()).collect()
        };
        assert_eq!(known(labels(&own)), known(labels(&other)), "{own}\n{other}");
        let (their_head, their_rows) = columns("their.plot");
        assert_eq!(head, their_head);
        assert_eq!(rows[1][..2], their_rows[1][..2], "time and target");
        let sent = [&own, &other].map(|output| number(output, "Queries sent"));
        assert!((sent[0] - sent[1]).abs() <= 8.0, "{sent:?}");
    }
}

#[test]
fn kxdpgun_reports_what_kxdpgun_reports() {
    let bench = Bench::start();
    let dir = bench.dir.path();
    let args = ["-t", "0.5", "-Q", "400", "-i", "q.txt", "-p", bench.port()];
    let (own, err) = ours(
        dir,
        "kxdpgun",
        &[&args[..], &["-b", "20", "-I", "lo", "-F", "0s1", "127.0.0.1"]].concat(),
    );
    assert!(err.contains("-b: ") && err.contains("-I: "), "{err}");
    assert_eq!(number(&own, "total queries"), 200.0, "{own}");
    for label in [
        "total replies",
        "average DNS reply size",
        "average Ethernet reply rate",
        "responded NOERROR",
        "duration",
    ] {
        assert!(number(&own, label) > 0.0, "{label}: {own}");
    }
    let (tcp, _) = ours(dir, "kxdpgun", &[&args[..], &["-T", "127.0.0.1"]].concat());
    assert!(number(&tcp, "total SYNs") > 0.0 && number(&tcp, "total established") > 0.0, "{tcp}");
    let (drop, _) = ours(dir, "kxdpgun", &[&args[..], &["-r", "127.0.0.1"]].concat());
    assert!(!drop.split("dnsdyno's checks").next().expect("theirs").contains("replies"), "{drop}");
    let (json, _) = ours(dir, "kxdpgun", &[&args[..], &["-j", "127.0.0.1"]].concat());
    for line in json.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    }
    assert!(json.contains("stats_sum") && json.contains("kxdpgun"), "{json}");
}

#[test]
fn sigusr1_prints_the_figures_so_far() {
    let bench = Bench::start();
    let load =
        ["load", bench.auth.plain(), "--queries", "q.txt", "--rate", "400", "--duration", "2s"];
    let kxdpgun = ["kxdpgun", "-t2", "-Q400", "-iq.txt", "-p", bench.port(), "127.0.0.1"];
    for args in [&load[..], &kxdpgun] {
        let child = Command::new(cargo_bin("dnsdyno"))
            .args(args)
            .current_dir(bench.dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        // Bit 9 of the signals that the process catches is that of SIGUSR1.
        let caught = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
            let mask = value(&status.expect("it runs"), "SigCgt").to_owned();
            u64::from_str_radix(&mask, 16).expect("a mask") >> 9 & 1 == 1
        };
        let tries = (0..1_000).find(|_| {
            std::thread::sleep(Duration::from_millis(10));
            caught()
        });
        assert!(tries.is_some(), "{args:?} catches no SIGUSR1");
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-USR1", &pid]).status().expect("kill").success());
        let done = child.wait_with_output().expect("ends");
        let [out, err] =
            [done.stdout, done.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
        // A load on a busy machine may be void.
        assert!(done.status.code().is_some(), "killed: {out}{err}");
        assert!(err.contains("so far, ") && err.contains("sent "), "{out}{err}");
        assert!(out.contains("800"), "all queries of the two seconds: {out}{err}");
    }
}

/// Two hosts in namespaces of their own with a link between them, an AuthDNS on one, and both tools on the other, one after the
/// other: kxdpgun needs a device that takes XDP, and a neighbour that answers.
const TWO_HOSTS: &str = r#"
unshare -n sleep 60 & peer=$!
trap 'kill $auth $peer 2>/dev/null' EXIT
while [ "$(readlink /proc/$peer/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do kill -0 $peer || exit 9; sleep 0.05; done
ip link add v0 type veth peer name v1 && ip link set v1 netns $peer || exit 9
ip addr add 10.77.0.1/24 dev v0; ip link set v0 up; ip link set lo up
there="nsenter -t $peer -n"
$there ip addr add 10.77.0.2/24 dev v1; $there ip link set v1 up; $there ip link set lo up
$there "$DNSDYNO" auth --listen 10.77.0.2:53 --duration 50s > auth.txt & auth=$!
until grep -q 10.77.0.2 auth.txt; do kill -0 $auth || exit 6; sleep 0.1; done
"$DNSDYNO" load 10.77.0.2 --queries q.txt --runs 1 --pacing window --window 2 > first.txt
"$DNSDYNO" kxdpgun -t 1 -Q 400 -i q.txt 10.77.0.2 > own.txt || exit 8
kxdpgun -t 1 -Q 400 -i q.txt 10.77.0.2 > their.txt || exit 7
"#;

#[test]
fn kxdpgun_itself_reports_the_same() {
    if !installed("kxdpgun") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let names = (0..200).map(|i| format!("010-000-000-{i:03}.dns64perf.test A\n"));
    std::fs::write(dir.path().join("q.txt"), names.collect::<String>()).expect("writes");
    let mut hosts = Command::new("unshare");
    hosts
        .args(["-n", "bash", "-c", TWO_HOSTS])
        .env("DNSDYNO", cargo_bin("dnsdyno"))
        .current_dir(dir.path());
    let done = output(&mut hosts);
    let said = String::from_utf8_lossy(&done.stderr);
    match done.status.code() {
        Some(0) => {}
        Some(8) => panic!("ours: {said}"),
        // Namespaces and XDP need privileges and a kernel that has them.
        code => return skip::because(format_args!("kxdpgun cannot run here ({code:?}): {said}")),
    }
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("output");
    let (own, other) = (read("own.txt"), read("their.txt"));
    let known = |labels: Vec<&str>| -> Vec<String> {
        labels
            .iter()
            .filter(|label| !label.starts_with("using "))
            .map(|l| (*l).to_owned())
            .collect()
    };
    assert_eq!(known(labels(&own)), known(labels(&other)), "{own}\n{other}");
    for label in ["average DNS reply size", "total replies"] {
        let (own, other) = (value(&own, label), value(&other, label));
        let end = |text: &str| text.rsplit('(').next().map(str::to_owned);
        assert_eq!(end(own), end(other), "{label}");
    }
    let queries = [&own, &other].map(|output| number(output, "total queries"));
    assert!((queries[0] - 400.0).abs() < 1.0 && (queries[1] - 400.0).abs() < 40.0, "{queries:?}");
    let all = number(&own, "responded NOERROR") / number(&own, "total replies");
    assert_eq!(all, number(&other, "responded NOERROR") / number(&other, "total replies"));
    let bits = |output: &str| {
        number(output, "average Ethernet reply rate") / number(output, "total replies")
    };
    assert!((bits(&own) / bits(&other) - 1.0).abs() < 0.1, "{own}\n{other}");
}

/// Command lines of the tools' own documentation and of pages about them: tool, words. Addresses, files and times stand for
/// those of the test.
const LINES: [(&str, &str); 36] = [
    ("dnsperf", "-s SERVER -p PORT -d FILE"),
    ("dnsperf", "-s SERVER -p PORT -d FILE -T 4"),
    ("dnsperf", "-d FILE -s SERVER -p PORT -l TIME"),
    ("dnsperf", "-d FILE -s SERVER -p PORT -l TIME -Q 100"),
    ("dnsperf", "-s SERVER -p PORT -l TIME -d FILE -v"),
    ("dnsperf", "-S 1 -s SERVER -p PORT -d FILE -n 3"),
    ("dnsperf", "-B -d BINARY -s SERVER -p PORT"),
    (
        "dnsperf",
        "-f inet -m udp -s localhost -p PORT -c 1 -l TIME -Q 100 -d FILE -O latency-histogram -O verbose-interval-stats -S 1 -O suppress=timeout,unexpected",
    ),
    (
        "dnsperf",
        "-O verbose-interval-stats -O latency-histogram -m tcp -s SERVER -p PORT -d FILE -v",
    ),
    ("dnsperf", "-s SERVER -p PORT -m tcp -d FILE -c 20 -q 200"),
    ("dnsperf", "-s SERVER -p PORT -d FILE -c 10 -T 10 -l TIME -q 1000 -Q 5000"),
    ("dnsperf", "-s SERVER -p PORT -d FILE -e"),
    ("dnsperf", "-s SERVER -p PORT -d FILE -D"),
    ("dnsperf", "-s SERVER -p PORT -d FILE -E 65001:00ff"),
    ("dnsperf", "-s SERVER -p PORT -d UPDATES -u"),
    ("dnsperf", "-s SERVER -p PORT -d FILE -a 127.0.0.2 -b 4096"),
    ("dnsperf", "-s SERVER -p PORT -d FILE -x 0 -t 1 -n 1 -W"),
    ("dnsperf", "-sSERVER -pPORT -dFILE -eD"),
    ("dnsperf", "-s SERVER -p PORT -d FILE -m tcp -O num-queries-per-conn=10"),
    ("dnsperf", "-s SERVER -p PORT -d FILE -y hmac-sha1:key:c2VjcmV0"),
    ("dnsperf", "-s SERVER -p PORT -d FILE -O qps-threshold-wait=0 -Q 1000"),
    ("dnsperf", "-h"),
    ("dnsperf", "-H"),
    ("resperf", "-s SERVER -p PORT -d FILE -R -m 100 -r TIME -t 1"),
    ("resperf", "-s SERVER -p PORT -d FILE -R -m 100 -c TIME -r 0 -t 1"),
    ("resperf", "-s SERVER -p PORT -d FILE -R -m 100 -c TIME -r TIME -t 1 -L 10"),
    (
        "resperf",
        "-s SERVER -p PORT -d FILE -R -m 100 -r TIME -C 10 -q 1000 -t 1 -P plot.dat -i 0.1",
    ),
    ("resperf", "-M tcp -s SERVER -p PORT -d FILE -R -m 100 -r TIME -t 1"),
    ("resperf", "-h"),
    ("kxdpgun", "-i FILE -p PORT -t TIME SERVER"),
    ("kxdpgun", "-t TIME -Q 1000 -i FILE -b 20 -p PORT SERVER"),
    ("kxdpgun", "-t TIME -Q 100 -i FILE -T -p PORT SERVER"),
    ("kxdpgun", "--duration TIME --qps 100 --infile FILE --port PORT --local 127.0.0.0/28 SERVER"),
    (
        "kxdpgun",
        "-t TIME -Q 100 -i FILE -p PORT -L 02:00:00:00:00:01 -R 02:00:00:00:00:02 -v 7 -m copy SERVER",
    ),
    ("kxdpgun", "-t TIME -i BINARY -B -p PORT -j SERVER"),
    ("kxdpgun", "-h"),
];

#[test]
fn documented_command_lines_work_unchanged_also_by_a_link() {
    let bench = Bench::start();
    let dir = bench.dir.path();
    std::fs::write(dir.join("u.txt"), "example.com\nadd x 3600 A 10.1.2.3\nsend\n")
        .expect("writes");
    let message = b"\0\x1d\0\0\x01\0\0\x01\0\0\0\0\0\0\x0bx-dns64perf\0\0\x01\0\x01";
    std::fs::write(dir.join("b.bin"), message).expect("writes");
    for tool in ["dnsperf", "resperf", "kxdpgun"] {
        symlink(cargo_bin("dnsdyno"), dir.join(tool)).expect("a link");
    }
    for (tool, line) in LINES {
        let words = [
            ("SERVER", "127.0.0.1"),
            ("PORT", bench.port()),
            ("FILE", "q.txt"),
            ("TIME", "0.2"),
            ("BINARY", "b.bin"),
            ("UPDATES", "u.txt"),
        ];
        let line =
            words.iter().fold(line.to_owned(), |line, (word, value)| line.replace(word, value));
        let done =
            output(Command::new(dir.join(tool)).args(line.split_whitespace()).current_dir(dir));
        let (out, err) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_eq!(done.status.code(), Some(0), "{tool} {line}: {out}{err}");
        assert!(!out.is_empty(), "{tool} {line}");
    }
}

#[test]
fn dnsperf_reads_the_standard_input() {
    let bench = Bench::start();
    let mut child = Command::new(cargo_bin("dnsdyno"))
        .args(["dnsperf", "-p", bench.port()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"010-000-000-001.dns64perf.test A\n").expect("writes");
    drop(input);
    let done = child.wait_with_output().expect("ends");
    let out = String::from_utf8(done.stdout).expect("UTF-8");
    assert_eq!(number(&out, "Queries sent"), 1.0, "{out}");
}

/// Runs dnsperf with this standard input, which ends some time later; returns its exit code, output and errors.
fn dnsperf_with(args: &[&str], text: &[u8]) -> (Option<i32>, String, String) {
    piped(&[&["dnsperf"], args].concat(), text)
}

/// Runs a command with this standard input, which ends some time later; returns its exit code, output and errors.
fn piped(args: &[&str], text: &[u8]) -> (Option<i32>, String, String) {
    let mut child = Command::new(cargo_bin("dnsdyno"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut input = child.stdin.take().expect("piped");
    // It may have ended.
    let _ = input.write_all(text);
    std::thread::sleep(Duration::from_millis(500));
    drop(input);
    let done = child.wait_with_output().expect("ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (done.status.code(), text(done.stdout), text(done.stderr))
}

#[test]
fn input_that_cannot_be_read_is_bad_input() {
    let bench = Bench::start();
    let (code, out, err) = dnsperf_with(&["-p", bench.port(), "-d", "/no/such"], b"");
    assert_eq!((code, &*out), (Some(2), ""), "{err}");
    assert!(err.contains("cannot read /no/such"), "{err}");
    let (code, out, err) = dnsperf_with(&["-p", bench.port()], b"; none\n");
    assert_eq!((code, &*out), (Some(2), ""), "{err}");
    assert!(err.contains("no query in it"), "{err}");
    // gzip with a stored block of 200 octets, cut off after some of them.
    let line = b"010-000-000-001.dns64perf.test A\n".repeat(4);
    let start = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 200, 0, 55, 255];
    let (code, out, err) = dnsperf_with(&["-p", bench.port()], &[&start[..], &line].concat());
    assert_eq!(code, Some(2), "{out}{err}");
    // Where the machine is slow, the end is seen before the test.
    assert!(out.is_empty() || number(&out, "Queries sent") == 4.0, "{out}{err}");
    assert!(err.contains("cannot read -"), "{err}");
}

/// Reads the trial that a command has printed.
fn trial(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

/// A bad line of a pipe ends the load at its place, with what was measured; --skip-bad goes on, and says what was skipped.
#[test]
fn a_bad_line_does_not_drop_what_was_measured() {
    let bench = Bench::start();
    let target = format!("127.0.0.1:{}", bench.port());
    let good = "010-000-000-001.dns64perf.test A\n";
    let text = format!("{}bad\n{}a..b A\n", good.repeat(3), good.repeat(4));
    let file = bench.dir.path().join("bad.txt");
    std::fs::write(&file, &text).expect("writes");
    let file = file.to_str().expect("UTF-8");
    for transport in ["udp", "tcp"] {
        let load = |file, more: &[&str]| {
            let all = ["load", &target, "--queries", file, "--runs", "1", "--pacing", "window 2"];
            let all = [&all[..], &["--transport", transport, "--timeout", "60s"], more].concat();
            piped(&all, text.as_bytes())
        };
        let (code, out, err) = load("-", &["--json", "-"]);
        assert_eq!((code, &trial(&out)["valid"]), (Some(2), &3.into()), "{out}{err}");
        assert!(err.contains("-:4:4: the type is missing"), "{err}");
        let (code, out, err) = load("-", &[]);
        assert!(code == Some(2) && out.contains("\nvalid           3 "), "{code:?} {out}{err}");
        let (code, out, err) = load(file, &["--json", "-"]);
        assert_eq!((code, &*out), (Some(2), ""), "{err}");
        assert!(err.contains(":4:4: the type is missing; 1 more line is no query: 9"), "{err}");
        for input in ["-", file] {
            let (code, out, err) = load(input, &["--skip-bad", "--json", "-"]);
            let trial = trial(&out);
            assert_eq!(trial["valid"], 7, "{out}{err}");
            // A busy machine may make it void.
            assert_eq!(code == Some(0), trial["void"] == false, "{out}{err}");
            let skipped = trial["warnings"].as_array().expect("a list").iter();
            let mut skipped = skipped.filter(|warning| warning["kind"] == "lines-skipped");
            let skipped = skipped.next().expect("a warning");
            assert_eq!(skipped["lines"], 2, "{skipped}");
            let first = skipped["first"].as_str().expect("a text");
            assert!(first.ends_with("4:4: the type is missing; 1 more line is no query: 9"));
        }
    }
}

/// Traffic begins before all of a large file is read, of which dnsperf makes the messages in each pass again.
#[test]
fn large_files_are_sent_while_they_are_read() {
    let bench = Bench::start();
    let dir = bench.dir.path();
    let target = format!("127.0.0.1:{}", bench.port());
    let good = "010-000-000-001.dns64perf.test A\n";
    // Read at once, it would be refused.
    std::fs::write(dir.join("large.txt"), good.repeat(250_000) + "bad\n").expect("writes");
    let file = dir.join("large.txt");
    let load = ["load", &target, "--queries", file.to_str().expect("UTF-8"), "--rate", "100"];
    let (code, out, err) = piped(&[&load[..], &["--duration", "1s", "--json", "-"]].concat(), b"");
    assert_eq!(trial(&out)["sent"], 100, "{out}{err}");
    assert!(code != Some(2) && !err.contains("large.txt:"), "{err}");
    let filler = format!("; {}\n", "x".repeat(1_000)).repeat(5_000);
    let text = format!("{}bad\n{filler}{good}", good.repeat(9));
    std::fs::write(dir.join("passes.txt"), text).expect("writes");
    let args = ["-p", bench.port(), "-d", "passes.txt", "-n", "3", "-t", "60"];
    let (out, err) = ours(dir, "dnsperf", &args);
    assert_eq!(number(&out, "Queries completed"), 30.0, "{out}{err}");
    assert_eq!(err.matches("invalid query input format").count(), 1, "{err}");
}

/// Runs a command whose standard input has a line each `pause`, until nobody reads it; returns its output.
fn fed(args: &[&str], pause: Duration) -> String {
    let mut child = Command::new(cargo_bin("dnsdyno"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut input = child.stdin.take().expect("piped");
    let lines = if pause.is_zero() { 1_000 } else { 1 };
    let text = "010-000-000-001.dns64perf.test A\n".repeat(lines);
    while input.write_all(text.as_bytes()).is_ok() {
        std::thread::sleep(pause);
    }
    let done = child.wait_with_output().expect("ends");
    String::from_utf8(done.stdout).expect("UTF-8")
}

/// A pipe that never ends is sent from its first line on, and one that is slower than the load is named.
#[test]
fn endless_pipes_are_sent_as_they_come() {
    let bench = Bench::start();
    let target = format!("127.0.0.1:{}", bench.port());
    let out = fed(&["dnsperf", "-p", bench.port(), "-l", "2", "-Q", "100"], Duration::ZERO);
    assert_eq!(number(&out, "Queries sent"), 200.0, "{out}");
    for transport in ["udp", "tcp"] {
        let load = ["load", &target, "--queries", "-", "--transport", transport, "--json", "-"];
        let all = [&load[..], &["--rate", "100", "--duration", "2s"]].concat();
        let trial: Value = serde_json::from_str(&fed(&all, Duration::ZERO)).expect("JSON");
        assert_eq!(trial["sent"], 200, "{trial}");
        let all = [&load[..], &["--rate", "1000", "--duration", "1s"]].concat();
        let trial: Value =
            serde_json::from_str(&fed(&all, Duration::from_millis(50))).expect("JSON");
        let sent = trial["sent"].as_u64().expect("a number");
        assert!((1..500).contains(&sent), "{trial}");
        assert_eq!(trial["planned"], sent, "{trial}");
        // A busy machine may make it void.
        if trial["void"].is_null() {
            assert_eq!(trial["limiter"], "tester-input", "{trial}");
        }
    }
}

/// Answers messages over UDP and TCP at a port of its own with their headers; returns it and the lengths of the messages.
fn echo() -> (u16, Receiver<usize>) {
    let (tcp, udp) = host::bind_port(Ipv4Addr::LOCALHOST);
    let port = tcp.local_addr().expect("an address").port();
    let (seen, lengths) = channel();
    let answer = |message: &[u8]| {
        let mut reply = message.to_vec();
        reply[2] |= 0x80;
        reply
    };
    let over_udp = seen.clone();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 65_535];
        while let Ok((len, peer)) = udp.recv_from(&mut bytes) {
            let _ = (over_udp.send(len), udp.send_to(&answer(&bytes[..len.min(100)]), peer));
        }
    });
    std::thread::spawn(move || {
        for stream in tcp.incoming().flatten() {
            let (mut stream, seen) = (stream, seen.clone());
            std::thread::spawn(move || {
                let mut length = [0; 2];
                while stream.read_exact(&mut length).is_ok() {
                    let mut bytes = vec![0; u16::from_be_bytes(length).into()];
                    if stream.read_exact(&mut bytes).is_ok() {
                        let _ = seen.send(bytes.len());
                        let _ = stream.write_all(&[&length[..], &answer(&bytes)].concat());
                    }
                }
            });
        }
    });
    (port, lengths)
}

/// Messages have any length that the transport takes; those that are longer are named.
#[test]
fn messages_of_any_length_are_sent() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    // An update for the root whose only record is unreadable: nothing but the header of its reply is compared.
    let file = |name: &str, lengths: &[u16]| {
        let mut out = Vec::new();
        for &len in lengths {
            let mut message = vec![0; len.into()];
            message[2] = 0x28;
            out.extend([&len.to_be_bytes()[..], &message].concat());
        }
        std::fs::write(dir.join(name), out).expect("writes");
    };
    file("all", &[40, 600, 5_000, 65_507, 65_508, 65_535]);
    file("short", &[40, 600, 65_507]);
    for (transport, file, sent) in [
        ("tcp", "all", &[40, 600, 5_000, 65_507, 65_508, 65_535][..]),
        ("udp", "all", &[40, 600, 5_000, 65_507]),
    ] {
        let (port, lengths) = echo();
        let port = port.to_string();
        let args = ["-p", &port, "-m", transport, "-B", "-d", file, "-q", "1", "-t", "60"];
        let (out, err) = ours(dir, "dnsperf", &args);
        assert_eq!(number(&out, "Queries completed"), sent.len() as f64, "{out}{err}");
        assert_eq!(err.matches("octets, not 2 to 65507: it is skipped").count(), 6 - sent.len());
        assert_eq!(lengths.try_iter().collect::<Vec<_>>(), sent, "{err}");
    }
    let (port, lengths) = echo();
    let target = format!("127.0.0.1:{port}");
    let load = |file: &str, more: &[&str]| {
        let args = ["load", &target, "--messages", file, "-n", "1", "--rate", "20"];
        let mut command = Command::new(cargo_bin("dnsdyno"));
        let done = output(command.args(args).args(more).current_dir(dir));
        (done.status.code(), String::from_utf8(done.stderr).expect("UTF-8"))
    };
    // Some messages go ahead of the load, to see whether the server answers; on a busy machine the load is void.
    load("short", &["--timeout", "60s"]);
    let seen: BTreeSet<usize> = lengths.try_iter().collect();
    assert_eq!(seen, BTreeSet::from([40, 600, 65_507]));
    load("all", &["--timeout", "60s", "--transport", "tcp"]);
    assert_eq!(lengths.try_iter().max(), Some(65_535));
    let (code, err) = load("all", &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("all: message 5, at octet 71155: it has 65508 octets, not 2 to 65507"),
        "{err}"
    );
}

/// The chapter of docs/migrating.md about a tool.
fn chapter(tool: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/migrating.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let start = page.find(&format!("\n## {tool}")).expect("a chapter");
    let rest = &page[start + 1..];
    rest[..rest.find("\n## ").unwrap_or(rest.len())].to_owned()
}

#[test]
fn every_option_has_a_row_that_says_what_it_is_here() {
    let dir = tempfile::tempdir().expect("a folder");
    for (tool, least) in [("dnsperf", 24), ("resperf", 25), ("kxdpgun", 18)] {
        let (help, _) = ours(dir.path(), tool, &["-h"]);
        let page = chapter(tool);
        let shared = if tool == "resperf" { chapter("dnsperf") } else { String::new() };
        let options =
            help.lines().filter_map(|line| line.trim_start().strip_prefix('-')?.chars().next());
        let options: Vec<char> = options.filter(char::is_ascii_alphabetic).collect();
        assert!(options.len() >= least, "{tool}: {options:?}");
        for option in options {
            // Alone, with a value, with others, or in a list of those that are the same.
            let named = |page: &str| {
                page.match_indices(&format!("-{option}")).any(|(at, text)| {
                    let before = page[..at].chars().next_back();
                    let after = page[at + text.len()..].chars().next();
                    before.is_some_and(|c| c == '`' || c == ' ')
                        && after.is_some_and(|c| !c.is_ascii_alphabetic())
                })
            };
            assert!(named(&page) || named(&shared), "{tool} -{option} is not in docs/migrating.md");
        }
        let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("|---"));
        for row in rows {
            let cells: Vec<&str> = row.split(" | ").collect();
            assert!(cells.len() >= 3 && !cells[1].trim().is_empty(), "{tool}: {row}");
        }
    }
}
