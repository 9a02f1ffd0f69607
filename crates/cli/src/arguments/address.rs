//! Addresses and prefixes as arguments and as fields of a request.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use anyhow::{Error, anyhow, bail};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use measure::Transport;
use nix::net::if_::if_nametoindex;
use wire::{Ipv4Prefix, Pref64};

use super::lookup;

/// A server: an address or the name of a host, with or without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

/// A server with the name that it has in results; without one that is its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedTarget {
    pub(crate) name: Option<String>,
    pub(crate) target: ServerArg,
}

/// Family of the addresses that a server may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Family {
    #[default]
    Any,
    Inet,
    Inet6,
}

impl Family {
    /// Returns whether `address` belongs to this family.
    fn has(self, address: IpAddr) -> bool {
        match self {
            Family::Any => true,
            Family::Inet => address.is_ipv4(),
            Family::Inet6 => address.is_ipv6(),
        }
    }
}

impl Target {
    /// Makes the target of a host without a port.
    pub(crate) fn of_host(host: &str) -> Self {
        Target { host: host.to_owned(), port: None }
    }

    /// Returns the address, with `port` if it has none. A name is looked up once, and the resolved address is printed on standard error.
    ///
    /// # Errors
    /// If there is no such name or interface, or no server can have the address.
    pub(crate) fn resolve(&self, port: u16, family: Family) -> anyhow::Result<SocketAddr> {
        let (host, port) = (&self.host, self.port.unwrap_or(port));
        if port == 0 {
            bail!("{self}: port 0 is no port of a server; write 1 to 65535");
        }
        let found = match self.host_name() {
            None => vec![literal(host, port)?],
            Some(name) => {
                let found = lookup::addresses(name).map_err(|e| {
                    anyhow!("cannot look up {host}: {e}; write an address such as 192.0.2.1:53 or [2001:db8::1]:53")
                })?;
                found.into_iter().map(|address| SocketAddr::new(address, port)).collect()
            }
        };
        let mut of_family = found.into_iter().filter(|address| family.has(address.ip()));
        let Some(address) = of_family.next() else { bail!("{host} has no address of this family") };
        if address.ip().is_multicast()
            || matches!(address.ip(), IpAddr::V4(ip) if ip.is_broadcast())
        {
            bail!("{} is an address of many hosts: a load goes to one server", address.ip());
        }
        if let Some(name) = self.host_name() {
            eprintln!("{name} is {}", address.ip());
        }
        Ok(address)
    }

    /// Returns the name of the host, unless the target is an address.
    pub(crate) fn host_name(&self) -> Option<&str> {
        let is_address = self.host.parse::<IpAddr>().is_ok() || self.host.contains('%');
        (!is_address).then_some(&self.host)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    /// Reads `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1`, `[2001:db8::1]:53`, `fe80::1%eth0`, `ns1.example.com:53`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: &str| {
            Err(format!(
                "`{text}` is not a server such as 192.0.2.1:53, [2001:db8::1]:53 or ns1.example.com: {why}"
            ))
        };
        let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, rest))) => match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return bad("write `:` and a port after `]`"),
            },
            Some(None) => return bad("`]` is missing"),
            None => match text.split_once(':') {
                // More than one colon: an IPv6 address.
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (text, None),
            },
        };
        let address = host.split_once('%').map_or(host, |(address, _)| address);
        let label = |label: &str| {
            let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            !label.is_empty() && label.len() < 64 && label.chars().all(inner)
        };
        let name = host.strip_suffix('.').unwrap_or(host);
        // The last label of a name has a letter; `192.0.2.256` is no name.
        let last = name.rsplit('.').next().unwrap_or_default();
        let named = name.split('.').all(label) && last.contains(|c: char| c.is_ascii_alphabetic());
        if address.parse::<IpAddr>().is_err() && !named {
            return bad("it is neither an address nor a name");
        }
        let port = match port.map(str::parse) {
            None => None,
            Some(Ok(port)) if port != 0 => Some(port),
            Some(_) => return bad("a port is 1 to 65535"),
        };
        Ok(Target { host: host.to_owned(), port })
    }
}

/// A server, with the transport of its queries if the argument names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerArg {
    pub(crate) transport: Option<Transport>,
    pub(crate) target: Target,
    /// Path of HTTP requests, if the argument has one.
    pub(crate) path: Option<String>,
}

