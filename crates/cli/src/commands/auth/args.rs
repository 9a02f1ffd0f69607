use std::net::SocketAddr;
use std::path::PathBuf;

use auth::{AaaaPolicy, Capacity, FaultSpec, Late, Latency, Stall};
use clap::Args;
use kernel::XdpMode;
use lab::CpuList;
use measure::{Nanos, Qps, WaitMode};
use streams::serve::FaultPlan;
use udp::UdpOptions;
use wire::namespace::DEFAULT_ZONE;
use wire::{Ipv4Prefix, Name, Pref64};

use crate::arguments::address::{parse_listen, parse_listen_at_port};
use crate::arguments::choice::{Choice, choice};
use crate::arguments::number::parse_duration;
use crate::arguments::sockets::WAIT;

pub(crate) const EXAMPLES: &str = "Examples:
  An AuthDNS for the names of 10.0.0.0/8, on core 1
    dnsdyno auth --listen 10.9.0.2:5353 --namespace 10.0.0.0/8 --cpus 1

  A bad one, to try a DNS64 server or a Tester with: slow, lossy, and one answer in a hundred is wrong
    dnsdyno auth --listen [::1]:5353 --delay 20ms --loss 0.001 --fault wrong-address:0.01

  One of a known capacity, to see whether a Tester finds 20,000 queries a second: 20,000 answers a second, 200 at once
    dnsdyno auth --listen [::1]:5353 --aaaa always --capacity 20k

  One that stalls for 50 ms every 5 s, and one with two latencies: nine answers in ten after 0.2 ms, the tenth after 20 ms
    dnsdyno auth --listen [::1]:5353 --stall 50ms/5s
    dnsdyno auth --listen [::1]:5353 --latency bimodal:0.9:0.2ms:20ms

  One in the kernel, for millions of queries a second that arrive at eth1
    dnsdyno auth --listen [fd00:9::2]:53 --engine kernel --device eth1

  The Internet in a box, for a resolver on this host that has box/hints and asks 10.53.0.0/16 there; servers are 0 to 40 ms away
    dnsdyno zone internet --output box
    ip route add local 10.53.0.0/16 dev lo
    dnsdyno auth --internet box --listen 0.0.0.0:53 --server-delays 0s,2ms,10ms,40ms --log box/log

  Answers that come twice (one in a hundred) or after the timeout of the Tester (one in a thousand)
    dnsdyno auth --listen [::1]:5353 --fault duplicate:0.01 --late 0.001:2s";

/// Heading of the options about transports over TLS and QUIC.
const STREAMS: &str = "TLS, HTTPS and QUIC";
/// Heading of the options about delays, losses, limits and faults.
const BEHAVIOUR: &str = "Known behaviour";
/// Heading of the options about engine, sockets and threads.
const THREADS: &str = "Engine, sockets and threads";

