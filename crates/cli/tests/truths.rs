//! `load` against servers of known behaviour: our AuthDNS over every transport, and a server in Python that shares no line with it.

use std::io::{BufRead, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use streams::tls::Authority;

use crate::kit::AuthDns;
use crate::kit::command::{dnsdyno, load, run};
use crate::kit::host::signal;
use crate::kit::peer::reply;

fn count(trial: &Value, name: &str) -> u64 {
    trial[name].as_u64().unwrap_or_else(|| panic!("{name}: {trial}"))
}

/// Transports of our AuthDNS, with the clients over each.
const TRANSPORTS: [&str; 7] = ["udp", "udp --clients 8", "tcp", "tls", "https", "http3", "quic"];

#[test]
fn losses_faults_and_delays_are_the_same_over_every_transport() {
    for transport in TRANSPORTS {
        let auth =
            AuthDns::encrypted(&["--loss", "0.01", "--fault", "servfail:0.02", "--delay", "5ms"]);
        let target = auth.address(transport.split(' ').next().expect("a word"));
        let trial = load(
            target,
            &format!("--transport {transport} --type A --rate 2k --duration 500ms --timeout 2s"),
        );
        // A busy machine may lose datagrams, and nothing else.
        let (lost, servfail) = (count(&trial, "lost"), count(&trial["rcodes"], "SERVFAIL"));
        let lossy = transport.starts_with("udp");
        assert!(lost.abs_diff(10) <= 1 || lossy && lost > 10, "{transport}: {lost}");
        assert!(servfail.abs_diff(20) <= 1, "{transport}: {servfail}");
        let least = trial["latency_from_send_us"]["min"].as_f64().expect("a time");
        assert!(least >= 5_000.0, "{transport}: {least} us");
        let told = auth.end();
        assert!(told.contains("1000 queries: 1000 answers"), "{transport}: {told}");
        let faults = |n| told.contains(&format!("; {n} faults, 0 late, 0 over the capacity"));
        assert!((29..=31).any(faults), "{transport}: {told}");
    }
}

#[test]
fn a_capacity_drops_what_is_beyond_it_over_every_transport() {
    for transport in TRANSPORTS {
        let auth = AuthDns::encrypted(&["--capacity", "500:10"]);
        let target = auth.address(transport.split(' ').next().expect("a word"));
        let args =
            format!("--transport {transport} --type A --rate 2k --duration 1s --timeout 300ms");
        let trial = load(target, &args);
        let told = auth.end();
        let over = told.split(" over the capacity").next().and_then(|text| text.rsplit(' ').next());
        let over: u64 = over.and_then(|number| number.parse().ok()).expect("a count");
        // A busy machine may lose more.
        let lost = count(&trial, "lost");
        assert!(over > 0 && lost >= over, "{transport}: {lost}: {told}");
    }
}

#[test]
fn connections_are_limited_and_accepted_at_a_rate() {
    let auth = AuthDns::start(&["--max-connections", "3", "--accept-rate", "100"]);
    let trial = load(
        auth.plain(),
        "--transport tcp --type A --clients 3 --rate 300 --duration 1s --timeout 3s --queries-per-connection 3",
    );
    let established = count(&trial["connections"], "established");
    assert!(established <= 110, "{trial}");
    let told = auth.end();
    assert!(told.contains("connections\n"), "{told}");
}

/// A server in Python whose answers and delays are known.
struct Known {
    child: Child,
    output: BufReader<ChildStdout>,
    ports: Value,
    _dir: tempfile::TempDir,
}

impl Known {
    /// Starts it; `None` without Python.
    fn start(mut options: Value) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a folder");
        let authority = Authority::new().expect("an authority");
        authority.write(dir.path(), &["localhost", "127.0.0.1"]).expect("writes");
        options["certificate"] = json!(dir.path().join("server.pem"));
        options["key"] = json!(dir.path().join("server.key"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/known_server.py");
        let started = Command::new("python3")
            .args([script, &options.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = skip::unless_ok(started, "known_server.py (package python3)")?;
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let ports = line(&mut output);
        Some(Known { child, output, ports, _dir: dir })
    }

    fn address(&self, way: &str) -> String {
        let transport = way.split(' ').next().expect("a word");
        format!("127.0.0.1:{}", self.ports[transport])
    }

    /// Ends it; returns what it counted over the transport of a way.
    fn end(self, way: &str) -> Value {
        self.end_all()[way.split(' ').next().expect("a word")].clone()
    }

    /// Ends it; returns what it counted over each transport.
    fn end_all(mut self) -> Value {
        drop(self.child.stdin.take());
        let counts = line(&mut self.output);
        self.child.wait().expect("ends");
        counts
    }
}

/// The next line, as JSON.
fn line(output: &mut impl BufRead) -> Value {
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

/// Ways of queries that the server in Python knows.
const WAYS: [&str; 5] =
    ["udp", "udp --clients 8", "tcp --clients 1", "tcp --clients 8", "tls --clients 8"];

/// Runs `attempt` for each way until it has nothing to say against the machine, three times at most.
fn each_way(
    options: &Value,
    args: &str,
    check: impl Fn(&str, &Value, &Value) -> Result<(), String>,
) {
    let file = queries("a.example A\nbc.example A\n");
    for way in WAYS {
        let mut why = String::new();
        let passed = (0..3).any(|_| {
            let Some(server) = Known::start(options.clone()) else { return true };
            let args = format!("--transport {way} --queries {} {args}", file.path().display());
            let trial = load(&server.address(way), &args);
            let counts = server.end(way);
            check(way, &trial, &counts).inspect_err(|e| why.clone_from(e)).is_ok()
        });
        assert!(passed, "{way}: {why}");
    }
}

#[test]
fn a_window_keeps_to_littles_law() {
    let args = "--pacing window --window 100 --duration 1500ms --timeout 5s";
    each_way(&json!({ "delay": 0.05 }), args, |way, trial, server| {
        let sent = count(trial, "sent");
        if server["queries"] != sent || count(trial, "valid") != sent {
            return Err(format!("{sent} sent: {server}"));
        }
        let sources = server["sources"].as_array().map_or(0, Vec::len);
        if way.ends_with("--clients 8") && sources != 8 {
            return Err(format!("{sources} clients: {server}"));
        }
        // The server's own mean delay; the way there and back is a part of it only. A round of the window may be cut off.
        let number = |value: &Value| value.as_f64().expect("a number");
        let delay = number(&server["kept"]) / number(&server["replies"]);
        let most = 100.0 * (1.5 / delay).ceil();
        // A window opens in some round trips. A machine whose cores others have lowers the rate.
        let waited = [&server["waited"], &trial["cpu"]["tester"]["run_delay"]].map(number);
        let least = if waited[0] < 0.05 && waited[1] < 0.05 { 85.0 * 1.5 / delay } else { 0.0 };
        match sent as f64 {
            sent if sent > most => Err(format!("{sent} sent, at most {most}")),
            sent if sent < least => Err(format!("{sent} sent, {least} by Little's law")),
            _ => Ok(()),
        }
    });
}

#[test]
fn losses_late_and_doubled_replies_are_counted() {
    let options = json!({ "lose": 50, "twice": 40, "late": [33, 0.25] });
    each_way(&options, "--rate 1k --duration 1s --timeout 200ms", |way, trial, server| {
        let [sent, lost, late, twice] =
            ["sent", "lost", "late", "duplicates"].map(|n| count(trial, n));
        let queries = server["queries"].as_u64().expect("a count");
        // 20 are lost and 30 late, of which those at the end are not waited for; 25 are doubled, 5 of them lost.
        let right =
            (sent, queries, lost, twice) == (1_000, 1_000, 50, 20) && (27..=30).contains(&late);
        if !right {
            return Err(format!("sent {sent}, lost {lost}, late {late}, twice {twice}: {server}"));
        }
        let sources: Vec<u64> = server["sources"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_u64)
            .collect();
        let turns = sources.last().zip(sources.first()).map_or(0, |(most, least)| most - least);
        if way.contains("clients") && turns > 1 {
            return Err(format!("clients did not take turns: {sources:?}"));
        }
        Ok(())
    });
}

#[test]
fn a_token_bucket_of_another_is_found() {
    let options = json!({ "bucket": [300, 30] });
    each_way(&options, "--rate 1k --duration 1s --timeout 300ms", |_, trial, server| {
        let valid = count(trial, "valid");
        // A load that takes longer gets more.
        match server["replies"] == valid && (300..1_000).contains(&valid) {
            true => Ok(()),
            false => Err(format!("{valid} valid: {server}")),
        }
    });
}

/// A file of queries.
fn queries(lines: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), lines).expect("writes");
    file
}

/// Sends the queries of a file with these lines to the server over UDP, for half a second.
fn load_lines(server: &Known, lines: &str, args: &str) -> Value {
    let file = queries(lines);
    let args = format!("--queries {} --rate 200 --duration 500ms {args}", file.path().display());
    load(&server.address("udp"), &args)
}

#[test]
fn server_cookies_are_returned() {
    let Some(server) = Known::start(json!({ "cookies": true })) else { return };
    // Each client has one query outstanding, and knows the cookie after the first reply.
    let args = "--cookies --clients 4 --outstanding 1 --pacing window --window 4 --keep-places --timeout 5s";
    let file = queries("a.example A\n");
    let args = format!("{args} --queries {} --duration 500ms", file.path().display());
    let trial = load(&server.address("udp"), &args);
    assert_eq!(count(&trial["rcodes"], "BADCOOKIE"), 4, "{trial}");
    assert_eq!(count(&trial, "valid") + 4, count(&trial, "sent"), "{trial}");
    assert_eq!(server.end("udp")["queries"], trial["sent"]);
}

#[test]
fn a_reply_with_the_cookie_of_another_client_is_none() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let target = server.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        let mut message = [0; 512];
        while let Ok((len, client)) = server.recv_from(&mut message) {
            // Its last octet is one of the client's cookie.
            let own = reply(&message[..len], 0);
            let forged = [&own[..len - 1], &[!own[len - 1]]].concat();
            for reply in [forged, own] {
                let _ = server.send_to(&reply, client);
            }
        }
    });
    let args = "--name x.test --type A --expect answered --cookies --clients 2 --rate 100";
    let trial = load(&target, &format!("{args} --duration 500ms --timeout 5s"));
    assert_eq!([count(&trial, "sent"), count(&trial, "valid")], [50; 2], "{trial}");
    assert_eq!(count(&trial, "unexpected"), 50, "{trial}");
}

