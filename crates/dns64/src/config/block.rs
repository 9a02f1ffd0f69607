//! `[[dns64]]`: a prefix, or where it is learned, the clients that get it, and the NAT64 behind it.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use measure::Nanos;
use serde::Deserialize;
use wire::Pref64;

use super::text::{
    all_networks, ipv4_networks, ipv6_networks_or_none, networks, text, text_or_none,
};
use super::{Config, ConfigError, ensure};

/// Longest name of a pool, in octets.
const MAX_POOL: usize = 64;

/// A prefix and the clients that get it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct BlockConfig {
    /// The prefix; of a block that follows another source, the one until that source has a prefix.
    #[serde(deserialize_with = "text_or_none")]
    pub prefix: Option<Pref64>,
    /// Where the prefix is learned.
    pub follow: Follow,
    /// Network interface whose router advertisements are used; empty for all of them.
    pub interface: String,
    /// Largest TTL of records with this prefix.
    #[serde(deserialize_with = "text")]
    pub max_ttl: Nanos,
    /// Name of the pool of blocks of which one serves each client; empty for none.
    pub pool: String,
    /// Whether the block serves only while no other block of its pool works.
    pub standby: bool,
    /// How the NAT64 is probed; `None`: it counts as working.
    #[serde(deserialize_with = "text_or_none")]
    pub probe: Option<Probe>,
    /// Time between two probes of the NAT64.
    #[serde(deserialize_with = "text")]
    pub probe_every: Nanos,
    /// Bits after the IPv4 address.
    #[serde(deserialize_with = "text")]
    pub suffix: Ipv6Addr,
    /// Networks whose clients get the prefix.
    #[serde(deserialize_with = "networks")]
    pub clients: Vec<IpNet>,
    /// IPv4 addresses that are mapped.
    #[serde(deserialize_with = "ipv4_networks")]
    pub mapped: Vec<Ipv4Net>,
    /// Exceptions, which are not mapped.
    #[serde(deserialize_with = "ipv4_networks")]
    pub not_mapped: Vec<Ipv4Net>,
    /// Whether addresses that are not global are mapped under the well-known prefix (RFC 6052 section 3.1).
    pub map_non_global: bool,
    /// Whether its clients get A records.
    pub ipv4: Ipv4,
    /// Replaces `synthesis.exclude` for this block.
    #[serde(deserialize_with = "ipv6_networks_or_none")]
    pub exclude: Option<Vec<Ipv6Net>>,
    /// Replaces `synthesis.recursive-only` for this block.
    pub recursive_only: Option<bool>,
    /// Replaces `synthesis.break-dnssec` for this block.
    pub break_dnssec: Option<bool>,
}

/// Where the prefixes of a block come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Follow {
    /// The only prefix is `prefix` in the configuration file.
    #[default]
    Off,
    /// From the AAAA records that upstream has for `ipv4only.arpa` (RFC 7050).
    Upstream,
    /// From router advertisements (RFC 8781).
    Router,
}

/// Reply to queries of a block's clients for A records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ipv4 {
    /// The A records of upstream, unchanged.
    #[default]
    Keep,
    /// No records, if the name has addresses of IPv6 or gets synthesised ones (against RFC 6147 section 5.3.3).
    Drop,
}

/// How a NAT64 is probed: through it, at an IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The probe opens a TCP connection to this address and port.
    Tcp(SocketAddrV4),
    /// The probe sends an ICMPv6 echo request to this address.
    Echo(Ipv4Addr),
}

impl Probe {
    /// Returns the IPv4 address that is probed.
    pub fn address(self) -> Ipv4Addr {
        match self {
            Probe::Tcp(to) => *to.ip(),
            Probe::Echo(to) => to,
        }
    }
}

