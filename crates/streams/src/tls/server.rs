//! What a server shows, and how it is renewed without a restart.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use rustls::server::ServerSessionMemoryCache;

use super::{TlsError, provider};

/// How much a resumed client may send before the handshake is done, bytes.
const MAX_EARLY_DATA: u32 = 16 << 10;

/// Sessions remembered where they are not left to the clients; one takes about 3 KiB, measured.
const SESSIONS: usize = 1 << 13;

/// A certificate chain and its key.
#[derive(Debug)]
pub struct Identity {
    /// The server's certificate first.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of the first.
    pub key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Identity { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

/// A configuration that shows `identity` and speaks `alpn` (a client that offers protocols must offer
/// one of them). With `early_data`, queries may come with the handshake (RFC 9250 section 4.5 applies:
/// only what may be replayed).
///
/// # Errors
/// A key that is not the certificate's, or of an unknown kind.
pub fn server_config(
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
        // What is sent before the handshake is taken once: rustls wants to remember its sessions for it.
        config.max_early_data_size = MAX_EARLY_DATA;
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    } else {
        config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    }
    Ok(config)
}

impl Identity {
    /// Reads a certificate chain and its key, PEM.
    ///
    /// # Errors
    /// A file that cannot be read, or has none of them.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|e| {
                TlsError::file(certificate, format!("{e}; PEM certificates are wanted"))
            })?;
        if chain.is_empty() {
            return Err(TlsError::file(certificate, "no certificate in it; PEM is wanted"));
        }
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|e| TlsError::file(key, format!("{e}; a private key in PEM is wanted")))?;
        Ok(Identity { chain, key })
    }
}

/// A server's TLS whose certificate can be read again while it serves.
#[derive(Clone, Debug)]
pub struct ServerTls {
    files: Option<(PathBuf, PathBuf)>,
    alpn: &'static [&'static [u8]],
    early_data: bool,
    current: Arc<RwLock<Arc<ServerConfig>>>,
}

impl ServerTls {
    /// From files, which [`reload`](Self::reload) reads again.
    ///
    /// # Errors
    /// As [`Identity::read`] and [`server_config`].
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

    /// From an identity that stays.
    ///
    /// # Errors
    /// As [`server_config`].
    pub fn new(
        identity: Identity,
        alpn: &'static [&'static [u8]],
        early_data: bool,
    ) -> Result<Self, TlsError> {
        let config = Arc::new(server_config(identity, alpn, early_data)?);
        Ok(ServerTls { files: None, alpn, early_data, current: Arc::new(RwLock::new(config)) })
    }

    /// Reads the files again; connections from now on see what they hold. All clones share it.
    ///
    /// # Errors
    /// As [`from_files`](Self::from_files); what was shown is shown further then.
    pub fn reload(&self) -> Result<(), TlsError> {
        let Some((certificate, key)) = &self.files else { return Ok(()) };
        let identity = Identity::read(certificate, key)?;
        let config = Arc::new(server_config(identity, self.alpn, self.early_data)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// What is shown now.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
