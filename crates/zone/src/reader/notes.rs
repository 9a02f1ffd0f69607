//! Notes on a zone file that are not errors, because servers accept it too; they are printed after
//! the last record.

use std::sync::{Arc, Mutex, PoisonError};

/// Counts of omitted or replaced records of a zone file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOutCounts {
    /// Number of records outside of the zone.
    pub(super) outside: u64,
    /// The place and the owner of the first of them.
    pub(super) first_outside: Option<String>,
    /// The minimum of the SOA record, if it became the TTL of records, in seconds.
    pub(super) minimum: Option<u32>,
    /// Whether dig wrote that the transfer failed.
    pub(super) failed: bool,
}

/// Notes of readers of the same file. All copies are the same notes, and each pass over the file replaces them.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<LeftOutCounts>>);

impl Notes {
    /// Replaces the notes by the notes of a new pass.
    pub(super) fn set(&self, seen: LeftOutCounts) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// Returns the notes, a sentence each.
    pub fn lines(&self) -> Vec<String> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut lines = Vec::new();
        if let Some(first) = seen.first_outside {
            let more = match seen.outside {
                1 => String::new(),
                all => format!(", and {} more", all - 1),
            };
            lines.push(format!("{first} is outside of the zone and left out{more}"));
        }
        if let Some(minimum) = seen.minimum {
            lines.push(format!(
                "the SOA record has no TTL: all records without one get its minimum, {minimum} s"
            ));
        }
        lines
    }
}