impl FromStr for ServerArg {
    type Err = String;

    /// Reads the texts of [`Target`], also as `tls://192.0.2.1` or `https://dns.example/dns-query`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((word, rest)) = text.split_once("://") else {
            if text.contains('/') {
                return Err(format!("`{text}`: a path requires a transport: https://{text}"));
            }
            return Ok(ServerArg { transport: None, target: text.parse()?, path: None });
        };
        let transport: Transport = word.to_ascii_lowercase().parse().map_err(|_| {
            let words = Transport::words(|_| true);
            format!("`{word}` in `{text}` is not a transport: {words}")
        })?;
        let (server, path) = match rest.find('/') {
            Some(slash) if transport.uses_http() => {
                (&rest[..slash], Some(without_template(&rest[slash..]).to_owned()))
            }
            Some(slash) if rest[slash..] == *"/" => (&rest[..slash], None),
            Some(_) => {
                let wanted = Transport::words(Transport::uses_http);
                return Err(format!("`{text}`: a path requires {wanted}"));
            }
            None => (rest, None),
        };
        // In a URI the interface stands behind `%25` (RFC 6874); its number may begin with 25.
        let server = match server.split_once("%25") {
            Some((address, name)) if name.starts_with(|c: char| c.is_alphabetic()) => {
                format!("{address}%{name}")
            }
            _ => server.to_owned(),
        };
        Ok(ServerArg { transport: Some(transport), target: server.parse()?, path })
    }
}

/// Returns the path of a URI template without its parameter, which each request adds (RFC 8484 section 4.1): `/dns-query{?dns}`.
pub(crate) fn without_template(path: &str) -> &str {
    path.strip_suffix("{?dns}").unwrap_or(path)
}

impl ServerArg {
    /// Returns the name of the server in results: as it was given, with its transport unless that is UDP.
    pub(crate) fn over(&self, transport: Transport) -> String {
        let path = self.path.as_deref().unwrap_or_default();
        let scheme =
            if transport.is_datagram() { String::new() } else { format!("{transport}://") };
        format!("{scheme}{}{path}", self.target)
    }
}

impl From<Target> for ServerArg {
    fn from(target: Target) -> Self {
        ServerArg { transport: None, target, path: None }
    }
}

impl FromStr for NamedTarget {
    type Err = String;

    /// Reads a [`ServerArg`], or `NAME=TARGET`.
    fn from_str(text: &str) -> Result<Self, String> {
        // An `=` within a path does not separate a name.
        let (name, target) = match text.split_once('=').filter(|(name, _)| !name.contains('/')) {
            Some(("", _)) => return Err(format!("`{text}` has no name before `=`")),
            Some((name, target)) => (Some(name.to_owned()), target),
            None => (None, text),
        };
        Ok(NamedTarget { name, target: target.parse()? })
    }
}

/// Reads a [`Target`] of DNS over UDP, and looks it up.
pub(crate) fn parse_target(text: &str) -> Result<SocketAddr, String> {
    let target: Target = text.parse()?;
    target.resolve(Transport::Udp.default_port(), Family::Any).map_err(|e| e.to_string())
}

/// Reads an address to listen at; port 0 is a free port; without a port it is the port of DNS, 53.
pub(crate) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let numbered = with_scope_number(text)?;
    let bare = numbered.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let bare = bare.unwrap_or(&numbered);
    let port = Transport::Udp.default_port();
    numbered
        .parse()
        .or_else(|_| format!("[{bare}]:{port}").parse())
        .or_else(|_| format!("{bare}:{port}").parse())
        .map_err(|_| format!("`{text}` is not an address such as 192.0.2.1:53 or [2001:db8::1]:53"))
}

/// Reads an address with its port to listen at.
pub(crate) fn parse_listen_at_port(text: &str) -> Result<SocketAddr, String> {
    with_scope_number(text)?.parse().map_err(|e| format!("`{text}`: {e}, as in 192.0.2.1:853"))
}

/// Reads an address, which may name an interface.
fn literal(host: &str, port: u16) -> anyhow::Result<SocketAddr> {
    match host.parse::<IpAddr>() {
        Ok(address) => Ok(SocketAddr::new(address, port)),
        Err(_) => Ok(format!("[{}]:{port}", with_scope_number(host).map_err(Error::msg)?).parse()?),
    }
}

