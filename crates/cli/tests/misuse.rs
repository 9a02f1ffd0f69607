//! A command line without stumbles: misuses are refused with a message that names the place, before anything runs; what is meant is
//! understood; and a reader that goes away ends a command quietly.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::kit::AuthDns;
use crate::kit::command::{dnsdyno, json, refused, run};
use crate::kit::shared::whole;

/// Misuses: a command line, and the parts of its message.
const MISUSES: &[(&str, &[&str])] = &[
    // The server.
    ("load", &["<TARGET>"]),
    ("load 192.0.2.256", &["`192.0.2.256`", "neither an address nor a name"]),
    ("load 255.255.255.255", &["many hosts"]),
    ("load nowhere.invalid", &["cannot look up nowhere.invalid"]),
    ("search nowhere.invalid", &["cannot look up nowhere.invalid"]),
    ("load fe80::1%nothing0", &["fe80::1%nothing0"]),
    ("load [fe80::1]:53 --type A", &["write its interface too, as in fe80::1%eth0"]),
    ("load ::1 --source 127.0.0.1", &["--source", "different families"]),
    // Units.
    ("load ::1 --rate 100m", &["--rate", "`100m`", "did you mean 100M?"]),
    ("load ::1 --rate -5", &["--rate", "`-5` is not a rate", "greater than zero"]),
    ("load ::1 --rate 0", &["--rate", "greater than zero"]),
    ("load ::1 --duration -5", &["--duration", "`-5` is not a duration"]),
    ("load ::1 --duration 5x", &["--duration", "a duration such as 5s"]),
    ("load ::1 --timeout 0s", &["--timeout must be longer than 0"]),
    ("load ::1 --goal loss<0.1", &["--goal", "did you mean 10% or 0.1%?"]),
    ("load ::1 --goal p99<5", &["--goal", "a duration such as 5ms"]),
    ("load ::1 --quantiles 101", &["--quantiles", "`101` is not a percentile"]),
    ("load ::1 --stop-outstanding 5m", &["did you mean 5M?"]),
    // What does nothing in this mode.
    ("load ::1 --pacing constant --window 5", &["--window", "--pacing window"]),
    ("load ::1 --threads 2,4", &["--threads", "--pacing lockstep"]),
    ("load ::1 -T 900", &["--threads 900", "this process has"]),
    ("load ::1 -T 1 --cpus 0", &["--threads", "--cpus sets the threads"]),
    ("load ::1 --experiments 2", &["--experiments", "--pacing lockstep"]),
    ("load ::1 --pacing lockstep --duration 5s", &["--duration", "--experiments"]),
    ("load ::1 --pacing 'ramp 1..2' --rate 5k", &["--rate requires constant, poisson or window"]),
    ("load ::1 --pacing window --stop-outstanding 5", &["--stop-outstanding", "a closed loop"]),
    ("load ::1 --pacing ramp", &["'ramp 1k..20k'"]),
    ("history --list --build nsd --revisions 1..2", &["--list", "`dnsdyno run`"]),
    ("load ::1 --runs 5", &["--runs", "--queries, --messages or --replay"]),
    ("load ::1 --tls-resume", &["--tls-resume requires --transport tls"]),
    ("load ::1 --http-path /q", &["--http-path requires --transport https"]),
    ("load ::1 --transport tcp --ports 5", &["--ports", "--clients"]),
    ("load ::1 --transport tcp --source-port 5000", &["--source-port", "--clients"]),
    ("load ::1 --times x", &["--times", "--pacing lockstep"]),
    ("search ::1 --rate 5k", &["--rate", "a search over clients"]),
    ("search ::1 --over connections", &["--over connections requires --transport tcp"]),
    ("search ::1 --over clients --clients 5", &["--clients", "--start, --min and --max"]),
    ("search ::1 --over clients --rule mlrsearch", &["--rule mlrsearch"]),
    ("search ::1 --min 5k --max 2k", &["--max is below --start or --min"]),
    (
        "load ::1 --transport tcp --clients 2 --cpus 0 --pacing window --window 200000",
        &["--pacing: a window of 200000", "needs 4 clients", "65536"],
    ),
    (
        "load ::1 --transport tcp --clients 8 --outstanding 10 --pacing window --window 1000",
        &["--outstanding: a window of 1000 on 8 clients needs 125"],
    ),
    ("dnsperf -s ::1 -m tcp -q 200000", &["-q 200000: -c 1 clients have 65536 ids"]),
    ("load ::1 --type A,AAAA", &["--type", "queried for one type"]),
    ("load ::1 --probability 0.5", &["--queries"]),
    ("load ::1 --queries q.txt --probability 2", &["--probability", "a share from 0 to 1"]),
    // What the machine does not have.
    ("load ::1 --cpus 900", &["--cpus", "no core 900"]),
    ("search ::1 --cpus 900", &["--cpus", "no core 900"]),
    ("load ::1 --ports 0", &["--ports", "at least 1"]),
    ("load ::1 --transport tcp --clients 1000000", &["--clients", "1000000 clients", "--source"]),
    ("load ::1 --queries nowhere.txt", &["cannot read the query file nowhere.txt"]),
    // Servers and starts of others.
    (
        "load 127.0.0.1:9 --namespace 10.0.0.0/16 --type A --dut=-oProxyCommand=x --dut-process x",
        &["begins with `-`"],
    ),
    (
        "load 127.0.0.1:9 --namespace 10.0.0.0/16 --type A --dut host --dut-process 'x;y'",
        &["`;` is not one of"],
    ),
    ("load 127.0.0.1:9 --namespace 10.0.0.0/16 --type A --dut host", &["--dut-process"]),
    (
        "load 127.0.0.1:9 --namespace 10.0.0.0/16 --type A --dut host --dut-process x --pacing lockstep",
        &["lock-step"],
    ),
    (
        "load 127.0.0.1 --name x.test --duration 1s --start-at @1000 --clock-bound unchecked",
        &["1970-01-01T00:16:40Z is ", " in the past"],
    ),
    (
        "load 127.0.0.1 --name x.test --duration 1s --start-at @32503680000 --clock-bound 0s",
        &["is not an instant"],
    ),
    (
        "load 127.0.0.1 --name x.test --duration 1s --start-at @9000000000 --clock-bound 0s",
        &["this host's clock"],
    ),
    (
        "load 127.0.0.1 --name x.test --duration 1s --clock-bound 1ms",
        &["--clock-bound requires --start-at"],
    ),
    ("load 127.0.0.1 --name x.test --duration 1s --slice 3/2", &["`3/2` is not a slice"]),
    // What a transport does not know.
    ("load 127.0.0.1 --transport quic --proxy 10.0.0.0/8", &["QUIC's packets"]),
    ("load 127.0.0.1 --transports tcp=1,http3=1 --proxy 10.0.0.0/8", &["QUIC's packets"]),
    ("load 127.0.0.1 --transport quic --keepalive", &["--transport tcp or tls"]),
    ("load 127.0.0.1 --transport udp --keepalive", &["--transport tcp or tls"]),
    ("load 127.0.0.1 --transport udp --fast-open", &["--fast-open"]),
    ("load 127.0.0.1 --transport tcp --ca x.pem", &["--ca"]),
    ("load 127.0.0.1 --transport tls --http-path /x", &["--http-path"]),
    ("load 127.0.0.1 --transports tls=1,quic=1 --tls-version 1.2", &["TLS 1.3 only"]),
    ("load 127.0.0.1 --transports tls=1,quic=1 --clients 1", &["give each at least one"]),
    (
        "load 127.0.0.1 --transport tcp --proxy 10.0.0.0/8 --proxy-within-tls",
        &["--proxy-within-tls requires"],
    ),
    ("load 127.0.0.1 --transport tls --proxy-within-tls", &["--proxy <PREFIX>"]),
    ("load 127.0.0.1 --transports tls=3,tls=2", &["twice"]),
    ("load 127.0.0.1 --transports dox=1", &["is not a transport"]),
    ("load 127.0.0.1 --transports tcp=0", &["1 to 1000"]),
    ("load 127.0.0.1 --transports tcp", &["TRANSPORT=SHARE"]),
    ("load 127.0.0.1 --transports tcp=600,udp=600", &["more than 1000"]),
    (
        "auth --https 127.0.0.1:0 --fault duplicate:0.1",
        &["a stream has one query and one reply; leave out --https and --quic"],
    ),
    (
        "auth --quic 127.0.0.1:0 --fault duplicate:0.1",
        &["a stream has one query and one reply; leave out --https and --quic"],
    ),
    // What programs in the kernel cannot do.
    ("auth --listen [::1]:0 --engine kernel --device lo --loss 0.5", &["losses"]),
    ("auth --listen [::1]:0 --engine kernel --device lo --delay 1ms", &["delays"]),
    ("auth --listen [::1]:0 --engine kernel", &["--device"]),
    ("auth --listen [::1]:0 --device lo", &["--device requires --engine kernel"]),
    // Words that are not ours.
    ("load ::1 --qps 5k", &["--qps", "use `--rate` here"]),
    ("load ::1 --insecure", &["--insecure", "--ca FILE"]),
    ("load ::1 --port 5300", &["--port", "follows its address", "--dns-port"]),
    ("export 1 --csv", &["--csv", "use `--format csv` here"]),
    ("verify --certificate x", &["--certificate", "--write-certificate"]),
    ("run x --keep", &["--keep", "--keep-files"]),
    ("load ::1 --trasport tcp", &["--trasport", "--transport"]),
    ("laod ::1", &["laod", "load"]),
    ("run dns64-rfc8129 --dry-run", &["dns64-rfc8129", "did you mean dns64-rfc8219?"]),
    ("run dns64-answers --quick --repeats 2 --dry-run", &["repeats", "repeats a query itself"]),
    ("load ::1 --name a.test --class CX", &["--class", "`CX` is not a class", "CH"]),
    ("load ::1 --rate 1k --class CH", &["--class", "use it with --name"]),
    ("load ::1 --namespace 10.0.0.0/8 --class CH", &["--class", "--namespace"]),
];

