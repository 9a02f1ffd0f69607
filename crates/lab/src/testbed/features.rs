//! Offload features of network devices, switched over the kernel's `ethtool` netlink family
//! (Documentation/networking/ethtool-netlink.rst), which also an ordinary user's namespaces allow.
//!
//! ```text
//!   FEATURES_SET { header: device name, wanted: bitset { bit { name, value } ... } } ──> ack or errno
//! ```

use std::io;

use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

/// Segmentation of UDP messages by the device: if it is on, a message crosses a veth link whole.
pub(crate) const TX_UDP_SEGMENTATION: &str = "tx-udp-segmentation";
/// Coalescing of received packets, which makes a veth device receive through NAPI.
pub(crate) const RX_GRO: &str = "rx-gro";
/// Segmentation of TCP by the device, in all its forms.
pub(crate) const TX_TCP_SEGMENTATION: [&str; 4] = [
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
];

// linux/genetlink.h
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
// linux/ethtool_netlink.h
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;
// linux/netlink.h
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLA_F_NESTED: u16 = 0x8000;
const NLMSG_ERROR: u16 = 2;
/// Length of a netlink header in octets, without and with the generic header after it.
const HEADER: usize = 16;
const HEADERS: usize = HEADER + 4;

/// Switches features of `device` in the calling thread's network namespace: each by name, on or off.
///
/// # Errors
/// The error of the kernel; `NotFound` if it has no `ethtool` family (before Linux 5.6).
pub(crate) fn set(device: &str, features: &[(&str, bool)]) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let name = attribute(CTRL_ATTR_FAMILY_NAME, b"ethtool\0");
    let reply = exchange(&socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &name)?;
    let family = find_u16(reply.get(HEADERS..).unwrap_or_default(), CTRL_ATTR_FAMILY_ID);
    let family = family.ok_or_else(|| io::Error::other("the kernel names no ethtool family"))?;
    exchange(&socket, family, ETHTOOL_MSG_FEATURES_SET, &wanted(device, features))?;
    Ok(())
}

/// Returns the attributes of a FEATURES_SET message.
fn wanted(device: &str, features: &[(&str, bool)]) -> Vec<u8> {
    let text = |kind, text: &str| attribute(kind, &[text.as_bytes(), b"\0"].concat());
    let bit = |&(name, on): &(&str, bool)| {
        let mut bit = text(ETHTOOL_A_BITSET_BIT_NAME, name);
        if on {
            bit.extend(attribute(ETHTOOL_A_BITSET_BIT_VALUE, &[]));
        }
        nested(ETHTOOL_A_BITSET_BITS_BIT, &bit)
    };
    let bits: Vec<u8> = features.iter().flat_map(bit).collect();
    let header = nested(ETHTOOL_A_FEATURES_HEADER, &text(ETHTOOL_A_HEADER_DEV_NAME, device));
    let bits = nested(ETHTOOL_A_BITSET_BITS, &bits);
    [header, nested(ETHTOOL_A_FEATURES_WANTED, &bits)].concat()
}

/// Returns an attribute: length, type, value, padding to four octets.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 8);
    out.extend(((value.len() + 4) as u16).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// Returns an attribute that contains attributes.
fn nested(kind: u16, value: &[u8]) -> Vec<u8> {
    attribute(kind | NLA_F_NESTED, value)
}

/// Sends a request and reads until its acknowledgement. Returns the last message before that; empty if there is none.
fn exchange(socket: &Socket, family: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let mut request = Vec::with_capacity(HEADERS + attributes.len());
    request.extend(((HEADERS + attributes.len()) as u32).to_ne_bytes());
    request.extend(family.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    // Sequence and port number: one request at a time needs neither.
    request.extend([0; 8]);
    request.extend([command, 1, 0, 0]);
    request.extend(attributes);
    socket.send(&request, 0)?;
    let mut answer = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = datagram.as_slice();
        while let Some((message, behind)) = split_message(rest) {
            rest = behind;
            if u16::from_ne_bytes([message[4], message[5]]) != NLMSG_ERROR {
                answer = message.to_vec();
                continue;
            }
            let code: [u8; 4] = message[HEADER..].first_chunk().copied().unwrap_or_default();
            return match i32::from_ne_bytes(code) {
                0 => Ok(answer),
                code => Err(io::Error::from_raw_os_error(-code)),
            };
        }
    }
}

/// Splits the first netlink message off a datagram.
fn split_message(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = u32::from_ne_bytes(*datagram.first_chunk()?) as usize;
    let message = datagram.get(..len).filter(|message| message.len() >= HEADER)?;
    Some((message, datagram.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

/// Returns the value of the first attribute of a type, if it has two octets.
fn find_u16(mut attributes: &[u8], kind: u16) -> Option<u16> {
    loop {
        let [a, b, c, d] = *attributes.first_chunk()?;
        let len = usize::from(u16::from_ne_bytes([a, b])).max(4);
        if u16::from_ne_bytes([c, d]) == kind {
            return Some(u16::from_ne_bytes(*attributes.get(4..len)?.first_chunk()?));
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_found() {
        let bytes = [attribute(7, b"abc"), attribute(1, &42u16.to_ne_bytes())].concat();
        assert_eq!(bytes.len(), 16);
        assert_eq!(find_u16(&bytes, 1), Some(42));
        assert_eq!(find_u16(&bytes, 2), None);
        assert_eq!(find_u16(&bytes[..9], 1), None, "cut short");
    }

    #[test]
    fn messages_are_told_apart() {
        let message = |len: u32| {
            let mut bytes = len.to_ne_bytes().to_vec();
            bytes.resize(len as usize, 0);
            bytes
        };
        let two = [message(20), message(16)].concat();
        let (first, rest) = split_message(&two).expect("a message");
        assert_eq!((first.len(), rest.len()), (20, 16));
        assert!(split_message(&two[..10]).is_none());
        assert!(split_message(&message(8)).is_none(), "shorter than a header");
    }
}
