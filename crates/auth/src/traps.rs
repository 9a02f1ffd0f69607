//! Names that drills query: a large answer, and delegations to many servers without addresses.
//!
//! ```text
//! large.ZONE       TXT: 16 records of 250 octets, truncated over UDP
//! keytrap.ZONE     a signed zone with forged signatures (`signed`)
//! NAME.bomb.ZONE   a delegation to n00.NAME.ZONE, n01.NAME.ZONE, ... as many as fit, without addresses; those names do not exist
//! ```
//!
//! A resolver that follows such a delegation queries the addresses of all these servers (NXNS,
//! CVE-2020-8616), and a large answer amplifies a query with a forged source.

pub(crate) mod signed;

use wire::message::{HEADER, OPT_FIXED, RECORD_FIXED, flag};
use wire::namespace::{BOMB, KEYTRAP, LARGE};
use wire::writer::pointer;
use wire::{Owner, Qtype, ReplyWriter};

use crate::zone::{Located, Node};

/// Largest size of a reply over a stream in octets, if there is a large answer.
pub(crate) const MAX_LARGE_REPLY: usize = 8_192;
/// Number of TXT records of the large answer, and octets of the text of each.
const TXT_RECORDS: u8 = 16;
const TXT_OCTETS: u8 = 250;
/// Largest number of servers of a delegation.
const MAX_SERVERS: u8 = 40;

/// Returns the kind of the name with the labels `front` in front of the forward zone, if no other kind of name has them.
pub(crate) fn node(front: &[u8]) -> Node {
    let (last, before) = split_last(front);
    let is = |label: &str| last.eq_ignore_ascii_case(label.as_bytes());
    match before {
        [] if is(LARGE) => Node::Large,
        [] if is(BOMB) => Node::Empty,
        [] if is(KEYTRAP) => Node::Keys,
        [len, rest @ ..] if rest.len() == usize::from(*len) => {
            if is(BOMB) {
                Node::Delegated
            } else if is(KEYTRAP) {
                Node::Forged
            } else {
                Node::Missing
            }
        }
        _ => Node::Missing,
    }
}

/// Splits labels in wire form into the text of the last label and the labels before it.
fn split_last(front: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    while let Some(&len) = front.get(at) {
        let end = at + 1 + usize::from(len);
        if end >= front.len() {
            return (&front[at + 1..], &front[..at]);
        }
        at = end;
    }
    (&[], &[])
}

/// Adds the large answer; the reply is truncated if there is no room for it.
pub(crate) fn large(writer: &mut ReplyWriter<'_>, ttl: u32) {
    let mut text = [b'x'; 1 + TXT_OCTETS as usize];
    text[0] = TXT_OCTETS;
    for number in 0..TXT_RECORDS {
        // Records of a set differ.
        text[1] = b'a' + number;
        if !writer.answer(Owner::Question, Qtype::TXT, ttl, &text) {
            return;
        }
    }
}

/// Adds the delegation of the queried name to as many servers as fit into a reply of `limit` octets.
pub(crate) fn delegation(
    writer: &mut ReplyWriter<'_>,
    qname: &[u8],
    located: Located,
    ttl: u32,
    limit: usize,
) {
    writer.flag(flag::AA, false);
    let label = &qname[..1 + usize::from(qname[0])];
    let zone = pointer((HEADER + located.zone_at) as u16);
    for number in 0..MAX_SERVERS {
        let server = [3, b'n', b'0' + number / 10, b'0' + number % 10];
        let record = 2 + RECORD_FIXED + server.len() + label.len() + zone.len();
        if writer.position() + record + OPT_FIXED > limit {
            return;
        }
        writer.authority(Owner::Question, Qtype::NS, ttl, &[&server, label, &zone]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_kinds() {
        let table: [(&[u8], Node); 11] = [
            (b"\x07keytrap", Node::Keys),
            (b"\x01x\x07keyTrap", Node::Forged),
            (b"\x05large", Node::Large),
            (b"\x05LARGE", Node::Large),
            (b"\x04bomb", Node::Empty),
            (b"\x01x\x04Bomb", Node::Delegated),
            (b"\x01x\x01y\x04bomb", Node::Missing),
            (b"\x01x\x05large", Node::Missing),
            // A label that ends with the octets of another.
            (b"\x06x\x04bomb", Node::Missing),
            (b"\x03n00\x01x", Node::Missing),
            (b"\x01x", Node::Missing),
        ];
        for (front, wanted) in table {
            assert_eq!(node(front), wanted, "{front:?}");
        }
    }
}
