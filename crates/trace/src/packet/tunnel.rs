//! Encapsulations: packets in packets (RFC 2003, 4213), GRE and ERSPAN, and encapsulations over UDP: VXLAN, Geneve, GTP, Teredo,
//! L2TP, MPLS, GRE, CAPWAP, LISP and TZSP.

use super::link::{Layer, types, u16_at};

/// IP protocols whose payload is another packet.
mod protocol {
    pub(super) const IPV4: u8 = 4;
    pub(super) const IPV6: u8 = 41;
    pub(super) const GRE: u8 = 47;
    pub(super) const IPIP: u8 = 94;
    pub(super) const ETHERNET: u8 = 97;
    pub(super) const MPLS: u8 = 137;
}

/// UDP ports whose payload is another packet.
mod port {
    pub(super) const L2TP: u16 = 1_701;
    pub(super) const GTP: u16 = 2_152;
    pub(super) const TEREDO: u16 = 3_544;
    pub(super) const LISP: u16 = 4_341;
    pub(super) const GRE: u16 = 4_754;
    pub(super) const VXLAN: u16 = 4_789;
    pub(super) const VXLAN_GPE: u16 = 4_790;
    pub(super) const CAPWAP: u16 = 5_247;
    pub(super) const GENEVE: u16 = 6_081;
    pub(super) const MPLS: u16 = 6_635;
    pub(super) const VXLAN_LINUX: u16 = 8_472;
    pub(super) const TZSP: u16 = 37_008;
}

/// EtherTypes that only GRE carries.
const ERSPAN: u16 = 0x88be;
const ERSPAN_3: u16 = 0x22eb;
/// The EtherTypes of MPLS and of network service headers.
const MPLS: u16 = 0x8847;
const NSH: u16 = 0x894f;

/// Returns the content of a packet of an IP protocol other than UDP and TCP; `None` if it is not
/// known.
pub(crate) fn in_ip(protocol: u8, payload: &[u8]) -> Option<Layer<'_>> {
    match protocol {
        protocol::IPV4 | protocol::IPV6 | protocol::IPIP => Some(Layer::Ip(payload)),
        protocol::GRE => gre(payload),
        protocol::ETHERNET => payload.get(2..).map(|frame| Layer::Link(types::ETHERNET, frame)),
        protocol::MPLS => Some(Layer::Ether(MPLS, payload)),
        _ => None,
    }
}

/// Returns the content of a datagram between these ports; `None` if it is not known.
pub(crate) fn in_udp(source: u16, destination: u16, payload: &[u8]) -> Option<Layer<'_>> {
    by_port(destination, payload).or_else(|| by_port(source, payload))
}

/// Returns the content of a datagram of a port.
fn by_port(port: u16, payload: &[u8]) -> Option<Layer<'_>> {
    match port {
        port::VXLAN | port::VXLAN_LINUX | port::VXLAN_GPE => vxlan(port, payload),
        port::GENEVE => geneve(payload),
        port::GTP => gtp(payload),
        port::TEREDO => teredo(payload),
        port::L2TP => l2tp(payload),
        port::CAPWAP => capwap(payload),
        port::GRE => gre(payload),
        port::MPLS => Some(Layer::Ether(MPLS, payload)),
        // RFC 9300 section 5.1.
        port::LISP => payload.get(8..).map(Layer::Ip),
        port::TZSP => tzsp(payload),
        _ => None,
    }
}

/// Removes a GRE header (RFC 2784, 2890), also of PPTP (RFC 2637), and an ERSPAN header below it.
fn gre(bytes: &[u8]) -> Option<Layer<'_>> {
    let (flags, kind) = (u16_at(bytes, 0)?, u16_at(bytes, 2)?);
    let (version, has) = (flags & 7, |bit: u16| usize::from(flags & bit != 0));
    // Routes, which RFC 2784 removed, are not read.
    if version > 1 || has(0x4000) == 1 {
        return None;
    }
    let len = 4 + 4 * (has(0x8000) + has(0x2000) + has(0x1000));
    let len = if version == 1 { len + 4 * has(0x0080) } else { len };
    let payload = bytes.get(len..)?;
    let frame = |at: usize| payload.get(at..).map(|frame| Layer::Link(types::ETHERNET, frame));
    match kind {
        // A sequence number distinguishes the second form of ERSPAN, which has a header, from the first.
        ERSPAN if has(0x1000) == 1 => frame(8),
        ERSPAN => frame(0),
        ERSPAN_3 => frame(if payload.get(11)? & 1 == 1 { 20 } else { 12 }),
        // An acknowledgment of PPTP has no payload.
        _ if payload.is_empty() => None,
        other => Some(Layer::Ether(other, payload)),
    }
}

