//! The configuration file, as TOML.
//!
//! What a value may be is checked as it is read, so that an error tells its line and column; what several values must
//! be together is checked by [`Config::parse`] at the end. `defaults.toml`, which `dns64d --print-defaults` shows, says
//! what each means; a test holds it and the defaults in the code together.

mod defaults;
mod text;

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use ipnet::{IpNet, Ipv4Net};
use measure::Nanos;
use serde::Deserialize;
use thiserror::Error;
use wire::{Name, Pref64};

use defaults::{all_ipv4, everybody, no_suffix};
use text::{
    address_or_none, addresses, doh_addresses, dot_addresses, networks, networks_or_none, text,
    texts, udp_size, udp_size_or_none,
};

pub use text::Bytes;

/// All settings with their defaults and what they mean, as a configuration file.
pub const DEFAULTS: &str = include_str!("config/defaults.toml");

/// The most blocks: a client's are a set of bits.
pub const MAX_BLOCKS: usize = 32;
/// The most upstream servers.
pub const MAX_UPSTREAMS: usize = 16;
/// The most upstream sockets of a worker, for all servers together.
pub const MAX_SOURCE_PORTS: usize = 2_048;
/// The most queries waiting for upstream: an index has 31 bits, and each takes about a kilobyte.
pub const MAX_OUTSTANDING: usize = 1 << 22;

/// What a configuration file says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// Whom it serves, and as what.
    pub server: ServerConfig,
    /// What is synthesised.
    pub synthesis: SynthesisConfig,
    /// The prefixes; none stands for the well-known one for everybody.
    pub dns64: Vec<BlockConfig>,
    /// Whom it asks.
    pub upstream: UpstreamConfig,
    /// What it keeps.
    pub cache: CacheConfig,
    /// What it bears.
    pub limits: LimitsConfig,
    /// What it tells.
    pub metrics: MetricsConfig,
    /// What it says in private.
    pub tls: TlsConfig,
}

/// Whom the server serves, and as what.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ServerConfig {
    /// Addresses for UDP and TCP; port 53 unless it is said.
    #[serde(deserialize_with = "addresses")]
    pub listen: Vec<SocketAddr>,
    /// Threads; 0 stands for one on each core.
    pub workers: usize,
    /// Cores to bind them to, in turn.
    pub cpus: Vec<usize>,
    /// The networks that may ask.
    #[serde(deserialize_with = "networks")]
    pub allow: Vec<IpNet>,
    /// The networks that may not, even if they are among those.
    #[serde(deserialize_with = "networks")]
    pub deny: Vec<IpNet>,
    /// What the others get.
    pub denied: Denied,
    /// The largest UDP reply, octets.
    #[serde(deserialize_with = "udp_size")]
    pub max_udp_size: u16,
    /// The user to become; empty for none.
    pub user: String,
    /// How much is logged.
    pub log: LogLevel,
    /// How it is written.
    pub log_format: LogFormat,
}

/// What clients get that may not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Denied {
    /// REFUSED.
    Refuse,
    /// Nothing.
    Drop,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// What has to be mended.
    Error,
    /// What might have to be.
    Warn,
    /// What changed.
    Info,
    /// What happened.
    Debug,
}

/// How a log line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// What the server says in private.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct TlsConfig {
    /// The certificate and those that vouch for it, PEM; empty for none.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Addresses for TLS (RFC 7858); port 853 unless it is said.
    #[serde(deserialize_with = "dot_addresses")]
    pub dot: Vec<SocketAddr>,
    /// Addresses for HTTP/2 and HTTP/3 (RFC 8484); port 443 unless it is said.
    #[serde(deserialize_with = "doh_addresses")]
    pub doh: Vec<SocketAddr>,
    /// Addresses for QUIC (RFC 9250); port 853 unless it is said.
    #[serde(deserialize_with = "dot_addresses")]
    pub doq: Vec<SocketAddr>,
    /// Whether queries are taken that come with the handshake of a resumed session.
    pub early_data: bool,
}

impl TlsConfig {
    /// Whether anything is listened on.
    pub fn listens(&self) -> bool {
        !(self.dot.is_empty() && self.doh.is_empty() && self.doq.is_empty())
    }
}

/// How upstream is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// By UDP, and by TCP what was truncated.
    Udp,
    /// By TCP.
    Tcp,
    /// By TLS (RFC 7858).
    Tls,
}

