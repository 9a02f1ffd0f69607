//! What a test needs of its host: programs, ports and keys, and time for other processes.

// Each test uses a part of the kit.
#![allow(dead_code)]

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time within which something must have happened that happens soon.
pub(crate) const SOON: Duration = Duration::from_secs(120);

/// Finds a program, also one for the administrator.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let dirs = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    let more = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    dirs.into_iter().chain(more).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Returns the next port that is free for UDP and TCP now. It is outside of the kernel's range for clients, which begins at 32,768
/// unless `net.ipv4.ip_local_port_range` is changed: no client takes it before its server does.
pub(crate) fn free_port() -> u16 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    const PORTS: std::ops::Range<u16> = 10_000..32_000;
    // Other test processes start at other ports.
    let first = std::process::id().wrapping_mul(997);
    loop {
        let nth = first.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + (nth % u32::from(PORTS.end - PORTS.start)) as u16;
        let any = (Ipv4Addr::UNSPECIFIED, port);
        if UdpSocket::bind(any).is_ok() && TcpListener::bind(any).is_ok() {
            return port;
        }
    }
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

/// Makes a pair of keys for ssh without a passphrase; returns false where there is no ssh-keygen.
pub(crate) fn ssh_key(path: &Path) -> bool {
    let words = ["-q", "-t", "ed25519", "-N", "", "-f"];
    Command::new("ssh-keygen").args(words).arg(path).status().is_ok_and(|status| status.success())
}