#[test]
fn what_is_cut_short_is_asked_over_tcp() {
    let options = json!({ "truncate": 5, "delay": 0.02 });
    let Some(server) = Known::start(options) else { return };
    let trial = load_lines(&server, "a.example A\n", "--tcp-fallback --timeout 5s");
    assert_eq!([count(&trial, "sent"), count(&trial, "valid")], [100; 2], "{trial}");
    assert_eq!(count(&trial["connections"], "asked_over_tcp"), 20, "{trial}");
    let times = &trial["latency_from_send_us"];
    // One wait of the server at least: that over TCP comes after an immediate reply over UDP.
    assert!(times["min"].as_f64() >= Some(20_000.0), "{times}");
    let counts = server.end_all();
    assert_eq!((&counts["udp"]["queries"], &counts["udp"]["cut"]), (&json!(100), &json!(20)));
    assert_eq!(counts["tcp"]["queries"], 20, "{counts}");
}

#[test]
fn what_is_cut_short_keeps_its_place_in_a_closed_loop() {
    let Some(server) = Known::start(json!({ "truncate": 1, "delay": 0.002 })) else { return };
    let args = "--name a.example --type A --tcp-fallback --clients 4 --pacing window --window 8";
    let args = format!("{args} --timeout 60s --duration 500ms");
    let trial = load(&server.address("udp"), &args);
    let sent = count(&trial, "sent");
    assert_eq!((count(&trial, "valid"), sent > 0), (sent, true), "{trial}");
    let counts = server.end_all();
    assert_eq!((&counts["udp"]["cut"], &counts["tcp"]["queries"]), (&json!(sent), &json!(sent)));
}

