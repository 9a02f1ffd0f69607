//! Prefixes of an upstream DNS64 server: the AAAA records of `ipv4only.arpa` (RFC 7050).

use std::net::Ipv6Addr;

use measure::Nanos;
use wire::pref64::discover;
use wire::{Name, Pref64, Qtype, QueryTemplate};

use crate::config::is_usable;
use crate::reply::Reply;

/// Upstream's answer about `ipv4only.arpa`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// Upstream has prefixes, with this lifetime.
    Prefixes(Vec<Pref64>, Nanos),
    /// There is no DNS64 server: the name has no AAAA record with a well-known address.
    Nothing,
    /// There was no valid reply.
    Failed,
}

/// Returns the query, with recursion and without EDNS.
pub(crate) fn query() -> QueryTemplate {
    let name: Name = "ipv4only.arpa".parse().expect("the name is valid");
    QueryTemplate::new(&name, Qtype::AAAA, true, false, None)
}

/// Reads a reply to the query.
pub fn read(message: &[u8]) -> Discovery {
    let (mut chain, mut found) = (Vec::new(), Vec::new());
    let reply = Reply::parse(message).filter(|reply| matches!(reply.rcode, 0 | 3));
    let Some(reply) = reply else { return Discovery::Failed };
    if reply.read(Qtype::AAAA, false, &mut chain, &mut found).is_none() {
        return Discovery::Failed;
    }
    let addresses = found.iter().filter_map(|found| <[u8; 16]>::try_from(reply.data(found)).ok());
    let mut prefixes = discover(&addresses.map(Ipv6Addr::from).collect::<Vec<_>>());
    prefixes.retain(|prefix| is_usable(*prefix));
    match found.iter().map(|found| found.ttl).min() {
        Some(ttl) if !prefixes.is_empty() => {
            Discovery::Prefixes(prefixes, Nanos::from_secs(ttl.into()))
        }
        _ => Discovery::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Answer;
    use proptest::prelude::*;
    use wire::Rcode;

    /// Makes a reply with these addresses and TTLs.
    fn reply(rcode: Rcode, records: &[(&str, u32)]) -> Vec<u8> {
        let mut answer = Answer::new();
        answer.compose(&query().bytes()[12..], |c| {
            c.rcode(rcode);
            for (address, ttl) in records {
                let address: Ipv6Addr = address.parse().expect("an address");
                c.at_question(Qtype::AAAA, *ttl, &address.octets());
            }
        });
        let mut message = answer.bytes().to_vec();
        message[2] |= 0x80;
        message
    }

    #[test]
    fn replies_are_read_with_their_smallest_ttl() {
        let both = [("64:ff9b::c000:aa", 60), ("64:ff9b::c000:ab", 50)];
        let prefixes = vec![Pref64::WELL_KNOWN];
        let expected = Discovery::Prefixes(prefixes, Nanos::from_secs(50));
        assert_eq!(read(&reply(Rcode::NOERROR, &both)), expected);
        assert_eq!(read(&reply(Rcode::NOERROR, &[])), Discovery::Nothing);
        assert_eq!(read(&reply(Rcode::NOERROR, &[("2001:db8::1", 60)])), Discovery::Nothing);
        // A prefix that no host can use.
        assert_eq!(read(&reply(Rcode::NOERROR, &[("::ffff:c000:aa", 60)])), Discovery::Nothing);
        assert_eq!(read(&reply(Rcode::NXDOMAIN, &[])), Discovery::Nothing);
        assert_eq!(read(&reply(Rcode::SERVFAIL, &both)), Discovery::Failed);
        assert_eq!(read(&[]), Discovery::Failed);
    }

    proptest! {
        #[test]
        fn any_message_is_read(message: Vec<u8>, at: prop::sample::Index, octet: u8) {
            prop_assert_eq!(read(&message), Discovery::Failed);
            let mut changed = reply(Rcode::NOERROR, &[("64:ff9b::c000:aa", 60)]);
            let at = at.index(changed.len());
            changed[at] = octet;
            let _ = read(&changed);
        }
    }
}
