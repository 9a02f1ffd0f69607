//! All zones of the Internet in a box, made record by record.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use wire::name::order::compare;
use wire::{Name, Qtype};

use super::zone::{InternetZone, RrSet, ZoneNode};

/// Largest size of the records of one type at one name with their signatures, in octets: with what else is in a reply they fit a
/// message over TCP.
const MAX_SET: usize = 8 << 10;
/// NSEC3PARAM, the sign of a zone with NSEC3 (RFC 5155).
const NSEC3PARAM: Qtype = Qtype(51);
/// Octets of a record besides its data: a pointer to its name, type, class, TTL and length.
const RECORD: usize = 12;

/// A zone that is being made.
#[derive(Debug)]
pub struct ZoneBuilder {
    apex: Name,
    /// Records by the name in wire form, in lower case.
    names: HashMap<Box<[u8]>, Vec<RrSet>>,
}

/// Zones, each at the addresses of its name servers.
#[derive(Debug)]
pub struct InternetZones {
    zones: Vec<InternetZone>,
    /// Numbers of the zones by their names in wire form, in lower case.
    by_name: HashMap<Box<[u8]>, usize>,
}

/// The reason why zones cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZonesError {
    /// A record of a type that needs another server.
    #[error(
        "the zone {0} has a record {1}, which is not served: zones are signed with NSEC, and have no DNAME"
    )]
    Unsupported(String, Qtype),
    /// A zone has no SOA record.
    #[error("the zone {0} has no SOA record at its apex")]
    NoSoa(String),
    /// No name server of a zone has an address.
    #[error(
        "no name server of the zone {0} has an A record in any zone: a zone is served at the addresses of its name servers"
    )]
    NoServer(String),
    /// Two zones have the same name.
    #[error("there are two files of the zone {0}: remove one")]
    Twice(String),
    /// The records of one type at a name are too many.
    #[error("the records {rtype} at {name} have {octets} octets; at most {MAX_SET} are served")]
    TooLarge {
        /// Owner name of the records.
        name: String,
        /// Type of the records; their signatures count too.
        rtype: Qtype,
        /// Size of the records in octets.
        octets: usize,
    },
}

impl ZoneBuilder {
    /// Returns a zone without records.
    pub fn new(apex: Name) -> Self {
        ZoneBuilder { apex: apex.to_lowercase(), names: HashMap::new() }
    }

    /// Adds a record; `owner`, a name of the zone, and `data` are in wire form.
    ///
    /// # Errors
    /// If the type is one that is not served.
    pub fn add(
        &mut self,
        owner: &[u8],
        rtype: Qtype,
        ttl: u32,
        data: &[u8],
    ) -> Result<(), ZonesError> {
        if [Qtype::DNAME, Qtype::NSEC3, NSEC3PARAM].contains(&rtype) {
            return Err(ZonesError::Unsupported(self.apex.to_string(), rtype));
        }
        let is_signature = rtype == Qtype::RRSIG;
        let covered = data.first_chunk().map(|number| Qtype(u16::from_be_bytes(*number)));
        let rtype = if is_signature { covered.unwrap_or(rtype) } else { rtype };
        let sets = self.names.entry(owner.to_ascii_lowercase().into()).or_default();
        let at = sets.iter().position(|set| set.rtype == rtype).unwrap_or_else(|| {
            sets.push(RrSet { rtype, ttl, data: Vec::new(), signatures: Vec::new() });
            sets.len() - 1
        });
        let set = &mut sets[at];
        let list = if is_signature { &mut set.signatures } else { &mut set.data };
        if !list.iter().any(|known| **known == *data) {
            list.push(data.into());
        }
        Ok(())
    }

