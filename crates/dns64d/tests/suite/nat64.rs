//! Prefixes that are followed, and NAT64s that fail: upstreams with DNS64, a router, and TAYGA, each in its own namespace where
//! it needs one.

use std::fs;
use std::io::Read;
use std::net::{Ipv6Addr, SocketAddrV6, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use socket2::{Domain, Protocol, Socket, Type};

use crate::faults::{SYNTHESISED, dns64d, ipv4_only, wait_for};
use crate::kit::held::Held;
use crate::kit::script::Script;
use crate::kit::server::{Kind, Server};

/// Returns the last address and its TTL for a name, if it has any.
fn address(server: &Server, name: &str) -> Option<(String, u32)> {
    let reply = server.ask(&format!("{name} AAAA"));
    reply.answer.last().map(|seen| (seen.data.clone(), seen.ttl))
}

#[test]
fn a_reverse_name_under_two_prefixes_belongs_to_the_longer_one() {
    let script = ipv4_only();
    let config = "dns64 = [{ prefix = \"2001:db8::/32\", mapped = [\"198.51.100.0/24\"] }, \
        { prefix = \"2001:db8:64::/96\", not-mapped = [\"198.51.100.0/24\"] }]";
    let server = dns64d(&[&script], config);
    for (nibbles, target) in [
        ("1.2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0", "33.2.0.192.in-addr.arpa."),
        ("0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.2.4.6.3.3.6.c", "33.100.51.198.in-addr.arpa."),
    ] {
        let reply = server.ask(&format!("{nibbles}.8.b.d.0.1.0.0.2.ip6.arpa PTR"));
        assert_eq!(reply.answer[0].data, target, "{reply}");
    }
}

/// Waits until a name is synthesised as this address.
fn wait_for_address(server: &Server, name: &str, expected: &str) {
    wait_for(expected, || address(server, name).is_some_and(|(address, _)| address == expected));
}

/// Sets the AAAA records of `ipv4only.arpa`, synthesised under a /96.
fn announce(script: &Script, prefix: &str, ttl: u32) {
    let record = |last| format!("ipv4only.arpa {ttl} AAAA {prefix}c000:{last}");
    script.on("ipv4only.arpa AAAA", &format!("{}\n{}", record("aa"), record("ab")));
}

#[test]
fn prefixes_of_upstream_are_followed() {
    let upstream = ipv4_only();
    announce(&upstream, "2001:db8:a::", 2);
    let server = dns64d(&[&upstream], "[[dns64]]\nfollow = \"upstream\"");
    wait_for_address(&server, "www.example", "2001:db8:a::c000:221");
    let (_, ttl) = address(&server, "new.example").expect("an address");
    assert!(ttl <= 2, "no longer than upstream's prefix may be used: {ttl}");
    // Hosts learn it from us.
    wait_for_address(&server, "ipv4only.arpa", "2001:db8:a::c000:ab");
    let reverse = "1.2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.a.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR";
    let alias = server.ask(reverse).answer.first().map(|seen| seen.data.clone());
    assert_eq!(alias.as_deref(), Some("33.2.0.192.in-addr.arpa."));
    // Another prefix, then none that can be known: the last one stays.
    announce(&upstream, "2001:db8:b::", 2);
    wait_for_address(&server, "www.example", "2001:db8:b::c000:221");
    upstream.on("ipv4only.arpa AAAA", "SERVFAIL");
    let failures = || server.log().matches("upstream does not publish its prefixes").count();
    wait_for("two failures", || failures() >= 2);
    let name = "after.example";
    let (seen, ttl) = address(&server, name).expect("an address");
    assert!(seen == "2001:db8:b::c000:221" && ttl <= 60, "{seen} {ttl}");
    assert!(server.http("/metrics").contains("prefix=\"2001:db8:b::/96\""));
    // Upstream says that there is no DNS64.
    upstream.on("ipv4only.arpa AAAA", "");
    wait_for("no prefix", || address(&server, "gone.example").is_none());
}

#[test]
fn real_dns64_servers_tell_their_prefixes_of_all_lengths() {
    for kind in [Kind::Unbound, Kind::Bind] {
        if kind.version().is_none() {
            skip::because(format_args!("no {}", kind.title()));
            continue;
        }
        for (prefix, expected) in [
            ("2001:db8:e::/96", "2001:db8:e::c000:221"),
            ("2001:db8:e:f::/64", "2001:db8:e:f:c0:2:2100:0"),
            ("2001:db8:e00::/40", "2001:db8:ec0:2:21::"),
            ("2001:db8::/32", "2001:db8:c000:221::"),
        ] {
            let network = ipv4_only();
            network.on(
                "ipv4only.arpa A",
                "ipv4only.arpa 600 A 192.0.0.170\nipv4only.arpa 600 A 192.0.0.171",
            );
            let config = format!("prefix: {prefix}");
            let other = Server::start(kind, &[network.address()], &config).expect("it starts");
            // Names are resolved elsewhere; only the prefix comes from the other server.
            let own = ipv4_only();
            let config = format!(
                "[[dns64]]\nfollow = \"upstream\"\n[[forward]]\nzones = [\"ipv4only.arpa\"]\nservers = [\"{}\"]",
                other.address()
            );
            let server = dns64d(&[&own], &config);
            wait_for_address(&server, "www.example", expected);
        }
    }
}

/// The check of a row: upstream servers with IPv4 move with the prefix.
pub(crate) fn upstreams_are_reached_through_a_prefix_that_is_learned() {
    let setup = [
        "ip addr add 2001:db8:a::c000:235/128 dev lo nodad",
        "ip addr add 2001:db8:b::c000:235/128 dev lo nodad",
        "ip addr add 2001:db8::9/128 dev lo nodad",
    ];
    in_namespace(&setup, || {
        let at = |address: &str| address.parse::<std::net::IpAddr>().expect("an address");
        let start = |address| Script::start_at(at(address), &[]).expect("it is there");
        let (mut upstream, mut by_tcp) =
            (start("2001:db8:a::c000:235"), start("2001:db8:a::c000:235"));
        let router = start("::1");
        for script in [&upstream, &by_tcp] {
            script.others(domain::base::iana::Rtype::A, crate::faults::A);
        }
        let v4 = |script: &Script| format!("192.0.2.53:{}", script.address().port());
        let config = format!(
            "[upstream]\nvia-prefix = true\nfirst-timeout = \"200ms\"\nsource = [\"2001:db8::9\"]\n[[dns64]]\nfollow = \"upstream\"\n\
             [[forward]]\nzones = [\"ipv4only.arpa\"]\nservers = [\"{}\"]\n\
             [[forward]]\nzones = [\"tcp.example\"]\nservers = [\"{}\"]\ntransport = \"tcp\"",
            router.address(),
            v4(&by_tcp),
        );
        let servers = [v4(&upstream).parse().expect("an address")];
        announce(&router, "2001:db8:a::", 2);
        let server = Server::start(Kind::Dns64d, &servers, &config).expect("it starts");
        for prefix in ["2001:db8:a::", "2001:db8:b::"] {
            let here = at(&format!("{prefix}c000:235"));
            if upstream.address().ip() != here {
                upstream.move_to(here);
                by_tcp.move_to(here);
            }
            announce(&router, prefix, 2);
            let label = prefix.replace(':', "");
            for name in ["www", "tcp"] {
                let mut n = 0;
                wait_for("an answer", || {
                    n += 1;
                    let found = address(&server, &format!("n{n}-{label}.{name}.example"));
                    found.is_some_and(|(address, _)| address == format!("{prefix}c000:221"))
                });
            }
        }
        let from = |asked: &crate::kit::script::Asked| asked.from.ip() == at("2001:db8::9");
        assert!(upstream.asked().iter().all(from) && !upstream.asked().is_empty());
        assert!(by_tcp.asked().iter().all(|asked| asked.tcp) && !by_tcp.asked().is_empty());
    });
}

#[test]
fn a_reload_keeps_what_was_learned_unless_something_else_is_followed() {
    let upstream = ipv4_only();
    announce(&upstream, "2001:db8:a::", 600);
    let followed = "[[dns64]]\nfollow = \"upstream\"\n";
    let server = dns64d(&[&upstream], followed);
    wait_for_address(&server, "www.example", "2001:db8:a::c000:221");
    let asked = || upstream.asked().iter().filter(|asked| asked.name == "ipv4only.arpa").count();
    let before = asked();
    server.reload(&[upstream.address()], &format!("{followed}[server]\nlog = \"debug\""));
    wait_for("the reload", || server.log().contains("read again"));
    let (seen, _) = address(&server, "again.example").expect("an address");
    assert_eq!((seen.as_str(), asked()), ("2001:db8:a::c000:221", before));
    server.reload(&[upstream.address()], "[[dns64]]\nprefix = \"2001:db8:64::/96\"");
    wait_for_address(&server, "www.example", SYNTHESISED);
}

/// Runs `body` in a network namespace of its own, with `setup` run before; returns `false` if there cannot be one here.
pub(crate) fn in_namespace(setup: &[&str], body: impl FnOnce() + Send) -> bool {
    let run = || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            skip::because(format_args!("no network namespace: {error}"));
            return false;
        }
        for command in ["ip link set lo up"].iter().chain(setup) {
            if let Err(error) = shell(command) {
                skip::because(format_args!("{command}: {error}"));
                return false;
            }
        }
        body();
        true
    };
    std::thread::scope(|scope| scope.spawn(run).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs a command; returns what it says when it fails.
pub(crate) fn shell(command: &str) -> Result<(), String> {
    let mut words = command.split(' ');
    let program = words.next().expect("a program");
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(said)
}

/// A link with a router at its other end.
const LINK: [&str; 4] = [
    "sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.forwarding=1",
    "ip link add host0 type veth peer name router0",
    "ip link set router0 up",
    "ip link set host0 up",
];

/// Sends a router advertisement with a PREF64 option from an interface to all nodes of its link; `eights` is the lifetime in
/// units of 8 s.
fn advertise(interface: &str, prefix: &str, eights: u16) {
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).expect("root may");
    socket.set_multicast_hops_v6(255).expect("it is IPv6");
    let index = nix::net::if_::if_nametoindex(interface).expect("it is there");
    let prefix: Ipv6Addr = prefix.parse().expect("an address");
    let mut message = vec![134, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 38, 2];
    message.extend_from_slice(&(eights << 3).to_be_bytes());
    message.extend_from_slice(&prefix.octets()[..12]);
    let all_nodes = SocketAddrV6::new("ff02::1".parse().expect("an address"), 0, 0, index);
    // The link may not have its address yet.
    wait_for("the link", || socket.send_to(&message, &all_nodes.into()).is_ok());
}

