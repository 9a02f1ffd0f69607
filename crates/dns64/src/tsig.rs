//! Replies to signed queries (TSIG, RFC 8945). This server has no keys.

use wire::message::{HEADER, Header, Record, flag, name_at};
use wire::{Qclass, Qtype, Query, Rcode};

/// Error in the TSIG record: the key is not known (RFC 8945 section 3).
const BADKEY: u16 = 17;

/// Composes the reply to a query that is signed with an unknown key (RFC 8945 section 5.2.1):
/// NOTAUTH, with a TSIG record without a signature. It is no longer than the query. Returns `None`
/// if the TSIG record cannot be read.
pub(crate) fn unknown_key(message: &[u8], query: &Query<'_>) -> Option<Vec<u8>> {
    let header = Header::read(message)?;
    let mut at = HEADER + query.question.len();
    let mut tsig = None;
    for _ in 0..header.counts[1..].iter().map(|count| u32::from(*count)).sum() {
        let (record, end) = Record::read(message, at)?;
        tsig = (record.rtype == Qtype::TSIG).then_some(record);
        at = end;
    }
    let tsig = tsig?;
    let key = name_at(message, tsig.owner)?;
    let (algorithm, rest) = tsig.rdata.split_at(wire::name::wire_len(tsig.rdata).ok()?);
    // Time and fudge; the signature with its length; the original id, error, and other data.
    let (times, rest) = rest.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<2>()?;
    let original_id = rest.get(usize::from(u16::from_be_bytes(*len))..)?.first_chunk::<2>()?;

    let kept = header.flags & (flag::RD | flag::CD);
    let flags = flag::QR | kept | Rcode::NOTAUTH.0;
    let reply = Header { flags, counts: [1, 0, 0, 1], ..header };
    let mut out = reply.to_bytes().to_vec();
    out.extend_from_slice(query.question);
    out.extend_from_slice(key.as_wire());
    for number in [Qtype::TSIG.0, Qclass::ANY.0, 0, 0, algorithm.len() as u16 + 16] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(algorithm);
    out.extend_from_slice(times);
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(original_id);
    out.extend_from_slice(&BADKEY.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::iana::TsigRcode;
    use domain::rdata::Tsig;

    #[test]
    fn the_reply_names_the_key_and_the_error() {
        let signed = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x03wWw\x04test\0\0\x1c\0\x01\
            \x03key\0\0\xfa\0\xff\0\0\0\0\0\x21\x0bhmac-sha256\0\0\0\0\0\0\x09\x01\x2c\0\x04abcd\x12\x34\0\0\0\0";
        let query = Query::parse(signed).expect("a query");
        assert!(query.signed);
        let reply = unknown_key(signed, &query).expect("a reply");
        assert!(reply.len() < signed.len());
        let message = domain::base::Message::from_octets(reply).expect("a message");
        assert_eq!((message.header().id(), message.header().rcode().to_int()), (0x1234, 9));
        assert_eq!(message.sole_question().expect("one").qname().to_string(), "wWw.test");
        let mut records = message.additional().expect("fine").limit_to::<Tsig<_, _>>();
        let record = records.next().expect("one").expect("fine");
        assert_eq!(record.owner().to_string(), "key");
        let tsig = record.data();
        assert_eq!((tsig.error(), tsig.mac_slice().len()), (TsigRcode::BADKEY, 0));
        assert_eq!(
            (tsig.time_signed().into(), tsig.fudge(), tsig.original_id()),
            (9u64, 300, 0x1234)
        );
        for len in 0..signed.len() {
            if let Ok(query) = Query::parse(&signed[..len]) {
                assert_eq!(unknown_key(&signed[..len], &query), None, "{len}");
            }
        }
    }
}
