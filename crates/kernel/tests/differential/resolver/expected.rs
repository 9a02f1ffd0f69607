//! What a reply of upstream says, and the answer that must be made of it.

use wire::edns::opt_fixed;
use wire::message::{HEADER, Header, Record, name_at, question_end, records};
use wire::{Qtype, Query};

use super::{MANY, OPTIONS, PREFIX};

/// Returns whether a message with a question that ends at `at` has as many records as its header says, and nothing else.
pub(super) fn ends_with_its_records(message: &[u8], mut at: usize) -> bool {
    let count: u16 = Header::read(message).expect("a header").counts[1..].iter().sum();
    let whole = (0..count).all(|_| {
        let next = Record::read(message, at).map(|(_, next)| next);
        next.inspect(|next| at = *next).is_some()
    });
    whole && at == message.len()
}

/// Returns whether a reply says that there is no AAAA record.
pub(super) fn is_no_data(reply: &[u8]) -> bool {
    let header = Header::read(reply).expect("a header");
    !header.is_truncated() && header.rcode() == 0 && header.counts[1] == 0
}

/// Returns the negative TTL of a reply without records (RFC 2308, section 5); `None` if it has no SOA record.
pub(super) fn negative_ttl_of(reply: &[u8]) -> Option<u32> {
    if Header::read(reply)?.counts[2] == 0 {
        return None;
    }
    let end = question_end(reply)?;
    let (soa, _) = Record::read(reply, end)?;
    // That of another zone does not count.
    let (owner, name) = (name_at(reply, soa.owner)?, name_at(reply, HEADER)?);
    if !name.to_lowercase().ends_with(&owner.to_lowercase()) {
        return None;
    }
    let minimum = soa.rdata.last_chunk().copied().map(u32::from_be_bytes)?;
    Some(soa.ttl.min(minimum))
}

/// Checks the answer to a client that was made from the reply with A records; `longest` is the longest TTL of a
/// synthesised record, before the bounds, and an IPv4 address is at these places.
pub(super) fn check_answer(
    asked: &[u8],
    reply: &[u8],
    longest: u32,
    places: [u8; 4],
    answer: &[u8],
) {
    let query = Query::parse(asked).expect("a query");
    let (of_reply, of_answer) = (Header::read(reply), Header::read(answer));
    let (of_reply, of_answer) = (of_reply.expect("a header"), of_answer.expect("a header"));
    assert!(!of_reply.is_truncated() && of_reply.rcode() == 0);
    assert_eq!((of_answer.id, of_answer.flags), (query.id, 0x8180));
    let edns = query.edns.is_some();
    assert_eq!(of_answer.counts, [1, of_reply.counts[1], 0, u16::from(edns)]);
    assert!(answer.len() <= query.udp_limit().min(1_232), "{} octets", answer.len());
    let end = HEADER + query.question.len();
    assert_eq!(answer[HEADER..end], *query.question);
    let (mut from, mut at) = (question_end(reply).expect("a question"), end);
    // One set: no record twice, and one TTL (RFC 2181, section 5).
    let count = usize::from(of_reply.counts[1]);
    let own: Vec<_> = records(reply, from).take(count).collect();
    let lowest = own.iter().map(|a| a.ttl).min().expect("a record");
    let different: std::collections::HashSet<_> = own.iter().map(|a| a.rdata).collect();
    assert_eq!(different.len(), count);
    for _ in 0..of_reply.counts[1] {
        let (a, next) = Record::read(reply, from).expect("a record");
        let (aaaa, after) = Record::read(answer, at).expect("a record");
        let own = name_at(reply, from).expect("a name");
        assert!(own.as_wire().eq_ignore_ascii_case(query.qname), "of another name");
        assert_eq!((a.rtype, aaaa.rtype), (Qtype::A, Qtype::AAAA));
        let mut embedded = PREFIX;
        for (place, octet) in places.into_iter().zip(a.rdata) {
            embedded[usize::from(place)] = *octet;
        }
        assert_eq!(aaaa.rdata, embedded);
        let expected = lowest.min(longest).clamp(MANY.ttls[0], MANY.ttls[1]);
        assert_eq!(aaaa.ttl, expected, "for {}", a.ttl);
        (from, at) = (next, after);
    }
    let options: Vec<u8> = [&opt_fixed(1_232, 0, false, 6)[..], OPTIONS].concat();
    assert_eq!(answer[at..], options[..if edns { options.len() } else { 0 }]);
}
