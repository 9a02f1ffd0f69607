//! The maps of answers that the programs of dns64d give: sets of eight, by the hash of an answer's key (`bpf/cache.h`).

use aya::maps::{Array, MapData};
use measure::Nanos;

use crate::cache::{ENTRY, Encoded, mix, words};
use crate::error::KernelError;
use crate::program::Loaded;

/// Number of answers in a set.
const WAYS: usize = 8;
/// Unit of the time in a tag as a power of two of nanoseconds, and the part of a tag that has it.
const TICK_BITS: u32 = 27;
const TICKS: u64 = 0xffff;

/// The maps of answers, for one thread that writes them.
pub struct AnswerMap {
    /// Tags of the answers of each set; see `bpf/cache.h`.
    sets: Array<MapData, [u64; WAYS]>,
    answers: Array<MapData, [u8; ENTRY]>,
}

impl AnswerMap {
    /// Takes the maps of a program.
    ///
    /// # Errors
    /// If the object lacks one.
    pub(crate) fn of(program: &mut Loaded) -> Result<Self, KernelError> {
        let sets = Array::try_from(program.take("sets")?)?;
        Ok(AnswerMap { sets, answers: Array::try_from(program.take("answers")?)? })
    }

    /// Returns the number of sets.
    pub(crate) fn sets(&self) -> u32 {
        self.sets.len()
    }

    /// Stores an answer, at a time of the monotonic clock. If its set is full, that answer makes room which was stored or given the
    /// longest ago.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn store(&mut self, answer: &Encoded, now: Nanos) -> Result<(), KernelError> {
        let hash = words(&answer.key).reduce(mix).unwrap_or_default();
        let set = (((hash & 0xffff_ffff) * u64::from(self.sets.len())) >> 32) as u32;
        let tag = hash & !TICKS | now.0 >> TICK_BITS & TICKS;
        let mut tags = self.sets.get(&set, 0)?;
        let way = way_for(&tags, tag);
        self.answers.set(set * WAYS as u32 + way as u32, *answer.entry, 0)?;
        tags[way] = tag;
        // A tag that the program wrote meanwhile is lost, and the answer with it: it is asked for again.
        Ok(self.sets.set(set, tags, 0)?)
    }
}

/// Returns the numbers of entries of the maps with room for a number of answers.
pub(crate) fn room(answers: u32) -> [(&'static str, u32); 2] {
    let sets = (answers / WAYS as u32).max(1);
    [("sets", sets), ("answers", sets * WAYS as u32)]
}

/// Returns the place in a set for an answer with a tag: that of an answer with the same key, one that was never used, or that of the
/// answer which was stored or given the longest ago, as the program does.
fn way_for(tags: &[u64; WAYS], tag: u64) -> usize {
    let is_own = |other: &u64| *other == 0 || (other ^ tag) & !TICKS == 0;
    let age = |way: &usize| tag.wrapping_sub(tags[*way]) & TICKS;
    let own = tags.iter().position(is_own);
    own.or_else(|| (0..WAYS).max_by_key(age)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_given_longest_ago_makes_room() {
        let of = |key: u64, tick: u64| key << 16 | tick;
        let mut tags = [0; WAYS];
        for key in 1..=WAYS as u64 {
            assert_eq!(way_for(&tags, of(key, 10 + key)), key as usize - 1, "the next unused one");
            tags[key as usize - 1] = of(key, 10 + key);
        }
        assert_eq!(way_for(&tags, of(3, 40)), 2, "its own");
        assert_eq!(way_for(&tags, of(9, 40)), 0, "the oldest");
        tags[0] = of(1, 39);
        assert_eq!(way_for(&tags, of(9, 40)), 1, "the oldest after the first was given");
        // The clock has begun again at 0: the first one is of just now.
        tags[4] = of(5, 0xfff0);
        assert_eq!(way_for(&tags, of(9, 2)), 1);
    }
}
