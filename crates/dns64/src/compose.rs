//! Composes answers: a chain of aliases and the records at its end.

use wire::message::{HEADER, Record, records};
use wire::writer::Section;
use wire::{Owner, Qtype, Rcode, ReplyWriter};

use crate::answer::{Answer, MAX_MESSAGE};

/// An answer that is being composed; its sections are added in order.
pub(crate) struct Composer<'a> {
    writer: ReplyWriter<'a>,
    /// Name of the question, in wire format.
    qname: &'a [u8],
    /// Position of the name at which the chain has arrived, once it differs from the question.
    end: Option<End>,
    longest_ttl: u32,
    optional_at: Option<usize>,
}

/// Position of the name at the end of a chain in the message.
#[derive(Clone, Copy)]
struct End {
    offset: usize,
    len: usize,
}

impl Answer {
    /// Composes an answer to `question` (in lower case) with the records that `fill` adds; an answer that is
    /// too long for a message becomes SERVFAIL.
    pub(crate) fn compose(&mut self, question: &[u8], fill: impl FnOnce(&mut Composer<'_>)) {
        self.clear();
        let writer = ReplyWriter::about(&mut self.room, MAX_MESSAGE, question)
            .expect("a message always has room for its question");
        let (qname, longest_ttl) = (&question[..question.len() - 4], u32::MAX);
        let mut composer = Composer { writer, qname, end: None, longest_ttl, optional_at: None };
        fill(&mut composer);
        let Composer { writer, longest_ttl, optional_at, .. } = composer;
        if writer.is_truncated() {
            return self.question_only(question, Rcode::SERVFAIL);
        }
        self.optional_at = optional_at.unwrap_or(writer.position());
        self.len = writer.finish();
        self.question_end = HEADER + question.len();
        self.longest_ttl = longest_ttl;
        self.rcode = u16::from(self.room[3] & 0xf);
    }
}

impl Composer<'_> {
    /// Sets the lower four bits of the return code.
    pub(crate) fn rcode(&mut self, rcode: Rcode) {
        self.writer.rcode(rcode);
    }

    /// Sets all the flags in `bits` of the header, or clears them.
    pub(crate) fn flag(&mut self, bits: u16, set: bool) {
        self.writer.flag(bits, set);
    }

    /// Adds whole uncompressed records to the answer section.
    pub(crate) fn answers(&mut self, whole: &[u8]) {
        for record in records(whole, 0) {
            let owner = Owner::Name(&whole[record.owner..record.rdata_at - 10]);
            self.answer(owner, record.rtype, record.ttl, record.rdata);
        }
    }

    /// Adds aliases as whole uncompressed records, the first at the name of the question.
    pub(crate) fn chain(&mut self, chain: &[u8]) {
        for record in records(chain, 0) {
            let owner = &chain[record.owner..record.rdata_at - 10];
            let owner = if self.end.is_none() && owner.eq_ignore_ascii_case(self.qname) {
                Owner::Question
            } else {
                Owner::Name(owner)
            };
            self.answer(owner, record.rtype, record.ttl, record.rdata);
            // A DNAME gives only a suffix; the synthesised CNAME after it has the whole name.
            if record.rtype == Qtype::CNAME {
                let len = record.rdata.len();
                self.end = Some(End { offset: self.writer.position().saturating_sub(len), len });
            }
        }
    }

    /// Adds a record at `name`, the end of the chain.
    pub(crate) fn at_end(&mut self, name: &[u8], rtype: Qtype, ttl: u32, rdata: &[u8]) {
        let owner = match self.end {
            None if name.eq_ignore_ascii_case(self.qname) => Owner::Question,
            Some(End { offset, len }) if offset < 0x4000 && len == name.len() => {
                Owner::At(offset as u16)
            }
            _ => Owner::Name(name),
        };
        self.answer(owner, rtype, ttl, rdata);
    }

    /// Adds a record at the name of the question.
    pub(crate) fn at_question(&mut self, rtype: Qtype, ttl: u32, rdata: &[u8]) {
        self.answer(Owner::Question, rtype, ttl, rdata);
    }

    fn answer(&mut self, owner: Owner<'_>, rtype: Qtype, ttl: u32, rdata: &[u8]) {
        self.writer.answer(owner, rtype, ttl, rdata);
    }

    /// Adds a whole record, uncompressed, to the authority section.
    pub(crate) fn authority(&mut self, record: &[u8]) {
        self.writer.prebuilt(Section::Authority, record);
    }

    /// Works as [`authority`](Self::authority) with another TTL, in seconds.
    pub(crate) fn authority_with_ttl(&mut self, record: &[u8], ttl: u32) {
        let ttl_at = Record::read(record, 0).map(|(record, _)| record.rdata_at - 6);
        if let (Some(at), Some(out)) = (ttl_at, self.writer.prebuilt(Section::Authority, record)) {
            out[at..at + 4].copy_from_slice(&ttl.to_be_bytes());
        }
    }

    /// Marks the records from here on as optional: they may be left out of a reply that is too long.
    pub(crate) fn optional(&mut self) {
        self.optional_at.get_or_insert(self.writer.position());
    }

    /// Adds a whole record, uncompressed, to the additional section.
    pub(crate) fn additional(&mut self, record: &[u8]) {
        self.optional();
        self.writer.prebuilt(Section::Additional, record);
    }

    /// Limits the lifetime of the answer, in seconds, in addition to the TTLs of its answer
    /// section.
    pub(crate) fn limit_ttl(&mut self, ttl: u32) {
        self.longest_ttl = ttl;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Reply;

    const QUESTION: &[u8] = b"\x03www\x04test\0\0\x1c\0\x01";
    const CHAIN: &[u8] = b"\x03www\x04test\0\0\x05\0\x01\0\0\0\x64\0\x0a\x03web\x04test\0";

    #[test]
    fn a_chain_with_addresses_is_composed() {
        let mut answer = Answer::new();
        answer.compose(QUESTION, |c| {
            c.chain(CHAIN);
            c.at_end(b"\x03web\x04test\0", Qtype::AAAA, 60, &[1; 16]);
            c.at_end(b"\x03web\x04test\0", Qtype::AAAA, 90, &[2; 16]);
            c.additional(b"\0\0\x01\0\x01\0\0\0\x09\0\x04abcd");
        });
        assert_eq!((answer.bound_ttls(0..=u32::MAX, u32::MAX), answer.rcode), (60, 0));
        let mut as_reply = answer.bytes().to_vec();
        as_reply[2] |= 0x80;
        let reply = Reply::parse(&as_reply).expect("it is well-formed");
        let (mut chain, mut found) = (Vec::new(), Vec::new());
        let reading = reply.read(Qtype::AAAA, false, &mut chain, &mut found).expect("a chain");
        assert_eq!((reading.hops, reading.wanted), (1, 2));
        assert_eq!(chain, CHAIN);
        assert_eq!(reply.additional().count(), 1);
        assert_eq!(answer.bytes()[answer.optional_at..].len(), 15);
        // The first owner and those of the addresses are pointers.
        assert_eq!(answer.len, 12 + QUESTION.len() + 2 + 10 + 10 + 2 * 28 + 15);
    }

    #[test]
    fn an_answer_that_is_too_long_becomes_servfail() {
        let mut answer = Answer::new();
        answer.compose(QUESTION, |c| {
            for _ in 0..5_000 {
                c.at_question(Qtype::AAAA, 60, &[1; 16]);
            }
        });
        assert_eq!((answer.rcode, answer.len), (Rcode::SERVFAIL.0, 12 + QUESTION.len()));
    }
}