    /// Returns the zone, without its servers.
    fn finish(mut self) -> Result<InternetZone, ZonesError> {
        let apex: Box<[u8]> = self.apex.as_wire().into();
        self.add_parents(apex.len());
        let mut nodes: Vec<ZoneNode> = Vec::with_capacity(self.names.len());
        for (name, mut sets) in self.names {
            // A signature of missing records proves nothing.
            sets.retain(|set| !set.data.is_empty());
            if let Some(large) = sets.iter().find(|set| size(set) > MAX_SET) {
                let name = Name::from_wire(&name).unwrap_or(self.apex).to_string();
                let (rtype, octets) = (large.rtype, size(large));
                return Err(ZonesError::TooLarge { name, rtype, octets });
            }
            nodes.push(ZoneNode { name, sets });
        }
        nodes.sort_unstable_by(|a, b| compare(&a.name, &b.name));
        let zone = InternetZone::new(apex, nodes);
        if zone.nodes().first().is_none_or(|node| *node.name != *zone.apex())
            || zone.at_apex(Qtype::SOA).is_none()
        {
            return Err(ZonesError::NoSoa(self.apex.to_string()));
        }
        Ok(zone)
    }

    /// Adds the names between each name and the apex, whose name has `apex` octets: they exist without records.
    fn add_parents(&mut self, apex: usize) {
        let mut parents: Vec<Box<[u8]>> = Vec::new();
        for name in self.names.keys() {
            let mut at = 0;
            while name.len() - at > apex {
                at += 1 + usize::from(name[at]);
                if !self.names.contains_key(&name[at..]) {
                    parents.push(Box::from(&name[at..]));
                }
            }
        }
        for parent in parents {
            self.names.entry(parent).or_default();
        }
    }
}

/// Returns the size of records with their signatures, in octets.
fn size(set: &RrSet) -> usize {
    set.data.iter().chain(&set.signatures).map(|data| RECORD + data.len()).sum()
}

impl InternetZones {
    /// Returns the zones, each served at the addresses that its name servers have in any of them.
    ///
    /// # Errors
    /// The first zone that cannot be served.
    pub fn new(builders: impl IntoIterator<Item = ZoneBuilder>) -> Result<Self, ZonesError> {
        let mut zones: Vec<InternetZone> = Vec::new();
        let mut by_name: HashMap<Box<[u8]>, usize> = HashMap::new();
        for builder in builders {
            let apex = builder.apex;
            if by_name.insert(Box::from(apex.as_wire()), zones.len()).is_some() {
                return Err(ZonesError::Twice(apex.to_string()));
            }
            zones.push(builder.finish()?);
        }
        let addresses = addresses(&zones);
        for zone in &mut zones {
            let names = zone.at_apex(Qtype::NS).into_iter().flat_map(|set| &set.data);
            let known = names.filter_map(|name| addresses.get(&name.to_ascii_lowercase()[..]));
            let servers: Vec<Ipv4Addr> = known.flatten().copied().collect();
            if servers.is_empty() {
                let apex = Name::from_wire(zone.apex()).unwrap_or(Name::ROOT);
                return Err(ZonesError::NoServer(apex.to_string()));
            }
            zone.serve_at(servers);
        }
        Ok(InternetZones { zones, by_name })
    }

    /// Returns the number of zones.
    pub fn count(&self) -> usize {
        self.zones.len()
    }

    /// Returns the zone that answers for a name in lower case at a server: the zone with the
    /// longest name, but for DS records at its apex the zone above.
    pub(super) fn find(
        &self,
        server: Ipv4Addr,
        name: &[u8],
        qtype: Qtype,
    ) -> Option<&InternetZone> {
        let (mut own, mut at) = (None, 0);
        loop {
            let zone = self.by_name.get(&name[at..]).map(|number| &self.zones[*number]);
            if let Some(zone) = zone.filter(|zone| zone.is_at(server)) {
                if qtype != Qtype::DS || at > 0 {
                    return Some(zone);
                }
                own = Some(zone);
            }
            if name[at] == 0 {
                return own;
            }
            at += 1 + usize::from(name[at]);
        }
    }
}

/// Returns the IPv4 addresses of all names.
fn addresses(zones: &[InternetZone]) -> HashMap<Box<[u8]>, Vec<Ipv4Addr>> {
    let mut all: HashMap<Box<[u8]>, Vec<Ipv4Addr>> = HashMap::new();
    for node in zones.iter().flat_map(InternetZone::nodes) {
        for data in node.set(Qtype::A).into_iter().flat_map(|set| &set.data) {
            let Some(octets) = data.first_chunk::<4>() else { continue };
            let address = Ipv4Addr::from(*octets);
            let known = all.entry(node.name.clone()).or_default();
            if !known.contains(&address) {
                known.push(address);
            }
        }
    }
    all
}
