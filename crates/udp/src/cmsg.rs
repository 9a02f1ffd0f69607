//! Ancillary data of datagrams: reports of the kernel with received datagrams, and requests for
//! sent ones.
//!
//! The items follow one another (cmsg(3)), each aligned to a word:
//!
//! ```text
//!   | length incl. header (word) | level (i32) | type (i32) | value ... | padding |
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of ancillary data for a message: segment size (24), timestamp (32) and destination (40) fit.
const CONTROL_LEN: usize = 128;
/// Bytes of a word, to which items are aligned.
const WORD: usize = size_of::<usize>();
/// Bytes of an item before its value.
const HEADER: usize = WORD + 8;

/// Buffer for the ancillary data of one message, aligned as the kernel requires.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(crate) struct ControlBuffer([u8; CONTROL_LEN]);

/// Ancillary data of a received message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ancillary {
    /// Length of each datagram in a coalesced message (`UDP_GRO`).
    pub(crate) segment: Option<usize>,
    /// Arrival time on the wall clock, in nanoseconds (`SO_TIMESTAMPNS`).
    pub(crate) stamp: Option<u64>,
    /// Address to which the message was sent (`IP_PKTINFO`).
    pub(crate) to: Option<IpAddr>,
}

impl ControlBuffer {
    /// Makes an empty buffer, which the kernel fills.
    pub(crate) fn new() -> Self {
        ControlBuffer([0; CONTROL_LEN])
    }

    /// Returns pointer and length for receiving.
    pub(crate) fn room(&mut self) -> (*mut libc::c_void, usize) {
        (self.0.as_mut_ptr().cast(), CONTROL_LEN)
    }

    /// Reads the first `len` bytes, which the kernel wrote.
    #[inline]
    pub(crate) fn read(&self, len: usize) -> Ancillary {
        read(&self.0[..len.min(CONTROL_LEN)])
    }

    /// Writes the requests for a message to send: segment size and source address. Returns pointer and length
    /// for sending; null and zero without requests.
    #[inline]
    pub(crate) fn write(
        &mut self,
        segment: Option<u16>,
        from: Option<IpAddr>,
    ) -> (*mut libc::c_void, usize) {
        let mut used = 0;
        if let Some(segment) = segment {
            used = self.append(used, libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        match from {
            // struct in_pktinfo: interface (0: any), local address, destination (not read).
            Some(IpAddr::V4(v4)) => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&v4.octets());
                used = self.append(used, libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            // struct in6_pktinfo: local address, interface.
            Some(IpAddr::V6(v6)) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&v6.octets());
                used = self.append(used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        if used == 0 { (std::ptr::null_mut(), 0) } else { (self.0.as_mut_ptr().cast(), used) }
    }

    /// Appends one item; returns the new length.
    fn append(&mut self, used: usize, level: i32, kind: i32, value: &[u8]) -> usize {
        let len = HEADER + value.len();
        let item = &mut self.0[used..used + len.next_multiple_of(WORD)];
        item[..WORD].copy_from_slice(&len.to_ne_bytes());
        item[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        item[WORD + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        item[HEADER..len].copy_from_slice(value);
        used + item.len()
    }
}

/// Reads ancillary data; stops at an item that does not fit, and skips unknown items.
fn read(mut rest: &[u8]) -> Ancillary {
    let mut out = Ancillary::default();
    while let Some(len) = word(rest) {
        if len < HEADER || len > rest.len() {
            break;
        }
        let value = &rest[HEADER..len];
        match (int(&rest[WORD..]), int(&rest[WORD + 4..])) {
            (Some(libc::SOL_UDP), Some(libc::UDP_GRO)) => {
                out.segment = int(value).and_then(|s| usize::try_from(s).ok()).filter(|&s| s > 0);
            }
            (Some(libc::SOL_SOCKET), Some(libc::SCM_TIMESTAMPNS)) => out.stamp = time(value),
            // ipi_spec_dst: the local address of the reply.
            (Some(libc::IPPROTO_IP), Some(libc::IP_PKTINFO)) => {
                out.to =
                    value.get(4..8).and_then(|v| Some(Ipv4Addr::from(*v.first_chunk()?).into()));
            }
            (Some(libc::IPPROTO_IPV6), Some(libc::IPV6_PKTINFO)) => {
                out.to = value.first_chunk::<16>().map(|v| Ipv6Addr::from(*v).into());
            }
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(WORD)..).unwrap_or_default();
    }
    out
}

/// Reads a machine word at the beginning; `None` if there are fewer bytes.
fn word(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|b| usize::from_ne_bytes(*b))
}

/// Reads a C `int` at the beginning; `None` if there are fewer bytes.
fn int(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().map(|b| i32::from_ne_bytes(*b))
}

/// Reads a struct timespec of 64-bit systems, in nanoseconds.
fn time(value: &[u8]) -> Option<u64> {
    let seconds = u64::from_ne_bytes(*value.first_chunk()?);
    let nanos = u64::from_ne_bytes(*value.get(8..)?.first_chunk()?);
    Some(seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_requests_can_be_read(segment: Option<u16>, from: Option<IpAddr>) {
            let mut buffer = ControlBuffer::new();
            let (control, len) = buffer.write(segment, from);
            prop_assert_eq!(control.is_null(), len == 0);
            let got = buffer.read(len);
            prop_assert_eq!(got.to, from);
            prop_assert_eq!(got.segment, None, "UDP_SEGMENT is a request, UDP_GRO a report");
        }

        #[test]
        fn the_items_of_the_kernel_are_found_in_any_order(
            order in Just([0usize, 1, 2, 3]).prop_shuffle(),
            segment in 1..65_536i32,
            seconds in 0..4_000_000_000u64,
            nanos in 0..1_000_000_000u64,
            to: IpAddr,
        ) {
            let mut buffer = ControlBuffer::new();
            let mut used = 0;
            for item in order {
                used = match (item, to) {
                    (0, _) => buffer.append(used, libc::SOL_UDP, libc::UDP_GRO, &segment.to_ne_bytes()),
                    (1, _) => {
                        let time = [seconds.to_ne_bytes(), nanos.to_ne_bytes()].concat();
                        buffer.append(used, libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &time)
                    }
                    (2, IpAddr::V4(to)) => {
                        let info = [[9, 0, 0, 0], to.octets(), [7; 4]].concat();
                        buffer.append(used, libc::IPPROTO_IP, libc::IP_PKTINFO, &info)
                    }
                    (2, IpAddr::V6(to)) => {
                        let info = [&to.octets()[..], &[9, 0, 0, 0]].concat();
                        buffer.append(used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info)
                    }
                    // An unknown item of an odd length.
                    _ => buffer.append(used, libc::SOL_SOCKET, 9_999, b"abc"),
                };
            }
            let stamp = Some(seconds * 1_000_000_000 + nanos);
            prop_assert_eq!(buffer.read(used), Ancillary { segment: Some(segment as usize), stamp, to: Some(to) });
        }

        #[test]
        fn any_bytes_are_read_without_failure(bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0usize..250) {
            read(&bytes);
            // With a plausible length in front, more bytes are read.
            read(&[&len.to_ne_bytes()[..], &bytes].concat());
        }
    }
}
