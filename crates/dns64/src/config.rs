//! The configuration file, as TOML.
//!
//! Each value is validated when it is read, so that an error names its line and column. Relations between
//! values are validated by [`Config::parse`] at the end. `defaults.toml`, printed by `dns64d
//! --print-defaults`, explains each setting; a test compares it with the defaults in the code.

mod block;
mod bounds;
mod changes;
mod defaults;
mod exclusive;
mod forward;
mod kernel;
mod operator;
pub(crate) mod ports;
mod route;
mod text;
mod validate;
mod view;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::{IpNet, Ipv6Net};
use measure::{Nanos, Transport};
use serde::Deserialize;
use thiserror::Error;
use wire::{Name, Pref64};

use text::{
    address_or_none, addresses, doh_addresses, domains, dot_addresses, hosts, ipv6_networks,
    networks, text, text_or_none, texts, udp_size, udp_size_or_none,
};

pub use block::{BlockConfig, Follow, Ipv4, Probe};
pub(crate) use block::{fits, is_usable};
pub use changes::{Change, NEED_RESTART, changes};
pub use kernel::{AfterDeath, KernelConfig, KernelMode, XdpKind};
pub use operator::{
    ControlConfig, DNSTAP_QUEUE, DnstapConfig, HostsConfig, LeaseFormat, LeasesConfig, LogFormat,
    LogLevel, RulesConfig,
};
pub use ports::PortRange;
pub use route::RouteConfig;
pub use text::Bytes;
pub use view::{ForwardConfig, Group, ViewConfig};

/// All settings with their defaults and explanations, as a configuration file.
pub const DEFAULTS: &str = include_str!("config/defaults.toml");

/// Highest number of blocks: the blocks of a client are a set of 32 bits.
pub(crate) const MAX_BLOCKS: usize = 32;
/// Highest number of upstream servers.
pub const MAX_UPSTREAMS: usize = 16;
/// Highest number of upstream sockets of a worker, for all servers together.
pub(crate) const MAX_SOURCE_PORTS: usize = 2_048;
/// Highest number of outstanding queries: an index has 31 bits, and each query takes about a kilobyte.
pub const MAX_OUTSTANDING: usize = 1 << 22;

/// A configuration file of dns64d, read and checked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// Listening addresses, permitted clients, threads, logging.
    pub server: ServerConfig,
    /// Rules of synthesis: names, records and prefixes.
    pub synthesis: SynthesisConfig,
    /// Files with rules for single names, such as block lists.
    pub rules: RulesConfig,
    /// Hosts files and DHCP leases whose names are answered locally.
    pub hosts: HostsConfig,
    /// The prefixes; empty for the well-known prefix for all clients.
    pub dns64: Vec<BlockConfig>,
    /// The servers to which queries go that no `[[forward]]` is for.
    pub upstream: UpstreamConfig,
    /// Zones with servers of their own.
    pub forward: Vec<ForwardConfig>,
    /// Different settings for some clients.
    pub view: Vec<ViewConfig>,
    /// Memory of the cache, and lifetimes of answers.
    pub cache: CacheConfig,
    /// Most memory, pending queries and connections, in all and of one client network.
    pub limits: LimitsConfig,
    /// Address of the metrics, and networks that may read them.
    pub metrics: MetricsConfig,
    /// The socket for queries and commands of an operator.
    pub control: ControlConfig,
    /// Messages for a reader of dnstap.
    pub dnstap: DnstapConfig,
    /// Certificate and addresses of DNS over TLS, HTTPS and QUIC for clients.
    pub tls: TlsConfig,
    /// Settings of the XDP programs that answer before the sockets.
    pub kernel: KernelConfig,
}

