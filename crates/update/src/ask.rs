//! Questions to a server, one at a time.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use wire::message::{Record, name_at, question_end};
use wire::{Header, Name};

use crate::connection::Connection;

/// Time to wait for the reply to a query.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Type of the record at the top of a zone.
pub(crate) const SOA: u16 = 6;

/// Returns the zone of a name: the owner of the SOA record in the server's reply for it, or for the
/// names above, as for nsupdate; `None` without such a reply.
pub(crate) fn zone_of(server: SocketAddr, name: &Name) -> io::Result<Option<Name>> {
    let mut connection = Connection::to(server, false, PATIENCE)?;
    let mut above = name.as_wire();
    // A referral has no SOA record.
    while let Some(&label) = above.first() {
        let reply = ask(&mut connection, above, SOA)?;
        if let Some(zone) = soa_owner(&reply) {
            return Ok(Some(zone));
        }
        above = if label == 0 { &[] } else { &above[usize::from(label) + 1..] };
    }
    Ok(None)
}

/// Returns the owner of the first SOA record in the answer or the authority section.
fn soa_owner(reply: &[u8]) -> Option<Name> {
    let (header, mut at) = (Header::read(reply)?, question_end(reply)?);
    for _ in 0..u32::from(header.counts[1]) + u32::from(header.counts[2]) {
        let (record, end) = Record::read(reply, at)?;
        if record.rtype.0 == SOA {
            return name_at(reply, at);
        }
        at = end;
    }
    None
}

/// Sends a query without recursion.
pub(crate) fn ask(connection: &mut Connection, name: &[u8], rtype: u16) -> io::Result<Vec<u8>> {
    connection.ask(&question(name, rtype), PATIENCE)
}

fn question(name: &[u8], rtype: u16) -> Vec<u8> {
    // One query at a time on this socket, so any id will do.
    let mut query = vec![0x2a, 0x2a, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend_from_slice(name);
    query.extend_from_slice(&rtype.to_be_bytes());
    query.extend_from_slice(&1u16.to_be_bytes());
    query
}
