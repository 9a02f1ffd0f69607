//! Link layers, and the layers between them and IP: LLC, PPP, MPLS, 802.11, and the headers that
//! capture programs write.
//!
//! Each function removes one header. [`Layer`] is what follows it; [`super::dissect`] repeats until it finds IP or another
//! protocol, a bounded number of times.

use super::PacketKind;

/// Link types (the registry of LINKTYPE_ values).
pub(super) mod types {
    pub(super) const NULL: u16 = 0;
    pub(in super::super) const ETHERNET: u16 = 1;
    pub(super) const TOKEN_RING: u16 = 6;
    pub(super) const ARCNET: u16 = 7;
    pub(super) const SLIP: u16 = 8;
    pub(in super::super) const PPP: u16 = 9;
    pub(super) const FDDI: u16 = 10;
    pub(super) const RAW_BSD: u16 = 12;
    pub(super) const RAW_OPENBSD: u16 = 14;
    pub(super) const PPP_HDLC: u16 = 50;
    pub(super) const PPPOE: u16 = 51;
    pub(super) const LLC: u16 = 100;
    pub(super) const RAW: u16 = 101;
    pub(super) const CISCO_HDLC: u16 = 104;
    pub(in super::super) const WIFI: u16 = 105;
    pub(super) const FRAME_RELAY: u16 = 107;
    pub(super) const LOOP: u16 = 108;
    pub(super) const ENC: u16 = 109;
    pub(super) const LINUX_SLL: u16 = 113;
    pub(super) const PFLOG: u16 = 117;
    pub(super) const PRISM: u16 = 119;
    pub(super) const RADIOTAP: u16 = 127;
    pub(super) const ARCNET_LINUX: u16 = 129;
    pub(super) const FIREWIRE: u16 = 138;
    pub(super) const USER2: u16 = 149;
    pub(super) const AVS: u16 = 163;
    pub(super) const PPP_PPPD: u16 = 166;
    pub(super) const PPI: u16 = 192;
    pub(super) const PPP_WITH_DIRECTION: u16 = 204;
    pub(super) const MPLS: u16 = 219;
    pub(super) const IPV4: u16 = 228;
    pub(super) const IPV6: u16 = 229;
    pub(super) const NFLOG: u16 = 239;
    pub(super) const NETANALYZER: u16 = 240;
    pub(super) const PKTAP: u16 = 258;
    pub(super) const LINUX_SLL2: u16 = 276;
}

/// EtherTypes that are read or recognised (IEEE 802).
pub(super) mod ether {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const VLAN: u16 = 0x8100;
    pub(super) const IPV6: u16 = 0x86dd;
    pub(super) const BRIDGED: u16 = 0x6558;
    pub(super) const PPP: u16 = 0x880b;
    pub(super) const WCCP: u16 = 0x883e;
    pub(super) const MPLS: u16 = 0x8847;
    pub(super) const MPLS_MULTICAST: u16 = 0x8848;
    pub(super) const PPPOE: u16 = 0x8864;
    pub(super) const PROVIDER_VLAN: u16 = 0x88a8;
    pub(super) const OLD_VLAN: u16 = 0x9100;
    pub(super) const MACSEC: u16 = 0x88e5;
    pub(super) const PROVIDER_BACKBONE: u16 = 0x88e7;
    pub(super) const CISCO_METADATA: u16 = 0x8909;
    pub(super) const HSR: u16 = 0x892f;
    pub(super) const NSH: u16 = 0x894f;
    /// The smallest EtherType; smaller numbers are the length of an LLC frame.
    pub(super) const FIRST_ETHERTYPE: u16 = 0x0600;
}

/// Content after a header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layer<'a> {
    /// A frame of a link type.
    Link(u16, &'a [u8]),
    /// A payload of an EtherType.
    Ether(u16, &'a [u8]),
    /// An IP packet of either version.
    Ip(&'a [u8]),
    /// A protocol that is not read further.
    Other(PacketKind),
    /// A header that is cut short or malformed.
    Malformed,
}

/// Returns two octets as a number.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|two| u16::from_be_bytes(*two))
}

/// Returns the payload from octet `at` on as an EtherType's, whose number is at octet `kind`.
fn ether_at(bytes: &[u8], kind: usize, at: usize) -> Option<Layer<'_>> {
    Some(Layer::Ether(u16_at(bytes, kind)?, bytes.get(at..)?))
}

