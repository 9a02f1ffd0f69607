//! Answers in the kernel (`[kernel]`), on a real link with a real upstream.

mod death;
mod link;
#[path = "../../../../kernel/tests/differential/odd.rs"]
mod odd;
mod resolving;
mod storms;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output};

use auth::{AaaaPolicy, Auth, AuthConfig, MAX_REPLY};
use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use nix::sys::signal::Signal;
use wire::edns::opt_fixed;
use wire::message::{HEADER, Record, question_end};
use wire::{Namespace, Owner, Qtype, Query, ReplyWriter};

use crate::faults::{SYNTHESISED, ipv4_only, wait_for};
use crate::kit::message::Reply;
use crate::kit::script::Script;
use crate::kit::server::{Kind, Server, free_port};
use crate::nat64::shell;
use link::{CLIENT4, Link, SERVER4, SERVER6};
use odd::make_odd;

/// Environment variable with the number of compared queries, and that number without it.
const QUERIES_VARIABLE: &str = "DNSDYNO_QUERIES";
const QUERIES: u64 = 4_000;
/// Number of queries that are sent at once to each server.
const BATCH: usize = 64;
/// Names that the server answers itself, and reverse names.
const LOCAL_NAMES: [&str; 7] = [
    "localhost",
    "_dns.resolver.arpa",
    "x.invalid",
    "ipv4only.arpa",
    "7.2.0.192.in-addr.arpa",
    "7.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa",
    "0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa",
];
/// Addresses of the names: those of one half are reached through no NAT64.
const NAMES: &str = "126.0.0.0/7";
/// First octets of a name that is an alias of the name that follows them.
const ALIAS: &str = "to-";
/// Settings of a server on the link.
const ALLOW: &str = "allow = [\"10.88.0.0/16\", \"fd88::/64\", \"127.0.0.0/8\"]";
const KERNEL: &str = "[kernel]\nmode = \"cache\"\ndevice = [\"v1\"]\nsize = \"4MiB\"\n";

/// Starts dns64d on the link, at a port of its own, with these tables.
fn start(upstream: SocketAddr, server: &str, tables: &str) -> (Server, u16) {
    let port = free_port();
    (start_at(port, upstream, server, tables), port)
}

/// Starts dns64d on the link, at a port, with these tables.
fn start_at(port: u16, upstream: SocketAddr, server: &str, tables: &str) -> Server {
    let server = Server::start(Kind::Dns64d, &[upstream], &config(port, server, tables));
    let server = server.expect("it starts");
    // Its addresses are bound before the program is attached.
    wait_for("the program is attached", || server.log().contains("ready"));
    server
}

fn config(port: u16, server: &str, tables: &str) -> String {
    let listen = format!("listen = [\"{SERVER4}:{port}\", \"[{SERVER6}]:{port}\"]");
    format!("[server]\n{listen}\n{ALLOW}\n{server}\n{tables}")
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(SERVER4.parse().expect("an address"), port)
}

/// Starts an AuthDNS at an address, which answers until the test ends; aliases of its names are its names too.
fn auth_dns(address: Ipv4Addr) -> (SocketAddr, Namespace) {
    let namespace = Namespace::with_default_zone(NAMES.parse().expect("a prefix"));
    let config = AuthConfig { aaaa: AaaaPolicy::Share(0.4), ..AuthConfig::new(namespace) };
    let socket = UdpSocket::bind((address, 0)).expect("a port");
    let address = socket.local_addr().expect("its address");
    let mut auth = Auth::new(config);
    std::thread::spawn(move || {
        let (mut octets, mut out) = ([0; 4_096], [0; MAX_REPLY]);
        while let Ok((len, from)) = socket.recv_from(&mut octets) {
            let query = &octets[..len];
            if let Some(len) =
                alias(query, &namespace, &mut out).or_else(|| auth.answer(query, &mut out))
            {
                // A server that has ended takes nothing.
                let _ = socket.send_to(&out[..len], from);
            }
        }
    });
    (address, namespace)
}

