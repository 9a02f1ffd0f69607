//! The layout of a DNS message, and bounded parsing of received messages.
//!
//! ```text
//!   0         2         4       6       8       10      12
//!   [ id     ][ flags  ][  QD  ][  AN  ][  NS  ][  AR  ][ question ][ answers ][ authority ][ additional ]
//!              QR 15, opcode 14-11, AA 10, TC 9, RD 8, RA 7, AD 5, CD 4, RCODE 3-0
//!
//!   question:  name type(2) class(2)
//!   record:    name type(2) class(2) ttl(4) rdlength(2) rdata
//! ```
//!
//! A name in a record may end in a pointer: two octets `11......` that hold the offset of an earlier name (RFC 1035
//! section 4.1.4). A loop of pointers can make a parser hang, so here a pointer must point strictly before the labels
//! it continues, a name has at most 255 octets, and callers have a budget of steps. Finding the end of a record follows
//! no pointer.

use crate::name::{MAX_LABEL, MAX_NAME, Name};
use crate::rr::{Opcode, Qclass, Qtype};

/// Size of the header in octets; also the offset of the name in the question.
pub const HEADER: usize = 12;

/// Size of the fixed fields of a record between its name and its data, in octets.
pub const RECORD_FIXED: usize = 10;

/// Size of an OPT record without options, in octets.
pub const OPT_FIXED: usize = 11;

/// The bits of the flags field.
pub mod flag {
    /// The message is a response.
    pub const QR: u16 = 1 << 15;
    /// The responding server is an authority for the name (RFC 1035).
    pub const AA: u16 = 1 << 10;
    /// The message is truncated: the client tries again over TCP.
    pub const TC: u16 = 1 << 9;
    /// The client requests recursion (RFC 1035).
    pub const RD: u16 = 1 << 8;
    /// The server offers recursion (RFC 1035).
    pub const RA: u16 = 1 << 7;
    /// The data is authentic (DNSSEC).
    pub const AD: u16 = 1 << 5;
    /// Checking disabled: the client validates instead of the server (RFC 4035).
    pub const CD: u16 = 1 << 4;
}

/// The header of a message: its first twelve octets, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number by which a client matches a response with its query.
    pub id: u16,
    /// QR, opcode, flags and return code: the second word, see [`flag`].
    pub flags: u16,
    /// Number of entries in the question, answer, authority and additional section.
    pub counts: [u16; 4],
}

impl Header {
    /// Reads the header of a message; `None` if it is shorter than twelve octets.
    #[inline]
    pub fn read(message: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER] = message.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Some(Self { id: word(0), flags: word(2), counts: [word(4), word(6), word(8), word(10)] })
    }

    /// Returns the header in wire form.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER] {
        let [i1, i0] = self.id.to_be_bytes();
        let [f1, f0] = self.flags.to_be_bytes();
        let [[q1, q0], [a1, a0], [n1, n0], [r1, r0]] = [
            self.counts[0].to_be_bytes(),
            self.counts[1].to_be_bytes(),
            self.counts[2].to_be_bytes(),
            self.counts[3].to_be_bytes(),
        ];
        [i1, i0, f1, f0, q1, q0, a1, a0, n1, n0, r1, r0]
    }

    /// Returns whether the message is a response.
    #[inline]
    pub fn is_response(&self) -> bool {
        self.flags & flag::QR != 0
    }

    /// Returns whether the message is truncated (TC).
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.flags & flag::TC != 0
    }

    /// Returns the opcode, bits 11 to 14 of the flags.
    #[inline]
    pub fn opcode(&self) -> Opcode {
        Opcode((self.flags >> 11) as u8 & 0xf)
    }

    /// Returns the lower four bits of the response code.
    #[inline]
    pub fn rcode(&self) -> u8 {
        self.flags as u8 & 0xf
    }
}

/// Returns the two octets at `at` as a number.
#[inline]
pub(crate) fn word(message: &[u8], at: usize) -> Option<u16> {
    let bytes: &[u8; 2] = message.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

/// Returns the offset after the name at `start`; follows no pointer and takes at most 128 steps.
#[inline]
pub fn skip_name(message: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while at - start < MAX_NAME {
        let len = usize::from(*message.get(at)?);
        match len {
            0 => return Some(at + 1),
            1..=MAX_LABEL => at += 1 + len,
            0xc0.. => return (at + 2 <= message.len()).then_some(at + 2),
            _ => return None,
        }
    }
    None
}

/// Returns the offset after the first question, whose name must not be compressed; `None` if it is cut short.
#[inline]
pub fn question_end(message: &[u8]) -> Option<usize> {
    let name = crate::name::wire_len(message.get(HEADER..)?).ok()?;
    let end = HEADER + name + 4;
    (end <= message.len()).then_some(end)
}

/// One record of a message.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The offset of the owner name.
    pub owner: usize,
    /// The type; OPT for the EDNS pseudo-record.
    pub rtype: Qtype,
    /// The class; in an OPT record, the UDP payload size.
    pub class: Qclass,
    /// The time to live in seconds; in an OPT record, flags.
    pub ttl: u32,
    /// The offset of the data.
    pub rdata_at: usize,
    /// The data as in the message: names in it may be compressed.
    pub rdata: &'a [u8],
}

