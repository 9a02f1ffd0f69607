//! Snapshot of the caches: written at the end of a server, read by the next one.
//!
//! ```text
//!   "dns64d cache 1\n"  rules: u64  time: u64            the rules under which the answers are right; Unix seconds
//!   entry...                                             length: u32, then that many octets
//!   0: u32  checksum: u64                                SipHash of everything before the checksum
//! ```
//!
//! All numbers are big-endian. A snapshot that is damaged, of another version or of other rules is refused as a whole.
//! Answers get older by the time between both servers; those that have expired since are left out.

use std::hash::Hasher;
use std::io::{self, Write};

use siphasher::sip::SipHasher13;
use thiserror::Error;
use wire::message::{HEADER, Header, Record};
use wire::{Name, Qtype};

use crate::config::Group;
use crate::policy::View;
use crate::question::{Key, KeyFlags};

/// The beginning of a snapshot; its version is a part of it.
const MAGIC: &[u8] = b"dns64d cache 1\n";
/// Octets of the magic, the rules and the time.
const HEAD_OCTETS: usize = MAGIC.len() + 16;
/// Octets of the last, empty entry and the checksum.
const TAIL_OCTETS: usize = 12;
/// Octets of an entry before its data.
const ENTRY_FIXED: usize = 26;

/// Reason for which a snapshot cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// The file is not a snapshot, or is of another version of dns64d.
    #[error("it is no snapshot of this version of dns64d")]
    Version,
    /// The file is cut short, or its hash is wrong.
    #[error("it is damaged")]
    Damaged,
    /// The rules, the prefixes or the upstream servers were others.
    #[error("it was made with other rules, prefixes or upstream servers")]
    OtherRules,
    /// The time in the snapshot is in the future, according to this clock.
    #[error("it was written in the future: the clock was set back")]
    Future,
}

/// Writes a snapshot, answer by answer, and hashes it on the way.
#[derive(Debug)]
pub struct SnapshotWriter<W> {
    out: W,
    hash: SipHasher13,
}

/// One answer in a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredAnswer<'a> {
    /// Number of the worker that cached the answer.
    pub(crate) worker: u16,
    pub(crate) key: Key,
    pub(crate) rcode: u16,
    pub(crate) optional_at: u16,
    /// Age of the answer, and time until it expires, in seconds.
    pub(crate) age: u32,
    pub(crate) left: u32,
    pub(crate) message: &'a [u8],
    pub(crate) options: &'a [u8],
}

impl<W: Write> SnapshotWriter<W> {
    /// Begins a snapshot at a Unix time in seconds.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(out: W, rules: u64, unix: u64) -> io::Result<Self> {
        let mut writer = SnapshotWriter { out, hash: SipHasher13::new() };
        writer.write(MAGIC)?;
        writer.write(&rules.to_be_bytes())?;
        writer.write(&unix.to_be_bytes())?;
        Ok(writer)
    }

    /// Writes one stored answer with its key and its age.
    pub(crate) fn add(&mut self, stored: &StoredAnswer<'_>) -> io::Result<()> {
        let StoredAnswer { worker, key, rcode, optional_at, age, left, message, options } = stored;
        let (name, flags) = (key.name.as_wire(), key.flags);
        let flags = u8::from(flags.rd) | u8::from(flags.cd) << 1 | u8::from(flags.dnssec) << 2;
        let len = ENTRY_FIXED + name.len() + message.len() + options.len();
        let mut fixed = Vec::with_capacity(4 + ENTRY_FIXED);
        fixed.extend_from_slice(&(len as u32).to_be_bytes());
        fixed.extend_from_slice(&worker.to_be_bytes());
        fixed.extend_from_slice(&key.qtype.0.to_be_bytes());
        fixed.extend_from_slice(&key.view.0.to_be_bytes());
        fixed.extend_from_slice(&rcode.to_be_bytes());
        fixed.extend_from_slice(&optional_at.to_be_bytes());
        fixed.extend_from_slice(&age.to_be_bytes());
        fixed.extend_from_slice(&left.to_be_bytes());
        fixed.extend_from_slice(&[flags, name.len() as u8]);
        fixed.extend_from_slice(&(message.len() as u16).to_be_bytes());
        fixed.extend_from_slice(&[key.group.0, 0]);
        [&fixed, name, message, options].into_iter().try_for_each(|part| self.write(part))
    }

    /// Ends the snapshot; returns its output.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.write(&[0; 4])?;
        self.out.write_all(&self.hash.finish().to_be_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        self.hash.write(octets);
        self.out.write_all(octets)
    }
}

