//! Slices of a load, agreed starts and bounds of clocks in text: what is accepted is bounded, prints and reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::{ClockBound, MAX_SLICES, Slice, StartAt};

fuzz_target!(|text: &str| {
    if let Ok(slice) = text.parse::<Slice>() {
        assert!((1..=slice.of()).contains(&slice.number()) && slice.of() <= MAX_SLICES);
        assert_eq!(slice.to_string().parse(), Ok(slice));
    }
    if let Ok(start) = text.parse::<StartAt>() {
        assert_eq!(start.to_string().parse(), Ok(start));
    }
    if let Ok(bound) = text.parse::<ClockBound>() {
        assert_eq!(bound.to_string().parse(), Ok(bound));
    }
});
