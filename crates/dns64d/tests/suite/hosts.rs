//! `[hosts]`: names of hosts files and of leases, followed as these change.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::faults::{SYNTHESISED, dns64d, ipv4_only, wait_for};
use crate::kit::server::{Kind, Server};

/// Returns the return code and the data of an answer whose TTLs are short.
fn shown(server: &Server, query: &str) -> String {
    let reply = server.ask(query);
    assert!(reply.answer.iter().all(|record| record.ttl <= 60), "{reply}");
    reply.shown()
}

/// Replaces a file at once, as its writers do.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).expect("writes");
    fs::rename(new, path).expect("renames");
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs()
}

#[test]
fn hosts_files_and_leases_are_followed() {
    let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
    let at = |name: &str| dir.path().join(name);
    let (hosts, list, leases, kea) = (at("hosts"), at("list"), at("leases"), at("kea.csv"));
    fs::write(
        &hosts,
        "\u{feff}192.0.2.33\tPrinter.lan printer # a comment\n2001:db8::7 six.lan\n192.0.2.9 listed.lan\n\
         fe80::1%lo0 x.lan\nx y\n::ffff:192.0.2.10 mapped.lan\n",
    )
    .expect("writes");
    fs::write(&list, "listed.lan nodata\n").expect("writes");
    let (later, soon) = (now() + 100_000, now() + 4);
    fs::write(
        &leases,
        format!(
            "{later} 02:00:00:00:00:01 192.0.2.33 laptop 01:02\n0 02:00:00:00:00:02 192.0.2.34 Endless.dhcp.lan *\n\
             1 02:00:00:00:00:03 192.0.2.35 expired *\n{later} 02:00:00:00:00:04 192.0.2.36 * *\n\
             {later} 02:00:00:00:00:05 192.0.2.37 wpad *\n{later} 02:00:00:00:00:06 192.0.2.38 www.bank.example *\n\
             {soon} 02:00:00:00:00:07 192.0.2.39 soon *\nduid 00:01\n{later} 7 2001:db8::8 laptop 00:01\n"
        ),
    )
    .expect("writes");
    // The last row of an address holds, over the files of a clean-up; then declined, reclaimed, deleted.
    const HEAD: &str = "address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state,user_context";
    let row = |address, name, lifetime, state| {
        format!("{address},02:00:00:00:00:01,,{lifetime},{later},1,0,0,{name},{state},\n")
    };
    fs::write(at("kea.csv.2"), format!("{HEAD}\n{}", row("192.0.2.50", "old", 60, 0)))
        .expect("writes");
    let rows = [
        row("192.0.2.50", "new.kea.lan.", 60, 0),
        row("192.0.2.51", "declined", 60, 1),
        row("192.0.2.52", "gone", 60, 0),
        row("192.0.2.52", "gone", 60, 2),
        row("192.0.2.53", "deleted", 60, 0),
        row("192.0.2.53", "deleted", 0, 0),
    ];
    fs::write(&kea, format!("{HEAD}\n{}", rows.concat())).expect("writes");
    let config = format!(
        "rules.lists = [\"{}\"]\n[hosts]\nfiles = [\"{}\"]\nleases = [\
         {{ file = \"{}\", format = \"dnsmasq\", domain = \"dhcp.lan\" }}, {{ file = \"{}\", format = \"kea\", domain = \"Kea.lan\" }}]",
        list.display(),
        hosts.display(),
        leases.display(),
        kea.display()
    );
    let server = dns64d(&[&script], &config);
    // Upstream knows all names, with this address.
    let upstream = "NOERROR 192.0.2.33";
    for (query, expected) in [
        ("printer.lan A", "NOERROR 192.0.2.33".to_owned()),
        ("PRINTER.lan AAAA", format!("NOERROR {SYNTHESISED}")),
        ("printer AAAA", format!("NOERROR {SYNTHESISED}")),
        ("six.lan AAAA", "NOERROR 2001:db8::7".into()),
        ("six.lan A", "NOERROR".into()),
        ("listed.lan A", "NOERROR".into()),
        ("mapped.lan A", "NOERROR 192.0.2.10".into()),
        ("mapped.lan AAAA", "NOERROR 2001:db8:64::c000:20a".into()),
        ("33.2.0.192.in-addr.arpa PTR", "NOERROR printer.lan.".into()),
        (
            "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR",
            "NOERROR six.lan.".into(),
        ),
        ("laptop.dhcp.lan AAAA", "NOERROR 2001:db8::8".into()),
        ("endless.dhcp.lan A", "NOERROR 192.0.2.34".into()),
        ("expired.dhcp.lan A", upstream.into()),
        ("wpad.dhcp.lan A", upstream.into()),
        ("www.bank.example A", upstream.into()),
        ("new.kea.lan A", "NOERROR 192.0.2.50".into()),
        ("50.2.0.192.in-addr.arpa PTR", "NOERROR new.kea.lan.".into()),
        ("old.kea.lan A", upstream.into()),
        ("declined.kea.lan A", upstream.into()),
        ("gone.kea.lan A", upstream.into()),
        ("deleted.kea.lan A", upstream.into()),
    ] {
        assert_eq!(shown(&server, query), expected, "{query}");
    }
    let reverse = "1.2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR";
    let reply = server.ask(reverse);
    assert!(reply.answer.last().is_some_and(|record| record.data == "printer.lan."), "{reply}");
    // A lease ends by itself; files are replaced, and appended to.
    wait_for("its end", || shown(&server, "soon.dhcp.lan A") == upstream);
    replace(&leases, &format!("{later} 02:00:00:00:00:09 192.0.2.40 other *\n"));
    wait_for("the new lease", || shown(&server, "other.dhcp.lan A") == "NOERROR 192.0.2.40");
    assert_eq!(shown(&server, "endless.dhcp.lan A"), upstream, "it has gone");
    let more = rows.concat() + &row("192.0.2.50", "moved", 60, 0);
    fs::write(&kea, format!("{HEAD}\n{more}")).expect("writes");
    wait_for("the new name", || shown(&server, "moved.kea.lan A") == "NOERROR 192.0.2.50");
    replace(&hosts, "192.0.2.60 printer.lan\n");
    wait_for("the new address", || shown(&server, "printer.lan A") == "NOERROR 192.0.2.60");
    fs::write(&hosts, b"192.0.2.61 printer.lan # caf\xe9\n").expect("writes");
    wait_for("the next address", || shown(&server, "printer.lan A") == "NOERROR 192.0.2.61");
    // Names of a file that cannot be read stay, and those of others change and end.
    fs::remove_file(&hosts).expect("removes");
    wait_for("a warning", || server.log().contains("the names read before stay in use"));
    let lease = |until| format!("{until} 02:00:00:00:00:0a 192.0.2.41 last *\n");
    replace(&leases, &lease(later));
    wait_for("the last lease", || shown(&server, "last.dhcp.lan A") == "NOERROR 192.0.2.41");
    replace(&leases, &lease(now() + 4));
    wait_for("its end", || shown(&server, "last.dhcp.lan A") == upstream);
    assert_eq!(shown(&server, "printer.lan A"), "NOERROR 192.0.2.61");
    assert_eq!(server.log().matches("the names read before stay in use").count(), 1);
    let said =
        Server::start(Kind::Dns64d, &[script.address()], &config).err().expect("a file is missing");
    assert!(said.contains("hosts.files") && said.contains("there is no such file"), "{said}");
}
