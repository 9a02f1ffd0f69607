//! Packets that are not DNS, by their actual kind, for the message that a capture has no DNS.

use std::fmt;

/// Kind of a packet other than DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PacketKind {
    /// A frame of a link type that is not read.
    Link(u16),
    /// A payload of an EtherType that is not IP.
    Ether(u16),
    /// A payload of an LLC service access point.
    Llc(u8),
    /// A payload of a PPP protocol.
    Ppp(u16),
    /// A kind of frame, named by this noun in the plural.
    Named(&'static str),
    /// An IPv6 packet of 65,536 octets or more.
    Jumbogram,
    /// A packet of an IP protocol other than UDP and TCP.
    Ip(u8),
    /// A datagram of another port, the smaller one of both.
    Udp(u16),
    /// A segment of another port, the smaller one of both.
    Tcp(u16),
}

/// Names of link types that are not read.
const LINKS: [(u16, &str); 14] = [
    (99, "SYMANTEC_FIREWALL"),
    (143, "DOCSIS"),
    (147, "USER0"),
    (177, "LINUX_LAPD"),
    (187, "BLUETOOTH_HCI_H4"),
    (189, "USB_LINUX"),
    (195, "IEEE802_15_4"),
    (220, "USB_LINUX_MMAPPED"),
    (227, "CAN_SOCKETCAN"),
    (230, "IEEE802_15_4_NOFCS"),
    (249, "USBPCAP"),
    (251, "BLUETOOTH_LE_LL"),
    (252, "WIRESHARK_UPPER_PDU"),
    (253, "NETLINK"),
];
/// Names of EtherTypes that are no IP, for the list of other packets.
const ETHER_TYPES: [(u16, &str); 9] = [
    (0x0806, "ARP"),
    (0x8035, "RARP"),
    (0x8137, "IPX"),
    (0x8863, "PPPoE discovery"),
    (0x888e, "EAPOL"),
    (0x88cc, "LLDP"),
    (0x88e5, "MACsec"),
    (0x88f7, "PTP"),
    (0x894f, "NSH"),
];
/// Names of IP protocols besides UDP and TCP, for the list of other packets.
const PROTOCOLS: [(u8, &str); 14] = [
    (1, "ICMP"),
    (2, "IGMP"),
    (46, "RSVP"),
    (47, "GRE"),
    (50, "ESP"),
    (51, "AH"),
    (58, "ICMPv6"),
    (59, "IPv6 without payload"),
    (88, "EIGRP"),
    (89, "OSPF"),
    (103, "PIM"),
    (112, "VRRP"),
    (115, "L2TPv3"),
    (132, "SCTP"),
];

/// Returns the name of a number.
fn name<T: PartialEq>(names: &[(T, &'static str)], number: &T) -> Option<&'static str> {
    names.iter().find(|(own, _)| own == number).map(|found| found.1)
}

impl PacketKind {
    /// Returns whether the packet has no IP.
    pub(crate) fn is_not_ip(self) -> bool {
        matches!(
            self,
            PacketKind::Ether(_) | PacketKind::Llc(_) | PacketKind::Ppp(_) | PacketKind::Named(_)
        )
    }
}

impl fmt::Display for PacketKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PacketKind::Link(link) => match name(&LINKS, &link) {
                Some(name) => write!(f, "frames of the link type {link} ({name})"),
                None => write!(f, "frames of the link type {link}"),
            },
            PacketKind::Ether(kind) => match name(&ETHER_TYPES, &kind) {
                Some(name) => f.write_str(name),
                None => write!(f, "EtherType {kind:#06x}"),
            },
            PacketKind::Llc(0x42) => f.write_str("spanning tree"),
            PacketKind::Llc(service) => write!(f, "LLC service {service:#04x}"),
            PacketKind::Ppp(protocol) => write!(f, "PPP protocol {protocol:#06x}"),
            PacketKind::Named(name) => f.write_str(name),
            PacketKind::Jumbogram => f.write_str("IPv6 jumbograms"),
            PacketKind::Ip(protocol) => match name(&PROTOCOLS, &protocol) {
                Some(name) => f.write_str(name),
                None => write!(f, "IP protocol {protocol}"),
            },
            PacketKind::Udp(port) => write!(f, "UDP of port {port}"),
            PacketKind::Tcp(port) => write!(f, "TCP of port {port}"),
        }
    }
}
