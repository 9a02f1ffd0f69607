//! Link modes of the testbed: the settings of the devices for each [`Link`] and [`Path`].
//!
//! | setting of each end | plain | moderated | steered |
//! |---|---|---|---|
//! | `rps_cpus` | none | none | the host's cores |
//! | `rx-gro` | off | on: the end receives through NAPI | off |
//! | `tx-tcp-*segmentation` | on | off: veth bypasses NAPI otherwise | on |
//! | `napi_defer_hard_irqs` | 0 | 200,000,000: the timer polls, for hours | 0 |
//! | `gro_flush_timeout` | 0 | 50 us between polls | 0 |
//!
//! `rx-gro` is on at all ends, of any kind of link, while programs in the kernel send the queries: their frames reach a host
//! through NAPI only. Packets of sockets still take the way of the kind of link.
//!
//! `tx-udp-segmentation` is off on a wire-like path, and on if messages cross whole (`host-offload`).
//!
//! The timer of a moderated end polls on the core where the end last received. So each end is *seated*: a thread on
//! the receiving host's core sends one packet to it. Idle ends then poll on their core 20,000 times a second; the
//! counts in `/proc/softirqs` confirm the seats.

use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path as FilePath, PathBuf};
use std::time::{Duration, Instant};

use measure::{Link, Path};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::sched_setaffinity;
use nix::unistd::Pid;

use crate::testbed::cpus::CpuList;
use crate::testbed::features::{self, RX_GRO, TX_TCP_SEGMENTATION, TX_UDP_SEGMENTATION};
use crate::testbed::procfs;
use crate::testbed::{Host, LINKS, Testbed, address_v4};

/// Time between two polls of a moderated end, in nanoseconds.
const POLL_NS: u64 = 50_000;
/// Number of polls without an interrupt: three hours of them.
const DEFERRED_POLLS: &str = "200000000";
/// Port of the packets that seat an end (RFC 863, discard).
const DISCARD_PORT: u16 = 9;
/// Time within which an end must poll on its seat alone.
const SEATED_WITHIN: Duration = Duration::from_millis(500);
/// Time for which polls are counted to check the seats.
const COUNT_TIME: Duration = Duration::from_millis(20);

/// Makes every link of `testbed` one of kind `link`, whose datagrams go by `path`.
///
/// # Errors
/// If the kernel refuses a setting, with the host; the links are then in a mixed state, and the caller must set
/// `plain`.
pub(crate) fn apply(
    testbed: &Testbed,
    link: Link,
    path: Path,
    dir: &FilePath,
) -> Result<(), String> {
    let moderated = link == Link::Moderated;
    let mut wanted = vec![
        (TX_UDP_SEGMENTATION, path == Path::HostOffload),
        (RX_GRO, moderated || testbed.receives_frames()),
    ];
    wanted.extend(TX_TCP_SEGMENTATION.map(|name| (name, !moderated)));
    set_offloads(testbed, &wanted)?;
    let (deferred, timeout) =
        if moderated { (DEFERRED_POLLS, POLL_NS.to_string()) } else { ("0", "0".to_owned()) };
    for host in Host::ALL {
        let steered = link == Link::Steered;
        let mask = if steered { testbed.cpus(host).mask() } else { "0".to_owned() };
        each_link(testbed, host, dir, |link| {
            write_if_changed(&link.join("napi_defer_hard_irqs"), deferred)?;
            write_if_changed(&link.join("gro_flush_timeout"), &timeout)?;
            steer(link, &mask)
        })
        .map_err(|e| format!("{}: {e}", host.name()))?;
    }
    if moderated { poll_on_first_cores(testbed) } else { Ok(()) }
}

/// Makes every end receive through NAPI, which frames of programs need (docs/testbed.md), or not.
///
/// # Errors
/// The error of the kernel, with the host.
pub(crate) fn receive_frames(testbed: &Testbed, on: bool) -> Result<(), String> {
    set_offloads(testbed, &[(RX_GRO, on)])
}

/// Switches offloads of every end.
fn set_offloads(testbed: &Testbed, wanted: &[(&str, bool)]) -> Result<(), String> {
    for host in Host::ALL {
        let set = || {
            let others = Host::ALL.into_iter().filter(|other| *other != host);
            others.map(Host::interface).try_for_each(|device| features::set(&device, wanted))
        };
        let set = testbed.namespace(host).run(set).and_then(|done| done);
        set.map_err(|e| format!("offloads of the links of {}: {e}", host.name()))?;
    }
    Ok(())
}

/// Makes every link receive in a kernel thread of its own, or not.
///
/// # Errors
/// The error of the kernel, with the host.
pub(crate) fn thread_napi(testbed: &Testbed, on: bool, dir: &FilePath) -> Result<(), String> {
    let value = if on { "1" } else { "0" };
    for host in Host::ALL {
        each_link(testbed, host, dir, |link| fs::write(link.join("threaded"), value))
            .map_err(|e| format!("links cannot receive in threads ({}): {e}", host.name()))?;
    }
    Ok(())
}

