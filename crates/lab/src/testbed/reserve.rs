//! Reservation of cores against other runs, and socket buffers of the same size for all servers.
//!
//! Two runs on one core disturb each other. Each run binds an abstract socket for each of its cores, which the kernel
//! releases when the process ends for any reason; a second run reports which process holds it.

use std::fs;
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use experiment::settings::Idle;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

use crate::testbed::cpus::CpuList;
use crate::testbed::enter;

/// Time until another attempt to take a core whose holder is about to begin or to end, and cannot
/// be waited for.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// Default size of the socket buffers of all hosts during a run, in bytes; the kernel counts twice that.
pub(crate) const BUFFER: u64 = 4 << 20;
/// File with the sizes from before a run, in case the run cannot restore them.
const SAVED_SIZES: &str = "/run/dnsdyno-buffers";
/// Files with the kernel's sizes for sockets that request none.
const DEFAULTS: [&str; 2] = ["/proc/sys/net/core/rmem_default", "/proc/sys/net/core/wmem_default"];

/// Reserved cores, and enlarged buffers; dropping it releases the cores and restores the sizes.
#[derive(Debug)]
pub struct Reservation {
    _cores: Vec<UnixListener>,
    _buffers: Option<Buffers>,
}

/// Error: another run holds a core.
#[derive(Debug, thiserror::Error)]
#[error(
    "another run measures on core {core} ({by}); wait for it with --wait, or choose other cores with `run --cpus`"
)]
pub struct CoreTaken {
    /// Number of the core that both runs need.
    pub core: usize,
    /// Number and command line of the other run's process.
    pub by: String,
}

impl Reservation {
    /// Reserves `cores`; waits for them at most for `wait`. Inside the lab this does nothing: the
    /// outer process holds them.
    ///
    /// # Errors
    /// `CoreTaken` if another run still holds one of them.
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
                    Err(holder) => {
                        let left = deadline.saturating_duration_since(Instant::now());
                        if left.is_zero() {
                            return Err(CoreTaken { core, by: holder.name });
                        }
                        holder.wait(left);
                    }
                }
            });
        }
        Ok(Reservation { _cores: held, _buffers: Buffers::enlarge() })
    }
}

/// Binds the abstract socket `name`; `None` if the kernel has no abstract sockets.
///
/// # Errors
/// The process that holds the name.
fn hold(name: &str) -> Result<Option<UnixListener>, Holder> {
    let Ok(address) = SocketAddr::from_abstract_name(name) else { return Ok(None) };
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(Some(listener)),
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => Err(Holder::of(&address)),
        Err(_) => Ok(None),
    }
}

/// A process that listens on a socket, with its number and command line.
struct Holder {
    /// A connection that the holder never accepts; the kernel resets it when the holder ends.
    connection: Option<UnixStream>,
    name: String,
}

impl Holder {
    fn of(address: &SocketAddr) -> Self {
        let connection = UnixStream::connect_addr(address).ok();
        let credentials = connection.as_ref().and_then(|c| getsockopt(c, PeerCredentials).ok());
        let name = credentials.map_or("unknown process".to_owned(), |credentials| {
            let pid = credentials.pid();
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            format!("process {pid}: {}", command.trim())
        });
        Holder { connection, name }
    }

    /// Waits until the holder has released the socket, at most for `limit`, which is above zero.
    fn wait(self, limit: Duration) {
        match self.connection {
            Some(mut connection) if connection.set_read_timeout(Some(limit)).is_ok() => {
                // The holder never sends data: reading fails when the holder has ended, or the time
                // is over.
                let _ = connection.read(&mut [0]);
            }
            _ => std::thread::sleep(RETRY_INTERVAL.min(limit)),
        }
    }
}

/// Enlarged default sizes of socket buffers: every server has the same, also one that requests no size. Only root may
/// set them; for other users every server has the kernel's default.
#[derive(Debug)]
struct Buffers {
    before: [String; 2],
    _lock: UnixListener,
}

