//! Look-up of updates in a server, each by the RRsets that it added or removed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use measure::{Histogram, Nanos};
use record::Durability;
use wire::message::{Record, flag, name_at, question_end};
use wire::{Header, Name};

use crate::ask::{PATIENCE, SOA, ask};
use crate::connection::Connection;
use crate::message::{self, is_kept_at_apex};
use crate::{Operation, StreamError, Update, UpdateReader};

/// Number of times that a query is sent.
const TRIES: u32 = 3;
/// Names of missing updates that are shown.
const EXAMPLES: usize = 10;
/// Longest lag that is measured, after the end of the updates and before it.
const LAST_LAG: Duration = Duration::from_secs(10);
const LONGEST_LAG: Duration = Duration::from_secs(60);
/// Largest number of updates that a secondary lacks and that are watched; further ones are not
/// watched.
pub(crate) const MAX_PENDING: usize = 1_024;
/// Interval between checks, shared by all secondaries: with many of them each is queried more
/// rarely, so that the load of their host does not grow.
pub(crate) const LOOK_ALL: Duration = Duration::from_millis(2);
/// Types of the records that are looked up.
const NS: u16 = 2;
const CNAME: u16 = 5;
const DNAME: u16 = 39;
const DS: u16 = 43;
const ANY: u16 = 255;
/// Types that may exist beside a CNAME record: KEY, RRSIG, NSEC.
const BESIDE_CNAME: [u16; 4] = [CNAME, 25, 46, 47];

/// Error while updates are looked up.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The stream of updates is not valid.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The server does not answer.
    #[error("cannot look updates up in {0}: {1}")]
    Server(SocketAddr, #[source] io::Error),
    /// The server does not answer for the zone in time.
    #[error("{server} does not serve {zone} within {limit:?} of its start")]
    NotServing {
        /// Address and port of the server.
        server: SocketAddr,
        /// Name of the zone.
        zone: String,
        /// Time limit, counted from the server's start.
        limit: Duration,
    },
    /// The server has ended; the caller's message.
    #[error("{0}")]
    Gone(String),
}

