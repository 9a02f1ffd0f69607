//! Attacks of a drill: their kinds, and their records in a trial.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of an attack: the packets sent, and the resource that they exhaust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttackKind {
    /// Queries for random names that do not exist (water torture).
    RandomNames,
    /// Queries for random names that are delegated to many servers without addresses (NXNS).
    Delegations,
    /// Queries for random names whose answers have signatures that no key has made (KeyTrap).
    Signatures,
    /// Queries for a large answer, from clients that accept 4,096 octets over UDP.
    Amplification,
    /// Connections over TCP that send nothing.
    Idle,
    /// Connections that send a query of 65,535 octets, an octet a second.
    Slow,
    /// Connections that send the first octets of a TLS handshake and then nothing.
    HalfHandshakes,
    /// Connections that begin a TLS handshake and are closed when the server has answered.
    Handshakes,
    /// First packets of QUIC connections whose client never answers.
    Initials,
    /// Connections that ask for large answers and do not read them.
    Unread,
}

measure::words! {
    AttackKind {
        RandomNames = "random-names",
        Delegations = "delegations",
        Signatures = "signatures",
        Amplification = "amplification",
        Idle = "idle",
        Slow = "slow",
        HalfHandshakes = "half-handshakes",
        Handshakes = "handshakes",
        Initials = "initials",
        Unread = "unread",
    }
}

impl AttackKind {
    /// Returns whether the attack is a flood of queries over UDP, which the Measurer sends.
    pub const fn is_flood(self) -> bool {
        matches!(
            self,
            AttackKind::RandomNames
                | AttackKind::Delegations
                | AttackKind::Signatures
                | AttackKind::Amplification
        )
    }

    /// Returns whether the attack needs replies of the AuthDNS, behind a resolver or a DNS64
    /// server.
    pub const fn needs_authdns(self) -> bool {
        matches!(
            self,
            AttackKind::Delegations
                | AttackKind::Signatures
                | AttackKind::Amplification
                | AttackKind::Unread
        )
    }

    /// Returns whether the attack opens TCP connections.
    pub const fn connects(self) -> bool {
        !self.is_flood() && !matches!(self, AttackKind::Initials)
    }
}

/// Attack on the server during a trial, as it was planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attack {
    /// Kind of messages or connections of the attacker.
    pub kind: AttackKind,
    /// Largest number of queries, first packets or new connections a second.
    pub rate: f64,
    /// Largest number of connections at a time; 0 if it has none.
    pub connections: u32,
    /// Time from the start of the trial to the start of the attack, in seconds.
    pub begins_s: f64,
    /// Duration of the attack, in seconds.
    pub lasts_s: f64,
    /// First address of the attacker.
    pub from: String,
    /// Cores on which the attacker ran.
    pub cpus: Vec<usize>,
    /// Whether the attacker shares these cores with the Tester or the AuthDNS, and runs only while they do not.
    pub yields: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_files() {
        for kind in AttackKind::ALL {
            let word = format!("\"{kind}\"");
            assert_eq!(serde_json::to_string(&kind).expect("JSON"), word);
            assert_eq!(serde_json::from_str::<AttackKind>(&word).expect(&word), kind);
            assert!(!(kind.is_flood() && kind.connects()), "{kind}");
        }
    }
}
