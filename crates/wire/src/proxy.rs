//! The PROXY protocol: a header in front of a connection or a datagram, in which a load balancer names the client
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>).
//!
//! ```text
//!   version 1   PROXY TCP6 2001:db8::1 2001:db8::53 50000 53\r\n
//!   version 2   [signature, 12 octets][version 2, command][family, protocol][length: 16 bits][addresses, extensions]
//! ```

use std::net::{IpAddr, SocketAddr};

/// Octets with which a header of version 2 begins.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Octets of version 2 before the addresses.
const V2_FIXED: usize = 16;
/// Start of version 1, and its longest line with the end, in octets.
const V1_START: &[u8] = b"PROXY ";
const MAX_LINE: usize = 107;
/// Most octets of addresses and extensions in version 2 that are accepted.
const MAX_ADDRESS_OCTETS: usize = 4_096;

/// A PROXY header in front of a query or on a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Address of the client; `None` if the proxy speaks for itself, or the client has no internet address.
    pub client: Option<SocketAddr>,
    /// Length of the header, in octets.
    pub len: usize,
}

/// Reason why a header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The header is incomplete: at least this number of octets is needed.
    Incomplete(usize),
    /// There is no valid header.
    Invalid,
}

/// Reads a header of version 1 or 2 at the start of a connection.
pub fn read(octets: &[u8]) -> Result<ProxyHeader, Unreadable> {
    if octets.starts_with(V1_START) {
        return version1(octets);
    }
    if V1_START.starts_with(octets) {
        return Err(Unreadable::Incomplete(V1_START.len()));
    }
    version2(octets)
}

/// Reads a header of version 2, the only one for datagrams.
pub fn version2(octets: &[u8]) -> Result<ProxyHeader, Unreadable> {
    let known = octets.len().min(SIGNATURE.len());
    if octets[..known] != SIGNATURE[..known] {
        return Err(Unreadable::Invalid);
    }
    let fixed = octets.get(..V2_FIXED).ok_or(Unreadable::Incomplete(V2_FIXED))?;
    let (command, family) = (fixed[12], fixed[13]);
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if length > MAX_ADDRESS_OCTETS {
        return Err(Unreadable::Invalid);
    }
    let len = V2_FIXED + length;
    let rest = octets.get(V2_FIXED..len).ok_or(Unreadable::Incomplete(len))?;
    let client = match (command, family) {
        (0x20, _) => None,
        (0x21, 0x11 | 0x12) => Some(source::<4>(rest, 8)?),
        (0x21, 0x21 | 0x22) => Some(source::<16>(rest, 32)?),
        // No address, or the address of a UNIX socket.
        (0x21, 0x00 | 0x31 | 0x32) => None,
        _ => return Err(Unreadable::Invalid),
    };
    Ok(ProxyHeader { client, len })
}

/// Reads the source address of a version 2 header, whose port is at `port`.
fn source<const N: usize>(rest: &[u8], port: usize) -> Result<SocketAddr, Unreadable>
where
    IpAddr: From<[u8; N]>,
{
    // Both ports must be there.
    let ports = rest.get(port..port + 4).ok_or(Unreadable::Invalid)?;
    let octets: [u8; N] = *rest.first_chunk().ok_or(Unreadable::Invalid)?;
    Ok(SocketAddr::new(IpAddr::from(octets), u16::from_be_bytes([ports[0], ports[1]])))
}

