//! Answers: one stored form, and a copy for each client.
//!
//! An answer is a whole message without an id, with its name in lower case and without an OPT record. Each client gets
//! a copy with its own id, flags, letter case and OPT record, with TTLs reduced by the age of the answer, and truncated
//! to the size that the client accepts:
//!
//! ```text
//!   [header|question in lower case|answer|authority|additional]    stored in the cache, shared by clients
//!      |        |                                     |
//!      id     case of the query                    left out first, then TC; authority too if it is not needed
//! ```

use std::ops::RangeInclusive;

use measure::Transport;
use wire::edns::opt_fixed;
use wire::extend::ReplyOptions;
use wire::message::{HEADER, Header, OPT_FIXED, Record, flag, has_wanted, records};
use wire::server::Query;
use wire::{Qtype, Rcode};

use crate::extended_error::{self, ExtendedError};
use crate::question::Case;

/// Longest message of DNS, in octets: streams have 16 bits for the length.
pub(crate) const MAX_MESSAGE: usize = 65_535;
/// Largest UDP message that the server accepts, in octets, as stated in its OPT record.
pub const OUR_UDP_SIZE: u16 = 1_232;

/// An answer that is being composed, or complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// Memory of [`MAX_MESSAGE`] octets, of which the first `len` are the message.
    pub(crate) room: Vec<u8>,
    /// Number of octets in use: header to additional section, without OPT.
    pub(crate) len: usize,
    /// Position of the end of the question.
    pub(crate) question_end: usize,
    /// Position of the optional records: the additional section, and the authority section in front
    /// of it in a synthesised answer.
    pub(crate) optional_at: usize,
    /// Return code, all twelve bits.
    pub(crate) rcode: u16,
    /// EDNS options for the client, in wire form.
    pub(crate) options: Vec<u8>,
    /// Upper bound of the answer's lifetime in addition to the TTLs of its answer section, in
    /// seconds.
    pub(crate) longest_ttl: u32,
    /// Whether the answer reports a failure of this server.
    pub(crate) failure: bool,
}

/// Properties of the reply that a client needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// Id of the query, which the reply repeats.
    pub(crate) id: u16,
    /// Letter case of the name in the query.
    pub(crate) case: Case,
    /// Largest reply that the client accepts, in octets.
    pub(crate) limit: u16,
    /// Whether the query has EDNS.
    pub(crate) edns: bool,
    /// The bits DO, RD and CD of the query.
    pub(crate) dnssec: bool,
    pub(crate) rd: bool,
    pub(crate) cd: bool,
    /// Whether the client requested the AD bit.
    pub(crate) ad: bool,
    /// EDNS options requested for replies: keepalive and padding on a stream, a cookie everywhere.
    pub(crate) options: ReplyOptions,
}

impl Needs {
    /// Reads the properties from a query. `idle` is the keepalive time of the stream in units of
    /// 100 ms, if the client may know it. Only encrypted replies are padded (RFC 7830 section 6).
    pub(crate) fn new(
        query: &Query<'_>,
        udp_limit: usize,
        transport: Transport,
        idle: Option<u16>,
    ) -> Self {
        let dnssec = query.edns.is_some_and(|edns| edns.do_bit);
        let stream = !transport.is_datagram();
        let options = query.edns.filter(|_| stream);
        let mut options =
            options.map(|edns| ReplyOptions::requested(&edns, idle)).unwrap_or_default();
        options.padded &= transport.uses_tls();
        let limit = if stream { MAX_MESSAGE } else { query.udp_limit().min(udp_limit) };
        Needs {
            id: query.id,
            case: Case::of(query.qname),
            limit: limit as u16,
            edns: query.edns.is_some(),
            dnssec,
            rd: query.rd,
            cd: query.cd,
            ad: query.ad || dnssec,
            options,
        }
    }
}

/// A reference to an answer in the cache or in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerRef<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) question_end: usize,
    pub(crate) optional_at: usize,
    pub(crate) rcode: u16,
    pub(crate) options: &'a [u8],
}

/// Age of an answer, which determines its TTLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// The TTLs do not change.
    Fresh,
    /// The TTLs are reduced by this number of seconds.
    Seconds(u32),
    /// The answer has expired; all TTLs get this value (RFC 8767 section 4).
    Stale(u32),
}