/// Starts radvd at `router0`. The version of Debian 12 knows no PREF64: its advertisements have a prefix for addresses, and the
/// interval, with which they may come several times a second (RFC 6275 section 7.5).
fn radvd(dir: &Path) -> Option<Held> {
    let file = dir.join("radvd.conf");
    let text = "interface router0 { AdvSendAdvert on; AdvIntervalOpt on; MinRtrAdvInterval 0.3; MaxRtrAdvInterval 0.5; prefix 2001:db8:99::/64 { }; };";
    fs::write(&file, text).expect("writes");
    let mut command = Command::new("radvd");
    command.args(["--nodaemon", "--logmethod", "stderr", "--config"]).arg(file);
    command.arg("--pidfile").arg(dir.join("radvd.pid"));
    let started = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    skip::unless_ok(started, "no radvd").map(Held)
}

/// Waits for an advertisement with a prefix for addresses (RFC 4861 section 4.6.2), as radvd sends them.
fn wait_for_advertisement() {
    let mut socket =
        Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).expect("root may");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(1))).expect("a timeout");
    let mut message = [0; 1_500];
    wait_for("an advertisement of radvd", || {
        let len = socket.read(&mut message).unwrap_or(0);
        let prefix: Ipv6Addr = "2001:db8:99::".parse().expect("an address");
        let has_prefix = message[..len].windows(16).any(|part| *part == prefix.octets());
        message[0] == 134 && has_prefix
    });
}