/// A snapshot that was read.
#[derive(Debug)]
pub struct Snapshot {
    octets: Vec<u8>,
    /// Seconds since the snapshot was written.
    elapsed: u64,
}

impl Snapshot {
    /// Checks a snapshot for these rules at a Unix time in seconds.
    ///
    /// # Errors
    /// The reason for which it cannot be used.
    pub fn read(octets: Vec<u8>, rules: u64, unix: u64) -> Result<Self, SnapshotError> {
        if !octets.starts_with(MAGIC) {
            return Err(SnapshotError::Version);
        }
        let number = |at: usize| {
            let chunk = octets.get(at..).and_then(|rest| rest.first_chunk());
            chunk.map(|&octets| u64::from_be_bytes(octets)).ok_or(SnapshotError::Damaged)
        };
        if octets.len() < HEAD_OCTETS + TAIL_OCTETS {
            return Err(SnapshotError::Damaged);
        }
        let end = octets.len() - 8;
        let mut hash = SipHasher13::new();
        hash.write(&octets[..end]);
        if hash.finish() != number(end)? {
            return Err(SnapshotError::Damaged);
        }
        if number(MAGIC.len())? != rules {
            return Err(SnapshotError::OtherRules);
        }
        let written = number(MAGIC.len() + 8)?;
        let elapsed = unix.checked_sub(written).ok_or(SnapshotError::Future)?;
        Ok(Snapshot { octets, elapsed })
    }

    /// Returns the answers that are valid still, older by the time since the snapshot.
    pub(crate) fn answers(&self) -> impl Iterator<Item = StoredAnswer<'_>> {
        let elapsed = u32::try_from(self.elapsed).unwrap_or(u32::MAX);
        let mut rest = &self.octets[HEAD_OCTETS..];
        let next = move || {
            let (len, after) = rest.split_first_chunk()?;
            let (entry, after) = after.split_at_checked(u32::from_be_bytes(*len) as usize)?;
            rest = after;
            (!entry.is_empty()).then_some(entry)
        };
        std::iter::from_fn(next).filter_map(StoredAnswer::read).filter_map(move |mut stored| {
            stored.left = stored.left.checked_sub(elapsed).filter(|left| *left > 0)?;
            stored.age = stored.age.saturating_add(elapsed);
            Some(stored)
        })
    }
}

impl<'a> StoredAnswer<'a> {
    /// Reads an entry; `None` if it is not valid for a cache.
    fn read(entry: &'a [u8]) -> Option<Self> {
        let (fixed, data) = entry.split_first_chunk::<ENTRY_FIXED>()?;
        let two = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let four = |at: usize| u32::from(two(at)) << 16 | u32::from(two(at + 2));
        let bit = |bit: u8| fixed[20] & 1 << bit != 0;
        let (name, rest) = data.split_at_checked(fixed[21].into())?;
        let (message, options) = rest.split_at_checked(two(22).into())?;
        let name = Name::from_wire(name).ok().filter(|name| *name == name.to_lowercase())?;
        let stored = StoredAnswer {
            worker: two(0),
            key: Key {
                name,
                qtype: Qtype(two(2)),
                view: View(four(4)),
                flags: KeyFlags { rd: bit(0), cd: bit(1), dnssec: bit(2) },
                group: Group(fixed[24]),
                ..Key::default()
            },
            rcode: two(8),
            optional_at: two(10),
            age: four(12),
            left: four(16),
            message,
            options,
        };
        stored.is_well_formed().then_some(stored)
    }

    /// Returns the position of the end of the question.
    pub(crate) fn question_end(&self) -> usize {
        HEADER + self.key.name.wire_len() + 4
    }

