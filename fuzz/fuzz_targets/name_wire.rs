//! Names in wire form: an accepted name is the same after conversion to text and back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Name, Namespace};

fuzz_target!(|wire: &[u8]| {
    let Ok(name) = Name::from_wire(wire) else { return };
    let again: Name = name.to_string().parse().expect("a printed name is valid");
    assert_eq!(again.as_wire(), wire);
    assert_eq!(name.labels().map(|label| 1 + label.len()).sum::<usize>() + 1, wire.len());
    let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().expect("a valid prefix"));
    for namespace in [namespace, namespace.with_padding(false)] {
        if let Some(address) = namespace.address(wire) {
            assert_eq!(namespace.name(address), name);
        }
    }
});
