//! Settings that a reload replaces, and warnings that upstream TLS fails under them.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dns64::Settings;
use tokio::time::Instant;

use crate::upstream_tls::UpstreamTlsMap;

/// Shortest time between two warnings about TLS.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Settings that a reload replaces.
#[derive(Clone)]
pub(crate) struct ActiveSettings {
    pub(crate) settings: Arc<Settings>,
    /// How encrypted connections to upstream servers are made.
    pub(crate) upstream_tls: UpstreamTlsMap,
}

/// Active settings, shared by the carrier and the thread that reloads.
pub(crate) type Shared = Arc<Mutex<ActiveSettings>>;

/// Warnings that TLS with an upstream server failed; holds the time of the last one.
#[derive(Default)]
pub(super) struct TlsWarnings(Cell<Option<Instant>>);

impl TlsWarnings {
    /// Logs that TLS with a server failed, at most once in a while, since every query would repeat it.
    pub(super) fn failed(&self, server: SocketAddr, error: &io::Error) {
        let now = Instant::now();
        if self.0.get().is_none_or(|last| now - last >= WARNING_INTERVAL) {
            self.0.set(Some(now));
            tracing::warn!(%server, "no TLS with upstream: {error}");
        }
    }
}
