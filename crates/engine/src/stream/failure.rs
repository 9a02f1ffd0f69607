//! Failures of connections, and of single queries while their connection continues.

use std::borrow::Cow;

/// Reason why a connection failed or could not be established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// No process listens at the address.
    Refused,
    /// The peer reset the connection, without an orderly end.
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
    /// The peer answered with an alert of TLS on a connection without TLS.
    TlsWanted,
    /// A message longer than allowed.
    Oversized,
    /// The peer closed the connection before it sent all replies.
    ClosedEarly,
    /// The peer closed the connection with an error code of its protocol.
    ClosedWithError,
    /// Replies were due, but no message arrived within the timeout.
    Stalled,
    /// This host has no free port.
    NoPort,
    /// This process may open no more files.
    NoFile,
    /// An error that none of the other variants covers.
    Other,
}

measure::words! {
    Failure {
        Refused = "refused",
        Reset = "reset",
        Unreachable = "unreachable",
        ConnectStalled = "connect-stalled",
        HandshakeStalled = "handshake-stalled",
        BadCertificate = "bad-certificate",
        Handshake = "handshake",
        Protocol = "protocol",
        TlsWanted = "tls-wanted",
        Oversized = "oversized",
        ClosedEarly = "closed-early",
        ClosedWithError = "closed-with-error",
        Stalled = "stalled",
        NoPort = "no-port",
        NoFile = "no-file",
        Other = "other",
    }
}

impl Failure {
    /// Returns the failure's index in [`ALL`](Self::ALL).
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Why a query ended without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueryFailure {
    /// The server answered with this HTTP status, which is not a success.
    Status(u16),
    /// The response is no message, by its media type.
    MediaType,
    /// The peer reset the stream of the query with this code.
    StreamReset(StreamCode),
    /// The peer refused the stream of the query, and again at each repetition.
    StreamRefused,
    /// The stream ended without a whole message.
    Incomplete,
    /// The reply is longer than allowed.
    Oversized,
    /// The peer sent something on the stream that the protocol does not allow.
    Protocol,
    /// The connection of the query failed, or the peer closed it.
    Connection(Failure),
    /// An error that none of the other variants covers.
    Other,
}

impl QueryFailure {
    /// Returns the word in JSON, which never changes.
    pub fn reason(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            QueryFailure::Status(status) => return format!("http-{status}").into(),
            QueryFailure::StreamReset(code) => {
                return format!("stream-reset-{}", code.name()).into();
            }
            QueryFailure::MediaType => "media-type",
            QueryFailure::StreamRefused => "stream-refused",
            QueryFailure::Incomplete => "incomplete",
            QueryFailure::Oversized => "oversized",
            QueryFailure::Protocol => "protocol",
            QueryFailure::Connection(failure) => failure.word(),
            QueryFailure::Other => "other",
        })
    }
}

/// The code with which a peer reset a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamCode {
    /// A code of HTTP/2 (RFC 9113 section 7).
    Http2(u32),
    /// A code of HTTP/3 (RFC 9114 section 8.1).
    Http3(u64),
    /// A code of DNS over dedicated QUIC connections (RFC 9250 section 4.3).
    Quic(u64),
}

impl StreamCode {
    /// Returns the name of the code in the RFC, or its number.
    pub fn name(self) -> Cow<'static, str> {
        const HTTP2_ERRORS: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        // From 0x100 on.
        const HTTP3_ERRORS: [&str; 17] = [
            "H3_NO_ERROR",
            "H3_GENERAL_PROTOCOL_ERROR",
            "H3_INTERNAL_ERROR",
            "H3_STREAM_CREATION_ERROR",
            "H3_CLOSED_CRITICAL_STREAM",
            "H3_FRAME_UNEXPECTED",
            "H3_FRAME_ERROR",
            "H3_EXCESSIVE_LOAD",
            "H3_ID_ERROR",
            "H3_SETTINGS_ERROR",
            "H3_MISSING_SETTINGS",
            "H3_REQUEST_REJECTED",
            "H3_REQUEST_CANCELLED",
            "H3_REQUEST_INCOMPLETE",
            "H3_MESSAGE_ERROR",
            "H3_CONNECT_ERROR",
            "H3_VERSION_FALLBACK",
        ];
        const QUIC_ERRORS: [&str; 6] = [
            "DOQ_NO_ERROR",
            "DOQ_INTERNAL_ERROR",
            "DOQ_PROTOCOL_ERROR",
            "DOQ_REQUEST_CANCELLED",
            "DOQ_EXCESSIVE_LOAD",
            "DOQ_UNSPECIFIED_ERROR",
        ];
        let (names, first, code): (&[&'static str], u64, u64) = match self {
            StreamCode::Http2(code) => (&HTTP2_ERRORS, 0, code.into()),
            StreamCode::Http3(code) => (&HTTP3_ERRORS, 0x100, code),
            StreamCode::Quic(code) => (&QUIC_ERRORS, 0, code),
        };
        let place = code.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        match place.and_then(|place| names.get(place)) {
            Some(name) => Cow::Borrowed(name),
            None => format!("{code:#x}").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_an_index() {
        for (i, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure.index(), i);
        }
    }

    #[test]
    fn codes_of_streams_have_the_names_of_their_rfcs() {
        let table = [
            (StreamCode::Http2(2), "INTERNAL_ERROR"),
            (StreamCode::Http2(0xd), "HTTP_1_1_REQUIRED"),
            (StreamCode::Http2(0xe), "0xe"),
            (StreamCode::Http3(0x10b), "H3_REQUEST_REJECTED"),
            (StreamCode::Http3(0x110), "H3_VERSION_FALLBACK"),
            (StreamCode::Http3(0), "0x0"),
            (StreamCode::Quic(4), "DOQ_EXCESSIVE_LOAD"),
            (StreamCode::Quic(u64::MAX), "0xffffffffffffffff"),
        ];
        for (code, name) in table {
            assert_eq!(code.name(), name);
            let reason = QueryFailure::StreamReset(code).reason();
            assert_eq!(reason, format!("stream-reset-{name}"));
        }
        assert_eq!(QueryFailure::Status(503).reason(), "http-503");
        assert_eq!(QueryFailure::Connection(Failure::Reset).reason(), "reset");
    }
}
