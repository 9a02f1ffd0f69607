//! The form in which replies are read and stored.

use wire::Qtype;
use wire::message::{HEADER, Header, Record, flag, question_end, skip_name};
use wire::reply::readable::Shape;

/// Brings a received reply into the form that is read and stored: the name of the question in lower
/// case, and with it all labels that are compressed pointers to it or equal to it, so that the
/// random letter case of the query reaches no client; TTLs above 2^31 - 1 are 0 (RFC 2181 section
/// 8); AD cleared unless it may be trusted. A message is left unchanged from its first malformed
/// record on.
pub(crate) fn normalise(message: &mut [u8], trust_ad: bool) {
    let (Some(header), Some(end)) = (Header::read(message), question_end(message)) else { return };
    if !trust_ad {
        message[3] &= !(flag::AD as u8);
    }
    let mut spelled = [0; 255];
    let name = &mut message[HEADER..end - 4];
    let spelled = &mut spelled[..name.len()];
    spelled.copy_from_slice(name);
    name.make_ascii_lowercase();
    let is_mixed = spelled != name;
    let [_, answers, authority, additional] = header.counts.map(u32::from);
    let mut at = end;
    for _ in 0..answers + authority + additional {
        let Some((record, next)) = Record::read(message, at) else { return };
        let (rtype, ttl, data_at) = (record.rtype, record.ttl, record.rdata_at);
        if ttl >> 31 != 0 && rtype != Qtype::OPT {
            message[data_at - 6..data_at - 2].fill(0);
        }
        if is_mixed {
            restore_labels(message, at, spelled);
            let Shape { front, names, .. } =
                Shape::of(rtype).unwrap_or(Shape { front: 0, names: 0, after: 0 });
            let mut name_at = Some(data_at + front);
            for _ in 0..names {
                name_at = name_at.and_then(|at| restore_labels(message, at, spelled));
            }
        }
        at = next;
    }
}

/// Returns whether a message, as received, has the AD bit (authentic data), also if the server is
/// not trusted.
pub(crate) fn claims_authentic(message: &[u8]) -> bool {
    Header::read(message).is_some_and(|header| header.flags & flag::AD != 0)
}

/// Puts the labels of the name at `at` that equal a label of `spelled` into lower case, up to the name's end or
/// pointer; returns the position after it.
fn restore_labels(message: &mut [u8], mut at: usize, spelled: &[u8]) -> Option<usize> {
    let end = skip_name(message, at)?;
    while let len @ 1..=63 = message[at] {
        let label = &mut message[at..=at + usize::from(len)];
        if has_label(spelled, label) {
            label.make_ascii_lowercase();
        }
        at += 1 + usize::from(len);
    }
    Some(end)
}

/// Returns whether an uncompressed name has this label, given with its length octet, in the same letter case.
fn has_label(name: &[u8], label: &[u8]) -> bool {
    let mut rest = name;
    while let Some(&len @ 1..) = rest.first() {
        let Some((own, next)) = rest.split_at_checked(1 + usize::from(len)) else { return false };
        if own == label {
            return true;
        }
        rest = next;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_spelling_of_the_query_is_removed() {
        // The question in mixed case; a CNAME with a copy of the question's labels, a pointer into the question,
        // and a label in capitals of its own; TTLs of 2^31 and 2^31 - 1.
        let mut reply = b"\0\x07\x81\x80\0\x01\0\x02\0\0\0\0\x03wWw\x04TeSt\0\0\x01\0\x01\
            \x03wWw\xc0\x10\0\x05\0\x01\x80\0\0\0\0\x0a\x03WEB\x04TeSt\0\
            \x03WEB\xc0\x10\0\x01\0\x01\x7f\xff\xff\xff\0\x04wWwT"
            .to_vec();
        reply[3] |= 0x20;
        normalise(&mut reply, false);
        let expected = b"\0\x07\x81\x80\0\x01\0\x02\0\0\0\0\x03www\x04test\0\0\x01\0\x01\
            \x03www\xc0\x10\0\x05\0\x01\0\0\0\0\0\x0a\x03WEB\x04test\0\
            \x03WEB\xc0\x10\0\x01\0\x01\x7f\xff\xff\xff\0\x04wWwT";
        assert_eq!(reply, expected);
    }

    proptest! {
        #[test]
        fn any_octets_can_be_normalised(mut octets: Vec<u8>, as_reply: bool) {
            if as_reply {
                octets.splice(0..0, *b"\0\x07\x81\x80\0\x01\0\x03\0\0\0\0\x03wWw\x04TeSt\0\0\x01\0\x01");
            }
            let before = octets.clone();
            normalise(&mut octets, true);
            prop_assert_eq!(octets.len(), before.len());
            // A normal form stays as it is.
            let once = octets.clone();
            normalise(&mut octets, true);
            prop_assert_eq!(octets, once);
        }
    }
}