/// Returns an address with the number of the interface that it names (`fe80::1%eth0`).
fn with_scope_number(text: &str) -> Result<String, String> {
    let Some((address, rest)) = text.split_once('%') else { return Ok(text.to_owned()) };
    let (name, rest) = rest.split_at(rest.find([']', '/']).unwrap_or(rest.len()));
    let number = name.parse::<u32>().or_else(|_| if_nametoindex(name));
    let number = number.map_err(|e| format!("`{text}`: the interface {name}: {}", e.desc()))?;
    Ok(format!("{address}%{number}{rest}"))
}

/// A source address, or a prefix of source addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceArg {
    pub(crate) net: IpNet,
    /// Number of the interface in a link-local address (`fe80::1%eth0`).
    scope: Option<u32>,
}

impl FromStr for SourceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbered = with_scope_number(text)?;
        let Some((address, rest)) = numbered.split_once('%') else {
            return Ok(SourceArg { net: parse_prefix(text)?, scope: None });
        };
        let (number, length) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let net = parse_prefix(&format!("{address}{length}"))?;
        Ok(SourceArg { net, scope: number.parse().ok() })
    }
}

/// Returns a server on the interface that a source names, if it names none itself.
///
/// # Errors
/// If they name different ones, or none and the server is link-local.
pub(crate) fn on_link(
    mut server: SocketAddr,
    source: Option<SourceArg>,
) -> anyhow::Result<SocketAddr> {
    if let (SocketAddr::V6(server), Some(scope)) = (&mut server, source.and_then(|s| s.scope)) {
        if ![0, scope].contains(&server.scope_id()) {
            let own = server.scope_id();
            bail!("the source is on the interface {scope} and the server {} on {own}", server.ip());
        }
        server.set_scope_id(scope);
    }
    if let SocketAddr::V6(server) = server
        && server.ip().is_unicast_link_local()
        && server.scope_id() == 0
    {
        let ip = server.ip();
        bail!("{ip} is a link-local address: write its interface too, as in {ip}%eth0");
    }
    Ok(server)
}

