//! The AuthDNS in XDP: answers the plain queries of a namespace, and of the reverse zones of its addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ::auth::{AuthConfig, Prebuilt};
use aya::maps::{Array, MapData, PerCpuArray};
use wire::name::Labels;
use wire::{Name, Pref64};

use crate::error::KernelError;
use crate::program::{Programs, XdpMode};
use crate::records::{self, AuthCounts, Zone, filled, sum};
use crate::tester::is_veth;

/// The programs and maps of `bpf/auth.bpf.c`.
pub(crate) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/auth"));
/// Name of the program in the object.
pub(crate) const NAME: &str = "auth";
/// Number of labels in `in-addr.arpa` and `ip6.arpa`.
const ARPA_LABELS: usize = 2;

/// Where the program answers: a port, and an address of one or both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    port: u16,
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
}

impl Listen {
    /// Returns the listening addresses of the program for a server with these addresses.
    ///
    /// # Errors
    /// If there are several ports, or several addresses of a family.
    pub fn new(addresses: &[SocketAddr]) -> Result<Self, KernelError> {
        let error = |what: &str| KernelError::Listen(format!("with the engine `kernel` {what}"));
        let Some(first) = addresses.first() else { return Err(error("there must be an address")) };
        if addresses.iter().any(|address| address.ip().is_unspecified()) {
            // A device also receives packets to other hosts.
            return Err(error("addresses are written out, not [::] or 0.0.0.0"));
        }
        let mut listen = Listen { port: first.port(), v4: None, v6: None };
        for address in addresses {
            if address.port() != listen.port {
                return Err(error("all addresses have one port"));
            }
            let place = if address.is_ipv4() { &mut listen.v4 } else { &mut listen.v6 };
            if place.replace(address.ip()).is_some() {
                return Err(error("there is at most one address of IPv4 and one of IPv6"));
            }
        }
        Ok(listen)
    }
}

/// Returns the content of `struct config` in `bpf/auth.bpf.c`; replies leave as `redirected`
/// frames, or over the device of the query.
fn config_of(auth: &AuthConfig, listen: &Listen, redirected: bool) -> records::AuthRecord {
    let Prebuilt { mut embedded, pointer, soa, name_server, server_addresses, reverse, .. } =
        auth.prebuilt();
    let Prebuilt { address, soa_ttl, aaaa_below, udp_size, .. } = auth.prebuilt();
    let prefix = auth.namespace.prefix();
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.prefix_len())).unwrap_or(0);
    let families = u8::from(listen.v4.is_some()) | u8::from(listen.v6.is_some()) << 1;
    let [none, all, first] = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, prefix.first()]
        .map(|inner| u128::from(auth.pref64.embed(inner)));
    embedded[12..].copy_from_slice(&Ipv6Addr::from(none).octets());
    let halves = |bits: u128| [(bits >> 64) as u64, bits as u64];
    let [zone_0, zone_1] = reverse.each_ref().map(|zone| zone_of(zone.as_ref()));
    let octets = |ip: Option<IpAddr>| ip.map_or([0; 16], records::octets);
    let [.., a, b, c, d] = octets(listen.v4);
    records::AuthRecord {
        aaaa_below,
        base: halves(none),
        vary: halves(none ^ all),
        first: halves(first),
        prefix: u32::from(prefix.first()) & mask,
        mask,
        v4: [a, b, c, d],
        v6: octets(listen.v6),
        soa_ttl: soa_ttl.to_be(),
        port: listen.port.to_be(),
        opt_size: udp_size.to_be(),
        soa_len: soa.each_ref().map(|record| record.len() as u16),
        ns_len: name_server.each_ref().map(|record| record.len() as u16),
        pointer_len: pointer.len() as u16,
        octet_at: octet_places(auth.pref64),
        addresses: families,
        redirected: u8::from(redirected),
        spare: [0; 4],
        a: filled(&address),
        aaaa: filled(&embedded),
        server_a: filled(&server_addresses[0]),
        server_aaaa: filled(&server_addresses[1]),
        soa: filled(&soa[0]),
        reverse_soa: filled(&soa[1]),
        ns: filled(&name_server[0]),
        reverse_ns: filled(&name_server[1]),
        pointer: filled(&pointer),
        zones: [zone_of(Some(auth.namespace.zone())), zone_0, zone_1],
        padding: [0; 4],
    }
}

