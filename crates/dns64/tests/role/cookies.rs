//! Cookies for upstream servers (RFC 7873) when queries with them are lost.

use wire::{Qtype, Rcode};

use crate::GLOBAL;
use crate::bench::*;

/// Returns the data of the cookie of a query, if it has one: its last option.
fn cookie(sent: &Sent) -> Option<&[u8]> {
    let at = sent.bytes.windows(3).position(|octets| octets == [0, 10, 0])?;
    Some(&sent.bytes[at + 4..])
}

/// Composes a reply with an OPT record without options.
fn with_opt(sent: &Sent) -> Vec<u8> {
    let mut message = reply(&sent.bytes, Rcode::NOERROR, &[(Qtype::A, GLOBAL)]);
    message[11] = 1;
    message.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    message
}

#[test]
fn a_firewall_that_drops_queries_with_cookies_is_noticed() {
    let mut bench = Bench::new("upstream.cookies = true");
    for n in 0..4 {
        let name = format!("n{n}.test");
        let first = bench.ask(1, &query(&name, Qtype::A, n)).upstream.remove(0);
        assert!(cookie(&first).is_some(), "{n}");
        let mut again = Vec::new();
        while again.is_empty() {
            again = bench.wait(1);
        }
        let second = again[0].1.upstream.remove(0);
        assert!(cookie(&second).is_none(), "sent again without a cookie");
        let out = bench.reply(&second, &with_opt(&second));
        assert_eq!(out.clients.len(), 1);
    }
    let sent = bench.ask(1, &query("n4.test", Qtype::A, 4)).upstream.remove(0);
    assert!(cookie(&sent).is_none(), "queries have no cookies any more");
    // Names that nobody answers say nothing about cookies.
    let mut bench = Bench::new("upstream.cookies = true\nupstream.give-up-after = \"1s\"");
    for n in 0..9 {
        let sent = bench.ask(1, &query(&format!("n{n}.test"), Qtype::A, n)).upstream.remove(0);
        assert!(cookie(&sent).is_some(), "{n}");
        bench.wait(1_200);
    }
}