/// Removes the header of a frame of this link type.
pub(super) fn link(link_type: u16, bytes: &[u8]) -> Layer<'_> {
    let unknown = Some(Layer::Other(PacketKind::Link(link_type)));
    let from = |at: usize| bytes.get(at..);
    let next = match link_type {
        types::ETHERNET => ethernet(bytes),
        types::RAW | types::RAW_BSD | types::RAW_OPENBSD => Some(Layer::Ip(bytes)),
        types::IPV6 if bytes.first().is_none_or(|octet| octet >> 4 != 6) => None,
        types::IPV4 | types::IPV6 => Some(Layer::Ip(bytes)),
        types::NULL | types::LOOP => from(4).map(Layer::Ip),
        types::LINUX_SLL => ether_at(bytes, 14, 16),
        types::LINUX_SLL2 => ether_at(bytes, 0, 20),
        types::TOKEN_RING => token_ring(bytes),
        types::ARCNET => arcnet(bytes, 3),
        types::ARCNET_LINUX => arcnet(bytes, 5),
        types::SLIP => from(16).map(Layer::Ip),
        types::PPP | types::PPP_HDLC => ppp(bytes),
        types::PPP_PPPD | types::PPP_WITH_DIRECTION => from(1).and_then(ppp),
        types::CISCO_HDLC => ether_at(bytes, 2, 4),
        types::PPPOE => from(6).and_then(ppp),
        types::FDDI => from(13).and_then(llc),
        types::LLC => llc(bytes),
        types::FRAME_RELAY => frame_relay(bytes),
        types::ENC => from(12).map(Layer::Ip),
        types::PFLOG => {
            let len = bytes.first().map_or(0, |&len| usize::from(len).next_multiple_of(4));
            from(len).map(Layer::Ip)
        }
        types::WIFI => wifi(bytes),
        types::RADIOTAP => {
            from(usize::from(u16_at(bytes, 2).unwrap_or(0).swap_bytes())).and_then(wifi)
        }
        types::PRISM => from(144).and_then(wifi),
        types::AVS => from(usize::from(u16_at(bytes, 6).unwrap_or(0))).and_then(wifi),
        types::PPI | types::PKTAP | types::USER2 => wrapped(link_type, bytes),
        types::FIREWIRE => ether_at(bytes, 16, 18),
        types::MPLS => mpls(bytes),
        types::NFLOG => nflog(bytes),
        types::NETANALYZER => from(4).and_then(ethernet),
        _ => unknown,
    };
    next.unwrap_or(Layer::Malformed)
}

/// Removes the header of an EtherType.
pub(super) fn ether(kind: u16, bytes: &[u8]) -> Layer<'_> {
    let next = match kind {
        ether::IPV4 | ether::IPV6 => Some(Layer::Ip(bytes)),
        ether::VLAN | ether::PROVIDER_VLAN | ether::OLD_VLAN => ether_at(bytes, 2, 4),
        ether::BRIDGED => Some(Layer::Link(types::ETHERNET, bytes)),
        ether::PPP => ppp(bytes),
        // A header of version 2 follows if the first octet cannot begin an IPv4 header.
        ether::WCCP if bytes.first().is_some_and(|octet| octet >> 4 != 4) => {
            bytes.get(4..).map(Layer::Ip)
        }
        ether::WCCP => Some(Layer::Ip(bytes)),
        ether::MPLS | ether::MPLS_MULTICAST => mpls(bytes),
        ether::PPPOE => bytes.get(6..).and_then(ppp),
        ether::MACSEC => macsec(bytes),
        // A tag of the service, and the frame of the customer (IEEE 802.1ah).
        ether::PROVIDER_BACKBONE => bytes.get(4..).map(|frame| Layer::Link(types::ETHERNET, frame)),
        ether::CISCO_METADATA => ether_at(bytes, 6, 8),
        ether::HSR => ether_at(bytes, 4, 6),
        ether::NSH => nsh(bytes),
        0..ether::FIRST_ETHERTYPE => llc(bytes),
        other => Some(Layer::Other(PacketKind::Ether(other))),
    };
    next.unwrap_or(Layer::Malformed)
}

