//! Values in text form: addresses, networks, names and sizes of memory.

use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use wire::Name;

/// Default port of DNS over UDP and TCP (RFC 1035).
const DNS_PORT: u16 = 53;
/// Default port of DNS over TLS and QUIC (RFC 7858, RFC 9250).
const DOT_PORT: u16 = 853;
/// Default port of DNS over HTTPS.
const DOH_PORT: u16 = 443;

/// A size of memory: a number of octets, a number with KiB, MiB or GiB, or `off` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub usize);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || format!("`{text}` is not a size of memory: write off, 512KiB or 64MiB");
        if text == "off" {
            return Ok(Bytes(0));
        }
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim() {
            "" | "B" => 0,
            "KiB" | "K" => 10,
            "MiB" | "M" => 20,
            "GiB" | "G" => 30,
            _ => return Err(bad()),
        };
        let number: usize = number.parse().map_err(|_| bad())?;
        number.checked_mul(1 << shift).map(Bytes).ok_or_else(bad)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    /// Reads a number or text.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a size of memory: write \"off\", \"512KiB\" or \"64MiB\"")]
        enum NumberOrText {
            Number(usize),
            Text(String),
        }
        match NumberOrText::deserialize(from)? {
            NumberOrText::Number(number) => Ok(Bytes(number)),
            NumberOrText::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

/// Reads a value in text form.
pub(super) fn text<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// Reads a value in text form, or an empty text for none.
pub(super) fn text_or_none<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    match String::deserialize(from)?.as_str() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(D::Error::custom),
    }
}

/// Reads a list, each item by `parse`.
fn list<'de, D: Deserializer<'de>, T, E: Display>(
    from: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, D::Error> {
    let list = Vec::<String>::deserialize(from)?;
    list.iter().map(|text| parse(text).map_err(D::Error::custom)).collect()
}

/// Reads a list of values in text form.
pub(super) fn texts<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    list(from, str::parse)
}

/// Reads a list of domains, each of which has all names below it too.
pub(super) fn domains<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Name>, D::Error> {
    list(from, |text| match text.strip_prefix('*') {
        Some(rest) if rest.is_empty() || rest.starts_with('.') => {
            let name = if rest.len() > 1 { &rest[1..] } else { "." };
            Err(format!("`{text}`: write {name}, which includes all names below it"))
        }
        _ if text.parse::<IpNet>().is_ok() || text.parse::<IpAddr>().is_ok() => Err(format!(
            "`{text}` is a network: write the domain of its reverse names, such as 10.in-addr.arpa"
        )),
        _ => text.parse().map_err(|error: wire::NameError| error.to_string()),
    })
}

/// Parses an address with or without a port; an IPv4 address written as one of IPv6 is one of IPv4.
fn address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let ip = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port));
    // A link-local address with its interface.
    let scoped = || format!("[{text}]:{port}").parse();
    let address: Result<SocketAddr, _> = text.parse().or(ip).or_else(|_| scoped());
    let canonical = |at: SocketAddr| match at.ip().to_canonical() {
        v4 @ IpAddr::V4(_) => SocketAddr::new(v4, at.port()),
        IpAddr::V6(_) => at,
    };
    address.map(canonical).map_err(|_| match unknown_interface(text) {
        Some(name) => format!("`{text}`: there is no interface {name}"),
        None => format!("`{text}` is not an address: write 127.0.0.1:{port}, [::1]:{port}, [fe80::1%INTERFACE]:{port}, or only an IP address"),
    })
}

/// Returns the name of an interface that is still there after an address: names of this host's
/// interfaces were replaced by numbers.
fn unknown_interface(text: &str) -> Option<&str> {
    let (address, rest) = text.trim_start_matches('[').split_once('%')?;
    let name = rest.split(']').next().unwrap_or(rest);
    let is_name = !name.is_empty() && name.parse::<u32>().is_err();
    (is_name && address.parse::<Ipv6Addr>().is_ok()).then_some(name)
}

/// Reads a list of addresses for DNS.
pub(super) fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SocketAddr>, D::Error> {
    list(from, |text| address(text, DNS_PORT))
}

/// Reads a list of addresses for DNS over TLS or QUIC.
pub(super) fn dot_addresses<'de, D>(from: D) -> Result<Vec<SocketAddr>, D::Error>
where
    D: Deserializer<'de>,
{
    list(from, |text| address(text, DOT_PORT))
}

/// Reads a list of addresses for DNS over HTTPS.
pub(super) fn doh_addresses<'de, D>(from: D) -> Result<Vec<SocketAddr>, D::Error>
where
    D: Deserializer<'de>,
{
    list(from, |text| address(text, DOH_PORT))
}

