//! A run that is watched: the endpoint is found outside of the lab's network.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;

use crate::kit::command::small_load;
use crate::kit::host::signal;

/// The metrics at `address`, once there are some.
fn scrape(address: &str) -> String {
    let mut text = String::new();
    let Ok(mut stream) = TcpStream::connect(address) else { return text };
    let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    // A connection that is cut has no metrics: it is asked again.
    if asked.and_then(|()| stream.read_to_string(&mut text)).is_err() {
        text.clear();
    }
    text
}

#[test]
fn a_run_tells_prometheus_how_it_goes_on() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    small_load(dir.path(), "watched", 50, "400ms");
    let mut child = Command::new(cargo_bin("dnsdyno"))
        .env("DNSDYNO_STORE", dir.path().join("runs.db"))
        .env("DNSDYNO_TEST_TRIAL", "400ms")
        .args(["run", "--wait"])
        .arg(dir.path().join("x.toml"))
        .args(["--metrics", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut told = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut lines = Vec::new();
    let mut text = String::new();
    let mut address = None;
    // The endpoint is told first; then a line comes for each step, so that this ends.
    for line in told.by_ref().map_while(Result::ok) {
        if let Some(url) = line.strip_prefix("metrics: http://") {
            address = url.strip_suffix("/metrics").map(str::to_owned);
        }
        if line.contains("repeat 3") {
            text = scrape(address.as_deref().expect("told before the run began"));
            break;
        }
        lines.push(line);
    }
    signal(child.id(), "TERM");
    lines.extend(told.map_while(Result::ok));
    child.wait().expect("ends");
    if lines.iter().any(|line| line.contains("cannot get its namespaces")) {
        return skip::because(lines.join("\n"));
    }
    let told = lines.join("\n");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}\n{told}");
    assert!(text.contains("dnsdyno_run_info{experiment=\"watched\""), "{text}\n{told}");
    let trials =
        text.lines().find_map(|l| l.strip_prefix("dnsdyno_trials_total{server=\"authdns\""));
    let trials = trials.and_then(|rest| rest.rsplit(' ').next()?.parse::<u64>().ok());
    assert!(trials >= Some(2), "{text}\n{told}");
    assert!(TcpStream::connect(address.expect("told")).is_err(), "it ends with the run");
}
