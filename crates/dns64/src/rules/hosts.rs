//! Rules from files that other programs write: names and addresses of hosts files, and of the leases of DHCP servers.
//!
//! Such a file changes at any time: a line that cannot be read is counted and left out. A host
//! chooses the name in its lease, so only one label of it is used, below a domain of the operator.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use wire::name::Labels;
use wire::{Name, Qtype};

use super::{LocalRecord, Rule, Rules};
use crate::config::LeaseFormat;

/// TTL of the records, in seconds: clients may use them for this time after the file has changed.
const TTL: u32 = 30;
/// Labels by which hosts find services, and which no host may take.
const RESERVED_LABELS: [&[u8]; 3] = [b"wpad", b"isatap", b"localhost"];

/// The leases of a DHCP server.
#[derive(Clone, Debug)]
pub struct Leases<'a> {
    /// The DHCP server that wrote the texts.
    pub format: LeaseFormat,
    /// Texts of the lease files in order: the last lease of an address applies.
    pub texts: Vec<&'a str>,
    /// Domain of the names of the hosts.
    pub domain: &'a Name,
}

/// A lease with the name that its host sent.
struct Lease<'a> {
    address: IpAddr,
    host: &'a str,
    /// Unix time in seconds at which it ends; `None` for one that has ended before.
    until: Option<u64>,
}

impl Rules {
    /// Adds the names of a hosts file: an address and its names on each line. Addresses that every
    /// host has, such as 127.0.1.1, are ignored, since other hosts cannot use them; an IPv4-mapped
    /// address (`::ffff:192.0.2.1`) counts as IPv4.
    pub fn add_hosts(&mut self, text: &str) {
        // Some editors begin a file with a mark of its encoding.
        for line in text.trim_start_matches('\u{feff}').lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
            let Some(address) = words.next() else { continue };
            let Ok(address) = address.parse::<IpAddr>() else {
                self.skipped += 1;
                continue;
            };
            let address = address.to_canonical();
            for word in words.filter(|_| !address.is_loopback()) {
                match word.parse::<Name>() {
                    Ok(name) if !name.is_root() => self.add_host(&name, address),
                    _ => self.skipped += 1,
                }
            }
        }
    }

    /// Adds the leases of all DHCP servers, after all hosts files, at a Unix time in seconds;
    /// returns when the next one ends. A host chooses its name: names of hosts files are not
    /// replaced, and of several leases with one name the one that ends last is used, for each
    /// address family.
    pub fn add_leases(&mut self, servers: &[Leases<'_>], now: u64) -> Option<u64> {
        let (mut next, mut named) = (u64::MAX, Vec::new());
        for Leases { format, texts, domain } in servers {
            for (address, Lease { host, until, .. }) in self.last_leases(*format, texts) {
                let Some(until) = until.filter(|until| *until > now) else { continue };
                next = next.min(until);
                match below(host, domain) {
                    _ if matches!(host, "" | "*") => {}
                    Some(name) if self.names.contains_key(name.as_wire()) => {}
                    Some(name) => named.push((until, name, address)),
                    None => self.skipped += 1,
                }
            }
        }
        named.sort_by_key(|(until, ..)| Reverse(*until));
        let mut known = HashSet::new();
        for (_, name, address) in named {
            if known.insert((name, address.is_ipv4())) {
                self.add_host(&name, address);
            }
        }
        Some(next).filter(|until| *until < u64::MAX)
    }

    /// Returns the last lease of each address.
    fn last_leases<'a>(
        &mut self,
        format: LeaseFormat,
        texts: &[&'a str],
    ) -> BTreeMap<IpAddr, Lease<'a>> {
        let mut last = BTreeMap::new();
        for text in texts {
            let leases = match format {
                LeaseFormat::Dnsmasq => dnsmasq(text),
                LeaseFormat::Kea => kea(text),
            };
            self.skipped += leases.iter().filter(|lease| lease.is_none()).count();
            last.extend(leases.into_iter().flatten().map(|lease| (lease.address, lease)));
        }
        last
    }

    /// Adds an address of a name, and the name of that address unless it has one.
    fn add_host(&mut self, name: &Name, address: IpAddr) {
        // Both fail only beyond the highest number of rules.
        let rule = Rule::Records(vec![LocalRecord::address(address, TTL)]);
        self.skipped += usize::from(self.insert(name, rule).is_err());
        let reverse = reverse_name(address);
        if self.entry(&reverse).is_none() {
            let data = name.to_lowercase().as_wire().into();
            let record = LocalRecord { rtype: Qtype::PTR, ttl: TTL, data };
            self.skipped +=
                usize::from(self.insert(&reverse, Rule::Records(vec![record])).is_err());
        }
    }
}

/// Returns the name of a host that chose it, below a domain; `None` if it may not have it.
fn below(host: &str, domain: &Name) -> Option<Name> {
    let domain = domain.to_lowercase();
    let name: Name = host.parse::<Name>().ok()?.to_lowercase();
    let front = wire::name::strip_suffix(name.as_wire(), domain.as_wire());
    let front = front.or_else(|| name.as_wire().split_last().map(|(_, front)| front))?;
    let labels: Vec<&[u8]> = Labels::of(front).collect();
    let fits = |label: &&[u8]| {
        let plain = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        label.iter().all(plain) && !RESERVED_LABELS.contains(label)
    };
    match &labels[..] {
        [label] if fits(label) => Name::from_wire(&[front, domain.as_wire()].concat()).ok(),
        _ => None,
    }
}

/// Reads the lines of dnsmasq: end, hardware address or identity association, address, name,
/// client. `None` for a line without a lease; `duid` identifies the server.
fn dnsmasq(text: &str) -> Vec<Option<Lease<'_>>> {
    let lines = text.lines().filter(|line| !line.starts_with("duid "));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [until, _, address, host, ..] = words[..] else { return None };
            let until = until.parse().ok()?;
            let until = if until == 0 { u64::MAX } else { until };
            Some(Lease { address: address.parse().ok()?, host, until: Some(until) })
        })
        .collect()
}

/// Reads the rows of a memfile of Kea, whose first line names the columns; `None` for one that is no lease of an address.
fn kea(text: &str) -> Vec<Option<Lease<'_>>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name| head.iter().position(|column| *column == name);
    let [address, lifetime, expire, host, state, kind] =
        ["address", "valid_lifetime", "expire", "hostname", "state", "lease_type"].map(column);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let cell = |column: Option<usize>| column.and_then(|column| cells.get(column).copied());
            let number = |column| cell(column)?.parse::<u64>().ok();
            let (lifetime, expire) = (number(lifetime)?, number(expire)?);
            // A prefix is no address of a host.
            let is_prefix = cell(kind) == Some("2");
            let is_valid = lifetime > 0 && number(state)? == 0 && !is_prefix;
            let until = if lifetime == u64::from(u32::MAX) { u64::MAX } else { expire };
            let address = cell(address)?.parse().ok()?;
            Some(Lease { address, host: cell(host)?, until: is_valid.then_some(until) })
        })
        .collect()
}

/// Returns the reverse name of an address.
pub(crate) fn reverse_name(address: IpAddr) -> Name {
    let text = match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(v6) => {
            let nibbles = v6.octets().into_iter().rev().flat_map(|o| [o & 15, o >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa"
        }
    };
    text.parse().expect("the name is valid")
}
