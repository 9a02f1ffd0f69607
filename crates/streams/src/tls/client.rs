//! What a client asks for and believes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, Tls12Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, version};

use super::sessions::Sessions;
use super::{TlsError, provider};

/// Which certificates are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// All (opportunistic privacy, RFC 7858 section 4.1); what a load generator needs.
    #[default]
    Nothing,
    /// Those that the authorities of this PEM file vouch for, for the peer's name.
    Authorities(PathBuf),
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// The newest that the peer has.
    #[default]
    Any,
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

/// What a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// Which certificates are believed.
    pub verify: Verify,
    /// Which version is spoken.
    pub version: TlsVersion,
    /// Application protocols offered.
    pub alpn: Vec<Vec<u8>>,
    /// Sessions kept for resumption; 0: each handshake is a full one.
    pub sessions: usize,
    /// Ask to send data with the handshake of a resumed session (0-RTT).
    pub early_data: bool,
}

impl ClientTls {
    /// The configuration for rustls; connections that share it share its sessions.
    ///
    /// # Errors
    /// A file of authorities that cannot be read.
    pub fn build(&self) -> Result<ClientConfig, TlsError> {
        Ok(self.build_counted()?.0)
    }

    /// The same, and what counts the full handshakes of its connections.
    pub(crate) fn build_counted(&self) -> Result<(ClientConfig, FullHandshakes), TlsError> {
        let versions = match self.version {
            TlsVersion::Any => rustls::ALL_VERSIONS,
            TlsVersion::V12 => &[&version::TLS12],
            TlsVersion::V13 => &[&version::TLS13],
        };
        let builder =
            ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions)?;
        let inner: Arc<dyn ServerCertVerifier> = match &self.verify {
            Verify::Nothing => Arc::new(Believer(provider())),
            Verify::Authorities(path) => {
                let mut roots = RootCertStore::empty();
                let read = CertificateDer::pem_file_iter(path)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map_err(|e| {
                        TlsError::file(
                            path,
                            format!("{e}; PEM certificates of authorities are wanted"),
                        )
                    })?;
                for certificate in read {
                    roots.add(certificate).map_err(|e| TlsError::file(path, e))?;
                }
                if roots.is_empty() {
                    return Err(TlsError::file(path, "no certificate in it; PEM is wanted"));
                }
                WebPkiServerVerifier::builder_with_provider(roots.into(), provider())
                    .build()
                    .map_err(|e| TlsError::file(path, e))?
            }
        };
        let full = FullHandshakes::default();
        let verifier = Counting { inner, full: full.clone() };
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = self.alpn.clone();
        config.enable_early_data = self.early_data;
        config.resumption = match self.sessions {
            0 => Resumption::disabled(),
            n => Resumption::store(Arc::new(Sessions::new(n)))
                .tls12_resumption(Tls12Resumption::SessionIdOrTickets),
        };
        Ok((config, full))
    }
}

/// Handshakes in which a certificate was looked at, and no session resumed: quinn does not tell of which
/// kind a connection's was.
#[derive(Clone, Debug, Default)]
pub(crate) struct FullHandshakes(Arc<AtomicU64>);

impl FullHandshakes {
    /// Takes one of them; whether there was one.
    pub(crate) fn take(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full| full.checked_sub(1))
            .is_ok()
    }
}

/// Counts the certificates that another believes.
#[derive(Debug)]
struct Counting {
    inner: Arc<dyn ServerCertVerifier>,
    full: FullHandshakes,
}

impl ServerCertVerifier for Counting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let believed = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        self.full.0.fetch_add(1, Ordering::Relaxed);
        Ok(believed)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Believes every certificate, but holds its owner to having the key.
#[derive(Debug)]
struct Believer(Arc<CryptoProvider>);

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