/// Listening addresses, permitted clients, threads, logging.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ServerConfig {
    /// Addresses for UDP and TCP; the default port is 53.
    #[serde(deserialize_with = "addresses")]
    pub listen: Vec<SocketAddr>,
    /// Number of threads; 0 for one on each core.
    pub workers: usize,
    /// Number of threads with streams; 0 for as many as workers.
    pub stream_threads: usize,
    /// Cores to which the threads are pinned, in turn.
    pub cpus: Vec<usize>,
    /// Encrypted transports that clients can discover.
    pub designate: DesignateConfig,
    /// Networks whose clients may send queries.
    #[serde(deserialize_with = "networks")]
    pub allow: Vec<IpNet>,
    /// Networks whose clients may not, even if `allow` includes them.
    #[serde(deserialize_with = "networks")]
    pub deny: Vec<IpNet>,
    /// Reply to clients that `allow` does not permit, or `deny` forbids.
    pub denied: Denied,
    /// Networks of proxies, whose queries and connections begin with a PROXY header.
    #[serde(deserialize_with = "networks")]
    pub proxies: Vec<IpNet>,
    /// Whether ANY queries over UDP get a minimal answer (RFC 8482).
    pub minimal_any: bool,
    /// Largest UDP reply, in octets.
    #[serde(deserialize_with = "udp_size")]
    pub max_udp_size: u16,
    /// Requested receive and send buffer of each UDP socket, in octets.
    pub socket_buffer: Bytes,
    /// The way of packets to clients.
    pub route: RouteConfig,
    /// User to change to; empty for an ordinary one if the server is started as root.
    pub user: String,
    /// Whether the server may open only the files of its configuration after its start.
    pub restrict_files: bool,
    /// Least important events that are logged.
    pub log: LogLevel,
    /// Whether a line of the log is text or a JSON object.
    pub log_format: LogFormat,
    /// Logs one of this number of answers; 0: none.
    pub log_queries: u32,
}

impl ServerConfig {
    /// Returns whether a client may send queries.
    pub fn permits(&self, client: IpAddr) -> bool {
        self.permits_network(client.into())
    }

    /// Returns whether the clients of a network may send queries, except in smaller networks of the lists.
    pub(crate) fn permits_network(&self, clients: IpNet) -> bool {
        let within = |list: &[IpNet]| list.iter().any(|network| network.contains(&clients));
        within(&self.allow) && !within(&self.deny)
    }

    /// Returns whether an address belongs to this server itself: it listens on the address, or on
    /// all addresses with this port and the address is a loopback address.
    pub(crate) fn is_at(&self, address: &SocketAddr) -> bool {
        let is_local = address.ip().is_loopback() || address.ip().is_unspecified();
        let is_any = |listen: &SocketAddr| {
            listen.ip().is_unspecified()
                && listen.is_ipv4() == address.is_ipv4()
                && listen.port() == address.port()
        };
        self.listen.contains(address)
            || is_local && self.route.device.is_empty() && self.listen.iter().any(is_any)
    }

    /// Returns whether a proxy has an address.
    #[inline]
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(&address))
    }
}

/// Encrypted transports of the server that clients can discover (RFC 9462).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct DesignateConfig {
    /// Name in the certificate; `None`: clients discover nothing.
    #[serde(deserialize_with = "text_or_none")]
    pub name: Option<Name>,
}

/// Reply to clients that may not send queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Denied {
    /// Such clients get the return code REFUSED.
    Refuse,
    /// Such clients get no reply, as if there were no server.
    Drop,
}

/// Certificate and addresses of DNS over TLS, HTTPS and QUIC for clients (`[tls]`).
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct TlsConfig {
    /// PEM file of the certificate and its chain; empty for none.
    pub certificate: PathBuf,
    /// PEM file of the certificate's key.
    pub key: PathBuf,
    /// Addresses for DNS over TLS (RFC 7858); the default port is 853.
    #[serde(deserialize_with = "dot_addresses")]
    pub dot: Vec<SocketAddr>,
    /// Addresses for DNS over HTTPS with HTTP/1.1, HTTP/2 and HTTP/3 (RFC 8484); the default port is 443.
    #[serde(deserialize_with = "doh_addresses")]
    pub doh: Vec<SocketAddr>,
    /// Addresses for DNS over QUIC (RFC 9250); the default port is 853.
    #[serde(deserialize_with = "dot_addresses")]
    pub doq: Vec<SocketAddr>,
    /// Whether queries in the handshake of a resumed session are accepted (0-RTT).
    pub early_data: bool,
}

impl TlsConfig {
    /// Returns whether any encrypted transport has an address.
    pub fn listens(&self) -> bool {
        !(self.dot.is_empty() && self.doh.is_empty() && self.doq.is_empty())
    }
}

