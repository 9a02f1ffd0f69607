//! Arbitrary queries: an accepted query can be answered, and the answer is a valid reply to it.
#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use wire::{Expect, Header, Name, Owner, Qclass, Qtype, Query, QueryError, ReplyWriter, reply};

fuzz_target!(|message: &[u8]| {
    let mut out = [0; 4096];
    match Query::parse(message) {
        Ok(query) => {
            Name::from_wire(query.qname).expect("an accepted name is valid");
            assert_eq!(reply::question(message), Some(query.question));
            if let Some(edns) = query.edns {
                assert!(query.bad_version() || edns.options().all(|option| option.is_some()));
            }
            let limit = query.udp_limit();
            let mut writer =
                ReplyWriter::new(&mut out, limit, &query).expect("512 octets hold any question");
            if query.edns.is_some() {
                writer.opt(1232, false);
            }
            let address = Ipv4Addr::new(10, 1, 2, 3);
            writer.answer(Owner::Question, Qtype::A, 60, &address.octets());
            let len = writer.finish();
            assert!(len <= limit);
            let valid = reply::check(&out[..len], query.question, &Expect::A(address));
            // The writer writes class IN, which does not answer a question of another class.
            assert_eq!(valid.is_ok(), [Qclass::IN, Qclass::ANY].contains(&query.qclass));
        }
        Err(QueryError::Drop) => {
            assert!(Header::read(message).is_none_or(|header| header.is_response()))
        }
        Err(error) => {
            let len = error.reply(&mut out).expect("room for a header");
            assert_eq!(reply::id(&out[..len]), reply::id(message));
        }
    }
});
