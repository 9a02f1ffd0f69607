//! Queries with parts that clients seldom send, which servers and programs have to refuse, pass up or answer alike. The tests of
//! dns64d have this file too.

use wire::message::{HEADER, question_end};

/// Longest name with its last octet, and one octet more.
const MAX_NAME: usize = 255;
/// Octets of a label that are no letters, digits and dashes, some of them near letters.
const OCTETS: [u8; 10] = [0, b'.', b'@', b'[', b'`', b'{', 0x7f, 0x80, 0xc1, 0xff];
const CLASSES: [u16; 6] = [0, 2, 3, 254, 255, 0x8001];
/// OPT, those for transfers and signatures, ANY, and ones that nobody has.
const TYPES: [u16; 10] = [0, 41, 249, 250, 251, 252, 253, 255, 256, 65_535];
/// A record with the root as owner, an A record.
const RECORD: [u8; 15] = [0, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1];
/// Options without and with data: NSID, keepalive, padding, unknown, half a client subnet, half a cookie, one cut.
const OPTIONS: [&[u8]; 8] = [
    &[],
    &[0, 3, 0, 0],
    &[0, 11, 0, 0],
    &[0, 12, 0, 3, 0, 0, 0],
    &[0xfd, 0xe9, 0, 1, 7],
    &[0, 8, 0, 2, 0, 1],
    &[0, 10, 0, 4, 1, 2, 3, 4],
    &[0, 3, 0, 9, 1],
];

/// Gives a query with one question one odd part; `below` returns a random number below the given one.
pub(crate) fn make_odd(query: &mut Vec<u8>, below: &mut dyn FnMut(u64) -> u64) {
    let Some(end) = question_end(query) else { return };
    match below(11) {
        // Bits and codes of the header.
        0 => query[2 + below(2) as usize] ^= 1 << below(8),
        1 => query[5 + 2 * below(4) as usize] = below(3) as u8,
        2 => {
            let question = query[HEADER..end].to_vec();
            query[5] = 2;
            query.splice(end..end, question);
        }
        // Compression: to itself, to the header, into the name, behind the message.
        3 => {
            let pointer = [0xc0, [end as u64 - 5, 0, 12, 13, 255][below(5) as usize] as u8];
            query.splice(end - 5..end - 4, pointer);
        }
        4 => put(query, end - 2, CLASSES[below(CLASSES.len() as u64) as usize]),
        5 => put(query, end - 4, TYPES[below(TYPES.len() as u64) as usize]),
        // About as long as the programs read them, and as long as there may be ones.
        6 => {
            let len = [128, MAX_NAME][below(2) as usize] + below(3) as usize - 1;
            lengthen(query, end, len, 1 + below(63) as usize);
        }
        7 => {
            let labels = [0, 1, 2, 3, 13, 14, 15, 16, 110][below(9) as usize];
            query.splice(HEADER..HEADER, [1, b'x'].repeat(labels));
        }
        8 if query[HEADER] > 0 => {
            let at = HEADER + 1 + below(query[HEADER].into()) as usize;
            query[at] = OCTETS[below(OCTETS.len() as u64) as usize];
        }
        // A record in front of the OPT record, or behind it.
        9 => {
            let at = if below(2) == 0 { end } else { query.len() };
            query.splice(at..at, RECORD);
            query[[7, 9, 11, 11][below(4) as usize]] += 1;
        }
        _ => {
            let options = OPTIONS[below(OPTIONS.len() as u64) as usize];
            let [code, version] = [below(20), below(20)].map(|odd| u8::from(odd == 0));
            let flags = [0, 0x80, 0x40, 0xff][below(4) as usize];
            let size = [0, 1, 511, 512, 65_535][below(5) as usize];
            // A second one if there is one.
            query.extend_from_slice(&[0, 0, 41, (size >> 8) as u8, size as u8, code, version]);
            query.extend_from_slice(&[flags, 0, 0, options.len() as u8]);
            query.extend_from_slice(options);
            query[11] += 1;
        }
    }
}

fn put(query: &mut [u8], at: usize, value: u16) {
    query[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Puts labels of at most so many octets in front of the name of a question that ends at `end`, until it has `len` octets.
fn lengthen(query: &mut Vec<u8>, end: usize, len: usize, label: usize) {
    let mut left = len.saturating_sub(end - 4 - HEADER);
    while left > 1 {
        let own = (left - 1).min(label);
        // No single octet may be left, which no label has room in.
        let own = if left - 1 - own == 1 && own > 1 { own - 1 } else { own };
        let mut octets = vec![b'l'; own + 1];
        octets[0] = own as u8;
        query.splice(HEADER..HEADER, octets);
        left -= own + 1;
    }
}
