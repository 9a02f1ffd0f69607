//! The configuration of an AuthDNS.

use std::net::{Ipv4Addr, Ipv6Addr};

use measure::Nanos;
use wire::{Namespace, Pref64};

use crate::behaviour::{Capacity, Late, Latency, Stall};
use crate::faults::FaultSpec;
use crate::internet::InternetConfig;

/// Largest TTL in seconds (RFC 2181 section 8).
pub(crate) const MAX_TTL: u32 = i32::MAX as u32;

/// The choice of names with AAAA records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AaaaPolicy {
    /// No names, so a DNS64 server must synthesise all (the worst case of RFC 8219).
    Never,
    /// This share (0 to 1) of the names, chosen by a hash of the address: always the same names.
    Share(f64),
    /// All names have AAAA records, for self-tests of a Tester.
    Always,
}

/// The configuration of an AuthDNS.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthConfig {
    /// The names that the AuthDNS answers.
    pub namespace: Namespace,
    /// The prefix of AAAA records, in which the IPv4 address of a name is embedded.
    pub pref64: Pref64,
    /// The names with AAAA records.
    pub aaaa: AaaaPolicy,
    /// TTL of positive answers, in seconds.
    pub ttl: u32,
    /// MINIMUM of the SOA record, in seconds: the negative TTL of RFC 2308.
    pub negative_ttl: u32,
    /// TTL of the SOA record, in seconds.
    pub soa_ttl: u32,
    /// Addresses of the name server (by default from documentation ranges, because no resolver needs them).
    pub ns_address: (Ipv4Addr, Ipv6Addr),
    /// Delay of every reply, unless there is a `latency`.
    pub delay: Nanos,
    /// Distribution of the delay of replies; `None` for `delay`.
    pub latency: Option<Latency>,
    /// Replies that come later than the others.
    pub late: Option<Late>,
    /// Largest rate of answers; `None` for as many as there is time for.
    pub capacity: Option<Capacity>,
    /// Pauses without answers; `None` for none.
    pub stall: Option<Stall>,
    /// Share (0 to 1) of replies that are not sent, evenly spread.
    pub loss: f64,
    /// Faults of replies, each with its share.
    pub faults: Vec<FaultSpec>,
    /// Whether the AuthDNS remembers the queried names, and reports them in class CH.
    pub remember: bool,
    /// The Internet in a box, in place of the namespace.
    pub internet: Option<InternetConfig>,
    /// Whether the AuthDNS has the names that drills query: a large answer, delegations to many
    /// servers without addresses, and forged signatures.
    pub traps: bool,
}

impl AuthConfig {
    /// Returns the configuration of a correct AuthDNS for `namespace`, without delay, loss and faults.
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
            latency: None,
            late: None,
            capacity: None,
            stall: None,
            loss: 0.0,
            faults: Vec::new(),
            remember: false,
            internet: None,
            traps: false,
        }
    }

    /// Returns whether replies depend on the time at which queries arrive, so that the kernel should record them.
    pub fn is_timed(&self) -> bool {
        let of_servers = self.internet.as_ref().is_some_and(|box_| !box_.delays.is_empty());
        let delayed = of_servers || self.delay > Nanos::ZERO;
        let delayed = delayed || self.latency.is_some() || self.late.is_some();
        delayed || self.capacity.is_some() || self.stall.is_some()
    }

    /// Returns whether the AuthDNS only sends the correct replies of its namespace at once: no
    /// faults, no delays, no statistics, no names for drills.
    pub fn is_plain(&self) -> bool {
        let is_usual = self.internet.is_none() && !self.remember && !self.traps;
        is_usual && self.faults.is_empty() && !self.is_timed() && self.loss == 0.0
    }

    /// Checks the shares and the TTLs.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let share = |what, value: f64| {
            if (0.0..=1.0).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::Share { what, value })
            }
        };
        share("loss", self.loss)?;
        if let Some(late) = self.late {
            share("share of late replies", late.share)?;
        }
        if let AaaaPolicy::Share(value) = self.aaaa {
            share("share of AAAA records", value)?;
        }
        self.faults.iter().try_for_each(|fault| share("share of a fault", fault.share))?;
        // A tolerance of one millionth for rounding: ten times 0.1 must count as 1.
        let sum = self.loss + self.faults.iter().map(|fault| fault.share).sum::<f64>();
        if sum > 1.0 + 1e-6 {
            return Err(ConfigError::Sum(sum));
        }
        let times = [
            ("TTL of answers", self.ttl),
            ("MINIMUM of the SOA", self.negative_ttl),
            ("TTL of the SOA", self.soa_ttl),
        ];
        let too_long = times.into_iter().find(|(_, ttl)| *ttl > MAX_TTL);
        too_long.map_or(Ok(()), |(what, value)| Err(ConfigError::Ttl { what, value }))
    }
}

/// The reason why a configuration is not valid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A share is not between 0 and 1.
    #[error("the {what} is {value}: write a number from 0 to 1")]
    Share {
        /// The name of the value.
        what: &'static str,
        /// The value that is out of range.
        value: f64,
    },
    /// The loss and the shares of all faults sum to more than 1.
    #[error(
        "the loss and the shares of all faults sum to {0}: a reply has at most one fault, so the sum is at most 1"
    )]
    Sum(f64),
    /// A TTL is above `MAX_TTL`.
    #[error("the {what} is {value}: write at most {max} seconds (RFC 2181 section 8)", max = MAX_TTL)]
    Ttl {
        /// The name of the value.
        what: &'static str,
        /// The value that is out of range.
        value: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_values_are_named() {
        let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix"));
        let good = AuthConfig::new(namespace);
        assert_eq!(good.validate(), Ok(()));
        let faults_of = |faults: &[&str]| faults.iter().map(|f| f.parse().expect(f)).collect();
        let table = [
            (AuthConfig { loss: 1.5, ..good.clone() }, "loss is 1.5: write a number from 0 to 1"),
            (AuthConfig { loss: f64::NAN, ..good.clone() }, "loss is NaN"),
            (AuthConfig { aaaa: AaaaPolicy::Share(-1.0), ..good.clone() }, "AAAA"),
            (
                AuthConfig { loss: 0.5, faults: faults_of(&["cut:0.75"]), ..good.clone() },
                "sum to 1.25",
            ),
            (
                AuthConfig { soa_ttl: 1 << 31, ..good.clone() },
                "TTL of the SOA is 2147483648: write at most 2147483647",
            ),
        ];
        for (config, message) in table {
            let error = config.validate().expect_err(message).to_string();
            assert!(error.contains(message), "{error}");
        }
        let whole = AuthConfig { faults: faults_of(&["cut:0.1"; 10]), ..good };
        assert_eq!(whole.validate(), Ok(()));
    }
}