/// Returns the record of a zone, zeros if there is none.
fn zone_of(zone: Option<&Name>) -> Zone {
    let name = zone.map_or(Vec::new(), |zone| zone.as_wire().to_ascii_lowercase());
    let given = Labels::of(&name).count().saturating_sub(ARPA_LABELS);
    Zone { len: name.len() as u16, given: given as u16, name: filled(&name) }
}

/// Returns where the octets of an IPv4 address are in an address under `pref64`.
pub(crate) fn octet_places(pref64: Pref64) -> [u8; 4] {
    let none = pref64.embed(Ipv4Addr::UNSPECIFIED).octets();
    [0, 1, 2, 3].map(|octet| {
        let mut address = [0; 4];
        address[octet] = 0xff;
        let with = pref64.embed(address.into()).octets();
        (0..16).find(|at| with[*at] != none[*at]).expect("each octet of the prefix has a place")
            as u8
    })
}

/// Counters of the program, all cores together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// Number of messages to the program's port.
    pub queries: u64,
    /// Number of replies with an answer.
    pub answers: u64,
    /// Number of replies without a record of the type, for names that exist.
    pub nodata: u64,
    /// Number of replies for names that do not exist.
    pub nxdomain: u64,
    /// Number of messages passed to the sockets.
    pub passed: u64,
    /// Number of messages without a reply, since there was no room in the frame.
    pub dropped: u64,
}

/// The AuthDNS in the kernel, until it is dropped.
pub struct KernelAuth {
    program: Programs,
    config: Array<MapData, records::AuthRecord>,
    /// The content of `config` for devices that replies leave as redirected frames.
    for_hosts: records::AuthRecord,
    counters: PerCpuArray<MapData, AuthCounts>,
}

impl KernelAuth {
    /// Loads the program that answers as an AuthDNS of this configuration, which must be
    /// [plain](AuthConfig::is_plain).
    ///
    /// # Errors
    /// If this user may not, or the kernel refuses it.
    pub fn load(config: &AuthConfig, listen: &Listen) -> Result<Self, KernelError> {
        let mut program = Programs::maps(OBJECT, &[])?;
        let mut map = Array::try_from(program.take("config")?)?;
        map.set(0, config_of(config, listen, false), 0)?;
        let for_hosts = config_of(config, listen, true);
        let counters = PerCpuArray::try_from(program.take("counters")?)?;
        program.load(NAME)?;
        Ok(KernelAuth { program, config: map, for_hosts, counters })
    }

    /// Attaches the program to a device.
    ///
    /// # Errors
    /// If the device is missing or does not have this mode.
    pub fn attach(&mut self, device: &str, mode: XdpMode) -> Result<(), KernelError> {
        self.program.attach(NAME, device, mode)
    }

    /// Attaches the program to a device behind which clients have sockets. On a veth device replies
    /// then reach them if their end receives through NAPI (`gro on`); with plain links only if that
    /// end has a program too.
    ///
    /// # Errors
    /// If the device is missing or does not have this mode.
    pub fn attach_for_hosts(&mut self, device: &str, mode: XdpMode) -> Result<(), KernelError> {
        if is_veth(device) {
            self.config.set(0, self.for_hosts, 0)?;
        }
        self.attach(device, mode)
    }

    /// Returns the counters.
    ///
    /// # Errors
    /// If the kernel does not return them.
    pub fn counters(&self) -> Result<KernelCounters, KernelError> {
        let cores = self.counters.get(&0, 0)?;
        let AuthCounts { queries, answers, nodata, nxdomain, passed, dropped } =
            sum(cores.iter().copied());
        Ok(KernelCounters { queries, answers, nodata, nxdomain, passed, dropped })
    }

    /// Runs the program on one frame without a device; returns the reply frame; `None` if it passes
    /// or drops the frame.
    ///
    /// # Errors
    /// If the kernel cannot run it.
    pub fn run(&mut self, frame: &[u8], out: &mut [u8]) -> Result<Option<usize>, KernelError> {
        self.program.answer(NAME, frame, out)
    }
}
