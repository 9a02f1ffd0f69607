//! Socket addresses in the form of the kernel.

#![allow(unsafe_code)]

use std::net::{SocketAddr, SocketAddrV6};

/// Buffer for an address of either family; no larger than that, so that a batch of them stays in the CPU
/// cache.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Name {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    /// Makes an empty buffer, which the kernel fills.
    pub(crate) const fn new() -> Self {
        // SAFETY: all-zero is a valid value of these plain C structures.
        unsafe { std::mem::zeroed() }
    }

    /// Returns pointer and length for a message header.
    pub(crate) fn room(&mut self) -> (*mut libc::c_void, libc::socklen_t) {
        (std::ptr::from_mut(self).cast(), size_of::<Name>() as libc::socklen_t)
    }

    /// Reads an address that the kernel wrote; `None` if it is of neither family.
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        // SAFETY: all bytes are initialised and every bit pattern is valid for every field; the
        // family, which is at the same position in all of them, tells which one was written.
        unsafe {
            match i32::from(self.family) {
                libc::AF_INET => {
                    let ip = self.v4.sin_addr.s_addr.to_ne_bytes();
                    Some(SocketAddr::from((ip, u16::from_be(self.v4.sin_port))))
                }
                libc::AF_INET6 => {
                    let ip = self.v6.sin6_addr.s6_addr.into();
                    let port = u16::from_be(self.v6.sin6_port);
                    let (flow, scope) = (self.v6.sin6_flowinfo, self.v6.sin6_scope_id);
                    Some(SocketAddrV6::new(ip, port, flow, scope).into())
                }
                _ => None,
            }
        }
    }

    /// Writes an address for the kernel; returns its length.
    pub(crate) fn set(&mut self, address: SocketAddr) -> libc::socklen_t {
        match address {
            SocketAddr::V4(v4) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            SocketAddr::V6(v6) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_addresses_can_be_read() {
        let mut name = Name::new();
        assert_eq!(name.get(), None);
        for (address, len) in
            [("192.0.2.7:53", 16), ("[2001:db8::7]:65535", 28), ("[fe80::1%3]:1", 28)]
        {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(name.set(address), len);
            assert_eq!(name.get(), Some(address));
        }
    }
}
