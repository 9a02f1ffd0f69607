//! Lists of known differences: any text is read, or refused at a place within it.
#![no_main]

use answers::{Kinds, KnownDifferences};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match KnownDifferences::parse(text) {
    Ok(known) => {
        let kinds = known.kinds(&"www.example.com".parse().expect("a name"), wire::Qtype::AAAA);
        assert_eq!(kinds.without(Kinds::ALL), Kinds::NONE);
    }
    Err(error) => {
        let line = text.lines().nth(error.line - 1).expect("the line");
        assert!((1..=line.len() + 1).contains(&error.column));
    }
});