#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("private").multiple(true))]
pub(crate) struct AuthArgs {
    /// Address of DNS over UDP and TCP: ADDRESS:PORT; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_listen, default_value = "[::1]:5353")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Address of DNS over TLS: ADDRESS:PORT; may be repeated
    #[arg(help_heading = STREAMS, long, value_name = "ADDRESS:PORT", value_parser = parse_listen_at_port, group = "private")]
    pub(crate) tls: Vec<SocketAddr>,
    /// Address of DNS over HTTPS, HTTP/2 over TCP and HTTP/3 over UDP: ADDRESS:PORT; may be repeated
    #[arg(help_heading = STREAMS, long, value_name = "ADDRESS:PORT", value_parser = parse_listen_at_port, group = "private")]
    pub(crate) https: Vec<SocketAddr>,
    /// Address of DNS over QUIC: ADDRESS:PORT; may be repeated
    #[arg(help_heading = STREAMS, long, value_name = "ADDRESS:PORT", value_parser = parse_listen_at_port, group = "private")]
    pub(crate) quic: Vec<SocketAddr>,
    /// The server's certificate (chain), PEM [default: from an authority that is generated at the start]
    #[arg(help_heading = STREAMS, long, value_name = "FILE", requires = "private", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The key of the certificate, PEM
    #[arg(help_heading = STREAMS, long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Write ca.pem, server.pem and server.key of the generated authority into this folder, which is made if it is not there
    #[arg(help_heading = STREAMS, long, value_name = "DIR", requires = "private", conflicts_with = "tls_certificate")]
    pub(crate) tls_write: Option<PathBuf>,
    /// Accept queries that come with the TLS handshake of a resumed session (0-RTT)
    #[arg(help_heading = STREAMS, long, requires = "private")]
    pub(crate) tls_early_data: bool,
    /// IPv4 prefix of the names
    #[arg(long, value_name = "PREFIX", default_value = "10.0.0.0/8")]
    pub(crate) namespace: Ipv4Prefix,
    /// Zone of the names
    #[arg(long, value_name = "ZONE", default_value = DEFAULT_ZONE)]
    pub(crate) zone: Name,
    /// Which names have AAAA records
    #[arg(
        long,
        value_parser = choice(&AAAA),
        value_name = "WHICH",
        default_value = "never",
        conflicts_with = "aaaa_share"
    )]
    pub(crate) aaaa: AaaaPolicy,
    /// Share (0 to 1) of the names that have AAAA records, chosen by a hash of the name
    #[arg(long, value_name = "SHARE")]
    pub(crate) aaaa_share: Option<f64>,
    /// Prefix of the addresses in AAAA records, before the IPv4 address
    #[arg(long, value_name = "PREF64", default_value = "2001:db8:64::/96")]
    pub(crate) pref64: Pref64,
    /// TTL of answers, seconds
    #[arg(long, value_name = "S", default_value_t = 3_600)]
    pub(crate) ttl: u32,
    /// MINIMUM of the SOA record, seconds
    #[arg(long, value_name = "S", default_value_t = 300)]
    pub(crate) negative_ttl: u32,
    /// TTL of the SOA record, seconds
    #[arg(long, value_name = "S", default_value_t = 3_600)]
    pub(crate) soa_ttl: u32,
    /// Delay every reply by this time
    #[arg(help_heading = BEHAVIOUR, long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    pub(crate) delay: Nanos,
    /// Delay replies by a known distribution: bimodal:SHARE:LOW:HIGH delays a share (0 to 1) by the time LOW and
    /// the others by HIGH
    #[arg(help_heading = BEHAVIOUR, long, value_name = "bimodal:SHARE:LOW:HIGH", conflicts_with = "delay")]
    pub(crate) latency: Option<Latency>,
    /// Send this share (0 to 1) of the replies only after TIME
    #[arg(help_heading = BEHAVIOUR, long, value_name = "SHARE:TIME")]
    pub(crate) late: Option<Late>,
    /// Answer at most RATE queries a second, all workers together, and drop the others silently;
    /// BURST is the largest number of answers at once, as a number or as the time in which RATE
    /// allows that many [default BURST: 10ms]
    #[arg(help_heading = BEHAVIOUR, long, value_name = "RATE[:BURST]")]
    pub(crate) capacity: Option<Capacity>,
    /// Stop answering for TIME at the end of every PERIOD, such as 50ms/5s; queries wait
    #[arg(help_heading = BEHAVIOUR, long, value_name = "TIME/PERIOD")]
    pub(crate) stall: Option<Stall>,
    /// Drop this share (0 to 1) of the replies, evenly spread
    #[arg(help_heading = BEHAVIOUR, long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) loss: f64,
    /// Spoil replies, evenly spread: KIND or KIND:SHARE, of wrong-address, wrong-question, wrong-id, truncate, cut, servfail, duplicate
    /// (over UDP, TCP and TLS: a stream of HTTP or QUIC takes one reply), silent; may be repeated
    #[arg(help_heading = BEHAVIOUR, long, value_name = "KIND:SHARE")]
    pub(crate) fault: Vec<FaultSpec>,
    /// Fail every Nth query over TCP, TLS, HTTP and QUIC: status=CODE/N, reset/N, refuse/N, goaway/N or close/N
    #[arg(help_heading = BEHAVIOUR, long, value_name = "FAULT/N")]
    pub(crate) stream_fault: Option<FaultPlan>,
    /// Keep at most N connections over TCP, TLS, HTTP and QUIC at a time, and close others at once [default: 100000]
    #[arg(help_heading = BEHAVIOUR, long, value_name = "N")]
    pub(crate) max_connections: Option<usize>,
    /// Accept at most RATE connections a second; others wait for their turn
    #[arg(help_heading = BEHAVIOUR, long, value_name = "RATE")]
    pub(crate) accept_rate: Option<Qps>,
    /// What answers UDP: the sockets, or a program in the kernel (XDP) that leaves to the sockets what it cannot answer; as root
    #[arg(help_heading = THREADS, long, value_parser = choice(&ENGINE), value_name = "ENGINE", default_value = "sockets", requires_if("kernel", "device"))]
    pub(crate) engine: AuthEngine,
    /// Network device whose queries are answered in the kernel; may be repeated
    #[arg(help_heading = THREADS, long, value_name = "DEVICE")]
    pub(crate) device: Vec<String>,
    /// Where the program gets frames: from the device's driver, or from the kernel after the driver
    /// (generic XDP, for every device, but slower than most servers) [default: native]
    #[arg(help_heading = THREADS, long, value_parser = choice(&XDP), value_name = "MODE", requires = "device")]
    pub(crate) xdp: Option<XdpMode>,
    /// Remember which names were queried: class CH of a name gets NOERROR if it was, else NXDOMAIN; class CH TXT of the zone is the
    /// number of messages so far
    #[arg(long)]
    pub(crate) remember: bool,
    /// Answer the names of drills: large.ZONE with 4 kB of TXT records, names below bomb.ZONE that are delegated to many
    /// servers without addresses, and names below keytrap.ZONE whose signatures no key has made
    #[arg(long)]
    pub(crate) traps: bool,
    /// Cores, one worker on each [default: one worker on any core]
    #[arg(help_heading = THREADS, long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// How workers wait
    #[arg(help_heading = THREADS, long, value_parser = choice(&WAIT), value_name = "MODE", default_value = "sleep")]
    pub(crate) wait_mode: WaitMode,
    /// Send each datagram by itself (no UDP_SEGMENT)
    #[arg(help_heading = THREADS, long)]
    pub(crate) no_gso: bool,
    /// Receive each datagram by itself (no UDP_GRO)
    #[arg(help_heading = THREADS, long)]
    pub(crate) no_gro: bool,
    /// Requested receive and send buffer of each UDP socket, in bytes
    #[arg(help_heading = THREADS, long, value_name = "BYTES", default_value_t = UdpOptions::default().buffer)]
    pub(crate) buffer: usize,
    /// End after this time [default: on SIGINT or SIGTERM]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Nanos>,
    #[command(flatten)]
    pub(crate) internet: super::internet::InternetArgs,
}

/// What answers queries over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthEngine {
    Sockets,
    /// A program in the kernel, and sockets for queries that the program passes on.
    Kernel,
}

/// What answers queries over UDP.
const ENGINE: [Choice<AuthEngine>; 2] = [
    ("sockets", "The sockets of the workers", AuthEngine::Sockets),
    ("kernel", "A program in the kernel; sockets answer the rest", AuthEngine::Kernel),
];

/// Where the program in the kernel gets frames.
const XDP: [Choice<XdpMode>; 2] = [
    ("native", "From the driver, which must support it", XdpMode::Native),
    ("generic", "From the kernel, on any device", XdpMode::Generic),
];

/// Which names have AAAA records.
const AAAA: [Choice<AaaaPolicy>; 2] =
    [("never", "None", AaaaPolicy::Never), ("always", "All", AaaaPolicy::Always)];
