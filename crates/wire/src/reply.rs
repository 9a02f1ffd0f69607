//! The check of a reply against its query.
//!
//! A measurement that counts every reply can count wrong ones, so every reply is checked against its query:
//!
//! ```text
//!   QR, opcode ── not a response? ── question ── ours? ── TC ── cut? ── records ── well-formed? ── RCODE ── answer ── expected?
//!   not-a-response                  wrong-question       truncated     malformed                  servfail  no-answer, wrong-address
//! ```
//!
//! Nearly all replies of a trial look alike: our question, then one record whose owner is a pointer to it, then perhaps
//! an OPT record. The fast path accepts exactly that layout; any other reply goes to the full parse,
//! which reads every record, follows CNAME and DNAME chains, and takes a bounded number of steps on any input. Both
//! give the same verdict on a reply that the fast path accepts; property tests check this.
//!
//! The comparison of questions ignores case (RFC 4343), so a server may answer in lower case or repeat mixed case (the
//! "0x20" trick). Octets after the last record make a reply malformed.

pub mod chain;
mod rcodes;
pub mod readable;

use std::net::{Ipv4Addr, Ipv6Addr};

use self::rcodes::NAMES;
pub use self::rcodes::Rcodes;
use crate::edns::EdnsSeen;
use crate::message::{HEADER, Header, OPT_FIXED, RECORD_FIXED, Record, question_end};
use crate::pref64;
use crate::rr::{Qclass, Qtype};

/// The expected content of a valid reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// NOERROR or NXDOMAIN, with any answer.
    #[default]
    Answered,
    /// NOERROR, with any answer or none.
    NoError,
    /// At least one A record at the end of the chain of aliases, and all of them with this address.
    A(Ipv4Addr),
    /// At least one AAAA record at the end of the chain of aliases, and all of them with this address.
    Aaaa(Ipv6Addr),
    /// At least one AAAA record at the end of the chain of aliases, and all of them with this IPv4 address embedded under
    /// any prefix (RFC 6052).
    Embeds(Ipv4Addr),
    /// At least one AAAA record at the end of the chain of aliases.
    AnyAaaa,
    /// NOERROR and no record of the query type at the end of the chain of aliases.
    NoData,
    /// One of these return codes, with any answer.
    Rcodes(Rcodes),
}

impl Expect {
    /// Returns whether a reply of which only the return code can be read is the expected one.
    pub fn accepts(&self, rcode: u8) -> bool {
        match self {
            Expect::Rcodes(set) => set.contains(rcode),
            Expect::NoError => rcode == 0,
            _ => matches!(rcode, 0 | 3),
        }
    }
}

/// The reason why a reply is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invalid {
    /// The message cannot be parsed: it is truncated, has an invalid name, or has octets after the
    /// last record.
    Malformed,
    /// The message is not a response to a query: QR is 0, or the opcode is not QUERY.
    NotResponse,
    /// The id is not the query's. [`check`] does not compare ids; the reader of a stream may.
    WrongId,
    /// The question is not the query's.
    WrongQuestion,
    /// TC is set: the whole answer needs TCP.
    Truncated,
    /// The response code is not the expected one.
    Rcode(u8),
    /// No record answers the question.
    NoAnswer,
    /// A record answers the question with another address.
    WrongAddress,
    /// The name has records, but none of the query type.
    WrongType,
    /// A record answers the question, but none is expected.
    UnexpectedAnswer,
}

/// Reasons other than response codes, in the order of [`Invalid::index`].
const PLAIN: [(Invalid, &str); 9] = [
    (Invalid::Malformed, "malformed"),
    (Invalid::NotResponse, "not-a-response"),
    (Invalid::WrongId, "wrong-id"),
    (Invalid::WrongQuestion, "wrong-question"),
    (Invalid::Truncated, "truncated"),
    (Invalid::NoAnswer, "no-answer"),
    (Invalid::WrongAddress, "wrong-address"),
    (Invalid::WrongType, "wrong-type"),
    (Invalid::UnexpectedAnswer, "unexpected-answer"),
];

impl Invalid {
    /// Number of different [`index`](Self::index) values: the length of an array of counters.
    pub const COUNT: usize = PLAIN.len() + NAMES.len();

    /// Returns a number below [`COUNT`](Self::COUNT), the same for all response codes above 23.
    #[inline]
    pub fn index(self) -> usize {
        match self {
            Self::Rcode(code) => PLAIN.len() + usize::from(code).min(NAMES.len() - 1),
            plain => PLAIN.iter().position(|(own, _)| *own == plain).expect("it is in the table"),
        }
    }

    /// Returns the reason with this index; `None` from [`COUNT`](Self::COUNT) on.
    pub fn from_index(index: usize) -> Option<Self> {
        match index.checked_sub(PLAIN.len()) {
            None => Some(PLAIN[index].0),
            Some(code) => (code < NAMES.len()).then_some(Self::Rcode(code as u8)),
        }
    }

