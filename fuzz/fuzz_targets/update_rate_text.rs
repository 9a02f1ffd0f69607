//! Rates of updates in text: what is accepted is bounded, prints and reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::UpdateRate;

fuzz_target!(|text: &str| {
    if let Ok(rate) = text.parse::<UpdateRate>() {
        assert_eq!(rate.to_string().parse(), Ok(rate));
        assert!(rate.per_second(1_000_000).is_none_or(|rate| (0.0..=1e6).contains(&rate)));
    }
});
