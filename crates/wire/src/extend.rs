//! Adds EDNS options to a finished message: to a query, options that differ between clients; to a reply over a stream,
//! options that the client requested.
//!
//! ```text
//!   [ header | question | ... | OPT: options ] + option + option + padding
//! ```
//!
//! The OPT record, if there is one, is the last record of the message, so options can be appended in place.

use crate::edns::{self, DEFAULT_UDP_SIZE, EdnsSeen, opt_fixed};
use crate::message::{HEADER, Header, OPT_FIXED, Record, question_end, records};
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
/// `block` octets (RFC 8467 section 4.1 recommends 128; 0 means no padding). They take the places of options of the query with the same
/// codes: of two cookies a server reads the first. Returns the new length, or `None` if there is no room or the message is not a query
/// with one question and at most an OPT record.
pub fn extend(place: &mut [u8], len: usize, options: &[u8], block: usize) -> Option<usize> {
    let (opt, mut len, added) = match opt_at(place.get(..len)?)? {
        Some(at) => {
            let replaced =
                |code| block > 0 && code == PADDING || edns::options(options).any(|o| o.0 == code);
            let gone = edns::options(&place[at + OPT_FIXED..len]).filter(|o| replaced(o.0));
            let end = len - gone.map(|(_, data)| 4 + data.len()).sum::<usize>() + options.len();
            // Without room the query is not changed.
            place.get(..if block > 0 { (end + 4).next_multiple_of(block) } else { end })?;
            (at, remove_options(place, at + OPT_FIXED, len, replaced), 0)
        }
        None => {
            place.get_mut(len..len + OPT_FIXED)?.copy_from_slice(&opt_fixed(
                DEFAULT_UDP_SIZE,
                0,
                false,
                0,
            ));
            (len, len + OPT_FIXED, 1)
        }
    };
    place.get_mut(len..len + options.len())?.copy_from_slice(options);
    len += options.len();
    if block > 0 {
        len = pad(place, len, (len + 4).next_multiple_of(block))?;
    }
    set_rdata(place, opt, len)?;
    place[11] += added;
    Some(len)
}

/// Removes options of `place`, which are its octets from `at` to `len`; returns the new length.
fn remove_options(
    place: &mut [u8],
    mut at: usize,
    mut len: usize,
    removed: impl Fn(u16) -> bool,
) -> usize {
    while let Some(((code, data), _)) = edns::split_option(&place[at..len]) {
        let end = at + 4 + data.len();
        if removed(code) {
            place.copy_within(end..len, at);
            len -= end - at;
        } else {
            at = end;
        }
    }
    len
}

/// Writes a padding option after the first `len` octets of `place`, up to `end`; `None` if there is no room.
fn pad(place: &mut [u8], len: usize, end: usize) -> Option<usize> {
    let option = place.get_mut(len..end)?;
    u16::try_from(option.len().checked_sub(4)?).ok()?;
    option.fill(0);
    put_head(option, PADDING);
    Some(end)
}

/// Writes code and length of an option into its place, which fits both.
#[inline]
fn put_head(option: &mut [u8], code: u16) {
    let len = (option.len() - 4) as u16;
    option[..2].copy_from_slice(&code.to_be_bytes());
    option[2..4].copy_from_slice(&len.to_be_bytes());
}

/// Sets the data length of the OPT record at `opt` so that its options end at `end`.
fn set_rdata(place: &mut [u8], opt: usize, end: usize) -> Option<()> {
    let rdata = u16::try_from(end.checked_sub(opt + OPT_FIXED)?).ok()?;
    let at = opt + OPT_FIXED;
    place.get_mut(at - 2..at)?.copy_from_slice(&rdata.to_be_bytes());
    Some(())
}

/// A cookie of a reply (RFC 7873): the client's part and the server's (RFC 9018), in octets.
pub type Cookie = [u8; 24];

/// Returns the cookie in the OPT record of a reply, both parts of it; `None` without one, or if a record is malformed.
pub fn cookie(reply: &[u8]) -> Option<&[u8]> {
    let header = Header::read(reply)?;
    let at = question_end(reply).filter(|_| header.counts[0] == 1)?;
    let count = header.counts[1..].iter().map(|count| usize::from(*count)).sum();
    let opt = records(reply, at).take(count).find(|record| record.rtype == Qtype::OPT)?;
    EdnsSeen::from_record(&opt)?.option(COOKIE)
}

