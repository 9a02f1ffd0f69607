//! A server that cannot be measured is found by one question, whatever the command: it ends, says why, and shows no figure. Loopback only.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::kit::AuthDns;
use crate::kit::command::{json, load, run};
use crate::kit::host;
use crate::kit::peer::{self, reply};

/// Most queries of the question.
const MOST: usize = 21;

/// Runs a command that must end with exit code 1; returns its only line on standard error that is no status of its own.
fn ends(line: &str) -> String {
    let (code, out, err) = run(line);
    assert_eq!(code, 1, "{line}: {err}{out}");
    for figure in ["qps", "p50", "Statistics", "total queries", ">=", "Queries sent"] {
        assert!(!out.contains(figure), "{line} shows a figure: {out}");
    }
    let told: Vec<&str> = err.lines().filter(|line| line.starts_with("dnsdyno: ")).collect();
    let [told] = told[..] else { panic!("{line}: {err}") };
    told.to_owned()
}

/// Writes a file of queries; its folder.
fn files() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("queries"), "a.example A\n").expect("written");
    dir
}

#[test]
fn where_nobody_listens_every_command_says_so() {
    let dir = files();
    let (port, dir) = (host::free_port(), dir.path().display().to_string());
    let target = format!("127.0.0.1:{port}");
    let lines = [
        format!("load {target} --type A --rate 100k"),
        format!("load {target} --queries {dir}/queries --pacing window"),
        format!("load {target} --type A --pacing lockstep --threads 256 --experiments 1"),
        format!("search {target} --type A"),
        format!("search {target} --queries {dir}/queries --rule mlrsearch"),
        format!("search {target} --queries {dir}/queries --transport tcp --over clients"),
        format!("search {target} --queries {dir}/queries --transport tcp --over connections"),
        format!("selftest --target {target} --rate 100k"),
        format!("diff {target} {target} --queries {dir}/queries"),
        format!("diff tcp://{target} {target} --queries {dir}/queries"),
    ];
    for line in lines {
        let told = ends(&line);
        assert!(told.contains(&format!("nothing listens at {target}")), "{line}: {told}");
        let can_go_on = ["load", "search", "selftest"].iter().any(|word| line.starts_with(word));
        assert_eq!(told.contains("--no-check"), can_go_on, "{line}: {told}");
    }
    for transport in ["tcp", "tls", "https", "quic", "http3"] {
        for command in ["load", "search"] {
            let line =
                format!("{command} {target} --queries {dir}/queries --transport {transport}");
            let told = ends(&line);
            let why =
                if ["quic", "http3"].contains(&transport) { "" } else { "nothing listens at " };
            assert!(told.contains("no valid answer: ") && told.contains(why), "{line}: {told}");
        }
    }
}

#[test]
fn replies_that_are_all_wrong_end_every_command() {
    let auth = AuthDns::start(&[]);
    let target = auth.plain();
    for (line, wanted) in [
        ("load TARGET --name other.example --rate 100k", "answers every query with REFUSED"),
        ("search TARGET --name other.example", "answers every query with REFUSED"),
        ("search TARGET --name other.example --transport tcp", "answers every query with REFUSED"),
        ("load TARGET --name other.example --transport tcp", "answers every query with REFUSED"),
        (
            "load TARGET --name nobody.dns64perf.test --expect noerror",
            "answers every query with NXDOMAIN",
        ),
        ("load TARGET --type A --expect nxdomain --rate 50k", "should its answers match --expect?"),
    ] {
        let told = ends(&line.replace("TARGET", target));
        assert!(told.contains(wanted), "{line}: {told}");
    }
    // Who wants it loads them all the same.
    let trial = load(target, "--name other.example --rate 100 --duration 100ms");
    assert_eq!((&trial["valid"], &trial["sent"]), (&0.into(), &10.into()), "{trial}");
    let how = "--expect refused --rate 100 --duration 100ms --json -";
    let trial = json(&format!("load {target} --name other.example {how}"));
    assert_eq!(trial["valid"], trial["rcodes"]["REFUSED"]);
    assert!(trial["valid"].as_u64() > Some(0), "{trial}");
}

#[test]
fn a_silent_server_gets_a_question_and_no_load() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let target = peer::start(move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    });
    for line in ["load TARGET --type A --rate 100k", "search TARGET --type A"] {
        let told = ends(&line.replace("TARGET", &target));
        assert!(told.contains(&format!("{target} stayed silent")), "{told}");
        let asked = count.swap(0, Ordering::Relaxed);
        assert!((2..=MOST).contains(&asked), "{line}: {asked} queries");
    }
}

#[test]
fn what_is_no_dns_is_told() {
    let told = ends(&format!("load {} --type A", peer::start(|query, _| query.to_vec())));
    assert!(told.contains("the program that listens there is not a DNS server"), "{told}");
    let web = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = web.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in web.incoming().flatten() {
            std::thread::spawn(move || {
                // The client may be gone. What it still sends is read, so that its end is no reset.
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
    });
    let told = ends(&format!("load {target} --type A --transport tcp"));
    assert!(told.contains("does not send DNS over this transport"), "{told}");
}

#[test]
fn a_missing_or_unwanted_tls_is_told() {
    let auth = AuthDns::encrypted(&[]);
    let (plain, tls) = (auth.plain(), auth.address("tls"));
    let told = ends(&format!("load {tls} --type A --transport tcp"));
    // A reset of the connection may take the alert with it.
    let alert = told.contains(&format!("{tls} expects TLS: try --transport tls"));
    assert!(alert || told.contains("does it expect TLS on this port (--transport tls)?"), "{told}");
    let told = ends(&format!("load {plain} --type A --transport tls"));
    assert!(told.contains(plain), "{told}");
    assert!(told.contains("handshake") || told.contains("TLS"), "{told}");
}

#[test]
fn a_server_that_answers_gets_one_query_more_unless_told_otherwise() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let target = peer::start(move |query, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        reply(query, query[3])
    });
    // A busy machine may answer the first query too late.
    for (more, asked) in [("", 1..=MOST), ("--no-check", 0..=0), ("--slice 1/2", 0..=0)] {
        let trial = json(&format!(
            "load {target} --name a.example --rate 50 --duration 500ms --timeout 30s --json - {more}"
        ));
        let beside =
            count.swap(0, Ordering::Relaxed) - trial["sent"].as_u64().expect("sent") as usize;
        assert!(asked.contains(&beside), "{more}: {beside}");
    }
}

#[test]
fn the_commands_of_other_tools_do_not_ask() {
    let dir = files();
    let (port, dir) = (host::free_port(), dir.path().display().to_string());
    let (_, out, _) = run(&format!("dnsperf -s 127.0.0.1 -p {port} -d {dir}/queries -n 1 -t 1"));
    assert!(out.contains("Queries sent:         1"), "{out}");
}
