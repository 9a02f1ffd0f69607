//! Links, addresses and routes of the testbed's hosts, set over rtnetlink.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute};
use rtnetlink::packet_route::route::{RouteScope, RouteType};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};

use crate::testbed::netns::Namespace;

/// Routing table of the kernel's own addresses (`RT_TABLE_LOCAL`).
const LOCAL_TABLE: u32 = 255;

/// An Ethernet address.
pub(crate) type Hardware = [u8; 6];

/// An address or network with its prefix length.
pub(crate) type Net = (IpAddr, u8);

/// Settings of one host's end of a link.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Name of the interface.
    pub(crate) name: String,
    /// Hardware address of the interface.
    pub(crate) hardware: Hardware,
    /// Addresses and hardware address of the other end.
    pub(crate) neighbours: (Vec<IpAddr>, Hardware),
    /// Addresses of this end.
    pub(crate) addresses: Vec<Net>,
    /// Networks behind the other end, each with the gateway there.
    pub(crate) routes: Vec<(Net, IpAddr)>,
}

/// Error: the kernel refused a step.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} in the namespace {namespace}: {source}")]
pub struct LinkError {
    /// Operation that failed.
    what: String,
    /// Namespace of the operation.
    namespace: &'static str,
    /// Error of the kernel.
    source: io::Error,
}

/// A connection to the kernel's routing socket of one namespace.
struct Wires {
    handle: Handle,
    namespace: &'static str,
}

/// Makes a veth pair: the interface `in_a` in `a`, `in_b` in `b`.
pub(crate) fn connect(
    a: &Namespace,
    in_a: &str,
    b: &Namespace,
    in_b: &str,
) -> Result<(), LinkError> {
    let target = b.file().as_raw_fd();
    inside(a, async |wires| {
        let what = || format!("make the link {in_a} - {in_b}");
        let add = wires.handle.link().add(LinkVeth::new(in_a, in_b).build());
        add.execute().await.map_err(|e| wires.error(what(), e))?;
        // The kernel makes both ends in one namespace; the peer is moved afterwards.
        let index = wires.index(in_b)?;
        let moved = LinkUnspec::new_with_index(index).setns_by_fd(target).build();
        wires.handle.link().set(moved).execute().await.map_err(|e| wires.error(what(), e))
    })
}

/// Makes a veth pair with both ends in one namespace, `queues` queues each, and brings them up.
pub(crate) fn loop_back(
    namespace: &Namespace,
    first: &str,
    second: &str,
    queues: u32,
) -> Result<(), LinkError> {
    inside(namespace, async |wires| {
        let peer = LinkMessageBuilder::<LinkUnspec>::new()
            .name(second)
            .append_extra_attribute(LinkAttribute::NumTxQueues(queues))
            .append_extra_attribute(LinkAttribute::NumRxQueues(queues))
            .build();
        let pair = LinkVeth::new(first, second)
            .append_extra_attribute(LinkAttribute::NumTxQueues(queues))
            .append_extra_attribute(LinkAttribute::NumRxQueues(queues))
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
            .build();
        let added = wires.handle.link().add(pair).execute().await;
        added.map_err(|e| wires.error(format!("make the link {first} - {second}"), e))?;
        for name in [first, second] {
            wires.up(wires.index(name)?, name).await?;
        }
        Ok(())
    })
}

/// Gives `end` its addresses, brings it up and sets its routes.
pub(crate) fn configure(namespace: &Namespace, end: &End) -> Result<(), LinkError> {
    inside(namespace, async |wires| {
        let index = wires.index(&end.name)?;
        wires.set_hardware(index, end.hardware).await?;
        for &(address, len) in &end.addresses {
            wires.add_address(index, address, len).await?;
        }
        wires.up(index, &end.name).await?;
        // Neighbours are permanent, so that no trial is disturbed by neighbour discovery.
        for &neighbour in &end.neighbours.0 {
            wires.add_neighbour(index, neighbour, end.neighbours.1).await?;
        }
        for &(net, gateway) in &end.routes {
            wires.add_route(net, gateway).await?;
        }
        Ok(())
    })
}

/// Brings the loopback up, and assigns every address of `owned` to the host.
pub(crate) fn loopback(namespace: &Namespace, owned: &[Net]) -> Result<(), LinkError> {
    inside(namespace, async |wires| {
        let index = wires.index("lo")?;
        wires.up(index, "lo").await?;
        for &net in owned {
            wires.add_local(index, net).await?;
        }
        Ok(())
    })
}

