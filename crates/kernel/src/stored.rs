//! An answer as the programs of dns64d read it from their maps: a key, and `struct entry` of `bpf/cache_maps.h`.

use std::mem::offset_of;

use measure::Nanos;
use wire::Qtype;
use wire::message::{self, HEADER, Header, flag};

use crate::records::{EntryHead, Key, Record, STORED_NAME, words};

/// Parts of a stored answer, in octets, and the highest number of its records.
const MAX_OPTIONS: usize = 64;
const MAX_BODY: usize = 512;
const MAX_TTLS: usize = 16;
/// Place of the check among the words of an entry.
const CHECK_WORD: usize = offset_of!(EntryHead, check) / 8;
/// Flag of an entry without an answer: the server has one, which the sockets send.
const LEFT_TO_SOCKETS: u16 = 0x8000;

/// An answer to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Generation in which the answer is valid.
    pub generation: u64,
    /// Type of the question that it answers.
    pub qtype: Qtype,
    /// Blocks of the clients that may get it; 0 if it is for all.
    pub view: u32,
    /// The bits RD, CD and DO of the queries that it answers.
    pub rd: bool,
    /// Whether the answered queries have CD.
    pub cd: bool,
    /// Whether the answered queries have DO.
    pub dnssec: bool,
    /// The message without an OPT record, its name in lower case.
    pub message: &'a [u8],
    /// EDNS options of the reply, in wire form.
    pub options: &'a [u8],
    /// Time (monotonic clock) from which the TTLs decrease.
    pub stored: Nanos,
    /// Time until which it may be given.
    pub until: Nanos,
}

/// An answer as the map holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedAnswer {
    pub(crate) key: Key,
    pub(crate) entry: Vec<u8>,
}

impl Stored<'_> {
    /// Returns the answer for a map with hashes of this seed; `None` if it is beyond the bounds of the program, or no reply
    /// without an OPT record.
    pub fn encode(&self, seed: u64) -> Option<EncodedAnswer> {
        let header = Header::read(self.message)?;
        let (name, body) = self.name_and_body()?;
        let question_end = self.message.len() - body.len();
        let ttls = ttl_places(self.message, question_end, &header.counts)?;
        if body.len() > MAX_BODY || self.options.len() > MAX_OPTIONS {
            return None;
        }
        let flags = header.flags & (flag::AD | 0xf);
        let [_, answers, authority, additional] = header.counts;
        let numbers = [answers, authority, additional, flags];
        Some(self.encoded(seed, name, numbers, &ttls, self.options, body))
    }

    /// Returns an entry that leaves the question to the sockets, since the program may not send
    /// this answer; `None` if the name is beyond the bounds of the program.
    pub fn encode_for_sockets(&self, seed: u64) -> Option<EncodedAnswer> {
        let (name, _) = self.name_and_body()?;
        Some(self.encoded(seed, name, [0, 0, 0, LEFT_TO_SOCKETS], &[], &[], &[]))
    }

    /// Returns the name in wire form and the octets after the question; `None` if the name is
    /// beyond the bounds of the program.
    fn name_and_body(&self) -> Option<(&[u8], &[u8])> {
        let question_end = wire::message::question_end(self.message)?;
        let name = self.message.get(HEADER..question_end - 4)?;
        let fits = name.len() <= STORED_NAME && *name == *name.to_ascii_lowercase();
        fits.then(|| (name, &self.message[question_end..]))
    }

    /// Returns an entry with these numbers of records in its sections and flags, places of TTLs, options and body.
    fn encoded(
        &self,
        seed: u64,
        name: &[u8],
        numbers: [u16; 4],
        ttls: &[u16],
        options: &[u8],
        body: &[u8],
    ) -> EncodedAnswer {
        let places: Vec<u8> = ttls.iter().flat_map(|place| place.to_ne_bytes()).collect();
        let parts = [&places[..], name, options, body];
        let [body_len, options_len, ttls] =
            [body.len(), options.len(), ttls.len()].map(|n| n as u16);
        let head = EntryHead {
            generation: self.generation,
            stored: self.stored.0,
            until: self.until.0,
            check: 0,
            answers: numbers[0],
            authority: numbers[1],
            additional: numbers[2],
            flags: numbers[3],
            body_len,
            options_len,
            ttls,
            words: parts.iter().map(|part| part.len().div_ceil(8) as u16).sum(),
        };
        let mut entry = head.octets().to_vec();
        for part in parts {
            entry.extend(words(part).flat_map(u64::to_ne_bytes));
        }
        let key = self.key(name, seed);
        let check = check(&key, &entry);
        entry[8 * CHECK_WORD..][..8].copy_from_slice(&check.to_ne_bytes());
        EncodedAnswer { key, entry }
    }

    fn key(&self, name: &[u8], seed: u64) -> Key {
        let flags = u8::from(self.rd) | u8::from(self.cd) << 1 | u8::from(self.dnssec) << 2;
        Key {
            hash: words(name).fold(seed, mix),
            view: self.view,
            r#type: self.qtype.0,
            flags,
            name_len: name.len() as u8,
        }
    }
}

