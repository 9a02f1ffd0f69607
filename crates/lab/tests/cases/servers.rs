//! The servers of this machine, started for real.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use experiment::Custom;
use experiment::file::Role;
use lab::authdns::{self, Serves};
use lab::probe::{Observed, Snapshot, Span};
use lab::ready::{Ask, Question};
use lab::testbed::{PORT, address_v4, address_v6};
use lab::zonefile::write_zone;
use lab::{
    Adapter, AdapterError, Catalogue, Host, Installed, Lab, LabEnv, Server, ServerError, Service,
    Testbed,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use wire::{Namespace, Pref64};
use zone::ZoneRecords;

use super::hosts;
use crate::skipped;

fn pref64() -> Pref64 {
    "2001:db8:64::/96".parse().unwrap()
}

fn env<'a>(testbed: &'a Testbed, lab: &'a Lab, dir: &'a tempfile::TempDir) -> LabEnv<'a> {
    LabEnv { testbed, lab, dir: dir.path() }
}

/// What a server serves in these tests, and its zone file where it needs one.
fn service(role: Role, dir: &std::path::Path) -> Service {
    let has_zone = role == Role::Authoritative;
    let prefix = if has_zone { "10.32.0.0/20" } else { "10.0.0.0/8" };
    let namespace = Namespace::with_default_zone(prefix.parse().unwrap());
    let zone_file = has_zone.then(|| dir.join("zone"));
    if let Some(file) = &zone_file {
        write_zone(file, &namespace, ZoneRecords::Aaaa(pref64())).unwrap();
    }
    let ask = if role == Role::Resolver { Ask::A } else { Ask::Aaaa(pref64()) };
    let (pref64, variables) = (pref64(), Default::default());
    Service { role, namespace, origin: None, pref64, zone_file, ask, threads: None, variables }
}

/// An installed server and a testbed of its own.
struct Bench {
    adapter: Adapter,
    installed: Installed,
    testbed: Testbed,
    dir: tempfile::TempDir,
}

impl Bench {
    /// Finds the server `name`; the error says that it is not installed.
    fn of(lab: &Lab, name: &str) -> Result<Self, AdapterError> {
        let adapter = Catalogue::load(None).unwrap().get(name).unwrap().clone();
        if let Err(e @ AdapterError::NotInstalled { .. }) = adapter.program() {
            return Err(e);
        }
        let (testbed, dir) = hosts::testbed(lab);
        let installed = Installed::find(&adapter, &testbed, dir.path()).unwrap();
        Ok(Bench { adapter, installed, testbed, dir })
    }
}

/// Starts the server twice in every role it has, and looks at it while it runs.
pub(crate) fn starts(lab: &Lab, name: &str) -> u8 {
    let Bench { adapter, installed, testbed, dir } = match Bench::of(lab, name) {
        Ok(bench) => bench,
        Err(e) => return skipped(e),
    };
    println!("{} {}", adapter.title, installed.version().unwrap());
    for role in adapter.roles.clone() {
        let service = service(role, dir.path());
        let serves = Serves::Dut { aaaa_share: 0.0, drilled: false };
        let authdns =
            authdns::start(serves, &service.namespace, pref64(), env(&testbed, lab, &dir));
        let authdns = authdns.unwrap();
        for _ in 0..2 {
            let before = Snapshot::take(&testbed, &[]).unwrap();
            let server = installed.start(&service, env(&testbed, lab, &dir)).unwrap();
            println!("  as {role:?} after {:?}", server.loaded());
            let mut watched = vec![(Host::Auth, authdns.pid())];
            watched.extend(server.pids().into_iter().map(|pid| (Host::Dut, pid)));
            let after = Snapshot::take(&testbed, &watched).unwrap();
            let span = Span { sending_s: 1.0, ..Span::default() };
            let observed = Observed::between(&before, &after, &testbed, &span);
            let used = observed.usage(Host::Dut);
            assert!(used.busiest_thread > Some(0.0), "{used:?}");
            assert_eq!(observed.receive_drops(Host::Dut), 0);
            server.stop();
            // Its children too, which may still be ending: nothing is left but the lab and the AuthDNS.
            let until = Instant::now() + Duration::from_secs(20);
            while lab::testbed::procfs::tree(1).len() > 2 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(
                lab::testbed::procfs::tree(1).len(),
                2,
                "{:?}",
                lab::testbed::procfs::tree(1)
            );
        }
    }
    0
}

/// Datagrams that the AuthDNS's host has received over IPv4, where servers ask upstream.
fn asked_upstream(testbed: &Testbed) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
    let text = testbed.namespace(Host::Auth).run(read).unwrap().unwrap();
    let numbers = text.lines().rfind(|line| line.starts_with("Udp: ")).unwrap();
    numbers.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A DNS64 server with its cache answers a repeated name by itself; without its cache the server asks upstream again, or