/// Runs `work` in the namespace with a connection to its routing socket.
fn inside<F>(namespace: &Namespace, work: F) -> Result<(), LinkError>
where
    F: AsyncFnOnce(Wires) -> Result<(), LinkError> + Send,
{
    let name = namespace.name();
    let error =
        |source| LinkError { what: "open the routing socket".to_owned(), namespace: name, source };
    namespace
        .run(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(error)?;
            runtime.block_on(async {
                let (connection, handle, _) = rtnetlink::new_connection().map_err(error)?;
                let serving = tokio::spawn(connection);
                let done = work(Wires { handle, namespace: name }).await;
                serving.abort();
                done
            })
        })
        .map_err(error)?
}

impl Wires {
    fn error(&self, what: String, source: rtnetlink::Error) -> LinkError {
        let source = match source {
            rtnetlink::Error::NetlinkError(message) => message.to_io(),
            other => io::Error::other(other.to_string()),
        };
        LinkError { what, namespace: self.namespace, source }
    }

    /// Returns the number of the interface `name`.
    fn index(&self, name: &str) -> Result<u32, LinkError> {
        nix::net::if_::if_nametoindex(name).map_err(|e| LinkError {
            what: format!("find the interface {name}"),
            namespace: self.namespace,
            source: e.into(),
        })
    }

    async fn up(&self, index: u32, name: &str) -> Result<(), LinkError> {
        let up = LinkUnspec::new_with_index(index).up().build();
        let done = self.handle.link().set(up).execute().await;
        done.map_err(|e| self.error(format!("bring {name} up"), e))
    }

    async fn set_hardware(&self, index: u32, hardware: Hardware) -> Result<(), LinkError> {
        let message = LinkUnspec::new_with_index(index).address(hardware.to_vec()).build();
        let done = self.handle.link().set(message).execute().await;
        done.map_err(|e| self.error("set a hardware address".to_owned(), e))
    }

    async fn add_neighbour(
        &self,
        index: u32,
        address: IpAddr,
        hardware: Hardware,
    ) -> Result<(), LinkError> {
        let request = self.handle.neighbours().add(index, address).link_layer_address(&hardware);
        let done = request.execute().await;
        done.map_err(|e| self.error(format!("introduce the neighbour {address}"), e))
    }

    async fn add_address(&self, index: u32, address: IpAddr, len: u8) -> Result<(), LinkError> {
        let mut request = self.handle.address().add(index, address, len);
        if address.is_ipv6() {
            // Usable at once: no other host can have the address.
            let flags = AddressAttribute::Flags(AddressFlags::Nodad);
            request.message_mut().attributes.push(flags);
        }
        let done = request.execute().await;
        done.map_err(|e| self.error(format!("add the address {address}/{len}"), e))
    }

    async fn add_route(&self, (net, len): Net, gateway: IpAddr) -> Result<(), LinkError> {
        let message = match (net, gateway) {
            (IpAddr::V4(net), IpAddr::V4(gateway)) => RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(net, len)
                .gateway(gateway)
                .build(),
            (IpAddr::V6(net), IpAddr::V6(gateway)) => RouteMessageBuilder::<Ipv6Addr>::new()
                .destination_prefix(net, len)
                .gateway(gateway)
                .build(),
            _ => return Ok(()),
        };
        let done = self.handle.route().add(message).execute().await;
        done.map_err(|e| self.error(format!("add the route to {net}/{len} by {gateway}"), e))
    }

    /// Adds a route as `ip route add local NET dev lo` does: the host answers for every address of the network.
    async fn add_local(&self, index: u32, (net, len): Net) -> Result<(), LinkError> {
        let message = match net {
            IpAddr::V4(net) => RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(net, len)
                .output_interface(index)
                .table_id(LOCAL_TABLE)
                .kind(RouteType::Local)
                .scope(RouteScope::Host)
                .build(),
            IpAddr::V6(net) => RouteMessageBuilder::<Ipv6Addr>::new()
                .destination_prefix(net, len)
                .output_interface(index)
                .table_id(LOCAL_TABLE)
                .kind(RouteType::Local)
                .build(),
        };
        let done = self.handle.route().add(message).execute().await;
        done.map_err(|e| self.error(format!("own the network {net}/{len}"), e))
    }
}