/// What is synthesised.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SynthesisConfig {
    /// Networks whose AAAA records count as absent (RFC 6147 section 5.1.4).
    #[serde(deserialize_with = "networks")]
    pub exclude: Vec<IpNet>,
    /// Domains that are never synthesised.
    #[serde(deserialize_with = "texts")]
    pub never: Vec<Name>,
    /// Domains that are synthesised even when they have AAAA records.
    #[serde(deserialize_with = "texts")]
    pub always: Vec<Name>,
    /// What follows an error of the AAAA query (section 5.1.2).
    pub on_error: OnError,
    /// What follows a timeout of the AAAA query (section 5.1.3).
    pub on_timeout: OnTimeout,
    /// The longest TTL where the AAAA reply has no SOA, seconds (section 5.1.7).
    pub ttl_without_soa: u32,
    /// Whether AAAA and A are asked at once.
    pub parallel: bool,
    /// What becomes of PTR queries under a prefix (section 5.3.1).
    pub ptr: PtrMode,
    /// The domain of `ptr = "local"`.
    #[serde(deserialize_with = "text")]
    pub ptr_zone: Name,
    /// Whether `ipv4only.arpa` is answered here (RFC 8880).
    pub ipv4only_arpa: bool,
    /// Whether only queries with RD are synthesised.
    pub recursive_only: bool,
    /// Whether queries with DO and CD are synthesised (section 5.5 says no).
    pub break_dnssec: bool,
    /// Whether targets of HTTPS and SVCB get AAAA records (RFC 9460 section 4.2.1).
    pub service_targets: bool,
    /// What becomes of their IPv4 hints.
    pub ipv4hint: HintMode,
}

/// What follows an error of the AAAA query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// The A query.
    AskA,
    /// The error.
    Pass,
}

/// What follows a timeout of the AAAA query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnTimeout {
    /// The A query.
    AskA,
    /// SERVFAIL.
    Fail,
}

/// What becomes of PTR queries for addresses under a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PtrMode {
    /// A CNAME to the name in in-addr.arpa, and its PTR.
    Cname,
    /// The PTR of the name in in-addr.arpa.
    InPlace,
    /// A name made from the IPv4 address.
    Local,
    /// What upstream says.
    Pass,
}

/// What becomes of the IPv4 hints of HTTPS and SVCB records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HintMode {
    /// They stay.
    Keep,
    /// They are taken out.
    Strip,
}

/// A prefix and whom it serves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BlockConfig {
    /// The prefix.
    #[serde(deserialize_with = "text")]
    pub prefix: Pref64,
    /// What stands behind the IPv4 address.
    #[serde(default = "no_suffix", deserialize_with = "text")]
    pub suffix: Ipv6Addr,
    /// The clients that get it.
    #[serde(default = "everybody", deserialize_with = "networks")]
    pub clients: Vec<IpNet>,
    /// The IPv4 addresses that are mapped.
    #[serde(default = "all_ipv4", deserialize_with = "texts")]
    pub mapped: Vec<Ipv4Net>,
    /// Those of them that are not.
    #[serde(default, deserialize_with = "texts")]
    pub not_mapped: Vec<Ipv4Net>,
    /// Whether addresses that are not global are mapped under the well-known prefix (RFC 6052 section 3.1).
    #[serde(default)]
    pub map_non_global: bool,
    /// For this block in place of `synthesis.exclude`.
    #[serde(default, deserialize_with = "networks_or_none")]
    pub exclude: Option<Vec<IpNet>>,
    /// For this block in place of `synthesis.recursive-only`.
    #[serde(default)]
    pub recursive_only: Option<bool>,
    /// For this block in place of `synthesis.break-dnssec`.
    #[serde(default)]
    pub break_dnssec: Option<bool>,
}

impl BlockConfig {
    /// A prefix for everybody and every address.
    pub fn new(prefix: Pref64) -> Self {
        BlockConfig {
            prefix,
            suffix: no_suffix(),
            clients: everybody(),
            mapped: all_ipv4(),
            not_mapped: Vec::new(),
            map_non_global: false,
            exclude: None,
            recursive_only: None,
            break_dnssec: None,
        }
    }
}

