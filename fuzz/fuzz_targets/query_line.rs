//! Lines of a query file: an accepted line is printed so that it reads back the same; an error is at a place in the line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::query_line::{parse, parse_start};

fuzz_target!(|line: &[u8]| {
    if let Ok(Some(start)) = parse_start(line) {
        assert_eq!(parse(line).is_ok(), start.rest.is_empty());
    }
    match parse(line) {
        Ok(Some((name, qtype))) => {
            assert_eq!(parse(format!("{name} {qtype}").as_bytes()), Ok(Some((name, qtype))));
        }
        Ok(None) => {}
        Err(error) => assert!((1..=line.len() + 1).contains(&error.column)),
    }
});
