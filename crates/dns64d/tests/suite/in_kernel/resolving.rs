//! Resolution in the kernel (`mode = "all"`): plain queries there, all others by the workers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use domain::base::iana::Rtype;

use super::link::{CLIENT4, Link, SERVER4};
use super::{Random, Rules, ask_both, assert_equal, auth_dns, count_of_queries, start};
use crate::faults::wait_for;
use crate::kit::script::{Asked, Script};
use crate::kit::server::Server;
use chacha20::ChaCha12Rng;
use chacha20::rand_core::SeedableRng;
use wire::Query;

/// Settings of a server that resolves in the kernel, and of one that does not.
pub(super) const ALL: &str = "[kernel]\nmode = \"all\"\ndevice = [\"v1\"]\nsize = \"4MiB\"\n";
const PREFIX: &str = "[[dns64]]\nprefix = \"2001:db8:64::/96\"\n";
/// Settings with which no query is sent again since the machine is busy.
const PATIENT: &str =
    "[upstream]\nfirst-timeout = \"10s\"\nmin-timeout = \"10s\"\ngive-up-after = \"30s\"\n";
/// Settings with which a lost query is soon sent again.
pub(super) const QUICK: &str = "[upstream]\nfirst-timeout = \"1500ms\"\nmin-timeout = \"1500ms\"\n";
/// The A record of a name, and the address that is made from it.
const A: &str = "60 A 192.0.2.33";
const SYNTHESISED: &str = "2001:db8:64::c000:221";

pub(super) fn script() -> Script {
    let address: Ipv4Addr = CLIENT4.parse().expect("an address");
    let script = Script::start_at(IpAddr::V4(address), &[]).expect("it is ours");
    script.others(Rtype::A, &format!("$ {A}"));
    script
}

/// Starts a server that resolves in the kernel, and waits until it does.
fn start_all(link: &mut Link, upstream: &Script, tables: &str) -> (Server, u16) {
    let (server, port) = start(upstream.address(), "", &format!("{PREFIX}{tables}{ALL}"));
    let mut number = 0;
    wait_for("a query that the kernel resolves", || {
        number += 1;
        link.ask_text(at(port), &format!("first{number}.example AAAA"));
        server.metric("dns64d_kernel_resolved_total") > 0
    });
    (server, port)
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(SERVER4.parse().expect("an address"), port)
}

/// What a query led to; if the client has sent it again, the counts are as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Course {
    rcode: String,
    answer: String,
    /// Queries resolved in the kernel, and handed over with a reply.
    resolved: u64,
    handed: u64,
    /// Types of the queries to upstream.
    asked: Vec<String>,
}

/// Returns what a query is to lead to: return code, first answer, numbers of queries resolved and handed over, types of the queries
/// to upstream.
fn led_to(rcode: &str, answer: &str, counts: [u64; 2], asked: &str) -> Course {
    let asked = asked.split_whitespace().map(str::to_owned).collect();
    let [resolved, handed] = counts;
    Course { rcode: rcode.to_owned(), answer: answer.to_owned(), resolved, handed, asked }
}

/// Servers, and how to ask them.
struct Bench<'a> {
    link: &'a mut Link,
    server: &'a Server,
    upstream: &'a Script,
    port: u16,
}

impl Bench<'_> {
    /// Sends a query and checks what it leads to.
    fn check(&mut self, query: &str, expected: &Course) {
        assert_eq!(self.course(query, expected), *expected, "{query}");
    }

    /// Sends a query and returns what it led to.
    fn course(&mut self, query: &str, expected: &Course) -> Course {
        let Bench { link, server, upstream, port } = self;
        let of = |name: &str| server.metric(&format!("dns64d_kernel_{name}_total"));
        let counts = || ["resolved", "handed"].map(of);
        let (before, asked, repeated) = (counts(), upstream.asked().len(), link.repeated);
        let reply = link.ask_text(at(*port), query);
        let after = counts();
        let asked = upstream.asked().split_off(asked);
        let rcode = reply.rcode.clone();
        let answer = reply.answer.first().map(|record| record.data.clone()).unwrap_or_default();
        if link.repeated > repeated {
            return Course { rcode, answer, ..expected.clone() };
        }
        let (resolved, handed) = (after[0] - before[0], after[1] - before[1]);
        let asked = asked.iter().map(|asked| asked.rtype.to_string()).collect();
        Course { rcode, answer, resolved, handed, asked }
    }

    /// Waits until an answer to a query is copied to the kernel.
    fn until_stored(&mut self, query: &str, expected: &Course) {
        let stored = || self.server.metric("dns64d_kernel_stored_total");
        let before = stored();
        self.check(query, expected);
        wait_for("a copy in the kernel", || {
            self.server.metric("dns64d_kernel_stored_total") > before
        });
    }
}

