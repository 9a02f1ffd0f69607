//! Why a connection failed.

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
}
