//! Experiment files: refused with the place of the mistake, or valid in each form that they have.
#![no_main]

use std::path::Path;

use experiment::{Experiment, estimate};
use libfuzzer_sys::fuzz_target;
use record::Form;

fuzz_target!(|text: &str| {
    match Experiment::parse(text, Path::new("x.toml")) {
        Err(error) => assert!(error.to_string().starts_with("x.toml:")),
        Ok(experiment) => {
            let forms = [Form::Full, Form::Medium, Form::Quick];
            let forms = forms.into_iter().filter_map(|form| experiment.clone().in_form(form).ok());
            for form in forms.chain([experiment.clone()]) {
                assert!(!form.points.is_empty() && form.points.len() <= 4_096);
                let _ = estimate(&form, |_| 1, true);
            }
        }
    }
});