/// its adapter says why it cannot.
pub(crate) fn cache_is_switched(lab: &Lab, name: &str) -> u8 {
    let Bench { adapter, installed, testbed, dir } = match Bench::of(lab, name) {
        Ok(bench) => bench,
        Err(e) => return skipped(e),
    };
    let cache = &adapter.variables["cache"];
    assert_eq!(cache.values, ["on", "off"]);
    for value in &cache.values {
        let mut service = service(Role::Dns64, dir.path());
        service.variables.insert("cache".to_owned(), value.clone());
        let serves = Serves::Dut { aaaa_share: 0.0, drilled: false };
        let (namespace, pref64) = (service.namespace, service.pref64);
        let mut authdns =
            authdns::start(serves, &namespace, pref64, env(&testbed, lab, &dir)).unwrap();
        let server = installed.start(&service, env(&testbed, lab, &dir)).unwrap();
        // It has answered these names before, when it became ready. BIND uses an answer of TTL 0 until its second ends.
        std::thread::sleep(Duration::from_millis(1_100));
        let before = asked_upstream(&testbed);
        let names = Question::first_and_last(&namespace, service.ask);
        let (client, address) = (testbed.namespace(Host::Tester), installed.address());
        lab::ready::answers(client, address, lab::ready::Over::Udp, &names).unwrap();
        let asked = asked_upstream(&testbed) - before;
        println!("  cache {value}: asked upstream {asked} times for {} names", names.len());
        match value.as_str() {
            "on" => assert_eq!(asked, 0, "answered from the cache"),
            _ if cache.notes.contains_key(value) => {
                assert!(cache.notes[value].contains("cannot be switched off"), "{:?}", cache.notes);
            }
            // The AAAA and the A record of each.
            _ => assert!(asked >= 2 * names.len() as u64, "{asked}"),
        }
        server.stop();
        authdns.stop(nix::sys::signal::Signal::SIGTERM, Duration::from_secs(5));
    }
    0
}

/// As root every server's sockets on port 53 have the size of the system's default during a run.
pub(crate) fn buffers_are_equal() -> u8 {
    if !nix::unistd::geteuid().is_root() {
        return skipped("only root can enlarge the default of socket buffers");
    }
    // No machine has this core.
    let core = "1023".parse().unwrap();
    let _enlarged = lab::Reservation::take(&core, Duration::from_secs(60)).unwrap();
    super::within_or(|lab| {
        let catalogue = Catalogue::load(None).unwrap();
        let (testbed, dir) = hosts::testbed(lab);
        let default = std::fs::read_to_string("/proc/sys/net/core/rmem_default").unwrap();
        let (mut seen, mut unequal) = (0, Vec::new());
        for adapter in
            catalogue.iter().filter(|adapter| !adapter.front && adapter.program().is_ok())
        {
            let installed = Installed::find(adapter, &testbed, dir.path()).unwrap();
            let mut service = service(adapter.roles[0], dir.path());
            // Programs of the sources have a prefix of their own, and wrong addresses.
            if let Ask::Aaaa(_) = service.ask {
                service.ask = Ask::AnyAaaa;
            }
            let serves = Serves::Dut { aaaa_share: 0.0, drilled: false };
            let mut authdns =
                authdns::start(serves, &service.namespace, pref64(), env(&testbed, lab, &dir))
                    .unwrap();
            let server = installed.start(&service, env(&testbed, lab, &dir)).unwrap();
            let list = || std::process::Command::new("ss").args(["-uanm", "sport = :53"]).output();
            let listed = match testbed.namespace(Host::Dut).run(list).unwrap() {
                Ok(listed) => String::from_utf8_lossy(&listed.stdout).into_owned(),
                Err(e) => return skipped(format_args!("ss (iproute2): {e}")),
            };
            let sizes: Vec<&str> =
                listed.split(",rb").skip(1).filter_map(|rest| rest.split(',').next()).collect();
            println!("  {}: {sizes:?}", adapter.name);
            assert!(!sizes.is_empty(), "{}: {listed}", adapter.name);
            if sizes.iter().any(|size| *size != default.trim()) {
                unequal.push(format!("{}: {sizes:?}", adapter.name));
            }
            seen += 1;
            server.stop();
            authdns.stop(nix::sys::signal::Signal::SIGTERM, Duration::from_secs(5));
        }
        assert!(seen > 0 && unequal.is_empty(), "not {}: {unequal:?}", default.trim());
        0
    })
}

