//! Populations: what is read is written, and reads back the same.
#![no_main]

use std::io::Read;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use trace::population::Population;
use trace::source;

fuzz_target!(|octets: &[u8]| {
    let Ok(population) = Population::read(octets, Path::new("fuzz")) else { return };
    let mut file = Vec::new();
    population.write(&mut file).expect("in memory");
    let mut plain = Vec::new();
    let mut source = source::decompress(std::io::Cursor::new(file)).expect("in memory");
    source.read_to_end(&mut plain).expect("whole");
    let line = plain.iter().position(|octet| *octet == b'\n').expect("a first line");
    let again = Population::read(&plain[line + 1..], Path::new("again")).expect("written by us");
    assert_eq!(again, population);
});
