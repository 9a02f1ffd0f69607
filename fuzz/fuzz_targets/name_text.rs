//! Names in text: an accepted name is printed so that it reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Name;

fuzz_target!(|text: &str| {
    let Ok(name) = text.parse::<Name>() else { return };
    assert_eq!(Name::from_wire(name.as_wire()), Ok(name));
    let again: Name = name.to_string().parse().expect("a printed name is valid");
    assert_eq!(again.as_wire(), name.as_wire());
});
