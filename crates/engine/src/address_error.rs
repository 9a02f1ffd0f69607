//! Errors of sockets that name the address and a remedy.

use std::io;
use std::net::SocketAddr;

use nix::errno::Errno;

/// Adds the address and a remedy to an error.
pub fn named(error: io::Error, what: &str, address: SocketAddr) -> io::Error {
    let remedy = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EADDRINUSE) => {
            ": stop the process that uses it (`ss -lptun` shows it) or take another port"
        }
        Some(Errno::EADDRNOTAVAIL) => ": it is not an address of this host",
        Some(Errno::EACCES) => ": ports below 1024 need CAP_NET_BIND_SERVICE",
        Some(Errno::EMFILE) => ": raise the limit of open files (`ulimit -n`) or use fewer sockets",
        Some(Errno::ENETUNREACH) => ": there is no route to it",
        Some(Errno::EAFNOSUPPORT) => ": source and target must be of one family",
        _ => "",
    };
    io::Error::new(error.kind(), format!("{what} {address}: {error}{remedy}"))
}
