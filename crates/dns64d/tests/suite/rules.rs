//! Rules for single names from lists and response policy zones: what clients get, and their reload.

use std::fs;
use std::time::Duration;

use domain::base::iana::Rtype;
use nix::sys::signal::Signal;

use crate::faults::{SYNTHESISED, dns64d, ipv4_only, is_right, wait_for};
use crate::kit::client::Query;
use crate::kit::script::Asked;
use crate::kit::server::{Kind, Server};

const LIST: &str = "ads.example nxdomain\n*.ads.example nodata\ngood.ads.example pass\n\
    internal.example never\nnative.example always\nshop.example cname safe.example\n\
    printer.lan 192.0.2.33\nboth.lan 192.0.2.7 2001:db8::7\n\
    box.corp.lan 192.0.2.7\nalias.corp.lan cname safe.example\nlocalhost 192.0.2.33\nnoisy.example drop\n\
    first.lan cname second.lan\nsecond.lan cname printer.lan\n*.tube.example cname restrict.tube.example\n*.net.example cname box.net.example\nnever.lan never\ntail.corp.lan cname printer.lan\nown.lan cname app.localhost\nround.lan cname back.lan\nback.lan cname round.lan\n";

#[test]
fn names_are_answered_by_their_rules() {
    let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
    for (question, reply) in [
        ("native.example AAAA", "native.example 60 AAAA 2001:db8::1"),
        ("far.example AAAA", "far.example 60 CNAME both.lan; both.lan 60 AAAA 2001:db8:bad::1"),
        ("far.example A", "far.example 60 CNAME both.lan"),
        ("in.corp.example AAAA", "in.corp.example 60 CNAME box.corp.lan"),
        ("lan MX", "lan 60 MX 10 printer.lan; additional; printer.lan 60 A 198.51.100.1"),
        ("never.lan AAAA", "never.lan 60 CNAME printer.lan"),
        ("never.lan A", "never.lan 60 CNAME printer.lan"),
        ("www.corp.lan AAAA", "www.corp.lan 60 CNAME printer.lan"),
        ("box.net.example AAAA", "box.net.example 60 CNAME n.net.example"),
        (
            "box.net.example A",
            "box.net.example 60 CNAME n.net.example; n.net.example 60 A 192.0.2.33",
        ),
        ("to.example A", "to.example 60 CNAME x.net.example; x.net.example 60 A 192.0.2.99"),
        (
            "to.example AAAA",
            "to.example 60 CNAME box.net.example; box.net.example 60 CNAME n.net.example",
        ),
    ] {
        script.on(question, reply);
    }
    let (list, zone) = (dir.path().join("list"), dir.path().join("zone"));
    fs::write(&list, LIST).expect("writes");
    let records = "$TTL 60\n@ SOA ns. host. 1 2 3 4 5\nads.example CNAME other.example.\n\
        zone.example CNAME .\n*.wild.example CNAME only.wild.example.\ntext.example TXT \"a policy\"\n32.1.0.0.127.rpz-ip CNAME .\n";
    fs::write(&zone, records).expect("writes");
    let config = format!(
        "rules.lists = [\"{}\"]\nrules.zones = [\"{}\"]\nsynthesis.never = [\"corp.lan\"]",
        list.display(),
        zone.display()
    );
    let server = dns64d(&[&script], &config);
    for (query, expected) in [
        ("ads.example AAAA", "NXDOMAIN"),
        ("ADS.example A", "NXDOMAIN"),
        ("www.ads.example A", "NOERROR"),
        ("good.ads.example A", "NOERROR 192.0.2.33"),
        ("internal.example AAAA", "NOERROR"),
        ("internal.example A", "NOERROR 192.0.2.33"),
        ("www.internal.example AAAA", &format!("NOERROR {SYNTHESISED}")),
        ("native.example AAAA", &format!("NOERROR {SYNTHESISED}")),
        ("shop.example AAAA", &format!("NOERROR safe.example {SYNTHESISED}")),
        ("shop.example A", "NOERROR safe.example 192.0.2.33"),
        ("shop.example CNAME", "NOERROR safe.example"),
        ("printer.lan A", "NOERROR 192.0.2.33"),
        ("printer.lan AAAA", &format!("NOERROR {SYNTHESISED}")),
        ("printer.lan MX", "NOERROR"),
        ("both.lan AAAA", "NOERROR 2001:db8::7"),
        ("box.corp.lan AAAA", "NOERROR"),
        ("box.corp.lan A", "NOERROR 192.0.2.7"),
        ("alias.corp.lan AAAA", "NOERROR safe.example"),
        ("localhost A", "NOERROR 192.0.2.33"),
        ("app.localhost A", "NOERROR 127.0.0.1"),
        // A rule or a local name also answers at the end of an alias of upstream's or of a rule's.
        ("first.lan A", "NOERROR second.lan. printer.lan. 192.0.2.33"),
        ("first.lan AAAA", &format!("NOERROR second.lan. printer.lan. {SYNTHESISED}")),
        ("first.lan MX", "NOERROR second.lan. printer.lan."),
        ("own.lan AAAA", "NOERROR app.localhost. ::1"),
        ("far.example AAAA", "NOERROR both.lan. 2001:db8::7"),
        ("far.example A", "NOERROR both.lan. 192.0.2.7"),
        ("in.corp.example AAAA", "NOERROR box.corp.lan."),
        // What is never synthesised stays so.
        ("never.lan AAAA", "NOERROR printer.lan."),
        ("never.lan A", "NOERROR printer.lan. 192.0.2.33"),
        ("www.corp.lan AAAA", "NOERROR printer.lan."),
        ("tail.corp.lan AAAA", "NOERROR printer.lan."),
        // A wildcard may contain its own target.
        ("www.tube.example AAAA", &format!("NOERROR restrict.tube.example. {SYNTHESISED}")),
        ("www.tube.example A", "NOERROR restrict.tube.example. 192.0.2.33"),
        ("restrict.tube.example A", "NOERROR 192.0.2.33"),
        // Upstream leads from the target back into the wildcard.
        ("a.net.example A", "NOERROR box.net.example. n.net.example. 192.0.2.33"),
        ("a.net.example AAAA", &format!("NOERROR box.net.example. n.net.example. {SYNTHESISED}")),
        ("box.net.example AAAA", &format!("NOERROR n.net.example. {SYNTHESISED}")),
        ("to.example A", "NOERROR x.net.example. box.net.example. n.net.example. 192.0.2.33"),
        ("to.example AAAA", &format!("NOERROR box.net.example. n.net.example. {SYNTHESISED}")),
        ("a.wild.example AAAA", &format!("NOERROR only.wild.example. {SYNTHESISED}")),
        ("zone.example AAAA", "NXDOMAIN"),
        ("text.example TXT", "NOERROR \"a policy\""),
        ("text.example AAAA", "NOERROR"),
        ("other.example AAAA", &format!("NOERROR {SYNTHESISED}")),
    ] {
        let reply = server.ask(query);
        let seen = reply.shown().replace("safe.example.", "safe.example");
        assert_eq!(seen, expected, "{query}: {reply}");
        let negative = reply.answer.is_empty();
        assert!(!negative || !reply.authority.is_empty(), "{query} has no SOA record: {reply}");
    }
    assert!(server.ask("first.lan AAAA").errors().eq([29]), "it is told that they are synthesised");
    assert!(server.ask("lan MX").additional.is_empty(), "upstream does not know what a rule says");
    for query in ["round.lan AAAA", "n.net.example A"] {
        assert_eq!(server.ask(query).rcode, "SERVFAIL", "{query}: a loop");
    }
    let local = ["ads.example", "zone.example", "noisy.example", "shop.example", "printer.lan"];
    for name in local.into_iter().chain(["app.localhost", "second.lan", "both.lan", "box.corp.lan"])
    {
        assert!(script.asked().iter().all(|asked| asked.name != name), "{name} went upstream");
    }
    let noisy = Query::parse("noisy.example A");
    assert!(noisy.ask(server.address(), Duration::from_millis(500)).is_none());
    wait_for("they are counted", || server.metric("dns64d_ruled_total") == 36);
    wait_for("records in the log", || server.log().contains("left out"));
}

