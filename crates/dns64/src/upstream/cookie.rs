//! DNS cookies for upstream servers (RFC 7873): a reply whose client part differs from the query's
//! is forged.
//!
//! ```text
//!             ──a cookie in a reply──> Shown ──none, over a stream──┐
//!   Unknown ──┤                                                     │
//!      ^      └─four replies without one──> Absent ──an hour──┐     │
//!      └──────────────────────────────────────────────────────┴─────┘
//! ```
//!
//! Some firewalls drop queries with options that they do not know: until a server has shown a cookie, a query without a
//! reply is sent again without one.

use std::hash::Hasher;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use measure::Nanos;
use siphasher::sip::SipHasher24;
use wire::extend::COOKIE;

/// Octets of the client's part, and the most of the server's part.
const CLIENT_OCTETS: usize = 8;
const MAX_SERVER: usize = 32;
/// Octets of code and length of an option.
const HEAD: usize = 4;
/// Length of the longest cookie option with its head, in octets.
pub(crate) const MAX_COOKIE: usize = HEAD + CLIENT_OCTETS + MAX_SERVER;
/// Number of replies without a cookie after which a server is considered to have none.
const MAX_ABSENT: u8 = 3;
/// Time for which such a server gets no cookies.
const NO_COOKIE_TIME: Nanos = Nanos::from_secs(3_600);

/// The cookie for one server, and whether the server has cookies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpstreamCookie {
    /// The option of the next query, and its length: code, length, the client's part, the server's part if it is known.
    option: [u8; MAX_COOKIE],
    len: usize,
    support: Support,
}

/// Whether a server has cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Support {
    /// Not known yet; holds the number of replies without a cookie.
    Unknown(u8),
    /// The server has returned a cookie, so that replies without one are doubtful.
    Shown,
    /// The server has no cookies; it is tried again at this time.
    Absent(Nanos),
}

/// Credibility of a reply, by its cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credibility {
    /// The cookie is the query's, or the server has never sent one.
    Right,
    /// The reply has no cookie, though the server uses cookies.
    Missing,
    /// The cookie is not the query's: the reply is forged.
    Wrong,
}

impl UpstreamCookie {
    /// Makes the cookie for a server, with the address from which it is queried if that is
    /// configured. Both determine the client's part, together with the secret, so that servers
    /// cannot link a client by its cookie.
    pub(super) fn new(secret: &[u8; 16], server: SocketAddr, source: Option<IpAddr>) -> Self {
        let octets = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        // The input differs in length from the input of clients' cookies, which have the same
        // secret.
        let mut hasher = SipHasher24::new_with_key(secret);
        hasher.write(&octets(server.ip()));
        hasher.write(&server.port().to_be_bytes());
        hasher.write(&octets(source.unwrap_or(Ipv6Addr::UNSPECIFIED.into())));
        let mut option = [0; MAX_COOKIE];
        option[HEAD..HEAD + CLIENT_OCTETS].copy_from_slice(&hasher.finish().to_be_bytes());
        let mut cookie = UpstreamCookie { option, len: 0, support: Support::Unknown(0) };
        cookie.set_len(CLIENT_OCTETS);
        cookie
    }

    /// Sets the number of octets of both parts.
    fn set_len(&mut self, data: usize) {
        self.len = HEAD + data;
        self.option[..2].copy_from_slice(&COOKIE.to_be_bytes());
        self.option[2..HEAD].copy_from_slice(&(data as u16).to_be_bytes());
    }

    fn client(&self) -> &[u8] {
        &self.option[HEAD..HEAD + CLIENT_OCTETS]
    }

    /// Returns the option for a query.
    pub(crate) fn option(&self) -> &[u8] {
        &self.option[..self.len]
    }

    /// Returns whether the cookie is for the same server, secret and source as another one.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.client() == other.client()
    }

    /// Returns whether a query has the cookie; `unanswered`: the last attempt had the cookie and
    /// got no reply.
    pub(super) fn is_sent(&self, unanswered: bool, now: Nanos) -> bool {
        match self.support {
            Support::Shown => true,
            Support::Unknown(_) => !unanswered,
            Support::Absent(until) => now >= until && !unanswered,
        }
    }

    /// Compares the cookie of a reply with the one that was sent, and keeps the server's part.
    pub(crate) fn check(&mut self, reply: Option<&[u8]>, now: Nanos) -> Credibility {
        match reply {
            Some(data) if is_length(data.len()) && data[..CLIENT_OCTETS] == *self.client() => {
                if data.len() > CLIENT_OCTETS {
                    self.option[HEAD..HEAD + data.len()].copy_from_slice(data);
                    self.set_len(data.len());
                    self.support = Support::Shown;
                }
                Credibility::Right
            }
            Some(_) => Credibility::Wrong,
            None if self.support == Support::Shown => Credibility::Missing,
            None => {
                self.note_absent(now);
                Credibility::Right
            }
        }
    }

    /// Notes that a server whose cookies are not known answers without one.
    pub(crate) fn note_absent(&mut self, now: Nanos) {
        self.support = match self.support {
            Support::Shown => Support::Shown,
            Support::Unknown(n) if n < MAX_ABSENT => Support::Unknown(n + 1),
            _ => Support::Absent(now + NO_COOKIE_TIME),
        };
    }

    /// Notes that a server requires a cookie (BADCOOKIE).
    pub(crate) fn note_wanted(&mut self) {
        if matches!(self.support, Support::Absent(_)) {
            self.support = Support::Unknown(0);
        }
    }

    /// Notes that a server has no cookies any more: it returned none over a stream, where no third
    /// party can reply.
    pub(crate) fn forget(&mut self) {
        self.set_len(CLIENT_OCTETS);
        self.support = Support::Unknown(0);
    }
}

