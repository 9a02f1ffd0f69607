//! Connections that carry the queries, and the clients that have them.

use std::path::PathBuf;

use ipnet::IpNet;
use measure::{Nanos, Qps, Transport};
use serde::{Deserialize, Serialize};

use super::text;

/// Connections that carry the queries, and the clients that have them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connecting {
    /// Transports, each with its share of the clients.
    pub transports: Vec<TransportShare>,
    /// Number of clients; each has one connection at a time, or over UDP a port.
    pub clients: u32,
    /// Number of queries after which a connection is closed; without an end where it is absent.
    pub queries_per_connection: Option<u64>,
    /// Most queries outstanding on a connection; a share of the window, or 32 to 1024 in an open loop, where it is absent.
    pub outstanding: Option<u32>,
    /// Most connections opened a second.
    #[serde(with = "text::rate")]
    pub connection_rate: Option<Qps>,
    /// Most connections that are being opened at a time.
    pub opening: u32,
    /// Whether a connection is opened when a query needs it, not before the trial.
    pub on_demand: bool,
    /// Time within which a connection must be up, its TLS handshake included.
    #[serde(with = "text")]
    pub connect_timeout: Nanos,
    /// How connections are closed.
    pub close: Close,
    /// Longest reply, bytes; a longer one ends its connection.
    pub max_reply: u16,
    /// Whether the first query travels with the SYN once the kernel has a cookie (RFC 7413).
    pub fast_open: bool,
    /// Requests of HTTP; present if a transport uses HTTP.
    pub http: Option<Http>,
    /// TLS; present if a transport uses TLS.
    pub tls: Option<Tls>,
    /// Whose query comes next.
    pub pick: Pick,
    /// Time without a query after which a connection is closed.
    #[serde(with = "text::option")]
    pub close_idle: Option<Nanos>,
    /// Whether each client sends a DNS cookie of its own (RFC 7873).
    pub cookies: bool,
    /// First of the networks that clients ask for by EDNS client subnet, /24 or /56 each (RFC 7871).
    pub subnets: Option<IpNet>,
    /// Whether clients ask how long they may keep a connection without a query (RFC 7828).
    pub keepalive: bool,
    /// Size to a multiple of which queries are padded, bytes; 0 for no padding.
    pub padding: u16,
    /// Addresses that clients have by the PROXY protocol.
    pub proxy: Option<Proxy>,
}

impl Default for Connecting {
    fn default() -> Self {
        Connecting {
            transports: vec![TransportShare::only(Transport::Udp)],
            clients: 8,
            queries_per_connection: None,
            outstanding: None,
            connection_rate: None,
            opening: 256,
            on_demand: false,
            connect_timeout: Nanos::from_secs(5),
            close: Close::Fin,
            max_reply: u16::MAX,
            fast_open: false,
            http: None,
            tls: None,
            pick: Pick::Turn,
            close_idle: None,
            cookies: false,
            subnets: None,
            keepalive: false,
            padding: 0,
            proxy: None,
        }
    }
}

impl Connecting {
    /// Connections of one transport, with what that needs.
    pub fn over(transport: Transport) -> Self {
        Connecting {
            transports: vec![TransportShare::only(transport)],
            http: transport.uses_http().then(Http::default),
            tls: transport.uses_tls().then(Tls::default),
            ..Connecting::default()
        }
    }

    /// Whether a transport has the property.
    pub fn any(&self, has: fn(Transport) -> bool) -> bool {
        self.transports.iter().any(|part| has(part.transport))
    }
}

/// A transport and its share of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportShare {
    /// The transport.
    pub transport: Transport,
    /// The port where it is not the target's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub port: Option<u16>,
    /// Clients of it in proportion to those of others.
    pub share: u32,
}

impl TransportShare {
    /// A transport that all clients use, at the target's port.
    pub fn only(transport: Transport) -> Self {
        TransportShare { transport, port: None, share: 1 }
    }
}

/// How connections are closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Close {
    /// In an orderly way; a port of TCP then waits for a minute (TIME_WAIT).
    #[default]
    Fin,
    /// With a reset.
    Reset,
}

/// Whose query comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// That of the client whose turn it is.
    #[default]
    Turn,
    /// That of any client.
    Chance,
}

/// Requests of HTTP (RFC 8484).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// How they carry queries.
    pub method: HttpMethod,
    /// Path of the URI; `/dns-query` where it is absent.
    pub path: Option<String>,
}

/// How requests of HTTP carry queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HttpMethod {
    /// In the URI.
    Get,
    /// In the body.
    #[default]
    Post,
}

/// How TLS is spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// Name that is sent (SNI) and verified; the target's address where it is absent.
    pub name: Option<String>,
    /// File of the authorities whose certificates are believed (PEM); all are believed where it is absent.
    pub ca: Option<PathBuf>,
    /// The only version spoken; any where it is absent.
    pub version: Option<TlsVersion>,
    /// Application protocols offered; the transport's where it is absent.
    pub alpn: Option<Vec<String>>,
    /// Whether sessions of earlier connections are resumed.
    pub resume: bool,
    /// Whether queries travel with the handshake of a resumed session (0-RTT); implies `resume`.
    pub early_data: bool,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    V12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    V13,
}

/// Addresses that clients have by the PROXY protocol, version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// The addresses, used in turn.
    pub clients: IpNet,
    /// Whether the header stands within TLS, not in front of it.
    pub within_tls: bool,
}