/// Reads an address, or an empty text for none.
pub(super) fn address_or_none<'de, D>(from: D) -> Result<Option<SocketAddr>, D::Error>
where
    D: Deserializer<'de>,
{
    let text = String::deserialize(from)?;
    if text.is_empty() {
        Ok(None)
    } else {
        address(&text, DNS_PORT).map(Some).map_err(D::Error::custom)
    }
}

/// Reads a list of addresses without ports.
pub(super) fn hosts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpAddr>, D::Error> {
    let wanted = "is not an address: write 192.0.2.1 or 2001:db8::1";
    list(from, |text| match text.parse::<IpAddr>() {
        Ok(ip) => Ok(ip.to_canonical()),
        Err(_) => Err(format!("`{text}` {wanted}")),
    })
}

/// Reads a list of networks of clients: `10.0.0.0/8`, a single address, or `any`. IPv4 networks
/// written as ones of IPv6 are ones of IPv4, as the addresses of clients are.
pub(super) fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let networks = list(from, |text| match text {
        "any" => Ok(all_networks()),
        text => network(text).map(|network| vec![canonical(network)]),
    });
    Ok(networks?.concat())
}

/// Returns the IPv4 network that an IPv4-mapped IPv6 network denotes.
fn canonical(network: IpNet) -> IpNet {
    let v4 = match network.addr().to_canonical() {
        IpAddr::V4(v4) if !network.addr().is_ipv4() => {
            network.prefix_len().checked_sub(96).and_then(|len| Ipv4Net::new(v4, len).ok())
        }
        _ => None,
    };
    v4.map_or(network, IpNet::V4)
}

/// Parses a network, or an address for the network of this address alone.
fn network(text: &str) -> Result<IpNet, String> {
    let alone = text.parse::<IpAddr>().map(IpNet::from);
    let network: IpNet = text.parse().or(alone).map_err(|_| {
        format!("`{text}` is not a network: write 10.0.0.0/8, 2001:db8::/32, an address, or any")
    })?;
    let right = network.trunc();
    if right != network {
        return Err(format!("{network} has bits set beyond its prefix length: write {right}"));
    }
    Ok(network)
}

/// Reads a list of IPv4 networks: `10.0.0.0/8`, a single address, or `any`.
pub(super) fn ipv4_networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Ipv4Net>, D::Error> {
    list(from, |text| match text {
        "any" => Ok(Ipv4Net::default()),
        text => match network(text)? {
            IpNet::V4(network) => Ok(network),
            IpNet::V6(_) => {
                Err(format!("`{text}` is not IPv4: write 10.0.0.0/8, an IPv4 address, or any"))
            }
        },
    })
}

/// Reads a list of IPv6 networks: `2001:db8::/32`, a single address, or `any`.
pub(super) fn ipv6_networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Ipv6Net>, D::Error> {
    list(from, |text| match text {
        "any" => Ok(Ipv6Net::default()),
        text => match network(text)? {
            IpNet::V6(network) => Ok(network),
            IpNet::V4(_) => Err(format!(
                "`{text}` is not IPv6: write 2001:db8::/32, an IPv6 address, ::ffff:0:0/96 for IPv4 addresses in AAAA records, or any"
            )),
        },
    })
}

/// Reads a list of IPv6 networks that is optional.
pub(super) fn ipv6_networks_or_none<'de, D>(from: D) -> Result<Option<Vec<Ipv6Net>>, D::Error>
where
    D: Deserializer<'de>,
{
    ipv6_networks(from).map(Some)
}

/// Smallest size of a UDP message in octets that a server may limit itself to (RFC 6891 section 6.2.3).
const MIN_UDP: u16 = 512;

/// Reads the size of a UDP message.
pub(super) fn udp_size<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    checked_udp_size(i64::deserialize(from)?, "").map_err(D::Error::custom)
}

/// Reads the size of a UDP message, or 0.
pub(super) fn udp_size_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    match i64::deserialize(from)? {
        0 => Ok(0),
        size => checked_udp_size(size, "0, or ").map_err(D::Error::custom),
    }
}

/// Checks the size of a UDP message; `others` are sizes that the error names too.
fn checked_udp_size(size: i64, others: &str) -> Result<u16, String> {
    let most = u16::MAX;
    u16::try_from(size).ok().filter(|size| *size >= MIN_UDP).ok_or_else(|| {
        format!("a UDP message cannot have {size} octets: write {others}{MIN_UDP} to {most}")
    })
}

/// Returns the networks that contain every IPv4 and IPv6 address.
pub(super) fn all_networks() -> Vec<IpNet> {
    vec![Ipv4Net::default().into(), Ipv6Net::default().into()]
}