impl Buffers {
    fn enlarge() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        // If another run has enlarged the sizes, that run restores them.
        let held = hold("dnsdyno-buffers").ok().flatten()?;
        let kept = fs::read_to_string(SAVED_SIZES).unwrap_or_default();
        let mut kept = kept.lines().map(str::to_owned);
        let before = DEFAULTS.map(|file| {
            let now = fs::read_to_string(file).unwrap_or_default().trim().to_owned();
            // A run that was killed could not restore the sizes.
            kept.next().filter(|_| now == BUFFER.to_string()).unwrap_or(now)
        });
        fs::write(SAVED_SIZES, before.join("\n")).ok()?;
        let buffers = Buffers { before, _lock: held };
        // If the kernel refuses a size (in a container), the drop restores the other.
        DEFAULTS.iter().try_for_each(|file| fs::write(file, BUFFER.to_string())).ok()?;
        Some(buffers)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for (file, before) in DEFAULTS.iter().zip(&self.before) {
            // A size that cannot be restored could not be changed.
            let _ = fs::write(file, before);
        }
        let _ = fs::remove_file(SAVED_SIZES);
    }
}

/// Returns the default size of receive buffers in the calling thread's network namespace, in bytes.
pub(crate) fn default_buffer() -> u64 {
    let text = fs::read_to_string(DEFAULTS[0]).unwrap_or_default();
    text.trim().parse().unwrap_or(212_992)
}

/// Keeps idle cores polling until this value is dropped: a sleeping core takes microseconds to
/// wake, a time that depends on the earlier load (`/dev/cpu_dma_latency`,
/// Documentation/power/pm_qos_interface.rst).
#[derive(Debug)]
pub(crate) struct IdlePolling {
    held: fs::File,
}

/// File of the longest time that a core may take to wake.
const WAKE_LATENCY_FILE: &str = "/dev/cpu_dma_latency";
/// File with the kernel's driver of idle states.
const IDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
/// Allowed wake-up latencies in microseconds: 0, so that an idle core polls, and the kernel's
/// default, so that it may sleep.
const NO_TIME: i32 = 0;
const ANY_TIME: i32 = 2_000_000_000;

impl IdlePolling {
    /// Makes idle cores poll; `None` if this process may not do so.
    pub(crate) fn hold() -> Option<Self> {
        let held = fs::File::options().write(true).open(WAKE_LATENCY_FILE).ok()?;
        let polling = IdlePolling { held };
        polling.set(NO_TIME).ok()?;
        Some(polling)
    }

    /// Makes idle cores poll, or sleep as the kernel's driver of idle states decides.
    ///
    /// # Errors
    /// If the kernel refuses it, or has no such driver, in words.
    pub(crate) fn choose(&self, idle: Idle) -> Result<(), String> {
        let driver = fs::read_to_string(IDLE_DRIVER).unwrap_or_default();
        if idle == Idle::Sleep && ["", "none"].contains(&driver.trim()) {
            let why = "this kernel has no driver that chooses idle states";
            return Err(format!("idle cores that sleep: {why} ({IDLE_DRIVER})"));
        }
        let time = if idle == Idle::Sleep { ANY_TIME } else { NO_TIME };
        self.set(time).map_err(|e| format!("idle cores: {WAKE_LATENCY_FILE}: {e}"))
    }

    fn set(&self, microseconds: i32) -> std::io::Result<()> {
        std::io::Write::write_all(&mut &self.held, &microseconds.to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cores_poll_or_sleep() {
        let Some(polling) = IdlePolling::hold() else {
            return skip::because(format_args!("{WAKE_LATENCY_FILE} cannot be opened"));
        };
        let longest = || fs::read(WAKE_LATENCY_FILE).map(|octets| octets.get(..4) == Some(&[0; 4]));
        assert!(longest().unwrap());
        match polling.choose(Idle::Sleep) {
            // Other runs may keep the cores awake.
            Ok(()) => {}
            Err(why) => assert!(why.contains("no driver that chooses idle states"), "{why}"),
        }
        polling.choose(Idle::Poll).unwrap();
        assert!(longest().unwrap());
    }

    #[test]
    fn a_core_is_held_by_one_run() {
        // No machine has this core.
        let core: CpuList = "1023".parse().expect("a core");
        let first = Reservation::take(&core, Duration::ZERO).expect("free");
        let taken = Reservation::take(&core, Duration::ZERO).expect_err("taken");
        assert_eq!(taken.core, 1023);
        assert!(taken.by.starts_with(&format!("process {}", std::process::id())), "{}", taken.by);
        // Whoever waits has it as soon as it is free, and is told when the time is over.
        let short = Reservation::take(&core, Duration::from_millis(1)).expect_err("taken");
        assert_eq!(short.by, taken.by);
        let waits = core.clone();
        let next = std::thread::spawn(move || Reservation::take(&waits, Duration::from_secs(600)));
        drop(first);
        assert!(next.join().expect("no panic").is_ok());
    }
}
