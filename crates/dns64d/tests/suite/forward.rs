//! `[[forward]]`: zones with upstream servers of their own, their transport, their rules, and what happens when they fail.

use std::time::Duration;

use domain::base::iana::Rtype;

use crate::faults::{SYNTHESISED, dns64d, ipv4_only, is_right, wait_for};
use crate::kit::message::Reply;
use crate::kit::script::Script;

/// Starts an upstream that knows all names, with an address of its own.
fn internal() -> Script {
    let script = Script::start(&[]);
    script.others(Rtype::A, "$ 60 A 203.0.113.7");
    script
}

/// The synthesised address of a name of [`internal`].
const INTERNAL: &str = "2001:db8:64::cb00:7107";

fn block(zones: &str, script: &Script, settings: &str) -> String {
    format!("[[forward]]\nzones = [{zones}]\nservers = [\"{}\"]\n{settings}\n", script.address())
}

fn has(reply: &Reply, address: &str) -> bool {
    reply.rcode == "NOERROR" && reply.answer.last().is_some_and(|seen| seen.data == address)
}

/// Returns how often an upstream was asked for a name, and whether by TCP only.
fn asked(script: &Script, name: &str) -> (usize, bool) {
    let asked: Vec<_> = script.asked().into_iter().filter(|asked| asked.name == name).collect();
    (asked.len(), asked.iter().all(|asked| asked.tcp))
}

#[test]
fn zones_have_servers_and_rules_of_their_own() {
    let (public, corp, plain) = (ipv4_only(), internal(), internal());
    let config = block(
        "\"corp.example\", \"10.in-addr.arpa\"",
        &corp,
        "transport = \"tcp\"\ncache = false\nignore-nxdomain = true",
    ) + &block("\"v4only.corp.example\"", &plain, "dns64 = false");
    let server = dns64d(&[&public], &config);
    for (script, name) in [(&corp, "broken.corp.example"), (&public, "broken.example")] {
        script.on(&format!("{name} AAAA"), "NXDOMAIN");
    }
    assert!(has(&server.ask("broken.corp.example AAAA"), INTERNAL));
    assert_eq!(server.ask("broken.example AAAA").rcode, "NXDOMAIN");
    assert!(is_right(&server.ask("www.example AAAA")));
    for n in 1..=2 {
        let reply = server.ask("www.CORP.example AAAA");
        assert!(has(&reply, INTERNAL), "{reply}");
        assert_eq!(asked(&corp, "www.corp.example"), (2 * n, true), "by TCP, and not cached");
    }
    // The longest zone decides; its names are not synthesised, but cached.
    for _ in 1..=2 {
        let reply = server.ask("www.v4only.corp.example AAAA");
        assert_eq!((reply.rcode.as_str(), reply.answer.len()), ("NOERROR", 0), "{reply}");
    }
    assert_eq!(asked(&plain, "www.v4only.corp.example"), (1, false));
    server.ask("1.2.3.10.in-addr.arpa PTR");
    assert_eq!(asked(&corp, "1.2.3.10.in-addr.arpa"), (1, true));
    // An alias leads to another zone, whose rules hold.
    public.on("alias.example AAAA", "alias.example 60 CNAME www.corp.example");
    let reply = server.ask("alias.example AAAA");
    assert!(has(&reply, INTERNAL), "{reply}");
    server.ask("alias.example AAAA");
    assert_eq!(
        asked(&public, "alias.example").0,
        2,
        "an answer with data of that zone is not cached"
    );
    assert!(public.asked().iter().all(|asked| !asked.name.ends_with("corp.example")));
    // The PTR record of a synthesised address.
    let reverse = "7.0.1.7.0.0.b.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR";
    server.ask(reverse);
    assert_eq!(asked(&public, "7.113.0.203.in-addr.arpa").0, 1);
}

#[test]
fn aliases_are_believed_up_to_the_first_name_of_another_zone() {
    let (public, corp, plain) = (ipv4_only(), internal(), internal());
    let config = block("\"corp.example\", \"in.www.example\"", &corp, "")
        + &block("\"cluster.local\", \"app.localhost\"", &plain, "dns64 = false");
    let server = dns64d(&[&public], &config);
    for (question, reply) in [
        // With a tail of its own, for each type; a denial; an alias in between; and AD, for that.
        (
            "www.example AAAA",
            "www.example 60 CNAME api.corp.example; api.corp.example 60 AAAA 2001:db8:bad::1",
        ),
        (
            "www.example A",
            "ad; www.example 60 CNAME api.corp.example; api.corp.example 60 A 203.0.113.66",
        ),
        (
            "nx.example AAAA",
            "NXDOMAIN; nx.example 60 CNAME gone.corp.example; authority; example 60 SOA ns. h. 1 2 3 4 60",
        ),
        (
            "two.example AAAA",
            "two.example 60 CNAME www.example; www.example 60 CNAME api.corp.example; api.corp.example 60 AAAA 2001:db8:bad::1",
        ),
        (
            "k8s.example AAAA",
            "k8s.example 60 CNAME svc.cluster.local; authority; local 60 SOA ns. h. 1 2 3 4 60",
        ),
        (
            "k8s.example A",
            "k8s.example 60 CNAME svc.cluster.local; svc.cluster.local 60 A 203.0.113.77",
        ),
        ("back.corp.example AAAA", "NXDOMAIN"),
        (
            "www.example MX",
            "www.example 60 MX 10 in.www.example; additional; in.www.example 60 A 203.0.113.66; mx.www.example 60 A 192.0.2.33",
        ),
        (
            "www.example HTTPS",
            "www.example 60 TYPE65 \\# 18 000102696e03777777076578616d706c6500; additional; in.www.example 60 AAAA 2001:db8:bad::1",
        ),
    ] {
        public.on(question, reply);
    }
    corp.on(
        "out.corp.example AAAA",
        "out.corp.example 60 CNAME v4.example; v4.example 60 AAAA 2001:db8:bad::2",
    );
    let alias = |alias: &str, end: &str| vec![alias.to_owned(), end.to_owned()];
    for (query, expected) in [
        ("www.example AAAA", alias("api.corp.example.", INTERNAL)),
        ("www.example A +ad", alias("api.corp.example.", "203.0.113.7")),
        ("nx.example AAAA", alias("gone.corp.example.", INTERNAL)),
        ("out.corp.example AAAA", alias("v4.example.", SYNTHESISED)),
        ("k8s.example A", alias("svc.cluster.local.", "203.0.113.7")),
        ("k8s.example AAAA", vec!["svc.cluster.local.".to_owned()]),
        ("app.localhost A", vec!["203.0.113.7".to_owned()]),
    ] {
        let reply = server.ask(query);
        let seen: Vec<_> = reply.answer.iter().map(|record| record.data.clone()).collect();
        assert_eq!((reply.rcode.as_str(), seen), ("NOERROR", expected), "{query}: {reply}");
        assert!(!reply.flags.contains(&"ad"), "one part is not authentic: {reply}");
    }
    for (query, expected) in [("www.example MX", "192.0.2.33"), ("www.example HTTPS", INTERNAL)] {
        let reply = server.ask(query);
        let seen: Vec<_> = reply.additional.iter().map(|record| record.data.as_str()).collect();
        assert_eq!(seen, [expected], "{query}: {reply}");
    }
    let reply = server.ask("two.example AAAA");
    assert!(has(&reply, INTERNAL) && reply.answer.len() == 3, "{reply}");
    assert!(public.asked().iter().all(|asked| !asked.name.ends_with("corp.example")));
}

