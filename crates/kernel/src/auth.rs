//! The AuthDNS in XDP: answers the plain queries of a namespace.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ::auth::{AuthConfig, Prebuilt};
use aya::Ebpf;
use aya::maps::{Array, PerCpuArray};
use aya::programs::{ProgramError, TestRun as _, TestRunOptions, Xdp, XdpMode};
use wire::Pref64;

use crate::error::KernelError;

/// The programs and maps of `bpf/auth.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/auth.bpf.o");
/// Name of the program.
const NAME: &str = "auth";
/// Size of `struct config`.
const CONFIG: usize = 416;
/// Number of counters of each core.
const COUNTERS: usize = 6;
/// Largest SOA record of a negative reply, in octets.
const MAX_SOA: usize = 64;
/// Value of a program that sends the frame back.
const XDP_TX: u32 = 3;

/// Where the program answers: a port, and an address of one or both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    port: u16,
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
}

impl Listen {
    /// Returns where a server with these addresses is answered for.
    ///
    /// # Errors
    /// If there are several ports, or several addresses of a family.
    pub fn new(addresses: &[SocketAddr]) -> Result<Self, KernelError> {
        let error = |what: &str| KernelError::Listen(format!("with the engine `kernel` {what}"));
        let Some(first) = addresses.first() else { return Err(error("there must be an address")) };
        if addresses.iter().any(|address| address.ip().is_unspecified()) {
            // A device sees packets to other hosts too.
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

/// Returns the content of `struct config` in `bpf/auth.bpf.c`.
fn config_of(auth: &AuthConfig, listen: &Listen) -> [u8; CONFIG] {
    let Prebuilt { address, mut embedded, soa, aaaa_below, udp_size } = auth.prebuilt();
    let prefix = auth.namespace.prefix();
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.prefix_len())).unwrap_or(0);
    let octets = |ip: Option<IpAddr>| match ip {
        Some(IpAddr::V4(ip)) => ip.octets().to_vec(),
        Some(IpAddr::V6(ip)) => ip.octets().to_vec(),
        None => Vec::new(),
    };
    let families = u8::from(listen.v4.is_some()) | u8::from(listen.v6.is_some()) << 1;
    let zone = auth.namespace.zone().as_wire().to_ascii_lowercase();
    embedded[12..].copy_from_slice(&auth.pref64.embed(Ipv4Addr::UNSPECIFIED).octets());
    let mut config = Config::default();
    config.put(8, &aaaa_below.to_ne_bytes());
    config.put(4, &(u32::from(prefix.first()) & mask).to_ne_bytes());
    config.put(4, &mask.to_ne_bytes());
    config.put(4, &octets(listen.v4));
    config.put(16, &octets(listen.v6));
    config.put(2, &listen.port.to_be_bytes());
    config.put(2, &(zone.len() as u16).to_ne_bytes());
    config.put(2, &(soa.len() as u16).to_ne_bytes());
    config.put(2, &udp_size.to_be_bytes());
    config.put(4, &octet_places(auth.pref64));
    config.put(4, &[families]);
    config.put(16, &address);
    config.put(28, &embedded);
    config.put(MAX_SOA, &soa);
    config.put(256, &zone);
    config.bytes
}

/// The octets of `struct config`, field after field.
struct Config {
    bytes: [u8; CONFIG],
    at: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config { bytes: [0; CONFIG], at: 0 }
    }
}

impl Config {
    /// Stores a field of `size` octets, zeros after `value`.
    fn put(&mut self, size: usize, value: &[u8]) {
        assert!(value.len() <= size, "a field of {size} octets");
        self.bytes[self.at..self.at + value.len()].copy_from_slice(value);
        self.at += size;
    }
}

/// Returns where the octets of an IPv4 address stand in an address under `pref64`.
pub(crate) fn octet_places(pref64: Pref64) -> [u8; 4] {
    let none = pref64.embed(Ipv4Addr::UNSPECIFIED).octets();
    [0, 1, 2, 3].map(|octet| {
        let mut address = [0; 4];
        address[octet] = 0xff;
        let with = pref64.embed(address.into()).octets();
        (0..16).find(|at| with[*at] != none[*at]).expect("a prefix has a place for each octet")
            as u8
    })
}

/// Counters of the program, all cores together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// Number of messages to its port.
    pub queries: u64,
    /// Number of replies with an answer.
    pub answers: u64,
    /// Number of NODATA replies.
    pub nodata: u64,
    /// Number of NXDOMAIN replies.
    pub nxdomain: u64,
    /// Number of messages that the sockets were left to answer.
    pub passed: u64,
    /// Number of messages without a reply, since there was no room in the frame.
    pub dropped: u64,
}

/// The AuthDNS in the kernel, until it is dropped.
#[derive(Debug)]
pub struct KernelAuth {
    ebpf: Ebpf,
}

impl KernelAuth {
    /// Loads the program that answers as an AuthDNS of this configuration, which must be
    /// [plain](AuthConfig::is_plain).
    ///
    /// # Errors
    /// If this user may not, or the kernel refuses it.
    pub fn load(config: &AuthConfig, listen: &Listen) -> Result<Self, KernelError> {
        let mut ebpf = Ebpf::load(OBJECT).map_err(KernelError::load)?;
        let map = ebpf.map_mut("config").ok_or(KernelError::Missing("the map `config`"))?;
        Array::<_, [u8; CONFIG]>::try_from(map)?.set(0, config_of(config, listen), 0)?;
        let mut auth = KernelAuth { ebpf };
        auth.program()?.load().map_err(|e| KernelError::program(NAME, e))?;
        Ok(auth)
    }

    /// Attaches the program to a device, in the native mode of its driver.
    ///
    /// # Errors
    /// If the device is missing or has no native mode.
    pub fn attach(&mut self, device: &str) -> Result<(), KernelError> {
        let attached = self.program()?.attach(device, XdpMode::Driver);
        attached.map(drop).map_err(|error| KernelError::attach(device, &error))
    }

    fn program(&mut self) -> Result<&mut Xdp, KernelError> {
        let program = self.ebpf.program_mut(NAME).ok_or(KernelError::Missing(NAME))?;
        program.try_into().map_err(|e: ProgramError| KernelError::program(NAME, e))
    }

    /// Returns the counters.
    ///
    /// # Errors
    /// If the kernel does not give them.
    pub fn counters(&self) -> Result<KernelCounters, KernelError> {
        let map = self.ebpf.map("counters").ok_or(KernelError::Missing("the map `counters`"))?;
        let cores = PerCpuArray::<_, [u64; COUNTERS]>::try_from(map)?.get(&0, 0)?;
        let sum = |at: usize| cores.iter().map(|core| core[at]).sum();
        Ok(KernelCounters {
            queries: sum(0),
            answers: sum(1),
            nodata: sum(2),
            nxdomain: sum(3),
            passed: sum(4),
            dropped: sum(5),
        })
    }

    /// Runs the program on one frame without a device; returns what it sends back, `None` if it passes or drops the frame.
    ///
    /// # Errors
    /// If the kernel cannot run it.
    pub fn run(&mut self, frame: &[u8], out: &mut [u8]) -> Result<Option<usize>, KernelError> {
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(out),
            repeat: 1,
            ..Default::default()
        };
        let run = self.program()?.test_run(options);
        let run = run.map_err(|e| KernelError::program(NAME, e))?;
        Ok((run.return_value == XDP_TX).then_some(run.data_size_out as usize))
    }
}
