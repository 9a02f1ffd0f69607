//! Links, addresses and routes of the testbed's hosts, set over rtnetlink.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use udp::netlink::{
    ACK, ADD, ADDRESS, DEVICE, GATEWAY, GET_LINK, GET_ROUTE, HARDWARE, INFO_DATA, INFO_KIND,
    LINK_INFO, LINK_NAME, NEW_ADDRESS, NEW_LINK, NEW_NEIGHBOUR, NEW_ROUTE, SET_LINK, TO, ask,
    attribute, link, nested, octets, value,
};

use crate::testbed::netns::Namespace;
use crate::testbed::process::TimeLimit;

/// Attributes of a link: its hardware address, its queueing, its namespace, its queues; of a veth
/// pair: the other end (linux/if_link.h).
const LINK_ADDRESS: u16 = 1;
const QUEUEING: u16 = 6;
const LINK_NAMESPACE: u16 = 28;
const LINK_QUEUES: [u16; 2] = [31, 32];
const PEER: u16 = 1;
/// Flag of a link that is up (linux/if.h).
const IFF_UP: u32 = 1;
/// Attribute of an address: the address of this end. Flag: the kernel does not check whether
/// another host has it (linux/if_addr.h).
const LOCAL_ADDRESS: u16 = 2;
const NO_DETECTION: u8 = 2;
/// State of a neighbour that stays (linux/neighbour.h).
const PERMANENT: u16 = 1 << 7;
/// Table, origin, scope and type of a route: by a gateway, and to this host (linux/rtnetlink.h).
const BY_GATEWAY: [u8; 4] = [254, 4, 0, 1];
const TO_THIS_HOST: [u8; 4] = [255, 4, 254, 2];

/// Queueing discipline of a link that drops all packets.
const DROPS_ALL: &[u8] = b"noop\0";
/// Time within which a link carries packets once both of its ends are up.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// A hardware address of Ethernet.
pub(crate) type HardwareAddress = [u8; 6];

/// An address or network with its prefix length.
pub(crate) type Net = (IpAddr, u8);

/// Settings of one host's end of a link.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Name of the interface in its host.
    pub(crate) name: String,
    /// Hardware address of the interface.
    pub(crate) hardware: HardwareAddress,
    /// Addresses and hardware address of the other end.
    pub(crate) neighbours: (Vec<IpAddr>, HardwareAddress),
    /// Addresses of this end with the prefix lengths of their networks.
    pub(crate) addresses: Vec<Net>,
    /// Networks behind the other end, each with the gateway there.
    pub(crate) routes: Vec<(Net, IpAddr)>,
}

/// Error: the kernel refused a step.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} in the namespace {namespace}: {source}")]
pub struct LinkError {
    /// The step, with the interface that it is of.
    what: String,
    /// Name of the host whose namespace it was.
    namespace: &'static str,
    /// Error with which the kernel refused it.
    source: io::Error,
}

/// A step that the kernel refused: its name, and the kernel's error.
type Refusal = (String, io::Error);

/// Makes a veth pair: the interface `in_a` in `a`, `in_b` in `b`.
pub(crate) fn connect(
    a: &Namespace,
    in_a: &str,
    b: &Namespace,
    in_b: &str,
) -> Result<(), LinkError> {
    let target = b.file().as_raw_fd();
    inside(a, || {
        // The kernel makes both ends in one namespace; the peer is moved afterwards.
        make_pair([in_a, in_b], &[])?;
        let moved = attribute(LINK_NAMESPACE, &target.to_ne_bytes());
        set(link(index(in_b)?), &moved, || format!("move the link {in_b}"))
    })
}

/// Makes a veth pair with both ends in one namespace, `queues` queues each, and brings them up.
pub(crate) fn loop_back(
    namespace: &Namespace,
    first: &str,
    second: &str,
    queues: u32,
) -> Result<(), LinkError> {
    inside(namespace, || {
        make_pair(
            [first, second],
            &LINK_QUEUES.map(|kind| attribute(kind, &queues.to_ne_bytes())).concat(),
        )?;
        [first, second].into_iter().try_for_each(|name| bring_up(index(name)?, name))
    })?;
    wait_until_ready(namespace, first, &[])
}

/// Gives `end` its addresses, brings it up and sets its routes.
pub(crate) fn configure(namespace: &Namespace, end: &End) -> Result<(), LinkError> {
    inside(namespace, || {
        let index = index(&end.name)?;
        let hardware = attribute(LINK_ADDRESS, &end.hardware);
        set(link(index), &hardware, || "set a hardware address".to_owned())?;
        for &net in &end.addresses {
            add_address(index, net)?;
        }
        bring_up(index, &end.name)?;
        // Neighbours are permanent, so that no trial is disturbed by neighbour discovery.
        for &neighbour in &end.neighbours.0 {
            add_neighbour(index, neighbour, end.neighbours.1)?;
        }
        for &(net, gateway) in end.routes.iter().filter(|(net, by)| net.0.is_ipv4() == by.is_ipv4())
        {
            add_route(net, BY_GATEWAY, &attribute(GATEWAY, &octets(gateway).1), || {
                format!("add the route to {}/{} by {gateway}", net.0, net.1)
            })?;
        }
        Ok(())
    })
}

