//! A worker and its host in the operating system: cores and their load, timers, open files, own
//! addresses.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;

use measure::Nanos;
use measure::any_address;
use measure::procfs::{CPU_ACCOUNTS, parse_core_run_times, parse_schedstat, parse_usage_by_core};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use nix::unistd::Pid;

/// Returns the time for which the calling thread was ready to run but had no core so far (second
/// field of `/proc/thread-self/schedstat`); `None` if the kernel does not count it.
pub fn thread_run_delay() -> Option<Nanos> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    parse_schedstat(&text).map(|thread| Nanos(thread.delay))
}

/// Time that tasks of any kind ran on each core so far, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreRunTimes {
    /// Time of each core, by its number.
    pub by_core: BTreeMap<usize, u64>,
    /// Whether interrupts during tasks are excluded, as for processes.
    pub exact: bool,
}

impl CoreRunTimes {
    /// Reads the times: exact ones from `cpuacct.usage_percpu` of the first control group (version
    /// 1), others from `/proc/schedstat`. `None` if the kernel does not report them.
    pub fn read() -> Option<Self> {
        let read = |dir: &&str| {
            // Only the first group, which has this file, counts all processes; inside a container another group may be in
            // its place.
            let is_first = Path::new(dir).join("release_agent").exists();
            let usage = || std::fs::read_to_string(Path::new(dir).join("cpuacct.usage_percpu"));
            if is_first { usage().ok() } else { None }
        };
        let (by_core, exact) = match CPU_ACCOUNTS.iter().find_map(read) {
            Some(text) => (parse_usage_by_core(&text), true),
            None => {
                (parse_core_run_times(&std::fs::read_to_string("/proc/schedstat").ok()?), false)
            }
        };
        (!by_core.is_empty()).then_some(CoreRunTimes { by_core, exact })
    }
}

/// Returns whether an address belongs to this host, which then answers from that address by itself.
pub fn is_own_address(address: SocketAddr) -> bool {
    // The source of a datagram to an own address is that address; a bind to a foreign address may succeed too.
    let source = UdpSocket::bind((any_address(address.ip()), 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address.ip())
}

/// Pins the calling thread to `cpus`.
///
/// # Errors
/// When one of them does not exist or is not permitted.
pub fn pin_to_cpus(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("there is no CPU {cpu}"))
        })?;
    }
    sched_setaffinity(Pid::from_raw(0), &set)
        .map_err(|e| io::Error::other(format!("cannot run on CPUs {cpus:?}: {e}")))
}

/// Returns the CPUs on which the calling thread may run.
///
/// # Errors
/// Errors of the kernel.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    allowed_cpus_of(0)
}

/// Returns the CPUs on which a thread may run, by its number; 0 is the calling one.
///
/// # Errors
/// If there is no such thread.
pub fn allowed_cpus_of(thread: u32) -> io::Result<Vec<usize>> {
    let set = nix::sched::sched_getaffinity(Pid::from_raw(thread as i32))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

/// `struct sched_attr` of `sched_setattr(2)`, first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Time slice that a thread prepared for timing requests.
const TIME_SLICE: Nanos = Nanos::from_micros(100);

/// Prepares the calling thread for exact timing: timers fire when they are due (slack of 1 ns instead of 50
/// us), and from Linux 6.12 on a woken thread has a time slice of 100 us, so that it gets the core before
/// threads with long ones (`sched_setattr(2)`, `sched_runtime` of SCHED_OTHER). Settings that the kernel
/// lacks stay unchanged, as do niceness and a real-time policy.
pub fn prepare_for_timing() {
    let _ = nix::sys::prctl::set_timerslack(1);
    let size = size_of::<SchedAttr>() as u32;
    let mut attr = SchedAttr::default();
    // SAFETY: `attr` has room for `size` bytes; pid 0 is the calling thread.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    if got == 0 && attr.policy == libc::SCHED_OTHER as u32 {
        (attr.size, attr.runtime) = (size, TIME_SLICE.0);
        // SAFETY: `attr` is a sched_attr of the stated size; pid 0 is the calling thread; the kernel copies it.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    }
}

/// Gives the calling thread the lowest real-time priority (`SCHED_FIFO` 1): it runs as soon as it
/// wakes, before all threads without one. Returns whether that is permitted (root, or
/// `RLIMIT_RTPRIO`).
pub fn take_core_first() -> bool {
    set_policy(libc::SCHED_FIFO, 1)
}

/// Lets the calling thread, and those that it starts later, run only while no other thread needs
/// their core (`SCHED_IDLE`). Returns whether the kernel did so.
pub fn take_core_last() -> bool {
    set_policy(libc::SCHED_IDLE, 0)
}

/// Sets the scheduling policy of the calling thread, and its priority within it.
fn set_policy(policy: i32, priority: u32) -> bool {
    let size = size_of::<SchedAttr>() as u32;
    let attr = SchedAttr { size, policy: policy as u32, priority, ..SchedAttr::default() };
    // SAFETY: `attr` is a sched_attr of the stated size; pid 0 is the calling thread; the kernel copies it.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) == 0 }
}

/// Sleeps until `at` on `CLOCK_MONOTONIC`.
pub fn sleep_until(at: Nanos) {
    let at = TimeSpec::new((at.0 / 1_000_000_000) as i64, (at.0 % 1_000_000_000) as i64);
    let until = ClockNanosleepFlags::TIMER_ABSTIME;
    // A signal ends the sleep early.
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, until, &at) == Err(nix::errno::Errno::EINTR) {}
}

