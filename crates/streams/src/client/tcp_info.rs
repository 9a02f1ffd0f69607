//! The kernel's own figures of a TCP connection.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use measure::Nanos;
use tokio::net::TcpStream;

/// Returns the time from the SYN to its SYN-ACK on a new connection, as the kernel measured it; `None` if a SYN
/// was sent again, since the figure leaves the first one out, or if there was no handshake yet (TCP Fast Open).
pub(super) fn syn_round_trip(stream: &TcpStream) -> Option<Nanos> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the socket is open, `info` has `len` bytes, and the kernel writes at most as many.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    // SAFETY: a `tcp_info` consists of integers, for which zeroed bytes are valid.
    let info = unsafe { info.assume_init() };
    (result == 0 && info.tcpi_total_retrans == 0 && info.tcpi_rtt > 0)
        .then(|| Nanos::from_micros(info.tcpi_rtt.into()))
}
