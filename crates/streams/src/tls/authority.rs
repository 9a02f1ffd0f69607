//! A certification authority for labs and tests; its key exists only in memory.

use std::io;
use std::path::Path;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::PrivatePkcs8KeyDer;

use super::{Identity, TlsError};

/// An authority that signs certificates for servers (ECDSA P-256).
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// Makes a new authority, valid from 1975 to 4096.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new() -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "dnsdyno lab authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key)?.pem();
        Ok(Authority { issuer: Issuer::new(params, key), pem })
    }

    /// Returns the authority's own certificate in PEM, which clients must trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Makes a certificate and key for a server with these names and addresses.
    ///
    /// # Errors
    /// When a name is not valid.
    pub fn identity(&self, names: &[&str]) -> Result<Identity, TlsError> {
        let (certificate, key) = self.sign(names)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok(Identity { chain: vec![certificate.into()], key: key.into() })
    }

    /// Makes a certificate and key in PEM.
    ///
    /// # Errors
    /// When a name is not valid.
    pub fn issue(&self, names: &[&str]) -> Result<(String, String), TlsError> {
        let (certificate, key) = self.sign(names)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    fn sign(&self, names: &[&str]) -> Result<(Certificate, KeyPair), TlsError> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "dnsdyno lab server");
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate, key))
    }

    /// Writes `ca.pem`, `server.pem` and `server.key` for a server with these names into `dir`, which is made
    /// if it is not there.
    ///
    /// # Errors
    /// When the folder cannot be made or written to, or a name is not valid.
    pub fn write(&self, dir: &Path, names: &[&str]) -> Result<(), TlsError> {
        let (certificate, key) = self.issue(names)?;
        std::fs::create_dir_all(dir).map_err(|e| TlsError::file(dir, e))?;
        let put = |name: &str, text: &str| -> Result<(), TlsError> {
            let path = dir.join(name);
            std::fs::write(&path, text).map_err(|e: io::Error| TlsError::file(&path, e))
        };
        put("ca.pem", &self.pem)?;
        put("server.pem", &certificate)?;
        put("server.key", &key)
    }
}
