//! The agent's host: its kernel, and its addresses, the one by which the Tester reached it and
//! others of the same interface.

use std::net::{IpAddr, SocketAddr};

use nix::ifaddrs::getifaddrs;

/// Environment variable of a process that sshd has started: addresses and ports of the client and of this host.
const CONNECTION: &str = "SSH_CONNECTION";

/// Returns the addresses of this host, first the one by which ssh reached it; empty without ssh.
pub fn own_addresses() -> Vec<IpAddr> {
    let Some(reached) = std::env::var(CONNECTION).ok().and_then(|text| by_ssh(&text)) else {
        return Vec::new();
    };
    let all = getifaddrs().into_iter().flatten().filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        let v6 = || address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip()));
        Some((interface.interface_name, v4.or_else(v6)?))
    });
    beside(reached, &all.collect::<Vec<_>>())
}

/// Returns the number that the kernel drew when it started, which no other has; `None` if it cannot be read.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

/// Returns the address of this host in the text of sshd.
fn by_ssh(text: &str) -> Option<IpAddr> {
    let word = text.split_whitespace().nth(2)?;
    let word = word.split('%').next()?;
    let address: IpAddr = word.parse().ok()?;
    // An IPv4 address from a socket for both families.
    Some(SocketAddr::new(address, 0).ip().to_canonical())
}

/// Returns `reached`, then the other addresses of its interface that other hosts can use.
fn beside(reached: IpAddr, all: &[(String, IpAddr)]) -> Vec<IpAddr> {
    let name = all.iter().find(|(_, address)| *address == reached).map(|(name, _)| name);
    let local = |address: &IpAddr| match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    };
    let others = all.iter().filter(|(other, _)| Some(other) == name).map(|(_, address)| *address);
    let others = others.filter(|address| *address != reached && !local(address));
    std::iter::once(reached).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_address_that_ssh_reached_comes_first() {
        let table = [
            ("192.0.2.9 50022 192.0.2.1 22", Some("192.0.2.1")),
            ("fd00::9 50022 fd00::1 22", Some("fd00::1")),
            ("fe80::9%eth0 50022 fe80::1%eth0 22", Some("fe80::1")),
            ("::ffff:192.0.2.9 1 ::ffff:192.0.2.1 22", Some("192.0.2.1")),
            ("UNKNOWN 65535 UNKNOWN 65535", None),
            ("", None),
        ];
        for (text, address) in table {
            assert_eq!(by_ssh(text), address.map(ip), "{text}");
        }
        let all = [
            ("lo", "127.0.0.1"),
            ("eth0", "192.0.2.1"),
            ("eth0", "fe80::1"),
            ("eth0", "fd00::1"),
            ("eth1", "198.51.100.1"),
        ];
        let all = all.map(|(name, address)| (name.to_owned(), ip(address)));
        assert_eq!(beside(ip("fd00::1"), &all), [ip("fd00::1"), ip("192.0.2.1")]);
        assert_eq!(beside(ip("203.0.113.7"), &all), [ip("203.0.113.7")]);
    }
}
