//! The snapshot of the DNS64 server's cache: one with a right checksum and any entries is read, and its answers are shown.
#![no_main]

use std::hash::Hasher;
use std::sync::Arc;

use dns64::{Config, Dns64, Settings, Snapshot};
use libfuzzer_sys::fuzz_target;
use measure::Nanos;
use siphasher::sip::SipHasher13;

fuzz_target!(|entries: &[u8]| {
    let settings = Arc::new(Settings::new(Config::default(), 1, [0; 16]));
    let mut octets = b"dns64d cache 1\n".to_vec();
    octets.extend_from_slice(&settings.snapshot_rules().to_be_bytes());
    octets.extend_from_slice(&[0; 8]);
    octets.extend_from_slice(entries);
    octets.extend_from_slice(&[0; 4]);
    let mut hash = SipHasher13::new();
    hash.write(&octets);
    octets.extend_from_slice(&hash.finish().to_be_bytes());
    let snapshot = Snapshot::read(octets, settings.snapshot_rules(), 0).expect("it is right");
    let now = Nanos::from_secs(1);
    let mut server = Dns64::new(settings, [0; 32], now);
    let answers = server.restore(0, now, &snapshot);
    assert_eq!(server.dump(0, usize::MAX, now).answers.len(), answers);
});
