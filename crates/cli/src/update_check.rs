//! Whether updates are in a server: each is looked up by the RRsets it made or took away.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use measure::{Histogram, Nanos};
use record::Durability;
use update::{Operation, Update, UpdateReader};
use wire::{Name, Qtype};

use crate::update_send::Connection;

/// How long a server may take to answer a query.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a query is asked.
const TRIES: u32 = 3;
/// Names of missing updates that are shown.
const EXAMPLES: usize = 10;
/// How long a secondary may lag before it is given up; after the queries ended, and before.
const LAST_LAG: Duration = Duration::from_secs(10);
const LONGEST_LAG: Duration = Duration::from_secs(60);
/// How often it is asked.
const LOOK: Duration = Duration::from_millis(2);
/// The type NS.
const NS: u16 = 2;

/// An RRset as it must be.
type Rrsets = BTreeMap<(Vec<u8>, u16), BTreeSet<Vec<u8>>>;

/// Looks up the updates of a stream that `wanted` says yes to, by their number from 0.
pub(crate) fn check<R: BufRead>(
    server: SocketAddr,
    mut updates: UpdateReader<R>,
    wanted: impl Fn(u64) -> bool,
) -> anyhow::Result<Durability> {
    let mut connection = Connection::to(server, false, PATIENCE)?;
    let mut found = Durability { acknowledged: 0, gone: 0, examples: Vec::new() };
    let mut number = 0;
    while let Some(update) = updates.next_update()? {
        number += 1;
        if !wanted(number - 1) {
            continue;
        }
        found.acknowledged += 1;
        for ((name, rtype), records) in expected(&update) {
            let there = look_up(&mut connection, server, &name, rtype)
                .with_context(|| format!("cannot look updates up in {server}"))?;
            if there != records {
                found.gone += 1;
                if found.examples.len() < EXAMPLES {
                    found.examples.push(Name::from_wire(&name)?.to_string());
                }
                break;
            }
        }
    }
    Ok(found)
}