/// Loading a zone is timed, weighed and sampled; a later start of NSD is one, too.
pub(crate) fn zones_load(lab: &Lab) -> u8 {
    let Bench { installed, testbed, dir, .. } = match Bench::of(lab, "nsd") {
        Ok(bench) => bench,
        Err(e) => return skipped(e),
    };
    let service = service(Role::Authoritative, dir.path());
    let load = lab::zone_load(&installed, &service, env(&testbed, lab, &dir), 2).unwrap();
    println!("{:?}", load.figures);
    let values = |name: &str| load.figures[name].values.clone();
    assert_eq!((values("zone_load_first").len(), values("zone_load_later").len()), (1, 2));
    // 4096 names, of 40 bytes and more each.
    assert!(values("zone_file")[0] > 4096.0 * 40.0 && values("disk_used")[0] > 0.0);
    assert!(values("memory_peak")[0] >= values("memory_resident")[0]);
    assert!(values("memory_resident")[0] >= values("memory_proportional")[0]);
    assert!(load.series.iter().any(|series| series.name == "dut.resident"), "{:?}", load.series);
    assert!(load.files["nsd.conf"].contains("zonefile"));
    0
}

/// A binary that only this run knows, on a port of its own and over IPv4 alone.
pub(crate) fn a_custom_server_serves(lab: &Lab) {
    let (testbed, dir) = hosts::testbed(lab);
    let program = std::env::current_exe().unwrap();
    let custom = Custom {
        port: 5_301,
        ipv6: false,
        files: [("x.conf".to_owned(), "{{ threads }} {{ zone_file }}\n".to_owned())].into(),
        ..Custom::new(&format!(
            "\"{}\" auth {{{{ listen.v4 }}}}:{{{{ listen.port }}}} {{{{ namespace }}}} {{{{ pref64 }}}}",
            program.display()
        ))
    };
    let adapter = Adapter::custom("own", Role::Authoritative, &custom).unwrap();
    let installed = Installed::find(&adapter, &testbed, dir.path()).unwrap();
    assert_eq!(installed.version(), None);
    assert_eq!(installed.address(), (address_v4(Host::Dut, Host::Tester), 5_301).into());
    let service = service(Role::Authoritative, dir.path());
    let server = installed.start(&service, env(&testbed, lab, &dir)).unwrap();
    assert!(server.files()["x.conf"].ends_with("/zone\n"), "{:?}", server.files());
    server.stop();
    // Behind a front it keeps its port.
    let mut catalogue = Catalogue::load(None).unwrap();
    catalogue.add(adapter);
    let both = catalogue.get("dnsdist+own").unwrap();
    if both.program().is_ok() {
        let installed = Installed::find(both, &testbed, dir.path()).unwrap();
        installed.start(&service, env(&testbed, lab, &dir)).unwrap().stop();
    }
    let missing = Adapter::custom("own", Role::Authoritative, &Custom::new("/no/such/x")).unwrap();
    let installed = Installed::find(&missing, &testbed, dir.path()).unwrap();
    let error = installed.start(&service, env(&testbed, lab, &dir)).unwrap_err().to_string();
    assert!(error.contains("exit code 127") && error.contains("/no/such/x"), "{error}");
}

/// A program that goes to the background, and insists on a file in `/etc`, a PID file and port 53.
const STRANGER: &str = r#"#!/bin/sh
[ "$1" = child ] || { cd /; setsid "$0" child </dev/null >/dev/null 2>&1 & exit 0; }
[ ! -e /run/stranger.pid ] || exit 1
echo $$ >/run/stranger.pid
. /etc/stranger.d/stranger.conf
exec "$program" auth "[$address]:53" "$names" "$prefix"
"#;

/// The adapter of the stand-in.
const STRANGERS_ADAPTER: &str = r#"name = "stranger"
title = "A stranger's daemon"
roles = ["authoritative"]
binaries = ["BINARY"]
listen = { ipv4 = false }
start = { arguments = [], daemon = true }
[[files]]
path = "/etc/stranger.d/stranger.conf"
text = """
program=PROGRAM
address={{ listen.v6 }}
names={{ namespace }}
prefix={{ pref64 }}
"""
"#;

