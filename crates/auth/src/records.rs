//! Records that are composed at start; at run time a reply is a copy and a few stores.
//!
//! ```text
//! A      c0 0c  type class TTL length  [ address ]
//! AAAA   c0 0c  type class TTL length  [    prefix and address    ]
//! PTR    c0 0c  type class TTL length  0f [ddd-ddd-ddd-ddd] zone
//! SOA    [zone] type class TTL length  03 ns1 [zone]  0a hostmaster [zone]  serial ... MINIMUM
//! ```
//!
//! The parts in brackets are stored for each reply. A zone in brackets is a pointer into the name in the question.
//! Under `arpa` the zone of the server is another one, so it is written in full once, and later uses point to it.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::message::{HEADER, RECORD_FIXED};
use wire::name::MAX_NAME;
use wire::namespace::LABEL;
use wire::writer::{QUESTION_OFFSET, Section, pointer};
use wire::{Name, Namespace, Owner, Qclass, Qtype, ReplyWriter};

use crate::config::AuthConfig;
use crate::zone::{Located, NAME_SERVER, Zone};

/// Size in octets of a record with a pointer as owner, without its data.
const FIXED: usize = 2 + RECORD_FIXED;
/// The type HINFO (RFC 1035), used for the smallest answer to ANY (RFC 8482 section 4.2).
const HINFO: Qtype = Qtype(13);
/// Serial, refresh, retry and expire of the SOA record.
const SOA_TIMES: [u32; 4] = [2_026_010_100, 604_800, 86_400, 2_419_200];
/// The label of the mail address in the SOA record, below the forward zone.
const HOSTMASTER: &[u8] = b"\x0ahostmaster";

/// The records of all zones.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) ttl: u32,
    soa_ttl: u32,
    ns_address: (Ipv4Addr, Ipv6Addr),
    /// The name of the name server.
    ns_name: Name,
    pub(crate) address: Vec<u8>,
    pub(crate) embedded: Vec<u8>,
    pub(crate) pointer: Vec<u8>,
    /// The SOA record for forward names, then for reverse names.
    pub(crate) soa: [Vec<u8>; 2],
}

impl Records {
    /// Returns the NS record of an apex with the addresses of the server after it, for the forward
    /// and the reverse zones.
    pub(crate) fn name_servers(&self) -> [Vec<u8>; 2] {
        let forward = [NAME_SERVER, &pointer(QUESTION_OFFSET)].concat();
        [&forward, self.ns_name.as_wire()].map(|name| {
            let mut records = record(Qtype::NS, self.ttl, name);
            self.server_addresses().iter().for_each(|address| records.extend(address));
            records
        })
    }

    /// Returns the A and the AAAA record of the name server.
    pub(crate) fn server_addresses(&self) -> [Vec<u8>; 2] {
        let (v4, v6) = self.ns_address;
        [record(Qtype::A, self.ttl, &v4.octets()), record(Qtype::AAAA, self.ttl, &v6.octets())]
    }

    pub(crate) fn new(config: &AuthConfig) -> Self {
        let zone = config.namespace.zone();
        let ttl = config.ttl;
        let reverse = [&[LABEL as u8][..], &[b'0'; LABEL], zone.as_wire()].concat();
        // The negative TTL is the smaller of MINIMUM and the TTL of the SOA (RFC 2308 section 3).
        let negative_ttl = config.soa_ttl.min(config.negative_ttl);
        let soa = |server_zone: &[u8]| {
            let mut data =
                [NAME_SERVER, server_zone, HOSTMASTER, &pointer(QUESTION_OFFSET)].concat();
            for number in SOA_TIMES.into_iter().chain([config.negative_ttl]) {
                data.extend_from_slice(&number.to_be_bytes());
            }
            record(Qtype::SOA, negative_ttl, &data)
        };
        Records {
            ttl,
            soa_ttl: config.soa_ttl,
            ns_address: config.ns_address,
            ns_name: zone.prepend(&NAME_SERVER[1..]).expect("16 octets are left for labels"),
            address: record(Qtype::A, ttl, &[0; 4]),
            embedded: record(Qtype::AAAA, ttl, &[0; 16]),
            pointer: record(Qtype::PTR, ttl, &reverse),
            soa: [soa(&pointer(QUESTION_OFFSET)), soa(zone.as_wire())],
        }
    }