/// Whom the server asks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct UpstreamConfig {
    /// Their addresses; port 53 unless it is said.
    #[serde(deserialize_with = "addresses")]
    pub servers: Vec<SocketAddr>,
    /// How they are asked.
    pub transport: Transport,
    /// By TLS, the name in their certificates; empty for their addresses.
    pub tls_name: String,
    /// The authorities that vouch for their certificates, PEM; empty to believe any.
    pub tls_authorities: PathBuf,
    /// When a query is repeated first.
    #[serde(deserialize_with = "text")]
    pub first_timeout: Nanos,
    /// How often a query is sent in all.
    pub attempts: u8,
    /// So many timeouts in a row are a server's death.
    pub dead_after: u32,
    /// When it is probed first.
    #[serde(deserialize_with = "text")]
    pub probe_after: Nanos,
    /// Sockets of each worker to each server.
    pub source_ports: usize,
    /// How often one of them gets another port.
    #[serde(deserialize_with = "text")]
    pub port_lifetime: Nanos,
    /// Whether names are sent in mixed case.
    pub mixed_case: bool,
    /// The largest UDP reply that we take, octets; 0 for no EDNS.
    #[serde(deserialize_with = "udp_size_or_none")]
    pub udp_size: u16,
    /// TCP connections to each server.
    pub tcp_connections: usize,
    /// How long a query by TCP or TLS may take.
    #[serde(deserialize_with = "text")]
    pub tcp_timeout: Nanos,
}

/// What the server keeps.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CacheConfig {
    /// Memory for all workers together; 0 for no cache.
    pub size: Bytes,
    /// The least TTL.
    #[serde(deserialize_with = "text")]
    pub min_ttl: Nanos,
    /// The greatest TTL.
    #[serde(deserialize_with = "text")]
    pub max_ttl: Nanos,
    /// The greatest TTL of what is not there.
    #[serde(deserialize_with = "text")]
    pub max_negative_ttl: Nanos,
    /// How long a failure is remembered.
    #[serde(deserialize_with = "text")]
    pub failure_ttl: Nanos,
    /// How long what has expired may stand in for a failure.
    #[serde(deserialize_with = "text")]
    pub serve_stale: Nanos,
    /// The TTL that it then gets.
    #[serde(deserialize_with = "text")]
    pub stale_ttl: Nanos,
    /// Whether what is in use is refreshed before it expires.
    pub prefetch: bool,
}

/// What the server bears.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LimitsConfig {
    /// Queries waiting for upstream, all workers together.
    pub outstanding: usize,
    /// The share of them that one client network may have.
    pub client_share: f64,
    /// What happens beyond.
    pub overload: Overload,
    /// The size of a client network, bits of an IPv4 address.
    pub client_ipv4_bits: u8,
    /// The size of a client network, bits of an IPv6 address.
    pub client_ipv6_bits: u8,
    /// UDP replies a second to one client network; 0 for no limit.
    pub responses_per_second: u32,
    /// Every so manieth reply over the limit is a truncated one; 0 for none.
    pub slip: u32,
    /// TCP connections at once.
    pub tcp_connections: usize,
    /// TCP connections of one client network.
    pub tcp_connections_per_client: usize,
    /// Queries at once on one TCP connection.
    pub tcp_pipelined: usize,
    /// How long a TCP connection may be silent.
    #[serde(deserialize_with = "text")]
    pub tcp_idle: Nanos,
}

/// What happens to a query when all places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overload {
    /// It gets SERVFAIL.
    RefuseNewest,
    /// It gets nothing.
    DropNewest,
    /// It takes the place of the oldest, which gets SERVFAIL.
    RefuseOldest,
    /// It takes the place of the oldest, which gets nothing.
    DropOldest,
}

