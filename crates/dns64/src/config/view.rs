//! `[[forward]]` and `[[view]]`: zones with servers of their own, and settings for some clients
//! only.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use measure::Transport;
use serde::Deserialize;
use wire::Name;

use super::operator::RulesConfig;
use super::text::{addresses, domains, hosts, networks};

/// Rules and zones of some clients, in addition to the ones for all clients.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ViewConfig {
    /// The clients of the view; a client in several views belongs to the first one.
    #[serde(deserialize_with = "networks")]
    pub clients: Vec<IpNet>,
    /// Domains that are never synthesised.
    #[serde(default, deserialize_with = "domains")]
    pub never: Vec<Name>,
    /// Domains that are synthesised even when they have AAAA records.
    #[serde(default, deserialize_with = "domains")]
    pub always: Vec<Name>,
    /// Rules for single names; they take precedence over the rules for all clients.
    #[serde(default)]
    pub rules: RulesConfig,
    /// Zones with servers of their own.
    #[serde(default)]
    pub forward: Vec<ForwardConfig>,
}

/// Zones whose names are queried at servers of their own; also used for the pool of such servers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ForwardConfig {
    /// The clients whose queries go there.
    #[serde(skip)]
    pub group: Group,
    /// The zones; of several that contain a name the longest decides.
    #[serde(deserialize_with = "domains")]
    pub zones: Vec<Name>,
    /// Addresses of the servers; the default port is 53.
    #[serde(deserialize_with = "addresses")]
    pub servers: Vec<SocketAddr>,
    /// Share of the queries of each server; empty: the fastest gets them.
    #[serde(default)]
    pub weights: Vec<u32>,
    /// Source addresses of the queries, one of each family at most.
    #[serde(default, deserialize_with = "hosts")]
    pub source: Vec<IpAddr>,
    /// Transport over which the servers are queried.
    #[serde(default = "default_transport")]
    pub transport: Transport,
    /// Name in the servers' certificates; empty for their addresses.
    #[serde(default)]
    pub tls_name: String,
    /// PEM file of the certificate authorities; empty to accept any certificate.
    #[serde(default = "default_authorities")]
    pub tls_authorities: PathBuf,
    /// Path of requests over HTTP.
    #[serde(default = "https_path")]
    pub https_path: String,
    /// Whether names in the zones are synthesised.
    #[serde(default = "default_true")]
    pub dns64: bool,
    /// Whether NXDOMAIN to AAAA counts as empty for their names.
    #[serde(default)]
    pub ignore_nxdomain: bool,
    /// Whether answers of these servers are cached.
    #[serde(default = "default_true")]
    pub cache: bool,
}

/// Number of the `[[view]]` to which clients belong; groups do not share answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group(pub u8);

impl Group {
    /// All clients: also the group of each if there are no views.
    pub const ALL: Group = Group(0);
    /// Clients without a view, where there are views.
    pub(crate) const OTHERS: Group = Group(1);

    /// Returns the clients of the view with this number.
    pub(crate) fn of_view(number: usize) -> Self {
        Group(number as u8 + 2)
    }

    /// Returns the number of the group's view.
    pub(crate) fn view(self) -> Option<usize> {
        usize::from(self.0).checked_sub(2)
    }

    /// Returns whether a rule or zone of this group also applies to the clients of `other`.
    #[inline]
    pub(crate) fn includes(self, other: Group) -> bool {
        self == Group::ALL || self == other
    }
}

pub(super) fn default_transport() -> Transport {
    Transport::Udp
}

/// Returns that something is done.
pub(super) fn default_true() -> bool {
    true
}

/// Returns the usual path of requests over HTTP.
pub(super) fn https_path() -> String {
    "/dns-query".into()
}

/// Returns the system's certificate authorities.
pub(super) fn default_authorities() -> PathBuf {
    "/etc/ssl/certs/ca-certificates.crt".into()
}
