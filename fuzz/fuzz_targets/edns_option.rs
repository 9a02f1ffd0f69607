//! EDNS options in text, one per line: accepted options make an OPT record that a server reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Edns, Name, Qtype, Query, QueryTemplate};

fuzz_target!(|text: &str| {
    let mut edns = Edns::default();
    let added = text.lines().filter(|line| edns.add_option(line).is_ok()).count();
    let template = QueryTemplate::new(&Name::ROOT, Qtype::NS, false, false, Some(&edns));
    let query = Query::parse(template.bytes()).expect("our own query is valid");
    let seen = query.edns.expect("it has an OPT record");
    assert_eq!(seen.options().count(), added);
});
