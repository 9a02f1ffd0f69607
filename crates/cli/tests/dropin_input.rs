//! Files, pipes and messages that loads and the commands of other tools read.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::dropin::{Bench, number, ours};
use crate::kit::command::{Told, dnsdyno, run_in, told};
use crate::kit::peer::{self, reply};

/// A query that the AuthDNS answers.
const GOOD: &str = "010-000-000-001.dns64perf.test A\n";

/// Runs a command with this standard input, which ends some time later; returns its exit code, output and errors.
fn piped(line: &str, text: &[u8]) -> Told {
    let mut command = dnsdyno(line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let mut input = child.stdin.take().expect("piped");
    // It may have ended.
    let _ = input.write_all(text);
    std::thread::sleep(Duration::from_millis(500));
    drop(input);
    told(child.wait_with_output().expect("ends"))
}

#[test]
fn input_that_cannot_be_read_is_bad_input() {
    let bench = Bench::start();
    let dnsperf = format!("dnsperf -p {}", bench.port());
    let (code, out, err) = piped(&format!("{dnsperf} -d /no/such"), b"");
    assert_eq!((code, &*out), (2, ""), "{err}");
    assert!(err.contains("cannot read /no/such"), "{err}");
    let (code, out, err) = piped(&dnsperf, b"; none\n");
    assert_eq!((code, &*out), (2, ""), "{err}");
    assert!(err.contains("no query in it"), "{err}");
    // gzip with a stored block of 200 octets, cut off after some of them.
    let lines = GOOD.repeat(4);
    let start = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 200, 0, 55, 255];
    let (code, out, err) = piped(&dnsperf, &[&start[..], lines.as_bytes()].concat());
    assert_eq!(code, 2, "{out}{err}");
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
    let text = format!("{}bad\n{}a..b A\n", GOOD.repeat(3), GOOD.repeat(4));
    let file = bench.dir.path().join("bad.txt");
    std::fs::write(&file, &text).expect("writes");
    let file = file.to_str().expect("UTF-8");
    for transport in ["udp", "tcp"] {
        let load = |file: &str, more: &str| {
            let how = format!("--runs 1 --pacing 'window 2' --transport {transport} --timeout 60s");
            piped(&format!("load {target} --queries {file} {how} {more}"), text.as_bytes())
        };
        let (code, out, err) = load("-", "--json -");
        assert_eq!((code, &trial(&out)["valid"]), (2, &3.into()), "{out}{err}");
        assert!(err.contains("-:4:4: the type is missing"), "{err}");
        let (code, out, err) = load("-", "");
        assert!(code == 2 && out.contains("\nvalid           3 "), "{code} {out}{err}");
        let (code, out, err) = load(file, "--json -");
        assert_eq!((code, &*out), (2, ""), "{err}");
        assert!(err.contains(":4:4: the type is missing; also line 9: "), "{err}");
        for input in ["-", file] {
            let (code, out, err) = load(input, "--skip-bad --json -");
            let trial = trial(&out);
            assert_eq!(trial["valid"], 7, "{out}{err}");
            // A busy machine may make it void.
            assert_eq!(code == 0, trial["void"] == false, "{out}{err}");
            let skipped = trial["warnings"].as_array().expect("a list").iter();
            let mut skipped = skipped.filter(|warning| warning["kind"] == "lines-skipped");
            let skipped = skipped.next().expect("a warning");
            assert_eq!(skipped["lines"], 2, "{skipped}");
            let first = skipped["first"].as_str().expect("a text");
            assert!(first.contains("4:4: the type is missing; also line 9: "));
        }
    }
}

