//! What a server is among those that replicate a zone, as the templates of its adapter see it.

use crate::testbed::PORT;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// How the zone of a primary is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signing {
    /// Not at all.
    Unsigned,
    /// The primary makes keys and signs it.
    ByPrimary,
    /// Its file holds the signatures.
    InFile,
}

/// A server's part: `replication` in the templates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Whether the zone is its own, from the file `zone` beside its configuration; a secondary otherwise.
    pub primary: bool,
    /// How the zone of a primary is signed.
    pub signing: Signing,
    /// IPv4 addresses that it listens on.
    pub v4: Vec<Ipv4Addr>,
    /// IPv6 addresses that it listens on.
    pub v6: Vec<Ipv6Addr>,
    /// The IPv4 address from which it sends notifications and asks for transfers, one of `v4`.
    pub source: Ipv4Addr,
    /// A primary's secondaries; a secondary's primary.
    pub peers: Vec<Peer>,
    /// The key of updates, notifications and transfers.
    pub key: Key,
}

/// Another server of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Peer {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its port.
    pub port: u16,
}

impl Peer {
    /// The server at an address of the lab.
    pub fn at(address: Ipv4Addr) -> Self {
        Peer { address, port: PORT }
    }
}

/// A TSIG key (RFC 8945).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its algorithm.
    pub algorithm: &'static str,
    /// Its secret, Base64.
    pub secret: &'static str,
}

/// The key of the lab. It protects nothing: nobody else is in the namespaces.
pub const KEY: Key = Key {
    name: "lab",
    algorithm: "hmac-sha256",
    secret: "ZG5zZHluby1kbnNkeW5vLWRuc2R5bm8tZG5zZHlubw==",
};

impl Part {
    /// Parts against which an adapter is checked when it is read: a primary alone, one with secondaries, a secondary.
    pub(crate) fn samples() -> [Self; 4] {
        let part = |primary, signing, peers: &[Peer]| Part {
            primary,
            signing,
            v4: vec![Ipv4Addr::LOCALHOST],
            v6: if peers.is_empty() { vec![Ipv6Addr::LOCALHOST] } else { Vec::new() },
            source: Ipv4Addr::LOCALHOST,
            peers: peers.to_vec(),
            key: KEY,
        };
        let peer = Peer::at(Ipv4Addr::LOCALHOST);
        [
            part(true, Signing::Unsigned, &[]),
            part(true, Signing::ByPrimary, &[peer, peer]),
            part(true, Signing::InFile, &[peer]),
            part(false, Signing::Unsigned, &[peer]),
        ]
    }
}
