//! `dnsdyno dnsperf`, `resperf` and `kxdpgun` beside the tools of these names, against one AuthDNS.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::kit::AuthDns;
use crate::kit::command::{dnsdyno, run_in, told};
use crate::kit::host::{installed, signal};

/// Runs a command of ours in the place of a tool, with the words of a line; standard output and standard error.
pub(crate) fn ours(dir: &Path, line: &str) -> (String, String) {
    let (code, out, err) = run_in(dir, line);
    assert_eq!(code, 0, "{line}: {out}{err}");
    (out, err)
}

/// Runs the tool itself; standard output.
fn theirs(dir: &Path, line: &str) -> String {
    let (tool, args) = line.split_once(' ').expect("arguments");
    let mut command = Command::new(tool);
    command.args(args.split(' ')).current_dir(dir).stdin(Stdio::null());
    told(command.output().expect("starts")).1
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
pub(crate) fn number(output: &str, label: &str) -> f64 {
    let text = value(output, label);
    let digits: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse().unwrap_or_else(|_| panic!("{label}: {text}"))
}

/// Address, port and folder of an AuthDNS with a query file of 300 queries.
pub(crate) struct Bench {
    pub(crate) auth: AuthDns,
    pub(crate) dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let names = (0..297).map(|i| format!("010-000-000-{i:03}.dns64perf.test A\n"));
        let missing = (0..3).map(|i| format!("missing-{i}.dns64perf.test A\n"));
        let text: String = names.chain(missing).collect();
        std::fs::write(dir.path().join("q.txt"), text).expect("writes");
        Bench { auth: AuthDns::start(&[]), dir }
    }

    pub(crate) fn port(&self) -> &str {
        self.auth.plain().rsplit(':').next().expect("a port")
    }
}

