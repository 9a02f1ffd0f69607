//! The PROXY protocol, version 2, in its binary form: whom a connection is for, said before anything else.

use std::net::{IpAddr, SocketAddr};

/// How a header begins (section 2.2 of the protocol's description).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, command PROXY.
const PROXY: u8 = 0x21;

/// The header of a TCP connection from `client` to `server`; both in IPv6 if one is.
pub(super) fn header(client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let mut out = SIGNATURE.to_vec();
    let addresses = match (client.ip(), server.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend_from_slice(&[PROXY, 0x11, 0, 12]);
            [&from.octets()[..], &to.octets()].concat()
        }
        (from, to) => {
            let mapped = |address| match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            out.extend_from_slice(&[PROXY, 0x21, 0, 36]);
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
    fn headers_are_as_the_protocol_has_them() {
        let header = |from: &str, to: &str| header(from.parse().unwrap(), to.parse().unwrap());
        let v4 = header("192.0.2.1:40000", "198.51.100.2:853");
        assert_eq!(v4[..12], [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10]);
        assert_eq!(v4[12..16], [0x21, 0x11, 0, 12]);
        assert_eq!(v4[16..], [192, 0, 2, 1, 198, 51, 100, 2, 0x9c, 0x40, 3, 0x55]);
        let v6 = header("[2001:db8::1]:1", "198.51.100.2:53");
        assert_eq!((v6[12..16].to_vec(), v6.len()), (vec![0x21, 0x21, 0, 36], 16 + 36));
    }
}
