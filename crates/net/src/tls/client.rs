//! What a client asks for and believes.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, Tls12Resumption};
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
        let versions = match self.version {
            TlsVersion::Any => rustls::ALL_VERSIONS,
            TlsVersion::V12 => &[&version::TLS12],
            TlsVersion::V13 => &[&version::TLS13],
        };
        let builder =
            ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions)?;
        let mut config = match &self.verify {
            Verify::Nothing => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Believer(provider())))
                .with_no_client_auth(),
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
                builder.with_root_certificates(roots).with_no_client_auth()
            }
        };
        config.alpn_protocols = self.alpn.clone();
        config.enable_early_data = self.early_data;
        config.resumption = match self.sessions {
            0 => Resumption::disabled(),
            n => Resumption::store(Arc::new(Sessions::new(n)))
                .tls12_resumption(Tls12Resumption::SessionIdOrTickets),
        };
        Ok(config)
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