#[test]
fn dnsperf_reports_what_dnsperf_reports() {
    let bench = Bench::start();
    let dir = bench.dir.path();
    let table = [
        ("-n 2", 600.0),
        ("-n 1 -Q 1000 -q 10", 300.0),
        ("-m tcp -c 2", 300.0),
        ("-e -c 4", 300.0),
        ("-D -E 10:0011223344556677", 300.0),
        ("-c 3 -T 2 -t 2 -b 512", 300.0),
        ("-y lab:c2VjcmV0LXNlY3JldC1zZWNyZXQ=", 300.0),
        ("-y hmac-sha224:lab:c2VjcmV0LXNlY3JldC1zZWNyZXQ= -e", 300.0),
        ("-y hmac-sha256:lab:c2VjcmV0LXNlY3JldC1zZWNyZXQ= -f inet", 300.0),
    ];
    let installed = installed("dnsperf").is_some();
    for (options, sent) in table {
        let line = format!("dnsperf -s 127.0.0.1 -p {} -d q.txt {options}", bench.port());
        let (own, _) = ours(dir, &line);
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
        assert_eq!(number(&own, "Queries sent"), sent, "{options}: {own}");
        assert!(own.contains("[Status] Testing complete (end of file)"), "{own}");
        assert!(
            own.contains("limiter ") && own.contains(" queries of q.txt"),
            "our report follows: {own}"
        );
        if !installed {
            continue;
        }
        let other = theirs(dir, &line);
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
    for more in ["", " -m tcp"] {
        let line = format!("dnsperf -s 127.0.0.1 -p {} -d three.txt -n 2 -v{more}", bench.port());
        let (own, _) = ours(dir, &line);
        let found = each(&own);
        assert_eq!(found.len(), 6, "{own}");
        assert!(
            found.iter().filter(|line| *line == "NXDOMAIN Missing.dns64perf.test AAAA").count()
                == 2,
            "{own}"
        );
        if installed("dnsperf").is_some() {
            let other = theirs(dir, &line);
            assert_eq!(found, each(&other), "{own}\n{other}");
        }
    }
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let (own, _) = ours(dir, &format!("dnsperf -s 127.0.0.1 -p {port} -d three.txt -v -t 0.2"));
    assert!(own.contains("> T Missing.dns64perf.test AAAA"), "{own}");
}

#[test]
fn dnsperf_speaks_tls_and_https() {
    let bench = Bench::start();
    let (dir, auth) = (bench.dir.path(), AuthDns::encrypted(&[]));
    let port = |transport| auth.address(transport).rsplit(':').next().expect("a port").to_owned();
    let (tls, https) = (port("tls"), port("https"));
    let uri = format!("doh-uri=https://localhost:{https}/dns-query");
    for options in [
        format!("-m dot -p {tls} -c 2 -O tls-sni=localhost"),
        format!("-m doh -p {https} -O {uri}"),
        format!("-m doh -p {https} -O doh-method=POST -O {uri} -c 3"),
    ] {
        let (own, _) = ours(dir, &format!("dnsperf -s 127.0.0.1 -d q.txt {options}"));
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
        assert_eq!(http, options.contains("doh"), "{own}");
    }
    let auth = AuthDns::encrypted(&["--stream-fault", "status=503/3"]);
    let port = auth.address("https").rsplit(':').next().expect("a port");
    let (own, _) = ours(dir, &format!("dnsperf -s 127.0.0.1 -d q.txt -m doh -p {port} -t 60"));
    assert_eq!(value(&own, "HTTP/2 return codes"), "200: 200, 503: 100", "{own}");
}

#[test]
fn dnsperf_reads_its_other_files_and_stops_in_time() {
    let bench = Bench::start();
    let dir = bench.dir.path();
    let port = bench.port();
    let run = |more: &str| ours(dir, &format!("dnsperf -s localhost -f inet -p {port} {more}"));
    std::fs::write(
        dir.join("bad.txt"),
        "a.dns64perf.test\n010-000-000-001.dns64perf.test A third\n",
    )
    .expect("writes");
    let (own, err) = run("-d bad.txt");
    assert_eq!(number(&own, "Queries sent"), 1.0);
    assert!(err.contains("Warning: dnsperf: invalid query input format: bad.txt:1:17"), "{err}");
    assert!(err.contains("localhost is 127.0.0.1"), "{err}");
    let (own, err) = run("-d bad.txt -W -v -O suppress=timeouts");
    assert!(
        own.contains("bad.txt:1:17")
            && own.contains("> NOERROR 010-000-000-001.dns64perf.test A 0.")
            && own.contains("suppress"),
        "{own}"
    );
    assert!(!err.contains("Warning"), "{err}");
    let update = "example.com\nadd x 3600 A 10.1.2.3\nsend\n".repeat(5);
    std::fs::write(dir.join("u.txt"), update).expect("writes");
    let (own, _) = run("-d u.txt -u -n 2");
    // The AuthDNS takes no updates.
    assert_eq!(
        (number(&own, "Updates sent"), number(&own, "Updates completed")),
        (10.0, 10.0),
        "{own}"
    );
    let query = b"\0\x1d\0\0\x01\0\0\x01\0\0\0\0\0\0\x0bx-dns64perf\0\0\x01\0\x01".to_vec();
    std::fs::write(dir.join("b.bin"), query).expect("writes");
    let (own, _) = run("-d b.bin -B -v");
    assert!(own.contains(" binary input 0."), "{own}");
    assert_eq!(
        (number(&own, "Queries sent"), number(&own, "Queries completed")),
        (1.0, 1.0),
        "{own}"
    );
    let (own, _) = run("-d q.txt -l 1 -Q 200 -S 0.2 -O latency-histogram");
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
    let run = |plot| {
        let port = bench.port();
        format!(
            "resperf -s 127.0.0.1 -p {port} -d q.txt -R -m 400 -r 2 -c 1 -t 1 -L 50 -i 0.5 -P {plot}"
        )
    };
    let line = run("own.plot");
    let (own, _) = ours(dir, &line);
    assert!((795.0..=800.0).contains(&number(&own, "Queries sent")), "{own}");
    // A busy machine takes the answers of one step's end in the next one.
    assert!((300.0..=600.0).contains(&number(&own, "Maximum throughput")), "{own}");
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
    let (own_none, err) = ours(dir, &format!("{line} -F 0 -v"));
    assert!(err.contains("-F: ") && err.contains("-v: "), "{err}");
    assert!(own_none.contains("[Status] Ramp-up done, sending constant traffic"), "{own_none}");
    // 300 queries are too few without -R.
    let (code, out, said) = run_in(dir, &line.replace(" -R", ""));
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("ran out of query data"), "{said}");
    assert!(out.contains("Queries sent:         300"), "{said}");
    if installed("resperf").is_some() {
        let other = theirs(dir, &run("their.plot"));
        let known = |labels: Vec<&str>| -> Vec<String> {
            labels.iter().filter(|l| !l.contains("Reconnection")).map(|l| (*l).to_owned()).collect()
        };
        assert_eq!(known(labels(&own)), known(labels(&other)), "{own}\n{other}");
        let (their_head, their_rows) = columns("their.plot");
        assert_eq!(head, their_head);
        assert_eq!(rows[1][..2], their_rows[1][..2], "time and target");
        let sent = [&own, &other].map(|output| number(output, "Queries sent"));
        // resperf ends when its time has passed, whatever it has not sent by then.
        assert!((sent[0] - sent[1]).abs() <= 80.0, "{sent:?}");
    }
}

