//! Programs that earlier servers have left on devices (`attached`), and that would answer in place
//! of this one.

use std::net::SocketAddr;

use aya::maps::{HashMap, MapData};
use nix::net::if_::{if_indextoname, if_nametoindex};

use crate::attached::{self, LeftProgram, OnDevice};
use crate::error::KernelError;
use crate::records::Place;

/// Removes the programs that ended servers have left: all programs on `devices`, and programs on
/// other devices of this network namespace that answer at one of these addresses. Returns the names
/// of their devices. A user who may not look up programs removes none.
///
/// # Errors
/// If one of `devices` has a program that this user may not look up, or the kernel does not remove one.
pub fn clear_left(
    devices: &[String],
    addresses: &[SocketAddr],
) -> Result<Vec<String>, KernelError> {
    let named: Vec<u32> =
        devices.iter().filter_map(|device| if_nametoindex(device.as_str()).ok()).collect();
    let is_named = |on: &&OnDevice| named.contains(&on.device);
    // A sandbox may have no netlink: then no program is found.
    let found = attached::on_devices(None).unwrap_or_default();
    if !attached::has_right() {
        let unknown = found.iter().find(is_named).map(|on| name_of(on.device));
        return match unknown {
            Some(device) => {
                Err(KernelError::Left { device, why: "it needs CAP_SYS_ADMIN".to_owned() })
            }
            None => Ok(Vec::new()),
        };
    }
    let mut cleared = Vec::new();
    for left in attached::left(&found) {
        if !named.contains(&left.device) && !answers_at(&left, addresses) {
            continue;
        }
        let device = name_of(left.device);
        if let Err(error) = left.remove() {
            return Err(KernelError::Left { device, why: error.to_string() });
        }
        cleared.push(device);
    }
    Ok(cleared)
}

/// Returns the name of a device.
fn name_of(device: u32) -> String {
    if_indextoname(device).map_or(format!("device {device}"), |name| name.to_string_lossy().into())
}

/// Returns whether a program answers at one of these addresses; an unspecified one means all.
fn answers_at(left: &LeftProgram, addresses: &[SocketAddr]) -> bool {
    let listen = left.map("listen").map(HashMap::<MapData, Place, u32>::try_from);
    let Some(Ok(listen)) = listen else { return false };
    let is_ours = |address: SocketAddr| addresses.iter().any(|own| covers(*own, address));
    listen.keys().filter_map(Result::ok).any(|place| is_ours(place.into()))
}

/// Returns whether a socket at `own` receives packets to `address`.
fn covers(own: SocketAddr, address: SocketAddr) -> bool {
    let (ip, other) = (own.ip().to_canonical(), address.ip());
    let is_any = ip.is_unspecified() && (ip.is_ipv6() || other.is_ipv4());
    own.port() == address.port() && (is_any || ip == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_answers_at_the_addresses_of_its_map() {
        // Our address, that of a program, and whether the first covers the second.
        let table = [
            ("192.0.2.1:53", "192.0.2.1:53", true),
            ("[::ffff:192.0.2.1]:53", "192.0.2.1:53", true),
            ("192.0.2.1:53", "192.0.2.1:54", false),
            ("192.0.2.1:53", "192.0.2.2:53", false),
            ("0.0.0.0:53", "192.0.2.2:53", true),
            ("0.0.0.0:53", "[2001:db8::1]:53", false),
            ("[::]:53", "192.0.2.2:53", true),
            ("[::]:53", "[2001:db8::1]:53", true),
            ("[2001:db8::1]:53", "[2001:db8::1]:53", true),
        ];
        for (own, of_program, expected) in table {
            let [own, of_program] = [own, of_program].map(|a| a.parse().expect("an address"));
            assert_eq!(SocketAddr::from(Place::from(of_program)), of_program);
            assert_eq!(covers(own, of_program), expected, "{own} {of_program}");
        }
    }
}
