//! Role of a server in a group that replicates a zone, as the templates of its adapter see it.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::testbed::PORT;

/// How the zone of a primary is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signing {
    /// The zone is not signed.
    Unsigned,
    /// The primary makes keys and signs the zone.
    ByPrimary,
    /// The zone file contains the signatures.
    InFile,
}

/// Role of a server: `replication` in the templates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplicationRole {
    /// Whether the server is the primary, with the file `zone` beside its configuration; otherwise
    /// it is a secondary.
    pub(crate) primary: bool,
    /// How the zone of a primary is signed.
    pub(crate) signing: Signing,
    /// IPv4 addresses on which the server listens.
    pub(crate) v4: Vec<Ipv4Addr>,
    /// IPv6 addresses on which the server listens.
    pub(crate) v6: Vec<Ipv6Addr>,
    /// IPv4 address from which the server sends notifications and requests transfers, one of `v4`.
    pub(crate) source: Ipv4Addr,
    /// Secondaries of a primary, or the primary of a secondary.
    pub(crate) peers: Vec<GroupPeer>,
    /// Key of updates, notifications and transfers.
    pub(crate) key: Key,
}

/// Another server of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupPeer {
    /// Address at which the others of the group reach the server.
    pub(crate) address: Ipv4Addr,
    /// Port of the server's transfers, updates and NOTIFY messages.
    pub(crate) port: u16,
}

impl GroupPeer {
    /// Makes the peer at an address of the lab.
    pub(crate) fn at(address: Ipv4Addr) -> Self {
        GroupPeer { address, port: PORT }
    }
}

/// A TSIG key (RFC 8945).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    /// Name of the key, without a final dot.
    pub(crate) name: Cow<'static, str>,
    /// Algorithm of the key in the words of BIND, as in `hmac-sha256`.
    pub(crate) algorithm: Cow<'static, str>,
    /// Secret of the key, Base64.
    pub(crate) secret: Cow<'static, str>,
}

/// Key of the lab. It is public, since the namespaces contain only servers of the lab.
pub(crate) const KEY: Key = Key {
    name: Cow::Borrowed("lab"),
    algorithm: Cow::Borrowed("hmac-sha256"),
    secret: Cow::Borrowed("ZG5zZHluby1kbnNkeW5vLWRuc2R5bm8tZG5zZHlubw=="),
};

impl ReplicationRole {
    /// Returns parts that an adapter is checked against: a primary alone, one with secondaries, a secondary.
    pub(crate) fn samples() -> [Self; 4] {
        let part = |primary, signing, peers: &[GroupPeer]| ReplicationRole {
            primary,
            signing,
            v4: vec![Ipv4Addr::LOCALHOST],
            v6: if peers.is_empty() { vec![Ipv6Addr::LOCALHOST] } else { Vec::new() },
            source: Ipv4Addr::LOCALHOST,
            peers: peers.to_vec(),
            key: KEY,
        };
        let peer = GroupPeer::at(Ipv4Addr::LOCALHOST);
        [
            part(true, Signing::Unsigned, &[]),
            part(true, Signing::ByPrimary, &[peer, peer]),
            part(true, Signing::InFile, &[peer]),
            part(false, Signing::Unsigned, &[peer]),
        ]
    }
}
