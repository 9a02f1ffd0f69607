//! Queries to a server of a group: its serial, its keys, the sizes of its replies.

use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::time::Duration;

use experiment::Sizes;
use wire::message::{Header, Record, question_end};
use wire::{Edns, Name, Qtype, QueryTemplate};

use crate::server::ready::exchange;

/// Time to wait for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of times that a query is sent.
const TRIES: u32 = 3;

/// Returns the serial number of a zone in a server; `None` if it does not serve the zone.
pub(crate) fn serial(server: SocketAddr, zone: &Name) -> Option<u32> {
    let reply = ask(server, &query(zone, Qtype::SOA, false)).ok()?;
    let soa =
        answers(&reply)?.into_iter().find(|record| record.rtype == Qtype::SOA)?.rdata.to_vec();
    // After two names follow the serial and four more numbers (RFC 1035 section 3.3.13).
    let at = soa.len().checked_sub(20)?;
    Some(u32::from_be_bytes(soa.get(at..at + 4)?.try_into().ok()?))
}

/// Returns whether a server has keys of a zone.
pub(crate) fn has_keys(server: SocketAddr, zone: &Name) -> bool {
    let reply = ask(server, &query(zone, Qtype::DNSKEY, false)).ok();
    let records = reply.as_deref().and_then(answers);
    records.is_some_and(|records| records.iter().any(|record| record.rtype == Qtype::DNSKEY))
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

/// Makes a query without recursion; with `dnssec` it has EDNS and DO.
fn query(name: &Name, qtype: Qtype, dnssec: bool) -> Vec<u8> {
    let edns = dnssec.then(|| Edns { dnssec_ok: true, ..Edns::default() });
    QueryTemplate::new(name, qtype, false, false, edns.as_ref()).bytes().to_vec()
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
    let reply = exchange(server, query, REPLY_TIMEOUT)?;
    let header = Header::read(&reply).filter(|header| header.is_response());
    match header {
        Some(header) if header.id.to_be_bytes() == query[..2] => Ok(reply),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "its message is not a reply")),
    }
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
