//! The way into the lab: the program executes itself again inside fresh namespaces.
//!
//! ```text
//!   dnsdyno run ...                       outer: unshare, start, forward signals, wait, exit code
//!     └─ /proc/self/exe run ...           inner: first process of a new pid namespace, the lab
//!          ├─ servers, AuthDNS, Measurer  killed by the kernel when the inner process ends
//! ```
//!
//! Why two processes: `unshare(CLONE_NEWPID)` moves only *children* to the new pid namespace, and
//! `unshare(CLONE_NEWUSER)` is refused to a process with threads. The first process of a pid
//! namespace takes everything in it along when it ends, and it asks the kernel to be killed
//! when the outer one dies (`PR_SET_PDEATHSIG`), so that even SIGKILL of the outer process leaves
//! nothing: no process, and, since the network namespaces have no names, no namespace and no link.

use std::collections::BTreeMap;
use std::env::VarError;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getegid, geteuid, getpid, pipe2};
use serde::{Deserialize, Serialize};
use signal_hook::consts::signal::SIGCHLD;
use signal_hook::iterator::Signals;

use crate::testbed::core_speed::FullSpeed;
use crate::testbed::cpus::CpuList;

/// Environment variable of the inner process: what the outer one hands to it, as JSON.
const INSIDE: &str = "DNSDYNO_LAB";
/// Name of the pipes to agents on other hosts and to a job of Testers, which are handed to the inner process.
pub(crate) const LINES: &str = "remote";
/// Name of the experiment's files that the outer process has read.
pub(crate) const INPUTS: &str = "inputs";
/// Environment variable of a run that was started by a rank of a job: the pipes to that job, and the number of its Testers.
pub(crate) const GIVEN_JOB: &str = "DNSDYNO_JOB";

/// Returns the numbers of the signals that end a command cleanly: SIGINT, SIGTERM, and SIGHUP unless the caller of this process
/// ignores it (nohup).
pub fn ending_signals() -> Vec<i32> {
    clean_end_signals().into_iter().map(|signal| signal as i32).collect()
}

/// Returns the signals that end a run cleanly. SIGINT does also where it is ignored: scripts start background processes so, and end
/// them with `kill -INT`, as dnsperf and kxdpgun allow.
fn clean_end_signals() -> Vec<Signal> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut signals = vec![Signal::SIGINT, Signal::SIGTERM];
    signals.extend(Some(Signal::SIGHUP).filter(|signal| !is_ignored(&status, *signal)));
    signals
}

/// Returns whether a process ignores a signal, from its `/proc/PID/status`.
fn is_ignored(status: &str, signal: Signal) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal as i32 - 1)) != 0
}

/// Side of the re-execution on which the caller is.
#[derive(Debug)]
pub enum Entered {
    /// The caller is inside the lab and continues.
    Inside(Lab),
    /// The inner process has ended; the caller exits with this code.
    Outside(u8),
}

/// The inside of the lab's namespaces; proof that [`enter`] succeeded.
#[derive(Clone, Debug)]
pub struct Lab {
    interrupted: Arc<AtomicBool>,
    privileged: bool,
    allowed: CpuList,
    // The `/proc` of the outer process, which shows the host's kernel threads.
    host_proc: Arc<File>,
    full_speed: FullSpeed,
}

impl Lab {
    /// Returns the flag that SIGINT, SIGTERM and SIGHUP set: a run then ends cleanly and keeps its results.
    pub fn interrupted(&self) -> &Arc<AtomicBool> {
        &self.interrupted
    }

    /// Returns the cores that the lab may use for its hosts.
    pub fn allowed_cpus(&self) -> &CpuList {
        &self.allowed
    }

    /// Returns the path of a `/proc` with the processes outside of the lab, which include the kernel's threads unless
    /// this is a container.
    pub(crate) fn host_proc(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.host_proc.as_raw_fd()).into()
    }

    /// Returns the full speed of the server's cores.
    pub(crate) fn full_speed(&self) -> &FullSpeed {
        &self.full_speed
    }

    /// Returns whether the lab runs as the real root, not as the root of its own user namespace.
    pub fn privileged(&self) -> bool {
        self.privileged
    }
}

/// Reason why an ordinary user cannot load programs into the kernel.
pub(crate) const NOT_ROOT: &str = "programs in the kernel need root of this machine, or CAP_BPF and CAP_NET_ADMIN outside of any user \
                                   namespace (docs/kernel.md)";

