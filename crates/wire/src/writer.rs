//! Writing of replies into a buffer, from start to end.
//!
//! ```text
//!   new             answer …        authority …       additional …     finish
//!   [header|question][ AN records ][ NS records ][ AR records ][ OPT ] └ counts, flags, RCODE patched in
//! ```
//!
//! An owner name that is part of the question is written as a pointer to it. The caller computes the offset: the name
//! in the question is at offset 12, its zone some octets further. Room for the OPT record is reserved first, so a
//! truncated reply still has it (RFC 6891 section 7).
//!
//! When an answer or authority record does not fit, TC is set and all records are removed: the client retries over TCP
//! and ignores them (RFC 2181 section 9). An additional record that does not fit is left out without TC.

use crate::edns::opt_fixed;
use crate::message::{HEADER, Header, OPT_FIXED, RECORD_FIXED, flag};
use crate::rr::{Qclass, Qtype, Rcode};
use crate::server::Query;

/// The offset of the name in the question of every reply.
pub const QUESTION_OFFSET: u16 = HEADER as u16;

/// Largest size of a message in octets: its length field on TCP has sixteen bits.
const MAX_MESSAGE: usize = u16::MAX as usize;

/// The owner of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// The queried name, by a pointer to the question.
    Question,
    /// The name at this offset of the reply, below 16,384.
    At(u16),
    /// This name, in wire form, uncompressed.
    Name(&'a [u8]),
}

/// Returns a compression pointer to the name at this offset of the message, which must be below 16,384.
#[inline]
pub fn pointer(offset: u16) -> [u8; 2] {
    debug_assert!(offset < 0x4000, "a pointer fits into 14 bits");
    (0xc000 | offset).to_be_bytes()
}

/// The sections with records, in the order of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Records that answer the question.
    Answer,
    /// Records of the authoritative zone: NS, SOA.
    Authority,
    /// Other useful records, such as addresses of name servers.
    Additional,
}

/// A writer of one reply.
#[derive(Debug)]
pub struct ReplyWriter<'a> {
    /// The buffer, shortened to the size limit.
    out: &'a mut [u8],
    len: usize,
    /// The offset where the question ends.
    question_end: usize,
    /// The header with the current counts.
    header: Header,
    /// The upper eight bits of the response code, which an OPT record carries.
    extended_rcode: u8,
    /// The section of the last record.
    section: Section,
    /// The OPT record to be written at the end: UDP size and DO bit.
    opt: Option<(u16, bool)>,
}

impl<'a> ReplyWriter<'a> {
    /// Starts a reply to `query` of at most `limit` octets with its id, RD, CD and question; `None`
    /// if these do not fit.
    ///
    /// The response code is NOERROR and no other flag is set, until the caller changes them.
    #[inline]
    pub fn new(out: &'a mut [u8], limit: usize, query: &Query<'_>) -> Option<Self> {
        let mut writer = Self::about(out, limit, query.question)?;
        writer.header.id = query.id;
        writer.flag(flag::RD, query.rd);
        writer.flag(flag::CD, query.cd);
        Some(writer)
    }

    /// Starts a reply with the id 0 to this question; works as [`new`](Self::new) otherwise.
    #[inline]
    pub fn about(out: &'a mut [u8], limit: usize, question: &[u8]) -> Option<Self> {
        let limit = limit.min(out.len()).min(MAX_MESSAGE);
        let question_end = HEADER + question.len();
        let out = &mut out[..limit];
        out.get_mut(HEADER..question_end)?.copy_from_slice(question);
        let header = Header { id: 0, flags: flag::QR, counts: [1, 0, 0, 0] };
        let (len, section) = (question_end, Section::Answer);
        Some(Self { out, len, question_end, header, extended_rcode: 0, section, opt: None })
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

    /// Reserves room for an OPT record without options; call it before adding records. Without room there is no OPT
    /// record.
    #[inline]
    pub fn opt(&mut self, udp_size: u16, dnssec_ok: bool) {
        if self.out.len() - self.len >= OPT_FIXED {
            self.opt = Some((udp_size, dnssec_ok));
        }
    }

    /// Adds an answer in class IN; returns `false` if the reply is or becomes truncated.
    #[inline]
    pub fn answer(&mut self, owner: Owner<'_>, rtype: Qtype, ttl: u32, rdata: &[u8]) -> bool {
        self.record(Section::Answer, owner, rtype, ttl, &[rdata])
    }

    /// Adds a record to the authority section; returns `false` if the reply is or becomes truncated.
    ///
    /// The data is given in parts, so that names in it can be pointers.
    #[inline]
    pub fn authority(&mut self, owner: Owner<'_>, rtype: Qtype, ttl: u32, rdata: &[&[u8]]) -> bool {
        self.record(Section::Authority, owner, rtype, ttl, rdata)
    }

    /// Adds a record to the additional section; returns `false` if there is no room for it.
    #[inline]
    pub fn additional(&mut self, owner: Owner<'_>, rtype: Qtype, ttl: u32, rdata: &[u8]) -> bool {
        self.record(Section::Additional, owner, rtype, ttl, &[rdata])
    }

    /// Adds one whole record that was composed before, and returns it for editing in place; `None` if it does not fit.
    ///
    /// For replies that differ in few octets: each costs a copy and a few stores.
    #[inline]
    pub fn prebuilt(&mut self, section: Section, record: &[u8]) -> Option<&mut [u8]> {
        if !self.make_room(section, record.len()) {
            return None;
        }
        let start = self.len;
        self.put(record);
        self.header.counts[1 + section as usize] += 1;
        Some(&mut self.out[start..self.len])
    }

    /// Returns whether TC is set.
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.header.is_truncated()
    }

