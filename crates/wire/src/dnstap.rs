//! dnstap: messages with their times, clients and servers, in protocol buffers (<https://dnstap.info>).
//!
//! ```text
//! frame     of a frame stream (crate::frame_stream)
//!   identity (1)  version (2)  type (15): MESSAGE
//!   message (14)
//!     type (1)  family (2)  protocol (3)  client (4, 6)  server (5, 7)  times (8, 9, 12, 13)  octets (10, 14)
//! ```
//!
//! Reading skips fields that are not known. Both directions have one copy of the messages' octets at most.

use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

/// Number of a frame's type that has a message.
const MESSAGE_TYPE: u64 = 1;
/// Longest varint of protocol buffers, in octets.
const MAX_VARINT: usize = 10;
const NS_PER_S: u32 = 1_000_000_000;

/// The kind of a message: its sender and receiver (`Message.Type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind(pub u32);

impl Kind {
    /// A client's query, received by a resolver.
    pub const CLIENT_QUERY: Kind = Kind(5);
    /// The answer of a resolver to its client.
    pub const CLIENT_RESPONSE: Kind = Kind(6);

    /// Returns whether the message is a query: queries and responses take turns in the numbers.
    pub fn is_query(self) -> bool {
        self.0 % 2 == 1
    }
}

/// The transport of a message (`SocketProtocol`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocol(pub u32);

impl Protocol {
    /// DNS over UDP (RFC 1035).
    pub const UDP: Protocol = Protocol(1);
    /// DNS over TCP (RFC 7766).
    pub const TCP: Protocol = Protocol(2);
    /// DNS over TLS (RFC 7858).
    pub const DOT: Protocol = Protocol(3);
    /// DNS over HTTPS, of any version of HTTP.
    pub const DOH: Protocol = Protocol(4);
    /// DNSCrypt over TCP, a protocol without an RFC.
    pub const DNSCRYPT_TCP: Protocol = Protocol(6);
    /// DNS over QUIC (RFC 9250).
    pub const DOQ: Protocol = Protocol(7);

    /// Returns whether messages travel over TCP.
    pub fn is_tcp(self) -> bool {
        [Self::TCP, Self::DOT, Self::DOH, Self::DNSCRYPT_TCP].contains(&self)
    }
}

/// A message with the server's data about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// The sender and the receiver of the message.
    pub kind: Kind,
    /// Transport of the message; 0 if not stated.
    pub protocol: Protocol,
    /// Address of the querying side.
    pub client: Option<IpAddr>,
    /// Address of the side that answers.
    pub server: Option<IpAddr>,
    /// Port of the querying side.
    pub client_port: Option<u16>,
    /// Port of the side that answers.
    pub server_port: Option<u16>,
    /// Time of the query, since 1970.
    pub query_time: Option<Duration>,
    /// The query as on the wire; `None` if the server omitted it.
    pub query: Option<&'a [u8]>,
    /// Time of the response, since 1970.
    pub response_time: Option<Duration>,
    /// The response as on the wire; `None` if the server omitted it.
    pub response: Option<&'a [u8]>,
}

/// Error of octets that are no protocol buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a frame of dnstap is damaged at octet {at} of a part of {len}")]
pub struct Malformed {
    /// Offset of the damaged field in the frame or message.
    pub at: usize,
    /// Length of the frame, or of the message in it.
    pub len: usize,
}

impl<'a> Message<'a> {
    /// Appends a frame with the message. `identity` and `version` are the server's; an empty one is
    /// omitted.
    pub fn write(&self, identity: &[u8], version: &[u8], to: &mut Vec<u8>) {
        for (field, value) in [(1, identity), (2, version)] {
            if !value.is_empty() {
                bytes(field, value, to);
            }
        }
        let start = to.len();
        self.write_body(to);
        // The length stands in front, and is known only after the content.
        let body = to.len() - start;
        to.push(14 << 3 | 2);
        varint(body as u64, to);
        let head = to.len() - start - body;
        to[start..].rotate_right(head);
        number(15, MESSAGE_TYPE, to);
    }