/// Waits until a server answers for a zone, as long as `is_alive` finds nothing wrong.
pub(crate) fn wait_ready(
    server: SocketAddr,
    zone: &Name,
    limit: Duration,
    mut is_alive: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let until = Instant::now() + limit;
    loop {
        let asked = Connection::to(server, false, PATIENCE)
            .and_then(|mut connection| ask(&mut connection, zone.as_wire(), 6));
        match asked {
            Ok(reply) if reply[3] & 0x0f == 0 => return Ok(()),
            _ if Instant::now() > until => {
                return Err(anyhow!(
                    "{server} does not serve {zone} within {limit:?} of its start"
                ));
            }
            _ => {
                is_alive()?;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// How long a secondary took to have what its primary had acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    pub(crate) times: Histogram,
    /// Updates it never had as long as it was watched.
    pub(crate) unseen: u64,
}

/// Looks in `server` for each update that comes, again and again until it is there.
pub(crate) fn watch(
    server: SocketAddr,
    updates: Receiver<(Update, Instant)>,
    stop: &AtomicBool,
) -> Lag {
    let mut lag = Lag::default();
    let Ok(mut connection) = Connection::to(server, false, PATIENCE) else { return lag };
    for (update, acknowledged) in updates {
        let rrsets = expected(&update);
        let mut is_there = || {
            rrsets.iter().all(|((name, rtype), records)| {
                look_up(&mut connection, server, name, *rtype).is_ok_and(|there| there == *records)
            })
        };
        let limit = acknowledged + LONGEST_LAG;
        loop {
            if is_there() {
                lag.times.record(Nanos::from(acknowledged.elapsed()));
                break;
            }
            let over = stop.load(Ordering::Relaxed) && acknowledged.elapsed() > LAST_LAG;
            if over || Instant::now() > limit {
                lag.unseen += 1;
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
    lag
}

/// The serial number of a zone in a server.
pub(crate) fn serial(server: SocketAddr, zone: &str) -> Option<u32> {
    let records = records(server, zone, 6)?;
    let soa = records.first()?;
    // Behind two names stand the serial and four more numbers (RFC 1035 section 3.3.13).
    let at = soa.len().checked_sub(20)?;
    Some(u32::from_be_bytes(soa.get(at..at + 4)?.try_into().ok()?))
}

/// Whether a server has records of a type at the zone's apex.
pub(crate) fn has_records(server: SocketAddr, zone: &str, rtype: u16) -> bool {
    records(server, zone, rtype).is_some_and(|records| !records.is_empty())
}

fn records(server: SocketAddr, zone: &str, rtype: u16) -> Option<BTreeSet<Vec<u8>>> {
    let name: Name = zone.parse().ok()?;
    let mut connection = Connection::to(server, false, PATIENCE).ok()?;
    let reply = ask(&mut connection, name.as_wire(), rtype).ok()?;
    update::message::records_of(&reply, name.as_wire(), rtype)
}

/// The average octets of queries from a file and of their replies, over UDP; with EDNS and DO, or without.
pub(crate) fn average_sizes(
    server: SocketAddr,
    queries: impl BufRead,
    most: usize,
    dnssec: bool,
) -> anyhow::Result<(f64, f64)> {
    let mut connection = Connection::to(server, false, PATIENCE)?;
    let (mut asked, mut sent, mut received) = (0, 0, 0);
    for line in queries.lines().take(most) {
        let line = line?;
        let Some((name, rtype)) = line.split_once(' ') else { continue };
        let (name, rtype): (Name, Qtype) = (name.parse()?, rtype.parse()?);
        let mut query = question(name.as_wire(), rtype.0);
        if dnssec {
            // An OPT record for 1232 octets with DO (RFC 6891, RFC 3225).
            query[11] = 1;
            query.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
        }
        let mut tries = 1..TRIES;
        let reply = loop {
            match connection.ask(&query, PATIENCE) {
                Ok(reply) => break reply,
                // A late reply must not be taken for the next.
                Err(_) if tries.next().is_some() => {
                    connection = Connection::to(server, false, PATIENCE)?;
                }
                Err(error) => return Err(error.into()),
            }
        };
        (asked, sent, received) = (asked + 1, sent + query.len(), received + reply.len());
    }
    let average = |octets: usize| octets as f64 / f64::max(1.0, f64::from(asked));
    Ok((average(sent), average(received)))
}

/// The RRsets that an update leaves, in lower case.
fn expected(update: &Update) -> Rrsets {
    let mut rrsets = Rrsets::new();
    for (name, operation) in update.operations() {
        let name = name.to_ascii_lowercase();
        match operation {
            Operation::Add { rtype, data, .. } => {
                rrsets.entry((name, rtype)).or_default().insert(data.to_ascii_lowercase());
            }
            // Whatever else it had: a delegation had these.
            Operation::DeleteName => drop(rrsets.insert((name, NS), BTreeSet::new())),
            Operation::DeleteRrset { rtype } => {
                drop(rrsets.insert((name, rtype), BTreeSet::new()));
            }
            Operation::DeleteRecord { rtype, data } => {
                if let Some(records) = rrsets.get_mut(&(name, rtype)) {
                    records.remove(&data.to_ascii_lowercase());
                }
            }
        }
    }
    rrsets
}

/// The records of a name and type that a server has, in lower case; it may say so in a referral.
fn look_up(
    connection: &mut Connection,
    server: SocketAddr,
    name: &[u8],
    rtype: u16,
) -> anyhow::Result<BTreeSet<Vec<u8>>> {
    let mut tries = 0;
    let reply = loop {
        match ask(connection, name, rtype) {
            Ok(reply) => break reply,
            Err(error) => {
                tries += 1;
                if tries == TRIES {
                    return Err(error.into());
                }
                *connection = Connection::to(server, false, PATIENCE)?;
            }
        }
    };
    let records = update::message::records_of(&reply, name, rtype);
    records.ok_or_else(|| anyhow!("a malformed reply"))
}

/// Asks a question without recursion.
fn ask(connection: &mut Connection, name: &[u8], rtype: u16) -> io::Result<Vec<u8>> {
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