impl Answer {
    /// Returns whether the answer is a failure of this server or of upstream.
    pub(crate) fn is_failure(&self) -> bool {
        self.failure || !matches!(self.rcode, 0 | 3)
    }

    /// Makes an empty answer with room for the longest message.
    pub(crate) fn new() -> Self {
        let longest_ttl = u32::MAX;
        Answer { room: vec![0; MAX_MESSAGE], longest_ttl, ..Answer::default() }
    }

    /// Replaces the answer by a copy of another one.
    pub(crate) fn set(&mut self, from: &AnswerRef<'_>) {
        self.clear();
        self.len = from.bytes.len();
        self.room[..self.len].copy_from_slice(from.bytes);
        (self.question_end, self.optional_at) = (from.question_end, from.optional_at);
        self.rcode = from.rcode;
        self.options.extend_from_slice(from.options);
    }

    /// Returns the message as far as it is composed.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
    }

    /// Returns a reference, for delivery.
    pub(crate) fn as_ref(&self) -> AnswerRef<'_> {
        AnswerRef {
            bytes: self.bytes(),
            question_end: self.question_end,
            optional_at: self.optional_at,
            rcode: self.rcode,
            options: &self.options,
        }
    }

    /// Reduces the answer to a question and a return code.
    pub(crate) fn question_only(&mut self, question: &[u8], rcode: Rcode) {
        self.clear();
        let header = Header { id: 0, flags: flag::QR | rcode.0 & 0xf, counts: [1, 0, 0, 0] };
        self.len = HEADER + question.len();
        self.room[..HEADER].copy_from_slice(&header.to_bytes());
        self.room[HEADER..self.len].copy_from_slice(question);
        (self.question_end, self.optional_at) = (self.len, self.len);
        self.rcode = rcode.0;
    }

    /// Turns the answer into one that upstream could not send whole: truncated over UDP, SERVFAIL
    /// over a stream.
    pub(crate) fn incomplete(&mut self, question: &[u8]) {
        self.question_only(question, Rcode::SERVFAIL);
        self.room[2] |= (flag::TC >> 8) as u8;
        self.failure = true;
    }

    /// Clears AD: the data is not known to be authentic.
    pub(crate) fn clear_authentic(&mut self) {
        self.room[3] &= !(flag::AD as u8);
    }

    /// Limits the TTLs of the answer section to `bounds`, in seconds, and the time of a negative
    /// answer, with the TTL of the SOA record by which clients know it, to `most_negative`; returns
    /// the TTL of the answer.
    pub(crate) fn bound_ttls(&mut self, bounds: RangeInclusive<u32>, most_negative: u32) -> u32 {
        let mut answers = u16::from_be_bytes([self.room[6], self.room[7]]);
        let message = &mut self.room[..self.len];
        let most_negative = self.longest_ttl.min(most_negative);
        let (mut at, mut lowest) = (self.question_end, most_negative);
        while (answers > 0 || most_negative < u32::MAX)
            && let Some((record, end)) = Record::read(message, at)
        {
            let ttl = match record.rtype {
                _ if answers > 0 => record.ttl.max(*bounds.start()).min(*bounds.end()),
                Qtype::SOA => record.ttl.min(most_negative),
                _ => record.ttl,
            };
            if answers > 0 {
                (answers, lowest) = (answers - 1, lowest.min(ttl));
            }
            let ttl_at = record.rdata_at - 6;
            message[ttl_at..ttl_at + 4].copy_from_slice(&ttl.to_be_bytes());
            at = end;
        }
        lowest
    }

    /// Removes the content but keeps the allocated memory.
    pub(crate) fn clear(&mut self) {
        self.options.clear();
        (self.len, self.question_end, self.optional_at) = (0, 0, 0);
        (self.rcode, self.longest_ttl) = (0, u32::MAX);
        self.failure = false;
    }
}

