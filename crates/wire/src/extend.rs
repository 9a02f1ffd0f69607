//! Options added to a query that is composed already: what differs from client to client.
//!
//! ```text
//!   [ header | question | OPT: options ] + option + option + padding
//! ```
//!
//! The OPT record, if there is one, ends the message, so that its options can grow in place.

use crate::edns::{DEFAULT_UDP_SIZE, opt_fixed};
use crate::message::{HEADER, OPT_FIXED};
use crate::rr::Qtype;

/// The code of the padding option (RFC 7830).
pub const PADDING: u16 = 12;
/// The code of the client subnet option (RFC 7871).
pub const CLIENT_SUBNET: u16 = 8;
/// The code of the cookie option (RFC 7873).
pub const COOKIE: u16 = 10;
/// The code of the TCP keepalive option (RFC 7828).
pub const KEEPALIVE: u16 = 11;

/// Adds `options`, in wire form, to the query in the first `len` octets of `place`, and pads it to a multiple of
/// `block` octets (RFC 8467 section 4.1 wants 128; 0: not at all). The new length; `None` when there is no room, or
/// the message is no query of one question and at most an OPT record.
pub fn extend(place: &mut [u8], len: usize, options: &[u8], block: usize) -> Option<usize> {
    let (opt, mut len) = match opt_at(place.get(..len)?)? {
        Some(at) => (at, len),
        None => {
            place.get_mut(len..len + OPT_FIXED)?.copy_from_slice(&opt_fixed(
                DEFAULT_UDP_SIZE,
                0,
                false,
                0,
            ));
            place[11] = 1;
            (len, len + OPT_FIXED)
        }
    };
    place.get_mut(len..len + options.len())?.copy_from_slice(options);
    len += options.len();
    if block > 0 {
        let padding = (block - (len + 4) % block) % block;
        let end = len + 4 + padding;
        let option = place.get_mut(len..end)?;
        option.fill(0);
        option[..2].copy_from_slice(&PADDING.to_be_bytes());
        option[2..4].copy_from_slice(&(padding as u16).to_be_bytes());
        len = end;
    }
    let rdata = u16::try_from(len - opt - OPT_FIXED).ok()?;
    place[opt + OPT_FIXED - 2..opt + OPT_FIXED].copy_from_slice(&rdata.to_be_bytes());
    Some(len)
}

/// Where a query's OPT record begins, if it has one, which then ends it; `None` if it is no such query.
fn opt_at(query: &[u8]) -> Option<Option<usize>> {
    let counts = query.get(4..HEADER)?;
    let [0, 1, 0, 0, 0, 0, 0, additional] = *counts else { return None };
    let mut at = HEADER;
    loop {
        match *query.get(at)? {
            0 => break,
            label @ 1..=63 => at += 1 + usize::from(label),
            _ => return None,
        }
    }
    at += 1 + 4;
    match additional {
        0 => (at == query.len()).then_some(None),
        1 => {
            let opt = query.get(at..at + OPT_FIXED)?;
            let [t1, t0] = Qtype::OPT.0.to_be_bytes();
            let rdata = usize::from(u16::from_be_bytes([opt[9], opt[10]]));
            let is_last = at + OPT_FIXED + rdata == query.len();
            (opt[..3] == [0, t1, t0] && is_last).then_some(Some(at))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::edns::Edns;
    use crate::query::QueryTemplate;
    use crate::server::Query;

    fn extended(edns: Option<&Edns>, options: &[u8], block: usize) -> Option<Vec<u8>> {
        let name = "www.example.com".parse().unwrap();
        let query = QueryTemplate::new(&name, Qtype::AAAA, true, false, edns);
        let mut place = vec![0xee; 512];
        place[..query.len()].copy_from_slice(query.bytes());
        let len = extend(&mut place, query.len(), options, block)?;
        place.truncate(len);
        Some(place)
    }

    #[test]
    fn options_go_behind_those_that_are_there() {
        let mut edns = Edns { udp_size: 4_000, ..Edns::default() };
        edns.add_option("10:0102").unwrap();
        for (edns, size, first) in [(None, DEFAULT_UDP_SIZE, None), (Some(&edns), 4_000, Some(10))]
        {
            let query = extended(edns, &[0, 11, 0, 0], 128).unwrap();
            assert_eq!(query.len(), 128);
            let seen = Query::parse(&query).unwrap();
            let seen = seen.edns.unwrap();
            assert_eq!(seen.udp_size, size);
            let codes: Vec<u16> = seen.options().map(|option| option.unwrap().0).collect();
            let expected: Vec<u16> = first.into_iter().chain([11, 12]).collect();
            assert_eq!(codes, expected);
        }
    }

    #[test]
    fn no_room_and_no_query_are_told() {
        assert_eq!(extended(None, &[0; 500], 0), None);
        let mut place = [0; 64];
        assert_eq!(extend(&mut place, 40, &[], 0), None, "no question");
        assert_eq!(extend(&mut place, 65, &[], 0), None, "longer than its place");
    }

    proptest! {
        /// Whatever is there, it stays what it is but for the OPT record, and has the length that is wanted.
        #[test]
        fn bytes_of_any_kind(mut place in prop::collection::vec(any::<u8>(), 0..200), len in 0usize..220, block in 0usize..140) {
            let before = place.clone();
            if let Some(new) = extend(&mut place, len, &[0, 11, 0, 0], block) {
                prop_assert!(new <= place.len() && new >= len + 4);
                prop_assert!(block == 0 || new % block == 0);
                prop_assert_eq!(&place[..11], &before[..11]);
                prop_assert_eq!(opt_at(&place[..new]).flatten().is_some(), true);
            }
        }
    }
}