fn ethernet(bytes: &[u8]) -> Option<Layer<'_>> {
    ether_at(bytes, 12, 14)
}

/// Removes a MACsec tag (IEEE 802.1AE) whose data is not encrypted.
fn macsec(bytes: &[u8]) -> Option<Layer<'_>> {
    let flags = *bytes.first()?;
    let names_channel = flags & 0x20 != 0;
    if flags & 0x0c != 0 {
        return Some(Layer::Other(PacketKind::Ether(ether::MACSEC)));
    }
    let len = if names_channel { 14 } else { 6 };
    ether_at(bytes, len, len + 2)
}

/// Removes a network service header (RFC 8300).
fn nsh(bytes: &[u8]) -> Option<Layer<'_>> {
    let &[_, len, _, next] = bytes.first_chunk()?;
    let payload = bytes.get(usize::from(len & 0x3f).max(2) * 4..)?;
    Some(match next {
        1 | 2 => Layer::Ip(payload),
        3 => Layer::Link(types::ETHERNET, payload),
        4 => Layer::Ether(ether::NSH, payload),
        5 => Layer::Ether(ether::MPLS, payload),
        _ => Layer::Other(PacketKind::Ether(ether::NSH)),
    })
}

/// Removes an LLC header, and a SNAP header (RFC 1042).
fn llc(bytes: &[u8]) -> Option<Layer<'_>> {
    match *bytes {
        // An organisation code of 0 or of bridged Ethernet (0000f8).
        [0xaa, 0xaa, 3, 0, 0, 0 | 0xf8, ..] => ether_at(bytes, 6, 8),
        [6, 6, 3, ..] => bytes.get(3..).map(Layer::Ip),
        [service, _, _, ..] => Some(Layer::Other(PacketKind::Llc(service))),
        _ => None,
    }
}

/// Removes a PPP header (RFC 1661), with or without address and control, or Cisco's.
fn ppp(bytes: &[u8]) -> Option<Layer<'_>> {
    let bytes = match *bytes {
        [0x0f | 0x8f, 0, ..] => return ether_at(bytes, 2, 4),
        [0xff, 3, ref rest @ ..] => rest,
        _ => bytes,
    };
    // An odd first octet is a protocol of one octet.
    let (protocol, payload) = match *bytes {
        [odd, ref rest @ ..] if odd & 1 == 1 => (u16::from(odd), rest),
        [high, low, ref rest @ ..] => (u16::from_be_bytes([high, low]), rest),
        _ => return None,
    };
    Some(match protocol {
        0x0021 | 0x0057 => Layer::Ip(payload),
        0x0281 | 0x0283 => return mpls(payload),
        other => Layer::Other(PacketKind::Ppp(other)),
    })
}

/// Removes the labels of MPLS (RFC 3032); below them is IP, or Ethernet after a control word (RFC 4448).
fn mpls(mut bytes: &[u8]) -> Option<Layer<'_>> {
    loop {
        let (&[_, _, low, _], rest) = bytes.split_first_chunk()?;
        bytes = rest;
        if low & 1 == 1 {
            break;
        }
    }
    match bytes.first()? >> 4 {
        4 | 6 => Some(Layer::Ip(bytes)),
        0 => bytes.get(4..).and_then(ethernet),
        _ => ethernet(bytes),
    }
}

/// Removes a Token Ring header, whose source address tells whether a route follows.
fn token_ring(bytes: &[u8]) -> Option<Layer<'_>> {
    let routed = bytes.get(8)? & 0x80 != 0;
    let route = if routed { usize::from(bytes.get(14)? & 0x1f) } else { 0 };
    llc(bytes.get(14 + route..)?)
}

