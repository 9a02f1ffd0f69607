//! The Internet in a box, as zone files: the root, top-level domains, and the domains of a set of names.
//!
//! ```text
//!   names, of a capture or made ──> zones ──> zone files ──a signer──> signed zone files
//!     h1.d7.t3                      .         t3 NS, glue              DS of t3
//!                                   t3        d7.t3 NS, glue or not    DS of d7.t3, if that is signed
//!                                   d7.t3     h1.d7.t3 A
//! ```
//!
//! The last label of a name is its top-level domain, the last two are its domain. All choices (which names do not exist, which
//! domain has its name servers elsewhere) are made by a hash of the name, so that equal names and parameters give equal files.
//!
//! | addresses, from the first on | servers |
//! |---|---|
//! | 1, 2 | of the root |
//! | 256 + 2n, 257 + 2n | of the top-level domain number n |
//! | 16384 + n | number n of those of domains: a domain has two |

mod queries;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use measure::rng::splitmix64;
use wire::Name;

pub use self::queries::{InternetQueries, TooFewNames, WrittenQueries};

/// Largest number of names, since all of them are in memory.
pub const MAX_NAMES: usize = 1 << 20;
/// Largest number of top-level domains: there are no addresses for more.
const MAX_TLDS: usize = 8_000;
/// Bounds of the number of servers of domains: a domain has two, and there are no addresses for
/// more.
const SERVERS: std::ops::RangeInclusive<u32> = 2..=48_000;
/// Number of servers of the root, and of each top-level domain.
const SERVERS_PER_ZONE: u32 = 2;
/// Numbers of the first addresses of top-level domains and of servers of domains.
const FIRST_ADDRESSES: (u32, u32) = (256, 16_384);
/// The top-level domain that contains the names of the root's servers, and the domain that contains
/// the names of a top-level domain's servers.
const ROOT_SERVERS: &str = "root-servers";
const NIC_SERVERS: &str = "nic-servers";
/// First labels of name servers of the root and of top-level domains, and of domains.
const SERVER_LETTERS: [&str; 2] = ["a", "b"];
const NAME_SERVERS: [&str; 2] = ["ns1", "ns2"];
/// Share of names with an AAAA record.
const AAAA_SHARE: f64 = 0.4;
/// Serial, refresh, retry and expire of SOA records.
const SOA: &str = "2026010100 7200 3600 1209600";

/// Property of a name that its hash determines.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Missing = 1,
    Elsewhere,
    Provider,
    FirstServer,
    SecondServer,
    Wildcard,
    Signed,
    HasAaaa,
    Address,
    AsksAaaa,
}

/// The parameters of an Internet in a box.
#[derive(Clone, Debug, PartialEq)]
pub struct InternetPlan {
    /// Share (0 to 1) of the names that do not exist.
    pub missing: f64,
    /// Share (0 to 1) of domains whose name servers are in another domain, so that their delegation has no glue.
    pub glueless: f64,
    /// Share (0 to 1) of domains with a wildcard in place of their names.
    pub wildcards: f64,
    /// Share (0 to 1) of domains that are signed. Above 0 the root and all top-level domains are signed too.
    pub signed: f64,
    /// Number of servers of domains; each domain has two.
    pub servers: u32,
    /// First address of the servers: the first of a /16.
    pub first: Ipv4Addr,
    /// TTL of the records of domains, in seconds.
    pub ttl: u32,
    /// TTL of negative answers, in seconds.
    pub negative_ttl: u32,
    /// TTL of delegations and of the addresses of name servers, in seconds.
    pub delegation_ttl: u32,
    /// Seed of all choices: the same seed makes the same box.
    pub seed: u64,
}

