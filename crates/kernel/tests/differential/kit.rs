//! Random messages and frames, and the reading of replies.

use std::net::IpAddr;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use kernel::{ClientNetwork, KernelError, ReplyLimits, Serving, Stored};
use measure::Nanos;
use wire::Qtype;

use crate::auth::server;
use crate::frames::frame;
use crate::odd::make_odd;

/// Environment variable with the number of queries for all configurations of a test together, and that number without it.
const QUERIES_VARIABLE: &str = "DNSDYNO_QUERIES";
const QUERIES: u64 = 200_000;
/// Octets of the headers of Ethernet and UDP.
pub(crate) const ETHERNET: usize = 14;
pub(crate) const UDP: usize = 8;
/// Addresses of the client and the server in frames.
pub(crate) const CLIENT4: [u8; 4] = [10, 0, 0, 1];
pub(crate) const CLIENT6: [u8; 16] = [0xfd; 16];
pub(crate) const SERVER: [&str; 2] =
    ["10.0.0.2:53", "[fefe:fefe:fefe:fefe:fefe:fefe:fefe:fefe]:53"];

/// Returns the number of queries for each of so many configurations.
pub(crate) fn queries(configurations: usize) -> u64 {
    let all = std::env::var(QUERIES_VARIABLE).ok();
    let all = all.map_or(QUERIES, |all| all.parse().expect(QUERIES_VARIABLE));
    all.div_ceil(configurations as u64)
}

/// Returns a loaded program; `None` if this user may not load one, which skips the test.
pub(crate) fn loaded<T>(program: Result<T, KernelError>) -> Option<T> {
    match program {
        Err(why @ KernelError::NotPermitted) => skip::none(why),
        loaded => Some(loaded.unwrap_or_else(|why| panic!("{why}"))),
    }
}

/// Returns what a program serves to clients everywhere, who have these views and this plain block.
pub(crate) fn for_everyone(views: [u32; 4], plain: Option<u32>) -> Serving {
    let any = |network: &str| {
        let address = network.parse().expect(network);
        ClientNetwork { address, prefix_len: 0, allowed: true, views, plain }
    };
    Serving {
        listen: server(),
        clients: vec![any("0.0.0.0"), any("::")],
        max_udp_size: 1_232,
        edns_udp_size: 1_232,
        traffic_class: 0,
        limits: ReplyLimits::default(),
    }
}

/// A source of random values.
pub(crate) struct Random(ChaCha12Rng);

impl Random {
    /// Makes a source whose values a seed decides.
    pub(crate) fn new(seed: u64) -> Self {
        Random(ChaCha12Rng::seed_from_u64(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Changes the case of about half of the letters.
    pub(crate) fn any_case(&mut self, name: &mut [u8]) {
        for octet in name.iter_mut().filter(|octet| octet.is_ascii_alphabetic()) {
            if self.one_in(2) {
                *octet ^= 0x20;
            }
        }
    }

    /// Gives a query an odd part, or several.
    pub(crate) fn make_odd(&mut self, query: &mut Vec<u8>) {
        for _ in 0..=self.below(2) {
            make_odd(query, &mut |n| self.below(n));
        }
    }

    /// Changes, cuts or extends a message.
    pub(crate) fn spoil(&mut self, message: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            match self.below(4) {
                0 => message.truncate(self.below(message.len() as u64 + 1) as usize),
                1 => message.extend((0..self.below(40)).map(|i| i as u8)),
                _ if message.is_empty() => {}
                _ => {
                    let at = self.below(message.len() as u64) as usize;
                    message[at] = self.0.next_u32() as u8;
                }
            }
        }
    }

    /// A frame with the message to the server, over IPv4 or IPv6.
    pub(crate) fn frame(&mut self, message: &[u8]) -> Vec<u8> {
        let (from, to): (IpAddr, IpAddr) = match self.one_in(2) {
            true => (CLIENT6.into(), [0xfe_u8; 16].into()),
            false => (CLIENT4.into(), [10_u8, 0, 0, 2].into()),
        };
        let mut frame = frame(from, to, [12_345, 53], message, false);
        // The client's host, not upstream's.
        (frame[5], frame[11]) = (1, 2);
        frame
    }
}

/// Returns an answer for all clients without CD and DO, which lives for a minute from `stored` on.
pub(crate) fn stored(qtype: u16, message: &[u8], generation: u64, stored: Nanos) -> Stored<'_> {
    let (qtype, until) = (Qtype(qtype), stored + Nanos::from_secs(60));
    let (view, rd, cd, dnssec) = (0, true, false, false);
    Stored { generation, qtype, view, rd, cd, dnssec, message, options: &[], stored, until }
}

/// Sets the checksum of a header of IPv4 without options.
pub(crate) fn seal(frame: &mut [u8]) {
    if let [_, _, _, _, _, _, _, _, _, _, _, _, 8, 0, header @ ..] = frame
        && header.len() >= 20
    {
        header[10..12].fill(0);
        let checksum = !sum(&[&header[..20]]);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Adds words of 16 bits as the checksums of the Internet do.
pub(crate) fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Checks addresses, lengths and checksums of a reply; returns its message.
pub(crate) fn message<'a>(query: &[u8], reply: &'a [u8]) -> &'a [u8] {
    assert_eq!((&reply[..6], &reply[6..12]), (&query[6..12], &query[..6]), "MAC addresses");
    assert_eq!(reply[12..14], query[12..14]);
    let v6 = reply[12] == 0x86;
    let (ip, from, to) = if v6 { (40, 22, 38) } else { (20, 26, 30) };
    let size = to - from;
    let at = ETHERNET + ip;
    assert_eq!(
        (&reply[from..to], &reply[to..to + size]),
        (&query[to..to + size], &query[from..to])
    );
    assert_eq!(
        (&reply[at..at + 2], &reply[at + 2..at + 4]),
        (&query[at + 2..at + 4], &query[at..at + 2])
    );
    let len = u16::from_be_bytes([reply[at + 4], reply[at + 5]]);
    assert_eq!(reply.len(), at + usize::from(len), "the frame ends with the datagram");
    let of_ip = if v6 { &reply[18..20] } else { &reply[16..18] };
    let more = if v6 { 0 } else { 20 };
    assert_eq!(u16::from_be_bytes([of_ip[0], of_ip[1]]), len + more);
    if !v6 {
        assert_eq!(sum(&[&reply[ETHERNET..at]]), 0xffff, "checksum of IPv4");
    }
    let pseudo = [0, 17, reply[at + 4], reply[at + 5]];
    assert_eq!(sum(&[&reply[from..to + size], &pseudo, &reply[at..]]), 0xffff, "checksum of UDP");
    assert_ne!(reply[at + 6..at + 8], [0, 0]);
    &reply[at + UDP..]
}