/// Rules of synthesis: names, records and prefixes (`[synthesis]`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SynthesisConfig {
    /// Networks whose AAAA records count as absent (RFC 6147 section 5.1.4).
    #[serde(deserialize_with = "ipv6_networks")]
    pub exclude: Vec<Ipv6Net>,
    /// Domains that are never synthesised.
    #[serde(deserialize_with = "domains")]
    pub never: Vec<Name>,
    /// Domains that are synthesised even when they have AAAA records.
    #[serde(deserialize_with = "domains")]
    pub always: Vec<Name>,
    /// Domains for whose names NXDOMAIN to AAAA counts as empty (against section 5.1.2).
    #[serde(deserialize_with = "domains")]
    pub ignore_nxdomain: Vec<Name>,
    /// Next step after an error of the AAAA query (section 5.1.2).
    pub on_error: OnError,
    /// Next step after a timeout of the AAAA query (section 5.1.3).
    pub on_timeout: OnTimeout,
    /// Longest TTL if the AAAA reply has no SOA, in seconds (section 5.1.7).
    pub ttl_without_soa: u32,
    /// Whether AAAA and A are queried at the same time.
    pub parallel: bool,
    /// Handling of PTR queries under a prefix (section 5.3.1).
    pub ptr: PtrMode,
    /// Domain of the names for `ptr = "local"`.
    #[serde(deserialize_with = "text")]
    pub ptr_zone: Name,
    /// Whether `ipv4only.arpa` is answered locally (RFC 8880).
    pub ipv4only_arpa: bool,
    /// Whether only queries with RD are synthesised.
    pub recursive_only: bool,
    /// Whether data that `leave_alone` covers is synthesised too, which breaks validation.
    pub break_dnssec: bool,
    /// Which data for validating clients is not changed (section 5.5).
    pub leave_alone: LeaveAlone,
    /// Whether targets of HTTPS and SVCB records get AAAA records (RFC 9460 section 4.2.1).
    pub service_targets: bool,
    /// Handling of IPv4 hints in service records.
    pub ipv4hint: HintMode,
}

/// Next step after an error of the AAAA query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// A is queried, as if there were no AAAA record.
    AskA,
    /// The error is passed on.
    Pass,
}

/// Next step after a timeout of the AAAA query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnTimeout {
    /// A is queried, as if there were no AAAA record.
    AskA,
    /// The client gets SERVFAIL, whether the name has A records or not.
    Fail,
}

/// Data for validating clients that is not changed, unless `break-dnssec` says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaveAlone {
    /// All data for queries with DO and CD (RFC 6147 section 5.5, case 3).
    Cd,
    /// Signed data for queries with DO, as BIND does. Unsigned data, which no validator can refuse, is synthesised.
    Signed,
}

/// Handling of PTR queries for addresses under a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PtrMode {
    /// A CNAME to the name in in-addr.arpa, with its PTR.
    Cname,
    /// The PTR of the name in in-addr.arpa, under the original name.
    InPlace,
    /// A name made from the IPv4 address.
    Local,
    /// The reply of upstream is passed on.
    Pass,
}

/// Handling of the IPv4 hints of HTTPS and SVCB records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HintMode {
    /// IPv4 hints are not changed.
    Keep,
    /// IPv4 hints are removed, so that clients use the AAAA records.
    Strip,
}

