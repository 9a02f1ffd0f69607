//! The way to a server: device, source address and hardware addresses.
//!
//! The kernel's own tables are asked over netlink. A neighbour that nobody has talked to yet is resolved by a datagram to the
//! discard port.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, neighbour};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr as NetlinkAddress};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{if_indextoname, if_nametoindex};

use crate::error::KernelError;

/// The discard port: nothing answers there.
const DISCARD: u16 = 9;
/// How often a neighbour is looked up, and the time between.
const LOOKUPS: u32 = 40;
const BETWEEN: Duration = Duration::from_millis(50);
/// Largest answer of the kernel, in octets.
const ANSWER: usize = 1 << 16;

/// A hardware address.
pub type Hardware = [u8; 6];

/// The way to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Name of the device.
    pub device: String,
    /// Source address.
    pub source: IpAddr,
    /// Hardware address of the device.
    pub hardware: Hardware,
    /// Hardware address of the server, or of the router on the way to it.
    pub neighbour: Hardware,
}

/// What is known of a way beforehand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Via {
    /// Name of the device.
    pub device: Option<String>,
    /// Source address.
    pub source: Option<IpAddr>,
    /// Hardware address of the server, or of the router on the way to it.
    pub neighbour: Option<Hardware>,
}

/// An entry of the kernel's routes.
struct Entry {
    device: u32,
    gateway: Option<IpAddr>,
    source: Option<IpAddr>,
}

impl Route {
    /// Finds the way to a server.
    ///
    /// # Errors
    /// If there is none, or if the neighbour does not answer.
    pub fn find(target: SocketAddr, via: &Via) -> Result<Self, KernelError> {
        let error = |why: String| KernelError::Route { target, why };
        let no_device = |device: &str| error(format!("there is no Ethernet device `{device}`"));
        let known = via.device.as_deref();
        let index = known.map(|d| if_nametoindex(d).map_err(|_| no_device(d))).transpose()?;
        if let (Some(device), Some(source), Some(neighbour)) = (known, via.source, via.neighbour) {
            let hardware = hardware_of(device).ok_or_else(|| no_device(device))?;
            return Ok(Route { device: device.to_owned(), source, hardware, neighbour });
        }
        let entry = entry_to(target.ip(), index).map_err(|e| error(e.to_string()))?;
        let device = if_indextoname(entry.device).map_err(|e| error(e.to_string()))?;
        let device = device.to_string_lossy().into_owned();
        let source = match via.source.or(entry.source) {
            Some(source) => source,
            None => source_to(target).map_err(|e| error(e.to_string()))?,
        };
        let hardware = hardware_of(&device).ok_or_else(|| no_device(&device))?;
        let neighbour = match via.neighbour {
            Some(neighbour) => neighbour,
            // The loopback has no neighbours, and no hardware address.
            None if hardware == Hardware::default() => hardware,
            None => {
                let hop = entry.gateway.unwrap_or(target.ip());
                woken(target.ip(), source, hop, entry.device).map_err(|e| error(e.to_string()))?
            }
        };
        Ok(Route { device, source, hardware, neighbour })
    }
}

/// Returns the address from which this host sends to a server.
fn source_to(target: SocketAddr) -> io::Result<IpAddr> {
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    Ok(socket.local_addr()?.ip())
}

/// Returns the hardware address of a device; `None` if there is no such device, or it is no Ethernet device.
pub fn hardware_of(device: &str) -> Option<Hardware> {
    let mut of_device = getifaddrs().ok()?.filter(|found| found.interface_name == device);
    of_device.find_map(|found| found.address?.as_link_addr()?.addr())
}

/// State of a device's link, which changes if the device is made anew, switched off, or cut off for a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkState {
    runs: bool,
    /// How often the carrier came or went.
    changes: Option<u32>,
}

impl LinkState {
    /// Returns the state of the device with this number.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn of(device: u32) -> io::Result<Self> {
        let mut state = LinkState { runs: false, changes: None };
        ask_link(device, |link| {
            state.runs = link.header.flags.contains(LinkFlags::Up | LinkFlags::Running);
            state.changes = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::CarrierChanges(changes) => Some(*changes),
                _ => None,
            });
        })?;
        Ok(state)
    }

    /// Returns whether frames can be sent.
    pub(crate) fn runs(&self) -> bool {
        self.runs
    }
}

/// Returns whether a device is an end of a veth pair.
pub(crate) fn is_veth(device: &str) -> bool {
    let kind = LinkInfo::Kind(InfoKind::Veth);
    let mut found = false;
    let asked = ask_link(if_nametoindex(device).unwrap_or(0), |link| {
        let is_kind = |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::LinkInfo(infos) if infos.contains(&kind));
        found |= link.attributes.iter().any(is_kind);
    });
    asked.is_ok() && found
}