/// Moves the polling of every end to the first core of its host, and checks that it is there.
fn poll_on_first_cores(testbed: &Testbed) -> Result<(), String> {
    for (first, second) in LINKS {
        for (sender, receiver) in [(first, second), (second, first)] {
            let core = testbed.cpus(receiver).cpus()[0];
            let sent = testbed.namespace(sender).run(|| send_from(core, sender, receiver));
            sent.and_then(|done| done).map_err(|e| {
                format!(
                    "cannot move the polling of the link of {} to its core: {e}",
                    receiver.name()
                )
            })?;
        }
    }
    check_seats(testbed)
}

/// Sends one packet to `receiver` from a thread on `core`.
fn send_from(core: usize, sender: Host, receiver: Host) -> io::Result<()> {
    let set = CpuList::new([core]).and_then(|core| core.to_set());
    let set = set.ok_or_else(|| io::Error::other(format!("there is no core {core}")))?;
    sched_setaffinity(Pid::from_raw(0), &set)?;
    let socket = UdpSocket::bind((address_v4(sender, receiver), 0))?;
    socket.send_to(&[0], SocketAddr::from((address_v4(receiver, sender), DISCARD_PORT)))?;
    Ok(())
}

/// Checks by the counts of software interrupts that every end polls on its host's core.
///
/// # Errors
/// Names the core, its number of polls, and the expected number.
pub(crate) fn check_seats(testbed: &Testbed) -> Result<(), String> {
    let deadline = Instant::now() + SEATED_WITHIN;
    loop {
        let before = procfs::receive_softirqs();
        let began = Instant::now();
        std::thread::sleep(COUNT_TIME);
        let polls = began.elapsed().as_nanos() as f64 / POLL_NS as f64;
        let after = procfs::receive_softirqs();
        let wrong = testbed.cpu_plan().all().into_iter().find_map(|core| {
            let ends = Host::ALL.iter().filter(|host| testbed.cpus(**host).cpus()[0] == core);
            // Each host has an end of two links. Two ends on one core share some software interrupts.
            let ends = 2 * ends.count();
            let count = |counts: &[u64]| counts.get(core).copied().unwrap_or(0);
            let counted = count(&after).saturating_sub(count(&before)) as f64;
            let seated = if ends == 0 { counted < polls / 2.0 } else { counted > polls / 4.0 };
            (!seated).then(|| {
                format!(
                    "core {core} polled {counted:.0} times for {ends} ends of links: another core handles some of them"
                )
            })
        });
        match wrong {
            None => return Ok(()),
            Some(why) if Instant::now() > deadline => return Err(why),
            Some(_) => {}
        }
    }
}

/// Sets the mask of every receive queue of a link.
fn steer(link: &FilePath, mask: &str) -> io::Result<()> {
    for queue in fs::read_dir(link.join("queues"))? {
        let queue = queue?;
        if queue.file_name().to_string_lossy().starts_with("rx-") {
            write_if_changed(&queue.path().join("rps_cpus"), mask)?;
        }
    }
    Ok(())
}

/// Writes a setting unless it already has that value: only root may write it.
fn write_if_changed(file: &FilePath, value: &str) -> io::Result<()> {
    let explain = |e: io::Error| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        io::Error::new(e.kind(), format!("set {name} to {value}: {e}"))
    };
    let number = |text: &str| text.trim().replace(',', "").trim_start_matches('0').to_owned();
    let old = fs::read_to_string(file).map_err(explain)?;
    if number(&old) == number(value) { Ok(()) } else { fs::write(file, value).map_err(explain) }
}

/// Calls `work` with the sysfs folder of each link of `host`.
fn each_link(
    testbed: &Testbed,
    host: Host,
    dir: &FilePath,
    work: impl Fn(&FilePath) -> io::Result<()> + Send + Sync,
) -> io::Result<()> {
    let mount_point = dir.join(format!("sys-{}", host.name()));
    let work = |sys: &FilePath| links_of(sys)?.iter().try_for_each(|link| work(link));
    testbed.namespace(host).run(|| with_sysfs(&mount_point, work)).and_then(|done| done)
}

/// Calls `work` with a sysfs of the calling thread's network namespace.
fn with_sysfs(at: &FilePath, work: impl FnOnce(&FilePath) -> io::Result<()>) -> io::Result<()> {
    let explain = |what: &str, e: io::Error| io::Error::new(e.kind(), format!("{what}: {e}"));
    fs::create_dir_all(at)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("sysfs"), at, Some("sysfs"), flags, None::<&str>)
        .map_err(|e| explain("mount sysfs", e.into()))?;
    let done = work(at);
    // The lazy detach also works while the mount is in use; it ends with the mount namespace anyway.
    let _ = umount2(at, MntFlags::MNT_DETACH);
    done
}

/// Returns the folders of the testbed's links in a sysfs.
fn links_of(sys: &FilePath) -> io::Result<Vec<PathBuf>> {
    let mut links = Vec::new();
    for link in fs::read_dir(sys.join("class/net"))? {
        let link = link?;
        if link.file_name().to_string_lossy().starts_with("to-") {
            links.push(link.path());
        }
    }
    Ok(links)
}