impl<'a> Record<'a> {
    /// Returns the record at `at` and the offset after it; `None` if it is cut short.
    #[inline]
    pub fn read(message: &'a [u8], at: usize) -> Option<(Self, usize)> {
        let fixed_at = skip_name(message, at)?;
        let fixed: &[u8; RECORD_FIXED] = message.get(fixed_at..)?.first_chunk()?;
        let rdata_at = fixed_at + RECORD_FIXED;
        let end = rdata_at + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let record = Self {
            owner: at,
            rtype: Qtype(u16::from_be_bytes([fixed[0], fixed[1]])),
            class: Qclass(u16::from_be_bytes([fixed[2], fixed[3]])),
            ttl: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            rdata_at,
            rdata: message.get(rdata_at..end)?,
        };
        Some((record, end))
    }

    /// Returns the whole record within its message.
    pub fn octets<'m>(&self, message: &'m [u8]) -> &'m [u8] {
        &message[self.owner..self.rdata_at + self.rdata.len()]
    }
}

/// Returns the records at `at` and after it, up to the first that is cut short.
#[inline]
pub fn records(message: &[u8], mut at: usize) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let (record, end) = Record::read(message, at)?;
        at = end;
        Some(record)
    })
}

/// Returns whether the records of an answer section are of the wanted type, also behind aliases.
pub fn has_wanted<'a>(qtype: Qtype, mut answers: impl Iterator<Item = Record<'a>>) -> bool {
    let is_wanted = |record: Record<'_>| record.rtype == qtype || qtype == Qtype::ANY;
    match qtype {
        // A DNAME record that only led to the target is not an answer for DNAME; the last record
        // is.
        Qtype::DNAME => answers.filter(|r| r.rtype != Qtype::RRSIG).last().is_some_and(is_wanted),
        _ => answers.any(is_wanted),
    }
}

/// Returns the freshness lifetime of a reply in seconds (RFC 8484 section 5.1): the smallest TTL of its answers and, if there is none of
/// the wanted type, also behind aliases, the negative TTL of its SOA record (RFC 2308 section 5). `None` if the reply has neither.
pub fn freshness(reply: &[u8]) -> Option<u32> {
    let counts = Header::read(reply)?.counts;
    let mut at = question_end(reply)?;
    let qtype = Qtype(word(reply, at - 4)?);
    let has_wanted = has_wanted(qtype, records(reply, at).take(counts[1].into()));
    let mut section = |count: u16, lifetime: fn(&Record<'_>) -> Option<u32>| {
        let mut least = None;
        for _ in 0..count {
            let (record, end) = Record::read(reply, at)?;
            at = end;
            least = [least, lifetime(&record)].into_iter().flatten().min();
        }
        Some(least)
    };
    let answers = section(counts[1], |record| Some(record.ttl))?;
    let negative = section(counts[2], negative_ttl)?;
    [answers, negative.filter(|_| !has_wanted)].into_iter().flatten().min()
}

/// Returns the negative TTL of a SOA record in seconds (RFC 2308 section 5); `None` for other records.
fn negative_ttl(record: &Record<'_>) -> Option<u32> {
    let minimum = record.rdata.last_chunk().map(|bytes| u32::from_be_bytes(*bytes))?;
    (record.rtype == Qtype::SOA).then_some(record.ttl.min(minimum))
}

/// Reduces the TTLs of a reply by the seconds that it has been in a cache (RFC 8484 section 5.1), those of negative answers too. It is
/// left unchanged from its first malformed record on.
pub fn reduce_ttls(reply: &mut [u8], seconds: u32) {
    let (1.., Some(header), Some(mut at)) = (seconds, Header::read(reply), question_end(reply))
    else {
        return;
    };
    let [_, answers, authority, additional] = header.counts.map(u32::from);
    for number in 0..answers + authority + additional {
        let Some((record, end)) = Record::read(reply, at) else { return };
        let negative = negative_ttl(&record).filter(|_| number >= answers);
        let (ttl, ttl_at) = (negative.unwrap_or(record.ttl), record.rdata_at - 6);
        if record.rtype != Qtype::OPT {
            // One above 2^31 - 1 is 0 (RFC 2181 section 8).
            let rest = i32::try_from(ttl).map_or(0, |_| ttl.saturating_sub(seconds));
            reply[ttl_at..ttl_at + 4].copy_from_slice(&rest.to_be_bytes());
        }
        at = end;
    }
}

