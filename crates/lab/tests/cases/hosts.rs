//! Cases about the testbed's hosts, links and processes.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use lab::testbed::{address_v4, address_v6};
use lab::{CpuPlan, Host, Lab, Launch, Namespace, Process, ProcessError};
use lab::{Testbed, TestbedError, TestbedPlan};
use measure::{Link, Path};
use nix::sys::signal::Signal;

/// A testbed on the cores of this machine, and the directory it lives in.
pub(crate) fn testbed(lab: &Lab) -> (Testbed, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let cpus = CpuPlan::spread(lab.allowed_cpus(), 1);
    let testbed = Testbed::build(
        lab,
        dir.path(),
        &TestbedPlan { cpus, link: Link::Steered, path: Path::Wire },
    )
    .unwrap();
    (testbed, dir)
}

fn bind(namespace: &Namespace, address: &str) -> UdpSocket {
    let socket = namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

pub(crate) fn reach_each_other(lab: &Lab) {
    let (testbed, _dir) = testbed(lab);
    assert_eq!(testbed.refused(), &[] as &[String]);
    if lab.privileged() {
        assert_eq!((testbed.link(), testbed.link_refused()), (Link::Steered, None));
    } else {
        assert_eq!(testbed.link(), Link::Plain);
        println!("no steered links: {:?}", testbed.link_refused());
    }
    assert_eq!(testbed.path(), Path::Wire);
    for server in Host::ALL {
        for client in Host::ALL.into_iter().filter(|client| *client != server) {
            for address in [
                SocketAddr::from((address_v4(server, client), 53)),
                SocketAddr::from((address_v6(server, client), 53)),
            ] {
                // Port 53 is free for everyone.
                let there = bind(testbed.namespace(server), &address.to_string());
                let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                echo(&bind(testbed.namespace(client), any), &there, address);
            }
        }
    }
    // Any address of the source prefixes is the tester's.
    for (source, host) in [
        ("10.9.200.77:0", Host::Dut),
        ("[fd00:9:ffff::abcd:1]:0", Host::Dut),
        ("10.9.129.1:0", Host::Auth),
    ] {
        let server: SocketAddr = if source.starts_with('[') {
            (address_v6(host, Host::Tester), 53).into()
        } else {
            (address_v4(host, Host::Tester), 53).into()
        };
        let there = bind(testbed.namespace(host), &server.to_string());
        echo(&bind(testbed.namespace(Host::Tester), source), &there, server);
    }
}

/// One datagram there and back.
fn echo(client: &UdpSocket, server: &UdpSocket, address: SocketAddr) {
    client.connect(address).unwrap();
    client.send(b"ping").unwrap();
    let mut buffer = [0; 16];
    let lost = |e| panic!("{:?} to {address}: {e}", client.local_addr());
    let (len, peer) = server.recv_from(&mut buffer).unwrap_or_else(lost);
    assert_eq!((&buffer[..len], peer), (&b"ping"[..], client.local_addr().unwrap()));
    server.send_to(b"pong", peer).unwrap();
    let lost = |e| panic!("{address} to {peer}: {e}");
    assert_eq!(client.recv(&mut buffer).unwrap_or_else(lost), 4);
}

/// Each kind of link carries packets; a message that is segmented arrives in packets on a wire-like path.
pub(crate) fn links_are_what_was_asked_for(lab: &Lab) {
    let (mut testbed, dir) = testbed(lab);
    for link in Link::ALL {
        testbed.set_links(link, Path::Wire, dir.path());
        if lab.privileged() {
            assert_eq!((testbed.link(), testbed.link_refused()), (link, None));
        }
        let address = SocketAddr::from((address_v6(Host::Dut, Host::Tester), 53));
        let there = bind(testbed.namespace(Host::Dut), &address.to_string());
        echo(&bind(testbed.namespace(Host::Tester), "[::]:0"), &there, address);
    }
    for (path, packets) in [(Path::Wire, 10), (Path::HostOffload, 1)] {
        testbed.set_links(Link::Plain, path, dir.path());
        assert_eq!((testbed.path(), testbed.link_refused()), (path, None));
        assert_eq!(packets_of_a_message(&testbed), packets, "{path}");
    }
}

/// Sends a message of ten segments from the Tester to the server; the packets that the link counts.
fn packets_of_a_message(testbed: &Testbed) -> u64 {
    let address = SocketAddr::from((address_v4(Host::Dut, Host::Tester), 53));
    let _there = bind(testbed.namespace(Host::Dut), &address.to_string());
    let client = bind(testbed.namespace(Host::Tester), "0.0.0.0:0");
    client.connect(address).unwrap();
    nix::sys::socket::setsockopt(&client, nix::sys::socket::sockopt::UdpGsoSegment, &100).unwrap();
    let counted = || {
        let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("to-dut:")).unwrap();
        // Octets and packets sent are the ninth and tenth number.
        line.split_ascii_whitespace().nth(9).unwrap().parse::<u64>().unwrap()
    };
    let sent = || testbed.namespace(Host::Tester).run(counted).unwrap();
    let before = sent();
    client.send(&[7; 1000]).unwrap();
    sent() - before
}

