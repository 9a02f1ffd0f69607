//! One zone in memory: its names in canonical order, and the search of RFC 1034 section 4.3.2 among them.

use std::net::Ipv4Addr;

use wire::Qtype;
use wire::name::MAX_NAME;
use wire::name::order::compare;

/// Records of one type at one name, with their signatures.
#[derive(Debug)]
pub(super) struct RrSet {
    pub(super) rtype: Qtype,
    pub(super) ttl: u32,
    /// Data of each record, in wire form.
    pub(super) data: Vec<Box<[u8]>>,
    /// Data of each RRSIG record over them, in wire form.
    pub(super) signatures: Vec<Box<[u8]>>,
}

/// A name of a zone; a node without records has names below it that have records.
#[derive(Debug)]
pub(super) struct ZoneNode {
    /// Name in wire form, in lower case.
    pub(super) name: Box<[u8]>,
    pub(super) sets: Vec<RrSet>,
}

impl ZoneNode {
    /// Returns the records of the name with a type.
    pub(super) fn set(&self, rtype: Qtype) -> Option<&RrSet> {
        self.sets.iter().find(|set| set.rtype == rtype)
    }
}

/// A zone, and the addresses of its servers.
#[derive(Debug)]
pub(super) struct InternetZone {
    /// Name in wire form, in lower case.
    apex: Box<[u8]>,
    /// Names in canonical order, the apex first.
    nodes: Vec<ZoneNode>,
    servers: Vec<Ipv4Addr>,
}

/// The result of looking a name up in a zone. Places are offsets in the name.
#[derive(Debug)]
pub(super) enum ZoneLookup<'z> {
    /// The name exists, or names below it do.
    Exact(&'z ZoneNode),
    /// A delegation at the name or above it.
    Delegation {
        node: &'z ZoneNode,
        /// Place of the name that is delegated.
        at: usize,
    },
    /// A wildcard that matches the name (RFC 4592).
    Wildcard(&'z ZoneNode),
    /// The name does not exist, and no wildcard matches it.
    Missing {
        /// Place of the longest part of the name that exists (the closest encloser).
        encloser: usize,
    },
}

impl InternetZone {
    /// Makes a zone of nodes in canonical order that begin with the apex.
    pub(super) fn new(apex: Box<[u8]>, nodes: Vec<ZoneNode>) -> Self {
        InternetZone { apex, nodes, servers: Vec::new() }
    }

    /// Sets the addresses of the zone's servers.
    pub(super) fn serve_at(&mut self, servers: Vec<Ipv4Addr>) {
        self.servers = servers;
    }

    /// Returns whether the server at an address has the zone.
    pub(super) fn is_at(&self, server: Ipv4Addr) -> bool {
        self.servers.contains(&server)
    }

    /// Returns the zone's name in wire form, in lower case.
    pub(super) fn apex(&self) -> &[u8] {
        &self.apex
    }

    pub(super) fn nodes(&self) -> &[ZoneNode] {
        &self.nodes
    }

    /// Returns the records of a type at its apex.
    pub(super) fn at_apex(&self, rtype: Qtype) -> Option<&RrSet> {
        self.nodes.first()?.set(rtype)
    }

    /// Looks up the records of a name, which is the apex or below it.
    pub(super) fn find(&self, name: &[u8], qtype: Qtype) -> ZoneLookup<'_> {
        let mut encloser = name.len() - self.apex.len();
        let (mut starts, mut count, mut at) = ([0; MAX_NAME / 2 + 1], 0, 0);
        while at < encloser {
            starts[count] = at;
            count += 1;
            at += 1 + usize::from(name[at]);
        }
        for &at in starts[..count].iter().rev() {
            let Some(node) = self.node(&name[at..]) else {
                let star = Star::below(&name[encloser..]);
                let wildcard = self.node(star.name());
                return wildcard.map_or(ZoneLookup::Missing { encloser }, ZoneLookup::Wildcard);
            };
            // The parent has the DS records of a delegation (RFC 4035 section 3.1.4.1).
            let is_own = at == 0 && qtype == Qtype::DS;
            if !is_own && node.set(Qtype::NS).is_some() {
                return ZoneLookup::Delegation { node, at };
            }
            encloser = at;
        }
        self.node(&name[encloser..]).map_or(ZoneLookup::Missing { encloser }, ZoneLookup::Exact)
    }

    /// Returns a name; `None` if neither it nor a name below it has records.
    pub(super) fn node(&self, name: &[u8]) -> Option<&ZoneNode> {
        self.position(name).ok().map(|at| &self.nodes[at])
    }

    /// Returns the node whose NSEC record is at a name or covers it; `None` if the zone is not signed.
    pub(super) fn denial(&self, name: &[u8]) -> Option<&ZoneNode> {
        self.nodes.first()?.set(Qtype::NSEC)?;
        let end = self.position(name).map_or_else(|at| at, |at| at + 1);
        // Empty non-terminals and glue have no NSEC record.
        self.nodes[..end].iter().rev().find(|node| node.set(Qtype::NSEC).is_some())
    }

    /// Returns the place of a name among the nodes, or where it would be inserted.
    fn position(&self, name: &[u8]) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| compare(&node.name, name))
    }
}

/// The wildcard below a name.
pub(super) struct Star {
    /// Two octets more than a name has: such a wildcard is in no zone.
    bytes: [u8; MAX_NAME + 2],
    len: usize,
}

impl Star {
    /// Makes the wildcard below a name in wire form.
    pub(super) fn below(name: &[u8]) -> Self {
        let (mut bytes, len) = ([0; MAX_NAME + 2], 2 + name.len());
        bytes[..2].copy_from_slice(b"\x01*");
        bytes[2..len].copy_from_slice(name);
        Star { bytes, len }
    }

    /// Returns the record in wire form.
    pub(super) fn name(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
