//! Whether the records of a message can be read by whoever gets it next.
//!
//! Finding where records end follows no pointer, so a message whose records can be counted may still hold names that
//! loop and data that is cut. Who passes messages on looks closer: at every owner, and at the data of the types whose
//! shape everybody relies on (RFC 1035 section 3.3, RFC 3597 section 4). The data of other types is opaque.

use crate::message::{Budget, HEADER, Record, name_len};
use crate::rr::Qtype;

/// The most labels and pointers that are followed in one message; more than the longest one of ordinary names has.
const MAX_STEPS: u32 = 1 << 16;

/// The shape of a record's data: octets, names that may be compressed, octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many octets stand in front of the names.
    pub front: usize,
    /// How many names there are.
    pub names: usize,
    /// How many octets stand behind them.
    pub behind: usize,
}

impl Shape {
    /// The shape of a type's data; `None` where it is opaque.
    #[inline]
    pub fn of(rtype: Qtype) -> Option<Self> {
        let (front, names, behind) = match rtype {
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
        Some(Self { front, names, behind })
    }
}

/// Whether the `count` records of `message` from `at` on can be read to the last octet, and are records that stand for
/// data (no OPT, no TSIG).
pub fn is_sound(message: &[u8], at: usize, count: usize) -> bool {
    let mut budget = Budget(MAX_STEPS);
    let mut at = at;
    (0..count).all(|_| {
        let sound = record(message, at, &mut budget);
        at = sound.unwrap_or(at);
        sound.is_some()
    })
}

/// Where the record at `at` ends, if it is sound.
fn record(message: &[u8], at: usize, budget: &mut Budget) -> Option<usize> {
    let (record, end) = Record::read(message, at)?;
    // Most owners are a pointer to the question, which is in order.
    if message[at..at + 2] != [0xc0, HEADER as u8] {
        name_len(message, at, budget)?;
    }
    // OPT; TKEY and TSIG.
    if matches!(record.rtype, Qtype(41 | 249 | 250)) {
        return None;
    }
    let Some(Shape { front, names, behind }) = Shape::of(record.rtype) else { return Some(end) };
    let mut at = record.rdata_at + front;
    for _ in 0..names {
        at += name_len(message, at, budget)?;
    }
    (at + behind == end).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, the question `www.test`, and records behind it.
    fn message(records: &[u8]) -> Vec<u8> {
        let mut message = b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0\x03www\x04test\0\0\x01\0\x01".to_vec();
        message.extend_from_slice(records);
        message
    }

    /// Where the records of [`message`] begin.
    const AT: usize = 12 + 10 + 4;

    #[test]
    fn records_are_read_to_the_last_octet() {
        for (records, sound) in [
            (&b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x7f\0\0\x01"[..], true),
            (b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x03\x7f\0\0", false),
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x10", true),
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x03\xc0\x10\0", false),
            // A name beyond the data, one that points to itself, a label of an unknown kind.
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x01\xc0\x10", false),
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x26", false),
            (b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\x80\0", false),
            (b"\xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x04\0\x0a\xc0\x10", true),
            (b"\xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x01\0", false),
            // An owner in the header, one in itself; opaque data; what is no data.
            (b"\xc0\x02\0\x10\0\x01\0\0\0\x3c\0\x02\x01a", false),
            (b"\xc0\x1a\0\x10\0\x01\0\0\0\x3c\0\x02\x01a", false),
            (b"\0\0\x10\0\x01\0\0\0\x3c\0\x02\x07a", true),
            (b"\0\0\x29\x04\xd0\0\0\0\0\0\0", false),
        ] {
            assert_eq!(is_sound(&message(records), AT, 1), sound, "{records:02x?}");
        }
        assert!(!is_sound(&message(b""), AT, 1), "there is none");
        assert!(is_sound(&message(b""), AT, 0));
    }

    #[test]
    fn names_made_to_be_slow_are_given_up() {
        // Each owner is a label in front of the one before: far more steps than octets.
        let mut records = Vec::new();
        let mut before = 12_u16;
        for _ in 0..900 {
            let here = (AT + records.len()) as u16;
            records.extend_from_slice(b"\0\0\x10\0\x01\0\0\0\x3c\0\x06\x01a");
            records.extend_from_slice(&(0xc000 | before).to_be_bytes());
            records.extend_from_slice(&[0, 0]);
            before = here + 11;
        }
        assert!(is_sound(&message(&records), AT, 900));
        let mut slow = records.clone();
        let deep = before - 17 * 800;
        for _ in 0..4_000 {
            slow.extend_from_slice(&(0xc000 | deep).to_be_bytes());
            slow.extend_from_slice(b"\0\x10\0\x01\0\0\0\x3c\0\0");
        }
        assert!(!is_sound(&message(&slow), AT, 4_900));
    }

    proptest::proptest! {
        #[test]
        fn what_is_sound_can_be_taken_apart(records: Vec<u8>, at in 0_usize..40, count in 0_usize..5) {
            let message = message(&records);
            if is_sound(&message, at, count) {
                let mut at = at;
                for _ in 0..count {
                    let (record, end) = Record::read(&message, at).expect("it is sound");
                    proptest::prop_assert!(crate::message::name_at(&message, record.owner).is_some());
                    at = end;
                }
            }
        }
    }
}
