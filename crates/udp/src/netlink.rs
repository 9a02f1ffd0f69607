//! Questions to the kernel over netlink (rtnetlink(7), genetlink): of its many messages and attributes only those that we need.
//!
//! ```text
//! length:32 type:16 flags:16 sequence:32 port:32 | head of the type | length:16 kind:16 value, filled up to 32 bits | ...
//! ```
//!
//! All numbers have the byte order of the host.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect, recv, send,
    socket,
};

// Types of messages (linux/rtnetlink.h).
/// Makes a new link (`RTM_NEWLINK`).
pub const NEW_LINK: u16 = 16;
/// Returns a link (`RTM_GETLINK`), or all.
pub const GET_LINK: u16 = 18;
/// Changes a link (`RTM_SETLINK`) that exists.
pub const SET_LINK: u16 = 19;
/// Adds an address to a link.
pub const NEW_ADDRESS: u16 = 20;
/// Adds a route (`RTM_NEWROUTE`) to a table.
pub const NEW_ROUTE: u16 = 24;
/// Returns the route to an address.
pub const GET_ROUTE: u16 = 26;
/// Adds a neighbour (`RTM_NEWNEIGH`) of a link.
pub const NEW_NEIGHBOUR: u16 = 28;
/// Returns the neighbours (`RTM_GETNEIGH`) of a link.
pub const GET_NEIGHBOUR: u16 = 30;

// Flags of a request (linux/netlink.h).
/// The kernel confirms the request.
pub const ACK: u16 = 4;
/// The kernel makes a new entry and confirms it; it refuses one that exists.
pub const ADD: u16 = ACK | 0x600;
/// The kernel returns all entries.
pub const DUMP: u16 = 0x300;
const REQUEST: u16 = 1;

// Attributes of a link (linux/if_link.h).
/// Name of a link (`IFLA_IFNAME`), with a zero at its end.
pub const LINK_NAME: u16 = 3;
/// Kind of a link, with the attributes of that kind.
pub const LINK_INFO: u16 = 18;
/// Name of the kind, in [`LINK_INFO`].
pub const INFO_KIND: u16 = 1;
/// Attributes of this kind of link, in [`LINK_INFO`].
pub const INFO_DATA: u16 = 2;

// Attributes of a route (linux/rtnetlink.h).
/// Destination of a route (`RTA_DST`), without its length.
pub const TO: u16 = 1;
/// Number of the device of a route.
pub const DEVICE: u16 = 4;
/// Address of the next host on a route.
pub const GATEWAY: u16 = 5;

// Attributes of a neighbour (linux/neighbour.h).
/// IP address of a neighbour.
pub const ADDRESS: u16 = 1;
/// Hardware address of a neighbour.
pub const HARDWARE: u16 = 2;

/// Octets of the header. First type that is no control message; type of an error or a confirmation;
/// type of the end of entries, which may hold an error too.
const HEADER: usize = 16;
const FIRST_MESSAGE: u16 = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Flag of an attribute that contains others. The kind of an attribute is its value without this
/// flag and the flag of the byte order.
const NESTED: u16 = 1 << 15;
const ATTRIBUTE_FLAGS: u16 = NESTED | 1 << 14;
/// Largest answer of the kernel, in octets.
const MAX_ANSWER: usize = 1 << 16;

/// Asks for, or changes, devices, addresses, routes or neighbours. Calls `take` with head and attributes of each message of the
/// kernel's answer, whose head is of the same type.
///
/// # Errors
/// That of the kernel.
pub fn ask<const N: usize>(
    kind: u16,
    flags: u16,
    head: [u8; N],
    attributes: &[u8],
    take: impl FnMut(&[u8; N], &[u8]),
) -> io::Result<()> {
    exchange(SockProtocol::NetlinkRoute, kind, flags, head, attributes, take)
}

/// Sends a command to a generic family, and calls `take` with the attributes of each message before
/// the confirmation.
///
/// # Errors
/// That of the kernel.
pub fn command(
    family: u16,
    command: u8,
    attributes: &[u8],
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    let head = [command, 1, 0, 0];
    exchange(SockProtocol::NetlinkGeneric, family, ACK, head, attributes, |_, of| take(of))
}