    /// Returns the stable word for JSON and tables, such as `wrong-address` or `servfail`.
    pub fn reason(self) -> &'static str {
        match self.index().checked_sub(PLAIN.len()) {
            None => PLAIN[self.index()].1,
            Some(code) => NAMES[code],
        }
    }
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.reason())
    }
}

/// Returns the id of a message; `None` if it is shorter than two octets.
#[inline]
pub fn id(message: &[u8]) -> Option<u16> {
    message.first_chunk().map(|&bytes| u16::from_be_bytes(bytes))
}

/// Returns the question of a message: name, type and class; `None` unless there is exactly one, uncompressed.
#[inline]
pub fn question(message: &[u8]) -> Option<&[u8]> {
    let header = Header::read(message)?;
    if header.counts[0] != 1 {
        return None;
    }
    message.get(HEADER..question_end(message)?)
}

/// Returns a hash of a question that ignores the case of the name; it is the same on every machine, and not secure
/// against an attacker.
#[inline]
pub fn question_hash(question: &[u8]) -> u32 {
    let (name, tail) = question.split_at(question.len().saturating_sub(4));
    let mut hash = mix(SEED, question.len() as u64);
    let (words, rest) = name.as_chunks::<8>();
    for word in words {
        hash = mix(hash, lower_case(u64::from_le_bytes(*word)));
    }
    hash = mix(hash, lower_case(to_word(rest)));
    // Type and class are numbers: 'A' and 'a' are HTTPS and an unassigned type there.
    hash = mix(hash, to_word(tail));
    (hash >> 32) as u32
}

/// Checks a reply against the question of its query and the expected content; returns the response code of a valid
/// reply.
///
/// `question` is name, type and class in wire form. The caller has compared the id and the address of the sender when
/// it found the question of this reply.
#[inline]
pub fn check(reply: &[u8], question: &[u8], expect: &Expect) -> Result<u8, Invalid> {
    let common = match expect {
        Expect::Aaaa(address) => is_common(reply, question, Qtype::AAAA, &address.octets()),
        Expect::A(address) => is_common(reply, question, Qtype::A, &address.octets()),
        Expect::Embeds(embedded) => is_common_embedding(reply, question, *embedded),
        _ => false,
    };
    if common { Ok(0) } else { check_fully(reply, question, expect) }
}

/// Returns whether a reply is of the common layout with an AAAA record that embeds `embedded` under any prefix.
#[inline]
fn is_common_embedding(reply: &[u8], question: &[u8], embedded: Ipv4Addr) -> bool {
    let data_at = HEADER + question.len() + 2 + RECORD_FIXED;
    let data = reply.get(data_at..).and_then(<[u8]>::first_chunk::<16>);
    data.is_some_and(|data| {
        pref64::embeds(Ipv6Addr::from(*data), embedded)
            && is_common(reply, question, Qtype::AAAA, data)
    })
}

/// Returns whether a reply is NOERROR and has our question, one record that answers it with `address`, and at most an
/// OPT record.
#[inline]
fn is_common<const N: usize>(
    reply: &[u8],
    question: &[u8],
    rtype: Qtype,
    address: &[u8; N],
) -> bool {
    let answer_at = HEADER + question.len();
    let end = answer_at + 2 + RECORD_FIXED + N;
    if reply.len() < end || question.len() < 5 {
        return false;
    }
    // QR 1, opcode 0, TC 0, RCODE 0; one question, one answer, no authority, at most one additional record.
    let header =
        reply[2] & 0xfa == 0x80 && reply[3] & 0x0f == 0 && reply[4..11] == [0, 1, 0, 1, 0, 0, 0];
    let answer = &reply[answer_at..end];
    let [t1, t0] = rtype.0.to_be_bytes();
    header
        && question.ends_with(&Qclass::IN.0.to_be_bytes())
        && answer[..6] == [0xc0, HEADER as u8, t1, t0, 0, Qclass::IN.0 as u8]
        && answer[10..12] == [0, N as u8]
        && answer[12..] == address[..]
        && same_question(&reply[HEADER..answer_at], question)
        && match reply[11] {
            0 => reply.len() == end,
            1 => is_plain_opt(&reply[end..]),
            _ => false,
        }
}

/// Returns whether `tail` is exactly one OPT record without an extended response code and with no options or
/// well-formed ones.
#[inline]
fn is_plain_opt(tail: &[u8]) -> bool {
    if tail.len() == OPT_FIXED {
        // Root, type; UDP size; extended response code and version; flags; no options.
        return tail[..3] == [0, 0, Qtype::OPT.0 as u8]
            && tail[5..7] == [0, 0]
            && tail[9..] == [0, 0];
    }
    Record::read(tail, 0).is_some_and(|(record, end)| {
        tail[0] == 0
            && record.rtype == Qtype::OPT
            && end == tail.len()
            && EdnsSeen::from_record(&record).is_some_and(|edns| edns.extended_rcode == 0)
    })
}