    /// Returns whether the message answers the question, with whole records, and the other values fit it.
    fn is_well_formed(&self) -> bool {
        let mut question = Vec::new();
        Key::question(&self.key.name, self.key.qtype, &mut question);
        let Some(Header { counts: [1, sections @ ..], .. }) = Header::read(self.message) else {
            return false;
        };
        if self.message.get(HEADER..self.question_end()) != Some(&question[..]) {
            return false;
        }
        let records = sections.map(u32::from).iter().sum::<u32>();
        let (mut at, mut has_boundary) = (self.question_end(), false);
        for _ in 0..records {
            has_boundary |= at == usize::from(self.optional_at);
            match Record::read(self.message, at) {
                Some((_, end)) => at = end,
                None => return false,
            }
        }
        has_boundary |= at == usize::from(self.optional_at);
        at == self.message.len() && has_boundary && self.options.len() <= usize::from(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Answer;
    use proptest::prelude::*;

    const RULES: u64 = 7;
    const THEN: u64 = 1_000_000;

    fn key(name: &str) -> Key {
        let name: Name = name.parse().expect("a name");
        let flags = KeyFlags { rd: true, cd: false, dnssec: true };
        Key { name, qtype: Qtype::AAAA, view: View(5), flags, group: Group(3), ..Key::default() }
    }

    /// Returns a snapshot of answers that live for these numbers of seconds.
    fn snapshot(lives: &[u32]) -> Vec<u8> {
        let mut writer = SnapshotWriter::new(Vec::new(), RULES, THEN).expect("memory");
        for (number, left) in lives.iter().enumerate() {
            let key = key(&format!("n{number}.test"));
            let (mut question, mut answer) = (Vec::new(), Answer::new());
            Key::question(&key.name, key.qtype, &mut question);
            answer.compose(&question, |c| c.at_question(Qtype::AAAA, 100, &[number as u8; 16]));
            let stored = StoredAnswer {
                worker: 3,
                key,
                rcode: 0,
                optional_at: answer.optional_at as u16,
                age: 10,
                left: *left,
                message: answer.bytes(),
                options: b"\0\x0f\0\x02\0\x1d",
            };
            writer.add(&stored).expect("memory");
        }
        writer.finish().expect("memory")
    }

    #[test]
    fn answers_are_read_again_and_get_older() {
        let octets = snapshot(&[50, 90, 40]);
        let seen = |unix| {
            let snapshot = Snapshot::read(octets.clone(), RULES, unix).expect("it is right");
            let answers = snapshot.answers().map(|stored| {
                assert_eq!((stored.worker, stored.rcode, stored.options.len()), (3, 0, 6));
                assert_eq!(stored.key, key(&stored.key.name.to_string()));
                (stored.key.name.to_string(), stored.age, stored.left)
            });
            answers.collect::<Vec<_>>()
        };
        let all = [("n0.test", 10, 50), ("n1.test", 10, 90), ("n2.test", 10, 40)];
        assert_eq!(seen(THEN), all.map(|(name, age, left)| (name.to_owned(), age, left)));
        assert_eq!(seen(THEN + 50), [("n1.test".to_owned(), 60, 40)]);
        assert!(seen(THEN + u64::from(u32::MAX) * 2).is_empty());
    }

    #[test]
    fn others_are_refused_with_the_reason() {
        let octets = snapshot(&[50]);
        let read = |octets: &[u8], rules, unix| Snapshot::read(octets.into(), rules, unix).err();
        assert_eq!(read(&octets, RULES, THEN), None);
        assert_eq!(read(&octets, RULES + 1, THEN), Some(SnapshotError::OtherRules));
        assert_eq!(read(&octets, RULES, THEN - 1), Some(SnapshotError::Future));
        assert_eq!(read(b"", RULES, THEN), Some(SnapshotError::Version));
        assert_eq!(read(b"dns64d cache 2\nxxxxx", RULES, THEN), Some(SnapshotError::Version));
        for len in MAGIC.len()..octets.len() {
            assert_eq!(read(&octets[..len], RULES, THEN), Some(SnapshotError::Damaged), "{len}");
        }
    }

    proptest! {
        #[test]
        fn a_changed_octet_is_found(at in 0usize..100, change in 1u8..) {
            let mut octets = snapshot(&[50]);
            let at = at % octets.len();
            octets[at] ^= change;
            prop_assert!(Snapshot::read(octets, RULES, THEN).is_err());
        }

        #[test]
        fn any_entry_is_read_or_left_out(
            mut entry in prop::collection::vec(any::<u8>(), 0..120),
            from in 0usize..90,
        ) {
            prop_assert!(StoredAnswer::read(&entry).is_none_or(|stored| stored.is_well_formed()));
            // Parts of a right one.
            let right = snapshot(&[50]);
            entry.truncate(10);
            let from = (HEAD_OCTETS + 4 + from).min(right.len());
            let mixed = [&right[HEAD_OCTETS + 4..from], &entry[..], &right[from..]].concat();
            prop_assert!(StoredAnswer::read(&mixed).is_none_or(|stored| stored.is_well_formed()));
        }
    }
}