#[test]
fn misuses_are_refused_with_their_place() {
    let mut wrong = Vec::new();
    for (line, parts) in MISUSES {
        let err = refused(line);
        for part in parts.iter().filter(|part| !err.contains(**part)) {
            wrong.push(format!("{line}: `{part}` is not in: {err}"));
        }
        // Names of Rust's types are for its developers.
        assert!(
            !["Some(", "None", "Error {", "Os {"].iter().any(|word| err.contains(word)),
            "{line}: {err}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_plan_says_which_cores_are_missing() {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/dns64-rfc8219.toml"
    ));
    let text = text.expect("an experiment") + "\n[cpus]\ndut = [900]\n";
    let file = tempfile::NamedTempFile::with_suffix(".toml").expect("a file");
    std::fs::write(file.path(), text).expect("writes");
    let (code, out, err) = run(&format!("run {} --dry-run", file.path().display()));
    assert_eq!(code, 2, "{out}{err}");
    assert!(out.contains("in all") && err.contains("cpus.dut: there is no core 900"), "{out}{err}");
    let full = "\nnot RFC 8219: the server runs on this host (--dut HOST starts it on another)\n";
    assert!(out.ends_with(full), "{out}");
    let (_, cached, _) = run("run dns64-cached --dut 192.0.2.1 --dry-run");
    let optional = "\nnot RFC 8219: queries repeat names: the optional test of caching (section 9.2), not the required one\n";
    assert!(cached.ends_with(optional), "{cached}");
    let (_, quick, _) = run("run dns64-rfc8219 --quick --dry-run");
    assert!(quick.contains("\nnot RFC 8219: a timeout of 500ms instead of 1 s; "), "{quick}");
}