    fn write_body(&self, to: &mut Vec<u8>) {
        number(1, self.kind.0.into(), to);
        if let Some(one) = self.client.or(self.server) {
            number(2, if one.is_ipv4() { 1 } else { 2 }, to);
        }
        number(3, self.protocol.0.into(), to);
        for (field, address) in [(4, self.client), (5, self.server)] {
            match address {
                Some(IpAddr::V4(address)) => bytes(field, &address.octets(), to),
                Some(IpAddr::V6(address)) => bytes(field, &address.octets(), to),
                None => {}
            }
        }
        for (field, port) in [(6, self.client_port), (7, self.server_port)] {
            port.into_iter().for_each(|port| number(field, port.into(), to));
        }
        for (field, at, octets) in
            [(8, self.query_time, self.query), (12, self.response_time, self.response)]
        {
            at.into_iter().for_each(|at| time(field, at, to));
            octets.into_iter().for_each(|octets| bytes(field + 2, octets, to));
        }
    }

    /// Reads a frame; `None` if it has no message.
    ///
    /// # Errors
    /// If the frame or the message in it is damaged.
    pub fn read(frame: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let (mut kind, mut body) = (0, None);
        let mut fields = Fields { octets: frame, at: 0 };
        while let Some(field) = fields.next()? {
            match field {
                (14, Value::Octets(octets)) => body = Some(octets),
                (15, Value::Number(number)) => kind = number,
                _ => {}
            }
        }
        match body {
            Some(body) if kind == MESSAGE_TYPE => Self::read_body(body).map(Some),
            _ => Ok(None),
        }
    }

    fn read_body(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut message = Message::default();
        let mut fields = Fields { octets: body, at: 0 };
        while let Some((field, value)) = fields.next()? {
            match value {
                Value::Octets(octets) => match field {
                    4 => message.client = address(octets),
                    5 => message.server = address(octets),
                    10 => message.query = Some(octets),
                    14 => message.response = Some(octets),
                    _ => {}
                },
                Value::Number(number) => message.set_number(field, number),
                Value::Other => {}
            }
        }
        Ok(message)
    }

    /// Sets a field that has a number; a field of another type is ignored.
    fn set_number(&mut self, field: u32, number: u64) {
        let port = || u16::try_from(number).ok();
        match field {
            1 => self.kind = Kind(u32::try_from(number).unwrap_or(0)),
            3 => self.protocol = Protocol(u32::try_from(number).unwrap_or(0)),
            6 => self.client_port = port(),
            7 => self.server_port = port(),
            8 | 9 => set_time(&mut self.query_time, field == 8, number),
            12 | 13 => set_time(&mut self.response_time, field == 12, number),
            _ => {}
        }
    }
}

/// Sets the seconds or the nanoseconds of a time.
fn set_time(time: &mut Option<Duration>, seconds: bool, number: u64) {
    let known = time.unwrap_or_default();
    *time = Some(match seconds {
        true => Duration::new(number, known.subsec_nanos()),
        // More nanoseconds than a second are an error of the server.
        false => Duration::new(known.as_secs(), (number as u32).min(NS_PER_S - 1)),
    });
}

/// Returns the address in these octets.
fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(octets).ok().map(IpAddr::from)
}

/// The value of a field.
enum Value<'a> {
    /// A varint, or a fixed number of 32 bits.
    Number(u64),
    /// Octets with their length in front: a string or a message.
    Octets(&'a [u8]),
    /// A fixed number of 64 bits, which no field here has.
    Other,
}

