//! Parsing of queries that a server receives from any sender.
//!
//! The rules follow RFC 1035 section 4, RFC 6891 and RFC 6895, and the practice of existing servers:
//!
//! | message received | result |
//! |---|---|
//! | shorter than a header | dropped: there is no id to answer |
//! | QR is 1 | dropped: answering responses makes a loop between two servers |
//! | an opcode other than QUERY | NOTIMP |
//! | not exactly one question, answers present, invalid or compressed name, cut short, octets left over, invalid OPT, two OPT records | FORMERR |
//! | EDNS version above 0 | parsed; [`Query::bad_version`] is true, and the reply is BADVERS with an OPT of version 0 |
//!
//! FORMERR and NOTIMP replies are a header alone, because the question could not be read. A TSIG record is skipped if
//! it is the last record (RFC 8945 section 5.1); this server has no keys.

use thiserror::Error;

use crate::edns::{EdnsSeen, MIN_UDP_SIZE};
use crate::message::{HEADER, Header, Record, flag, question_end, word};
use crate::rr::{Opcode, Qclass, Qtype, Rcode};

/// The bits of the opcode among the flags of a header.
const OPCODE: u16 = 0xf << 11;

/// A query that a server can answer. Parsing takes one step per label and record.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The message id, which the reply repeats.
    pub id: u16,
    /// Whether recursion is desired (RD).
    pub rd: bool,
    /// Whether checking is disabled (CD).
    pub cd: bool,
    /// Whether the client requests the AD bit in the reply.
    pub ad: bool,
    /// The queried name in wire form, uncompressed, 1..=255 octets.
    pub qname: &'a [u8],
    /// The type in the question section.
    pub qtype: Qtype,
    /// The class in the question section.
    pub qclass: Qclass,
    /// The question as in the message: name, type and class.
    pub question: &'a [u8],
    /// The EDNS fields, if there is an OPT record.
    pub edns: Option<EdnsSeen<'a>>,
    /// Whether the last record is a TSIG record.
    pub signed: bool,
}

impl<'a> Query<'a> {
    /// Reads the query in a message; the error determines the answer to a message without a valid
    /// query.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, QueryError> {
        let header = Header::read(message).ok_or(QueryError::Drop)?;
        if header.is_response() {
            return Err(QueryError::Drop);
        }
        if header.opcode() != Opcode::QUERY {
            return Err(QueryError::refuse(&header, Rcode::NOTIMP));
        }
        Self::body(message, &header).ok_or_else(|| QueryError::refuse(&header, Rcode::FORMERR))
    }

    /// Reads everything after the header; `None` if it is malformed.
    #[inline]
    fn body(message: &'a [u8], header: &Header) -> Option<Self> {
        let [questions, answers, authority, additional] = header.counts;
        if (questions, answers) != (1, 0) {
            return None;
        }
        let end = question_end(message)?;
        let mut query = Self {
            id: header.id,
            rd: header.flags & flag::RD != 0,
            cd: header.flags & flag::CD != 0,
            ad: header.flags & flag::AD != 0,
            qname: &message[HEADER..end - 4],
            qtype: Qtype(word(message, end - 4)?),
            qclass: Qclass(word(message, end - 2)?),
            question: &message[HEADER..end],
            edns: None,
            signed: false,
        };
        let end = query.records(message, end, u32::from(authority), u32::from(additional))?;
        (end == message.len()).then_some(query)
    }

    /// Reads the records after the question, stores the EDNS fields, and returns the end of the records; `None` if one
    /// is malformed.
    #[inline]
    fn records(
        &mut self,
        message: &'a [u8],
        start: usize,
        authority: u32,
        additional: u32,
    ) -> Option<usize> {
        let mut at = start;
        for number in 0..authority + additional {
            let (record, end) = Record::read(message, at)?;
            // A pseudo-record may occur once, in the additional section; TSIG must be the last record.
            let is_pseudo = record.rtype == Qtype::OPT || record.rtype == Qtype::TSIG;
            if is_pseudo && (number < authority || self.signed) {
                return None;
            }
            match record.rtype {
                Qtype::OPT if self.edns.is_none() && message[at] == 0 => {
                    self.edns = Some(EdnsSeen::from_record(&record)?);
                }
                Qtype::OPT => return None,
                Qtype::TSIG => self.signed = true,
                _ if self.signed => return None,
                _ => {}
            }
            at = end;
        }
        Some(at)
    }

    /// Returns the largest size of a UDP reply in octets: the size from EDNS, or 512.
    #[inline]
    pub fn udp_limit(&self) -> usize {
        usize::from(self.edns.map_or(MIN_UDP_SIZE, |edns| edns.udp_size))
    }

    /// Returns whether the query has an EDNS version other than 0: the reply is then BADVERS.
    #[inline]
    pub fn bad_version(&self) -> bool {
        self.edns.is_some_and(|edns| edns.version != 0)
    }
}