#[test]
fn later_options_override_earlier_ones() {
    let auth = AuthDns::start(&[]);
    let trial = json(&format!(
        "load {} --type AAAA --type A --rate 5k --duration 9s --rate 200 --duration 500ms --format json",
        auth.plain()
    ));
    assert_eq!(trial["sent"], 100, "{trial}");
}

#[test]
fn queries_have_the_class_that_was_asked_for() {
    let auth = AuthDns::start(&[]);
    let load = format!("load {} --no-check --name 010-000-000-001.dns64perf.test", auth.plain());
    for (class, code) in [("IN", "NOERROR"), ("CH", "REFUSED")] {
        let more = format!("--type A --rate 200 --class {class} --duration 500ms --format json");
        let trial = json(&format!("{load} {more}"));
        assert_eq!(trial["rcodes"], serde_json::json!({ code: trial["answered"] }), "{class}");
        let workload = trial["conditions"]["workload"].as_str().unwrap_or_default();
        assert_eq!(workload.contains("class CH"), class == "CH", "{workload}");
    }
}

#[test]
fn a_name_is_looked_up_once_and_said() {
    let auth = AuthDns::start(&[]);
    let server = auth.plain().replace("127.0.0.1", "localhost");
    // The name may have an IPv6 address too, where nobody listens.
    let (_, out, err) = run(&format!("load {server} --type A --rate 100 --duration 300ms"));
    assert!(err.contains("localhost is "), "{out}{err}");
}

