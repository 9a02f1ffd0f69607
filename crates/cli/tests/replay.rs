//! Replays with the clients of a capture as real clients, over all transports, and populations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::stream::Leaves;
use measure::{Nanos, Rng};
use serde_json::Value;
use streams::serve::Faults;
use streams::tcp::{self, Carried, Listener, TcpLimits};
use streams::tls::{ALPN_DOQ, ALPN_DOT, Authority, ServerTls};
use trace::Writer;
use wire::{Name, Qtype, QueryTemplate};

use crate::kit::capture::write_udp;
use crate::kit::command::{dnsdyno, load, run_in};
use crate::kit::peer;

/// Writes a capture: `queries` of `clients` clients within `span`, each for a name of its own, `nNUMBER.cCLIENT.example`,
/// where the numbers of a client count from 0. Returns how many queries each client has.
fn capture(path: &Path, clients: u32, queries: u32, span: Nanos) -> BTreeMap<u32, u32> {
    let mut rng = Rng::new(20);
    let mut times: Vec<u64> = (0..queries).map(|_| rng.below(span.0)).collect();
    times.sort_unstable();
    let mut out = Writer::new(Vec::new()).expect("in memory");
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for (number, at) in (0..queries).zip(times) {
        // First each client once, then some more often than others.
        let some = rng.below(u64::from(clients)) * rng.below(u64::from(clients));
        let client = if number < clients { number } else { (some / u64::from(clients)) as u32 };
        let count = counts.entry(client).or_default();
        let name: Name = format!("n{count}.c{client}.example").parse().expect("a name");
        *count += 1;
        let mut bytes = QueryTemplate::new(&name, Qtype::A, true, false, None).bytes().to_vec();
        bytes[..2].copy_from_slice(&(number as u16).to_be_bytes());
        let address = [10, 0, (client >> 8) as u8, client as u8];
        let source = (address, 1_024 + number as u16 % 60_000);
        write_udp(&mut out, Nanos(at), source, ([192, 0, 2, 53], 53), &bytes);
    }
    std::fs::write(path, out.finish().expect("in memory")).expect("written");
    counts
}

/// Returns the number of a query and of its client, from the name in it.
fn numbers(message: &[u8]) -> (u32, u32) {
    let label = |at: usize| {
        let len = usize::from(message[at]);
        let digits = &message[at + 2..at + 1 + len];
        (std::str::from_utf8(digits).expect("ASCII").parse().expect("a number"), at + 1 + len)
    };
    let (query, next) = label(12);
    let (client, _) = label(next);
    (query, client)
}

/// Turns a query into its answer.
fn answer(query: &[u8]) -> Vec<u8> {
    let mut reply = query[..12].to_vec();
    (reply[2], reply[3]) = (0x81, 0x80);
    // The question, without what is behind it.
    let mut end = 12;
    while query[end] > 0 {
        end += 1 + usize::from(query[end]);
    }
    reply.extend_from_slice(&query[12..end + 5]);
    reply[6..12].fill(0);
    reply
}

/// Asks for room for all datagrams of a test.
fn room(socket: &UdpSocket) {
    let _ = socket2::SockRef::from(socket).set_recv_buffer_size(8 << 20);
}

/// A query that came: its number, and those of its client and of its stream, over QUIC.
struct Came {
    query: u32,
    client: u32,
    stream: Option<u64>,
}

impl Came {
    fn new(message: &[u8], stream: Option<u64>) -> Self {
        let (query, client) = numbers(message);
        Came { query, client, stream }
    }
}

/// Servers of all transports that keep which queries came, in order.
struct Servers {
    came: Arc<Mutex<Vec<Came>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    plain: SocketAddr,
    tls: SocketAddr,
    quic: SocketAddr,
}

