//! Files of whole messages: each is read or refused, and its messages are sent as they are.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use load::Workload;
use load::workload::MAX_QUERY;
use load::workload::file::{Content, QueryFile, QueryOptions};
use wire::Expect;

fuzz_target!(|bytes: &[u8]| {
    let content = Content::Messages { most: MAX_QUERY };
    let Ok(file) = QueryFile::compile(bytes, Path::new("m.bin"), content) else { return };
    let options =
        QueryOptions { expect: Expect::Answered, recursion_desired: false, edns: None, runs: Some(1), sample: None };
    let (mut stream, mut out, mut sent) = (file.workload(0, 1, options), [0; MAX_QUERY], Vec::new());
    while let Some(composed) = stream.next(&mut out) {
        sent.extend((composed.len as u16).to_be_bytes());
        sent.extend(&out[..composed.len]);
        let _ = stream.check(composed.key, &out[..composed.len]);
    }
    assert_eq!(sent, bytes);
});