#[test]
fn results_have_the_form_that_is_asked_for() {
    let auth = AuthDns::start(&[]);
    let load = format!("load {} --type A --duration 600ms", auth.plain());
    let (_, out, err) = run(&format!("{load} --rate 200 --format csv"));
    // A reader of CSV refuses rows of another length than the header.
    let rows: Result<Vec<_>, _> = csv::Reader::from_reader(out.as_bytes()).records().collect();
    assert_eq!(rows.unwrap_or_else(|e| panic!("{e}: {out}{err}")).len(), 1, "{out}{err}");
    let more = "--rate 200 --quantiles 25,p99.99 --interval 200ms --duration 3s";
    let (_, out, err) = run(&format!("{load} {more}"));
    assert!(out.contains("\np25 ") && out.contains("\np99.99 "), "{out}");
    let intervals: Vec<_> =
        err.lines().filter(|line| line.contains(" s: sent ") && line.contains("valid ")).collect();
    // The first interval begins with the first query.
    assert!(intervals.len() >= 2 && !intervals[0].contains("sent 0/s"), "{err}");
    let (_, out, _) = run(&format!("{load} --pacing 'ramp 0..400 then 200ms'"));
    // On a busy machine the load may be void, and has no maximum.
    let has_maximum = out.contains("maximum  ") || out.contains("\nVOID ");
    assert!(out.contains("answered") && has_maximum, "{out}");
    assert!(out.contains("400/s"), "the planned rate of the last steps: {out}");
}