pub(crate) fn processes_start_and_stop(lab: &Lab) {
    let (testbed, dir) = testbed(lab);
    let launch = |name: &'static str, command: &[&str]| Launch {
        name,
        namespace: testbed.namespace(Host::Dut),
        cpus: testbed.cpus(Host::Dut),
        dir: dir.path(),
        daemon: false,
        command: command.iter().map(Into::into).collect(),
        environment: vec![("GREETING".to_owned(), "hello".to_owned())],
    };
    // It runs where it was told to, and ends politely.
    let script = "trap 'echo bye; exit 3' TERM; echo $GREETING; pwd; cat /proc/net/dev; \
                  grep Cpus_allowed_list /proc/self/status; sleep 0.01; echo up >&2; \
                  while :; do sleep 0.01; done";
    let mut process = Process::start(&launch("talker", &["/bin/sh", "-c", script])).unwrap();
    while !process.tail().0.iter().any(|line| line == "up") {
        process.check().unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    process.hold_to_cpus().unwrap();
    let status = process.stop(Signal::SIGTERM, Duration::from_secs(10));
    let log = process.tail().0.join("\n");
    assert_eq!(status.and_then(|s| s.code()), Some(3), "{log}");
    let cpus = format!("Cpus_allowed_list:\t{}", testbed.cpus(Host::Dut));
    for wanted in ["hello", &dir.path().display().to_string(), "to-tester", "to-auth", "bye", &cpus]
    {
        assert!(log.contains(wanted), "{wanted}: {log}");
    }
    // One that binds itself to other cores is brought back.
    if lab.allowed_cpus().count() > 1 {
        let elsewhere = testbed.cpus(Host::Tester).to_string();
        let script = format!("taskset -cp {elsewhere} $$ && echo moved; sleep 60");
        let mut stray = Process::start(&launch("stray", &["/bin/sh", "-c", &script])).unwrap();
        while !stray.tail().0.iter().any(|line| line == "moved") {
            stray.check().unwrap();
        }
        stray.hold_to_cpus().unwrap();
        let strays = lab::testbed::procfs::affinities(stray.pid());
        assert!(!strays.is_empty(), "its threads are not found");
        assert!(strays.iter().all(|(_, cpus)| cpus == testbed.cpus(Host::Dut)), "{strays:?}");
    }
    // One that ignores the signal is ended by force, with its children.
    let script = "trap '' TERM; sleep 8811 & echo up; while :; do sleep 0.01; done";
    let mut stubborn = Process::start(&launch("stubborn", &["/bin/sh", "-c", script])).unwrap();
    while stubborn.tail().0.is_empty() {
        stubborn.check().unwrap();
    }
    assert!(stubborn.stop(Signal::SIGTERM, Duration::from_millis(100)).is_none());
    assert!(!lab::testbed::procfs::tree(1).iter().any(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.contains("8811"))
    }));
    // One that does not start says why.
    let mut missing = Process::start(&launch("missing", &["/no/such/server"])).unwrap();
    assert_eq!(missing.wait(Duration::from_secs(10)).and_then(|s| s.code()), Some(127));
    let error = missing.check().unwrap_err();
    assert!(matches!(error, ProcessError::Ended { .. }));
    assert!(error.to_string().contains("cannot execute /no/such/server"), "{error}");
}

pub(crate) fn a_missing_core_is_named(lab: &Lab) {
    let dir = tempfile::tempdir().unwrap();
    let mut cpus = CpuPlan::spread(lab.allowed_cpus(), 1);
    cpus.dut = "1000".parse().unwrap();
    let error =
        Testbed::build(lab, dir.path(), &TestbedPlan { cpus, link: Link::Plain, path: Path::Wire })
            .unwrap_err();
    assert!(matches!(error, TestbedError::Cpus { host: "dut", .. }), "{error}");
}
