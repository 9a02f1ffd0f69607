//! Cookies (RFC 7873): for clients without a question, and for a real upstream: BIND, which answers nobody over UDP who has
//! not shown its cookie.

use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::faults::{dns64d, ipv4_only, is_right, wait_for};
use crate::kit::message::{COOKIE, Reply};
use crate::kit::server::{Kind, Server};
use crate::validators::{Daemon, bind};

/// A zone in which every name has A and no AAAA.
const ZONE: &str = "$TTL 60
@ SOA ns host 1 7200 3600 86400 300
@ NS ns
* A 192.0.2.33
";

#[test]
fn clients_without_a_question_get_a_cookie() {
    let script = ipv4_only();
    let server = dns64d(&[&script], "");
    let socket = server.socket_of(Ipv4Addr::LOCALHOST);
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let ask = |cookie: &[u8]| {
        let mut query = b"\x12\x34\x01\0\0\0\0\0\0\0\0\x01\0\0\x29\x04\xd0\0\0\0\0\0".to_vec();
        query.extend([4 + cookie.len() as u8, 0, 10, 0, cookie.len() as u8]);
        query.extend(cookie);
        socket.send(&query).expect("loopback");
        let mut room = [0; 512];
        let len = socket.recv(&mut room).expect("a reply");
        Reply::parse(&room[..len])
    };
    let first = ask(b"ABCDEFGH");
    let cookie = first.edns.as_ref().and_then(|edns| edns.option(COOKIE)).expect("a cookie");
    assert_eq!((first.rcode.as_str(), &cookie[..8]), ("NOERROR", &b"ABCDEFGH"[..]), "{first}");
    assert_eq!(cookie.len(), 24);
    for (shown, rcode) in [
        (cookie.to_vec(), "NOERROR"),
        ([&b"HGFEDCBA"[..], &cookie[8..]].concat(), "BADCOOKIE"),
        ([&cookie[..8], &[1; 9]].concat(), "BADCOOKIE"),
        (cookie[..7].to_vec(), "FORMERR"),
    ] {
        let reply = ask(&shown);
        assert_eq!(reply.rcode, rcode, "{shown:?}: {reply}");
    }
}

#[test]
fn options_of_a_later_version_of_edns_are_not_read() {
    let script = ipv4_only();
    let server = dns64d(&[&script], "");
    // Four octets are no cookie of version 0.
    for (query, rcode) in [
        ("plain.example AAAA +option=10", "FORMERR"),
        ("plain.example AAAA +version=1 +option=10", "BADVERS"),
    ] {
        assert_eq!(server.ask(query).rcode, rcode, "{query}");
    }
}

#[test]
fn a_bind_that_wants_cookies_gets_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let zone = dir.path().join("zone");
    fs::write(&zone, ZONE).expect("writes");
    let authority = Daemon::start("named", |port, dir| {
        let options =
            "recursion no; dnssec-validation no; answer-cookie yes; require-server-cookie yes; };";
        let zone = zone.display();
        bind(
            port,
            dir,
            &format!("{options} zone \"example\" {{ type primary; file \"{zone}\"; }};"),
        )
    });
    let Some(authority) = authority else { return };
    let server = Server::start(Kind::Dns64d, &[authority.address], "").expect("it starts");
    for n in 0..20 {
        let reply = server.ask(&format!("n{n}.example AAAA"));
        assert!(is_right(&reply), "{reply}\n{}", authority.log());
    }
    // The first query has no cookie of BIND; all others do, and none needs TCP.
    let counts = || {
        let names = ["upstream_bad_cookies", "upstream_cookies", "upstream_tcp"];
        names.map(|name| server.metric(&format!("dns64d_{name}_total")))
    };
    wait_for("all replies have cookies", || counts()[1] == 41);
    assert_eq!(counts(), [1, 41, 0]);
    // Without cookies of ours BIND does not ask for them.
    let plain = "upstream.cookies = false";
    let server = Server::start(Kind::Dns64d, &[authority.address], plain).expect("it starts");
    assert!(is_right(&server.ask("plain.example AAAA")));
    wait_for("the counters", || server.metric("dns64d_upstream_replies_total") == 2);
    assert_eq!(server.metric("dns64d_upstream_cookies_total"), 0);
}