impl Servers {
    fn start() -> Self {
        udp::sys::raise_open_files();
        let (came, stop) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(AtomicBool::new(false)));
        let (socket, listener) = loop {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            let address = socket.local_addr().expect("an address");
            if let Ok(listener) = tcp::listen(address) {
                break (socket, listener);
            }
        };
        let identity = Authority::new().expect("a key").identity(&["127.0.0.1"]).expect("a name");
        let shown = |alpn| ServerTls::new(identity.clone(), alpn, true).expect("its own key");
        let any = "127.0.0.1:0".parse().expect("an address");
        let tls = tcp::listen(any).expect("a port");
        let quic = streams::serve::listen(any).expect("a port");
        let (plain, secure) = (socket.local_addr(), tls.local_addr().expect("an address"));
        let datagrams = quic.local_addr().expect("an address");
        let listeners = vec![
            Listener::Tcp(listener),
            Listener::Tls(tls, shown(&[ALPN_DOT, b"h2"])),
            Listener::Quic(quic, shown(&[ALPN_DOQ, b"h3"])),
        ];
        let (kept, ended) = (came.clone(), stop.clone());
        let limits = TcpLimits {
            connections: 20_000,
            idle: Duration::from_secs(120),
            ..TcpLimits::default()
        };
        let streams = std::thread::spawn(move || {
            let answers = move |query: &[u8], carried: Carried, reply: &mut Vec<u8>| {
                let stream = match carried {
                    Carried::Stream(number) => number,
                    Carried::Frame { .. } => None,
                };
                kept.lock().expect("not poisoned").push(Came::new(query, stream));
                reply.extend_from_slice(&answer(query));
                Leaves::AtOnce
            };
            let stop = move || ended.load(Ordering::Relaxed);
            tcp::serve(listeners, limits, answers, Faults::default(), stop).expect("serves");
        });
        // What a thread that waits for its core cannot take is no loss of the Tester.
        room(&socket);
        let (kept, ended) = (came.clone(), stop.clone());
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a time");
        let udp = std::thread::spawn(move || {
            let mut octets = [0; 1_500];
            while !ended.load(Ordering::Relaxed) {
                let Ok((len, peer)) = socket.recv_from(&mut octets) else { continue };
                kept.lock().expect("not poisoned").push(Came::new(&octets[..len], None));
                socket.send_to(&answer(&octets[..len]), peer).expect("loopback");
            }
        });
        let plain = plain.expect("an address");
        let threads = vec![streams, udp];
        Servers { came, stop, threads, plain, tls: secure, quic: datagrams }
    }

    /// Returns the address of a transport.
    fn address(&self, transport: &str) -> String {
        match transport {
            "udp" | "tcp" => self.plain,
            "tls" | "https" => self.tls,
            _ => self.quic,
        }
        .to_string()
    }

    /// Returns whether all queries that came are streams with a number.
    fn all_have_a_stream(&self) -> bool {
        self.came.lock().expect("not poisoned").iter().all(|came| came.stream.is_some())
    }

    /// Returns the queries of each client in the order in which it sent them. That is the order in which they came, but for those
    /// over QUIC, where a lost packet lets a later one pass: a client numbers its streams in the order in which it opens them.
    /// Each client has had one connection.
    fn take(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut came = std::mem::take(&mut *self.came.lock().expect("not poisoned"));
        came.sort_by_key(|came| came.stream);
        let mut clients: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for Came { query, client, .. } in came {
            clients.entry(client).or_default().push(query);
        }
        clients
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Returns the queries of each client in their order, `loops` times.
fn wanted(counts: &BTreeMap<u32, u32>, loops: usize) -> BTreeMap<u32, Vec<u32>> {
    let queries = |count: u32| (0..loops).flat_map(|_| 0..count).collect();
    counts.iter().map(|(client, count)| (*client, queries(*count))).collect()
}

/// A capture as [`capture`] writes it, and what it has.
struct Captured {
    path: PathBuf,
    queries: u32,
    counts: BTreeMap<u32, u32>,
}

impl Captured {
    fn new(path: PathBuf, clients: u32, queries: u32, span: Nanos) -> Self {
        let counts = capture(&path, clients, queries, span);
        Captured { path, queries, counts }
    }

    /// Replays it over a transport with these options; the trial with all its queries answered.
    fn replay(&self, servers: &Servers, transport: &str, options: &str) -> Value {
        let trial = load(
            &servers.address(transport),
            &format!(
                "--replay {} --transport {transport} {options} --timeout 60s --connect-timeout 60s",
                self.path.display()
            ),
        );
        let all = self.queries.into();
        assert_eq!((&trial["sent"], &trial["valid"]), (&all, &all), "{trial}");
        trial
    }
}

#[test]
fn clients_of_a_capture_keep_their_order_and_counts_over_six_transports() {
    let (servers, dir) = (Servers::start(), tempfile::tempdir().expect("a folder"));
    let path = |name: &str| dir.path().join(name);
    // More connections than files may be open by default; where each has a handshake, fewer clients show the same.
    let many = Captured::new(path("many.pcap"), 2_000, 5_000, Nanos::from_secs(3));
    let some = Captured::new(path("some.pcap"), 400, 1_000, Nanos::from_secs(1));
    for (transport, captured, options) in [
        ("udp", &many, "--own-ports"),
        ("tcp", &many, ""),
        ("tls", &some, ""),
        ("https", &some, ""),
        ("quic", &some, ""),
        ("http3", &some, ""),
    ] {
        let trial = captured.replay(&servers, transport, options);
        let (connections, clients) = (&trial["connections"], captured.counts.len().into());
        assert_eq!((&connections["clients"], &connections["established"]), (&clients, &clients));
        assert_eq!((&connections["peak"], &connections["open_at_end"]), (&clients, &clients));
        let counted = |key: &str| connections[key]["count"].as_u64().expect("a count");
        let queries = counted("first_query_us") + counted("steady_us");
        assert_eq!(queries, u64::from(captured.queries), "{connections}");
        let over_quic = ["quic", "http3"].contains(&transport);
        assert!(servers.all_have_a_stream() == over_quic, "{transport}");
        assert_eq!(servers.take(), wanted(&captured.counts, 1), "{transport}");
    }
    // Without a port of its own each client has the address of the host, and the order stays.
    many.replay(&servers, "udp", "");
    assert_eq!(servers.take(), wanted(&many.counts, 1));
}

#[test]
fn a_mix_of_transports_closes_idle_connections_resumes_and_loops() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("capture.pcap");
    let counts = capture(&path, 60, 300, Nanos::from_secs(2));
    let servers = Servers::start();
    let port =
        |of: &str| servers.address(of).rsplit(':').next().map(str::to_owned).expect("a port");
    let mix = format!("udp=6,tls:{}=3,https:{}=1", port("tls"), port("https"));
    let trial = load(
        &servers.address("udp"),
        &format!(
            "--replay {} --transports {mix} --close-idle 200ms --tls-resume --pad --runs 2 --timeout 60s --connect-timeout 60s",
            path.display()
        ),
    );
    assert_eq!((&trial["sent"], &trial["valid"]), (&600.into(), &600.into()), "{trial}");
    assert_eq!(trial["conditions"]["pacing"], "replay at 1x, 2 times");
    assert_eq!(servers.take(), wanted(&counts, 2));
    let parts = &trial["connections"]["by_transport"];
    let of = |transport: &str, key: &str| parts[transport][key].as_u64().expect("a number");
    let clients = ["udp", "tls", "https"].map(|transport| of(transport, "clients"));
    assert_eq!(clients, [36, 18, 6]);
    // How many close depends on how busy this machine is.
    let opened = ["udp", "tls", "https"].map(|transport| of(transport, "established"));
    assert!(opened.iter().sum::<u64>() > 60, "{parts}");
    for transport in ["udp", "tls", "https"] {
        assert!(of(transport, "closed_idle") > 0, "{parts}");
    }
    assert!(of("tls", "resumed") > 0 && of("udp", "resumed") == 0, "{parts}");
    // Each query is padded to 128 octets.
    assert_eq!(trial["octets"]["queries"], 600 * 128, "{trial}");
}

