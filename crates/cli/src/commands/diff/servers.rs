//! The servers of a comparison, and the transport to each of them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use answers::Side;
use clap::Args;
use measure::{Nanos, Transport};
use record::request::{Connecting, Engine, TransportShare};
use tester::TesterError;

use crate::arguments::address::{Family, ServerArg};
use crate::arguments::transport::{SecureArgs, transport_parser};
use crate::failure::Failure;
use crate::preflight;

/// Arguments for the transports to the servers.
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

pub(super) struct Transports<'a> {
    /// Transport of servers without their own one.
    pub(super) usual: Transport,
    /// TLS and HTTP settings of servers with such transports.
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
        let name = server.over(transport);
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

/// A side of a comparison, with the engine for the first query to its server.
pub(super) struct Contact {
    pub(super) side: Side,
    engine: Engine,
}

impl Contact {
    /// Queries the server, if the side has one; returns the side.
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
