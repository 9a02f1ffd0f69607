//! Connections to upstream servers over encrypted transports.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, ensure};
use dns64::Config;
use dns64::config::{ForwardConfig, MAX_UPSTREAMS};
use measure::{HttpMethod, Transport};
use rustls::pki_types::ServerName;
use streams::client::{Carriage, TlsDialer};
use streams::http::{ALPN_H2, ALPN_H3, Resource};
use streams::tls::{ALPN_DOQ, ALPN_DOT, ClientTls, Verify};

/// How encrypted connections to an upstream server are made.
#[derive(Clone)]
pub(crate) struct UpstreamTls {
    pub(crate) dialer: TlsDialer,
    pub(crate) carriage: Carriage,
}

/// Upstream servers that are queried over encrypted transports.
pub(crate) type UpstreamTlsMap = Arc<HashMap<SocketAddr, UpstreamTls>>;

/// Returns the TLS settings for the upstream servers that are queried over encrypted transports.
///
/// # Errors
/// The first setting that cannot be used.
pub(crate) fn upstream_tls(config: &Config) -> anyhow::Result<UpstreamTlsMap> {
    let mut all = HashMap::new();
    for pool in config.pools().into_iter().filter(|pool| pool.transport.uses_tls()) {
        let verify = match pool.tls_authorities.as_os_str().is_empty() {
            true => Verify::Nothing,
            false => Verify::Authorities(pool.tls_authorities.clone()),
        };
        let tls = ClientTls {
            verify,
            alpn: vec![protocol(pool.transport).to_vec()],
            sessions: MAX_UPSTREAMS * config.upstream.tcp_connections,
            ..ClientTls::default()
        };
        let named = |server: SocketAddr| match pool.tls_name.as_str() {
            "" => Ok(ServerName::from(server.ip())),
            name => ServerName::try_from(name.to_owned()).with_context(|| {
                format!("tls-name: `{name}` is no name: write the name of the certificate")
            }),
        };
        // Connections to all servers share the authorities and the sessions.
        let common = TlsDialer::new(&tls, named(pool.servers[0])?)
            .with_context(|| format!("tls-authorities: {}", pool.tls_authorities.display()))?;
        for &server in &pool.servers {
            let mut dialer = common.clone();
            dialer.name = named(server)?;
            all.insert(server, UpstreamTls { dialer, carriage: carriage(&pool, server)? });
        }
    }
    Ok(Arc::new(all))
}

/// Returns the application protocol of an encrypted transport.
fn protocol(transport: Transport) -> &'static [u8] {
    match transport {
        Transport::Https => ALPN_H2,
        Transport::Http3 => ALPN_H3,
        Transport::Quic => ALPN_DOQ,
        Transport::Tls | Transport::Tcp | Transport::Udp => ALPN_DOT,
    }
}

/// Returns the carriage of messages to a server of a pool.
fn carriage(pool: &ForwardConfig, server: SocketAddr) -> anyhow::Result<Carriage> {
    let host = match (pool.tls_name.as_str(), server) {
        ("", SocketAddr::V6(v6)) => format!("[{}]", v6.ip()),
        ("", SocketAddr::V4(v4)) => v4.ip().to_string(),
        (name, _) => name.to_owned(),
    };
    let authority = match server.port() {
        443 => host,
        port => format!("{host}:{port}"),
    };
    let path = pool.https_path.clone();
    let resource = Resource { authority, path, method: HttpMethod::Post };
    let carriage = match pool.transport {
        Transport::Https => Carriage::Http2(resource.clone()),
        Transport::Http3 => Carriage::Http3(resource.clone()),
        Transport::Quic => Carriage::Quic,
        Transport::Tls | Transport::Tcp | Transport::Udp => Carriage::Framed,
    };
    ensure!(
        !pool.transport.uses_http() || resource.is_valid(),
        "https-path: `{}` is no path: write one such as \"/dns-query\"",
        pool.https_path
    );
    ensure!(
        cfg!(feature = "quic") || !carriage.is_quic(),
        "transport: this program was built without QUIC: build it with the feature `quic`"
    );
    Ok(carriage)
}
