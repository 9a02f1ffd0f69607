//! Zone files: any bytes are read or refused, and a zone that is written reads back the same.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use zone::Reader;
use zone::slice::Slicer;

type Record = (Vec<u8>, u16, u32, Vec<u8>);

fn records(text: &[u8]) -> Option<Vec<Record>> {
    let mut reader = Reader::new(text, Path::new("fuzz"), None);
    let mut all = Vec::new();
    while let Some(r) = reader.next_record().ok()? {
        all.push((r.owner().to_vec(), r.rtype().to_int(), r.ttl(), r.data().to_vec()));
    }
    Some(all)
}

fuzz_target!(|text: &[u8]| {
    let Some(before) = records(text) else { return };
    let mut outs = vec![Vec::new()];
    Slicer::new(vec![Default::default()])
        .slice(|| Ok(Reader::new(text, Path::new("fuzz"), None)), &mut outs)
        .expect("it was read before");
    assert_eq!(records(&outs[0]).expect("what was written is well formed"), before);
});
