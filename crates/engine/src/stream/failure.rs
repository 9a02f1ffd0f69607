//! Failures of connections.

/// Reason why a connection failed or could not be established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// No process listens at the address.
    Refused,
    /// The peer reset it.
    Reset,
    /// There is no route to the peer.
    Unreachable,
    /// The peer's kernel did not accept the connection in time.
    ConnectStalled,
    /// The handshake did not end in time.
    HandshakeStalled,
    /// The peer's certificate is not trusted, not for its name, or out of date.
    BadCertificate,
    /// The handshake failed for another reason: no common version, cipher or protocol, or an alert.
    Handshake,
    /// The peer sent something that the protocol does not allow.
    Protocol,
    /// The HTTP status was not a success.
    Status,
    /// A message longer than allowed.
    Oversized,
    /// The peer closed the connection while replies were due.
    ClosedEarly,
    /// Replies were due, and nothing arrived within the timeout.
    Stalled,
    /// This host has no free port.
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

    /// Returns its index in [`ALL`](Self::ALL).
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the stable word for JSON.
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
    fn every_failure_has_an_index_and_a_word() {
        for (i, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure.index(), i);
        }
        let words: std::collections::BTreeSet<_> =
            Failure::ALL.iter().map(|f| f.reason()).collect();
        assert_eq!(words.len(), Failure::ALL.len());
    }
}
