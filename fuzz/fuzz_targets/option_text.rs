//! Values of options in text: what is accepted is printed so that it reads back the same, and an error names its place.
#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use auth::{Capacity, FaultSpec, Late, Latency, Stall};
use experiment::RuleName;
use experiment::settings::ZoneSlice;
use lab::CpuList;
use libfuzzer_sys::fuzz_target;
use measure::{Goal, Limiter, Link, Nanos, Pacing, Path, Qps, Transport};
use record::FailIf;
use record::request::HardwareAddress;
use wire::LabelRange;

/// Reads a text; what is accepted must read back the same.
fn both_ways<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        assert_eq!(value.to_string().parse::<T>().expect("a printed value is valid"), value);
    }
}

fuzz_target!(|text: &str| {
    both_ways::<Nanos>(text);
    both_ways::<Pacing>(text);
    both_ways::<Limiter>(text);
    both_ways::<Transport>(text);
    both_ways::<Link>(text);
    both_ways::<Path>(text);
    both_ways::<Capacity>(text);
    both_ways::<Stall>(text);
    both_ways::<Latency>(text);
    both_ways::<Late>(text);
    both_ways::<FaultSpec>(text);
    both_ways::<CpuList>(text);
    both_ways::<RuleName>(text);
    both_ways::<ZoneSlice>(text);
    both_ways::<HardwareAddress>(text);
    both_ways::<LabelRange>(text);
    if let Ok(rate) = text.parse::<Qps>() {
        assert_eq!(rate.exact().parse(), Ok(rate));
    }
    // These are printed with fewer digits.
    if let Ok(goal) = text.parse::<Goal>() {
        let again: Goal = goal.to_string().parse().expect("a printed goal is valid");
        assert_eq!(again.latency.len(), goal.latency.len());
    }
    if let Err(error) = text.parse::<FailIf>() {
        assert!((1..=text.chars().count() + 1).contains(&error.at));
    }
});