/// Removes an ARCNET header, whose type is the octet before `at`.
fn arcnet(bytes: &[u8], at: usize) -> Option<Layer<'_>> {
    let kind = *bytes.get(at - 1)?;
    match kind {
        // RFC 1051 has no further header, RFC 1201 a flag and a sequence number; 0xff announces a second header.
        240 => bytes.get(at..).map(Layer::Ip),
        212 if bytes.get(at) == Some(&0xff) => bytes.get(at + 7..).map(Layer::Ip),
        212 => bytes.get(at + 3..).map(Layer::Ip),
        _ => Some(Layer::Other(PacketKind::Named("other ARCNET frames"))),
    }
}

/// Removes the header of IP over frame relay (RFC 2427).
fn frame_relay(bytes: &[u8]) -> Option<Layer<'_>> {
    let end = bytes.iter().take(4).position(|octet| octet & 1 == 1)? + 1;
    match *bytes.get(end..)? {
        [3, 0xcc | 0x8e, ref rest @ ..] => Some(Layer::Ip(rest)),
        [3, 0x80, 0, 0, 0, ref rest @ ..] | [3, 0, 0x80, 0, 0, 0, ref rest @ ..] => {
            ether_at(rest, 0, 2)
        }
        [high, low, ref rest @ ..] if high != 3 => {
            Some(Layer::Ether(u16::from_be_bytes([high, low]), rest))
        }
        _ => Some(Layer::Other(PacketKind::Named("other frame relay frames"))),
    }
}

/// Removes the header of a data frame of 802.11.
fn wifi(bytes: &[u8]) -> Option<Layer<'_>> {
    let &[control, flags, ..] = bytes.first_chunk::<2>()?;
    let (kind, subtype) = (control >> 2 & 3, control >> 4);
    let (four_addresses, protected, ordered) =
        (flags & 3 == 3, flags & 0x40 != 0, flags & 0x80 != 0);
    // Only data frames have a payload, and not all of them.
    if kind != 2 || subtype & 4 != 0 || protected {
        let what = if protected { "encrypted 802.11 frames" } else { "802.11 frames without data" };
        return Some(Layer::Other(PacketKind::Named(what)));
    }
    let quality = subtype & 8 != 0;
    let len = 24
        + if four_addresses { 6 } else { 0 }
        + if quality { 2 } else { 0 }
        + if quality && ordered { 4 } else { 0 };
    // Some drivers fill the header up to four octets.
    let payload = bytes.get(len..)?;
    let padded =
        bytes.get(len.next_multiple_of(4)..).filter(|rest| rest.starts_with(&[0xaa, 0xaa]));
    if payload.starts_with(&[0xaa, 0xaa]) { llc(payload) } else { llc(padded.unwrap_or(payload)) }
}

/// Removes a header that names its length and the link type below it, in little-endian numbers.
fn wrapped(link_type: u16, bytes: &[u8]) -> Option<Layer<'_>> {
    let little = |at: usize| u16_at(bytes, at).map(u16::swap_bytes);
    let (len, inner) = match link_type {
        types::PPI => (little(2)?, little(4)?),
        _ => (little(0)?, little(8)?),
    };
    // A header that contains its own link type would lead to an endless loop.
    let payload = bytes.get(usize::from(len)..).filter(|_| len >= 8)?;
    Some(Layer::Link(inner, payload))
}

/// Finds the packet among the attributes of a message of Linux' netfilter.
fn nflog(bytes: &[u8]) -> Option<Layer<'_>> {
    /// The attribute with the packet.
    const PAYLOAD: u16 = 9;
    let mut rest = bytes.get(4..)?;
    loop {
        // The numbers have the byte order of the host, nearly always little-endian; a length below 256 shows it.
        let &[a, b, c, d] = rest.first_chunk::<4>()?;
        let big = a == 0 && b != 0;
        let number =
            |two: [u8; 2]| if big { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) };
        let (len, kind) = (usize::from(number([a, b])), number([c, d]) & 0x7fff);
        let value = rest.get(4..len.max(4).min(rest.len()))?;
        if kind == PAYLOAD {
            return Some(Layer::Ip(value));
        }
        rest = rest.get(len.max(4).next_multiple_of(4)..)?;
    }
}
