//! Values of options and files in text: what is accepted prints and reads back the same, is within its bounds, and an error names its
//! place.
#![no_main]

use std::fmt::{Debug, Display};
use std::net::Ipv4Addr;
use std::str::FromStr;

use auth::{Capacity, FaultSpec, Late, Latency, Stall};
use experiment::RuleName;
use experiment::settings::ZoneSlice;
use lab::CpuList;
use libfuzzer_sys::fuzz_target;
use measure::{
    ClockBound, Goal, Limiter, Link, MAX_SLICES, Nanos, Pacing, Path, Qps, Slice, StartAt, Transport,
    UpdateRate,
};
use record::FailIf;
use record::request::HardwareAddress;
use wire::{Ipv4Prefix, LabelRange, Name, Pref64, Qtype};

/// Reads a text; what is accepted must read back the same, and is returned.
fn both_ways<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(text: &str) -> Option<T> {
    let value = text.parse::<T>().ok()?;
    assert_eq!(value.to_string().parse::<T>().expect("a printed value is valid"), value);
    Some(value)
}

fuzz_target!(|text: &str| {
    let _ = both_ways::<Nanos>(text);
    let _ = both_ways::<Pacing>(text);
    let _ = both_ways::<Limiter>(text);
    let _ = both_ways::<Transport>(text);
    let _ = both_ways::<Link>(text);
    let _ = both_ways::<Path>(text);
    let _ = both_ways::<Capacity>(text);
    let _ = both_ways::<Stall>(text);
    let _ = both_ways::<Latency>(text);
    let _ = both_ways::<Late>(text);
    let _ = both_ways::<FaultSpec>(text);
    let _ = both_ways::<CpuList>(text);
    let _ = both_ways::<RuleName>(text);
    let _ = both_ways::<ZoneSlice>(text);
    let _ = both_ways::<HardwareAddress>(text);
    let _ = both_ways::<LabelRange>(text);
    let _ = both_ways::<Qtype>(text);
    let _ = both_ways::<StartAt>(text);
    let _ = both_ways::<ClockBound>(text);
    if let Some(slice) = both_ways::<Slice>(text) {
        assert!((1..=slice.of()).contains(&slice.number()) && slice.of() <= MAX_SLICES);
    }
    if let Some(rate) = both_ways::<UpdateRate>(text) {
        assert!(rate.per_second(1_000_000).is_none_or(|rate| (0.0..=1e6).contains(&rate)));
    }
    if let Some(prefix) = both_ways::<Ipv4Prefix>(text) {
        let last = prefix.size() - 1;
        assert_eq!(prefix.index(prefix.nth(last)), Some(last));
    }
    if let Some(pref64) = both_ways::<Pref64>(text) {
        let address = Ipv4Addr::new(192, 0, 2, 33);
        assert_eq!(pref64.extract(pref64.embed(address)), Some(address));
    }
    if let Ok(name) = text.parse::<Name>() {
        assert_eq!(Name::from_wire(name.as_wire()), Ok(name));
        let again: Name = name.to_string().parse().expect("a printed name is valid");
        assert_eq!(again.as_wire(), name.as_wire());
    }
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