/// Sends a request and reads its answer: one message, or all until the confirmation or the end of the entries.
fn exchange<const N: usize>(
    protocol: SockProtocol,
    kind: u16,
    flags: u16,
    head: [u8; N],
    attributes: &[u8],
    mut take: impl FnMut(&[u8; N], &[u8]),
) -> io::Result<()> {
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    let socket = socket.as_raw_fd();
    connect(socket, &NetlinkAddr::new(0, 0))?;
    let mut request = ((HEADER + N + attributes.len()) as u32).to_ne_bytes().to_vec();
    request.extend([kind, flags | REQUEST].map(u16::to_ne_bytes).as_flattened());
    request.resize(HEADER, 0);
    request.extend(head);
    request.extend(attributes);
    send(socket, &request, MsgFlags::empty())?;
    let mut answer = vec![0; MAX_ANSWER];
    loop {
        let len = recv(socket, &mut answer, MsgFlags::empty())?;
        let mut rest = &answer[..len];
        while let Some((kind, body, after)) = first_message(rest) {
            let code = number(body.get(..4).unwrap_or_default());
            match (kind, code, body.split_first_chunk()) {
                (FIRST_MESSAGE.., _, Some((head, attributes))) => take(head, attributes),
                (ERROR | DONE, Some(code), _) if code != 0 => {
                    return Err(io::Error::from_raw_os_error((code as i32).wrapping_neg()));
                }
                (ERROR | DONE, ..) => return Ok(()),
                _ => return Err(unreadable()),
            }
            rest = after;
        }
        if !rest.is_empty() {
            return Err(unreadable());
        }
        if flags & (DUMP | ACK) == 0 {
            return Ok(());
        }
    }
}

fn unreadable() -> io::Error {
    io::Error::other("an answer of the kernel cannot be read")
}

/// Splits off the first message: its type, its body, and the rest.
fn first_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = number(bytes.get(..4)?)? as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let after = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, bytes.get(HEADER..len)?, after))
}

/// Returns the head of a message on the device with this number (`struct ifinfomsg`).
#[must_use]
pub fn link(device: u32) -> [u8; 16] {
    let mut head = [0; 16];
    head[4..8].copy_from_slice(&device.to_ne_bytes());
    head
}

/// Returns the family of an address, and its octets.
#[must_use]
pub fn octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (AddressFamily::Inet as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AddressFamily::Inet6 as u8, v6.octets().to_vec()),
    }
}

/// Returns the attributes: kind and value. One that is cut off ends them.
pub fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = rest.first_chunk::<4>()?;
        let [len, kind] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_ne_bytes);
        let value = rest.get(4..usize::from(len))?;
        rest = rest.get(usize::from(len).next_multiple_of(4)..).unwrap_or_default();
        Some((kind & !ATTRIBUTE_FLAGS, value))
    })
}

/// Returns the value of the first attribute of a kind.
#[must_use]
pub fn value(attributes_of: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(attributes_of).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// Returns an attribute: its length, its kind and the value, padded to four octets.
#[must_use]
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut all = [(4 + value.len()) as u16, kind].map(u16::to_ne_bytes).as_flattened().to_vec();
    all.extend(value);
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

/// Returns an attribute that contains others.
#[must_use]
pub fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(kind | NESTED, attributes)
}

/// Reads a number of 32 bits.
#[must_use]
pub fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn attributes_are_read_as_they_are_written(all in prop::collection::vec((0u16..1 << 14, prop::collection::vec(any::<u8>(), 0..9)), 0..5)) {
            let bytes: Vec<u8> = all.iter().flat_map(|(kind, value)| attribute(*kind, value)).collect();
            let read: Vec<(u16, Vec<u8>)> = attributes(&bytes).map(|(kind, value)| (kind, value.to_vec())).collect();
            prop_assert_eq!(&read, &all);
            let outer = nested(7, &bytes);
            prop_assert_eq!(value(&outer, 7), Some(&bytes[..]));
        }

        #[test]
        fn any_octets_end(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            prop_assert!(attributes(&bytes).count() <= bytes.len() / 4);
            if let Some((_, body, after)) = first_message(&bytes) {
                prop_assert!(HEADER + body.len() + after.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn the_kernel_tells_of_the_loopback_and_refuses_a_device_that_is_not_there() {
        let mut name = None;
        let asked = ask(GET_LINK, 0, link(1), &[], |_, of| name = value(of, 3).map(<[u8]>::to_vec));
        asked.expect("a loopback");
        assert_eq!(name.as_deref(), Some(&b"lo\0"[..]));
        let refused = ask(GET_LINK, 0, link(1 << 30), &[], |_, _| panic!("no device"));
        let refused = refused.expect_err("no device");
        assert_eq!(refused.raw_os_error(), Some(19), "ENODEV");
    }
}
