//! The packet path of the DNS64 server: clients, upstream servers and streams send arbitrary octets.
//!
//! The input is a list of events: kind, length, octets. A reply is either the octets alone, or a reply to the last
//! query that was sent, in which the fuzzer chooses the header and everything after the question.
#![no_main]

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use dns64::streams::{FromStreams, ToStreams};
use dns64::{Config, Dns64, Settings};
use libfuzzer_sys::fuzz_target;
use measure::{Nanos, Transport};
use engine::{Destination, Role, RxBatch, SocketId, TxBatch};

const CONFIGS: [&str; 3] = [
    "upstream.source-ports = 2\nlimits.outstanding = 16\n",
    "upstream.source-ports = 2\nsynthesis.parallel = true\nsynthesis.ptr = \"in-place\"\nsynthesis.ipv4hint = \"strip\"\n\
     synthesis.always = [\"a.test\"]\nsynthesis.never = [\"b.test\"]\ncache.size = 4096\nlimits.outstanding = 4\n\
     limits.overload = \"refuse-oldest\"\ncache.serve-stale = \"1h\"\ncache.prefetch = true\n\
     [[dns64]]\nprefix = \"2001:db8::/32\"\nsuffix = \"::1\"\n[[dns64]]\nprefix = \"64:ff9b::/96\"\n",
    "upstream.source-ports = 2\nupstream.udp-size = 0\nsynthesis.ptr = \"local\"\nsynthesis.on-error = \"pass\"\n\
     cache.size = 0\nlimits.outstanding = 16\nlimits.responses-per-second = 3\nsynthesis.break-dnssec = true\n",
];

fn settings(which: u8) -> Arc<Settings> {
    static ALL: OnceLock<Vec<Arc<Settings>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let parse = |file: &&str| Arc::new(Settings::new(Config::parse(file).expect(file), 1, [0; 16]));
        CONFIGS.iter().map(parse).collect()
    });
    all[usize::from(which) % all.len()].clone()
}

fuzz_target!(|data: &[u8]| {
    let Some((&which, mut rest)) = data.split_first() else { return };
    let mut now = Nanos::from_secs(10);
    let mut role = Dns64::new(settings(which), [1; 32], now);
    let mut next = 1;
    while let Some(change) = role.next_socket_change(now) {
        let socket = change.socket.unwrap_or(SocketId(next));
        next += u16::from(change.socket.is_none());
        role.socket_changed(change, socket);
    }
    let mut rx = RxBatch::new(1, 4_096);
    let mut tx = TxBatch::new(256, 1 << 20, 64);
    let client: SocketAddr = "127.0.0.1:5000".parse().expect("an address");
    // The last queries that were sent, each with its socket; and the last query that goes over a stream.
    let mut sent: Vec<(SocketId, Vec<u8>)> = Vec::new();
    let mut stream_query: Option<(u32, u32, Vec<u8>)> = None;
    while let Some((&[kind, len], after)) = rest.split_first_chunk::<2>() {
        let (bytes, after) = after.split_at(after.len().min(usize::from(len)));
        rest = after;
        rx.clear();
        let as_reply = |query: &[u8]| {
            let mut reply = query[..query.len().min(12)].to_vec();
            let end = wire::message::question_end(query).unwrap_or(query.len());
            let (head, body) = bytes.split_at(bytes.len().min(8));
            reply[2..2 + head.len()].copy_from_slice(head);
            reply[2] |= 0x80;
            reply[4..6].copy_from_slice(&[0, 1]);
            reply.extend_from_slice(&query[12..end]);
            reply.extend_from_slice(body);
            reply
        };
        match kind % 8 {
            0 => {
                rx.put(SocketId(0), client, now, bytes);
            }
            1 => {
                rx.put(SocketId(1 + u16::from(kind >> 4) % 2), client, now, bytes);
            }
            2..=4 => {
                // The last query, or the one before it.
                let Some((socket, query)) = sent.iter().rev().nth(usize::from(kind >> 6 & 1)) else {
                    continue;
                };
                rx.put(*socket, client, now, &as_reply(query));
            }
            5 => now += Nanos::from_millis(u64::from(len) * 8),
            6 => role.push_from_streams(FromStreams::Query {
                stream: len.into(),
                client: client.ip(),
                transport: if len % 2 == 1 { Transport::Tcp } else { Transport::Https },
                message: bytes.to_vec(),
            }),
            _ => {
                let Some((lookup, ticket, query)) = &stream_query else { continue };
                let message = (kind < 128).then(|| as_reply(query));
                role.push_from_streams(FromStreams::Reply { lookup: *lookup, ticket: *ticket, message });
            }
        }
        tx.clear();
        role.handle(now, &rx, &mut tx);
        for (to, bytes) in tx.iter() {
            match to {
                Destination::Connected(socket) => sent.push((socket, bytes.to_vec())),
                // Every reply has at least a header, and is not longer than the client allows.
                Destination::Peer { .. } => assert!((12..=1_232).contains(&bytes.len())),
            }
        }
        for message in role.drain_to_streams() {
            if let ToStreams::Query { lookup, ticket, message, .. } = message {
                stream_query = Some((lookup, ticket, message));
            }
        }
        sent.drain(..sent.len().saturating_sub(4));
        assert!(role.gauges().outstanding <= 16);
    }
    // All queries end, whatever the events were.
    for _ in 0..12 {
        now += Nanos::from_secs(30);
        rx.clear();
        tx.clear();
        role.handle(now, &rx, &mut tx);
    }
    // Only the probe of a dead server may still be outstanding.
    assert!(role.gauges().outstanding <= 1 && role.gauges().waiters == 0);
});