/// Reads a header of version 1.
fn version1(octets: &[u8]) -> Result<ProxyHeader, Unreadable> {
    let line = &octets[..octets.len().min(MAX_LINE)];
    let Some(end) = line.windows(2).position(|two| two == b"\r\n") else {
        return match line.len() {
            MAX_LINE => Err(Unreadable::Invalid),
            len => Err(Unreadable::Incomplete(len + 1)),
        };
    };
    let text = std::str::from_utf8(&line[..end]).map_err(|_| Unreadable::Invalid)?;
    let words: Vec<&str> = text.split(' ').collect();
    let client = match words[..] {
        ["PROXY", "UNKNOWN", ..] => None,
        ["PROXY", family @ ("TCP4" | "TCP6"), from, to, port, to_port] => {
            let [from, to] = [from, to].map(str::parse::<IpAddr>);
            let [port, to_port] = [port, to_port].map(str::parse::<u16>);
            let (Ok(from), Ok(to), Ok(port), Ok(_)) = (from, to, port, to_port) else {
                return Err(Unreadable::Invalid);
            };
            let v4 = family == "TCP4";
            if (from.is_ipv4(), to.is_ipv4()) != (v4, v4) {
                return Err(Unreadable::Invalid);
            }
            Some(SocketAddr::new(from, port))
        }
        _ => return Err(Unreadable::Invalid),
    };
    Ok(ProxyHeader { client, len: end + 2 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Makes a header of version 2.
    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut header = SIGNATURE.to_vec();
        header.extend_from_slice(&[command, family]);
        header.extend_from_slice(&(rest.len() as u16).to_be_bytes());
        header.extend_from_slice(rest);
        header
    }

    fn client(text: &str) -> Option<SocketAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn both_versions_name_the_client() {
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0xc3, 0x50, 0, 53];
        let mut v6 = [0; 36];
        (v6[0], v6[15], v6[31], v6[32]) = (0x20, 1, 2, 0xff);
        for (octets, expected) in [
            (header(0x21, 0x11, &v4), client("192.0.2.1:50000")),
            (header(0x21, 0x12, &[&v4[..], &[4, 0, 1, 0]].concat()), client("192.0.2.1:50000")),
            (header(0x21, 0x22, &v6), client("[2000::1]:65280")),
            (header(0x20, 0x00, &[]), None),
            (header(0x21, 0x00, &[1, 2, 3]), None),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 50000 53\r\n".to_vec(), client("192.0.2.1:50000")),
            (b"PROXY TCP6 2001:db8::1 ::1 1 53\r\n".to_vec(), client("[2001:db8::1]:1")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff:: ffff:: 1 1\r\n".to_vec(), None),
        ] {
            let len = octets.len();
            assert_eq!(read(&octets), Ok(ProxyHeader { client: expected, len }));
            let more = [&octets[..], b"query"].concat();
            assert_eq!(read(&more), Ok(ProxyHeader { client: expected, len }));
            // As much is asked for as is needed, never more than the header has.
            for part in 0..len {
                let Err(Unreadable::Incomplete(needed)) = read(&octets[..part]) else {
                    panic!("{part} of {octets:?}");
                };
                assert!(needed > part && needed <= len, "{needed} at {part} of {len}");
            }
        }
    }

    #[test]
    fn what_is_not_valid_is_refused() {
        for octets in [
            header(0x11, 0x11, &[0; 12]),
            header(0x22, 0x11, &[0; 12]),
            header(0x21, 0x13, &[0; 12]),
            header(0x21, 0x11, &[0; 11]),
            header(0x21, 0x21, &[0; 35]),
            header(0x20, 0, &[0; MAX_ADDRESS_OCTETS + 1]),
            b"PROXY TCP4 192.0.2.1 192.0.2.2 50000\r\n".to_vec(),
            b"PROXY TCP4 ::1 ::1 50000 53\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 192.0.2.2 70000 53\r\n".to_vec(),
            b"PROXY UDP4 192.0.2.1 192.0.2.2 7 53\r\n".to_vec(),
            [b"PROXY ".as_slice(), &[b'x'; 200]].concat(),
            b"\0\x1d\x12\x34\x01\0\0\x01".to_vec(),
        ] {
            assert_eq!(read(&octets), Err(Unreadable::Invalid), "{octets:?}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_read_or_refused(octets: Vec<u8>, version: bool, word: bool) {
            let start: &[u8] = if version { &SIGNATURE } else if word { V1_START } else { b"" };
            let octets = [start, &octets].concat();
            match read(&octets) {
                Ok(ProxyHeader { len, .. }) => prop_assert!(len <= octets.len()),
                Err(Unreadable::Incomplete(needed)) => {
                    prop_assert!(needed > octets.len() && needed <= V2_FIXED + MAX_ADDRESS_OCTETS);
                }
                Err(Unreadable::Invalid) => {}
            }
        }
    }
}