/// Returns whether two questions are equal, ignoring the case of their names.
#[inline]
pub(crate) fn same_question(left: &[u8], right: &[u8]) -> bool {
    if left == right {
        return true;
    }
    let Some((left_name, left_tail)) = left.split_last_chunk::<4>() else { return false };
    let Some((right_name, right_tail)) = right.split_last_chunk::<4>() else { return false };
    left_tail == right_tail && left_name.eq_ignore_ascii_case(right_name)
}

/// Checks a reply of any layout.
#[cold]
fn check_fully(reply: &[u8], question: &[u8], expect: &Expect) -> Result<u8, Invalid> {
    let header = Header::read(reply).ok_or(Invalid::Malformed)?;
    if !header.is_response() || header.opcode() != crate::rr::Opcode::QUERY {
        return Err(Invalid::NotResponse);
    }
    match header.counts[0] {
        0 => return without_question(&header, expect),
        1 => {}
        _ => return Err(Invalid::Malformed),
    }
    let answers_at = question_end(reply).ok_or(Invalid::Malformed)?;
    if !same_question(&reply[HEADER..answers_at], question) {
        return Err(Invalid::WrongQuestion);
    }
    if header.is_truncated() {
        return Err(Invalid::Truncated);
    }
    let rcode = extended_rcode(reply, answers_at, &header).ok_or(Invalid::Malformed)?;
    let answers = chain::Answers { reply, at: answers_at, count: header.counts[1], question };
    match (expect, rcode) {
        (Expect::Answered | Expect::NoError | Expect::Rcodes(_), _) if expect.accepts(rcode) => {
            Ok(rcode)
        }
        (Expect::A(address), 0) => answers.check_all(Qtype::A, 4, |data| data == address.octets()),
        (Expect::Aaaa(address), 0) => {
            answers.check_all(Qtype::AAAA, 16, |data| data == address.octets())
        }
        (Expect::Embeds(embedded), 0) => answers.check_all(Qtype::AAAA, 16, |data| {
            let address = data.first_chunk::<16>().map(|data| Ipv6Addr::from(*data));
            address.is_some_and(|address| pref64::embeds(address, *embedded))
        }),
        (Expect::AnyAaaa, 0) => answers.check_all(Qtype::AAAA, 16, |_| true),
        (Expect::NoData, 0) => answers.check_none(),
        _ => Err(Invalid::Rcode(rcode)),
    }
}

/// Returns the verdict on a reply without a question: a server that could not read or refused the query may leave it
/// out.
fn without_question(header: &Header, expect: &Expect) -> Result<u8, Invalid> {
    match (header.rcode(), expect) {
        (0 | 3, _) => Err(Invalid::WrongQuestion),
        (rcode, Expect::Rcodes(set)) if set.contains(rcode) => Ok(rcode),
        (rcode, _) => Err(Invalid::Rcode(rcode)),
    }
}

/// Reads all records and returns the response code with its extension, 255 for higher ones; `None` if a record is
/// malformed.
///
/// Takes at most one step per eleven octets, the smallest size of a record.
fn extended_rcode(reply: &[u8], records_at: usize, header: &Header) -> Option<u8> {
    let [_, answers, authority, additional] = header.counts.map(u32::from);
    let mut at = records_at;
    let mut rcode = u16::from(header.rcode());
    let mut opts = 0;
    for number in 0..answers + authority + additional {
        let (record, end) = Record::read(reply, at)?;
        if record.rtype == Qtype::OPT {
            opts += 1;
            if opts > 1 || number < answers + authority || reply[at] != 0 {
                return None;
            }
            rcode |= u16::from(EdnsSeen::from_record(&record)?.extended_rcode) << 4;
        }
        at = end;
    }
    (at == reply.len()).then(|| u8::try_from(rcode).unwrap_or(u8::MAX))
}

/// Start value of the hash, an arbitrary odd number.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns up to eight octets as a little-endian number.
#[inline]
fn to_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Returns eight octets with their ASCII letters in lower case, converted together.
#[inline]
fn lower_case(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let low = word & (0x7f * ONES);
    // Bit 7 of each octet is set if it is at least 'A', above 'Z', or not ASCII.
    let from_a = low + (0x80 - b'A' as u64) * ONES;
    let above_z = low + (0x7f - b'Z' as u64) * ONES;
    let upper = from_a & !above_z & !word & (0x80 * ONES);
    word | upper >> 2
}

/// Mixes a word into a hash: the two halves of a 128-bit product, combined by XOR.
#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(0xd6e8_feb8_6659_fd93_u64);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests;
