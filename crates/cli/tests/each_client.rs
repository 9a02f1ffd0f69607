//! Queries go round the clients: a server that shares no code with ours counts them for each connection and each port.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use crate::kit::command::{run, run_in};
use crate::kit::peer::{self, reply};

/// Number of queries from each port of a client.
type Counts = Arc<Mutex<HashMap<u16, u64>>>;

/// How many queries each client of a command has sent to a server at PORT, in ascending order.
fn counts(command: &str) -> Vec<u64> {
    let counts = Counts::default();
    let seen = counts.clone();
    let address = peer::start(move |query, from| {
        *seen.lock().expect("no panic").entry(from.client.port()).or_default() += 1;
        reply(query, query[3])
    });
    let port = address.rsplit(':').next().expect("a port");
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("q.txt"), "a.example A\n").expect("writes");
    run_in(dir.path(), &command.replace("PORT", port));
    let counts = counts.lock().expect("no panic");
    let mut all: Vec<u64> = counts.values().copied().collect();
    all.sort_unstable();
    all
}

#[test]
fn each_client_has_the_same_number_of_queries() {
    let dnsperf = |transport: &str, more: &str| {
        format!("dnsperf -s 127.0.0.1 -p PORT -d q.txt -m {transport} {more} -l 1 -t 30")
    };
    let load = |more: &str| {
        format!(
            "load 127.0.0.1:PORT --no-check --name a.example --type A --timeout 30s --duration 1s {more}"
        )
    };
    for command in [
        dnsperf("tcp", "-c 50 -Q 100"),
        dnsperf("tcp", "-c 50 -Q 2000 -q 10000"),
        dnsperf("udp", "-c 50 -Q 100"),
        load("--transport tcp --clients 50 --rate 300"),
        load("--transport udp --clients 50 --rate 300"),
        load("--transport tcp --clients 50 --rate 300 --pacing poisson"),
        load("--transport tcp --clients 50 --pacing 'ramp 100..500'"),
    ] {
        let all = counts(&command);
        assert_eq!(all.len(), 50, "{command}: {all:?}");
        assert!(all[49] - all[0] <= 1, "{command}: {all:?}");
    }
}

#[test]
fn a_closed_loop_uses_every_client() {
    for window in ["1", "50", "130"] {
        let all = counts(&format!(
            "dnsperf -s 127.0.0.1 -p PORT -d q.txt -m tcp -c 50 -q {window} -n 5000 -t 30"
        ));
        assert_eq!((all.len(), all.iter().sum::<u64>()), (50, 5_000), "{window}: {all:?}");
        // With one at a time strictly in turn.
        assert!(window != "1" || all[0] == 100, "{all:?}");
    }
}

/// What is cut short over UDP is asked over TCP from the address of the same client: each client has names of its own.
#[test]
fn a_client_has_one_address_over_udp_and_tcp() {
    let seen: Arc<Mutex<HashMap<Vec<u8>, BTreeSet<IpAddr>>>> = Arc::default();
    let asked = seen.clone();
    let target = peer::start(move |query, from| {
        let question = query[12..].to_vec();
        asked.lock().expect("no panic").entry(question).or_default().insert(from.client.ip());
        let mut reply = reply(query, query[3]);
        // Cut short over UDP.
        reply[2] |= if from.tcp { 0 } else { 2 };
        reply
    });
    let line = "--rate 100 --duration 300ms --timeout 20s --clients 3 --source 127.0.0.16/29";
    let done = run(&format!("load {target} --type A --no-check --tcp-fallback {line}"));
    assert_ne!(done.0, 2, "{done:?}");
    let seen = seen.lock().expect("no panic");
    assert_eq!(seen.len(), 30, "{done:?}");
    assert!(seen.values().all(|addresses| addresses.len() == 1), "{seen:?}");
    let clients: BTreeSet<_> = seen.values().flatten().collect();
    assert_eq!(clients.len(), 3, "{clients:?}");
}