#[test]
fn a_warm_up_is_sent_and_not_counted() {
    let Some(server) = Known::start(json!({})) else { return };
    let trial = load_lines(&server, "a.example A\n", "--warm-up 250ms --timeout 60s");
    assert_eq!([count(&trial, "sent"), count(&trial, "valid")], [100; 2], "{trial}");
    assert_eq!(server.end("udp")["queries"], 150);
}

/// Starts a warm-up of a minute from a file of two lines against a socket, and waits for its first query.
fn warming_up(args: &str) -> Child {
    let server = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let file = queries("a.example A\nb.example A\n");
    let target = server.local_addr().expect("bound").to_string();
    let args = format!("--no-check --timeout 100ms --warm-up 60s --rate 20 {args}");
    let mut command = dnsdyno(&format!("load {target} {args} --queries"));
    let child = command.arg(file.path()).stderr(Stdio::piped()).spawn().expect("starts");
    server.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("set");
    server.recv(&mut [0; 512]).expect("a query");
    child
}

#[test]
fn a_warm_up_that_is_interrupted_or_has_too_few_queries_says_so() {
    let interrupted = warming_up("");
    signal(interrupted.id(), "INT");
    for (child, why) in [
        (interrupted, "interrupted in the warm-up: nothing was measured"),
        (warming_up("--runs 1"), "the warm-up ended after 2 queries"),
    ] {
        let output = child.wait_with_output().expect("ends");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(why), "{told}");
        assert_eq!(output.status.code(), Some(1), "{told}");
    }
}