/// A daemon that knows nothing of the lab runs by an adapter of 15 lines, and nothing of it stays.
pub(crate) fn a_strangers_daemon_serves(lab: &Lab) {
    let (testbed, dir) = hosts::testbed(lab);
    let binary = dir.path().join("strangerd");
    std::fs::write(&binary, STRANGER).unwrap();
    std::fs::set_permissions(&binary, PermissionsExt::from_mode(0o755)).unwrap();
    let program = std::env::current_exe().unwrap();
    assert!(STRANGERS_ADAPTER.lines().count() <= 15);
    let text = STRANGERS_ADAPTER
        .replace("BINARY", binary.to_str().unwrap())
        .replace("PROGRAM", program.to_str().unwrap());
    let adapter = Adapter::parse(&text, "stranger.toml".as_ref()).unwrap();
    let installed = Installed::find(&adapter, &testbed, dir.path()).unwrap();
    assert_eq!(installed.version(), None);
    let service = service(Role::Authoritative, dir.path());
    let daemons = |server: &Server| {
        let path = format!("/proc/{0}/task/{0}/children", server.pid());
        let children = std::fs::read_to_string(path).unwrap();
        children.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>()
    };
    // The second one finds no PID file and the port free. Each is a child of what the lab watches.
    for _ in 0..2 {
        let mut server = installed.start(&service, env(&testbed, lab, &dir)).unwrap();
        assert_eq!(daemons(&server).len(), 1);
        server.check().unwrap();
        server.stop();
    }
    let mut server = installed.start(&service, env(&testbed, lab, &dir)).unwrap();
    kill(Pid::from_raw(daemons(&server)[0]), Signal::SIGKILL).unwrap();
    while server.check().is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let error = server.check().unwrap_err().to_string();
    assert!(error.contains("stranger ended before it was stopped (exit code 137)"), "{error}");
    let left = ["/etc/stranger.d", "/run/stranger.pid"];
    assert!(left.iter().all(|path| !std::path::Path::new(path).exists()));
}

/// A server that does not start shows its log; one that dies later is noticed at once.
pub(crate) fn a_bad_server_says_why(lab: &Lab) {
    let (testbed, dir) = hosts::testbed(lab);
    let text = |script: &str| {
        format!(
            "name = \"bad\"\ntitle = \"Bad\"\nroles = [\"authoritative\"]\npackage = \"none\"\n\
             binaries = [\"sh\"]\nfiles = []\nversion = {{ arguments = [\"-c\", \"echo v 7\"], after = \"v \" }}\n\
             [start]\narguments = [\"-c\", \"{script}\"]\n[ready]\ntimeout = \"1500ms\"\n"
        )
    };
    let start = |script: &str| -> ServerError {
        let adapter = Adapter::parse(&text(script), std::path::Path::new("bad.toml")).unwrap();
        let installed = Installed::find(&adapter, &testbed, dir.path()).unwrap();
        assert_eq!(installed.version(), Some("7"));
        let service = service(Role::Authoritative, dir.path());
        installed.start(&service, env(&testbed, lab, &dir)).unwrap_err()
    };
    let error = start("echo no such option >&2; exit 9").to_string();
    assert!(error.contains("bad ended before it was stopped (exit code 9)"), "{error}");
    assert!(error.contains("| no such option"), "{error}");
    let error = start("echo reading the zone; exec sleep 60").to_string();
    assert!(error.contains("did not answer 010-032-000-000.dns64perf.test"), "{error}");
    // The kernel's "port unreachable" comes for the last query or not: it sends only so many a second.
    assert!(error.contains("correctly over UDP at [fd00:9::2]:53 ("), "{error}");
    assert!(error.contains("(no answer;") || error.contains("(Connection refused"), "{error}");
    assert!(error.contains("`ipv6 = false` of its table leaves this address out"), "{error}");
    assert!(error.contains("within 1.5s") && error.contains("| reading the zone"), "{error}");
    // Interrupted, it is not waited for.
    lab.interrupted().store(true, Ordering::Relaxed);
    assert!(start("exec sleep 60").to_string().contains("interrupted"));
}

/// An occupied port is the server's to report, and is shown.
pub(crate) fn an_occupied_port_is_shown(lab: &Lab) -> u8 {
    let catalogue = Catalogue::load(None).unwrap();
    let adapter = catalogue.get("nsd").unwrap();
    if adapter.program().is_err() {
        return skipped(format_args!("nsd is not installed (package {})", adapter.package));
    }
    let (testbed, dir) = hosts::testbed(lab);
    let occupied = (address_v6(Host::Dut, Host::Tester), PORT);
    let bind = || std::net::UdpSocket::bind(occupied);
    let socket = testbed.namespace(Host::Dut).run(bind).unwrap().unwrap();
    let installed = Installed::find(adapter, &testbed, dir.path()).unwrap();
    let service = service(Role::Authoritative, dir.path());
    let error = installed.start(&service, env(&testbed, lab, &dir)).unwrap_err().to_string();
    assert!(error.contains("ddress already in use"), "{error}");
    assert!(error.contains("its host is not free"), "{error}");
    drop(socket);
    let server: Server = installed.start(&service, env(&testbed, lab, &dir)).unwrap();
    server.stop();
    std::thread::sleep(Duration::from_millis(1));
    0
}
