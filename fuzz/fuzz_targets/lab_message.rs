//! What is said to processes on other hosts, and what they say: what is understood is written on one line and read the same again.
#![no_main]

use std::fmt::Debug;

use lab::message::{Order, Reply, decode, encode};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn both_ways<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: T) {
    let line = encode(&message);
    assert_eq!(line.iter().position(|octet| *octet == b'\n'), Some(line.len() - 1));
    assert_eq!(decode(&line), Ok(message));
}

fuzz_target!(|octets: &[u8]| {
    // The request and the record in these print some numbers with fewer digits, and hold some that are none in JSON.
    match decode(octets) {
        Ok(Order::Trial { .. } | Order::Prepare { .. }) | Err(_) => {}
        Ok(order) => both_ways::<Order>(order),
    }
    match decode(octets) {
        Ok(Reply::Done { .. }) | Err(_) => {}
        Ok(reply) => both_ways::<Reply>(reply),
    }
});
