//! Discovery of this server's encrypted transports by clients (`_dns.resolver.arpa`, RFC 9462).

use std::net::IpAddr;

use wire::Qtype;
use wire::edns::push_option;

use crate::config::Config;
use crate::record::push;

/// TTL of these records, in seconds.
pub(crate) const TTL: u32 = 3_600;

/// The encrypted transports of this server, for its clients (RFC 9462 section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Designation {
    /// Data of SVCB records: one for each transport and port.
    pub(crate) services: Vec<Vec<u8>>,
    /// The address records of the target, in wire form.
    pub(crate) addresses: Vec<Vec<u8>>,
}

/// Keys of the parameters of services (RFC 9460 section 14.3.2, RFC 9461 section 5).
const ALPN: u16 = 1;
const PORT: u16 = 3;
const DOHPATH: u16 = 7;

impl Designation {
    /// Makes the designation of a configuration; `None` if there is none.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let target = config.server.designate.name?;
        let (mut services, mut hosts) = (Vec::new(), Vec::new());
        for (at, alpn, path) in [
            (&config.tls.dot, &b"\x03dot"[..], &b""[..]),
            (&config.tls.doh, b"\x02h2\x02h3", b"/dns-query{?dns}"),
            (&config.tls.doq, b"\x03doq", b""),
        ] {
            let mut ports: Vec<u16> = at.iter().map(|at| at.port()).collect();
            ports.sort_unstable();
            ports.dedup();
            for port in ports {
                let priority = services.len() as u16 + 1;
                let mut data = [&priority.to_be_bytes(), target.as_wire()].concat();
                for (key, value) in [(ALPN, alpn), (PORT, &port.to_be_bytes()), (DOHPATH, path)] {
                    if !value.is_empty() {
                        push_option(&mut data, key, value);
                    }
                }
                services.push(data);
            }
            hosts.extend(at.iter().map(|at| at.ip().to_canonical()));
        }
        hosts.sort_unstable();
        hosts.dedup();
        let address = |host: IpAddr| {
            let mut record = Vec::new();
            let owner = target.as_wire();
            match host {
                IpAddr::V4(v4) => push(&mut record, owner, Qtype::A, TTL, &v4.octets()),
                IpAddr::V6(v6) => push(&mut record, owner, Qtype::AAAA, TTL, &v6.octets()),
            }
            record
        };
        Some(Designation { services, addresses: hosts.into_iter().map(address).collect() })
    }
}