impl Default for InternetPlan {
    /// Returns the parameters of an unsigned box in 10.53.0.0/16; one name in ten does not exist,
    /// and three domains in ten have no glue.
    fn default() -> Self {
        InternetPlan {
            missing: 0.1,
            glueless: 0.3,
            wildcards: 0.05,
            signed: 0.0,
            servers: 500,
            first: Ipv4Addr::new(10, 53, 0, 0),
            ttl: 3_600,
            negative_ttl: 900,
            delegation_ttl: 172_800,
            seed: 1,
        }
    }
}

/// The reason why there is no such Internet in a box.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InternetError {
    /// A share is not between 0 and 1.
    #[error("the share of {0} is {1}: write a number from 0 to 1")]
    Share(&'static str, f64),
    /// The number of servers is out of bounds.
    #[error("{0} servers of domains: there are {least} to {most}", least = SERVERS.start(), most = SERVERS.end())]
    Servers(u32),
    /// The first address does not begin a /16.
    #[error(
        "the first address {0} does not begin a network of 2^16 addresses: write one such as 10.53.0.0"
    )]
    First(Ipv4Addr),
    /// There is no name of a domain.
    #[error("no name is below a domain: write names with two labels or more")]
    NoNames,
    /// There are too many names.
    #[error("there are more than {MAX_NAMES} names: use a part of them")]
    TooManyNames,
    /// There are too many top-level domains.
    #[error(
        "the names are in {0} top-level domains, but at most {MAX_TLDS} have addresses: use a part of the names"
    )]
    TooManyTlds(usize),
}

/// A top-level domain, with the domains below it.
#[derive(Debug)]
struct Tld {
    number: u32,
    /// Names of each domain of the zone.
    domains: BTreeMap<Name, Vec<Name>>,
}

/// An Internet in a box.
#[derive(Debug)]
pub struct Internet {
    plan: InternetPlan,
    tlds: BTreeMap<Name, Tld>,
    /// Domains with name servers of their own, in order; at least one.
    providers: Vec<Name>,
}

/// Returns the names `hN.dN.tN` of `tlds` top-level domains, `domains` in each, and `hosts` in each
/// of these.
pub fn synthetic(tlds: u32, domains: u32, hosts: u32) -> impl Iterator<Item = Name> {
    let below = |label: String, name: Name| name.prepend(label.as_bytes()).ok();
    (0..tlds)
        .filter_map(move |number| below(format!("t{number}"), Name::ROOT))
        .flat_map(move |tld| (0..domains).filter_map(move |n| below(format!("d{n}"), tld)))
        .flat_map(move |domain| (0..hosts).filter_map(move |n| below(format!("h{n}"), domain)))
}

/// Returns the name of a zone's file: the zone's name, with `%` and two hexadecimal digits for
/// characters that file systems or shells could misread, `@.zone` for the root.
pub fn file_name(zone: &Name) -> String {
    if zone.is_root() {
        return "@.zone".to_owned();
    }
    let mut text = String::new();
    for label in zone.labels() {
        for octet in label {
            match octet {
                b'-' | b'_' | b'a'..=b'z' | b'0'..=b'9' => text.push(char::from(*octet)),
                _ => text.push_str(&format!("%{octet:02x}")),
            }
        }
        text.push('.');
    }
    text + "zone"
}

impl InternetPlan {
    /// Checks the parameters.
    ///
    /// # Errors
    /// The first value that is not possible.
    pub fn validate(&self) -> Result<(), InternetError> {
        let shares = [
            ("missing names", self.missing),
            ("domains without glue", self.glueless),
            ("domains with a wildcard", self.wildcards),
            ("signed domains", self.signed),
        ];
        if let Some((what, value)) = shares.into_iter().find(|(_, v)| !(0.0..=1.0).contains(v)) {
            return Err(InternetError::Share(what, value));
        }
        if !SERVERS.contains(&self.servers) {
            return Err(InternetError::Servers(self.servers));
        }
        if u32::from(self.first).trailing_zeros() < 16 {
            return Err(InternetError::First(self.first));
        }
        Ok(())
    }

