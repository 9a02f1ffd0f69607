//! Captures of real servers and clients: the counts match those of tshark, and random changes never cause a panic.
//!
//! The captures were made by `benches/trace-vs-tshark`, which compares many more counts.

use std::io::Cursor;
use std::path::Path;

use measure::{Nanos, Rng};
use trace::{Capture, Messages, Stats, Writer};

use crate::common;

/// Captures, each with the counts of tshark: packets, queries, replies, fragments, TCP sessions.
const CAPTURES: [(&str, &[u8], [u64; 5]); 6] = [
    ("resolver", include_bytes!("captures/resolver.pcap"), [40, 27, 13, 0, 0]),
    ("transfers", include_bytes!("captures/transfers.pcapng"), [42, 17, 17, 0, 1]),
    ("tcp", include_bytes!("captures/tcp.pcap"), [39, 10, 10, 0, 3]),
    ("fragments", include_bytes!("captures/fragments.pcap"), [12, 3, 3, 9, 0]),
    ("malformed", include_bytes!("captures/malformed.pcap"), [60, 30, 28, 0, 0]),
    ("cut", include_bytes!("captures/cut.pcap"), [40, 29, 11, 0, 0]),
];

/// Number of changed captures to read; the variable DNSDYNO_MUTATIONS sets another number.
const MUTATIONS: u64 = 2_000;

#[test]
fn counts_match_those_of_tshark() {
    for (name, bytes, expected) in CAPTURES {
        let mut stats = Stats::new(Nanos::from_secs(1));
        let mut messages = Messages::new(vec![53]);
        let mut capture =
            Capture::new(Box::new(Cursor::new(bytes)), Path::new(name)).expect("a capture");
        messages.read(&mut capture, |message| stats.add(message)).expect("whole");
        let counts = messages.counts();
        let (queries, replies) = (stats.queries.counts.messages, stats.replies.counts.messages);
        let found = [counts.packets, queries, replies, counts.fragments, counts.tcp_sessions];
        assert_eq!(found, expected, "{name}");
    }
}

/// Returns the capture with octets changed, removed, repeated or cut off.
fn mutate(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    // Mostly change octets after the file header, sometimes the header too.
    let from = if rng.below(8) == 0 { 0 } else { 64.min(bytes.len()) };
    for _ in 0..=rng.below(12) {
        let room = bytes.len() - from;
        let at = from + rng.below(room as u64) as usize;
        let len = (rng.below(40) as usize).min(bytes.len() - at);
        match rng.below(8) {
            0..4 => bytes[at] = rng.next_u64() as u8,
            4 => bytes[at] = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xc0, 0xff][rng.below(8) as usize],
            5 => {
                let again = bytes[at..at + len].to_vec();
                bytes.splice(at..at, again);
            }
            6 if room > len + 1 => drop(bytes.drain(at..at + len)),
            7 if rng.below(8) == 0 && at > from => bytes.truncate(at),
            _ => bytes[at] ^= 1 << rng.below(8),
        }
    }
    bytes
}

#[test]
fn changed_captures_do_not_panic() {
    let number = std::env::var("DNSDYNO_MUTATIONS").ok().map(|n| n.parse().expect("a number"));
    let mut rng = Rng::new(53);
    let (mut seen, mut broken) = (0, 0);
    for round in 0..number.unwrap_or(MUTATIONS) {
        let (name, bytes, _) = CAPTURES[(round % CAPTURES.len() as u64) as usize];
        let bytes = mutate(bytes, &mut rng);
        let Ok(mut capture) = Capture::new(Box::new(Cursor::new(bytes)), Path::new(name)) else {
            broken += 1;
            continue;
        };
        let mut stats = (round % 256 == 0).then(|| Stats::new(Nanos::from_secs(1)));
        let mut messages = Messages::new(vec![53]);
        let mut writer = Writer::new(Vec::new()).expect("in memory");
        let read = messages.read(&mut capture, |message| {
            seen += 1;
            assert!(message.bytes.len() <= message.len, "{name} {round}");
            writer.write(message);
            if let Some(stats) = &mut stats {
                stats.add(message);
            } else {
                trace::Dns::read(message.bytes);
            }
        });
        broken += u64::from(read.is_err());
        if let Some(stats) = stats {
            let headed = stats.queries.counts.messages + stats.replies.counts.messages;
            assert_eq!(
                headed + stats.counts.packets.messages_headless,
                stats.messages,
                "{name} {round}"
            );
            let _ = (stats.era().series(), stats.types(), stats.clients.spread(3));
        }
        // The written capture is valid, and not larger than expected.
        let (again, _, error) = common::read(writer.finish().expect("in memory"));
        assert!(
            error.is_none() && again.len() as u64 <= messages.counts().packets * 40,
            "{name} {round}"
        );
    }
    // Some changes cause errors and some do not.
    assert!(seen > 0 && broken > 0);
}
