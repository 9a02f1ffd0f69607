//! Rules about several records of a zone: named does not load a zone that breaks one.
//!
//! The reader reads each record on its own, so that a part of a zone can also be read. The rules
//! are the errors of named-checkzone, not its warnings. CDS records are not compared with keys, and
//! a record counts twice that repeats one of more than a million records before it.

use std::collections::HashMap;
use std::io::Read;
use std::iter::successors;

use domain::base::Rtype;
use wire::Name;
use wire::name::order::compare;
use wire::name::strip_suffix;

use crate::recorded::Recorded;
use crate::stats::count::NameCount;
use crate::{Reader, ZoneFileError};

/// Largest number of names of a zone that is checked, about 150 octets each.
const MAX_NAMES: usize = 1 << 23;

/// A rule about the records of one name: returns the error if the name breaks it. The name is
/// relative to the zone's own.
type Rule = (fn(&NameCount, &[u8]) -> bool, &'static str);

/// The rules about one name.
const RULES: [Rule; 6] = [
    (
        |sets, front| sets.servers == 0 && front.is_empty(),
        "no NS record: a zone needs the names of its servers",
    ),
    (|sets, _| sets.aliases > 0 && sets.others, "a CNAME record and other data: leave one of them"),
    (|sets, _| sets.aliases > 1, "several CNAME records: leave one"),
    (|sets, _| sets.dnames > 1, "several DNAME records: leave one"),
    (
        |sets, front| sets.servers > 0 && front.starts_with(b"\x01*"),
        "NS records of a wildcard: write each delegation",
    ),
    (
        |sets, front| sets.secure && front.is_empty(),
        "a DS record of the zone's own name: it belongs to the zone above",
    ),
];

/// Reason why a name server is invalid: one of the zone whose name is in the zone.
const NO_ADDRESS: &str = "a server of the zone without address: add an A or AAAA record";
const ALIAS: &str = "a server of the zone that is an alias (CNAME): write its own name";
const BELOW_DNAME: &str = "a server of the zone below a DNAME record: write its own name";

/// Returns the names that break a rule, with the error, in canonical order.
///
/// # Errors
/// If the zone file is invalid, or has more than 8,388,608 names.
pub fn check<R: Read>(zone: &mut Reader<R>) -> Result<Vec<(Name, &'static str)>, ZoneFileError> {
    let (mut recorded, mut names, mut servers) =
        (Recorded::default(), Names::default(), Vec::<Box<[u8]>>::new());
    while zone.next_record()?.is_some() {
        let (Some(apex), Some(record)) = (zone.apex(), zone.record()) else { break };
        if !recorded.add(record) {
            continue;
        }
        let (owner, data) = recorded.last();
        // The reader leaves out records that are not in the zone.
        let Some(front) = strip_suffix(owner, apex.as_wire()) else { continue };
        if front.is_empty() && record.rtype() == Rtype::NS {
            servers.push(data.into());
        }
        names.count(front, record.rtype());
        if names.0.len() > MAX_NAMES {
            let path = zone.path().to_owned();
            return Err(ZoneFileError::TooManyNames { path, most: MAX_NAMES });
        }
    }
    let apex = zone.apex().copied().unwrap_or(Name::ROOT);
    let whole = |front: &[u8]| Name::from_wire(&[front, apex.as_wire()].concat()).ok();
    let mut wrong = Vec::new();
    for (front, sets) in &names.0 {
        for (breaks, what) in RULES {
            if breaks(sets, front) {
                wrong.extend(whole(front).zip(Some(what)));
            }
        }
    }
    for front in servers.iter().filter_map(|server| strip_suffix(server, apex.as_wire())) {
        wrong.extend(whole(front).zip(names.unfit_server(front)));
    }
    wrong.sort_by(|(a, _), (b, _)| compare(a.as_wire(), b.as_wire()));
    Ok(wrong)
}

/// The names of a zone, including empty non-terminals; each relative to the zone's own, in lower
/// case.
#[derive(Debug, Default)]
struct Names(HashMap<Box<[u8]>, NameCount>);

impl Names {
    /// Counts a record.
    fn count(&mut self, front: &[u8], rtype: Rtype) {
        let mut name = front;
        while !self.0.contains_key(name) {
            self.0.insert(name.into(), NameCount::default());
            name = above(name);
        }
        if let Some(sets) = self.0.get_mut(front) {
            sets.count(rtype);
        }
    }

    /// Returns why no address of a server is found in the zone; `None` also for one below a
    /// delegation, whose address another zone has.
    fn unfit_server(&self, front: &[u8]) -> Option<&'static str> {
        let names: Vec<&[u8]> =
            successors(Some(front), |&name| (!name.is_empty()).then_some(above(name))).collect();
        let mut encloser: &[u8] = &[];
        for &name in names.iter().rev() {
            match self.0.get(name) {
                Some(sets) if sets.servers > 0 && !name.is_empty() => return None,
                Some(sets) if name.len() == front.len() => return unfit(sets),
                Some(sets) if sets.dnames > 0 => return Some(BELOW_DNAME),
                Some(_) => encloser = name,
                None => break,
            }
        }
        // The wildcard of the closest name above (RFC 4592 section 3.3.1).
        let wildcard = [&b"\x01*"[..], encloser].concat();
        self.0.get(&wildcard[..]).map_or(Some(NO_ADDRESS), unfit)
    }
}

/// Returns why a name with these records cannot be a server of its zone.
fn unfit(sets: &NameCount) -> Option<&'static str> {
    match (sets.addresses, sets.aliases) {
        (1.., _) => None,
        (_, 1..) => Some(ALIAS),
        _ => Some(NO_ADDRESS),
    }
}

/// Returns the parent of a name, both relative to the zone's own; the zone's own is empty.
fn above(front: &[u8]) -> &[u8] {
    front.split_first().map_or(front, |(&len, rest)| &rest[usize::from(len)..])
}
