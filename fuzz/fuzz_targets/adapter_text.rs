//! Adapters of servers: refused with the place of the mistake, or all their templates can be rendered.
#![no_main]

use std::path::Path;

use lab::Adapter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Adapter::parse(text, Path::new("x.toml")) {
        assert!(error.to_string().starts_with("x.toml:"), "{error}");
    }
});