/// Number of labels and pointers of a message that may still be read.
#[derive(Debug)]
pub(crate) struct Budget(pub(crate) u32);

impl Budget {
    /// Counts one step; `None` if the budget is used up.
    #[inline]
    fn step(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }
}

/// Returns the possibly compressed name at `at` of a message; `None` if it is malformed. Reads at most 255 labels and
/// pointers.
pub fn name_at(message: &[u8], at: usize) -> Option<Name> {
    Name::join(&[], labels(message, at, &mut Budget(MAX_NAME as u32)))
}

/// The relation of a possibly compressed name in a message to an uncompressed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The names are equal, ignoring case.
    Same,
    /// The uncompressed name is below the name in the message; this is the number of octets in
    /// front of the common end.
    Above(usize),
    Other,
}

/// Compares the possibly compressed name at `at` with `name`; `None` if it is malformed or the budget is used up.
///
/// Only `deeper` looks for [`Relation::Above`], since that needs a comparison from the right.
pub(crate) fn relate(
    message: &[u8],
    at: usize,
    name: &[u8],
    deeper: bool,
    budget: &mut Budget,
) -> Option<Relation> {
    if deeper {
        let owner = Name::join(&[], labels(message, at, budget))?;
        return Some(match crate::name::strip_suffix(name, owner.as_wire()) {
            Some([]) => Relation::Same,
            Some(front) => Relation::Above(front.len()),
            None => Relation::Other,
        });
    }
    // A name that differs is read to its end too, so that a malformed name is always found.
    let (mut rest, mut same) = (name, true);
    for label in labels(message, at, budget) {
        let label = label?;
        match rest.split_at_checked(label.len()) {
            Some((front, after)) if front.eq_ignore_ascii_case(label) => rest = after,
            _ => same = false,
        }
    }
    Some(if same && rest.is_empty() { Relation::Same } else { Relation::Other })
}

/// Returns the labels of a possibly compressed name, each with its length octet, the root included; a `None` at the end
/// marks a malformed name.
pub(crate) fn labels<'m, 'b>(
    message: &'m [u8],
    at: usize,
    budget: &'b mut Budget,
) -> CompressedLabels<'m, 'b> {
    CompressedLabels { message, at, floor: at, len: 0, done: false, budget }
}

/// The iterator that [`labels`] returns.
pub(crate) struct CompressedLabels<'m, 'b> {
    message: &'m [u8],
    /// The offset of the next label.
    at: usize,
    /// The offset where the current run of labels starts: the next pointer must point before it.
    floor: usize,
    /// Size of the name so far, in octets.
    len: usize,
    done: bool,
    budget: &'b mut Budget,
}

impl<'m> CompressedLabels<'m, '_> {
    /// Follows pointers and returns the next label.
    fn advance(&mut self) -> Option<&'m [u8]> {
        loop {
            self.budget.step()?;
            let len = *self.message.get(self.at)?;
            if len >= 0xc0 {
                let target = usize::from(word(self.message, self.at)? & 0x3fff);
                if target >= self.floor || target < HEADER {
                    return None;
                }
                (self.at, self.floor) = (target, target);
                continue;
            }
            if usize::from(len) > MAX_LABEL {
                return None;
            }
            let end = self.at + 1 + usize::from(len);
            let label = self.message.get(self.at..end)?;
            self.at = end;
            self.len += label.len();
            self.done = len == 0;
            return (self.len <= MAX_NAME).then_some(label);
        }
    }
}

