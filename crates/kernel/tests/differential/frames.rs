//! Frames: those of upstream, changed ones, and all as another parser reads them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

use crate::kit::{ETHERNET, Random, seal, sum};

/// Shortest and longest frame that the kernel runs a program on.
const LENGTHS: std::ops::Range<u64> = 14..1_600;
/// Extension headers of IPv6: for each hop, of routing, of a fragment, for the destination.
const EXTENSIONS: [u8; 4] = [0, 43, 44, 60];
/// EtherTypes of VLAN tags: 802.1Q, 802.1ad and the older form of the latter.
const TAGS: [[u8; 2]; 3] = [[0x81, 0], [0x88, 0xa8], [0x91, 0]];
/// First octets of addresses that no host has: unspecified, loopback, groups.
const NO_HOSTS: [u8; 5] = [0, 127, 224, 239, 255];

/// A datagram of a frame.
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) message: Vec<u8>,
}

/// Reads a frame with another parser; `None` for one whose datagram the system gives to no socket, or that is not plain.
pub(crate) fn read(frame: &[u8]) -> Option<Datagram> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (from, to): (IpAddr, IpAddr) = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let whole = !header.more_fragments() && header.fragments_offset().value() == 0;
            (whole && header.options().is_empty())
                .then(|| (header.source_addr().into(), header.destination_addr().into()))?
        }
        NetSlice::Ipv6(ip) => {
            let is_plain = ip.extensions().first_header().is_none();
            is_plain.then(|| {
                (ip.header().source_addr().into(), ip.header().destination_addr().into())
            })?
        }
        _ => return None,
    };
    let Some(TransportSlice::Udp(udp)) = packet.transport else { return None };
    let is_elsewhere = match from {
        IpAddr::V4(from) => {
            sum(&[&frame[ETHERNET..][..20]]) == 0xffff
                && !matches!(from.octets()[0], 0 | 127 | 224..)
        }
        IpAddr::V6(from) => {
            from.octets()[..8] != [0; 8] && !from.is_multicast() && udp.checksum() != 0
        }
    };
    let is_taken = is_elsewhere
        && packet.link_exts.is_empty()
        && (frame[0] | frame[6]) & 1 == 0
        && udp.source_port() != 0;
    is_taken.then(|| Datagram {
        from: SocketAddr::new(from, udp.source_port()),
        to: SocketAddr::new(to, udp.destination_port()),
        message: udp.payload().to_vec(),
    })
}

/// Changes a frame: any octets, its length, parts of its headers, mostly with the right checksum of IPv4; or makes a random one.
pub(crate) fn change(random: &mut Random, frame: &mut Vec<u8>) {
    if random.one_in(20) {
        let len = LENGTHS.start + random.below(LENGTHS.end - LENGTHS.start);
        *frame = (0..len).map(|_| random.next() as u8).collect();
        if random.one_in(2) {
            frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        }
    }
    if random.one_in(2) {
        change_header(random, frame);
    }
    for _ in 0..random.below(4) {
        let len = frame.len() as u64;
        match random.below(8) {
            0 => frame.truncate(random.below(len + 1) as usize),
            1 => {
                let more = random.below(100);
                frame.extend((0..more).map(|octet| octet as u8));
            }
            2..=3 => frame[random.below(len) as usize] = random.next() as u8,
            // The headers of Ethernet, IP and UDP.
            _ => frame[random.below(len.min(62)) as usize] ^= 1 << random.below(8),
        }
        frame.resize(frame.len().max(LENGTHS.start as usize), 0);
    }
    // With a wrong checksum a changed header gets no further.
    if !random.one_in(4) {
        seal(frame);
    }
}

/// Changes one part of the headers of a frame to one that is seldom or wrong; its lengths agree with an inserted part.
fn change_header(random: &mut Random, frame: &mut Vec<u8>) {
    let v6 = frame[12..14] == [0x86, 0xdd];
    let udp = ETHERNET + if v6 { 40 } else { 20 };
    if frame.len() < udp + 8 {
        return;
    }
    let len_at = if v6 { ETHERNET + 4 } else { ETHERNET + 2 };
    let near = |random: &mut Random| [1, 2, 4, 8, 12, 255, 254][random.below(7) as usize];
    match random.below(9) {
        0 => {
            let [high, low] = TAGS[random.below(3) as usize];
            frame.splice(12..12, [high, low, 0, random.next() as u8]);
        }
        1 if v6 => {
            let kind =
                std::mem::replace(&mut frame[ETHERNET + 6], EXTENSIONS[random.below(4) as usize]);
            frame.splice(udp..udp, [kind, 0, 1, 4, 0, 0, 0, 0]);
            add(frame, len_at, 8);
        }
        1 => {
            frame[ETHERNET] = frame[ETHERNET].wrapping_add(1);
            frame.splice(udp..udp, [1, 1, 1, 0]);
            add(frame, len_at, 4);
        }
        // More fragments, an offset, both, or one of the bits that do not count.
        2 if !v6 => {
            let bits = [[0x20, 0], [0, 1], [0x20, 9], [0x80, 0], [0, 0]];
            frame[ETHERNET + 6..][..2].copy_from_slice(&bits[random.below(5) as usize]);
        }
        // The length of UDP, of IP, or both.
        3 => add(frame, udp + 4, near(random)),
        4 => add(frame, len_at, near(random)),
        5 => {
            let more = near(random);
            add(frame, udp + 4, more);
            add(frame, len_at, more);
        }
        // No checksum; the source port 0.
        6 => frame[udp + 6..][..2].fill(0),
        7 => frame[udp..][..2].fill(0),
        // An address of no host.
        _ => {
            let (from, size) = if v6 { (22, 16) } else { (26, 4) };
            let at = from + size * random.below(2) as usize;
            frame[at..at + size].fill(0);
            frame[at] = NO_HOSTS[random.below(5) as usize];
            frame[at + size - 1] = random.below(2) as u8;
        }
    }
}

/// Adds an octet with a sign to a number in a frame.
fn add(frame: &mut [u8], at: usize, more: u8) {
    let value = u16::from_be_bytes([frame[at], frame[at + 1]]);
    let value = value.wrapping_add_signed((more as i8).into());
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Makes a frame with a message; `other` says whether its source is another address than `from`.
pub(crate) fn frame(
    from: IpAddr,
    to: IpAddr,
    ports: [u16; 2],
    message: &[u8],
    other: bool,
) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 4];
    let len = 8 + message.len() as u16;
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend_from_slice(&[8, 0, 0x45, 0]);
            frame.extend_from_slice(&(20 + len).to_be_bytes());
            frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
            let from = Ipv4Addr::from(u32::from(from) ^ u32::from(other));
            frame.extend_from_slice(&from.octets());
            frame.extend_from_slice(&to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend_from_slice(&len.to_be_bytes());
            frame.extend_from_slice(&[17, 64]);
            let mut from = from.octets();
            from[15] ^= u8::from(other);
            frame.extend_from_slice(&from);
            frame.extend_from_slice(&to.octets());
        }
        _ => panic!("addresses of one family"),
    }
    ports.iter().for_each(|port| frame.extend_from_slice(&port.to_be_bytes()));
    frame.extend_from_slice(&len.to_be_bytes());
    frame.extend_from_slice(&[0x12, 0x34]);
    frame.extend_from_slice(message);
    frame.resize(frame.len().max(60), 0);
    seal(&mut frame);
    frame
}
