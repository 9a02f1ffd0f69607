//! `[[view]]`: names, rules and zones of some clients; the cache is shared where the answers are the same for all.

use std::fs;

use domain::base::iana::Rtype;

use crate::faults::{SYNTHESISED, dns64d, ipv4_only, wait_for};
use crate::kit::script::Script;
use crate::kit::server::has_ipv6;

/// Returns how often an upstream was asked for a name.
fn asked(script: &Script, name: &str) -> usize {
    script.asked().iter().filter(|asked| asked.name == name).count()
}

#[test]
fn some_clients_have_rules_and_zones_of_their_own_and_share_the_rest_of_the_cache() {
    if !has_ipv6() {
        return skip::because("no IPv6 on loopback");
    }
    let (public, corp) = (ipv4_only(), Script::start(&[]));
    corp.others(Rtype::A, "$ 60 A 203.0.113.7");
    const INTERNAL: &str = "2001:db8:64::cb00:7107";
    for (question, reply) in [
        ("native.example AAAA", "native.example 60 AAAA 2001:db8::1"),
        ("alias.example AAAA", "alias.example 60 CNAME secret.example"),
        (
            "alias.example A",
            "alias.example 60 CNAME secret.example; secret.example 60 A 192.0.2.33",
        ),
        (
            "tail.example A",
            "tail.example 60 CNAME www.corp.example; www.corp.example 60 A 192.0.2.33",
        ),
        ("tail.example AAAA", "tail.example 60 CNAME www.corp.example"),
        (
            "svc.example HTTPS",
            "svc.example 60 TYPE65 \\# 18 0001 06 736563726574 07 6578616d706c65 00",
        ),
    ] {
        public.on(question, reply);
    }
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).expect("writes");
        format!("[\"{}\"]", dir.path().join(name).display())
    };
    let config = format!(
        "rules.lists = {}\n[synthesis]\nnever = [\"closed.example\"]\n\
         [[view]]\nclients = [\"::1\"]\nnever = [\"Secret.example\"]\nalways = [\"native.example\", \"closed.example\"]\n\
         [view.rules]\nlists = {}\n[[view.forward]]\nzones = [\"corp.example\"]\nservers = [\"{}\"]\n",
        file("all", "ads.example nxdomain\nboth.example nxdomain\n"),
        file("own", "ads.example pass\nhidden.example nodata\nboth.example cname www.example\n"),
        corp.address(),
    );
    let server = dns64d(&[&public], &config);
    let right = format!("NOERROR {SYNTHESISED}");
    let internal = format!("NOERROR {INTERNAL}");
    // Each client asks twice. The second answer comes from the cache, which must not give it the answer of another view.
    for (name, others, own) in [
        ("secret.example AAAA", right.clone(), "NOERROR".to_owned()),
        ("secret.example A", "NOERROR 192.0.2.33".into(), "NOERROR 192.0.2.33".into()),
        ("native.example AAAA", "NOERROR 2001:db8::1".into(), right.clone()),
        ("closed.example AAAA", "NOERROR".into(), right.clone()),
        ("www.corp.example AAAA", right.clone(), internal),
        (
            "alias.example AAAA",
            format!("NOERROR secret.example. {SYNTHESISED}"),
            "NOERROR secret.example.".into(),
        ),
        (
            "tail.example A",
            "NOERROR www.corp.example. 192.0.2.33".into(),
            "NOERROR www.corp.example. 203.0.113.7".into(),
        ),
        (
            "tail.example AAAA",
            format!("NOERROR www.corp.example. {SYNTHESISED}"),
            format!("NOERROR www.corp.example. {INTERNAL}"),
        ),
        ("ads.example AAAA", "NXDOMAIN".into(), right.clone()),
        ("hidden.example AAAA", right.clone(), "NOERROR".into()),
        ("both.example AAAA", "NXDOMAIN".into(), format!("NOERROR www.example. {SYNTHESISED}")),
    ] {
        for query in
            [name.to_owned(), format!("{name} +v6"), name.to_owned(), format!("{name} +v6")]
        {
            let expected = if query.ends_with("+v6") { &own } else { &others };
            let reply = server.ask(&query);
            assert_eq!(&reply.shown(), expected, "{query}: {reply}");
        }
    }
    for (query, count) in [("svc.example HTTPS", 1), ("svc.example HTTPS +v6", 0)] {
        let additional = server.ask(query).additional.into_iter();
        assert_eq!(additional.filter(|seen| seen.rtype == Rtype::AAAA).count(), count, "{query}");
    }
    // The own servers are asked by the clients of the view only, and by them only.
    assert!(corp.asked().iter().all(|asked| asked.name == "www.corp.example"));
    assert!(asked(&public, "www.corp.example") > 0 && asked(&public, "hidden.example") > 0);
    // A name that no view treats otherwise has one answer in the cache for all clients, and so have records without a rule.
    for (first, second) in [("shared.example AAAA", "+v6"), ("again.example AAAA +v6", "")] {
        let name = first.split(' ').next().expect("a name");
        assert_eq!(server.ask(first).shown(), right);
        let before = asked(&public, name);
        assert_eq!(server.ask(&format!("{name} AAAA {second}")).shown(), right);
        assert_eq!(asked(&public, name), before, "{name} is in the cache");
    }
    let before = asked(&public, "alias.example");
    server.ask("alias.example AAAA");
    server.ask("alias.example AAAA +v6");
    assert_eq!(asked(&public, "alias.example"), before, "each has its own");
    // Another view after a reload.
    server.reload(
        &[public.address()],
        &config.replace("clients = [\"::1\"]", "clients = [\"127.0.0.0/8\"]"),
    );
    wait_for("the other clients", || server.ask("secret.example AAAA").shown() == "NOERROR");
    assert_eq!(server.ask("secret.example AAAA +v6").shown(), right);
}