/// Writes the reply to a query for an alias; returns its length. It has an address of the target, which only the servers for the target know.
fn alias(query: &[u8], namespace: &Namespace, out: &mut [u8]) -> Option<usize> {
    let query = Query::parse(query).ok()?;
    let (len, rest) = query.qname.split_first()?;
    let label = String::from_utf8(rest[..usize::from(*len)].to_ascii_lowercase()).ok()?;
    let target = match label.strip_prefix(ALIAS)? {
        "localhost" => "localhost".to_owned(),
        label => format!("{label}.{}", namespace.zone()),
    };
    let target: wire::Name = target.parse().ok()?;
    let limit = query.udp_limit();
    let mut reply = ReplyWriter::new(out, limit, &query)?;
    reply.answer(Owner::Question, Qtype::CNAME, 3_600, target.as_wire());
    if query.qtype == Qtype::A {
        reply.answer(Owner::Name(target.as_wire()), Qtype::A, 3_600, &[192, 0, 2, 66]);
    }
    Some(reply.finish())
}

/// Rules of a server: none, some of each kind, or those that prefer NAT64 to IPv6.
#[derive(Clone, Copy, Debug)]
enum Rules {
    None,
    Some,
    PreferNat64,
}

impl Rules {
    /// Returns the settings for names of a namespace, which the program follows or leaves to the server; their files are in a folder.
    fn settings(self, dir: &Path, namespace: &Namespace, upstream: SocketAddr) -> String {
        let zone = namespace.zone();
        let dashed = |n| namespace.nth(n).to_string().replace('.', "-");
        let (hosts, list) = (dir.join("hosts"), dir.join("list"));
        let own = match self {
            Rules::None => return String::new(),
            Rules::Some => format!("never = [\"{}.{zone}\"]", dashed(0)),
            Rules::PreferNat64 => format!(
                "always = [\"{}.{zone}\"]\nexclude = [\"::/0\"]\n[upstream]\nclient-subnet = \"pass\"",
                dashed(0)
            ),
        };
        fs::write(&hosts, format!("192.0.2.7 www.{zone}\n")).expect("writes");
        let rules = format!("{}.{zone} nodata\n*.www.{zone} cname www.{zone}\n", dashed(1));
        fs::write(&list, rules).expect("writes");
        // A pool of its own, though its server is that of all.
        let forward = format!(
            "[[forward]]\nzones = [\"{}.{zone}\"]\nservers = [\"{upstream}\"]\n",
            dashed(3)
        );
        format!(
            "[hosts]\nfiles = [{hosts:?}]\n[rules]\nlists = [{list:?}]\n{forward}\
             [synthesis]\nignore-nxdomain = [\"{}.{zone}\"]\n{own}\n",
            dashed(2),
        )
    }
}

/// Returns the number of queries to compare.
fn count_of_queries() -> u64 {
    let count = std::env::var(QUERIES_VARIABLE).ok();
    count.map_or(QUERIES, |count| count.parse().expect(QUERIES_VARIABLE))
}

