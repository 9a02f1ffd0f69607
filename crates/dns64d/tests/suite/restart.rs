//! Restarts: sockets that the service manager keeps, and the snapshot of the cache.

use std::collections::HashSet;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use domain::base::iana::Rtype;
use nix::sys::signal::Signal;
use socket2::SockRef;

use crate::faults::{MAX_WAIT, dns64d, ipv4_only, is_right, wait_for};
use crate::kit::client::{self, Query};
use crate::kit::manager::Manager;
use crate::kit::message::Reply;
use crate::kit::script::Script;
use crate::kit::server::{Kind, Server};

/// Starts dns64d under a service manager.
fn managed(script: &Script, manager: &Manager, config: &str) -> Server {
    let start = |command: &mut std::process::Command| manager.prepare(command);
    Server::start_with(Kind::Dns64d, &[script.address()], config, start).expect("it starts")
}

/// Clients that send queries at a steady rate and never send one again.
struct Load {
    sockets: Vec<UdpSocket>,
    /// Ids of the queries of each socket that have no answer.
    unanswered: Vec<HashSet<u16>>,
    sent: usize,
}

impl Load {
    fn new(server: SocketAddr) -> Self {
        let socket = |_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            socket.connect(server).expect("loopback");
            socket.set_nonblocking(true).expect("a socket");
            socket
        };
        let sockets: Vec<UdpSocket> = (0..8).map(socket).collect();
        Load { unanswered: vec![HashSet::new(); sockets.len()], sockets, sent: 0 }
    }

    /// Sends a query on each socket, for names that are queried again after a while.
    fn send(&mut self) {
        for (socket, unanswered) in self.sockets.iter().zip(&mut self.unanswered) {
            let mut query = Query::parse(&format!("n{}.example AAAA", self.sent % 1_200)).octets;
            let id = self.sent as u16;
            query[..2].copy_from_slice(&id.to_be_bytes());
            socket.send(&query).expect("the port is open all the time");
            unanswered.insert(id);
            self.sent += 1;
        }
    }

    fn receive(&mut self) {
        let mut room = [0; 2_048];
        for (socket, unanswered) in self.sockets.iter().zip(&mut self.unanswered) {
            while let Ok(len) = socket.recv(&mut room) {
                let reply = Reply::parse(&room[..len]);
                assert!(is_right(&reply), "{reply}");
                unanswered.remove(&reply.id);
            }
        }
    }

    fn missing(&self) -> usize {
        self.unanswered.iter().map(HashSet::len).sum()
    }

    /// Sends until `stop`, then waits for the last answers.
    fn run(mut self, stop: &AtomicBool) -> usize {
        let start = Instant::now();
        let mut ticks = 0;
        while !stop.load(Ordering::Relaxed) {
            ticks += 1;
            std::thread::sleep((start + ticks * Duration::from_millis(8)) - Instant::now());
            self.send();
            self.receive();
        }
        let (deadline, sent) = (Instant::now() + MAX_WAIT, self.sent);
        while self.missing() > 0 {
            assert!(Instant::now() < deadline, "{} of {sent} without an answer", self.missing());
            std::thread::sleep(Duration::from_millis(10));
            self.receive();
        }
        sent
    }
}

#[test]
fn a_restart_under_load_loses_nothing() {
    let (script, manager) = (ipv4_only(), Manager::start());
    let mut server = managed(&script, &manager, "server.workers = 2");
    let (stop, address) = (AtomicBool::new(false), server.address());
    let sent = std::thread::scope(|scope| {
        let load = scope.spawn(|| Load::new(address).run(&stop));
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(500));
            server.signal(Signal::SIGTERM);
            server.restart(|command| manager.prepare(command));
        }
        std::thread::sleep(Duration::from_millis(500));
        stop.store(true, Ordering::Relaxed);
        load.join().expect("all are answered")
    });
    assert!(sent > 1_000, "{sent}");
    // The metrics are those of the last of four servers.
    assert_eq!(server.metric("dns64d_socket_drops_total"), 0);
}

#[test]
fn kept_sockets_of_another_device_are_replaced() {
    let (script, manager) = (ipv4_only(), Manager::start());
    let mut server = managed(&script, &manager, "");
    let address = server.address();
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
    let device = |of: &str| SockRef::from(&manager.socket(of)).device().expect("a socket");
    let at = |kind: &str| format!("{kind}-0@{address}").replace(':', "_");
    assert_eq!([device(&at("udp")), device(&at("tcp"))], [None, None]);
    server.rewrite(&[script.address()], "server.route = { device = \"lo\" }");
    server.restart(|command| manager.prepare(command));
    wait_for("an answer", || {
        let reply = Query::parse("www.example AAAA").ask(address, Duration::from_secs(1));
        reply.is_some_and(|reply| is_right(&reply))
    });
    let lo = || Some(b"lo".to_vec());
    wait_for("the new sockets", || [device(&at("udp")), device(&at("tcp"))] == [lo(), lo()]);
}

