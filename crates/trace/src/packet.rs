//! Parsing of a frame into addresses, ports and payload: link layers and encapsulations here, IP, UDP and TCP with
//! `etherparse`.
//!
//! ```text
//!   frame ──link──> Ethernet, PPP, 802.11, ... ──ether──> MPLS, VLAN, PPPoE, ... ──> IP ──> UDP, TCP
//!                        ^                                                            │
//!                        └────────────── tunnel: GRE, VXLAN, Geneve, GTP, ... <───────┘
//! ```

mod kind;
mod link;
mod tunnel;

use std::net::IpAddr;

use etherparse::{IpNumber, LaxNetSlice, LaxSlicedPacket, TcpSlice, TransportSlice, UdpSlice};

pub(crate) use kind::PacketKind;
pub(crate) use link::Layer;
pub(crate) use tunnel::{in_ip, in_udp};

/// Largest number of headers between the frame, or an encapsulation, and IP.
const MAX_HEADERS: usize = 16;

/// The content of a frame.
#[derive(Clone, Debug)]
pub(crate) enum Content<'a> {
    /// A packet that is no fragment.
    Packet(Ends, Body<'a>),
    /// A fragment of a packet.
    Fragment(Ends, Fragment<'a>),
    /// Another protocol than IP, such as ARP, or a frame of an unknown link type.
    Other(PacketKind),
    /// IP with a malformed header.
    Malformed,
}

/// The addresses of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
}

/// The payload of a packet.
#[derive(Clone, Debug)]
pub(crate) enum Body<'a> {
    Udp {
        source: u16,
        destination: u16,
        /// Length of the payload on the wire, in octets.
        len: usize,
        payload: &'a [u8],
        cut: bool,
    },
    Tcp {
        segment: TcpSlice<'a>,
        cut: bool,
    },
    /// Another protocol than UDP and TCP.
    Other {
        protocol: u8,
        payload: &'a [u8],
    },
}

/// A fragment of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment<'a> {
    pub(crate) id: u32,
    pub(crate) protocol: u8,
    /// Offset in the payload of the packet, in bytes.
    pub(crate) offset: usize,
    /// Whether more fragments follow (the MF flag).
    pub(crate) more: bool,
    pub(crate) payload: &'a [u8],
    pub(crate) cut: bool,
}

/// Parses a frame of link type `link_type`.
#[inline]
pub(crate) fn dissect(link_type: u16, bytes: &[u8]) -> Content<'_> {
    follow(Layer::Link(link_type, bytes))
}