/// A source of random queries.
struct Random(ChaCha12Rng);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    /// A query for one of so many names, often malformed.
    fn query(&mut self, namespace: &Namespace, names: u64) -> Vec<u8> {
        let number = self.below(names);
        // One in five is among the last addresses.
        let is_last = self.below(5) == 0;
        let number = if is_last { namespace.size() - 1 - number } else { number };
        let [a, b, c, d] = namespace.nth(number).octets();
        let zone = namespace.zone();
        let name = match self.below(11) {
            0 => format!("www.{zone}"),
            1 => format!("x.{a}-{b}-{c}-{d}.{zone}"),
            2 => format!("{a}-{b}-{c}-{d}.{zone}"),
            3 => LOCAL_NAMES[self.below(LOCAL_NAMES.len() as u64) as usize].to_owned(),
            4 => {
                let [a, b, c, d] = namespace.nth(self.below(5)).octets();
                let targets = [&format!("{a}-{b}-{c}-{d}")[..], "www", "localhost"];
                format!("{ALIAS}{}.{zone}", targets[self.below(3) as usize])
            }
            5 => format!("x.www.{zone}"),
            _ => format!("{a:03}-{b:03}-{c:03}-{d:03}.{zone}"),
        };
        let name: wire::Name = name.parse().expect("a name");
        let mut name = name.as_wire().to_vec();
        for octet in name.iter_mut().filter(|octet| octet.is_ascii_alphabetic()) {
            *octet ^= if self.below(4) == 0 { 0x20 } else { 0 };
        }
        let edns = self.below(2) == 0;
        // RD mostly, CD and the other bits seldom.
        let flags =
            [u8::from(self.below(12) > 0), [0, 0, 0, 0x10, 0x20, 0xe0][self.below(6) as usize]];
        let id = (self.0.next_u32() as u16).to_be_bytes();
        let counts = [0, 1, 0, 0, 0, 0, 0, u8::from(edns)];
        let qtype = [28u16, 28, 28, 28, 1, 1, 65, 15, 16, 255, 64, 12][self.below(12) as usize];
        let mut query = [&id[..], &flags, &counts, &name, &qtype.to_be_bytes(), &[0, 1]].concat();
        if edns {
            let size = [0, 512, 600, 1_232, 4_096][self.below(5) as usize];
            // NSID, which has no effect, and a client subnet; a cookie would have another reply from each server.
            let option: &[u8] = match self.below(12) {
                0 => &[0, 3, 0, 0],
                1 => &[0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2],
                _ => &[],
            };
            query.extend(opt_fixed(size, 0, self.below(8) == 0, option.len() as u16));
            query.extend_from_slice(option);
        }
        match self.below(12) {
            0..=1 => self.spoil(&mut query),
            2..=3 => make_odd(&mut query, &mut |n| self.below(n)),
            _ => {}
        }
        query
    }

    /// Queries with different ids that a server answers, for random addresses; `names` chooses of how many names each is.
    fn batch(
        &mut self,
        namespace: &Namespace,
        names: impl Fn(&mut Self) -> u64,
    ) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let names = names(self);
            let mut query = self.query(namespace, names);
            query[..2].copy_from_slice(&(batch.len() as u16).to_be_bytes());
            if !matches!(Query::parse(&query), Err(wire::QueryError::Drop)) {
                let address = if self.below(2) == 0 { SERVER4 } else { SERVER6 };
                batch.push((SocketAddr::new(address.parse().expect("its address"), 0), query));
            }
        }
        batch
    }

    /// Changes, cuts or extends a query behind its id.
    fn spoil(&mut self, query: &mut Vec<u8>) {
        match self.below(4) {
            0 => query.truncate(2 + self.below(query.len() as u64 - 1) as usize),
            1 => query.extend((0..self.below(20)).map(|octet| octet as u8)),
            _ => {
                let at = 2 + self.below(query.len() as u64 - 2) as usize;
                query[at] = self.0.next_u32() as u8;
            }
        }
    }
}

/// Asks servers at two ports; returns their replies in pairs.
fn ask_both(
    link: &mut Link,
    ports: [u16; 2],
    batch: &[(SocketAddr, Vec<u8>)],
) -> Vec<[Vec<u8>; 2]> {
    let queries: Vec<(SocketAddr, &[u8])> = ports
        .into_iter()
        .flat_map(|port| {
            batch.iter().map(move |(at, query)| (SocketAddr::new(at.ip(), port), &query[..]))
        })
        .collect();
    let mut replies = link.ask_all(&queries);
    let others = replies.split_off(batch.len());
    replies.into_iter().zip(others).map(|(one, other)| [one, other]).collect()
}

/// Checks that both replies to each query are equal, with TTLs that differ by some seconds at most.
fn assert_equal(batch: &[(SocketAddr, Vec<u8>)], pairs: &[[Vec<u8>; 2]], seconds: u32) {
    for ((_, query), [one, other]) in batch.iter().zip(pairs) {
        let ((one, ttls_of_one), (other, ttls_of_other)) = (without_ttls(one), without_ttls(other));
        assert_eq!(one, other, "to {query:02x?}");
        let mut pairs = ttls_of_one.iter().zip(&ttls_of_other);
        let near = pairs.all(|(a, b)| a.abs_diff(*b) <= seconds);
        assert!(near, "{ttls_of_one:?} {ttls_of_other:?} to {query:02x?}");
    }
}

/// Returns a reply with TTLs of zero, and the TTLs that it had.
fn without_ttls(reply: &[u8]) -> (Vec<u8>, Vec<u32>) {
    let (mut reply, mut ttls) = (reply.to_vec(), Vec::new());
    let Some(mut at) = question_end(&reply).filter(|_| reply.len() > HEADER) else {
        return (reply, ttls);
    };
    while let Some((record, end)) = Record::read(&reply, at) {
        if record.rtype != Qtype::OPT {
            let place = record.rdata_at - 6;
            ttls.push(record.ttl);
            reply[place..place + 4].fill(0);
        }
        at = end;
    }
    (reply, ttls)
}