/// Traffic begins before all of a large file is read, of which dnsperf makes the messages in each pass again.
#[test]
fn large_files_are_sent_while_they_are_read() {
    let bench = Bench::start();
    let dir = bench.dir.path();
    let target = format!("127.0.0.1:{}", bench.port());
    // Read at once, it would be refused.
    std::fs::write(dir.join("large.txt"), GOOD.repeat(250_000) + "bad\n").expect("writes");
    let file = dir.join("large.txt");
    let how = format!("--queries {} --rate 100 --duration 1s --json -", file.display());
    let (code, out, err) = piped(&format!("load {target} {how}"), b"");
    assert_eq!(trial(&out)["sent"], 100, "{out}{err}");
    assert!(code != 2 && !err.contains("large.txt:"), "{err}");
    let filler = format!("; {}\n", "x".repeat(1_000)).repeat(5_000);
    let text = format!("{}bad\n{filler}{GOOD}", GOOD.repeat(9));
    std::fs::write(dir.join("passes.txt"), text).expect("writes");
    let (out, err) = ours(dir, &format!("dnsperf -p {} -d passes.txt -n 3 -t 60", bench.port()));
    assert_eq!(number(&out, "Queries completed"), 30.0, "{out}{err}");
    assert_eq!(err.matches("invalid query input format").count(), 1, "{err}");
}

/// Runs a command whose standard input has a line each `pause`, until nobody reads it; returns its output.
fn fed(line: &str, pause: Duration) -> String {
    let mut command = dnsdyno(line);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut input = child.stdin.take().expect("piped");
    let text = GOOD.repeat(if pause.is_zero() { 1_000 } else { 1 });
    while input.write_all(text.as_bytes()).is_ok() {
        std::thread::sleep(pause);
    }
    told(child.wait_with_output().expect("ends")).1
}

/// A pipe that never ends is sent from its first line on, and one that is slower than the load is named.
#[test]
fn endless_pipes_are_sent_as_they_come() {
    let bench = Bench::start();
    let target = format!("127.0.0.1:{}", bench.port());
    let out = fed(&format!("dnsperf -p {} -l 2 -Q 100", bench.port()), Duration::ZERO);
    assert_eq!(number(&out, "Queries sent"), 200.0, "{out}");
    for transport in ["udp", "tcp"] {
        let load = format!("load {target} --queries - --transport {transport} --json -");
        let fed = |more: &str, pause| trial(&fed(&format!("{load} {more}"), pause));
        let read = fed("--rate 100 --duration 2s", Duration::ZERO);
        assert_eq!(read["sent"], 200, "{read}");
        let trial = fed("--rate 1000 --duration 1s", Duration::from_millis(50));
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
fn echo() -> (String, Receiver<usize>) {
    let (seen, lengths) = channel();
    let address = peer::start(move |message, from| {
        // The test may have ended.
        let _ = seen.send(message.len());
        reply(if from.tcp { message } else { &message[..message.len().min(100)] }, message[3])
    });
    (address, lengths)
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
        let (target, lengths) = echo();
        let port = target.rsplit(':').next().expect("a port");
        let line = format!("dnsperf -p {port} -m {transport} -B -d {file} -q 1 -t 60");
        let (out, err) = ours(dir, &line);
        assert_eq!(number(&out, "Queries completed"), sent.len() as f64, "{out}{err}");
        assert_eq!(err.matches("octets, not 2 to 65507: it is skipped").count(), 6 - sent.len());
        assert_eq!(lengths.try_iter().collect::<Vec<_>>(), sent, "{err}");
    }
    let (target, lengths) = echo();
    let load = |file: &str, more: &str| {
        run_in(dir, &format!("load {target} --messages {file} -n 1 --rate 20 {more}"))
    };
    // Some messages go ahead of the load, to see whether the server answers; on a busy machine the load is void.
    load("short", "--timeout 60s");
    let seen: BTreeSet<usize> = lengths.try_iter().collect();
    assert_eq!(seen, BTreeSet::from([40, 600, 65_507]));
    load("all", "--timeout 60s --transport tcp");
    assert_eq!(lengths.try_iter().max(), Some(65_535));
    let (code, _, err) = load("all", "");
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("all: message 5, at octet 71155: it has 65508 octets, not 2 to 65507"),
        "{err}"
    );
}
