//! The records of replies, for a program that answers in place of this one.

use wire::Name;

use crate::config::{AaaaPolicy, AuthConfig};
use crate::records::Records;
use crate::reply::EDNS_UDP_SIZE;
use crate::zone::Zones;

/// Number of different hashes of addresses.
const HASH_COUNT: u64 = 1 << 53;

/// The records of replies to plain queries, and the numbers that select the record of a reply. Each
/// begins with a pointer to the name of the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prebuilt {
    /// The A record; its last four octets are the address.
    pub address: Vec<u8>,
    /// The AAAA record; its last 16 octets are the address.
    pub embedded: Vec<u8>,
    /// The PTR record; its name begins with the label of the address.
    pub pointer: Vec<u8>,
    /// The SOA record of a negative reply, for forward and for reverse names. Its owner and the
    /// zone of its mailbox are pointers that depend on the question; for forward names the zone of
    /// the server is one too.
    pub soa: [Vec<u8>; 2],
    /// TTL of the SOA record as an answer, in seconds.
    pub soa_ttl: u32,
    /// The NS record of the apex and both addresses of the server, for the forward and for the reverse zones. The owners of the
    /// addresses are pointers that depend on the question.
    pub name_server: [Vec<u8>; 2],
    /// The A and the AAAA record of the name server.
    pub server_addresses: [Vec<u8>; 2],
    /// The zone under `in-addr.arpa`, and that under `ip6.arpa` if there is one.
    pub reverse: [Option<Name>; 2],
    /// A name has an AAAA record if the upper 53 bits of the splitmix64 of its address are below this.
    pub aaaa_below: u64,
    /// UDP payload size in OPT records, in octets.
    pub udp_size: u16,
}

impl AuthConfig {
    /// Returns the parts from which another program makes the same replies to plain queries for
    /// names of the namespace.
    pub fn prebuilt(&self) -> Prebuilt {
        let aaaa_below = match self.aaaa {
            AaaaPolicy::Never => 0,
            AaaaPolicy::Share(share) => (share * HASH_COUNT as f64).ceil() as u64,
            AaaaPolicy::Always => HASH_COUNT,
        };
        let records = Records::new(self);
        Prebuilt {
            name_server: records.name_servers(),
            server_addresses: records.server_addresses(),
            address: records.address,
            embedded: records.embedded,
            pointer: records.pointer,
            soa: records.soa,
            soa_ttl: self.soa_ttl,
            reverse: Zones::new(self).into_reverse(),
            aaaa_below,
            udp_size: EDNS_UDP_SIZE,
        }
    }
}
