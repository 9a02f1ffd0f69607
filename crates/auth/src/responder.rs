//! The bytes of a query to the bytes of its honest reply; no state, no clock.
//!
//! | what arrived | what it gets |
//! |---|---|
//! | a response, or less than a header | nothing |
//! | another opcode | NOTIMP |
//! | what is malformed | FORMERR |
//! | EDNS above version 0 | BADVERS |
//! | a name outside of all zones, another class than IN, a transfer | REFUSED |
//! | another type that no record has (RFC 6895 section 3.1) | NOTIMP |
//! | a name that does not exist | NXDOMAIN and the SOA |
//! | a type that the name does not have | no records but the SOA |
//!
//! Every reply fits 512 octets, the least that anybody takes by UDP, whatever the zone is called: so nothing is ever
//! truncated except on request, and UDP and TCP answer alike.

use wire::extend::ReplyOptions;
use wire::message::{HEADER, flag};
use wire::writer::Section;
use wire::{Qclass, Qtype, Query, Rcode, ReplyWriter};

use crate::config::AuthConfig;
use crate::records::Records;
use crate::zone::{Located, Node, Zones};

/// The longest reply, octets; a test proves it for the longest names.
pub const MAX_REPLY: usize = 512;
/// How large a UDP message may be that we take, as our EDNS says (the size of the DNS flag day 2020).
const OUR_UDP_SIZE: u16 = 1_232;

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// There is no reply.
    None,
    /// Records.
    Answer,
    /// The name has no record of the type.
    NoData,
    /// There is no such name.
    NxDomain,
    /// Another return code.
    Error,
}

/// A reply, and what its spoilers have to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// How many octets it has; zero for none.
    pub(crate) len: usize,
    /// What it says.
    pub(crate) kind: Kind,
    /// Where the question ends, or the header where there is none.
    pub(crate) question_end: usize,
    /// Whether it ends in an OPT record.
    pub(crate) has_opt: bool,
    /// What the query asks for besides, if it is carried by a stream with an idle time of 0.
    pub(crate) options: ReplyOptions,
    /// Where the last octet of the address asked for stands, or the last digit of a name asked for.
    pub(crate) address_octet: Option<usize>,
}

impl Reply {
    /// No reply.
    pub(crate) const NONE: Self = Reply {
        len: 0,
        kind: Kind::None,
        question_end: HEADER,
        has_opt: false,
        options: ReplyOptions { keepalive: None, padded: false },
        address_octet: None,
    };
}

/// Zones and their records.
#[derive(Debug)]
pub(crate) struct Responder {
    zones: Zones,
    records: Records,
}

impl Responder {
    pub(crate) fn new(config: &AuthConfig) -> Self {
        Responder { zones: Zones::new(config), records: Records::new(config) }
    }

    /// Writes the reply to a message.
    #[inline]
    pub(crate) fn reply(&self, message: &[u8], out: &mut [u8]) -> Reply {
        let query = match Query::parse(message) {
            Ok(query) => query,
            Err(error) => {
                let bare = |len| Reply { len, kind: Kind::Error, ..Reply::NONE };
                return error.reply(out).map_or(Reply::NONE, bare);
            }
        };
        let Some(mut writer) = ReplyWriter::new(out, MAX_REPLY, &query) else {
            return Reply::NONE;
        };
        if let Some(edns) = &query.edns {
            writer.opt(OUR_UDP_SIZE, edns.do_bit);
        }
        let question_end = writer.position();
        let (kind, address_octet) = match self.locate(&query) {
            Ok(located) => {
                writer.flag(flag::AA, true);
                self.fill(&mut writer, query.qtype, located)
            }
            Err(rcode) => {
                writer.rcode(rcode);
                (Kind::Error, None)
            }
        };
        let options = query.edns.map(|edns| ReplyOptions::requested(&edns, Some(0)));
        let (has_opt, options) = (options.is_some(), options.unwrap_or_default());
        Reply { len: writer.finish(), kind, question_end, has_opt, options, address_octet }
    }

    /// Where the name asked for lies, or the return code for what has no place here.
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

    /// Adds the records of a name of ours.
    #[inline]
    fn fill(
        &self,
        writer: &mut ReplyWriter<'_>,
        qtype: Qtype,
        located: Located,
    ) -> (Kind, Option<usize>) {
        let records = &self.records;
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
            (Node::Missing, _) => {
                writer.rcode(Rcode::NXDOMAIN);
                records.soa(writer, located, Section::Authority);
                return (Kind::NxDomain, None);
            }
            (Node::Apex | Node::NameServer | Node::Host(_) | Node::Reverse(_), Qtype::ANY) => {
                records.any(writer);
            }
            _ => {
                records.soa(writer, located, Section::Authority);
                return (Kind::NoData, None);
            }
        }
        (Kind::Answer, address_octet)
    }
}