#[test]
fn the_zone_above_has_the_ds_records_of_a_zone() {
    // RFC 4035 section 3.1.4.1; RFC 8375 section 4 for home.arpa.
    let (public, home) = (ipv4_only(), internal());
    let server = dns64d(&[&public], &block("\"home.arpa\"", &home, ""));
    for name in ["home.arpa", "sub.home.arpa"] {
        assert_eq!(server.ask(&format!("{name} DS +do")).rcode, "NOERROR");
    }
    assert!(has(&server.ask("home.arpa AAAA"), INTERNAL));
    assert_eq!(asked(&public, "home.arpa"), (1, false));
    assert!(public.asked().iter().all(|asked| asked.rtype == Rtype::DS));
    assert_eq!(asked(&home, "sub.home.arpa"), (1, false));
}

#[test]
fn a_zone_whose_servers_are_silent_is_queried_nowhere_else() {
    let (public, mut corp) = (ipv4_only(), internal());
    let timing = "[upstream]\nfirst-timeout = \"100ms\"\ngive-up-after = \"300ms\"\nprobe-after = \"100ms\"\n\
                  [cache]\nfailure-ttl = \"0s\"\n";
    let config = format!("{timing}{}", block("\"corp.example\"", &corp, ""));
    let server = dns64d(&[&public], &config);
    // What is late is not answered here, and asked for again.
    wait_for("an answer", || has(&server.ask("www.corp.example AAAA"), INTERNAL));
    corp.die();
    wait_for("its death", || {
        let reply = server.ask("dead.corp.example AAAA");
        assert_eq!(reply.rcode, "SERVFAIL", "{reply}");
        server.metric("dns64d_upstream_deaths_total") > 0
    });
    wait_for("others are not affected", || is_right(&server.ask("www.example AAAA")));
    wait_for("health tells it, and is good", || {
        let health = server.http("/health");
        health.starts_with("HTTP/1.1 200") && health.contains("dead")
    });
    assert!(public.asked().iter().all(|asked| !asked.name.ends_with("corp.example")));
    corp.come_back();
    wait_for("it answers again", || has(&server.ask("back.corp.example AAAA"), INTERNAL));
}

#[test]
fn queries_are_shared_by_weight_and_a_reload_changes_the_zones() {
    let (heavy, light, corp) = (ipv4_only(), ipv4_only(), internal());
    let weighted = "cache.size = 0\nupstream.weights = [3, 1]\n";
    let server = dns64d(&[&heavy, &light], weighted);
    for n in 0..200 {
        assert!(is_right(&server.ask(&format!("n{n}.example AAAA"))));
    }
    // 400 lookups; 100 are expected at the second server, with a standard deviation of 9.
    let of_light = light.asked().len();
    assert!((50..150).contains(&of_light), "{of_light} of 400");
    let upstreams = [heavy.address(), light.address()];
    server.reload(&upstreams, &format!("{weighted}{}", block("\"corp.example\"", &corp, "")));
    wait_for("the zone has its server", || {
        std::thread::sleep(Duration::from_millis(10));
        has(&server.ask("new.corp.example AAAA"), INTERNAL)
    });
    server.reload(&upstreams, weighted);
    wait_for("the zone has none", || is_right(&server.ask("old.corp.example AAAA")));
}

#[test]
fn a_reload_that_trusts_upstream_less_forgets_what_was_authentic() {
    let script = Script::start(&[("ad.example A", "ad; ad.example 600 A 192.0.2.33")]);
    let server = dns64d(&[&script], "upstream.trust-ad = \"always\"");
    let is_authentic = || server.ask("ad.example A +ad").flags.contains(&"ad");
    assert!(is_authentic());
    server.reload(&[script.address()], "upstream.trust-ad = \"never\"");
    wait_for("an answer without AD", || !is_authentic());
}
