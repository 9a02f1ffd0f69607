//! The records of replies, for a program that answers in place of this one.

use crate::config::{AaaaPolicy, AuthConfig};
use crate::records::Records;
use crate::responder::EDNS_UDP_SIZE;

/// Number of different hashes of addresses.
const HASHES: u64 = 1 << 53;

/// The records of replies to plain queries, and the numbers that decide which one a reply has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prebuilt {
    /// The A record; its last four octets are the address.
    pub address: Vec<u8>,
    /// The AAAA record; its last 16 octets are the address.
    pub embedded: Vec<u8>,
    /// The SOA record of a negative reply, with three pointers to the zone that depend on the question.
    pub soa: Vec<u8>,
    /// A name has an AAAA record if the upper 53 bits of the splitmix64 of its address are below this.
    pub aaaa_below: u64,
    /// UDP payload size in OPT records, in octets.
    pub udp_size: u16,
}

impl AuthConfig {
    /// Returns what another program needs to give the same replies to plain queries for names of the namespace.
    pub fn prebuilt(&self) -> Prebuilt {
        let aaaa_below = match self.aaaa {
            AaaaPolicy::Never => 0,
            AaaaPolicy::Share(share) => (share * HASHES as f64).ceil() as u64,
            AaaaPolicy::Always => HASHES,
        };
        let [address, embedded, soa] = Records::new(self).forward();
        Prebuilt { address, embedded, soa, aaaa_below, udp_size: EDNS_UDP_SIZE }
    }
}
