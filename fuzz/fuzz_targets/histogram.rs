//! Histograms of records and messages: any octets are refused, or decoded to one that is written and reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::Histogram;

fuzz_target!(|octets: &[u8]| {
    let Ok(histogram) = Histogram::decode(octets) else { return };
    for written in [histogram.encode(), histogram.encode_compressed()] {
        let again = Histogram::decode(&written).expect("what was written");
        assert_eq!(again.count(), histogram.count());
        assert_eq!(again.quantile(0.99), histogram.quantile(0.99));
    }
});
