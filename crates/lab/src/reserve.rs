//! What a run has of the machine for itself: its cores, against other runs, and buffers of the same size for all servers.
//!
//! Two runs on one core measure each other. Each run holds a name for each of its cores (an abstract socket, which the
//! kernel takes back however the process ends), and the second run says which process holds it.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

use crate::cpus::CpuList;
use crate::enter;

/// How often a core that is taken is asked for again.
const AGAIN: Duration = Duration::from_millis(500);
/// Default size of the socket buffers of all hosts during a run, in bytes; the kernel counts twice that.
pub(crate) const BUFFER: u64 = 4 << 20;
/// Where the sizes from before a run are kept, in case that the run cannot put them back.
const KEPT: &str = "/run/dnsdyno-buffers";
/// The default sizes of the kernel, of sockets that ask for none.
const DEFAULTS: [&str; 2] = ["/proc/sys/net/core/rmem_default", "/proc/sys/net/core/wmem_default"];

/// Cores that other runs stay away from, and buffer sizes; given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    _cores: Vec<UnixListener>,
    _buffers: Option<Buffers>,
}

/// A core is held by another run.
#[derive(Debug, thiserror::Error)]
#[error(
    "core {core} is measured on by another run ({by}); wait for it with --wait, or choose other cores ([cpus] in the experiment)"
)]
pub struct CoreTaken {
    /// The core's number.
    pub core: usize,
    /// The other run: number and command line of its process.
    pub by: String,
}

impl Reservation {
    /// Reserves `cores`; waits for them up to `wait`. Inside the lab nothing is reserved: its outer process has done it.
    ///
    /// # Errors
    /// [`CoreTaken`] when another run still has one of them.
    pub fn take(cores: &CpuList, wait: Duration) -> Result<Self, CoreTaken> {
        if enter::is_inside() {
            return Ok(Reservation { _cores: Vec::new(), _buffers: None });
        }
        let deadline = Instant::now() + wait;
        let mut held = Vec::new();
        for &core in cores.cpus() {
            held.extend(loop {
                match hold(&format!("dnsdyno-core-{core}")) {
                    Ok(listener) => break listener,
                    Err(_) if Instant::now() < deadline => std::thread::sleep(AGAIN),
                    Err(by) => return Err(CoreTaken { core, by }),
                }
            });
        }
        Ok(Reservation { _cores: held, _buffers: Buffers::enlarge() })
    }
}

/// Holds a name; `None` where the kernel has no abstract sockets.
///
/// # Errors
/// Who holds it.
fn hold(name: &str) -> Result<Option<UnixListener>, String> {
    let Ok(address) = SocketAddr::from_abstract_name(name) else { return Ok(None) };
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(Some(listener)),
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => Err(holder(&address)),
        Err(_) => Ok(None),
    }
}

/// The process behind a socket: its number and command line.
fn holder(address: &SocketAddr) -> String {
    let credentials = UnixStream::connect_addr(address)
        .ok()
        .and_then(|stream| getsockopt(&stream, PeerCredentials).ok());
    let Some(pid) = credentials.map(|c| c.pid()) else { return "unknown process".to_owned() };
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    format!("process {pid}: {}", command.trim())
}

/// The kernel's default buffer sizes, enlarged: every server gets the same, whether it asks for buffers or not. Only root
/// may do this; for others every server has the kernel's default.
#[derive(Debug)]
struct Buffers {
    before: [String; 2],
    _held: UnixListener,
}

impl Buffers {
    fn enlarge() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        // Another run that has done it puts it back.
        let held = hold("dnsdyno-buffers").ok().flatten()?;
        let kept = fs::read_to_string(KEPT).unwrap_or_default();
        let mut kept = kept.lines().map(str::to_owned);
        let before = DEFAULTS.map(|file| {
            let now = fs::read_to_string(file).unwrap_or_default().trim().to_owned();
            // A run that was killed has left its own sizes behind.
            kept.next().filter(|_| now == BUFFER.to_string()).unwrap_or(now)
        });
        fs::write(KEPT, before.join("\n")).ok()?;
        let buffers = Buffers { before, _held: held };
        // Where the kernel refuses (a container), the drop puts back what was changed.
        DEFAULTS.iter().try_for_each(|file| fs::write(file, BUFFER.to_string())).ok()?;
        Some(buffers)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for (file, before) in DEFAULTS.iter().zip(&self.before) {
            // What cannot be put back could not be changed.
            let _ = fs::write(file, before);
        }
        let _ = fs::remove_file(KEPT);
    }
}

/// Size of the receive buffer that sockets of the calling thread's network namespace begin with, in bytes.
pub(crate) fn default_buffer() -> u64 {
    let text = fs::read_to_string(DEFAULTS[0]).unwrap_or_default();
    text.trim().parse().unwrap_or(212_992)
}

/// Keeps idle cores polling while it is held: a core that sleeps takes microseconds to wake, and how long depends on the
/// load before (`/dev/cpu_dma_latency`, Documentation/power/pm_qos_interface.rst).
#[derive(Debug)]
pub(crate) struct IdlePolling {
    _held: fs::File,
}

impl IdlePolling {
    /// Holds it; `None` where it is not allowed.
    pub(crate) fn hold() -> Option<Self> {
        let path: PathBuf = Path::new("/dev/cpu_dma_latency").to_owned();
        let mut file = fs::File::options().write(true).open(path).ok()?;
        std::io::Write::write_all(&mut file, &0_i32.to_ne_bytes()).ok()?;
        Some(IdlePolling { _held: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_held_by_one_run() {
        // No machine has this core.
        let core: CpuList = "1023".parse().expect("a core");
        let first = Reservation::take(&core, Duration::ZERO).expect("free");
        let taken = Reservation::take(&core, Duration::ZERO).expect_err("taken");
        assert_eq!(taken.core, 1023);
        assert!(taken.by.starts_with(&format!("process {}", std::process::id())), "{}", taken.by);
        drop(first);
        assert!(Reservation::take(&core, Duration::ZERO).is_ok());
    }
}