/// Removes headers up to IP, and parses the packet.
#[inline]
pub(crate) fn follow(mut layer: Layer<'_>) -> Content<'_> {
    for _ in 0..MAX_HEADERS {
        layer = match layer {
            Layer::Link(link_type, bytes) => link::link(link_type, bytes),
            Layer::Ether(kind, bytes) => link::ether(kind, bytes),
            Layer::Ip(bytes) => {
                let sliced = LaxSlicedPacket::from_ip(bytes);
                return match sliced.map_or(Content::Malformed, |sliced| content(&sliced)) {
                    Content::Malformed if is_jumbogram(bytes) => {
                        Content::Other(PacketKind::Jumbogram)
                    }
                    found => found,
                };
            }
            Layer::Other(kind) => return Content::Other(kind),
            Layer::Malformed => return Content::Malformed,
        };
    }
    Content::Other(PacketKind::Named("frames with too many headers"))
}

/// Returns whether an IPv6 packet has its length in a hop-by-hop option, and UDP none (RFC 2675).
fn is_jumbogram(bytes: &[u8]) -> bool {
    matches!(bytes, [version, _, _, _, 0, 0, 0, ..] if version >> 4 == 6)
}

/// Returns the content of a packet from its layers.
#[inline]
fn content<'a>(sliced: &LaxSlicedPacket<'a>) -> Content<'a> {
    let (ends, payload, fragment) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let header = ip.header();
            // The length is 0 in a packet that the network card cuts into segments.
            if (1..u16::from(header.ihl()) * 4).contains(&header.total_len()) {
                return Content::Malformed;
            }
            let ends = Ends {
                source: header.source_addr().into(),
                destination: header.destination_addr().into(),
            };
            let offset = usize::from(header.fragments_offset().byte_offset());
            let part = (u32::from(header.identification()), offset, header.more_fragments());
            (ends, ip.payload(), Some(part))
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let header = ip.header();
            let ends = Ends {
                source: header.source_addr().into(),
                destination: header.destination_addr().into(),
            };
            let part = fragment_header(header.next_header(), ip.extensions().slice());
            (ends, ip.payload(), part)
        }
        Some(LaxNetSlice::Arp(_)) | None => return Content::Malformed,
    };
    let cut = payload.incomplete;
    if let (true, Some((id, offset, more))) = (payload.fragmented, fragment) {
        let protocol = payload.ip_number.0;
        let part = Fragment { id, protocol, offset, more, payload: payload.payload, cut };
        return Content::Fragment(ends, part);
    }
    match &sliced.transport {
        Some(TransportSlice::Udp(udp)) => {
            udp_body(udp, cut).map_or(Content::Malformed, |body| Content::Packet(ends, body))
        }
        Some(TransportSlice::Tcp(tcp)) => {
            Content::Packet(ends, Body::Tcp { segment: tcp.clone(), cut })
        }
        _ if matches!(payload.ip_number, IpNumber::UDP | IpNumber::TCP) => Content::Malformed,
        _ => joined(payload.ip_number.0, payload.payload, cut)
            .map_or(Content::Malformed, |body| Content::Packet(ends, body)),
    }
}

/// Returns identification, offset in octets and the flag "more fragments" from the fragment header (RFC 8200 section
/// 4.5) among extension headers, which may be cut short.
///
/// The iterator of the library assumes complete headers, and reads past their end if they are not.
fn fragment_header(mut next: IpNumber, mut headers: &[u8]) -> Option<(u32, usize, bool)> {
    loop {
        let &[following, length, ..] = headers else { return None };
        let len = match next {
            IpNumber::IPV6_FRAGMENTATION_HEADER => {
                let &[_, _, high, low, a, b, c, d] = headers.first_chunk()?;
                let word = u16::from_be_bytes([high, low]);
                let id = u32::from_be_bytes([a, b, c, d]);
                return Some((id, usize::from(word & !7), word & 1 == 1));
            }
            IpNumber::AUTHENTICATION_HEADER => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        (next, headers) = (IpNumber(following), headers.get(len..)?);
    }
}

/// Returns the payload of a reassembled packet; `None` if its header is malformed.
pub(crate) fn joined(protocol: u8, payload: &[u8], cut: bool) -> Option<Body<'_>> {
    Some(match IpNumber(protocol) {
        IpNumber::UDP => udp_body(&UdpSlice::from_slice_lax(payload).ok()?, cut)?,
        IpNumber::TCP => Body::Tcp { segment: TcpSlice::from_slice(payload).ok()?, cut },
        // UDP-Lite (RFC 3828) has the header of UDP, but for its length.
        IpNumber(136) => {
            let &[a, b, c, d] = payload.first_chunk()?;
            let (source, destination) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let payload = payload.get(8..)?;
            Body::Udp { source, destination, len: payload.len(), payload, cut }
        }
        _ => Body::Other { protocol, payload },
    })
}

/// Returns the payload of a datagram; it counts as cut short too if its length field exceeds the packet. `None` if that is shorter
/// than its header.
#[inline]
fn udp_body<'a>(udp: &UdpSlice<'a>, cut: bool) -> Option<Body<'a>> {
    let payload = udp.payload();
    let len = payload.len().max(usize::from(udp.length()).checked_sub(8)?);
    let cut = cut || len > payload.len();
    let (source, destination) = (udp.source_port(), udp.destination_port());
    Some(Body::Udp { source, destination, len, payload, cut })
}
