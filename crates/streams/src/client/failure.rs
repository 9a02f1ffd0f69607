//! Maps errors to failures of connections.

use std::io;

use engine::stream::Failure;

/// Returns the failure for an I/O error; errors of TLS are inside such errors.
pub(super) fn of(error: &io::Error) -> Failure {
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return of_tls(tls);
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

/// Returns the failure that the first bytes of an incomplete message show, at the end of a connection without TLS:
/// an alert of TLS (RFC 8446 section 5.1), or text such as a server of HTTP sends.
pub(super) fn of_rest(rest: &[u8]) -> Option<Failure> {
    match rest {
        [21, 3, ..] => Some(Failure::TlsWanted),
        [b'H', b'T', b'T', b'P', ..] | [b'<', b'!' | b'h', ..] => Some(Failure::Protocol),
        _ => None,
    }
}

/// Returns the failure for a TLS error.
fn of_tls(error: &rustls::Error) -> Failure {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_map_to_failures() {
        let os = |code| of(&io::Error::from_raw_os_error(code));
        assert_eq!(os(libc::ECONNREFUSED), Failure::Refused);
        assert_eq!(os(libc::ECONNRESET), Failure::Reset);
        assert_eq!(os(libc::EPIPE), Failure::Reset);
        assert_eq!(os(libc::EADDRNOTAVAIL), Failure::NoPort);
        assert_eq!(os(libc::EMFILE), Failure::NoFile);
        assert_eq!(os(libc::EHOSTUNREACH), Failure::Unreachable);
        assert_eq!(of_rest(&[21, 3, 1, 0, 2, 2, 10]), Some(Failure::TlsWanted));
        assert_eq!(of_rest(b"HTTP/1.1 400 Bad Request"), Some(Failure::Protocol));
        assert_eq!((of_rest(&[0, 40, 1]), of_rest(&[])), (None, None));
        let tls = |error| of(&io::Error::new(io::ErrorKind::InvalidData, error));
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        assert_eq!(tls(expired), Failure::BadCertificate);
        assert_eq!(tls(rustls::Error::NoApplicationProtocol), Failure::Handshake);
    }
}
