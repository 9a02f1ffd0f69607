//! Look-up of updates in a server, each by the RRsets that it added or removed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use measure::{Histogram, Nanos};
use wire::Name;

use crate::connection::Connection;
use crate::{Operation, StreamError, Update, UpdateReader};

/// Time to wait for the reply to a query.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of times that a query is sent.
const TRIES: u32 = 3;
/// Names of missing updates that are shown.
const EXAMPLES: usize = 10;
/// Longest lag that is measured, after the end of the updates and before it.
const LAST_LAG: Duration = Duration::from_secs(10);
const LONGEST_LAG: Duration = Duration::from_secs(60);
/// Largest number of updates that a secondary lacks and that are watched; further ones are left out.
pub(crate) const PENDING: usize = 1_024;
/// Interval between the looks at all secondaries: each of many is queried more rarely, so that a host with many of
/// them has no more work.
pub(crate) const LOOK_ALL: Duration = Duration::from_millis(2);
/// The type NS.
const NS: u16 = 2;

/// Error while updates are looked up.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The stream of updates is not valid.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The server does not answer.
    #[error("cannot look updates up in {server}: {source}")]
    Server {
        /// The server.
        server: SocketAddr,
        /// The error of its socket.
        source: io::Error,
    },
    /// The server does not serve the zone in time.
    #[error("{server} does not serve {zone} within {limit:?} of its start")]
    NotServing {
        /// The server.
        server: SocketAddr,
        /// The zone.
        zone: String,
        /// The time limit.
        limit: Duration,
    },
    /// The server has ended; the caller's message.
    #[error("{0}")]
    Gone(String),
}

/// Updates looked up in a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Number of updates looked up.
    pub looked_up: u64,
    /// Number of updates that are not there.
    pub gone: u64,
    /// Names of the first updates that are not there.
    pub examples: Vec<String>,
}

/// An RRset as it must be.
type Rrsets = BTreeMap<(Vec<u8>, u16), BTreeSet<Vec<u8>>>;

/// Looks up the updates of a stream that `wanted` says yes to, by their number from 0.
pub fn check<R: BufRead>(
    server: SocketAddr,
    mut updates: UpdateReader<R>,
    wanted: impl Fn(u64) -> bool,
) -> Result<Checked, CheckError> {
    let failed = |source| CheckError::Server { server, source };
    let mut connection = Connection::to(server, false, PATIENCE).map_err(failed)?;
    let mut found = Checked::default();
    let mut number = 0;
    while let Some(update) = updates.next_update()? {
        number += 1;
        if !wanted(number - 1) {
            continue;
        }
        found.looked_up += 1;
        for ((name, rtype), records) in expected(&update) {
            let there = look_up(&mut connection, server, &name, rtype).map_err(failed)?;
            if there != records {
                found.gone += 1;
                if found.examples.len() < EXAMPLES {
                    let name =
                        Name::from_wire(&name).map_or_else(|e| e.to_string(), |n| n.to_string());
                    found.examples.push(name);
                }
                break;
            }
        }
    }
    Ok(found)
}

/// Waits until a server answers for a zone, as long as `is_alive` finds nothing wrong.
pub fn wait_ready(
    server: SocketAddr,
    zone: &Name,
    limit: Duration,
    mut is_alive: impl FnMut() -> Result<(), String>,
) -> Result<(), CheckError> {
    let until = Instant::now() + limit;
    loop {
        let asked = Connection::to(server, false, PATIENCE)
            .and_then(|mut connection| ask(&mut connection, zone.as_wire(), 6));
        match asked {
            Ok(reply) if reply[3] & 0x0f == 0 => return Ok(()),
            _ if Instant::now() > until => {
                let zone = zone.to_string();
                return Err(CheckError::NotServing { server, zone, limit });
            }
            _ => {
                is_alive().map_err(CheckError::Gone)?;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Lag of a secondary: the time until it has an update that its primary has acknowledged.
#[derive(Debug, Default)]
pub struct Lag {
    /// Times from the acknowledgement to the first right answer.
    pub times: Histogram,
    /// Updates it never had as long as it was watched.
    pub unseen: u64,
}

/// Looks in `server` for the updates that come, each `look` until they are there.
///
/// A secondary takes the versions of its zone in their order: where an update is there, those acknowledged before it
/// are there too. So a few queries tell how many of those that wait are there.
pub(crate) fn watch(
    server: SocketAddr,
    updates: Receiver<(Update, Instant)>,
    look: Duration,
    stop: &AtomicBool,
) -> Lag {
    let mut lag = Lag::default();
    let Ok(mut connection) = Connection::to(server, false, PATIENCE) else { return lag };
    let mut pending = VecDeque::new();
    while take(&updates, &mut pending) {
        let there = pending.partition_point(|(rrsets, _): &(Rrsets, Instant)| {
            rrsets.iter().all(|((name, rtype), records)| {
                look_up(&mut connection, server, name, *rtype).is_ok_and(|there| there == *records)
            })
        });
        for (_, acknowledged) in pending.drain(..there) {
            lag.times.record(Nanos::from(acknowledged.elapsed()));
        }
        let limit = if stop.load(Ordering::Relaxed) { LAST_LAG } else { LONGEST_LAG };
        while pending.front().is_some_and(|(_, acknowledged)| acknowledged.elapsed() > limit) {
            pending.pop_front();
            lag.unseen += 1;
        }
        if there == 0 {
            std::thread::sleep(look);
        }
    }
    lag
}

/// Takes the updates that have come; waits for one where none is pending. Returns false at their end, when none is
/// pending.
fn take(updates: &Receiver<(Update, Instant)>, pending: &mut VecDeque<(Rrsets, Instant)>) -> bool {
    let first = if pending.is_empty() { updates.recv().ok() } else { None };
    let room = PENDING.saturating_sub(pending.len());
    let come = first.into_iter().chain(updates.try_iter()).take(room);
    pending.extend(come.map(|(update, acknowledged)| (expected(&update), acknowledged)));
    !pending.is_empty()
}

/// Returns the RRsets after an update, in lower case.
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

/// Returns a server's records of a name and type, in lower case, also those of a referral.
fn look_up(
    connection: &mut Connection,
    server: SocketAddr,
    name: &[u8],
    rtype: u16,
) -> io::Result<BTreeSet<Vec<u8>>> {
    let mut tries = 0;
    let reply = loop {
        match ask(connection, name, rtype) {
            Ok(reply) => break reply,
            Err(error) => {
                tries += 1;
                if tries == TRIES {
                    return Err(error);
                }
                *connection = Connection::to(server, false, PATIENCE)?;
            }
        }
    };
    let records = crate::message::records_of(&reply, name, rtype);
    records.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a malformed reply"))
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
