//! What a test needs of its host: programs and ports.

// Each test uses a part of the kit.
#![allow(dead_code)]

use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;

/// Finds a program, also one for the administrator.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let dirs = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    let more = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    dirs.into_iter().chain(more).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Returns a port of 127.0.0.1 that is free for UDP and TCP now.
pub(crate) fn free_port() -> u16 {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = udp.local_addr().expect("an address");
        if TcpListener::bind(address).is_ok() {
            return address.port();
        }
    }
}