#[test]
fn kxdpgun_reports_what_kxdpgun_reports() {
    let bench = Bench::start();
    let dir = bench.dir.path();
    let load = format!("kxdpgun -t 0.5 -Q 400 -i q.txt -p {}", bench.port());
    let (own, err) = ours(dir, &format!("{load} -b 20 -I lo -F 0s1 127.0.0.1"));
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
    let (tcp, _) = ours(dir, &format!("{load} -T 127.0.0.1"));
    assert!(number(&tcp, "total SYNs") > 0.0 && number(&tcp, "total established") > 0.0, "{tcp}");
    let (drop, _) = ours(dir, &format!("{load} -r 127.0.0.1"));
    assert!(!drop.split("dnsdyno's checks").next().expect("theirs").contains("replies"), "{drop}");
    let (json, _) = ours(dir, &format!("{load} -j 127.0.0.1"));
    for line in json.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    }
    assert!(json.contains("stats_sum") && json.contains("kxdpgun"), "{json}");
}

#[test]
fn sigusr1_prints_the_figures_so_far() {
    let bench = Bench::start();
    let load = format!("load {} --queries q.txt --rate 400 --duration 2s", bench.auth.plain());
    let kxdpgun = format!("kxdpgun -t2 -Q400 -iq.txt -p {} 127.0.0.1", bench.port());
    // Nothing has come from this pipe when the signal comes.
    let waiting = load.replace("q.txt", "pipe");
    let pipe = bench.dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("coreutils").success());
    for line in [load, kxdpgun, waiting] {
        let child = dnsdyno(&line)
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
        assert!(tries.is_some(), "{line} catches no SIGUSR1");
        signal(child.id(), "USR1");
        if line.contains("pipe") {
            let queries = "010-000-000-001.dns64perf.test A\n".repeat(900);
            std::fs::write(&pipe, queries).expect("it is read");
        }
        let done = child.wait_with_output().expect("ends");
        // A load on a busy machine may be void.
        let (_, out, err) = told(done);
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
    if installed("kxdpgun").is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let names = (0..200).map(|i| format!("010-000-000-{i:03}.dns64perf.test A\n"));
    std::fs::write(dir.path().join("q.txt"), names.collect::<String>()).expect("writes");
    let mut hosts = Command::new("unshare");
    hosts.args(["-n", "bash", "-c", TWO_HOSTS]).env("DNSDYNO", cargo_bin("dnsdyno"));
    let done = hosts.current_dir(dir.path()).stdin(Stdio::null()).output().expect("starts");
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
        let mut command = Command::new(dir.join(tool));
        command.args(line.split_whitespace()).current_dir(dir).stdin(Stdio::null());
        let (code, out, err) = told(command.output().expect("starts"));
        assert_eq!(code, 0, "{tool} {line}: {out}{err}");
        assert!(!out.is_empty(), "{tool} {line}");
    }
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
        let (help, _) = ours(dir.path(), &format!("{tool} -h"));
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
