//! The way of a socket's packets: the device or VRF, the class of their traffic, addresses that are not there yet.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;

use dns64::config::RouteConfig;
use nix::errno::Errno;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{BindToDevice, IpFreebind, Ipv4Tos, Ipv6TClass};

/// Prepares a socket before it is bound.
///
/// # Errors
/// When there is no such device, or the right to use it is missing; the error names the setting.
pub(crate) fn prepare(route: &RouteConfig, socket: BorrowedFd<'_>) -> io::Result<()> {
    let failed = |what: &'static str| {
        move |errno: Errno| {
            io::Error::new(io::Error::from(errno).kind(), format!("{what}: {errno}"))
        }
    };
    if !route.device.is_empty() {
        let device = OsString::from(&route.device);
        setsockopt(&socket, BindToDevice, &device).map_err(failed("device"))?;
    }
    if route.freebind {
        // The kernel has one option for both families.
        setsockopt(&socket, IpFreebind, &true).map_err(failed("freebind"))?;
    }
    // The upper six bits of the octet.
    let class = i32::from(route.dscp) << 2;
    if class == 0 {
        return Ok(());
    }
    match setsockopt(&socket, Ipv6TClass, &class) {
        // The socket is for IPv4.
        Err(Errno::ENOPROTOOPT) => setsockopt(&socket, Ipv4Tos, &class).map_err(failed("dscp")),
        set => set.map_err(failed("dscp")),
    }
}
