//! Zones of a stream that cannot be updated.

use wire::Name;

use crate::outcome::rcode_name;

/// The most zones that are remembered; updates of further ones are all sent.
const MAX_ZONES: usize = 100;
/// Updates left out in a row after which sending ends, if no zone seen can be updated.
const MAX_SKIPPED: u64 = 10_000;
/// RCODEs that every further update of the zone would get too.
const PERMANENT_ERRORS: [(u8, &str); 3] = [
    (4, "it does not do dynamic updates"),
    (5, "it refuses updates from here: is the key, or this address, allowed to update the zone?"),
    (9, "it is not authoritative for the zone, or does not let this key update it"),
];

/// The zones seen so far.
#[derive(Default)]
pub(crate) struct Seen {
    /// Each zone, with the RCODE that all its updates get if it cannot be updated.
    zones: Vec<(Name, Option<u8>)>,
    /// Updates left out since the last one that was sent.
    in_a_row: u64,
    skipped: u64,
    /// The first reason why a zone cannot be updated.
    why: Option<String>,
}

impl Seen {
    /// Takes note of an update; returns the RCODE of its zone if it is to be left out.
    pub(crate) fn next(&mut self, zone: &Name) -> Option<u8> {
        let found = self.zones.iter().find(|(seen, _)| seen == zone);
        if found.is_none() && self.zones.len() < MAX_ZONES {
            self.zones.push((*zone, None));
            self.in_a_row = 0;
            return None;
        }
        let rcode = found.and_then(|(_, rcode)| *rcode);
        if rcode.is_some() {
            self.in_a_row += 1;
            self.skipped += 1;
        } else {
            self.in_a_row = 0;
        }
        rcode
    }

    /// Takes note of a reply.
    pub(crate) fn reply(&mut self, zone: &Name, rcode: u8) {
        let Some((_, why)) = PERMANENT_ERRORS.into_iter().find(|(error, _)| *error == rcode) else {
            return;
        };
        self.why.get_or_insert_with(|| format!("{}: {why}", rcode_name(rcode)));
        if let Some((_, known)) = self.zones.iter_mut().find(|(seen, _)| seen == zone) {
            *known = Some(rcode);
        }
    }

    /// Whether so many updates were left out, and none of another zone seen, that sending ends.
    pub(crate) fn is_over(&self) -> bool {
        self.in_a_row >= MAX_SKIPPED && self.zones.iter().all(|(_, rcode)| rcode.is_some())
    }

    /// Returns why a zone could not be updated.
    pub(crate) fn why(&self) -> Option<String> {
        let why = self.why.as_ref()?;
        Some(match self.skipped {
            0 => why.clone(),
            skipped => format!("{why} ({skipped} updates were left out for that)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_hopeless_zones_ends() {
        let zone = |text: &str| text.parse::<Name>().expect("a name");
        let (foreign, own) = (zone("foreign"), zone("own"));
        for has_own in [false, true] {
            let mut seen = Seen::default();
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
