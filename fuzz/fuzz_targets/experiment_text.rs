//! Experiment files: refused with the place of the mistake, or valid in the full and the quick form.
#![no_main]

use std::path::Path;

use experiment::{Experiment, estimate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Experiment::parse(text, Path::new("x.toml")) {
        Err(error) => assert!(error.to_string().starts_with("x.toml:")),
        Ok(experiment) => {
            for form in [experiment.clone(), experiment.quick()] {
                assert!(!form.points.is_empty() && form.points.len() <= 4_096);
                let _ = estimate(&form, |_| 1);
            }
        }
    }
});
