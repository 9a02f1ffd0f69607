//! Ancillary data of datagrams: what the kernel says beside the bytes, and what we ask beside them.

#![allow(unsafe_code)]

use std::net::IpAddr;

/// Bytes of ancillary data for a message: segment size, stamp, drop count and destination fit twice.
const CONTROL_LEN: usize = 256;

/// Room for the ancillary data of one message, aligned as the kernel wants it.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(crate) struct ControlBuffer([u8; CONTROL_LEN]);

/// What the kernel said of a received message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ancillary {
    /// Length of each datagram in a coalesced message (`UDP_GRO`).
    pub(crate) segment: Option<usize>,
    /// Wall clock of the arrival, nanoseconds (`SO_TIMESTAMPNS`).
    pub(crate) stamp: Option<u64>,
    /// Datagrams dropped by the socket since it was made (`SO_RXQ_OVFL`).
    pub(crate) dropped: Option<u32>,
    /// The address it was sent to.
    pub(crate) to: Option<IpAddr>,
}

impl ControlBuffer {
    /// An empty buffer.
    pub(crate) fn new() -> Self {
        ControlBuffer([0; CONTROL_LEN])
    }

    /// Pointer and length for receiving.
    pub(crate) fn room(&mut self) -> (*mut libc::c_void, usize) {
        (self.0.as_mut_ptr().cast(), CONTROL_LEN)
    }

    /// Writes what is asked of a message to send: its segment size, its source address. Pointer and
    /// length for sending; null and zero when nothing is asked.
    pub(crate) fn write(
        &mut self,
        segment: Option<u16>,
        from: Option<IpAddr>,
    ) -> (*mut libc::c_void, usize) {
        let mut used = 0;
        if let Some(segment) = segment {
            used = self.append(used, libc::SOL_UDP, libc::UDP_SEGMENT, segment);
        }
        match from {
            Some(IpAddr::V4(v4)) => {
                let address = libc::in_addr { s_addr: u32::from_ne_bytes(v4.octets()) };
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: address,
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                used = self.append(used, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            Some(IpAddr::V6(v6)) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: v6.octets() },
                    ipi6_ifindex: 0,
                };
                used = self.append(used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
            None => {}
        }
        if used == 0 { (std::ptr::null_mut(), 0) } else { (self.0.as_mut_ptr().cast(), used) }
    }

    /// Appends one item; the new length.
    fn append<T: Copy>(&mut self, used: usize, level: i32, kind: i32, value: T) -> usize {
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
        let (space, len) = unsafe {
            (
                libc::CMSG_SPACE(size_of::<T>() as u32) as usize,
                libc::CMSG_LEN(size_of::<T>() as u32) as usize,
            )
        };
        assert!(used + space <= CONTROL_LEN, "ancillary data fits its buffer");
        // SAFETY: the buffer is aligned to 8, `used` is a sum of CMSG_SPACEs and so keeps that, and there is room for
        // the header and the (unaligned written) value.
        unsafe {
            let header = self.0.as_mut_ptr().add(used).cast::<libc::cmsghdr>();
            (*header).cmsg_len = len as _;
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
        }
        used + space
    }
}

/// Reads what the kernel wrote beside a message.
pub(crate) fn read(message: &libc::msghdr) -> Ancillary {
    let mut out = Ancillary::default();
    // SAFETY: the kernel wrote `msg_controllen` bytes of well-formed items at `msg_control`, which the caller's
    // buffer still owns; the macros walk within that length.
    unsafe {
        let mut item = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = item.as_ref() {
            let data = libc::CMSG_DATA(item);
            match (header.cmsg_level, header.cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    out.segment =
                        usize::try_from(data.cast::<i32>().read_unaligned()).ok().filter(|&s| s > 0)
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let t = data.cast::<libc::timespec>().read_unaligned();
                    out.stamp = Some(
                        (t.tv_sec as u64)
                            .wrapping_mul(1_000_000_000)
                            .wrapping_add(t.tv_nsec as u64),
                    );
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    out.dropped = Some(data.cast::<u32>().read_unaligned())
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    out.to = Some(IpAddr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    out.to = Some(IpAddr::from(
                        data.cast::<libc::in6_pktinfo>().read_unaligned().ipi6_addr.s6_addr,
                    ));
                }
                _ => {}
            }
            item = libc::CMSG_NXTHDR(message, item);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for address in ["192.0.2.7", "2001:db8::7"] {
            let address: IpAddr = address.parse().expect("an address");
            let mut buffer = ControlBuffer::new();
            let (control, len) = buffer.write(Some(76), Some(address));
            // SAFETY: all-zero is a valid msghdr.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            (message.msg_control, message.msg_controllen) = (control, len);
            let got = read(&message);
            assert_eq!(got.to, Some(address));
            assert_eq!(got.segment, None, "UDP_SEGMENT is asked, UDP_GRO is told");
        }
        assert_eq!(ControlBuffer::new().write(None, None), (std::ptr::null_mut(), 0));
    }
}