    /// Returns the hash of a name for a choice.
    fn hash(&self, name: &Name, choice: Choice) -> u64 {
        let mut sum = self.seed ^ (choice as u64) << 56;
        for octet in name.as_wire() {
            sum ^= u64::from(*octet);
            sum = splitmix64(&mut sum);
        }
        sum
    }

    /// Returns whether a name belongs to a share of all names.
    fn is_in(&self, share: f64, name: &Name, choice: Choice) -> bool {
        let drawn = (self.hash(name, choice) >> 11) as f64 / (1u64 << 53) as f64;
        drawn < share
    }

    /// Returns an address by its number.
    fn address(&self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.first) | number)
    }
}

impl Internet {
    /// Returns the zones of names. Names of a single label are omitted, as are those reserved for
    /// name servers.
    ///
    /// # Errors
    /// If a parameter is not possible, or there are no names or too many.
    pub fn new(
        plan: InternetPlan,
        names: impl IntoIterator<Item = Name>,
    ) -> Result<Self, InternetError> {
        plan.validate()?;
        let (mut tlds, mut count) = (BTreeMap::<Name, Tld>::new(), 0);
        for name in names {
            let name = name.to_lowercase();
            let (Some(tld), Some(domain)) = (last_labels(&name, 1), last_labels(&name, 2)) else {
                continue;
            };
            if is_reserved(&name, &tld, &domain) {
                continue;
            }
            count += 1;
            if count > MAX_NAMES {
                return Err(InternetError::TooManyNames);
            }
            let tld =
                tlds.entry(tld).or_insert_with(|| Tld { number: 0, domains: BTreeMap::new() });
            tld.domains.entry(domain).or_default().push(name);
        }
        if tlds.is_empty() {
            return Err(InternetError::NoNames);
        }
        if tlds.len() > MAX_TLDS {
            return Err(InternetError::TooManyTlds(tlds.len()));
        }
        for (number, tld) in (0..).zip(tlds.values_mut()) {
            tld.number = number;
            for names in tld.domains.values_mut() {
                names.sort_unstable();
                names.dedup();
            }
        }
        let domains = || tlds.values().flat_map(|tld| tld.domains.keys());
        let at_home = |name: &&Name| !plan.is_in(plan.glueless, name, Choice::Elsewhere);
        let mut providers: Vec<Name> = domains().filter(at_home).copied().collect();
        if providers.is_empty() {
            providers.extend(domains().next());
        }
        Ok(Internet { plan, tlds, providers })
    }

    /// Returns the parameters of the box.
    pub fn plan(&self) -> &InternetPlan {
        &self.plan
    }

    /// Returns the zones of the box, each before its parent, so that the DS records of a zone are
    /// known when its parent is signed.
    pub fn zones(&self) -> impl Iterator<Item = Name> {
        let domains = self.tlds.values().flat_map(|tld| tld.domains.keys());
        domains.chain(self.tlds.keys()).copied().chain([Name::ROOT])
    }