#[test]
fn what_arrives_while_no_server_runs_is_for_the_next_one() {
    let (script, manager) = (ipv4_only(), Manager::start());
    let mut server = managed(&script, &manager, "");
    let address = server.address();
    let at = |kind: &str| format!("{kind}-0@{address}").replace(':', "_");
    let mut names = manager.names();
    names.retain(|name| name.ends_with(&at("")[2..]));
    names.sort_unstable();
    assert_eq!(names, [at("tcp"), at("udp")]);
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    socket.connect(address).expect("loopback");
    socket.set_read_timeout(Some(MAX_WAIT)).expect("a timeout");
    let query = Query::parse("between.example AAAA").octets;
    socket.send(&query).expect("the port is open");
    let mut stream = TcpStream::connect(address).expect("the port is open");
    stream.set_read_timeout(Some(MAX_WAIT)).expect("a timeout");
    stream.write_all(&client::frame(&query)).expect("loopback");
    // More workers than sockets, and then fewer.
    for workers in [3, 1] {
        server.rewrite(&[script.address()], &format!("server.workers = {workers}"));
        server.restart(|command| manager.prepare(command));
        if workers == 3 {
            let mut room = [0; 2_048];
            let len = socket.recv(&mut room).expect("an answer by UDP");
            assert!(is_right(&Reply::parse(&room[..len])));
            let octets = client::read_frame(&mut stream).expect("an answer by TCP");
            assert!(is_right(&Reply::parse(&octets)));
        }
        for n in 0..20 {
            assert!(is_right(&server.ask(&format!("{workers}-{n}.example AAAA"))));
        }
        server.signal(Signal::SIGTERM);
    }
}

#[test]
fn sockets_of_units_are_used_and_others_given_back() {
    let (script, manager) = (ipv4_only(), Manager::start());
    // One datagram socket, as of a socket unit without ReusePort, for two workers; and one that no setting names.
    let port = crate::kit::server::free_port();
    let unit = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port");
    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let other_at = other.local_addr().expect("an address").to_string();
    manager.add("dns64d.socket", unit.into());
    manager.add("old", other.into());
    let config = format!("server.workers = 2\nserver.listen = [\"127.0.0.1:{port}\"]");
    let server = managed(&script, &manager, &config);
    let query = Query::parse("unit.example AAAA");
    let reply = query.ask((Ipv4Addr::LOCALHOST, port).into(), MAX_WAIT);
    assert!(reply.is_some_and(|reply| is_right(&reply)));
    wait_for("it is given back", || !manager.names().contains(&"old".to_owned()));
    wait_for("its address in the log", || server.log().contains(&other_at));
    assert!(manager.names().contains(&"dns64d.socket".to_owned()));
}

#[test]
fn the_cache_outlives_a_restart_if_nothing_else_changed() {
    let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
    let path = dir.path().join("cache");
    let config = format!("cache.snapshot = \"{}\"\nserver.workers = 2", path.display());
    let asked = || {
        let asked = script.asked();
        asked.iter().filter(|a| a.name == "kept.example" && a.rtype == Rtype::A).count()
    };
    let mut server = dns64d(&[&script], &config);
    // Each worker has a cache: the same client is at the same worker.
    let query = Query::parse("kept.example AAAA");
    let ask = |server: &Server| {
        for _ in 0..20 {
            let reply = query.ask(server.address(), MAX_WAIT).expect("a reply");
            assert!(is_right(&reply), "{reply}");
        }
    };
    ask(&server);
    wait_for("both workers have it", || {
        ask(&server);
        asked() == 2
    });
    let restart = |server: &mut Server| {
        server.signal(Signal::SIGTERM);
        server.restart(|_| ());
    };
    restart(&mut server);
    ask(&server);
    assert_eq!(asked(), 2, "{}", server.log());
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&path).expect("a file").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    // Other rules: the old answers may be wrong.
    server.rewrite(&[script.address()], &format!("{config}\nsynthesis.never = [\"x.example\"]"));
    restart(&mut server);
    wait_for("the reason in the log", || {
        server.log().contains("is ignored: it was made with other rules")
    });
    ask(&server);
    assert!(asked() > 2);
    // A damaged file costs the cache only.
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
    let mut octets = std::fs::read(&path).expect("a file");
    let middle = octets.len() / 2;
    octets[middle] ^= 1;
    std::fs::write(&path, octets).expect("writes");
    server.restart(|_| ());
    wait_for("the reason in the log", || server.log().contains("is ignored: it is damaged"));
    ask(&server);
}
