//! Reloads and shutdown under load.

use std::fs::File;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};

use super::{MAX_WAIT, SYNTHESISED, dns64d, ipv4_only, is_right, recovers, wait_for};
use crate::kit::client::{self, Query};
use crate::kit::message::Reply;
use crate::kit::server::{Kind, Server};

/// The other prefix, which reloads switch to.
const OTHER: &str = "2001:db8:65::c000:221";

#[test]
fn reload_under_load_loses_no_query() {
    let (first, second) = (ipv4_only(), ipv4_only());
    // Longer than a busy machine lets an upstream wait, so that a query that gets no answer was lost by the server.
    let patient = |config: &str| format!("{config}\nupstream.give-up-after = \"15s\"");
    let server = dns64d(&[&first], &patient(""));
    let (end, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let configs = [
        ("dns64 = [{ prefix = \"2001:db8:65::/96\" }]\nserver.workers = 1", &second),
        ("cache.size = \"0\"\nupstream.source-ports = 32", &first),
        ("limits.outstanding = 1000\nupstream.mixed-case = false", &second),
        ("", &first),
    ];
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (server, end, asked) = (&server, &end, &asked);
            scope.spawn(move || {
                let by = if client == 0 { "+tcp" } else { "" };
                let mut n = 0;
                while !end.load(Ordering::Relaxed) {
                    n += 1;
                    let reply = server.ask(&format!("r-{client}-{n}.example AAAA {by}"));
                    let address = reply.answer.first().map(|seen| seen.data.clone());
                    let right = [SYNTHESISED, OTHER].contains(&address.as_deref().unwrap_or(""));
                    assert!(reply.rcode == "NOERROR" && right, "{reply}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for (number, (config, upstream)) in (1..=12).zip(configs.iter().cycle()) {
            server.reload(&[upstream.address()], &patient(config));
            // A signal that comes before the last one was taken is no second one.
            wait_for("the reload in the log", || {
                server.log().matches("read again").count() == number
            });
            let before = asked.load(Ordering::Relaxed);
            // A client that failed has reported why; the others continue.
            wait_for("queries between reloads", || asked.load(Ordering::Relaxed) >= before + 40);
        }
        end.store(true, Ordering::Relaxed);
    });
    assert!(
        !first.asked().is_empty() && !second.asked().is_empty(),
        "both upstreams received queries"
    );
}

#[test]
fn values_out_of_bounds_are_refused_with_their_place() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("config");
    for (setting, parts) in [
        ("upstream.port-lifetime = \"0s\"", ["upstream.port-lifetime", "10ms"]),
        ("upstream.tcp-timeout = \"2m\"", ["upstream.tcp-timeout", "1m"]),
        ("cache.failure-ttl = \"1h\"", ["cache.failure-ttl", "5m"]),
        ("limits.tcp-pipelined = 0", ["limits.tcp-pipelined", "1 to 65535"]),
        ("server.workers = 5000", ["server.workers", "1024"]),
    ] {
        std::fs::write(&file, setting).expect("writes");
        let check = Command::new(env!("CARGO_BIN_EXE_dns64d"))
            .args(["--check", "--config"])
            .arg(&file)
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&check.stderr);
        assert_eq!(check.status.code(), Some(2), "{setting}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{setting}: {said}");
    }
}

#[test]
fn a_configuration_with_errors_changes_nothing() {
    let script = ipv4_only();
    let server = dns64d(&[&script], "");
    server.reload(&[script.address()], "dns64 = [{ prefix = \"2001:db8:65::/97\" }]");
    wait_for("the error is logged", || server.log().contains("nothing was changed"));
    // Its socket needs a restart; until then no prefix would be known.
    server.reload(&[script.address()], "dns64 = [{ follow = \"router\" }]");
    wait_for("the error is logged", || server.log().matches("nothing was changed").count() == 2);
    server.reload(&[script.address()], "upstream.source = [\"192.0.2.99\"]");
    wait_for("the error is logged", || server.log().matches("nothing was changed").count() == 3);
    assert!(is_right(&server.ask("still.example AAAA")));
    server.reload(&[script.address()], "dns64 = [{ prefix = \"2001:db8:65::/96\" }]");
    let mut n = 0;
    wait_for("the other prefix", || {
        n += 1;
        server.ask(&format!("other-{n}.example AAAA")).answer[0].data == OTHER
    });
}