    /// Returns all queried names: those that exist and those that do not.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.tlds.values().flat_map(|tld| tld.domains.values()).flatten()
    }

    /// Returns whether a queried name exists.
    pub fn exists(&self, name: &Name) -> bool {
        let has_wildcard = |domain: Name| self.has_wildcard(&domain);
        let domain = last_labels(name, 2);
        domain == Some(*name)
            || domain.is_some_and(has_wildcard)
            || !self.plan.is_in(self.plan.missing, name, Choice::Missing)
    }

    /// Returns whether a zone is to be signed.
    pub fn is_signed(&self, zone: &Name) -> bool {
        let share = if zone.labels().count() == 2 { self.plan.signed } else { 1.0 };
        self.plan.signed > 0.0 && self.plan.is_in(share, zone, Choice::Signed)
    }

    /// Returns the addresses of the root's servers.
    pub fn roots(&self) -> [Ipv4Addr; SERVERS_PER_ZONE as usize] {
        [1, 2].map(|number| self.plan.address(number))
    }

    /// Writes the root hints.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn write_hints(&self, out: &mut impl Write) -> io::Result<()> {
        for (letter, address) in SERVER_LETTERS.iter().zip(self.roots()) {
            writeln!(out, ". 3600000 NS {letter}.{ROOT_SERVERS}.")?;
            writeln!(out, "{letter}.{ROOT_SERVERS}. 3600000 A {address}")?;
        }
        Ok(())
    }

    /// Writes a zone of [`zones`](Self::zones), its SOA record first.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn write_zone(&self, zone: &Name, out: &mut impl Write) -> io::Result<()> {
        match (last_labels(zone, 1), last_labels(zone, 2)) {
            (Some(tld), Some(domain)) => {
                let names = self.tlds.get(&tld).and_then(|tld| tld.domains.get(&domain));
                self.write_domain(&domain, names.map_or(&[][..], |names| &names[..]), out)
            }
            (Some(name), None) => match self.tlds.get(&name) {
                Some(tld) => self.write_tld(&name, tld, out),
                None => Ok(()),
            },
            (None, _) => self.write_root(out),
        }
    }

    fn write_root(&self, out: &mut impl Write) -> io::Result<()> {
        let ttl = self.plan.delegation_ttl;
        self.write_soa(&Name::ROOT, &format!("a.{ROOT_SERVERS}."), out)?;
        for (letter, address) in SERVER_LETTERS.iter().zip(self.roots()) {
            writeln!(out, ". {ttl} IN NS {letter}.{ROOT_SERVERS}.")?;
            writeln!(out, "{letter}.{ROOT_SERVERS}. {ttl} IN A {address}")?;
        }
        for (name, tld) in &self.tlds {
            self.write_tld_servers(name, tld.number, out)?;
        }
        Ok(())
    }

    fn write_tld(&self, name: &Name, tld: &Tld, out: &mut impl Write) -> io::Result<()> {
        self.write_soa(name, &format!("a.{NIC_SERVERS}.{}", Dotted(name)), out)?;
        self.write_tld_servers(name, tld.number, out)?;
        for domain in tld.domains.keys() {
            let provider = self.provider(domain);
            self.write_servers(domain, &provider, provider == *domain, out)?;
        }
        Ok(())
    }

    fn write_domain(&self, domain: &Name, names: &[Name], out: &mut impl Write) -> io::Result<()> {
        let (plan, ttl, provider) = (&self.plan, self.plan.ttl, self.provider(domain));
        self.write_soa(domain, &format!("ns1.{}", Dotted(&provider)), out)?;
        self.write_servers(domain, &provider, provider == *domain, out)?;
        let has_wildcard = self.has_wildcard(domain);
        if has_wildcard {
            let address = host(plan.hash(domain, Choice::Address));
            writeln!(out, "*.{} {ttl} IN A {address}", Dotted(domain))?;
        }
        let is_written = |name: &&Name| *name == domain || (!has_wildcard && self.exists(name));
        for name in names.iter().filter(is_written) {
            let (owner, number) = (Dotted(name), plan.hash(name, Choice::Address));
            writeln!(out, "{owner} {ttl} IN A {}", host(number))?;
            if plan.is_in(AAAA_SHARE, name, Choice::HasAaaa) {
                let address = Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(number));
                writeln!(out, "{owner} {ttl} IN AAAA {address}")?;
            }
        }
        Ok(())
    }

    /// Writes the SOA record of a zone whose first name server is `server`.
    fn write_soa(&self, zone: &Name, server: &str, out: &mut impl Write) -> io::Result<()> {
        let InternetPlan { ttl, negative_ttl, .. } = self.plan;
        let owner = Dotted(zone);
        let mailbox = if zone.is_root() { String::new() } else { owner.to_string() };
        writeln!(out, "{owner} {ttl} IN SOA {server} hostmaster.{mailbox} {SOA} {negative_ttl}")
    }

    /// Writes the name servers of a top-level domain and their addresses, for itself and for the root.
    fn write_tld_servers(&self, tld: &Name, number: u32, out: &mut impl Write) -> io::Result<()> {
        let (owner, ttl) = (Dotted(tld), self.plan.delegation_ttl);
        for (letter, server) in SERVER_LETTERS.iter().zip(0..SERVERS_PER_ZONE) {
            let address = self.plan.address(FIRST_ADDRESSES.0 + SERVERS_PER_ZONE * number + server);
            writeln!(out, "{owner} {ttl} IN NS {letter}.{NIC_SERVERS}.{owner}")?;
            writeln!(out, "{letter}.{NIC_SERVERS}.{owner} {ttl} IN A {address}")?;
        }
        Ok(())
    }

    /// Writes the name servers of a domain, for itself and for the zone above, with their addresses if they are in the domain.
    fn write_servers(
        &self,
        domain: &Name,
        provider: &Name,
        addresses: bool,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let (owner, provider, ttl) = (Dotted(domain), Dotted(provider), self.plan.delegation_ttl);
        for (label, address) in NAME_SERVERS.iter().zip(self.servers(provider.0)) {
            writeln!(out, "{owner} {ttl} IN NS {label}.{provider}")?;
            if addresses {
                writeln!(out, "{label}.{provider} {ttl} IN A {address}")?;
            }
        }
        Ok(())
    }

    /// Returns the domain that the name servers of a domain are in.
    fn provider(&self, domain: &Name) -> Name {
        if self.providers.binary_search(domain).is_ok() {
            return *domain;
        }
        let number = self.plan.hash(domain, Choice::Provider) % self.providers.len() as u64;
        self.providers[number as usize]
    }

    /// Returns the addresses of the two name servers that are in a domain.
    fn servers(&self, provider: &Name) -> [Ipv4Addr; NAME_SERVERS.len()] {
        let count = u64::from(self.plan.servers);
        let first = self.plan.hash(provider, Choice::FirstServer) % count;
        let further = 1 + self.plan.hash(provider, Choice::SecondServer) % (count - 1);
        [first, (first + further) % count].map(|n| self.plan.address(FIRST_ADDRESSES.1 + n as u32))
    }

    fn has_wildcard(&self, domain: &Name) -> bool {
        self.plan.is_in(self.plan.wildcards, domain, Choice::Wildcard)
    }
}