/// State of this host's clock in the kernel (`CLOCK_REALTIME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockState {
    /// Largest error of the clock, by the program that synchronises it; `None` without one.
    pub error: Option<Nanos>,
    /// Seconds by which the clock is behind TAI; `None` if the kernel does not know.
    pub tai_offset: Option<u32>,
}

/// Asks the kernel for the state of this host's clock (`adjtimex(2)`); where that is not permitted,
/// the state is unknown.
pub fn clock_state() -> ClockState {
    // SAFETY: a timex is plain numbers, for which all zeros are valid.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `timex` lives through the call; without modes nothing is changed.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    let synchronised =
        state >= 0 && state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0;
    let error = u64::try_from(timex.maxerror).ok().filter(|_| synchronised);
    let tai_offset = u32::try_from(timex.tai).ok().filter(|offset| state >= 0 && *offset > 0);
    ClockState { error: error.map(Nanos::from_micros), tai_offset }
}

/// Number of open files that is enough for any load: 2^20, the kernel's own limit (`fs.nr_open`).
const MANY_FILES: u64 = 1 << 20;

/// Raises the limit of open files as far as permitted, for many sockets; root may raise it further.
pub fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let many = hard.max(MANY_FILES);
    if setrlimit(Resource::RLIMIT_NOFILE, many, many).is_err() {
        // If this fails, opening a socket reports it.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Returns the number of files that this process may have open (`RLIMIT_NOFILE`).
pub fn open_files() -> u64 {
    use nix::sys::resource::{Resource, getrlimit};
    // Assume the default limit if the kernel does not report it.
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1_024, |(soft, _)| soft)
}

/// Gives the calling thread its own table of open files, a copy of the process's, since the limit
/// of open files is per table. Files that other threads open later are not in it, and the reverse.
///
/// # Errors
/// Errors of the kernel.
pub fn own_open_files() -> io::Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_FILES).map_err(io::Error::from)
}

/// Sets a socket option: an integer, or a struct.
pub(crate) fn set_option<T>(
    socket: &impl AsRawFd,
    level: i32,
    option: i32,
    value: T,
) -> io::Result<()> {
    // SAFETY: the option's value lives through the call and is of the stated size; the kernel
    // copies it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use engine::clock;

    use super::*;

    #[test]
    fn own_addresses_are_told_from_others() {
        for (address, own) in [("127.0.0.1:53", true), ("192.0.2.1:53", false)] {
            assert_eq!(is_own_address(address.parse().expect("an address")), own, "{address}");
        }
    }

    #[test]
    fn the_clock_has_a_state() {
        let state = clock_state();
        assert!(state.tai_offset.is_none_or(|offset| (10..100).contains(&offset)), "{state:?}");
        assert!(state.error.is_none_or(|error| error <= Nanos::from_secs(16)), "{state:?}");
    }

    #[test]
    fn cores_run_tasks() {
        if let Some(times) = CoreRunTimes::read() {
            assert!(times.by_core.values().sum::<u64>() > 0);
        }
    }

    #[test]
    fn threads_are_pinned_to_existing_cpus_only() {
        std::thread::spawn(|| {
            let first = allowed_cpus().expect("readable")[0];
            pin_to_cpus(&[first]).expect("an allowed CPU");
            assert_eq!(allowed_cpus().expect("readable"), [first]);
            assert!(pin_to_cpus(&[1_000_000]).is_err());
            prepare_for_timing();
            assert_eq!(nix::sys::prctl::get_timerslack().expect("readable"), 1);
            assert!(thread_run_delay().is_none_or(|delay| delay < clock::monotonic()));
            let at = clock::monotonic() + Nanos::from_micros(500);
            take_core_first();
            sleep_until(at);
            assert!(clock::monotonic() >= at);
        })
        .join()
        .expect("no panic");
    }
}