#[test]
fn a_log_that_cannot_be_written_costs_lines_only() {
    let full_disk = || Some(Stdio::from(File::options().write(true).open("/dev/full").ok()?));
    let closed = || Some(Stdio::from(OwnedFd::from(UnixStream::pair().ok()?.0)));
    // Nobody reads it, and it holds few lines.
    let kept = Mutex::new(Vec::new());
    let unread = || {
        let (end, other) = UnixStream::pair().ok()?;
        socket2::SockRef::from(&end).set_send_buffer_size(4_096).ok()?;
        kept.lock().expect("no panic").push(other);
        Some(Stdio::from(OwnedFd::from(end)))
    };
    type Open<'a> = &'a dyn Fn() -> Option<Stdio>;
    let all: [(&str, Open<'_>); 3] = [
        ("a full disk", &full_disk),
        ("a closed pipe", &closed),
        ("a pipe that nobody reads", &unread),
    ];
    for (what, stderr) in all {
        let script = ipv4_only();
        let upstreams = [script.address()];
        // Each answer writes a line.
        let config = "server.log-queries = 1";
        let server = Server::start_with(Kind::Dns64d, &upstreams, config, |command| {
            command.stderr(stderr().expect("a file"));
        });
        let mut server = server.expect("it starts");
        let mut n = 0;
        let client = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let query = Query::parse("log-0.example AAAA").octets;
        wait_for(&format!("{what}: lost lines are counted"), || {
            server.signal(Signal::SIGHUP);
            // What its socket has no room for writes none.
            for _ in 0..100 {
                client.send_to(&query, server.address()).expect("loopback");
            }
            n += 1;
            assert!(is_right(&server.ask(&format!("log-{n}.example AAAA"))), "{what}");
            server.metric("dns64d_log_lines_lost_total") > 0
        });
        server.signal(Signal::SIGTERM);
        assert!(server.wait().success(), "{what}");
    }
}

#[test]
fn a_worker_that_hangs_is_seen_by_health_and_the_watchdog() {
    let script = ipv4_only();
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("notify");
    let systemd = UnixDatagram::bind(&path).expect("a socket");
    systemd.set_read_timeout(Some(Duration::from_millis(10))).expect("a timeout");
    let server = Server::start_with(Kind::Dns64d, &[script.address()], "", |command| {
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    });
    let server = server.expect("it starts");
    // Reads all messages so far; returns whether one is of the watchdog.
    let hears = || {
        let mut room = [0; 256];
        let messages =
            std::iter::from_fn(|| systemd.recv(&mut room).ok().map(|len| room[..len].to_vec()));
        let all: Vec<Vec<u8>> = messages.take(1_000).collect();
        all.iter().any(|message| message.starts_with(b"WATCHDOG=1"))
    };
    wait_for("the watchdog hears the server", hears);
    let worker = server.thread("worker-0");
    if let Err(error) = ptrace::attach(worker) {
        return skip::because(format_args!("a thread cannot be stopped: {error}"));
    }
    waitpid(worker, Some(WaitPidFlag::__WALL)).expect("it stops");
    wait_for("health sees it", || server.http("/health").starts_with("HTTP/1.1 503"));
    assert!(server.http("/health").contains("worker-0 hangs"));
    hears();
    std::thread::sleep(Duration::from_secs(1));
    assert!(!hears(), "the watchdog hears a server that hangs");
    ptrace::detach(worker, None).expect("it goes on");
    wait_for("health is good again", || server.http("/health").starts_with("HTTP/1.1 200"));
    wait_for("the watchdog hears the server again", hears);
}

#[test]
fn pending_queries_are_answered_before_the_end() {
    let script = ipv4_only();
    for name in ["udp", "tcp"] {
        script.on(&format!("{name}.example AAAA"), "");
        script.on(&format!("{name}.example A"), &format!("hold; {name}.example 60 A 192.0.2.33"));
    }
    let mut server =
        dns64d(&[&script], "upstream.first-timeout = \"10s\"\nupstream.give-up-after = \"30s\"");
    recovers(&server, "before");
    let mut stream = TcpStream::connect(server.address()).expect("loopback");
    stream.set_read_timeout(Some(MAX_WAIT)).expect("a timeout");
    stream.write_all(&client::frame(&Query::parse("tcp.example AAAA").octets)).expect("loopback");
    std::thread::scope(|scope| {
        let server = &server;
        let udp = scope.spawn(move || server.ask("udp.example AAAA"));
        let held = |name: &str| {
            script
                .asked()
                .iter()
                .any(|asked| asked.name == name && asked.rtype == domain::base::iana::Rtype::A)
        };
        wait_for("both are pending", || held("udp.example") && held("tcp.example"));
        server.signal(Signal::SIGTERM);
        wait_for("the signal has arrived", || server.log().contains("stopping"));
        script.release();
        assert!(is_right(&udp.join().expect("no panic")), "by UDP");
        let octets = client::read_frame(&mut stream).expect("an answer by TCP");
        assert!(is_right(&Reply::parse(&octets)), "by TCP");
    });
    assert!(server.wait().success(), "{}", server.log());
}

#[test]
fn a_server_started_as_root_becomes_an_ordinary_user() {
    // In a user namespace there may be no other user.
    let map = std::fs::read_to_string("/proc/self/uid_map").expect("a map of users");
    if !nix::unistd::geteuid().is_root() || map.split_ascii_whitespace().last() == Some("1") {
        return skip::because("it is not started as root, or there is no other user");
    }
    let script = ipv4_only();
    let server = dns64d(&[&script], "server.user = \"\"");
    // The address by which its start is seen is bound before that.
    wait_for("it is no longer root", || !server.user_ids().contains(&0));
    recovers(&server, "ordinary");
}

#[test]
fn with_user_root_the_server_keeps_its_user() {
    let server = dns64d(&[&ipv4_only()], "server.user = \"root\"");
    assert_eq!(server.user_ids(), [nix::unistd::geteuid().as_raw(); 4]);
}