/// Looks up the updates of a stream for whose number (from 0) `wanted` returns true. A change that
/// a later update changed again is judged by that one; `open` reads the stream from its start.
pub fn check<R: BufRead>(
    server: SocketAddr,
    open: impl Fn() -> Result<UpdateReader<R>, StreamError>,
    wanted: impl Fn(u64) -> bool,
) -> Result<Durability, CheckError> {
    let mut last = Change::default();
    let (mut updates, mut number) = (open()?, 0);
    while let Some(update) = updates.next_update()? {
        if wanted(number) {
            last.add(&update);
        }
        number += 1;
    }
    let failed = |source| CheckError::Server(server, source);
    let mut connection = Connection::to(server, false, PATIENCE).map_err(failed)?;
    let mut found = Durability::default();
    let (mut updates, mut number) = (open()?, 0);
    while let Some(update) = updates.next_update()? {
        number += 1;
        if !wanted(number - 1) {
            continue;
        }
        found.acknowledged += 1;
        for ((name, rtype), set) in Change::by(&update).that_stayed(&last) {
            if !is_done(&mut connection, server, &name, rtype, &set).map_err(failed)? {
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

/// Waits until a server answers for a zone, as long as `is_alive` returns no error.
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
    /// Updates that the server never had while it was watched.
    pub unseen: u64,
}

/// Queries `server` for the updates, every `look`, until it has them.
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
        let there = pending.partition_point(|(changed, _): &(Change, Instant)| {
            changed.0.iter().all(|((name, rtype), set)| {
                look_up(&mut connection, server, name, *rtype)
                    .is_ok_and(|there| there.is_none_or(|there| set.fits(&there)))
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

/// Receives the acknowledged updates; waits for one if none is pending. Returns false at their end,
/// when none is pending.
fn take(updates: &Receiver<(Update, Instant)>, pending: &mut VecDeque<(Change, Instant)>) -> bool {
    let first = if pending.is_empty() { updates.recv().ok() } else { None };
    let room = MAX_PENDING.saturating_sub(pending.len());
    let come = first.into_iter().chain(updates.try_iter()).take(room);
    pending.extend(come.map(|(update, acknowledged)| (Change::by(&update), acknowledged)));
    !pending.is_empty()
}

/// Changes of an RRset by updates; its other records are unchanged.
#[derive(Clone, Debug, Default)]
struct ChangedSet {
    /// Whether the updates deleted all earlier records.
    cleared: bool,
    /// Whether the server has a record now, by the record's data.
    records: BTreeMap<Vec<u8>, bool>,
}

impl ChangedSet {
    /// Returns whether the records of a server can be the result of the updates.
    fn fits(&self, there: &BTreeSet<Vec<u8>>) -> bool {
        let expected = |data: &Vec<u8>| self.records.get(data).copied();
        self.records.iter().all(|(data, is_there)| there.contains(data) == *is_there)
            && (!self.cleared || there.iter().all(|data| expected(data) == Some(true)))
    }

    /// Returns whether a server lacks nothing but records that updates added.
    fn lacks_additions_only(&self, there: &BTreeSet<Vec<u8>>) -> bool {
        let added = self.records.iter().filter(|(_, is_there)| **is_there).map(|(data, _)| data);
        self.fits(&there.iter().chain(added).cloned().collect())
    }

    fn clear(&mut self) {
        *self = ChangedSet { cleared: true, records: BTreeMap::new() };
    }
}

/// Changes by updates, by name and type, names and data in lower case.
#[derive(Clone, Debug, Default)]
struct Change(BTreeMap<(Vec<u8>, u16), ChangedSet>);

impl Change {
    /// Returns the changes by an update.
    fn by(update: &Update) -> Self {
        let mut changed = Change::default();
        changed.add(update);
        changed
    }

    /// Adds the changes by a later update. The SOA and NS records of the zone's own name may be
    /// kept by a server, and an older SOA record replaces none (RFC 2136 sections 3.4.2.2 to
    /// 3.4.2.4).
    fn add(&mut self, update: &Update) {
        for (name, operation) in update.operations() {
            let name = name.to_ascii_lowercase();
            let at_apex = name.eq_ignore_ascii_case(update.zone().as_wire());
            let is_kept = |rtype: u16| at_apex && is_kept_at_apex(rtype);
            match operation {
                Operation::Add { rtype: SOA, .. } => {}
                Operation::Add { rtype, data, .. } => {
                    let set = self.0.entry((name, rtype)).or_default();
                    if matches!(rtype, CNAME | DNAME) {
                        // A name has one record of these types: the new one.
                        set.records.values_mut().for_each(|is_there| *is_there = false);
                    }
                    set.records.insert(data.to_ascii_lowercase(), true);
                }
                Operation::DeleteName => {
                    // The name may have had other records too; a delegation had these.
                    self.0.entry((name.clone(), NS)).or_default();
                    let all = self.0.range_mut((name.clone(), 0)..=(name, u16::MAX));
                    all.filter(|((_, rtype), _)| !is_kept(*rtype)).for_each(|(_, set)| set.clear());
                }
                Operation::DeleteRrset { rtype } | Operation::DeleteRecord { rtype, .. }
                    if is_kept(rtype) => {}
                Operation::DeleteRrset { rtype } => {
                    self.0.entry((name, rtype)).or_default().clear();
                }
                Operation::DeleteRecord { rtype, data } => {
                    let set = self.0.entry((name, rtype)).or_default();
                    set.records.insert(data.to_ascii_lowercase(), false);
                }
            }
        }
    }

    /// Returns the sets with the changes that remain after the `last` update.
    fn that_stayed<'a>(
        self,
        last: &'a Change,
    ) -> impl Iterator<Item = ((Vec<u8>, u16), ChangedSet)> + 'a {
        self.0.into_iter().filter_map(|(key, mut set)| {
            let after = last.0.get(&key)?;
            if set.cleared {
                // The server has records of later updates too.
                return Some((key, after.clone()));
            }
            set.records.retain(|data, is_there| after.records.get(data) == Some(is_there));
            Some((key, set))
        })
    }
}

/// Returns whether a server has the set of a name and type as updates left it. Additions beside a
/// CNAME record are ignored, and a CNAME record beside others (RFC 2136 section 3.4.2.2).
fn is_done(
    connection: &mut Connection,
    server: SocketAddr,
    name: &[u8],
    rtype: u16,
    set: &ChangedSet,
) -> io::Result<bool> {
    let Some(there) = look_up(connection, server, name, rtype)? else { return Ok(true) };
    if set.fits(&there) || !set.lacks_additions_only(&there) {
        return Ok(set.fits(&there));
    }
    let reply = ask(connection, name, if rtype == CNAME { ANY } else { CNAME })?;
    let is_beside = |other: u16| match rtype {
        CNAME => !BESIDE_CNAME.contains(&other),
        _ => other == CNAME && !BESIDE_CNAME.contains(&rtype),
    };
    let types = message::types_at(&reply, name).unwrap_or_default();
    Ok(types.into_iter().any(is_beside))
}

/// Returns a server's records of a name and type, in lower case, also from a referral; `None` if it
/// does not show them, since they are below a delegation.
fn look_up(
    connection: &mut Connection,
    server: SocketAddr,
    name: &[u8],
    rtype: u16,
) -> io::Result<Option<BTreeSet<Vec<u8>>>> {
    let mut tries = 0;
    let mut reply = loop {
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
    if Header::read(&reply).is_some_and(|header| header.is_truncated()) {
        reply = ask(&mut Connection::to(server, true, PATIENCE)?, name, rtype)?;
    }
    if is_hidden(&reply, name, rtype).unwrap_or(false) {
        return Ok(None);
    }
    let records = message::records_of(&reply, name, rtype);
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "a malformed reply");
    records.map(Some).ok_or_else(malformed)
}

/// Returns whether a reply refers to the servers of a delegation at or above a name, whose records it does not show: the name is none of
/// these servers.
fn is_hidden(reply: &[u8], name: &[u8], rtype: u16) -> Option<bool> {
    let (header, mut at) = (Header::read(reply)?, question_end(reply)?);
    let is_referral = header.rcode() == 0 && header.flags & flag::AA == 0 && header.counts[1] == 0;
    let mut hidden = false;
    for _ in 0..header.counts[2] {
        let (record, end) = Record::read(reply, at)?;
        if record.rtype.0 == NS {
            let (owner, target) = (name_at(reply, at)?, name_at(reply, record.rdata_at)?);
            if target.as_wire().eq_ignore_ascii_case(name) {
                return Some(false);
            }
            let front = wire::name::strip_suffix(name, owner.as_wire());
            hidden |= front.is_some_and(|f| !f.is_empty() || !matches!(rtype, NS | DS));
        }
        at = end;
    }
    Some(is_referral && hidden)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn updates(script: &str) -> Vec<Update> {
        let script = format!("zone test.\n{script}");
        let mut reader = UpdateReader::new(script.as_bytes(), Path::new("u")).expect("reads");
        std::iter::from_fn(|| reader.next_update().expect("valid")).collect()
    }

    /// Returns for each update whether the sets that it changed fit this one record set of each.
    fn fit(script: &str, there: &[&[u8]]) -> Vec<bool> {
        let updates = updates(script);
        let mut last = Change::default();
        updates.iter().for_each(|update| last.add(update));
        let there: BTreeSet<_> = there.iter().map(|data| data.to_vec()).collect();
        let fits = |update| Change::by(update).that_stayed(&last).all(|(_, set)| set.fits(&there));
        updates.iter().map(fits).collect()
    }

    #[test]
    fn an_update_is_judged_by_what_it_changed_and_what_stayed() {
        let (one, two): (&[u8], &[u8]) = (&[192, 0, 2, 1], &[192, 0, 2, 2]);
        let add = "add a.test. 5 A 192.0.2.1\nsend\n";
        let delete = "delete a.test. A 192.0.2.1\nsend\n";
        // Others may be in the set.
        assert_eq!(fit(add, &[one, two]), [true]);
        assert_eq!(fit(add, &[two]), [false]);
        // What a later update removed is not missed, but what it should have removed is seen.
        assert_eq!(fit(&format!("{add}{delete}"), &[two]), [true, true]);
        assert_eq!(fit(&format!("{add}{delete}"), &[one]), [true, false]);
        assert_eq!(fit(&format!("{add}delete a.test.\nsend\n"), &[]), [true, true]);
        assert_eq!(
            fit("delete a.test. A\nadd a.test. 5 A 192.0.2.1\nsend\n", &[one, two]),
            [false]
        );
        // The second record replaces the first, in the same update or in a later one.
        let (x, y): (&[u8], &[u8]) = (b"\x01x\0", b"\x01y\0");
        for rtype in ["CNAME", "DNAME"] {
            let [first, second] =
                ["x.", "y."].map(|target| format!("add a.test 5 {rtype} {target}\n"));
            assert_eq!(fit(&format!("{first}{second}send\n"), &[y]), [true]);
            assert_eq!(fit(&format!("{first}send\n{second}send\n"), &[y]), [true, true]);
            assert_eq!(fit(&format!("{first}send\n{second}send\n"), &[x]), [true, false]);
        }
        // A server keeps these.
        assert_eq!(fit("delete test. NS\ndelete test. SOA\nsend\n", &[one]), [true]);
    }
}
