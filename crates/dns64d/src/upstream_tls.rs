//! The TLS settings of upstream servers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use dns64::Config;
use dns64::config::{MAX_UPSTREAMS, Transport};
use streams::tls::{ALPN_DOT, ClientTls, Verify};

use crate::carrier::UpstreamTls;

/// TLS settings of the upstream servers that are queried over TLS.
pub(crate) type UpstreamTlsMap = Arc<HashMap<SocketAddr, UpstreamTls>>;

/// Returns the TLS settings for the upstream servers that are queried over TLS.
pub(crate) fn upstream_tls(config: &Config) -> anyhow::Result<UpstreamTlsMap> {
    let mut all = HashMap::new();
    for pool in config.pools().into_iter().filter(|pool| pool.transport == Transport::Tls) {
        let verify = match pool.tls_authorities.as_os_str().is_empty() {
            true => Verify::Nothing,
            false => Verify::Authorities(pool.tls_authorities.clone()),
        };
        let tls = ClientTls {
            verify,
            alpn: vec![ALPN_DOT.to_vec()],
            sessions: MAX_UPSTREAMS * config.upstream.tcp_connections,
            ..ClientTls::default()
        };
        let built = Arc::new(
            tls.build()
                .with_context(|| format!("tls-authorities: {}", pool.tls_authorities.display()))?,
        );
        for server in pool.servers {
            let (config, name) = (built.clone(), pool.tls_name.clone());
            all.insert(server, UpstreamTls { config, name });
        }
    }
    Ok(Arc::new(all))
}
