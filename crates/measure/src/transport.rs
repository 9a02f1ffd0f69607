//! Transports of DNS messages.
//!
//! ```text
//! datagrams     udp
//! streams       tcp ── tls ── https       messages in frames, or in requests of HTTP
//! QUIC          quic ── http3
//! ```
//!
//! All differences between transports that are data, not code, are here: words, ports, and the protocol each is built
//! on. `tester::connections` makes the connections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// Returns the address to bind a socket to that may have any address of the family of `peer`.
pub fn any_address(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Transport of the queries of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// UDP: one datagram for each message (RFC 1035).
    Udp,
    /// TCP: pipelined messages, each after its length (RFC 7766).
    Tcp,
    /// TLS over TCP (DoT, RFC 7858).
    Tls,
    /// HTTP/2 over TLS (RFC 8484).
    Https,
    /// QUIC: one stream for each query (DoQ, RFC 9250).
    Quic,
    /// HTTP/3 (RFC 8484, RFC 9114).
    Http3,
}

crate::words! {
    Transport {
        Udp = "udp",
        Tcp = "tcp",
        Tls = "tls",
        Https = "https",
        Quic = "quic",
        Http3 = "http3",
    }
}

impl Transport {
    /// Returns a title of one line, for a list of values.
    pub fn title(self) -> &'static str {
        match self {
            Transport::Udp => "Datagrams (port 53)",
            Transport::Tcp => "TCP, pipelined (RFC 7766, port 53)",
            Transport::Tls => "TLS (RFC 7858, port 853)",
            Transport::Https => "HTTP/2 over TLS (RFC 8484, port 443)",
            Transport::Quic => "QUIC (RFC 9250, port 853)",
            Transport::Http3 => "HTTP/3 (RFC 8484, port 443)",
        }
    }

    /// Returns the short name that is used for DNS over this transport; `None` without one.
    pub fn short_name(self) -> Option<&'static str> {
        match self {
            Transport::Udp | Transport::Tcp | Transport::Http3 => None,
            Transport::Tls => Some("dot"),
            Transport::Https => Some("doh"),
            Transport::Quic => Some("doq"),
        }
    }

    /// Returns the transport with this word or short name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.word() == name || t.short_name() == Some(name))
    }

    /// Returns the default port of a server of this transport.
    pub fn default_port(self) -> u16 {
        match self {
            Transport::Udp | Transport::Tcp => 53,
            Transport::Tls | Transport::Quic => 853,
            Transport::Https | Transport::Http3 => 443,
        }
    }

    /// Returns whether each message is a datagram of its own, without a connection.
    pub fn is_datagram(self) -> bool {
        self == Transport::Udp
    }

    /// Returns whether the transport's connections are encrypted, so that a server needs a
    /// certificate.
    pub fn uses_tls(self) -> bool {
        !matches!(self, Transport::Udp | Transport::Tcp)
    }

    /// Returns whether the transport is TCP or built on TCP.
    pub fn uses_tcp(self) -> bool {
        matches!(self, Transport::Tcp | Transport::Tls | Transport::Https)
    }

    /// Returns whether the transport is QUIC or built on QUIC.
    pub fn uses_quic(self) -> bool {
        matches!(self, Transport::Quic | Transport::Http3)
    }

    /// Returns whether the transport sends messages in HTTP requests.
    pub fn uses_http(self) -> bool {
        matches!(self, Transport::Https | Transport::Http3)
    }

    /// Returns whether messages follow each other on a connection, each after its length (RFC 1035 section 4.2.2).
    pub fn is_framed(self) -> bool {
        matches!(self, Transport::Tcp | Transport::Tls)
    }

    /// Returns the words of all transports that are `chosen`, for a sentence: `tls, https, quic or http3`.
    pub fn words(chosen: fn(Transport) -> bool) -> String {
        let words: Vec<&str> =
            Self::ALL.into_iter().filter(|t| chosen(*t)).map(Self::word).collect();
        match words.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_have_the_usual_port() {
        for transport in Transport::ALL {
            assert!(transport.title().contains(&transport.default_port().to_string()));
        }
    }

    #[test]
    fn short_names_are_read() {
        let names = ["dot", "doh", "doq", "tls", "udp", "dou"];
        let found = names.map(Transport::named);
        let [tls, https, quic] = [Transport::Tls, Transport::Https, Transport::Quic].map(Some);
        assert_eq!(found, [tls, https, quic, tls, Some(Transport::Udp), None]);
    }

    #[test]
    fn sentences_name_the_chosen_transports() {
        assert_eq!(Transport::words(Transport::is_datagram), "udp");
        assert_eq!(Transport::words(Transport::is_framed), "tcp or tls");
        assert_eq!(Transport::words(Transport::uses_tls), "tls, https, quic or http3");
        assert_eq!(Transport::words(|t| !t.uses_quic()), "udp, tcp, tls or https");
    }
}