impl<'a> AnswerRef<'a> {
    /// Returns the records of the answer section.
    pub(crate) fn answers(self) -> impl Iterator<Item = Record<'a>> {
        let count = Header::read(self.bytes).map_or(0, |header| header.counts[1]);
        records(self.bytes, self.question_end).take(count.into())
    }

    /// Returns the type of the question.
    pub(crate) fn qtype(&self) -> Qtype {
        let end = self.bytes.get(..self.question_end.saturating_sub(2));
        end.and_then(|end| end.last_chunk())
            .map_or(Qtype(0), |&chunk| Qtype(u16::from_be_bytes(chunk)))
    }

    /// Returns the key of equal answers for rate limits: the return code and the question.
    pub(crate) fn identity(&self) -> &[u8] {
        &self.bytes[3..self.question_end]
    }

    /// Returns whether the answer is negative: no such name or no such records, also after aliases.
    pub(crate) fn is_negative(&self) -> bool {
        Rcode(self.rcode) == Rcode::NXDOMAIN || !has_wanted(self.qtype(), self.answers())
    }

    /// Returns whether the answer has AAAA records from upstream.
    pub(crate) fn is_native(&self) -> bool {
        self.answers().any(|record| record.rtype == Qtype::AAAA)
            && !extended_error::has(ExtendedError::Synthesized, self.options)
    }

    /// Returns the smallest TTL of the optional records, in seconds; `u32::MAX` without any.
    pub(crate) fn optional_ttl(&self) -> u32 {
        records(self.bytes, self.optional_at).map(|record| record.ttl).min().unwrap_or(u32::MAX)
    }

    /// Returns whether an optional record has expired; with the answer it always has.
    fn has_expired(&self, age: Age) -> bool {
        match age {
            Age::Seconds(seconds @ 1..) => self.optional_ttl() <= seconds,
            Age::Stale(_) => true,
            Age::Fresh | Age::Seconds(0) => false,
        }
    }

    /// Writes the reply for one client, at most as long as the client accepts; returns its length and whether
    /// it is truncated.
    pub(crate) fn deliver(&self, wants: &Needs, age: Age, out: &mut [u8]) -> (usize, bool) {
        let limit = usize::from(wants.limit).min(out.len());
        // Optional records that do not fit, or have expired, are left out, then the options.
        let bare = if wants.edns { limit.saturating_sub(OPT_FIXED) } else { limit };
        let room = if wants.edns { bare.saturating_sub(self.options.len()) } else { bare };
        let truncated = self.optional_at > bare;
        let body = match self.bytes.len() {
            _ if truncated => self.question_end,
            len if len <= room && !self.has_expired(age) => len,
            _ => self.optional_at,
        };
        let with_options = !truncated && body <= room;
        if limit < self.question_end + if wants.edns { OPT_FIXED } else { 0 } {
            return (0, true);
        }
        out[..body].copy_from_slice(&self.bytes[..body]);
        let Some(mut header) = Header::read(out) else { return (0, true) };
        self.patch_header(&mut header, wants, body, truncated);
        wants.case.apply(&mut out[HEADER..self.question_end - 4]);
        let mut len = body;
        if wants.edns {
            let options: &[u8] = if with_options { self.options } else { &[] };
            let opt = opt_fixed(
                OUR_UDP_SIZE,
                (self.rcode >> 4) as u8,
                wants.dnssec,
                options.len() as u16,
            );
            out[len..len + OPT_FIXED].copy_from_slice(&opt);
            len += OPT_FIXED;
            out[len..len + options.len()].copy_from_slice(options);
            len += options.len();
            len = wants.options.add(out, body, len, limit);
            header.counts[3] += 1;
        }
        out[..HEADER].copy_from_slice(&header.to_bytes());
        if age != Age::Fresh && body > self.question_end {
            apply_age(&mut out[..body], self.question_end, age);
        }
        (len, truncated)
    }

    /// Writes the header of a reply to one client, of which `body` octets are sent.
    fn patch_header(&self, header: &mut Header, wants: &Needs, body: usize, truncated: bool) {
        header.id = wants.id;
        let bit = |set: bool, flag: u16| if set { flag } else { 0 };
        let ad = header.flags & flag::AD != 0 && wants.ad;
        // An incomplete answer: a stream has no room for more either.
        let incomplete = header.flags & flag::TC != 0 && wants.limit < MAX_MESSAGE as u16;
        let rcode = if incomplete { Rcode::NOERROR.0 } else { header.flags & 0xf };
        header.flags = flag::QR
            | flag::RA
            | bit(truncated || incomplete, flag::TC)
            | bit(wants.rd, flag::RD)
            | bit(wants.cd, flag::CD)
            | bit(ad, flag::AD)
            | rcode;
        if self.rcode > 0xf && !wants.edns {
            // The upper bits need an OPT record.
            header.flags = header.flags & !0xf | Rcode::SERVFAIL.0;
        }
        if truncated {
            header.counts = [1, 0, 0, 0];
        } else if body < self.bytes.len() {
            header.counts[3] = 0;
            if self.answers_end(header.counts[1]) >= body {
                header.counts[2] = 0;
            }
        }
    }

    /// Returns the position of the end of the answer section, which has this number of records.
    fn answers_end(&self, answers: u16) -> usize {
        let next = |at, _| Record::read(self.bytes, at).map_or(at, |(_, end)| end);
        (0..answers).fold(self.question_end, next)
    }
}