impl FromStr for Probe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let echo = text.parse().map(Probe::Echo);
        text.parse().map(Probe::Tcp).or(echo).map_err(|_| {
            format!("`{text}` cannot be probed: write 192.0.2.1:443 for TCP, or 192.0.2.1 for ICMPv6 echo requests")
        })
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Probe::Tcp(to) => to.fmt(f),
            Probe::Echo(to) => to.fmt(f),
        }
    }
}

impl Default for BlockConfig {
    /// Returns a block of all clients and all addresses, without a prefix.
    fn default() -> Self {
        BlockConfig {
            prefix: None,
            follow: Follow::Off,
            interface: String::new(),
            max_ttl: Nanos::from_secs(86_400),
            pool: String::new(),
            standby: false,
            probe: None,
            probe_every: Nanos::from_secs(5),
            suffix: Ipv6Addr::UNSPECIFIED,
            clients: all_networks(),
            mapped: vec![Ipv4Net::default()],
            not_mapped: Vec::new(),
            map_non_global: false,
            ipv4: Ipv4::Keep,
            exclude: None,
            recursive_only: None,
            break_dnssec: None,
        }
    }
}

impl BlockConfig {
    /// Makes a block of all clients and all addresses.
    pub fn new(prefix: Pref64) -> Self {
        BlockConfig { prefix: Some(prefix), ..BlockConfig::default() }
    }

    /// Validates the values against each other and their bounds.
    pub(super) fn validate(&self, index: usize) -> Result<(), ConfigError> {
        let ensure = |right, key: &str, problem: String| {
            ensure(right, &format!("dns64[{index}].{key}"), problem)
        };
        let is_learned = self.prefix.is_some() || self.follow != Follow::Off;
        ensure(is_learned, "prefix", "write a prefix, or `follow` to learn one".into())?;
        let is_heard = self.interface.is_empty() || self.follow == Follow::Router;
        ensure(is_heard, "interface", "write follow = \"router\" too, or remove it".into())?;
        let problem = format!("write a name of at most {MAX_POOL} octets");
        ensure(self.pool.len() <= MAX_POOL, "pool", problem)?;
        for (key, set) in [("standby", self.standby), ("probe", self.probe.is_some())] {
            let problem = "it requires other blocks of the same pool: write a pool";
            ensure(!set || !self.pool.is_empty(), key, problem.into())?;
        }
        let (second, day) = (Nanos::from_secs(1), Nanos::from_secs(86_400));
        for (key, value, least, most) in [
            ("max-ttl", self.max_ttl, second, Nanos(7 * day.0)),
            ("probe-every", self.probe_every, Nanos::from_millis(100), Nanos(day.0 / 24)),
        ] {
            let problem = format!("{value} is out of bounds: write {least} to {most}");
            ensure(value >= least && value <= most, key, problem)?;
        }
        let Some(prefix) = self.prefix else { return Ok(()) };
        let problem = format!(
            "{prefix} has addresses that no host can use (::/96, ::ffff:0:0/96, fe80::/10 or ff00::/8): write another one"
        );
        ensure(is_usable(prefix), "prefix", problem)?;
        let problem = format!(
            "{} overlaps the prefix, the IPv4 address or bits 64 to 71 of {prefix}: set these bits to zero",
            self.suffix
        );
        ensure(fits(self.suffix, prefix), "suffix", problem)
    }
}

impl Config {
    /// Returns pairs of prefixes of different lengths, the first of which contains the second:
    /// their addresses cannot be distinguished.
    pub fn overlapping(&self) -> Vec<(Pref64, Pref64)> {
        let all: Vec<Pref64> = self.dns64.iter().filter_map(|block| block.prefix).collect();
        let within = |outer: &Pref64, inner: &Pref64| network(*outer).contains(&network(*inner));
        let pairs = all.iter().flat_map(|outer| all.iter().map(move |inner| (*outer, *inner)));
        pairs.filter(|(outer, inner)| outer != inner && within(outer, inner)).collect()
    }
}

