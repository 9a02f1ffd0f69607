//! Offload features of network devices, switched over the kernel's `ethtool` netlink family
//! (Documentation/networking/ethtool-netlink.rst), which also an ordinary user's namespaces allow.
//!
//! ```text
//!   FEATURES_SET { header: device name, wanted: bitset { bit { name, value } ... } } ──> ack or errno
//! ```

use std::io;

use udp::netlink::{attribute, command, nested, value};

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

/// Switches features of `device` in the calling thread's network namespace: each by name, on or off.
///
/// # Errors
/// The error of the kernel; `NotFound` if it has no `ethtool` family (before Linux 5.6).
pub(crate) fn set(device: &str, features: &[(&str, bool)]) -> io::Result<()> {
    let mut family = None;
    let name = attribute(CTRL_ATTR_FAMILY_NAME, b"ethtool\0");
    command(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &name, |of| {
        let number = value(of, CTRL_ATTR_FAMILY_ID).and_then(|id| id.try_into().ok());
        family = number.map(u16::from_ne_bytes);
    })?;
    let family = family.ok_or_else(|| io::Error::other("the kernel names no ethtool family"))?;
    command(family, ETHTOOL_MSG_FEATURES_SET, &wanted(device, features), |_| ())
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