/// Removes a VXLAN header (RFC 7348), also with a next protocol.
fn vxlan(port: u16, bytes: &[u8]) -> Option<Layer<'_>> {
    let (&[flags, _, _, next, ..], payload) = bytes.split_first_chunk::<8>()?;
    if flags & 0x08 == 0 {
        return None;
    }
    match next {
        1 | 2 if port == port::VXLAN_GPE => Some(Layer::Ip(payload)),
        4 if port == port::VXLAN_GPE => Some(Layer::Ether(NSH, payload)),
        5 if port == port::VXLAN_GPE => Some(Layer::Ether(MPLS, payload)),
        _ => Some(Layer::Link(types::ETHERNET, payload)),
    }
}

/// Removes a Geneve header (RFC 8926).
fn geneve(bytes: &[u8]) -> Option<Layer<'_>> {
    let first = *bytes.first()?;
    let options = usize::from(first & 0x3f) * 4;
    let kind = u16_at(bytes, 2).filter(|_| first >> 6 == 0)?;
    Some(Layer::Ether(kind, bytes.get(8 + options..)?))
}

/// Removes a GTP header of user data (3GPP TS 29.281).
fn gtp(bytes: &[u8]) -> Option<Layer<'_>> {
    /// The type of message that has a packet.
    const PACKET_TYPE: u8 = 255;
    let &[flags, kind, ..] = bytes.first_chunk::<8>()?;
    if flags >> 4 != 3 || kind != PACKET_TYPE {
        return None;
    }
    if flags & 7 == 0 {
        return bytes.get(8..).map(Layer::Ip);
    }
    let (mut next, mut at) = (*bytes.get(11)?, 12);
    while next != 0 {
        let len = usize::from(*bytes.get(at)?) * 4;
        next = *bytes.get(at + len.checked_sub(1)?)?;
        at += len;
    }
    bytes.get(at..).map(Layer::Ip)
}

/// Removes a CAPWAP header of data that is neither encrypted nor a fragment (RFC 5415 section 4.3); below it is a frame of 802.11 or
/// of Ethernet.
fn capwap(bytes: &[u8]) -> Option<Layer<'_>> {
    let &[preamble, len, kind, fragment] = bytes.first_chunk()?;
    if preamble != 0 || fragment & 0x80 != 0 {
        return None;
    }
    let frame = bytes.get(usize::from(len >> 3) * 4..)?;
    let link = if kind & 1 == 1 { types::WIFI } else { types::ETHERNET };
    Some(Layer::Link(link, frame))
}

/// Removes the header of TZSP, by which routers and access points forward captured packets, with
/// its tagged fields.
fn tzsp(bytes: &[u8]) -> Option<Layer<'_>> {
    let link = match *bytes.first_chunk()? {
        [1, 0 | 1, 0, 1] => types::ETHERNET,
        [1, 0 | 1, 0, 18] => types::WIFI,
        _ => return None,
    };
    let mut at = 4;
    loop {
        match *bytes.get(at)? {
            0 => at += 1,
            1 => return bytes.get(at + 1..).map(|frame| Layer::Link(link, frame)),
            _ => at += 2 + usize::from(*bytes.get(at + 1)?),
        }
    }
}

/// Removes the headers of Teredo (RFC 4380 section 5.1.1).
fn teredo(mut bytes: &[u8]) -> Option<Layer<'_>> {
    if let [0, 1, id, value, ..] = *bytes {
        bytes = bytes.get(13 + usize::from(id) + usize::from(value)..)?;
    }
    if bytes.starts_with(&[0, 0]) {
        bytes = bytes.get(8..)?;
    }
    Some(Layer::Ip(bytes)).filter(|_| bytes.first().is_some_and(|octet| octet >> 4 == 6))
}

/// Removes the header of a data message of L2TP (RFC 2661 section 3.1).
fn l2tp(bytes: &[u8]) -> Option<Layer<'_>> {
    let flags = u16_at(bytes, 0)?;
    let has = |bit: u16| usize::from(flags & bit != 0);
    // Control messages and other versions.
    if has(0x8000) == 1 || flags & 0xf != 2 {
        return None;
    }
    let offset_at = 6 + 2 * has(0x4000) + 4 * has(0x0800);
    let skipped = if has(0x0200) == 1 { 2 + usize::from(u16_at(bytes, offset_at)?) } else { 0 };
    bytes.get(offset_at + skipped..).map(|payload| Layer::Link(types::PPP, payload))
}