/// Changes the TTLs of the records from `at` to the end of a well-formed message.
pub(crate) fn apply_age(message: &mut [u8], mut at: usize, age: Age) {
    while let Some((record, end)) = Record::read(message, at) {
        let ttl = match age {
            Age::Fresh => record.ttl,
            Age::Seconds(seconds) => record.ttl.saturating_sub(seconds),
            Age::Stale(ttl) => ttl,
        };
        let is_ttl = record.rtype != Qtype::OPT;
        let ttl_at = record.rdata_at - 6;
        if is_ttl {
            message[ttl_at..ttl_at + 4].copy_from_slice(&ttl.to_be_bytes());
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::iana::Rcode as DomainRcode;
    use domain::base::message::Message;
    use wire::ReplyWriter;
    use wire::writer::Owner;

    const QUESTION: &[u8] = b"\x03www\x04test\0\0\x1c\0\x01";

    fn answer(answers: u8, additional: u8) -> Answer {
        let mut answer = Answer::new();
        let mut writer = ReplyWriter::about(&mut answer.room, MAX_MESSAGE, QUESTION).expect("room");
        writer.flag(flag::AD, true);
        for i in 0..answers {
            assert!(writer.answer(Owner::Question, Qtype::AAAA, 100, &[i; 16]));
        }
        answer.optional_at = writer.position();
        for i in 0..additional {
            assert!(writer.additional(Owner::Question, Qtype::A, 100, &[i; 4]));
        }
        answer.len = writer.finish();
        answer.question_end = HEADER + QUESTION.len();
        answer
    }

    fn wants(limit: u16, edns: bool) -> Needs {
        let case = Case::of(b"\x03wWw\x04Test\0");
        Needs {
            id: 7,
            case,
            limit,
            edns,
            dnssec: false,
            rd: true,
            cd: false,
            ad: false,
            options: ReplyOptions::default(),
        }
    }

    fn deliver(answer: &Answer, wants: &Needs, age: Age) -> (Message<Vec<u8>>, bool) {
        let mut out = vec![0xee; MAX_MESSAGE];
        let (len, cut) = answer.as_ref().deliver(wants, age, &mut out);
        assert!(len <= usize::from(wants.limit));
        out.truncate(len);
        (Message::from_octets(out).expect("a message"), cut)
    }

    #[test]
    fn each_client_gets_its_own_copy() {
        let (message, cut) = deliver(&answer(2, 1), &wants(512, true), Age::Seconds(30));
        assert!(!cut);
        let header = message.header();
        assert_eq!((header.id(), header.qr(), header.rd(), header.ra()), (7, true, true, true));
        assert_eq!(
            (header.ad(), header.cd(), header.aa(), header.tc()),
            (false, false, false, false)
        );
        assert_eq!(message.sole_question().expect("one").qname().to_string(), "wWw.Test");
        let ttls: Vec<u32> =
            message.answer().expect("some").map(|r| r.expect("fine").ttl().as_secs()).collect();
        assert_eq!(ttls, [70, 70]);
        let counts = message.header_counts();
        assert_eq!((counts.ancount(), counts.arcount()), (2, 2));
        assert_eq!(message.opt().expect("an OPT").udp_payload_size(), OUR_UDP_SIZE);

        let authentic = Needs { ad: true, ..wants(512, false) };
        let (message, _) = deliver(&answer(1, 0), &authentic, Age::Stale(30));
        assert!(message.header().ad() && message.opt().is_none());
        let ttl =
            message.answer().expect("some").next().expect("one").expect("fine").ttl().as_secs();
        assert_eq!(ttl, 30);
    }

    #[test]
    fn additional_records_are_left_out_first_then_all() {
        let big = answer(10, 20);
        for (limit, edns, answers, additional, tc) in [
            (65_535, true, 10, 21, false),
            (65_535, false, 10, 20, false),
            (512, true, 10, 1, false),
            (512, false, 10, 0, false),
        ] {
            let (message, cut) = deliver(&big, &wants(limit, edns), Age::Fresh);
            let counts = message.header_counts();
            let got = (counts.ancount(), counts.arcount(), message.header().tc());
            assert_eq!(got, (answers, additional, tc), "{limit} {edns}");
            assert_eq!(cut, tc);
        }
        for edns in [true, false] {
            let (message, cut) = deliver(&answer(30, 0), &wants(512, edns), Age::Seconds(1));
            let counts = message.header_counts();
            let got = (counts.qdcount(), counts.ancount(), counts.arcount(), message.header().tc());
            assert_eq!((got, cut), ((1, 0, u16::from(edns), true), true));
        }
    }

    #[test]
    fn an_optional_authority_section_is_left_out_with_the_additional_one() {
        let mut big = answer(10, 20);
        // The first ten additional records become the authority section.
        big.room[8..12].copy_from_slice(&[0, 10, 0, 10]);
        for (optional_at, authority) in [(big.optional_at, 0), (big.optional_at + 10 * 16, 10)] {
            big.optional_at = optional_at;
            let (message, cut) = deliver(&big, &wants(512, false), Age::Fresh);
            let counts = message.header_counts();
            assert_eq!((counts.ancount(), counts.nscount(), counts.arcount()), (10, authority, 0));
            assert!(!cut && message.authority().expect("fine").count() == usize::from(authority));
        }
    }

    #[test]
    fn options_without_room_are_left_out_before_anything_is_truncated() {
        let mut some = answer(10, 1);
        some.options = vec![0, 15, 0, 2, 0, 3];
        let needed = (some.optional_at + OPT_FIXED) as u16;
        for (limit, options, tc) in
            [(needed + 6, 1, false), (needed, 0, false), (needed - 1, 0, true)]
        {
            let (message, cut) = deliver(&some, &wants(limit, true), Age::Fresh);
            let opt = message.opt().expect("an OPT");
            let got = opt.opt().iter::<domain::base::opt::UnknownOptData<_>>().count();
            assert_eq!((got, cut), (options, tc), "{limit}");
        }
    }

    #[test]
    fn padding_and_keepalive_need_a_request() {
        let options = ReplyOptions { keepalive: Some(100), padded: true, cookie: None };
        let wants = Needs { options, ..wants(65_535, true) };
        let mut some = answer(2, 1);
        some.options = vec![0, 15, 0, 2, 0, 3];
        let (message, cut) = deliver(&some, &wants, Age::Fresh);
        assert_eq!((message.as_slice().len(), cut), (wire::extend::REPLY_BLOCK, false));
        let opt = message.opt().expect("an OPT");
        let codes: Vec<u16> = opt
            .opt()
            .iter::<domain::base::opt::UnknownOptData<_>>()
            .map(|option| option.expect("fine").code().to_int())
            .collect();
        assert_eq!(codes, [15, 11, 12]);
        let plain = Needs { edns: false, ..wants };
        let (message, _) = deliver(&some, &plain, Age::Fresh);
        assert!(message.opt().is_none() && message.as_slice().len() < 200);
    }

    #[test]
    fn a_truncated_reply_has_the_cookie_too() {
        let options = ReplyOptions { cookie: Some([7; 24]), ..ReplyOptions::default() };
        let wants = Needs { options, ..wants(512, true) };
        let (message, cut) = deliver(&answer(30, 0), &wants, Age::Fresh);
        assert!(cut && wire::extend::cookie(message.as_slice()) == Some(&[7; 24]));
    }

    #[test]
    fn wide_return_codes_need_edns() {
        let mut bad = Answer::new();
        bad.question_only(QUESTION, Rcode::BADVERS);
        let (message, _) = deliver(&bad, &wants(512, true), Age::Fresh);
        assert_eq!(message.opt_rcode(), domain::base::iana::OptRcode::BADVERS);
        let (message, _) = deliver(&bad, &wants(512, false), Age::Fresh);
        assert_eq!(message.header().rcode(), DomainRcode::SERVFAIL);
    }
}
