//! What a server sees: a query that anybody may have sent.
//!
//! The rules come from RFC 1035 section 4, RFC 6891 and RFC 6895, and from what servers do:
//!
//! | what arrived | what becomes of it |
//! |---|---|
//! | shorter than a header | dropped: there is no id to answer to |
//! | QR is 1 | dropped: answering responses makes two servers talk for ever |
//! | an opcode other than QUERY | NOTIMP |
//! | not one question, answers present, bad or compressed name, cut, octets left over, bad OPT, two of them | FORMERR |
//! | EDNS version above 0 | parsed; [`Query::bad_version`] tells, and the answer is BADVERS with an OPT of version 0 |
//!
//! FORMERR and NOTIMP are answered with a bare header: what could not be read cannot be repeated. A TSIG record is
//! passed over where it may stand, as the last of all (RFC 8945 section 5.1); this server has no keys.

use thiserror::Error;

use crate::edns::{EdnsSeen, MIN_UDP_SIZE};
use crate::message::{HEADER, Header, Record, flag, question_end, word};
use crate::rr::{Opcode, Qclass, Qtype, Rcode};

/// A query that a server can answer. Parsing takes one step per label and record.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Its id.
    pub id: u16,
    /// Its opcode; always QUERY today.
    pub opcode: Opcode,
    /// Whether recursion is desired.
    pub rd: bool,
    /// Whether checking is disabled.
    pub cd: bool,
    /// Whether the AD bit is wanted in the reply.
    pub ad: bool,
    /// The name asked for, in wire form, uncompressed, 1..=255 octets.
    pub qname: &'a [u8],
    /// The type asked for.
    pub qtype: Qtype,
    /// The class asked for.
    pub qclass: Qclass,
    /// The question as it stands in the message: name, type and class.
    pub question: &'a [u8],
    /// What it says by EDNS.
    pub edns: Option<EdnsSeen<'a>>,
    /// Whether it ends in a TSIG record.
    pub signed: bool,
}

impl<'a> Query<'a> {
    /// The query in a message, or what to do with a message that is none.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, QueryError> {
        let header = Header::read(message).ok_or(QueryError::Drop)?;
        if header.is_response() {
            return Err(QueryError::Drop);
        }
        if header.opcode() != Opcode::QUERY {
            return Err(QueryError::NotImp(HeaderEcho::of(&header)));
        }
        Self::body(message, &header).ok_or(QueryError::FormErr(HeaderEcho::of(&header)))
    }

    /// Everything behind the header; `None` if it is malformed.
    #[inline]
    fn body(message: &'a [u8], header: &Header) -> Option<Self> {
        let [questions, answers, authority, additional] = header.counts;
        if (questions, answers) != (1, 0) {
            return None;
        }
        let end = question_end(message)?;
        let mut query = Self {
            id: header.id,
            opcode: header.opcode(),
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

    /// Walks the records behind the question, keeps what EDNS says, and returns where they end; `None` if malformed.
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
            // A pseudo-record stands in the additional section, once, and TSIG at its end.
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

    /// How many octets a reply over UDP may have: what EDNS says, or 512.
    #[inline]
    pub fn udp_limit(&self) -> usize {
        usize::from(self.edns.map_or(MIN_UDP_SIZE, |edns| edns.udp_size))
    }

    /// Whether the query speaks an EDNS version that this library does not: the reply is BADVERS.
    #[inline]
    pub fn bad_version(&self) -> bool {
        self.edns.is_some_and(|edns| edns.version != 0)
    }
}

/// What to do with a message that holds no query that could be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QueryError {
    /// Say nothing.
    #[error("neither a query nor long enough for a header: no reply")]
    Drop,
    /// Answer FORMERR.
    #[error("malformed query {}: FORMERR", .0.id)]
    FormErr(HeaderEcho),
    /// Answer NOTIMP.
    #[error("query {} with opcode {}: NOTIMP", .0.id, .0.opcode.0)]
    NotImp(HeaderEcho),
}

impl QueryError {
    /// The response code of the reply; `None` if there is to be none.
    pub fn rcode(&self) -> Option<Rcode> {
        match self {
            Self::Drop => None,
            Self::FormErr(_) => Some(Rcode::FORMERR),
            Self::NotImp(_) => Some(Rcode::NOTIMP),
        }
    }

    /// Writes the reply, a bare header, and returns its length; `None` if there is to be none or `out` is too short.
    pub fn reply(&self, out: &mut [u8]) -> Option<usize> {
        let echo = match self {
            Self::Drop => return None,
            Self::FormErr(echo) | Self::NotImp(echo) => echo,
        };
        let rcode = self.rcode()?;
        out.get_mut(..HEADER)?.copy_from_slice(&echo.header(rcode).to_bytes());
        Some(HEADER)
    }
}

/// What a reply repeats of a header whose message could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderEcho {
    /// The id.
    pub id: u16,
    /// The opcode.
    pub opcode: Opcode,
    /// Whether recursion was desired.
    pub rd: bool,
    /// Whether checking was disabled.
    pub cd: bool,
}

impl HeaderEcho {
    /// What a reply repeats of this header.
    fn of(header: &Header) -> Self {
        Self {
            id: header.id,
            opcode: header.opcode(),
            rd: header.flags & flag::RD != 0,
            cd: header.flags & flag::CD != 0,
        }
    }

    /// The header of a reply without any section.
    fn header(&self, rcode: Rcode) -> Header {
        let bit = |set, flag| if set { flag } else { 0 };
        let flags = flag::QR | bit(self.rd, flag::RD) | bit(self.cd, flag::CD);
        let flags = flags | u16::from(self.opcode.0) << 11 | (rcode.0 & 0xf);
        Header { id: self.id, flags, counts: [0; 4] }
    }
}