/// Error while entering the lab.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// The kernel refuses namespaces to this user.
    #[error("the lab cannot get its namespaces: {source}\n  {remedy}")]
    Namespaces {
        /// Error with which the kernel refused them.
        source: io::Error,
        /// Command or setting that helps.
        remedy: String,
    },
    /// The user or group of the new user namespace could not be mapped.
    #[error("the lab cannot map its user ({path}): {source}\n  {remedy}")]
    Map {
        /// The file of `/proc` that was written.
        path: &'static str,
        /// Error with which the kernel refused the map.
        source: io::Error,
        /// Command or setting that helps.
        remedy: String,
    },
    /// A mount inside the lab failed.
    #[error(
        "the lab cannot mount its own {what}: {source}\n  \
         in a container, run it with the whole of /proc visible (podman: --security-opt unmask=ALL, \
         docker: --security-opt systempaths=unconfined) or as root on the host; in a chroot, make its folder a mount point first \
         (mount --bind DIR DIR)"
    )]
    Mount {
        /// File system that was mounted.
        what: &'static str,
        /// Error with which the kernel refused the mount.
        source: io::Error,
    },
    /// The program could not be executed again, or the way between the two processes failed.
    #[error("the lab cannot {0}: {1}")]
    Start(&'static str, #[source] io::Error),
    /// The variable of the inner process is set, but this process is not one.
    #[error("{INSIDE} is set, but this process was not started by the lab: unset it")]
    NotInside,
}

/// Enters the lab: in the outer process returns when the inner one has ended, in the inner one at once.
///
/// Must be the first thing a command does: the process may have no other threads yet.
///
/// # Errors
/// If the kernel forbids it; the message names the setting.
pub fn enter() -> Result<Entered, EnterError> {
    enter_with(&[], LabNetwork::Own)
}

/// Network of the lab's first process; its hosts have their own in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabNetwork {
    /// A network without a connection to others.
    Own,
    /// The network of the calling process, for servers at addresses that the user has named.
    Outside,
}

/// Enters the lab with the given network. The values `handed` to the inner process have names, by
/// which [`handed`] returns them there.
///
/// # Errors
/// If the kernel refuses it; the message names the setting.
pub fn enter_with(handed: &[(&str, String)], network: LabNetwork) -> Result<Entered, EnterError> {
    match std::env::var(INSIDE) {
        Err(VarError::NotPresent) => outer(handed, network).map(Entered::Outside),
        Ok(text) => {
            let given = serde_json::from_str(&text).map_err(|_| EnterError::NotInside);
            run_inner(given?).map(Entered::Inside)
        }
        Err(VarError::NotUnicode(_)) => Err(EnterError::NotInside),
    }
}

/// Values that the outer process hands to the inner one.
#[derive(Serialize, Deserialize)]
struct HandedValues {
    /// Descriptor that closes when the outer process ends.
    parent_fd: i32,
    /// Further values that commands hand over, by name.
    named: BTreeMap<String, String>,
}

/// Returns the value with a name that the outer process has handed to this one; `None` in the outer
/// process.
pub fn handed(name: &str) -> Option<String> {
    let handed: HandedValues = serde_json::from_str(&std::env::var(INSIDE).ok()?).ok()?;
    handed.named.get(name).cloned()
}

/// Returns whether this process is the inner one.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Returns the path of this program for its re-execution, so that lists of processes show its name;
/// `/proc/self/exe` if another file has replaced it.
pub(crate) fn program() -> PathBuf {
    let itself = PathBuf::from("/proc/self/exe");
    let same = |path: &PathBuf| {
        let place = |m: fs::Metadata| (m.dev(), m.ino());
        fs::metadata(path).map(place).ok() == fs::metadata(&itself).map(place).ok()
    };
    fs::read_link(&itself).ok().filter(same).unwrap_or(itself)
}

/// Removes the variables of the inner process from a child's environment, so that a child can enter a lab itself.
pub(crate) fn hide_from(command: &mut Command) -> &mut Command {
    command.env_remove(INSIDE).env_remove(GIVEN_JOB)
}

