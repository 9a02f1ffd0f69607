//! Checks that the next receiver of a message can read its records.
//!
//! Finding the end of a record follows no pointer, so a message whose records can be counted may still contain names
//! with pointer loops or data that is cut short. A server that forwards messages checks more: every owner name, and the
//! data of the types whose layout all receivers must know (RFC 1035 section 3.3, RFC 3597 section 4). The data of other
//! types is opaque. A name that goes through the type, class, TTL or length of a question or record is not readable: who
//! forwards the message changes TTLs, and the name with them.

use crate::message::{Budget, HEADER, Record, labels, skip_name};
use crate::rr::Qtype;

/// Largest number of labels and pointers that are read in one message; more than the longest ordinary message has.
const MAX_STEPS: u32 = 1 << 16;

/// The layout of a record's data: octets, names that may be compressed, octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of octets before the names.
    pub front: usize,
    /// Number of names one after another, which may be compressed.
    pub names: usize,
    /// Number of octets after the names.
    pub after: usize,
}

impl Shape {
    /// Returns the layout of a type's data; `None` if it is opaque.
    #[inline]
    pub fn of(rtype: Qtype) -> Option<Self> {
        let (front, names, after) = match rtype {
            Qtype::A => (4, 0, 0),
            Qtype::AAAA => (16, 0, 0),
            Qtype::NS | Qtype::CNAME | Qtype::PTR | Qtype::DNAME => (0, 1, 0),
            // MD, MF, MB, MG, MR.
            Qtype(3 | 4 | 7 | 8 | 9) => (0, 1, 0),
            Qtype::SOA => (0, 2, 20),
            // MINFO and RP.
            Qtype(14 | 17) => (0, 2, 0),
            // MX, AFSDB, RT, KX.
            Qtype(15 | 18 | 21 | 36) => (2, 1, 0),
            // PX.
            Qtype(26) => (2, 2, 0),
            Qtype::SRV => (6, 1, 0),
            _ => return None,
        };
        Some(Self { front, names, after })
    }
}

/// Returns whether the `count` records of `message` from `at` on can be read completely and are data records (no OPT,
/// TKEY or TSIG).
pub fn are_readable(message: &[u8], at: usize, count: usize) -> bool {
    let mut budget = Budget(MAX_STEPS);
    let (mut few, mut many) = ([0; INLINE_RECORDS], Vec::new());
    let fields = if count <= INLINE_RECORDS {
        &mut few[..count]
    } else {
        // A record has 11 octets at least.
        many.resize(count.min(message.len() / 11 + 1), 0);
        &mut many[..]
    };
    let (questions, mut at) = (at, at);
    (0..count).all(|number| {
        let Some((record, end)) = Record::read(message, at) else { return false };
        let Some(field) = fields.get_mut(number) else { return false };
        *field = record.rdata_at;
        let known = Bounds { questions, fields: &fields[..=number] };
        at = end;
        check_record(message, &record, end, known, &mut budget).is_some()
    })
}

/// Largest number of records whose fields are kept without an allocation.
const INLINE_RECORDS: usize = 64;

/// Fields that no name may go through: the end of the questions, and where the data of each record begins, up to the
/// record that is checked.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    questions: usize,
    fields: &'a [usize],
}

impl Bounds<'_> {
    /// Returns whether the octets from `at` to `end` have none of a type, class, TTL or length.
    fn is_text(&self, at: usize, end: usize) -> bool {
        // Type and class of the question.
        if at < self.questions {
            return end <= self.questions - 4;
        }
        // The ten octets before the data of a record.
        let next = self.fields.partition_point(|data| *data <= at);
        self.fields.get(next).is_none_or(|data| end <= data - 10)
    }
}

/// Returns the size in octets that the possibly compressed name takes at `at`, if it is readable.
fn name_len(message: &[u8], at: usize, known: Bounds<'_>, budget: &mut Budget) -> Option<usize> {
    let len = skip_name(message, at)? - at;
    for label in labels(message, at, budget) {
        let label = label?;
        let from = label.as_ptr() as usize - message.as_ptr() as usize;
        // Other labels are reached by a pointer.
        let here = (at..at + len).contains(&from);
        if !here && !known.is_text(from, from + label.len()) {
            return None;
        }
    }
    Some(len)
}

