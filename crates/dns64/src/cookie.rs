//! DNS cookies for clients (RFC 7873): a client that presents the cookie from an earlier reply
//! really has its address, since a forger of addresses sees no replies. Its replies are not limited
//! in rate.
//!
//! ```text
//!   client cookie (8)   version 1 | 0 0 0 | time (4) | hash (8)      RFC 9018
//!                                  hash: SipHash-2-4 of all before it and the client's address
//! ```

use std::hash::Hasher;
use std::net::IpAddr;

use measure::Nanos;
use siphasher::sip::SipHasher24;
use wire::edns::opt_fixed;
use wire::extend::{COOKIE, Cookie, ReplyOptions};
use wire::message::{HEADER, Header, OPT_FIXED, Record, flag};
use wire::{EdnsSeen, Opcode, Qtype, Rcode};

use crate::answer::OUR_UDP_SIZE;

/// Time for which a cookie is valid, and how far in the future its time may be, in seconds (RFC
/// 9018 section 4.3).
const MAX_AGE: u32 = 3_600;
const MAX_AHEAD: u32 = 300;

/// Makes and checks the server's part of cookies.
#[derive(Clone, Debug)]
pub(crate) struct Cookies {
    secret: [u8; 16],
    /// Unix time of the time 0 of this worker, in seconds.
    unix_zero: u64,
}

/// The cookie of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryCookie {
    client: [u8; 8],
    /// The server's part; `None` if it is missing or not from this server.
    server: Option<[u8; 16]>,
    /// Whether the server's part is missing.
    alone: bool,
}

impl QueryCookie {
    /// Returns the cookie of a query, if it has one. Options of a later version of EDNS are not
    /// read.
    ///
    /// # Errors
    /// The return code for an option of an invalid length (RFC 7873 section 5.2.2).
    #[inline]
    pub(crate) fn of(edns: Option<&EdnsSeen<'_>>) -> Result<Option<Self>, Rcode> {
        let edns = edns.filter(|edns| edns.version == 0);
        let Some(data) = edns.and_then(|edns| edns.option(COOKIE)) else { return Ok(None) };
        match (data.split_first_chunk::<8>(), data.len()) {
            (Some((client, server)), len @ (8 | 16..=40)) => {
                let server = server.try_into().ok();
                Ok(Some(QueryCookie { client: *client, server, alone: len == 8 }))
            }
            _ => Err(Rcode::FORMERR),
        }
    }
}

