//! Why a connection failed.

use std::io;

/// Why a connection failed, or did not come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Nobody listens.
    Refused,
    /// The peer reset it.
    Reset,
    /// There is no way to the peer.
    Unreachable,
    /// The peer's kernel did not take the connection in time.
    ConnectStalled,
    /// The handshake was not done in time.
    HandshakeStalled,
    /// The peer's certificate is not trusted, not for its name, or out of date.
    BadCertificate,
    /// The handshake failed otherwise: no common version, cipher or protocol, or an alert.
    Handshake,
    /// The peer sent what the protocol does not allow.
    Protocol,
    /// HTTP gave another status than success.
    Status,
    /// A message longer than allowed.
    Oversized,
    /// The peer closed it while replies were due.
    ClosedEarly,
    /// Replies were due and nothing came for the timeout.
    Stalled,
    /// This host has no port left for it.
    NoPort,
    /// This process may open no more files.
    NoFile,
    /// Anything else.
    Other,
}

impl Failure {
    /// Every failure, in the order of [`index`](Self::index).
    pub const ALL: [Failure; 15] = [
        Failure::Refused,
        Failure::Reset,
        Failure::Unreachable,
        Failure::ConnectStalled,
        Failure::HandshakeStalled,
        Failure::BadCertificate,
        Failure::Handshake,
        Failure::Protocol,
        Failure::Status,
        Failure::Oversized,
        Failure::ClosedEarly,
        Failure::Stalled,
        Failure::NoPort,
        Failure::NoFile,
        Failure::Other,
    ];

    /// Its place in [`ALL`](Self::ALL).
    pub fn index(self) -> usize {
        self as usize
    }

    /// The stable word of the JSON.
    pub fn reason(self) -> &'static str {
        match self {
            Failure::Refused => "refused",
            Failure::Reset => "reset",
            Failure::Unreachable => "unreachable",
            Failure::ConnectStalled => "connect-stalled",
            Failure::HandshakeStalled => "handshake-stalled",
            Failure::BadCertificate => "bad-certificate",
            Failure::Handshake => "handshake",
            Failure::Protocol => "protocol",
            Failure::Status => "http-status",
            Failure::Oversized => "oversized",
            Failure::ClosedEarly => "closed-early",
            Failure::Stalled => "stalled",
            Failure::NoPort => "no-port",
            Failure::NoFile => "no-file",
            Failure::Other => "other",
        }
    }
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return tls.into();
        }
        match error.raw_os_error() {
            Some(libc::EADDRNOTAVAIL) => return Failure::NoPort,
            Some(libc::EMFILE | libc::ENFILE) => return Failure::NoFile,
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => return Failure::Unreachable,
            _ => {}
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Failure::Refused,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted => Failure::Reset,
            io::ErrorKind::TimedOut => Failure::ConnectStalled,
            io::ErrorKind::UnexpectedEof => Failure::ClosedEarly,
            io::ErrorKind::InvalidData => Failure::Protocol,
            _ => Failure::Other,
        }
    }
}

impl From<&rustls::Error> for Failure {
    fn from(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(_)
            | rustls::Error::NoCertificatesPresented
            | rustls::Error::UnsupportedNameType => Failure::BadCertificate,
            rustls::Error::AlertReceived(_)
            | rustls::Error::PeerIncompatible(_)
            | rustls::Error::NoApplicationProtocol => Failure::Handshake,
            _ => Failure::Protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_place_and_word() {
        for (i, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure.index(), i);
        }
        let words: std::collections::BTreeSet<_> =
            Failure::ALL.iter().map(|f| f.reason()).collect();
        assert_eq!(words.len(), Failure::ALL.len());
    }

    #[test]
    fn errors_are_told_apart() {
        let os = |code| Failure::from(&io::Error::from_raw_os_error(code));
        assert_eq!(os(libc::ECONNREFUSED), Failure::Refused);
        assert_eq!(os(libc::ECONNRESET), Failure::Reset);
        assert_eq!(os(libc::EPIPE), Failure::Reset);
        assert_eq!(os(libc::EADDRNOTAVAIL), Failure::NoPort);
        assert_eq!(os(libc::EMFILE), Failure::NoFile);
        assert_eq!(os(libc::EHOSTUNREACH), Failure::Unreachable);
        let tls = |error| Failure::from(&io::Error::new(io::ErrorKind::InvalidData, error));
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        assert_eq!(tls(expired), Failure::BadCertificate);
        assert_eq!(tls(rustls::Error::NoApplicationProtocol), Failure::Handshake);
    }
}