#[test]
fn each_client_has_its_own_port_or_connection() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("capture.pcap");
    let counts = capture(&path, 50, 400, Nanos::from_secs(1));
    let all: u32 = counts.values().sum();
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    room(&udp);
    let target = udp.local_addr().expect("an address").to_string();
    let server = std::thread::spawn(move || {
        let (mut octets, mut peers) = ([0; 1_500], BTreeMap::<u32, BTreeSet<SocketAddr>>::new());
        for _ in 0..all {
            let (len, peer) = udp.recv_from(&mut octets).expect("a query");
            peers.entry(numbers(&octets[..len]).1).or_default().insert(peer);
            udp.send_to(&answer(&octets[..len]), peer).expect("loopback");
        }
        peers
    });
    let args = format!(
        "--replay {} --own-ports --source 127.1.0.0/24 --timeout 60s --connect-timeout 60s",
        path.display()
    );
    let trial = load(&target, &args);
    assert_eq!(trial["valid"], all, "{trial}");
    let peers = server.join().expect("it ends");
    let distinct: BTreeSet<_> = peers.values().flatten().collect();
    assert_eq!((peers.len(), distinct.len()), (50, 50), "one address and port each");
    let addresses: BTreeSet<_> = distinct.iter().map(|peer| peer.ip()).collect();
    assert_eq!(addresses.len(), 50, "{addresses:?}");

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("an address").to_string();
    let server = std::thread::spawn(move || {
        let serve = |stream: TcpStream| std::thread::spawn(move || clients_of(stream));
        let threads: Vec<_> = listener.incoming().take(50).flatten().map(serve).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect::<Vec<_>>()
    });
    let args =
        format!("--replay {} --transport tcp --timeout 60s --connect-timeout 60s", path.display());
    let trial = load(&target, &args);
    assert_eq!(trial["valid"], all, "{trial}");
    let connections = server.join().expect("it ends");
    assert!(connections.iter().all(|clients| clients.len() == 1), "{connections:?}");
    assert_eq!(connections.into_iter().flatten().collect::<BTreeSet<_>>().len(), 50);
}