impl Key {
    /// Returns the hash of the key, as the program computes it.
    pub(crate) fn hash(&self) -> u64 {
        words(self.octets()).reduce(mix).unwrap_or_default()
    }
}

/// Returns the places of the TTLs of all records after the question; `None` if there are too many,
/// an OPT record, or octets after them.
fn ttl_places(message: &[u8], question_end: usize, counts: &[u16; 4]) -> Option<Vec<u16>> {
    let records: u32 = counts[1..].iter().copied().map(u32::from).sum();
    if counts[0] != 1 || records as usize > MAX_TTLS {
        return None;
    }
    let (mut at, mut places) = (question_end, Vec::new());
    for _ in 0..records {
        let (record, end) = message::Record::read(message, at)?;
        if record.rtype == Qtype::OPT {
            return None;
        }
        // The TTL and the length are before the data.
        places.push((record.rdata_at - 6 - question_end) as u16);
        at = end;
    }
    (at == message.len()).then_some(places)
}

/// Adds a word to a hash, as the program does.
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ hash >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 29
}

/// Adds a word to the check of an entry, as the program does.
fn add(check: u64, word: u64) -> u64 {
    let check = (check ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
    check ^ check >> 32
}

/// Returns the hash of a key and of all other words of an entry.
fn check(key: &Key, entry: &[u8]) -> u64 {
    let others = words(entry).enumerate().filter(|(place, _)| *place != CHECK_WORD);
    others.fold(key.hash(), |check, (_, word)| add(check, word))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const MESSAGE: &[u8] =
        b"\0\0\x80\0\0\x01\0\x01\0\0\0\0\x01a\x04test\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x01";

    fn stored(message: &[u8]) -> Stored<'_> {
        Stored {
            generation: 1,
            qtype: Qtype::A,
            view: 0,
            rd: true,
            cd: false,
            dnssec: false,
            message,
            options: &[],
            stored: Nanos::ZERO,
            until: Nanos::from_secs(60),
        }
    }

    #[test]
    fn names_that_count_up_have_different_hashes() {
        for seed in [77, 6_766_047_775_495_826_699, 1 << 63] {
            let of = |number: u32| {
                let [a, b, c, d] = number.to_be_bytes();
                let name = format!("\x0f{a:03}-{b:03}-{c:03}-{d:03}\x09dns64perf\x04test\0");
                words(name.as_bytes()).fold(seed, mix)
            };
            let hashes: HashSet<u64> = (0..200_000).map(|number| of(7 * number)).collect();
            assert_eq!(hashes.len(), 200_000, "seed {seed}");
        }
    }

    #[test]
    fn answers_within_the_bounds_are_encoded() {
        let encoded = stored(MESSAGE).encode(7).expect("it fits");
        // The TTL stands six octets after the start of the record, and the body is its 16 octets.
        // One word of places, one of the name, two of the body.
        assert_eq!(encoded.entry[40..48], [16, 0, 0, 0, 1, 0, 4, 0]);
        assert_eq!(encoded.entry[48..58], *b"\x06\0\0\0\0\0\0\0\x01a");
        assert_eq!(encoded.entry.len(), 80);
        assert_ne!(stored(MESSAGE).encode(8).expect("it fits").key, encoded.key);
        let many: Vec<u8> = [MESSAGE, &[0xff][..]].concat();
        for message in [&many[..], &MESSAGE[..20], b"", b"\0\0\x80\0\0\0\0\0\0\0\0\0"] {
            assert_eq!(stored(message).encode(7), None, "{message:?}");
        }
        let options = [0; MAX_OPTIONS + 1];
        assert_eq!(Stored { options: &options, ..stored(MESSAGE) }.encode(7), None);
    }

    #[test]
    fn answers_beyond_the_bounds_are_left_to_the_sockets() {
        let left = stored(&many()).encode_for_sockets(7).expect("its name fits");
        assert_eq!(left.key, stored(MESSAGE).encode(7).expect("it fits").key);
        // No records, the flag, no body; the name is one word.
        assert_eq!(left.entry[32..48], [0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 1, 0]);
        for message in [&MESSAGE[..14], b""] {
            assert_eq!(stored(message).encode_for_sockets(7), None, "{message:?}");
        }
    }

    /// Returns an answer with more octets than the program takes.
    fn many() -> Vec<u8> {
        [MESSAGE, &[0; MAX_BODY][..]].concat()
    }

    proptest! {
        #[test]
        fn any_message_is_encoded_or_refused(
            message in prop::collection::vec(any::<u8>(), 0..80),
            from in 0..MESSAGE.len(),
        ) {
            let _ = stored(&message).encode(7);
            let _ = stored(&message).encode_for_sockets(7);
            let mixed = [&MESSAGE[..from], &message].concat();
            if let Some(encoded) = stored(&mixed).encode(7) {
                prop_assert!(usize::from(encoded.key.name_len) <= STORED_NAME);
            }
        }
    }
}