/// Waits until the end `name` sends, and receives packets to `addresses`. The kernel does both some
/// time after it has confirmed them, and drops packets until then.
pub(crate) fn wait_until_ready(
    namespace: &Namespace,
    name: &str,
    addresses: &[Net],
) -> Result<(), LinkError> {
    inside(namespace, || {
        let mut limit = TimeLimit::new(READY_WITHIN);
        let head = link(index(name)?);
        let what = || format!("use the link {name}");
        loop {
            let mut ready = false;
            ask(GET_LINK, 0, head, &[], |_, of| ready = value(of, QUEUEING) != Some(DROPS_ALL))
                .map_err(|e| (what(), e))?;
            if ready && addresses.iter().all(|(address, _)| is_own(*address)) {
                return Ok(());
            }
            if limit.is_over() {
                return Err((what(), io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    })
}

/// Returns whether packets to the address are the host's own.
fn is_own(address: IpAddr) -> bool {
    let (family, octets) = octets(address);
    let mut head = [0; 12];
    (head[0], head[1]) = (family, (octets.len() * 8) as u8);
    let mut own = false;
    let asked = ask(GET_ROUTE, 0, head, &attribute(TO, &octets), |head, _| {
        own = head[7] == TO_THIS_HOST[3];
    });
    asked.is_ok() && own
}

/// Brings the loopback up, and assigns every address of `owned` to the host, as `ip route add local NET dev lo` does.
pub(crate) fn loopback(namespace: &Namespace, owned: &[Net]) -> Result<(), LinkError> {
    inside(namespace, || {
        let index = index("lo")?;
        bring_up(index, "lo")?;
        let device = attribute(DEVICE, &index.to_ne_bytes());
        owned.iter().try_for_each(|&net| {
            add_route(net, TO_THIS_HOST, &device, || {
                format!("make the addresses {}/{} local", net.0, net.1)
            })
        })
    })
}

/// Runs `work` in the namespace.
fn inside(
    namespace: &Namespace,
    work: impl FnOnce() -> Result<(), Refusal> + Send,
) -> Result<(), LinkError> {
    let error = |(what, source)| LinkError { what, namespace: namespace.name(), source };
    namespace.run(work).map_err(|e| error(("set links up".to_owned(), e)))?.map_err(error)
}

/// Returns the number of the interface `name`.
fn index(name: &str) -> Result<u32, Refusal> {
    nix::net::if_::if_nametoindex(name)
        .map_err(|e| (format!("find the interface {name}"), e.into()))
}

/// Makes a veth pair, each end with the additional attributes `also`.
fn make_pair(names: [&str; 2], also: &[u8]) -> Result<(), Refusal> {
    let [one, other] = names
        .map(|name| [&attribute(LINK_NAME, &[name.as_bytes(), b"\0"].concat()), also].concat());
    let peer = attribute(PEER, &[&link(0), &other[..]].concat());
    let info = [attribute(INFO_KIND, b"veth"), nested(INFO_DATA, &peer)].concat();
    let pair = [one, nested(LINK_INFO, &info)].concat();
    ask(NEW_LINK, ADD, link(0), &pair, |_, _| ())
        .map_err(|e| (format!("make the link {} - {}", names[0], names[1]), e))
}

/// Changes a link; `what` names the step in errors.
fn set(head: [u8; 16], attributes: &[u8], what: impl Fn() -> String) -> Result<(), Refusal> {
    ask(SET_LINK, ACK, head, attributes, |_, _| ()).map_err(|e| (what(), e))
}

fn bring_up(index: u32, name: &str) -> Result<(), Refusal> {
    let mut head = link(index);
    // The flags, and a mask of the changed ones.
    head[8..].copy_from_slice([IFF_UP, IFF_UP].map(u32::to_ne_bytes).as_flattened());
    set(head, &[], || format!("bring {name} up"))
}

fn add_neighbour(index: u32, address: IpAddr, hardware: HardwareAddress) -> Result<(), Refusal> {
    let (family, octets) = octets(address);
    let mut head = [0; 12];
    head[0] = family;
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..10].copy_from_slice(&PERMANENT.to_ne_bytes());
    let both = [attribute(ADDRESS, &octets), attribute(HARDWARE, &hardware)].concat();
    ask(NEW_NEIGHBOUR, ADD, head, &both, |_, _| ())
        .map_err(|e| (format!("add the neighbour {address}"), e))
}

fn add_address(index: u32, (address, len): Net) -> Result<(), Refusal> {
    let (family, octets) = octets(address);
    // Usable at once: no other host can have the address.
    let mut head = [family, len, NO_DETECTION, 0, 0, 0, 0, 0];
    head[4..].copy_from_slice(&index.to_ne_bytes());
    let both = [LOCAL_ADDRESS, ADDRESS].map(|kind| attribute(kind, &octets)).concat();
    ask(NEW_ADDRESS, ADD, head, &both, |_, _| ())
        .map_err(|e| (format!("add the address {address}/{len}"), e))
}

/// Adds a route of a kind to a network; `what` names the step in errors.
fn add_route(
    (net, len): Net,
    kind: [u8; 4],
    way: &[u8],
    what: impl Fn() -> String,
) -> Result<(), Refusal> {
    let (family, octets) = octets(net);
    let mut head = [0; 12];
    (head[0], head[1]) = (family, len);
    head[4..8].copy_from_slice(&kind);
    let attributes = [&attribute(TO, &octets), way].concat();
    ask(NEW_ROUTE, ADD, head, &attributes, |_, _| ()).map_err(|e| (what(), e))
}