/// Block size to which replies are padded, in octets (RFC 8467 section 4.1).
pub const REPLY_BLOCK: usize = 468;

/// Largest number of octets that [`ReplyOptions::add`] adds.
pub const MAX_REPLY_OPTIONS: usize = 4 + 24 + 4 + 2 + 4 + REPLY_BLOCK;

/// The options that a reply over a stream carries because the query requested them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyOptions {
    /// Idle timeout of the connection (RFC 7828), in units of 100 ms; `None` if not requested or not offered.
    pub keepalive: Option<u16>,
    /// Whether the reply is padded, because the query was (RFC 7830).
    pub padded: bool,
    /// Cookie, because the query has one.
    pub cookie: Option<Cookie>,
}

impl ReplyOptions {
    /// Returns the options that a query requests. `idle` is the idle timeout of the connection in units of 100 ms, or
    /// `None` for transports without the keepalive option: UDP, QUIC (RFC 9250 section 5.5.2), HTTP.
    #[inline]
    pub fn requested(edns: &EdnsSeen<'_>, idle: Option<u16>) -> Self {
        let mut requested = ReplyOptions::default();
        for (code, _) in edns.options().flatten() {
            match code {
                KEEPALIVE => requested.keepalive = idle,
                PADDING => requested.padded = true,
                _ => {}
            }
        }
        requested
    }

    /// Returns whether the query requests no option.
    pub fn is_empty(&self) -> bool {
        *self == ReplyOptions::default()
    }

    /// Adds the options to the reply in the first `len` octets of `place`, whose last record is the
    /// OPT record at `opt`. Returns the new length, at most `limit`: options without room are
    /// omitted, padding is shortened.
    #[inline]
    pub fn add(&self, place: &mut [u8], opt: usize, len: usize, limit: usize) -> usize {
        if self.is_empty() {
            return len;
        }
        let limit = limit.min(place.len());
        let mut end = len;
        let time = self.keepalive.map(u16::to_be_bytes);
        let cookie = self.cookie.as_ref().map(|cookie| (COOKIE, &cookie[..]));
        let keepalive = time.iter().map(|time| (KEEPALIVE, &time[..]));
        for (code, data) in cookie.into_iter().chain(keepalive) {
            if let Some(option) = place[..limit].get_mut(end..end + 4 + data.len()) {
                put_head(option, code);
                option[4..].copy_from_slice(data);
                end += option.len();
            }
        }
        if self.padded {
            let to = (end + 4).next_multiple_of(REPLY_BLOCK).min(limit);
            end = pad(place, end, to).unwrap_or(end);
        }
        match set_rdata(place, opt, end) {
            Some(()) => end,
            None => len,
        }
    }
}

