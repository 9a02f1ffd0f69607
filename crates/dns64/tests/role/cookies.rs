//! Cookies for upstream servers (RFC 7873) when queries with them are lost, or answered by others.

use wire::{Qtype, Rcode};

use crate::GLOBAL;
use crate::bench::*;

/// Returns the data of the cookie of a query, if it has one: its last option.
fn cookie(sent: &Sent) -> Option<&[u8]> {
    let at = sent.bytes.windows(3).position(|octets| octets == [0, 10, 0])?;
    Some(&sent.bytes[at + 4..])
}

/// Composes a reply with an OPT record that has these options.
fn with_options(sent: &Sent, rcode: Rcode, options: &[u8]) -> Vec<u8> {
    let answers: &[(Qtype, &[u8])] = if rcode.0 == 0 { &[(Qtype::A, GLOBAL)] } else { &[] };
    let mut message = reply(&sent.bytes, Rcode(rcode.0 & 15), answers);
    message[11] = 1;
    message.extend_from_slice(&[0, 0, 41, 4, 208, (rcode.0 >> 4) as u8, 0, 0, 0]);
    message.extend_from_slice(&(options.len() as u16).to_be_bytes());
    message.extend_from_slice(options);
    message
}

/// Returns a cookie option.
fn option(client: &[u8], server: &[u8]) -> Vec<u8> {
    [&[0, 10, 0, (client.len() + server.len()) as u8][..], client, server].concat()
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
        let out = bench.reply(&second, &with_options(&second, Rcode::NOERROR, &[]));
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

#[test]
fn replies_with_other_cookies_are_forged() {
    let mut bench = Bench::new("upstream.cookies = true\ncache.size = 0");
    let sent = bench.ask(1, &query("www.test", Qtype::A, 1)).upstream.remove(0);
    let own = cookie(&sent).expect("a cookie").to_vec();
    assert_eq!(own.len(), 8);
    let mut other = own.clone();
    other[0] ^= 0x80;
    for options in [option(&other, &[5; 8]), option(&own[..7], &[]), option(&own, &[5; 7])] {
        let out = bench.reply(&sent, &with_options(&sent, Rcode::NOERROR, &options));
        assert!(out.clients.is_empty() && out.upstream.is_empty(), "{options:?}");
    }
    assert_eq!(bench.role.counters().upstream_mismatched, 3);
    let right = option(&own, &[6; 32]);
    let out = bench.reply(&sent, &with_options(&sent, Rcode::NOERROR, &right));
    assert_eq!(out.clients.len(), 1);
    let sent = bench.ask(1, &query("www.test", Qtype::A, 2)).upstream.remove(0);
    assert_eq!(cookie(&sent), Some(&right[4..]));
    // A refused one is replaced at once.
    let renewed = option(&own, &[7; 8]);
    let out = bench.reply(&sent, &with_options(&sent, Rcode::BADCOOKIE, &renewed));
    assert_eq!(cookie(&out.upstream[0]), Some(&renewed[4..]));
    // From now on a reply without one is repeated over a stream.
    let again = &out.upstream[0];
    let out = bench.reply(again, &with_options(again, Rcode::NOERROR, &[]));
    assert!(out.clients.is_empty() && out.upstream.is_empty());
    assert_eq!(bench.role.drain_to_streams().count(), 1);
}
