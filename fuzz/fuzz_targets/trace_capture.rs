//! Arbitrary bytes as a capture: read to the end or to an error; every message is parsed, counted and written again.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use trace::{Capture, Dns, Messages, Writer, source};

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = source::decompress(Cursor::new(bytes.to_vec())) else { return };
    let Ok(mut capture) = Capture::new(source, Path::new("fuzz")) else { return };
    let mut messages = Messages::new(vec![53]);
    let mut writer = Writer::new(Vec::new()).expect("in memory");
    let _ = messages.read(&mut capture, |message| {
        assert!(message.bytes.len() <= message.len);
        Dns::read(message.bytes);
        writer.write(message);
    });
    let written = writer.finish().expect("in memory");
    let mut again =
        Capture::new(Box::new(Cursor::new(written)), Path::new("again")).expect("a capture");
    while again.next_frame().expect("whole").is_some() {}
});
