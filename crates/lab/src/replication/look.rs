//! Queries to a server of a group: its serial, its keys, the sizes of its replies.

use std::io::{self, BufRead};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use experiment::Sizes;
use wire::message::{HEADER, Header, Record, question_end};
use wire::{Name, Qtype};

/// Time to wait for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of times that a query is sent.
const TRIES: u32 = 3;
/// Types of the queries.
const SOA: Qtype = Qtype(6);
const DNSKEY: Qtype = Qtype(48);
/// An OPT record for 1232 octets with DO (RFC 6891, RFC 3225).
const DO: [u8; 11] = [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0];

/// Returns the serial number of a zone in a server; `None` if it does not serve the zone.
pub(crate) fn serial(server: SocketAddr, zone: &Name) -> Option<u32> {
    let reply = ask(server, &query(zone, SOA, false)).ok()?;
    let soa = answers(&reply)?.into_iter().find(|record| record.rtype == SOA)?.rdata.to_vec();
    // After two names follow the serial and four more numbers (RFC 1035 section 3.3.13).
    let at = soa.len().checked_sub(20)?;
    Some(u32::from_be_bytes(soa.get(at..at + 4)?.try_into().ok()?))
}

/// Returns whether a server has keys of a zone.
pub(crate) fn has_keys(server: SocketAddr, zone: &Name) -> bool {
    let reply = ask(server, &query(zone, DNSKEY, false)).ok();
    let records = reply.as_deref().and_then(answers);
    records.is_some_and(|records| records.iter().any(|record| record.rtype == DNSKEY))
}

/// Returns the mean sizes of the first `most` queries of a file and of their replies over UDP, in octets; with or
/// without EDNS and DO.
pub(crate) fn sizes(
    server: SocketAddr,
    queries: impl BufRead,
    most: usize,
    dnssec: bool,
) -> io::Result<Sizes> {
    let (mut asked, mut sent, mut received) = (0_u32, 0, 0);
    for line in queries.lines().take(most) {
        let line = line?;
        let question = line.split_once(' ').and_then(|(name, qtype)| {
            Some((name.parse::<Name>().ok()?, qtype.parse::<Qtype>().ok()?))
        });
        let Some((name, qtype)) = question else { continue };
        let query = query(&name, qtype, dnssec);
        let reply = ask(server, &query)?;
        (asked, sent, received) = (asked + 1, sent + query.len(), received + reply.len());
    }
    let average = |octets: usize| octets as f64 / f64::from(asked.max(1));
    Ok(Sizes { query: average(sent), reply: average(received) })
}

/// Makes a query without recursion.
fn query(name: &Name, qtype: Qtype, dnssec: bool) -> Vec<u8> {
    let mut query = vec![0x2a, 0x2a, 0, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(dnssec)];
    query.extend_from_slice(name.as_wire());
    query.extend_from_slice(&qtype.0.to_be_bytes());
    query.extend_from_slice(&1_u16.to_be_bytes());
    if dnssec {
        query.extend_from_slice(&DO);
    }
    query
}

/// Queries up to [`TRIES`] times, each from a new socket, so that a late reply is never matched to a later query.
fn ask(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for _ in 0..TRIES {
        match ask_once(server, query) {
            Ok(reply) => return Ok(reply),
            Err(e) => last = e,
        }
    }
    Err(io::Error::new(last.kind(), format!("{server} does not answer: {last}")))
}

fn ask_once(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
    socket.send(query)?;
    let mut buffer = vec![0; 65_535];
    let length = socket.recv(&mut buffer)?;
    buffer.truncate(length);
    if buffer.len() >= HEADER && buffer[..2] == query[..2] && buffer[2] & 0x80 != 0 {
        return Ok(buffer);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "what came is no reply"))
}

/// Returns the answers of a reply without an error.
fn answers(reply: &[u8]) -> Option<Vec<Record<'_>>> {
    let header = Header::read(reply).filter(|header| header.rcode() == 0)?;
    let mut at = question_end(reply)?;
    let mut records = Vec::new();
    for _ in 0..header.counts[1] {
        let (record, end) = Record::read(reply, at)?;
        records.push(record);
        at = end;
    }
    Some(records)
}