fn outer(handed: &[(&str, String)], network: LabNetwork) -> Result<u8, EnterError> {
    let failed = |what| move |e: Errno| EnterError::Start(what, e.into());
    // Signals are handled before anything is unshared, so that each one is forwarded.
    let polite = clean_end_signals();
    let numbers = polite.iter().map(|signal| *signal as i32).chain([SIGCHLD]);
    let mut signals =
        Signals::new(numbers).map_err(|source| EnterError::Start("handle signals", source))?;
    // Where the root is no mount point (chroot), the path of a program of the old mount namespace
    // is its path outside of the root.
    let program = program();
    separate(network)?;
    // The inner process sees the end of this pipe when this process ends for any reason.
    let (theirs, ours) = pipe2(OFlag::O_CLOEXEC).map_err(failed("make a pipe"))?;
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty())).map_err(failed("make a pipe"))?;
    // Blocked signals stay pending for the inner process until it has its handlers; the first process
    // of a pid namespace would lose them otherwise.
    let blocked = SigSet::from_iter(polite);
    blocked.thread_block().map_err(failed("block signals"))?;
    let named = handed.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let given = serde_json::to_string(&HandedValues { parent_fd: theirs.as_raw_fd(), named });
    let given = given.map_err(|e| EnterError::Start("hand over", e.into()))?;
    let child = Command::new(program)
        .arg0(std::env::args_os().next().unwrap_or_else(|| "dnsdyno".into()))
        .args(std::env::args_os().skip(1))
        .env(INSIDE, given)
        .spawn()
        .map_err(|source| EnterError::Start("execute itself again", source));
    blocked.thread_unblock().map_err(failed("unblock signals"))?;
    drop(theirs);
    let code = wait_for(child?, &mut signals)?;
    drop(ours);
    Ok(code)
}

/// Waits for the inner process and forwards signals to it. Returns its exit code.
fn wait_for(mut child: Child, signals: &mut Signals) -> Result<u8, EnterError> {
    let waiting = |source| EnterError::Start("wait for its inner process", source);
    let pid = Pid::from_raw(child.id() as i32);
    loop {
        if let Some(status) = child.try_wait().map_err(waiting)? {
            return Ok(exit_code(status));
        }
        for signal in signals.wait() {
            if let Ok(signal) = Signal::try_from(signal)
                && signal != Signal::SIGCHLD
            {
                // The child was not waited for yet, so that its number is still valid.
                let _ = nix::sys::signal::kill(pid, signal);
            }
        }
    }
}

/// Returns the exit code as a shell reports it: 128 plus the signal's number for a killed process.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

/// Moves this process to new namespaces: directly as root, otherwise through a user namespace.
fn separate(network: LabNetwork) -> Result<(), EnterError> {
    let mut plain = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    plain.set(CloneFlags::CLONE_NEWNET, network == LabNetwork::Own);
    let refused =
        |e: Errno| EnterError::Namespaces { source: e.into(), remedy: remedy(e, &read_setting) };
    if geteuid().is_root() {
        match unshare(plain) {
            // Root of a container without CAP_SYS_ADMIN is treated as an ordinary user.
            Err(Errno::EPERM) => {}
            other => return other.map_err(refused),
        }
    }
    let (user, group) = (geteuid(), getegid());
    unshare(plain | CloneFlags::CLONE_NEWUSER).map_err(refused)?;
    // To be root inside, since a program that is executed keeps capabilities only as root; setgroups
    // must be given up before an ordinary user may map a group (user_namespaces(7)).
    for (path, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ] {
        fs::write(path, text).map_err(|source| EnterError::Map {
            path,
            remedy: remedy(Errno::EPERM, &read_setting),
            source,
        })?;
    }
    Ok(())
}

/// Kernel settings that refuse namespaces to ordinary users: name, refusing value, and command to change it.
const SETTINGS: [(&str, &str, &str); 4] = [
    ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("user/max_net_namespaces", "0", "sysctl -w user.max_net_namespaces=15000"),
];

fn read_setting(path: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{path}")).ok()
}

/// Returns advice about a refusal: the setting that causes it if one is found, otherwise all candidates.
fn remedy(error: Errno, read: &dyn Fn(&str) -> Option<String>) -> String {
    let guilty: Vec<&str> = SETTINGS
        .iter()
        .filter(|(path, forbids, _)| read(path).is_some_and(|value| value.trim() == *forbids))
        .map(|(_, _, cure)| *cure)
        .collect();
    if error == Errno::EINVAL {
        return "it must be entered before any thread is started".to_owned();
    }
    if !guilty.is_empty() {
        return format!("as root: {}; or run dnsdyno as root", guilty.join(" and "));
    }
    "run dnsdyno as root, or let users make namespaces: look at user.max_user_namespaces, \
     kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns (sysctl), and, \
     in a container, at its seccomp profile"
        .to_owned()
}

