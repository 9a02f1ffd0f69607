//! The way to a server: device, source address and hardware addresses.
//!
//! The tables are the kernel's, read over netlink. An unknown neighbour is resolved by a datagram
//! to the discard port.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{if_indextoname, if_nametoindex};
use udp::netlink::{
    ADDRESS, DEVICE, DUMP, GATEWAY, GET_LINK, GET_NEIGHBOUR, GET_ROUTE, HARDWARE, INFO_KIND,
    LINK_INFO, TO, ask, attribute, link, number, octets, value,
};

use crate::error::KernelError;

/// The discard port: no service answers there.
const DISCARD: u16 = 9;
/// Number of look-ups of a neighbour, and the time between two.
const LOOKUPS: u32 = 40;
const LOOKUP_INTERVAL: Duration = Duration::from_millis(50);
/// Attribute of a link: number of carrier changes (linux/if_link.h).
const CARRIER_CHANGES: u16 = 35;
/// Flags of a link that is up and has a carrier (linux/if.h).
const RUNS: u32 = 1 | 1 << 6;
/// Attribute of a route: the source address (linux/rtnetlink.h).
const SOURCE_ATTRIBUTE: u16 = 7;
/// State of a neighbour that did not answer (linux/neighbour.h).
const NEIGHBOUR_FAILED: u16 = 1 << 5;

/// A hardware address of Ethernet.
pub type HardwareAddress = [u8; 6];

/// The way to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Name of the device from which frames leave.
    pub device: String,
    /// Address of this host that the server sees.
    pub source: IpAddr,
    /// Hardware address of the device.
    pub hardware: HardwareAddress,
    /// Hardware address of the server, or of the router on the way to it.
    pub neighbour: HardwareAddress,
}

/// Given parts of a route to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteParts {
    /// Name of the device; `None` for the one in the kernel's routes.
    pub device: Option<String>,
    /// Source address of the queries; `None` for the one in the kernel's routes.
    pub source: Option<IpAddr>,
    /// Hardware address of the server, or of the router on the way to it.
    pub neighbour: Option<HardwareAddress>,
}

/// An entry of the kernel's routes.
struct RouteEntry {
    device: u32,
    gateway: Option<IpAddr>,
    source: Option<IpAddr>,
}

impl Route {
    /// Finds the way to a server.
    ///
    /// # Errors
    /// If there is none, or if the neighbour does not answer.
    pub fn find(target: SocketAddr, via: &RouteParts) -> Result<Self, KernelError> {
        let error = |why: String| KernelError::Route(target, why);
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
            None if hardware == HardwareAddress::default() => hardware,
            None => {
                let hop = entry.gateway.unwrap_or(target.ip());
                wake_neighbour(target.ip(), source, hop, entry.device)
                    .map_err(|e| error(e.to_string()))?
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
pub fn hardware_of(device: &str) -> Option<HardwareAddress> {
    let mut of_device = getifaddrs().ok()?.filter(|found| found.interface_name == device);
    of_device.find_map(|found| found.address?.as_link_addr()?.addr())
}

/// State of a device's link, which changes if the device is recreated, switched off, or cut off for
/// a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkState {
    runs: bool,
    /// Number of carrier changes.
    changes: Option<u32>,
}

impl LinkState {
    /// Returns the state of the device with this number.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn of(device: u32) -> io::Result<Self> {
        let mut state = LinkState { runs: false, changes: None };
        ask(GET_LINK, 0, link(device), &[], |head, attributes| {
            state.runs = number(&head[8..12]).is_some_and(|flags| flags & RUNS == RUNS);
            state.changes = value(attributes, CARRIER_CHANGES).and_then(number);
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
    let mut found = false;
    let device = if_nametoindex(device).unwrap_or(0);
    let asked = ask(GET_LINK, 0, link(device), &[], |_, attributes| {
        let kind = value(attributes, LINK_INFO).and_then(|info| value(info, INFO_KIND));
        found |= kind.is_some_and(|kind| kind.strip_suffix(&[0]).unwrap_or(kind) == b"veth");
    });
    asked.is_ok() && found
}

/// Reads an address of either family.
fn address(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok()
}

/// Looks up the route to an address, over a device if one is given.
fn entry_to(target: IpAddr, device: Option<u32>) -> io::Result<RouteEntry> {
    let (family, octets) = octets(target);
    let mut head = [0; 12];
    (head[0], head[1]) = (family, 8 * octets.len() as u8);
    let mut wanted = attribute(TO, &octets);
    wanted.extend(device.iter().flat_map(|device| attribute(DEVICE, &device.to_ne_bytes())));
    let mut found = None;
    ask(GET_ROUTE, 0, head, &wanted, |_, of| {
        let of = |kind| value(of, kind);
        found = Some(RouteEntry {
            device: of(DEVICE).and_then(number).unwrap_or(0),
            gateway: of(GATEWAY).and_then(address),
            source: of(SOURCE_ATTRIBUTE).and_then(address),
        });
    })?;
    found.ok_or_else(|| io::Error::other("the kernel reports no route"))
}

/// Looks up the hardware address of a neighbour; `None` if the kernel does not know it.
fn known_neighbour(hop: IpAddr, device: u32) -> io::Result<Option<HardwareAddress>> {
    let mut found = None;
    ask(GET_NEIGHBOUR, DUMP, [0; 12], &[], |head, of| {
        let failed = u16::from_ne_bytes([head[8], head[9]]) == NEIGHBOUR_FAILED;
        let is_it = number(&head[4..8]) == Some(device)
            && value(of, ADDRESS).and_then(address) == Some(hop);
        if is_it && !failed {
            found = found.or(value(of, HARDWARE).and_then(|octets| octets.try_into().ok()));
        }
    })?;
    Ok(found)
}

/// Looks up a neighbour on the way to `target`, and wakes it if it is not known.
fn wake_neighbour(
    target: IpAddr,
    source: IpAddr,
    hop: IpAddr,
    device: u32,
) -> io::Result<HardwareAddress> {
    for _ in 0..LOOKUPS {
        if let Some(hardware) = known_neighbour(hop, device)? {
            return Ok(hardware);
        }
        // The result does not matter: the kernel looks up the neighbour before it sends.
        let socket = UdpSocket::bind(SocketAddr::new(source, 0))?;
        socket.send_to(&[], SocketAddr::new(target, DISCARD))?;
        std::thread::sleep(LOOKUP_INTERVAL);
    }
    Err(io::Error::other(format!(
        "its neighbour {hop} does not answer; name its hardware address with --neighbour"
    )))
}