/// A name as zone files have it: with a dot at the end.
struct Dotted<'a>(&'a Name);

impl fmt::Display for Dotted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_root() { f.write_str(".") } else { write!(f, "{}.", self.0) }
    }
}

/// Returns the last `count` labels of a name; `None` if it has fewer.
fn last_labels(name: &Name, count: usize) -> Option<Name> {
    let front = name.labels().count().checked_sub(count)?;
    let at: usize = name.labels().take(front).map(|label| 1 + label.len()).sum();
    Name::from_wire(&name.as_wire()[at..]).ok()
}

/// Returns whether a name, of a domain in a top-level domain, is one of a name server here, or a wildcard.
fn is_reserved(name: &Name, tld: &Name, domain: &Name) -> bool {
    let first = |name: &Name, labels: &[&str]| {
        name.labels().next().is_some_and(|label| labels.iter().any(|l| l.as_bytes() == label))
    };
    let is_server = name.parent() == Some(*domain) && first(name, &NAME_SERVERS);
    let is_star = name.labels().any(|label| label == b"*");
    is_server || is_star || first(tld, &[ROOT_SERVERS]) || first(domain, &[NIC_SERVERS])
}

/// Returns an address of the block for benchmarks (RFC 2544), 198.18.0.0/15.
fn host(number: u64) -> Ipv4Addr {
    Ipv4Addr::from(0xc612_0000 | number as u32 & 0x1_ffff)
}

#[cfg(test)]
mod tests;
