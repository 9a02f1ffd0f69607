//! The sockets of a server, bound before it drops its privileges.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;

use anyhow::Context;
use dns64::Config;
use dns64::config::TlsConfig;
use engine::SocketId;
use http::HeaderValue;
use measure::Transport as ClientTransport;
use streams::http::{ALPN_H2, ALPN_H3, ALPN_HTTP1};
use streams::tcp;
use streams::tls::{ALPN_DOQ, ALPN_DOT, ServerTls};
use udp::{Prepare, UdpEngine};

use crate::carrier::{Listener, Protocol};
use crate::kept::{Kept, keep_all};
use crate::{route, worker};

/// All sockets that clients reach, and the socket of the metrics.
pub(crate) struct Bound {
    /// The engines of the workers, with their listening sockets.
    pub(crate) engines: Vec<UdpEngine>,
    /// Addresses for UDP and TCP, with the ports that the kernel chose.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Listening sockets of all streams.
    pub(crate) listeners: Vec<Listener>,
    /// Certificates for clients of the encrypted transports.
    pub(crate) tls: Vec<ServerTls>,
    pub(crate) metrics: Option<TcpListener>,
}

impl Bound {
    /// Takes the sockets from the service manager, binds the others, and stores them in the service
    /// manager.
    ///
    /// # Errors
    /// When an address cannot be bound, or a certificate cannot be read; the error names the setting.
    pub(crate) fn new(config: &Config, workers: usize) -> anyhow::Result<Self> {
        let mut kept = Kept::take(&config.server.route);
        let options = worker::options(config.server.socket_buffer.0);
        let prepare = |socket: BorrowedFd<'_>| route::prepare(&config.server.route, socket);
        let engines = kept.engines(&config.server.listen, workers, options, &prepare);
        let engines = engines.context("server.listen")?;
        let addresses = addresses(&engines[0], config.server.listen.len())?;
        let listeners = addresses.iter().map(|&at| kept.tcp(at, &prepare));
        let listeners = listeners.map(|socket| Ok(Listener::Tcp(socket?, Protocol::Frames)));
        let mut listeners = listeners.collect::<io::Result<Vec<_>>>().context("server.listen")?;
        let tls = listen_tls(&config.tls, &mut kept, &prepare, &mut listeners)?;
        kept.close();
        keep_all(&engines)?;
        let metrics = config.metrics.listen.map(tcp::listen).transpose();
        let metrics = metrics.context("metrics.listen")?;
        Ok(Bound { engines, addresses, listeners, tls, metrics })
    }
}

/// Binds the addresses of the encrypted transports; returns their certificates.
fn listen_tls(
    config: &TlsConfig,
    kept: &mut Kept,
    prepare: Prepare<'_>,
    listeners: &mut Vec<Listener>,
) -> anyhow::Result<Vec<ServerTls>> {
    let mut all = Vec::new();
    let mut server_tls_for = |addresses: &[SocketAddr], alpn: &'static [&'static [u8]]| {
        let tls = (!addresses.is_empty()).then(|| server_tls(config, alpn)).transpose()?;
        all.extend(tls.clone());
        anyhow::Ok(tls)
    };
    if let Some(tls) = server_tls_for(&config.dot, &[ALPN_DOT])? {
        for &address in &config.dot {
            let socket = kept.tcp(address, prepare).context("tls.dot")?;
            listeners.push(Listener::Tcp(socket, Protocol::Tls(tls.clone())));
        }
    }
    let http = server_tls_for(&config.doh, &[ALPN_H2, ALPN_HTTP1])?;
    if let (Some(http), Some(http3)) = (http, server_tls_for(&config.doh, &[ALPN_H3])?) {
        for &address in &config.doh {
            let socket = kept.tcp(address, prepare).context("tls.doh")?;
            let mut alternative = None;
            if cfg!(feature = "quic") {
                let socket = kept.quic(address, prepare).context("tls.doh")?;
                alternative = Some(http3_at(socket.local_addr()?.port())?);
                let transport = ClientTransport::Http3;
                listeners.push(Listener::Quic(socket, http3.clone(), transport));
            }
            let protocol = Protocol::Http(http.clone(), alternative);
            listeners.push(Listener::Tcp(socket, protocol));
        }
    }
    if let Some(tls) = server_tls_for(&config.doq, &[ALPN_DOQ])? {
        for &address in &config.doq {
            let socket = kept.quic(address, prepare).context("tls.doq")?;
            listeners.push(Listener::Quic(socket, tls.clone(), ClientTransport::Quic));
        }
    }
    Ok(all)
}

/// Returns the value of `alt-svc` (RFC 7838) for HTTP/3 at a port, which clients may remember for a day.
fn http3_at(port: u16) -> anyhow::Result<HeaderValue> {
    Ok(HeaderValue::try_from(format!("h3=\":{port}\"; ma=86400"))?)
}

/// Loads the certificate for clients that use one of these protocols.
pub(crate) fn server_tls(
    config: &TlsConfig,
    alpn: &'static [&'static [u8]],
) -> anyhow::Result<ServerTls> {
    ServerTls::from_files(&config.certificate, &config.key, alpn, config.early_data)
        .context("tls.certificate, tls.key")
}

/// Returns the addresses at which the first worker listens, with the ports that the kernel chose.
fn addresses(engine: &UdpEngine, count: usize) -> io::Result<Vec<SocketAddr>> {
    (0..count).map(|socket| engine.local_address(SocketId(socket as u16))).collect()
}
