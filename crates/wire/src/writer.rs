//! Replies, written from front to back into a buffer.
//!
//! ```text
//!   new             answer …        authority …       additional …     finish
//!   [header|question][ AN records ][ NS records ][ AR records ][ OPT ] └ counts, flags, RCODE patched in
//! ```
//!
//! Owners that stand in the question are written as pointers to it, at offsets the caller knows by arithmetic: the
//! question's name is at offset 12, its zone so many octets further. Room for the OPT record is set aside first, so a
//! reply that has to be cut still has it (RFC 6891 section 7).
//!
//! When an answer or authority record does not fit, TC is set and all records are taken back: the asker comes again by
//! TCP and would ignore them (RFC 2181 section 9). An additional record that does not fit is left out without a word.

use crate::edns::opt_fixed;
use crate::message::{HEADER, Header, OPT_FIXED, RECORD_FIXED, flag};
use crate::rr::{Qclass, Qtype, Rcode};
use crate::server::Query;

/// Where the question's name stands in every reply.
pub const QUESTION_OFFSET: u16 = HEADER as u16;

/// The owner of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// The name asked for.
    Question,
    /// The name at this offset of the reply, below 16,384.
    At(u16),
    /// This name, in wire form, uncompressed.
    Name(&'a [u8]),
}

/// A compression pointer to the name at this offset of the message, below 16,384.
#[inline]
pub fn pointer(offset: u16) -> [u8; 2] {
    debug_assert!(offset < 0x4000, "a pointer has 14 bits");
    (0xc000 | offset).to_be_bytes()
}

/// The sections that hold records, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Answer,
    Authority,
    Additional,
}

/// A reply in the making.
#[derive(Debug)]
pub struct ReplyWriter<'a> {
    /// The buffer, cut to the size limit.
    out: &'a mut [u8],
    /// How many octets are written.
    len: usize,
    /// Where the question ends.
    question_end: usize,
    /// The header, counts kept up.
    header: Header,
    /// The upper eight bits of the response code, which an OPT record carries.
    extended_rcode: u8,
    /// The section of the last record.
    section: Section,
    /// The OPT record to come: UDP size and DO bit.
    opt: Option<(u16, bool)>,
}

impl<'a> ReplyWriter<'a> {
    /// A reply to `query` of at most `limit` octets: its id, opcode, RD, CD and question; `None` if those do not fit.
    ///
    /// The response code is NOERROR and no other flag is set until said otherwise.
    #[inline]
    pub fn new(out: &'a mut [u8], limit: usize, query: &Query<'_>) -> Option<Self> {
        let limit = limit.min(out.len());
        let question_end = HEADER + query.question.len();
        let out = &mut out[..limit];
        out.get_mut(HEADER..question_end)?.copy_from_slice(query.question);
        let bit = |set, flag| if set { flag } else { 0 };
        let flags = flag::QR | bit(query.rd, flag::RD) | bit(query.cd, flag::CD);
        let flags = flags | u16::from(query.opcode.0) << 11;
        let header = Header { id: query.id, flags, counts: [1, 0, 0, 0] };
        let section = Section::Answer;
        Some(Self {
            out,
            len: question_end,
            question_end,
            header,
            extended_rcode: 0,
            section,
            opt: None,
        })
    }

    /// Sets the response code; codes above 15 need an OPT record.
    #[inline]
    pub fn rcode(&mut self, rcode: Rcode) {
        self.header.flags = self.header.flags & !0xf | rcode.0 & 0xf;
        self.extended_rcode = (rcode.0 >> 4) as u8;
    }

    /// Sets or clears bits of the header, see [`flag`].
    #[inline]
    pub fn flag(&mut self, bits: u16, set: bool) {
        self.header.flags = if set { self.header.flags | bits } else { self.header.flags & !bits };
    }

    /// Sets an OPT record aside, without options; call it before any record. Without room for it there will be none.
    #[inline]
    pub fn opt(&mut self, udp_size: u16, dnssec_ok: bool) {
        if self.out.len() - self.len >= OPT_FIXED {
            self.opt = Some((udp_size, dnssec_ok));
        }
    }

    /// Adds an answer in class IN; `false` if the reply is, or thereby gets, truncated.
    #[inline]
    pub fn answer(&mut self, owner: Owner<'_>, rtype: Qtype, ttl: u32, rdata: &[u8]) -> bool {
        self.record(Section::Answer, owner, rtype, ttl, &[rdata])
    }

    /// Adds a record to the authority section; `false` if the reply is, or thereby gets, truncated.
    ///
    /// The data comes in parts, so that names in it can be pointers.
    #[inline]
    pub fn authority(&mut self, owner: Owner<'_>, rtype: Qtype, ttl: u32, rdata: &[&[u8]]) -> bool {
        self.record(Section::Authority, owner, rtype, ttl, rdata)
    }

    /// Adds a record to the additional section; `false` if it is left out for want of room.
    #[inline]
    pub fn additional(&mut self, owner: Owner<'_>, rtype: Qtype, ttl: u32, rdata: &[u8]) -> bool {
        self.record(Section::Additional, owner, rtype, ttl, &[rdata])
    }

    /// Whether TC is set.
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.header.is_truncated()
    }

    /// How many octets are written, OPT record not counted. The next record's owner will stand here.
    #[inline]
    pub fn position(&self) -> usize {
        self.len
    }

    /// Takes all records back and sets TC.
    pub fn truncate(&mut self) {
        self.header.flags |= flag::TC;
        self.header.counts = [1, 0, 0, 0];
        self.len = self.question_end;
    }

    /// Writes the OPT record and the header, and returns the length of the reply.
    #[inline]
    pub fn finish(mut self) -> usize {
        if let Some((udp_size, dnssec_ok)) = self.opt {
            let opt = opt_fixed(udp_size, self.extended_rcode, dnssec_ok, 0);
            self.put(&opt);
            self.header.counts[3] += 1;
        }
        self.out[..HEADER].copy_from_slice(&self.header.to_bytes());
        self.len
    }

    /// Adds a record to a section that is the last one's or a later one.
    #[inline]
    fn record(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rtype: Qtype,
        ttl: u32,
        rdata: &[&[u8]],
    ) -> bool {
        debug_assert!(section >= self.section, "records come in the order of the sections");
        self.section = section;
        if self.is_truncated() {
            return false;
        }
        let compressed;
        let owner = match owner {
            Owner::Question => &[0xc0, HEADER as u8][..],
            Owner::At(offset) => {
                compressed = pointer(offset);
                &compressed
            }
            Owner::Name(name) => name,
        };
        let rdata_len = rdata.iter().map(|part| part.len()).sum::<usize>();
        let reserved = if self.opt.is_some() { OPT_FIXED } else { 0 };
        let room = self.out.len() - self.len - reserved;
        if owner.len() + RECORD_FIXED + rdata_len > room || rdata_len > usize::from(u16::MAX) {
            if section != Section::Additional {
                self.truncate();
            }
            return false;
        }
        self.put(owner);
        let [t1, t0] = rtype.0.to_be_bytes();
        let [c1, c0] = Qclass::IN.0.to_be_bytes();
        let [s3, s2, s1, s0] = ttl.to_be_bytes();
        let [l1, l0] = (rdata_len as u16).to_be_bytes();
        self.put(&[t1, t0, c1, c0, s3, s2, s1, s0, l1, l0]);
        for part in rdata {
            self.put(part);
        }
        self.header.counts[1 + section as usize] += 1;
        true
    }

    /// Writes octets for which there is room.
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.out[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}