#[test]
fn prefixes_of_routers_are_followed() {
    in_namespace(&LINK, || {
        let upstream = ipv4_only();
        let config = "[[dns64]]\nfollow = \"router\"\ninterface = \"host0\"\nprefix = \"2001:db8:64::/96\"\nmax-ttl = \"50s\"";
        let server = dns64d(&[&upstream], config);
        assert_eq!(address(&server, "www.example"), Some((SYNTHESISED.to_owned(), 50)));
        // A new advertisement replaces what the cache has.
        let follows = |prefix: &str, eights| {
            wait_for(prefix, || {
                advertise("router0", prefix, eights);
                let expected = format!("{prefix}c000:221");
                address(&server, "www.example").is_some_and(|(seen, _)| seen == expected)
            });
        };
        follows("2001:db8:a::", 225);
        // Its end comes with a lifetime of zero, or with time.
        advertise("router0", "2001:db8:a::", 0);
        wait_for_address(&server, "www.example", SYNTHESISED);
        follows("2001:db8:b::", 1);
        let (_, ttl) = address(&server, "other.example").expect("an address");
        assert!(ttl <= 8, "the lifetime of the prefix: {ttl}");
        wait_for_address(&server, "www.example", SYNTHESISED);
    });
}

#[test]
fn advertisements_of_a_real_router_without_a_prefix_change_nothing() {
    in_namespace(&LINK, || {
        let upstream = ipv4_only();
        let config =
            "[[dns64]]\nfollow = \"router\"\ninterface = \"host0\"\nprefix = \"2001:db8:64::/96\"";
        let server = dns64d(&[&upstream], config);
        let dir = tempfile::tempdir().expect("a folder");
        let Some(_radvd) = radvd(dir.path()) else { return };
        wait_for_advertisement();
        assert_eq!(address(&server, "www.example").expect("an address").0, SYNTHESISED);
        wait_for("the prefix", || {
            advertise("router0", "2001:db8:c::", 60);
            address(&server, "www.example").is_some_and(|(seen, _)| seen == "2001:db8:c::c000:221")
        });
        // The option may be missing in later advertisements of the same router (RFC 8781 section 5.1).
        (0..2).for_each(|_| wait_for_advertisement());
        let (seen, ttl) = address(&server, "later.example").expect("an address");
        assert!(seen == "2001:db8:c::c000:221" && ttl > 50, "{seen} {ttl}");
    });
}

