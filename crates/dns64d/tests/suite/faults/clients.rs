//! Clients that flood, send nonsense, or hold connections.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use domain::base::iana::Rtype;

use super::{A, MAX_WAIT, dns64d, ipv4_only, is_right, recovers, wait_for};
use crate::kit::client::{self, Query};
use crate::kit::message::Reply;
use crate::kit::script::Script;
use crate::kit::server::Server;

/// Sends many different questions from an address and reads no reply.
fn flood(server: &Server, from: [u8; 4], count: usize) {
    let socket = server.socket_of(from);
    let mut query = Query::parse("flood-000000.example AAAA").octets;
    for n in 0..count {
        query[..2].copy_from_slice(&(n as u16).to_be_bytes());
        query[19..25].copy_from_slice(format!("{n:06}").as_bytes());
        // A full buffer drops it, which does not matter for a flood.
        let _ = socket.send(&query);
    }
}

#[test]
fn a_flood_while_upstream_is_silent() {
    for policy in ["refuse-newest", "drop-newest", "refuse-oldest", "drop-oldest"] {
        let script = ipv4_only();
        script.set_silent(true);
        let config = format!(
            "server.allow = [\"any\"]
            limits.outstanding = 500
            limits.overload = \"{policy}\"
            cache.size = \"1MiB\"
            cache.failure-ttl = \"0s\"
            upstream.first-timeout = \"100ms\"
            upstream.give-up-after = \"300ms\"
            upstream.probe-after = \"100ms\""
        );
        let server = dns64d(&[&script], &config);
        let before = server.resident();
        for _ in 0..3 {
            flood(&server, [127, 0, 0, 66], 10_000);
            flood(&server, [127, 0, 0, 67], 10_000);
        }
        let counted = || {
            ["overloaded", "over_share", "displaced"]
                .map(|name| server.metric(&format!("dns64d_{name}_total")))
                .iter()
                .sum::<u64>()
        };
        wait_for("queries beyond the limit are counted", || counted() > 0);
        let held = server.metric("dns64d_outstanding");
        assert!(held <= 500, "{policy}: {held} pending");
        // The limits of this configuration need less than 16 MiB; the rest is memory of the allocator.
        let grown = server.resident().saturating_sub(before) >> 20;
        assert!(grown < 64, "{policy}: {grown} MiB more than before");
        script.set_silent(false);
        recovers(&server, "afterwards");
    }
}

#[test]
fn a_question_that_gives_way_is_no_failure_of_its_name() {
    let script = ipv4_only();
    script.on("displaced.example A", "silent || displaced.example 60 A 192.0.2.33");
    script.others(Rtype::AAAA, "silent");
    let config = "server.workers = 1
        limits.outstanding = 100
        limits.client-share = 1.0
        limits.overload = \"refuse-oldest\"
        cache.failure-ttl = \"300s\"
        upstream.first-timeout = \"10s\"
        upstream.give-up-after = \"30s\"";
    let server = dns64d(&[&script], config);
    let client = server.socket_of(Ipv4Addr::LOCALHOST);
    client.set_read_timeout(Some(MAX_WAIT)).expect("a timeout");
    client.send(&Query::parse("displaced.example A").octets).expect("loopback");
    wait_for("its query", || script.asked().iter().any(|asked| asked.name == "displaced.example"));
    flood(&server, [127, 0, 0, 66], 1_000);
    let mut room = [0; 4096];
    let len = client.recv(&mut room).expect("a reply");
    assert_eq!(Reply::parse(&room[..len]).rcode, "SERVFAIL");
    // Upstream is asked at once (RFC 9520 is about failures of upstream).
    assert_eq!(server.ask("displaced.example A").shown(), "NOERROR 192.0.2.33");
}

#[test]
fn one_client_leaves_room_for_others() {
    let script = ipv4_only();
    // The names of the flood stay pending, the others are answered.
    script.on("patient.example A", "patient.example 60 A 192.0.2.33");
    script.others(Rtype::AAAA, "silent");
    script.on("patient.example AAAA", "");
    let config = "server.allow = [\"any\"]
        limits.outstanding = 400
        limits.client-share = 0.25
        upstream.first-timeout = \"10s\"
        upstream.give-up-after = \"30s\"";
    let server = dns64d(&[&script], config);
    flood(&server, [127, 0, 0, 66], 5_000);
    wait_for("the client has its share", || server.metric("dns64d_over_share_total") > 0);
    let held = server.metric("dns64d_outstanding");
    assert!(held <= 100, "a quarter of 400 is 100, not {held}");
    let reply = server.ask("patient.example AAAA +from=127.0.0.77");
    assert!(is_right(&reply), "{reply}");
}