#[test]
fn clients_have_a_rate_each() {
    let Some(server) = Known::start(json!({})) else { return };
    let args = "--name a.example --type A --clients 6 --rate-per-client 60/3 --timeout 60s";
    let trial = load(&server.address("udp"), &format!("{args} --duration 500ms"));
    assert_eq!([count(&trial, "sent"), count(&trial, "valid")], [60; 2], "{trial}");
    let counts = server.end("udp");
    assert_eq!(counts["sources"], json!([10, 10, 10, 10, 10, 10]), "{counts}");
}

#[test]
fn queries_without_a_reply_are_sent_again_over_udp() {
    let Some(server) = Known::start(json!({ "lose": 2 })) else { return };
    let trial = load_lines(&server, "a.example A\n", "--retry 100ms --timeout 60s");
    assert_eq!([count(&trial, "sent"), count(&trial, "valid")], [100; 2], "{trial}");
    let resent = count(&trial["connections"], "resent");
    let seen = server.end("udp")["queries"].as_u64();
    assert!(resent >= 99 && seen == Some(100 + resent), "{resent} of {seen:?}");
    // A query that was lost has the latency of its retry.
    let times = &trial["latency_from_send_us"];
    assert!(times["max"].as_f64() >= Some(100_000.0), "{times}");
}

#[test]
fn queries_of_closed_connections_are_sent_again() {
    let behaviours = [
        (json!({ "close_after": 1, "delay": 0.002 }), 198),
        (json!({ "close_after": 2, "delay": 0.002 }), 98),
        (json!({ "close_after": 50, "delay": 0.002 }), 2),
        // Of ten queries nine have a reply.
        (json!({ "reset_after": 10, "delay": 0.002 }), 15),
        (json!({ "refuse": 2, "close_after": 4 }), 45),
    ];
    for (options, least_closed) in behaviours {
        for transport in ["tcp", "tls", "https"] {
            let Some(server) = Known::start(options.clone()) else { return };
            let file = queries("a.example A\n");
            // Ten queries that come together would all be reset, for ever.
            let args = format!(
                "--transport {transport} --clients 2 --outstanding 8 --rate 400 --duration 500ms --timeout 60s --resend 1000000 --queries {}",
                file.path().display()
            );
            let trial = load(&server.address(transport), &args);
            let counts = server.end(transport);
            assert_eq!([count(&trial, "sent"), count(&trial, "valid")], [200; 2], "{trial}");
            let asked = counts["queries"].as_u64().expect("a count");
            let resent = trial["connections"]["resent"].as_u64().unwrap_or(0);
            // Some of those that were sent again did not reach the server before it closed.
            assert!((200..=200 + resent).contains(&asked), "{options} {resent}: {counts}");
            // Two connections may be open at the end.
            assert!(counts["closed"].as_u64() >= Some(least_closed), "{options}: {counts}");
        }
    }
}

#[test]
fn what_no_connection_took_was_neither_sent_nor_resent() {
    let args = "--transport tcp --clients 2 --name a.example --type A --rate 200 --duration 500ms";
    let trial = load("127.0.0.1:1", &format!("{args} --timeout 350ms --resend 1000000"));
    let [sent, lost, unserved] = ["sent", "lost", "unserved"].map(|what| count(&trial, what));
    let resent = trial["connections"]["resent"].as_u64().unwrap_or(0);
    assert_eq!([sent, lost, resent, unserved], [0, 0, 0, 100], "{trial}");
}

