//! Transports, clients and their connections.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use engine::stream::MAX_SHARES;
use ipnet::IpNet;
use measure::{HttpMethod, Nanos, Qps, TlsVersion, Transport, WriteMode};
use record::request::{Close, Connecting, Engine, Http, Pick, Proxy, Tls, TransportShare};

use crate::arguments::address::{ServerArg, parse_prefix, without_template};
use crate::arguments::choice::{Choice, choice};
use crate::arguments::number::parse_duration;

/// Transports, clients and their connections.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Transport")]
pub(crate) struct StreamArgs {
    /// The transport of the queries
    #[arg(long, value_parser = transport_parser(), value_name = "TRANSPORT", default_value = "udp")]
    pub(crate) transport: Transport,
    /// Clients of several transports at once: TRANSPORT=SHARE or TRANSPORT:PORT=SHARE, separated by commas
    /// (udp=6,tcp=1,tls=3); without a PORT the target's for udp and tcp, else the transport's own
    #[arg(long, value_name = "LIST", conflicts_with = "transport")]
    pub(crate) transports: Option<MixArg>,
    /// Number of clients; each has one connection at a time, or over UDP one port [default: 8]
    #[arg(short = 'c', long, value_name = "N")]
    pub(crate) clients: Option<u32>,
    /// Close a connection after N queries, and open another [default: never]
    #[arg(long, value_name = "N")]
    pub(crate) queries_per_connection: Option<u64>,
    /// Largest number of queries outstanding on a connection [default: its share of the window; open loop: 32 to 16384]
    #[arg(long, value_name = "N")]
    pub(crate) outstanding: Option<u32>,
    /// Largest number of connections opened per second
    #[arg(long, value_name = "RATE")]
    pub(crate) connection_rate: Option<Qps>,
    /// Largest number of connections that are being opened at once
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) opening: u32,
    /// Open a connection when a query needs it, not all before the trial
    #[arg(long)]
    pub(crate) on_demand: bool,
    /// Time to open a connection at most, with its TLS handshake
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub(crate) connect_timeout: Nanos,
    /// How connections are closed: fin leaves a port waiting for a minute (TIME_WAIT), reset does not
    #[arg(long, value_parser = choice(&CLOSE), value_name = "HOW", default_value = "fin")]
    pub(crate) close: Close,
    /// Queries due together on a connection leave each with a write of its own, as from stubs, or together (TCP, TLS,
    /// HTTP/2; QUIC forms its packets itself)
    #[arg(long, value_parser = choice(&WRITE), value_name = "HOW", default_value = "each")]
    pub(crate) write: WriteMode,
    /// A reply longer than this fails: over TCP and TLS with its connection (bytes)
    #[arg(long, value_name = "BYTES", default_value_t = 65_535)]
    pub(crate) max_reply: u16,
    /// TCP Fast Open: the first query travels with the SYN once the kernel has a cookie
    #[arg(long)]
    pub(crate) fast_open: bool,
    #[command(flatten)]
    pub(crate) secure: SecureArgs,
    /// Client of the next query: each client in turn, or a random one, so that each is a Poisson process in a Poisson load
    #[arg(long, value_parser = choice(&PICK), value_name = "HOW")]
    pub(crate) pick: Option<Pick>,
    /// Close a connection without a query for this time; its client opens another one for its next query
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) close_idle: Option<Nanos>,
    /// Send a DNS cookie (RFC 7873), another one for each client, and return the server's part of it
    #[arg(long)]
    pub(crate) cookies: bool,
    /// Ask again over TCP what the server cut short over UDP (TC), as stubs do: one query, timed to the reply over TCP
    #[arg(long)]
    pub(crate) tcp_fallback: bool,
    /// Send a query again on a new connection if the server closes its connection before the reply, N times at most (1000)
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000")]
    pub(crate) resend: Option<u32>,
    /// Send a query over UDP again after this time without a reply, and so on until its timeout, as stubs do: one query
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) retry: Option<Nanos>,
    /// Send an EDNS client subnet, another network for each client, from this prefix on: /24 or /56
    #[arg(long, value_name = "PREFIX", value_parser = parse_prefix)]
    pub(crate) subnets: Option<IpNet>,
    /// Send edns-tcp-keepalive: ask how long a connection may be idle (RFC 7828)
    #[arg(long)]
    pub(crate) keepalive: bool,
    /// Pad queries to a multiple of this size in bytes (RFC 7830, RFC 8467)
    #[arg(long, value_name = "BYTES", num_args = 0..=1, default_missing_value = "128")]
    pub(crate) pad: Option<u16>,
    /// Send a header of the PROXY protocol, version 2, first on each connection or in each UDP datagram, with the clients of this
    /// prefix in turn
    #[arg(long, value_name = "PREFIX", value_parser = parse_prefix)]
    pub(crate) proxy: Option<IpNet>,
    /// Send the PROXY protocol's header within TLS, as dnsdist expects it by default, not before the handshake
    #[arg(long, requires = "proxy")]
    pub(crate) proxy_within_tls: bool,
    /// Resume TLS sessions of earlier connections
    #[arg(long)]
    pub(crate) tls_resume: bool,
    /// Send queries with the handshake of a resumed session (0-RTT); implies --tls-resume
    #[arg(long)]
    pub(crate) early_data: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SecureArgs {
    /// How HTTP carries queries [default: post]
    #[arg(long, value_parser = choice(&HTTP_METHOD), value_name = "METHOD")]
    pub(crate) http_method: Option<HttpMethod>,
    /// Path of HTTP requests [default: /dns-query]
    #[arg(long, value_name = "PATH")]
    pub(crate) http_path: Option<String>,
    /// Server name that is sent (SNI) and verified [default: the target's address]
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_name: Option<String>,
    /// Accept certificates of these authorities only (PEM) [default: accept all]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Use this version of TLS only
    #[arg(long, value_parser = choice(&TLS_VERSION), value_name = "VERSION")]
    pub(crate) tls_version: Option<TlsVersion>,
    /// Application protocols offered, separated by commas; empty for none [default: the transport's]
    #[arg(long, value_name = "LIST")]
    pub(crate) alpn: Option<String>,
}

