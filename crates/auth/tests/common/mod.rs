//! Shared parts of the tests: queries, and replies read with another library (`domain`).

#![allow(dead_code)]

use auth::{Auth, AuthConfig, MAX_REPLY};
use domain::base::Message;
use domain::base::message::RecordSection;
use domain::rdata::AllRecordData;
use wire::{Edns, Name, Namespace, Qtype, QueryTemplate};

pub(crate) const HOST: &str = "010-001-002-003.dns64perf.test";
/// The id of all queries.
pub(crate) const ID: u16 = 0x1234;

/// Returns the configuration of a correct AuthDNS for 10.0.0.0/8.
pub(crate) fn config() -> AuthConfig {
    AuthConfig::new(Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix")))
}

/// Returns the bytes of a query.
pub(crate) fn query(name: &str, qtype: &str, edns: Option<&Edns>) -> Vec<u8> {
    let (name, qtype): (Name, Qtype) = (name.parse().expect(name), qtype.parse().expect(qtype));
    let mut out = vec![0; 65_535];
    let len = QueryTemplate::new(&name, qtype, true, false, edns).write(ID, &mut out);
    out.truncate(len);
    out
}

/// Returns the reply to a query, after checking its header.
pub(crate) fn ask(auth: &mut Auth, query: &[u8]) -> Message<Vec<u8>> {
    let mut out = [0; MAX_REPLY];
    let len = auth.answer(query, &mut out).expect("a reply");
    let message = Message::from_octets(out[..len].to_vec()).expect("a whole message");
    let header = message.header();
    assert!(header.qr() && !header.ra() && !header.ad() && !header.tc() && header.rd());
    assert_eq!(header.id(), ID);
    message
}

/// Returns the records of a section as text: owner, TTL, type, data.
pub(crate) fn records(section: RecordSection<'_, Vec<u8>>) -> Vec<String> {
    section
        .limit_to::<AllRecordData<_, domain::base::ParsedName<_>>>()
        .map(|record| record.expect("a record of a known type"))
        .map(|r| format!("{} {} {} {}", r.owner(), r.ttl().as_secs(), r.rtype(), r.data()))
        .collect()
}

/// Returns the records of the answer section as text.
pub(crate) fn answers(message: &Message<Vec<u8>>) -> Vec<String> {
    records(message.answer().expect("an answer section"))
}

/// Returns the records of the authority section as text.
pub(crate) fn authority(message: &Message<Vec<u8>>) -> Vec<String> {
    records(message.authority().expect("an authority section"))
}
