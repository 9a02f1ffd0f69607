//! Remains of a stopped server: processes that left its process group, and a port that is still in use.
//!
//! A process of the last server that still listens would answer the next server's queries. So before a server or a group
//! of servers starts, every process in its hosts ends, and each server starts only if its ports are free.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::testbed::netns::Namespace;
use crate::testbed::process::POLL;

/// Time within which processes must end after SIGKILL.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// Ends every process in `namespace`; in the network of this host only where the pid namespace is the lab's own, so that they
/// are its processes.
///
/// # Errors
/// If `/proc` cannot be read, or a process does not end.
pub(crate) fn end_all(namespace: &Namespace) -> io::Result<()> {
    if namespace.is_own() && std::process::id() != 1 {
        return Ok(());
    }
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        let left = members(namespace)?;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let (pid, name) = &left[0];
            return Err(io::Error::other(format!("{name} (process {pid}) could not be killed")));
        }
        for (pid, _) in left {
            // The process may have ended meanwhile.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(POLL);
    }
}

/// Returns number and name of each process in `namespace` that has not ended, except this one.
fn members(namespace: &Namespace) -> io::Result<Vec<(i32, String)>> {
    let wanted = namespace.file().metadata()?.ino();
    let own = std::process::id() as i32;
    let mut members = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let inside = fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|ns| ns.ino() == wanted);
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A zombie has ended; its parent has not read its exit code yet.
        let ended = stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'));
        if inside && !ended && pid != own {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            members.push((pid, name.trim().to_owned()));
        }
    }
    Ok(members)
}

/// Checks that no socket is bound to an address inside `namespace`, over UDP or TCP.
///
/// # Errors
/// `AddrInUse`, with the address.
pub(crate) fn check_free(namespace: &Namespace, address: SocketAddr) -> io::Result<()> {
    let bind = || UdpSocket::bind(address).and_then(|_| TcpListener::bind(address)).map(drop);
    namespace.run(bind)?.map_err(|e| io::Error::new(e.kind(), format!("{address}: {e}")))
}
