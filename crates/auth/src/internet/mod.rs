//! The Internet in a box: one AuthDNS as the root, the top-level domains and the servers below them, for resolvers that start at
//! the root.
//!
//! ```text
//! query to 10.53.0.1, a root server    h1.d7.t3 A ──> referral: t3 NS a.nic-servers.t3, glue 10.53.1.4
//! query to 10.53.1.4, one of t3        h1.d7.t3 A ──> referral: d7.t3 NS ns1.d7.t3, glue 10.53.64.5; or NS ns1.d2.t9 without
//! query to 10.53.64.5, one of d7.t3    h1.d7.t3 A ──> the answer
//! ```
//!
//! Unlike the namespace, whose answers are computed, it holds zones as their files say, signed by a signer or not. A zone is
//! served at the addresses that its name servers have in any of the zones. The server that is asked is the destination address of a
//! query, so that one socket at the wildcard address serves all; it refuses names that it has no zone for, as a lame server does.

mod answer;
mod log;
mod zone;
mod zones;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use measure::Nanos;
use measure::rng::splitmix64;
use wire::name::MAX_NAME;
use wire::{Name, Qclass, Qtype, Query, Rcode, ReplyWriter};

use self::answer::Answer;
pub use self::log::{Log, LoggedQuery, Verdict};
pub use self::zones::{InternetZones, ZoneBuilder, ZonesError};
use crate::reply::{EDNS_UDP_SIZE, Reply};

/// Largest size of a reply in a datagram, in octets, as the OPT record says.
pub(crate) const MAX_DATAGRAM: usize = EDNS_UDP_SIZE as usize;
/// Largest size of a reply over a stream, in octets: large enough for several record sets of the
/// largest size.
pub(crate) const MAX_STREAMED: usize = 32 << 10;

/// The Internet in a box, in place of the namespace.
#[derive(Clone, Debug)]
pub struct InternetConfig {
    /// Zones of the root, the top-level domains and the domains.
    pub zones: Arc<InternetZones>,
    /// Delays of replies, a distribution over servers: each server has one of them, chosen by its address; replies leave
    /// at once if there are none.
    pub delays: Vec<Nanos>,
    /// Log of the queries; `None` if they are not logged.
    pub log: Option<Log>,
}

impl PartialEq for InternetConfig {
    /// Returns whether two configurations share the same zones in memory and have the same delays.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.zones, &other.zones) && self.delays == other.delays
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// A datagram, of a size that the client accepts.
    Datagram,
    /// A stream, with room for the largest message.
    Stream,
}

impl InternetConfig {
    /// Returns the number of the delay of a server.
    pub(crate) fn lane(&self, server: Option<IpAddr>) -> usize {
        let Some(IpAddr::V4(server)) = server else { return 0 };
        let mut address = u64::from(u32::from(server));
        splitmix64(&mut address) as usize % self.delays.len().max(1)
    }

    /// Writes the reply of a server to a message; nothing if the address of the server is not known.
    pub(crate) fn reply(
        &self,
        server: Option<IpAddr>,
        message: &[u8],
        carrier: Carrier,
        out: &mut [u8],
    ) -> Reply {
        let Some(IpAddr::V4(server)) = server else { return Reply::NONE };
        let room = out.len();
        let limit = |query: &Query<'_>| match carrier {
            Carrier::Datagram => query.udp_limit(),
            Carrier::Stream => room,
        };
        Reply::compose(message, out, limit, |query, writer| Reply {
            kind: self.answer(server, query, writer).kind(),
            ..Reply::NONE
        })
    }

    /// Adds the answer of a server to a query, and logs it.
    fn answer(&self, server: Ipv4Addr, query: &Query<'_>, writer: &mut ReplyWriter<'_>) -> Verdict {
        let (mut lower, qtype) = ([0; MAX_NAME], query.qtype);
        let name = &mut lower[..query.qname.len()];
        name.copy_from_slice(query.qname);
        name.make_ascii_lowercase();
        let name = &*name;
        let zone = self.zones.find(server, name, qtype);
        let verdict = match (error(query), zone) {
            (None, Some(zone)) => {
                let dnssec = query.edns.is_some_and(|edns| edns.do_bit);
                Answer { zone, name, qtype, dnssec, writer }.write()
            }
            (rcode, _) => {
                writer.rcode(rcode.unwrap_or(Rcode::REFUSED));
                Verdict::Refused
            }
        };
        if let Some(log) = &self.log
            && let Ok(name) = Name::from_wire(name)
        {
            let zone = zone.and_then(|zone| Name::from_wire(zone.apex()).ok());
            log.note(LoggedQuery { server, zone, name, qtype, verdict });
        }
        verdict
    }
}

/// Returns the return code of a query that no server answers.
fn error(query: &Query<'_>) -> Option<Rcode> {
    match query.qtype {
        _ if query.bad_version() => Some(Rcode::BADVERS),
        _ if query.qclass != Qclass::IN => Some(Rcode::REFUSED),
        Qtype::AXFR | Qtype::IXFR => Some(Rcode::REFUSED),
        Qtype::OPT | Qtype(128..=254) => Some(Rcode::NOTIMP),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
