//! Tests of how adapters are read, checked and rendered into the files of a server.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::adapter::catalogue::Catalogue;
use crate::testbed::place::Place;

pub(crate) const GOOD: &str = r#"
name = "x"
title = "X"
roles = ["dns64"]
package = "x-server"
binaries = ["no-such-x", "sh"]
version = { arguments = ["-v"], after = "X " }
[start]
arguments = ["-c", "{{ dir }}/x.conf"]
environment = { X_THREADS = "{{ threads }}" }
[[files]]
path = "x.conf"
text = '''
listen {{ listen.v6 }}
{% if since("1.2") %}new{% endif %}
'''
"#;

fn parse(text: &str) -> Result<Adapter, AdapterError> {
    Adapter::parse(text, Path::new("x.toml"))
}

#[test]
fn errors_have_their_place() {
    assert!(parse(GOOD).is_ok());
    let daemon = GOOD.replace("[start]", "[start]\ndaemon = true");
    let (kept, leaves) = ("\"/etc/x.conf\"\n", "\"/etc/../x\"\n");
    assert!(parse(&daemon.replace("\"x.conf\"\n", kept)).is_ok());
    assert!(parse(&daemon.replace("\"x.conf\"\n", leaves)).is_err());
    let table = [
        (GOOD.replace("title", "titel"), "x.toml:3:1: unknown field `titel`"),
        (GOOD.replace("\"dns64\"]", "\"dns65\"]"), "x.toml:4:10: unknown variant `dns65`"),
        (GOOD.replace("name = \"x\"", "name = \"X y\""), "x.toml:1:1: the name `X y`"),
        (GOOD.replace("\"x.conf\"\n", "\"../x\"\n"), "x.toml:1:1: the path `../x`"),
        (GOOD.replace("\"x.conf\"\n", "\"/etc/x.conf\"\n"), "x.toml:1:1: the path `/etc/x.conf`"),
        (GOOD.replace("listen.v6", "listen.v7"), "x.toml:14:1: "),
        (GOOD.replace("endif", "endfi"), "x.toml:15:1: "),
        (GOOD.replace("{{ threads }}", "{{ treads }}"), "x.toml:10:1: "),
        (GOOD.replace("[start]", "[stop]\nsignal = \"HUPP\"\n[start]"), "x.toml:9:10: `HUPP`"),
        (GOOD.replace("[start]", "[ready]\ntimeout = \"5\"\n[start]"), "x.toml:9:11: `5`"),
    ];
    for (text, start) in table {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(start), "{error}\nwanted {start}");
    }
}

#[test]
fn a_server_of_the_users_own() {
    let mut custom = Custom::new("/opt/x/x -p {{ listen.port }} {{ dir }}/x.conf");
    custom.files.insert("x.conf".to_owned(), "threads {{ threads }}\n".to_owned());
    let adapter = Adapter::custom("x", Role::Dns64, &custom).unwrap();
    assert_eq!((adapter.listen.port, adapter.roles.as_slice()), (53, [Role::Dns64].as_slice()));
    // The shell gets the line as it is.
    assert_eq!(adapter.start.arguments[1].get_ref(), &custom.command);
    assert!(adapter.program().is_ok() && adapter.version.is_none());
    let table = [
        ("X", Custom::new("x"), "server X:1:1: the name `X`"),
        ("x", Custom::new("x {{ nothing }}"), "server x:1:1: undefined value in `x {{ nothing }}`"),
        ("x", Custom::new(" "), "server x:1:1: it has neither a `command` nor an `address`"),
        ("x", Custom { port: 0, ..Custom::new("x") }, "server x:1:1: `listen` needs a port"),
    ];
    for (name, custom, start) in table {
        let error = Adapter::custom(name, Role::Dns64, &custom).unwrap_err().to_string();
        assert!(error.starts_with(start), "{error}");
    }
}

#[test]
fn servers_are_given_all_authdns() {
    let place =
        |last, port| Place { v4: Ipv4Addr::new(192, 0, 2, last), v6: Ipv6Addr::LOCALHOST, port };
    let catalogue = Catalogue::load(None).unwrap();
    for adapter in catalogue.iter().filter(|adapter| !adapter.front) {
        let asks = |setting: &Setting| setting.role != Role::Authoritative;
        for (port, sample) in [53, 5300]
            .into_iter()
            .flat_map(|port| adapter.samples().filter(asks).map(move |sample| (port, sample)))
        {
            let upstreams = vec![place(77, 53), place(78, port)];
            let setting = Setting { upstream: upstreams[0], upstreams, ..sample };
            let rendered = adapter.templates().map(|t| template::render(t.get_ref(), &setting));
            let text = rendered.collect::<Result<String, _>>().unwrap();
            let count = |ip: &str| text.matches(ip).count();
            assert!(count("192.0.2.77") > 0, "{}: {text}", adapter.name);
            assert_eq!(count("192.0.2.77"), count("192.0.2.78"), "{}: {text}", adapter.name);
            let only_53 = ["mtd64", "mtd64-ng"].contains(&&*adapter.name);
            assert!(port == 53 || only_53 || text.contains("5300"), "{}: {text}", adapter.name);
        }
        let asks = adapter.roles.iter().any(|role| *role != Role::Authoritative);
        assert_eq!(adapter.asks_several(), asks, "{}", adapter.name);
    }
    assert!(catalogue.get("dnsdist+unbound").unwrap().asks_several());
    let own = Custom::new("x -n {{ upstream.v4 }}");
    assert!(!Adapter::custom("x", Role::Dns64, &own).unwrap().asks_several());
}

#[test]
fn programs_are_found() {
    let mut adapter = parse(GOOD).unwrap();
    let found = adapter.find_program(std::ffi::OsStr::new("/nowhere:/bin"));
    assert_eq!(found, Some("/bin/sh".into()));
    adapter.binaries = vec!["no-such-x".to_owned()];
    let error = adapter.program().unwrap_err().to_string();
    assert!(error.contains("apt-get install x-server"), "{error}");
    assert!(adapter.check_role(Role::Dns64).is_ok());
    let error = adapter.check_role(Role::Authoritative).unwrap_err().to_string();
    assert!(error.contains("as authoritative; its adapter supports dns64"), "{error}");
}