/// Answers a connection until its end; returns the clients whose queries came.
fn clients_of(stream: TcpStream) -> BTreeSet<u32> {
    let mut clients = BTreeSet::new();
    answer_all(stream, |query| {
        clients.insert(numbers(query).1);
    });
    clients
}

/// Answers a connection until its end, and calls `each` with each query.
fn answer_all(mut stream: TcpStream, mut each: impl FnMut(&[u8])) {
    while let Some(query) = peer::read_frame(&mut stream) {
        each(&query);
        peer::write_frame(&mut stream, &answer(&query)).expect("the client reads");
    }
}

/// Accepts connections until `stop`: closes the first `closed` at once, and keeps which queries come on the others.
fn serve_late(
    listener: &TcpListener,
    closed: usize,
    stop: &AtomicBool,
    came: &Arc<Mutex<Vec<(u32, u32)>>>,
) {
    listener.set_nonblocking(true).expect("a socket");
    let mut accepted = 0;
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        accepted += 1;
        if accepted > closed {
            stream.set_nonblocking(false).expect("a socket");
            let came = came.clone();
            std::thread::spawn(move || {
                answer_all(stream, |query| {
                    came.lock().expect("not poisoned").push(numbers(query));
                })
            });
        }
    }
}

#[test]
fn what_fails_for_a_client_changes_neither_its_order_nor_other_clients() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("capture.pcap");
    let counts = capture(&path, 20, 400, Nanos::from_millis(1_500));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("an address").to_string();
    let (came, stop) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(AtomicBool::new(false)));
    let (kept, ended) = (came.clone(), stop.clone());
    let server = std::thread::spawn(move || serve_late(&listener, 30, &ended, &kept));
    let args =
        format!("--replay {} --transport tcp --timeout 60s --connect-timeout 60s", path.display());
    let trial = load(&target, &args);
    stop.store(true, Ordering::Relaxed);
    server.join().expect("it ends");
    // Those on the closed connections are lost, and each other one came once and in its client's order.
    let connections = &trial["connections"];
    let lost = connections["lost_with_connection"].as_u64().expect("a number");
    assert_eq!(trial["lost"].as_u64(), Some(lost), "{trial}");
    // Some may not have left when their connection ended.
    let lost = lost + trial["unserved"].as_u64().unwrap_or(0);
    assert!(lost > 0 && lost < 400, "{trial}");
    assert_eq!(trial["valid"].as_u64(), Some(400 - lost), "{trial}");
    let came = std::mem::take(&mut *came.lock().expect("not poisoned"));
    assert_eq!(came.len() as u64, 400 - lost);
    let mut clients: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    came.into_iter().for_each(|(query, client)| clients.entry(client).or_default().push(query));
    let opened = 30 + clients.len() as u64;
    assert_eq!(connections["attempts"], opened, "those that were closed, and one for each client");
    for (client, queries) in clients {
        assert!(queries.is_sorted_by(|a, b| a < b), "{client}: {queries:?}");
        assert_eq!(queries.last().copied(), counts[&client].checked_sub(1), "{client}");
    }
}