/// What the server tells.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct MetricsConfig {
    /// Where metrics and health are served over HTTP; none for nowhere.
    #[serde(deserialize_with = "address_or_none")]
    pub listen: Option<SocketAddr>,
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A value, with its line and column.
    #[error("{0}")]
    Toml(String),
    /// Values that do not go together, or are out of bounds.
    #[error("{key}: {problem}")]
    Value {
        /// Which.
        key: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl Config {
    /// The configuration in `text`; what it does not say is as in [`DEFAULTS`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text)
            .map_err(|error| ConfigError::Toml(error.to_string().trim_end().to_owned()))?;
        config.validate()?;
        Ok(config)
    }

    /// Holds the values against each other and their bounds.
    fn validate(&self) -> Result<(), ConfigError> {
        let bad = |key: &str, problem: String| Err(ConfigError::Value { key: key.into(), problem });
        if self.server.listen.is_empty() {
            return bad("server.listen", "no address: give one as \"127.0.0.1:53\"".into());
        }
        if self.upstream.servers.is_empty() || self.upstream.servers.len() > MAX_UPSTREAMS {
            return bad("upstream.servers", format!("give 1 to {MAX_UPSTREAMS} addresses"));
        }
        for server in &self.upstream.servers {
            if self.server.listen.contains(server) {
                return bad("upstream.servers", format!("{server} is this server itself"));
            }
        }
        let ports = self.upstream.source_ports * self.upstream.servers.len();
        if self.upstream.source_ports == 0 || ports > MAX_SOURCE_PORTS {
            let most = MAX_SOURCE_PORTS / self.upstream.servers.len();
            return bad("upstream.source-ports", format!("give 1 to {most} for so many servers"));
        }
        if !(1..=10).contains(&self.upstream.attempts) {
            return bad("upstream.attempts", "give 1 to 10".into());
        }
        let first = self.upstream.first_timeout;
        if first < Nanos::from_millis(10) || first > Nanos::from_secs(10) {
            return bad("upstream.first-timeout", "give 10ms to 10s".into());
        }
        if self.dns64.len() > MAX_BLOCKS {
            return bad("dns64", format!("at most {MAX_BLOCKS} blocks"));
        }
        if !(1..=MAX_OUTSTANDING).contains(&self.limits.outstanding) {
            return bad("limits.outstanding", format!("give 1 to {MAX_OUTSTANDING}"));
        }
        if !(self.limits.client_share > 0.0 && self.limits.client_share <= 1.0) {
            return bad("limits.client-share", "give a share above 0 and up to 1".into());
        }
        if self.limits.client_ipv4_bits > 32 || self.limits.client_ipv6_bits > 128 {
            return bad("limits.client-ipv4-bits", "an address has 32 or 128 bits".into());
        }
        if self.tls.listens() {
            for (key, path) in [("certificate", &self.tls.certificate), ("key", &self.tls.key)] {
                if path.as_os_str().is_empty() {
                    return bad(
                        &format!("tls.{key}"),
                        "name a PEM file, or listen on nothing".into(),
                    );
                }
            }
        }
        if self.limits.tcp_pipelined == 0 {
            return bad("limits.tcp-pipelined", "give at least 1".into());
        }
        self.dns64.iter().enumerate().try_for_each(|(i, block)| block.validate(i))
    }

    /// The blocks, or what stands for none.
    pub fn blocks(&self) -> Vec<BlockConfig> {
        if self.dns64.is_empty() {
            vec![BlockConfig::new(Pref64::WELL_KNOWN)]
        } else {
            self.dns64.clone()
        }
    }
}