impl<'m> Iterator for CompressedLabels<'m, '_> {
    type Item = Option<&'m [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let label = self.advance();
        self.done |= label.is_none();
        Some(label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let header = Header { id: 0x1234, flags: 0xabcd, counts: [1, 2, 3, 0xffff] };
        let bytes = header.to_bytes();
        assert_eq!(bytes, [0x12, 0x34, 0xab, 0xcd, 0, 1, 0, 2, 0, 3, 0xff, 0xff]);
        assert_eq!(Header::read(&bytes), Some(header));
        assert_eq!((header.opcode(), header.rcode(), header.is_response()), (Opcode(5), 13, true));
        assert_eq!(Header::read(&bytes[..11]), None);
    }

    #[test]
    fn names_are_skipped() {
        let longest = [&[63; 192][..], &[61; 62], &[0]].concat();
        let too_long = [&[63; 192][..], &[62; 63], &[0]].concat();
        for (message, end) in [
            (&b"\0"[..], Some(1)),
            (b"\x01a\0x", Some(3)),
            (b"\x01a\xc0\x00x", Some(4)),
            (b"\xc0", None),
            (b"\x40a", None),
            (b"\x80a", None),
            (b"\x02a", None),
            (b"", None),
            (&[1; 400], None),
            (&longest, Some(255)),
            (&too_long, None),
        ] {
            assert_eq!(skip_name(message, 0), end, "{message:?}");
        }
    }

    /// A header, `www.example` at 12, a pointer to `example` at 25, a pointer to that pointer at 27.
    const MESSAGE: &[u8] = b"............\x03www\x07example\0\xc0\x10\xc0\x19\xc0\x1d";

    #[test]
    fn names_are_followed() {
        let example = b"\x07EXAMPLE\0";
        let www = b"\x03www\x07example\0";
        for (at, name, deeper, relation) in [
            (12, &www[..], false, Some(Relation::Same)),
            (25, example, false, Some(Relation::Same)),
            (27, example, false, Some(Relation::Same)),
            (27, www, false, Some(Relation::Other)),
            (27, www, true, Some(Relation::Above(4))),
            (27, example, true, Some(Relation::Same)),
            (12, example, true, Some(Relation::Other)),
            // A pointer to itself, and an offset beyond the message.
            (29, example, false, None),
            (30, example, true, None),
            (99, example, false, None),
        ] {
            assert_eq!(
                relate(MESSAGE, at, name, deeper, &mut Budget(100)),
                relation,
                "{at} {deeper}"
            );
        }
    }

    #[test]
    fn names_are_copied_out_of_messages() {
        for (at, name) in [
            (12, Some("www.example")),
            (25, Some("example")),
            (27, Some("example")),
            (29, None),
            (30, None),
            (99, None),
        ] {
            assert_eq!(name_at(MESSAGE, at), name.map(|name| name.parse().unwrap()), "{at}");
        }
    }

    /// Makes a reply to AAAA whose records, of a type with a TTL and data, all have the name of the question.
    fn reply_with(counts: [u16; 3], records: &[(u16, u32, &[u8])]) -> Vec<u8> {
        let header = Header { id: 0, flags: 0, counts: [1, counts[0], counts[1], counts[2]] };
        let mut reply = [&header.to_bytes()[..], b"\x01a\0\0\x1c\0\x01"].concat();
        for &(rtype, ttl, rdata) in records {
            reply.extend_from_slice(&[0xc0, 12]);
            reply.extend_from_slice(&rtype.to_be_bytes());
            reply.extend_from_slice(&[0, 1]);
            reply.extend_from_slice(&ttl.to_be_bytes());
            reply.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
            reply.extend_from_slice(rdata);
        }
        reply
    }

    #[test]
    fn a_reply_from_a_cache_has_the_rest_of_its_ttls() {
        let soa = &[0, 0, 0, 0, 0, 30][..];
        let counts = [3, 1, 2];
        let mut records = [
            (28, 60, &b"x"[..]),
            (28, 5, b"x"),
            (28, 1 << 31 | 60, b"x"),
            (6, 90, soa),
            (1, 20, b"x"),
            (41, 60, b""),
        ];
        let mut reply = reply_with(counts, &records);
        reduce_ttls(&mut reply, 20);
        for (record, rest) in records.iter_mut().zip([40, 0, 0, 10, 0, 60]) {
            record.1 = rest;
        }
        assert_eq!(reply, reply_with(counts, &records));
        // Malformed.
        reply.truncate(reply.len() - 1);
        reduce_ttls(&mut reply, 1);
    }

    #[test]
    fn a_reply_is_fresh_for_its_smallest_ttl() {
        let reply = |counts, records: &[_]| freshness(&reply_with(counts, records));
        let soa = &[0, 0, 0, 0, 0, 30][..];
        assert_eq!(reply([2, 1, 0], &[(28, 60, b"x"), (28, 50, b"x"), (6, 9, soa)]), Some(50));
        assert_eq!(reply([0, 2, 1], &[(2, 5, b"x"), (6, 90, soa), (1, 1, b"x")]), Some(30));
        assert_eq!(reply([0, 1, 0], &[(6, 20, soa)]), Some(20));
        assert_eq!(reply([1, 1, 0], &[(5, 60, b"\xc0\x0c"), (6, 20, soa)]), Some(20));
        assert_eq!(reply([0, 0, 0], &[]), None);
        assert_eq!(reply([3, 0, 0], &[(28, 60, b"x")]), None);
    }

    #[test]
    fn a_malformed_label_after_a_difference_is_found() {
        let message = [&[0; HEADER][..], b"\x01x\xc1\x00"].concat();
        assert_eq!(relate(&message, HEADER, b"\x03www\0", false, &mut Budget(100)), None);
    }

    #[test]
    fn the_budget_ends_a_walk() {
        let www = b"\x03www\x07example\0";
        assert_eq!(relate(MESSAGE, 12, www, false, &mut Budget(2)), None);
        assert_eq!(relate(MESSAGE, 12, www, false, &mut Budget(3)), Some(Relation::Same));
    }
}
