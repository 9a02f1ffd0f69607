//! Connections and clients of a trial.

use std::path::PathBuf;

use ipnet::IpNet;
use measure::{HttpMethod, Nanos, Qps, TlsVersion, Transport, WriteMode};
use serde::{Deserialize, Serialize};

use super::text;

/// Connections that carry the queries, and their clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connecting {
    /// Transports, each with its share of the clients.
    pub transports: Vec<TransportShare>,
    /// Number of clients; each has one connection at a time, or one port over UDP.
    pub clients: u32,
    /// Number of queries after which a connection is closed; unlimited if absent.
    pub queries_per_connection: Option<u64>,
    /// Largest number of queries outstanding on a connection; if absent, a share of the window, or 32 to 16384 in an
    /// open loop.
    pub outstanding: Option<u32>,
    /// Largest number of connections opened a second.
    #[serde(with = "text::rate")]
    pub connection_rate: Option<Qps>,
    /// Largest number of connections in their handshake at a time.
    pub opening: u32,
    /// Whether a connection is opened only when a query needs it, instead of before the trial.
    pub on_demand: bool,
    /// Time within which a connection must be established, with its TLS handshake, in nanoseconds.
    #[serde(with = "text")]
    pub connect_timeout: Nanos,
    /// Method by which the Tester closes connections.
    pub close: Close,
    /// Method by which queries that are due together on a connection are written.
    pub write: WriteMode,
    /// Largest reply, in bytes; a larger one fails, over TCP and TLS with its connection.
    pub max_reply: u16,
    /// Whether the first query is sent with the SYN once the kernel has a cookie (RFC 7413).
    pub fast_open: bool,
    /// HTTP requests; present if a transport uses HTTP.
    pub http: Option<Http>,
    /// TLS settings; present if a transport uses TLS.
    pub tls: Option<Tls>,
    /// Order in which clients send.
    pub pick: Pick,
    /// Idle time after which a connection is closed, in nanoseconds.
    #[serde(with = "text::option")]
    pub close_idle: Option<Nanos>,
    /// Whether each client sends a DNS cookie of its own (RFC 7873), with the server's part once it has one.
    pub cookies: bool,
    /// Whether clients repeat a query over TCP after a truncated reply over UDP.
    pub tcp_fallback: bool,
    /// Number of times that a query is sent again on a new connection after the server has closed its connection.
    pub resends: u32,
    /// Time without a reply after which a query over UDP is sent again, until its timeout, in nanoseconds.
    #[serde(with = "text::option")]
    pub retry: Option<Nanos>,
    /// First of the networks that clients send as EDNS client subnet, /24 or /56 each (RFC 7871).
    pub subnets: Option<IpNet>,
    /// Whether clients request the time that an idle connection may stay open (RFC 7828).
    pub keepalive: bool,
    /// Block size that queries are padded to a multiple of, in bytes; 0 for no padding.
    pub padding: u16,
    /// Client addresses of the PROXY protocol.
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
            write: WriteMode::Each,
            max_reply: u16::MAX,
            fast_open: false,
            http: None,
            tls: None,
            pick: Pick::Turn,
            close_idle: None,
            cookies: false,
            tcp_fallback: false,
            resends: 0,
            retry: None,
            subnets: None,
            keepalive: false,
            padding: 0,
            proxy: None,
        }
    }
}

impl Connecting {
    /// Makes connections of one transport, with the members that it needs.
    pub fn over(transport: Transport) -> Self {
        Connecting {
            transports: vec![TransportShare::only(transport)],
            http: transport.uses_http().then(Http::default),
            tls: transport.uses_tls().then(Tls::default),
            ..Connecting::default()
        }
    }

    /// Returns whether any transport has the property.
    pub fn any(&self, has: fn(Transport) -> bool) -> bool {
        self.transports.iter().any(|part| has(part.transport))
    }
}

/// A transport and its share of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportShare {
    /// The transport of this share.
    pub transport: Transport,
    /// Port of the transport; the target's if absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub port: Option<u16>,
    /// Share of the clients, in proportion to the shares of the other transports.
    pub share: u32,
}

impl TransportShare {
    /// Makes the transport of all clients, at the target's port.
    pub fn only(transport: Transport) -> Self {
        TransportShare { transport, port: None, share: 1 }
    }
}

/// Method by which the Tester closes TCP connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Close {
    /// With FIN; the TCP port then waits for a minute (TIME_WAIT).
    #[default]
    Fin,
    /// The Tester sends RST, so that no port stays in TIME-WAIT.
    Reset,
}

measure::words! { Close { Fin = "fin", Reset = "reset" } }

/// Order in which clients send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The clients send in turn.
    #[default]
    Turn,
    /// A random client sends next.
    Chance,
}

measure::words! { Pick { Turn = "turn", Chance = "chance" } }

/// Form of the HTTP requests (RFC 8484).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Method that carries the queries.
    pub method: HttpMethod,
    /// Path of the URI; `/dns-query` if absent.
    pub path: Option<String>,
}

/// TLS settings of the Tester's connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// Name that is sent (SNI) and verified; the target's address if absent.
    pub name: Option<String>,
    /// PEM file of trusted certification authorities; every certificate is accepted if absent.
    pub ca: Option<PathBuf>,
    /// The only TLS version that is used; any if absent.
    pub version: Option<TlsVersion>,
    /// Application protocols that are offered; the transport's if absent.
    pub alpn: Option<Vec<String>>,
    /// Whether sessions of earlier connections are resumed.
    pub resume: bool,
    /// Whether queries are sent with the handshake of a resumed session (0-RTT); implies `resume`.
    pub early_data: bool,
}

/// Client addresses of the PROXY protocol, version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// The addresses, used in turn.
    pub clients: IpNet,
    /// Whether the header is inside TLS instead of in front of it.
    pub within_tls: bool,
}