impl SecureArgs {
    /// Returns how HTTP carries queries.
    pub(crate) fn http(&self) -> Http {
        let path = self.http_path.as_deref().map(|path| without_template(path).to_owned());
        Http { method: self.http_method.unwrap_or_default(), path }
    }

    /// Returns the TLS settings, without sessions.
    pub(crate) fn tls(&self) -> Tls {
        let words = |text: &str| {
            text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        Tls {
            name: self.tls_name.clone(),
            ca: self.ca.clone(),
            version: self.tls_version,
            alpn: self.alpn.as_deref().map(words),
            resume: false,
            early_data: false,
        }
    }

    /// Refuses flags that none of the transports has.
    pub(crate) fn check(&self, transports: &[Transport]) -> anyhow::Result<()> {
        let tls = [
            (self.tls_name.is_some(), "--tls-name"),
            (self.ca.is_some(), "--ca"),
            (self.tls_version.is_some(), "--tls-version"),
            (self.alpn.is_some(), "--alpn"),
        ];
        check(&tls, transports, Transport::uses_tls)?;
        let (method, path) = (self.http_method.is_some(), self.http_path.is_some());
        let http = [(method, "--http-method"), (path, "--http-path")];
        check(&http, transports, Transport::uses_http)
    }
}

/// Refuses the first given flag of some flags if no transport supports them.
fn check(
    flags: &[(bool, &str)],
    transports: &[Transport],
    has: fn(Transport) -> bool,
) -> anyhow::Result<()> {
    match flags.iter().find(|(given, _)| *given) {
        Some((_, flag)) if !transports.iter().any(|&transport| has(transport)) => {
            bail!("{flag} requires --transport {}", Transport::words(has))
        }
        _ => Ok(()),
    }
}

impl StreamArgs {
    /// Returns whether a flag needs clients that are distinct, as connections are.
    pub(crate) fn wants_clients(&self) -> bool {
        self.clients.is_some()
            || self.queries_per_connection.is_some()
            || self.outstanding.is_some()
            || self.connection_rate.is_some()
            || self.on_demand
            || self.pick.is_some()
            || self.close_idle.is_some()
            || self.cookies
            || self.tcp_fallback
            || self.resend.is_some()
            || self.retry.is_some()
            || self.subnets.is_some()
            || self.keepalive
            || self.pad.is_some()
            || self.proxy.is_some()
    }

