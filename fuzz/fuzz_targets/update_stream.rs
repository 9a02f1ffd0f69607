//! Update streams in text and binary form: any bytes are read or refused, and updates that are read and written read
//! back.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use update::{Update, UpdateReader, script, stream};

fn read(octets: &[u8]) -> Option<Vec<Update>> {
    let mut reader = UpdateReader::new(octets, Path::new("fuzz")).ok()?;
    let mut all = Vec::new();
    while let Some(update) = reader.next_update().ok()? {
        all.push(update);
    }
    Some(all)
}

fuzz_target!(|octets: &[u8]| {
    // The records of arbitrary replies are read too.
    let _ = update::message::records_of(octets, b"\x01a\x04test\0", 2);
    let Some(updates) = read(octets) else { return };
    let (mut text, mut binary) = (Vec::new(), stream::MAGIC.to_vec());
    for update in updates.iter().filter(|update| !update.is_empty()) {
        script::write(&mut text, update).expect("a Vec grows");
        stream::write(&mut binary, update).expect("a Vec grows");
    }
    let full: Vec<_> = updates.into_iter().filter(|update| !update.is_empty()).collect();
    assert_eq!(read(&binary).expect("what was written"), full);
    assert_eq!(read(&text).map(|updates| updates.len()), Some(full.len()));
});