/// Returns whether the data of an option may have this length, in octets (RFC 7873 section 4).
fn is_length(len: usize) -> bool {
    matches!(len, 8 | 16..=40)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Nanos = Nanos::from_secs(100);

    fn cookie(server: &str, source: Option<&str>) -> UpstreamCookie {
        let source = source.map(|source| source.parse().expect("an address"));
        UpstreamCookie::new(&[7; 16], server.parse().expect("an address"), source)
    }

    /// Returns the data of a reply: the client's part of a cookie, and `server`.
    fn reply(cookie: &UpstreamCookie, server: &[u8]) -> Vec<u8> {
        [cookie.client(), server].concat()
    }

    #[test]
    fn each_server_and_source_has_its_own_cookie() {
        let all = [
            cookie("192.0.2.1:53", None),
            cookie("192.0.2.2:53", None),
            cookie("192.0.2.1:54", None),
            cookie("192.0.2.1:53", Some("192.0.2.9")),
            cookie("[2001:db8::1]:53", None),
        ];
        for (i, one) in all.iter().enumerate() {
            assert_eq!(one.option()[..4], [0, 10, 0, 8]);
            assert!(all.iter().skip(i + 1).all(|other| !one.is_like(other)));
        }
        assert!(all[0].is_like(&cookie("192.0.2.1:53", None)));
    }

    #[test]
    fn a_server_with_cookies_must_return_them() {
        let mut own = cookie("192.0.2.1:53", None);
        assert!(own.is_sent(false, NOW) && !own.is_sent(true, NOW));
        let right = reply(&own, &[5; 16]);
        assert_eq!(own.check(Some(&right), NOW), Credibility::Right);
        assert_eq!(own.option(), [&[0, 10, 0, 24][..], &right].concat());
        assert!(own.is_sent(true, NOW));
        assert_eq!(own.check(None, NOW), Credibility::Missing);
        let mut forged = right.clone();
        forged[7] ^= 1;
        for wrong in [&forged[..], &right[..7], &right[..15], &[0; 41], b""] {
            assert_eq!(own.check(Some(wrong), NOW), Credibility::Wrong);
        }
        assert_eq!(own.option()[4..], right, "what is wrong is not kept");
        // Another part of the server, a shorter one.
        let shorter = reply(&own, &[6; 8]);
        assert_eq!(own.check(Some(&shorter), NOW), Credibility::Right);
        assert_eq!(own.option(), [&[0, 10, 0, 16][..], &shorter].concat());
        own.forget();
        assert_eq!(own.option()[..4], [0, 10, 0, 8]);
        assert_eq!(own.check(None, NOW), Credibility::Right);
    }

    #[test]
    fn a_server_without_cookies_gets_none_for_an_hour() {
        let mut own = cookie("192.0.2.1:53", None);
        for _ in 0..4 {
            assert!(own.is_sent(false, NOW));
            assert_eq!(own.check(None, NOW), Credibility::Right);
        }
        assert!(!own.is_sent(false, NOW));
        let later = NOW + NO_COOKIE_TIME;
        assert!(own.is_sent(false, later) && !own.is_sent(true, later));
        own.note_absent(later);
        assert!(!own.is_sent(false, later));
        own.note_wanted();
        assert!(own.is_sent(false, later));
    }

    proptest! {
        #[test]
        fn any_option_of_a_reply_is_accepted_or_refused(data: Vec<u8>, is_own: bool) {
            let mut own = cookie("192.0.2.1:53", None);
            let data = if is_own { reply(&own, &data) } else { data };
            let seen = own.check(Some(&data), NOW);
            let right = is_own && is_length(data.len());
            prop_assert_eq!(seen == Credibility::Right, right);
            prop_assert!(own.option().len() <= MAX_COOKIE);
            prop_assert_eq!(usize::from(own.option()[3]) + 4, own.option().len());
        }
    }
}
