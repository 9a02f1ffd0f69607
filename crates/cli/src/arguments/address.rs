//! Addresses and prefixes as arguments and as fields of a request.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use measure::Transport;
use wire::{Ipv4Prefix, Pref64};

/// The address of a server, with or without a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    ip: IpAddr,
    port: Option<u16>,
}

impl Target {
    /// Returns the address, with `port` if it has none.
    pub(crate) fn or_port(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(port))
    }
}

impl FromStr for Target {
    type Err = String;

    /// Reads `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1`, `[2001:db8::1]:53`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        let whole = |a: SocketAddr| Target { ip: a.ip(), port: Some(a.port()) };
        text.parse()
            .map(whole)
            .or_else(|_| bare.parse().map(|ip| Target { ip, port: None }))
            .map_err(|_| {
                format!("`{text}` is not an address such as 192.0.2.1:53 or [2001:db8::1]:53 (names are not looked up)")
            })
    }
}

/// Reads a [`Target`] of DNS over UDP.
pub(crate) fn parse_target(text: &str) -> Result<SocketAddr, String> {
    let port = Transport::Udp.default_port();
    text.parse().map(|target: Target| target.or_port(port))
}

/// Reads a source address, or a prefix of source addresses.
pub(crate) fn parse_source(text: &str) -> Result<IpNet, String> {
    let one = |address: IpAddr| IpNet::from(address);
    text.parse()
        .or_else(|_| text.parse().map(one))
        .map_err(|_| format!("`{text}` is not a source such as 10.9.0.1, 10.9.0.0/24 or fd00::/64"))
}

/// Converts an IPv4 prefix for a request.
pub(crate) fn ipv4_net(prefix: Ipv4Prefix) -> Ipv4Net {
    Ipv4Net::new(prefix.first(), prefix.prefix_len()).expect("no longer than 32")
}

/// Converts a prefix of RFC 6052 for a request.
pub(crate) fn ipv6_net(pref64: Pref64) -> Ipv6Net {
    Ipv6Net::new(pref64.first(), pref64.prefix_len()).expect("no longer than 128")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:5300", "192.0.2.1:5300"),
            ("2001:db8::1", "[2001:db8::1]:53"),
            ("[2001:db8::1]", "[2001:db8::1]:53"),
            ("[2001:db8::1]:5300", "[2001:db8::1]:5300"),
        ] {
            assert_eq!(parse_target(text), Ok(address.parse().expect(address)));
        }
        assert!(parse_target("localhost").is_err());
    }

    #[test]
    fn sources() {
        for (text, read) in [
            ("10.9.0.1", "10.9.0.1/32"),
            ("10.9.0.5/24", "10.9.0.5/24"),
            ("fd00::/64", "fd00::/64"),
        ] {
            assert_eq!(parse_source(text).expect(text).to_string(), read);
        }
        for bad in ["x", "10.9.0.0/33", "10.9.0.0/x"] {
            assert!(parse_source(bad).is_err(), "{bad}");
        }
    }
}