    /// Returns the transports, each with its share of the clients and with its port if it differs
    /// from the target's port.
    pub(crate) fn parts(&self) -> Vec<TransportShare> {
        self.transports.clone().map_or_else(
            || vec![TransportShare { transport: self.transport, port: None, share: 1 }],
            |mix| mix.0,
        )
    }

    /// Returns the arguments with the transport and path that the server's name states
    /// (`https://dns.example/dns-query`).
    ///
    /// # Errors
    /// If they contradict each other.
    pub(crate) fn of_server(&self, server: &ServerArg) -> anyhow::Result<Self> {
        let mut all = self.clone();
        let Some(transport) = server.transport else { return Ok(all) };
        let other = self.transport != Transport::Udp && self.transport != transport;
        if other || self.transports.is_some() {
            bail!("--transport or --transports, or {transport}:// before the server: not both");
        }
        all.transport = transport;
        if let Some(path) = &server.path {
            if self.secure.http_path.as_ref().is_some_and(|other| other != path) {
                bail!("--http-path, or {path} after the server: not both");
            }
            all.secure.http_path = Some(path.clone());
        }
        if transport.uses_tls() && all.secure.tls_name.is_none() {
            all.secure.tls_name = server.target.host_name().map(str::to_owned);
        }
        Ok(all)
    }

    /// Returns the port of a target without one.
    pub(crate) fn port(&self) -> u16 {
        if self.transports.is_some() { Transport::Udp } else { self.transport }.default_port()
    }
}

/// A mix of different transports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MixArg(pub(crate) Vec<TransportShare>);

impl std::str::FromStr for MixArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts: Vec<TransportShare> = Vec::new();
        for part in text.split(',') {
            let wrong = || {
                format!("`{part}` is not TRANSPORT=SHARE or TRANSPORT:PORT=SHARE, as in tls:8853=3")
            };
            let (name, share) = part.split_once('=').ok_or_else(wrong)?;
            let share = share.parse().ok().filter(|share| (1..=MAX_SHARES).contains(share));
            let share = share.ok_or_else(|| {
                format!("the share of `{part}` is not a number from 1 to {MAX_SHARES}")
            })?;
            let (name, port) = match name.split_once(':') {
                None => (name, None),
                Some((name, port)) => (name, Some(port.parse().map_err(|_| wrong())?)),
            };
            let transport = Transport::named(name).ok_or_else(|| {
                format!("`{name}` is not a transport: {}", Transport::words(|_| true))
            })?;
            if parts.iter().any(|other| other.transport == transport) {
                return Err(format!("{name} is listed twice"));
            }
            // The target has the port of plain DNS.
            let plain = transport.default_port() == Transport::Udp.default_port();
            let port = port.or((!plain).then(|| transport.default_port()));
            parts.push(TransportShare { transport, port, share });
        }
        if parts.iter().map(|part| part.share).sum::<u32>() > MAX_SHARES {
            return Err(format!("the shares are more than {MAX_SHARES} together"));
        }
        Ok(MixArg(parts))
    }
}

/// Reads a transport; the help lists all of them.
pub(crate) fn transport_parser() -> impl TypedValueParser<Value = Transport> {
    let value = |t: Transport| PossibleValue::new(t.word()).help(t.title()).aliases(t.short_name());
    let words = PossibleValuesParser::new(Transport::ALL.map(value));
    words.map(|word| Transport::named(&word).expect("one of the possible words"))
}

/// Order in which clients send.
const PICK: [Choice<Pick>; 2] = [
    (Pick::Turn.word(), "Each client in turn uses the next transport", Pick::Turn),
    (Pick::Chance.word(), "A random client", Pick::Chance),
];

const HTTP_METHOD: [Choice<HttpMethod>; 2] = [
    (HttpMethod::Get.word(), "The query is part of the URI", HttpMethod::Get),
    (HttpMethod::Post.word(), "The query is the body of the request", HttpMethod::Post),
];