#[test]
fn plain_queries_are_resolved_and_others_handed_over() {
    Link::run_with(script, |link, upstream| {
        let (server, port) = start_all(link, &upstream, PATIENT);
        let a = format!("$ {A}");
        let on = |name: &str, aaaa: &str, a: &str| {
            upstream.on(&format!("{name}.example AAAA"), aaaa);
            upstream.on(&format!("{name}.example A"), &a.replace('$', &format!("{name}.example")));
        };
        on("plain", "", &a);
        on("no-soa", "aa; option 3", &a);
        on("two", "", "$ 60 A 192.0.2.33; $ 60 A 192.0.2.34");
        on("twice", "", "$ 60 A 192.0.2.33; $ 60 A 192.0.2.33");
        on("native", "native.example 60 AAAA 2001:db8::1", &a);
        on("absent", "NXDOMAIN", "NXDOMAIN");
        on("chain", "", "$ 60 CNAME plain.example; plain.example 60 A 192.0.2.33");
        on("excluded", "excluded.example 60 AAAA ::ffff:192.0.2.1", &a);
        on("four", "four.example 60 AAAA \\# 4 c0000221", &a);
        on("cut", "tc; cut.example 60 AAAA 2001:db8::2", &a);
        on("broken", "SERVFAIL", "SERVFAIL");
        on("nothing", "", "");
        let mut bench = Bench { link, server: &server, upstream: &upstream, port };
        for (query, expected) in [
            ("plain.example AAAA", led_to("NOERROR", SYNTHESISED, [1, 0], "AAAA A")),
            // From the answers.
            ("PLAIN.example AAAA", led_to("NOERROR", SYNTHESISED, [0, 0], "")),
            ("two.example AAAA +noedns", led_to("NOERROR", SYNTHESISED, [1, 0], "AAAA A")),
            // The reply that is there is used.
            ("no-soa.example AAAA", led_to("NOERROR", SYNTHESISED, [0, 1], "AAAA A")),
            ("native.example AAAA", led_to("NOERROR", "2001:db8::1", [0, 1], "AAAA")),
            ("absent.example AAAA", led_to("NXDOMAIN", "", [0, 1], "AAAA")),
            ("excluded.example AAAA", led_to("NOERROR", SYNTHESISED, [0, 1], "AAAA A")),
            ("four.example AAAA", led_to("NOERROR", SYNTHESISED, [0, 1], "AAAA A")),
            ("cut.example AAAA", led_to("NOERROR", "2001:db8::2", [0, 1], "AAAA AAAA")),
            // The reply to the second query is not.
            ("chain.example AAAA", led_to("NOERROR", "plain.example.", [0, 1], "AAAA A AAAA A")),
            ("nothing.example AAAA", led_to("NOERROR", "", [0, 1], "AAAA A AAAA A")),
            ("twice.example AAAA", led_to("NOERROR", SYNTHESISED, [0, 1], "AAAA A AAAA A")),
            // SERVFAIL, again with CD, and A.
            ("broken.example AAAA", led_to("SERVFAIL", "", [0, 1], "AAAA AAAA A")),
            // The sockets' from the start.
            ("other1.example AAAA +cd", led_to("NOERROR", SYNTHESISED, [0, 0], "AAAA A")),
            ("other2.example AAAA +do", led_to("NOERROR", SYNTHESISED, [0, 0], "AAAA A")),
            ("other3.example A", led_to("NOERROR", "192.0.2.33", [0, 0], "A")),
            ("ipv4only.arpa AAAA", led_to("NOERROR", "2001:db8:64::c000:aa", [0, 0], "")),
        ] {
            bench.check(query, &expected);
        }
    });
}

