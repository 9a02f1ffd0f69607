//! Zones of a stream that cannot be updated.

use wire::Name;

use crate::outcome::rcode_name;

/// The most zones that are remembered; updates of further ones are all sent.
const MAX_ZONES: usize = 100;
/// Number of consecutive skipped updates after which sending ends, if no zone seen can be updated.
const MAX_SKIPPED: u64 = 10_000;
/// Number of updates of a zone that are refused, and none acknowledged, after which it cannot be
/// updated: a server may also refuse one update for its name, or for the resulting zone.
const MAX_REFUSED: u32 = 5;
const NOERROR: u8 = 0;
const REFUSED: u8 = 5;
/// RCODEs that every further update of the zone would get too.
const PERMANENT_ERRORS: [(u8, &str); 3] = [
    (4, "the server does not support dynamic updates"),
    (
        REFUSED,
        "the server refuses updates from here: is the key, or this address, allowed to update the zone?",
    ),
    (9, "the server is not authoritative for the zone, or does not let this key update it"),
];

/// The zones seen so far.
#[derive(Default)]
pub(crate) struct SeenZones {
    zones: Vec<Zone>,
    /// Updates skipped since the last sent one.
    in_a_row: u64,
    skipped: u64,
    /// The first error of a zone beyond [`MAX_ZONES`].
    unlisted: Option<u8>,
}

/// Returns the error in words if every further update of the zone would get it too.
fn permanent(error: u8) -> Option<String> {
    let (_, why) = PERMANENT_ERRORS.into_iter().find(|(known, _)| *known == error)?;
    Some(format!("{}: {why}", rcode_name(error)))
}

/// A zone, and the server's replies to its updates.
struct Zone {
    name: Name,
    /// The RCODE of all replies to its updates if it cannot be updated.
    error: Option<u8>,
    acknowledged: bool,
    refused: u32,
}

impl Zone {
    /// Returns why the zone could not be updated so far; `None` if it could.
    fn why(&self) -> Option<String> {
        let refused = self.refused > 0 && !self.acknowledged;
        permanent(self.error.or_else(|| refused.then_some(REFUSED))?)
    }
}

impl SeenZones {
    /// Notes an update; returns the RCODE of its zone if the update is to be skipped.
    pub(crate) fn next(&mut self, zone: &Name) -> Option<u8> {
        let found = self.zones.iter().find(|seen| seen.name == *zone);
        if found.is_none() && self.zones.len() < MAX_ZONES {
            let (name, error) = (*zone, None);
            self.zones.push(Zone { name, error, acknowledged: false, refused: 0 });
            self.in_a_row = 0;
            return None;
        }
        let rcode = found.and_then(|zone| zone.error);
        if rcode.is_some() {
            self.in_a_row += 1;
            self.skipped += 1;
        } else {
            self.in_a_row = 0;
        }
        rcode
    }

    /// Notes a reply.
    pub(crate) fn reply(&mut self, zone: &Name, rcode: u8) {
        let Some(zone) = self.zones.iter_mut().find(|seen| seen.name == *zone) else {
            self.unlisted = self.unlisted.or(permanent(rcode).and(Some(rcode)));
            return;
        };
        zone.acknowledged |= rcode == NOERROR;
        zone.refused += u32::from(rcode == REFUSED);
        let is_permanent = match rcode {
            REFUSED => zone.refused >= MAX_REFUSED && !zone.acknowledged,
            _ => permanent(rcode).is_some(),
        };
        if is_permanent {
            zone.error = Some(rcode);
        }
    }

    /// Whether sending ends: many updates were skipped, and none was for another zone.
    pub(crate) fn is_over(&self) -> bool {
        self.in_a_row >= MAX_SKIPPED && self.zones.iter().all(|zone| zone.error.is_some())
    }

    /// Returns why a zone could not be updated.
    pub(crate) fn why(&self) -> Option<String> {
        let why = self.zones.iter().find_map(Zone::why);
        let why = why.or_else(|| self.unlisted.and_then(permanent))?;
        Some(match self.skipped {
            0 => why,
            skipped => format!("{why} ({skipped} updates were not sent for this reason)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_update_stops_no_others_of_a_zone_that_takes_some() {
        let zone: Name = "own".parse().expect("a name");
        for before in 0..MAX_REFUSED {
            let mut seen = SeenZones::default();
            let replies = (0..before).map(|_| REFUSED).chain([NOERROR]).chain([REFUSED; 20]);
            for rcode in replies {
                assert_eq!(seen.next(&zone), None, "{before} refused at first");
                seen.reply(&zone, rcode);
            }
            assert_eq!(seen.why(), None);
        }
        let mut seen = SeenZones::default();
        for _ in 0..MAX_REFUSED {
            assert_eq!(seen.next(&zone), None);
            seen.reply(&zone, REFUSED);
            assert!(seen.why().is_some_and(|why| why.starts_with("REFUSED: the server refuses")));
        }
        assert_eq!(seen.next(&zone), Some(REFUSED));
    }

    #[test]
    fn a_zone_beyond_those_that_are_kept_has_its_reason() {
        let mut seen = SeenZones::default();
        for number in 0..=MAX_ZONES {
            let zone: Name = format!("z{number}").parse().expect("a name");
            assert_eq!(seen.next(&zone), None);
            seen.reply(&zone, if number < MAX_ZONES { NOERROR } else { 9 });
        }
        assert!(seen.why().is_some_and(|why| why.starts_with("NOTAUTH")));
    }

    #[test]
    fn a_stream_of_hopeless_zones_ends() {
        let zone = |text: &str| text.parse::<Name>().expect("a name");
        let (foreign, own) = (zone("foreign"), zone("own"));
        for has_own in [false, true] {
            let mut seen = SeenZones::default();
            if has_own {
                assert_eq!(seen.next(&own), None);
                seen.reply(&own, 6);
            }
            assert_eq!(seen.next(&foreign), None);
            assert_eq!(seen.why(), None);
            seen.reply(&foreign, 9);
            for _ in 0..MAX_SKIPPED {
                assert!(!seen.is_over());
                assert_eq!(seen.next(&foreign), Some(9));
            }
            assert_eq!(seen.is_over(), !has_own);
            let why = seen.why().expect("a reason");
            assert!(why.starts_with("NOTAUTH: ") && why.contains("(10000 updates"), "{why}");
        }
    }
}
