//! Computes the correct reply to a query, without state and clock.
//!
//! | message received | reply |
//! |---|---|
//! | a response, or less than a header | none |
//! | another opcode | NOTIMP |
//! | a malformed query | FORMERR |
//! | EDNS above version 0 | BADVERS |
//! | a name outside all zones, another class (CH: `queried_names`), a zone transfer | REFUSED |
//! | another type without records, a meta-type (RFC 6895 section 3.1) | NOTIMP |
//! | a name that does not exist | NXDOMAIN and the SOA |
//! | a type that the name does not have | NODATA: only the SOA |
//!
//! Every reply fits into 512 octets, which every client accepts over UDP, for any zone name. So no reply is truncated
//! except on request, and UDP and TCP give the same replies. The large answers of drills are the exception: they come over TCP.

use wire::message::flag;
use wire::writer::Section;
use wire::{Qclass, Qtype, Query, Rcode, ReplyWriter};

use crate::config::AuthConfig;
use crate::queried_names::QueriedNames;
use crate::records::Records;
use crate::reply::{Reply, ReplyKind};
use crate::traps::{self, signed};
use crate::zone::{Located, Node, Zones};

/// Largest size of a reply in octets; a test checks it with the longest names.
pub const MAX_REPLY: usize = 512;

/// The zones and their records.
#[derive(Debug)]
pub(crate) struct Responder {
    zones: Zones,
    records: Records,
}

impl Responder {
    /// Prepares the zones and records.
    pub(crate) fn new(config: &AuthConfig) -> Self {
        Responder { zones: Zones::new(config), records: Records::new(config) }
    }

    /// Writes the reply to a message, of at most `limit` octets.
    #[inline]
    pub(crate) fn reply(&self, message: &[u8], out: &mut [u8], limit: usize) -> Reply {
        Reply::compose(
            message,
            out,
            |_| limit,
            |query, writer| {
                let mut host = None;
                let (kind, address_octet) = match self.locate(query) {
                    Ok(located) => {
                        if let Node::Host(address) = located.node {
                            host = Some(address);
                        }
                        writer.flag(flag::AA, true);
                        self.fill(writer, query, located)
                    }
                    Err(rcode) => {
                        writer.rcode(rcode);
                        (ReplyKind::Error, None)
                    }
                };
                Reply { kind, host, address_octet, ..Reply::NONE }
            },
        )
    }

    /// Writes the reply to a query of class CH: for a name of the namespace whether it was queried,
    /// for the TXT record of a zone the number of messages so far, this one included. Returns
    /// `None` for any other message.
    #[cold]
    pub(crate) fn remembered(
        &self,
        message: &[u8],
        queried_names: &QueriedNames,
        out: &mut [u8],
    ) -> Option<Reply> {
        let query = Query::parse(message).ok().filter(|query| query.qclass == Qclass::CH)?;
        let host = match self.zones.locate(query.qname)?.node {
            Node::Host(address) => Some(address),
            Node::Apex if query.qtype == Qtype::TXT => None,
            _ => return None,
        };
        let mut writer = ReplyWriter::new(out, MAX_REPLY, &query)?;
        let question_end = writer.position();
        let kind = match host {
            Some(address) if queried_names.contains(address) => ReplyKind::NoData,
            Some(_) => {
                writer.rcode(Rcode::NXDOMAIN);
                ReplyKind::NxDomain
            }
            None => {
                writer.prebuilt(Section::Answer, &count_record(queried_names.messages()));
                ReplyKind::Answer
            }
        };
        Some(Reply { len: writer.finish(), kind, question_end, ..Reply::NONE })
    }

    /// Returns the place of the queried name, or the return code for a query that is refused.
    #[inline]
    fn locate(&self, query: &Query<'_>) -> Result<Located, Rcode> {
        if query.bad_version() {
            return Err(Rcode::BADVERS);
        }
        if query.qclass != Qclass::IN {
            return Err(Rcode::REFUSED);
        }
        let located = self.zones.locate(query.qname).ok_or(Rcode::REFUSED)?;
        match query.qtype {
            Qtype::AXFR | Qtype::IXFR => Err(Rcode::REFUSED),
            Qtype::OPT | Qtype(128..=254) => Err(Rcode::NOTIMP),
            _ => Ok(located),
        }
    }

    /// Adds the records of a name in a zone.
    #[inline]
    fn fill(
        &self,
        writer: &mut ReplyWriter<'_>,
        query: &Query<'_>,
        located: Located,
    ) -> (ReplyKind, Option<usize>) {
        let (records, qtype) = (&self.records, query.qtype);
        let mut address_octet = None;
        match (located.node, qtype) {
            (Node::Host(address), Qtype::A) => address_octet = records.address(writer, address),
            (Node::Host(address), Qtype::AAAA) if self.zones.has_aaaa(address) => {
                address_octet = records.embedded(writer, self.zones.embed(address));
            }
            (Node::Reverse(address), Qtype::PTR) => {
                address_octet = records.pointer(writer, address);
            }
            (Node::Apex, Qtype::SOA) => records.soa(writer, located, Section::Answer),
            (Node::Apex, Qtype::NS) => records.name_server(writer, located.zone),
            (Node::NameServer, Qtype::A | Qtype::AAAA) => records.server_address(writer, qtype),
            (Node::Large, Qtype::TXT) => traps::large(writer, records.ttl),
            (Node::Keys, Qtype::DNSKEY) => signed::keys(writer, query, records.ttl),
            (Node::Forged, Qtype::A) => signed::forged(writer, query, records.ttl, MAX_REPLY),
            (Node::Delegated, _) => {
                traps::delegation(writer, query.qname, located, records.ttl, MAX_REPLY);
                return (ReplyKind::NoData, None);
            }
            (Node::Missing, _) => {
                writer.rcode(Rcode::NXDOMAIN);
                records.soa(writer, located, Section::Authority);
                return (ReplyKind::NxDomain, None);
            }
            (Node::Apex | Node::NameServer | Node::Host(_) | Node::Reverse(_), Qtype::ANY) => {
                records.any(writer);
            }
            _ => {
                records.soa(writer, located, Section::Authority);
                return (ReplyKind::NoData, None);
            }
        }
        (ReplyKind::Answer, address_octet)
    }
}

/// Returns a TXT record of class CH for the queried name, with a number of 20 digits.
fn count_record(number: u64) -> [u8; 33] {
    // Owner (the question's), type, class, TTL 0, length of the data, length of the text.
    let fixed = [0xc0, 12, 0, 16, 0, 3, 0, 0, 0, 0, 0, 21, 20];
    let mut record = [0; 33];
    record[..13].copy_from_slice(&fixed);
    record[13..].copy_from_slice(format!("{number:020}").as_bytes());
    record
}