impl Cookies {
    /// Makes cookies with this secret.
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        Cookies { secret, unix_zero: 0 }
    }

    /// Sets the Unix time, in seconds, at time `now`.
    pub(crate) fn set_time(&mut self, now: Nanos, unix: u64) {
        self.unix_zero = unix.saturating_sub(now.0 / 1_000_000_000);
    }

    /// Returns the Unix time in seconds, modulo 2^32.
    fn time(&self, now: Nanos) -> u32 {
        (self.unix_zero + now.0 / 1_000_000_000) as u32
    }

    /// Returns whether a client has shown a cookie that it got here at this address.
    pub(crate) fn is_valid(&self, shown: &QueryCookie, client: IpAddr, now: Nanos) -> bool {
        let Some(server) = shown.server else { return false };
        let time = u32::from_be_bytes([server[4], server[5], server[6], server[7]]);
        let age = self.time(now).wrapping_sub(time);
        let current = age <= MAX_AGE || age.wrapping_neg() <= MAX_AHEAD;
        current && server == self.made(&shown.client, time, client)
    }

    /// Returns the cookie for the reply to a client.
    pub(crate) fn reply(&self, shown: &QueryCookie, client: IpAddr, now: Nanos) -> Cookie {
        let mut cookie = [0; 24];
        cookie[..8].copy_from_slice(&shown.client);
        cookie[8..].copy_from_slice(&self.made(&shown.client, self.time(now), client));
        cookie
    }

    /// Writes the reply to a query without a question, by which a client gets a cookie, or learns whether its own is
    /// still valid (RFC 7873 section 5.4); returns its length. `None` for any other message.
    pub(crate) fn reply_alone(
        &self,
        message: &[u8],
        client: IpAddr,
        now: Nanos,
        out: &mut [u8],
    ) -> Option<usize> {
        let header = Header::read(message)?;
        let (opt, end) = Record::read(message, HEADER)?;
        let is_query = !header.is_response() && header.opcode() == Opcode::QUERY;
        let is_opt = opt.rtype == Qtype::OPT && message[HEADER] == 0 && end == message.len();
        if !is_query || header.counts != [0, 0, 0, 1] || !is_opt {
            return None;
        }
        let edns = EdnsSeen::from_record(&opt).filter(|edns| edns.version == 0)?;
        let shown = QueryCookie::of(Some(&edns)).ok()??;
        let is_good = shown.alone || self.is_valid(&shown, client, now);
        let rcode = if is_good { Rcode::NOERROR } else { Rcode::BADCOOKIE };
        let flags = flag::QR | flag::RA | header.flags & (flag::RD | flag::CD) | rcode.0 & 0xf;
        let reply = Header { flags, ..header };
        out.get_mut(..HEADER)?.copy_from_slice(&reply.to_bytes());
        let fixed = opt_fixed(OUR_UDP_SIZE, (rcode.0 >> 4) as u8, edns.do_bit, 0);
        out.get_mut(HEADER..HEADER + OPT_FIXED)?.copy_from_slice(&fixed);
        let cookie = Some(self.reply(&shown, client, now));
        let options = ReplyOptions { cookie, ..ReplyOptions::default() };
        let limit = out.len();
        Some(options.add(out, HEADER, HEADER + OPT_FIXED, limit))
    }

    /// Makes the server's part of a cookie (RFC 9018): version, time, and a keyed hash of these,
    /// the client's part and its address.
    fn made(&self, client: &[u8; 8], time: u32, address: IpAddr) -> [u8; 16] {
        let mut input = [0; 32];
        input[..8].copy_from_slice(client);
        input[8] = 1;
        input[12..16].copy_from_slice(&time.to_be_bytes());
        let len = match address.to_canonical() {
            IpAddr::V4(address) => {
                input[16..20].copy_from_slice(&address.octets());
                20
            }
            IpAddr::V6(address) => {
                input[16..].copy_from_slice(&address.octets());
                32
            }
        };
        let mut out = [0; 16];
        out[..8].copy_from_slice(&input[8..16]);
        out[8..].copy_from_slice(&siphash(&self.secret, &input[..len]).to_le_bytes());
        out
    }
}

/// Returns the SipHash-2-4 of `input` (Aumasson and Bernstein 2012).
fn siphash(key: &[u8; 16], input: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(input);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        let octet = |i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("two digits");
        std::array::from_fn(octet)
    }

    #[test]
    fn siphash_agrees_with_its_paper() {
        let key: [u8; 16] = std::array::from_fn(|i| i as u8);
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(&key, &input), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn cookies_agree_with_rfc_9018() {
        // Appendix A.1.
        let mut cookies = Cookies::new(hex("e5e973e5a6b2a43f48e7dc849e37bfcf"));
        let now = Nanos::from_secs(77);
        cookies.set_time(now, 1_559_731_985);
        let shown = QueryCookie { client: hex("2464c4abcf10c957"), server: None, alone: true };
        let client = "198.51.100.100".parse().expect("an address");
        let reply = cookies.reply(&shown, client, now);
        assert_eq!(reply, hex("2464c4abcf10c957010000005cf79f111f8130c3eee29480"));

        let shown = QueryCookie { server: reply[8..].try_into().ok(), ..shown };
        let later = |seconds: u64| Nanos::from_secs(77 + seconds);
        let other = "198.51.100.101".parse().expect("an address");
        for (client, at, valid) in [
            (client, later(0), true),
            (client, later(3_600), true),
            (client, later(3_601), false),
            (other, later(0), false),
        ] {
            assert_eq!(cookies.is_valid(&shown, client, at), valid, "{client} {at}");
        }
        cookies.set_time(now, 1_559_731_985 - 300);
        assert!(cookies.is_valid(&shown, client, now));
        cookies.set_time(now, 1_559_731_985 - 301);
        assert!(!cookies.is_valid(&shown, client, now));
        let bare = QueryCookie { server: None, ..shown };
        assert!(!cookies.is_valid(&bare, client, now));
    }
}
