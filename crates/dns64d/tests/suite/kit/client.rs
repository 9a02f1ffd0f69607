//! A client whose queries are written as text: `www.example AAAA +do +tcp +from=127.0.0.2`.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use domain::base::iana::{Class, OptRcode};
use domain::base::{MessageBuilder, Name};

use super::message::{self, ECS, Edns, Reply};

/// A TSIG record (RFC 8945) of a key that no server knows.
const TSIG: &[u8] =
    b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x21\x0bhmac-sha256\0\0\0\0\0\0\x09\x01\x2c\0\x04abcd\
    \x12\x34\0\0\0\0";

/// A query and how it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) octets: Vec<u8>,
    pub(crate) tcp: bool,
    pub(crate) v6: bool,
    pub(crate) from: Option<IpAddr>,
}

impl Query {
    /// Reads `NAME TYPE` and options: `+do +cd +ad -rd +tcp +v6 +noedns +bufsize=N +version=N +ecs=NET +option=N +class=CH
    /// +from=ADDRESS +opcode=N +tsig`. EDNS with 1232 octets is the default.
    pub(crate) fn parse(text: &str) -> Self {
        let mut words = text.split_ascii_whitespace();
        let (name, rtype) = (words.next().expect("a name"), words.next().expect("a type"));
        let (name, rtype) = (name, message::question(&format!("{name} {rtype}")).1);
        let mut edns = Some(Edns { size: 1232, version: 0, dnssec: false, options: Vec::new() });
        let mut query = Query { octets: Vec::new(), tcp: false, v6: false, from: None };
        let mut builder = MessageBuilder::new_vec();
        let header = builder.header_mut();
        header.set_id(text.bytes().fold(0x1d1d, |id: u16, b| id.rotate_left(3) ^ u16::from(b)));
        header.set_rd(true);
        let (mut class, mut signed) = (Class::IN, false);
        for word in words {
            let (word, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || value.parse::<u16>().unwrap_or_else(|e| panic!("{text}: {e}"));
            match (word, &mut edns) {
                ("+cd", _) => header.set_cd(true),
                ("+ad", _) => header.set_ad(true),
                ("-rd", _) => header.set_rd(false),
                ("+opcode", _) => {
                    header.set_opcode(domain::base::iana::Opcode::from_int(number() as u8));
                }
                ("+tsig", _) => signed = true,
                ("+tcp", _) => query.tcp = true,
                ("+v6", _) => query.v6 = true,
                ("+from", _) => query.from = Some(value.parse().expect("an address")),
                ("+class", _) => class = value.parse().expect("a class"),
                ("+noedns", edns) => *edns = None,
                ("+do", Some(edns)) => edns.dnssec = true,
                ("+bufsize", Some(edns)) => edns.size = number(),
                ("+version", Some(edns)) => edns.version = number() as u8,
                ("+ecs", Some(edns)) => edns.options.push((ECS, message::ecs(value))),
                ("+option", Some(edns)) => edns.options.push((number(), vec![1, 2, 3, 4])),
                _ => panic!("{text}: {word} is not an option"),
            }
        }
        let mut question = builder.question();
        let name: Name<Vec<u8>> = name.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        question.push((name, rtype, class)).expect("a short message");
        let mut additional = question.additional();
        if let Some(edns) = &edns {
            message::push_opt(&mut additional, edns, OptRcode::NOERROR);
        }
        query.octets = additional.finish();
        if signed {
            query.octets[11] += 1;
            query.octets.extend_from_slice(TSIG);
        }
        query
    }

    /// Sends the query to `server` and waits for the reply, at most for `timeout`.
    pub(crate) fn ask(&self, server: SocketAddr, timeout: Duration) -> Option<Reply> {
        let octets = if self.tcp {
            let mut stream = TcpStream::connect(server).ok()?;
            stream.set_read_timeout(Some(timeout)).expect("a timeout");
            stream.write_all(&frame(&self.octets)).ok()?;
            read_frame(&mut stream)?
        } else {
            let any: IpAddr = if server.is_ipv6() { [0; 16].into() } else { [0; 4].into() };
            let socket = UdpSocket::bind((self.from.unwrap_or(any), 0)).expect("a free port");
            socket.connect(server).expect("loopback");
            socket.set_read_timeout(Some(timeout)).expect("a timeout");
            socket.send(&self.octets).expect("loopback");
            let mut room = vec![0; 65536];
            let len = socket.recv(&mut room).ok()?;
            room.truncate(len);
            room
        };
        let reply = Reply::parse(&octets);
        assert_eq!(
            reply.id,
            u16::from_be_bytes([self.octets[0], self.octets[1]]),
            "another's reply"
        );
        Some(reply)
    }
}

/// Returns a message with its length in front, as on a stream.
pub(crate) fn frame(octets: &[u8]) -> Vec<u8> {
    let mut framed = (octets.len() as u16).to_be_bytes().to_vec();
    framed.extend(octets);
    framed
}

/// Reads the next message of a stream; `None` at its end or after the timeout.
pub(crate) fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).ok()?;
    let mut octets = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut octets).ok()?;
    Some(octets)
}