/// Returns the network of a prefix.
fn network(prefix: Pref64) -> Ipv6Net {
    Ipv6Net::new_assert(prefix.first(), prefix.prefix_len())
}

/// Networks whose addresses no host can use for others: unspecified, loopback and IPv4-compatible, IPv4-mapped, link-local, multicast.
const UNUSABLE: [Ipv6Net; 4] = [
    Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 96),
    Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96),
    Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    Ipv6Net::new_assert(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];

/// Returns whether hosts can use the addresses under a prefix.
pub(crate) fn is_usable(prefix: Pref64) -> bool {
    let own = network(prefix);
    !UNUSABLE.iter().any(|other| other.contains(&own) || own.contains(other))
}

/// Returns whether a suffix has no bits of the prefix, of the IPv4 address or of the u octet (RFC 6052 section 2.2).
pub(crate) fn fits(suffix: Ipv6Addr, prefix: Pref64) -> bool {
    let all_ones = u128::from(prefix.embed([255; 4].into()));
    let used = all_ones | !(u128::MAX >> prefix.prefix_len()) | 0xff << 56;
    u128::from(suffix) & used == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_read_and_written() {
        for text in ["192.0.2.1", "192.0.2.1:443"] {
            assert_eq!(text.parse::<Probe>().expect(text).to_string(), text);
        }
        let error = "[::1]:443".parse::<Probe>().expect_err("IPv6");
        assert!(error.contains("192.0.2.1:443"), "{error}");
    }

    #[test]
    fn prefixes_that_overlap_are_found() {
        let config = |prefixes: [&str; 2]| {
            let blocks = prefixes.map(|prefix| format!("[[dns64]]\nprefix = \"{prefix}\"\n"));
            Config::parse(&blocks.concat()).expect("it is right").overlapping().len()
        };
        assert_eq!(config(["2001:db8:64::/96", "2001:db8::/32"]), 1);
        assert_eq!(config(["2001:db8:64::/96", "2001:db8:65::/96"]), 0);
        assert_eq!(config(["2001:db8:64::/96", "2001:db8:64::/96"]), 0);
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused_with_a_remedy() {
        let prefix = "prefix = \"2001:db8:64::/96\"\n";
        for (block, parts) in [
            ("clients = [\"any\"]", ["dns64[0].prefix", "follow"]),
            (&format!("{prefix}interface = \"lan0\""), ["dns64[0].interface", "router"]),
            (&format!("{prefix}standby = true"), ["dns64[0].standby", "pool"]),
            (&format!("{prefix}probe = \"192.0.2.1\""), ["dns64[0].probe", "pool"]),
            (&format!("{prefix}max-ttl = \"0s\""), ["dns64[0].max-ttl", "1s"]),
            (&format!("{prefix}probe-every = \"1ms\""), ["dns64[0].probe-every", "100ms"]),
            ("follow = \"dhcp\"", ["line 2", "router"]),
            ("prefix = \"::/96\"", ["dns64[0].prefix", "another"]),
            ("prefix = \"::/64\"", ["dns64[0].prefix", "another"]),
            ("prefix = \"::ffff:0:0/96\"", ["dns64[0].prefix", "another"]),
            ("prefix = \"fe80:0:0:1::/64\"", ["dns64[0].prefix", "another"]),
            ("prefix = \"ff00::/96\"", ["dns64[0].prefix", "another"]),
        ] {
            let error = Config::parse(&format!("[[dns64]]\n{block}")).expect_err(block).to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{block}: {error}");
        }
        let followed = "[[dns64]]\nfollow = \"router\"\ninterface = \"lan0\"\npool = \"a\"";
        assert!(Config::parse(followed).is_ok());
        for prefix in ["64:ff9b:1::/48", "fd00:64::/96", "3fff:64::/96", "2001:db8::/32"] {
            assert!(
                Config::parse(&format!("[[dns64]]\nprefix = \"{prefix}\"")).is_ok(),
                "{prefix}"
            );
        }
    }
}