/// Returns the offset of a query's OPT record, if it has one; `None` if the message is not a query that ends in its
/// question or its OPT record.
fn opt_at(query: &[u8]) -> Option<Option<usize>> {
    let counts = query.get(4..HEADER)?;
    let [0, 1, 0, 0, 0, 0, 0, additional] = *counts else { return None };
    let at = question_end(query)?;
    if additional == 0 {
        return (at == query.len()).then_some(None);
    }
    let (opt, end) = Record::read(query, at)?;
    let is_opt = opt.rtype == Qtype::OPT && query[at] == 0 && end == query.len();
    (is_opt && additional == 1).then_some(Some(at))
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
    fn options_are_appended_to_existing_ones() {
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

    /// A query of a capture often has a cookie, and padding: a client has its own.
    #[test]
    fn options_take_the_places_of_those_with_their_codes() {
        let mut edns = Edns::default();
        for option in ["10:0102", "8:00012000c0000200", "12:000000", "10:03", "65001:aa"] {
            edns.add_option(option).unwrap();
        }
        let found = |options: &[u8], block| {
            let query = extended(Some(&edns), options, block).unwrap();
            let seen = Query::parse(&query).unwrap().edns.unwrap();
            let all = seen.options().map(|option| option.unwrap());
            all.map(|(code, data)| (code, data.first().copied())).collect::<Vec<_>>()
        };
        let (subnet, other) = ((CLIENT_SUBNET, Some(0)), (65_001, Some(0xaa)));
        assert_eq!(
            found(&[0, 10, 0, 1, 9], 0),
            [subnet, (PADDING, Some(0)), other, (COOKIE, Some(9))]
        );
        let cookies = [(COOKIE, Some(1)), subnet, (COOKIE, Some(3)), other, (PADDING, Some(0))];
        assert_eq!(found(&[], 128), cookies);
    }

    #[test]
    fn missing_room_and_other_messages_are_refused() {
        assert_eq!(extended(None, &[0; 500], 0), None);
        let mut place = [0; 64];
        assert_eq!(extend(&mut place, 40, &[], 0), None, "no question");
        assert_eq!(extend(&mut place, 65, &[], 0), None, "longer than the buffer");
    }

    #[test]
    fn replies_carry_the_requested_options() {
        let requested = |options: &[u8]| {
            let query = extended(None, options, 0).unwrap();
            ReplyOptions::requested(&Query::parse(&query).unwrap().edns.unwrap(), Some(300))
        };
        assert_eq!(requested(&[0, 10, 0, 0]), ReplyOptions::default());
        let both = ReplyOptions { keepalive: Some(300), padded: true, cookie: None };
        assert_eq!(requested(&[0, 12, 0, 1, 0, 0, 11, 0, 0]), both);
        for (limit, length, codes) in [
            (65_535, REPLY_BLOCK, vec![KEEPALIVE, PADDING]),
            (100, 100, vec![KEEPALIVE, PADDING]),
            (52, 50, vec![KEEPALIVE]),
            (45, 44, vec![]),
        ] {
            // Any message that ends in an OPT record serves here.
            let mut place = extended(None, &[], 0).unwrap();
            let len = place.len();
            assert_eq!(len, 44);
            place.resize(1_000, 0xee);
            let end = both.add(&mut place, len - OPT_FIXED, len, limit);
            assert_eq!(end, length, "{limit}");
            let seen = Query::parse(&place[..end]).unwrap().edns.unwrap();
            let found: Vec<u16> = seen.options().map(|option| option.unwrap().0).collect();
            assert_eq!(found, codes, "{limit}");
        }
    }

    #[test]
    fn a_cookie_comes_first() {
        let mut place = extended(None, &[], 0).unwrap();
        let len = place.len();
        place.resize(1_000, 0xee);
        let options = ReplyOptions { keepalive: Some(1), padded: false, cookie: Some([7; 24]) };
        let end = options.add(&mut place, len - OPT_FIXED, len, 1_000);
        assert_eq!(end, len + 28 + 6);
        let seen = Query::parse(&place[..end]).unwrap().edns.unwrap();
        let found: Vec<_> = seen.options().map(|option| option.unwrap()).collect();
        assert_eq!(found, [(COOKIE, &[7; 24][..]), (KEEPALIVE, &[0, 1])]);
        assert_eq!(options.add(&mut place, len - OPT_FIXED, len, len + 20), len + 6);
    }

    proptest! {
        /// Arbitrary octets keep their header, and the result has a valid OPT record and the padded length.
        #[test]
        fn arbitrary_bytes_are_extended_or_refused(mut place in prop::collection::vec(any::<u8>(), 0..200), len in 0usize..220, block in 0usize..140) {
            let before = place.clone();
            if let Some(new) = extend(&mut place, len, &[0, 11, 0, 0], block) {
                prop_assert!(new <= place.len());
                prop_assert!(block == 0 || new % block == 0);
                prop_assert_eq!(&place[..11], &before[..11]);
                prop_assert_eq!(opt_at(&place[..new]).flatten().is_some(), true);
            } else if let Some(query) = before.get(..len) {
                prop_assert!(place.starts_with(query));
            }
        }

        /// A query that has no room for its options stays as it is, whatever it has already.
        #[test]
        fn a_query_without_room_is_left_as_it_is(cookies in prop::collection::vec(0u8..4, 0..4), room in 0usize..60, block in 0usize..40) {
            let mut edns = Edns::default();
            for length in cookies {
                edns.add_option(&format!("10:{}", "ab".repeat(length.into()))).unwrap();
            }
            let query = extended(Some(&edns), &[], 0).unwrap();
            let mut place = query.clone();
            place.resize(query.len() + room, 0);
            let options = [0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
            let wanted = extended(Some(&edns), &options, block).unwrap();
            let found = extend(&mut place, query.len(), &options, block);
            prop_assert_eq!(found, (wanted.len() <= query.len() + room).then_some(wanted.len()));
            let whole = if found.is_some() { wanted } else { query };
            prop_assert!(place.starts_with(&whole));
        }
    }
}
