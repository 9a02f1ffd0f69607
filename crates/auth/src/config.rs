//! What an AuthDNS is told at start.

use std::net::{Ipv4Addr, Ipv6Addr};

use measure::Nanos;
use wire::{Namespace, Pref64};

use crate::faults::FaultSpec;

/// Which names have AAAA records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AaaaPolicy {
    /// None: a DNS64 server must synthesise all (RFC 8219's worst case).
    Never,
    /// This share (0 to 1) of them, by a hash of the name: the same names each time.
    Share(f64),
    /// All: for self-tests.
    Always,
}

/// An AuthDNS's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthConfig {
    /// The names it answers for.
    pub namespace: Namespace,
    /// The AAAA of a name is this prefix with its IPv4 address embedded.
    pub pref64: Pref64,
    /// Which names have one.
    pub aaaa: AaaaPolicy,
    /// TTL of positive answers, seconds.
    pub ttl: u32,
    /// The SOA's MINIMUM, seconds: the negative TTL of RFC 2308.
    pub negative_ttl: u32,
    /// The SOA's own TTL, seconds.
    pub soa_ttl: u32,
    /// The name server's addresses (documentation ranges by default: nobody needs to follow them).
    pub ns_address: (Ipv4Addr, Ipv6Addr),
    /// Every reply over UDP is held back so long.
    pub delay: Nanos,
    /// This share (0 to 1) of replies over UDP is not sent, evenly spread.
    pub loss: f64,
    /// Replies over UDP that are spoiled.
    pub faults: Vec<FaultSpec>,
}

impl AuthConfig {
    /// A proper, prompt and honest AuthDNS for `namespace`.
    pub fn new(namespace: Namespace) -> Self {
        AuthConfig {
            namespace,
            pref64: "2001:db8:64::/96".parse().expect("a prefix of RFC 6052"),
            aaaa: AaaaPolicy::Never,
            ttl: 3_600,
            negative_ttl: 300,
            soa_ttl: 3_600,
            ns_address: (
                Ipv4Addr::new(192, 0, 2, 53),
                Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53),
            ),
            delay: Nanos::ZERO,
            loss: 0.0,
            faults: Vec::new(),
        }
    }

    /// Whether the shares make sense.
    ///
    /// # Errors
    /// Names the one that does not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let share = |what, value: f64| {
            if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(ConfigError { what, value }) }
        };
        share("loss", self.loss)?;
        if let AaaaPolicy::Share(value) = self.aaaa {
            share("share of AAAA records", value)?;
        }
        self.faults.iter().try_for_each(|fault| share("share of a fault", fault.share))
    }
}

/// A share that is none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the {what} is a number from 0 to 1, not {value}")]
pub struct ConfigError {
    what: &'static str,
    value: f64,
}