#[test]
fn invalid_messages_over_udp_and_tcp() {
    let script = ipv4_only();
    let server = dns64d(&[&script], "limits.tcp-idle = \"1s\"");
    let socket = server.socket_of(Ipv4Addr::LOCALHOST);
    let whole = Query::parse("nonsense.example AAAA +ecs=192.0.2.0/24").octets;
    let mut state = 1_u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize
    };
    for n in 0..5_000 {
        let mut octets = whole.clone();
        for _ in 0..=n % 7 {
            let at = draw() % octets.len();
            octets[at] = draw() as u8;
        }
        octets.truncate(1 + draw() % octets.len());
        let _ = socket.send(&octets);
        if n % 100 == 0 {
            let mut stream = TcpStream::connect(server.address()).expect("loopback");
            // The server may close the connection while the test still writes.
            let _ = stream.write_all(&client::frame(&octets));
            let _ = stream.write_all(&octets);
        }
    }
    recovers(&server, "sense");
}

#[test]
fn replies_sent_by_clients_are_ignored() {
    let script = ipv4_only();
    let server = dns64d(&[&script], "");
    let socket = server.socket_of(Ipv4Addr::LOCALHOST);
    let query = Query::parse("loop.example AAAA").octets;
    let mut reply = query.clone();
    reply[2] |= 0x80;
    for _ in 0..10 {
        socket.send(&reply).expect("loopback");
    }
    socket.send(&query[..11]).expect("loopback");
    // The first reply is to the query that was sent last.
    socket.send(&query).expect("loopback");
    socket.set_read_timeout(Some(MAX_WAIT)).expect("a timeout");
    let mut room = [0; 4096];
    let len = socket.recv(&mut room).expect("a reply");
    assert!(is_right(&Reply::parse(&room[..len])), "it must not answer replies");
    wait_for("replies counted", || server.metric("dns64d_ignored_total") >= 11);
}

#[test]
fn idle_connections_are_closed() {
    let script = ipv4_only();
    let server = dns64d(&[&script], "limits.tcp-idle = \"1500ms\"");
    let mut silent = TcpStream::connect(server.address()).expect("loopback");
    let mut half = TcpStream::connect(server.address()).expect("loopback");
    half.write_all(&[0, 40, 1, 2, 3]).expect("loopback");
    for stream in [&mut silent, &mut half] {
        stream.set_read_timeout(Some(MAX_WAIT)).expect("a timeout");
        assert_eq!(stream.read(&mut [0; 16]).expect("the end"), 0);
    }
}

#[test]
fn clients_that_read_no_answers_cost_limited_memory() {
    let script = Script::start(&[]);
    let text = "\"0123456789abcdef0123456789abcdef\" ".repeat(1_500);
    script.others(Rtype::TXT, &format!("tc; $ 60 TXT {}", text.trim()));
    script.others(Rtype::A, A);
    let server = dns64d(&[&script], "limits.tcp-pipelined = 2000\nlimits.tcp-idle = \"20s\"");
    let before = server.resident();
    // 50,000 octets for each of these queries would be 800 MB; the kernel buffers a few megabytes for each
    // connection.
    let query = client::frame(&Query::parse("long.example TXT").octets);
    let streams: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address()).expect("loopback");
            stream.write_all(&query.repeat(2_000)).expect("loopback");
            stream
        })
        .collect();
    wait_for("answers beyond the limit are dropped", || {
        ["dns64d_stream_messages_lost_total", "dns64d_unsent_total"]
            .iter()
            .any(|name| server.metric(name) > 0)
    });
    wait_for("all queries have arrived", || server.metric("dns64d_queries_stream_total") >= 16_000);
    let grown = server.resident().saturating_sub(before) >> 20;
    assert!(grown < 128, "{grown} MiB more than before");
    recovers(&server, "others");
    drop(streams);
    let reply = Query::parse("long.example TXT +tcp").ask(server.address(), MAX_WAIT);
    assert_eq!(reply.expect("a reply").answer.len(), 1);
}

#[test]
fn queries_that_are_too_long_are_refused() {
    let script = ipv4_only();
    let server = dns64d(&[&script], "upstream.cookies = false");
    let mut stream = TcpStream::connect(server.address()).expect("loopback");
    stream.set_read_timeout(Some(MAX_WAIT)).expect("a timeout");
    stream.write_all(&client::frame(&vec![0x11; 5_000])).expect("loopback");
    // The connection is closed, by FIN or RST.
    assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
    // Options of this length go nowhere, and the question is answered.
    let options = "+option=65001 ".repeat(100);
    let reply = Query::parse(&format!("options.example AAAA {options}"));
    let reply = reply.ask(server.address(), MAX_WAIT).expect("a reply");
    assert!(is_right(&reply), "{reply}");
    let asked = script.asked();
    let edns = asked.iter().find_map(|asked| asked.edns.as_ref()).expect("EDNS");
    assert!(edns.options.is_empty(), "{edns:?}");
}