/// The way to answer a message that has no valid query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QueryError {
    /// Send no reply: the message is a response or has no complete header.
    #[error("a response, or shorter than a header: no reply")]
    Drop,
    /// Answer with this header alone: the question or a record is malformed (FORMERR), or the
    /// opcode is not QUERY (NOTIMP).
    #[error("query {} has the return code {}", .0.id, .0.rcode())]
    Refuse(Header),
}

impl QueryError {
    /// Refuses a message with this header, of which id, opcode, RD and CD are repeated.
    fn refuse(header: &Header, rcode: Rcode) -> Self {
        let repeated = OPCODE | flag::RD | flag::CD;
        let flags = flag::QR | header.flags & repeated | rcode.0;
        Self::Refuse(Header { flags, counts: [0; 4], ..*header })
    }

    /// Writes the reply, a header alone, and returns its length; `None` if no reply is sent or `out` is too short.
    pub fn reply(&self, out: &mut [u8]) -> Option<usize> {
        let Self::Refuse(header) = self else { return None };
        out.get_mut(..HEADER)?.copy_from_slice(&header.to_bytes());
        Some(HEADER)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::edns::Edns;
    use crate::query::QueryTemplate;

    /// Returns a query with or without an OPT record, changed by `edit`.
    fn query(edns: Option<Edns>, edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let name = "a.dns64perf.test".parse().unwrap();
        let template = QueryTemplate::new(&name, Qtype::AAAA, true, false, edns.as_ref());
        let mut message = template.bytes().to_vec();
        message[..2].copy_from_slice(&[0x12, 0x34]);
        edit(&mut message);
        message
    }

    /// Returns a query with an OPT record, changed by `edit`.
    fn with_edns(edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        query(Some(Edns::default()), edit)
    }

    /// A TSIG record that is well-formed for a server without keys.
    const TSIG: &[u8] = &[1, b'k', 0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 2, 1, 2];

    #[test]
    fn valid_queries_are_parsed() {
        let plain = query(None, |_| ());
        let parsed = Query::parse(&plain).unwrap();
        assert_eq!((parsed.id, parsed.qtype, parsed.qclass), (0x1234, Qtype::AAAA, Qclass::IN));
        assert_eq!(parsed.qname, b"\x01a\x09dns64perf\x04test\0");
        assert_eq!((parsed.rd, parsed.cd, parsed.ad, parsed.signed), (true, false, false, false));
        assert_eq!((parsed.udp_limit(), parsed.edns), (512, None));

        let edns = with_edns(|m| m[3] = 0x30);
        let parsed = Query::parse(&edns).unwrap();
        assert_eq!((parsed.cd, parsed.ad, parsed.udp_limit()), (true, true, 1232));
        assert!(!parsed.bad_version());

        let version = with_edns(|m| {
            let at = m.len() - 5;
            m[at] = 1;
        });
        assert!(Query::parse(&version).unwrap().bad_version());

        let signed = with_edns(|m| {
            m[11] = 2;
            m.extend_from_slice(TSIG);
        });
        let parsed = Query::parse(&signed).unwrap();
        assert!(parsed.signed && parsed.edns.is_some());

        let root = b"\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";
        let parsed = Query::parse(root).unwrap();
        assert_eq!((parsed.qname, parsed.qtype, parsed.rd), (&b"\0"[..], Qtype::NS, false));
    }

    #[test]
    fn short_messages_and_responses_get_no_reply() {
        for (what, message) in [
            ("nothing", vec![]),
            ("eleven octets", query(None, |m| m.truncate(11))),
            ("a response", query(None, |m| m[2] |= 0x80)),
            ("a response to a notify", query(None, |m| m[2] |= 0xa0)),
        ] {
            let error = Query::parse(&message).unwrap_err();
            assert_eq!(error, QueryError::Drop, "{what}");
            assert_eq!(error.reply(&mut [0; 512]), None, "{what}");
        }
    }

    #[test]
    fn other_opcodes_are_not_implemented() {
        for opcode in 1..16u8 {
            let message = query(None, |m| {
                m[2] |= opcode << 3;
                // The question is not read, because other opcodes have another layout.
                m.truncate(13);
            });
            let error = Query::parse(&message).unwrap_err();
            let mut out = [0xff; 20];
            assert_eq!(error.reply(&mut out), Some(12));
            assert_eq!(out[..12], [0x12, 0x34, 0x81 | opcode << 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(error.reply(&mut out[..11]), None);
        }
    }

    #[test]
    fn malformed_queries_get_formerr() {
        let cases = [
            ("no question", query(None, |m| m[5] = 0)),
            ("two questions", query(None, |m| m[5] = 2)),
            ("an answer", with_edns(|m| m[7] = 1)),
            ("a compressed name", query(None, |m| m[12..14].copy_from_slice(&[0xc0, 0x0e]))),
            ("a label of type 01", query(None, |m| m[12] = 0x41)),
            ("a cut name", query(None, |m| m.truncate(20))),
            ("a name too long", query(None, |m| m.splice(12..12, [1; 256]).for_each(drop))),
            ("no type", query(None, |m| m.truncate(m.len() - 4))),
            ("half a class", query(None, |m| m.truncate(m.len() - 1))),
            ("octets left over", query(None, |m| m.push(0))),
            ("a record that is not there", query(None, |m| m[11] = 1)),
            ("a cut OPT", with_edns(|m| m.truncate(m.len() - 1))),
            ("an OPT that is longer than the message", with_edns(|m| *m.last_mut().unwrap() = 1)),
            ("an OPT with a name", {
                with_edns(|m| {
                    let at = m.len() - 11;
                    m.splice(at..at, [1, b'x']).for_each(drop);
                })
            }),
            ("an OPT with a bad option", {
                with_edns(|m| {
                    *m.last_mut().unwrap() = 4;
                    m.extend_from_slice(&[0, 10, 0, 1]);
                })
            }),
            ("two OPTs", {
                with_edns(|m| {
                    m[11] = 2;
                    let opt = m[m.len() - 11..].to_vec();
                    m.extend_from_slice(&opt);
                })
            }),
            (
                "an OPT in the authority section",
                with_edns(|m| m[8..12].copy_from_slice(&[0, 1, 0, 0])),
            ),
            ("a record after TSIG", {
                query(None, |m| {
                    m[11] = 2;
                    m.extend_from_slice(TSIG);
                    m.extend_from_slice(&Edns::default().to_opt());
                })
            }),
            ("two TSIGs", {
                query(None, |m| {
                    m[11] = 2;
                    m.extend_from_slice(TSIG);
                    m.extend_from_slice(TSIG);
                })
            }),
        ];
        for (what, message) in cases {
            let error = Query::parse(&message).unwrap_err();
            let mut out = [0xff; 12];
            assert_eq!(error.reply(&mut out), Some(12), "{what}");
            assert_eq!(out, [0x12, 0x34, 0x81, 1, 0, 0, 0, 0, 0, 0, 0, 0], "{what}");
        }
    }

    #[test]
    fn a_query_cut_short_is_refused() {
        let message = with_edns(|_| ());
        for len in 0..message.len() {
            assert!(Query::parse(&message[..len]).is_err(), "{len}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_parsed_or_refused(mut message: Vec<u8>, as_query: bool) {
            if as_query && message.len() > 12 {
                message[2] &= 0x07;
                message[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 1]);
            }
            match Query::parse(&message) {
                Ok(query) => prop_assert!(crate::Name::from_wire(query.qname).is_ok()),
                Err(error) => { error.reply(&mut [0; 12]); }
            }
        }

        #[test]
        fn changed_queries_are_read_as_by_another_parser(at: prop::sample::Index, value: u8) {
            let mut message = with_edns(|_| ());
            let at = at.index(message.len());
            message[at] = value;
            if let Ok(query) = Query::parse(&message) {
                let oracle = domain::base::Message::from_octets(&message[..]).unwrap();
                let question = oracle.sole_question().unwrap();
                prop_assert_eq!(question.qtype().to_int(), query.qtype.0);
                prop_assert_eq!(oracle.opt().is_some(), query.edns.is_some());
            }
        }
    }
}
