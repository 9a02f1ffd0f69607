//! TLS for both sides: settings of clients, certificates of servers, and a certification authority for labs
//! and tests.
//!
//! Cryptography is by `ring`, TLS 1.3 and 1.2 by `rustls`, which has no older versions.

#[cfg(any(test, feature = "authority"))]
mod authority;
mod client;
mod server;
mod sessions;

#[cfg(any(test, feature = "authority"))]
pub use authority::Authority;
pub(crate) use client::FullHandshakes;
pub use client::{ClientTls, Verify};
pub use server::{Identity, ServerTls};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// Application protocol of DNS over TLS (RFC 7858 section 12).
pub const ALPN_DOT: &[u8] = b"dot";
/// Application protocol of DNS over QUIC (RFC 9250 section 4.1.1).
pub const ALPN_DOQ: &[u8] = b"doq";

/// Error of a certificate, a key, or TLS settings.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or has the wrong content.
    #[error("{0}: {1}")]
    File(PathBuf, String),
    /// rustls refuses the certificate, the key or a setting.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
    /// A certificate cannot be generated.
    #[cfg(any(test, feature = "authority"))]
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
}

impl TlsError {
    fn file(path: &Path, why: impl ToString) -> Self {
        TlsError::File(path.to_owned(), why.to_string())
    }
}

/// Returns the implementation of cryptography.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
