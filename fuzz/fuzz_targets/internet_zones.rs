//! The Internet in a box: any zone file is served or refused, and any message to its server gets a bounded reply or none.
//!
//! The input is the length of the message, the message, and the zone file.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use auth::{Auth, AuthConfig, InternetConfig, InternetZones, Streamed, ZoneBuilder};
use engine::batch::Frame;
use engine::{Role, RxBatch, SocketId, TxBatch};
use libfuzzer_sys::fuzz_target;
use measure::Nanos;
use wire::{Header, Namespace, Qtype, reply};
use zone::Reader;

/// The server in the seeds.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 53, 0, 1));
/// Longest datagram of an AuthDNS, and longest reply over a stream with its options, in octets.
const MOST: [usize; 2] = [1_232, 33 << 10];

/// Reads a zone file as `dnsdyno auth --internet` does.
fn read(text: &[u8]) -> Option<InternetZones> {
    let mut reader = Reader::new(text, Path::new("fuzz"), None);
    let mut zone: Option<ZoneBuilder> = None;
    while reader.next_record().ok()?.is_some() {
        let (apex, record) = (reader.apex()?, reader.record()?);
        let zone = zone.get_or_insert_with(|| ZoneBuilder::new(*apex));
        let rtype = Qtype(record.rtype().to_int());
        zone.add(record.owner(), rtype, record.ttl(), record.data()).ok()?;
    }
    InternetZones::new(vec![zone?]).ok()
}

fn check(reply: &[u8], message: &[u8], most: usize) {
    assert!(reply.len() <= most, "{}", reply.len());
    assert!(Header::read(reply).expect("a header").is_response());
    assert_eq!(reply::id(reply), reply::id(message));
}

fuzz_target!(|input: &[u8]| {
    let Some((&len, rest)) = input.split_first() else { return };
    let (message, text) = rest.split_at(rest.len().min(len.into()));
    let Some(zones) = read(text) else { return };
    let internet = InternetConfig { zones: Arc::new(zones), delays: Vec::new(), log: None };
    let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix"));
    let mut auth = Auth::new(AuthConfig { internet: Some(internet), ..AuthConfig::new(namespace) });
    let mut out = Vec::new();
    let how = Streamed { server: Some(SERVER), idle: Some(100), ..Streamed::default() };
    auth.answer_stream(how, message, &mut out);
    if !out.is_empty() {
        check(&out, message, MOST[1]);
    }
    let (mut rx, mut tx) = (RxBatch::new(1, 256), TxBatch::new(1, 2_048, 1));
    rx.slot_mut(0)[..message.len()].copy_from_slice(message);
    rx.add(Frame {
        socket: SocketId(0),
        peer: SocketAddr::from(([127, 0, 0, 1], 5_000)),
        to: Some(SERVER),
        at: Nanos::ZERO,
        offset: rx.slot(0),
        len: message.len(),
        segment: 256,
    });
    auth.handle(Nanos::ZERO, &rx, &mut tx);
    tx.iter().for_each(|(_, reply)| check(reply, message, MOST[0]));
    assert_eq!(auth.counters().overflow, 0);
});
