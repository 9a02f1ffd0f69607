//! The frame of a query, without the parts that vary.

use std::net::IpAddr;

use super::list::{CHUNK, CHUNKS, fold, sum};
use super::plan::{Questions, TesterPlan};

/// Length of an Ethernet header.
const ETHERNET_HEADER: usize = 14;
/// Length of a UDP header.
const UDP_HEADER: usize = 8;
/// Place of the label in a query, and its length with the octet before it.
const LABEL_PLACE: (usize, usize) = (12, 16);
/// Longest frame, in octets: `FRAME` in `bpf/tester/tables.h` less one.
pub(crate) const MAX_FRAME: usize = 511;
/// Octets of the input frame after the query: the kernel makes a fresh copy of a frame whose length
/// changes.
const PADDING: usize = 8;

/// A frame, and the partial sums of its octets for the checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The frame; id, label, source port, and the checksum of UDP are zero. With listed questions also the lengths, and it has
    /// none of the questions.
    pub(crate) bytes: Vec<u8>,
    /// Offset at which the program writes a listed question; the octets from there on come after
    /// it. `None` if the frame contains the question.
    pub(crate) question_at: Option<usize>,
    /// Sum for the checksum of UDP: pseudo-header, header and message, up to a listed question.
    pub(crate) udp_sum: u32,
    /// The same sum of the octets after a listed question.
    pub(crate) tail_sum: u32,
    /// Sum for the checksum of IPv4.
    pub(crate) ip_sum: u32,
}

impl Frame {
    /// Makes the frame of a plan's queries. The source address is zero if the ports have several.
    pub(crate) fn new(plan: &TesterPlan) -> Self {
        let (message, tail) = match &plan.questions {
            Questions::Names(names) => (&names.query[..], None),
            Questions::List(order) => (&order.header[..], Some(&order.tail[..])),
        };
        let source = match &plan.sources[..] {
            [one] => octets(*one),
            several => vec![0; several.first().map_or(4, |ip| octets(*ip).len())],
        };
        let target = octets(plan.target.ip());
        let udp_len = if tail.is_some() { 0 } else { (UDP_HEADER + message.len()) as u16 };
        let mut ip = ip_header(&source, &target, udp_len);
        if tail.is_some() && target.len() == 4 {
            ip[2..4].fill(0);
        }
        let mut bytes = [plan.route.neighbour, plan.route.hardware].concat();
        bytes.extend(if target.len() == 4 { [0x08, 0x00] } else { [0x86, 0xdd] });
        bytes.extend(&ip);
        let mut udp = vec![0, 0];
        udp.extend(plan.target.port().to_be_bytes());
        udp.extend(udp_len.to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(message);
        udp[UDP_HEADER..UDP_HEADER + 2].fill(0);
        if tail.is_none() {
            udp[UDP_HEADER + LABEL_PLACE.0..UDP_HEADER + LABEL_PLACE.0 + LABEL_PLACE.1].fill(0);
        }
        let pseudo = [&source[..], &target, &[0, 17], &udp_len.to_be_bytes()].concat();
        let udp_sum = u32::from(fold(sum(&pseudo) + sum(&udp)));
        bytes.extend(udp);
        let mut ip_sum = 0;
        if target.len() == 4 {
            ip_sum = u32::from(fold(sum(&ip)));
            let check = !fold(ip_sum);
            bytes[ETHERNET_HEADER + 10..ETHERNET_HEADER + 12].copy_from_slice(&check.to_ne_bytes());
        }
        let question_at = tail.map(|_| bytes.len());
        let tail = tail.unwrap_or_default();
        bytes.extend(tail);
        Frame { bytes, question_at, udp_sum, tail_sum: u32::from(fold(sum(tail))), ip_sum }
    }

    /// Returns the length of the generator's input frame: longer than any query.
    pub(crate) fn blank_len(&self) -> usize {
        let question = if self.question_at.is_some() { CHUNKS * CHUNK } else { 0 };
        self.bytes.len() + question + PADDING
    }

    /// Returns the length of the frame of a message of `len` octets to `target`.
    pub(crate) fn len_of(target: IpAddr, len: usize) -> usize {
        ETHERNET_HEADER + if target.is_ipv4() { 20 } else { 40 } + UDP_HEADER + len
    }
}

/// Returns the octets of an address.
pub(crate) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// Returns an IP header before a datagram of `udp_len` octets; the checksum of IPv4 is zero.
fn ip_header(source: &[u8], target: &[u8], udp_len: u16) -> Vec<u8> {
    const PROTOCOL: u8 = 17;
    const HOP_LIMIT: u8 = 64;
    let mut header = if source.len() == 4 {
        let [high, low] = (udp_len + 20).to_be_bytes();
        // No options; not to be fragmented.
        vec![0x45, 0, high, low, 0, 0, 0x40, 0, HOP_LIMIT, PROTOCOL, 0, 0]
    } else {
        let [high, low] = udp_len.to_be_bytes();
        vec![0x60, 0, 0, 0, high, low, PROTOCOL, HOP_LIMIT]
    };
    header.extend(source);
    header.extend(target);
    header
}
