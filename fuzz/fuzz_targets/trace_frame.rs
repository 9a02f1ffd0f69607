//! A frame of any link type: link layers, encapsulations and EDNS options are read or counted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::Nanos;
use trace::transactions::Transactions;
use trace::{Dns, Frame, Messages};

fuzz_target!(|input: &[u8]| {
    let Some((&[high, low], bytes)) = input.split_first_chunk() else { return };
    let link = u16::from_be_bytes([high, low]);
    let mut messages = Messages::new(vec![53]);
    let mut transactions = Transactions::default();
    let mut visit = |message: &trace::Message<'_>| {
        assert!(message.bytes.len() <= message.len);
        if let Some(dns) = Dns::read(message.bytes) {
            transactions.add(message, &dns, &mut |_| ());
        }
    };
    let frame = Frame { number: 1, at: Nanos::ZERO, link, wire_len: bytes.len() as u32, bytes };
    messages.frame(&frame, &mut visit);
    messages.finish(&mut visit);
    let counts = messages.counts();
    assert_eq!(counts.packets, 1);
});