/// Checks the owner name and the data of a record that ends at `end`; `None` if they are not readable.
fn check_record(
    message: &[u8],
    record: &Record<'_>,
    end: usize,
    known: Bounds<'_>,
    budget: &mut Budget,
) -> Option<()> {
    let owner = record.owner;
    // Most owners are a pointer to the question, whose name is valid.
    if message[owner..owner + 2] != [0xc0, HEADER as u8] {
        name_len(message, owner, known, budget)?;
    }
    // OPT; TKEY and TSIG.
    if matches!(record.rtype, Qtype(41 | 249 | 250)) {
        return None;
    }
    let Some(Shape { front, names, after }) = Shape::of(record.rtype) else { return Some(()) };
    let mut at = record.rdata_at + front;
    for _ in 0..names {
        at += name_len(message, at, known, budget)?;
    }
    (at + after == end).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a message with a header, the question `www.test`, and these records.
    fn message(records: &[u8]) -> Vec<u8> {
        let mut message = b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0\x03www\x04test\0\0\x01\0\x01".to_vec();
        message.extend_from_slice(records);
        message
    }

    /// The offset where the records of [`message`] start.
    const AT: usize = 12 + 10 + 4;

    #[test]
    fn records_are_checked_to_the_last_octet() {
        for (records, readable) in [
            (&b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x7f\0\0\x01"[..], true),
            (b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x03\x7f\0\0", false),
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x10", true),
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x03\xc0\x10\0", false),
            // A name longer than the data, one that points to itself, a label of an unknown type.
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x01\xc0\x10", false),
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x26", false),
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\x80\0", false),
            (b"\xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x04\0\x0a\xc0\x10", true),
            (b"\xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x01\0", false),
            // A name that ends in the TTL of its record, and one in the class of the question.
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01a\xc0\x20", false),
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01a\xc0\x16", false),
            // An owner that points into the header, one that points to itself; opaque data; an OPT record.
            (b"\xc0\x02\0\x10\0\x01\0\0\0\x3c\0\x02\x01a", false),
            (b"\xc0\x1a\0\x10\0\x01\0\0\0\x3c\0\x02\x01a", false),
            (b"\0\0\x10\0\x01\0\0\0\x3c\0\x02\x07a", true),
            (b"\0\0\x29\x04\xd0\0\0\0\0\0\0", false),
        ] {
            assert_eq!(are_readable(&message(records), AT, 1), readable, "{records:02x?}");
        }
        assert!(!are_readable(&message(b""), AT, 1), "no record");
        assert!(are_readable(&message(b""), AT, 0));
    }

    #[test]
    fn names_made_to_be_slow_are_refused() {
        // Each owner is one label longer than the owner before: far more steps than octets.
        let mut records = Vec::new();
        let mut before = 12_u16;
        for _ in 0..900 {
            let here = (AT + records.len()) as u16;
            records.extend_from_slice(b"\0\0\x10\0\x01\0\0\0\x3c\0\x06\x01a");
            records.extend_from_slice(&(0xc000 | before).to_be_bytes());
            records.extend_from_slice(&[0, 0]);
            before = here + 11;
        }
        assert!(are_readable(&message(&records), AT, 900));
        let mut slow = records.clone();
        let deep = before - 17 * 800;
        for _ in 0..4_000 {
            slow.extend_from_slice(&(0xc000 | deep).to_be_bytes());
            slow.extend_from_slice(b"\0\x10\0\x01\0\0\0\x3c\0\0");
        }
        assert!(!are_readable(&message(&slow), AT, 4_900));
    }

    proptest::proptest! {
        #[test]
        fn readable_records_can_be_parsed(records: Vec<u8>, at in 0_usize..40, count in 0_usize..5) {
            let message = message(&records);
            if are_readable(&message, at, count) {
                let mut at = at;
                for _ in 0..count {
                    let (record, end) = Record::read(&message, at).expect("a readable record");
                    proptest::prop_assert!(crate::message::name_at(&message, record.owner).is_some());
                    at = end;
                }
            }
        }
    }
}