#[test]
fn slices_of_a_replay_over_connections_are_merged() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("capture.pcap");
    let counts = capture(&path, 5, 400, Nanos::from_secs(1));
    let servers = Servers::start();
    let slice = |number: u32| {
        let args = format!(
            "--replay {} --transport tcp --slice {number}/2 --timeout 60s --connect-timeout 60s",
            path.display()
        );
        let part = load(&servers.address("tcp"), &args);
        assert_eq!(part["sent"], part["planned"], "{part}");
        let file = dir.path().join(format!("{number}.json"));
        std::fs::write(file, part.to_string()).expect("written");
        part["sent"].as_u64().expect("a number")
    };
    let [first, second] = [1, 2].map(slice);
    // The first client has most of the queries.
    assert!(first + second == 400 && first.abs_diff(second) > 2, "{first} {second}");
    assert_eq!(servers.take(), wanted(&counts, 1), "each client is of one slice");
    // They were sent one after the other.
    let line = "merge 1.json 2.json --start-bound 1h --json whole.json";
    let (_, out, err) = run_in(dir.path(), line);
    let whole = dir.path().join("whole.json");
    let trial: record::Trial = record::read(&whole).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    assert_eq!((trial.planned, trial.sent, trial.valid), (400, 400, 400), "{out}");
    assert_eq!(trial.connections.map(|all| (all.clients, all.established)), Some((5, 5)));
}

/// Writes a population of the folder's `capture.pcap`; returns its path and the statistics.
fn population(dir: &Path, args: &str) -> (PathBuf, Value) {
    let line = "trace clients capture.pcap --output made.population --json stats.json";
    let (code, out, err) = run_in(dir, &format!("{line} {args}"));
    assert_eq!(code, 0, "{out}{err}");
    let stats = std::fs::read_to_string(dir.join("stats.json")).expect("written");
    (dir.join("made.population"), serde_json::from_str(&stats).expect("JSON"))
}