/// Fields of protocol buffers, one after the other.
struct Fields<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// Returns the next field with its number; `None` at the end.
    fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.at == self.octets.len() {
            return Ok(None);
        }
        let error = Malformed { at: self.at, len: self.octets.len() };
        self.field().map(Some).ok_or(error)
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let key = self.varint()?;
        let field = u32::try_from(key >> 3).ok().filter(|field| *field > 0)?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Other)?,
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                Value::Octets(self.take(len)?)
            }
            5 => Value::Number(u32::from_le_bytes(*self.take(4)?.first_chunk()?).into()),
            _ => return None,
        };
        Some((field, value))
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.octets.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..MAX_VARINT {
            let octet = *self.octets.get(self.at)?;
            self.at += 1;
            // Bits above the 64th are lost, as the format specifies.
            value |= u64::from(octet & 0x7f).checked_shl(7 * place as u32).unwrap_or(0);
            if octet & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Appends seconds, and in the next field nanoseconds as a fixed number of 32 bits.
fn time(field: u8, time: Duration, to: &mut Vec<u8>) {
    number(field, time.as_secs(), to);
    to.push((field + 1) << 3 | 5);
    to.extend_from_slice(&time.subsec_nanos().to_le_bytes());
}

/// Appends a number of variable length.
fn number(field: u8, value: u64, to: &mut Vec<u8>) {
    to.push(field << 3);
    varint(value, to);
}

/// Appends octets with their length.
fn bytes(field: u8, value: &[u8], to: &mut Vec<u8>) {
    to.push(field << 3 | 2);
    varint(value.len() as u64, to);
    to.extend_from_slice(value);
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value > 0x7f {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_of_unbound_is_read() {
        // CLIENT_QUERY over UDP from 127.0.0.1:4000 to 127.0.0.1:53 at 1700000000.5, a query of three octets.
        let body = [
            &[0x08, 5, 0x10, 1, 0x18, 1, 0x22, 4, 127, 0, 0, 1, 0x2a, 4, 127, 0, 0, 1][..],
            &[0x30, 0xa0, 0x1f, 0x38, 53, 0x40, 0x80, 0xe2, 0xcf, 0xaa, 0x06],
            &[0x4d, 0x00, 0x65, 0xcd, 0x1d, 0x52, 3, 1, 2, 3],
            // The zone of the query, which is not used.
            &[0x5a, 1, 0],
        ]
        .concat();
        let head = [0x0a, 2, b'm', b'e', 0x12, 1, b'v', 0x72, body.len() as u8];
        let frame = [&head[..], &body, &[0x78, 1]].concat();
        let local: IpAddr = [127, 0, 0, 1].into();
        let message = Message {
            kind: Kind::CLIENT_QUERY,
            protocol: Protocol::UDP,
            client: Some(local),
            server: Some(local),
            client_port: Some(4_000),
            server_port: Some(53),
            query_time: Some(Duration::new(1_700_000_000, 500_000_000)),
            query: Some(&[1, 2, 3]),
            ..Message::default()
        };
        assert_eq!(Message::read(&frame), Ok(Some(message)));
        let mut written = Vec::new();
        message.write(b"me", b"v", &mut written);
        assert_eq!(written.len(), frame.len() - 3, "without the zone");
        assert_eq!(Message::read(&written), Ok(Some(message)));
        // A frame of another type, and one that is cut.
        assert_eq!(Message::read(&[0x78, 2]), Ok(None));
        assert!(Message::read(&frame[..frame.len() - 3]).is_err());
    }

    /// Makes any message whose octets are `octets`.
    fn message(numbers: [u32; 4], v6: bool, has: [bool; 6], octets: &[u8]) -> Message<'_> {
        let [kind, protocol, port, seconds] = numbers;
        let address = |last: u32| match v6 {
            true => IpAddr::from(u128::from(last).to_be_bytes()),
            false => IpAddr::from(last.to_be_bytes()),
        };
        let at = |more: u64| Duration::new(u64::from(seconds) + more, port % NS_PER_S);
        Message {
            kind: Kind(kind),
            protocol: Protocol(protocol),
            client: has[0].then(|| address(kind)),
            server: has[1].then(|| address(port)),
            client_port: has[2].then_some(port as u16),
            server_port: has[3].then_some(kind as u16),
            query_time: has[4].then(|| at(0)),
            query: has[4].then_some(octets),
            response_time: has[5].then(|| at(1)),
            response: has[5].then_some(octets),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            numbers: [u32; 4], v6: bool, has: [bool; 6], octets: Vec<u8>, identity: Vec<u8>, before: Vec<u8>
        ) {
            let message = message(numbers, v6, has, &octets);
            let mut written = before.clone();
            message.write(&identity, b"", &mut written);
            prop_assert_eq!(&written[..before.len()], &before[..]);
            let frame = &written[before.len()..];
            prop_assert_eq!(Message::read(frame), Ok(Some(message)));
            // Cut anywhere, it is damaged or has no message.
            for len in 0..frame.len() {
                prop_assert!(!matches!(Message::read(&frame[..len]), Ok(Some(_))), "{}", len);
            }
        }

        #[test]
        fn any_octets_are_read_or_refused(octets: Vec<u8>) {
            let _ = Message::read(&octets);
            let _ = Message::read_body(&octets);
        }
    }
}