/// The servers for names without a `[[forward]]`, and how they are queried (`[upstream]`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct UpstreamConfig {
    /// Addresses of the servers; the default port is 53.
    #[serde(deserialize_with = "addresses")]
    pub servers: Vec<SocketAddr>,
    /// Share of the queries of each server; empty: the fastest gets them.
    pub weights: Vec<u32>,
    /// Whether servers with IPv4 addresses are reached through the NAT64.
    pub via_prefix: bool,
    /// Source addresses of the queries, one of each family at most.
    #[serde(deserialize_with = "hosts")]
    pub source: Vec<IpAddr>,
    /// Network device and traffic class of queries to them.
    pub route: RouteConfig,
    /// Transport of queries to the servers.
    pub transport: Transport,
    /// Name in their certificates; empty for their addresses.
    pub tls_name: String,
    /// PEM file of the certificate authorities; empty to accept any certificate.
    pub tls_authorities: PathBuf,
    /// Path of requests over HTTP.
    pub https_path: String,
    /// Timeout of the first attempt of a query to a server whose round trip time is not known.
    #[serde(deserialize_with = "text")]
    pub first_timeout: Nanos,
    /// Least time above the round trip time until a query is sent again.
    #[serde(deserialize_with = "text")]
    pub min_timeout: Nanos,
    /// Highest number of attempts of a query.
    pub attempts: u8,
    /// Time after which a query without a reply ends.
    #[serde(deserialize_with = "text")]
    pub give_up_after: Nanos,
    /// Number of consecutive timeouts after which a server is probed; it is dead if it does not answer probes.
    pub dead_after: u32,
    /// Time until the first probe of a dead server.
    #[serde(deserialize_with = "text")]
    pub probe_after: Nanos,
    /// Number of sockets of each worker to each server.
    pub source_ports: usize,
    /// Source ports that are never used, for example since firewalls drop their packets.
    #[serde(deserialize_with = "texts")]
    pub avoid_ports: Vec<PortRange>,
    /// Largest share of the source ports that all workers together use.
    pub port_share: f64,
    /// Interval at which one of the sockets gets a new port.
    #[serde(deserialize_with = "text")]
    pub port_lifetime: Nanos,
    /// Whether the client subnet (RFC 7871) is sent to them.
    pub client_subnet: ClientSubnet,
    /// Prefix length of an IPv4 client's network in an option that is added.
    pub client_subnet_ipv4_bits: u8,
    /// Prefix length of the subnet that is sent for an IPv6 client, in bits.
    pub client_subnet_ipv6_bits: u8,
    /// When the servers' AD bit is believed.
    pub trust_ad: TrustAd,
    /// Whether names are sent in mixed case.
    pub mixed_case: bool,
    /// Whether queries have cookies (RFC 7873).
    pub cookies: bool,
    /// Largest UDP reply that is accepted, in octets; 0 for no EDNS.
    #[serde(deserialize_with = "udp_size_or_none")]
    pub udp_size: u16,
    /// Number of connections to each server.
    pub tcp_connections: usize,
    /// Timeout of a query on a connection.
    #[serde(deserialize_with = "text")]
    pub tcp_timeout: Nanos,
}

/// Handling of the client subnet option (RFC 7871).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientSubnet {
    /// Queries upstream have no client subnet.
    Drop,
    /// Queries upstream have the subnet of the client's query.
    Pass,
    /// Queries upstream have the subnet of the client's query, or else the client's network.
    Add,
}

/// When the AD bit of an upstream server is believed. Over an open network anyone may set it (RFC 4035 section 4.9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrustAd {
    /// AD is never believed, so that no answer to a client has it.
    Never,
    /// From a server on this host, or encrypted with a verified certificate.
    Secure,
    /// AD is trusted over every way to the server.
    Always,
}

impl UpstreamConfig {
    /// Returns whether the AD bit of a server in a pool is believed.
    pub(crate) fn trusts_ad(&self, server: SocketAddr, pool: &ForwardConfig) -> bool {
        let verified = pool.transport.uses_tls() && !pool.tls_authorities.as_os_str().is_empty();
        match self.trust_ad {
            TrustAd::Never => false,
            TrustAd::Secure => verified || server.ip().to_canonical().is_loopback(),
            TrustAd::Always => true,
        }
    }
}

/// Memory of the cache, and lifetimes of answers (`[cache]`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CacheConfig {
    /// Memory of all workers' caches together; 0 for no cache.
    pub size: Bytes,
    /// Shortest time for which an answer is cached, even if its TTL is shorter.
    #[serde(deserialize_with = "text")]
    pub min_ttl: Nanos,
    /// Longest time for which an answer with records is cached, even if its TTL is longer.
    #[serde(deserialize_with = "text")]
    pub max_ttl: Nanos,
    /// Largest TTL of negative answers.
    #[serde(deserialize_with = "text")]
    pub max_negative_ttl: Nanos,
    /// Time for which a failure is answered again without a query to upstream.
    #[serde(deserialize_with = "text")]
    pub failure_ttl: Nanos,
    /// Time after its expiry during which an answer may be served instead of a failure.
    #[serde(deserialize_with = "text")]
    pub serve_stale: Nanos,
    /// TTL of a stale answer, and time for which upstream is not queried again.
    #[serde(deserialize_with = "text")]
    pub stale_ttl: Nanos,
    /// Whether answers in use are refreshed before they expire.
    pub prefetch: bool,
    /// File that stores the cache between two runs of the server; empty for none.
    pub snapshot: PathBuf,
}

