//! Programs that stay on a device after the end of their process, and those that processes have left at their end.
//!
//! A program that is attached by a link of BPF ([`Loaded::attach`](crate::program::Loaded::attach))
//! is detached with its process. One that is attached over netlink stays until another one takes
//! its place, or is removed by hand (`ip link set DEVICE xdp off`). Whether its process lives is
//! told by a second program, which is attached nowhere and goes with the process however that ends.
//! A map that both have shows that they belong together; nobody else can have it, so that no other
//! user can pretend to live.
//!
//! ```text
//!   process ──┬──> program on a device ──┐
//!             └──> dns64d_alive ─────────┴──> map "config"
//! ```

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aya::maps::{Map, MapData, MapInfo};
use aya::programs::{ProgramFd, ProgramInfo, loaded_programs};
use udp::netlink::{ACK, DUMP, GET_LINK, SET_LINK, ask, attribute, link, nested, number, value};

use crate::program::XdpMode;

/// Names of the programs that may stay.
const NAMES: [&[u8]; 2] = [b"dns64d_cache", b"dns64d_resolver"];
/// Name of the program that exists as long as its process.
pub(crate) const ALIVE: &str = "dns64d_alive";
/// Flags of an attachment (linux/if_link.h): only if there is no program, in the generic or the native mode, in place of an expected
/// one.
const IF_NONE: u32 = 1;
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;
const REPLACE: u32 = 1 << 4;
/// The attribute of a link with its program, and the attributes inside (linux/if_link.h).
const XDP: u16 = 43;
const XDP_FD: u16 = 1;
const XDP_ATTACHED: u16 = 2;
const XDP_FLAGS: u16 = 3;
const XDP_PROGRAM: u16 = 4;
const XDP_EXPECTED: u16 = 8;
/// Value of `XDP_ATTACHED` in the generic mode (`XDP_ATTACHED_SKB`).
const ATTACHED_GENERIC: u8 = 2;
/// File descriptor that means no program.
const NO_PROGRAM: i32 = -1;
/// CAP_SYS_ADMIN, as a bit of the rights of a process (linux/capability.h).
const SYS_ADMIN: u64 = 1 << 21;

/// The number of a program on a device, and the number of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnDevice {
    pub(crate) device: u32,
    mode: XdpMode,
    pub(crate) id: u32,
}

/// A program that an ended process has left on a device.
pub(crate) struct LeftProgram {
    pub(crate) device: u32,
    mode: XdpMode,
    program: ProgramFd,
    /// Numbers of the maps that the program uses.
    maps: Vec<u32>,
}

impl LeftProgram {
    /// Removes the program from its device.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove(self.device, self.mode, &self.program)
    }

    /// Returns one of its maps; `None` if it has none of this name, or the user may not open it.
    pub(crate) fn map(&self, name: &str) -> Option<Map> {
        let has_name = |id: &&u32| {
            let info = MapInfo::from_id(**id);
            info.is_ok_and(|info| info.name() == name.as_bytes())
        };
        let id = self.maps.iter().find(has_name)?;
        Map::from_map_data(MapData::from_id(*id).ok()?).ok()
    }
}

/// Attaches a program so that it stays, in place of one that an ended process has left.
///
/// # Errors
/// If the device does not have this mode, or has another program.
pub(crate) fn attach(device: u32, mode: XdpMode, program: &ProgramFd) -> io::Result<()> {
    let (left, others): (Vec<LeftProgram>, _) =
        left(&on_devices(Some(device))?).into_iter().partition(|left| left.mode == mode);
    // A device does not have programs in both modes.
    others.iter().try_for_each(LeftProgram::remove)?;
    let expected = left.first().map(|left| left.program.as_fd());
    set(device, mode, Some(program.as_fd()), expected)
}

/// Removes a program that an ended process has left on a device, if there is one.
///
/// # Errors
/// If the kernel refuses it.
pub(crate) fn clear(device: u32) -> io::Result<()> {
    left(&on_devices(Some(device))?).iter().try_for_each(LeftProgram::remove)
}

/// Removes a program from a device.
///
/// # Errors
/// If the kernel refuses it, or the device has another program.
pub(crate) fn remove(device: u32, mode: XdpMode, program: &ProgramFd) -> io::Result<()> {
    set(device, mode, None, Some(program.as_fd()))
}

