//! One socket: opening, probing of options, drop count.

#![allow(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use socket2::{Domain, Protocol, Socket, Type};

use crate::sys::set_option;
use engine::named;

use crate::options::{UdpFacts, UdpOptions};

/// `SK_MEMINFO_DROPS` and `SK_MEMINFO_VARS` of linux/sock_diag.h, which libc lacks.
const MEMINFO_DROPS: usize = 8;
const MEMINFO_VARS: usize = 9;

/// Function that prepares a socket before it is bound, such as by setting options.
pub type Prepare<'a> = &'a dyn Fn(BorrowedFd<'_>) -> io::Result<()>;

/// A socket with its constant properties.
pub(crate) struct UdpSocket {
    socket: Socket,
    /// Address of the peer of a connected socket.
    pub(crate) peer: Option<SocketAddr>,
}

impl UdpSocket {
    /// Opens a socket bound to `source` and connected to `target`.
    pub(crate) fn connected(
        target: SocketAddr,
        source: SocketAddr,
        prepare: Prepare<'_>,
    ) -> io::Result<Self> {
        let source = engine::on_link_of(target, source.ip(), source.port());
        let socket = open(target)?;
        prepare(socket.as_fd()).map_err(|e| named(e, "cannot send to", target))?;
        if !source.ip().is_unspecified() {
            // Addresses of a routed prefix need not be on an interface.
            let _ = if source.is_ipv4() {
                socket.set_freebind_v4(true)
            } else {
                socket.set_freebind_v6(true)
            };
        }
        socket.bind(&source.into()).map_err(|e| named(e, "cannot send from", source))?;
        socket.connect(&target.into()).map_err(|e| named(e, "cannot send to", target))?;
        Ok(UdpSocket { socket, peer: Some(target) })
    }

    /// Opens a socket that listens on `address`.
    pub(crate) fn listening(
        address: SocketAddr,
        share_port: bool,
        prepare: Prepare<'_>,
    ) -> io::Result<Self> {
        let socket = open(address)?;
        prepare(socket.as_fd()).map_err(|e| named(e, "cannot listen on UDP", address))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if share_port {
            socket.set_reuse_port(true)?;
        }
        socket.bind(&address.into()).map_err(|e| named(e, "cannot listen on UDP", address))?;
        Self::bound(socket, address)
    }

    /// Uses a socket that is bound already.
    pub(crate) fn adopted(socket: std::net::UdpSocket) -> io::Result<Self> {
        let address = socket.local_addr()?;
        socket.set_nonblocking(true)?;
        Self::bound(socket.into(), address)
    }

    /// Makes a listening socket from a socket bound to `address`.
    fn bound(socket: Socket, address: SocketAddr) -> io::Result<Self> {
        if address.ip().is_unspecified() {
            let (level, option) = if address.is_ipv4() {
                (libc::IPPROTO_IP, libc::IP_PKTINFO)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
            };
            set_option(&socket, level, option, 1)?;
        }
        Ok(UdpSocket { socket, peer: None })
    }

    /// Returns whether other sockets may listen on its port too.
    pub(crate) fn shares_port(&self) -> io::Result<bool> {
        self.socket.reuse_port()
    }

    /// Returns a second descriptor of the socket.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(UdpSocket { socket: self.socket.try_clone()?, peer: self.peer })
    }

    /// Returns the socket, for the service manager.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sets the requested options; removes those that this socket lacks from the facts.
    pub(crate) fn probe(&mut self, options: &UdpOptions, facts: &mut UdpFacts) -> io::Result<()> {
        let socket = &self.socket;
        enlarge_buffers(socket, options.buffer, facts)?;
        // Setting the option to a size and back shows whether the kernel has it.
        facts.gso &= set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 1_200).is_ok()
            && set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        facts.gro &=
            set_option(socket, libc::SOL_UDP, libc::UDP_GRO, i32::from(options.gro)).is_ok();
        if options.timestamps {
            facts.timestamps &=
                set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1).is_ok();
        }
        facts.drop_counts &= drops(self.fd()).is_some();
        Ok(())
    }

    /// Returns the descriptor, for system calls.
    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Returns the address and port of the socket.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        let address = self.socket.local_addr()?;
        address.as_socket().ok_or_else(|| io::Error::other("not an internet socket"))
    }

    /// Returns the number of datagrams dropped since the socket was opened because its receive queue was
    /// full.
    pub(crate) fn dropped(&self) -> u64 {
        u64::from(drops(self.fd()).unwrap_or(0))
    }

    /// Sets an integer option, to provoke errors of a kernel or a device.
    #[cfg(test)]
    pub(crate) fn set(&self, level: i32, option: i32, value: i32) {
        set_option(&self.socket, level, option, value).expect("a settable option");
    }
}

/// Returns the address with a free port in place of 0; fails if another socket uses the port, even a shared
/// one.
pub(crate) fn free_address(address: SocketAddr, prepare: Prepare<'_>) -> io::Result<SocketAddr> {
    UdpSocket::listening(address, false, prepare)?.local_address()
}

/// Opens a non-blocking UDP socket of the family of `address`.
fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
        .map_err(|e| named(e, "cannot open a socket for", address))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sets the buffer sizes, by force if permitted, otherwise as far as the system allows.
fn enlarge_buffers(socket: &Socket, size: usize, facts: &mut UdpFacts) -> io::Result<()> {
    let size = i32::try_from(size).unwrap_or(i32::MAX / 2);
    if set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, size).is_err() {
        set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, size)?;
    }
    if set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, size).is_err() {
        set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, size)?;
    }
    facts.receive_buffer = socket.recv_buffer_size()?;
    facts.send_buffer = socket.send_buffer_size()?;
    Ok(())
}

/// Reads the drop count of a socket (`SO_MEMINFO`, Linux 4.12).
fn drops(fd: RawFd) -> Option<u32> {
    let mut info = [0u32; MEMINFO_VARS];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` has room for `len` bytes, both live through the call; the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    (result == 0 && len as usize == size_of_val(&info)).then_some(info[MEMINFO_DROPS])
}

/// Turns a negative result of a system call into an error.
pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