    /// Returns the number of octets written, without the OPT record: the offset of the next record.
    #[inline]
    pub fn position(&self) -> usize {
        self.len
    }

    /// Removes all records and sets TC.
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

    /// Adds a record to the section of the last record or to a later one.
    #[inline]
    fn record(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rtype: Qtype,
        ttl: u32,
        rdata: &[&[u8]],
    ) -> bool {
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
        // Data that is too long for its length field is too long for the message too, so it never fits.
        if !self.make_room(section, owner.len() + RECORD_FIXED + rdata_len) {
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

    /// Returns whether a record of `len` octets fits into the section of the last record or a later one; if not, and
    /// the record is required, truncates the reply.
    #[inline]
    fn make_room(&mut self, section: Section, len: usize) -> bool {
        debug_assert!(section >= self.section, "records are added in the order of the sections");
        self.section = section;
        if self.is_truncated() {
            return false;
        }
        let reserved = if self.opt.is_some() { OPT_FIXED } else { 0 };
        let fits = len <= self.out.len() - self.len - reserved;
        if !fits && section != Section::Additional {
            self.truncate();
        }
        fits
    }

    /// Writes octets; the caller has checked that there is room.
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.out[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use domain::base::Message;

    use super::*;
    use crate::edns::Edns;
    use crate::name::Name;
    use crate::query::QueryTemplate;

    /// Returns a query for `host.dns64perf.test A`; its zone is at offset 17 of a reply.
    fn query() -> Vec<u8> {
        let name: Name = "host.dns64perf.test".parse().unwrap();
        let mut message = QueryTemplate::new(&name, Qtype::A, true, true, Some(&Edns::default()))
            .bytes()
            .to_vec();
        message[1] = 7;
        message
    }

    /// Returns the reply that `fill` writes with this limit.
    fn write(limit: usize, fill: impl FnOnce(&mut ReplyWriter<'_>)) -> Vec<u8> {
        let message = query();
        let query = Query::parse(&message).unwrap();
        let mut out = vec![0xee; 2000];
        let mut writer = ReplyWriter::new(&mut out, limit, &query).unwrap();
        fill(&mut writer);
        let len = writer.finish();
        assert!(len <= limit && out[limit..].iter().all(|&octet| octet == 0xee));
        out.truncate(len);
        out
    }

    #[test]
    fn another_parser_reads_the_reply() {
        let reply = write(512, |writer| {
            writer.opt(1232, true);
            writer.flag(flag::AA, true);
            writer.rcode(Rcode::NXDOMAIN);
            assert!(writer.answer(Owner::Question, Qtype::A, 60, &[10, 0, 0, 1]));
            let soa: [&[u8]; 4] = [b"\x02ns", &pointer(17), &pointer(17), &[0; 20]];
            assert!(writer.authority(Owner::At(17), Qtype::SOA, 30, &soa));
            assert!(writer.additional(Owner::Name(b"\x02ns\x01x\0"), Qtype::A, 1, &[10, 0, 0, 2]));
        });
        let message = Message::from_octets(&reply[..]).unwrap();
        let header = message.header();
        assert!(
            header.qr()
                && header.aa()
                && header.rd()
                && header.cd()
                && !header.ra()
                && !header.tc()
        );
        assert_eq!((header.id(), header.rcode().to_int()), (7, 3));
        let counts = message.header_counts();
        assert_eq!(
            (counts.qdcount(), counts.ancount(), counts.nscount(), counts.arcount()),
            (1, 1, 1, 2)
        );
        let (_, answer, authority, additional) = message.sections().unwrap();
        let text = |section: domain::base::message::RecordSection<'_, &[u8]>| {
            let records =
                section.limit_to::<domain::rdata::AllRecordData<_, domain::base::ParsedName<_>>>();
            records.map(|record| record.unwrap().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(text(answer), ["host.dns64perf.test. 60 IN A 10.0.0.1"]);
        assert_eq!(
            text(authority),
            ["dns64perf.test. 30 IN SOA ns.dns64perf.test. dns64perf.test. 0 0 0 0 0"]
        );
        assert_eq!(text(additional)[0], "ns.x. 1 IN A 10.0.0.2");
        let opt = message.opt().unwrap();
        assert_eq!((opt.udp_payload_size(), opt.version(), opt.dnssec_ok()), (1232, 0, true));
    }

    #[test]
    fn a_prebuilt_record_equals_a_written_one() {
        let written = write(512, |writer| {
            writer.opt(1232, false);
            assert!(writer.answer(Owner::Question, Qtype::A, 60, &[10, 0, 0, 1]));
        });
        let record = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\0\0\0\0";
        let prebuilt = write(512, |writer| {
            writer.opt(1232, false);
            let record = writer.prebuilt(Section::Answer, record).unwrap();
            record[12..].copy_from_slice(&[10, 0, 0, 1]);
        });
        assert_eq!(prebuilt, written);
        let cut = write(written.len() - 1, |writer| {
            writer.opt(1232, false);
            assert!(writer.prebuilt(Section::Additional, record).is_none());
            assert!(!writer.is_truncated());
            assert!(writer.prebuilt(Section::Additional, &record[..15]).is_some());
        });
        assert_eq!(Header::read(&cut).unwrap().counts, [1, 0, 0, 2]);
        let cut = write(written.len() - 1, |writer| {
            writer.opt(1232, false);
            assert!(writer.prebuilt(Section::Authority, record).is_none());
        });
        assert!(Header::read(&cut).unwrap().is_truncated());
    }

    #[test]
    fn extended_codes_go_to_the_opt_record() {
        let reply = write(512, |writer| {
            writer.opt(1232, false);
            writer.rcode(Rcode::BADVERS);
        });
        let message = Message::from_octets(&reply[..]).unwrap();
        assert_eq!(message.opt_rcode().to_int(), 16);
    }

    #[test]
    fn a_reply_without_room_is_truncated() {
        let bare = write(512, |_| ()).len();
        // Question, OPT and two A records of 16 octets fit exactly.
        for (limit, fits) in [(bare + 11 + 32, true), (bare + 11 + 31, false)] {
            let reply = write(limit, |writer| {
                writer.opt(1232, false);
                assert!(writer.answer(Owner::Question, Qtype::A, 1, &[1; 4]));
                assert_eq!(writer.answer(Owner::Question, Qtype::A, 1, &[2; 4]), fits);
                assert_eq!(writer.is_truncated(), !fits);
                assert!(!writer.authority(Owner::Question, Qtype::TXT, 1, &[&[0; 300]]));
            });
            let header = Header::read(&reply).unwrap();
            assert!(header.is_truncated());
            assert_eq!(header.counts, [1, 0, 0, 1]);
            assert_eq!(reply.len(), bare + 11);
        }
    }

    #[test]
    fn additional_records_without_room_are_left_out() {
        let reply = write(60, |writer| {
            assert!(writer.answer(Owner::Question, Qtype::A, 1, &[1; 4]));
            assert!(!writer.additional(Owner::Question, Qtype::A, 1, &[2; 4]));
        });
        let header = Header::read(&reply).unwrap();
        assert!(!header.is_truncated());
        assert_eq!(header.counts, [1, 1, 0, 0]);
    }

    #[test]
    fn a_buffer_without_room_is_refused() {
        let message = query();
        let query = Query::parse(&message).unwrap();
        let need = HEADER + query.question.len();
        for room in 0..need {
            assert!(ReplyWriter::new(&mut vec![0; room], 512, &query).is_none(), "{room}");
        }
        let mut out = vec![0; need];
        let mut writer = ReplyWriter::new(&mut out, 512, &query).unwrap();
        writer.opt(1232, false);
        assert!(!writer.answer(Owner::Question, Qtype::A, 1, &[1; 4]));
        assert_eq!(writer.finish(), need);
    }
}
