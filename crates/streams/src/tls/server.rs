//! TLS settings of servers, whose certificate can be reloaded without a restart.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use rustls::server::ServerSessionMemoryCache;

use super::{TlsError, provider};

/// Highest number of bytes that a client with a resumed session may send before the end of the handshake.
const MAX_EARLY_DATA: u32 = 16 << 10;

/// Number of sessions in memory if the clients do not keep them; each takes about 3 KiB, as measured.
const MAX_SESSIONS: usize = 1 << 13;

/// A certificate chain and its key.
#[derive(Debug)]
pub struct Identity {
    /// Certificates, the server's first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Key of the first certificate.
    pub key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Identity { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

/// Makes a configuration with the certificate of `identity` and the protocols `alpn` (a client that offers
/// protocols must offer one of them). With `early_data`, queries are accepted with the handshake (only
/// queries that may be replayed, RFC 9250 section 4.5).
///
/// # Errors
/// When the key does not belong to the certificate, or is of an unknown kind.
pub(crate) fn server_config(
    identity: Identity,
    alpn: &[&[u8]],
    early_data: bool,
) -> Result<ServerConfig, TlsError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(rustls::ALL_VERSIONS)?
        .with_no_client_auth()
        .with_single_cert(identity.chain, identity.key)?;
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    if early_data {
        // Data before the end of the handshake must be accepted only once: rustls needs sessions in memory
        // for that.
        config.max_early_data_size = MAX_EARLY_DATA;
        config.session_storage = ServerSessionMemoryCache::new(MAX_SESSIONS);
    } else {
        config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    }
    Ok(config)
}

impl Identity {
    /// Reads a certificate chain and its key in PEM.
    ///
    /// # Errors
    /// When a file cannot be read, or has no certificate or key.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|e| TlsError::file(certificate, format!("{e}; expected PEM certificates")))?;
        if chain.is_empty() {
            return Err(TlsError::file(certificate, "the file has no certificate; expected PEM"));
        }
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|e| TlsError::file(key, format!("{e}; expected a private key in PEM")))?;
        Ok(Identity { chain, key })
    }
}

/// TLS settings of a server whose certificate can be reloaded while it serves.
#[derive(Clone, Debug)]
pub struct ServerTls {
    files: Option<(PathBuf, PathBuf)>,
    alpn: &'static [&'static [u8]],
    early_data: bool,
    current: Arc<RwLock<Arc<ServerConfig>>>,
}

impl ServerTls {
    /// Reads the certificate and key from files, which [`reload`](Self::reload) reads again.
    ///
    /// # Errors
    /// As [`Identity::read`] and [`new`](Self::new).
    pub fn from_files(
        certificate: &Path,
        key: &Path,
        alpn: &'static [&'static [u8]],
        early_data: bool,
    ) -> Result<Self, TlsError> {
        let identity = Identity::read(certificate, key)?;
        let mut tls = Self::new(identity, alpn, early_data)?;
        tls.files = Some((certificate.to_owned(), key.to_owned()));
        Ok(tls)
    }

    /// Uses an identity that does not change.
    ///
    /// # Errors
    /// When the key does not belong to the certificate, or is of an unknown kind.
    pub fn new(
        identity: Identity,
        alpn: &'static [&'static [u8]],
        early_data: bool,
    ) -> Result<Self, TlsError> {
        let config = Arc::new(server_config(identity, alpn, early_data)?);
        Ok(ServerTls { files: None, alpn, early_data, current: Arc::new(RwLock::new(config)) })
    }

    /// Reads the files again; connections from now on use their content. All clones share it.
    ///
    /// # Errors
    /// As [`from_files`](Self::from_files); the old certificate then stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.read()?.into_iter().for_each(|config| self.replace(config));
        Ok(())
    }

    /// Reads the files again without using them; `None` without files.
    ///
    /// # Errors
    /// As [`from_files`](Self::from_files).
    pub fn read(&self) -> Result<Option<Arc<ServerConfig>>, TlsError> {
        let Some((certificate, key)) = &self.files else { return Ok(None) };
        let identity = Identity::read(certificate, key)?;
        server_config(identity, self.alpn, self.early_data).map(|config| Some(Arc::new(config)))
    }

    /// Uses a configuration for connections from now on. All clones share it.
    pub fn replace(&self, config: Arc<ServerConfig>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Returns the configuration that new connections get; it changes when certificates are loaded
    /// again.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