#[test]
fn replies_are_those_of_a_server_without_it() {
    Link::run(|link| compare(link, Rules::None));
}

#[test]
fn replies_are_those_of_a_server_without_it_under_all_rules() {
    Link::run(|link| compare(link, Rules::Some));
}

#[test]
fn replies_are_those_of_a_server_without_it_if_nat64_is_preferred() {
    Link::run(|link| compare(link, Rules::PreferNat64));
}

/// Compares the replies of a server that answers in the kernel, under some rules, with those of one that does not.
fn compare(link: &mut Link, rules: Rules) {
    let count = count_of_queries();
    let (upstream, namespace) = auth_dns(Ipv4Addr::LOCALHOST);
    let dir = tempfile::tempdir().expect("a folder");
    let rules = rules.settings(dir.path(), &namespace, upstream);
    // Maps are written after the change to another user.
    let (with, in_kernel) = start(upstream, "user = \"nobody\"", &format!("{rules}{KERNEL}"));
    let (without, plain) = start(upstream, "", &rules);
    let mut random = Random(ChaCha12Rng::seed_from_u64(20));
    let (mut sent, mut slowest) = (0, std::time::Duration::ZERO);
    while sent < count {
        let begun = std::time::Instant::now();
        let batch = random.batch(&namespace, |_| 3);
        sent += batch.len() as u64;
        let pairs = ask_both(link, [in_kernel, plain], &batch);
        // The answers were stored one after the other, on a busy machine long after.
        slowest = slowest.max(begun.elapsed());
        let bound = slowest.as_secs() as u32 + 2;
        assert_equal(&batch, &pairs, bound);
    }
    let answers = with.metric("dns64d_kernel_answers_total");
    assert!(answers > count / 10, "{answers} of {count}");
    if link.repeated == 0 {
        for name in ["queries_udp", "replies"] {
            let name = format!("dns64d_{name}_total");
            wait_for("both have counted all", || {
                with.metric(&name) == sent && without.metric(&name) == sent
            });
        }
        for label in ["type{type=\"AAAA\"}", "type{type=\"MX\"}", "rcode{rcode=\"NXDOMAIN\"}"] {
            let (by, value) = label.split_once('{').expect("a label");
            let name = format!("dns64d_answers_by_{by}_total{{{value}");
            wait_for("equal counts", || with.metric(&name) == without.metric(&name));
        }
    }
    assert!(with.metric("dns64d_kernel_stored_total") > 0);
    assert_eq!(with.metric("dns64d_kernel_lost_total"), 0);
}

/// Asks until the kernel answers; returns the last reply.
fn until_in_kernel(link: &mut Link, server: &Server, port: u16, query: &str) -> Reply {
    let answers = || server.metric("dns64d_kernel_answers_total");
    let before = answers();
    let mut reply = None;
    wait_for("an answer of the kernel", || {
        reply = Some(link.ask_text(at(port), query));
        answers() > before
    });
    reply.expect("it has asked")
}

#[test]
fn ttls_get_smaller_and_answers_end() {
    Link::run(|link| {
        let script = Script::start(&[]);
        script.others(domain::base::iana::Rtype::A, "$ 4 A 192.0.2.33");
        let (server, port) = start(script.address(), "", KERNEL);
        until_in_kernel(link, &server, port, "www.example AAAA");
        let (asked, mut largest) = (script.asked().len(), 0);
        wait_for("a smaller TTL of the kernel", || {
            let before = server.metric("dns64d_kernel_answers_total");
            let ttl = link.ask_text(at(port), "www.example AAAA").answer[0].ttl;
            let is_of_kernel = server.metric("dns64d_kernel_answers_total") > before;
            // The first one may be late, with the last second of its TTL.
            largest = if is_of_kernel { largest.max(ttl) } else { largest };
            is_of_kernel && ttl < largest
        });
        wait_for("another query to upstream", || {
            link.ask_text(at(port), "www.example AAAA");
            script.asked().len() > asked
        });
    });
}