fn run_inner(given: HandedValues) -> Result<Lab, EnterError> {
    if getpid() != Pid::from_raw(1) {
        return Err(EnterError::NotInside);
    }
    die_with(given.parent_fd)?;
    let mounted = |what| move |e: Errno| EnterError::Mount { what, source: e.into() };
    let none = None::<&str>;
    // Mounts here are invisible outside, and later mounts outside are invisible here.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(mounted("mount tree"))?;
    let host_proc =
        File::open("/proc").map_err(|source| EnterError::Start("read its outer /proc", source))?;
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), plain, none).map_err(mounted("/proc"))?;
    let interrupted = Arc::new(AtomicBool::new(false));
    let polite = clean_end_signals();
    for signal in &polite {
        signal_hook::flag::register(*signal as i32, Arc::clone(&interrupted))
            .map_err(|source| EnterError::Start("handle signals", source))?;
    }
    SigSet::from_iter(polite)
        .thread_unblock()
        .map_err(|e| EnterError::Start("unblock signals", e.into()))?;
    let (privileged, allowed) = (is_privileged(), CpuList::allowed());
    let host_proc = Arc::new(host_proc);
    Ok(Lab { interrupted, privileged, allowed, host_proc, full_speed: FullSpeed::default() })
}

/// Makes the kernel kill this process when the outer one ends, and checks that the outer one still runs.
fn die_with(parent_fd: i32) -> Result<(), EnterError> {
    let failed = |source: io::Error| EnterError::Start("watch its outer process", source);
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|e| failed(e.into()))?;
    // getppid() returns 0 in the first process of a pid namespace, also after the end of its parent. So the state of
    // the pipe is read: its only writer is the outer process. It is opened again, since the inherited descriptor is a
    // bare number; non-blocking, since opening would wait for a writer.
    let pipe = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(format!("/proc/self/fd/{parent_fd}"))
        .map_err(|_| EnterError::NotInside)?;
    use std::os::fd::AsFd;
    let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).map_err(|e| failed(e.into()))?;
    if fds[0].revents().is_some_and(|seen| seen.contains(PollFlags::POLLHUP)) {
        return Err(failed(io::Error::other("the outer process has ended")));
    }
    Ok(())
}

/// Returns whether a lab is run, or would be, by the machine's superuser, in no user namespace.
pub fn is_privileged() -> bool {
    let in_initial = fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]));
    in_initial && geteuid().is_root() && may_administer()
}

/// Returns whether this process has CAP_SYS_ADMIN, which root of a container may lack.
fn may_administer() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let all = of.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    all.is_some_and(|all| all >> 21 & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_setting() {
        type Settings = &'static [(&'static str, &'static str)];
        let table: [(Settings, Errno, &str); 6] = [
            (
                &[("user/max_user_namespaces", "0\n")],
                Errno::ENOSPC,
                "user.max_user_namespaces=15000",
            ),
            (
                &[("user/max_user_namespaces", "9\n"), ("kernel/unprivileged_userns_clone", "0\n")],
                Errno::EPERM,
                "kernel.unprivileged_userns_clone=1",
            ),
            (
                &[("kernel/apparmor_restrict_unprivileged_userns", "1\n")],
                Errno::EACCES,
                "apparmor_restrict_unprivileged_userns=0",
            ),
            (&[("user/max_net_namespaces", "0\n")], Errno::ENOSPC, "user.max_net_namespaces"),
            (&[], Errno::EPERM, "seccomp"),
            (&[], Errno::EINVAL, "before any thread"),
        ];
        for (settings, error, wanted) in table {
            let read = |path: &str| {
                settings.iter().find(|(p, _)| *p == path).map(|(_, value)| (*value).to_owned())
            };
            let text = remedy(error, &read);
            assert!(text.contains(wanted), "{text}");
        }
    }

    #[test]
    fn ignored_signals_are_known() {
        let status = "Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(status, Signal::SIGHUP) && !is_ignored(status, Signal::SIGINT));
        assert!(!is_ignored("", Signal::SIGHUP));
    }

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(exit_code(ExitStatus::from_raw(2 << 8)), 2);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }
}