/// Starts TAYGA with the prefix of the tests. Its device stays when it ends.
fn tayga(dir: &Path) -> Held {
    let file = dir.join("tayga.conf");
    let mut command = Command::new("tayga");
    command.args(["--nodetach", "--config"]).arg(file).stdin(Stdio::null()).stdout(Stdio::null());
    Held(command.stderr(Stdio::null()).spawn().expect("it is installed"))
}

#[test]
fn a_nat64_that_fails_is_replaced_until_it_works_again() {
    if !Path::new("/dev/net/tun").exists()
        || shell("tayga --help").is_err_and(|e| e.contains("No such file"))
    {
        return skip::because("no TAYGA, or no /dev/net/tun");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let text = format!(
        "tun-device nat64\nipv4-addr 192.168.255.1\nipv6-addr 2001:db8:1:fffe::1\nprefix 2001:db8:64::/96\n\
         dynamic-pool 192.168.255.0/24\ndata-dir {}\n",
        dir.path().display()
    );
    let file = dir.path().join("tayga.conf");
    fs::write(&file, text).expect("writes");
    let device = format!("tayga --mktun --config {}", file.display());
    let setup = [
        device.as_str(),
        "ip link set nat64 up",
        "ip route add 192.168.255.0/24 dev nat64",
        "ip -6 route add 2001:db8:64::/96 dev nat64",
        "ip addr add 192.0.2.80/32 dev lo",
        "ip -6 addr add 2001:db8:1::1/128 dev lo nodad",
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
    ];
    in_namespace(&setup, || {
        let web = TcpListener::bind("192.0.2.80:8080").expect("our own address");
        std::thread::spawn(move || web.incoming().for_each(drop));
        for probe in ["192.0.2.80:8080", "192.0.2.80"] {
            let upstream = ipv4_only();
            let config = format!(
                "[[dns64]]\nprefix = \"2001:db8:64::/96\"\npool = \"p\"\nprobe = \"{probe}\"\nprobe-every = \"100ms\"\n\
                 [[dns64]]\nprefix = \"2001:db8:b::/96\"\npool = \"p\"\nstandby = true"
            );
            let first = tayga(dir.path());
            let server = dns64d(&[&upstream], &config);
            wait_for_address(&server, "www.example", SYNTHESISED);
            drop(first);
            wait_for_address(&server, "www.example", "2001:db8:b::c000:221");
            let _second = tayga(dir.path());
            wait_for_address(&server, "www.example", SYNTHESISED);
            wait_for("both in the log", || {
                let log = server.log();
                log.contains("does not answer") && log.contains("answers again")
            });
        }
    });
}

#[test]
fn forged_echo_replies_keep_no_nat64_in_use() {
    let setup = [
        "ip -6 addr add 2001:db8:64::c000:250/128 dev lo nodad",
        "sysctl -qw net.ipv6.icmp.echo_ignore_all=1",
    ];
    in_namespace(&setup, || {
        let upstream = ipv4_only();
        let config = "[[dns64]]\nprefix = \"2001:db8:64::/96\"\npool = \"p\"\nprobe = \"192.0.2.80\"\nprobe-every = \"100ms\"\n\
             [[dns64]]\nprefix = \"2001:db8:b::/96\"\npool = \"p\"\nstandby = true";
        let server = dns64d(&[&upstream], config);
        let socket =
            Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).expect("root may");
        let address: Ipv6Addr = "2001:db8:64::c000:250".parse().expect("an address");
        let nat64 = SocketAddrV6::new(address, 0, 0, 0).into();
        socket.bind(&nat64).expect("it is here");
        // The number of the process, and the sequence numbers of a counter.
        let [i1, i0] = (server.pid() as u16).to_be_bytes();
        let forge = |sequence: u16| {
            let [s1, s0] = sequence.to_be_bytes();
            let _ = socket.send_to(&[129, 0, 0, 0, i1, i0, s1, s0], &nat64);
        };
        let (started, expected) = (std::time::Instant::now(), "2001:db8:b::c000:221");
        wait_for(expected, || {
            let sent = (started.elapsed().as_millis() / 100) as u16;
            (sent.saturating_sub(20)..sent + 20).for_each(forge);
            self::address(&server, "www.example").is_some_and(|(seen, _)| seen == expected)
        });
    });
}

#[test]
fn clients_are_shared_between_nat64s() {
    let upstream = ipv4_only();
    let block = |prefix: &str| format!("[[dns64]]\nprefix = \"{prefix}\"\npool = \"p\"\n");
    let config = block("2001:db8:a::/96") + &block("2001:db8:b::/96");
    let server = dns64d(&[&upstream], &config);
    // This client has one of them, always the same, also in another process.
    let (seen, _) = address(&server, "www.example").expect("an address");
    assert!(seen == "2001:db8:a::c000:221" || seen == "2001:db8:b::c000:221", "{seen}");
    assert_eq!(server.ask("www.example AAAA").answer.len(), 1);
    let other = dns64d(&[&upstream], &config);
    assert_eq!(address(&other, "www.example").expect("an address").0, seen);
}