/// Accepts connections for a server and closes every second one before its handshake; returns its address, and their number.
fn gate(server: String) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let refused = Arc::new(AtomicU64::new(0));
    let counted = refused.clone();
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().flatten().enumerate() {
            if number % 2 == 1 {
                counted.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let server = TcpStream::connect(&server).expect("listens");
            let both = [&client, &server].map(|stream| stream.try_clone().expect("a descriptor"));
            let [from_client, from_server] = both;
            for (mut from, mut to) in [(from_client, server), (from_server, client)] {
                std::thread::spawn(move || {
                    // Either side may reset the connection.
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    (address, refused)
}

/// One query at a time: the server's log has each query, and one that was sent again once more each time. One that it refused with its
/// connection may have left.
#[test]
fn the_servers_log_has_what_was_sent_again() {
    let behaviours = [
        (json!({ "close_at": 10 }), false),
        (json!({ "reset_after": 10 }), false),
        (json!({ "refuse": 2, "close_at": 4 }), false),
        (json!({ "close_at": 4 }), true),
    ];
    for (options, is_gated) in behaviours {
        for transport in ["tcp", "tls", "https"] {
            let Some(server) = Known::start(options.clone()) else { return };
            let mut target = server.address(transport);
            let mut at_gate = Arc::default();
            if is_gated {
                (target, at_gate) = gate(target);
            }
            let file = queries("a.example A\n");
            let how = "--pacing window --window 1 --clients 1 --runs 50 --timeout 60s --resend 99";
            let args = format!("--transport {transport} {how} --queries {}", file.path().display());
            let trial = load(&target, &args);
            assert_eq!([count(&trial, "sent"), count(&trial, "valid")], [50; 2], "{trial}");
            let counts = server.end(transport);
            let number = |what: &str| counts[what].as_u64().expect("a count");
            let resent = trial["connections"]["resent"].as_u64().unwrap_or(0);
            let closed_before = at_gate.load(Ordering::Relaxed);
            let unread = number("refused") + closed_before;
            // Nothing leaves before a handshake.
            let may_have_left = if transport == "tcp" { unread } else { unread - closed_before };
            let told = format!("{options} {transport}: {counts} {trial}");
            let (least, sent) = (number("queries"), 50 + resent);
            assert!((least..=least + may_have_left).contains(&sent), "{told}");
            assert!(resent >= 5 && number("replies") == 50, "{told}");
            let refuses = is_gated || options["refuse"].is_u64();
            assert_eq!(unread >= 5, refuses, "{told}");
        }
    }
}

#[test]
fn the_second_in_which_a_server_turned_bad_is_named() {
    // 200 queries a second: the 501st is that of 2.5 s.
    let Some(server) = Known::start(json!({ "rcode": [501, 2] })) else { return };
    let file = queries("a.example A\n");
    let json = tempfile::NamedTempFile::new().expect("a file");
    let (_, out, err) = run(&format!(
        "load {} --no-check --rate 200 --duration 4s --interval 1s --json {} --queries {}",
        server.address("udp"),
        json.path().display(),
        file.path().display()
    ));
    assert!(out.contains("servfail from 2."), "{out}");
    // Each line is about its interval: none has all 300 of them.
    let invalid = |line: &str| line.split("(servfail ").nth(1)?.split(')').next()?.parse().ok();
    let counts: Vec<u64> = err.lines().filter_map(invalid).collect();
    assert!(!counts.is_empty() && counts.iter().all(|count| *count < 300), "{err}");
    let trial = std::fs::read_to_string(json.path()).expect("written");
    let trial: Value = serde_json::from_str(&trial).expect("JSON");
    let series = trial["series"].as_array().expect("seconds");
    let of = |second: usize, code: &str| series[second]["rcodes"][code].as_u64().unwrap_or(0);
    let [first, second, third] = [1, 2, 3].map(|second| of(second, "SERVFAIL"));
    // So many queries may be of a later second than that in which they were due.
    let late_us = trial["schedule_error_us"]["max"].as_f64().expect("a time");
    let late = (late_us * 200.0 / 1e6) as u64 + 1;
    let near = |count: u64, due: u64| count.abs_diff(due) <= late;
    assert!(first == 0 && near(second, 100) && near(third, 200), "{trial}");
    assert!(near(of(2, "NOERROR"), 100), "{trial}");
    assert_eq!(series[3]["invalid"]["servfail"], json!(third), "{trial}");
    server.end("udp");
}

#[test]
fn any_answer_may_be_the_expected_one() {
    let Some(server) = Known::start(json!({ "rcode": [1, 2] })) else { return };
    for (lines, args, valid) in [
        ("a.example A\n", "--expect servfail", 100),
        ("a.example A\n", "--expect REFUSED,servfail", 100),
        ("a.example A\n", "--expect refused,nxdomain", 0),
        ("a.example A\n", "", 0),
        ("a.example A servfail\nb.example A nxdomain\n", "--expect file", 50),
    ] {
        let trial = load_lines(&server, lines, args);
        assert_eq!(count(&trial, "valid"), valid, "{args}: {trial}");
        assert_eq!(count(&trial["rcodes"], "SERVFAIL"), 100, "{args}: {trial}");
    }
    server.end("udp");
}