/// Reads an address, or a prefix.
pub(crate) fn parse_prefix(text: &str) -> Result<IpNet, String> {
    let one = |address: IpAddr| IpNet::from(address);
    text.parse().or_else(|_| text.parse().map(one)).map_err(|_| {
        format!("`{text}` is no address or network such as 10.9.0.1, 10.9.0.0/24 or fd00::/64")
    })
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
            ("fe80::1%lo", "[fe80::1%1]:53"),
            ("[fe80::1%lo]:5300", "[fe80::1%1]:5300"),
        ] {
            let target: Target = text.parse().expect(text);
            let found = target.resolve(53, Family::Any).expect(text);
            assert_eq!(found, address.parse().expect(address));
        }
        let local: Target = "localhost:5300".parse().expect("a name");
        let inet = local.resolve(53, Family::Inet).expect("every host has it");
        assert_eq!(inet, "127.0.0.1:5300".parse().expect("an address"));
    }

    #[test]
    fn a_target_may_have_a_name() {
        let read = |text: &str| text.parse::<NamedTarget>();
        let old = read("old=[::1]:5300").expect("a named target");
        assert_eq!(
            (old.name.as_deref(), old.target),
            (Some("old"), "[::1]:5300".parse().expect("a target"))
        );
        assert_eq!(read("192.0.2.1").expect("a target").name, None);
        assert!(read("=192.0.2.1").is_err_and(|why| why.contains("no name")));
        assert!(read("old=").is_err());
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for (text, why) in [
            ("192.0.2.256", "neither an address nor a name"),
            ("", "neither"),
            ("a..b", "neither"),
            ("-x:y:z", "neither"),
            ("[::1", "`]` is missing"),
            ("[::1]53", "after `]`"),
            ("192.0.2.1:0", "a port is 1 to 65535"),
            ("192.0.2.1:70000", "a port is 1 to 65535"),
            ("192.0.2.1:x", "a port is 1 to 65535"),
        ] {
            let error = text.parse::<Target>().expect_err(text);
            assert!(error.contains(why), "{error}");
        }
        for (text, why) in [("224.0.0.1", "many hosts"), ("ff02::fb", "many hosts")] {
            let target: Target = text.parse().expect(text);
            let error = target.resolve(53, Family::Any).expect_err(text).to_string();
            assert!(error.contains(why), "{error}");
        }
        let ipv4: Target = "127.0.0.1".parse().expect("an address");
        assert!(ipv4.resolve(53, Family::Inet6).is_err());
    }

    #[test]
    fn sources() {
        for (text, read) in [
            ("10.9.0.1", "10.9.0.1/32"),
            ("10.9.0.5/24", "10.9.0.5/24"),
            ("fd00::/64", "fd00::/64"),
            ("fe80::1%lo", "fe80::1/128"),
            ("fe80::1%1/64", "fe80::1/64"),
        ] {
            let source: SourceArg = text.parse().expect(text);
            assert_eq!(source.net.to_string(), read);
        }
        for (source, server, at) in [
            ("fe80::1%2", "[fe80::2]:53", Some("[fe80::2%2]:53")),
            ("fe80::1%2/64", "[fe80::2%2]:53", Some("[fe80::2%2]:53")),
            ("fe80::1%2", "[fe80::2%3]:53", None),
            ("fe80::1", "[fe80::2]:53", None),
            ("fe80::1", "[fe80::2%3]:53", Some("[fe80::2%3]:53")),
            ("10.9.0.1", "192.0.2.1:53", Some("192.0.2.1:53")),
        ] {
            let found = on_link(server.parse().expect(server), source.parse().ok());
            assert_eq!(found.ok().map(|at| at.to_string()).as_deref(), at, "{source}");
        }
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("[::1]:0", "[::1]:0"),
            ("fe80::1%lo", "[fe80::1%1]:53"),
            ("[fe80::1%lo]:5300", "[fe80::1%1]:5300"),
        ] {
            assert_eq!(parse_listen(text).expect(text), address.parse().expect(address));
        }
        assert!(parse_listen("[fe80::1%nowhere]:53").is_err_and(|why| why.contains("nowhere")));
        for bad in ["x", "10.9.0.0/33", "10.9.0.0/x", "fe80::1%nowhere"] {
            assert!(bad.parse::<SourceArg>().is_err(), "{bad}");
        }
    }

    #[test]
    fn servers_may_have_a_transport_and_a_path() {
        for (text, usual, name) in [
            ("192.0.2.1", Transport::Udp, "192.0.2.1"),
            ("192.0.2.1:5300", Transport::Tcp, "tcp://192.0.2.1:5300"),
            ("udp://[2001:db8::1]:53", Transport::Tls, "[2001:db8::1]:53"),
            ("tls://2001:db8::1", Transport::Udp, "tls://2001:db8::1"),
            ("https://dns.example/q/r", Transport::Udp, "https://dns.example/q/r"),
            ("HTTPS://dns.example/q{?dns}", Transport::Udp, "https://dns.example/q"),
            ("quic://[::1]:8853/", Transport::Udp, "quic://[::1]:8853"),
            ("http3://[::1]:8443", Transport::Udp, "http3://[::1]:8443"),
            ("https://[fe80::1%25eth0]:8443/q", Transport::Udp, "https://[fe80::1%eth0]:8443/q"),
            ("tls://[fe80::1%eth0]:853", Transport::Udp, "tls://[fe80::1%eth0]:853"),
            ("tls://fe80::1%25", Transport::Udp, "tls://fe80::1%25"),
            ("tls://[fe80::1%256]:853", Transport::Udp, "tls://[fe80::1%256]:853"),
        ] {
            let server: ServerArg = text.parse().expect(text);
            let transport = server.transport.unwrap_or(usual);
            assert_eq!(server.over(transport), name);
        }
        for (text, why) in [
            ("dot://192.0.2.1", "`dot` in `dot://192.0.2.1` is not a transport: udp, tcp"),
            ("tls://192.0.2.1/dns-query", "a path requires https or http3"),
            ("192.0.2.1/dns-query", "https://192.0.2.1/dns-query"),
            ("https:///dns-query", "neither an address nor a name"),
            ("tls://192.0.2.1:0", "a port is 1 to 65535"),
        ] {
            let error = text.parse::<ServerArg>().expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }
}