#[test]
fn failures_are_told_by_the_server_and_no_longer_than_it_keeps_them() {
    Link::run(|link| {
        let upstream = ipv4_only();
        for qtype in ["A", "AAAA"] {
            upstream.on(&format!("www.example {qtype}"), "SERVFAIL");
        }
        let tables = format!("[cache]\nfailure-ttl = \"2s\"\n{KERNEL}");
        let (server, port) = start(upstream.address(), "", &tables);
        let in_kernel =
            || ["stored", "answers"].map(|n| server.metric(&format!("dns64d_kernel_{n}_total")));
        let query = "www.example AAAA";
        for _ in 0..20 {
            assert_eq!(link.ask_text(at(port), query).rcode, "SERVFAIL");
        }
        assert_eq!(in_kernel(), [0, 0]);
        upstream.on("www.example A", "www.example 60 A 192.0.2.33");
        upstream.on("www.example AAAA", "");
        wait_for("the end of the failure", || link.ask_text(at(port), query).rcode == "NOERROR");
        let reply = until_in_kernel(link, &server, port, query);
        assert_eq!(reply.answer[0].data, SYNTHESISED);
    });
}

#[test]
fn what_a_reload_or_an_operator_removes_is_not_answered() {
    Link::run(|link| {
        let (upstream, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
        let socket = dir.path().join("control");
        let tables = format!("[control]\nsocket = \"{}\"\n{KERNEL}", socket.display());
        let (server, port) = start(upstream.address(), "", &tables);
        let query = "www.example AAAA";
        let data = |reply: &Reply| reply.answer[0].data.clone();
        let reload = |settings: &str, tables: &str, times: usize| {
            server.reload(&[upstream.address()], &config(port, settings, tables));
            let done = || server.log().matches("configuration read again").count() == times;
            wait_for("the reload", done);
        };
        assert_eq!(data(&until_in_kernel(link, &server, port, query)), SYNTHESISED);
        // Another prefix.
        let other = "dns64 = [{ prefix = \"2001:db8:65::/96\" }]\n";
        server.reload(&[upstream.address()], &(other.to_owned() + &config(port, "", &tables)));
        wait_for("the reload", || server.log().contains("configuration read again"));
        wait_for("the other prefix", || {
            data(&link.ask_text(at(port), query)) == "2001:db8:65::c000:221"
        });
        let reply = until_in_kernel(link, &server, port, query);
        assert_eq!(data(&reply), "2001:db8:65::c000:221");
        // An order of the operator: upstream is asked again.
        until_in_kernel(link, &server, port, query);
        let asked = upstream.asked().len();
        let ctl = Command::new(env!("CARGO_BIN_EXE_dns64d"))
            .args(["ctl", "--socket"])
            .arg(&socket)
            .args(["flush", "all"])
            .output();
        assert!(ctl.expect("it starts").status.success());
        link.ask_text(at(port), query);
        assert!(upstream.asked().len() > asked, "the answer was flushed");
        // A rule for the name, and then none.
        let list = dir.path().join("list");
        fs::write(&list, "www.example nxdomain\n").expect("writes");
        let rules = format!("[rules]\nlists = [\"{}\"]\n{tables}", list.display());
        until_in_kernel(link, &server, port, query);
        reload("", &rules, 2);
        wait_for("the rule", || link.ask_text(at(port), query).rcode == "NXDOMAIN");
        assert_eq!(link.ask_text(at(port), query).rcode, "NXDOMAIN");
        reload("", &tables, 3);
        wait_for("no rule", || link.ask_text(at(port), query).rcode == "NOERROR");
        // A client that is no longer permitted.
        until_in_kernel(link, &server, port, query);
        reload(&format!("deny = [\"{CLIENT4}\"]"), &tables, 4);
        wait_for("the refusal", || link.ask_text(at(port), query).rcode == "REFUSED");
        assert_eq!(link.ask_text(at(port), query).rcode, "REFUSED");
    });
}

#[test]
fn replies_of_the_kernel_are_limited() {
    Link::run(|link| {
        let limits = "[limits]\nresponses-per-second = 2\nslip = 1\n";
        let upstream = ipv4_only();
        let (server, port) = start(upstream.address(), "", &format!("{limits}{KERNEL}"));
        until_in_kernel(link, &server, port, "www.example AAAA");
        // Over the limit each reply is truncated, also those of the kernel.
        let counts = || {
            ["rate_limited", "truncated"].map(|name| server.metric(&format!("dns64d_{name}_total")))
        };
        let before = server.metric("dns64d_kernel_answers_total");
        wait_for("truncated replies of the kernel", || {
            let cut = (0..9).filter(|_| {
                let reply = link.ask_text(at(port), "www.example AAAA");
                reply.flags.contains(&"tc")
            });
            cut.count() > 4 && server.metric("dns64d_kernel_answers_total") > before + 4
        });
        assert!(counts().into_iter().all(|count| count > 4), "{:?}", counts());
    });
}

/// Starts dns64d with a configuration on the link, which it is to refuse; returns its exit code and what it says.
fn refused(program: &[&str], config: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("config");
    fs::write(&file, format!("metrics.listen = \"\"\n{config}")).expect("writes");
    let words = program.iter().copied().chain([env!("CARGO_BIN_EXE_dns64d"), "--config"]);
    let words: Vec<&str> = words.collect();
    let output = Command::new(words[0]).args(&words[1..]).arg(&file).output();
    let Output { status, stderr, .. } = output.expect("it starts");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Returns the number of the program on a device.
fn program_on(device: &str) -> Option<String> {
    let output = Command::new("ip").args(["-d", "link", "show", device]).output().expect("ip");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, program) = said.split_once("prog/xdp")?;
    let mut words = program.split_whitespace().skip_while(|word| *word != "id");
    words.nth(1).map(str::to_owned)
}

/// Returns whether the device `v1` has a program.
fn has_program() -> bool {
    program_on("v1").is_some()
}

#[test]
fn nothing_stays_and_errors_are_clear() {
    Link::run(|link| {
        let upstream = ipv4_only();
        let (mut server, port) = start(upstream.address(), "", KERNEL);
        until_in_kernel(link, &server, port, "www.example AAAA");
        assert!(has_program());
        // A second server on the same device.
        let (code, said) = refused(&[], &config(free_port(), "", KERNEL));
        let parts = ["kernel.device: cannot attach to v1", "xdp off"];
        assert!(code == Some(2) && parts.iter().all(|part| said.contains(part)), "{said}");
        server.signal(Signal::SIGKILL);
        server.wait();
        wait_for("the program is detached", || !has_program());
        // A device that does not exist, and a user without the right.
        let missing = KERNEL.replace("v1", "none0");
        let (code, said) = refused(&[], &config(free_port(), "", &missing));
        assert!(
            code == Some(2) && said.contains("kernel.device") && said.contains("none0"),
            "{said}"
        );
        let ordinary = ["unshare", "--user", "--map-root-user"];
        let (code, said) = refused(&ordinary, &config(free_port(), "user = \"root\"", KERNEL));
        if said.contains("unshare") {
            skip::because(&said);
        } else {
            let parts = ["kernel.mode", "may not load BPF programs", "run as root"];
            assert!(code == Some(2) && parts.iter().all(|part| said.contains(part)), "{said}");
        }
        assert!(!has_program());
        // A device that goes: the server answers on others.
        let (server, _) = start(upstream.address(), "", KERNEL);
        shell("ip link del v1").expect("root may");
        wait_for("the server is healthy", || server.http("/health").starts_with("HTTP/1.1 200"));
    });
}

#[test]
fn a_configuration_is_checked_with_its_devices() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("config");
    let check = |config: &str| {
        fs::write(&file, config).expect("writes");
        let program = env!("CARGO_BIN_EXE_dns64d");
        let output = Command::new(program).arg("--check").arg("--config").arg(&file).output();
        let Output { status, stdout, stderr } = output.expect("it starts");
        (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
    };
    let with = |more: &str| format!("kernel = {{ mode = \"cache\", device = [\"lo\"] }}\n{more}");
    let (code, said) = check(&with(""));
    // It is loaded, or a warning says that this user may not.
    assert!(code == Some(0) && said.contains("no errors found"), "{said}");
    let (code, said) = check(&with("server.log-queries = 5"));
    assert!(code == Some(2) && said.contains("server.log-queries: kernel.mode"), "{said}");
    let (code, said) = check(&with("").replace("lo", "none0"));
    assert!(code == Some(2) && said.contains("kernel.device") && said.contains("none0"), "{said}");
}
