//! What a test needs of its host: programs, ports and keys, and time for other processes.

// Each test uses a part of the kit.
#![allow(dead_code)]

use std::fmt::Display;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use self::ports::next_port;

#[path = "ports.rs"]
mod ports;

/// Time within which something must have happened that happens soon.
pub(crate) const SOON: Duration = Duration::from_secs(120);

/// Finds a program, also one for the administrator.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let dirs = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    let more = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    dirs.into_iter().chain(more).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Returns the path of a program; without it the test is skipped.
pub(crate) fn installed(program: &str) -> Option<String> {
    let path = find(program).map(|path| path.display().to_string());
    path.or_else(|| skip::none(format_args!("{program} is not installed")))
}

/// Binds the next port that is free for TCP and UDP at this address.
pub(crate) fn bind_port(ip: Ipv4Addr) -> (TcpListener, UdpSocket) {
    loop {
        let at = (ip, next_port());
        if let (Ok(tcp), Ok(udp)) = (TcpListener::bind(at), UdpSocket::bind(at)) {
            return (tcp, udp);
        }
    }
}

/// Returns the next port that is free for UDP and TCP now.
pub(crate) fn free_port() -> u16 {
    bind_port(Ipv4Addr::UNSPECIFIED).0.local_addr().expect("an address").port()
}

/// Waits until `found` returns something; fails with `what` after two minutes.
pub(crate) fn soon<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends a signal, by its name without SIG, to a process.
pub(crate) fn signal(pid: impl Display, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.expect("kill").success(), "{name} to {pid}");
}

/// Makes a pair of keys for ssh without a passphrase; returns false where there is no ssh-keygen.
pub(crate) fn ssh_key(path: &Path) -> bool {
    let words = ["-q", "-t", "ed25519", "-N", "", "-f"];
    Command::new("ssh-keygen").args(words).arg(path).status().is_ok_and(|status| status.success())
}
