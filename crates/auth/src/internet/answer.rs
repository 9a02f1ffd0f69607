//! The answer of a zone (RFC 1034 section 4.3.2), with the proofs of DNSSEC (RFC 4035 section 3.1) if the query wants them.
//!
//! | the name | answer | authority | with DNSSEC |
//! |---|---|---|---|
//! | has the type, or is an alias | the records | | signatures |
//! | has other types | | SOA | NSEC of the name |
//! | is below a wildcard | its records | | signatures, NSEC that covers the name |
//! | is delegated, or below | | NS | DS and signature, or NSEC without DS |
//! | does not exist | | SOA | NSEC that cover the name and the wildcard |

use wire::message::{HEADER, flag};
use wire::name::strip_suffix;
use wire::writer::Section;
use wire::{Owner, Qtype, Rcode, ReplyWriter};

use super::log::Verdict;
use super::zone::{InternetZone, RrSet, Star, ZoneLookup, ZoneNode};

/// An answer that is being written.
pub(super) struct Answer<'z, 'm, 'b> {
    pub(super) zone: &'z InternetZone,
    /// Name of the question, in wire form.
    pub(super) name: &'m [u8],
    pub(super) qtype: Qtype,
    /// Whether the query wants the records of DNSSEC.
    pub(super) dnssec: bool,
    pub(super) writer: &'m mut ReplyWriter<'b>,
}

impl Answer<'_, '_, '_> {
    /// Adds all records, and sets the flags and the return code.
    pub(super) fn write(mut self) -> Verdict {
        match self.zone.find(self.name, self.qtype) {
            ZoneLookup::Exact(node) => self.existing(node, &[&node.name]),
            ZoneLookup::Wildcard(node) => self.existing(node, &[self.name, &node.name]),
            ZoneLookup::Delegation { node, at } => self.refer(node, at),
            ZoneLookup::Missing { encloser } => {
                let star = Star::below(&self.name[encloser..]);
                self.writer.rcode(Rcode::NXDOMAIN);
                self.negative(&[self.name, star.name()]);
                Verdict::NxDomain
            }
        }
    }

    /// Adds the records of a name or a wildcard; `denied` are the names that NSEC records deny if
    /// the node has no such records. Of two names the first is the queried one, which does not
    /// exist.
    fn existing(&mut self, node: &ZoneNode, denied: &[&[u8]]) -> Verdict {
        let (qtype, mut found) = (self.qtype, false);
        let is_alias = |set: &RrSet| set.rtype == Qtype::CNAME && qtype != Qtype::NSEC;
        for set in &node.sets {
            if set.rtype == qtype || qtype == Qtype::ANY || is_alias(set) {
                self.add(Section::Answer, Owner::Question, set, set.ttl);
                found = true;
            }
        }
        if !found {
            self.negative(denied);
            return Verdict::NoData;
        }
        self.writer.flag(flag::AA, true);
        if let [name, _] = denied {
            self.deny(&[*name]);
        }
        if qtype == Qtype::NS
            && let Some(servers) = node.set(Qtype::NS)
        {
            self.addresses(servers);
        }
        Verdict::Answer
    }

    /// Adds a delegation at an offset of the name, with the addresses of its servers that the zone knows.
    fn refer(&mut self, node: &ZoneNode, at: usize) -> Verdict {
        let owner = Owner::At((HEADER + at) as u16);
        let Some(servers) = node.set(Qtype::NS) else { return Verdict::Refused };
        self.add(Section::Authority, owner, servers, servers.ttl);
        match node.set(Qtype::DS).filter(|_| self.dnssec) {
            Some(signers) => self.add(Section::Authority, owner, signers, signers.ttl),
            None => self.deny(&[&node.name]),
        }
        self.addresses(servers);
        // A name has at most 255 octets.
        Verdict::Referral(at as u8)
    }

    /// Adds the SOA record with the TTL of the negative answer (RFC 2308 section 3), and the NSEC
    /// records that deny `denied`.
    fn negative(&mut self, denied: &[&[u8]]) {
        self.writer.flag(flag::AA, true);
        let zone = self.zone;
        if let Some(soa) = zone.at_apex(Qtype::SOA) {
            let minimum = soa.data.first().and_then(|data| data.last_chunk::<4>());
            let ttl = minimum.map_or(soa.ttl, |octets| soa.ttl.min(u32::from_be_bytes(*octets)));
            let owner = self.owner(zone.apex());
            self.add(Section::Authority, owner, soa, ttl);
        }
        self.deny(denied);
    }

    /// Adds the NSEC records that deny names, each once.
    fn deny(&mut self, names: &[&[u8]]) {
        if !self.dnssec {
            return;
        }
        let zone = self.zone;
        let mut last: Option<&ZoneNode> = None;
        for name in names {
            let Some(node) = zone.denial(name) else { continue };
            if last.is_some_and(|last| std::ptr::eq(last, node)) {
                continue;
            }
            last = Some(node);
            if let Some(set) = node.set(Qtype::NSEC) {
                let owner = self.owner(&node.name);
                self.add(Section::Authority, owner, set, set.ttl);
            }
        }
    }

    /// Adds the addresses of name servers as far as the zone has them: its own records, and glue.
    fn addresses(&mut self, servers: &RrSet) {
        let zone = self.zone;
        for node in servers.data.iter().filter_map(|name| zone.node(name)) {
            let owner = self.owner(&node.name);
            for set in [Qtype::A, Qtype::AAAA].into_iter().filter_map(|rtype| node.set(rtype)) {
                for data in &set.data {
                    self.writer.additional(owner, set.rtype, set.ttl, data);
                }
            }
        }
    }

    /// Adds records, with their signatures if they are wanted.
    fn add(&mut self, section: Section, owner: Owner<'_>, set: &RrSet, ttl: u32) {
        let dnssec = self.dnssec;
        let signatures = set.signatures.iter().filter(|_| dnssec);
        let signatures = signatures.map(|data| (Qtype::RRSIG, &data[..]));
        for (rtype, data) in set.data.iter().map(|data| (set.rtype, &data[..])).chain(signatures) {
            match section {
                Section::Answer => self.writer.answer(owner, rtype, ttl, data),
                Section::Authority => self.writer.authority(owner, rtype, ttl, &[data]),
                Section::Additional => self.writer.additional(owner, rtype, ttl, data),
            };
        }
    }

    /// Returns a name as an owner: a pointer into the question if it is a part of that.
    fn owner<'n>(&self, name: &'n [u8]) -> Owner<'n> {
        match strip_suffix(self.name, name) {
            Some(front) => Owner::At((HEADER + front.len()) as u16),
            None => Owner::Name(name),
        }
    }
}