#[test]
fn timeouts_and_forged_replies_end_in_right_answers() {
    Link::run_with(script, |link, upstream| {
        let (server, port) = start_all(link, &upstream, QUICK);
        for (name, aaaa) in [
            ("lost", "silent ||"),
            ("wrong-id", "wrong-id; $ 60 AAAA 2001:db8::bad && "),
            ("wrong-port", "wrong-port; $ 60 AAAA 2001:db8::bad && "),
            ("wrong-case", "wrong-case; $ 60 AAAA 2001:db8::bad && "),
            ("wrong-name", "wrong-name; $ 60 AAAA 2001:db8::bad && "),
            ("wrong-type", "wrong-type; $ 60 AAAA 2001:db8::bad && "),
            ("garbage", "garbage && "),
        ] {
            let name = format!("{name}.example");
            upstream.on(&format!("{name} AAAA"), &aaaa.replace('$', &name));
            upstream.on(&format!("{name} A"), &format!("{name} {A}"));
            let reply = link.ask_text(at(port), &format!("{name} AAAA"));
            assert_eq!(reply.answer[0].data, SYNTHESISED, "{name}");
        }
        assert!(server.metric("dns64d_kernel_strays_total") >= 2);
        // Ids, ports and letter cases differ from query to query of the program: it sends the first one for each name. Those of sockets,
        // more the busier the machine is, share some ports.
        let mut asked = upstream.asked();
        let mut seen = std::collections::HashSet::new();
        asked.retain(|asked| !asked.name.starts_with("first") && seen.insert(asked.name.clone()));
        let different = |of: &dyn Fn(&Asked) -> String| {
            let all: std::collections::HashSet<String> = asked.iter().map(of).collect();
            all.len()
        };
        let most = asked.len() / 2;
        assert!(different(&|asked| asked.id.to_string()) > most);
        assert!(different(&|asked| asked.from.port().to_string()) > most);
        assert!(asked.iter().any(|asked| asked.spelling != asked.name));
    });
}

#[test]
fn names_with_rules_and_a_reload_are_the_sockets() {
    Link::run_with(script, |link, upstream| {
        let tables = format!("[synthesis]\nnever = [\"never.example\"]\n{PATIENT}");
        let (server, port) = start_all(link, &upstream, &tables);
        let mut bench = Bench { link, server: &server, upstream: &upstream, port };
        for (query, expected) in [
            ("www.never.example AAAA", led_to("NOERROR", "", [0, 0], "AAAA")),
            ("never.example AAAA", led_to("NOERROR", "", [0, 0], "AAAA")),
            ("anever.example AAAA", led_to("NOERROR", SYNTHESISED, [1, 0], "AAAA A")),
        ] {
            bench.check(query, &expected);
        }
        // Another prefix: nothing of before is given.
        let other = PREFIX.replace("64::", "65::");
        let config = super::config(port, "", &format!("{other}{ALL}"));
        server.reload(&[upstream.address()], &config);
        wait_for("the reload", || server.log().contains("configuration read again"));
        let before = server.metric("dns64d_kernel_resolved_total");
        let mut number = 0;
        wait_for("a query that the kernel resolves", || {
            number += 1;
            let reply = link.ask_text(at(port), &format!("after{number}.never.example AAAA"));
            assert_eq!(reply.answer[0].data, "2001:db8:65::c000:221");
            server.metric("dns64d_kernel_resolved_total") > before
        });
    });
}

#[test]
fn replies_are_those_of_a_server_that_resolves_over_sockets() {
    compare(Rules::Some);
}

#[test]
fn replies_are_those_of_a_server_that_resolves_over_sockets_if_nat64_is_preferred() {
    compare(Rules::PreferNat64);
}

/// Compares the replies of a server that resolves in the kernel, under some rules, with those of one that does not.
fn compare(rules: Rules) {
    let upstream = || auth_dns(CLIENT4.parse().expect("an address"));
    Link::run_with(upstream, |link, (upstream, namespace)| {
        let count = count_of_queries();
        let dir = tempfile::tempdir().expect("a folder");
        let rules = rules.settings(dir.path(), &namespace, upstream);
        let (with, in_kernel) = start(upstream, "", &format!("{PREFIX}{rules}{ALL}"));
        let (_without, plain) = start(upstream, "", &format!("{PREFIX}{rules}"));
        let mut random = Random(ChaCha12Rng::seed_from_u64(21));
        let (mut sent, begun) = (0, Instant::now());
        let resolved = || with.metric("dns64d_kernel_resolved_total");
        wait_for("a query that the kernel resolves", || {
            let query = random.query(&namespace, 60_000);
            if Query::parse(&query).is_ok() {
                link.ask(at(in_kernel), &query);
            }
            resolved() > 0
        });
        while sent < count {
            // Half of the names are new ones, however many there were.
            let names = |random: &mut Random| {
                if random.below(2) == 0 { 60_000 } else { namespace.size() }
            };
            let batch = random.batch(&namespace, names);
            sent += batch.len() as u64;
            let pairs = ask_both(link, [in_kernel, plain], &batch);
            // Each was stored at its own time since the start.
            assert_equal(&batch, &pairs, begun.elapsed().as_secs() as u32 + 1);
        }
        // One query in some twenty is one for the program and for a new name.
        let handed = with.metric("dns64d_kernel_handed_total");
        assert!(resolved() > count / 200 && handed > count / 200, "{} {handed}", resolved());
    });
}