#[test]
fn targets_of_rules_are_queried_in_parallel_too() {
    let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
    script.on("native.example AAAA", "native.example 60 AAAA 2001:db8::1");
    let list = dir.path().join("list");
    fs::write(&list, LIST.to_owned() + "far.lan cname native.example\n").expect("writes");
    let config = format!("synthesis.parallel = true\nrules.lists = [\"{}\"]", list.display());
    let server = dns64d(&[&script], &config);
    assert_eq!(server.ask("far.lan AAAA").shown(), "NOERROR native.example. 2001:db8::1");
    let is_a = |asked: &Asked| asked.name == "native.example" && asked.rtype == Rtype::A;
    wait_for("A beside AAAA", || script.asked().iter().any(is_a));
    let shown = server.ask("first.lan AAAA").shown();
    assert_eq!(shown, format!("NOERROR second.lan. printer.lan. {SYNTHESISED}"));
}

#[test]
fn what_is_left_as_it_is_keeps_the_alias_of_its_rule() {
    let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
    for (question, reply) in [
        ("native.example AAAA", "native.example 60 AAAA 2001:db8::1"),
        ("native.example A", ""),
        ("far.example AAAA", "far.example 60 CNAME native.example"),
        ("far.example A", "far.example 60 CNAME native.example"),
        ("bogus.example AAAA", "SERVFAIL; ede 6"),
    ] {
        script.on(question, reply);
    }
    let list = dir.path().join("list");
    let aliases = "own.lan cname native.example\nlong.lan cname own.lan\nfar.lan cname far.example\nbogus.lan cname bogus.example\n";
    fs::write(&list, aliases).expect("writes");
    let list = format!("rules.lists = [\"{}\"]", list.display());
    let prefix = "[[dns64]]\nprefix = \"2001:db8:64::/96\"";
    for config in [
        format!("{list}\nsynthesis.always = [\".\"]"),
        format!("{list}\nsynthesis.exclude = [\"::/0\"]"),
        format!("{list}\n{prefix}\nipv4 = \"drop\""),
    ] {
        let server = dns64d(&[&script], &config);
        for (query, expected) in [
            ("own.lan AAAA", "NOERROR native.example. 2001:db8::1"),
            ("long.lan AAAA", "NOERROR own.lan. native.example. 2001:db8::1"),
            ("far.lan AAAA", "NOERROR far.example. native.example. 2001:db8::1"),
            ("bogus.lan A", "NOERROR bogus.example. 192.0.2.33"),
        ] {
            assert_eq!(server.ask(query).shown(), expected, "{config} {query}");
        }
        assert!(script.asked().iter().all(|asked| !asked.name.ends_with("lan")), "{config}");
    }
}