/// Returns the programs on a device, or on all devices of this network namespace.
///
/// # Errors
/// If the kernel does not report them.
pub(crate) fn on_devices(device: Option<u32>) -> io::Result<Vec<OnDevice>> {
    let flags = if device.is_some() { 0 } else { DUMP };
    let mut found = Vec::new();
    ask(GET_LINK, flags, link(device.unwrap_or(0)), &[], |head, attributes| {
        let Some(parts) = value(attributes, XDP) else { return };
        let is_generic = value(parts, XDP_ATTACHED) == Some(&[ATTACHED_GENERIC]);
        let mode = if is_generic { XdpMode::Generic } else { XdpMode::Native };
        let id = value(parts, XDP_PROGRAM).and_then(number);
        let device = number(&head[4..8]).unwrap_or_default();
        found.extend(id.map(|id| OnDevice { device, mode, id }));
    })?;
    Ok(found)
}

/// Returns the programs on devices whose processes have ended. Only root can look them up; other
/// users get none.
pub(crate) fn left(on_devices: &[OnDevice]) -> Vec<LeftProgram> {
    if on_devices.is_empty() {
        return Vec::new();
    }
    // A process loads the program that shows its life before it attaches the other one: all that live are among these.
    let loaded: Vec<ProgramInfo> = loaded_programs().filter_map(Result::ok).collect();
    let signs = loaded.iter().filter(|program| program.name() == ALIVE.as_bytes());
    let living: BTreeSet<u32> = signs.flat_map(|sign| maps_of(sign).unwrap_or_default()).collect();
    let left = |at: &OnDevice| {
        let program = loaded.iter().find(|p| p.id() == at.id && NAMES.contains(&p.name()))?;
        let maps = maps_of(program)?;
        let has_ended = maps.iter().all(|map| !living.contains(map));
        let program = program.fd().ok().filter(|_| has_ended)?;
        Some(LeftProgram { device: at.device, mode: at.mode, program, maps })
    };
    on_devices.iter().filter_map(left).collect()
}

/// Returns the numbers of a program's maps; `None` if the program was removed.
fn maps_of(program: &ProgramInfo) -> Option<Vec<u32>> {
    program.map_ids().ok().flatten()
}

/// Returns whether this user may look up programs, of which there is one at least.
pub(crate) fn may_look_up() -> bool {
    matches!(loaded_programs().next(), Some(Ok(_)))
}

/// Returns whether this process has the right to look up programs, without trying: a sandbox may end a process that tries.
pub(crate) fn has_right() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    has_sys_admin(&status)
}

/// Returns whether a process with this `/proc/PID/status` has CAP_SYS_ADMIN.
fn has_sys_admin(status: &str) -> bool {
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = rights.and_then(|rights| u64::from_str_radix(rights.trim(), 16).ok());
    rights.is_some_and(|rights| rights & SYS_ADMIN != 0)
}

/// Attaches `new` in place of `old`; `None` means no program.
fn set(
    device: u32,
    mode: XdpMode,
    program: Option<BorrowedFd<'_>>,
    expected: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let fd = program.map_or(NO_PROGRAM, |fd| fd.as_raw_fd());
    let mut parts = attribute(XDP_FD, &fd.to_ne_bytes());
    let flags = match expected {
        Some(fd) => {
            parts.extend(attribute(XDP_EXPECTED, &fd.as_raw_fd().to_ne_bytes()));
            REPLACE
        }
        None => IF_NONE,
    };
    let mode = match mode {
        XdpMode::Native => NATIVE,
        XdpMode::Generic => GENERIC,
    };
    parts.extend(attribute(XDP_FLAGS, &(mode | flags).to_ne_bytes()));
    ask(SET_LINK, ACK, link(device), &nested(XDP, &parts), |_, _| ())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_right_is_read_from_the_effective_set() {
        let status = |effective: &str| format!("Name:\tx\nCapPrm:\tffff\nCapEff:\t{effective}\n");
        assert!(has_sys_admin(&status("000001ffffffffff")));
        assert!(has_sys_admin(&status("0000000000200000")));
        // CAP_BPF and CAP_NET_ADMIN.
        assert!(!has_sys_admin(&status("0000008000001000")));
        assert!(!has_sys_admin("") && !has_sys_admin(&status("none")));
    }

    proptest! {
        #[test]
        fn any_status_has_the_right_or_not(text in "(CapEff:)?[ -~\t\n]{0,60}", mask in any::<u64>()) {
            has_sys_admin(&text);
            let has = mask & SYS_ADMIN != 0;
            prop_assert_eq!(has_sys_admin(&format!("CapEff:\t{mask:016x}\n")), has);
        }
    }
}
