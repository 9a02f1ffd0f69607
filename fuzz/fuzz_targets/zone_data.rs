//! Record data of any type: what is printed reads back as the same octets.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use wire::Name;
use zone::{Reader, ZoneWriter};

fuzz_target!(|input: &[u8]| {
    let Some((&[high, low], data)) = input.split_first_chunk() else { return };
    let rtype = u16::from_be_bytes([high, low]);
    // Types that no record has, and a type that only the zone's name has.
    if matches!(rtype, 0 | 6 | 41 | 128..=255) || data.len() > usize::from(u16::MAX) {
        return;
    }
    let owner = b"\x01n\x07example\0";
    let apex = &owner[2..];
    let mut text = Vec::new();
    let mut writer = ZoneWriter::new(&mut text);
    writer.put_wire(owner, 60, rtype, data, apex).expect("in memory");
    writer.finish().expect("in memory");
    let zone = Name::from_wire(apex).expect("a name");
    let mut reader = Reader::new(&text[..], Path::new("fuzz"), Some(zone));
    let record = reader.next_record().expect("what is printed is read").expect("a record");
    assert_eq!((record.rtype().to_int(), record.ttl(), record.data()), (rtype, 60, data));
});