    /// Adds the A record of a host; returns the offset of the last octet of its address.
    #[inline]
    pub(crate) fn address(&self, writer: &mut ReplyWriter<'_>, address: Ipv4Addr) -> Option<usize> {
        let record = writer.prebuilt(Section::Answer, &self.address)?;
        record[FIXED..].copy_from_slice(&address.octets());
        Some(writer.position() - 1)
    }

    /// Adds the AAAA record of a host; returns the offset of the last octet of its address.
    #[inline]
    pub(crate) fn embedded(
        &self,
        writer: &mut ReplyWriter<'_>,
        address: Ipv6Addr,
    ) -> Option<usize> {
        let record = writer.prebuilt(Section::Answer, &self.embedded)?;
        record[FIXED..].copy_from_slice(&address.octets());
        Some(writer.position() - 1)
    }

    /// Adds the PTR record of an address; returns the offset of the last digit of its name.
    #[inline]
    pub(crate) fn pointer(&self, writer: &mut ReplyWriter<'_>, address: Ipv4Addr) -> Option<usize> {
        let start = writer.position();
        let record = writer.prebuilt(Section::Answer, &self.pointer)?;
        let label = record[FIXED + 1..].first_chunk_mut().expect("the data starts with a label");
        Namespace::write_label(address, label);
        Some(start + FIXED + LABEL)
    }

    /// Adds the smallest record that answers ANY.
    pub(crate) fn any(&self, writer: &mut ReplyWriter<'_>) {
        writer.answer(Owner::Question, HINFO, self.ttl, b"\x07RFC8482\x00");
    }

    /// Adds an address of the name server.
    pub(crate) fn server_address(&self, writer: &mut ReplyWriter<'_>, qtype: Qtype) {
        match qtype {
            Qtype::A => {
                writer.answer(Owner::Question, qtype, self.ttl, &self.ns_address.0.octets())
            }
            _ => writer.answer(Owner::Question, qtype, self.ttl, &self.ns_address.1.octets()),
        };
    }

    /// Adds the NS record of a zone apex, and the addresses of the server.
    pub(crate) fn name_server(&self, writer: &mut ReplyWriter<'_>, zone: Zone) {
        let mut compressed = [0; NAME_SERVER.len() + 2];
        compressed[..NAME_SERVER.len()].copy_from_slice(NAME_SERVER);
        compressed[NAME_SERVER.len()..].copy_from_slice(&pointer(QUESTION_OFFSET));
        let name = if zone == Zone::Forward { &compressed[..] } else { self.ns_name.as_wire() };
        let at = Owner::At((writer.position() + FIXED) as u16);
        writer.answer(Owner::Question, Qtype::NS, self.ttl, name);
        writer.additional(at, Qtype::A, self.ttl, &self.ns_address.0.octets());
        writer.additional(at, Qtype::AAAA, self.ttl, &self.ns_address.1.octets());
    }

    /// Adds the SOA record of the zone of the name: as the answer, or in a negative reply.
    #[inline]
    pub(crate) fn soa(&self, writer: &mut ReplyWriter<'_>, located: Located, section: Section) {
        let start = writer.position();
        let zone = pointer((HEADER + located.zone_at) as u16);
        let forward = located.zone == Zone::Forward;
        let Some(record) = writer.prebuilt(section, &self.soa[usize::from(!forward)]) else {
            return;
        };
        record[..2].copy_from_slice(&zone);
        // After the first label of the server, its zone is written in full or as a pointer into the question.
        let server_zone = FIXED + NAME_SERVER.len();
        let shared = if forward {
            record[server_zone..][..2].copy_from_slice(&zone);
            zone
        } else {
            pointer((start + server_zone) as u16)
        };
        let hostmaster_zone = record.len() - 4 * (SOA_TIMES.len() + 1) - 2;
        record[hostmaster_zone..][..2].copy_from_slice(&shared);
        if section == Section::Answer {
            record[6..10].copy_from_slice(&self.soa_ttl.to_be_bytes());
        }
    }
}

/// Composes a record in class IN with the queried name as owner.
fn record(rtype: Qtype, ttl: u32, data: &[u8]) -> Vec<u8> {
    assert!(data.len() < 4 * MAX_NAME, "a record has the data of two names at most");
    let mut record = pointer(QUESTION_OFFSET).to_vec();
    record.extend_from_slice(&rtype.0.to_be_bytes());
    record.extend_from_slice(&Qclass::IN.0.to_be_bytes());
    record.extend_from_slice(&ttl.to_be_bytes());
    record.extend_from_slice(&(data.len() as u16).to_be_bytes());
    record.extend_from_slice(data);
    record
}
