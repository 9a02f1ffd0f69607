//! What an AuthDNS is told at start.

use std::net::{Ipv4Addr, Ipv6Addr};

use measure::Nanos;
use wire::{Namespace, Pref64};

use crate::faults::FaultSpec;

/// The longest TTL there is, seconds (RFC 2181 section 8).
pub const MAX_TTL: u32 = i32::MAX as u32;

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

    /// Whether the shares and the times to live make sense.
    ///
    /// # Errors
    /// Names the one that does not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let share = |what, value: f64| {
            if (0.0..=1.0).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::Share { what, value })
            }
        };
        share("loss", self.loss)?;
        if let AaaaPolicy::Share(value) = self.aaaa {
            share("share of AAAA records", value)?;
        }
        self.faults.iter().try_for_each(|fault| share("share of a fault", fault.share))?;
        // A millionth for what decimal shares lose as binary ones: ten times 0.1 is all.
        let sum = self.loss + self.faults.iter().map(|fault| fault.share).sum::<f64>();
        if sum > 1.0 + 1e-6 {
            return Err(ConfigError::Sum(sum));
        }
        let times = [
            ("TTL of answers", self.ttl),
            ("SOA's MINIMUM", self.negative_ttl),
            ("SOA's TTL", self.soa_ttl),
        ];
        let too_long = times.into_iter().find(|(_, ttl)| *ttl > MAX_TTL);
        too_long.map_or(Ok(()), |(what, value)| Err(ConfigError::Ttl { what, value }))
    }
}

/// A number that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A share that is none.
    #[error("the {what} is a number from 0 to 1, not {value}")]
    Share {
        /// Of what.
        what: &'static str,
        /// The number.
        value: f64,
    },
    /// More replies would be spoiled than there are.
    #[error(
        "the loss and the shares of all faults sum to {0}: a reply suffers one fault, so 1 is the most"
    )]
    Sum(f64),
    /// A time to live above [`MAX_TTL`].
    #[error("the {what} is at most {max} seconds (RFC 2181 section 8), not {value}", max = MAX_TTL)]
    Ttl {
        /// Of what.
        what: &'static str,
        /// The number.
        value: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_be_are_named() {
        let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix"));
        let good = AuthConfig::new(namespace);
        assert_eq!(good.validate(), Ok(()));
        let spoiled = |faults: &[&str]| faults.iter().map(|f| f.parse().expect(f)).collect();
        let table = [
            (AuthConfig { loss: 1.5, ..good.clone() }, "loss is a number from 0 to 1, not 1.5"),
            (AuthConfig { loss: f64::NAN, ..good.clone() }, "not NaN"),
            (AuthConfig { aaaa: AaaaPolicy::Share(-1.0), ..good.clone() }, "AAAA"),
            (
                AuthConfig { loss: 0.5, faults: spoiled(&["cut:0.75"]), ..good.clone() },
                "sum to 1.25",
            ),
            (AuthConfig { soa_ttl: 1 << 31, ..good.clone() }, "SOA's TTL is at most 2147483647"),
        ];
        for (config, message) in table {
            let error = config.validate().expect_err(message).to_string();
            assert!(error.contains(message), "{error}");
        }
        let whole = AuthConfig { faults: spoiled(&["cut:0.1"; 10]), ..good };
        assert_eq!(whole.validate(), Ok(()));
    }
}
