//! What agents and jobs on other hosts say, a line of JSON each: what is understood is written on one line and read the same again.
#![no_main]

use std::fmt::Debug;

use lab::agent::{Order, Reply};
use lab::job::{Answer, Ask};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn both_ways<T: Serialize + DeserializeOwned + PartialEq + Debug>(text: &str) {
    if let Ok(message) = serde_json::from_str::<T>(text) {
        let line = serde_json::to_string(&message).expect("JSON");
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<T>(&line).expect("what was written"), message);
    }
}

fuzz_target!(|text: &str| {
    both_ways::<Order>(text);
    both_ways::<Reply>(text);
    // The request and the record in these print some numbers with fewer digits.
    let _ = serde_json::from_str::<Ask>(text);
    let _ = serde_json::from_str::<Answer>(text);
});