#[test]
fn equal_queries_at_once_are_two_queries_to_upstream() {
    Link::run_with(script, |link, upstream| {
        let (server, port) = start_all(link, &upstream, PATIENT);
        upstream.on("equal.example AAAA", "hold");
        upstream.on("equal.example A", &format!("equal.example {A}"));
        let pending = link.ask_at_once(at(port), "equal.example AAAA", 50);
        wait_for("49 queries at the sockets", || {
            server.metric("dns64d_kernel_equal_total") == 49
                && server.metric("dns64d_joined_total") >= 48
        });
        upstream.release();
        let replies = pending.replies();
        assert_eq!(replies.len(), 50);
        assert!(replies.iter().all(|reply| reply.answer[0].data == SYNTHESISED));
        // One by the kernel, and one by the only worker.
        let asked = upstream.asked();
        let first = |asked: &&Asked| asked.name == "equal.example" && asked.rtype == Rtype::AAAA;
        assert_eq!(asked.iter().filter(first).count(), 2);
    });
}

#[test]
fn failures_and_long_answers_are_the_sockets_while_they_have_them() {
    Link::run_with(script, |link, upstream| {
        let tables = format!("{PATIENT}[cache]\nfailure-ttl = \"60s\"\n");
        let (server, port) = start_all(link, &upstream, &tables);
        for (name, a) in [("broken", "SERVFAIL"), ("long", "many long.example 40")] {
            let aaaa = if a == "SERVFAIL" { a } else { "" };
            upstream.on(&format!("{name}.example AAAA"), aaaa);
            upstream.on(&format!("{name}.example A"), a);
        }
        let mut bench = Bench { link, server: &server, upstream: &upstream, port };
        let first = "2001:db8:64::c000:201";
        bench.until_stored("broken.example AAAA", &led_to("SERVFAIL", "", [0, 1], "AAAA AAAA A"));
        // The reply to A is too long for the program.
        bench.until_stored("long.example AAAA", &led_to("NOERROR", first, [0, 1], "AAAA A AAAA A"));
        for _ in 0..3 {
            bench.check("broken.example AAAA", &led_to("SERVFAIL", "", [0, 0], ""));
            bench.check("long.example AAAA", &led_to("NOERROR", first, [0, 0], ""));
        }
    });
}

#[test]
fn ports_that_a_reload_avoids_are_not_used_any_more() {
    Link::run_with(script, |link, upstream| {
        let (server, port) = start_all(link, &upstream, PATIENT);
        let upstream_table = format!("{PATIENT}avoid-ports = [\"1024-40000\"]\n");
        let config = super::config(port, "", &format!("{PREFIX}{upstream_table}{ALL}"));
        server.reload(&[upstream.address()], &config);
        wait_for("the reload", || server.log().contains("configuration read again"));
        let resolved = || server.metric("dns64d_kernel_resolved_total");
        let (before, mut number) = (resolved(), 0);
        wait_for("a query that the kernel resolves", || {
            number += 1;
            link.ask_text(at(port), &format!("after{number}.example AAAA"));
            resolved() > before
        });
        for number in 0..20 {
            let (before, asked) = (resolved(), upstream.asked().len());
            link.ask_text(at(port), &format!("next{number}.example AAAA"));
            let asked = upstream.asked().split_off(asked);
            // The sockets keep a port for a while.
            if resolved() > before {
                assert!(asked.iter().all(|asked| asked.from.port() > 40_000), "{asked:?}");
            }
        }
        assert!(resolved() > before + 10);
    });
}