#[test]
fn rules_are_read_again_and_errors_change_nothing() {
    let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
    let list = dir.path().join("list");
    fs::write(&list, "").expect("writes");
    let config = format!("rules.lists = [\"{}\"]", list.display());
    let server = dns64d(&[&script], &config);
    let ask = || server.ask("name.example AAAA").shown().replace("safe.example.", "safe.example");
    let right = format!("NOERROR {SYNTHESISED}");
    assert_eq!(ask(), right);
    let becomes = |rules: &str, expected: &str| {
        fs::write(&list, rules).expect("writes");
        server.signal(Signal::SIGHUP);
        wait_for(rules, || ask() == expected);
    };
    // What the cache has is of the time before, or of another rule.
    becomes("name.example nxdomain", "NXDOMAIN");
    becomes("name.example cname safe.example", &format!("NOERROR safe.example {SYNTHESISED}"));
    becomes("", &right);
    becomes("name.example never", "NOERROR");
    becomes("other.example always\n", &right);
    becomes("name.example nodata", "NOERROR");
    fs::write(&list, "good.example never\nname.example block").expect("writes");
    server.signal(Signal::SIGHUP);
    wait_for("the error is told", || server.log().contains("nothing was changed"));
    let log = server.log();
    assert!(log.contains("line 2: `block` is no rule: write nxdomain"), "{log}");
    assert_eq!(ask(), "NOERROR");
    assert!(is_right(&server.ask("others.example AAAA")));
    let error = Server::start(Kind::Dns64d, &[script.address()], &config).err();
    assert!(error.is_some_and(|said| said.contains("rules.lists") && said.contains("line 2")));
}

#[test]
fn a_new_rule_reaches_the_targets_of_cached_aliases() {
    let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
    let reply = "www.example 600 CNAME name.example; name.example 600 A 192.0.2.33";
    script.on("www.example A", reply);
    let list = dir.path().join("list");
    fs::write(&list, "").expect("writes");
    let server = dns64d(&[&script], &format!("rules.lists = [\"{}\"]", list.display()));
    let ask = || server.ask("www.example A").shown();
    assert_eq!(ask(), "NOERROR name.example. 192.0.2.33");
    let mx = "example 600 MX 10 name.example; additional; name.example 600 A 192.0.2.33";
    script.on("example MX", mx);
    assert_eq!(server.ask("example MX").additional.len(), 1);
    for (rules, expected) in [
        ("name.example 192.0.2.7", "NOERROR name.example. 192.0.2.7"),
        ("other.example 192.0.2.7", "NOERROR name.example. 192.0.2.33"),
        ("name.example cname safe.test", "NOERROR name.example. safe.test. 192.0.2.33"),
    ] {
        fs::write(&list, rules).expect("writes");
        server.signal(Signal::SIGHUP);
        wait_for(rules, || ask() == expected);
        // Upstream does not know what a rule says.
        assert!(server.ask("example MX").additional.is_empty(), "{rules}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_not_said_to_be_missing() {
    let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
    let path = dir.path().join("loop");
    std::os::unix::fs::symlink("loop", &path).expect("a link to itself");
    let config = format!("[rules]\nlists = [\"{}\"]", path.display());
    let error = Server::start(Kind::Dns64d, &[script.address()], &config).err();
    let error = error.expect("it cannot start");
    assert!(error.contains("it cannot be read"), "{error}");
}
