//! Queries go round the clients: a server that shares no code with ours counts them for each connection and each port.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use assert_cmd::cargo::cargo_bin;

use crate::kit::host;

/// Number of queries from each port of a client.
type Counts = Arc<Mutex<HashMap<u16, u64>>>;

/// Makes a reply of a query.
fn answer(query: &mut [u8]) {
    query[2] |= 0x80;
}

/// Answers the queries of a connection.
fn serve(mut stream: TcpStream, counts: &Counts) -> std::io::Result<()> {
    let port = stream.peer_addr()?.port();
    stream.set_nodelay(true)?;
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut message = length.to_vec();
        message.resize(2 + usize::from(u16::from_be_bytes(length)), 0);
        stream.read_exact(&mut message[2..])?;
        *counts.lock().expect("no panic").entry(port).or_default() += 1;
        answer(&mut message[2..]);
        stream.write_all(&message)?;
    }
}

/// Starts a server over TCP and UDP; returns its port and its counts.
fn server() -> (u16, Counts) {
    let counts = Counts::default();
    let (listener, socket) = host::bind_port(Ipv4Addr::LOCALHOST);
    let port = listener.local_addr().expect("an address").port();
    let of_tcp = counts.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counts = of_tcp.clone();
            std::thread::spawn(move || serve(stream, &counts));
        }
    });
    let of_udp = counts.clone();
    std::thread::spawn(move || {
        let mut query = [0; 4_096];
        while let Ok((len, peer)) = socket.recv_from(&mut query) {
            *of_udp.lock().expect("no panic").entry(peer.port()).or_default() += 1;
            answer(&mut query[..len]);
            let _ = socket.send_to(&query[..len], peer);
        }
    });
    (port, counts)
}

/// Runs a command of dnsdyno against a server; returns the number of queries of each client.
fn counts(command: &str) -> Vec<u64> {
    let (port, counts) = server();
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("q.txt"), "a.example A\n").expect("writes");
    let words = command.replace("PORT", &port.to_string());
    // On a busy machine the load may be void; its queries have left all the same.
    Command::new(cargo_bin("dnsdyno"))
        .args(words.split(' '))
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .expect("starts");
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
        load("--transport tcp --clients 50 --pacing ramp --from 100 --to 500"),
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
    let (listener, socket) = host::bind_port(Ipv4Addr::LOCALHOST);
    let port = listener.local_addr().expect("an address").port();
    let seen: Arc<Mutex<HashMap<Vec<u8>, BTreeSet<IpAddr>>>> = Arc::default();
    let over_udp = seen.clone();
    std::thread::spawn(move || {
        let mut query = [0; 4_096];
        while let Ok((len, peer)) = socket.recv_from(&mut query) {
            let question = query[12..len].to_vec();
            over_udp.lock().expect("no panic").entry(question).or_default().insert(peer.ip());
            answer(&mut query[..len]);
            query[2] |= 2;
            let _ = socket.send_to(&query[..len], peer);
        }
    });
    let over_tcp = seen.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let peer = stream.peer_addr().expect("connected").ip();
            let seen = over_tcp.clone();
            std::thread::spawn(move || {
                let mut length = [0; 2];
                while stream.read_exact(&mut length).is_ok() {
                    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
                    stream.read_exact(&mut message).expect("whole");
                    let question = message[12..].to_vec();
                    seen.lock().expect("no panic").entry(question).or_default().insert(peer);
                    answer(&mut message);
                    stream.write_all(&[&length[..], &message].concat()).expect("sends");
                }
            });
        }
    });
    let done = Command::new(cargo_bin("dnsdyno"))
        .args(["load", &format!("127.0.0.1:{port}"), "--type", "A", "--no-check"])
        .args(["--rate", "100", "--duration", "300ms", "--timeout", "20s"])
        .args(["--clients", "3", "--source", "127.0.0.16/29", "--tcp-fallback"])
        .stdin(Stdio::null())
        .output()
        .expect("starts");
    assert!(done.status.code().is_some_and(|code| code != 2), "{done:?}");
    let seen = seen.lock().expect("no panic");
    assert_eq!(seen.len(), 30, "{done:?}");
    assert!(seen.values().all(|addresses| addresses.len() == 1), "{seen:?}");
    let clients: BTreeSet<_> = seen.values().flatten().collect();
    assert_eq!(clients.len(), 3, "{clients:?}");
}
