//! The servers of a comparison, and how each of them is asked.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use answers::Side;
use clap::Args;
use measure::{Nanos, Transport};
use record::request::{Connecting, Engine, TransportShare};
use tester::TesterError;

use crate::arguments::address::{Family, Target};
use crate::arguments::transport::{SecureArgs, transport_parser};
use crate::failure::Failure;
use crate::preflight;

/// A server with the transport of its queries, if it has one of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerArg {
    transport: Option<Transport>,
    target: Target,
    /// Path of HTTP requests, if it has one of its own.
    path: Option<String>,
}

impl FromStr for ServerArg {
    type Err = String;

    /// Reads what [`Target`] reads, also as `tls://192.0.2.1` or `https://dns.example/dns-query`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((word, rest)) = text.split_once("://") else {
            return Ok(ServerArg { transport: None, target: text.parse()?, path: None });
        };
        let transport: Transport = word.parse().map_err(|_| {
            let words = Transport::words(|_| true);
            format!("`{word}` in `{text}` is not a transport: {words}")
        })?;
        let (server, path) = match rest.find('/') {
            Some(slash) if transport.uses_http() => {
                (&rest[..slash], Some(rest[slash..].to_owned()))
            }
            Some(_) => {
                let wanted = Transport::words(Transport::uses_http);
                return Err(format!("`{text}`: a path goes with {wanted}"));
            }
            None => (rest, None),
        };
        Ok(ServerArg { transport: Some(transport), target: server.parse()?, path })
    }
}

impl From<Target> for ServerArg {
    fn from(target: Target) -> Self {
        ServerArg { transport: None, target, path: None }
    }
}

/// How the servers are asked.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Transport")]
pub(super) struct TransportArgs {
    /// The transport of the queries to servers without one of their own (tls://SERVER)
    #[arg(long, value_parser = transport_parser(), value_name = "TRANSPORT", default_value = "udp")]
    transport: Transport,
    #[command(flatten)]
    secure: SecureArgs,
}

impl TransportArgs {
    pub(super) fn transports(&self) -> Transports<'_> {
        Transports { usual: self.transport, secure: &self.secure }
    }
}

/// How servers are asked.
pub(super) struct Transports<'a> {
    /// Transport of those without one of their own.
    pub(super) usual: Transport,
    /// TLS and HTTP of those that have it.
    pub(super) secure: &'a SecureArgs,
}

impl Transports<'_> {
    /// Returns the sides of a comparison.
    ///
    /// # Errors
    /// If a server has no address, or an option fits none of them.
    pub(super) fn sides(
        &self,
        servers: &[ServerArg],
        captured: bool,
        timeout: Nanos,
    ) -> Result<Vec<Contact>, Failure> {
        let of = |server: &ServerArg| server.transport.unwrap_or(self.usual);
        let all: Vec<Transport> = servers.iter().map(of).collect();
        self.secure.check(&all).map_err(Failure::BadInput)?;
        let captured =
            captured.then_some(Ok(Contact { side: Side::Captured, engine: Engine::Udp }));
        captured
            .into_iter()
            .chain(servers.iter().map(|server| self.side(server, timeout)))
            .collect()
    }

    fn side(&self, server: &ServerArg, timeout: Nanos) -> Result<Contact, Failure> {
        let transport = server.transport.unwrap_or(self.usual);
        let address = server.target.resolve(transport.default_port(), Family::Any);
        let address = address.map_err(Failure::BadInput)?;
        let name = Named { server, transport }.to_string();
        if transport.is_datagram() {
            let side = Side::Server { name, address, dialer: None };
            return Ok(Contact { side, engine: Engine::Udp });
        }
        let mut connecting = Connecting {
            transports: vec![TransportShare { transport, port: None, share: 1 }],
            clients: 1,
            connect_timeout: timeout,
            ..Connecting::default()
        };
        if transport.uses_tls() {
            let mut tls = self.secure.tls();
            tls.name = tls.name.or_else(|| server.target.host_name().map(str::to_owned));
            connecting.tls = Some(tls);
        }
        if transport.uses_http() {
            let mut http = self.secure.http();
            http.path = server.path.clone().or(http.path);
            connecting.http = Some(http);
        }
        let dialer = tester::dialer_alone(&connecting, address, timeout);
        let dialer = dialer.map_err(TesterError::from)?;
        let side = Side::Server { name, address, dialer: Some(Box::new(dialer)) };
        Ok(Contact { side, engine: Engine::Streams(Box::new(connecting)) })
    }
}

/// A side of a comparison, with what carries a question to its server before the others.
pub(super) struct Contact {
    pub(super) side: Side,
    engine: Engine,
}

impl Contact {
    /// Asks the server, if the side has one; returns the side.
    ///
    /// # Errors
    /// If it gives no answer, with the reason.
    pub(super) fn ask(self, timeout: Nanos, stop: &Arc<AtomicBool>) -> Result<Side, Failure> {
        if let Side::Server { address, .. } = self.side {
            preflight::ask_server(address, self.engine, timeout, stop)?;
        }
        Ok(self.side)
    }
}

/// The name of a server in the result: as it was given, with its transport unless that is UDP.
struct Named<'a> {
    server: &'a ServerArg,
    transport: Transport,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServerArg { target, path, .. } = self.server;
        if !self.transport.is_datagram() {
            write!(f, "{}://", self.transport)?;
        }
        write!(f, "{target}{}", path.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_may_have_a_transport_and_a_path() {
        for (text, usual, name) in [
            ("192.0.2.1", Transport::Udp, "192.0.2.1"),
            ("192.0.2.1:5300", Transport::Tcp, "tcp://192.0.2.1:5300"),
            ("udp://[2001:db8::1]:53", Transport::Tls, "[2001:db8::1]:53"),
            ("tls://2001:db8::1", Transport::Udp, "tls://2001:db8::1"),
            ("https://dns.example/q/r", Transport::Udp, "https://dns.example/q/r"),
            ("http3://[::1]:8443", Transport::Udp, "http3://[::1]:8443"),
        ] {
            let server: ServerArg = text.parse().expect(text);
            let transport = server.transport.unwrap_or(usual);
            assert_eq!(Named { server: &server, transport }.to_string(), name);
        }
        for (text, why) in [
            ("dot://192.0.2.1", "`dot` in `dot://192.0.2.1` is not a transport: udp, tcp"),
            ("tls://192.0.2.1/dns-query", "a path goes with https or http3"),
            ("https:///dns-query", "neither an address nor a name"),
            ("tls://192.0.2.1:0", "a port is 1 to 65535"),
        ] {
            let error = text.parse::<ServerArg>().expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }
}
