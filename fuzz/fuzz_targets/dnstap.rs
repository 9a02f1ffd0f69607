//! Frame streams and frames of dnstap: a stream splits into parts that fill it; what is read of a frame is written and reads back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::dnstap::Message;
use wire::frame_stream::{Split, split};

fn frame(octets: &[u8]) {
    let Ok(Some(message)) = Message::read(octets) else { return };
    let mut again = Vec::new();
    message.write(b"", b"", &mut again);
    assert_eq!(Message::read(&again), Ok(Some(message)));
}

fuzz_target!(|octets: &[u8]| {
    frame(octets);
    let mut rest = octets;
    loop {
        match split(rest) {
            Ok(Split::More(needed)) => {
                assert!(needed > rest.len());
                break;
            }
            Ok(Split::Control { len, .. }) => rest = &rest[len..],
            Ok(Split::Frame { octets, len }) => {
                frame(octets);
                rest = &rest[len..];
            }
            Err(_) => break,
        }
    }
});
