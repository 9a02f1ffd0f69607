//! The PROXY protocol, version 2, in its binary form. It names the client of a connection in front of all
//! other data, and the client of a datagram in front of its message.
//!
//! It is not used with QUIC: its packets do not belong to single clients, and servers that accept the header
//! over UDP and TCP do not accept it there.

use std::net::{IpAddr, SocketAddr};

/// First bytes of a header (section 2.2 of the protocol's description).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const PROXY: u8 = 0x21;

/// Protocol of the data after the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    /// Header for a TCP connection, once at its beginning.
    Stream = 1,
    /// Header for UDP, in front of each datagram.
    Datagrams = 2,
}

/// Returns the header for data from `client` to `server`; both addresses are IPv6 if one is.
pub(super) fn header(client: SocketAddr, server: SocketAddr, carries: Carries) -> Vec<u8> {
    let mut out = SIGNATURE.to_vec();
    let carries = carries as u8;
    let addresses = match (client.ip(), server.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend_from_slice(&[PROXY, 0x10 | carries, 0, 12]);
            [&from.octets()[..], &to.octets()].concat()
        }
        (from, to) => {
            let mapped = |address| match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            out.extend_from_slice(&[PROXY, 0x20 | carries, 0, 36]);
            [mapped(from).octets(), mapped(to).octets()].concat()
        }
    };
    out.extend_from_slice(&addresses);
    out.extend_from_slice(&client.port().to_be_bytes());
    out.extend_from_slice(&server.port().to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_form_of_the_protocol() {
        let header_of = |from: &str, to: &str, carries| {
            header(from.parse().unwrap(), to.parse().unwrap(), carries)
        };
        let header = |from, to| header_of(from, to, Carries::Stream);
        let v4 = header("192.0.2.1:40000", "198.51.100.2:853");
        assert_eq!(v4[..12], [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10]);
        assert_eq!(v4[12..16], [0x21, 0x11, 0, 12]);
        assert_eq!(v4[16..], [192, 0, 2, 1, 198, 51, 100, 2, 0x9c, 0x40, 3, 0x55]);
        let v6 = header("[2001:db8::1]:1", "198.51.100.2:53");
        assert_eq!((v6[12..16].to_vec(), v6.len()), (vec![0x21, 0x21, 0, 36], 16 + 36));
        let datagram = header_of("192.0.2.1:1", "192.0.2.2:53", Carries::Datagrams);
        assert_eq!(datagram[12..16], [0x21, 0x12, 0, 12]);
    }
}