#[test]
fn populations_are_smaller_or_larger_than_their_capture_and_are_replayed() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("capture.pcap");
    let counts = capture(&path, 40, 2_000, Nanos::from_secs(20));
    let servers = Servers::start();
    let replay = |made: &Path| {
        let args = format!(
            "--replay {} --transport tcp --speed 10x --timeout 60s --connect-timeout 60s",
            made.display()
        );
        let trial = load(&servers.address("tcp"), &args);
        assert_eq!(trial["sent"], trial["valid"], "{trial}");
        (trial, servers.take())
    };
    // All of them.
    let (made, stats) = population(dir.path(), "");
    assert_eq!((&stats["clients"], &stats["queries"]), (&40.into(), &2_000.into()), "{stats}");
    let (trial, came) = replay(&made);
    assert_eq!((trial["connections"]["clients"].as_u64(), came), (Some(40), wanted(&counts, 1)));
    assert!(made.metadata().expect("written").len() * 4 < path.metadata().expect("written").len());
    // Ten of them, with all their queries.
    let (made, stats) = population(dir.path(), "--clients 10");
    let (_, came) = replay(&made);
    assert_eq!((came.len(), stats["clients"].as_u64()), (10, Some(10)));
    let all = wanted(&counts, 1);
    assert!(came.iter().all(|(client, queries)| all[client] == *queries));
    // Ten times as many, of slices.
    let (made, stats) = population(dir.path(), "--clients 200 --seed 7");
    assert_eq!(stats["clients"], 200);
    let period = stats["period_s"].as_f64().expect("a number");
    assert!((1.0..=4.0).contains(&period), "{period}");
    let (trial, came) = replay(&made);
    assert_eq!(trial["connections"]["clients"], 200);
    assert_eq!(came.values().map(Vec::len).sum::<usize>() as u64, stats["queries"]);
    // No query twice: the slices of a client are different clients.
    assert!(
        came.values().all(|queries| queries.iter().collect::<BTreeSet<_>>().len() == queries.len())
    );
    for (args, message) in [
        ("--clients 5000", "5000 clients: the capture has 40, and slices of "),
        ("--clients 0", "--clients 0: at least one is needed"),
        ("--slice-length 5s", "--clients"),
        ("--idle 0s", "must be longer than 0"),
    ] {
        let (code, _, err) = run_in(dir.path(), &format!("trace clients capture.pcap {args}"));
        assert!(code == 2 && err.contains(message), "{args} {err}");
    }
}

#[test]
fn clients_are_characterised_and_their_addresses_hidden() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("capture.pcap");
    capture(&path, 40, 2_000, Nanos::from_secs(20));
    let (code, out, err) = run_in(dir.path(), "trace clients capture.pcap --idle 500ms");
    assert_eq!((code, &*err), (0, ""), "{out}");
    for line in ["40 clients with 2,000 queries in ", "Idle after 500.00 ms", "2000 100.0%  A"] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    std::fs::write(dir.path().join("key"), "0123456789abcdef".repeat(4)).expect("written");
    let plain = |made: &Path| {
        let mut octets = Vec::new();
        let mut source = trace::source::open(made).expect("written");
        source.read_to_end(&mut octets).expect("whole");
        octets
    };
    let has = |octets: &[u8]| octets.windows(5).any(|five| five == [4, 10, 0, 0, 17]);
    let (made, open) = population(dir.path(), "");
    assert!(has(&plain(&made)));
    let (made, hidden) = population(dir.path(), "--key-file key");
    assert!(!has(&plain(&made)));
    assert_eq!(open, hidden, "but for the addresses they are the same");
    // A population can be read again, but not be changed; it and a capture may come from the standard input.
    for (line, input, clients) in [
        ("trace clients made.population --clients 7", &made, "7 clients with "),
        ("trace clients - --clients 7", &made, "7 clients with "),
        ("trace clients -", &path, "40 clients with 2,000 queries in "),
    ] {
        let mut command = dnsdyno(line);
        command.current_dir(dir.path()).stdin(File::open(input).expect("written"));
        let output = command.output().expect("starts");
        assert!(output.stdout.starts_with(clients.as_bytes()), "{line}: {output:?}");
    }
    let (code, _, err) = run_in(dir.path(), "trace clients made.population --key-file key");
    assert!(code == 2 && err.contains("when it is made of a capture"), "{err}");
    // One that is cut is told as such, also by a load.
    let whole = std::fs::read(&made).expect("written");
    std::fs::write(&made, &whole[..whole.len() / 2]).expect("written");
    for line in ["trace clients made.population", "load 127.0.0.1:1 --replay made.population"] {
        let (code, _, err) = run_in(dir.path(), line);
        assert!(code == 2 && err.contains("made.population: "), "{line} {err}");
    }
}