#[test]
fn query_files_may_be_compressed_or_come_from_a_pipe() {
    let auth = AuthDns::start(&[]);
    let dir = tempfile::tempdir().expect("a folder");
    let text = b"010-000-000-001.dns64perf.test A\n010-000-000-002.dns64perf.test A\n";
    let gzip = dir.path().join("q.txt.gz");
    let mut out =
        GzEncoder::new(std::fs::File::create(&gzip).expect("a file"), Compression::fast());
    out.write_all(text).and_then(|()| out.finish().map(|_| ())).expect("writes");
    let sent = |queries: &str, input: &[u8]| {
        let load = format!("load {} --queries {queries} --runs 3 --pacing window", auth.plain());
        let mut child = dnsdyno(&format!("{load} --window 2 --timeout 10s --json -"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        // It may not read its input.
        let _ = child.stdin.take().expect("piped").write_all(input);
        let done = child.wait_with_output().expect("ends");
        let trial: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
        (trial["sent"].clone(), trial["valid"].clone())
    };
    let wanted = (6.into(), 6.into());
    assert_eq!(sent(gzip.to_str().expect("UTF-8"), b""), wanted);
    assert_eq!(sent("-", text), wanted);
}

#[test]
fn a_search_varies_clients_or_connections() {
    let auth = AuthDns::start(&[]);
    let search = format!("search {} --type A --transport tcp --goal 'loss < 50%'", auth.plain());
    let short = "--duration 200ms --repeats 1";
    for (more, over, lowest) in [
        ("--over clients --start 4 --max 8", "clients", 4.0),
        ("--over connections --start 20 --max 40", "connections/s", 20.0),
    ] {
        let (_, out, err) = run(&format!("{search} {more} {short} --resolution 0.5 --json -"));
        let run: serde_json::Value =
            serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
        let run = whole(run);
        let cell = &run["results"][0];
        assert_eq!(cell["over"], over, "{err}");
        let differs = cell["differs"].to_string();
        assert!(
            differs.contains(&format!("a search over {over}"))
                && differs.contains("other than UDP"),
            "{differs}"
        );
        assert_eq!(cell["conforming"], false);
        assert!(err.contains(over) && !err.contains(" qps"), "{err}");
        let trial = &cell["trials"][0];
        assert_eq!(trial["rate_qps"], lowest);
        if over == "clients" {
            assert_eq!(trial["connections"]["clients"], 4, "{trial}");
            assert_eq!(trial["conditions"]["pacing"], "constant 1000 qps");
        } else {
            assert_eq!(trial["connections"]["queries_per_connection"], 1, "{trial}");
            let attempts = trial["connections"]["attempts"].as_f64().expect("a number");
            assert!(attempts <= trial["sent"].as_f64().expect("a number") + 1.0, "{trial}");
        }
    }
    let more = "--pacing poisson --clients 3 --min 50 --max 100 --rule rfc8219";
    let (_, out, err) = run(&format!("{search} {more} {short}"));
    assert!(out.contains("highest bound, queries/s"), "{out}{err}");
}

#[test]
fn names_that_are_not_utf_8_are_shown_as_far_as_they_are() {
    let name = OsStr::from_bytes(b"no\xffwhere.txt");
    let output = dnsdyno("load ::1 --queries").arg(name).output().expect("starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("cannot read the query file no\u{fffd}where.txt"), "{told}");
}

#[test]
fn a_reader_that_goes_away_ends_a_command_quietly() {
    for line in [
        "run --list",
        "run dns64-cached --dry-run",
        "servers",
        "load --help all",
        "completions bash",
    ] {
        let mut command = dnsdyno(line);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        // Closed before anything is read.
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
        let status = child.wait().expect("ends");
        assert!(!err.contains("panicked"), "{line}: {err}");
        assert!(status.code().is_some_and(|code| code != 101), "{line}: {status}");
    }
}

#[test]
fn help_is_short_unless_all_of_it_is_wanted() {
    let (code, short, _) = run("load --help");
    let (_, all, _) = run("load --help all");
    assert_eq!(code, 0);
    assert!(
        short.lines().count() * 2 < all.lines().count(),
        "{} {}",
        short.lines().count(),
        all.lines().count()
    );
    assert!(!short.contains("--proxy-within-tls") && all.contains("--proxy-within-tls"));
    for usual in
        ["--rate", "--queries", "--transport", "--clients", "--duration", "--json", "--help all"]
    {
        assert!(short.contains(usual), "{usual}: {short}");
    }
}

#[test]
fn shells_get_completions() {
    for (shell, part) in
        [("bash", "complete -F"), ("zsh", "#compdef dnsdyno"), ("fish", "complete -c dnsdyno")]
    {
        let (code, out, err) = run(&format!("completions {shell}"));
        assert_eq!(code, 0, "{err}");
        assert!(out.contains(part) && out.contains("dnsperf"), "{shell}");
        if shell != "bash" {
            continue;
        }
        // The shell itself finds no fault with it.
        let mut child = Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn().expect("bash");
        child.stdin.take().expect("piped").write_all(out.as_bytes()).expect("writes");
        assert!(child.wait().expect("ends").success(), "{shell}");
    }
}
