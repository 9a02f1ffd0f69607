//! TLS settings of clients, and verification of certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use measure::TlsVersion;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, Tls12Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, version,
};

use super::sessions::Sessions;
use super::{TlsError, provider};

/// Certificates that a client accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// All certificates (opportunistic privacy, RFC 7858 section 4.1), as a load generator needs.
    #[default]
    Nothing,
    /// Certificates for the peer's name that are in this PEM file, or signed by an authority in it.
    Authorities(PathBuf),
}

/// TLS settings of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// Verification of servers' certificates.
    pub verify: Verify,
    /// The only version of TLS that it offers; any that it knows if absent.
    pub version: Option<TlsVersion>,
    /// Offered application protocols.
    pub alpn: Vec<Vec<u8>>,
    /// Number of sessions kept for resumption; 0 makes each handshake a full one.
    pub sessions: usize,
    /// Whether the client requests to send data with the handshake of a resumed session (0-RTT).
    pub early_data: bool,
}

impl ClientTls {
    /// Makes the configuration for rustls; connections that share it share its sessions.
    ///
    /// # Errors
    /// When the file of authorities cannot be read.
    pub fn build(&self) -> Result<ClientConfig, TlsError> {
        Ok(self.build_counted()?.0)
    }

    /// Makes the configuration, and the count of the full handshakes of its connections.
    pub(crate) fn build_counted(&self) -> Result<(ClientConfig, FullHandshakes), TlsError> {
        let versions = match self.version {
            None => rustls::ALL_VERSIONS,
            Some(TlsVersion::V12) => &[&version::TLS12],
            Some(TlsVersion::V13) => &[&version::TLS13],
        };
        let builder =
            ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions)?;
        let authorities = match &self.verify {
            Verify::Nothing => None,
            Verify::Authorities(path) => Some(read_authorities(path)?),
        };
        let full = FullHandshakes::default();
        let verifier = Verifier { authorities, provider: provider(), full: full.clone() };
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = self.alpn.clone();
        config.enable_early_data = self.early_data;
        if std::env::var_os("SSLKEYLOGFILE").is_some() {
            // Keys for decrypting a capture, as browsers and curl write them.
            config.key_log = Arc::new(rustls::KeyLogFile::new());
        }
        config.resumption = match self.sessions {
            0 => Resumption::disabled(),
            n => Resumption::store(Arc::new(Sessions::new(n)))
                .tls12_resumption(Tls12Resumption::SessionIdOrTickets),
        };
        Ok((config, full))
    }
}

/// Number of handshakes with verification of a certificate, so without resumption; quinn does not report the
/// kind of a handshake.
#[derive(Clone, Debug, Default)]
pub(crate) struct FullHandshakes(Arc<AtomicU64>);

impl FullHandshakes {
    /// Subtracts one from the counter; returns whether it was above zero.
    #[cfg_attr(not(feature = "quic"), expect(dead_code, reason = "quinn alone uses this value"))]
    pub(crate) fn take(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full| full.checked_sub(1))
            .is_ok()
    }
}

/// The certificates of a PEM file, of which one must be the peer's or have signed it.
#[derive(Debug)]
struct Authorities {
    certificates: Vec<CertificateDer<'static>>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl Authorities {
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        match self.verifier.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // Servers often have an authority's own certificate, as `openssl req -x509` makes it. webpki refuses that after it has
            // checked the dates.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_)))
                if self.certificates.iter().any(|own| own == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)
            }
            verified => verified.map(drop),
        }
    }
}

/// Reads the authorities of a PEM file.
fn read_authorities(path: &Path) -> Result<Authorities, TlsError> {
    let mut roots = RootCertStore::empty();
    let read = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| {
            TlsError::file(path, format!("{e}; expected PEM certificates of authorities"))
        })?;
    for certificate in read.iter().cloned() {
        roots.add(certificate).map_err(|e| TlsError::file(path, e))?;
    }
    if roots.is_empty() {
        return Err(TlsError::file(path, "the file has no certificate; expected PEM"));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider())
        .build()
        .map_err(|e| TlsError::file(path, e))?;
    Ok(Authorities { certificates: read, verifier })
}

/// Verifies that the peer has the key of its certificate, and counts the certificates that it accepts.
#[derive(Debug)]
struct Verifier {
    /// Authorities that must accept the certificate; without them every certificate is accepted.
    authorities: Option<Authorities>,
    provider: Arc<CryptoProvider>,
    full: FullHandshakes,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(authorities) = &self.authorities {
            authorities.verify(end_entity, intermediates, name, ocsp, now)?;
        }
        self.full.0.fetch_add(1, Ordering::Relaxed);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