impl BlockConfig {
    /// Holds the suffix against the prefix.
    fn validate(&self, index: usize) -> Result<(), ConfigError> {
        let all_ones = u128::from(self.prefix.embed([255; 4].into()));
        let len = u32::from(self.prefix.prefix_len());
        // The prefix's bits, the IPv4 address, and the u octet.
        let taken = all_ones | !(u128::MAX >> len) | 0xff << 56;
        if u128::from(self.suffix) & taken != 0 {
            return Err(ConfigError::Value {
                key: format!("dns64[{index}].suffix"),
                problem: format!(
                    "{} reaches into the prefix, the IPv4 address or bits 64 to 71 of {}: leave those zero",
                    self.suffix, self.prefix
                ),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_in_the_file_are_those_in_the_code() {
        assert_eq!(Config::parse(DEFAULTS), Ok(Config::default()));
        assert_eq!(Config::parse(""), Ok(Config::default()));
        // Every key is there, also the commented ones of a block.
        let block = DEFAULTS.split("# [[dns64]]").nth(1).expect("the block");
        let block = block.split("\n\n").next().expect("its end");
        let block: String =
            block.lines().map(|l| l.trim_start_matches("# ").to_owned() + "\n").collect();
        let config = Config::parse(&format!("[[dns64]]{block}")).expect("a block");
        let [block] = &config.dns64[..] else { panic!("one block") };
        let defaults = Config::default();
        assert_eq!(block.exclude.as_ref(), Some(&defaults.synthesis.exclude));
        assert_eq!((block.recursive_only, block.break_dnssec), (Some(false), Some(false)));
        let block = BlockConfig {
            exclude: None,
            recursive_only: None,
            break_dnssec: None,
            ..block.clone()
        };
        assert_eq!([block], defaults.blocks()[..]);
    }

    #[test]
    fn errors_have_a_place_and_a_remedy() {
        for (file, parts) in [
            ("[server]\nlisten = \"1.2.3\"", &["line 2", "column 10", "1.2.3"][..]),
            (
                "[server]\nlisten = [\"1.2.3\"]",
                &["line 2", "`1.2.3` is not an address", "127.0.0.1:53"],
            ),
            ("[server]\nlisen = []", &["line 2", "lisen", "listen"]),
            ("[servr]", &["line 1", "servr", "server"]),
            ("[server]\nallow = [\"10.0.0.1/8\"]", &["line 2", "10.0.0.0/8"]),
            ("[server]\nallow = [\"ten\"]", &["line 2", "ten", "network"]),
            ("[server]\nmax-udp-size = 100", &["line 2", "512"]),
            ("[server]\nmax-udp-size = 70000", &["line 2", "70000"]),
            ("[[dns64]]\nprefix = \"64:ff9b::/95\"", &["line 2", "/96"]),
            ("[[dns64]]\n", &["prefix"]),
            (
                "[[dns64]]\nprefix = \"2001:db8::/32\"\nsuffix = \"::100:0:0:0\"",
                &["dns64[0].suffix", "bits 64 to 71"],
            ),
            ("[[dns64]]\nprefix = \"64:ff9b::/96\"\nsuffix = \"::1\"", &["dns64[0].suffix"]),
            ("[synthesis]\nnever = [\"a..b\"]", &["line 2", "empty label"]),
            ("[synthesis]\non-error = \"x\"", &["line 2", "ask-a", "pass"]),
            ("[upstream]\nservers = []", &["upstream.servers", "1 to 16"]),
            ("[upstream]\nservers = [\"127.0.0.1:53\"]", &["upstream.servers", "itself"]),
            ("[upstream]\nattempts = 0", &["upstream.attempts"]),
            ("[upstream]\nfirst-timeout = \"1h\"", &["upstream.first-timeout", "10ms"]),
            ("[upstream]\nfirst-timeout = 5", &["line 2"]),
            ("[upstream]\nsource-ports = 5000", &["upstream.source-ports", "2048"]),
            ("[cache]\nsize = \"64 MB\"", &["line 2", "64MiB"]),
            ("[cache]\nmax-ttl = \"1x\"", &["line 2", "1x"]),
            ("[limits]\nclient-share = 0", &["limits.client-share"]),
            ("[limits]\noutstanding = 0", &["limits.outstanding"]),
            ("[metrics]\nlisten = \"x\"", &["line 2", "`x`"]),
            ("[tls]\ndot = [\"::1\"]", &["tls.certificate", "PEM"]),
            ("[tls]\ndoh = [\"::1\"]\ncertificate = \"x\"", &["tls.key"]),
            ("[upstream]\ntransport = \"quic\"", &["line 2", "tls"]),
        ] {
            let error = Config::parse(file).expect_err(file).to_string();
            for part in parts {
                assert!(error.contains(part), "{file:?}: {error}");
            }
        }
    }

    #[test]
    fn values_are_read() {
        let config = Config::parse(
            "server.listen = [\"::1\", \"127.0.0.1:5300\"]\nserver.allow = [\"any\", \"10.1.2.3\"]\n\
             cache.size = 0\nmetrics.listen = \"\"\nupstream.first-timeout = \"1s\"\nsynthesis.never = [\".\"]",
        )
        .expect("it is right");
        let listen: Vec<String> = config.server.listen.iter().map(|a| a.to_string()).collect();
        assert_eq!(listen, ["[::1]:53", "127.0.0.1:5300"]);
        let allow: Vec<String> = config.server.allow.iter().map(|a| a.to_string()).collect();
        assert_eq!(allow, ["0.0.0.0/0", "::/0", "10.1.2.3/32"]);
        assert_eq!((config.cache.size, config.metrics.listen), (Bytes(0), None));
        assert_eq!(config.upstream.first_timeout, Nanos::from_secs(1));
        assert_eq!(config.synthesis.never, [Name::ROOT]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text: String) {
            let _ = Config::parse(&text);
        }

        #[test]
        fn the_defaults_with_some_octets_changed_are_survived(at: proptest::sample::Index, with in "[ -~]{0,3}") {
            let mut text = DEFAULTS.to_owned();
            let at = at.index(text.len());
            text.replace_range(at..(at + 1), &with);
            if let Err(error) = Config::parse(&text) {
                proptest::prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