const CLOSE: [Choice<Close>; 2] = [
    (Close::Fin.word(), "In an orderly way", Close::Fin),
    (Close::Reset.word(), "With a reset", Close::Reset),
];

/// How queries that are due together are written.
const WRITE: [Choice<WriteMode>; 2] = [
    (WriteMode::Each.word(), "Each with its own write and its own TLS record", WriteMode::Each),
    (WriteMode::Together.word(), "All with one write", WriteMode::Together),
];

const TLS_VERSION: [Choice<TlsVersion>; 2] = [
    (TlsVersion::V12.word(), "TLS 1.2", TlsVersion::V12),
    (TlsVersion::V13.word(), "TLS 1.3", TlsVersion::V13),
];

impl StreamArgs {
    /// Returns the engine: UDP sockets if nothing needs distinct clients (`own_ports`, or a flag), else connections.
    pub(crate) fn engine(&self, own_ports: bool) -> anyhow::Result<Engine> {
        let transports = self.parts();
        let any = |has: fn(Transport) -> bool| transports.iter().any(|part| has(part.transport));
        let words: Vec<Transport> = transports.iter().map(|part| part.transport).collect();
        self.secure.check(&words)?;
        let sessions = [
            (self.tls_resume, "--tls-resume"),
            (self.early_data, "--early-data"),
            (self.proxy_within_tls, "--proxy-within-tls"),
        ];
        check(&sessions, &words, Transport::uses_tls)?;
        let only_udp = transports.iter().all(|part| part.transport.is_datagram());
        if only_udp && !own_ports && !self.wants_clients() && !self.fast_open {
            return Ok(Engine::Udp);
        }
        let proxy = self.proxy.map(|clients| Proxy { clients, within_tls: self.proxy_within_tls });
        let connecting = Connecting {
            clients: self.clients.unwrap_or(Connecting::default().clients),
            queries_per_connection: self.queries_per_connection,
            outstanding: self.outstanding,
            connection_rate: self.connection_rate,
            opening: self.opening,
            on_demand: self.on_demand,
            connect_timeout: self.connect_timeout,
            close: self.close,
            write: self.write,
            max_reply: self.max_reply,
            fast_open: self.fast_open,
            http: any(Transport::uses_http).then(|| self.secure.http()),
            tls: any(Transport::uses_tls).then(|| self.tls()),
            pick: self.pick.unwrap_or_default(),
            close_idle: self.close_idle,
            cookies: self.cookies,
            tcp_fallback: self.tcp_fallback,
            resends: self.resend.unwrap_or(0),
            retry: self.retry,
            subnets: self.subnets,
            keepalive: self.keepalive,
            padding: self.pad.unwrap_or(0),
            proxy,
            transports,
        };
        Ok(Engine::Streams(Box::new(connecting)))
    }

    fn tls(&self) -> Tls {
        Tls { resume: self.tls_resume, early_data: self.early_data, ..self.secure.tls() }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct ParsedLine {
        server: ServerArg,
        #[command(flatten)]
        streams: StreamArgs,
    }

    #[test]
    fn a_server_says_its_transport_path_and_name() {
        let read = |line: &str| {
            let line = ParsedLine::try_parse_from(format!("load {line}").split(' ')).expect(line);
            line.streams.of_server(&line.server)
        };
        for (line, transport, path, name) in [
            ("https://dns.example:4430/q", Transport::Https, Some("/q"), Some("dns.example")),
            ("tls://192.0.2.1 --tls-name x.test", Transport::Tls, None, Some("x.test")),
            ("quic://192.0.2.1 --transport quic", Transport::Quic, None, None),
            ("192.0.2.1 --transport tcp", Transport::Tcp, None, None),
        ] {
            let streams = read(line).expect(line);
            let SecureArgs { http_path, tls_name, .. } = &streams.secure;
            assert_eq!(streams.transport, transport, "{line}");
            assert_eq!((http_path.as_deref(), tls_name.as_deref()), (path, name), "{line}");
        }
        for line in [
            "tls://192.0.2.1 --transport tcp",
            "tls://192.0.2.1 --transports tls=1,udp=1",
            "https://192.0.2.1/q --http-path /other",
        ] {
            assert!(read(line).is_err_and(|why| why.to_string().contains("not both")), "{line}");
        }
    }
}