/// Asks the kernel for the device with this number, and calls `take` for what it tells.
fn ask_link(device: u32, mut take: impl FnMut(LinkMessage)) -> io::Result<()> {
    let mut wanted = LinkMessage::default();
    wanted.header.index = device;
    ask(RouteNetlinkMessage::GetLink(wanted), 0, |message| {
        if let RouteNetlinkMessage::NewLink(link) = message {
            take(link);
        }
    })
}

/// Asks the kernel over netlink, and calls `take` for each message of its answer.
pub(crate) fn ask(
    request: RouteNetlinkMessage,
    flags: u16,
    mut take: impl FnMut(RouteNetlinkMessage),
) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&NetlinkAddress::new(0, 0))?;
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST | flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut answer = vec![0; ANSWER];
    loop {
        let len = socket.recv(&mut &mut answer[..], 0)?;
        let mut rest = &answer[..len];
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(|e| io::Error::other(format!("an answer that cannot be read: {e}")))?;
            let len = (message.header.length as usize).next_multiple_of(4);
            rest = rest.get(len.max(1)..).unwrap_or_default();
            match message.payload {
                NetlinkPayload::InnerMessage(inner) => take(inner),
                NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                _ => return Ok(()),
            }
        }
        if flags & NLM_F_DUMP == 0 {
            return Ok(());
        }
    }
}

fn route_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some((*v4).into()),
        RouteAddress::Inet6(v6) => Some((*v6).into()),
        _ => None,
    }
}

/// Looks up the route to an address, over a device if one is given.
fn entry_to(target: IpAddr, device: Option<u32>) -> io::Result<Entry> {
    let mut wanted = RouteMessage::default();
    let (family, bits, address) = match target {
        IpAddr::V4(v4) => (AddressFamily::Inet, 32, RouteAddress::Inet(v4)),
        IpAddr::V6(v6) => (AddressFamily::Inet6, 128, RouteAddress::Inet6(v6)),
    };
    (wanted.header.address_family, wanted.header.destination_prefix_length) = (family, bits);
    wanted.attributes.push(RouteAttribute::Destination(address));
    wanted.attributes.extend(device.map(RouteAttribute::Oif));
    let mut found = None;
    ask(RouteNetlinkMessage::GetRoute(wanted), 0, |message| {
        let RouteNetlinkMessage::NewRoute(route) = message else { return };
        let mut entry = Entry { device: 0, gateway: None, source: None };
        for attribute in &route.attributes {
            match attribute {
                RouteAttribute::Oif(index) => entry.device = *index,
                RouteAttribute::Gateway(address) => entry.gateway = route_address(address),
                RouteAttribute::PrefSource(address) => entry.source = route_address(address),
                _ => {}
            }
        }
        found = Some(entry);
    })?;
    found.ok_or_else(|| io::Error::other("the kernel names no route"))
}

/// Looks up the hardware address of a neighbour; `None` if the kernel does not know it.
fn known_neighbour(hop: IpAddr, device: u32) -> io::Result<Option<Hardware>> {
    let mut found = None;
    let request = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
    ask(request, NLM_F_DUMP, |message| {
        let RouteNetlinkMessage::NewNeighbour(entry) = message else { return };
        let mut address = None;
        let mut hardware = None;
        for attribute in &entry.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                    address = Some(IpAddr::from(*v4));
                }
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                    address = Some(IpAddr::from(*v6));
                }
                NeighbourAttribute::LinkLayerAddress(octets) => {
                    hardware = octets[..].try_into().ok();
                }
                _ => {}
            }
        }
        let failed = entry.header.state == neighbour::NeighbourState::Failed;
        if entry.header.ifindex == device && address == Some(hop) && !failed {
            found = found.or(hardware);
        }
    })?;
    Ok(found)
}

/// Looks up a neighbour on the way to `target`, and wakes it if it is not known.
fn woken(target: IpAddr, source: IpAddr, hop: IpAddr, device: u32) -> io::Result<Hardware> {
    for _ in 0..LOOKUPS {
        if let Some(hardware) = known_neighbour(hop, device)? {
            return Ok(hardware);
        }
        // What comes of it does not matter: the kernel asks for the neighbour first.
        let socket = UdpSocket::bind(SocketAddr::new(source, 0))?;
        socket.send_to(&[], SocketAddr::new(target, DISCARD))?;
        std::thread::sleep(BETWEEN);
    }
    Err(io::Error::other(format!(
        "its neighbour {hop} does not answer; name its hardware address with --neighbour"
    )))
}