/// Most memory, pending queries and connections, in all and of one client network (`[limits]`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LimitsConfig {
    /// Memory of the cache, of pending queries and of streams, all workers together.
    pub memory: Bytes,
    /// Outstanding queries to upstream, all workers together.
    pub outstanding: usize,
    /// Share of the outstanding queries that one client network may have.
    pub client_share: f64,
    /// Share of the memory for streams that one client network may have.
    pub client_memory_share: f64,
    /// Handling of queries beyond that.
    pub overload: Overload,
    /// Prefix length of a client network, for IPv4.
    pub client_ipv4_bits: u8,
    /// Prefix length of a client network, for IPv6.
    pub client_ipv6_bits: u8,
    /// Rate limit: UDP replies per second to one client network; 0 for no limit.
    pub responses_per_second: u32,
    /// Rate limit: equal UDP answers per second to one client network; 0 for no limit.
    pub same_responses_per_second: u32,
    /// Every n-th reply over the limit is truncated instead of dropped; 0 for none.
    pub slip: u32,
    /// Highest number of connections of each transport: TCP, TLS, HTTP over TLS, QUIC, HTTP/3.
    pub tcp_connections: usize,
    /// Highest number of connections over TCP from one client network.
    pub tcp_connections_per_client: usize,
    /// Highest number of outstanding queries on one connection.
    pub tcp_pipelined: usize,
    /// Time without a query after which a connection is closed.
    #[serde(deserialize_with = "text")]
    pub tcp_idle: Nanos,
}

impl LimitsConfig {
    /// Returns the network of a client, as its first address.
    pub fn network_of(&self, client: IpAddr) -> IpAddr {
        let bits = if client.is_ipv4() { self.client_ipv4_bits } else { self.client_ipv6_bits };
        IpNet::new(client, bits).map_or(client, |network| network.network())
    }
}

/// Handling of a query when all places are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overload {
    /// The new query is answered with SERVFAIL.
    RefuseNewest,
    /// The new query gets no reply.
    DropNewest,
    /// The new query takes the place of the oldest one, which gets SERVFAIL.
    RefuseOldest,
    /// The new query takes the place of the oldest one, which gets no reply.
    DropOldest,
}

/// Address of the metrics, and networks that may read them (`[metrics]`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct MetricsConfig {
    /// Address at which metrics and health are served over HTTP; `None` for nowhere.
    #[serde(deserialize_with = "address_or_none")]
    pub listen: Option<SocketAddr>,
    /// Networks whose clients may read the metrics.
    #[serde(deserialize_with = "networks")]
    pub allow: Vec<IpNet>,
}

impl MetricsConfig {
    /// Returns whether a client gets the metrics.
    pub fn permits(&self, client: IpAddr) -> bool {
        self.allow.iter().any(|network| network.contains(&client.to_canonical()))
    }
}

/// Why a configuration file is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A value is wrong; the text has its line and column.
    #[error("{0}")]
    Toml(String),
    /// Values contradict each other or are out of bounds.
    #[error("{key}: {problem}")]
    Value {
        /// Key of the value with its table, as in `upstream.servers`.
        key: String,
        /// The problem, and an accepted value.
        problem: String,
    },
}

/// Refuses a value unless it is right; `problem` has an accepted value.
fn ensure(right: bool, key: &str, problem: impl Into<String>) -> Result<(), ConfigError> {
    match right {
        true => Ok(()),
        false => Err(ConfigError::Value { key: key.to_owned(), problem: problem.into() }),
    }
}

impl Config {
    /// Reads the configuration in `text`; missing settings are as in [`DEFAULTS`].
    #[inline] // into the daemon, which is optimised for size: the readers of all settings are a twentieth of it
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text)
            .map_err(|error| ConfigError::Toml(error.to_string().trim_end().to_owned()))?;
        config.validate()?;
        Ok(config)
    }

    /// Returns the blocks; without any, the well-known prefix for all clients.
    pub fn blocks(&self) -> Vec<BlockConfig> {
        if self.dns64.is_empty() {
            vec![BlockConfig::new(Pref64::WELL_KNOWN)]
        } else {
            self.dns64.clone()
        }
    }
}

#[cfg(test)]
mod tests;
